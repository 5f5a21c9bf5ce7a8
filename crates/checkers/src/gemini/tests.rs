//! Bodies that the checker of this dialect must accept and refuse, for the suite in `conformance_tests.rs`. Must not
//! use the codec.

use serde_json::json;

use super::*;
use crate::conformance_tests::{Case, Suite, conformance};

/// The value that Google recommends for a call without a signature, as bytes in JSON.
const SENTINEL: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

const SUITE: Suite = Suite {
    dialect: "gemini",
    list: "contents",
    fixtures: 24,
    rules: "GEM-01 GEM-02 GEM-03 GEM-04 GEM-05 GEM-06 GEM-07 GEM-08 GEM-09 GEM-10 GEM-11 GEM-12 GEM-14 \
            GEM-schema SAN-02 SAN-07 SAN-09",
    // This body is too odd for the table.
    elsewhere: &["SAN-02"],
    holder: r#"{"generationConfig":{"responseJsonSchema":@},"contents":[{"role":"user","parts":[{"text":"go"}]}]}"#,
    levels: 998,
};

conformance! { SUITE:
    order_cases pairing_cases match_cases role_cases signature_cases part_cases call_cases
    setting_cases spelling_cases schema_cases
}

fn order_cases() -> Vec<Case> {
    let looped = || turns([user("go"), calls(["a"]), responses(["a"])]);
    let again = [user("go"), calls(["a"]), responses(["a"]), calls(["b"]), responses(["b"])];
    vec![
        (vec!["GEM-01"], looped(), turns([calls(["a"]), responses(["a"])])),
        (vec!["GEM-01"], turns(again), turns([user("go"), model("I will"), calls(["a"]), responses(["a"])])),
        (
            vec!["GEM-03", "GEM-01"],
            looped(),
            turns([user("go"), calls(["a"]), calls(["b"]), responses(["b"])]),
        ),
        (vec!["GEM-02"], looped(), turns([user("go"), responses(["a"])])),
        (vec!["GEM-02"], looped(), turns([responses(["a"])])),
        (vec!["GEM-02"], looped(), turns([user("go"), model("so"), responses(["a"])])),
        (
            vec!["GEM-03", "GEM-02"],
            turns([user("go"), calls(["a"]), responses(["a"]), user("so?")]),
            turns([user("go"), calls(["a"]), user("so?"), responses(["a"])]),
        ),
        (vec!["GEM-05"], turns([user("go"), model("so"), user("on")]), turns([user("go"), user("on")])),
        (
            vec!["GEM-05"],
            turns([model("welcome"), user("go")]),
            turns([user("go"), model("so"), model("on"), user("and?")]),
        ),
        (
            vec!["GEM-05"],
            turns([user("go"), calls(["a"]), responses(["a"]), user("so?")]),
            turns([user("go"), calls(["a"]), responses(["a"]), user("so?"), user("and?")]),
        ),
        (vec!["GEM-03", "GEM-05"], looped(), turns([user("go"), calls(["a"]), model("so"), user("and?")])),
        (vec!["GEM-06"], turns([user("go")]), turns([user("go"), model("so")])),
        (vec!["GEM-03", "GEM-06"], looped(), turns([user("go"), calls(["a"])])),
    ]
}

fn pairing_cases() -> Vec<Case> {
    let asked = |next: Value| turns([user("go"), calls(["a", "b"]), next]);
    let answered = || asked(responses(["b", "a"]));
    let text = json!({"text": "and go on"});
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let beside = |part: Value| asked(json!({"role": "user", "parts": [response("a"), response("b"), part]}));
    let before = asked(json!({"role": "user", "parts": [text, response("a"), response("b")]}));
    let within = asked(json!({"role": "user", "parts": [response("a"),
        {"functionResponse": {"name": "b", "response": {}, "parts": [image]}}]}));
    let many = |count: usize| {
        let names: Vec<String> = (0..129).map(|k| format!("n{k}")).collect();
        turns([user("go"), calls(names.iter().map(String::as_str)), {
            responses(names[..count].iter().map(String::as_str))
        }])
    };
    vec![
        (vec!["GEM-03"], answered(), asked(responses(["a"]))),
        (vec!["GEM-03"], answered(), asked(responses(["a", "b", "a"]))),
        (vec!["GEM-03"], answered(), asked(user("so?"))),
        (vec!["GEM-03"], many(129), many(128)),
        (
            vec!["GEM-03", "GEM-03"],
            answered(),
            turns([user("go"), calls(["a", "b"]), responses(["a"]), responses(["b"])]),
        ),
        (
            vec!["GEM-03"],
            turns([user("go"), calls(["a"]), responses(["a"]), calls(["a"]), responses(["a"])]),
            turns([user("go"), calls(["a"]), responses(["a"]), responses(["a"])]),
        ),
        (vec!["GEM-04"], answered(), beside(text)),
        (vec!["GEM-04"], within, beside(image)),
        (vec!["GEM-04"], answered(), before),
    ]
}

fn match_cases() -> Vec<Case> {
    let pair = |calls: Value, responses: Value| {
        let parts = |field: &str, ends: Value| -> Vec<Value> {
            ends.as_array().unwrap().iter().map(|end| json!({field: end})).collect()
        };
        let mut calls = parts("functionCall", calls);
        calls[0]["thoughtSignature"] = json!(SENTINEL);
        let responses: Vec<Value> = parts("functionResponse", responses);
        let mut body = turns([
            user("go"),
            json!({"role": "model", "parts": calls}),
            json!({"role": "user", "parts": responses}),
        ]);
        for response in body["contents"][2]["parts"].as_array_mut().unwrap() {
            response["functionResponse"]["response"] = json!({});
        }
        body
    };
    let with_id = |id: &str, name: &str| json!({"id": id, "name": name});
    let named = |name: &str| json!({"name": name});
    let two = json!([with_id("1", "a"), with_id("2", "b")]);
    vec![
        (
            vec!["GEM-14"],
            pair(json!([named("a"), named("a"), named("b")]), json!([named("b"), named("a"), named("a")])),
            pair(json!([named("a"), named("a"), named("b")]), json!([named("b"), named("a"), named("b")])),
        ),
        (
            vec!["GEM-14"],
            pair(two.clone(), json!([with_id("2", "b"), with_id("1", "a")])),
            pair(two.clone(), json!([with_id("2", "b"), with_id("3", "a")])),
        ),
        (
            vec!["GEM-14"],
            pair(two.clone(), json!([named("b"), named("a")])),
            pair(two.clone(), json!([with_id("2", "a"), with_id("1", "b")])),
        ),
        (
            vec!["GEM-14"],
            pair(json!([named("a"), named("b")]), two.clone()),
            pair(two.clone(), json!([with_id("1", "a"), named("b")])),
        ),
        (
            vec!["GEM-14"],
            pair(json!([with_id("", "a"), with_id("", "a")]), json!([with_id("1", "a"), with_id("2", "a")])),
            pair(
                json!([with_id("1", "a"), with_id("1", "a")]),
                json!([with_id("1", "a"), with_id("1", "a")]),
            ),
        ),
        (
            vec!["GEM-schema"],
            pair(json!([with_id(&"x".repeat(80), "a")]), json!([named("a")])),
            pair(json!([{"id": 1, "name": "a"}]), json!([named("a")])),
        ),
        (
            vec!["GEM-schema"],
            pair(json!([with_id("functions.x:0", "a")]), json!([with_id("functions.x:0", "a")])),
            pair(json!([named("a")]), json!([{"id": {}, "name": "a"}])),
        ),
    ]
}

fn role_cases() -> Vec<Case> {
    let text = json!([{"text": "hi"}]);
    let late =
        |role: &str| turns([user("go"), model("so"), json!({"role": role, "parts": text}), user("on")]);
    let alone = |content: Value| turns([content]);
    let answered =
        |role: &str| turns([user("go"), calls(["a"]), json!({"role": role, "parts": [response("a")]})]);
    let stranger = json!({"role": "user", "parts": [{"functionCall": {"name": "a"}}]});
    let misplaced = json!({"role": "model", "parts": [response("a")]});
    vec![
        (vec!["GEM-08"], turns([user("go"), model("so"), user("on")]), late("system")),
        (vec!["GEM-08"], answered("user"), answered("function")),
        (vec!["GEM-08"], answered("user"), answered("tool")),
        (vec!["GEM-08"], turns([user("go")]), turns([stranger])),
        (vec!["GEM-08"], turns([user("go")]), turns([user("go"), misplaced, user("on")])),
        (
            vec!["GEM-schema"],
            alone(json!({"parts": text})),
            turns([json!({"parts": text}), model("so"), user("on")]),
        ),
        (
            vec!["GEM-schema"],
            alone(json!({"role": null, "parts": text})),
            turns([user("go"), model("so"), json!({"role": "", "parts": text})]),
        ),
        (
            vec!["GEM-schema"],
            alone(json!({"role": "", "parts": text})),
            alone(json!({"role": 1, "parts": text})),
        ),
    ]
}

fn signature_cases() -> Vec<Case> {
    let signed = |signature: Value| {
        let mut call = calls(["a", "b"]);
        call["parts"][0]["thoughtSignature"] = signature;
        turns([user("go"), call, responses(["a", "b"])])
    };
    let unsigned = |body: &Value, place: &str| {
        let mut body = body.clone();
        body.pointer_mut(place).unwrap().as_object_mut().unwrap().remove("thoughtSignature");
        body
    };
    let long = turns([
        user("go"),
        calls(["a"]),
        responses(["a"]),
        model("so"),
        user("on"),
        calls(["a"]),
        responses(["a"]),
        calls(["b", "c"]),
        responses(["b", "c"]),
    ]);
    // Only contents after the user's last text must be signed.
    let earlier = unsigned(&long, "/contents/1/parts/0");
    let mut ended = long.clone();
    ended["contents"].as_array_mut().unwrap().push(user("thanks"));
    let spoken = |signature: Value| {
        let part = json!({"text": "so", "thoughtSignature": signature});
        turns([user("go"), json!({"role": "model", "parts": [part]}), user("on")])
    };
    let second = |signed: usize| {
        let mut body = turns([user("go"), calls(["a", "b"]), responses(["a", "b"])]);
        let parts = body["contents"][1]["parts"].as_array_mut().unwrap();
        parts.iter_mut().for_each(|part| drop(part.as_object_mut().unwrap().remove("thoughtSignature")));
        parts[signed]["thoughtSignature"] = json!(SENTINEL);
        parts.insert(0, json!({"text": "let me look", "thoughtSignature": "AAAA"}));
        body
    };
    vec![
        (vec!["GEM-11"], earlier.clone(), unsigned(&earlier, "/contents/5/parts/0")),
        (vec!["GEM-11"], earlier.clone(), unsigned(&earlier, "/contents/7/parts/0")),
        (vec!["GEM-11"], unsigned(&ended, "/contents/7/parts/0"), unsigned(&long, "/contents/7/parts/0")),
        (vec!["GEM-11"], second(0), second(1)),
        (vec!["GEM-11"], signed(json!(SENTINEL)), signed(Value::Null)),
        (
            vec!["GEM-01", "GEM-11"],
            long,
            unsigned(&turns([calls(["a"]), responses(["a"])]), "/contents/0/parts/0"),
        ),
        (vec!["GEM-12"], signed(json!("skip_thought_signature_validator")), signed(json!(""))),
        (vec!["GEM-12"], signed(json!("AAA=")), signed(json!("AAA=="))),
        (vec!["GEM-12"], signed(json!("AA")), signed(json!("A"))),
        (vec!["GEM-12"], signed(json!("AA+/")), signed(json!("A-+A"))),
        (vec!["GEM-12"], signed(json!("AA-_")), signed(json!("A A="))),
        (vec!["GEM-12"], signed(json!("AAAA")), signed(json!("AAAA===="))),
        (vec!["GEM-12"], signed(json!("AAAA")), signed(json!(["AAAA"]))),
        (vec!["GEM-12"], spoken(json!("AAAA")), spoken(json!("signed elsewhere"))),
        (vec!["GEM-12"], spoken(Value::Null), spoken(json!(""))),
    ]
}

fn part_cases() -> Vec<Case> {
    let by = |role: &str, part: Value| {
        let content = json!({"role": role, "parts": [part]});
        if role == "user" { turns([content]) } else { turns([user("go"), content, user("on")]) }
    };
    let blob = |mime: Value, data: Value| by("user", json!({"inlineData": {"mimeType": mime, "data": data}}));
    let image = || blob(json!("image/png"), json!("iVBORw0KGgo="));
    let file = |file: Value| by("user", json!({"fileData": file}));
    let code = |code: Value| by("model", json!({"executableCode": code}));
    let ran = |result: Value| by("model", json!({"codeExecutionResult": result}));
    let thought = |part: Value| {
        let mut part = part;
        part["thought"] = json!(true);
        part
    };
    let text = json!({"text": ""});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let schema = || vec!["GEM-schema"];
    vec![
        (vec!["GEM-07"], by("user", text.clone()), by("user", json!({}))),
        (vec!["GEM-07"], by("user", text.clone()), by("user", json!({"text": null}))),
        (vec!["GEM-07"], by("model", text.clone()), by("model", json!({"thoughtSignature": "AAAA"}))),
        (vec!["GEM-schema", "GEM-07"], by("user", text.clone()), by("user", json!({"type": "text"}))),
        (schema(), by("user", text.clone()), by("user", json!({"text": 1}))),
        (schema(), by("user", text.clone()), by("user", json!("hi"))),
        (schema(), image(), by("user", json!({"text": "hi", "inlineData": picture["inlineData"]}))),
        (schema(), by("user", json!({"text": " "})), by("user", json!({"text": "hi", "cache": true}))),
        (schema(), image(), blob(json!(""), json!("AAAA"))),
        (vec!["SAN-09"], image(), blob(json!("image/jpeg"), json!("iVBORw0KGgo="))),
        (vec!["SAN-09"], image(), blob(json!("image/png"), json!("aGVsbG8="))),
        (
            vec!["SAN-09"],
            blob(json!("audio/wav"), json!("UklGRg==")),
            blob(json!("application/octet-stream"), json!("UklGRg==")),
        ),
        (vec!["SAN-09"], file(json!({"fileUri": "gs://b/a"})), file(json!({"fileUri": "./a"}))),
        (schema(), image(), blob(json!("image/png"), json!(""))),
        (schema(), image(), blob(json!("image/png"), json!("not base64!"))),
        (schema(), image(), blob(json!("image/png"), json!([1]))),
        (schema(), image(), by("user", json!({"inlineData": "AAAA"}))),
        (schema(), image(), by("user", json!({"inlineData": {"mimeType": "a/b", "data": "AA", "url": ""}}))),
        (schema(), file(json!({"fileUri": "https://x"})), file(json!({"mimeType": "image/png"}))),
        (
            schema(),
            file(json!({"fileUri": "https://x", "mimeType": "image/png"})),
            file(json!({"fileUri": "https://x", "mimeType": 1})),
        ),
        (schema(), code(json!({"language": "PYTHON", "code": ""})), code(json!({"code": "1"}))),
        (schema(), code(json!({"language": "PYTHON"})), code(json!({"language": "PYTHON", "code": []}))),
        (schema(), ran(json!({"outcome": "OUTCOME_OK"})), ran(json!({"output": "1"}))),
        (schema(), ran(json!({"outcome": "OUTCOME_OK", "output": ""})), ran(json!("1"))),
        (schema(), by("model", thought(text.clone())), by("user", thought(text.clone()))),
        (
            schema(),
            by("model", thought(picture)),
            by("model", thought(json!({"executableCode": {"language": "PYTHON"}}))),
        ),
        (
            schema(),
            by("user", json!({"text": "", "thought": false})),
            by("model", json!({"text": "", "thought": 1})),
        ),
        (
            schema(),
            by("user", json!({"text": "", "thought": null})),
            by("model", json!({"text": "", "thought": "yes"})),
        ),
    ]
}

fn call_cases() -> Vec<Case> {
    let named = |name: &str| turns([user("go"), calls([name]), responses([name])]);
    let called = |call: Value| {
        let part = json!({"functionCall": call, "thoughtSignature": SENTINEL});
        turns([user("go"), json!({"role": "model", "parts": [part]}), responses(["a"])])
    };
    let given = |args: Value| called(json!({"name": "a", "args": args}));
    let answered = |response: Value| {
        let part = json!({"functionResponse": response});
        turns([user("go"), calls(["a"]), json!({"role": "user", "parts": [part]})])
    };
    let told = |response: Value| answered(json!({"name": "a", "response": response}));
    let shown = |parts: Value| answered(json!({"name": "a", "response": {}, "parts": parts}));
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}});
    let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    vec![
        (vec!["GEM-09", "GEM-09"], named("_read.file:2-b"), named("read file")),
        (vec!["GEM-09", "GEM-09"], named("_"), named("2_read")),
        (vec!["GEM-09", "GEM-09"], named("a"), named("ärger")),
        (vec!["GEM-09", "GEM-09"], named("a"), named("")),
        (vec!["GEM-09", "GEM-09"], named(&"n".repeat(64)), named(&"n".repeat(65))),
        (vec!["GEM-09", "GEM-14"], called(json!({"name": "a"})), called(json!({"args": {}}))),
        (vec!["GEM-10"], given(json!({})), given(json!("{}"))),
        (vec!["GEM-10"], given(json!({"a": [1]})), given(json!([1]))),
        (vec!["GEM-10"], given(Value::Null), given(json!(1))),
        (vec!["GEM-10"], told(json!({"output": "fine"})), told(json!("fine"))),
        (vec!["GEM-10"], told(json!({})), told(Value::Null)),
        (vec!["GEM-10"], told(json!({})), answered(json!({"name": "a"}))),
        (vec!["SAN-07"], given(nested(128)), given(nested(129))),
        (vec!["SAN-07"], told(nested(128)), told(nested(129))),
        (vec!["GEM-schema"], called(json!({"name": "a"})), called(json!({"name": "a", "arguments": {}}))),
        (vec!["GEM-schema"], shown(json!([image])), shown(json!([{}]))),
        (vec!["GEM-schema"; 2], shown(json!([image])), shown(json!([{"text": "hi"}]))),
        (vec!["GEM-schema"], shown(json!([image])), shown(json!(["AAAA"]))),
        (vec!["GEM-schema"], shown(json!([])), shown(json!({}))),
        (
            vec!["GEM-schema"],
            answered(json!({"name": "a", "response": {}, "scheduling": "SILENT"})),
            answered(json!({"name": "a", "response": {}, "isError": true})),
        ),
        (
            vec!["GEM-03", "GEM-schema"],
            told(json!({})),
            turns([user("go"), calls(["a"]), json!({"role": "user", "parts": [{"functionResponse": 1}]})]),
        ),
    ]
}

fn setting_cases() -> Vec<Case> {
    let with = |field: &str, value: Value| json!({field: value, "contents": [user("go")]});
    let told = |system: Value| with("systemInstruction", system);
    let tools = |tools: Value| with("tools", tools);
    let declared = |declarations: Value| tools(json!([{"functionDeclarations": declarations}]));
    let function = |name: &str| json!({"name": name});
    let schema = || vec!["GEM-schema"];
    let text = json!([{"text": "be brief"}]);
    let image = json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]);
    vec![
        (schema(), told(json!({"parts": text})), told(json!("be brief"))),
        (schema(), told(json!({"role": "system", "parts": text})), told(json!({"role": 1, "parts": text}))),
        (schema(), told(Value::Null), told(json!({"parts": image}))),
        (schema(), told(json!({"role": "user", "parts": text})), told(json!({"parts": text, "text": ""}))),
        (vec!["GEM-07"], told(json!({"parts": text})), told(json!({"parts": []}))),
        (vec!["GEM-07"], told(json!({"parts": text})), told(json!({"role": "system"}))),
        (schema(), tools(json!([{"googleSearch": {}}])), tools(json!({"googleSearch": {}}))),
        (schema(), tools(json!([])), tools(json!(["googleSearch"]))),
        (
            schema(),
            declared(json!([function("a"), function("b")])),
            declared(json!([function("a"), function("a")])),
        ),
        (schema(), declared(json!([])), declared(json!({"name": "a"}))),
        (schema(), declared(json!([function("a")])), declared(json!(["a"]))),
        (
            schema(),
            declared(json!([{"name": "a", "parameters": {"type": "object"}}])),
            declared(json!([{"name": "a", "parameters": []}])),
        ),
        (
            schema(),
            declared(json!([{"name": "a", "parametersJsonSchema": {}}])),
            declared(json!([{"name": "a", "parametersJsonSchema": "{}"}])),
        ),
        (vec!["GEM-09"], declared(json!([function("a.b:c-d")])), declared(json!([function("a b")]))),
        (vec!["GEM-09"], declared(json!([function("a")])), declared(json!([{"description": "a"}]))),
    ]
}

fn spelling_cases() -> Vec<Case> {
    let system = json!({"parts": [{"text": "be brief"}]});
    let snake = json!({
        "system_instruction": system,
        "tools": [{"function_declarations": [{"name": "a"}]}],
        "contents": [
            user("go"),
            {"role": "model", "parts": [{"function_call": {"name": "a"}, "thought_signature": SENTINEL}]},
            {"role": "user", "parts": [{"function_response": {"name": "a", "response": {}}}]},
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}}]},
            {"role": "model", "parts": [{"file_data": {"file_uri": "https://x"}}]},
            user("on"),
        ],
    });
    let bent = |place: &str, field: &str, value: Value| {
        let mut body = snake.clone();
        body.pointer_mut(place).unwrap()[field] = value;
        body
    };
    let call = "/contents/1/parts/0";
    vec![
        (vec!["GEM-schema"], snake.clone(), bent("", "systemInstruction", system.clone())),
        (vec!["GEM-10"], snake.clone(), bent("/contents/1/parts/0/function_call", "args", json!("{}"))),
        (vec!["GEM-12"], snake.clone(), bent(call, "thought_signature", json!("signed elsewhere"))),
        (vec!["GEM-schema"], snake.clone(), bent(call, "thoughtSignature", json!(SENTINEL))),
        (vec!["GEM-schema"], snake.clone(), bent(call, "thought_Signature", json!(SENTINEL))),
        (vec!["GEM-schema"], snake.clone(), bent(call, "function_Call", json!({}))),
        (vec!["GEM-08"], snake.clone(), bent("/contents/2", "role", json!("function"))),
    ]
}

fn schema_cases() -> Vec<Case> {
    let schema = || vec!["GEM-schema"];
    let good = || turns([user("go")]);
    let settings =
        json!({"contents": [user("go")], "generationConfig": {"temperature": 1}, "labels": {"a": "b"}});
    vec![
        (schema(), settings, json!([])),
        (vec!["GEM-07"], good(), json!({})),
        (vec!["GEM-schema", "GEM-07"], good(), json!({"messages": [{"role": "user", "content": "go"}]})),
        (vec!["GEM-07"], good(), json!({"contents": null})),
        (vec!["GEM-07"], good(), turns([])),
        (vec!["GEM-07"], good(), turns([json!({"role": "user", "parts": []})])),
        (vec!["GEM-07"], good(), turns([json!({"role": "user"})])),
        (schema(), good(), json!({"contents": "go"})),
        (schema(), good(), json!({"contents": user("go")})),
        (schema(), good(), turns([json!("go")])),
        (schema(), good(), turns([json!({"role": "user", "parts": "go"})])),
        (schema(), good(), turns([json!({"role": "user", "parts": {"text": "go"}})])),
        (schema(), good(), turns([json!({"role": "user", "parts": [{"text": "go"}], "name": "ada"})])),
    ]
}

#[test]
fn violations_come_in_document_order_in_the_words_of_the_api() {
    let mut unsigned = calls(["look"]);
    unsigned["parts"][0].as_object_mut().unwrap().remove("thoughtSignature");
    let body = turns([
        json!({"role": "user", "parts": []}),
        unsigned,
        responses(["look", "look"]),
        json!({"role": "function", "parts": [{"text": "fine"}]}),
        model("so"),
    ]);
    let told = SUITE.reported(&body);
    let expect = [
        "GEM-07 at contents.0.parts: * GenerateContentRequest.contents[0].parts: contents.parts must not be \
         empty.",
        "GEM-11 at contents.1.parts.0: Function call is missing a thought_signature in functionCall parts. \
         This is required for tools to work correctly. Additional data, function call `default_api:look` , \
         position 2.",
        "GEM-03 at contents.2: Please ensure that the number of function response parts is equal to the number \
         of function call parts of the function call turn.",
        "GEM-08 at contents.3.role: Role 'function' is not supported. Please use a valid role: user, model.",
        "GEM-06 at contents.4: Please ensure that multiturn requests ends with a user role or a function \
         response.",
    ];
    assert_eq!(told, expect);
}

fn turns(contents: impl IntoIterator<Item = Value>) -> Value {
    SUITE.request(contents)
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn model(text: &str) -> Value {
    json!({"role": "model", "parts": [{"text": text}]})
}

/// Calls of these functions, the first of them signed.
fn calls<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    let part = |name| json!({"functionCall": {"name": name, "args": {}}});
    let mut parts: Vec<Value> = names.into_iter().map(part).collect();
    parts[0]["thoughtSignature"] = json!(SENTINEL);
    json!({"role": "model", "parts": parts})
}

fn responses<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    let parts: Vec<Value> = names.into_iter().map(response).collect();
    json!({"role": "user", "parts": parts})
}

fn response(name: &str) -> Value {
    json!({"functionResponse": {"name": name, "response": {"output": "fine"}}})
}
