//! The table of services, one row each. A new service that speaks a known dialect is a new row.
//!
//! `connect.rs` makes a provider from a row.

use rejoin_formats::{Dialect, wire::settings::Quirks};

pub use super::connect::{account_elsewhere, connect, is_address};

/// How a request carries the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthStyle {
    /// `Authorization: Bearer …`
    Bearer,
    /// Another header.
    Header(&'static str),
}

/// Whether a service works without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// It needs one.
    Needed,
    /// It works without one; a key is sent if there is one.
    Optional,
}

/// A login that replaces a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A ChatGPT login, as Codex keeps it.
    ChatGpt,
    /// A Claude login, as Claude Code keeps it.
    Claude,
    /// A GitHub login, for Copilot.
    Copilot,
}

/// One API of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api {
    /// The name that `--api` takes.
    pub name: &'static str,
    /// The dialect of its requests.
    pub dialect: Dialect,
    /// The path after the base address; `{model}` is replaced by the model.
    pub path: &'static str,
}

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The name that `--provider` takes.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The service in one line, for lists.
    pub description: &'static str,
    /// Its APIs; the first is the default.
    pub apis: &'static [Api],
    /// The base address; empty if the user must name one.
    pub base_url: &'static str,
    /// The path below the base address that lists its models.
    pub models_path: &'static str,
    /// The model to use if none is named; empty if there is no sensible default.
    pub default_model: &'static str,
    /// How a request carries the key.
    pub auth: AuthStyle,
    /// Whether it needs a key.
    pub key_use: KeyUse,
    /// Environment variables that may hold the key.
    pub key_variables: &'static [&'static str],
    /// The login that replaces a key, if there is one.
    pub login: Option<Login>,
    /// Headers of every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// How it differs from other services of its dialect.
    pub quirks: Quirks,
    /// The page where users get a key.
    pub get_a_key: &'static str,
}

const CHAT: Api = Api { name: "chat", dialect: Dialect::OpenAiChat, path: "/chat/completions" };
const RESPONSES: Api = Api { name: "responses", dialect: Dialect::OpenAiResponses, path: "/responses" };

/// The defaults of a row: a service that speaks Chat Completions and needs a key.
const COMPATIBLE: Service = Service {
    name: "",
    aliases: &[],
    description: "",
    apis: &[CHAT],
    base_url: "",
    models_path: "/models",
    default_model: "",
    auth: AuthStyle::Bearer,
    key_use: KeyUse::Needed,
    key_variables: &[],
    login: None,
    headers: &[],
    quirks: Quirks::COMMON,
    get_a_key: "",
};

/// The rows. If no provider is named, keys are looked for in this order.
const ROWS: &[Service] = &[
    Service {
        name: "anthropic",
        aliases: &["claude"],
        description: "Anthropic: Claude",
        apis: &[Api { name: "messages", dialect: Dialect::Anthropic, path: "/messages" }],
        base_url: "https://api.anthropic.com/v1",
        models_path: "/models?limit=1000",
        default_model: "claude-sonnet-4-5",
        auth: AuthStyle::Header("x-api-key"),
        key_variables: &["ANTHROPIC_API_KEY"],
        login: Some(Login::Claude),
        headers: &[("anthropic-version", "2023-06-01")],
        get_a_key: "https://console.anthropic.com/settings/keys",
        ..COMPATIBLE
    },
    Service {
        name: "openai",
        aliases: &["chatgpt"],
        description: "OpenAI: Responses, or Chat with `--api chat`",
        apis: &[RESPONSES, CHAT],
        base_url: "https://api.openai.com/v1",
        default_model: "gpt-5.1",
        key_variables: &["OPENAI_API_KEY"],
        login: Some(Login::ChatGpt),
        quirks: Quirks { max_tokens: "max_completion_tokens", ..Quirks::COMMON },
        get_a_key: "https://platform.openai.com/api-keys",
        ..COMPATIBLE
    },
    Service {
        name: "gemini",
        aliases: &["google"],
        description: "Google: Gemini",
        apis: &[Api {
            name: "gemini",
            dialect: Dialect::Gemini,
            path: "/models/{model}:streamGenerateContent?alt=sse",
        }],
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        models_path: "/models?pageSize=1000",
        default_model: "gemini-2.5-flash",
        auth: AuthStyle::Header("x-goog-api-key"),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        get_a_key: "https://aistudio.google.com/apikey",
        ..COMPATIBLE
    },
    Service {
        name: "openrouter",
        description: "OpenRouter: models of many makers behind one key",
        base_url: "https://openrouter.ai/api/v1",
        default_model: "openrouter/auto",
        key_variables: &["OPENROUTER_API_KEY"],
        headers: &[("x-title", "rejoin")],
        get_a_key: "https://openrouter.ai/keys",
        ..COMPATIBLE
    },
    Service {
        name: "mistral",
        description: "Mistral AI",
        apis: &[Api { name: "chat", dialect: Dialect::Mistral, path: "/chat/completions" }],
        base_url: "https://api.mistral.ai/v1",
        default_model: "mistral-large-latest",
        key_variables: &["MISTRAL_API_KEY"],
        // It counts tokens without being asked for it.
        quirks: Quirks { stream_options: false, effort: false, ..Quirks::COMMON },
        get_a_key: "https://console.mistral.ai/api-keys",
        ..COMPATIBLE
    },
    Service {
        name: "groq",
        description: "Groq: open models, fast",
        base_url: "https://api.groq.com/openai/v1",
        default_model: "llama-3.3-70b-versatile",
        key_variables: &["GROQ_API_KEY"],
        // It refuses its own reasoning (GRQ-01).
        quirks: Quirks { max_tokens: "max_completion_tokens", replays_reasoning: false, ..Quirks::COMMON },
        get_a_key: "https://console.groq.com/keys",
        ..COMPATIBLE
    },
    Service {
        name: "deepseek",
        description: "DeepSeek",
        base_url: "https://api.deepseek.com/v1",
        default_model: "deepseek-chat",
        key_variables: &["DEEPSEEK_API_KEY"],
        quirks: Quirks { effort: false, thinking_field: true, ..Quirks::COMMON },
        get_a_key: "https://platform.deepseek.com/api_keys",
        ..COMPATIBLE
    },
    Service {
        name: "xai",
        aliases: &["grok"],
        description: "xAI: Grok",
        base_url: "https://api.x.ai/v1",
        default_model: "grok-4",
        key_variables: &["XAI_API_KEY"],
        quirks: Quirks { max_tokens: "max_completion_tokens", ..Quirks::COMMON },
        get_a_key: "https://console.x.ai",
        ..COMPATIBLE
    },
    Service {
        name: "together",
        description: "Together AI: open models",
        base_url: "https://api.together.xyz/v1",
        default_model: "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        key_variables: &["TOGETHER_API_KEY"],
        get_a_key: "https://api.together.ai/settings/api-keys",
        ..COMPATIBLE
    },
    Service {
        name: "fireworks",
        description: "Fireworks AI: open models",
        base_url: "https://api.fireworks.ai/inference/v1",
        default_model: "accounts/fireworks/models/llama-v3p3-70b-instruct",
        key_variables: &["FIREWORKS_API_KEY"],
        get_a_key: "https://fireworks.ai/account/api-keys",
        ..COMPATIBLE
    },
    Service {
        name: "cerebras",
        description: "Cerebras: open models, fast",
        base_url: "https://api.cerebras.ai/v1",
        default_model: "llama-3.3-70b",
        key_variables: &["CEREBRAS_API_KEY"],
        // It refuses unknown fields (GRQ-02).
        quirks: Quirks { max_tokens: "max_completion_tokens", replays_reasoning: false, ..Quirks::COMMON },
        get_a_key: "https://cloud.cerebras.ai",
        ..COMPATIBLE
    },
    Service {
        name: "azure",
        description: "Azure OpenAI: `--base-url https://RESOURCE.openai.azure.com/openai/v1`, the deployment as `--model`",
        apis: &[CHAT, RESPONSES],
        auth: AuthStyle::Header("api-key"),
        key_variables: &["AZURE_OPENAI_API_KEY"],
        quirks: Quirks { max_tokens: "max_completion_tokens", ..Quirks::COMMON },
        get_a_key: "https://portal.azure.com",
        ..COMPATIBLE
    },
    Service {
        name: "copilot",
        aliases: &["github-copilot", "github"],
        description: "GitHub Copilot: log in with `rejoin auth login copilot`",
        base_url: "https://api.githubcopilot.com",
        default_model: "gpt-4.1",
        key_variables: &["COPILOT_GITHUB_TOKEN"],
        login: Some(Login::Copilot),
        headers: &[
            ("editor-version", concat!("rejoin/", env!("CARGO_PKG_VERSION"))),
            ("editor-plugin-version", concat!("rejoin/", env!("CARGO_PKG_VERSION"))),
            ("copilot-integration-id", "vscode-chat"),
            ("openai-intent", "conversation-panel"),
        ],
        get_a_key: "https://github.com/settings/copilot",
        ..COMPATIBLE
    },
    Service {
        name: "ollama",
        description: "Ollama: models on this machine",
        apis: &[Api { name: "ollama", dialect: Dialect::Ollama, path: "/api/chat" }],
        base_url: "http://localhost:11434",
        models_path: "/api/tags",
        default_model: "llama3.2",
        key_use: KeyUse::Optional,
        key_variables: &["OLLAMA_API_KEY"],
        get_a_key: "https://ollama.com/settings/keys",
        ..COMPATIBLE
    },
    Service {
        name: "lmstudio",
        aliases: &["lm-studio"],
        description: "LM Studio: models on this machine",
        base_url: "http://localhost:1234/v1",
        key_use: KeyUse::Optional,
        key_variables: &["LMSTUDIO_API_KEY"],
        get_a_key: "https://lmstudio.ai",
        ..COMPATIBLE
    },
    Service {
        name: "vllm",
        description: "vLLM: a server of your own",
        base_url: "http://localhost:8000/v1",
        key_use: KeyUse::Optional,
        key_variables: &["VLLM_API_KEY"],
        get_a_key: "https://docs.vllm.ai",
        ..COMPATIBLE
    },
    Service {
        name: "llamacpp",
        aliases: &["llama.cpp", "llama-cpp"],
        description: "llama.cpp: a server of your own",
        base_url: "http://localhost:8080/v1",
        // It serves one model, under any name.
        default_model: "default",
        key_use: KeyUse::Optional,
        key_variables: &["LLAMA_API_KEY"],
        get_a_key: "https://github.com/ggml-org/llama.cpp",
        ..COMPATIBLE
    },
];

/// Any service that speaks Chat Completions, at any address. The variable for its key is derived from its name.
const CUSTOM: Service = Service {
    name: "custom",
    description: "any service that speaks OpenAI Chat or Responses: give its `--base-url`",
    apis: &[CHAT, RESPONSES],
    key_use: KeyUse::Optional,
    get_a_key: "the service's own pages",
    ..COMPATIBLE
};

/// Every service in the table.
pub fn all() -> impl Iterator<Item = &'static Service> {
    ROWS.iter().chain([&CUSTOM])
}

/// The service with a name or an alias.
pub fn find(name: &str) -> Option<&'static Service> {
    let is = |known: &str| known.eq_ignore_ascii_case(name.trim());
    all().find(|service| is(service.name) || service.aliases.iter().any(|alias| is(alias)))
}

/// The API of a dialect that a service with several APIs uses.
pub(crate) fn api_in(dialect: Dialect) -> Option<&'static Api> {
    let mut apis = all().filter(|service| service.apis.len() > 1).flat_map(|service| service.apis);
    apis.find(|api| api.dialect == dialect)
}

/// The row for services that are not in the table.
pub fn custom() -> &'static Service {
    &CUSTOM
}

impl Service {
    /// The environment variables that may hold the key. For a service that is not in the table, the variable is derived from its
    /// name.
    pub fn variables(&self, name: &str) -> Vec<String> {
        if self.name != CUSTOM.name {
            return self.key_variables.iter().map(|&name| String::from(name)).collect();
        }
        let upper = |character: char| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' => character.to_ascii_uppercase(),
            _ => '_',
        };
        let own: String = name.trim().chars().map(upper).collect();
        vec![format!("{own}_API_KEY")]
    }

    /// The API with a name; the default API if there is no name.
    pub fn api(&self, name: Option<&str>) -> Option<&'static Api> {
        let Some(name) = name else { return self.apis.first() };
        self.apis.iter().find(|api| api.name.eq_ignore_ascii_case(name.trim()))
    }
}
