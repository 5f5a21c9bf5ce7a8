//! What Bedrock's Converse gets: two roles in turn, results first, no blank text, tools declared.

use rejoin_formats::wire::stream::{End, StopReason, Usage};
use rejoin_formats::{Context, Dialect, Target};
use rejoin_record::{BlockKind, Message};
use rejoin_view::{History, OnBroken};
use serde_json::{Value, json};

use crate::translation::{
    A, B, Numbers, assistant, calls, encoded, from_anthropic, from_chat, picture, result, short, system,
    user, uses,
};

pub const TO: Dialect = Dialect::Bedrock;

fn text(text: &str) -> Value {
    json!({"text":text})
}

/// One content block, inside a result or outside.
fn block(block: &Value, numbers: &mut Numbers) -> String {
    let (kind, value) = block.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "text" => short(value.as_str().unwrap()),
        "toolUse" => format!(
            "{}{}{}",
            value["name"].as_str().unwrap(),
            numbers.of(&value["toolUseId"]),
            value["input"]
        ),
        "toolResult" => {
            let failed = if value["status"] == "error" { "!" } else { "" };
            let content: Vec<String> = value["content"]
                .as_array()
                .unwrap()
                .iter()
                .map(|inner| self::block(inner, numbers))
                .collect();
            format!("{}{failed}=({})", numbers.of(&value["toolUseId"]), content.join(", "))
        }
        "image" => {
            format!("<{} {}>", value["format"].as_str().unwrap(), value["source"]["bytes"].as_str().unwrap())
        }
        "document" => format!(
            "<{} {} {}>",
            value["format"].as_str().unwrap(),
            value["name"].as_str().unwrap(),
            value["source"]["bytes"].as_str().unwrap()
        ),
        other => panic!("{other}"),
    }
}

/// `user: go / assistant: both, read#1{} / user: #1=(one), next`
pub fn sketch(body: &Value) -> String {
    let mut numbers = Numbers::default();
    let mut lines = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let blocks: Vec<String> =
            message["content"].as_array().unwrap().iter().map(|inner| block(inner, &mut numbers)).collect();
        lines.push(format!("{}: {}", message["role"].as_str().unwrap(), blocks.join(", ")));
    }
    lines.join(" / ")
}

/// What is sent, in pieces that must not change later.
pub fn pieces(body: &Value) -> Vec<String> {
    let mut pieces = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let blocks = message["content"].as_array().unwrap();
        pieces.extend(blocks.iter().map(|block| format!("{} {block}", message["role"])));
    }
    pieces
}

#[test]
fn a_tool_loop() {
    let source = json!({"messages":[
        user("go"),
        calls(None, &[(A, "read", "{\"p\":1}")]),
        result(A, "one"),
        calls(Some("and"), &[(B, "run", "{}")]),
        result(B, "two")],
        "tools":[{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object","properties":{}}}}]});
    let out = from_chat(&source, TO);
    assert_eq!(
        out.body,
        json!({"messages":[
            {"role":"user","content":[{"text":"go"}]},
            {"role":"assistant","content":[{"toolUse":{"toolUseId":A,"name":"read","input":{"p":1}}}]},
            {"role":"user","content":[{"toolResult":{"toolUseId":A,"content":[{"text":"one"}]}}]},
            {"role":"assistant","content":[{"text":"and"},{"toolUse":{"toolUseId":B,"name":"run","input":{}}}]},
            {"role":"user","content":[{"toolResult":{"toolUseId":B,"content":[{"text":"two"}]}}]}],
            "toolConfig":{"tools":[{"toolSpec":{"name":"read","description":"reads",
                "inputSchema":{"json":{"type":"object","properties":{}}}}}]}}),
        "a tool that is used and not declared is not added to those that are"
    );
    assert_eq!(out.rules(), [""; 0]);
}

#[test]
fn tools_that_are_called_are_declared() {
    let batch = calls(None, &[(A, "read", "{}"), (B, "run", "{}")]);
    let out = from_chat(&json!([user("go"), batch, result(A, "one"), result(B, "two")]), TO);
    assert_eq!(out.about("stub-tools"), ["read, run"]);
    let stub = |name: &str| json!({"toolSpec":{"name":name,"inputSchema":{"json":{"type":"object"}}}});
    assert_eq!(out.body["toolConfig"], json!({"tools":[stub("read"), stub("run")]}));
}

#[test]
fn what_stood_between_calls_stays_there() {
    let list = json!([user("go"), {"role":"assistant","content":[
        {"type":"text","text":"first"},{"type":"tool_use","id":A,"name":"read","input":{}},
        {"type":"text","text":"then"},{"type":"tool_use","id":B,"name":"run","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":A,"content":"one"},
            {"type":"tool_result","tool_use_id":B,"content":"two"},{"type":"text","text":"next"}]}]);
    let out = from_anthropic(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: go / assistant: first, read#1{}, then, run#2{} / user: #1=(one), #2=(two), next"
    );
    assert_eq!(out.rules(), ["stub-tools"], "the source has it in one message, too");
}

#[test]
fn system_texts_at_the_front_go_to_the_field() {
    let list = crate::system_texts();
    assert_eq!(from_chat(&list, TO).body["system"], json!([text("one"), text("two"), text("three")]));
    let anthropic = json!({"system":[{"type":"text","text":"x"},{"type":"text","text":" "},{"type":"text","text":"y"}],"messages":[system("z"), user("a")]});
    assert_eq!(from_anthropic(&anthropic, TO).body["system"], json!([text("x"), text("y"), text("z")]));
}

#[test]
fn neighbours_become_one_message() {
    let list = json!([user("a"), user("b"), assistant("c"), assistant("d"), user("e")]);
    let out = from_chat(&list, TO);
    assert_eq!(sketch(&out.body), "user: a, b / assistant: c, d / user: e");
    assert_eq!(out.rules(), ["role-order", "role-order"]);
    assert_eq!(out.findings[0].at.message, Some(1));
    assert_eq!(out.findings[0].action.name(), "joined");
}

#[test]
fn the_last_word_is_not_the_assistants() {
    let out = from_chat(&json!([user("a"), assistant("b")]), TO);
    assert_eq!(sketch(&out.body), "user: a / assistant: b / user: Continue.");
}

#[test]
fn failed_results() {
    let picture = picture(Some("image/png"), "iVBORw0KGgo=");
    let list = json!([user("go"), uses(&[(A, "run"), (B, "run")]),
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":A,"content":[picture,{"type":"text","text":"no"}],"is_error":true},
            {"type":"tool_result","tool_use_id":B,"content":[picture]}]}]);
    let out = from_anthropic(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: go / assistant: run#1{}, run#2{} / user: #1!=(no), #2=(<png iVBORw0KGgo=>), <png iVBORw0KGgo=>",
        "a failed result holds text only"
    );
    assert_eq!(out.rules(), ["moved-media", "stub-tools"]);
}

#[test]
fn images() {
    let base64 = |kind: &str, data: &str| picture(Some(kind), data);
    let list = json!([{"role":"user","content":[
        base64("image/png", "iVBORw0KGgo"), base64("image/jpg", "_9j_"), base64("image/gif", "R0lGODlh"), base64("image/webp", "UklGRgAAAABXRUJQ"),
        {"type":"image_url","image_url":{"url":"data:image/bmp;base64,Qk0="}},
        {"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}]},
        {"role":"assistant","content":[base64("image/png", "iVBORw0KGgo=")]}, user("ok")]);
    let out = from_anthropic(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: <png iVBORw0KGgo=>, <jpeg /9j/>, <gif R0lGODlh>, <webp UklGRgAAAABXRUJQ>, \
         [image unavailable: image/bmp is not supported here], [image, https://example.com/a.png] / assistant: [image, image/png, not shown] / user: ok"
    );
    assert_eq!(
        out.messages()[0]["content"][0],
        json!({"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}})
    );
    // Two messages of one role are one message: their images count together.
    let many =
        |count: usize| json!({"role":"user","content":vec![base64("image/png", "iVBORw0KGgo="); count]});
    let out = from_anthropic(&json!([many(19), many(3), assistant("ok"), many(1)]), TO);
    let images = |message: &Value| {
        message["content"].as_array().unwrap().iter().filter(|block| block.get("image").is_some()).count()
    };
    assert_eq!(out.messages().iter().map(images).collect::<Vec<_>>(), [20, 0, 1]);
    assert_eq!(out.messages()[0]["content"][21], text("[image, image/png, not shown]"));
}

#[test]
fn documents() {
    let file = |name: &str| json!({"type":"file","file":{"filename":name,"file_data":"data:application/pdf;base64,JVBERi0="}});
    let list =
        json!([{"role":"user","content":[file("a_b.pdf"), file("a-b.pdf"), file("my  report (1) [x].pdf")]}]);
    let out = from_chat(&list, TO);
    assert_eq!(
        sketch(&out.body),
        "user: <pdf a-b-pdf JVBERi0=>, <pdf a-b-pdf (2) JVBERi0=>, <pdf my report (1) [x]-pdf JVBERi0=>, [document a_b.pdf]"
    );
    assert_eq!(
        out.messages()[0]["content"][0],
        json!({"document":{"format":"pdf","name":"a-b-pdf","source":{"bytes":"JVBERi0="}}})
    );
    assert_eq!(out.about("irregular-content"), ["a_b.pdf", "a-b.pdf", "my  report (1) [x].pdf"]);
    // With a text in the message there is nothing to add, wherever it stands.
    let list = json!([user("read"), {"role":"user","content":[file("a")]}, assistant("ok"), {"role":"user","content":[file("a"), {"type":"text","text":"again"}]}]);
    assert_eq!(
        sketch(&from_chat(&list, TO).body),
        "user: read, <pdf a JVBERi0=> / assistant: ok / user: <pdf a JVBERi0=>, again"
    );
    let many = json!([{"role":"user","content":[{"type":"text","text":"read"}, file("1"), file("2"), file("3"), file("4"), file("5"), file("6")]}]);
    assert_eq!(
        from_chat(&many, TO).messages()[0]["content"][6],
        text("[document, 6, application/pdf, not shown]")
    );

    let anthropic = json!([{"role":"user","content":[
        {"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain words"}},
        {"type":"document","title":"t.CSV","source":{"type":"base64","media_type":"application/x","data":"YSxi"}},
        {"type":"document","source":{"type":"base64","media_type":"application/zip","data":"UEsD"}},
        {"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}]}]);
    assert_eq!(
        sketch(&from_anthropic(&anthropic, TO).body),
        "user: <txt document cGxhaW4gd29yZHM=>, <csv t-CSV YSxi>, \
         [document unavailable: application/zip is not supported here], [document, https://example.com/a.pdf]"
    );
}

#[test]
fn a_document_in_a_result() {
    let document = json!({"type":"document","title":"a","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}});
    let list = json!([user("go"), uses(&[(A, "read")]),
        {"role":"user","content":[{"type":"tool_result","tool_use_id":A,"content":[document]},document]}]);
    assert_eq!(
        sketch(&from_anthropic(&list, TO).body),
        "user: go / assistant: read#1{} / user: #1=(<pdf a JVBERi0=>, [document a]), <pdf a (2) JVBERi0=>, [document a]"
    );
}

#[test]
fn too_large() {
    let convert = |kind: &str, bytes: usize| {
        let mark = if kind == "image" { "iVBORw0KGgoA" } else { "JVBERi0xLjcA" };
        let data = format!("{mark}{}", "AAAA".repeat(bytes / 3 - 3));
        let body = json!([user("a"), {"role":"user","content":[{"type":kind,"source":{"type":"base64",
            "media_type":if kind == "image" { "image/png" } else { "application/pdf" },"data":data}}]}]);
        let input = rejoin_formats::Input::new("body", body.to_string().as_bytes()).unwrap();
        let session = rejoin_formats::sessions::read(&input, rejoin_formats::sessions::named("anthropic"))
            .unwrap()
            .remove(0);
        rejoin_formats::convert(&session, TO, None, OnBroken::Keep)
    };
    for (kind, limit) in [("image", 3_750_000), ("document", 4_500_000)] {
        assert!(convert(kind, limit).is_ok(), "{kind}");
        let rejoin_formats::ConvertError::TooLarge(error) = convert(kind, limit + 3).unwrap_err() else {
            panic!()
        };
        assert_eq!((error.rule, error.size, error.limit), ("BED-11", limit + 3, limit));
        assert_eq!((error.at.message, error.at.block), (Some(1), Some(0)));
    }
}

#[test]
fn ids_and_names() {
    let long = "x".repeat(65);
    let ids = ["functions.read:0", "a b", &long, ""];
    let list: Vec<(&str, &str, &str)> = ids[..3].iter().map(|id| (*id, "mcp.files:list", "{}")).collect();
    let mut source = vec![user("go"), calls(None, &list)];
    source.extend(ids[..3].iter().map(|id| result(id, "r")));
    let out = from_chat(&json!(source), TO);
    let sent = out.messages()[1]["content"].as_array().unwrap();
    let results = out.messages()[2]["content"].as_array().unwrap();
    for (call, result) in sent.iter().zip(results) {
        assert_eq!(call["toolUse"]["toolUseId"], result["toolResult"]["toolUseId"]);
        let id = call["toolUse"]["toolUseId"].as_str().unwrap();
        assert!(id.len() <= 64 && !id.contains(' '));
    }
    assert_eq!(sent[0]["toolUse"]["toolUseId"], "functions.read:0", "a legal one stays");
    assert_eq!(out.about("illegal-id"), ["a b", &long]);
    let name = sent[0]["toolUse"]["name"].as_str().unwrap();
    assert!(name.starts_with("mcp_files_list_"));
    assert_eq!(out.body["toolConfig"]["tools"][0]["toolSpec"]["name"], name);
}

#[test]
fn tools_and_choice() {
    let source = |choice: Value| {
        json!({"model":"m","messages":[user("hi")],"tool_choice":choice,"tools":[
            {"type":"function","function":{"name":"b.c","description":" "}},
            {"type":"custom","custom":{"name":"sql"}}]})
    };
    let name =
        from_chat(&source(json!("auto")), TO).body["toolConfig"]["tools"][0]["toolSpec"]["name"].clone();
    for (choice, expected) in [
        (json!("auto"), json!({"auto":{}})),
        (json!("required"), json!({"any":{}})),
        (json!({"type":"function","function":{"name":"b.c"}}), json!({"tool":{"name":name}})),
        (json!("none"), Value::Null),
        (json!({"type":"function","function":{"name":"other"}}), Value::Null),
    ] {
        let out = from_chat(&source(choice), TO);
        let config = &out.body["toolConfig"];
        assert_eq!(config["toolChoice"], expected);
        assert_eq!(
            config["tools"][0],
            json!({"toolSpec":{"name":name,"inputSchema":{"json":{"type":"object"}}}})
        );
        assert_eq!(
            config["tools"][1]["toolSpec"]["inputSchema"]["json"]["required"],
            json!(["input"]),
            "free text goes in a field"
        );
        assert_eq!(out.about("foreign-field").contains(&"tool_choice".to_owned()), expected.is_null());
        assert!(out.body.get("tools").is_none() && out.body.get("tool_choice").is_none());
    }
}

#[test]
fn the_model_is_not_in_the_body() {
    let input = rejoin_formats::Input::new("body", json!([user("hi")]).to_string().as_bytes()).unwrap();
    let session = rejoin_formats::sessions::read(&input, None).unwrap().remove(0);
    let out = rejoin_formats::convert(&session, TO, Some("anthropic.claude"), OnBroken::Keep).unwrap();
    assert_eq!(out.body, r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
    assert_eq!(out.findings[0].subject.as_deref(), Some("model"));
}

#[test]
fn reasoning_is_left_out() {
    let thinking = json!([user("a"), {"role":"assistant","content":[
        {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"b"}]}, user("c")]);
    let out = from_anthropic(&thinking, TO);
    assert_eq!(sketch(&out.body), "user: a / assistant: b / user: c");
    assert_eq!(out.rules(), ["foreign-reasoning"]);
}

#[test]
fn responses() {
    let response = br#"{"output":{"message":{"role":"assistant","content":[
        {"reasoningContent":{"reasoningText":{"text":"hm","signature":"c2ln"}}},{"reasoningContent":{"redactedContent":"AAAA"}},
        {"text":"ok"},{"toolUse":{"toolUseId":"t1","name":"a","input":{ "x" : 1.50 }}},{"citationsContent":{"x":1}}]}},
        "stopReason":"tool_use","usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}"#;
    let decoded = TO.wire().decode(response);
    assert_eq!(decoded.end, End::Complete(StopReason::Done));
    let usage = Usage { input: 3, output: 4, ..Usage::default() };
    assert_eq!((decoded.usage, decoded.model), (Some(usage), None));
    let message = decoded.message.unwrap();
    let blocks = &message.blocks;
    for (block, text) in blocks.iter().zip(["hm", ""]) {
        let BlockKind::Reasoning(reasoning) = &block.kind else { panic!("{block:?}") };
        assert_eq!((reasoning.text.as_str(), reasoning.sealed), (text, true));
        assert_eq!(reasoning.origin.dialect.as_deref(), Some("bedrock"));
    }
    assert_eq!(blocks[2].as_text().unwrap().as_str(), "ok");
    let call = blocks[3].as_call().unwrap();
    assert_eq!((call.id.as_str(), call.name.as_str()), ("t1", "a"));
    assert_eq!(call.arguments.text().as_str(), "{ \"x\" : 1.50 }");
    assert!(matches!(&blocks[4].kind, BlockKind::Opaque(opaque) if &*opaque.kind == "citationsContent"));
    assert_eq!(message.native_block(&blocks[2]), Some(r#"{"text":"ok"}"#));
    assert!(matches!(TO.wire().decode(br#"{"output":{}}"#).end, End::Garbage(_)));
    // What was decoded can be sent: as other words, and without what it thought.
    let history: History = [Message::user("go"), message, Message::tool("t1", "done")].into_iter().collect();
    let context = Context::default();
    assert_eq!(
        sketch(&encoded(&history, &Target::of(&context), TO)),
        "user: go / assistant: ok, a#1{\"x\":1.5}, [citationsContent] {\"citationsContent\":{\"x\":1}} / user: #1=(done)"
    );
}
