//! The command line, declared once: parsing, help, completions and the reference come from here.

mod choices;
mod conversations;
mod providers;
mod talk;
mod upkeep;

use clap::{Parser, Subcommand, ValueEnum};
use rejoin::{Dialect, OnBroken, Rule, store::Location};

pub use choices::Destination;
use choices::{destinations, dialects, formats, formats_and_dialects, rules};
pub use conversations::{
    CallsArguments, DeleteArguments, EraseArguments, ExportArguments, ForkArguments, History, ListArguments,
    NewArguments, RenameArguments, SearchArguments, ShowArguments,
};
pub use providers::{
    Auth, LoginArguments, LogoutArguments, Models, ModelsInfoArguments, ModelsListArguments,
    SetAuthArguments, SetProviderArguments, StatusArguments,
};
pub use talk::{ChatArguments, DemoArguments, ResumeArguments, Talk};
pub use upkeep::{Config, CopyArguments, ImportArguments, VerifyArguments};

/// Keep every word of LLM agents' conversations, and make any of them resumable on any provider
#[derive(Debug, Parser)]
#[command(name = "rejoin", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do; `chat` if nothing is said
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Colours: when a terminal is there, always, or never (NO_COLOR is respected)
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub color: Option<Colour>,
    /// Where conversations are kept: `sqlite:PATH` or `jsonl:FOLDER` (also REJOIN_STORE)
    #[arg(long, global = true, value_name = "LOCATION")]
    pub store: Option<Location>,
    /// Print long output as it is, also on a terminal
    #[arg(long, global = true)]
    pub no_pager: bool,
}

const EXAMPLES: &str = "Examples:
  rejoin chat \"Hello\"                            talk to a model; without one, the built-in responder answers
  rejoin resume                                  go on where it stopped, whatever stopped it
  rejoin check session.json                      what is wrong with a conversation
  rejoin convert session.json --to anthropic     a request body that Anthropic accepts
  rejoin doctor                                  every session on this machine
  rejoin import --all                            take all of them into the store
  rejoin list                                    what is in the store
  rejoin history show @1                         read the newest one
  rejoin explain orphan-result                   what a finding means";

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to a model: continue the active conversation of this folder, or start one
    ///
    /// The reply goes to standard output and nothing else does. Everything is saved as it happens. Ctrl-C stops the turn,
    /// twice leaves.
    #[command(after_help = talk::CHAT_EXAMPLES)]
    Chat(ChatArguments),
    /// Go on with a conversation, from whatever state it is in
    ///
    /// Makes it the active one of this folder and says what state it is in. The provider and model that it went to are used
    /// unless a flag says otherwise. On a terminal it asks what to do about calls without a result, and prompts.
    #[command(after_help = talk::RESUME_EXAMPLES)]
    Resume(ResumeArguments),
    /// Start a conversation and make it the active one of this folder
    ///
    /// Prints its id. `@` means it from now on, in this folder.
    #[command(after_help = conversations::NEW_EXAMPLES)]
    New(NewArguments),
    /// List the conversations of the store, newest first
    #[command(after_help = conversations::LIST_EXAMPLES)]
    List(ListArguments),
    /// Read and look after the conversations of the store
    ///
    /// An ID may be given by its beginning. `@` is the active conversation of this folder, `@1` the newest.
    #[command(subcommand, after_help = conversations::HISTORY_EXAMPLES)]
    History(History),
    /// Say what is wrong with conversations, what the provider would answer, and what rejoin does about it
    ///
    /// Exit code 0: sound. 1: a warning or an error was found. 2: nothing could be read.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Turn a conversation into a request body that a provider accepts, or into another tool's session file
    ///
    /// The result goes to standard output, what was done to standard error. Exit code 0 whenever it was printed.
    /// The source is never changed.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(ConvertArguments),
    /// Find the sessions of every agent on this machine and check them all
    ///
    /// Looks where Codex and Claude Code keep their sessions, and at the paths given. Nothing is changed.
    /// Exit code 0: all can be resumed. 1: some cannot. 2: no path that was given is there.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Take other tools' sessions into the store
    ///
    /// What is there already is not added again, so a session that grew adds only what is new. The files are never
    /// changed. One that cannot be read does not stop the others. Exit code 2: nothing could be read.
    #[command(after_help = upkeep::IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Copy conversations to another store, hashes included
    ///
    /// Copies from the store that `--store` names. What is there already is not copied again.
    #[command(after_help = upkeep::COPY_EXAMPLES)]
    Copy(CopyArguments),
    /// Re-hash the store and say what is not as it was when it was saved
    ///
    /// Exit code 0: everything is (a last write that was cut off before it was acknowledged is named and counts as
    /// fine). 1: something is not.
    #[command(after_help = upkeep::VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Read and change settings
    #[command(subcommand, after_help = upkeep::CONFIG_EXAMPLES)]
    Config(Config),
    /// List the models of a provider, or say what is known of one
    #[command(subcommand, after_help = providers::MODELS_EXAMPLES)]
    Models(Models),
    /// Keep, show and forget keys
    #[command(subcommand, after_help = providers::AUTH_EXAMPLES)]
    Auth(Auth),
    /// Set who answers in new conversations (short for `config set`)
    #[command(after_help = providers::SET_PROVIDER_EXAMPLES)]
    SetProvider(SetProviderArguments),
    /// Set how to prove who you are (short for `config set auth`)
    SetAuth(SetAuthArguments),
    /// See it work: a turn of three tools, killed in the middle, and resumed
    ///
    /// Takes a few seconds, needs no network, and touches nothing of yours.
    Demo(DemoArguments),
    /// Explain a finding, or list all of them
    Explain(ExplainArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

const CHECK_EXAMPLES: &str = "Examples:
  rejoin check chat.json other.json
  rejoin check --for anthropic chat.json         also what would change for Anthropic
  rejoin check @1                                the newest conversation of the store
  cat chat.json | rejoin check --json - | jq '.findings[].rule'";

const CONVERT_EXAMPLES: &str = "Examples:
  rejoin convert chat.json --to anthropic > body.json
  rejoin convert @1 --to anthropic > body.json   the newest conversation of the store
  rejoin convert chat.json --to openai-chat --on-broken drop --report report.json
  rejoin convert - --from openai-chat --to openai-chat < body.json
  rejoin convert ~/.codex/sessions/2026/11/15/rollout-….jsonl --to claude-code > mended.jsonl";

/// `rejoin check`
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// Files to check (`-` is standard input), or conversations of the store
    #[arg(required = true, value_name = "PATH|ID")]
    pub subjects: Vec<String>,
    /// Ask another provider: would it accept these bytes, or the request made from this session?
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialects())]
    pub dialect: Option<Dialect>,
    /// Format of the files (default: told by their content); a dialect means a request body
    #[arg(long, value_name = "FORMAT", value_parser = formats_and_dialects())]
    pub from: Option<String>,
    /// Stop at what is damaged, with its line or row
    #[arg(long)]
    pub strict: bool,
    /// One JSON object a conversation and line
    #[arg(long)]
    pub json: bool,
}

/// `rejoin convert`
#[derive(Debug, clap::Args)]
pub struct ConvertArguments {
    /// The file to convert (`-` is standard input), or a conversation of the store
    #[arg(value_name = "PATH|ID")]
    pub subject: String,
    /// A dialect: a request body. A session format: a file that its own tool resumes
    #[arg(long, value_name = "DIALECT|FORMAT", value_parser = destinations())]
    pub to: Destination,
    /// The format of the file, if it cannot be told
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub from: Option<String>,
    /// What becomes of broken states
    #[arg(long, value_enum, value_name = "POLICY")]
    pub on_broken: Option<OnBrokenArgument>,
    /// The model that the request goes to
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The most tokens that the answer may have (default: what the source says)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_tokens: Option<u64>,
    /// Which conversation of a file of many, from 1
    #[arg(long, value_name = "N")]
    pub session: Option<usize>,
    /// Also write the findings to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<std::path::PathBuf>,
}

const DOCTOR_EXAMPLES: &str = "Examples:
  rejoin doctor                                  every session of Codex and Claude Code
  rejoin doctor ~/backup/sessions                and those in a folder
  rejoin doctor --json | jq '.found[] | select(.resumable | not) | .path'";

/// `rejoin doctor`
#[derive(Debug, clap::Args)]
pub struct DoctorArguments {
    /// Files or folders to look at, too
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// List every broken session, not just the first ones
    #[arg(long)]
    pub all: bool,
    /// As one JSON object
    #[arg(long)]
    pub json: bool,
    /// Tell about this installation instead: what it can do, where settings and store are, whether it could save
    #[arg(long = "self")]
    pub this_installation: bool,
}

/// `rejoin explain`
#[derive(Debug, clap::Args)]
pub struct ExplainArguments {
    /// The rule, as `check` names it; none lists all
    #[arg(value_name = "RULE", value_parser = rules())]
    pub rule: Option<Rule>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What becomes of broken states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnBrokenArgument {
    /// Repair, forgetting nothing (the default)
    Keep,
    /// Repair, leaving out what is incomplete
    Drop,
    /// Print what is wrong and send nothing
    Refuse,
}

impl From<OnBrokenArgument> for OnBroken {
    fn from(argument: OnBrokenArgument) -> Self {
        match argument {
            OnBrokenArgument::Keep => Self::Keep,
            OnBrokenArgument::Drop => Self::Drop,
            OnBrokenArgument::Refuse => Self::Refuse,
        }
    }
}
