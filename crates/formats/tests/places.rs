//! The places of texts: each leads to the text in the item of its message, because accounting skips these bytes and the record
//! stores nothing else.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{fs, path::Path};

use rejoin_formats::{Input, Session, session::Aside, sessions};
use rejoin_record::{Block, BlockKind, Message, Text, json::literal};

fn texts(blocks: &[Block]) -> Vec<&Text> {
    let mut found = Vec::new();
    for block in blocks {
        match &block.kind {
            BlockKind::Text(text) => found.push(text),
            BlockKind::Reasoning(reasoning) => found.push(&reasoning.text),
            BlockKind::ToolCall(call) => found.push(call.arguments.text()),
            BlockKind::ToolResult(result) => found.extend(texts(&result.content)),
            BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Opaque(_) => {}
        }
    }
    found
}

fn messages(session: &Session) -> Vec<&Message> {
    let hidden = session.set_aside.iter().filter_map(|item| match &item.what {
        Aside::Hidden(message, _) => Some(&**message),
        _ => None,
    });
    session.messages.iter().map(|message| &**message).chain(hidden).collect()
}

#[test]
fn a_place_leads_to_the_text() {
    let (mut files, mut placed) = (0, 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    for path in
        fs::read_dir(folder).unwrap().flatten().flat_map(|format| fs::read_dir(format.path()).unwrap())
    {
        let path = path.unwrap().path();
        let Ok(input) = Input::new("fixture", &fs::read(&path).unwrap_or_default()) else { continue };
        let Ok(sessions) = sessions::read(&input, None) else { continue };
        files += 1;
        for message in sessions.iter().flat_map(messages) {
            let item = message.native_text();
            for text in texts(&message.blocks) {
                let Some(span) = text.span() else { continue };
                let Some(bytes) = span.of(item).filter(|_| message.native.is_some()) else {
                    panic!("{}: {text:?} is nowhere", path.display())
                };
                let told = if span.literal { literal::decode(bytes).0 } else { bytes.into() };
                assert_eq!(told, text.as_str(), "{}", path.display());
                placed += 1;
            }
        }
    }
    assert!(files > 50 && placed > 300, "{files} files, {placed} places");
}

/// The reader of each of these formats builds its messages itself.
#[test]
fn texts_of_an_item_have_places() {
    let words = "QUESTION about the flight here";
    for (format, text) in [
        ("sharegpt", r#"[{"from":"human","value":"W"},{"from":"gpt","value":"W"}]"#),
        ("agent-framework", r#"{"messages":[{"role":"user","contents":[{"type":"text","text":"W"}]}]}"#),
        ("langchain", r#"[{"type":"human","data":{"content":"W"}},{"type":"ai","data":{"content":"W"}}]"#),
        ("prometheus", r#"[{"id":1,"user_id":"u","channel_id":"c","message_type":"user","content":"W"}]"#),
        (
            "goose",
            r#"{"working_dir":"/w","conversation":[{"role":"user","content":[{"type":"text","text":"W"}]}]}"#,
        ),
        ("codex-exec", r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"W"}}"#),
    ] {
        let input = Input::new("file", text.replace('W', words).as_bytes()).unwrap();
        let sessions = sessions::read(&input, None).unwrap();
        assert_eq!(sessions[0].format, format);
        for message in &sessions[0].messages {
            let said = texts(&message.blocks)[0];
            let bytes = said.span().and_then(|span| span.of(message.native_text()));
            assert_eq!(bytes, Some(&*format!("\"{words}\"")), "{format}");
        }
    }
}
