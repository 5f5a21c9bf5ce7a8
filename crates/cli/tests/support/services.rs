//! Every provider with a transport, as the loopback provider plays it and as the binary reaches it.

use std::{process::Command, time::Duration};

use testkit::loopback::{Config, Fault, Loopback, Service};

use super::Home;

/// A provider whose answers take their time.
pub fn slow_server() -> Loopback {
    let server = Loopback::start(Config::default());
    server.always(Fault::Slow(Duration::from_millis(20)));
    server
}

/// A provider, with everything needed to reach it.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// The value for `--provider`.
    pub name: &'static str,
    /// The value for `--api`.
    pub api: Option<&'static str>,
    /// Who plays it.
    pub service: Service,
    pub model: &'static str,
}

const fn provider(name: &'static str, service: Service, model: &'static str) -> Provider {
    Provider { name, api: None, service, model }
}

/// All of them.
pub const PROVIDERS: &[Provider] = &[
    Provider { name: "openai", api: Some("responses"), service: Service::OpenAi, model: "gpt-5" },
    Provider { name: "openai", api: Some("chat"), service: Service::OpenAi, model: "gpt-4.1" },
    provider("anthropic", Service::Anthropic, "claude-sonnet-4-5"),
    provider("gemini", Service::Gemini, "gemini-3-pro-preview"),
    provider("ollama", Service::Ollama, "qwen3"),
    provider("openrouter", Service::OpenRouter, "anthropic/claude-sonnet-4.5"),
    provider("mistral", Service::Mistral, "mistral-large-latest"),
    provider("deepseek", Service::DeepSeek, "deepseek-reasoner"),
    provider("groq", Service::Groq, "llama-3.3-70b-versatile"),
    provider("copilot", Service::Copilot, "gpt-4.1"),
];

impl Provider {
    /// The flags that lead to it.
    pub fn flags(&self, server: &Loopback) -> Vec<String> {
        let mut flags = vec!["--provider", self.name, "--model", self.model, "--base-url"];
        // Clients of these add the version themselves; rejoin adds nothing.
        let version = match self.service {
            Service::Anthropic => "/v1",
            Service::Gemini => "/v1beta",
            _ => "",
        };
        let base = server.base(self.service) + version;
        flags.push(&base);
        if let Some(api) = self.api {
            flags.extend(["--api", api]);
        }
        flags.into_iter().map(str::to_owned).collect()
    }

    /// A command of the binary that asks this provider.
    pub fn command(&self, home: &Home, server: &Loopback, arguments: &[&str]) -> Command {
        let flags = self.flags(server);
        let mut all: Vec<&str> = arguments.to_vec();
        all.extend(flags.iter().map(String::as_str));
        let mut command = home.command(&all);
        with_keys(&mut command, server);
        command
    }

    pub fn label(&self) -> String {
        self.api.map_or_else(|| self.name.to_owned(), |api| format!("{}-{api}", self.name))
    }
}

/// Keys for all of them, and where Copilot's tokens are exchanged.
pub fn with_keys(command: &mut Command, server: &Loopback) {
    for name in [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
        "GROQ_API_KEY",
    ] {
        command.env(name, SECRET);
    }
    let github = server.base(Service::Copilot);
    command
        .env("COPILOT_GITHUB_TOKEN", "gho_loopback_user")
        .env("REJOIN_ADDRESSES_GITHUB", &github)
        .env("REJOIN_ADDRESSES_GITHUB_API", &github)
        .env("REJOIN_EFFORT", "high");
}

/// The key that everybody gets. It must show up nowhere.
pub const SECRET: &str = "sk-test-4711-do-not-tell";
