//! What a body is read as, and that it comes back as it was.

use super::*;
use rejoin_formats::wire::stream::{End, StopReason, Usage};

#[test]
fn what_the_api_takes_comes_back_byte_for_byte() {
    let session = read(RICH, "gemini");
    assert!(session.findings.is_empty(), "{:?}", session.findings);
    for policy in POLICIES {
        let out = convert(&session, Dialect::Gemini, None, policy).unwrap();
        assert_eq!(out.body, RICH);
        assert_eq!(out.findings, []);
    }
    assert_eq!(sessions::detect(RICH).unwrap().name, "gemini");
}

#[test]
fn parts_become_blocks() {
    let session = read(RICH, "gemini");
    let roles: Vec<&Role> = session.messages.iter().map(|message| &message.role).collect();
    assert_eq!(
        roles,
        [&Role::User, &Role::Assistant, &Role::Tool, &Role::User, &Role::Assistant, &Role::User]
    );
    let model = &session.messages[1];
    assert!(
        matches!(&model.blocks[0].kind, BlockKind::Reasoning(thought) if &*thought.text == "hm" && !thought.sealed)
    );
    let mut called = model.tool_calls();
    assert_eq!(called.next().unwrap().arguments.text().as_str(), r#"{"n": 1e400,"n":2}"#);
    assert_eq!(called.next().unwrap().id.as_str(), "x1");
    let results: Vec<_> = session.messages[2].tool_results().collect();
    assert_eq!(results[0].content[0].as_text().unwrap().as_str(), "one");
    assert_eq!(results[1].content[0].as_text().unwrap().as_str(), r#"{"code": 1.50,"lines":["a"]}"#);
    assert!(matches!(results[1].content[1].kind, BlockKind::Image(_)));
    assert!(
        matches!(&session.messages[4].blocks[0].kind, BlockKind::Opaque(opaque) if &*opaque.kind == "executableCode")
    );
    assert!(matches!(&session.messages[5].blocks[1].kind, BlockKind::Document(_)));
    assert!(session.messages.iter().all(|message| message.native.as_ref().unwrap().regular));
    // The record gives the same messages back.
    let entries = session.to_entries(Timestamp::from_second(0).unwrap());
    let history = rejoin_view::path::path(&rejoin_record::Tree::new(&entries)).history;
    let again: Vec<Message> = history.messages().iter().map(|message| (**message).clone()).collect();
    assert_eq!(again, session.messages.iter().map(|message| (**message).clone()).collect::<Vec<_>>());
}

#[test]
fn formats_are_told_apart() {
    for (text, format) in [
        (r#"[{"role":"user","parts":[{"text":"hi"}]}]"#, "gemini"),
        (r#"{"contents":[]}"#, "gemini"),
        (r#"{"contents":{"role":"user","parts":{"text":"hi"}}}"#, "gemini"),
        (r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#, "gemini"),
        (
            r#"{"history":[{"role":"model","parts":[{"function_call":{"name":"a"}}]}],"authType":"x"}"#,
            "gemini",
        ),
        (
            "{\"role\":\"user\",\"parts\":[{\"text\":\"a\"}]}\n{\"role\":\"model\",\"parts\":[{\"text\":\"b\"}]}\n",
            "gemini",
        ),
        (r#"[{"role":"user","content":"hi"}]"#, "openai-chat"),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
            "anthropic",
        ),
        (r#"{"messages":[{"role":"user","content":"hi"}],"contents":[]}"#, "openai-chat"),
        (r#"[{"role":"user","content":"hi","parts":[{"text":"hi"}]}]"#, "openai-chat"),
        // Someone else's parts say what they are.
        (r#"[{"role":"user","parts":[{"type":"text","text":"hi"}]}]"#, "openai-chat"),
    ] {
        let claimed: Vec<&str> = sessions::claims(text).into_iter().map(|(format, _)| format.name).collect();
        assert_eq!(claimed, [format], "{text}");
    }
    for text in
        [r#"{"contents":5}"#, r#"{"history":[]}"#, r#"{"parts":"x"}"#, r#"{"contents":[{"name":"a"}]}"#]
    {
        assert!(sessions::detect(text).is_none(), "{text}");
    }
}

#[test]
fn a_torn_file_gives_what_was_complete() {
    let whole = r#"{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"one"}]},{"role":"model","parts":[{"text":"two"}]},{"role":"user","parts":[{"text":"three"}]}]}"#;
    for cut in 0..whole.len() {
        let input = Input::new("torn.json", &whole.as_bytes()[..cut]);
        let complete =
            ["one\"}]}", "two\"}]}", "three\"}]}"].iter().filter(|end| whole[..cut].contains(**end)).count();
        match input.map_err(Into::into).and_then(|input| sessions::read(&input, None)) {
            Ok(mut sessions) => {
                let session = sessions.remove(0);
                assert_eq!((session.format, session.messages.len()), ("gemini", complete), "cut at {cut}");
                assert!(session.findings.iter().any(|finding| finding.rule == Rule::DamagedEntry));
                assert!(convert(&session, Dialect::Gemini, None, OnBroken::Keep).is_ok());
            }
            Err(_) => assert_eq!(complete, 0, "cut at {cut} lost a content"),
        }
    }
    let lines = "{\"role\":\"user\",\"parts\":[{\"text\":\"a\"}]}\n{\"role\":\"mod\n17\n{\"role\":\"model\",\"parts\":[{\"text\":\"b\"}]}\n";
    let session = read(lines, "gemini");
    assert_eq!((session.messages.len(), session.set_aside.len()), (2, 2));
    let damaged = read(r#"[{"role":"user","parts":[{"text":"a"}]},7,{"x":1},null]"#, "gemini");
    assert_eq!((damaged.messages.len(), damaged.set_aside.len(), damaged.findings.len()), (1, 3, 3));
}

#[test]
fn responses_are_decoded_and_sent_back() {
    let response = br#"{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"dA=="},{"functionCall":{"name":"a","args":{"x": 1.50}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"thoughtsTokenCount":5},"modelVersion":"gemini-x","responseId":"r1"}"#;
    let wire = Dialect::Gemini.wire();
    let decoded = wire.decode(response);
    assert_eq!(decoded.model.as_deref(), Some("gemini-x"));
    assert_eq!(decoded.end, End::Complete(StopReason::Done));
    assert_eq!(decoded.usage, Some(Usage { input: 3, output: 9, cached: 0, reasoning: 5 }));
    let message = decoded.message.unwrap();
    let call = message.tool_calls().next().unwrap().clone();
    let other = wire.decode(&String::from_utf8_lossy(response).replace("r1", "r2").into_bytes());
    assert_ne!(
        call.id,
        other.message.unwrap().tool_calls().next().unwrap().id,
        "each response has its own ids"
    );
    let history: rejoin_view::History =
        [Message::user("go"), message, Message::tool(call.id, "done")].into_iter().collect();
    let view = repair(&history, OnBroken::Keep).view;
    let context = rejoin_formats::Context { dialect: Some(Dialect::Gemini), ..Default::default() };
    let out = wire.encode(&view, &Target::of(&context)).unwrap();
    assert_eq!(
        out.body,
        r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"dA=="},{"functionCall":{"name":"a","args":{"x": 1.50}},"thoughtSignature":"c2ln"}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"done"}}}]}]}"#
    );
    for (silent, stop) in [
        (r#"{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}]}"#, StopReason::Length),
        (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, StopReason::Refused),
    ] {
        let silent = wire.decode(silent.as_bytes());
        assert_eq!((silent.message, silent.end), (None, End::Complete(stop)));
    }
}

#[test]
fn results_without_ids_answer_by_name_and_place() {
    let call = |name: &str| json!({"functionCall":{"name":name,"args":{}}});
    let response =
        |name: &str, text: &str| json!({"functionResponse":{"name":name,"response":{"output":text}}});
    let texts = |parts: Value, responses: Value| {
        let body = json!([user("go"),{"role":"model","parts":parts},{"role":"user","parts":responses}]);
        let (out, rules) = mended(&body);
        let responses = out["contents"][2]["parts"].as_array().unwrap().clone();
        let texts: Vec<String> =
            responses.iter().map(|part| part["functionResponse"]["response"].to_string()).collect();
        (texts.join(" "), rules, out)
    };
    // Calls of the same name, in parallel: in order.
    let (got, _, _) = texts(
        json!([call("a"), call("a"), call("b")]),
        json!([response("a", "1"), response("b", "2"), response("a", "3")]),
    );
    assert_eq!(got, r#"{"output":"1"} {"output":"3"} {"output":"2"}"#);
    // A name that no call uses keeps its place; it never takes the place of one that a call uses.
    let (got, rules, out) =
        texts(json!([call("a"), call("b")]), json!([response("x", "1"), response("a", "2")]));
    assert_eq!(got, r#"{"output":"2"} {"output":"1"}"#);
    assert_eq!(out["contents"][2]["parts"][1]["functionResponse"]["name"], "b");
    assert!(rules.contains(&"irregular-content"));
    // A second result of one call is joined with the first; one without a call becomes text.
    let (got, rules, _) = texts(json!([call("a")]), json!([response("a", "1"), response("a", "2")]));
    assert_eq!(got, r#"{"output":["1","2"]}"#);
    assert!(rules.contains(&"duplicate-result"));
    let (got, _, out) = texts(json!([call("a")]), json!([response("a", "1"), response("x", "2")]));
    assert_eq!(got, r#"{"output":"1"}"#);
    assert_eq!(
        out["contents"][3]["parts"][0]["text"],
        "[tool result of tool x, whose call is not in this conversation]\n2"
    );
    // Ids, where both sides have them.
    let with_id = |part: Value, holder: &str, id: &str| {
        let mut part = part;
        part[holder]["id"] = json!(id);
        part
    };
    let (got, _, _) = texts(
        json!([with_id(call("a"), "functionCall", "1"), with_id(call("a"), "functionCall", "2")]),
        json!([
            with_id(response("a", "two"), "functionResponse", "2"),
            with_id(response("a", "one"), "functionResponse", "1")
        ]),
    );
    assert_eq!(got, r#"{"output":"one"} {"output":"two"}"#);
    // If calls have ids, a result with another id is an orphan.
    let (got, rules, _) = texts(
        json!([with_id(call("a"), "functionCall", "1")]),
        json!([with_id(response("a", "two"), "functionResponse", "2")]),
    );
    assert!(got.contains("no result was recorded"), "{got}");
    assert!(rules.contains(&"orphan-result"), "{rules:?}");
    // An id on one side only is the API's to ignore.
    let (got, rules, _) =
        texts(json!([call("a")]), json!([with_id(response("a", "1"), "functionResponse", "9")]));
    assert_eq!((got.as_str(), &rules[..]), (r#"{"output":"1"}"#, &["irregular-content"][..]));
}

#[test]
fn ids_are_unique_within_a_turn() {
    let call = json!({"role":"model","parts":[{"functionCall":{"id":"c1","name":"a","args":{}},"thoughtSignature":"c2ln"}]});
    let answer = json!({"role":"user","parts":[{"functionResponse":{"id":"c1","name":"a","response":{"output":"x"}}}]});
    let body = json!({"contents":[user("one"), call, answer, says("ok"), user("two"), call, answer]});
    let (out, rules) = mended(&body);
    assert_eq!(out, body);
    assert!(rules.is_empty(), "{rules:?}");
    let openai: Value =
        serde_json::from_str(&converted(&body, "gemini", Dialect::OpenAiChat, None).body).unwrap();
    assert_ne!(openai["messages"][1]["tool_calls"][0]["id"], openai["messages"][5]["tool_calls"][0]["id"]);
    assert_eq!(openai["messages"][5]["tool_calls"][0]["id"], openai["messages"][6]["tool_call_id"]);
    // Within one turn it is the same id twice: both sides of the later pair get another one, and its signature goes.
    let (out, rules) = mended(&json!({"contents":[user("one"), call, answer, call, answer]}));
    let (later, response) = (&out["contents"][3]["parts"][0], &out["contents"][4]["parts"][0]);
    assert_eq!(later["functionCall"]["id"], "c1_2");
    assert_eq!(response["functionResponse"]["id"], "c1_2");
    assert_eq!(later["thoughtSignature"], SENTINEL);
    assert!(rules.contains(&"reused-call-id") && rules.contains(&"foreign-reasoning"), "{rules:?}");
}

#[test]
fn deep_results_are_kept_as_text() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let text = format!(
        r#"[{{"role":"user","parts":[{{"text":"go"}}]}},{{"role":"model","parts":[{{"functionCall":{{"name":"a","args":{{"d":{deep}}}}},"thoughtSignature":"{SENTINEL}"}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"a","response":{{"d":{deep}}}}}}}]}}]"#
    );
    let out = convert(&read(&text, "gemini"), Dialect::Gemini, None, OnBroken::Keep).unwrap();
    let value: Value = serde_json::from_str(&out.body).unwrap();
    let parts = |index: usize| &value["contents"][index]["parts"][0];
    assert!(parts(1)["functionCall"]["args"]["_raw_arguments"].as_str().unwrap().contains(&deep));
    assert_eq!(parts(1)["thoughtSignature"], SENTINEL);
    assert!(parts(2)["functionResponse"]["response"]["output"].as_str().unwrap().contains(&deep));
}

#[test]
fn half_pairs_of_surrogates_cannot_be_sent() {
    let text = r#"[{"role":"user","parts":[{"text":"a\ud83d"}]},{"role":"model","parts":[{"functionCall":{"name":"a","args":{"x":"\ud83d"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"\ud83d"}}}]}]"#;
    let out = convert(&read(text, "gemini"), Dialect::Gemini, None, OnBroken::Keep).unwrap();
    let value: Value = serde_json::from_str(&out.body).unwrap();
    assert_eq!(value["contents"][0]["parts"][0]["text"], "a\u{fffd}");
    assert_eq!(value["contents"][1]["parts"][0]["functionCall"]["args"], json!({"x":"\u{fffd}"}));
    assert_eq!(
        value["contents"][2]["parts"][0]["functionResponse"]["response"],
        json!({"output":"\u{fffd}"})
    );
    assert_eq!(out.findings.iter().filter(|finding| finding.rule == Rule::LoneSurrogate).count(), 3);
}

#[test]
fn ids_are_on_both_sides_or_on_one() {
    let call = |id: Option<&str>| match id {
        Some(id) => json!({"functionCall":{"id":id,"name":"a","args":{}},"thoughtSignature":"c2ln"}),
        None => json!({"functionCall":{"name":"a","args":{}},"thoughtSignature":"c2ln"}),
    };
    let answer = |id: Option<&str>| match id {
        Some(id) => json!({"functionResponse":{"id":id,"name":"a","response":{}}}),
        None => json!({"functionResponse":{"name":"a","response":{}}}),
    };
    let body = |calls: [Option<&str>; 2], answers: [Option<&str>; 2]| json!({"contents":[user("go"),{"role":"model","parts":calls.map(call)},{"role":"user","parts":answers.map(answer)}]});
    let (one, two, empty) = (Some("1"), Some("2"), Some(""));
    for (calls, answers) in [
        ([one, two], [one, two]),
        ([one, two], [None, None]),
        ([None, None], [one, two]),
        ([one, None], [one, None]),
        ([empty, empty], [None, empty]),
    ] {
        let body = body(calls, answers);
        assert_eq!(mended(&body), (body.clone(), vec![]));
    }
    for answers in [[None, two], [one, None]] {
        let (out, rules) = mended(&body([one, two], answers));
        assert_eq!(out, body([one, two], [one, two]));
        assert_eq!(rules, ["irregular-content"]);
    }
    // A call under a user's name begins no turn.
    let misplaced = json!({"contents":[{"role":"user","parts":[{"text":"x"}, call(one)]},{"role":"model","parts":[call(one)]}]});
    let (out, _) = mended(&misplaced);
    assert_eq!(mended(&out), (out.clone(), vec![]));
}
