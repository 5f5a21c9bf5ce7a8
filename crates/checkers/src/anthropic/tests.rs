//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance};

const SUITE: Suite = Suite {
    dialect: "anthropic",
    list: "messages",
    fixtures: 24,
    rules: "ANT-01 ANT-02 ANT-03 ANT-04 ANT-05 ANT-06 ANT-07 ANT-08 ANT-09 ANT-10 ANT-11 ANT-12 ANT-13 ANT-14 \
            ANT-16 ANT-17 ANT-18 ANT-20 ANT-22 ANT-23 ANT-24 ANT-25 ANT-26 ANT-27 ANT-28 ANT-29 ANT-30 \
            ANT-schema SAN-02 SAN-07",
    // These have separate tests.
    elsewhere: &["ANT-28", "ANT-30", "SAN-02", "SAN-07"],
    holder: r#"{"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{"a":@}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"fine"}]}]}"#,
    levels: 994,
};

conformance! { SUITE:
    pairing_cases id_and_name_cases text_cases edge_and_role_cases thinking_cases
    media_and_mark_cases server_tool_cases schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = turns([user("go"), says([call("a"), call("b")]), user([result("b"), result("a")])]);
    let twice = |id: &str| {
        let first = [user("go"), says([call("a")]), user([result("a")])];
        turns(first.into_iter().chain([says([call(id)]), user([result(id)])]))
    };
    let half = turns([user("go"), says([call("a"), call("b")]), user([result("a")])]);
    vec![
        (vec!["ANT-01"], answered.clone(), half),
        // the very next message, even if the API would merge neighbours
        (
            vec!["ANT-01", "ANT-02"],
            turns([user("go"), says([call("a")]), user([result("a")]), user("so?")]),
            turns([user("go"), says([call("a")]), user("so?"), user([result("a")])]),
        ),
        (vec!["ANT-02"], turns([user("go"), user("on")]), turns([user("go"), user([result("a")])])),
        (
            vec!["ANT-03"],
            turns([user("go"), says([call("a")]), user([result("a"), text("so?")])]),
            turns([user("go"), says([call("a")]), user([text("so?"), result("a")])]),
        ),
        (
            vec!["ANT-03"],
            answered.clone(),
            turns([user("go"), says([call("a"), call("b")]), user([result("a"), text("so?"), result("b")])]),
        ),
        (vec!["ANT-04"], answered, turns([user("go"), says([call("a")]), user([result("a"), result("a")])])),
        (vec!["ANT-05"], twice("b"), twice("a")),
        (vec!["ANT-09"], turns([user("go")]), without_tools(looping(json!({}), "fine"), &Value::Null)),
        (vec!["ANT-09"], looping(json!({}), "fine"), without_tools(looping(json!({}), "fine"), &json!([]))),
    ]
}

fn id_and_name_cases() -> Vec<Case> {
    let with_id = |id: &str| turns([user("go"), says([call(id)]), user([result(id)])]);
    let named = |name: &str| {
        let call = json!({"type": "tool_use", "id": "a", "name": name, "input": {}});
        turns([user("go"), says([call]), user([result("a")])])
    };
    let declared = |name: &str| {
        let tool = json!({"name": name, "input_schema": {"type": "object"}});
        json!({"tools": [tool], "messages": [user("go")]})
    };
    let refers = |name: &str| looping(json!({}), json!([{"type": "tool_reference", "tool_name": name}]));
    vec![
        (vec!["ANT-06", "ANT-06"], with_id("toolu_01-x"), with_id("functions.x:0")),
        (vec!["ANT-06", "ANT-06"], with_id(&"x".repeat(80)), with_id("")),
        (vec!["ANT-06", "ANT-06"], with_id("x"), with_id("x\n")),
        (vec!["ANT-07"], looping(json!({}), "fine"), looping(json!("{\"a\":"), "fine")),
        (vec!["ANT-07"], looping(json!({"a": [1]}), "fine"), looping(json!([1]), "fine")),
        (vec!["ANT-07"], looping(json!({"a": null}), "fine"), looping(Value::Null, "fine")),
        (vec!["ANT-08"], named("read_file"), named("read.file")),
        (vec!["ANT-08"], named(&"n".repeat(128)), named(&"n".repeat(129))),
        (vec!["ANT-08"], declared(&"n".repeat(128)), declared(&"n".repeat(129))),
        (vec!["ANT-08"], declared("n"), declared("")),
        (vec!["ANT-08"], refers(&"n".repeat(64)), refers(&"n".repeat(65))),
    ]
}

fn text_cases() -> Vec<Case> {
    let with_system = |system: Value| json!({"system": system, "messages": [user("go")]});
    vec![
        (vec!["ANT-10"], turns([user([text("go")])]), turns([user([text("go"), text("")])])),
        (vec!["ANT-10"], turns([user(" go ")]), turns([user(" \n\t\u{a0}\u{2003}")])),
        (vec!["ANT-10"], turns([user("\u{200b}")]), turns([user("\u{1f}")])),
        (
            vec!["ANT-10"],
            turns([user("go"), says("ok"), user("on")]),
            turns([user("go"), says(" "), user("on")]),
        ),
        (vec!["ANT-10"], looping(json!({}), json!([text("fine")])), looping(json!({}), json!([text(" ")]))),
        (vec!["ANT-10"], looping(json!({}), "fine"), looping(json!({}), "")),
        (vec!["ANT-10"], looping(json!({}), "fine"), looping(json!({}), json!([]))),
        (vec!["ANT-10"], with_system(json!("")), with_system(json!(" "))),
        (vec!["ANT-10"], with_system(json!([text("be brief")])), with_system(json!([text("")]))),
        (vec!["ANT-11"], turns([user("go")]), turns([user("")])),
        (vec!["ANT-11"], turns([user("go")]), turns([user(json!([]))])),
        (
            vec!["ANT-11"],
            turns([user("go"), says("ok"), user("on")]),
            turns([user("go"), says(""), user("on")]),
        ),
    ]
}

fn edge_and_role_cases() -> Vec<Case> {
    let by = |role: &str| turns([user("go"), json!({"role": role, "content": "hm"}), user("on")]);
    vec![
        (vec!["ANT-12"], turns([user("go")]), json!({"messages": []})),
        (vec!["ANT-12"], turns([user("go"), says("hi"), user("go")]), turns([says("hi"), user("go")])),
        (vec!["ANT-14"], turns([user("go"), says("hi"), user("on")]), turns([user("go"), says("hi")])),
        (vec!["ANT-01", "ANT-14"], looping(json!({}), "fine"), turns([user("go"), says([call("a")])])),
        (
            vec!["ANT-13", "ANT-14"],
            turns([user("go"), says("hi "), user("on")]),
            turns([user("go"), says("hi\n")]),
        ),
        (
            vec!["ANT-13", "ANT-14"],
            turns([user("go"), says([text("hi ")]), user("on")]),
            turns([user("go"), says([text("so"), text("hi ")])]),
        ),
        (vec!["ANT-16"], by("assistant"), by("system")),
        (vec!["ANT-17"], by("user"), by("developer")),
        (vec!["ANT-17"], by("user"), by("tool")),
        (vec!["ANT-12", "ANT-17"], turns([user("go")]), turns([json!({"content": "go"})])),
    ]
}

fn thinking_cases() -> Vec<Case> {
    let on = |mut body: Value| {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        body
    };
    let redacted = json!({"type": "redacted_thinking", "data": "c2VhbGVk"});
    let thinks = |signature: Value| {
        let thinking = json!({"type": "thinking", "thinking": "", "signature": signature});
        turns([user("go"), says([thinking, text("hi")]), user("on")])
    };
    let unsigned = json!({"type": "thinking", "thinking": "hm"});
    let long_loop = |first: Value| {
        let opened =
            [user("go"), says([first, call("a")]), user([result("a")]), says([text("so"), call("b")])];
        on(turns(opened.into_iter().chain([user([result("b")])])))
    };
    let chosen = |choice: Value| {
        let mut body = on(turns([user("go")]));
        body["tool_choice"] = choice;
        body
    };
    let last = |block: Value| turns([user("go"), says([block, text("hi")])]);
    vec![
        (vec!["ANT-18"], long_loop(signed()), long_loop(text("hm"))),
        (vec!["ANT-18"], long_loop(redacted.clone()), on(looping(json!({}), "fine"))),
        // an answer ends the loop, a user's text does not
        (
            vec!["ANT-18"],
            on(turns([user("go"), says([call("a")]), user([result("a")]), says([text("done")]), user("on")])),
            on(turns([user("go"), says([call("a")]), user([result("a"), text("on")])])),
        ),
        (vec!["ANT-20"], thinks(json!("c2ln")), thinks(json!(""))),
        (vec!["ANT-20"], thinks(json!("c2ln")), turns([user("go"), says([unsigned]), user("on")])),
        (vec!["ANT-14", "ANT-22"], turns([user("go"), says([signed()]), user("on")]), last(signed())),
        (vec!["ANT-14", "ANT-22"], turns([user("go"), says([redacted.clone()]), user("on")]), last(redacted)),
        (vec!["ANT-14"], turns([user("go")]), on(last(signed()))),
        (vec!["ANT-23"], chosen(json!({"type": "auto"})), chosen(json!({"type": "any"}))),
        (vec!["ANT-23"], chosen(json!({"type": "none"})), chosen(json!({"type": "tool", "name": "look"}))),
    ]
}

fn media_and_mark_cases() -> Vec<Case> {
    let image = |source: Value| json!({"type": "image", "source": source});
    let document = |source: Value| json!({"type": "document", "source": source});
    let shows = |block: Value| turns([user([text("see"), block])]);
    let png = |data: &str| image(json!({"type": "base64", "media_type": "image/png", "data": data}));
    let typed =
        |kind: &str, data: &str| shows(image(json!({"type": "base64", "media_type": kind, "data": data})));
    let paper =
        |kind: &str, data: &str| shows(document(json!({"type": "base64", "media_type": kind, "data": data})));
    let failing = |block: Value| {
        let mut body = looping(json!({}), json!([block]));
        body["messages"][2]["content"][0]["is_error"] = json!(true);
        body
    };
    let mark = json!({"type": "ephemeral"});
    let marked = |count: usize| {
        let mut body = looping(json!({}), json!([text("fine")]));
        body["system"] = json!([text("be brief")]);
        let places = ["/system/0", "/tools/0", "/messages/1/content/0", "/messages/2/content/0/content/0"];
        for place in places.into_iter().chain(["/messages/2/content/0"]).take(count) {
            body.pointer_mut(place).unwrap()["cache_control"] = mark.clone();
        }
        body
    };
    let marked_text =
        |words: &str| json!({"type": "text", "text": words, "cache_control": {"type": "ephemeral"}});
    let empty_file = json!({"type": "file"});
    let of_blocks = |block: Value| document(json!({"type": "content", "content": [block]}));
    vec![
        (vec!["ANT-24"], failing(text("no such page")), failing(png("iVBORw0KGgo="))),
        (vec!["ANT-24"], looping(json!({}), json!([png("iVBORw0KGgo=")])), failing(of_blocks(text("a")))),
        (vec!["ANT-25"], shows(png("iVBORw0KGgo=")), shows(png(""))),
        (vec!["ANT-25"], shows(png("iVBORw0KGgo=")), shows(png("iVBORw0KGgo"))),
        (vec!["ANT-25"], shows(png("iVBORw0KGgo=")), shows(png("not base64"))),
        (vec!["ANT-25"], shows(png("iVBORw0KGgo=")), shows(png("/9j/4AA="))),
        (vec!["ANT-25"], typed("image/jpeg", "/9j/4AA="), typed("image/jpg", "/9j/4AA=")),
        (vec!["ANT-25"], typed("image/gif", "R0lGODlhAQ=="), typed("image/bmp", "Qk0AAA==")),
        (vec!["ANT-25"], paper("application/pdf", "JVBERi0="), paper("application/pdf", "aGVsbG8=")),
        (vec!["ANT-25"], paper("application/pdf", "JVBERi0="), paper("text/plain", "aGVsbG8=")),
        (
            vec!["ANT-25"],
            shows(document(json!({"type": "url", "url": "https://example.org/a.pdf"}))),
            shows(document(json!({"type": "url", "url": "./a.pdf"}))),
        ),
        (
            vec!["ANT-25"],
            looping(json!({}), json!([png("iVBORw0KGgo=")])),
            looping(json!({}), json!([png("")])),
        ),
        (
            vec!["ANT-25"],
            shows(image(json!({"type": "url", "url": "https://example.org/a.png"}))),
            shows(image(json!({"type": "url", "url": ""}))),
        ),
        (vec!["ANT-25"], shows(image(json!({"type": "file", "file_id": "f"}))), shows(image(empty_file))),
        (vec!["ANT-25"], shows(of_blocks(png("iVBORw0KGgo="))), shows(of_blocks(png("")))),
        (
            vec!["ANT-25"],
            shows(document(json!({"type": "text", "media_type": "text/plain", "data": "a"}))),
            shows(image(json!({"type": "text", "media_type": "text/plain", "data": "a"}))),
        ),
        (vec!["ANT-26"], marked(4), marked(5)),
        (vec!["ANT-10", "ANT-26"], turns([user([marked_text("go")])]), turns([user([marked_text("")])])),
    ]
}

fn server_tool_cases() -> Vec<Case> {
    let search = |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let found = |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let asks = json!({"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "s", "input": {}});
    let told = json!({"type": "mcp_tool_result", "tool_use_id": "m", "content": "x"});
    let said = |blocks: &[&Value]| turns([user("go"), says(json!(blocks)), user("on")]);
    let (one, two) = (search("srvtoolu_1"), search("srvtoolu_2"));
    let (one_found, two_found) = (found("srvtoolu_1"), found("srvtoolu_2"));
    let apart = turns([user("go"), says([one.clone()]), says([one_found.clone()]), user("on")]);
    vec![
        (vec!["ANT-27"], said(&[&one, &one_found]), said(&[&one, &one_found, &two_found])),
        (vec!["ANT-27", "ANT-27"], said(&[&one, &two, &one_found, &two_found]), said(&[&one_found, &one])),
        (vec!["ANT-27", "ANT-27"], said(&[&one, &text("so"), &one_found]), apart),
        (vec!["ANT-27"], said(&[&asks, &told]), said(&[&told])),
        (vec!["ANT-27"], said(&[&asks, &told, &one, &one_found]), said(&[&asks])),
        (vec!["ANT-06", "ANT-06"], said(&[&one, &one_found]), said(&[&search("toolu_1"), &found("toolu_1")])),
        (vec!["ANT-05"], said(&[&one, &one_found]), said(&[&one, &one_found, &one, &one_found])),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["ANT-schema"];
    let good = || turns([user("go")]);
    let with = |field: &str, value: Value| {
        let mut body = good();
        body[field] = value;
        body
    };
    let found = json!({"type": "search_result", "source": "s", "title": "t", "content": [text("a")]});
    let mut titled = looping(json!({}), json!([found]));
    let kept = titled.clone();
    titled["messages"][2]["content"][0]["content"][0]["title"] = Value::Null;
    let paper = |field: &str, value: Value| {
        let source = json!({"type": "text", "media_type": "text/plain", "data": "a"});
        let mut block = json!({"type": "document", "source": source, "title": null});
        block[field] = value;
        turns([user([block])])
    };
    vec![
        (schema(), paper("title", json!("t")), paper("title", json!(["t"]))),
        (schema(), paper("context", json!("c")), paper("context", json!(1))),
        (schema(), paper("citations", json!({"enabled": true})), paper("citations", json!([]))),
        (schema(), paper("citations", Value::Null), paper("name", json!("n"))),
        (schema(), good(), turns([user([json!({"type": "text", "text": "go", "citations": {}})])])),
        (schema(), good(), json!([])),
        (schema(), good(), json!({})),
        (schema(), good(), json!({"messages": {}})),
        (schema(), good(), turns([user("go"), json!("go")])),
        (vec!["ANT-29"], good(), turns([json!({"role": "user", "content": "go", "name": "ada"})])),
        (schema(), good(), turns([json!({"role": "user"})])),
        (schema(), good(), turns([user(Value::Null)])),
        (schema(), good(), turns([user(["go"])])),
        (schema(), good(), turns([user([json!({"text": "go"})])])),
        (schema(), good(), turns([user([json!({"type": "input_text", "text": "go"})])])),
        (schema(), good(), turns([user([json!({"type": "text"})])])),
        (schema(), good(), turns([user([json!({"type": "text", "text": "go", "index": 0})])])),
        (schema(), turns([user("go"), says([signed()]), user("on")]), turns([user([signed()])])),
        (schema(), good(), turns([user("go"), says([result("a")]), user("on")])),
        (schema(), good(), turns([user("go"), user([call("a")])])),
        (schema(), good(), looping(json!({}), json!([result("a")]))),
        (schema(), good(), looping(json!({}), Value::Null)),
        (schema(), kept, titled),
        (schema(), with("system", json!([])), with("system", Value::Null)),
        (schema(), with("tools", Value::Null), with("tools", json!({}))),
        (schema(), with("tools", json!([])), with("tools", json!([{"name": "look"}]))),
        (
            schema(),
            with("tools", json!([{"type": "bash_20250124", "name": "bash"}])),
            with("tools", json!([{"type": "custom", "name": "bash", "input_schema": {}}])),
        ),
        (schema(), good(), with("tools", json!([good()["tools"][0], good()["tools"][0]]))),
        (schema(), with("thinking", json!({"type": "disabled"})), with("thinking", json!({"type": "on"}))),
        (
            schema(),
            with("tool_choice", json!({"type": "tool", "name": "look"})),
            with("tool_choice", json!({"type": "tool", "name": "peek"})),
        ),
        (schema(), with("tool_choice", json!({"type": "none"})), with("tool_choice", json!("none"))),
        (
            schema(),
            with("tool_choice", json!({"type": "auto"})),
            json!({"tool_choice": {"type": "auto"}, "messages": [user("go")]}),
        ),
    ]
}

#[test]
fn a_body_past_the_size_limits_is_refused() {
    let body = |length: usize| turns([user("x".repeat(length))]);
    SUITE.limits(MAX_BODY_BYTES - body(0).to_string().len(), "ANT-28", body);
    SUITE.limits(MAX_MESSAGES, "ANT-28", |count| turns((0..count).map(|_| user("go"))));
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let body = turns([user("go"), says([call("a"), call("b")]), user([text(""), result("c")])]);
    let told = SUITE.reported(&body);
    let expect = [
        "ANT-01 at messages.1: messages.1: `tool_use` ids were found without `tool_result` blocks \
         immediately after: a, b. Each `tool_use` block must have a corresponding `tool_result` block in \
         the next message.",
        "ANT-10 at messages.2.content.0: messages: text content blocks must be non-empty",
        "ANT-02 at messages.2.content.1: messages.2.content.1: unexpected `tool_use_id` found in \
         `tool_result` blocks: c. Each `tool_result` block must have a corresponding `tool_use` block in \
         the previous message.",
    ];
    assert_eq!(told, expect);
}

fn turns(messages: impl IntoIterator<Item = Value>) -> Value {
    let messages: Vec<Value> = messages.into_iter().collect();
    json!({"tools": [{"name": "look", "input_schema": {"type": "object"}}], "messages": messages})
}

/// One call with this input, answered by this content.
fn looping(input: Value, content: impl Into<Value>) -> Value {
    let call = json!({"type": "tool_use", "id": "a", "name": "look", "input": input});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": content.into()});
    turns([user("go"), says([call]), user([result])])
}

fn without_tools(mut body: Value, tools: &Value) -> Value {
    body["tools"] = tools.clone();
    body
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn says(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "look", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "fine"})
}

fn signed() -> Value {
    json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
}
