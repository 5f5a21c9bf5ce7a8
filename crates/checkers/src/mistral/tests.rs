//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance};

const SUITE: Suite = Suite {
    dialect: "mistral",
    list: "messages",
    // F21 depends on the version, and F22 concerns another provider.
    fixtures: 22,
    rules: "MIS-01 MIS-02 MIS-03 MIS-04 MIS-05 MIS-06 MIS-07 MIS-08 MIS-09 MIS-10 MIS-schema SAN-02 SAN-07 \
            SAN-09",
    // These bodies are too odd for the table.
    elsewhere: &["SAN-02", "SAN-07"],
    holder: r#"{"metadata":{"a":@},"messages":[{"role":"user","content":"go"}]}"#,
    levels: 998,
};

conformance! { SUITE:
    pairing_cases order_cases call_cases content_cases chunk_cases setting_cases schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = turns([user("go"), calls([call(A), call(B)]), result(B), result(A)]);
    let again = |id: &str| {
        let opened = [user("go"), calls([call(A)]), result(A), says("so"), user("again")];
        turns(opened.into_iter().chain([calls([call(id)]), result(id)]))
    };
    vec![
        (vec!["MIS-01"], answered.clone(), turns([user("go"), calls([call(A), call(B)]), result(A)])),
        (vec!["MIS-01"], again(A), turns([user("go"), calls([call(A)]), user("so?")])),
        (vec!["MIS-01"], again(B), turns([user("go"), calls([call(A)]), says("so"), user("on")])),
        // a result after the next assistant message is too late
        (
            vec!["MIS-01", "MIS-06"],
            answered.clone(),
            turns([user("go"), calls([call(A)]), says("so"), result(A)]),
        ),
        // the validator overlooks the calls of the first message
        (
            vec!["MIS-01"],
            turns([system("be brief"), calls([call(A)]), result(A)]),
            turns([calls([call(A)]), result(A)]),
        ),
        (vec!["MIS-06"], answered.clone(), turns([user("go"), calls([call(A)]), result(A), result(B)])),
        (vec!["MIS-06"], answered.clone(), turns([user("go"), calls([call(A)]), result(A), result(A)])),
        (vec!["MIS-01", "MIS-06"], answered.clone(), turns([user("go"), calls([call(A)]), result(B)])),
        (vec!["MIS-06"], answered.clone(), turns([user("go"), says("hm"), result(A)])),
        (vec!["MIS-06"], answered.clone(), turns([user("go"), calls([call(A), call(A)]), result(A)])),
        (
            vec!["MIS-06", "MIS-06"],
            answered,
            turns([user("go"), calls([call(A), call(A)]), result(A), result(A)]),
        ),
    ]
}

fn order_cases() -> Vec<Case> {
    let looped = || [user("go"), calls([call(A)]), result(A)];
    let after = |message: Value| turns(looped().into_iter().chain([message, user("on")]));
    let late = |more: &[Value]| turns([looped().to_vec(), more.to_vec()].concat());
    let prefix = |prefix: Value| json!({"role": "assistant", "content": "so", "prefix": prefix});
    vec![
        (vec!["MIS-02"], turns([user("go")]), turns([user("go"), result(A)])),
        (vec!["MIS-02"], turns(looped()), turns([user("go"), calls([call(A)]), user("so?"), result(A)])),
        (vec!["MIS-02"], turns([system("hm"), user("go")]), turns([system("hm"), result(A)])),
        (vec!["MIS-02"], turns(looped()), turns([result(A), says("ok"), user("go")])),
        (vec!["MIS-03"], after(says("ok")), late(&[user("on")])),
        (
            vec!["MIS-04"],
            turns([user("go"), system("hm"), user("on")]),
            turns([user("go"), says("ok"), system("hm"), user("on")]),
        ),
        (vec!["MIS-04"], after(says("ok")), after(system("hm"))),
        (vec!["MIS-07"], turns([user("go"), says("ok"), user("on")]), turns([user("go"), says("ok")])),
        (vec!["MIS-07"], turns([user("go"), prefix(json!(true))]), turns([user("go"), prefix(json!(false))])),
        (
            vec!["MIS-07"],
            turns([user("go"), prefix(json!(true))]),
            turns([user("go"), prefix(json!(true)), user("on")]),
        ),
        (vec!["MIS-07"], turns([system("hm"), user("go")]), turns([user("go"), system("hm")])),
        (vec!["MIS-01", "MIS-07"], turns([user("go")]), turns([user("go"), calls([call(A)])])),
        (vec!["MIS-10"], turns([user("go")]), turns([])),
        (vec!["MIS-10"], turns([system("hm")]), turns([says("ok")])),
        (vec!["MIS-10"], turns([says("ok"), user("go")]), turns([prefix(json!(true))])),
        (vec!["MIS-10"], turns([user("go"), user("on")]), turns([result(A)])),
    ]
}

fn call_cases() -> Vec<Case> {
    let with_id = |id: &str| turns([user("go"), calls([call(id)]), result(id)]);
    let named = |name: &str| looping(json!({"name": name, "arguments": "{}"}));
    let given = |arguments: Value| looping(json!({"name": "look", "arguments": arguments}));
    let answering = |name: Value| {
        let mut body = with_id(A);
        body["messages"][2]["name"] = name;
        body
    };
    let mut undefined = with_id(A);
    undefined["messages"][1]["tool_calls"][0].as_object_mut().unwrap().remove("id");
    undefined["messages"][2]["tool_call_id"] = Value::Null;
    let many: Vec<String> = (0..300).map(|k| format!("call{k:05}")).collect();
    let many = turns(
        [user("go"), calls(many.iter().map(|id| call(id)).collect::<Vec<_>>())]
            .into_iter()
            .chain(many.iter().map(|id| result(id))),
    );
    let two = ["MIS-05", "MIS-05"].to_vec();
    vec![
        (two.clone(), with_id("aB3456789"), with_id("a_3456789")),
        (two.clone(), with_id("123456789"), with_id("12345678")),
        (two.clone(), many, with_id("1234567890")),
        (two.clone(), with_id(A), with_id("ü2345678")),
        (two.clone(), with_id(A), with_id("12345678\n")),
        (two.clone(), with_id(A), with_id("")),
        (two, with_id(A), undefined),
        (vec!["MIS-09"], named("read_file-2"), named("read.file")),
        (vec!["MIS-09"], named(&"n".repeat(64)), named(&"n".repeat(65))),
        (vec!["MIS-09"], named("n"), named("")),
        (vec!["MIS-09"], answering(json!("look")), answering(json!("lo ok"))),
        (vec!["MIS-schema"], answering(Value::Null), answering(json!(1))),
        (vec!["MIS-schema"], given(json!("{\"a\":")), given(Value::Null)),
        (vec!["MIS-schema"], given(json!({"a": 1})), given(json!([1]))),
        (vec!["MIS-schema"], given(json!("")), looping(json!({"name": "look"}))),
        (vec!["MIS-schema"], named("look"), looping(json!({"arguments": "{}"}))),
    ]
}

fn content_cases() -> Vec<Case> {
    let by = |role: &str, content: Value| turns([json!({"role": role, "content": content}), user("on")]);
    let silent = |fields: Value| turns([user("go"), fields, user("on")]);
    let answered = |content: Value| {
        turns([user("go"), calls([call(A)]), json!({"role": "tool", "tool_call_id": A, "content": content})])
    };
    let said = json!({"role": "assistant", "content": "so", "tool_calls": [call(A)]});
    vec![
        (vec!["MIS-08"], by("assistant", json!(" ")), by("assistant", json!(""))),
        (vec!["MIS-08"], by("assistant", json!([text("")])), by("assistant", json!([]))),
        (
            vec!["MIS-08"],
            silent(json!({"role": "assistant", "content": "so", "tool_calls": []})),
            silent(json!({"role": "assistant", "tool_calls": []})),
        ),
        (
            vec!["MIS-08"],
            turns([user("go"), said, result(A)]),
            silent(json!({"role": "assistant", "content": null, "tool_calls": null})),
        ),
        (vec!["MIS-schema"], by("user", json!("")), by("user", Value::Null)),
        (vec!["MIS-schema"], by("user", json!([text("")])), by("user", json!([]))),
        (vec!["MIS-schema"], by("system", json!("")), by("system", Value::Null)),
        (vec!["MIS-schema"], by("system", json!([text("hm")])), by("system", json!([]))),
        (vec!["MIS-schema"], answered(json!("")), answered(Value::Null)),
        (vec!["MIS-schema"], answered(json!([])), answered(json!({}))),
        (vec!["MIS-schema"], by("user", json!("go")), turns([json!({"role": "user"})])),
        (vec!["MIS-09"], by("user", json!("go")), by("developer", json!("go"))),
        (vec!["MIS-09"], by("user", json!("go")), turns([json!({"content": "go"})])),
    ]
}

fn chunk_cases() -> Vec<Case> {
    let schema = || vec!["MIS-schema"];
    let by = |role: &str, chunk: &Value| turns([json!({"role": role, "content": [chunk]}), user("on")]);
    let shows = |chunk: Value| by("user", &chunk);
    let thinks = |thinking: Value| by("assistant", &json!({"type": "thinking", "thinking": thinking}));
    let answered = |chunk: &Value| {
        turns([user("go"), calls([call(A)]), json!({"role": "tool", "tool_call_id": A, "content": [chunk]})])
    };
    let image = json!({"type": "image_url", "image_url": "https://example.org/a.png"});
    let document =
        json!({"type": "document_url", "document_url": "https://example.org/a.pdf", "document_name": "a"});
    let reference = json!({"type": "reference", "reference_ids": [1, "b"]});
    vec![
        (schema(), by("user", &image), by("assistant", &image)),
        (schema(), by("user", &image), by("system", &image)),
        (schema(), answered(&text("fine")), answered(&image)),
        (schema(), by("user", &document), answered(&document)),
        (schema(), answered(&reference), by("system", &reference)),
        (
            schema(),
            by("assistant", &reference),
            shows(json!({"type": "reference", "reference_ids": [1, null]})),
        ),
        (
            schema(),
            shows(
                json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}),
            ),
            shows(json!({"type": "image_url", "image_url": {"url": ""}})),
        ),
        (
            schema(),
            by("user", &image),
            shows(json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "size": 1}})),
        ),
        (vec!["SAN-09"], by("user", &image), shows(json!({"type": "image_url", "image_url": "a.png"}))),
        (
            vec!["SAN-09"],
            shows(json!({"type": "image_url", "image_url": "data:image/png;base64,iVBORw0KGgo="})),
            shows(json!({"type": "image_url", "image_url": "data:image/png;base64,aGVsbG8="})),
        ),
        (
            vec!["SAN-09"],
            by("user", &document),
            shows(json!({"type": "document_url", "document_url": "data:application/pdf;base64,"})),
        ),
        (schema(), by("user", &document), shows(json!({"type": "document_url", "document_url": ""}))),
        (schema(), shows(json!({"type": "file", "file_id": "f"})), shows(json!({"type": "file"}))),
        (
            schema(),
            shows(json!({"type": "input_audio", "input_audio": {"data": "AAAA"}})),
            shows(json!({"type": "input_audio", "input_audio": {}})),
        ),
        (
            schema(),
            shows(json!({"type": "input_audio", "input_audio": "AAAA"})),
            shows(json!({"type": "input_text", "text": "hi"})),
        ),
        (schema(), shows(text("")), shows(json!({"type": "text"}))),
        (schema(), shows(text("hi")), shows(json!({"type": "text", "text": "hi", "cache_control": {}}))),
        (schema(), shows(text("hi")), shows(json!("hi"))),
        (schema(), shows(text("hi")), shows(json!({"text": "hi"}))),
        (schema(), thinks(json!([text("hm"), reference])), thinks(json!("hm"))),
        (schema(), thinks(json!([])), thinks(json!([{"type": "thinking", "thinking": []}]))),
        (schema(), thinks(json!([])), shows(json!({"type": "thinking", "thinking": [text("hm")]}))),
        (
            schema(),
            by("system", &json!({"type": "thinking", "thinking": [], "closed": true})),
            by("system", &json!({"type": "thinking", "thinking": [], "closed": "yes"})),
        ),
        (
            schema(),
            thinks(json!([])),
            by("assistant", &json!({"type": "thinking", "thinking": [], "signature": "s"})),
        ),
    ]
}

fn setting_cases() -> Vec<Case> {
    let with = |field: &str, value: Value| json!({field: value, "messages": [user("go")]});
    let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
    let declared = |function: Value| with("tools", json!([{"function": function}]));
    let chosen = |choice: Value| {
        let mut body = with("tools", json!([function("n")]));
        body["tool_choice"] = choice;
        body
    };
    let schema = || vec!["MIS-schema"];
    vec![
        (vec!["MIS-09"], with("tools", json!([function("n-1")])), with("tools", json!([function("n.1")]))),
        (schema(), with("tools", json!([])), with("tools", json!({}))),
        (schema(), with("tools", Value::Null), with("tools", json!([{"type": "function", "name": "n"}]))),
        (
            schema(),
            with("tools", json!([function("n")])),
            with("tools", json!([{"type": "custom", "function": {}}])),
        ),
        (schema(), declared(json!({"name": "n", "parameters": {}})), declared(json!({"name": "n"}))),
        (
            schema(),
            declared(json!({"name": "n", "parameters": {}, "description": ""})),
            declared(json!({"name": "n", "parameters": {}, "description": null})),
        ),
        (schema(), declared(json!({"name": "n", "parameters": {}})), declared(json!({"parameters": {}}))),
        (schema(), chosen(json!("any")), chosen(json!("every"))),
        (schema(), chosen(Value::Null), chosen(json!(true))),
        (schema(), chosen(function("n")), chosen(function("m"))),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["MIS-schema"];
    let good = || turns([user("go")]);
    let with = |role: &str, field: &str, value: Value| {
        let mut message = json!({"role": role, "content": "hi"});
        message[field] = value;
        turns([message, user("on")])
    };
    let calling = |field: &str, value: Value| {
        let mut body = looping(json!({"name": "look", "arguments": "{}"}));
        body["messages"][1]["tool_calls"][0][field] = value;
        body
    };
    let mut numbered = calling("index", json!(0));
    numbered["messages"][2]["tool_call_id"] = json!(7);
    vec![
        (schema(), good(), json!([])),
        (schema(), good(), json!({})),
        (schema(), good(), json!({"messages": null})),
        (schema(), good(), turns([json!("go")])),
        (schema(), good(), with("user", "name", json!("ada"))),
        (schema(), good(), with("assistant", "name", json!("ada"))),
        (schema(), good(), with("user", "tool_calls", Value::Null)),
        (schema(), good(), with("assistant", "reasoning_content", json!("hm"))),
        (schema(), good(), with("assistant", "tool_call_id", json!(A))),
        (schema(), with("assistant", "prefix", json!(false)), with("assistant", "prefix", json!("no"))),
        (schema(), with("assistant", "tool_calls", json!([])), with("assistant", "tool_calls", json!({}))),
        (schema(), calling("index", json!(0)), calling("index", json!("0"))),
        (schema(), calling("type", json!("function")), calling("type", Value::Null)),
        (schema(), calling("index", json!(1)), calling("extra_content", json!({}))),
        (schema(), good(), looping(json!({"name": "look", "arguments": "{}", "strict": true}))),
        (schema(), good(), calling("function", json!("look"))),
        (vec!["MIS-01", "MIS-schema"], good(), numbered),
    ]
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let body = turns([user("go"), calls([call("call_1")]), user("so?"), json!({"role": "tool"}), says("ok")]);
    let told = SUITE.reported(&body);
    let expect = [
        "MIS-05 at messages.1.tool_calls.0.id: Tool call id was call_1 but must be a-z, A-Z, 0-9, with a \
         length of 9.",
        "MIS-01 at messages.1: Not the same number of function calls and responses",
        "MIS-schema at messages.3.content: messages.3.content: Field required",
        "MIS-05 at messages.3.tool_call_id: Tool call id has to be defined.",
        "MIS-02 at messages.3: Unexpected role 'tool' after role 'user'",
        "MIS-07 at messages.4: Expected last role User or Tool (or Assistant with prefix True) for serving \
         but got assistant",
    ];
    assert_eq!(told, expect);
}

const A: &str = "aaaaaaaa1";
const B: &str = "bbbbbbbb2";

fn turns(messages: impl IntoIterator<Item = Value>) -> Value {
    SUITE.request(messages)
}

/// One call of this function, answered.
fn looping(function: Value) -> Value {
    turns([user("go"), calls([json!({"id": A, "type": "function", "function": function})]), result(A)])
}

fn system(content: &str) -> Value {
    json!({"role": "system", "content": content})
}

fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

fn says(content: &str) -> Value {
    json!({"role": "assistant", "content": content})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn calls(calls: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls.into()})
}

fn call(id: &str) -> Value {
    json!({"id": id, "function": {"name": "look", "arguments": "{}"}})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "fine"})
}
