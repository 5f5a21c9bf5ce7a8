//! Which signatures are sent again, and where the sentinel stands.

use super::*;

#[test]
fn a_signature_stays_where_it_was_issued() {
    let signed = json!({"model":"gemini-a","contents":[user("go"), calls("a"), result("a", "x"),
        {"role":"model","parts":[{"text":"ok","thoughtSignature":"dA=="}]}, user("more"),
        {"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"dA=="},{"functionCall":{"name":"a","args":{}},"thoughtSignature":"c2ln"},
            {"functionCall":{"name":"b","args":{}},"thoughtSignature":"c2ln"}]},
        {"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}},{"functionResponse":{"name":"b","response":{}}}]}]});
    assert_eq!(mended(&signed), (signed.clone(), vec![]));
    let same = converted(&signed, "gemini", Dialect::Gemini, Some("gemini-a"));
    assert_eq!(serde_json::from_str::<Value>(&same.body).unwrap(), signed);
    // Another model: none of them, and the sentinel on the first call of each content.
    let other = converted(&signed, "gemini", Dialect::Gemini, Some("gemini-b"));
    let value: Value = serde_json::from_str(&other.body).unwrap();
    assert!(!other.body.contains("c2ln\"") && !other.body.contains("dA=="), "{}", other.body);
    assert_eq!(value["contents"][1]["parts"][0]["thoughtSignature"], SENTINEL);
    assert_eq!(value["contents"][3]["parts"], json!([{"text":"ok"}]));
    assert_eq!(
        value["contents"][5]["parts"],
        json!([{"functionCall":{"name":"a","args":{}},"thoughtSignature":SENTINEL},{"functionCall":{"name":"b","args":{}}}])
    );
    assert!(other.findings.iter().filter(|f| f.rule == Rule::ForeignReasoning).count() >= 5);
    // The sentinel is bound to nothing.
    let again = converted(&value, "gemini", Dialect::Gemini, Some("gemini-c"));
    assert!(again.body.contains(SENTINEL));
    assert!(again.findings.iter().all(|f| f.rule != Rule::ForeignReasoning), "{:?}", again.findings);
}

#[test]
fn a_signature_goes_where_something_before_it_changed() {
    let mut body =
        json!({"contents":[user("go"), calls("a"), result("a", "x"), calls("b"), result("b", "y")]});
    body["contents"][2]["parts"] = json!([{"functionResponse":{"name":"a","response":{"output":"x"}}},{"functionResponse":{"name":"z","response":{"output":"w"}}}]);
    let (out, rules) = mended(&body);
    assert_eq!(out["contents"][1]["parts"][0]["thoughtSignature"], "c2ln", "nothing before it was changed");
    assert_eq!(out["contents"][4]["parts"][0]["thoughtSignature"], SENTINEL);
    assert!(rules.contains(&"foreign-reasoning"));
    // A leading call gets a message before it, a leading word does not; two contents of the model's become one.
    let (out, _) = mended(&json!({"contents":[calls("a"), result("a", "x")]}));
    assert_eq!(out["contents"][0], user("[conversation resumed]"));
    assert_eq!(out["contents"][1]["parts"][0]["thoughtSignature"], SENTINEL);
    let leading = json!({"contents":[says("hello"), user("hi")]});
    assert_eq!(mended(&leading), (leading.clone(), vec![]));
    let (out, _) = mended(&json!({"contents":[says("hello"), says("there"), calls("a"), result("a", "x")]}));
    assert_eq!(out["contents"][0]["parts"], json!([{"text":"hello"},{"text":"there"}]));
    assert_eq!(out["contents"][1], user("[conversation resumed]"));
    assert_eq!(out["contents"][2]["parts"][0]["thoughtSignature"], SENTINEL);
    let (out, rules) = mended(&json!({"contents":[user("go"), says("well"), calls("a"), result("a", "x")]}));
    assert_eq!(out["contents"][1]["parts"][0], json!({"text":"well"}));
    assert_eq!(out["contents"][1]["parts"][1]["thoughtSignature"], SENTINEL);
    assert_eq!(rules, ["foreign-reasoning", "role-order"]);
    // Arguments that had to be wrapped.
    let (out, _) = mended(&json!({"contents":[user("go"),
        {"role":"model","parts":[{"functionCall":{"name":"a","args":[1]},"thoughtSignature":"c2ln"}]}, result("a", "x")]}));
    assert_eq!(
        out["contents"][1]["parts"][0],
        json!({"functionCall":{"name":"a","args":{"_raw_arguments":"[1]"}},"thoughtSignature":SENTINEL})
    );
}

#[test]
fn unsigned_first_calls_get_the_sentinel() {
    let call = |name: &str| json!({"functionCall":{"name":name,"args":{}}});
    let body = json!({"contents":[user("go"),{"role":"model","parts":[call("a"), call("b")]},
        {"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}},{"functionResponse":{"name":"b","response":{}}}]},
        calls("c"), result("c", "x")]});
    let (out, rules) = mended(&body);
    assert_eq!(out["contents"][1]["parts"][0]["thoughtSignature"], SENTINEL);
    assert_eq!(out["contents"][1]["parts"][1], call("b"));
    assert_eq!(out["contents"][3], body["contents"][3], "the sentinel leaves later signatures in place");
    assert_eq!(rules, ["irregular-content"]);
    assert_eq!(mended(&out), (out.clone(), vec![]));
}

#[test]
fn a_signature_that_nobody_can_read_goes() {
    let corrupt = |part: Value| {
        let mut part = part;
        part["thoughtSignature"] = json!("by somebody else");
        part
    };
    let body = json!({"contents":[user("go"),
        {"role":"model","parts":[corrupt(json!({"text":"well"})), corrupt(json!({"functionCall":{"name":"a","args":{"x":1}}}))]}, result("a", "x")]});
    let (out, rules) = mended(&body);
    assert_eq!(
        out["contents"][1]["parts"],
        json!([{"text":"well"},{"functionCall":{"name":"a","args":{"x":1}},"thoughtSignature":SENTINEL}])
    );
    assert_eq!(rules, ["foreign-reasoning", "foreign-reasoning", "irregular-content"]);
}

#[test]
fn thoughts_stay_where_they_were_thought() {
    let thinks = |signature: Option<&str>| {
        let mut part = json!({"text":"hm","thought":true});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        json!({"role":"model","parts":[part, {"text":"so"}]})
    };
    for signature in [None, Some("c2ln")] {
        let whole = json!({"contents":[user("go"), thinks(signature), user("ok")]});
        assert_eq!(mended(&whole), (whole.clone(), vec![]));
        // A result is missing before it: what is bound to that goes, what is not stays.
        let (out, rules) = mended(
            &json!({"contents":[user("go"), calls("a"), user("stop"), thinks(signature), user("ok")]}),
        );
        assert_eq!(out["contents"][4], if signature.is_some() { says("so") } else { thinks(None) });
        assert_eq!(rules.contains(&"foreign-reasoning"), signature.is_some());
        assert!(!from_gemini_to_openai(&whole).contains("hm"));
    }
    // Only words are thoughts, and only a model thinks.
    let (out, _) = mended(
        &json!({"contents":[{"role":"user","parts":[{"text":"hm","thought":true},{"text":"go"}]},
        {"role":"model","parts":[{"functionCall":{"name":"a","args":{}},"thought":true,"thoughtSignature":"c2ln"}]}, result("a", "x")]}),
    );
    assert_eq!(out["contents"][0], user("go"));
    assert_eq!(
        out["contents"][1]["parts"],
        json!([{"functionCall":{"name":"a","args":{}},"thoughtSignature":SENTINEL}])
    );
}

fn from_gemini_to_openai(body: &Value) -> String {
    converted(body, "gemini", Dialect::OpenAiChat, None).body
}
