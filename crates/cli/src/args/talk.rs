//! `chat` and `resume`: talking to a model.

use clap::{Args, ValueEnum};
use rejoin::engine::turn::OnBroken;

pub const CHAT_EXAMPLES: &str = "Examples:
  rejoin chat \"What does src/main.rs do?\"        one turn; the reply is all that is printed
  rejoin chat                                    a prompt; Ctrl-D leaves it
  git diff | rejoin chat                         what is piped in is what you say
  rejoin chat --new --provider anthropic --model claude-x \"Hello\"
  rejoin chat --provider openai --base-url http://localhost:8080/v1 --model m \"Hello\"
  rejoin chat --json \"2+2\" | jq -r 'select(.type == \"text\") | .text'";

pub const RESUME_EXAMPLES: &str = "Examples:
  rejoin resume                                  the active conversation, or the newest
  rejoin resume conv_abc                         make it the active one and go on
  rejoin resume conv_abc \"go on\"                 say something in it; the reply is all that is printed
  rejoin resume @ --on-broken rerun              run the calls again that have no result
  rejoin resume @1 --provider anthropic \"go on\"  on another provider";

/// Who answers, and how it is told.
#[derive(Debug, Clone, Default, Args)]
pub struct Talk {
    /// Who answers: openai, anthropic, ollama, gemini, openrouter, copilot, offline, or another one (see `rejoin models list`)
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Which API of the provider is used
    #[arg(long, value_enum, value_name = "API")]
    pub api: Option<Api>,
    /// The model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Where the provider is: with `openai`, requests go to URL/chat/completions unless --api says otherwise
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Instructions to the model
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// What happens, one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Which API of a provider is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
}

impl Api {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }
}

/// `rejoin chat`
#[derive(Debug, Default, Args)]
pub struct ChatArguments {
    /// What to say; without it a prompt, or what is piped in (`-` is the same)
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Start a new conversation
    #[arg(long, conflicts_with_all = ["session", "go_on"])]
    pub new: bool,
    /// In this conversation
    #[arg(long, value_name = "ID", conflicts_with = "go_on")]
    pub session: Option<String>,
    /// In the active conversation, or the newest of this folder; fail if there is none
    #[arg(long = "continue", short = 'c')]
    pub go_on: bool,
    /// Who answers.
    #[command(flatten)]
    pub talk: Talk,
}

/// `rejoin resume`
#[derive(Debug, Args)]
pub struct ResumeArguments {
    /// The conversation: an id, its beginning, `@` (the active one) or `@1` (the newest)
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// What to say (`-` reads it from standard input); without it a prompt on a terminal, and nothing elsewhere
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Stop at what is damaged, with its line or row
    #[arg(long, conflicts_with = "recover")]
    pub strict: bool,
    /// Use everything that can be read (the default)
    #[arg(long)]
    pub recover: bool,
    /// What becomes of calls without a result, and of other broken states
    #[arg(long, value_enum, value_name = "POLICY")]
    pub on_broken: Option<Broken>,
    /// Who answers.
    #[command(flatten)]
    pub talk: Talk,
}

/// What becomes of broken states when a conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Broken {
    /// The model is told that no result was recorded (the default)
    Keep,
    /// They are left out
    Drop,
    /// Calls without a result are run again
    Rerun,
    /// Print what is wrong and send nothing
    Refuse,
}

impl From<Broken> for OnBroken {
    fn from(argument: Broken) -> Self {
        match argument {
            Broken::Keep => Self::Keep,
            Broken::Drop => Self::Drop,
            Broken::Rerun => Self::Rerun,
            Broken::Refuse => Self::Refuse,
        }
    }
}

/// `rejoin demo`
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// The turn that is killed.
    #[arg(long, hide = true)]
    pub turn: bool,
}
