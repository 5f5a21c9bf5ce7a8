//! From other dialects and to them: messages, media, tools, system prompts.

use super::*;

#[test]
fn openai_chat_becomes_contents() {
    let body = json!({"model":"gpt","messages":[
        {"role":"system","content":"be brief"},{"role":"developer","content":"very"},
        {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
            {"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"file","file":{"file_id":"file-1"}}]},
        {"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"p\" : 1 }"}},
            {"id":"c2","type":"function","function":{"name":"read","arguments":""}}]},
        {"role":"tool","tool_call_id":"c1","content":"one"},
        {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"two"},{"type":"text","text":"three"}]},
        {"role":"user","content":"go on"},{"role":"system","content":"late"},{"role":"assistant","content":"done"}],
        "tools":[{"type":"function","function":{"name":"read","description":"d","parameters":{"type":"object","properties":{}}}}],
        "tool_choice":{"type":"function","function":{"name":"read"}},"temperature":1});
    let out = converted(&body, "openai-chat", Dialect::Gemini, None);
    let value: Value = serde_json::from_str(&out.body).unwrap();
    assert_eq!(
        value,
        json!({"systemInstruction":{"parts":[{"text":"be brief"},{"text":"very"}]},"contents":[
            {"role":"user","parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},
                {"fileData":{"fileUri":"https://example.com/a.png"}},{"text":"[document, file file-1]"}]},
            {"role":"model","parts":[{"text":"ok"},{"functionCall":{"name":"read","args":{"p":1}},"thoughtSignature":SENTINEL},
                {"functionCall":{"name":"read","args":{}}}]},
            {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"one"}}},
                {"functionResponse":{"name":"read","response":{"output":["two","three"]}}}]},
            {"role":"user","parts":[{"text":"go on"},{"text":"<system>late</system>"}]},
            says("done"),user("Continue.")],
            "tools":[{"functionDeclarations":[{"name":"read","description":"d","parametersJsonSchema":{"type":"object","properties":{}}}]}],
            "toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["read"]}}})
    );
    assert!(out.body.contains(r#""args":{ "p" : 1 }"#), "arguments are never re-spelled");
    let rules: Vec<&str> = out.findings.iter().map(|finding| finding.rule.name()).collect();
    for rule in ["moved-media", "blank-arguments", "late-system", "role-order", "foreign-field"] {
        assert!(rules.contains(&rule), "{rule}: {rules:?}");
    }
}

#[test]
fn anthropic_becomes_contents() {
    let body = json!({"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[
        {"role":"user","content":[{"type":"document","title":"notes","source":{"type":"text","media_type":"text/plain","data":"plain words"}},
            {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},
            {"type":"document","source":{"type":"url","url":"https://example.com/b.pdf"}},
            {"type":"image","source":{"type":"file","file_id":"f1"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"t1","name":"shot","input":{"big":12345678901234567890u64}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no screen"},{"type":"text","text":"well?"}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"shot","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"here"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]}],
        "tools":[{"name":"shot","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"}});
    let out = from_anthropic(&body);
    assert_eq!(out["systemInstruction"], json!({"parts":[{"text":"a"},{"text":"b"}]}));
    assert_eq!(
        out["contents"],
        json!([
            {"role":"user","parts":[{"text":"[document, notes, text/plain]\nplain words"},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}},
                {"fileData":{"fileUri":"https://example.com/b.pdf"}},{"text":"[image, file f1]"}]},
            {"role":"model","parts":[{"functionCall":{"name":"shot","args":{"big":12345678901234567890u64}},"thoughtSignature":SENTINEL}]},
            {"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"error":"no screen"}}}]},
            user("well?"),
            {"role":"model","parts":[{"functionCall":{"name":"shot","args":{}},"thoughtSignature":SENTINEL}]},
            {"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":"here"}}}]},
            {"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}
        ])
    );
    assert_eq!(
        out["tools"],
        json!([{"functionDeclarations":[{"name":"shot","parametersJsonSchema":{"type":"object"}}]}])
    );
    assert_eq!(out["toolConfig"], json!({"functionCallingConfig":{"mode":"ANY"}}));
}

#[test]
fn contents_become_chat_messages() {
    let body: Value = serde_json::from_str(&RICH.replace("1e400", "1")).unwrap();
    let out = converted(&body, "gemini", Dialect::OpenAiChat, None);
    let openai: Value = serde_json::from_str(&out.body).unwrap();
    let calls = &openai["messages"][2]["tool_calls"];
    assert_eq!(openai["messages"][0]["content"], "be brief");
    assert_eq!(calls[1], json!({"id":"x1","type":"function","function":{"name":"b","arguments":"{}"}}));
    assert_eq!(openai["messages"][3]["tool_call_id"], calls[0]["id"]);
    assert_eq!(openai["messages"][3]["content"], "one");
    for (response, text, failed) in [
        (json!({"result":"x"}), "x", false),
        (json!({"error":"x"}), "x", true),
        (json!({"value":"x"}), r#"{"value":"x"}"#, false),
        (json!({"output":["x"]}), r#"{"output":["x"]}"#, false),
    ] {
        let content = json!({"role":"user","parts":[{"functionResponse":{"name":"a","response":response}}]});
        let session = read(&json!([user("go"), super::calls("a"), content]).to_string(), "gemini");
        let result = session.messages[2].tool_results().next().unwrap().clone();
        assert_eq!((result.content[0].as_text().unwrap().as_str(), result.is_error), (text, failed));
    }
    assert_eq!(
        openai["tools"][0]["function"]["parameters"],
        json!({"type":"object"}),
        "types in small letters"
    );
    let left_out = |name: &str| {
        out.findings.iter().any(|f| f.subject.as_deref().is_some_and(|subject| subject.contains(name)))
    };
    assert!(left_out("thoughtSignature") && left_out("generationConfig") && left_out("googleSearch"));
    let anthropic: Value =
        serde_json::from_str(&converted(&body, "gemini", Dialect::Anthropic, None).body).unwrap();
    let blocks = anthropic["messages"][1]["content"].as_array().unwrap();
    let results = anthropic["messages"][2]["content"].as_array().unwrap();
    assert_eq!(blocks[0]["id"], results[0]["tool_use_id"]);
    assert_eq!((&blocks[1]["id"], &results[1]["tool_use_id"]), (&json!("x1"), &json!("x1")));
}

#[test]
fn names_agree_everywhere() {
    let body = json!({"contents":[user("go"),{"role":"model","parts":[{"functionCall":{"name":"1 bad","args":{}},"thoughtSignature":SENTINEL}]}, result("1 bad", "x")],
        "tools":[{"function_declarations":[{"name":"1 bad","description":"d"},{"name":"ok.x:y-z"}],"googleSearch":{}}],
        "tool_config":{"function_calling_config":{"mode":"ANY","allowed_function_names":["1 bad","ok.x:y-z"]}}});
    let (out, rules) = mended(&body);
    let name = &out["contents"][1]["parts"][0]["functionCall"]["name"];
    assert!(name.as_str().unwrap().starts_with('_'));
    assert_eq!(name, &out["contents"][2]["parts"][0]["functionResponse"]["name"]);
    assert_eq!(name, &out["tools"][0]["function_declarations"][0]["name"]);
    assert_eq!(out["tools"][0]["function_declarations"][1], json!({"name":"ok.x:y-z"}));
    assert_eq!(
        out["tool_config"]["function_calling_config"]["allowed_function_names"],
        json!([name, "ok.x:y-z"])
    );
    assert!(rules.iter().all(|rule| *rule == "illegal-name") && !rules.is_empty(), "{rules:?}");
    assert_eq!(mended(&out), (out.clone(), vec![]));
    let openai = json!({"messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"mcp.files:list"}},{"type":"custom","custom":{"name":"sql"}}],"tool_choice":"auto"});
    let out = from_openai(&openai);
    let functions = &out["tools"][0]["functionDeclarations"];
    assert_eq!(functions[0], json!({"name":"mcp.files:list"}), "legal here");
    assert_eq!(functions[1]["parametersJsonSchema"]["required"], json!(["input"]));
    assert_eq!(out["toolConfig"], json!({"functionCallingConfig":{"mode":"AUTO"}}));
    let tool = json!({"type":"function","function":{"name":"a"}});
    let twice = json!({"messages":[{"role":"user","content":"go"}],"tools":[tool, tool]});
    assert_eq!(from_openai(&twice)["tools"], json!([{"functionDeclarations":[{"name":"a"}]}]));
    let single = json!({"contents":[user("a")],"tools":{"functionDeclarations":[{"name":"a"}]}});
    assert_eq!(mended(&single).0["tools"], json!([{"functionDeclarations":[{"name":"a"}]}]));
}

#[test]
fn system_prompts_of_other_spellings() {
    for (given, expected) in [
        (json!("text"), json!({"parts":[{"text":"text"}]})),
        (json!({"parts":{"text":"one"}}), json!({"parts":[{"text":"one"}]})),
        (
            json!({"role":"user","parts":[{"text":"as it is"}]}),
            json!({"role":"user","parts":[{"text":"as it is"}]}),
        ),
    ] {
        let (out, _) = mended(&json!({"systemInstruction":given,"contents":[user("a")]}));
        assert_eq!(out["systemInstruction"], expected);
        assert_eq!(mended(&out), (out.clone(), vec![]));
    }
    let twice = json!({"systemInstruction":{"parts":[{"text":"one"}]},"system_instruction":{"parts":[{"text":"two"}]},"contents":[user("a")]});
    assert_eq!(
        mended(&twice).0,
        json!({"systemInstruction":{"parts":[{"text":"one"},{"text":"two"}]},"contents":[user("a")]})
    );
    for nothing in [json!({}), json!({"parts":[]})] {
        assert_eq!(
            mended(&json!({"systemInstruction":nothing,"contents":[user("a")]})).0,
            json!({"contents":[user("a")]})
        );
    }
    let extra = json!({"systemInstruction":{"parts":[{"text":"one","x":1}]},"contents":[user("a")]});
    assert_eq!(mended(&extra).0["systemInstruction"], json!({"parts":[{"text":"one"}]}));
    let call = json!({"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}});
    let apart = from_openai(
        &json!({"messages":[{"role":"system","content":"one","tool_calls":[call]},{"role":"system","content":"two"}]}),
    );
    assert_eq!(apart["systemInstruction"], json!({"parts":[{"text":"one"}]}), "none is moved past a call");
    assert_eq!(apart["contents"][3], user("<system>two</system>"));
    let both = json!({"systemInstruction":{"parts":[{"text":"one"}]},"contents":[{"role":"system","parts":[{"text":"two"}]},user("a")]});
    let (out, rules) = mended(&both);
    assert_eq!(out["systemInstruction"], json!({"parts":[{"text":"one"},{"text":"two"}]}));
    assert_eq!(rules, ["late-system"]);
}

#[test]
fn broken_base64_is_never_sent() {
    let image = |data: &str| json!({"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":data}}]}]});
    let part = |body: &Value| from_anthropic(body)["contents"][0]["parts"][0].clone();
    assert_eq!(
        part(&image("iVBO\nRw0K\r\nGgo=")),
        json!({"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}})
    );
    assert_eq!(part(&image("AAAAA")), json!({"text":"[image unavailable: the data is not valid base64]"}));
    let (out, rules) =
        mended(&json!([{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAAA"}}]}]));
    assert_eq!(
        out["contents"][0]["parts"][0],
        json!({"text":"[image unavailable: the data is not valid base64]"})
    );
    assert_eq!(rules, ["unusable-media"]);
}

#[test]
fn files_in_results_are_shown_by_the_user() {
    let file = json!({"fileData":{"mimeType":"image/png","fileUri":"gs://a/b.png"}});
    let answer = json!({"functionResponse":{"name":"a","response":{"output":"x"},"parts":[file]}});
    let (out, rules) =
        mended(&json!({"contents":[user("go"), calls("a"), {"role":"user","parts":[answer]}]}));
    assert_eq!(out["contents"][2], result("a", "x"));
    assert_eq!(out["contents"][3], json!({"role":"user","parts":[file]}));
    assert_eq!(rules, ["moved-media"]);
}

#[test]
fn a_session_file_needs_no_closing_message() {
    let session = read(&json!([user("a"), says("b")]).to_string(), "gemini");
    let view = repair(&session.history(), OnBroken::Keep).view;
    let target = Target { closes: false, ..Target::of(&session.context) };
    let out = Dialect::Gemini.wire().encode(&view, &target).unwrap();
    assert!(out.findings.is_empty() && !out.body.contains("Continue."), "{}", out.body);
}
