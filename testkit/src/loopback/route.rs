//! Maps addresses to operations.

use super::{Service, http::Request};

/// The requested operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Chat,
    Responses,
    Messages,
    OllamaChat,
    /// An answer of this model, streamed or not.
    Generate {
        model: String,
        stream: bool,
    },
    Models,
    /// One model.
    Model(String),
    /// Ollama's description of a model.
    Show,
    /// A line for clients that check whether the server runs.
    Alive(&'static str),
    DeviceCode,
    AccessToken,
    Exchange,
}

/// The address that clients of a service get.
pub(super) fn base(url: &str, service: Service) -> String {
    let path = match service {
        Service::OpenAi => "/openai/v1",
        Service::Anthropic => "/anthropic",
        Service::Gemini => "/gemini",
        Service::Ollama => "/ollama",
        Service::OpenRouter => "/openrouter/api/v1",
        Service::Mistral => "/mistral/v1",
        Service::DeepSeek => "/deepseek",
        Service::Groq => "/groq/openai/v1",
        Service::Copilot => "/copilot",
        Service::Codex => "/codex/backend-api/codex",
    };
    format!("{url}{path}")
}

/// The service and the operation of a request; `None` if the address has none.
pub(super) fn route(plays: Option<Service>, request: &Request) -> (Service, Option<Op>) {
    let (named, path) = match request.path.trim_start_matches('/').split_once('/') {
        Some((first, rest)) => match first.parse::<Service>() {
            // Groq's own address begins with the name of another service.
            Ok(named) if plays.is_none_or(|plays| plays == named) => (Some(named), format!("/{rest}")),
            _ => (None, request.path.clone()),
        },
        None => (None, request.path.clone()),
    };
    let service = plays.or(named).unwrap_or_else(|| guessed(&path, request));
    (service, op(service, &request.method, &path))
}

/// The service of an address that names none.
fn guessed(path: &str, request: &Request) -> Service {
    let from_copilot =
        request.header("copilot-integration-id").is_some() || request.header("editor-version").is_some();
    match path {
        _ if path.starts_with("/backend-api/codex/") => Service::Codex,
        _ if path.starts_with("/api/v1/") => Service::OpenRouter,
        _ if path.starts_with("/v1beta/") || request.header("x-goog-api-key").is_some() => Service::Gemini,
        _ if path.starts_with("/login/") || path.starts_with("/copilot_internal/") => Service::Copilot,
        _ if path.starts_with("/api/") || path == "/" => Service::Ollama,
        _ if path.starts_with("/v1/messages") || request.header("anthropic-version").is_some() => {
            Service::Anthropic
        }
        _ if from_copilot => Service::Copilot,
        _ => Service::OpenAi,
    }
}

fn op(service: Service, method: &str, path: &str) -> Option<Op> {
    let bases: &[&str] = match service {
        Service::Anthropic => &["/v1"],
        Service::Gemini => &["/v1beta", "/v1"],
        Service::Ollama => &["/api"],
        Service::OpenRouter => &["/api/v1", "/v1", ""],
        Service::Groq => &["/openai/v1", "/v1", ""],
        Service::Codex => &["/backend-api/codex", ""],
        Service::Copilot => &[""],
        Service::OpenAi | Service::Mistral | Service::DeepSeek => &["/v1", ""],
    };
    if service == Service::Ollama && (path == "/" || path.is_empty()) {
        return Some(Op::Alive("Ollama is running"));
    }
    let rest = bases.iter().find_map(|base| path.strip_prefix(base).filter(|rest| rest.starts_with('/')))?;
    let op = match (service, method, rest) {
        (Service::Copilot, "POST", "/login/device/code") => Op::DeviceCode,
        (Service::Copilot, "POST", "/login/oauth/access_token") => Op::AccessToken,
        (Service::Copilot, "GET", "/copilot_internal/v2/token") => Op::Exchange,
        (Service::Anthropic, "POST", "/messages") => Op::Messages,
        (Service::Ollama, "POST", "/chat") => Op::OllamaChat,
        (Service::Ollama, "POST", "/show") => Op::Show,
        (Service::Ollama, "GET", "/tags") => Op::Models,
        (Service::Ollama, "GET", "/version") => Op::Alive("{\"version\":\"0.12.11\"}"),
        (Service::Ollama, ..) => return None,
        (Service::Gemini, "POST", rest) => {
            let (model, what) = rest.strip_prefix("/models/")?.split_once(':')?;
            let stream = match what {
                "generateContent" => false,
                "streamGenerateContent" => true,
                _ => return None,
            };
            Op::Generate { model: model.to_owned(), stream }
        }
        (Service::OpenAi | Service::Codex, "POST", "/responses") => Op::Responses,
        (Service::Anthropic | Service::Codex, "POST", _) => return None,
        (_, "POST", "/chat/completions") => Op::Chat,
        (_, "GET", "/models") => Op::Models,
        (_, "GET", rest) => Op::Model(rest.strip_prefix("/models/")?.to_owned()),
        _ => return None,
    };
    Some(op)
}
