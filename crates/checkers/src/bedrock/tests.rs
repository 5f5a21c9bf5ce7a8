//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance};

const SUITE: Suite = Suite {
    dialect: "bedrock",
    list: "messages",
    fixtures: 24,
    rules: "BED-01 BED-02 BED-03 BED-04 BED-05 BED-06 BED-07 BED-08 BED-09 BED-10 BED-11 BED-schema SAN-02 \
            SAN-07 SAN-09",
    // These bodies are too odd for the table.
    elsewhere: &["SAN-02", "SAN-07"],
    holder: r#"{"additionalModelRequestFields":{"a":@},"messages":[{"role":"user","content":[{"text":"go"}]}]}"#,
    levels: 998,
};

conformance! { SUITE:
    pairing_cases edge_and_role_cases id_and_name_cases input_and_reasoning_cases text_cases
    media_cases document_cases setting_cases schema_cases
}

fn pairing_cases() -> Vec<Case> {
    let answered = turns([user("go"), says([call("a"), call("b")]), user([result("b"), result("a")])]);
    let so = || text("so?");
    let twice = |id: &str| {
        let again = [says("ok"), user("again"), says([call(id)]), user([result(id)])];
        turns([user("go"), says([call("a")]), user([result("a")])].into_iter().chain(again))
    };
    vec![
        (
            vec!["BED-01"],
            answered.clone(),
            turns([user("go"), says([call("a"), call("b")]), user([result("a")])]),
        ),
        (
            vec!["BED-01"],
            turns([user("go"), says([call("a")]), user([result("a"), so()])]),
            turns([user("go"), says([call("a")]), user([so()])]),
        ),
        // results first
        (
            vec!["BED-01"],
            turns([user("go"), says([call("a")]), user([result("a"), so()])]),
            turns([user("go"), says([call("a")]), user([so(), result("a")])]),
        ),
        (
            vec!["BED-01"],
            turns([user("go"), says([call("a"), call("b")]), user([result("a"), result("b"), mark()])]),
            turns([user("go"), says([call("a"), call("b")]), user([result("a"), mark(), result("b")])]),
        ),
        // the very next message
        (
            vec!["BED-01", "BED-02"],
            turns([user("go"), says([call("a")]), user([result("a")]), says("ok"), user("on")]),
            turns([user("go"), says([call("a")]), user("on"), says("ok"), user([result("a")])]),
        ),
        (vec!["BED-02"], turns([user("go")]), turns([user([result("a")])])),
        (
            vec!["BED-02"],
            answered.clone(),
            turns([user("go"), says([call("a")]), user([result("a"), result("b")])]),
        ),
        (
            vec!["BED-02"],
            answered.clone(),
            turns([user("go"), says([call("a")]), user([result("a"), result("a")])]),
        ),
        (
            vec!["BED-01", "BED-02"],
            answered.clone(),
            turns([user("go"), says([call("a")]), user([result("b")])]),
        ),
        (vec!["BED-03"], answered, turns([user("go"), says([call("a"), call("a")]), user([result("a")])])),
        // an id may be used again in the next turn
        (
            vec!["BED-01"],
            twice("a"),
            turns([user("go"), says("hm"), user("go"), says([call("a")]), user("on")]),
        ),
    ]
}

fn edge_and_role_cases() -> Vec<Case> {
    let by = |role: &str| json!({"role": role, "content": [text("hm")]});
    let kept = || turns([user("go"), says("ok"), user("on")]);
    vec![
        (vec!["BED-04"], kept(), turns([user("go"), user("on")])),
        (vec!["BED-04"], kept(), turns([user("go"), says("ok"), says("so"), user("on")])),
        (vec!["BED-04"], kept(), turns([user("go"), says("ok"), by("system"), user("on")])),
        (vec!["BED-05"], kept(), turns([])),
        (vec!["BED-05"], kept(), turns([says("ok"), user("on")])),
        (vec!["BED-05"], kept(), turns([user("go"), says("ok")])),
        (vec!["BED-05", "BED-05"], kept(), turns([says("ok")])),
        (vec!["BED-05", "BED-04"], kept(), turns([by("system"), user("on")])),
        (vec!["BED-01", "BED-05"], kept(), turns([user("go"), says([call("a")])])),
        (vec!["BED-schema"], kept(), turns([user("go"), by("tool"), user("on")])),
        (vec!["BED-schema"], kept(), turns([user("go"), json!({"content": [text("hm")]}), user("on")])),
    ]
}

fn id_and_name_cases() -> Vec<Case> {
    let with_id = |id: &str| turns([user("go"), says([call(id)]), user([result(id)])]);
    let named = |name: &str| {
        let call = json!({"toolUse": {"toolUseId": "a", "name": name, "input": {}}});
        turns([user("go"), says([call]), user([result("a")])])
    };
    let declared = |name: &str| {
        let tool = json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}});
        json!({"toolConfig": {"tools": [tool]}, "messages": [user("go")]})
    };
    vec![
        (vec!["BED-07", "BED-07"], with_id("functions.x:0-1_a"), with_id("functions/x")),
        (vec!["BED-07", "BED-07"], with_id(&"x".repeat(64)), with_id(&"x".repeat(65))),
        (vec!["BED-07", "BED-07"], with_id("x"), with_id("")),
        (vec!["BED-07", "BED-07"], with_id("x"), with_id("x\n")),
        (vec!["BED-07"], named("read_file-2"), named("read.file")),
        (vec!["BED-07"], named(&"n".repeat(64)), named(&"n".repeat(65))),
        (vec!["BED-07"], named("n"), named("")),
        (vec!["BED-07"], declared(&"n".repeat(64)), declared(&"n".repeat(65))),
        (vec!["BED-07"], declared("n"), declared("ü")),
    ]
}

fn input_and_reasoning_cases() -> Vec<Case> {
    let nested = |depth: usize| {
        let input = (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        looping(input, json!([text("fine")]))
    };
    let given = |input: Value| looping(input, json!([text("fine")]));
    let mut without = given(json!({}));
    without["messages"][1]["content"][0]["toolUse"].as_object_mut().unwrap().remove("input");
    let thinks = |content: Value| {
        turns([user("go"), says([json!({"reasoningContent": content}), text("ok")]), user("on")])
    };
    let thought = |thought: Value| thinks(json!({"reasoningText": thought}));
    let signed = || thought(json!({"text": "hm", "signature": "c2ln"}));
    let sealed = |data: Value| thinks(json!({"redactedContent": data}));
    vec![
        (vec!["BED-08"], given(json!({})), given(json!("{\"a\":"))),
        (vec!["BED-08"], given(json!({"a": [1]})), given(json!([1]))),
        (vec!["BED-08"], given(json!({"a": null})), given(Value::Null)),
        (vec!["BED-08"], given(json!({})), without),
        (vec!["BED-08"], nested(128), nested(129)),
        (vec!["BED-10"], signed(), thought(json!({"text": "hm"}))),
        (
            vec!["BED-10"],
            thought(json!({"text": "", "signature": "c2ln"})),
            thought(json!({"text": "", "signature": ""})),
        ),
        (vec!["BED-10"], signed(), thought(json!({"text": "hm", "signature": null}))),
        (vec!["BED-schema"], signed(), thought(json!({"signature": "c2ln"}))),
        (vec!["BED-schema"], sealed(json!("c2Vh")), sealed(json!(""))),
        (vec!["BED-schema"], sealed(json!("c2U=")), sealed(json!("c2U"))),
        (vec!["BED-schema"], signed(), thinks(json!({}))),
        (
            vec!["BED-schema"],
            signed(),
            turns([user([json!({"reasoningContent": {"redactedContent": "c2Vh"}}), text("go")])]),
        ),
    ]
}

fn text_cases() -> Vec<Case> {
    let with_system = |words: &str| json!({"system": [text(words), mark()], "messages": [user("go")]});
    let answered = |content: Value| looping(json!({}), content);
    let guarded = |words: &str| turns([user([json!({"guardContent": {"text": {"text": words}}})])]);
    let cited = |words: &str| {
        let block = json!({"citationsContent": {"content": [text(words)], "citations": []}});
        turns([user("go"), says([block]), user("on")])
    };
    vec![
        (vec!["BED-09"], turns([user("go")]), turns([user("")])),
        (vec!["BED-09"], turns([user(" go ")]), turns([user(" \n\t\u{a0}\u{2003}")])),
        (vec!["BED-09"], turns([user("\u{200b}")]), turns([user("\u{1f}")])),
        (vec!["BED-09"], turns([user([text("go")])]), turns([user([text("go"), text("")])])),
        (vec!["BED-09"], turns([user([text("go"), mark()])]), turns([user(json!([]))])),
        (vec!["BED-09"], turns([user([mark(), text("go")])]), turns([user([mark()])])),
        (
            vec!["BED-09"],
            turns([user("go"), says("ok"), user("on")]),
            turns([user("go"), says(" "), user("on")]),
        ),
        (vec!["BED-09"], answered(json!([text("fine")])), answered(json!([text(" ")]))),
        (vec!["BED-09"], answered(json!([{"json": {}}])), answered(json!([]))),
        (vec!["BED-09"], with_system("be brief"), with_system("")),
        (vec!["BED-09"], with_system("be brief"), with_system("\n")),
        (vec!["BED-09"], guarded("go"), guarded(" ")),
        (vec!["BED-09"], cited("so"), cited("")),
    ]
}

fn media_cases() -> Vec<Case> {
    let shows = |blocks: &[Value]| turns([user([&[text("see")], blocks].concat())]);
    let said = |block: Value| turns([user("go"), says([block, text("ok")]), user("on")]);
    let sourced = |source: Value| shows(&[json!({"image": {"format": "png", "source": source}})]);
    let formatted =
        |format: &str| shows(&[json!({"image": {"format": format, "source": {"bytes": "iVBORw0KGgo="}}})]);
    let video =
        |format: &str| json!({"video": {"format": format, "source": {"s3Location": {"uri": "s3://b/v"}}}});
    let audio = || json!({"audio": {"format": "mp3", "source": {"bytes": "iVBORw0KGgo="}}});
    let images = |count: usize| vec![image("iVBORw0KGgo="); count];
    let answered = |blocks: &[Value]| looping(json!({}), json!(blocks));
    vec![
        (vec!["BED-11"], shows(&images(1)), said(image("iVBORw0KGgo="))),
        (vec!["BED-11"], shows(&[video("mp4")]), said(video("mp4"))),
        (vec!["BED-11"], shows(&[audio()]), said(audio())),
        (vec!["BED-11"], shows(&images(20)), shows(&images(21))),
        (vec!["BED-11"], answered(&images(20)), answered(&images(21))),
        (vec!["BED-schema", "SAN-09"], formatted("png"), formatted("bmp")),
        (vec!["BED-schema"], shows(&[video("three_gp")]), shows(&[video("avi")])),
        (vec!["SAN-09"], formatted("png"), formatted("gif")),
        (vec!["BED-schema"], sourced(json!({"bytes": "iVBORw0KGgo="})), sourced(json!({"bytes": ""}))),
        (
            vec!["BED-schema"],
            sourced(json!({"bytes": "iVBORw0KGgo="})),
            sourced(json!({"bytes": "data:image/png;base64,iVBORw0KGgo="})),
        ),
        (vec!["BED-schema"], sourced(json!({"bytes": "iVBORw0KGgo="})), sourced(json!({"bytes": "A==="}))),
        (vec!["BED-schema"], sourced(json!({"bytes": "iVBORw0KGgo="})), sourced(json!({"bytes": "AA*A"}))),
        (
            vec!["BED-schema"],
            sourced(json!({"bytes": "iVBORw0KGgo="})),
            sourced(json!({"text": "iVBORw0KGgo="})),
        ),
        (
            vec!["BED-schema"],
            sourced(json!({"s3Location": {"uri": "s3://b/i"}})),
            sourced(json!({"s3Location": {"uri": "b/i"}})),
        ),
        (vec!["BED-schema"], answered(&images(1)), answered(&[image("A")])),
        (vec!["BED-schema"], shows(&[]), shows(&[json!({"image": "iVBORw0KGgo="})])),
    ]
}

fn document_cases() -> Vec<Case> {
    let shows = |blocks: &[Value]| turns([user([&[text("see")], blocks].concat())]);
    let named = |name: &str| shows(&[document(name)]);
    let sourced =
        |source: Value| shows(&[json!({"document": {"format": "txt", "name": "a", "source": source}})]);
    let many = |count: usize| shows(&(0..count).map(|k| document(&format!("d{k}"))).collect::<Vec<_>>());
    let answered = |blocks: &[Value]| looping(json!({}), json!(blocks));
    let formatted = |format: &str| {
        shows(&[json!({"document": {"format": format, "name": "a", "source": {"text": "x"}}})])
    };
    let twice = |name: &str| {
        let result = json!({"toolResult": {"toolUseId": "a", "content": [text("fine"), document(name)]}});
        turns([user("go"), says([call("a")]), user([result, text("see"), document("notes")])])
    };
    vec![
        (vec!["BED-11"], named("a-B (1) [2]"), named("a_b")),
        (vec!["BED-11"], named("report"), named("report.pdf")),
        (vec!["BED-11"], named("a b"), named("a  b")),
        (vec!["BED-11"], named(&"n".repeat(200)), named(&"n".repeat(201))),
        (vec!["BED-11"], named("n"), named("")),
        (vec!["BED-11"], shows(&[document("a"), document("b")]), shows(&[document("a"), document("a")])),
        (vec!["BED-11"], twice("other"), twice("notes")),
        (vec!["BED-11"], many(5), many(6)),
        (vec!["BED-11"], named("a"), turns([user([document("a")])])),
        (vec!["BED-11"], named("a"), turns([user([document("a"), image("iVBORw0KGgo=")])])),
        (vec!["BED-11"], answered(&[text("fine"), document("a")]), answered(&[document("a")])),
        (vec!["BED-11"], named("a"), turns([user("go"), says([text("see"), document("a")]), user("on")])),
        (vec!["BED-09"], sourced(json!({"text": "x"})), sourced(json!({"text": ""}))),
        (vec!["BED-09"], sourced(json!({"content": [text("x")]})), sourced(json!({"content": [text(" ")]}))),
        (vec!["BED-schema"], sourced(json!({"content": [text("x")]})), sourced(json!({"content": []}))),
        (vec!["BED-schema"], sourced(json!({"text": "x"})), sourced(json!({"text": "x", "bytes": "eA=="}))),
        (vec!["BED-schema"], sourced(json!({"text": "x"})), sourced(json!("x"))),
        (vec!["BED-schema"], sourced(json!({"content": [text("x")]})), sourced(json!({"content": ["x"]}))),
        (vec!["BED-schema"], formatted("md"), formatted("rtf")),
        (
            vec!["BED-schema"],
            shows(&[json!({"document": {"name": "a", "source": {"text": "x"}}})]),
            shows(&[json!({"document": {"source": {"text": "x"}}})]),
        ),
    ]
}

fn setting_cases() -> Vec<Case> {
    let with = |field: &str, value: Value| json!({field: value, "messages": [user("go")]});
    let tool = |name: &str| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}});
    let tools = |tools: Value| with("toolConfig", json!({"tools": tools}));
    let chosen = |choice: Value| with("toolConfig", json!({"tools": [tool("n")], "toolChoice": choice}));
    let schemed = |schema: Value| tools(json!([{"toolSpec": {"name": "n", "inputSchema": schema}}]));
    let described = |text: Value| {
        tools(
            json!([{"toolSpec": {"name": "n", "description": text, "inputSchema": {"json": {"type": "object"}}}}]),
        )
    };
    let undeclared = |config: Value| {
        let mut body = looping(json!({}), json!([text("fine")]));
        body["toolConfig"] = config;
        body
    };
    let declared = || looping(json!({}), json!([text("fine")]));
    let mut without_tools = declared();
    without_tools.as_object_mut().unwrap().remove("toolConfig");
    let mut mixed = turns([user("go"), says([text("so"), call("a")]), user([result("a"), text("on")])]);
    mixed.as_object_mut().unwrap().remove("toolConfig");
    vec![
        (vec!["BED-06"], declared(), without_tools),
        (vec!["BED-06"], declared(), mixed),
        (vec!["BED-schema", "BED-06"], declared(), undeclared(Value::Null)),
        (vec!["BED-06"], declared(), undeclared(json!({"tools": []}))),
        (vec!["BED-06"], declared(), undeclared(json!({"tools": [mark()]}))),
        (vec!["BED-06"], tools(json!([tool("n")])), tools(json!([]))),
        (vec!["BED-schema"], tools(json!([tool("n")])), chosen(Value::Null)),
        (vec!["BED-schema"], described(json!("does")), described(Value::Null)),
        (vec!["BED-schema", "BED-06"], declared(), undeclared(json!({}))),
        (vec!["BED-schema"], tools(json!([tool("n")])), with("toolConfig", json!([]))),
        (vec!["BED-schema"], tools(json!([tool("n"), mark()])), tools(json!([tool("n"), tool("n")]))),
        (
            vec!["BED-schema", "BED-06"],
            tools(json!([tool("n")])),
            tools(json!([{"name": "n", "inputSchema": {}}])),
        ),
        (
            vec!["BED-schema"],
            tools(json!([tool("n")])),
            tools(json!([{"toolSpec": {"inputSchema": {"json": {"type": "object"}}}}])),
        ),
        (vec!["BED-schema"], schemed(json!({"json": {"type": "object"}})), schemed(json!({"json": {}}))),
        (vec!["BED-schema"], schemed(json!({"json": {"type": "object"}})), schemed(json!({"json": "{}"}))),
        (
            vec!["BED-schema"],
            schemed(json!({"json": {"type": "object"}})),
            schemed(json!({"type": "object"})),
        ),
        (vec!["BED-schema"], described(json!("does")), described(json!(""))),
        (vec!["BED-schema"], chosen(json!({"auto": {}})), chosen(json!("auto"))),
        (vec!["BED-schema"], chosen(json!({"any": {}})), chosen(json!({"none": {}}))),
        (vec!["BED-schema"], chosen(json!({"tool": {"name": "n"}})), chosen(json!({"tool": {"name": "m"}}))),
        (vec!["BED-schema"], with("system", json!([])), with("system", json!("be brief"))),
        (
            vec!["BED-schema"],
            with("system", json!([text("hm")])),
            with("system", json!([{"type": "text", "text": "hm"}])),
        ),
        (vec!["BED-schema"], with("system", json!([])), with("system", json!([{"image": {}}]))),
        (vec!["BED-schema"], with("system", json!([])), with("system", Value::Null)),
        (
            vec!["BED-schema"],
            with("system", json!([mark()])),
            with("system", json!([{"cachePoint": {"type": "ephemeral"}}])),
        ),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["BED-schema"];
    let good = || turns([user("go")]);
    let said = |block: Value| turns([user("go"), says([block, text("ok")]), user("on")]);
    let status = |status: Value| {
        let mut body = looping(json!({}), json!([text("fine")]));
        body["messages"][2]["content"][0]["toolResult"]["status"] = status;
        body
    };
    let mut contentless = status(json!("error"));
    contentless["messages"][2]["content"][0]["toolResult"].as_object_mut().unwrap().remove("content");
    vec![
        (schema(), good(), json!([])),
        (schema(), good(), json!({})),
        (schema(), good(), json!({"messages": {}})),
        (schema(), good(), turns([user("go"), json!("ok"), user("on")])),
        (schema(), good(), turns([json!({"role": "user"})])),
        (schema(), good(), turns([json!({"role": "user", "content": "go"})])),
        (schema(), good(), turns([user(["go"])])),
        (schema(), good(), turns([user([json!({"type": "text", "text": "go"})])])),
        (schema(), good(), turns([user([json!({})])])),
        (schema(), good(), turns([user([json!({"text": 1})])])),
        // a block type of a model that is unknown to this checker
        (schema(), said(json!({"novelty": {}})), said(json!({"novelty": {}, "text": "a"}))),
        (schema(), good(), turns([user([call("a"), text("go")])])),
        (schema(), good(), said(result("a"))),
        (schema(), status(json!("error")), status(json!("failed"))),
        (schema(), status(json!("success")), status(Value::Null)),
        (schema(), status(json!("success")), contentless),
        (schema(), good(), looping(json!({}), json!("fine"))),
        (schema(), looping(json!({}), json!([{"json": {}}])), looping(json!({}), json!([{"json": [1]}]))),
        (
            schema(),
            looping(json!({}), json!([{"searchResult": {}}])),
            looping(json!({}), json!([result("b")])),
        ),
        (
            schema(),
            turns([user([text("go"), mark()])]),
            turns([user([text("go"), json!({"cachePoint": {}})])]),
        ),
        (
            schema(),
            turns([user([
                json!({"guardContent": {"image": {"format": "png", "source": {"bytes": "AAAA"}}}}),
            ])]),
            turns([user([
                json!({"guardContent": {"image": {"format": "gif", "source": {"bytes": "AAAA"}}}}),
            ])]),
        ),
        (
            schema(),
            said(json!({"citationsContent": {}})),
            said(json!({"citationsContent": {"content": "so"}})),
        ),
        (schema(), said(json!({"citationsContent": {}})), said(json!({"citationsContent": []}))),
        (schema(), good(), said(json!({"citationsContent": {"content": ["so"]}}))),
        (schema(), good(), turns([user([json!({"guardContent": "go"})])])),
    ]
}

#[test]
fn a_medium_past_the_size_limits_is_refused() {
    // four digits stand for three bytes
    let data = |bytes: usize| format!("iVBORw0KGgo{}", "A".repeat(bytes / 3 * 4 - 11));
    let shows = |block: Value| SUITE.rules_broken(turns([user([text("see"), block])]).to_string().as_bytes());
    let written = |bytes: usize| {
        let source = json!({"bytes": data(bytes).replace("iVBORw0KGgo", "JVBERi0xLjc")});
        json!({"document": {"format": "pdf", "name": "a", "source": source}})
    };
    assert_eq!(shows(image(&data(MAX_IMAGES.1))), [] as [&str; 0]);
    assert_eq!(shows(image(&data(MAX_IMAGES.1 + 3))), ["BED-11"]);
    assert_eq!(shows(written(MAX_DOCUMENTS.1)), [] as [&str; 0]);
    assert_eq!(shows(written(MAX_DOCUMENTS.1 + 3)), ["BED-11"]);
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let body = turns([user("go"), says([call("a/b")]), user([text(""), result("c")])]);
    let told = SUITE.reported(&body);
    let expect = [
        "BED-07 at messages.1.content.0.toolUse.toolUseId: Value at \
         'messages.2.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must \
         satisfy regular expression pattern: [a-zA-Z0-9_.:-]+",
        "BED-01 at messages.1: Expected toolResult blocks at messages.2.content for the following Ids: a/b",
        "BED-09 at messages.2.content.0: The text field in the ContentBlock object at messages.2.content.0 is \
         blank. Add text to the text field, and try again.",
        "BED-02 at messages.2.content.1: The number of toolResult blocks at messages.2.content exceeds the \
         number of toolUse blocks of previous turn.",
    ];
    assert_eq!(told, expect);
}

fn turns(messages: impl IntoIterator<Item = Value>) -> Value {
    let messages: Vec<Value> = messages.into_iter().collect();
    let tool = json!({"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}});
    json!({"toolConfig": {"tools": [tool]}, "messages": messages})
}

/// One call with this input, answered by this content.
fn looping(input: Value, content: Value) -> Value {
    let call = json!({"toolUse": {"toolUseId": "a", "name": "look", "input": input}});
    let result = json!({"toolResult": {"toolUseId": "a", "content": content}});
    turns([user("go"), says([call]), user([result])])
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": listed(content.into())})
}

fn says(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": listed(content.into())})
}

/// A bare text stands for the list of one text block.
fn listed(content: Value) -> Value {
    if content.is_string() { json!([{"text": content}]) } else { content }
}

fn text(words: &str) -> Value {
    json!({"text": words})
}

fn mark() -> Value {
    json!({"cachePoint": {"type": "default"}})
}

fn image(data: &str) -> Value {
    json!({"image": {"format": "png", "source": {"bytes": data}}})
}

fn document(name: &str) -> Value {
    json!({"document": {"format": "pdf", "name": name, "source": {"bytes": "JVBERi0="}}})
}

fn call(id: &str) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": "look", "input": {}}})
}

fn result(id: &str) -> Value {
    json!({"toolResult": {"toolUseId": id, "content": [{"text": "fine"}]}})
}
