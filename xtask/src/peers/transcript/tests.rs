//! The faults that must be noticed in a request of Claude Code.

use super::*;

fn transcript(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{}\n", json!({"message": message}))).collect()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn answer(block: Value) -> Value {
    json!({"role": "assistant", "content": [block]})
}

fn call() -> Value {
    answer(json!({"type": "tool_use", "id": "t", "name": "ls", "input": {}}))
}

fn result() -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]})
}

fn check(written: &[Value], sent: &[Value]) -> usize {
    let mut sent = sent.to_vec();
    sent.push(
        json!({"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"},
        {"type": "text", "text": "go on"}]}),
    );
    problems(&transcript(written), &[], "go on", &json!({"messages": sent}).to_string()).len()
}

#[test]
fn what_claude_code_changes_is_noticed() {
    let all = [user("hi"), call(), result(), answer(json!({"type": "text", "text": "done"}))];
    assert_eq!(check(&all, &all), 0);
    assert_eq!(check(&all[..1], &[user("hi"), answer(json!({"type": "text", "text": STAND_IN}))]), 0);
    assert_eq!(check(&all, &all[..3]), 1, "an answer is missing");
    assert_eq!(check(&[all[0].clone(), all[3].clone()], &all), 2, "a call and its result were made up");
    assert_eq!(
        check(&[all[3].clone(), all[0].clone()], &[all[0].clone(), all[3].clone()]),
        1,
        "another order"
    );
    assert_eq!(check(&all[..1], &[answer(json!({"type": "text", "text": "hi"}))]), 2, "another speaker");
    assert_eq!(problems("", &[], "go on", "{\"messages\":[]}").len(), 1, "no prompt");
    assert_eq!(problems("", &[], "go on", "{").len(), 1);
}

#[test]
fn lost_words_are_noticed() {
    let said = |speaker, text: &str| ExpectedText { speaker, text: text.into() };
    let body =
        json!({"messages": [user("one two"), user("<system>be kind</system>"), user("go on")]}).to_string();
    let missing = |said: &[ExpectedText]| problems("", said, "go on", &body).len();
    assert_eq!(missing(&[said(Speaker::Instruction, "be kind"), said(Speaker::User, "one")]), 0);
    assert_eq!(missing(&[said(Speaker::User, "two"), said(Speaker::User, "one")]), 1);
    assert_eq!(missing(&[said(Speaker::Assistant, "one")]), 1);
}

#[test]
fn a_plain_request_declares_the_tools_that_were_called() {
    let request =
        json!({"messages": [user("hi"), call(), result(), {"role": "system", "content": "x"}], "b": 1});
    let plain: Value = serde_json::from_str(&plain(&request.to_string()).unwrap()).unwrap();
    assert_eq!(plain["tools"][0]["name"], "ls");
    assert_eq!(plain["messages"].as_array().unwrap().len(), 3);
    assert!(plain.get("b").is_none());
}
