//! What Ollama gets: contents as strings, arguments as objects, no ids.

use rejoin_formats::Dialect;
use rejoin_formats::wire::stream::{End, StopReason, Usage};
use rejoin_record::BlockKind;
use serde_json::{Value, json};

use crate::translation::{
    A, B, assistant, calls, from_anthropic, from_chat, picture, result, short, system, user, uses,
};

pub const TO: Dialect = Dialect::Ollama;

/// `user: go / assistant: + read{} / tool read: one`; images after the text.
pub fn sketch(body: &Value) -> String {
    let line = |message: &Value| {
        let said = short(message["content"].as_str().unwrap());
        let mut line = match message["role"].as_str().unwrap() {
            "tool" => format!("tool {}: {said}", message["tool_name"].as_str().unwrap()),
            role => format!("{role}: {said}"),
        };
        for image in message["images"].as_array().into_iter().flatten() {
            line.push_str(&format!(" <{}>", image.as_str().unwrap()));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            assert!(function["arguments"].is_object() && call.as_object().unwrap().len() == 1);
            line.push_str(&format!(" + {}{}", function["name"].as_str().unwrap(), function["arguments"]));
        }
        line
    };
    body["messages"].as_array().unwrap().iter().map(line).collect::<Vec<_>>().join(" / ")
}

#[test]
fn a_trailing_answer_stays() {
    let list = json!([system("be brief"), user("hi"), assistant("hello")]);
    let out = from_chat(&list, TO);
    assert_eq!(out.body, json!({"messages":list}));
    assert_eq!(out.rules(), [""; 0]);
}

#[test]
fn a_tool_loop() {
    let list = json!([
        user("go"),
        calls(None, &[(A, "read", "{ \"n\": 1.50, \"n\": \"\\u0000\" }")]),
        result(A, "one"),
        calls(Some("and"), &[("any id at all", "mcp.files:list", "{}")]),
        result("any id at all", "two")
    ]);
    let out = from_chat(&list, TO);
    assert_eq!(
        out.body["messages"],
        json!([
            {"role":"user","content":"go"},
            {"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":{"n":"\u{0}"}}}]},
            {"role":"tool","tool_name":"read","content":"one"},
            {"role":"assistant","content":"and","tool_calls":[{"function":{"name":"mcp.files:list","arguments":{}}}]},
            {"role":"tool","tool_name":"mcp.files:list","content":"two"}])
    );
    assert_eq!(out.rules(), [""; 0]);
}

#[test]
fn system_texts_become_one_string() {
    assert_eq!(from_chat(&crate::system_texts(), TO).rules(), ["irregular-content", "empty-message"]);
    let anthropic =
        json!({"system":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"messages":[user("a")]});
    assert_eq!(sketch(&from_anthropic(&anthropic, TO).body), "system: x\n\ny / user: a");
}

#[test]
fn texts_are_joined_and_words_are_not() {
    let list = json!([{"role":"user","content":[
        {"type":"text","text":"one"},{"type":"text","text":""},{"type":"text","text":"two"}]}, assistant("ok")]);
    let out = from_chat(&list, TO);
    assert_eq!(out.messages()[0]["content"], "one\n\ntwo");
    assert_eq!(out.rules(), ["irregular-content"]);
}

#[test]
fn media() {
    let list = json!([{"role":"user","content":[
        {"type":"text","text":"look"},
        {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K\nGgo"}},
        {"type":"image_url","image_url":{"url":"data:image/jpeg;base64,_9j_4A=="}},
        {"type":"image_url","image_url":{"url":"https://example.com/a.jpg"}},
        {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]}]);
    let out = from_chat(&list, TO);
    assert_eq!(
        out.messages()[0],
        json!({"role":"user",
            "content":"look\n\n[image, https://example.com/a.jpg]\n\n[document, a.pdf, application/pdf, not shown]",
            "images":["iVBORw0KGgo=","/9j/4A=="]})
    );
    assert_eq!(out.rules(), ["moved-media", "moved-media", "irregular-content"]);
    let anthropic = json!([{"role":"user","content":[
        {"type":"document","title":"n","source":{"type":"text","media_type":"text/plain","data":"words"}}]},
        {"role":"assistant","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]);
    assert_eq!(
        sketch(&from_anthropic(&anthropic, TO).body),
        "user: [document, n, text/plain]\nwords / assistant: [image, image/png, not shown]"
    );
    let only = json!([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]);
    assert_eq!(sketch(&from_chat(&only, TO).body), "user:  <iVBORw0KGgo=>");
}

#[test]
fn media_in_results() {
    let list = json!([user("shoot"), uses(&[(A, "shot"), (B, "scan")]),
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":A,"content":[{"type":"text","text":"done"},picture(None, "iVBORw0KGgo=")]},
            {"type":"tool_result","tool_use_id":B,"content":[picture(None, "R0lGODlh")]},
            {"type":"text","text":"nice"}]}]);
    let out = from_anthropic(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: shoot / assistant:  + shot{} + scan{} / tool shot: done\n\n[image, shown in the next user message] / \
         tool scan: [image, shown in the next user message] / \
         user: [from the result of tool shot]\n\n[from the result of tool scan] <iVBORw0KGgo=> <R0lGODlh> / user: nice"
    );
    assert_eq!(out.about("moved-media"), ["shot", "scan"]);
}

#[test]
fn a_failed_result_says_so() {
    let list = |content: Value| {
        json!([user("go"), uses(&[(A, "run")]),
            {"role":"user","content":[{"type":"tool_result","tool_use_id":A,"content":content,"is_error":true}]}])
    };
    let out = from_anthropic(
        &list(json!([{"type":"text","text":"no such file"},{"type":"text","text":"really"}])),
        TO,
    );
    assert_eq!(
        sketch(&out.body),
        "user: go / assistant:  + run{} / tool run: [error] no such file\n\nreally"
    );
    assert_eq!(out.about("foreign-field"), ["is_error"]);
    assert_eq!(out.findings[0].action.name(), "replaced");
    let empty = from_anthropic(&list(json!("")), TO);
    assert_eq!(sketch(&empty.body), "user: go / assistant:  + run{} / tool run: [error]");
}

#[test]
fn a_tool_needs_a_name() {
    let source = json!({"messages":[user("go"), calls(None, &[(A, "", "{}"), (B, "näme", "{}")]), result(A, "a"), result(B, "b")]});
    let out = from_chat(&source, TO);
    assert_eq!(
        sketch(&out.body),
        "user: go / assistant:  + unknown_tool{} + näme{} / tool unknown_tool: a / tool näme: b"
    );
    assert_eq!(out.rules(), ["illegal-name"]);
}

#[test]
fn tools_and_choice() {
    let source = json!({"model":"m","messages":[user("hi")],"tool_choice":{"type":"any"},"tools":[
        {"name":"a","description":"does a","input_schema":{"type":"object"}},
        {"type":"web_search_20250305","name":"web_search"}]});
    let out = from_anthropic(&source, TO);
    assert_eq!(
        out.body,
        json!({"messages":[user("hi")],
            "tools":[{"type":"function","function":{"name":"a","description":"does a","parameters":{"type":"object"}}}]})
    );
    assert_eq!(
        out.about("foreign-field"),
        ["tool web_search", "model", "tool_choice"],
        "there is no tool choice"
    );
}

#[test]
fn reasoning_is_left_out() {
    let thinking = json!([user("a"), {"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"b"}]}]);
    let out = from_anthropic(&thinking, TO);
    assert_eq!(out.body["messages"], json!([user("a"), assistant("b")]));
    assert_eq!(out.rules(), ["foreign-reasoning"]);
}

#[test]
fn responses() {
    let response = br#"{"model":"qwen3","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"ok","thinking":"hm",
        "tool_calls":[{"function":{"name":"a","arguments":{ "x" : 1.50 }}},{"function":{"name":"a","arguments":{ "x" : 1.50 }}},
        {"id":"call_7","function":{"name":"b","arguments":{}}}]},
        "done_reason":"stop","done":true,"prompt_eval_count":3,"eval_count":4}"#;
    let decoded = TO.wire().decode(response);
    assert_eq!(decoded.model.as_deref(), Some("qwen3"));
    assert_eq!(decoded.end, End::Complete(StopReason::Done));
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    let message = decoded.message.unwrap();
    let BlockKind::Reasoning(reasoning) = &message.blocks[0].kind else { panic!("{message:?}") };
    assert_eq!(reasoning.text.as_str(), "hm");
    assert_eq!(reasoning.origin.dialect.as_deref(), Some("ollama"));
    assert_eq!(message.content().as_deref(), Some("ok"));
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!(calls[0].arguments.text().as_str(), "{ \"x\" : 1.50 }");
    assert_ne!(calls[0].id, calls[1].id);
    assert_eq!(calls[2].id.as_str(), "call_7");
    assert!(calls.iter().all(|call| call.id_given));
    let native = message.native.as_ref().unwrap();
    let span = calls[0].arguments.text().span().unwrap();
    assert_eq!(
        span.of(native.raw.as_str()),
        Some("{ \"x\" : 1.50 }"),
        "the text is a piece of the native item"
    );
    // The same response gives the same ids, another one others.
    let ids = |response: &[u8]| {
        let message = TO.wire().decode(response).message.unwrap();
        message.tool_calls().map(|call| call.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(response), ids(response));
    let later = String::from_utf8_lossy(response).replace("2026-01-01", "2026-01-02");
    assert_ne!(ids(response)[0], ids(later.as_bytes())[0]);
    assert!(matches!(TO.wire().decode(br#"{"model":"x"}"#).end, End::Garbage(_)));
}
