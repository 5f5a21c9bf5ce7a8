//! What each dialect makes of things that the other one writes differently: media, tools, reasoning, system texts, marks.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Converted, Dialect, Input, convert, sessions};
use rejoin_view::OnBroken;
use serde_json::{Value, json};

fn converted(body: &Value, from: &str, to: Dialect, model: Option<&str>) -> Converted {
    let input = Input::new("body", body.to_string().as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::registry::named(from)).unwrap().remove(0);
    let out = convert(&session, to, model, OnBroken::Keep).unwrap();
    assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{}", out.body);
    out
}

fn to_anthropic(body: &Value) -> Value {
    serde_json::from_str(&converted(body, "openai-chat", Dialect::Anthropic, None).body).unwrap()
}

fn to_openai(body: &Value) -> Value {
    serde_json::from_str(&converted(body, "anthropic", Dialect::OpenAiChat, None).body).unwrap()
}

/// The same dialect in and out.
fn mended(body: &Value, dialect: Dialect) -> (Value, Vec<String>) {
    let out = converted(body, dialect.name(), dialect, None);
    let rules = out.findings.iter().map(|finding| finding.rule.name().to_owned()).collect();
    (serde_json::from_str(&out.body).unwrap(), rules)
}

#[test]
fn images_go_where_the_dialect_takes_them() {
    let png = "iVBORw0KGgo=";
    let openai = json!([{"role":"user","content":[
        {"type":"text","text":"look"},
        {"type":"image_url","image_url":{"url":format!("data:image/png;base64,{png}")}},
        {"type":"image_url","image_url":{"url":"https://example.com/a.jpg"}},
        {"type":"image_url","image_url":{"url":""}}]}]);
    let content = &to_anthropic(&openai)["messages"][0]["content"];
    assert_eq!(content[1]["source"], json!({"type":"base64","media_type":"image/png","data":png}));
    assert_eq!(content[2]["source"], json!({"type":"url","url":"https://example.com/a.jpg"}));
    assert_eq!(content[3]["text"], "[image unavailable: the address is empty]");

    let anthropic = json!([{"role":"user","content":[
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":png}},
        {"type":"image","source":{"type":"url","url":"https://example.com/a.jpg"}},
        {"type":"image","source":{"type":"file","file_id":"file_1"}}]}]);
    let content = &to_openai(&anthropic)["messages"][0]["content"];
    assert_eq!(content[0]["image_url"]["url"], format!("data:image/png;base64,{png}"));
    assert_eq!(content[1]["image_url"]["url"], "https://example.com/a.jpg");
    assert_eq!(content[2]["text"], "[image, file file_1]");
}

/// A result that is an error stays one, also where it cannot go out as it was written: here its id is used a second time.
#[test]
fn errors_stay_errors() {
    let turn = |output: &str, failed: bool| {
        [
            json!({"role": "user", "content": "go"}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": output, "is_error": failed}]}),
        ]
    };
    let body = json!([turn("fine", false), turn("it failed", true)].concat());
    let (out, rules) = mended(&body, Dialect::Anthropic);
    assert!(rules.contains(&String::from("reused-call-id")), "{rules:?}");
    let text = out.to_string();
    let results: Vec<&Value> = out["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .collect();
    assert_eq!(results.len(), 2, "{text}");
    assert_eq!(
        (&results[1]["content"], &results[1]["is_error"]),
        (&json!("it failed"), &json!(true)),
        "{text}"
    );
    assert_ne!(results[0]["is_error"], true, "{text}");
}

/// A field that Anthropic refuses is left out, and that is said, on every message that has one.
#[test]
fn fields_that_are_left_out_are_named() {
    let body = json!([
        {"role": "user", "content": "go", "ts": 1},
        {"role": "assistant", "content": [{"type": "text", "text": "gone"}], "id": "m1"},
        {"role": "user", "content": "on"}]);
    let out = converted(&body, "anthropic", Dialect::Anthropic, None);
    let found: Vec<(Option<usize>, &str, Option<&str>)> = out
        .findings
        .iter()
        .map(|finding| (finding.at.message, finding.rule.name(), finding.subject.as_deref()))
        .collect();
    assert_eq!(found, [(Some(0), "unknown-field", Some("ts")), (Some(1), "unknown-field", Some("id"))]);
}

#[test]
fn an_image_without_a_type_is_told_by_its_bytes() {
    for (data, media_type) in [
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlh", "image/gif"),
        ("UklGRgAAAABXRUJQ", "image/webp"),
        ("iVBORw0KGgo=", "image/png"),
    ] {
        let body = json!([{"role":"user","content":[{"type":"text","text":"x"},
            {"type":"image","source":{"type":"base64","media_type":null,"data":data}}]}]);
        let (out, _) = mended(&body, Dialect::Anthropic);
        assert_eq!(out["messages"][0]["content"][1]["source"]["media_type"], media_type);
    }
}

#[test]
fn documents_cross_over() {
    let openai = json!([{"role":"user","content":[{"type":"text","text":"read"},
        {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}},
        {"type":"file","file":{"file_id":"file_1"}}, {"type":"file","file":{"file_data":"JVBERi0="}}, {"type":"file","file":{}}]}]);
    let content = &to_anthropic(&openai)["messages"][0]["content"];
    assert_eq!(content[1]["source"]["media_type"], "application/pdf");
    assert_eq!(content[1]["title"], "a.pdf");
    assert_eq!(content[2]["text"], "[document, file file_1]");
    assert_eq!(content[3]["source"]["data"], "JVBERi0=");
    assert_eq!(content[4]["text"], "[document unavailable: no data was recorded]");

    let anthropic = json!([{"role":"user","content":[
        {"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},
        {"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain words"}},
        {"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}},
        {"type":"document","source":{"type":"content","content":[{"type":"text","text":"inner"}]}}]}]);
    let content = &to_openai(&anthropic)["messages"][0]["content"];
    assert_eq!(
        content[0]["file"],
        json!({"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="})
    );
    assert_eq!(content[1]["text"], "[document, text/plain]\nplain words");
    assert_eq!(content[2]["text"], "[document, https://example.com/a.pdf]");
    assert!(content[3]["text"].as_str().unwrap().contains("inner"));
    let (same, rules) = mended(&anthropic, Dialect::Anthropic);
    assert_eq!(same["messages"], anthropic);
    assert_eq!(rules, [""; 0]);
}

#[test]
fn media_in_a_result() {
    let body = json!([{"role":"user","content":"shoot"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"shot","input":{}},{"type":"tool_use","id":"c2","name":"shot","input":{}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"done"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
            {"type":"tool_result","tool_use_id":"c2","content":"nothing"}]}]);
    let messages = &to_openai(&body)["messages"];
    assert_eq!(messages[2]["content"][0]["text"], "done");
    assert_eq!(messages[3]["content"], "nothing", "no image stands between two results");
    assert_eq!(messages[4]["role"], "user");
    assert_eq!(messages[4]["content"][1]["type"], "image_url");
    // A failed result may hold text only.
    let mut failed = body.clone();
    failed[2]["content"][0]["is_error"] = json!(true);
    let (out, rules) = mended(&failed, Dialect::Anthropic);
    let last = out["messages"][2]["content"].as_array().unwrap();
    assert_eq!(
        last.iter().map(|block| block["type"].as_str().unwrap()).collect::<Vec<_>>(),
        ["tool_result", "tool_result", "image"]
    );
    assert!(rules.contains(&"moved-media".to_owned()));
}

#[test]
fn images_of_an_assistant_become_text() {
    let body = json!([{"role":"user","content":"draw"},
        {"role":"assistant","content":[{"type":"text","text":"here"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
        {"role":"user","content":"thanks"}]);
    let (out, _) = mended(&body, Dialect::Anthropic);
    assert_eq!(out["messages"][1]["content"][1]["text"], "[image, image/png, not shown]");
    assert_eq!(to_openai(&body)["messages"][1]["content"][1]["text"], "[image, image/png, not shown]");
}

#[test]
fn tools_and_choice_are_translated() {
    let openai = json!({"model":"gpt-x","temperature":1,"messages":[{"role":"user","content":"hi"}],
        "tools":[{"type":"function","function":{"name":"a","description":"does a","parameters":{"properties":{}}}},
                 {"type":"function","function":{"name":"b.c"}}],
        "tool_choice":{"type":"function","function":{"name":"b.c"}}});
    let out = converted(&openai, "openai-chat", Dialect::Anthropic, None);
    let body: Value = serde_json::from_str(&out.body).unwrap();
    assert_eq!(
        body["tools"][0],
        json!({"name":"a","description":"does a","input_schema":{"type":"object","properties":{}}})
    );
    let name = body["tools"][1]["name"].as_str().unwrap();
    assert!(name.starts_with("b_c_"));
    assert_eq!(body["tool_choice"], json!({"type":"tool","name":name}));
    assert!(
        body.get("model").is_none() && body.get("temperature").is_none() && body.get("max_tokens").is_none()
    );
    let left_out: Vec<_> = out
        .findings
        .iter()
        .filter(|f| f.rule.name() == "foreign-field")
        .map(|f| f.subject.clone().unwrap().to_string())
        .collect();
    assert_eq!(left_out, ["model", "temperature"]);

    for (choice, expected) in [
        (json!("auto"), json!({"type":"auto"})),
        (json!("none"), json!({"type":"none"})),
        (json!("required"), json!({"type":"any"})),
    ] {
        let mut body = openai.clone();
        body["tool_choice"] = choice;
        assert_eq!(to_anthropic(&body)["tool_choice"], expected);
    }
    let anthropic = |choice: Value| json!({"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"a","description":"d","input_schema":{"type":"object"}}],"tool_choice":choice});
    for (choice, expected) in [
        (json!({"type":"auto"}), json!("auto")),
        (json!({"type":"none"}), json!("none")),
        (json!({"type":"any"}), json!("required")),
        (json!({"type":"tool","name":"a"}), json!({"type":"function","function":{"name":"a"}})),
    ] {
        let body = to_openai(&anthropic(choice));
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body["tools"][0]["function"]["parameters"], json!({"type":"object"}));
    }
}

#[test]
fn tool_names_agree_everywhere() {
    let body = json!({"messages":[{"role":"user","content":"hi"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"mcp.files:list","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"a"}],
        "tools":[{"type":"function","function":{"name":"mcp.files:list","parameters":{"type":"object"}}}],
        "tool_choice":{"type":"function","function":{"name":"mcp.files:list"}}});
    let (out, rules) = mended(&body, Dialect::OpenAiChat);
    let name = &out["messages"][1]["tool_calls"][0]["function"]["name"];
    assert_ne!(name, "mcp.files:list");
    assert_eq!(name, &out["tools"][0]["function"]["name"]);
    assert_eq!(name, &out["tool_choice"]["function"]["name"]);
    assert!(rules.contains(&"illegal-name".to_owned()));
    let body = to_anthropic(&body);
    assert_eq!(body["messages"][1]["content"][0]["name"], body["tools"][0]["name"]);
}

#[test]
fn system_texts_stay_in_their_place() {
    let body = json!([{"role":"system","content":"one"},{"role":"user","content":"a"},{"role":"system","content":"two"},
        {"role":"assistant","content":"b"},{"role":"developer","content":[{"type":"text","text":"three"},{"type":"text","text":" "}]},{"role":"user","content":"c"}]);
    let out = to_anthropic(&body);
    assert_eq!(out["system"], "one");
    let texts: Vec<String> =
        out["messages"].as_array().unwrap().iter().map(|message| message["content"].to_string()).collect();
    assert!(
        texts[1].contains("<system>two</system>") && texts[3].contains("<system>three</system>"),
        "{texts:?}"
    );
    // A call stands between them, though both come first: the second one is not moved past it.
    let call = json!({"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}});
    let out = to_anthropic(
        &json!([{"role":"system","content":"one","tool_calls":[call]},{"role":"system","content":"two"},{"role":"user","content":"a"}]),
    );
    assert_eq!(out["system"], "one");
    assert!(out["messages"].to_string().contains("<system>two</system>"), "{out}");
    let back = to_openai(
        &json!({"system":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"messages":[{"role":"user","content":"a"}]}),
    );
    assert_eq!(
        back["messages"][0],
        json!({"role":"system","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]})
    );
    // Of this very dialect: a system message in the list, beside the field.
    let (both, rules) = mended(
        &json!({"system":"one","messages":[{"role":"system","content":"two"},{"role":"user","content":"a"}]}),
        Dialect::Anthropic,
    );
    assert_eq!(both["system"], json!([{"type":"text","text":"one"},{"type":"text","text":"two"}]));
    assert!(rules.contains(&"late-system".to_owned()));
    let (cleaned, _) = mended(
        &json!({"system":[{"type":"text","text":" "},{"type":"text","text":"x"}],"messages":[{"role":"user","content":"a"}]}),
        Dialect::Anthropic,
    );
    assert_eq!(cleaned["system"], json!([{"type":"text","text":"x"}]));
}

fn thinking_body(result: bool) -> Value {
    let mut messages = vec![
        json!({"role":"user","content":"go"}),
        json!({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"c1","name":"a","input":{}}]}),
    ];
    if result {
        messages.push(
            json!({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}),
        );
    } else {
        messages.push(json!({"role":"user","content":"stop"}));
    }
    messages.push(json!({"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"c2ln"},{"type":"text","text":"done"}]}));
    messages.push(json!({"role":"user","content":"thanks"}));
    json!({"model":"claude-x","messages":messages,"tools":[{"name":"a","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024}})
}

#[test]
fn reasoning_stays_while_nothing_before_it_was_changed() {
    let (out, rules) = mended(&thinking_body(true), Dialect::Anthropic);
    assert_eq!(out, thinking_body(true));
    assert!(rules.is_empty());
    // The missing result is put in: the first thinking stands before that, the second after it.
    let (out, rules) = mended(&thinking_body(false), Dialect::Anthropic);
    assert_eq!(out["messages"][1]["content"][0]["type"], "thinking");
    assert!(!out["messages"][4].to_string().contains("\"thinking\""), "{out}");
    assert!(rules.contains(&"foreign-reasoning".to_owned()));
    // Another model, another dialect: none of it.
    let other = converted(&thinking_body(true), "anthropic", Dialect::Anthropic, Some("claude-y"));
    assert!(!other.body.contains("\"thinking\":\"hm\"") && other.body.contains("\"model\":\"claude-y\""));
    let same = converted(&thinking_body(true), "anthropic", Dialect::Anthropic, Some("claude-x"));
    assert!(same.body.contains("\"thinking\":\"hm\""));
    assert!(!to_openai(&thinking_body(true)).to_string().contains("hm"));
}

#[test]
fn thinking_is_turned_off_where_the_history_cannot_carry_it() {
    let body = json!({"messages":[{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}],
        "tools":[{"name":"a","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024}});
    let (out, rules) = mended(&body, Dialect::Anthropic);
    assert_eq!(out["thinking"], json!({"type":"disabled"}));
    assert_eq!(rules, ["thinking-off"]);
    let forced = json!({"messages":[{"role":"user","content":"go"}],"tools":[{"name":"a","input_schema":{"type":"object"}}],
        "tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024}});
    assert_eq!(mended(&forced, Dialect::Anthropic).0["thinking"], json!({"type":"disabled"}));
}

#[test]
fn openai_reasoning_fields() {
    let body = |result: bool| {
        let mut list = vec![
            json!({"role":"user","content":"go"}),
            json!({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}]}),
        ];
        if result {
            list.push(json!({"role":"tool","tool_call_id":"c1","content":"ok"}));
        }
        list.push(json!({"role":"assistant","content":"done","reasoning":"so","reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}));
        json!({"messages":list})
    };
    assert_eq!(mended(&body(true), Dialect::OpenAiChat).0, body(true));
    let (out, rules) = mended(&body(false), Dialect::OpenAiChat);
    assert!(
        out["messages"][1]["reasoning_content"] == "hm" && out["messages"][3]["reasoning"] == "so",
        "nothing binds plain text"
    );
    assert!(
        out["messages"][3].get("reasoning_details").is_none(),
        "sealed reasoning is bound to what stood before"
    );
    assert_eq!(rules, ["unanswered-call", "foreign-reasoning"]);
    assert!(!to_anthropic(&body(true)).to_string().contains("hm"));
}

#[test]
fn cache_marks_beyond_four_go() {
    let marked =
        |n: usize| json!({"type":"text","text":format!("t{n}"),"cache_control":{"type":"ephemeral"}});
    let body = json!({"messages":[{"role":"user","content":(0..6).map(marked).collect::<Vec<_>>()}]});
    let (out, _) = mended(&body, Dialect::Anthropic);
    assert_eq!(out.to_string().matches("cache_control").count(), 4);
    assert!(out["messages"][0]["content"][0].get("cache_control").is_none(), "the first ones go");
    let few = json!({"messages":[{"role":"user","content":(0..4).map(marked).collect::<Vec<_>>()}]});
    assert_eq!(mended(&few, Dialect::Anthropic).0, few);
}

#[test]
fn server_tools_stay_in_pairs() {
    let call = json!({"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}});
    let result = json!({"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://example.com","title":"t"}]});
    let body = |blocks: Value| json!({"messages":[{"role":"user","content":"go"},{"role":"assistant","content":blocks},{"role":"user","content":"ok"}]});
    let pair = body(json!([call, result, {"type":"text","text":"found"}]));
    assert_eq!(mended(&pair, Dialect::Anthropic).0, pair);
    for half in [json!([call, {"type":"text","text":"x"}]), json!([result, {"type":"text","text":"x"}])] {
        let (out, rules) = mended(&body(half), Dialect::Anthropic);
        assert_eq!(out["messages"][1]["content"][0]["type"], "text");
        assert_eq!(rules, ["foreign-block"]);
    }
    let openai = to_openai(&pair).to_string();
    assert!(
        openai.contains("[web_search_tool_result]") && openai.contains("https://example.com"),
        "nothing is lost"
    );
}

#[test]
fn fields_that_the_dialect_refuses() {
    let body = json!([{"role":"user","content":"hi","ts":17},{"role":"assistant","content":[{"type":"text","text":"yo","id":"b1"}]},{"role":"user","content":"ok"}]);
    let (out, rules) = mended(&body, Dialect::Anthropic);
    assert_eq!(out["messages"][0], json!({"role":"user","content":"hi"}));
    assert_eq!(out["messages"][1]["content"][0], json!({"type":"text","text":"yo"}));
    assert_eq!(rules, ["unknown-field", "irregular-content"]);
    // A compatible service may know them.
    let body = json!({"messages":[{"role":"user","content":"hi","name":"ann","ts":17}],"tools":[]});
    let (out, rules) = mended(&body, Dialect::OpenAiChat);
    assert_eq!(out, json!({"messages":[{"role":"user","content":"hi","name":"ann","ts":17}]}));
    assert_eq!(rules, ["unknown-field"]);
}

#[test]
fn other_fields_of_a_changed_message_stay() {
    let body = json!({"messages":[{"role":"user","content":"go","name":"ann"},
        {"role":"assistant","name":"bot","content":"ok","annotations":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"a","arguments":""}}]},
        {"role":"tool","tool_call_id":"c1","name":"a","content":null}]});
    let (out, rules) = mended(&body, Dialect::OpenAiChat);
    assert_eq!(out["messages"][1]["annotations"], json!([]));
    assert_eq!(out["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(out["messages"][2], json!({"role":"tool","tool_call_id":"c1","name":"a","content":""}));
    assert_eq!(rules, ["blank-arguments", "irregular-content"]);
}

#[test]
fn refusals_and_audio_are_voices_too() {
    let body = json!({"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"refusal":"I cannot."},
        {"role":"assistant","content":null,"audio":{"id":"audio_1"}},{"role":"assistant","content":null},{"role":"user","content":"ok"}]});
    let (out, rules) = mended(&body, Dialect::OpenAiChat);
    assert_eq!(out["messages"].as_array().unwrap().len(), 4, "a message with nothing at all goes");
    assert_eq!(rules, ["empty-message"]);
    assert!(to_anthropic(&body).to_string().contains("I cannot."));
}

#[test]
fn custom_calls_keep_their_shape_at_home() {
    let body = json!({"messages":[{"role":"user","content":"go"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"sql","input":"select 1"}}]},
        {"role":"tool","tool_call_id":"c1","content":"1"}]});
    assert_eq!(mended(&body, Dialect::OpenAiChat).0, body);
    assert_eq!(to_anthropic(&body)["messages"][1]["content"][0]["input"], json!({"input":"select 1"}));
}

#[test]
fn large_batches_are_split() {
    let calls: Vec<Value> = (0..300)
        .map(|n| json!({"id":format!("c{n}"),"type":"function","function":{"name":"a","arguments":"{}"}}))
        .collect();
    let mut list = vec![
        json!({"role":"user","content":"go"}),
        json!({"role":"assistant","content":"all","tool_calls":calls}),
    ];
    list.extend(
        (0..300).map(|n| json!({"role":"tool","tool_call_id":format!("c{n}"),"content":n.to_string()})),
    );
    let (out, rules) = mended(&json!({"messages":list}), Dialect::OpenAiChat);
    let assistants =
        out["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    let sizes: Vec<usize> =
        assistants.map(|message| message["tool_calls"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [128, 128, 44]);
    assert_eq!(rules, ["split-batch"]);
}

#[test]
fn results_of_one_batch_go_in_one_message() {
    let body = json!([{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"a","input":{}},{"type":"tool_use","id":"c2","name":"a","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"1"}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"2"},{"type":"text","text":"go on"}]}]);
    let (out, rules) = mended(&body, Dialect::Anthropic);
    assert_eq!(out["messages"].as_array().unwrap().len(), 3);
    assert_eq!(out["messages"][2]["content"][2]["text"], "go on");
    assert!(rules.contains(&"role-order".to_owned()));
}

#[test]
fn too_long_a_text_is_named() {
    let body = json!([{"role":"user","content":"é".repeat(10_485_761)}]);
    let input = Input::new("body", body.to_string().as_bytes()).unwrap();
    let session = sessions::read(&input, None).unwrap().remove(0);
    let error = convert(&session, Dialect::OpenAiChat, None, OnBroken::Keep).unwrap_err();
    assert!(error.to_string().contains("OAC-12") && error.to_string().contains("10485761"), "{error}");
}

#[test]
fn every_problem_has_the_providers_words() {
    use rejoin_view::{Rule, Severity};
    // Ollama refuses hardly anything; the model just does not see what is wrong.
    for dialect in Dialect::all().filter(|dialect| *dialect != Dialect::Ollama) {
        let wire = dialect.wire();
        for rule in Rule::ALL.iter().filter(|rule| rule.severity() == Severity::Error) {
            // Damage is ours to name: a provider never sees it.
            let ours = matches!(
                rule,
                Rule::DamagedEntry | Rule::BrokenChain | Rule::MisplacedBlock | Rule::CannotBeOpened
            );
            // Mistral takes any arguments, and names no size.
            let taken =
                dialect == Dialect::Mistral && matches!(rule, Rule::MalformedArguments | Rule::TooLarge);
            assert_eq!(wire.answer(*rule).is_none(), ours || taken, "{dialect} {rule}");
        }
        assert!(!wire.provider.is_empty());
    }
    for wire in Dialect::all().map(Dialect::wire) {
        let rows = wire.answers.lines().filter(|row| !row.starts_with('#'));
        for name in rows.flat_map(|row| row.split_once(": ").unwrap().0.split(' ')) {
            assert!(Rule::ALL.iter().any(|rule| rule.name() == name), "{}: {name}", wire.name);
        }
    }
}

/// Thousands of calls in one message, and all their results in the next: each message is looked at once and not once for each of
/// them, which takes minutes.
#[test]
fn a_message_of_many_calls_is_encoded_in_linear_time() {
    let began = std::time::Instant::now();
    let count = 12_000;
    let id = |number: usize| format!("call_{number}");
    let calls: Vec<Value> =
        (0..count).map(|n| json!({"type":"tool_use","id":id(n),"name":"ls","input":{}})).collect();
    let results: Vec<Value> =
        (0..count).map(|n| json!({"type":"tool_result","tool_use_id":id(n),"content":"a"})).collect();
    let body = json!({"model":"claude-x","max_tokens":9,"messages":[
        {"role":"user","content":"go"},{"role":"assistant","content":calls},{"role":"user","content":results}]});
    for to in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::Gemini] {
        let input = Input::new("body", body.to_string().as_bytes()).unwrap();
        let session = sessions::read(&input, sessions::registry::named("anthropic")).unwrap().remove(0);
        let out = convert(&session, to, None, OnBroken::Keep).unwrap();
        assert!(out.body.contains(&id(count - 1)) || to == Dialect::Gemini);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}
