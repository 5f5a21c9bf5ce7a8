//! Reading: what is a conversation, in which shape, and what becomes of what is not.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use rejoin_formats::wire::stream::{End, ReportedFault, StopReason, Usage};
use rejoin_formats::{Dialect, Input, ReadError, Session, convert, sessions};
use rejoin_record::{BlockKind, Timestamp, verify::verify};
use rejoin_view::{OnBroken, Severity};

fn read(text: &str) -> Result<Vec<Session>, ReadError> {
    sessions::read(&Input::new("file.json", text.as_bytes())?, None)
}

fn one(text: &str) -> Session {
    let mut sessions = read(text).unwrap();
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

#[test]
fn shapes_are_told_apart() {
    for (text, format) in [
        (r#"[{"role":"user","content":"hi"}]"#, "openai-chat"),
        (r#"[{"role":"system","content":"x"},{"role":"user","content":"hi"}]"#, "openai-chat"),
        (r#"{"model":"claude-x","messages":[{"role":"user","content":"hi"}]}"#, "anthropic"),
        (r#"{"system":"x","messages":[]}"#, "anthropic"),
        (r#"{"messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}"#, "openai-chat"),
        (r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#, "anthropic"),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x"}}]}]}"#,
            "openai-chat",
        ),
        (r#"{"messages":[],"tools":[{"name":"a","input_schema":{}}]}"#, "anthropic"),
        (r#"{"messages":[],"tools":[{"type":"function","function":{"name":"a"}}]}"#, "openai-chat"),
        (
            "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n",
            "openai-chat",
        ),
    ] {
        assert_eq!(one(text).format, format, "{text}");
    }
}

/// A body that is written over several lines is told by what it is, not by what single lines of it look like.
#[test]
fn lines_of_a_body_are_not_a_file_of_lines() {
    for (text, format) in [
        (
            "{\"model\":\"m\",\"input\":[\n{\"role\":\"user\",\"content\":\"hi\"},\n{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"a\",\"arguments\":\"{}\"}\n]}",
            "openai-responses",
        ),
        ("{\"contents\":[\n{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}\n]}", "gemini"),
        (
            "[\n{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"a\",\"arguments\":\"{}\"}\n]",
            "openai-responses",
        ),
    ] {
        assert_eq!(one(text).format, format, "{text}");
    }
}

#[test]
fn what_is_no_conversation() {
    for text in [
        "[1,2]",
        "{}",
        "\"x\"",
        "{\"messages\":{}}",
        "hello",
        "{\"messages\": [",
        "[{\"type\":\"user\",\"message\":{}}]",
    ] {
        assert!(read(text).is_err(), "{text}: {:?}", read(text).map(|sessions| sessions.len()));
    }
    let format = sessions::registry::named("openai-chat");
    let input = |text: &str| Input::new("x", text.as_bytes()).unwrap();
    assert!(matches!(sessions::read(&input("{]"), format), Err(ReadError::NotJson { line: 1, .. })));
    assert!(matches!(sessions::read(&input("[1]"), format), Err(ReadError::NoConversation(_))));
    assert!(sessions::read(&input("1\n2"), format).is_err());
    assert!(matches!(sessions::read(&input("{}\n{}"), format), Err(ReadError::NoConversation(_))));
    // An empty list is a conversation that has not begun, and every dialect gets a request out of it.
    let empty = one("[]");
    for to in Dialect::all() {
        let out = convert(&empty, to, None, OnBroken::Keep).unwrap();
        assert_eq!(testkit::refusals(to, out.body.as_bytes()), []);
    }
}

/// A file that was cut off while it was written gives everything that was complete.
#[test]
fn a_torn_file_gives_what_was_complete() {
    let whole = r#"{"model":"m","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}],"stream":true}"#;
    for cut in 0..whole.len() {
        match read(&whole[..cut]) {
            Ok(mut sessions) => {
                let session = sessions.remove(0);
                let complete = ["one\"}", "two\"}", "three\"}"]
                    .iter()
                    .filter(|end| whole[..cut].contains(**end))
                    .count();
                assert_eq!(session.messages.len(), complete, "cut at {cut}");
                assert!(
                    session.findings.iter().any(|finding| finding.rule.name() == "damaged-entry"),
                    "cut at {cut}"
                );
                assert_eq!(session.findings[0].at.message, Some(complete));
            }
            Err(_) => assert!(!whole[..cut].contains("one\"}"), "cut at {cut} lost a message"),
        }
    }
}

#[test]
fn lines_with_damage() {
    let text = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assi\n\n{\"role\":\"assistant\",\"content\":\"b\"}\n17\n{\"role\":\"user\",\"cont";
    let session = one(text);
    assert_eq!(session.messages.len(), 2);
    assert_eq!(session.set_aside.len(), 3);
    let lines: Vec<_> = session.findings.iter().map(|finding| finding.at.line).collect();
    assert!(lines.contains(&Some(2)) && lines.contains(&Some(6)), "{lines:?}");
}

#[test]
fn many_conversations_in_one_file() {
    let text = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}\n";
    let sessions = read(text).unwrap();
    assert_eq!(sessions.len(), 2);
    assert_ne!(sessions[0].id, sessions[1].id);
    assert_eq!(sessions[1].places[0].offset, text.find("{\"role\":\"user\",\"content\":\"b\"").unwrap());
}

#[test]
fn calls_without_ids_pair_by_name_and_position() {
    let session = one(r#"[{"role":"user","content":"go"},
        {"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"a","arguments":"{}"}},
          {"type":"function","function":{"name":"b","arguments":"{}"}}]},
        {"role":"tool","name":"b","content":"from b"},{"role":"tool","content":"from a"},
        {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"from f"},{"role":"function","name":"f","content":"nobody asked"}]"#);
    let out = convert(&session, Dialect::OpenAiChat, None, OnBroken::Keep).unwrap();
    assert_eq!(testkit::refusals(Dialect::OpenAiChat, out.body.as_bytes()), []);
    let body: serde_json::Value = serde_json::from_str(&out.body).unwrap();
    assert_eq!(body["messages"][2]["content"], "from a");
    assert_eq!(body["messages"][3]["content"], "from b");
    assert_eq!(body["messages"][5]["content"], "from f");
    let rules: Vec<_> =
        out.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.rule.name()).collect();
    assert_eq!(rules, ["missing-call-id", "missing-call-id", "missing-call-id"]);
    assert!(body["messages"][6]["content"].as_str().unwrap().contains("nobody asked"));
}

#[test]
fn both_readers_understand_each_others_blocks() {
    let mixed = r#"[{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"c1","name":"a","input":{"x":1}}]},
        {"role":"tool","tool_call_id":"c1","content":"done"},
        {"role":"tool","content":[{"type":"tool_result","tool_use_id":"c9","content":"lost"}]}]"#;
    for format in ["openai-chat", "anthropic"] {
        let input = Input::new("x", mixed.as_bytes()).unwrap();
        let session = sessions::read(&input, sessions::registry::named(format)).unwrap().remove(0);
        for to in Dialect::all() {
            let out = convert(&session, to, None, OnBroken::Keep).unwrap();
            assert_eq!(testkit::refusals(to, out.body.as_bytes()), []);
            let problems: Vec<_> =
                out.findings.iter().filter(|f| f.is_problem()).map(|f| f.rule.name()).collect();
            assert_eq!(problems, ["orphan-result"], "{format} → {to}");
        }
    }
}

#[test]
fn the_same_file_gives_the_same_ids_and_a_grown_one_keeps_them() {
    let short = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    let grown = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},17,{"role":"user","content":"c"}]"#;
    let (first, again, later) = (one(short), one(short), one(grown));
    assert_eq!(first.id, again.id);
    assert_eq!(first.id, later.id);
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let (entries, same, more) = (first.to_entries(now), again.to_entries(now), later.to_entries(now));
    assert_eq!(entries, same);
    assert_eq!(entries[..], more[..entries.len()]);
    assert_eq!(more.len(), entries.len() + 2, "the message, and what was set aside");
    assert_eq!(verify(&more), []);
}

#[test]
fn entries_give_the_messages_back() {
    let session = one(
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b\ud83d"}], "x": 1}]"#,
    );
    let entries = session.to_entries(Timestamp::from_second(0).unwrap());
    let tree = rejoin_record::Tree::new(&entries);
    let rejoin_view::path::Path { history, findings, .. } = rejoin_view::path::path(&tree);
    assert!(findings.is_empty());
    let messages: Vec<_> = history.messages().iter().map(|message| (**message).clone()).collect();
    assert_eq!(messages, session.messages.iter().map(|message| (**message).clone()).collect::<Vec<_>>());
}

#[test]
fn responses_are_decoded() {
    let openai = br#"{"model":"gpt-x","choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,
        "tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{ \"x\" : 1 }"}}]}}],
        "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let decoded = Dialect::OpenAiChat.wire().decode(openai);
    assert_eq!(decoded.model.as_deref(), Some("gpt-x"));
    assert_eq!(decoded.end, End::Complete(StopReason::Done));
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    assert_eq!(
        decoded.message.unwrap().tool_calls().next().unwrap().arguments.text().as_str(),
        "{ \"x\" : 1 }"
    );

    let anthropic = br#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","stop_reason":"tool_use","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"ok"},
        {"type":"tool_use","id":"t1","name":"a","input":{"x":1}}],"usage":{"input_tokens":3,"output_tokens":4}}"#;
    let decoded = Dialect::Anthropic.wire().decode(anthropic);
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    let message = decoded.message.unwrap();
    assert!(
        matches!(&message.blocks[0].kind, BlockKind::Reasoning(reasoning) if reasoning.origin.model.as_deref() == Some("claude-x"))
    );
    assert_eq!(message.tool_calls().count(), 1);

    for dialect in Dialect::all() {
        let wire = dialect.wire();
        assert!(matches!(wire.decode(b"<html>").end, End::Garbage(_)));
        assert!(matches!(wire.decode(b"{}").end, End::Garbage(_)));
        let fault = ReportedFault { kind: None, message: "overloaded".into() };
        assert_eq!(wire.decode(br#"{"error":{"message":"overloaded"}}"#).end, End::Failed(fault));
    }
}

/// A response that was decoded can be sent back, byte for byte where the dialect takes it.
#[test]
fn what_was_decoded_can_be_sent() {
    let response = br#"{"role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},
        {"type":"tool_use","id":"t1","name":"a","input":{"x": 1.50}}]}"#;
    let decoded = Dialect::Anthropic.wire().decode(response);
    let history: rejoin_view::History = [
        rejoin_record::Message::user("go"),
        decoded.message.unwrap(),
        rejoin_record::Message::tool("t1", "done"),
    ]
    .into_iter()
    .collect();
    let view = rejoin_view::repair(&history, rejoin_view::OnBroken::Keep).view;
    let context = rejoin_formats::Context { dialect: Some(Dialect::Anthropic), ..Default::default() };
    let out = Dialect::Anthropic.wire().encode(&view, &rejoin_formats::Target::of(&context)).unwrap();
    assert_eq!(testkit::refusals(Dialect::Anthropic, out.body.as_bytes()), []);
    assert!(
        out.body.contains(r#""signature":"c2ln""#) && out.body.contains(r#"{"x": 1.50}"#),
        "{}",
        out.body
    );
}
