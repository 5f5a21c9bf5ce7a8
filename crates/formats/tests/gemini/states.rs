//! What becomes of each broken state.

use super::*;

/// Each row of the table of broken states.
#[test]
fn broken_states() {
    let both = |body: &Value| {
        let session = read(&body.to_string(), "gemini");
        let out = |policy| {
            let out = convert(&session, Dialect::Gemini, None, policy).unwrap();
            let value: Value = serde_json::from_str(&out.body).unwrap();
            assert_eq!(rules::problems(&value), [] as [String; 0], "{value}");
            let rules: Vec<&str> = out.findings.iter().map(|finding| finding.rule.name()).collect();
            (value["contents"].clone(), rules)
        };
        (out(OnBroken::Keep), out(OnBroken::Drop))
    };
    let pair = |name: &str| json!({"role":"model","parts":[{"functionCall":{"name":name,"args":{}},"thoughtSignature":SENTINEL}]});
    let no_result = "[no result was recorded for this call; it may or may not have run]";

    // A call with no result.
    let ((keep, rules), (drop, _)) = both(&json!([user("go"), calls("a"), user("next")]));
    assert_eq!(keep[2]["parts"], json!([{"functionResponse":{"name":"a","response":{"error":no_result}}}]));
    assert_eq!(keep[3], user("next"));
    assert_eq!(rules, ["unanswered-call"]);
    assert_eq!(drop, json!([{"role":"user","parts":[{"text":"go"},{"text":"next"}]}]));

    // Some results of a batch missing.
    let batch = json!({"role":"model","parts":[{"text":"ok"},{"functionCall":{"name":"a","args":{}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"b","args":{}}}]});
    let ((keep, rules), (drop, _)) = both(&json!([user("go"), batch, result("b", "x"), user("next")]));
    assert_eq!(keep[2]["parts"][0]["functionResponse"]["response"], json!({"error":no_result}));
    assert_eq!(keep[2]["parts"][1]["functionResponse"]["response"], json!({"output":"x"}));
    assert!(rules.contains(&"partial-batch"));
    assert_eq!(drop, json!([user("go"), says("ok"), user("next")]));

    // A result with no call.
    let ((keep, rules), (drop, _)) = both(&json!([user("go"), result("a", "x"), user("next")]));
    let label = "[tool result of tool a, whose call is not in this conversation]\nx";
    assert_eq!(keep, json!([{"role":"user","parts":[{"text":"go"},{"text":label},{"text":"next"}]}]));
    assert!(rules.contains(&"missing-call-id"));
    assert_eq!(drop, json!([{"role":"user","parts":[{"text":"go"},{"text":"next"}]}]));

    // A result before its call: only ids can tell.
    let with_id = |mut content: Value, holder: &str| {
        content["parts"][0][holder]["id"] = json!("c1");
        content
    };
    let (call, answer) = (with_id(calls("a"), "functionCall"), with_id(result("a", "x"), "functionResponse"));
    let ((keep, rules), _) = both(&json!([user("go"), answer, call, user("next")]));
    assert_eq!(keep[2], answer);
    assert!(rules.contains(&"result-before-call"));

    // A result after its call, but not directly.
    for contents in [
        json!([user("go"), calls("a"), user("wait"), result("a", "x")]),
        json!([user("go"), call, user("wait"), answer]),
    ] {
        let ((keep, rules), (drop, _)) = both(&contents);
        assert_eq!(keep, json!([contents[0], contents[1], contents[3], user("wait")]));
        assert_eq!(keep, drop);
        assert_eq!(rules, ["detached-result"]);
    }

    // Two results for one call.
    let ((keep, rules), (drop, _)) =
        both(&json!([user("go"), calls("a"), result("a", "x"), result("a", "y")]));
    assert_eq!(keep[2]["parts"][0]["functionResponse"]["response"], json!({"output":["x","y"]}));
    assert_eq!(drop[2], result("a", "x"));
    assert_eq!(rules, ["duplicate-result"]);

    // Arguments that are no object: answered, and not.
    let odd = json!({"role":"model","parts":[{"text":"t"},{"functionCall":{"name":"a","args":"{\"x\":"}}]});
    let ((keep, _), _) = both(&json!([user("go"), odd, result("a", "x")]));
    assert_eq!(keep[1]["parts"][1]["functionCall"]["args"], json!({"_raw_arguments":"{\"x\":"}));
    assert_eq!(keep[2], result("a", "x"));
    let ((keep, rules), _) = both(&json!([user("go"), odd, user("next")]));
    assert_eq!(keep, json!([user("go"), says("t"), user("next")]));
    assert!(rules.contains(&"malformed-arguments"));

    // Results with something else beside them, and spread over several contents.
    let mixed = json!({"role":"user","parts":[{"text":"see"},{"functionResponse":{"name":"a","response":{"output":"x"}}}]});
    let ((keep, rules), _) = both(&json!([user("go"), calls("a"), mixed]));
    assert_eq!(keep, json!([user("go"), calls("a"), result("a", "x"), user("see")]));
    assert!(rules.contains(&"misplaced-block"));
    let ((keep, rules), _) = both(&json!([user("go"), batch, result("a", "x"), result("b", "y")]));
    assert_eq!(keep.as_array().unwrap().len(), 3);
    assert_eq!(keep[2]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(rules, ["role-order"]);

    // Nothing, instructions only, reasoning only.
    for contents in [
        json!([]),
        json!([{"role":"system","parts":[{"text":"s"}]}]),
        json!([{"role":"model","parts":[{"thoughtSignature":"c2ln"}]}]),
    ] {
        let ((keep, rules), _) = both(&json!({"contents":contents}));
        assert_eq!(keep, json!([user("[conversation resumed]")]));
        assert!(rules.contains(&"role-order"));
    }

    // Roles: two in a row, an old one, none at all, and nothing said.
    let ((keep, rules), _) =
        both(&json!([user("a"), user("b"), {"role":"user","parts":[]}, {"parts":[{"text":"c"}]}]));
    assert_eq!(
        keep,
        json!([{"role":"user","parts":[{"text":"a"},{"text":"b"},{"text":"(empty)"},{"text":"c"}]}])
    );
    assert!(
        rules.contains(&"role-order") && rules.contains(&"empty-message") && rules.contains(&"unknown-role")
    );
    let function =
        json!({"role":"function","parts":[{"functionResponse":{"name":"a","response":{"output":"x"}}}]});
    let ((keep, rules), _) = both(&json!([user("go"), pair("a"), function]));
    assert_eq!(keep[2], result("a", "x"));
    assert_eq!(rules, ["irregular-content"]);
}
