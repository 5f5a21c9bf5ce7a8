//! The transport from outside: a server on this machine answers, and the tests check the result.

mod errors;
mod retries;
mod secrets;
pub(crate) mod shared;
mod streams;
mod totality;

use rejoin_record::Message;

use crate::provider::{Provider, registry};
use shared::*;

/// S0-03, S0-49, S3-01: every service goes through the same trait in the same way. The body has the announced length, the answer
/// arrives, and the token counts are read from the fields of its dialect.
#[test]
fn every_service_is_asked_the_same_way() {
    for service in registry::all() {
        let token = r#"{"token":"tid=exchanged;1","expires_at":4102444800}"#;
        let server =
            Server::answering(move |asked| match asked.line.ends_with("/copilot_internal/v2/token") {
                true => Answer::json(200, token),
                false => Answer::stream(&said(&["he", "llo"])),
            });
        let provider = provider_with(service.name, &server.url, quick_at(&server));
        let (answer, told) = ask(&provider);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", service.name));
        assert_eq!(text(&answer), "hello", "{}", service.name);
        assert_eq!(told.len(), 2, "{}", service.name);
        let asked = server.asked().pop().unwrap();
        let length: usize = asked.header("content-length").unwrap().parse().unwrap();
        assert_eq!(length, asked.body.len());
        assert_eq!(asked.header("transfer-encoding"), None);
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert!(asked.header("user-agent").unwrap().starts_with("rejoin/"));
        let request = request(&provider, &[Message::user("hello")]);
        assert_eq!(asked.body, request.body.unwrap().to_string());
        assert_eq!(provider.endpoint().provider, service.name);
    }
}

/// S0-03: Ollama is asked for the chosen model at the chosen address, and a whole answer is a `CompletionResponse`.
#[test]
fn ollama_answers_in_one_piece() {
    let line = r#"{"model":"llama2","message":{"role":"assistant","content":"42"},"done":true,"done_reason":"stop","prompt_eval_count":7,"eval_count":2}"#;
    let server = Server::new(vec![Answer::of(200, "application/json", line)]);
    let choice = crate::ProviderChoice {
        provider: Some(String::from("ollama")),
        model: Some(String::from("llama2")),
        base_url: Some(server.url.clone()),
        ..Default::default()
    };
    let provider = registry::connect(&choice, &crate::auth::Keys::default(), &quick()).unwrap();
    let answer = run(provider.complete(&[Message::user("6 * 7")], &[])).unwrap();
    assert_eq!(answer.message.content().as_deref(), Some("42"));
    let usage = answer.token_usage.unwrap();
    assert_eq!((usage.input, usage.output), (7, 2));
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /api/chat");
    assert!(asked.body.contains(r#""model":"llama2""#), "{}", asked.body);
    assert_eq!(asked.header("authorization"), None);
}

/// The client is built with the first request and not earlier.
#[test]
fn nothing_is_opened_before_it_is_needed() {
    let server = Server::new(vec![Answer::stream(&said(&["x"]))]);
    let provider = provider_at("openai", &server);
    let _ = (provider.endpoint(), provider.fields(), format!("{provider:?}"));
    assert!(server.asked().is_empty());
}

/// Lists of models in the shape of each service.
#[test]
fn models_are_listed_whatever_their_shape() {
    let cases = [
        (
            "openai",
            "GET /models",
            r#"{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}"#,
            "gpt-4o",
            None,
            None,
        ),
        (
            "anthropic",
            "GET /models?limit=1000",
            r#"{"data":[{"type":"model","id":"claude-x","display_name":"Claude X","max_input_tokens":9,"max_tokens":3}]}"#,
            "claude-x",
            Some(9),
            Some("Claude X"),
        ),
        (
            "gemini",
            "GET /models?pageSize=1000",
            r#"{"models":[{"name":"models/embed","supportedGenerationMethods":["embedContent"]},{"name":"models/gemini-y","displayName":"Gemini Y","inputTokenLimit":8,"outputTokenLimit":2,"supportedGenerationMethods":["generateContent"]}]}"#,
            "gemini-y",
            Some(8),
            Some("Gemini Y"),
        ),
        (
            "ollama",
            "GET /api/tags",
            r#"{"models":[{"name":"tiny:latest","model":"tiny:latest","size":1}]}"#,
            "tiny:latest",
            None,
            None,
        ),
        (
            "openrouter",
            "GET /models",
            r#"{"data":[{"id":"a/b","name":"A: B","context_length":77,"top_provider":{"max_completion_tokens":5}}]}"#,
            "a/b",
            Some(77),
            Some("A: B"),
        ),
        ("together", "GET /models", r#"[{"id":"t","context_length":6}]"#, "t", Some(6), None),
        (
            "vllm",
            "GET /models",
            r#"{"object":"list","data":[{"id":"v","max_model_len":5}]}"#,
            "v",
            Some(5),
            None,
        ),
    ];
    for (service, line, body, id, window, name) in cases {
        let server = Server::new(vec![Answer::json(200, body)]);
        let provider = provider_at(service, &server);
        let models = run(provider.models()).unwrap_or_else(|error| panic!("{service}: {error}"));
        assert_eq!(models.len(), 1, "{service}");
        assert_eq!((models[0].id.as_str(), models[0].window), (id, window), "{service}");
        assert_eq!(models[0].name.as_deref(), name, "{service}");
        assert_eq!(server.asked()[0].line, line);
    }
}

#[test]
fn a_list_of_models_that_is_none_says_so() {
    for body in ["<html>", "[", "{}", r#"{"data":7}"#, ""] {
        let server = Server::new(vec![Answer::json(200, body)]);
        let error = run(provider_at("openai", &server).models()).unwrap_err();
        assert_eq!(error.code(), "GARBAGE", "{body}");
    }
}
