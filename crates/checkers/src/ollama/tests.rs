//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance};

const SUITE: Suite = Suite {
    dialect: "ollama",
    list: "messages",
    fixtures: 24,
    rules: "OLL-01 OLL-02 OLL-03 OLL-04 OLL-schema SAN-02 SAN-07 SAN-09",
    // These bodies are too odd for the table.
    elsewhere: &["SAN-02", "SAN-07"],
    holder: r#"{"messages":[{"role":"user","content":"go","extra":@}]}"#,
    levels: 997,
};

conformance! { SUITE:
    pairing_cases argument_cases content_cases schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = turns([user("go"), calls([call("a"), call("b")]), result("b"), result("a")]);
    let unnamed = json!({"role": "tool", "content": "fine"});
    let with_id = |call: Value, id: &str| {
        let mut call = call;
        call["id"] = json!(id);
        call
    };
    let of_id = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "fine"});
    vec![
        (vec!["OLL-04"], answered.clone(), turns([user("go"), calls([call("a"), call("b")]), result("a")])),
        (
            vec!["OLL-04"],
            turns([user("go"), calls([call("a")]), result("a"), user("so?")]),
            turns([user("go"), calls([call("a")]), user("so?")]),
        ),
        (
            vec!["OLL-04", "OLL-04"],
            turns([user("go"), calls([call("a")]), unnamed.clone()]),
            turns([user("go"), calls([call("a")]), user("so?"), unnamed.clone()]),
        ),
        (vec!["OLL-04"], turns([user("go")]), turns([user("go"), result("a")])),
        (vec!["OLL-04"], turns([user("go")]), turns([result("a")])),
        (
            vec!["OLL-04"],
            turns([calls([call("a"), call("a")]), result("a"), unnamed.clone()]),
            turns([calls([call("a")]), unnamed.clone(), unnamed.clone()]),
        ),
        (vec!["OLL-04"], turns([says("so")]), turns([says("so"), unnamed.clone()])),
        (vec!["OLL-04"], answered.clone(), turns([calls([call("a"), call("b")]), result("a"), result("a")])),
        (vec!["OLL-04"], answered.clone(), turns([calls([call("a")]), result("b")])),
        (
            vec!["OLL-04"],
            turns([calls([with_id(call("a"), "1"), with_id(call("a"), "2")]), of_id("2"), of_id("1")]),
            turns([calls([with_id(call("a"), "1"), with_id(call("a"), "2")]), of_id("2"), of_id("2")]),
        ),
        // ids count only if the calls have them
        (
            vec!["OLL-04"],
            turns([calls([call("a")]), of_id("2")]),
            turns([calls([with_id(call("a"), "1")]), of_id("2")]),
        ),
        (
            vec!["OLL-04"],
            turns([calls([with_id(call("a"), "1"), call("a")]), of_id("1"), result("a")]),
            turns([calls([with_id(call("a"), "1"), call("a")]), of_id("1"), of_id("2")]),
        ),
        // any number of calls
        (
            vec!["OLL-04"],
            turns([calls(vec![call("a"); 200])].into_iter().chain(vec![result("a"); 200])),
            turns([calls(vec![call("a"); 200])].into_iter().chain(vec![result("a"); 199])),
        ),
    ]
}

fn argument_cases() -> Vec<Case> {
    let given = |arguments: Value| looping(json!({"name": "look", "arguments": arguments}));
    let nested = |depth: usize| given((1..depth).fold(json!({}), |inner, _| json!({"a": inner})));
    vec![
        (vec!["OLL-01"], given(json!({})), given(json!("{}"))),
        (vec!["OLL-01"], given(json!({"a": [1]})), given(json!([1]))),
        (vec!["OLL-01"], given(json!({"a": null})), given(Value::Null)),
        (vec!["OLL-01"], given(json!({})), looping(json!({"name": "look"}))),
        (vec!["OLL-01"], nested(128), nested(129)),
    ]
}

fn content_cases() -> Vec<Case> {
    let by = |role: &str, content: Value| turns([json!({"role": role, "content": content})]);
    let silent =
        |field: &str, value: Value| turns([json!({"role": "assistant", "content": null, field: value})]);
    let shows = |images: Value| turns([json!({"role": "user", "content": "see", "images": images})]);
    let mut wordless = looping(json!({"name": "look", "arguments": {}}));
    wordless["messages"][1].as_object_mut().unwrap().remove("content");
    vec![
        (vec!["OLL-02"], by("user", json!("")), by("user", Value::Null)),
        (vec!["OLL-02"], by("user", json!("hi")), by("user", json!([{"type": "text", "text": "hi"}]))),
        (vec!["OLL-02"], by("system", json!(" ")), by("system", json!({}))),
        (vec!["OLL-02"], wordless, turns([json!({"role": "assistant"})])),
        (vec!["OLL-02"], silent("thinking", json!("hm")), silent("thinking", json!(""))),
        (vec!["OLL-02"], silent("images", json!(["iVBORw0KGgo="])), silent("images", json!([]))),
        (vec!["OLL-02"], by("assistant", json!("")), silent("tool_calls", json!([]))),
        (
            vec!["OLL-02"],
            turns([calls([call("a")]), result("a")]),
            turns([calls([call("a")]), json!({"role": "tool", "tool_name": "a"})]),
        ),
        (vec!["OLL-03"], by("system", json!("hi")), by("developer", json!("hi"))),
        (vec!["OLL-03"], by("user", json!("hi")), turns([json!({"content": "hi"})])),
        (vec!["OLL-schema"], shows(json!(["iVBORw0KGgo=", "/9j/4AA="])), shows(json!([""]))),
        (
            vec!["OLL-schema"],
            shows(json!(["/9j/4AA="])),
            shows(json!(["data:image/png;base64,iVBORw0KGgo="])),
        ),
        (vec!["SAN-09"], shows(json!(["R0lGODlhAQ=="])), shows(json!(["aGVsbG8="]))),
        (vec!["OLL-schema"], shows(json!([])), shows(json!(["AAA"]))),
        (vec!["OLL-schema"], shows(json!([])), shows(json!(["AA*A"]))),
        (vec!["OLL-schema"], shows(Value::Null), shows(json!("iVBORw0KGgo="))),
        (vec!["OLL-schema"], shows(json!(["iVBORw0KGgo="])), shows(json!([{"url": "u"}]))),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["OLL-schema"];
    let good = || turns([user("go")]);
    let with =
        |role: &str, field: &str, value: Value| turns([json!({"role": role, "content": "hi", field: value})]);
    let settings = |tools: Value| json!({"tools": tools, "messages": [user("go")]});
    let function = |function: Value| looping(function);
    let mut typed = function(json!({"name": "look", "arguments": {}, "index": 0}));
    let kept = typed.clone();
    typed["messages"][1]["tool_calls"][0]["id"] = json!(7);
    vec![
        (schema(), good(), json!([])),
        (schema(), good(), json!({})),
        (schema(), good(), turns([])),
        (schema(), good(), json!({"messages": {}})),
        (schema(), good(), json!({"messages": null})),
        (schema(), with("user", "name", json!("ada")), turns([json!("go")])),
        (schema(), with("assistant", "thinking", json!("hm")), with("user", "thinking", json!("hm"))),
        (schema(), with("assistant", "thinking", Value::Null), with("assistant", "thinking", json!(["hm"]))),
        (schema(), with("user", "tool_name", Value::Null), with("user", "tool_name", json!("look"))),
        (schema(), good(), with("assistant", "tool_call_id", json!("a"))),
        (schema(), with("assistant", "tool_calls", Value::Null), with("assistant", "tool_calls", json!({}))),
        (
            schema(),
            with("assistant", "tool_calls", json!([])),
            with("user", "tool_calls", json!([call("a")])),
        ),
        (schema(), kept, typed),
        (schema(), good(), function(json!({"name": "look", "arguments": {}, "index": "0"}))),
        (schema(), good(), function(json!({"name": "", "arguments": {}}))),
        (schema(), good(), function(json!({"arguments": {}}))),
        (schema(), good(), function(json!("look"))),
        (schema(), settings(Value::Null), settings(json!({}))),
        (schema(), settings(json!([])), settings(json!([{"name": "n"}]))),
        (
            schema(),
            settings(
                json!([{"type": "function", "function": {"name": "any name.at all", "parameters": {}}}]),
            ),
            settings(json!([{"type": "function", "function": {"name": "n", "parameters": []}}])),
        ),
        (schema(), good(), settings(json!([{"type": "function", "function": {"parameters": {}}}]))),
    ]
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_server() {
    let call = json!({"function": {"name": "look", "arguments": "{}"}});
    let body =
        turns([user("go"), calls([call]), json!({"role": "tool", "tool_name": "peek", "content": []})]);
    let told = SUITE.reported(&body);
    let expect = [
        "OLL-01 at messages.1.tool_calls.0.function.arguments: json: cannot unmarshal string into Go struct \
         field ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
        "OLL-04 at messages.2.tool_name: messages.2.tool_name: 'peek' answers no call of messages.1",
        "OLL-02 at messages.2.content: json: cannot unmarshal array into Go struct field \
         ChatRequest.messages.content of type string",
    ];
    assert_eq!(told, expect);
}

fn turns(messages: impl IntoIterator<Item = Value>) -> Value {
    SUITE.request(messages)
}

/// One call of this function, answered.
fn looping(function: Value) -> Value {
    let answer = json!({"role": "tool", "content": "fine"});
    turns([user("go"), calls([json!({"function": function})]), answer])
}

fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

fn says(content: &str) -> Value {
    json!({"role": "assistant", "content": content})
}

fn calls(calls: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": "", "tool_calls": calls.into()})
}

fn call(name: &str) -> Value {
    json!({"function": {"name": name, "arguments": {}}})
}

fn result(name: &str) -> Value {
    json!({"role": "tool", "tool_name": name, "content": "fine"})
}
