//! Responses items of tools that the provider runs go back to it byte for byte, with the reasoning before them. Anything
//! unknown becomes labelled text, and nothing of it is dropped.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Converted, Dialect, Input, Session, convert, sessions};
use rejoin_view::OnBroken;
use serde_json::{Value, json};

const OWN: Dialect = Dialect::OpenAiResponses;

fn session(body: &Value) -> Session {
    let input = Input::new("body.json", body.to_string().as_bytes()).unwrap();
    sessions::read(&input, sessions::named("openai-responses")).unwrap().remove(0)
}

fn converted(body: &Value, to: Dialect) -> Converted {
    let out = convert(&session(body), to, None, OnBroken::Keep).unwrap();
    let violations = testkit::refusals(to, out.body.as_bytes());
    assert!(violations.is_empty(), "{to}: {violations:#?}\n{}", out.body);
    out
}

fn items(out: &Converted) -> Vec<Value> {
    serde_json::from_str::<Value>(&out.body).unwrap()["input"].as_array().unwrap().clone()
}

fn rules(out: &Converted) -> Vec<&'static str> {
    out.findings.iter().map(|finding| finding.rule.name()).collect()
}

fn reasoning(seal: &str) -> Value {
    json!({"type":"reasoning","id":format!("rs_{seal}"),"summary":[],"encrypted_content":seal})
}

fn body(items: &[Value]) -> Value {
    let mut list = vec![json!({"role":"user","content":"go on then please"})];
    list.extend(items.iter().cloned());
    list.push(json!({"role":"user","content":"more"}));
    json!({"model":"m","input":list})
}

/// The items of tools that the provider runs itself, each with different words in it.
fn hosted() -> Vec<Value> {
    vec![
        json!({"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"words of a query","sources":[{"type":"url","url":"https://example.org"}]}}),
        json!({"type":"web_search_call","status":"completed","action":{"type":"open_page","url":"https://example.org/words"}}),
        json!({"type":"file_search_call","id":"fs_1","queries":["words of a query"],"status":"completed","results":[{"file_id":"f","filename":"a.txt","score":0.5,"text":"words of a result"}]}),
        json!({"type":"code_interpreter_call","id":"ci_1","code":"print('words')","container_id":"cntr_1","outputs":[{"type":"logs","logs":"words of an output"}],"status":"completed"}),
        json!({"type":"image_generation_call","id":"ig_1","result":"iVBORw0KGgo=","status":"completed","revised_prompt":"words of a prompt"}),
        json!({"type":"mcp_list_tools","id":"mcpl_1","server_label":"s","tools":[{"name":"read","input_schema":{},"description":"words of a description"}]}),
        json!({"type":"mcp_call","id":"mcp_1","name":"read","arguments":"{\"a\":\"words\"}","server_label":"s","output":"words of an output"}),
        json!({"type":"tool_search_call","execution":"server","call_id":null,"status":"completed","arguments":{"query":"words of a query"}}),
        json!({"type":"tool_search_output","execution":"server","call_id":null,"status":"completed","tools":[{"type":"function","name":"words_of_a_tool"}]}),
        json!({"type":"program","id":"prg_1","call_id":"p1","code":"let words = 1","fingerprint":"x"}),
        json!({"type":"program_output","id":"pgo_1","call_id":"p1","result":"words of a result","status":"completed"}),
        json!({"type":"compaction","id":"cmp_1","encrypted_content":"gAAAAABq"}),
        json!({"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"words_of_a_tool"}]}),
    ]
}

#[test]
fn hosted_items_come_back_byte_for_byte_in_their_place() {
    for item in hosted() {
        let body = body(&[item]);
        let out = converted(&body, OWN);
        assert_eq!(out.body, body.to_string());
        assert!(out.findings.is_empty(), "{:?}", out.findings);
    }
    let all = body(&hosted());
    let out = converted(&all, OWN);
    assert_eq!(out.body, all.to_string());
    assert!(out.findings.is_empty(), "{:?}", out.findings);
}

#[test]
fn the_reasoning_before_a_hosted_item_stays() {
    let follows = |item: &&Value| !["additional_tools"].contains(&item["type"].as_str().unwrap());
    for item in hosted().iter().filter(follows) {
        let body = body(&[reasoning("gAAAAABo"), item.clone()]);
        let out = converted(&body, OWN);
        assert_eq!(out.body, body.to_string());
        assert!(out.findings.is_empty(), "{:?}", out.findings);
    }
}

#[test]
fn pairs_that_a_client_answers_come_back_as_they_were() {
    for (call, output) in pairs() {
        let body = body(&[reasoning("gAAAAABo"), call, output]);
        let out = converted(&body, OWN);
        assert_eq!(out.body, body.to_string());
        assert!(out.findings.is_empty(), "{:?}", out.findings);
    }
}

/// Calls that wait for an answer, and the answers.
fn pairs() -> Vec<(Value, Value)> {
    vec![
        (
            json!({"type":"tool_search_call","call_id":"c1","status":"completed","execution":"client","arguments":{"query":"words of a query"}}),
            json!({"type":"tool_search_output","call_id":"c1","status":"completed","execution":"client","tools":[{"type":"function","name":"words_of_a_tool"}]}),
        ),
        (
            json!({"type":"computer_call","id":"cu_1","call_id":"c1","action":{"type":"type","text":"words to type"},"pending_safety_checks":[],"status":"completed"}),
            json!({"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,iVBORw0KGgo="}}),
        ),
        (
            json!({"type":"local_shell_call","id":"lsh_1","call_id":"c1","status":"completed","action":{"type":"exec","command":["echo","words"],"env":{}}}),
            json!({"type":"local_shell_call_output","id":"lsh_1","call_id":"c1","output":"words of an output"}),
        ),
        (
            json!({"type":"shell_call","call_id":"c1","action":{"commands":["echo words"]},"status":"completed"}),
            json!({"type":"shell_call_output","call_id":"c1","output":[{"stdout":"words of an output","stderr":"","outcome":{"type":"exit","exit_code":0}}]}),
        ),
        (
            json!({"type":"apply_patch_call","call_id":"c1","operation":{"type":"delete_file","path":"words"},"status":"completed"}),
            json!({"type":"apply_patch_call_output","call_id":"c1","status":"completed","output":"words of an output"}),
        ),
        (
            json!({"type":"custom_tool_call","call_id":"c1","name":"sql","input":"select words"}),
            json!({"type":"custom_tool_call_output","call_id":"c1","output":"words of an output"}),
        ),
    ]
}

#[test]
fn half_a_pair_makes_no_body_invalid() {
    for (call, output) in pairs() {
        for half in [call, output] {
            for to in Dialect::all() {
                let out = converted(&body(&[reasoning("gAAAAABo"), half.clone()]), to);
                assert!(
                    out.body.contains("words") || half["output"]["image_url"].is_string(),
                    "{}",
                    out.body
                );
            }
        }
    }
    let request = json!({"type":"mcp_approval_request","id":"mcpr_1","name":"read","arguments":"{}","server_label":"s"});
    let response = json!({"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true,"reason":"words of a reason"});
    let both = body(&[request.clone(), response.clone()]);
    assert_eq!(converted(&both, OWN).body, both.to_string());
    let alone = body(&[request]);
    assert_eq!(converted(&alone, OWN).body, alone.to_string());
    let out = converted(&body(&[response]), OWN);
    assert_eq!(items(&out)[1]["role"], "user");
    assert!(items(&out)[1]["content"][0]["text"].as_str().unwrap().contains("words of a reason"));
    assert!(rules(&out).contains(&"foreign-block"), "{:?}", rules(&out));
}

#[test]
fn other_dialects_get_labelled_text_with_everything_that_was_said() {
    for item in hosted() {
        let kind = item["type"].as_str().unwrap().to_owned();
        for to in Dialect::all().filter(|to| *to != OWN) {
            let out = converted(&body(std::slice::from_ref(&item)), to);
            assert!(out.body.contains(&format!("[{kind}] ")), "{to} {}", out.body);
            for words in strings(&item).iter().filter(|text| text.contains("words") && !text.contains('"')) {
                assert!(out.body.contains(words), "{to} {words} {}", out.body);
            }
            assert!(rules(&out).contains(&"foreign-block"), "{to} {:?}", rules(&out));
        }
    }
}

fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn unknown_items_become_labelled_text_in_every_dialect() {
    for item in [
        json!({"type":"future_item","text":"some words that were said"}),
        json!({"type":"future_call","id":"fu_1","output":{"deep":["some words that were said"]}}),
        json!({"type":"item_reference","id":"msg_1","note":"some words that were said"}),
        json!({"said":"some words that were said"}),
        json!({"type":"web_search_call","status":"completed","action":"some words that were said"}),
        json!({"type":"mcp_call","output":"some words that were said"}),
    ] {
        for to in Dialect::all() {
            for items in [vec![item.clone()], vec![reasoning("gAAAAABo"), item.clone()]] {
                let out = converted(&body(&items), to);
                assert!(out.body.contains("some words that were said"), "{to} {item} {}", out.body);
                assert!(rules(&out).contains(&"foreign-block"), "{to} {:?}", rules(&out));
            }
        }
        let text = items(&converted(&body(std::slice::from_ref(&item)), OWN))[1].clone();
        assert_eq!((&text["type"], &text["role"]), (&json!("message"), &json!("assistant")), "{item}");
    }
}

/// An item with an id of the provider's needs the reasoning it came with (RSP-05), and only that.
#[test]
fn an_item_loses_its_id_only_with_its_own_reasoning() {
    let search = |id: &str| json!({"type":"web_search_call","id":id,"status":"completed","action":{"type":"search","query":"q"}});
    let unsealed = json!({"type":"reasoning","id":"rs_2","summary":[]});
    let out =
        converted(&body(&[reasoning("gAAAAABo"), search("ws_1"), unsealed.clone(), search("ws_2")]), OWN);
    let ids: Vec<Value> = items(&out)[1..4].iter().map(|item| item["id"].clone()).collect();
    assert_eq!(ids, [json!("rs_gAAAAABo"), json!("ws_1"), Value::Null]);
    // Where the API wants the id, what the item says stays as text.
    let call = json!({"type":"mcp_call","id":"mcp_1","name":"read","arguments":"{}","server_label":"s","output":"some words"});
    let out = converted(&body(&[unsealed, call]), OWN);
    assert!(items(&out)[1]["content"].as_str().unwrap().starts_with("[mcp_call] "), "{}", out.body);
}

#[test]
fn an_id_that_the_api_would_refuse_is_left_out() {
    let search = json!({"type":"web_search_call","id":"ws-1","status":"completed","action":{"type":"search","query":"q"}});
    let out = converted(&body(&[reasoning("gAAAAABo"), search.clone()]), OWN);
    assert_eq!(items(&out)[1]["type"], "web_search_call", "{}", out.body);
    assert!(items(&out)[1].get("id").is_none());
    let twice = json!({"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}});
    let out = converted(&body(&[twice.clone(), twice]), OWN);
    assert_eq!(items(&out)[1]["id"], "ws_1");
    assert!(items(&out)[2].get("id").is_none() && items(&out)[2]["type"] == "web_search_call");
}

/// A picture as text would be nothing but length.
#[test]
fn long_base64_is_not_written_out_as_text() {
    let item = json!({"type":"image_generation_call","id":"ig_1","result":"iVBORw0KGgoA".repeat(1000),"status":"completed","revised_prompt":"a red house"});
    let out = converted(&body(std::slice::from_ref(&item)), Dialect::Anthropic);
    assert!(out.body.contains("a red house") && out.body.len() < 2_000, "{}", out.body);
    assert!(out.body.contains("12000 characters of base64, not shown"), "{}", out.body);
    let own = body(&[item]);
    assert_eq!(converted(&own, OWN).body, own.to_string());
}
