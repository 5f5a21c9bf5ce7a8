//! The command line, declared once: parsing, help, completions and the reference come from here.

use clap::{Parser, Subcommand, ValueEnum};
use rejoin::{
    Dialect, OnBroken, Rule,
    sessions::{FORMATS, Format},
};

/// Check, explain and mend the conversations of LLM agents, so that any provider accepts them.
#[derive(Debug, Parser)]
#[command(name = "rejoin", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// Colours: when a terminal is there, always, or never (NO_COLOR is respected)
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
}

const EXAMPLES: &str = "Examples:
  rejoin check session.json                      what is wrong with a conversation
  rejoin convert session.json --to anthropic     a request body that Anthropic accepts
  rejoin doctor                                  every session on this machine
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
  cat chat.json | rejoin check --json - | jq '.findings[].rule'";

const CONVERT_EXAMPLES: &str = "Examples:
  rejoin convert chat.json --to anthropic > body.json
  rejoin convert chat.json --to openai-chat --on-broken drop --report report.json
  rejoin convert - --from openai-chat --to openai-chat < body.json
  rejoin convert ~/.codex/sessions/2026/11/15/rollout-….jsonl --to claude-code > mended.jsonl";

/// `rejoin check`
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// Files to check; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Also say what would have to change for this dialect
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialects())]
    pub dialect: Option<Dialect>,
    /// The format of the files, if it cannot be told
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub from: Option<String>,
    /// One JSON object a conversation and line
    #[arg(long)]
    pub json: bool,
}

/// `rejoin convert`
#[derive(Debug, clap::Args)]
pub struct ConvertArguments {
    /// The file to convert; `-` is standard input
    #[arg(value_name = "PATH")]
    pub path: String,
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
    /// Tell about this installation instead
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

fn dialects() -> impl clap::builder::TypedValueParser<Value = Dialect> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(Dialect::all().map(Dialect::name))
        .map(|name| name.parse().expect("BUG: the choices are the dialects' own names"))
}

/// What a conversation is turned into.
#[derive(Clone, Copy)]
pub enum Destination {
    /// A request body.
    Dialect(Dialect),
    /// A session file.
    Format(&'static Format),
}

impl std::fmt::Debug for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Dialect(dialect) => f.write_str(dialect.name()),
            Self::Format(format) => f.write_str(format.name),
        }
    }
}

fn destinations() -> impl clap::builder::TypedValueParser<Value = Destination> {
    use clap::builder::TypedValueParser as _;
    let written = || FORMATS.iter().filter(|format| format.write.is_some());
    let names = Dialect::all().map(Dialect::name).chain(written().map(|format| format.name));
    clap::builder::PossibleValuesParser::new(names.collect::<Vec<_>>()).map(move |name| {
        // A dialect's name always means a request body.
        name.parse().map(Destination::Dialect).unwrap_or_else(|_| {
            let format = written().find(|format| format.name == name);
            Destination::Format(format.expect("BUG: the choices are the names of both"))
        })
    })
}

fn formats() -> impl clap::builder::TypedValueParser<Value = String> {
    let read = FORMATS.iter().filter(|format| format.read.is_some());
    clap::builder::PossibleValuesParser::new(read.map(|format| format.name).collect::<Vec<_>>())
}

fn rules() -> impl clap::builder::TypedValueParser<Value = Rule> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(Rule::ALL.iter().map(|rule| rule.name())).map(|name| {
        let found = Rule::ALL.iter().copied().find(|rule| rule.name() == name);
        found.expect("BUG: the choices are the rules' own names")
    })
}
