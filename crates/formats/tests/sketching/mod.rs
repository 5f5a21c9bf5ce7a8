//! A session in a few lines, so that a test shows who says what in which order, and what is kept beside.

#![allow(dead_code, reason = "each test file uses its part")]

use rejoin_formats::{
    Dialect, Session, convert,
    session::Aside,
    sessions::{self, Writing},
};
use rejoin_record::{Block, BlockKind, Message, Timestamp, verify::verify};
use rejoin_view::{OnBroken, Rule};

/// The first word of each text, with the role: `user QUESTION`. A thought is `~WORD`, a call `!id:name`, a result `=id:WORD`, a
/// failed one `=id?WORD`, media `#`, anything else `{kind}`.
pub fn sketch(message: &Message) -> String {
    let blocks: Vec<String> = message.blocks.iter().map(block).collect();
    format!("{} {}", message.role, blocks.join(" ")).trim_end().to_owned()
}

fn block(block: &Block) -> String {
    let word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    match &block.kind {
        BlockKind::Text(text) => word(text),
        BlockKind::Reasoning(reasoning) => format!("~{}", word(&reasoning.text)),
        BlockKind::ToolCall(call) => match call.id_given {
            true => format!("!{}:{}", call.id, call.name),
            false => format!("!:{}", call.name),
        },
        BlockKind::ToolResult(result) => {
            let id = result.call_id.as_ref().map(ToString::to_string).unwrap_or_default();
            let id = if id.starts_with("call_") { "" } else { &id };
            let mark = if result.is_error { '?' } else { ':' };
            let content: Vec<String> = result.content.iter().map(self::block).collect();
            format!("={id}{mark}{}", content.join("+"))
        }
        BlockKind::Image(_) | BlockKind::Document(_) => String::from("#"),
        BlockKind::Opaque(opaque) => format!("{{{}}}", opaque.kind),
    }
}

pub fn messages(session: &Session) -> Vec<String> {
    session.messages.iter().map(|message| sketch(message)).collect()
}

/// The messages that no model sees.
pub fn hidden(session: &Session) -> Vec<String> {
    hidden_as(session, sketch)
}

/// The messages that no model sees, as a test shows them.
pub fn hidden_as(session: &Session, shown: fn(&Message) -> String) -> Vec<String> {
    let hidden = session.set_aside.iter().filter_map(|item| match &item.what {
        Aside::Hidden(message, _) => Some(shown(message)),
        _ => None,
    });
    hidden.collect()
}

/// The text of the file that a session becomes in another format.
pub fn written(session: &Session, format: &str) -> String {
    let now = Timestamp::from_second(1_763_200_000).unwrap();
    let writing = Writing { model: None, now, directory: "/w" };
    let written = sessions::write(session, sessions::named(format).unwrap(), OnBroken::Keep, &writing);
    written.unwrap().content.into_text().unwrap()
}

/// The names of the rules that the reader reported.
pub fn rules(session: &Session) -> Vec<&'static str> {
    session.findings.iter().map(|finding| finding.rule.name()).collect()
}

/// Every dialect gets a request that its checker accepts, the session can be recorded, and all of its text was understood.
pub fn assert_sound(session: &Session) {
    let unread: Vec<_> = session.findings.iter().filter(|finding| finding.rule == Rule::UnreadText).collect();
    assert!(unread.is_empty(), "{unread:?}");
    for to in Dialect::all() {
        for policy in [OnBroken::Keep, OnBroken::Drop] {
            let out = convert(session, to, None, policy).unwrap();
            assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{to} {policy:?}: {}", out.body);
        }
    }
    let entries = session.to_entries(Timestamp::UNIX_EPOCH);
    assert_eq!(verify(&entries), []);
    let ids: std::collections::HashSet<_> = entries.iter().map(|entry| entry.id()).collect();
    assert_eq!(ids.len(), entries.len(), "two entries have the same id");
}
