//! What Mistral's hosted API gets: nine-letter ids, bridges, system messages at the front only.

use rejoin_formats::Dialect;
use rejoin_formats::wire::stream::{End, Usage};
use rejoin_record::BlockKind;
use serde_json::{Value, json};

use crate::translation::{
    A, B, Numbers, assistant, calls, from_anthropic, from_chat, picture, result, short, user, uses,
};

pub const TO: Dialect = Dialect::Mistral;

fn content(value: &Value) -> String {
    let list = value.as_array().map(|chunks| {
        let chunk = |chunk: &Value| match chunk["type"].as_str().unwrap() {
            "text" => chunk["text"].as_str().unwrap().to_owned(),
            kind => format!("<{kind} {}>", chunk[kind].as_str().unwrap()),
        };
        chunks.iter().map(chunk).collect::<Vec<_>>().join(" | ")
    });
    short(&list.unwrap_or_else(|| value.as_str().unwrap().to_owned()))
}

/// `user: go / assistant: + read#1{} / tool read#1: one`
pub fn sketch(body: &Value) -> String {
    let mut numbers = Numbers::default();
    let mut line = |message: &Value| {
        let said = content(&message["content"]);
        match message["role"].as_str().unwrap() {
            "tool" => {
                let id = numbers.of(&message["tool_call_id"]);
                format!("tool {}{id}: {said}", message["name"].as_str().unwrap())
            }
            role => {
                let mut line = format!("{role}: {said}");
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let function = &call["function"];
                    let name = function["name"].as_str().unwrap();
                    let arguments = function["arguments"].as_str().unwrap();
                    line.push_str(&format!(" + {name}{}{arguments}", numbers.of(&call["id"])));
                }
                line
            }
        }
    };
    let lines: Vec<String> = body["messages"].as_array().unwrap().iter().map(&mut line).collect();
    lines.join(" / ")
}

/// What is sent, in pieces that must not change later.
pub fn pieces(body: &Value) -> Vec<String> {
    let mut pieces = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        match message["content"].as_array() {
            Some(chunks) => pieces.extend(chunks.iter().map(|chunk| format!("{role} {chunk}"))),
            None => pieces.push(format!("{role} {}", message["content"])),
        }
        pieces.extend(message.get("tool_calls").map(|calls| format!("{role} {calls}")));
    }
    pieces
}

#[test]
fn a_tool_loop() {
    let arguments = "{ \"n\": 12345678901234567890.50, \"n\": \"\\u0000\" }";
    let list = json!([
        user("go"),
        calls(None, &[(A, "read", arguments)]),
        result(A, "one"),
        calls(Some("and"), &[(B, "run", "{}")]),
        result(B, "two")
    ]);
    let out = from_chat(&list, TO);
    assert_eq!(
        out.body["messages"],
        json!([
            {"role":"user","content":"go"},
            {"role":"assistant","content":"","tool_calls":[
                {"id":A,"type":"function","function":{"name":"read","arguments":arguments}}]},
            {"role":"tool","content":"one","tool_call_id":A,"name":"read"},
            {"role":"assistant","content":"and","tool_calls":[
                {"id":B,"type":"function","function":{"name":"run","arguments":"{}"}}]},
            {"role":"tool","content":"two","tool_call_id":B,"name":"run"}])
    );
    assert_eq!(out.rules(), [""; 0], "a conversation may end with results");
}

#[test]
fn late_system_texts_are_reported() {
    let out = from_chat(&crate::system_texts(), TO);
    assert_eq!(out.rules(), ["empty-message", "late-system", "late-system", "role-order"]);
}

#[test]
fn the_system_field_of_another_dialect_comes_first() {
    let anthropic =
        json!({"system":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"messages":[user("a")]});
    assert_eq!(sketch(&from_anthropic(&anthropic, TO).body), "system: x | y / user: a");
}

/// Every provider would refuse the request: the conversation goes on without them.
#[test]
fn arguments_that_are_too_long_are_not_sent() {
    let arguments = json!({"content": "x".repeat(9_000_000)}).to_string();
    let list = json!([user("go"), calls(None, &[(A, "write", &arguments)]), result(A, "too large")]);
    for to in [TO, Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini] {
        let out = from_chat(&list, to);
        let body = out.body.to_string();
        assert!(
            body.len() < 10_000 && body.contains("9000014 bytes, too many"),
            "{to}: {} bytes",
            body.len()
        );
        assert!(body.contains("too large") && out.rules().contains(&"too-large"), "{to}: {:?}", out.rules());
    }
}

#[test]
fn the_bridge_is_said() {
    let out = from_chat(
        &json!([user("go"), calls(None, &[(A, "read", "{}")]), result(A, "one"), user("next")]),
        TO,
    );
    let [finding] = &out.findings[..] else { panic!("{:?}", out.findings) };
    assert_eq!((finding.rule.name(), finding.action.name()), ("role-order", "inserted"));
    assert_eq!(finding.at.message, Some(3));
    assert_eq!(out.messages()[3], json!({"role":"assistant","content":"Understood."}));
}

#[test]
fn the_last_word_is_not_the_assistants() {
    let list = json!([user("a"), assistant("b")]);
    assert_eq!(sketch(&from_chat(&list, TO).body), "user: a / assistant: b / user: Continue.");
}

#[test]
fn media() {
    let png = "data:image/png;base64,iVBORw0KGgo=";
    let list = json!([{"role":"user","content":[
        {"type":"text","text":"look"},
        {"type":"image_url","image_url":{"url":png}},
        {"type":"image_url","image_url":{"url":"https://example.com/a.jpg"}},
        {"type":"image_url","image_url":{"url":""}},
        {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}},
        {"type":"file","file":{"file_id":"file_1"}},
        {"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}]}]);
    assert_eq!(
        from_chat(&list, TO).messages()[0]["content"],
        json!([
            {"type":"text","text":"look"},
            {"type":"image_url","image_url":png},
            {"type":"image_url","image_url":"https://example.com/a.jpg"},
            {"type":"text","text":"[image unavailable: the address is empty]"},
            {"type":"document_url","document_url":"data:application/pdf;base64,JVBERi0=","document_name":"a.pdf"},
            {"type":"text","text":"[document, file file_1]"},
            {"type":"text","text":"[input_audio] {\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AA==\",\"format\":\"wav\"}}"}])
    );
    let anthropic = json!([{"role":"user","content":[
        {"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},
        {"type":"document","title":"n","source":{"type":"text","media_type":"text/plain","data":"words"}}]},
        {"role":"assistant","content":[{"type":"image","source":{"type":"url","url":"https://example.com/b.png"}}]},
        user("next")]);
    assert_eq!(
        sketch(&from_anthropic(&anthropic, TO).body),
        "user: <document_url https://example.com/a.pdf> | [document, n, text/plain]\nwords / \
         assistant: [image, https://example.com/b.png] / user: next"
    );
}

#[test]
fn media_in_results() {
    let picture = picture(Some("image/png"), "iVBORw0KGgo=");
    let list = json!([user("shoot"), uses(&[(A, "shot"), (B, "shot")]),
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":A,"content":[{"type":"text","text":"done"},picture],"is_error":true},
            {"type":"tool_result","tool_use_id":B,"content":"nothing"},
            {"type":"text","text":"nice"}]}]);
    let out = from_anthropic(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: shoot / assistant:  + shot#1{} + shot#2{} / tool shot#1: done\n\n[image, shown in the next user message] / \
         tool shot#2: nothing / assistant: Understood. / \
         user: [from the result of call call0000A] | <image_url data:image/png;base64,iVBORw0KGgo=> / user: nice"
    );
    assert_eq!(out.rules(), ["foreign-field", "moved-media", "irregular-content", "role-order"]);
    assert_eq!(out.about("foreign-field"), ["is_error"]);
}

#[test]
fn ids_have_nine_letters_and_digits() {
    let ids = [A, "c1", "toolu_01ABCDEFGHIJ", "call-0001", "é", "123456789"];
    let list: Vec<(&str, &str, &str)> = ids.iter().map(|id| (*id, "read", "{}")).collect();
    let mut source = vec![user("go"), calls(None, &list)];
    source.extend(ids.iter().map(|id| result(id, id)));
    let out = from_chat(&json!(source), TO);
    let sent: Vec<&str> = out.messages()[1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!((sent[0], sent[5]), (A, "123456789"), "legal ones stay");
    assert!(sent.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    assert_eq!(sent.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
    for (place, (sent, id)) in sent.iter().zip(ids).enumerate() {
        assert_eq!(out.messages()[2 + place]["tool_call_id"], *sent);
        assert_eq!(out.messages()[2 + place]["content"], id);
    }
    assert_eq!(out.about("illegal-id"), ["c1", "toolu_01ABCDEFGHIJ", "call-0001", "é"]);
    // An id that is legal, but is what another one was mapped to.
    let taken = sent[1];
    let twice = json!([
        user("go"),
        calls(None, &[("c1", "read", "{}"), (taken, "read", "{}")]),
        result("c1", "1"),
        result(taken, "2")
    ]);
    assert_eq!(
        sketch(&from_chat(&twice, TO).body),
        "user: go / assistant:  + read#1{} + read#2{} / tool read#1: 1 / tool read#2: 2"
    );
}

#[test]
fn names_agree_everywhere() {
    let source = json!({"messages":[user("go"), calls(None, &[(A, "mcp.files:list", "{}"), (B, "", "{}")]), result(A, "a"), result(B, "b")],
        "tools":[{"type":"function","function":{"name":"mcp.files:list"}}],
        "tool_choice":{"type":"function","function":{"name":"mcp.files:list"}}});
    let out = from_chat(&source, TO);
    let name = out.messages()[1]["tool_calls"][0]["function"]["name"].as_str().unwrap();
    assert!(name.starts_with("mcp_files_list_"));
    assert_eq!(out.messages()[2]["name"], name);
    assert_eq!(out.messages()[3]["name"], "unknown_tool");
    assert_eq!(out.body["tools"][0]["function"], json!({"name":name,"parameters":{"type":"object"}}));
    assert_eq!(out.body["tool_choice"], json!({"type":"function","function":{"name":name}}));
}

#[test]
fn tools_and_choice() {
    let source = |choice: Value| {
        json!({"model":"m","max_tokens":5,"messages":[user("hi")],"tool_choice":choice,"tools":[
            {"name":"a","description":"does a","input_schema":{"type":"object","properties":{"x":{}}}},
            {"type":"web_search_20250305","name":"web_search"}]})
    };
    for (choice, expected) in [
        (json!({"type":"auto"}), json!("auto")),
        (json!({"type":"none"}), json!("none")),
        (json!({"type":"any","disable_parallel_tool_use":true}), json!("any")),
        (json!({"type":"tool","name":"a"}), json!({"type":"function","function":{"name":"a"}})),
        (json!({"type":"tool","name":"web_search"}), Value::Null),
    ] {
        let out = from_anthropic(&source(choice), TO);
        assert_eq!(out.body["tool_choice"], expected);
        assert_eq!(
            out.body["tools"],
            json!([{"type":"function","function":{"name":"a","description":"does a",
                "parameters":{"type":"object","properties":{"x":{}}}}}])
        );
        assert_eq!(out.body["max_tokens"], 5);
        let left_out = out.about("foreign-field");
        assert!(["tool web_search", "model"].iter().all(|field| left_out.contains(&(*field).to_owned())));
        assert_eq!(left_out.contains(&"tool_choice".to_owned()), expected.is_null());
        assert_eq!(
            left_out.contains(&"disable_parallel_tool_use of tool_choice".to_owned()),
            expected == "any"
        );
        assert!(out.body.get("model").is_none());
    }
    let custom = json!({"messages":[user("hi")],"tools":[{"type":"custom","custom":{"name":"sql","description":"d"}}]});
    assert_eq!(
        from_chat(&custom, TO).body["tools"][0]["function"]["parameters"],
        json!({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})
    );
}

#[test]
fn only_known_fields_go_out() {
    let list = json!([{"role":"user","content":"a","name":"bob"},
        {"role":"assistant","content":[{"type":"text","text":"b"}],"refusal":null,"reasoning_content":"hm","audio":{"id":"x"}}, user("c")]);
    let out = from_chat(&list, TO);
    assert_eq!(out.body["messages"], json!([user("a"), assistant("b"), user("c")]));
    assert_eq!(out.rules(), ["unknown-field", "unknown-field", "foreign-reasoning"]);
    let thinking = json!([user("a"), {"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"b"}]}, user("c")]);
    assert_eq!(sketch(&from_anthropic(&thinking, TO).body), "user: a / assistant: b / user: c");
}

#[test]
fn responses() {
    let response = br#"{"id":"x","object":"chat.completion","model":"magistral","choices":[{"index":0,"finish_reason":"tool_calls",
        "message":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"}]},
        {"type":"text","text":"ok"}],"tool_calls":[{"id":"call0000A","type":"function","function":{"name":"a","arguments":"{ }"}}]}}],
        "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let decoded = TO.wire().decode(response);
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    let message = decoded.message.unwrap();
    let BlockKind::Reasoning(reasoning) = &message.blocks[0].kind else { panic!("{message:?}") };
    assert_eq!(reasoning.text.as_str(), "hm");
    assert_eq!(reasoning.origin.dialect.as_deref(), Some("mistral"));
    assert_eq!(reasoning.origin.model.as_deref(), Some("magistral"));
    assert_eq!(message.content().as_deref(), Some("ok"));
    assert_eq!(message.tool_calls().next().unwrap().arguments.text().as_str(), "{ }");
    for (error, words) in [
        (
            r#"{"object":"error","message":"Invalid model","type":"invalid_model","code":"1500"}"#,
            "Invalid model",
        ),
        (r#"{"detail":[{"msg":"Field required"}]}"#, r#"[{"msg":"Field required"}]"#),
        (r#"{"error":{"message":"overloaded"}}"#, "overloaded"),
    ] {
        let End::Failed(fault) = TO.wire().decode(error.as_bytes()).end else { panic!("{error}") };
        assert_eq!(fault.message, words);
    }
}
