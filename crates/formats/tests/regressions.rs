//! Bugs that were found once, each with the smallest history that showed it.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Converted, Dialect, Input, Session, convert, sessions};
use rejoin_view::OnBroken;
use serde_json::{Value, json};

fn read(text: &str, format: Option<&str>) -> Vec<Session> {
    let input = Input::new("file", text.as_bytes()).unwrap();
    sessions::read(&input, format.and_then(sessions::registry::named)).unwrap()
}

fn converted(text: &str, from: Dialect, to: Dialect) -> Converted {
    let session = read(text, Some(from.name())).remove(0);
    let out = convert(&session, to, None, OnBroken::Keep).unwrap();
    assert_eq!(testkit::refusals(to, out.body.as_bytes()), [], "{}", out.body);
    let again = read(&out.body, Some(to.name())).remove(0);
    assert_eq!(convert(&again, to, None, OnBroken::Keep).unwrap().body, out.body, "idempotent");
    out
}

fn rules(out: &Converted) -> Vec<&'static str> {
    out.findings.iter().map(|finding| finding.rule.name()).collect()
}

const OPENAI: Dialect = Dialect::OpenAiChat;
const ANTHROPIC: Dialect = Dialect::Anthropic;

#[test]
fn a_result_with_an_empty_id_gets_the_id_of_its_call() {
    for id in ["", r#""id":"","#] {
        let text = format!(
            r#"[{{"role":"user","content":"u"}},{{"role":"assistant","content":null,"tool_calls":[{{{id}"type":"function","function":{{"name":"ls","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"","content":"r"}}]"#
        );
        let out = converted(&text, OPENAI, OPENAI);
        let body: Value = serde_json::from_str(&out.body).unwrap();
        assert_eq!(body["messages"][1]["tool_calls"][0]["id"], body["messages"][2]["tool_call_id"]);
    }
}

#[test]
fn tools_beside_a_renamed_one_are_clean_json() {
    let text = "{\"tools\":[{\"name\":\"a.b\",\"input_schema\":{\"type\":\"object\"},\"cache_control\":{\"type\":\"ephemeral\"},\"strict\":true},{\"name\":\"ok\",\"description\":\"q\\ud83d\u{1}\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"tool\",\"name\":\"a.b\",\"disable_parallel_tool_use\":true},\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}";
    let body: Value = serde_json::from_str(&converted(text, ANTHROPIC, ANTHROPIC).body).unwrap();
    assert_eq!(body["tools"][0]["strict"], true, "a renamed tool keeps its other fields");
    assert_eq!(body["tools"][1]["description"], "q\u{fffd}\u{1}");
    assert_eq!(body["tool_choice"]["disable_parallel_tool_use"], true);
    assert_eq!(body["tool_choice"]["name"], body["tools"][0]["name"]);
    let text = r#"{"tools":[{"type":"function","function":{"name":"a.b","strict":true}}],"messages":[{"role":"user","content":"u"}]}"#;
    let body: Value = serde_json::from_str(&converted(text, OPENAI, OPENAI).body).unwrap();
    assert_eq!(body["tools"][0]["function"]["strict"], true);
}

#[test]
fn a_refusal_where_there_is_no_such_field() {
    for content in [r#"[{"type":"text","text":"u"}]"#, r#""u""#] {
        let text = format!(r#"{{"messages":[{{"role":"user","content":{content},"refusal":"x"}}]}}"#);
        let out = converted(&text, ANTHROPIC, ANTHROPIC);
        assert!(out.body.contains(r#"{"type":"text","text":"x"}"#), "{}", out.body);
    }
}

#[test]
fn calls_on_a_tool_message_are_moved() {
    let call = |id: &str| json!({"id":id,"type":"function","function":{"name":"ls","arguments":"{}"}});
    let text =
        json!([{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[call("mx")]},
        {"role":"tool","tool_call_id":"mx","content":"r","tool_calls":[call("my")]}])
        .to_string();
    for to in [OPENAI, ANTHROPIC] {
        let out = converted(&text, OPENAI, to);
        assert!(out.body.contains("\"my\""));
        assert!(
            rules(&out).contains(&"misplaced-block") && rules(&out).contains(&"unanswered-call"),
            "{:?}",
            rules(&out)
        );
    }
    let empty = r#"[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r","function_call":{},"tool_calls":[]}]"#;
    assert!(!converted(empty, OPENAI, OPENAI).body.contains("function_call"));
}

#[test]
fn an_empty_list_of_calls_goes_where_it_is_said_to_go() {
    for nothing in ["null", "[]"] {
        let out = converted(
            &format!(r#"[{{"role":"user","content":"u","tool_calls":{nothing}}}]"#),
            OPENAI,
            OPENAI,
        );
        assert!(!out.body.contains("tool_calls"));
        assert_eq!(rules(&out), ["irregular-content"]);
    }
}

#[test]
fn messages_of_results_are_not_rewritten_in_silence() {
    let text = r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}],"ts":5}],"tools":[{"name":"ls","input_schema":{"type":"object"}}]}"#;
    assert_eq!(rules(&converted(text, ANTHROPIC, ANTHROPIC)), ["unknown-field"]);
    assert_eq!(rules(&converted(text, ANTHROPIC, OPENAI)), ["unknown-field"]);
    let named = r#"[{"role":"user","content":"u","name":"ann"}]"#;
    assert_eq!(rules(&converted(named, OPENAI, ANTHROPIC)), ["unknown-field"]);
}

#[test]
fn what_is_cleaned_outside_the_messages_is_said() {
    let text =
        r#"{"metadata":{"user_id":"\ud83d"},"temperature":NaN,"messages":[{"role":"user","content":"u"}]}"#;
    assert_eq!(rules(&converted(text, ANTHROPIC, ANTHROPIC)), ["lone-surrogate", "lone-surrogate"]);
    let arguments = r#"[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{\"a\":\"\ud83d\"}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]"#;
    assert!(rules(&converted(arguments, OPENAI, ANTHROPIC)).contains(&"lone-surrogate"));
}

#[test]
fn tools_that_another_dialect_does_not_have() {
    let text = r#"{"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"a","input_schema":{"type":"object"},"strict":true}],"messages":[{"role":"user","content":"u"}]}"#;
    let out = converted(text, ANTHROPIC, OPENAI);
    let body: Value = serde_json::from_str(&out.body).unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(rules(&out), ["foreign-field", "foreign-field"]);
    let text =
        r#"{"tools":[{"type":"custom","custom":{"name":"sql"}}],"messages":[{"role":"user","content":"u"}]}"#;
    let body: Value = serde_json::from_str(&converted(text, OPENAI, ANTHROPIC).body).unwrap();
    assert_eq!(body["tools"][0]["input_schema"]["required"], json!(["input"]));
}

#[test]
fn a_document_of_text_stays() {
    let text = r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":"x"}}]}]}"#;
    assert_eq!(converted(text, ANTHROPIC, ANTHROPIC).body, text);
}

#[test]
fn the_shape_of_lines_is_told_by_all_of_them() {
    let text = "{\"role\":\"user\",\"content\":\"u\"}\n{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"ls\",\"input\":{}}]}\n{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}]}\n";
    assert_eq!(read(text, None)[0].format, "anthropic");
    // The first line may be the damaged one.
    let damaged = format!("{{\"role\":\"us\n{text}");
    let session = read(&damaged, None).remove(0);
    assert_eq!((session.format, session.messages.len(), session.findings.len()), ("anthropic", 3, 1));
}

#[test]
fn garbage_behind_a_conversation_is_set_aside() {
    let body = r#"{"messages":[{"role":"user","content":"u"}]}"#;
    for text in [
        format!("{body}\ngarbage\n"),
        format!("{body} garbage"),
        String::from("{\n\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}\ngarbage"),
    ] {
        let sessions = read(&text, None);
        assert_eq!(sessions.len(), 1, "{text}");
        assert_eq!(sessions[0].messages.len(), 1);
        assert_eq!(sessions[0].findings[0].rule.name(), "damaged-entry");
    }
}

#[test]
fn a_loose_block_is_somebodys_word() {
    let text = r#"[{"role":"user","content":"u"},{"type":"text","text":"loose words"},{"type":"tool_use","id":"a","name":"ls","input":{}}]"#;
    let out = converted(text, ANTHROPIC, ANTHROPIC);
    assert!(out.body.contains("loose words"));
    assert_eq!(rules(&out)[..2], ["unknown-role", "unknown-role"]);
}

#[test]
fn many_tools_come_through_and_too_many_are_named() {
    let calls: Vec<Value> = (0..20_000)
        .map(|n| json!({"id":format!("c{n}"),"type":"function","function":{"name":format!("l.s{n}"),"arguments":"{}"}}))
        .collect();
    let text = json!([{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":calls}])
        .to_string();
    let body = convert(&read(&text, None)[0], ANTHROPIC, None, OnBroken::Keep).unwrap().body;
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["tools"].as_array().unwrap().len(), 20_000);
    let tools: Vec<Value> =
        (0..129).map(|n| json!({"type":"function","function":{"name":format!("t{n}")}})).collect();
    let text = json!({"messages":[{"role":"user","content":"u"}],"tools":tools}).to_string();
    let error = convert(&read(&text, None)[0], OPENAI, None, OnBroken::Keep).unwrap_err();
    assert!(error.to_string().contains("OAC-11"), "{error}");
}

#[test]
fn pictures_that_cannot_be_processed_become_text() {
    for (media_type, data) in [("image/svg+xml", "aGk="), ("image/png", "%%%")] {
        let text = json!({"messages":[{"role":"user","content":[{"type":"text","text":"u"},{"type":"image","source":{"type":"base64","media_type":media_type,"data":data}}]}]}).to_string();
        let out = converted(&text, ANTHROPIC, ANTHROPIC);
        assert!(!out.body.contains(data), "{}", out.body);
        assert_eq!(rules(&out), ["unusable-media"]);
    }
}

#[test]
fn reasoning_goes_when_something_is_put_before_it() {
    let thinking = json!({"type":"thinking","thinking":"hm","signature":"c2ln"});
    let tools = json!([{"name":"ls","input_schema":{"type":"object"}}]);
    let leading = json!({"messages":[{"role":"assistant","content":[thinking,{"type":"text","text":"hi"}]},{"role":"user","content":"u"}]});
    assert!(!converted(&leading.to_string(), ANTHROPIC, ANTHROPIC).body.contains("c2ln"));
    let history = json!([{"role":"user","content":"u"},{"role":"assistant","content":[thinking,{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]);
    let renamed =
        json!({"messages":history,"tools":[{"name":"l.s","input_schema":{"type":"object"}}]}).to_string();
    assert!(
        !converted(&renamed, ANTHROPIC, ANTHROPIC).body.contains("c2ln"),
        "tools stand before everything"
    );
    let stubs = json!({"messages":history}).to_string();
    assert!(converted(&stubs, ANTHROPIC, ANTHROPIC).body.contains("c2ln"), "stubs may come later");
    let with = json!({"messages":history,"tools":tools}).to_string();
    assert!(converted(&with, ANTHROPIC, ANTHROPIC).body.contains("c2ln"));
    assert!(
        converted(&history.to_string(), ANTHROPIC, ANTHROPIC).body.contains("c2ln"),
        "of a bare list they are not known"
    );
}

#[test]
fn thinking_goes_off_when_words_follow_the_results() {
    let text = r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"and?"}]}],"tools":[{"name":"ls","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024}}"#;
    assert_eq!(rules(&converted(text, ANTHROPIC, ANTHROPIC)), ["thinking-off"]);
}

#[test]
fn a_call_written_twice_is_one_call() {
    let text = r#"[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"a","name":"ls","input":{}}],"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]"#;
    let out = converted(text, OPENAI, OPENAI);
    assert_eq!(out.body.matches("\"id\":\"a\"").count(), 1);
    assert_eq!(rules(&out), ["irregular-content"]);
}

#[test]
fn system_prompts_in_odd_shapes_are_kept() {
    for system in [
        json!(["You are kind."]),
        json!({"type":"text","text":"You are kind."}),
        json!([7, {"type":"text","text":"You are kind."}]),
    ] {
        let text = json!({"system":system,"messages":[{"role":"user","content":"u"}]}).to_string();
        for to in [ANTHROPIC, OPENAI] {
            let out = converted(&text, ANTHROPIC, to);
            assert!(out.body.contains("You are kind."), "{}", out.body);
        }
    }
    // Merged with a system message, nothing is empty.
    let both =
        json!({"system":"one","messages":[{"role":"system","content":"two"},{"role":"user","content":"u"}]})
            .to_string();
    assert_eq!(rules(&converted(&both, ANTHROPIC, ANTHROPIC)), ["late-system"]);
    let nulls = r#"{"system":null,"tool_choice":null,"messages":[{"role":"user","content":"u"}]}"#;
    assert_eq!(rules(&converted(nulls, ANTHROPIC, ANTHROPIC)), ["unknown-field", "unknown-field"]);
    assert_eq!(
        rules(&converted(
            r#"{"tool_choice":null,"messages":[{"role":"user","content":"u"}]}"#,
            OPENAI,
            OPENAI
        )),
        ["unknown-field"]
    );
}

/// An input that is one text stays one text; what happens to the instructions beside it is reported all the same.
#[test]
fn instructions_that_are_rewritten_are_reported() {
    for input in [json!("u"), json!([{"role":"user","content":"u"}])] {
        let text = json!({"instructions":{"data":"be kind"},"input":input}).to_string();
        let out = converted(&text, Dialect::OpenAiResponses, Dialect::OpenAiResponses);
        assert!(out.body.contains("be kind"), "{}", out.body);
        assert_eq!(rules(&out), ["irregular-content"]);
        assert_eq!(out.findings[0].subject.as_deref(), Some("instructions"));
    }
}

/// Of fields with one name, the last one counts, and it is `null`.
#[test]
fn a_field_whose_last_value_is_null_is_left_out() {
    let text = r#"{"tools":"","tools":null,"input":""}"#;
    let out = converted(text, Dialect::OpenAiResponses, Dialect::OpenAiResponses);
    assert!(!out.body.contains("tools"), "{}", out.body);
    let text =
        r#"{"tools":[],"tool_choice":"auto","tool_choice":null,"messages":[{"role":"user","content":"u"}]}"#;
    assert!(!converted(text, OPENAI, OPENAI).body.contains("tool_choice"));
    // Not the first one.
    let text = r#"{"tool_choice":null,"tool_choice":"auto","input":"u"}"#;
    let out = converted(text, Dialect::OpenAiResponses, Dialect::OpenAiResponses);
    assert!(out.body.contains(r#""tool_choice":"auto""#), "{}", out.body);
}

#[test]
fn an_empty_id_stays_where_the_api_takes_any() {
    let text = r#"{"model":"m","input":[{"type":"tool_search_output","id":"","tools":[]}]}"#;
    assert!(testkit::refusals(Dialect::OpenAiResponses, text.as_bytes()).is_empty());
    let out = converted(text, Dialect::OpenAiResponses, Dialect::OpenAiResponses);
    assert_eq!(out.body, text);
    assert!(out.findings.is_empty(), "{:?}", out.findings);
}

#[test]
fn instructions_are_not_moved_past_a_message_that_was_left_out() {
    let text = r#"[{"role":"assistant","content":""},{"role":"system","content":"be kind"},{"role":"user","content":"u"}]"#;
    let out = converted(text, OPENAI, ANTHROPIC);
    assert!(out.body.contains("<system>be kind</system>"), "{}", out.body);
}

#[test]
fn tools_of_the_provider_only() {
    let text = r#"{"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"u"}]}"#;
    let out = converted(text, ANTHROPIC, OPENAI);
    assert!(!out.body.contains("tool"), "{}", out.body);
    assert_eq!(rules(&out), ["foreign-field", "foreign-field", "foreign-field"]);
    let text = r#"{"tools":[{"type":"web_search","name":"w"}],"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]}"#;
    assert!(rules(&converted(text, OPENAI, ANTHROPIC)).contains(&"stub-tools"));
    let text = r#"{"tools":[],"tool_choice":"auto","messages":[{"role":"user","content":"u"}]}"#;
    assert!(!converted(text, OPENAI, OPENAI).body.contains("tool_choice"));
}

#[test]
fn cache_marks_are_counted_where_they_are() {
    let mark = json!({"type":"ephemeral"});
    let text = |n: usize| json!({"type":"text","text":format!("t{n}"),"cache_control":mark});
    // An argument of that name is no mark.
    let body = json!({"messages":[{"role":"user","content":(0..4).map(text).collect::<Vec<_>>()},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{"cache_control":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}],
        "tools":[{"name":"ls","input_schema":{"type":"object"}}]})
    .to_string();
    assert_eq!(converted(&body, ANTHROPIC, ANTHROPIC).body, body);
    // A damaged mark is no mark.
    let damaged = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"u","cache_control":{"type":"eph]meral"}}]}]}"#;
    assert!(!converted(damaged, ANTHROPIC, ANTHROPIC).body.contains("cache_control"));
    // Inside a result, in the system prompt, on tools.
    let inside = json!({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":(0..6).map(text).collect::<Vec<_>>()}]}],
        "tools":[{"name":"ls","input_schema":{"type":"object"}}]})
    .to_string();
    assert_eq!(converted(&inside, ANTHROPIC, ANTHROPIC).body.matches("ephemeral").count(), 4);
    let system =
        json!({"system":(0..5).map(text).collect::<Vec<_>>(),"messages":[{"role":"user","content":"u"}]})
            .to_string();
    assert_eq!(converted(&system, ANTHROPIC, ANTHROPIC).body.matches("ephemeral").count(), 4);
}

#[test]
fn the_pieces_of_a_message_share_its_fields_only_once() {
    let text = r#"[{"role":"user","content":"u"},{"role":"tool","tool_call_id":"z","content":"orphan"},{"role":"assistant","content":[{"type":"text","text":"one"},{"type":"tool_result","tool_use_id":"x","content":"orphan"},{"type":"text","text":"two"}],"reasoning_content":"hm","reasoning_details":[{"data":"secret"}],"refusal":"no"}]"#;
    let out = converted(text, OPENAI, OPENAI);
    assert_eq!(
        (
            out.body.matches("hm").count(),
            out.body.matches("secret").count(),
            out.body.matches("\"no\"").count()
        ),
        (1, 0, 1),
        "{}",
        out.body
    );
    let named = r#"[{"role":"user","content":"u","name":"ann","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]}]"#;
    let body: Value = serde_json::from_str(&converted(named, OPENAI, OPENAI).body).unwrap();
    assert!(body["messages"][1].get("name").is_none(), "{body}");
}

#[test]
fn ids_of_messages_are_not_ids_of_calls() {
    let call = r#"{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#;
    for result in [
        r#"{"role":"tool","id":"msg_7","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}"#,
        r#"{"role":"tool","tool_call_id":null,"tool_use_id":"c1","content":"r"}"#,
        r#"{"role":"tool","id":"c1","content":"r"}"#,
    ] {
        let out = converted(&format!("[{call},{result}]"), OPENAI, OPENAI);
        assert!(out.findings.iter().all(|finding| !finding.is_problem()), "{result}: {:?}", rules(&out));
    }
    let legacy = r#"[{"role":"user","content":"u"},{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":"{}"}},{"role":"function","id":"msg_9","name":"ls","content":"r"}]"#;
    assert!(converted(legacy, OPENAI, OPENAI).findings.iter().all(|finding| !finding.is_problem()));
}

#[test]
fn blocks_without_ids_pair_by_position() {
    let text = r#"[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","name":"a","input":{}},{"type":"tool_use","name":"b","input":{}}]},{"role":"user","content":[{"type":"tool_result","content":"1"},{"type":"tool_result","content":"2"}]}]"#;
    let out = converted(text, ANTHROPIC, ANTHROPIC);
    assert_eq!(rules(&out)[..2], ["missing-call-id", "missing-call-id"]);
    assert!(!rules(&out).contains(&"unanswered-call"));
    let empty = text.replace(r#"{"type":"tool_result","#, r#"{"type":"tool_result","tool_use_id":"","#);
    assert!(!rules(&converted(&empty, ANTHROPIC, ANTHROPIC)).contains(&"unanswered-call"));
    // A null where the old field was is not the old way of calling.
    let null = r#"[{"role":"user","content":"u"},{"role":"assistant","content":null,"function_call":null,"tool_calls":[{"type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","content":"r"}]"#;
    assert!(rules(&converted(null, OPENAI, OPENAI)).contains(&"missing-call-id"));
}

#[test]
fn a_long_beginning_does_not_hide_the_shape() {
    let long = "x".repeat(1_100_000);
    let text = format!(
        r#"{{"metadata":"{long}","messages":[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"a"}}]}}]}}"#
    );
    assert_eq!(read(&text, None)[0].format, "anthropic");
    assert_eq!(read(&format!(r#"[{{"content":"{long}","role":"user"}}]"#), None)[0].messages.len(), 1);
}

#[test]
fn two_messages_on_one_line_are_two_messages() {
    let text = r#"{"role":"user","content":"a"} {"role":"assistant","content":"b"} rest"#;
    let session = read(text, None).remove(0);
    assert_eq!((session.messages.len(), session.set_aside.len()), (2, 1));
    assert_eq!(&**session.set_aside[0].raw().unwrap(), " rest");
    let torn =
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}, nonsense {"role":"user"}]"#;
    assert!(read(torn, None)[0].set_aside[0].raw().unwrap().contains("nonsense"));
}

#[test]
fn what_is_too_large_is_named_by_its_place() {
    let text = json!([17, {"role":"user","content":"a"},{"role":"user","content":"é".repeat(10_485_761)}])
        .to_string();
    let rejoin_formats::ConvertError::TooLarge(error) =
        convert(&read(&text, None)[0], OPENAI, None, OnBroken::Keep).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(error.at.message, Some(2));
    let picture = json!([{"role":"user","content":[{"type":"image_url","image_url":{"url":format!("data:image/png;base64,iVBORw0KGgoA{}", "A".repeat(10_600_000))}}]}]).to_string();
    assert!(convert(&read(&picture, None)[0], OPENAI, None, OnBroken::Keep).is_ok(), "an address is no text");
}

#[test]
fn documents_that_are_text_are_read() {
    let file = |data: &str| {
        json!([{"role":"user","content":[{"type":"text","text":"u"},{"type":"file","file":{"filename":"a","file_data":data}}]}]).to_string()
    };
    let body = converted(&file("data:text/csv;base64,YSxiCjEsMg=="), OPENAI, ANTHROPIC).body;
    assert!(body.contains(r#""data":"a,b\n1,2""#), "{body}");
    let body = converted(&file("data:application/zip;base64,UEsDBA=="), OPENAI, ANTHROPIC).body;
    assert!(body.contains("[document unavailable: application/zip is not supported here (a)]"), "{body}");
    assert!(converted(&file("data:application/pdf;base64,"), OPENAI, ANTHROPIC).body.contains("unavailable"));
}

#[test]
fn what_is_nested_too_deep_is_never_sent() {
    let deep = "[".repeat(2_000) + &"]".repeat(2_000);
    let text = format!(r#"[{{"role":"user","content":"u","x":{deep}}}]"#);
    let out = converted(&text, OPENAI, OPENAI);
    assert!(!out.body.contains("[[[") && rules(&out).contains(&"unknown-field"), "{:?}", rules(&out));
    let server = format!(
        r#"[{{"role":"user","content":"u"}},{{"role":"assistant","content":[{{"type":"server_tool_use","id":"srvtoolu_1","name":"w","input":{{"a":{deep}}}}},{{"type":"w_tool_result","tool_use_id":"srvtoolu_1","content":[]}}]}},{{"role":"user","content":"u"}}]"#
    );
    assert_eq!(rules(&converted(&server, ANTHROPIC, ANTHROPIC)), ["foreign-block", "foreign-block"]);
}

#[test]
fn a_failed_result_says_so_when_the_dialect_cannot() {
    let text = r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"no such file","is_error":true}]}],"tools":[{"name":"ls","input_schema":{"type":"object"}}]}"#;
    assert_eq!(rules(&converted(text, ANTHROPIC, OPENAI)), ["foreign-field"]);
}

#[test]
fn large_odd_bodies_come_through() {
    // Each of these took seconds when it was quadratic. That is not measured here: what comes out is.
    let fields: Vec<String> = (0..40_000).map(|n| format!("\"f{n}\":1")).collect();
    let body = format!("{{{},\"messages\":[{{\"role\":\"user\",\"content\":\"u\"}}]}}", fields.join(","));
    // Settings of the same dialect come back as they were, known to the provider or not.
    let out = convert(&read(&body, Some(OPENAI.name()))[0], OPENAI, None, OnBroken::Keep).unwrap();
    assert_eq!(out.body, body);
    let calls: Vec<String> = (0..30_000)
        .map(|n| format!(r#"{{"type":"function","function":{{"name":"t{n}","arguments":"{{}}"}}}}"#))
        .collect();
    let results: Vec<String> =
        (0..30_000).rev().map(|n| format!(r#"{{"role":"tool","name":"t{n}","content":"r"}}"#)).collect();
    let text = format!(
        r#"[{{"role":"assistant","content":null,"tool_calls":[{}]}},{}]"#,
        calls.join(","),
        results.join(",")
    );
    assert_eq!(read(&text, None)[0].messages.len(), 30_001);
}

#[test]
fn a_result_does_not_keep_an_id_that_another_call_got() {
    let text = r#"{"contents":[{"role":"user","parts":[{"text":"u"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"read","args":{}},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"read","response":{"output":"one"}}}]},{"role":"function","parts":[{"functionCall":{"id":"c1","name":"read","args":{}}},{"functionResponse":{"id":"c1_2","name":"run_tests","response":{"output":"two"}}},{"functionCall":{"name":"run_tests","args":{}}}]}]}"#;
    let gemini = Dialect::Gemini;
    let out = converted(text, gemini, gemini);
    assert_eq!(out.body.matches("c1_2").count(), 2, "the call and its own result: {}", out.body);
}

#[test]
fn a_failed_result_holds_only_text() {
    let image =
        r#"{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlhAQ=="}}"#;
    for content in [
        format!(
            r#"{{"type":"document","source":{{"type":"content","content":[{{"type":"text","text":"words"}},{image}]}}}}"#
        ),
        r#"{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"words"}]}"#
            .to_owned(),
    ] {
        let text = format!(
            r#"[{{"role":"user","content":"u"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"c4","name":"read","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c4","content":[{content}],"is_error":true}}]}}]"#
        );
        let out = converted(&text, ANTHROPIC, ANTHROPIC);
        assert!(out.body.contains("words"), "{}", out.body);
    }
}

#[test]
fn a_role_in_another_case_is_written_as_the_api_spells_it() {
    for (written, role) in [("develOper", "developer"), ("SYSTEM", "system"), ("User", "user")] {
        let text = format!(
            r#"{{"messages":[{{"role":"{written}","content":[{{"type":"text","text":"words"}}]}}]}}"#
        );
        let out = converted(&text, OPENAI, OPENAI);
        let body: Value = serde_json::from_str(&out.body).unwrap();
        assert_eq!(body["messages"][0]["role"], role);
        assert_eq!(rules(&out), ["irregular-content"]);
    }
}

#[test]
fn a_content_without_its_list_is_reported() {
    let text = r#"{"contents":{"role":"user","parts":[{"text":"u"}]}}"#;
    let out = converted(text, Dialect::Gemini, Dialect::Gemini);
    assert_eq!(out.body, r#"{"contents":[{"role":"user","parts":[{"text":"u"}]}]}"#);
    assert_eq!(rules(&out), ["irregular-content"]);
}
