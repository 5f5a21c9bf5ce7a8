//! Conversations of the programs that rejoin grew out of: what is read, in which order, what is kept beside, and that every
//! dialect takes it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod cody;
mod orchestration;
mod ploke;
mod prometheus;
#[path = "../sketching/mod.rs"]
mod sketching;
#[cfg(feature = "sqlite")]
mod xzatoma;

use std::{fs, path::Path};

use rejoin_formats::{Dialect, Input, ReadError, Session, convert, sessions};
use rejoin_record::{Block, BlockKind, Message, Timestamp};
use rejoin_view::{Finding, OnBroken, Rule, repair};
use sketching::written;
use testkit::fuzz::accounted;

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions").join(name)).unwrap()
}

fn try_read(name: &str, bytes: &[u8]) -> Result<Vec<Session>, ReadError> {
    sessions::read(&Input::new(name, bytes)?, None)
}

/// Reads a fixture without saying its format, and checks what holds for every conversation.
fn read_all(format: &str, file: &str) -> Vec<Session> {
    let bytes = fixture(&format!("{format}/{file}"));
    let sessions = try_read(file, &bytes).unwrap();
    holds(format, &String::from_utf8_lossy(&bytes), &sessions);
    sessions
}

fn read(format: &str, file: &str) -> Session {
    let mut sessions = read_all(format, file);
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

fn holds(format: &str, text: &str, sessions: &[Session]) {
    assert_eq!(accounted::unaccounted(text, sessions), [""; 0]);
    for session in sessions {
        assert_eq!(session.format, format);
        assert!(!rules(session).contains(&Rule::UnreadText), "{:?}", session.findings);
        let entries = session.to_entries(Timestamp::UNIX_EPOCH);
        assert_eq!(rejoin_record::verify::verify(&entries), []);
        for entry in &entries {
            assert_eq!(rejoin_record::Entry::from_line(&entry.to_line()).as_ref(), Ok(entry));
        }
        for to in Dialect::all() {
            for policy in [OnBroken::Keep, OnBroken::Drop] {
                let out = convert(session, to, None, policy).unwrap();
                assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{to} {policy:?}");
            }
        }
    }
}

/// What the messages say, one line each.
fn said(session: &Session) -> Vec<String> {
    session.messages.iter().map(|message| shown(message)).collect()
}

/// What was said and is hidden.
fn hidden(session: &Session) -> Vec<String> {
    sketching::hidden_as(session, shown)
}

fn shown(message: &Message) -> String {
    let blocks: Vec<String> = message.blocks.iter().map(block).collect();
    format!("{}: {}", message.role.as_str(), blocks.join(" + "))
}

fn block(block: &Block) -> String {
    match &block.kind {
        BlockKind::Text(text) => text.to_string(),
        BlockKind::Reasoning(reasoning) => format!("thinks {}", reasoning.text),
        BlockKind::ToolCall(call) => format!("calls {} {} {}", call.id, call.name, call.arguments.text()),
        BlockKind::ToolResult(result) => {
            let texts: Vec<String> = result.content.iter().map(self::block).collect();
            let id = result.call_id.as_ref().map_or("?", |id| id.as_str());
            format!("{} {id} {}", if result.is_error { "failed" } else { "gave" }, texts.join(" + "))
        }
        BlockKind::Image(media) => format!("image {:?}", media.source),
        other => format!("{other:?}"),
    }
}

/// The findings of the reader.
fn rules(session: &Session) -> Vec<Rule> {
    session.findings.iter().map(|finding| finding.rule).collect()
}

/// The findings of the repair.
fn repairs(session: &Session) -> Vec<Rule> {
    repair(&session.history(), OnBroken::Keep).findings.iter().map(|finding| finding.rule).collect()
}

fn lines_of(findings: &[Finding], rule: Rule) -> Vec<usize> {
    findings.iter().filter(|finding| finding.rule == rule).filter_map(|finding| finding.at.line).collect()
}

/// The source's lines that no model sees.
fn beside(session: &Session) -> Vec<&str> {
    session.set_aside.iter().filter_map(|item| item.raw()).map(|text| text.as_str()).collect()
}
