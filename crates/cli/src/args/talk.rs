//! `chat` and `resume`: talking to a model.

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use rejoin::OnBroken;

use super::choices::{RESUMING, apis, policies};
use crate::completing;

pub const CHAT_EXAMPLES: &str = "Examples:
  rejoin chat \"What does src/main.rs do?\"
      Send one message and print the reply
  git diff | rejoin chat \"Review this\"
      Send a message together with piped text
  rejoin chat
      Open a prompt; Ctrl-D leaves it
  rejoin chat --new -p anthropic \"Hello\"
      Start a new conversation on another provider
  rejoin chat --json \"2+2\" | jq -r 'select(.type == \"text\") | .text'
      Read the events of a turn as JSON";

pub const RESUME_EXAMPLES: &str = "Examples:
  rejoin resume
      Continue the active conversation, or the newest
  rejoin resume 'Fix the parser' \"go on\"
      Continue the conversation with this title and send a message
  rejoin resume @ --on-broken rerun
      Run again the calls that have no result
  rejoin resume @1 -p anthropic \"go on\"
      Continue the newest conversation on another provider";

/// Who answers, and how it is told.
#[derive(Debug, Clone, Default, Args)]
pub struct Talk {
    /// Provider: openai, anthropic, ollama, gemini, openrouter, copilot, offline or
    /// another one (default: the conversation's, else the configured one)
    #[arg(long, short = 'p', value_name = "PROVIDER", add = ArgValueCompleter::new(completing::providers))]
    pub provider: Option<String>,
    /// API of the provider (default: responses for OpenAI, chat with --base-url)
    #[arg(long, value_name = "API", value_parser = apis())]
    pub api: Option<String>,
    /// Model (default: the conversation's, else the configured one)
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub model: Option<String>,
    /// Address of the provider's API; `openai` appends /chat/completions
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Instructions to the model
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Print the events of the turn, one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `rejoin chat`
#[derive(Debug, Default, Args)]
pub struct ChatArguments {
    /// Message to send (default: standard input, else a prompt)
    ///
    /// Text from a pipe or a file on standard input is sent along, after the message. `-` sends standard input alone.
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Start a new conversation
    #[arg(long, conflicts_with_all = ["session", "go_on"])]
    pub new: bool,
    /// Conversation to continue (default: the active one of this folder)
    #[arg(long, short = 's', value_name = "ID", conflicts_with = "go_on",
          add = ArgValueCompleter::new(completing::conversations))]
    pub session: Option<String>,
    /// Continue the active conversation or the newest of this folder; fail if
    /// there is none
    #[arg(long = "continue", short = 'c')]
    pub go_on: bool,
    #[command(flatten)]
    pub talk: Talk,
}

/// `rejoin resume`
#[derive(Debug, Args)]
pub struct ResumeArguments {
    /// Conversation: id or its beginning, title, `@` (active) or `@1` (newest);
    /// default: the active one, else the newest
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    pub id: Option<String>,
    /// Message to send (default: a prompt on a terminal, else none)
    ///
    /// Text from a pipe or a file on standard input is sent along, after the message. `-` sends standard input alone.
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Conversation, as an option: the only argument is then the message
    #[arg(long, short = 's', value_name = "ID", conflicts_with = "message",
          add = ArgValueCompleter::new(completing::conversations))]
    pub session: Option<String>,
    /// Fail on damage and name its line or row
    #[arg(long, conflicts_with = "recover")]
    pub strict: bool,
    /// Use everything that can be read (default)
    #[arg(long)]
    pub recover: bool,
    /// Treatment of calls without a result (default: the setting, else keep)
    #[arg(long, value_parser = policies(RESUMING), value_name = "POLICY")]
    pub on_broken: Option<OnBroken>,
    #[command(flatten)]
    pub talk: Talk,
}

impl ResumeArguments {
    /// The conversation that was named, and the message.
    pub fn given(&self) -> (Option<&str>, Option<&str>) {
        match &self.session {
            Some(session) => (Some(session), self.id.as_deref().or(self.message.as_deref())),
            None => (self.id.as_deref(), self.message.as_deref()),
        }
    }
}

pub const DEMO_EXAMPLES: &str = "Examples:
  rejoin demo
      Watch a turn being killed and resumed
  rejoin demo > demo.txt
      Keep what it prints";
