//! `chat`, `resume` and `run`: talking to a model.

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use rejoin::{OnBroken, approval::ApprovalMode, providers::catalogue::Dollars};

use super::choices::{RESUMING, apis, from_one, modes, policies};
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
      Choose a conversation from a list and continue it
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
    /// Calls that run without asking (default: the setting, else ask)
    #[arg(long, value_name = "MODE", value_parser = modes())]
    pub mode: Option<ApprovalMode>,
    /// Read approvals from standard input, one JSON object per line
    ///
    /// Each line is {"call_id": ID, "answer": "yes", "no", "always" or "stop"} and may have a "reason". With --json, the event
    /// `approval_wanted` names the call. Nothing else is read from standard input.
    #[arg(long, value_name = "SOURCE", value_parser = ["stdin"], hide_short_help = true)]
    pub approvals: Option<String>,
    /// Maximum tokens per turn (default: the setting limits.tokens, else no limit)
    ///
    /// Counts requests and answers. The turn stops before the request that would cross it.
    #[arg(long, value_name = "N", value_parser = from_one::<u64>, allow_negative_numbers = true, hide_short_help = true)]
    pub max_turn_tokens: Option<u64>,
    /// Maximum cost per turn in US dollars; fails if the model's price is not known
    ///
    /// The turn stops before the request that would cross it.
    #[arg(long, value_name = "USD", value_parser = cost, allow_negative_numbers = true, hide_short_help = true)]
    pub max_cost: Option<Dollars>,
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
#[command(mut_arg("mode", |mode| mode.hide_short_help(true)))]
pub struct ResumeArguments {
    /// Conversation: id or its beginning, title, `@` (active) or `@1` (newest);
    /// default: chosen from a list; without a terminal, `@`
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
    /// What to do with unanswered calls (default: the setting, else keep)
    #[arg(long, value_parser = policies(RESUMING), value_name = "POLICY")]
    pub on_broken: Option<OnBroken>,
    #[command(flatten)]
    pub talk: Talk,
}

impl ResumeArguments {
    /// The named conversation, and the message.
    pub fn given(&self) -> (Option<&str>, Option<&str>) {
        match &self.session {
            Some(session) => (Some(session), self.id.as_deref().or(self.message.as_deref())),
            None => (self.id.as_deref(), self.message.as_deref()),
        }
    }
}

pub const RUN_EXAMPLES: &str = "Examples:
  rejoin run \"Find the failing test and fix it\" --mode auto
      Work without asking, inside the sandbox
  rejoin run \"Summarise CHANGELOG.md\" --mode read-only > summary.txt
      Keep the model's last words, and change nothing
  rejoin run \"Update the docs\" --max-requests 20 --max-time 600
      Stop after 20 requests or 10 minutes
  rejoin run \"Review src/\" --model gpt-5-mini --max-cost 0.50
      Stop before the request that would cost more than 50 cents
  rejoin run --json --approvals stdin \"Format the code\"
      Let a program decide about each call";

/// `rejoin run`
#[derive(Debug, Args)]
#[command(mut_arg("max_cost", |flag| flag.hide_short_help(false)))]
pub struct RunArguments {
    /// Task for the model
    ///
    /// Text from a pipe or a file on standard input is sent along, after the task. `-` sends standard input alone.
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Maximum requests (default: the setting limits.requests, else 50)
    #[arg(long, value_name = "N", value_parser = from_one::<u32>, allow_negative_numbers = true)]
    pub max_requests: Option<u32>,
    /// Maximum seconds, not counting tools (default: the setting
    /// limits.seconds, else 3600)
    #[arg(long, value_name = "SECONDS", value_parser = from_one::<u64>, allow_negative_numbers = true)]
    pub max_time: Option<u64>,
    #[command(flatten)]
    pub talk: Talk,
}

fn cost(given: &str) -> Result<Dollars, String> {
    let amount = given.trim().trim_start_matches('$').parse::<f64>().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount > 0.0).map(Dollars::new);
    amount.ok_or_else(|| String::from("it must be a number above 0"))
}

pub const DEMO_EXAMPLES: &str = "Examples:
  rejoin demo
      Watch a turn being killed and resumed
  rejoin demo > demo.txt
      Keep what it prints";
