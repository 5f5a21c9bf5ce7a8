//! The lists of models, each service in its own shape.

use serde_json::{Value, json};

use super::{Config, Service, http::Request};

/// The models of a service: those that were configured, or some that are always there.
pub(super) fn names(config: &Config, service: Service) -> Vec<String> {
    let usual: &[&str] = match service {
        _ if !config.models.is_empty() => return config.models.clone(),
        Service::OpenAi | Service::Codex => &["gpt-loopback", "gpt-loopback-mini"],
        Service::Anthropic => &["claude-loopback", "claude-loopback-mini"],
        Service::Gemini => &["gemini-3-loopback", "gemini-3-loopback-mini"],
        Service::Ollama => &["loopback:latest", "loopback:1b"],
        Service::OpenRouter => &["loopback/gpt", "loopback/claude"],
        Service::Mistral => &["mistral-loopback-latest"],
        Service::DeepSeek => &["deepseek-loopback"],
        Service::Groq => &["loopback-70b-versatile"],
        Service::Copilot => &["gpt-loopback", "claude-loopback"],
    };
    usual.iter().map(|name| (*name).to_owned()).collect()
}

/// Whether a service has a model. With nothing configured it has all of them, but for those that say `no-such`.
pub(super) fn knows(config: &Config, model: &str) -> bool {
    match config.models.as_slice() {
        [] => !model.contains("no-such"),
        models => models.iter().any(|known| known == model),
    }
}

/// The list.
pub(super) fn list(config: &Config, service: Service, request: &Request) -> Value {
    let names = names(config, service);
    let rows = |row: &dyn Fn(&String) -> Value| names.iter().map(row).collect::<Vec<_>>();
    match service {
        Service::Anthropic => {
            // A page at a time.
            let query = |name| query(request, name);
            let most = query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(20_usize);
            let after = query("after_id").and_then(|id| names.iter().position(|name| *name == id));
            let rest = &names[after.map_or(0, |after| after + 1)..];
            let page = &rest[..rest.len().min(most)];
            let data: Vec<Value> = page.iter().map(|name| one(service, name)).collect();
            json!({"data": data, "has_more": page.len() < rest.len(), "first_id": page.first(), "last_id": page.last()})
        }
        Service::Gemini => {
            let most = query(request, "pageSize").and_then(|size| size.parse().ok()).unwrap_or(50_usize);
            let from = query(request, "pageToken").and_then(|token| token.parse().ok()).unwrap_or(0_usize);
            let rest = names.get(from..).unwrap_or_default();
            let page: Vec<Value> = rest.iter().take(most).map(|name| one(service, name)).collect();
            let mut list = json!({"models": page});
            if rest.len() > most {
                list["nextPageToken"] = json!((from + most).to_string());
            }
            list
        }
        Service::Ollama => json!({"models": rows(&|name| one(service, name))}),
        Service::OpenRouter => json!({"data": rows(&|name| one(service, name))}),
        _ => json!({"object": "list", "data": rows(&|name| one(service, name))}),
    }
}

/// One model.
pub(super) fn one(service: Service, name: &str) -> Value {
    match service {
        Service::Anthropic => {
            json!({"type": "model", "id": name, "display_name": format!("Loopback ({name})"), "created_at": "2025-11-24T00:00:00Z"})
        }
        Service::Gemini => json!({
            "name": format!("models/{name}"), "version": "3", "displayName": format!("Loopback ({name})"),
            "description": "Answers on 127.0.0.1", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens"], "temperature": 1, "topP": 0.95, "topK": 64,
            "thinking": true,
        }),
        Service::Ollama => json!({
            "name": name, "model": name, "modified_at": "2025-11-24T10:00:00.000000000Z", "size": 4_000_000_000_u64,
            "digest": format!("{:064x}", name.len()),
            "details": {"parent_model": "", "format": "gguf", "family": "loopback", "families": ["loopback"], "parameter_size": "8B", "quantization_level": "Q4_K_M"},
        }),
        Service::OpenRouter => json!({
            "id": name, "canonical_slug": name, "name": format!("Loopback: {name}"), "created": 1_760_000_000, "description": "Answers on 127.0.0.1",
            "context_length": 200_000,
            "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"], "tokenizer": "Other", "instruct_type": null},
            "pricing": {"prompt": "0", "completion": "0", "request": "0", "image": "0"},
            "top_provider": {"context_length": 200_000, "max_completion_tokens": 32_000, "is_moderated": false},
            "per_request_limits": null, "supported_parameters": ["tools", "reasoning", "include_reasoning", "max_tokens"],
        }),
        Service::Copilot => json!({
            "id": name, "name": format!("Loopback ({name})"), "vendor": "Loopback", "version": name, "object": "model",
            "model_picker_enabled": true, "preview": false,
            "capabilities": {
                "family": name, "object": "model_capabilities", "tokenizer": "o200k_base", "type": "chat",
                "limits": {"max_context_window_tokens": 128_000, "max_output_tokens": 16_384, "max_prompt_tokens": 111_616},
                "supports": {"parallel_tool_calls": true, "streaming": true, "tool_calls": true},
            },
        }),
        Service::Mistral => json!({
            "id": name, "object": "model", "created": 1_760_000_000, "owned_by": "mistralai", "name": name, "max_context_length": 131_072,
            "capabilities": {"completion_chat": true, "function_calling": true, "vision": false, "fine_tuning": false, "completion_fim": false},
            "aliases": [], "type": "base",
        }),
        Service::Groq => json!({
            "id": name, "object": "model", "created": 1_760_000_000, "owned_by": "Loopback", "active": true, "context_window": 131_072,
            "public_apps": null, "max_completion_tokens": 32_768,
        }),
        Service::OpenAi | Service::Codex | Service::DeepSeek => {
            json!({"id": name, "object": "model", "created": 1_760_000_000, "owned_by": service.name()})
        }
    }
}

/// Ollama's description of one model.
pub(super) fn shown(name: &str) -> Value {
    let row = one(Service::Ollama, name);
    json!({
        "modelfile": "", "parameters": "", "template": "{{ .Prompt }}", "details": row["details"],
        "model_info": {"general.architecture": "loopback", "general.parameter_count": 8_000_000_000_u64, "loopback.context_length": 131_072},
        "capabilities": ["completion", "tools", "thinking"], "modified_at": row["modified_at"],
    })
}

fn query(request: &Request, name: &str) -> Option<String> {
    let (_, query) = request.target.split_once('?')?;
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(given, _)| *given == name).map(|(_, value)| value.to_owned())
}
