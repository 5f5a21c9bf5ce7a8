//! `set-provider`, `set-auth`, `models` and `auth`: the choice of who answers, and authentication.

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

use super::choices::apis;
use crate::completing;

pub const SET_PROVIDER_EXAMPLES: &str = "Examples:
  rejoin set-provider anthropic
      Use Anthropic for new conversations
  rejoin set-provider openai --api chat --model gpt-x
      Choose the API and the model as well
  rejoin set-provider offline
      Use the built-in responder, which needs no network";

/// `rejoin set-provider`
#[derive(Debug, Args)]
pub struct SetProviderArguments {
    /// Provider, such as anthropic, openai, ollama, gemini, openrouter, copilot or
    /// offline
    #[arg(value_name = "PROVIDER", add = ArgValueCompleter::new(completing::providers))]
    pub provider: String,
    /// API of the provider
    #[arg(long, value_name = "API", value_parser = apis())]
    pub api: Option<String>,
    /// Model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Address of the provider's API
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}

pub const SET_AUTH_EXAMPLES: &str = "Examples:
  rejoin set-auth key
      Use API keys
  rejoin set-auth claude
      Use the login of Claude Code";

pub const MODELS_EXAMPLES: &str = "Examples:
  rejoin models list
      List the models of the provider that would answer
  rejoin models info claude-opus-4-5
      Show the limits of a model";

/// `rejoin models`
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List the models of a provider
    #[command(after_long_help = MODELS_LIST_EXAMPLES)]
    List(ModelsListArguments),
    /// Show what is known about a model
    #[command(after_long_help = MODELS_INFO_EXAMPLES)]
    Info(ModelsInfoArguments),
}

/// The provider that is asked about its models.
#[derive(Debug, Clone, Args)]
pub struct AskedProvider {
    /// Provider (default: the one that would answer)
    #[arg(long, value_name = "PROVIDER", add = ArgValueCompleter::new(completing::providers))]
    pub provider: Option<String>,
    /// Address of the provider's API
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
}

const MODELS_LIST_EXAMPLES: &str = "Examples:
  rejoin models list --provider ollama
      List the models that Ollama has on this machine
  rejoin models list --json | jq -r .id
      Print only the names";

/// `rejoin models list`
#[derive(Debug, Args)]
pub struct ModelsListArguments {
    #[command(flatten)]
    pub asked: AskedProvider,
    /// Print one JSON object per line, one per model
    #[arg(long)]
    pub json: bool,
}

const MODELS_INFO_EXAMPLES: &str = "Examples:
  rejoin models info claude-opus-4-5
      Show the limits of a model
  rejoin models info gpt-x --provider openai --json
      Print them as JSON";

/// `rejoin models info`
#[derive(Debug, Args)]
pub struct ModelsInfoArguments {
    /// Model
    #[arg(value_name = "MODEL")]
    pub model: String,
    #[command(flatten)]
    pub asked: AskedProvider,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub const AUTH_EXAMPLES: &str = "Examples:
  rejoin auth status
      Show which providers have a key
  printenv MY_KEY | rejoin auth login anthropic
      Store a key from standard input";

/// `rejoin auth`
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// Store a key for a provider, or log in if it has no keys
    ///
    /// The key is read from standard input, or asked for on a terminal. It is never an argument, so that no list of
    /// processes shows it. It is stored in a file that only you can read.
    #[command(after_long_help = LOGIN_EXAMPLES)]
    Login {
        /// Provider (default: the configured one)
        #[arg(add = ArgValueCompleter::new(completing::providers))]
        provider: Option<String>,
    },
    /// Show which providers have a key, and where it comes from
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status {
        /// Print one JSON object per line, one per provider
        #[arg(long)]
        json: bool,
    },
    /// Remove the key of a provider
    #[command(after_long_help = LOGOUT_EXAMPLES)]
    Logout {
        /// Provider
        #[arg(add = ArgValueCompleter::new(completing::providers))]
        provider: String,
    },
}

const LOGIN_EXAMPLES: &str = "Examples:
  rejoin auth login anthropic
      Ask for a key and store it
  rejoin auth login copilot
      Log in with a browser";

const STATUS_EXAMPLES: &str = "Examples:
  rejoin auth status
      Show which providers have a key
  rejoin auth status --json
      Print one JSON object per provider";

const LOGOUT_EXAMPLES: &str = "Examples:
  rejoin auth logout anthropic
      Remove the key for Anthropic
  rejoin auth logout copilot
      Log out of Copilot";
