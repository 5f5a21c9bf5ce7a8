//! Each provider's own shape of each error.

use std::net::TcpListener;

use super::shared::*;
use crate::provider::{Provider, ProviderError};

fn error(service: &str, status: u16, body: &str) -> ProviderError {
    let server = Server::new(vec![Answer::json(status, body)]);
    let options = super::super::HttpOptions { retries: 0, ..quick() };
    let provider = match service {
        // Copilot would exchange its token first, so use another provider.
        "copilot" => provider_with("custom", &server.url, options),
        _ => provider_with(service, &server.url, options),
    };
    error_of(&provider)
}

/// S0-23, S0-49, S3-01: a refusal becomes an error of the right kind, with the provider's own words, for every provider.
#[test]
fn errors_of_every_shape_have_their_kind() {
    let cases: &[(&str, u16, &str, &str, &str)] = &[
        // The key is refused.
        (
            "openai",
            401,
            r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            "UNAUTHORIZED",
            "Incorrect API key",
        ),
        (
            "anthropic",
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_1"}"#,
            "UNAUTHORIZED",
            "invalid x-api-key",
        ),
        (
            "anthropic",
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"not yours"}}"#,
            "UNAUTHORIZED",
            "not yours",
        ),
        (
            "gemini",
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            "UNAUTHORIZED",
            "API key not valid",
        ),
        ("mistral", 401, r#"{"message":"Unauthorized","request_id":"x"}"#, "UNAUTHORIZED", "Unauthorized"),
        (
            "openrouter",
            401,
            r#"{"error":{"message":"No auth credentials found","code":401}}"#,
            "UNAUTHORIZED",
            "No auth",
        ),
        (
            "xai",
            400,
            r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xx."}"#,
            "UNAUTHORIZED",
            "Incorrect API key",
        ),
        ("copilot", 401, "unauthorized: token expired\n", "UNAUTHORIZED", "token expired"),
        // There is no such model or path.
        (
            "openai",
            404,
            r#"{"error":{"message":"The model `gpt-9` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
            "NOT_FOUND",
            "gpt-9",
        ),
        (
            "anthropic",
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
            "NOT_FOUND",
            "claude-9",
        ),
        (
            "gemini",
            404,
            r#"{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}"#,
            "NOT_FOUND",
            "models/x",
        ),
        ("ollama", 404, r#"{"error":"model 'llama9' not found"}"#, "NOT_FOUND", "llama9"),
        (
            "mistral",
            400,
            r#"{"object":"error","message":"Invalid model: foo","type":"invalid_model","code":"1500"}"#,
            "NOT_FOUND",
            "foo",
        ),
        (
            "openrouter",
            400,
            r#"{"error":{"message":"foo is not a valid model ID","code":400}}"#,
            "NOT_FOUND",
            "foo",
        ),
        (
            "copilot",
            400,
            r#"{"error":{"message":"The requested model is not supported.","code":"model_not_supported"}}"#,
            "NOT_FOUND",
            "not supported",
        ),
        (
            "deepseek",
            400,
            r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}"#,
            "NOT_FOUND",
            "Not Exist",
        ),
        ("openai", 404, "<html><body>nginx</body></html>", "NOT_FOUND", "a web page"),
        // There are too many requests, or no credit is left.
        (
            "openai",
            429,
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            "RATE_LIMITED",
            "Rate limit",
        ),
        (
            "anthropic",
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
            "RATE_LIMITED",
            "slow down",
        ),
        (
            "gemini",
            429,
            r#"{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}"#,
            "RATE_LIMITED",
            "exhausted",
        ),
        (
            "openai",
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            "RATE_LIMITED",
            "quota",
        ),
        (
            "anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
            "RATE_LIMITED",
            "credit balance",
        ),
        ("deepseek", 402, r#"{"error":{"message":"Insufficient Balance"}}"#, "RATE_LIMITED", "Insufficient"),
        // The provider fails or is overloaded.
        (
            "openai",
            500,
            r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
            "UNAVAILABLE",
            "had an error",
        ),
        (
            "anthropic",
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "UNAVAILABLE",
            "Overloaded",
        ),
        (
            "gemini",
            503,
            r#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#,
            "UNAVAILABLE",
            "overloaded",
        ),
        ("groq", 502, "", "UNAVAILABLE", "Bad Gateway"),
        ("openrouter", 504, "<!DOCTYPE html><title>x</title>", "UNAVAILABLE", "a web page"),
        ("ollama", 500, r#"{"error":"llama runner process has terminated"}"#, "UNAVAILABLE", "terminated"),
        ("openai", 408, "{}", "UNAVAILABLE", "Timeout"),
        ("openai", 409, "{}", "UNAVAILABLE", "Conflict"),
        // The conversation is too long.
        (
            "openai",
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
            "CONTEXT_LENGTH",
            "context window",
        ),
        (
            "anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"}}"#,
            "CONTEXT_LENGTH",
            "too long",
        ),
        (
            "anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}"#,
            "CONTEXT_LENGTH",
            "context limit",
        ),
        (
            "anthropic",
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            "CONTEXT_LENGTH",
            "maximum size",
        ),
        (
            "gemini",
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            "CONTEXT_LENGTH",
            "token count",
        ),
        (
            "mistral",
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}"#,
            "CONTEXT_LENGTH",
            "40000",
        ),
        (
            "groq",
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            "CONTEXT_LENGTH",
            "reduce",
        ),
        (
            "groq",
            413,
            r#"{"error":{"message":"Request too large for model","type":"tokens","code":"rate_limit_exceeded"}}"#,
            "CONTEXT_LENGTH",
            "too large",
        ),
        (
            "openrouter",
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens.","code":400}}"#,
            "CONTEXT_LENGTH",
            "8192",
        ),
        (
            "openrouter",
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 3 tokens > 2 maximum\"}}","provider_name":"Anthropic"}}}"#,
            "CONTEXT_LENGTH",
            "too long",
        ),
        (
            "copilot",
            400,
            r#"{"error":{"message":"prompt token count of 70000 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}"#,
            "CONTEXT_LENGTH",
            "70000",
        ),
        (
            "xai",
            400,
            r#"{"code":"c","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
            "CONTEXT_LENGTH",
            "131072",
        ),
        (
            "llamacpp",
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
            "CONTEXT_LENGTH",
            "available",
        ),
        (
            "together",
            422,
            r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193.","type":"invalid_request_error"}}"#,
            "CONTEXT_LENGTH",
            "8193",
        ),
        (
            "vllm",
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
            "CONTEXT_LENGTH",
            "4096",
        ),
        // The request is refused.
        (
            "openai",
            400,
            r#"{"error":{"message":"No tool output found for function call call_1.","type":"invalid_request_error","param":"input","code":null}}"#,
            "REFUSED",
            "No tool output",
        ),
        (
            "openai",
            404,
            r#"{"error":{"message":"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.","type":"invalid_request_error"}}"#,
            "REFUSED",
            "rs_1",
        ),
        (
            "openai",
            400,
            r#"{"error":{"message":"Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40","type":"invalid_request_error","code":"string_above_max_length"}}"#,
            "REFUSED",
            "maximum length 40",
        ),
        (
            "anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.2: `tool_use` ids were found without `tool_result` blocks"}}"#,
            "REFUSED",
            "tool_use",
        ),
        (
            "gemini",
            400,
            r#"{"error":{"code":400,"message":"Please ensure that function call turn comes immediately after a user turn","status":"INVALID_ARGUMENT"}}"#,
            "REFUSED",
            "function call turn",
        ),
        ("ollama", 400, r#"{"error":"llama2 does not support tools"}"#, "REFUSED", "tools"),
        (
            "mistral",
            422,
            r#"{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}"#,
            "REFUSED",
            "body.messages: Field required",
        ),
        (
            "groq",
            400,
            r#"{"error":{"message":"'messages.1' : property 'reasoning_content' is unsupported","type":"invalid_request_error"}}"#,
            "REFUSED",
            "reasoning_content",
        ),
        (
            "openrouter",
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"unexpected role"}}}"#,
            "REFUSED",
            "unexpected role",
        ),
        (
            "copilot",
            400,
            "bad request: missing Editor-Version header for IDE auth\n",
            "REFUSED",
            "Editor-Version",
        ),
    ];
    for (service, status, body, code, words) in cases {
        let error = error(service, *status, body);
        assert_eq!(error.code(), *code, "{service} {status} {body}: {error}");
        assert!(error.to_string().contains(words), "{service} {status}: {error}");
        assert!(error.to_string().contains(&status.to_string()), "{service} {status}: {error}");
        assert!(error.hint().is_some(), "{service} {status}");
    }
}

/// An error that comes with a success status, or as the first event of a stream, is an error of the same kind.
#[test]
fn errors_with_a_good_status_are_errors() {
    let cases = [
        (
            Answer::json(200, r#"{"error":{"message":"maximum context length is 9","code":400}}"#),
            "CONTEXT_LENGTH",
        ),
        (
            Answer::stream("data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"),
            "UNAVAILABLE",
        ),
        (
            Answer::stream("data: {\"error\":{\"type\":\"rate_limit_exceeded\",\"message\":\"slow\"}}\n\n"),
            "RATE_LIMITED",
        ),
        (
            Answer::stream("data: {\"error\":{\"type\":\"invalid_request_error\",\"message\":\"odd\"}}\n\n"),
            "REFUSED",
        ),
        (
            Answer::stream(
                "data: {\"error\":{\"type\":\"context_length_exceeded\",\"message\":\"long\"}}\n\n",
            ),
            "CONTEXT_LENGTH",
        ),
    ];
    for (answer, code) in cases {
        let server = Server::new(vec![answer.clone()]);
        let error = error_of(&provider_at("custom", &server));
        assert_eq!(error.code(), code, "{answer:?}: {error}");
        // The first bytes of an answer had arrived, so nothing is repeated.
        assert_eq!(server.asked().len(), 1, "{answer:?}");
    }
}

/// A body that is not an answer is shown on one line, without control characters.
#[test]
fn pages_and_noise_are_garbage() {
    let page = "<html>\x1b[2J<body>Sign in to the hotel's network</body>";
    let cases = [
        Answer::of(200, "text/html; charset=utf-8", page),
        Answer::of(200, "text/plain", "hello\x1b[2J\x07\n"),
        Answer::json(200, "{\"unexpected\":true}"),
        Answer::json(200, "\u{7}garbage"),
        Answer::of(302, "text/plain", "")
            .with("location", "https://user:pass@elsewhere.example/login?token=1"),
    ];
    for answer in cases {
        let server = Server::new(vec![answer.clone()]);
        let error = error_of(&provider_at("custom", &server));
        assert_eq!(error.code(), "GARBAGE", "{answer:?}: {error}");
        let shown = error.to_string();
        assert!(shown.len() < 400 && !shown.chars().any(char::is_control), "{shown:?}");
        assert!(!shown.contains("pass@") && !shown.contains("token=1"), "{shown}");
        assert!(error.hint().unwrap().contains("--base-url"));
        assert_eq!(server.asked().len(), 1, "{answer:?}");
    }
}

/// Only the beginning of an error is read, whatever its size.
#[test]
fn errors_without_end_are_read_only_so_far() {
    let noise = "x".repeat(1 << 20);
    let server = Server::new(vec![Answer::of(400, "text/plain", &noise).ending(Ending::Endless)]);
    let error = error_of(&provider_at("custom", &server));
    assert_eq!(error.code(), "REFUSED");
    assert!(error.to_string().chars().count() < 800);
}

/// If no server answers, the error names the address, without the key and the password.
#[test]
fn nobody_answers() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = format!("http://user:hunter22@{free}");
    for url in [refused.as_str(), "http://no-such-host.invalid"] {
        let (answer, told) = ask(&provider_with("custom", url, quick()));
        let error = answer.unwrap_err();
        assert!(matches!(&error, ProviderError::Unreachable { .. }), "{error:?}");
        let shown = format!("{error} {error:?} {told:?}");
        assert!(!shown.contains("hunter22") && !shown.contains(SECRET), "{shown}");
        assert!(error.to_string().contains("/chat/completions"), "{error}");
        assert_eq!(told.len(), 3, "it was tried again: {told:?}");
    }
}

#[test]
fn an_address_that_is_none_is_said_to_be() {
    let provider = provider_with("custom", "http://[broken", quick());
    let error = error_of(&provider);
    assert!(error.to_string().contains("not an address"), "{error}");
    assert!(provider.endpoint().address.url.is_some());
}
