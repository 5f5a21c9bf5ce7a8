//! Whole streams, one of each dialect: what is shown, what is received, and the item that it is read from.

use rejoin_formats::{
    Dialect,
    wire::stream::{Delta, End, Received, StopReason, Usage},
};
use rejoin_record::{BlockKind, Message};

use crate::{STREAMS, calls, decoded, native, shown, text, thoughts};

struct Expected {
    text: &'static str,
    thoughts: &'static str,
    calls: &'static [(&'static str, &'static str, &'static str)],
    model: &'static str,
    usage: Usage,
    native: &'static str,
}

fn check(stream: usize, expected: &Expected) -> (Message, Vec<Delta>) {
    let (dialect, bytes) = STREAMS[stream];
    let (deltas, Received { message, end, model, usage }) = decoded(dialect, [bytes.as_bytes()]);
    let message = message.unwrap();
    assert_eq!(end, End::Complete(StopReason::Done));
    assert_eq!(text(&message), expected.text);
    assert_eq!(thoughts(&message), expected.thoughts);
    let called = calls(&message);
    let told: Vec<_> =
        called.iter().map(|(id, name, text)| (id.as_str(), name.as_str(), text.as_str())).collect();
    assert_eq!(told, expected.calls);
    assert_eq!(model.as_deref(), Some(expected.model));
    assert_eq!(usage, Some(expected.usage));
    assert_eq!(native(&message), expected.native);
    assert!(
        message.native.as_ref().unwrap().regular || dialect == Dialect::Mistral,
        "it can be sent back unchanged"
    );
    let (said, _, tools) = shown(&deltas);
    assert_eq!(said, expected.text);
    assert_eq!(tools, told.iter().map(|call| call.1).collect::<Vec<_>>());
    (message, deltas)
}

/// S4-27: the message of a stream is complete and in one piece at its end, with parallel calls whose pieces were mixed.
#[test]
fn openai_chat() {
    check(
        0,
        &Expected {
            text: "Grüße, 😀 \"you\"\n",
            thoughts: "",
            calls: &[("call_a", "read", r#"{"path": "a.rs", "n": 1e400}"#), ("call_b", "list", "{}")],
            model: "gpt-x",
            usage: Usage { input: 100, output: 20, cached: 64, reasoning: 5 },
            native: r#"{"role":"assistant","content":"Grüße, 😀 \"you\"\n","tool_calls":[{"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"path\": \"a.rs\", \"n\": 1e400}"}},{"id":"call_b","type":"function","function":{"name":"list","arguments":"{}"}}]}"#,
        },
    );
}

/// OR-01: reasoning details are put together by number and kind, and nothing else in them is touched.
#[test]
fn openrouter() {
    let (message, deltas) = check(
        1,
        &Expected {
            text: "I look.",
            thoughts: "Let me look.",
            calls: &[("toolu_1", "read", r#"{"path":"a"}"#)],
            model: "vendor/model",
            usage: Usage { input: 7, output: 9, ..Usage::default() },
            native: r#"{"role":"assistant","content":"I look.","reasoning":"Let me look.","reasoning_details":[{"type":"reasoning.text","text":"Let me look.","format":"anthropic-claude-v1","index":0,"signature":"c2lnbmVk"},{"type":"reasoning.encrypted","data":"b3BhcXVl","id":"toolu_1","format":"anthropic-claude-v1","index":0}],"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}"#,
        },
    );
    let sealed = message.blocks.iter().filter(
        |block| matches!(&block.kind, BlockKind::Reasoning(held) if held.sealed && !held.origin.incomplete),
    );
    assert_eq!(sealed.count(), 1);
    assert_eq!(shown(&deltas).1, "Let me look.", "it is shown once, though it comes in two fields");
}

#[test]
fn mistral() {
    let (message, deltas) = check(
        2,
        &Expected {
            text: "Looking now.",
            thoughts: "So, a list.",
            calls: &[("D681PevKs", "read", r#"{"path": "a"}"#)],
            model: "magistral",
            usage: Usage { input: 11, output: 20, ..Usage::default() },
            native: r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"So, a list."}]},{"type":"text","text":"Looking now."}],"tool_calls":[{"id":"D681PevKs","type":"function","function":{"name":"read","arguments":"{\"path\": \"a\"}"}}]}"#,
        },
    );
    assert_eq!(shown(&deltas).1, "So, a list.");
    assert_eq!(message.blocks.len(), 3);
}

/// RSP-08: an item is what `response.output_item.done` says, not what was said before or after.
#[test]
fn openai_responses() {
    let (message, deltas) = check(
        3,
        &Expected {
            text: "I look at a.rs.",
            thoughts: "**Looking**\n\nat it",
            calls: &[("call_1", "read", r#"{"path":"a.rs"}"#)],
            model: "gpt-y",
            usage: Usage { input: 50, output: 30, cached: 32, reasoning: 12 },
            native: r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAAAwhole==","summary":[{"type":"summary_text","text":"**Looking**"},{"type":"summary_text","text":"at it"}]},{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"I look at a.rs."}],"role":"assistant"},{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a.rs\"}","call_id":"call_1","name":"read"}"#,
        },
    );
    assert_eq!(shown(&deltas).1, "**Looking**\n\nat it");
    assert_eq!(message.native.unwrap().items.len(), 3);
}

/// ANT-19: thinking and its signature are kept as they came, and arguments as they were streamed.
#[test]
fn anthropic() {
    let (_, deltas) = check(
        4,
        &Expected {
            text: "I look at two files.",
            thoughts: "I should look.",
            calls: &[
                ("toolu_1", "read", "{\"path\": \"a\\u00e9.rs\", \"n\": 1.50}"),
                ("toolu_2", "list", "{}"),
            ],
            model: "claude-z",
            usage: Usage { input: 115, output: 42, cached: 100, reasoning: 0 },
            native: r#"{"role":"assistant","content":[{"type":"thinking","thinking":"I should look.","signature":"EqQBCg=="},{"type":"redacted_thinking","data":"EmwKA\/hid"},{"type":"text","text":"I look at two files."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path": "a\u00e9.rs", "n": 1.50}},{"type":"tool_use","id":"toolu_2","name":"list","input":{}}]}"#,
        },
    );
    assert_eq!(shown(&deltas).1, "I should look.");
}

/// GEM-13: words are joined only where neither is signed, and a signature stays in its part.
#[test]
fn gemini() {
    let ids = |index: usize| -> String {
        let received = decoded(STREAMS[5].0, [STREAMS[5].1.as_bytes()]).1;
        calls(&received.message.unwrap())[index].0.clone()
    };
    let (first, second): (&'static str, &'static str) = (ids(0).leak(), ids(1).leak());
    assert_ne!(first, second);
    let list: Vec<_> = vec![(first, "read", r#"{"path": "a.rs"}"#), (second, "list", "{}")];
    let (_, deltas) = check(
        5,
        &Expected {
            text: "I look.",
            thoughts: "**Thinking** about it",
            calls: list.leak(),
            model: "gemini-w",
            usage: Usage { input: 8, output: 35, cached: 4, reasoning: 15 },
            native: r#"{"role":"model","parts":[{"thought":true,"text":"**Thinking** about it"},{"text":"I look."},{"functionCall": {"name": "read","args": {"path": "a.rs"}},"thoughtSignature": "c2lnbmF0dXJl"},{"functionCall": {"name": "list","args": {}}},{"text": "","thoughtSignature": "bW9yZXM="}]}"#,
        },
    );
    assert_eq!(shown(&deltas).1, "**Thinking** about it");
}

#[test]
fn ollama() {
    let received = decoded(STREAMS[6].0, [STREAMS[6].1.as_bytes()]).1;
    let ids: Vec<&'static str> =
        calls(&received.message.unwrap()).into_iter().map(|call| &*call.0.leak()).collect();
    let list: Vec<_> = vec![(ids[0], "read", r#"{"path":"a.rs"}"#), (ids[1], "list", "{}")];
    let (_, deltas) = check(
        6,
        &Expected {
            text: "Grüße: I look.",
            thoughts: "Let me look.",
            calls: list.leak(),
            model: "qwen",
            usage: Usage { input: 26, output: 12, ..Usage::default() },
            native: r#"{"role":"assistant","content":"Grüße: I look.","thinking":"Let me look.","tool_calls":[{"function":{"name":"read","arguments":{"path":"a.rs"}}},{"function":{"index":1,"name":"list","arguments":{}}}]}"#,
        },
    );
    assert_eq!(shown(&deltas).1, "Let me look.");
}
