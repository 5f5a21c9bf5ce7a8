//! `set-provider`, `set-auth`, `models` and `auth`: who answers, and how to prove who you are.

use clap::{Args, Subcommand};

use super::talk::Api;

pub const SET_PROVIDER_EXAMPLES: &str = "Examples:
  rejoin set-provider anthropic
  rejoin set-provider openai --api chat --model gpt-x
  rejoin set-provider offline                    the built-in responder";

/// `rejoin set-provider`
#[derive(Debug, Args)]
pub struct SetProviderArguments {
    /// The provider, such as anthropic, openai, ollama, gemini, openrouter, copilot or offline
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// Which API of it is used
    #[arg(long, value_enum, value_name = "API")]
    pub api: Option<Api>,
    /// The model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Where it is
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}

/// `rejoin set-auth`
#[derive(Debug, Args)]
pub struct SetAuthArguments {
    /// How: `key` (an API key), `chatgpt` (Codex's login) or `claude` (Claude Code's login)
    #[arg(value_name = "METHOD")]
    pub method: String,
}

pub const MODELS_EXAMPLES: &str = "Examples:
  rejoin models list                             of the provider that would answer
  rejoin models list --provider ollama
  rejoin models info claude-opus-4-5";

/// `rejoin models`
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List the models of a provider
    List(ModelsListArguments),
    /// Say what is known of a model
    Info(ModelsInfoArguments),
}

/// `rejoin models list`
#[derive(Debug, Args)]
pub struct ModelsListArguments {
    /// The provider; otherwise the one that would answer
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Where it is
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// One JSON object a model and line
    #[arg(long)]
    pub json: bool,
}

/// `rejoin models info`
#[derive(Debug, Args)]
pub struct ModelsInfoArguments {
    /// The model
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// The provider; otherwise the one that would answer
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Where it is
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// As a JSON object
    #[arg(long)]
    pub json: bool,
}

pub const AUTH_EXAMPLES: &str = "Examples:
  rejoin auth status
  printenv MY_KEY | rejoin auth login anthropic  a key from standard input
  rejoin auth login copilot                      in the browser
  rejoin auth logout anthropic";

/// `rejoin auth`
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// Keep a key for a provider, or log in where it has no keys
    ///
    /// The key is read from standard input, or asked for on a terminal; it is never an argument, so no list of processes
    /// shows it. It is kept in a file that only you can read.
    Login(LoginArguments),
    /// Say for which providers there is a key, and where it is from
    Status(StatusArguments),
    /// Forget the key of a provider
    Logout(LogoutArguments),
}

/// `rejoin auth login`
#[derive(Debug, Args)]
pub struct LoginArguments {
    /// The provider; otherwise the one that is set
    #[arg(value_name = "PROVIDER")]
    pub provider: Option<String>,
}

/// `rejoin auth status`
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// One JSON object a provider and line
    #[arg(long)]
    pub json: bool,
}

/// `rejoin auth logout`
#[derive(Debug, Args)]
pub struct LogoutArguments {
    /// The provider
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
}
