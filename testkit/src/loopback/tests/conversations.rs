//! Valid and invalid conversations.

use serde_json::{Value, json};

use super::{super::Service, APIS, ask, first, go_on, messages, server};

/// A conversation with calls, results and reasoning continues for many turns without an error.
#[test]
fn a_conversation_goes_on() {
    for (service, api) in APIS {
        let server = server();
        let mut body = first(service, api, "tools:3 steps:2 think", false);
        let mut calls = 0;
        for turn in 0..24 {
            let got = ask(&server, service, api, &body);
            assert_eq!(got.status, 200, "{service} {api} {turn}: {}", got.text());
            let called = go_on(service, api, &mut body, &got.json());
            calls += called;
            if called == 0 {
                let say = server.requests().last().unwrap().say.clone().unwrap();
                assert!(
                    say.text.starts_with("After 2 rounds I saw 6 results:\n1. 42\n"),
                    "{service}: {}",
                    say.text
                );
                let said = format!("tools:3 steps:2 think, for the {turn}th time");
                // Mistral wants nothing between a result and what a person says, but there the model has just spoken.
                messages(&mut body).push(match (service, api) {
                    (Service::Gemini, _) => json!({"role": "user", "parts": [{"text": said}]}),
                    _ => json!({"role": "user", "content": said}),
                });
            }
        }
        assert_eq!(calls, 48, "{service} {api}");
        assert_eq!(server.violations(), [], "{service} {api}");
        // Everything that was sent before came out of the cache.
        let last = server.requests().last().unwrap().answer.to_vec();
        let answer: Value = serde_json::from_slice(&last).unwrap();
        let cached =
            ["/usage/prompt_tokens_details/cached_tokens", "/usage/input_tokens_details/cached_tokens"];
        if service == Service::OpenAi {
            assert!(
                cached.iter().filter_map(|place| answer.pointer(place)?.as_u64()).sum::<u64>() > 100,
                "{answer}"
            );
        }
    }
}

/// A call without its result is refused with the provider's own words, in its own shape.
#[test]
fn a_call_without_its_result_is_refused() {
    for (service, api) in APIS {
        let server = server();
        let mut body = first(service, api, "tools:2", false);
        let answer = ask(&server, service, api, &body).json();
        go_on(service, api, &mut body, &answer);
        assert_eq!(ask(&server, service, api, &body).status, 200, "{service} {api}");
        // The result of the last call goes.
        let mut broken = body.clone();
        let list = messages(&mut broken);
        let last = list.last_mut().unwrap();
        match service {
            Service::Anthropic => drop(last["content"].as_array_mut().unwrap().pop()),
            Service::Gemini => drop(last["parts"].as_array_mut().unwrap().pop()),
            _ => drop(list.pop()),
        }
        let got = ask(&server, service, api, &broken);
        let (rule, place, words) = match (service, api) {
            (Service::Anthropic, _) => (
                "ANT-01",
                "/error/message",
                "messages.1: `tool_use` ids were found without `tool_result` blocks",
            ),
            (Service::Gemini, _) => {
                ("GEM-03", "/error/message", "Please ensure that the number of function response parts")
            }
            (Service::Ollama, _) => ("OLL-04", "/error", "messages.1: 2 tool calls, but 1"),
            (_, "responses") => ("RSP-01", "/error/message", "No tool output found for function call call_"),
            (Service::Mistral, _) => {
                ("MIS-01", "/message", "Not the same number of function calls and responses")
            }
            (Service::OpenRouter, _) => (
                "OAC-01",
                "/error/metadata/raw",
                "{\"error\":{\"message\":\"An assistant message with 'tool_calls' must",
            ),
            _ => (
                "OAC-01",
                "/error/message",
                "An assistant message with 'tool_calls' must be followed by tool messages",
            ),
        };
        assert_eq!(got.status, 400, "{service} {api}");
        let said = got.json().pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert!(said.starts_with(words), "{service} {api}: {}", got.text());
        let violations = server.violations();
        assert!(
            violations.iter().any(|violation| violation.rule == rule && violation.request == 2),
            "{violations:?}"
        );
        assert!(violations.iter().all(|violation| violation.request == 2));
        assert_eq!(server.requests()[2].status, 400);
    }
}

#[test]
fn a_brain_of_a_test_says_what_the_test_wants() {
    use super::super::{
        Config, Loopback, Say,
        brain::{Call, Stop},
    };
    let brain = |ask: &super::super::Ask| Say {
        text: format!("{} {} {}", ask.dialect, ask.model, ask.said.len()),
        calls: vec![Call { name: "calculate".into(), arguments: "{\"expression\": \"1".into() }],
        stop: Stop::Length,
        ..Say::default()
    };
    let server = Loopback::start(Config { brain: std::sync::Arc::new(brain), ..Config::default() });
    let got = ask(&server, Service::OpenAi, "chat", &first(Service::OpenAi, "chat", "x", false)).json();
    let choice = &got["choices"][0];
    assert_eq!(choice["message"]["content"], "openai-chat some-model 1");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"expression\": \"1");
    assert_eq!(choice["finish_reason"], "length");
    let got = ask(&server, Service::Anthropic, "", &first(Service::Anthropic, "", "x", true));
    assert!(got.text().contains("max_tokens") && !got.text().contains("message_stop\"}}"));
}

#[test]
fn tools_that_nobody_knows_are_called_as_their_schema_wants() {
    let server = server();
    let mut body = first(Service::OpenAi, "chat", "tools:2", false);
    let schema = json!({"type": "object", "required": ["line", "count", "how"], "properties": {
        "line": {"type": "string"}, "count": {"type": "integer"}, "how": {"enum": ["well", "badly"]}, "more": {"type": "string"},
    }});
    body["tools"] = json!([{"type": "function", "function": {"name": "note_down", "parameters": schema}}]);
    let got = ask(&server, Service::OpenAi, "chat", &body).json();
    let calls = &got["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["name"], "note_down");
    assert_eq!(calls[1]["function"]["arguments"], r#"{"line":"value 1","count":1,"how":"well"}"#);
}
