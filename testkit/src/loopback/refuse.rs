//! The refusals of each service: its own words in its own shape.

use serde_json::{Value, json};

use super::{Service, http::Reply};

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something in the request.
    Invalid,
    NoKey,
    WrongKey,
    NoModel(String),
    /// There is nothing at that address.
    NoPath(String),
    ContextLength,
    /// Any reason with this status.
    Status(u16),
}

/// A refusal.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    cause: Cause,
    /// The message, if it differs from the usual one.
    words: Option<String>,
    param: Option<String>,
    code: Option<&'static str>,
}

impl Refusal {
    pub fn of(cause: Cause) -> Self {
        Self { cause, words: None, param: None, code: None }
    }

    /// With other words.
    pub fn saying(mut self, words: impl Into<String>) -> Self {
        self.words = Some(words.into());
        self
    }

    /// About this field.
    pub fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// With a code for programs.
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The status that the service answers with.
    pub fn status(&self, service: Service) -> u16 {
        match &self.cause {
            Cause::Invalid | Cause::ContextLength => 400,
            Cause::NoKey if service == Service::Gemini => 403,
            Cause::WrongKey if service == Service::Gemini => 400,
            Cause::NoKey | Cause::WrongKey => 401,
            Cause::NoModel(_) => match service {
                Service::OpenRouter | Service::Mistral | Service::DeepSeek | Service::Copilot => 400,
                _ => 404,
            },
            Cause::NoPath(_) => 404,
            Cause::Status(status) => *status,
        }
    }

    /// The answer.
    pub fn reply(&self, service: Service) -> Reply {
        let status = self.status(service);
        let words = self.words.clone().unwrap_or_else(|| usual(&self.cause, service));
        let body = match service {
            Service::Anthropic => anthropic(status, &words),
            Service::Gemini => gemini(status, &words, &self.cause),
            Service::Ollama => json!({"error": words}),
            Service::Mistral => mistral(status, &words, &self.cause),
            Service::OpenRouter => openrouter(status, &words, &self.cause),
            // The gate's own messages are not JSON.
            Service::Copilot if matches!(self.cause, Cause::NoKey | Cause::WrongKey) => {
                return Reply::text(status, "text/plain; charset=utf-8", format!("{words}\n"));
            }
            Service::Copilot if self.code == Some("header") => {
                return Reply::text(status, "text/plain; charset=utf-8", format!("{words}\n"));
            }
            Service::Codex if self.code == Some("detail") => json!({"detail": words}),
            _ => self.openai(service, status, &words),
        };
        let mut reply = Reply::json(status, &body);
        reply.headers.push(match service {
            Service::Anthropic => ("request-id".into(), String::from("req_011CLoopback0000000000")),
            _ => ("x-request-id".into(), String::from("req_loopback")),
        });
        reply
    }

    fn openai(&self, service: Service, status: u16, words: &str) -> Value {
        let kind = match (status, service) {
            (401, Service::DeepSeek) => "authentication_error",
            (429, _) => "requests",
            (500.., _) => "server_error",
            _ => "invalid_request_error",
        };
        let code = self.code.or(match &self.cause {
            Cause::NoKey | Cause::WrongKey if service == Service::DeepSeek => Some("invalid_request_error"),
            Cause::WrongKey => Some("invalid_api_key"),
            Cause::NoModel(_) if service == Service::Copilot => Some("model_not_supported"),
            Cause::NoModel(_) if service != Service::DeepSeek => Some("model_not_found"),
            Cause::ContextLength => Some("context_length_exceeded"),
            Cause::Status(429) => Some("rate_limit_exceeded"),
            _ => None,
        });
        let param = match &self.cause {
            Cause::NoModel(_) if service == Service::Copilot => Some("model"),
            _ => self.param.as_deref(),
        };
        json!({"error": {"message": words, "type": kind, "param": param, "code": code}})
    }
}

fn anthropic(status: u16, words: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let error = json!({"type": kind, "message": words});
    json!({"type": "error", "error": error, "request_id": "req_011CLoopback0000000000"})
}

fn gemini(status: u16, words: &str, cause: &Cause) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    };
    let mut error = json!({"code": status, "message": words, "status": name});
    if *cause == Cause::WrongKey {
        error["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }]);
    }
    if status == 429 {
        error["details"] = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}]);
    }
    json!({"error": error})
}

fn mistral(status: u16, words: &str, cause: &Cause) -> Value {
    if status == 401 {
        return json!({"message": words, "request_id": "loopback"});
    }
    let (kind, code) = match (cause, status) {
        (Cause::NoModel(_), _) => ("invalid_model", "1500"),
        (Cause::ContextLength, _) => ("invalid_request_prompt", "3051"),
        (_, 429) => ("rate_limited", "1300"),
        (_, 500..) => ("internal_server_error", "1000"),
        _ => ("invalid_request_message_order", "3230"),
    };
    json!({"object": "error", "message": words, "type": kind, "param": null, "code": code})
}

/// The error of the service behind the gateway is inside, as text.
fn openrouter(status: u16, words: &str, cause: &Cause) -> Value {
    if *cause != Cause::Invalid && *cause != Cause::ContextLength {
        return json!({"error": {"message": words, "code": status}});
    }
    let raw =
        json!({"error": {"message": words, "type": "invalid_request_error", "param": null, "code": null}});
    let metadata = json!({"raw": raw.to_string(), "provider_name": "Loopback"});
    json!({"error": {"message": "Provider returned error", "code": status, "metadata": metadata}, "user_id": "user_loopback"})
}

fn usual(cause: &Cause, service: Service) -> String {
    use Service::{Anthropic, Copilot, DeepSeek, Gemini, Groq, Mistral, Ollama, OpenRouter};
    let words = match (cause, service) {
        (Cause::NoKey, Anthropic) => "x-api-key header is required",
        (Cause::WrongKey, Anthropic) => "invalid x-api-key",
        (Cause::NoKey, Gemini) => {
            "Method doesn't allow unregistered callers (callers without established identity). Please use API \
             Key or other form of API consumer identity to call this API."
        }
        (Cause::WrongKey, Gemini) => "API key not valid. Please pass a valid API key.",
        (Cause::NoKey | Cause::WrongKey, Mistral | Ollama) => "Unauthorized",
        (Cause::NoKey, OpenRouter) => "No auth credentials found",
        (Cause::WrongKey, OpenRouter) => "User not found.",
        (Cause::NoKey, Copilot) => "unauthorized: Bad credentials",
        (Cause::WrongKey, Copilot) => "IDE token expired: unauthorized: token expired",
        (Cause::NoKey | Cause::WrongKey, DeepSeek) => {
            "Authentication Fails, Your api key: ****back is invalid"
        }
        (Cause::NoKey | Cause::WrongKey, Groq) => "Invalid API Key",
        (Cause::NoKey, _) => {
            "You didn't provide an API key. You need to provide your API key in an Authorization header using \
             Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
        }
        (Cause::WrongKey, _) => {
            "Incorrect API key provided: sk-l***back. You can find your API key at the dashboard."
        }
        (Cause::NoModel(model), Anthropic) => return format!("model: {model}"),
        (Cause::NoModel(model), Gemini) => {
            return format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call \
                 ListModels to see the list of available models and their supported methods."
            );
        }
        (Cause::NoModel(model), Ollama) => return format!("model '{model}' not found"),
        (Cause::NoModel(model), Mistral) => return format!("Invalid model: {model}"),
        (Cause::NoModel(model), OpenRouter) => return format!("{model} is not a valid model ID"),
        (Cause::NoModel(_), DeepSeek) => "Model Not Exist",
        (Cause::NoModel(_), Copilot) => "The requested model is not supported.",
        (Cause::NoModel(model), _) => {
            return format!("The model `{model}` does not exist or you do not have access to it.");
        }
        (Cause::NoPath(_), Anthropic) => "Not Found",
        (Cause::NoPath(path), _) => return format!("Invalid URL ({path})"),
        (Cause::ContextLength, Anthropic) => "prompt is too long: 200318 tokens > 200000 maximum",
        (Cause::ContextLength, Gemini) => {
            "The input token count (1048777) exceeds the maximum number of tokens allowed (1048576)."
        }
        (Cause::ContextLength, Ollama) => "the input length exceeds the context length",
        (Cause::ContextLength, Mistral) => {
            "Prompt contains 32777 tokens, too large for model with 32768 maximum context length"
        }
        (Cause::ContextLength, Copilot) => "prompt token count of 128777 exceeds the limit of 128000",
        (Cause::ContextLength, _) => {
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 128777 tokens. \
             Please reduce the length of the messages."
        }
        (Cause::Invalid, _) => "The request is not valid.",
        (Cause::Status(status), service) => return by_status(*status, service).into(),
    };
    words.into()
}

fn by_status(status: u16, service: Service) -> &'static str {
    match (status, service) {
        (401, Service::Anthropic) => "invalid x-api-key",
        (401, _) => "Incorrect API key provided.",
        (403, Service::Anthropic) => "Your API key does not have permission to use the specified resource.",
        (403, _) => "You are not allowed to do that.",
        (404, _) => "The requested resource was not found.",
        (413, _) => "Request exceeds the maximum size",
        (429, Service::Anthropic) => {
            "This request would exceed your organization's rate limit of 50,000 input tokens per minute."
        }
        (429, Service::Gemini) => {
            "You exceeded your current quota, please check your plan and billing details."
        }
        (429, _) => {
            "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1s."
        }
        (529, _) => "Overloaded",
        (503, Service::Gemini) => "The model is overloaded. Please try again later.",
        (503, _) => "The engine is currently overloaded, please try again later",
        (500.., Service::Anthropic) => "Internal server error",
        (500.., _) => "The server had an error while processing your request. Sorry about that!",
        _ => "The request is not valid.",
    }
}
