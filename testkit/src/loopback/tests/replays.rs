//! Issued secrets come back unchanged, at the same place, or are refused.

use serde_json::{Value, json};

use super::{
    super::{Config, Loopback, Service},
    KEY, ask, first, go_on, messages, server,
};

/// A request that returns issued secrets, and the server that issued them.
fn replay(service: Service, api: &str) -> (Loopback, Value) {
    let server = server();
    let mut body = first(service, api, "tools:2 steps:3 think", false);
    for _ in 0..2 {
        let answer = ask(&server, service, api, &body).json();
        go_on(service, api, &mut body, &answer);
    }
    assert_eq!(server.issued().is_empty(), service == Service::DeepSeek);
    (server, body)
}

/// Sends a changed request, and returns its faults.
fn verdict(server: &Loopback, service: Service, api: &str, body: &Value) -> Vec<String> {
    server.forget();
    let got = ask(server, service, api, body);
    let rules: Vec<String> = server.violations().into_iter().map(|violation| violation.rule).collect();
    assert_eq!(got.status, if rules.is_empty() { 200 } else { 400 }, "{}", got.text());
    rules
}

/// ANT-18 to ANT-21.
#[test]
fn thinking_comes_back_as_it_was() {
    let service = Service::Anthropic;
    let (server, body) = replay(service, "");
    let verdict = |change: &dyn Fn(&mut Value)| {
        let mut body = body.clone();
        change(&mut body);
        verdict(&server, service, "", &body)
    };
    let field = |block: &Value| if block["data"].is_string() { "data" } else { "signature" };
    assert_eq!(verdict(&|_| {}), [""; 0]);
    // Cache marks and the cut between messages change nothing.
    let marked = |body: &mut Value| {
        body["messages"][0]["content"] = json!([{"type": "text", "text": body["messages"][0]["content"], "cache_control": {"type": "ephemeral"}}]);
    };
    assert_eq!(verdict(&marked), [""; 0]);
    let unknown = |body: &mut Value| {
        let block = &mut body["messages"][1]["content"][0];
        let name = field(block);
        block[name] = json!("EqQBCgIYAhIM");
    };
    // The content after it then has a different prefix.
    assert_eq!(verdict(&unknown), ["ANT-20", "ANT-21"]);
    let altered = |body: &mut Value| {
        let block = &mut body["messages"][3]["content"][0];
        match field(block) {
            "data" => {
                *block =
                    json!({"type": "thinking", "thinking": "I never thought so", "signature": block["data"]})
            }
            _ => block["thinking"] = json!("I never thought so"),
        }
    };
    assert_eq!(verdict(&altered), ["ANT-19"]);
    let said_otherwise = |body: &mut Value| body["messages"][0]["content"] = json!("tools:2 steps:3 Think");
    assert_eq!(verdict(&said_otherwise), ["ANT-21", "ANT-21"]);
    assert_eq!(verdict(&|body| body["system"] = json!("Be kind.")), ["ANT-21", "ANT-21"]);
    assert_eq!(verdict(&|body| body["tools"][0]["description"] = json!("other")), ["ANT-21", "ANT-21"]);
    assert_eq!(verdict(&|body| body["model"] = json!("claude-other")), ["ANT-20", "ANT-20"]);
    let moved = |body: &mut Value| {
        let block = body["messages"][1]["content"][0].clone();
        body["messages"][3]["content"][0] = block;
    };
    assert_eq!(verdict(&moved), ["ANT-21", "ANT-19"]);
    let left_out = |at: usize| {
        move |body: &mut Value| drop(body["messages"][at]["content"].as_array_mut().unwrap().remove(0))
    };
    assert_eq!(verdict(&left_out(3)), ["ANT-19"]);
    assert_eq!(verdict(&left_out(1)), ["ANT-18", "ANT-21"]);
    // Without thinking, a request needs no thinking blocks.
    let without = |body: &mut Value| {
        body["thinking"] = json!({"type": "disabled"});
        left_out(3)(body);
        left_out(1)(body);
    };
    assert_eq!(verdict(&without), [""; 0]);
}

/// ANT-20: a key of another account cannot read what was signed for this one, and a restart forgets nothing.
#[test]
fn secrets_belong_to_an_account_and_outlive_a_server() {
    let (mut server, body) = replay(Service::Anthropic, "");
    server.restart().unwrap();
    assert_eq!(verdict(&server, Service::Anthropic, "", &body), [""; 0]);
    let elsewhere =
        Loopback::start(Config { key: Some(KEY.into()), issued: server.issued(), ..Config::default() });
    assert_eq!(verdict(&elsewhere, Service::Anthropic, "", &body), [""; 0]);
    let stranger = super::server();
    assert_eq!(verdict(&stranger, Service::Anthropic, "", &body), ["ANT-20", "ANT-20"]);
    let other = Loopback::start(Config { issued: server.issued(), ..Config::default() });
    let headers = [("x-api-key", "another-key".to_owned()), ("anthropic-version", "2023-06-01".into())];
    let got = super::Client::to(&other).post("/v1/messages", &headers, body.to_string().as_bytes());
    assert!(got.text().contains("Invalid `signature` in `thinking` block"), "{}", got.text());
}

/// RSP-04 to RSP-07.
#[test]
fn encrypted_reasoning_comes_back_as_it_was() {
    let (service, api) = (Service::OpenAi, "responses");
    let (server, body) = replay(service, api);
    let verdict = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut body = body.clone();
        change(messages(&mut body));
        verdict(&server, service, api, &body)
    };
    let place = |items: &[Value], kind: &str| items.iter().rposition(|item| item["type"] == kind).unwrap();
    assert_eq!(verdict(&|_| {}), [""; 0]);
    // Neither ids nor fields other than the text are needed.
    let bare = |items: &mut Vec<Value>| {
        for item in items {
            item.as_object_mut().unwrap().retain(|name, _| name != "id" && name != "status");
        }
    };
    assert_eq!(verdict(&bare), [""; 0]);
    let altered = |items: &mut Vec<Value>| {
        let at = place(items, "reasoning");
        let blob = items[at]["encrypted_content"].as_str().unwrap().replace("gAAAAA", "gAAAAB");
        items[at]["encrypted_content"] = json!(blob);
    };
    assert_eq!(verdict(&altered), ["RSP-07"]);
    let prefix = |items: &mut Vec<Value>| items[0]["content"] = json!("something else");
    assert_eq!(verdict(&prefix), ["RSP-07", "RSP-07"]);
    // Without its blob, an item does not count (RSP-06), and the next item misses it.
    let blobless = |items: &mut Vec<Value>| {
        let at = place(items, "reasoning");
        items[at].as_object_mut().unwrap().remove("encrypted_content");
    };
    assert_eq!(verdict(&blobless), ["RSP-06"]);
    let reasonless = |items: &mut Vec<Value>| {
        let at = place(items, "reasoning");
        items.remove(at);
    };
    assert_eq!(verdict(&reasonless), ["RSP-05", "RSP-05"]);
    let stripped = |items: &mut Vec<Value>| {
        let at = place(items, "reasoning");
        items.remove(at);
        bare(items);
    };
    assert_eq!(verdict(&stripped), [""; 0]);
    // The first call after the reasoning goes, with its result: another one follows, and that is not enough.
    let bereft = |items: &mut Vec<Value>| {
        let at = place(items, "reasoning") + 1;
        let id = items.remove(at)["call_id"].clone();
        items.retain(|item| item["call_id"] != id || id.is_null());
    };
    assert_eq!(verdict(&bereft), ["RSP-04"]);
}

/// RSP-07: nothing is encrypted for those who did not ask for it.
#[test]
fn nothing_is_encrypted_unasked() {
    let server = server();
    let mut body = first(Service::OpenAi, "responses", "think", false);
    body.as_object_mut().unwrap().remove("include");
    let got = ask(&server, Service::OpenAi, "responses", &body).json();
    assert_eq!(got["output"][0]["type"], "reasoning");
    assert!(got["output"][0].get("encrypted_content").is_none());
    assert!(server.issued().is_empty());
}

/// GEM-11, GEM-12.
#[test]
fn thought_signatures_come_back_in_their_parts() {
    let service = Service::Gemini;
    let (server, body) = replay(service, "");
    let signed = |body: &Value, at: usize| {
        let parts = body["contents"][at]["parts"].as_array().unwrap();
        parts.iter().position(|part| part["thoughtSignature"].is_string()).unwrap()
    };
    let verdict = |change: &dyn Fn(&mut Value)| {
        let mut body = body.clone();
        change(&mut body);
        verdict(&server, service, "", &body)
    };
    let put = |at: usize, value: Value| {
        move |body: &mut Value| {
            let part = signed(body, at);
            body["contents"][at]["parts"][part]["thoughtSignature"] = value.clone();
        }
    };
    assert_eq!(verdict(&|_| {}), [""; 0]);
    assert_eq!(verdict(&put(3, json!("AAAA"))), ["GEM-12"]);
    assert_eq!(verdict(&put(3, Value::Null)), ["GEM-11"]);
    assert_eq!(verdict(&put(1, json!("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="))), [""; 0]);
    // Another alphabet, and no padding: the same bytes.
    let respelled = |body: &mut Value| {
        let part = signed(body, 3);
        let place = &mut body["contents"][3]["parts"][part]["thoughtSignature"];
        *place = json!(place.as_str().unwrap().replace('+', "-").replace('/', "_").replace('=', ""));
    };
    assert_eq!(verdict(&respelled), [""; 0]);
    let moved = |body: &mut Value| {
        let (from, to) = (signed(body, 1), signed(body, 3));
        body["contents"][3]["parts"][to]["thoughtSignature"] =
            body["contents"][1]["parts"][from]["thoughtSignature"].clone();
    };
    assert_eq!(verdict(&moved), ["GEM-12"]);
    assert_eq!(
        verdict(&|body| body["contents"][0]["parts"][0]["text"] = json!("else")),
        ["GEM-12", "GEM-12"]
    );
    let edited = |body: &mut Value| {
        let part = signed(body, 3);
        body["contents"][3]["parts"][part]["functionCall"]["args"]["expression"] = json!("1+1");
    };
    assert_eq!(verdict(&edited), ["GEM-12"]);
}

/// OR-01: reasoning that OpenRouter passed on comes back unmodified, streamed or not.
#[test]
fn reasoning_details_come_back_unmodified() {
    let service = Service::OpenRouter;
    let (server, body) = replay(service, "");
    assert_eq!(verdict(&server, service, "", &body), [""; 0]);
    let mut altered = body.clone();
    let detail = &mut altered["messages"][1]["reasoning_details"][0];
    let name = if detail["data"].is_string() { "data" } else { "text" };
    detail[name] = json!("other");
    assert_eq!(verdict(&server, service, "", &altered), ["OR-01"]);
    let mut foreign = body.clone();
    foreign["model"] = json!("other/model");
    assert_eq!(verdict(&server, service, "", &foreign), ["OR-01", "OR-01"]);
    // The pieces of a stream, passed back as they came.
    let mut body = first(service, "", "tools:1 think", true);
    let got = ask(&server, service, "", &body);
    let events = got.events();
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]);
    let details: Vec<Value> = deltas()
        .flat_map(|delta| delta["reasoning_details"].as_array().cloned().unwrap_or_default())
        .collect();
    let calls: Vec<&Value> = deltas()
        .filter(|delta| delta["tool_calls"].is_array())
        .map(|delta| &delta["tool_calls"][0])
        .collect();
    let text: String = deltas().filter_map(|delta| delta["content"].as_str()).collect();
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    let function = json!({"name": calls[0]["function"]["name"], "arguments": arguments});
    let call = json!({"id": calls[0]["id"], "type": "function", "function": function});
    let list = messages(&mut body);
    list.push(
        json!({"role": "assistant", "content": text, "tool_calls": [call], "reasoning_details": details}),
    );
    list.push(json!({"role": "tool", "tool_call_id": calls[0]["id"], "content": "42"}));
    assert!(!details.is_empty());
    assert_eq!(verdict(&server, service, "", &body), [""; 0]);
}

/// DS-01.
#[test]
fn reasoning_beside_calls_is_wanted_back() {
    let service = Service::DeepSeek;
    let (server, body) = replay(service, "");
    assert_eq!(verdict(&server, service, "", &body), [""; 0]);
    let mut without = body.clone();
    without["messages"][1].as_object_mut().unwrap().remove("reasoning_content");
    assert_eq!(verdict(&server, service, "", &without), ["DS-01"]);
    without["thinking"] = json!({"type": "disabled"});
    assert_eq!(verdict(&server, service, "", &without), [""; 0]);
    without.as_object_mut().unwrap().remove("thinking");
    let lenient = Loopback::start(Config { reasoning_required: false, ..Config::default() });
    assert_eq!(verdict(&lenient, service, "", &without), [""; 0]);
}
