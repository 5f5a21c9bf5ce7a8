//! The faults that must be noticed in a request of Codex.

use super::*;

fn text(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": id})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "x"})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"})
}

fn rollout(items: &[Value]) -> Rollout {
    let meta =
        json!({"timestamp": "t", "type": "session_meta", "payload": {"id": "i", "model_provider": "openai"}});
    let lines = items.iter().map(|item| json!({"timestamp": "t", "type": "response_item", "payload": item}));
    let text: Vec<String> = std::iter::once(meta).chain(lines).map(|line| line.to_string()).collect();
    Rollout::read(&text.join("\n")).unwrap()
}

/// The request that Codex makes from these items.
fn request(items: &[Value]) -> String {
    let own = [text("developer", "you are Codex")];
    let after = [text("user", "<environment_context>"), text("user", "go on")];
    json!({"input": own.iter().chain(items).chain(&after).collect::<Vec<_>>()}).to_string()
}

fn check(written: &[Value], sent: &[Value]) -> Vec<String> {
    problems(&rollout(written), &[], "go on", &request(sent))
}

#[test]
fn a_request_that_is_what_the_rollout_says() {
    let items = [
        text("user", "hi"),
        reasoning(),
        call("a"),
        text("assistant", "and"),
        call("b"),
        output("b"),
        output("a"),
        text("assistant", "done"),
    ];
    assert_eq!(check(&items, &items), Vec::<String>::new());
    assert_eq!(check(&[], &[]), Vec::<String>::new());
    assert_eq!(rollout(&items).provider.as_deref(), Some("openai"));
}

#[test]
fn what_codex_mends_in_silence_is_noticed() {
    let written = [text("user", "hi"), call("a"), text("assistant", "done")];
    let mended = [text("user", "hi"), call("a"), output("a"), text("assistant", "done")];
    assert_eq!(check(&written, &mended).len(), 1, "an answer that the rollout has not");
    assert_eq!(check(&written[..2], &mended[..3]).len(), 1, "the same at the end");
    let orphan = [text("user", "hi"), output("a"), text("assistant", "done")];
    let dropped = [text("user", "hi"), text("assistant", "done")];
    assert!(check(&orphan, &dropped)[0].contains("the request has not"));
    let swapped = [text("assistant", "done"), text("user", "hi")];
    assert!(check(&dropped, &swapped)[0].contains("not in order"));
}

#[test]
fn codex_may_add_what_means_nothing() {
    let written = [
        json!({"type": "reasoning", "summary": [], "encrypted_content": "g"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://a/b", "detail": "low"}]}),
    ];
    let sent = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": null, "encrypted_content": "g"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text",
            "text": "image content omitted because remote image URLs are not supported"}]}),
    ];
    assert_eq!(check(&written, &sent), Vec::<String>::new());
}

#[test]
fn pairs_that_are_torn_are_noticed() {
    for items in [
        vec![text("user", "u"), call("a")],
        vec![output("a")],
        vec![call("a"), text("user", "u"), output("a")],
        vec![call("a"), call("b"), output("a"), text("assistant", "t"), output("b")],
        vec![call("a"), call("b"), output("a"), call("c"), output("b"), output("c")],
        vec![call("a"), output("a"), output("a")],
        vec![json!({"type": "custom_tool_call", "call_id": "a", "name": "n", "input": ""}), output("a")],
    ] {
        assert!(!check(&items, &items).is_empty(), "{items:?}");
    }
}

#[test]
fn lost_words_are_noticed() {
    let said = |speaker, text: &str| ExpectedText { speaker, text: text.into() };
    let (user, model) = (Speaker::User, Speaker::Assistant);
    let items = [text("user", "one two"), text("assistant", "three"), text("user", "one")];
    let missing = |said: &[ExpectedText]| problems(&rollout(&items), said, "go on", &request(&items)).len();
    assert_eq!(missing(&[said(user, "one"), said(user, "two"), said(model, "three"), said(user, "one")]), 0);
    assert_eq!(missing(&[said(Speaker::Instruction, "you are Codex"), said(user, "one")]), 0);
    assert_eq!(missing(&[said(user, "three")]), 1, "another speaker");
    assert_eq!(missing(&[said(model, "three"), said(user, "two")]), 1, "another order");
    assert_eq!(
        missing(&[said(user, "one"), said(user, "one"), said(user, "one")]),
        1,
        "as often as it was said"
    );
    assert_eq!(missing(&[said(Speaker::Instruction, "be kind")]), 1);
}

#[test]
fn the_prompt_comes_last() {
    let body = json!({"input": [text("user", "go on"), text("user", "no")]}).to_string();
    assert_eq!(problems(&rollout(&[]), &[], "go on", &body).len(), 1);
    assert_eq!(problems(&rollout(&[]), &[], "go on", "{").len(), 1);
}

#[test]
fn a_compaction_replaces_what_was_before() {
    let mut lines = vec![json!({"type": "session_meta", "payload": {"id": "i"}})];
    lines.push(json!({"type": "response_item", "payload": text("user", "old")}));
    lines.push(json!({"type": "compacted", "payload": {"message": "m", "replacement_history": [text("user", "sum")]}}));
    lines.push(json!({"type": "response_item", "payload": text("user", "new")}));
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let rollout = Rollout::read(&lines.join("\n")).unwrap();
    let sent = [text("user", "sum"), text("user", "new")];
    assert_eq!(problems(&rollout, &[], "go on", &request(&sent)), Vec::<String>::new());
    assert!(Rollout::read("{}").is_err() && Rollout::read("").is_err() && Rollout::read("x").is_err());
}
