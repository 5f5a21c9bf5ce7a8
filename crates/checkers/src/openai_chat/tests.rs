//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance, with};

const SUITE: Suite = Suite {
    dialect: "openai-chat",
    list: "messages",
    fixtures: 24,
    rules: "OAC-01 OAC-02 OAC-03 OAC-04 OAC-05 OAC-06 OAC-07 OAC-08 OAC-09 OAC-10 OAC-11 OAC-12 OAC-13 \
            OAC-schema SAN-02 SAN-07 SAN-09 VLL-01",
    // These bodies are too large or too odd for the table.
    elsewhere: &["OAC-12", "SAN-02", "SAN-07"],
    holder: r#"{"messages":[{"role":"user","content":"go","extra":@}]}"#,
    levels: 997,
};

conformance! { SUITE:
    pairing_cases call_cases argument_cases content_cases shown_cases role_cases setting_cases
    schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = turns([user("go"), calls([call("a"), call("b")]), result("b"), result("a")]);
    let asked = |next: &[Value]| turns([&[user("go"), calls([call("a")])], next].concat());
    let twice = |first: &str, second: &str| {
        let opened = [user("go"), calls([call(first)]), result(first), says("so"), user("again")];
        turns(opened.into_iter().chain([calls([call(second)]), result(second)]))
    };
    vec![
        (vec!["OAC-01"], answered.clone(), turns([user("go"), calls([call("a"), call("b")]), result("a")])),
        (vec!["OAC-01"], asked(&[result("a"), user("so?")]), asked(&[user("so?")])),
        (vec!["OAC-01", "OAC-02"], asked(&[result("a")]), asked(&[user("so?"), result("a")])),
        (vec!["OAC-02"], turns([user("go")]), turns([user("go"), result("a")])),
        (vec!["OAC-02"], answered.clone(), turns([user("go"), calls([call("a")]), result("b"), result("a")])),
        (vec!["OAC-03"], answered.clone(), turns([user("go"), calls([call("a")]), result("a"), result("a")])),
        (vec!["OAC-03"], twice("a", "b"), twice("a", "a")),
        (
            vec!["OAC-03", "OAC-03"],
            answered,
            turns([user("go"), calls([call("a"), call("a")]), result("a"), result("a")]),
        ),
    ]
}

fn call_cases() -> Vec<Case> {
    let with_id = |id: &str| turns([calls([call(id)]), result(id)]);
    let many = |count: usize| {
        let ids: Vec<String> = (0..count).map(|k| format!("call_{k}")).collect();
        let all = calls(ids.iter().map(|id| call(id)).collect::<Vec<_>>());
        turns([all].into_iter().chain(ids.iter().map(|id| result(id))))
    };
    let named = |name: &str| looping(json!({"name": name, "arguments": "{}"}));
    let custom =
        |custom: Value| turns([calls([json!({"id": "a", "type": "custom", "custom": custom})]), result("a")]);
    let nameless = looping(json!({"arguments": "{}"}));
    let mut numbered = with_id("a");
    numbered["messages"][0]["tool_calls"][0]["id"] = json!(1);
    vec![
        (vec!["OAC-04"], with_id(&"é".repeat(40)), with_id(&"x".repeat(41))),
        (vec!["OAC-04"], with_id("functions.x:0"), with_id("")),
        (vec!["OAC-04", "OAC-02"], with_id("1"), numbered),
        (vec!["OAC-05"], many(128), many(129)),
        (
            vec!["OAC-05"],
            turns([says("hi")]),
            turns([json!({"role": "assistant", "content": "hi", "tool_calls": []})]),
        ),
        (vec!["OAC-06"], named("read_file"), named("read.file")),
        (vec!["OAC-06"], named(&"n".repeat(64)), named(&"n".repeat(65))),
        (vec!["OAC-06"], named("n"), named("")),
        (vec!["OAC-06"], named("n"), nameless),
        (
            vec!["OAC-06"],
            custom(json!({"name": "n", "input": "free"})),
            custom(json!({"name": "ü", "input": ""})),
        ),
        (
            vec!["OAC-schema"],
            custom(json!({"name": "n", "input": ""})),
            custom(json!({"name": "n", "input": {}})),
        ),
    ]
}

fn argument_cases() -> Vec<Case> {
    let given = |arguments: Value| looping(json!({"name": "look", "arguments": arguments}));
    let text = |arguments: &str| given(json!(arguments));
    let nested = |depth: usize| text(&(r#"{"a":"#.repeat(depth - 1) + "{}" + &"}".repeat(depth - 1)));
    vec![
        (vec!["OAC-08"], text("{}"), given(json!({}))),
        (vec!["OAC-08"], text("{}"), given(Value::Null)),
        (vec!["OAC-08"], text("{}"), looping(json!({"name": "look"}))),
        (vec!["VLL-01"], text(r#" {"a": 1} "#), text(r#"{"a":"#)),
        (vec!["VLL-01"], text(r#"{"a":[1]}"#), text("[1]")),
        (vec!["VLL-01"], text(r#"{"a":1e999}"#), text(r#"{"a":01}"#)),
        (vec!["VLL-01"], text(r#"{"a":123456789012345678901234567890}"#), text(r#"{"a":NaN}"#)),
        (vec!["VLL-01"], text(r#"{"a":"\ud83d"}"#), text(r#""{}""#)),
        (vec!["VLL-01"], text("{}"), text("")),
        (vec!["VLL-01"], text("{}"), text("{}{}")),
        (vec!["VLL-01"], text("{}"), text("null")),
        (vec!["VLL-01"], nested(128), nested(129)),
    ]
}

fn content_cases() -> Vec<Case> {
    let by = |role: &str, content: Value| turns([json!({"role": role, "content": content})]);
    let text = json!({"type": "text", "text": "hi"});
    let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}});
    let file = json!({"type": "file", "file": {"file_id": "f"}});
    let silence = json!({"type": "input_audio", "input_audio": {"data": "%%%", "format": "wav"}});
    let filed = |data: Value| by("user", json!([{"type": "file", "file": {"file_data": data}}]));
    let refusal = json!({"type": "refusal", "refusal": "no"});
    let answered = |content: Value| {
        turns([calls([call("a")]), json!({"role": "tool", "tool_call_id": "a", "content": content})])
    };
    let silent =
        |field: &str, value: Value| turns([json!({"role": "assistant", "content": null, field: value})]);
    vec![
        (vec!["OAC-07"], by("user", json!("")), by("user", Value::Null)),
        (vec!["OAC-07"], by("assistant", json!("")), by("assistant", Value::Null)),
        (vec!["OAC-07"], turns([calls([call("a")]), result("a")]), turns([json!({"role": "assistant"})])),
        (vec!["OAC-07"], answered(json!("")), answered(Value::Null)),
        (vec!["OAC-07"], silent("refusal", json!("no")), silent("refusal", Value::Null)),
        (vec!["OAC-07"], silent("audio", json!({"id": "x"})), silent("audio", Value::Null)),
        (vec!["OAC-07", "OAC-05"], by("system", json!("")), silent("tool_calls", json!([]))),
        (vec!["OAC-10"], by("user", json!([text, image])), by("assistant", json!([text, image]))),
        (vec!["OAC-10"], answered(json!([text])), answered(json!([text, image]))),
        (vec!["OAC-10"], by("developer", json!([text])), by("system", json!([image]))),
        (vec!["SAN-09"], filed(json!("data:application/pdf;base64,JVBERi0=")), filed(json!("JVBERi0="))),
        (vec!["SAN-09"], by("user", json!([file])), filed(json!("data:application/pdf;base64,aGVsbG8="))),
        (vec!["OAC-schema"], by("user", json!([audio])), by("user", json!([silence]))),
        (vec!["OAC-schema"], by("user", json!([audio])), by("assistant", json!([audio]))),
        (vec!["OAC-schema"], by("user", json!([file])), by("system", json!([file]))),
        (vec!["OAC-schema"], by("assistant", json!([refusal])), by("user", json!([refusal]))),
        (vec!["OAC-schema"], by("user", json!([text])), by("user", json!([]))),
        (vec!["OAC-schema"], by("user", json!([text])), by("user", json!({}))),
        (vec!["OAC-schema"], by("user", json!([text])), by("user", json!(["hi"]))),
        (vec!["OAC-schema"], by("user", json!([text])), by("user", json!([{"type": "text"}]))),
        (
            vec!["OAC-schema"],
            by("user", json!([image])),
            by("user", json!([{"type": "image_url", "image_url": {}}])),
        ),
        (
            vec!["OAC-schema"],
            by("assistant", json!([text])),
            by("assistant", json!([{"type": "thinking", "thinking": "hm"}, text])),
        ),
    ]
}

fn shown_cases() -> Vec<Case> {
    image_cases(|url| turns([user(json!([{"type": "image_url", "image_url": {"url": url}}]))]))
}

fn role_cases() -> Vec<Case> {
    let by = |role: &str| turns([json!({"role": role, "content": "hi"})]);
    let legacy =
        json!({"role": "assistant", "content": "hi", "function_call": {"name": "n", "arguments": "{}"}});
    let mut functions = by("user");
    functions["functions"] = json!([]);
    vec![
        (vec!["OAC-09"], by("developer"), by("human")),
        (vec!["OAC-09"], by("system"), turns([json!({"content": "hi"})])),
        (vec!["OAC-13"], by("assistant"), by("function")),
        (vec!["OAC-13"], by("user"), turns([legacy])),
        (vec!["OAC-13"], by("user"), functions),
    ]
}

fn setting_cases() -> Vec<Case> {
    let setting = |field: &str, value: Value| json!({field: value, "messages": [user("go")]});
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let tools = |count: usize| setting("tools", (0..count).map(|k| function(&format!("n{k}"))).collect());
    let chosen = |choice: Value| with(tools(2), "tool_choice", choice);
    let schemed = |parameters: Value| {
        setting("tools", json!([{"type": "function", "function": {"name": "n", "parameters": parameters}}]))
    };
    vec![
        (vec!["OAC-11"], turns([user("go")]), turns([])),
        (vec!["OAC-11"], tools(1), tools(0)),
        (vec!["OAC-11"], tools(128), tools(129)),
        (
            vec!["OAC-06"],
            setting("tools", json!([function("n-1")])),
            setting("tools", json!([function("n.1")])),
        ),
        (vec!["OAC-schema"], tools(2), setting("tools", json!([function("n"), function("n")]))),
        (vec!["OAC-schema"], tools(1), setting("tools", Value::Null)),
        (vec!["OAC-schema"], tools(1), setting("tools", json!([{"name": "n"}]))),
        (vec!["OAC-schema"], tools(1), setting("tools", json!([{"type": "function", "name": "n"}]))),
        (vec!["OAC-schema"], schemed(json!({"type": "object"})), schemed(json!([]))),
        (vec!["OAC-schema"], chosen(json!("auto")), setting("tool_choice", json!("auto"))),
        (vec!["OAC-schema"], chosen(json!("required")), chosen(json!("any"))),
        (vec!["OAC-schema"], chosen(function("n1")), chosen(function("n2"))),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["OAC-schema"];
    let good = || turns([user("go")]);
    let extended = json!({"role": "assistant", "content": "hi", "reasoning_content": "hm", "name": "ada"});
    let nulled = json!({"role": "assistant", "content": "hi", "tool_calls": null});
    let calling = json!({"role": "user", "content": "hi", "tool_calls": [call("a")]});
    let untyped = json!({"id": "a", "function": {"name": "n", "arguments": "{}"}});
    let refusing = json!({"role": "assistant", "content": "hi", "refusal": true});
    vec![
        (schema(), good(), json!([])),
        (schema(), good(), json!({})),
        (schema(), good(), json!({"messages": null})),
        (schema(), good(), turns([json!("go")])),
        (schema(), turns([extended]), turns([nulled])),
        (schema(), good(), turns([calling])),
        (schema(), good(), turns([refusing])),
        (schema(), good(), turns([calls([untyped]), result("a")])),
        (schema(), good(), turns([calls([json!({"id": "a", "type": "function"})]), result("a")])),
        (
            schema(),
            good(),
            turns([calls([call("a")]), result("a"), json!({"role": "tool", "content": "hi"})]),
        ),
    ]
}

#[test]
fn a_text_past_the_length_limit_is_refused() {
    SUITE.limits(MAX_TEXT, "OAC-12", |length| turns([user("é".repeat(length))]));
    SUITE.limits(MAX_TEXT, "OAC-12", |length| {
        let arguments = "{}".to_owned() + &" ".repeat(length - 2);
        looping(json!({"name": "look", "arguments": arguments}))
    });
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let body =
        turns([user("go"), calls([call("a"), call("b")]), json!({"role": "tool", "tool_call_id": "c"})]);
    let told = SUITE.reported(&body);
    let expect = [
        "OAC-01 at messages.1: An assistant message with 'tool_calls' must be followed by tool messages \
         responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: a, b",
        "OAC-07 at messages.2.content: Invalid value for 'content': expected a string, got null.",
        "OAC-02 at messages.2: Invalid parameter: messages with role 'tool' must be a response to a \
         preceeding message with 'tool_calls'.",
    ];
    assert_eq!(told, expect);
    let long =
        SUITE.check(turns([calls([call(&"x".repeat(51))]), result(&"x".repeat(51))]).to_string().as_bytes());
    let expect = "Invalid 'messages[0].tool_calls[0].id': string too long. Expected a string with maximum \
                  length 40, but got a string with length 51 instead.";
    assert_eq!(long[0].message, expect);
}

fn turns(messages: impl IntoIterator<Item = Value>) -> Value {
    SUITE.request(messages)
}

/// One call of this function, answered.
fn looping(function: Value) -> Value {
    turns([user("go"), calls([json!({"id": "a", "type": "function", "function": function})]), result("a")])
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn says(content: &str) -> Value {
    json!({"role": "assistant", "content": content})
}

fn calls(calls: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls.into()})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "fine"})
}
