//! The settings of a request in every dialect: missing, unknown, of the wrong type or out of range; and the verdict on a bare list
//! of messages.

use serde_json::{Value, json};

use crate::{CHECKERS, Checker, Violation, named};

/// A request that the provider accepts.
fn request(checker: &Checker) -> Value {
    match checker.dialect {
        "openai-responses" => json!({"model": "m", "input": [{"role": "user", "content": "go"}]}),
        "gemini" => json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]}),
        "bedrock" => json!({"messages": [{"role": "user", "content": [{"text": "go"}]}]}),
        "anthropic" => {
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}]})
        }
        _ => json!({"model": "m", "messages": [{"role": "user", "content": "go"}]}),
    }
}

fn checker(dialect: &str) -> &'static Checker {
    named(dialect).unwrap()
}

fn words(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

/// The provider's errors for the dialect's request with one setting changed.
fn with(dialect: &str, name: &str, value: Value) -> Vec<String> {
    let checker = checker(dialect);
    let mut body = request(checker);
    body[name] = value;
    words(&checker.check(body.to_string().as_bytes()).violations)
}

fn without(dialect: &str, name: &str) -> Vec<String> {
    let checker = checker(dialect);
    let mut body = request(checker);
    body.as_object_mut().unwrap().remove(name);
    words(&checker.check(body.to_string().as_bytes()).violations)
}

#[test]
fn a_plain_request_is_accepted_everywhere() {
    for checker in CHECKERS {
        let verdict = checker.check(request(checker).to_string().as_bytes());
        assert!(verdict.accepts() && verdict.notes.is_empty(), "{}: {verdict:?}", checker.dialect);
    }
}

#[test]
fn a_request_without_its_model_or_limit_is_refused_and_a_draft_is_not() {
    assert_eq!(without("anthropic", "model"), ["ANT-30 at model: model: Field required"]);
    assert_eq!(without("anthropic", "max_tokens"), ["ANT-30 at max_tokens: max_tokens: Field required"]);
    assert_eq!(without("mistral", "model"), ["MIS-schema at model: model: Field required"]);
    assert_eq!(without("ollama", "model"), ["OLL-schema at model: model is required"]);
    for dialect in ["openai-chat", "openai-responses"] {
        let [missing] = &without(dialect, "model")[..] else { panic!("{dialect}") };
        assert!(missing.ends_with("Missing required parameter: 'model'."), "{missing}");
    }
    for checker in CHECKERS {
        let mut body = request(checker);
        body.as_object_mut().unwrap().retain(|name, _| name == checker.list);
        let verdict = checker.check_draft(body.to_string().as_bytes());
        assert!(verdict.accepts(), "{}: {verdict:?}", checker.dialect);
    }
}

#[test]
fn a_bare_list_is_judged_on_its_messages() {
    for checker in CHECKERS {
        let list = request(checker)[checker.list].to_string();
        assert!(checker.check(list.as_bytes()).accepts(), "{}", checker.dialect);
        assert!(!checker.check(b" [7]").accepts(), "{}", checker.dialect);
        assert!(!checker.check(b"[]").accepts(), "{}", checker.dialect);
    }
    // A bare list cannot show which tools the request declares.
    let called = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    ]);
    assert!(checker("anthropic").check(called.to_string().as_bytes()).accepts());
    let body = json!({"model": "m", "max_tokens": 9, "messages": called});
    let refused = checker("anthropic").check(body.to_string().as_bytes()).violations;
    assert_eq!(refused.iter().map(|violation| violation.rule).collect::<Vec<_>>(), ["ANT-09"]);
}

#[test]
fn unknown_settings_are_refused_by_those_who_look() {
    for checker in CHECKERS.iter().filter(|checker| checker.dialect != "ollama") {
        let refused = with(checker.dialect, "colour", json!(1));
        assert!(matches!(&refused[..], [one] if one.contains("colour")), "{}: {refused:?}", checker.dialect);
    }
    assert_eq!(with("ollama", "colour", json!(1)), [""; 0]);
    // Many servers for OpenAI's dialect accept it; OpenAI itself does not.
    let body =
        json!({"model": "m", "top_k": 4, "messages": [{"role": "user", "content": "go", "mood": "good"}]});
    let verdict = checker("openai-chat").check(body.to_string().as_bytes());
    assert!(verdict.accepts());
    assert_eq!(
        verdict.notes.iter().map(|note| note.path.as_str()).collect::<Vec<_>>(),
        ["top_k", "messages.0.mood"]
    );
}

#[test]
fn settings_have_types_and_ranges() {
    let refused = [
        ("anthropic", "max_tokens", json!(0), "Input should be greater than or equal to 1"),
        ("anthropic", "max_tokens", json!("9"), "Input should be a valid integer"),
        ("anthropic", "temperature", json!(1.5), "Input should be less than or equal to 1"),
        ("anthropic", "stream", json!("yes"), "Input should be a valid boolean"),
        ("anthropic", "stop_sequences", json!("x"), "Input should be an array of strings"),
        ("anthropic", "metadata", json!({"name": "x"}), "Extra inputs are not permitted"),
        ("anthropic", "service_tier", json!("fast"), "Input should be 'auto' or 'standard_only'"),
        ("anthropic", "thinking", json!({"type": "enabled"}), "Field required"),
        ("anthropic", "thinking", json!({"type": "enabled", "budget_tokens": 10}), "or equal to 1024"),
        ("anthropic", "thinking", json!({"type": "enabled", "budget_tokens": 2000}), "must be greater than"),
        ("anthropic", "thinking", json!({"type": "disabled", "mood": 1}), "Extra inputs are not permitted"),
        ("anthropic", "output_config", json!({"effort": "ultra"}), "Input should be 'low'"),
        ("openai-chat", "top_logprobs", json!(2), "only allowed when 'logprobs'"),
        (
            "openai-chat",
            "response_format",
            json!({"type": "json_schema"}),
            "response_format.json_schema.name",
        ),
        ("openai-responses", "reasoning", json!({"effort": "ultra"}), "Supported values are"),
        ("openai-responses", "text", json!({"verbosity": "max"}), "Supported values are"),
        ("openai-chat", "temperature", json!(2.1), "above maximum"),
        ("openai-chat", "n", json!(0), "below minimum"),
        ("openai-chat", "stop", json!(["a", "b", "c", "d", "e"]), "Expected at most 4"),
        ("openai-chat", "stream_options", json!({"include_usage": true}), "only allowed when 'stream'"),
        ("openai-chat", "parallel_tool_calls", json!(true), "only allowed when 'tools'"),
        ("openai-chat", "response_format", json!({"type": "json"}), "Supported values are"),
        ("openai-chat", "reasoning_effort", json!("extreme"), "Supported values are"),
        ("openai-chat", "metadata", json!({"a": 1}), "an object of strings"),
        ("openai-responses", "max_output_tokens", json!(1), "below minimum"),
        ("openai-responses", "truncation", json!("always"), "Supported values are"),
        ("openai-responses", "store", json!(1), "expected a boolean"),
        ("gemini", "generationConfig", json!({"topP": 2}), "out of the supported range"),
        ("gemini", "generation_config", json!({"max_output_tokens": "many"}), "Invalid value"),
        ("bedrock", "inferenceConfig", json!({"maxTokens": 0}), "greater than or equal to 1"),
        ("bedrock", "inferenceConfig", json!({"topK": 5}), "Unknown parameter"),
        ("mistral", "temperature", json!(3), "less than or equal to 1.5"),
        ("ollama", "stream", json!("yes"), "cannot unmarshal a string"),
    ];
    for (dialect, name, value, words) in refused {
        let refused = with(dialect, name, value.clone());
        assert!(
            matches!(&refused[..], [one] if one.contains(words)),
            "{dialect} {name} {value}: {refused:?}"
        );
    }
    let accepted = [
        ("anthropic", "temperature", json!(0.5)),
        ("anthropic", "max_tokens", json!(64.0)),
        ("anthropic", "top_k", json!(null)),
        ("openai-chat", "stop", json!("x")),
        ("openai-chat", "seed", json!(-3)),
        ("openai-chat", "max_tokens", json!(null)),
        ("anthropic", "output_config", json!({"effort": "high"})),
        (
            "openai-chat",
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}),
        ),
        ("openai-responses", "text", json!({"format": {"type": "text"}, "verbosity": "low"})),
        ("openai-responses", "reasoning", json!({"effort": "low", "summary": "auto"})),
        ("gemini", "generationConfig", json!({"thinkingConfig": {"thinkingBudget": -1}})),
        ("gemini", "safety_settings", json!([])),
        ("bedrock", "inferenceConfig", json!({"maxTokens": 5, "temperature": 0.2})),
        ("ollama", "options", json!({"num_ctx": 4096})),
    ];
    for (dialect, name, value) in accepted {
        assert_eq!(with(dialect, name, value.clone()), [""; 0], "{dialect} {name} {value}");
    }
}

/// Thinking counts towards `max_tokens`, so its budget must leave room for an answer.
#[test]
fn a_budget_for_thinking_is_smaller_than_the_answer() {
    for (most, accepted) in [(1024, false), (1025, true)] {
        let mut body = request(checker("anthropic"));
        body["max_tokens"] = json!(most);
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        assert_eq!(checker("anthropic").check(body.to_string().as_bytes()).accepts(), accepted, "{most}");
    }
}

#[test]
fn what_a_model_takes_depends_on_its_version() {
    let body = |model: &str, messages: Value| {
        json!({"model": model, "max_tokens": 9, "messages": messages}).to_string()
    };
    let prefilled = json!([{"role": "user", "content": "go"}, {"role": "assistant", "content": "The"}]);
    let inline = json!([{"role": "user", "content": "go"}, {"role": "system", "content": "be brief"}]);
    for (model, messages, rules, notes) in [
        ("claude-sonnet-4-5", &prefilled, &[][..], 0),
        ("claude-opus-4-6", &prefilled, &["ANT-14"], 0),
        ("a-gateway-name", &prefilled, &["ANT-14"], 0),
        ("claude-opus-4-8", &inline, &[], 1),
        ("claude-sonnet-4-5", &inline, &["ANT-16"], 0),
        ("a-gateway-name", &inline, &["ANT-16"], 0),
    ] {
        let verdict = checker("anthropic").check(body(model, messages.clone()).as_bytes());
        let broken: Vec<&str> = verdict.violations.iter().map(|violation| violation.rule).collect();
        assert_eq!((&broken[..], verdict.notes.len()), (rules, notes), "{model} {messages}");
    }
}
