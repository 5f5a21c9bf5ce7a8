//! The command line, declared once: parsing, help, completions and the reference are derived from it.

mod choices;
mod conversations;
#[cfg(feature = "mcp")]
mod mcp;
mod providers;
mod talk;
mod upkeep;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use rejoin::{
    Dialect, OnBroken,
    store::{Location, ScopeFilter},
};

use choices::{
    CONVERTING, RuleName, destinations, dialects, formats, formats_and_dialects, from_one, policies,
    taking_agents, whole_number,
};
pub use conversations::{
    CallsArguments, ChangeArguments, CompactArguments, DeleteArguments, EditsArguments, EraseArguments,
    ExportArguments, ForkArguments, HistoryCommand, ListArguments, NewArguments, OutputArguments,
    PinArguments, PruneArguments, RemovalArguments, SearchArguments, ShowArguments, StatsArguments,
    UncompactArguments, UndoArguments,
};
#[cfg(feature = "mcp")]
pub use mcp::{AddServerArguments, Mcp};
pub use providers::{
    AskedProvider, Auth, Models, ModelsInfoArguments, ModelsListArguments, SetProviderArguments,
};
pub use rejoin::destination::Destination;
pub use talk::{ChatArguments, ResumeArguments, RunArguments, Talk};
pub use upkeep::{
    AgentsArguments, ConfigCommand, CopyArguments, ImportArguments, StoreArguments, StoreCommand,
    VerifyArguments,
};

use crate::completing;

/// Keep every word of LLM agents' conversations, and resume any of them on any
/// provider
#[derive(Debug, Parser)]
#[command(name = "rejoin", version, max_term_width = WIDTH, override_usage = USAGE, after_help = EXAMPLES)]
pub struct CommandLine {
    /// Command to run (default: chat)
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    #[command(flatten)]
    pub flags: Flags,
}

/// The flags that every command takes.
#[derive(Debug, Default, clap::Args)]
pub struct Flags {
    /// When to use colours (default: auto, which respects NO_COLOR)
    #[arg(long, global = true, value_enum, value_name = "WHEN", help_heading = GLOBAL)]
    pub color: Option<Colour>,
    /// Store of conversations: `sqlite:PATH`, `jsonl:FOLDER` or
    /// `postgres://…` (default: REJOIN_STORE, else the setting)
    #[arg(long, global = true, value_name = "LOCATION", help_heading = GLOBAL)]
    pub store: Option<Location>,
    /// Use only the conversations of a user, channel or thread, such as
    /// `user=U,channel=C,thread=T`; new ones belong to it
    #[arg(long, global = true, value_name = "SCOPE", help_heading = GLOBAL, hide_short_help = true)]
    pub scope: Option<ScopeFilter>,
    /// Print long output without a pager
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub no_pager: bool,
}

/// The largest width of help, in columns. Longer lines are hard to read, and half of a split terminal is about this wide.
const WIDTH: usize = 80;

/// The heading of the flags that every command takes.
const GLOBAL: &str = "Global options";

const USAGE: &str = "rejoin [OPTIONS] [COMMAND]
       rejoin [OPTIONS] \"MESSAGE\"";

const EXAMPLES: &str = "Examples:
  rejoin \"What does src/main.rs do?\"
      Talk to a model; without a key the built-in responder answers
  rejoin resume
      Continue the last conversation, whatever stopped it
  rejoin check session.json
      Check a conversation for problems
  rejoin doctor
      Check the sessions of every agent on this machine
  rejoin import --all
      Import them into the store";

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal only
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Talk to a model (the default command)
    ///
    /// Continues the active conversation of this folder, or starts one. Only the reply goes to standard output, as it arrives.
    /// Everything is saved as it happens. Ctrl-C stops the turn. At the prompt it clears the line; press it twice on an empty
    /// line to leave.
    #[command(after_long_help = talk::CHAT_EXAMPLES)]
    Chat(ChatArguments),
    /// Continue a conversation, whatever state it is in
    ///
    /// Makes it the active conversation of this folder, and shows the last exchange and the calls that have no result. The
    /// provider and model that answered before are used unless a flag says otherwise. On a terminal it asks what to do about
    /// those calls, and opens a prompt.
    #[command(after_long_help = talk::RESUME_EXAMPLES)]
    Resume(ResumeArguments),
    /// Do one task without a prompt
    ///
    /// Starts a conversation, makes it the active one of this folder, and works until the model is done. Its last words go to
    /// standard output, everything else to standard error. Without a terminal, calls that need approval are denied: choose
    /// --mode auto or add rules (`rejoin config set allow`). Exit code 0: the model finished. 1: it did not.
    #[command(after_long_help = talk::RUN_EXAMPLES)]
    Run(RunArguments),
    /// Restore the files that the last turn changed
    ///
    /// Undoes the changes made by the tools write_file and edit_file, newest first. If something else has changed a file since, it
    /// is named and left alone. Changes made by commands are not recorded. Exit code 1: a file was left alone.
    #[command(after_long_help = conversations::UNDO_EXAMPLES)]
    Undo(UndoArguments),
    /// Replace older messages with a summary, for the model only
    ///
    /// A model writes the summary. That takes one request, or up to 16 if the conversation is longer than the model's window. Pinned
    /// messages, the newest messages and some of your older ones stay as they are. The record keeps every word, and `rejoin uncompact`
    /// undoes it. rejoin also compacts a conversation on its own when it has filled the model's window (setting `compact`).
    #[command(after_long_help = conversations::COMPACT_EXAMPLES)]
    Compact(CompactArguments),
    /// Leave old tool results out of the model's window
    ///
    /// A short note replaces each result, and the model can still read it with the tool `recall`. The record keeps every word. The
    /// newest turn and pinned messages are never pruned. rejoin also prunes on its own when results take too much of the window.
    #[command(after_long_help = conversations::PRUNE_EXAMPLES)]
    Prune(PruneArguments),
    /// Undo the last compaction
    #[command(after_long_help = conversations::UNCOMPACT_EXAMPLES)]
    Uncompact(UncompactArguments),
    /// Start a conversation and make it the active one of this folder
    ///
    /// Prints its id. From now on, `@` means it in this folder.
    #[command(after_long_help = conversations::NEW_EXAMPLES)]
    New(NewArguments),
    /// List conversations, newest first
    #[command(after_long_help = conversations::LIST_EXAMPLES)]
    List(ListArguments),
    /// Read, search, export and change conversations
    ///
    /// A conversation is named by its id, the beginning of its id, or its title. `@` is the active conversation of this
    /// folder, `@1` the newest.
    #[command(subcommand, after_long_help = conversations::HISTORY_EXAMPLES)]
    History(HistoryCommand),
    /// Show tokens, cost, tool calls and repairs of conversations
    ///
    /// Tokens are as counted by the providers. Costs follow the list prices of well-known models; with a subscription, they show
    /// what the same tokens would cost with a key. Repairs are those in what a model would see now. Messages that a fork shares
    /// with its origin count once.
    #[command(after_long_help = conversations::STATS_EXAMPLES)]
    Stats(StatsArguments),
    /// Check whether a provider would accept a request, or a history is sound
    ///
    /// For a request body, the strict checker of its dialect decides whether the provider would accept these bytes; all other
    /// findings are notes. For a session, storage and pairing are checked, and whether its own agent could continue. Exit code
    /// 0: accepted, or sound. 1: refused, broken, or text that was not understood. 2: nothing could be read.
    #[command(after_long_help = CHECK_EXAMPLES)]
    Check(CheckArguments),
    /// Convert a conversation for another provider or agent
    ///
    /// Writes a request body or a session file, and repairs broken histories. The result goes to standard output or FILE, the
    /// findings to standard error. The exit code is 0 if the result was written. The source is never changed.
    #[command(after_long_help = CONVERT_EXAMPLES)]
    Convert(ConvertArguments),
    /// Continue a conversation in another agent
    ///
    /// Writes a repaired copy to where that agent keeps its sessions, and prints the command that continues it there. Short for
    /// `rejoin convert --install`. The original is not changed, and nothing of the agent's is overwritten.
    #[command(after_long_help = MOVE_EXAMPLES)]
    Move(MoveArguments),
    /// Check the sessions of every agent on this machine
    ///
    /// Looks where agents keep their sessions, and in the given paths. `rejoin doctor --self` lists these places; the setting
    /// agent_folders adds more. Nothing is changed.
    /// Exit code 0: all are sound. 1: some are broken. 2: none of the given paths exists.
    #[command(after_long_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Import other agents' sessions into the store
    ///
    /// In a folder every file is tried, whatever its name; files that hold no conversation are skipped and counted by
    /// reason. Importing again adds only new messages. The files are never changed. Exit code 2: nothing could be read.
    #[command(after_long_help = upkeep::IMPORT_EXAMPLES)]
    Import(ImportArguments),
    /// Copy conversations to another store, hashes included
    ///
    /// Copies from the store that --store names. Entries that exist there are not copied again.
    #[command(after_long_help = upkeep::COPY_EXAMPLES)]
    Copy(CopyArguments),
    /// Verify the hashes of the store
    ///
    /// Exit code 0: everything is as it was saved. (A last write that was cut off before it was acknowledged is only a
    /// note.) 1: something has changed.
    #[command(after_long_help = upkeep::VERIFY_EXAMPLES)]
    Verify(VerifyArguments),
    /// Show the store, or enable an option of it
    ///
    /// Shows where it is, how large it is, the version of its schema, and its options. Stores in PostgreSQL have options.
    #[command(after_long_help = upkeep::STORE_EXAMPLES)]
    Store(StoreArguments),
    /// Read and change settings
    #[command(subcommand, after_long_help = upkeep::CONFIG_EXAMPLES)]
    Config(ConfigCommand),
    /// Add MCP servers for more tools, or be one
    #[cfg(feature = "mcp")]
    #[command(subcommand, after_long_help = mcp::MCP_EXAMPLES)]
    Mcp(Mcp),
    /// List the models of a provider, or show one
    #[command(subcommand, after_long_help = providers::MODELS_EXAMPLES)]
    Models(Models),
    /// Store, show and remove keys
    #[command(subcommand, after_long_help = providers::AUTH_EXAMPLES)]
    Auth(Auth),
    /// Set the provider of new conversations (short for `config set`)
    #[command(after_long_help = providers::SET_PROVIDER_EXAMPLES)]
    SetProvider(SetProviderArguments),
    /// Choose how to authenticate (short for `config set auth`)
    #[command(after_long_help = providers::SET_AUTH_EXAMPLES)]
    SetAuth {
        /// Method: `key` (API key), `chatgpt` (login of Codex) or `claude` (login of
        /// Claude Code)
        method: String,
    },
    /// Watch a turn of three tools being killed and resumed
    ///
    /// Takes a few seconds, needs no network, and touches none of your files.
    #[command(after_long_help = talk::DEMO_EXAMPLES)]
    Demo {
        /// The turn that is killed.
        #[arg(long, hide = true)]
        turn: bool,
    },
    /// Explain a finding, or list all of them
    #[command(after_long_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
    /// Print a completion script for a shell
    ///
    /// It completes commands, flags, ids of conversations, providers and settings.
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

const CHECK_EXAMPLES: &str = "Examples:
  rejoin check body.json
      Ask whether the provider would accept a request
  rejoin check --for anthropic body.json
      Ask whether Anthropic would accept the same bytes
  cat chat.json | rejoin check --json - | jq '.findings[].rule'
      List the findings of a body on standard input
  rejoin check @1
      Check the newest conversation of the store";

const CONVERT_EXAMPLES: &str = "Examples:
  rejoin convert chat.json --to anthropic -o body.json
      Write a request body that Anthropic accepts
  rejoin convert @1 -o talk.md
      Write the newest conversation as Markdown
  rejoin convert rollout.jsonl --to claude-code -o mended.jsonl
      Turn a Codex session into one of Claude Code
  rejoin convert - --from openai-chat --to openai-chat < body.json
      Repair a request body
  rejoin convert chat.json --to codex --install
      Write a session that `codex resume` continues";

const EXPLAIN_EXAMPLES: &str = "Examples:
  rejoin explain
      List all findings
  rejoin explain orphan-result
      Explain one of them";

const COMPLETIONS_EXAMPLES: &str = "Examples:
  source <(rejoin completions bash)
      Use it in this shell; put the line into ~/.bashrc to keep it
  rejoin completions zsh > ~/.zfunc/_rejoin
      Install it for zsh, where ~/.zfunc is in $fpath
  rejoin completions fish > ~/.config/fish/completions/rejoin.fish
      Install it for fish";

/// `rejoin check`
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// Files (`-` is standard input), or conversations of the store
    #[arg(required = true, value_name = "PATH|ID", add = ArgValueCompleter::new(completing::subjects))]
    pub subjects: Vec<String>,
    /// Dialect to check against (default: the body's own). Would that provider
    /// accept these bytes, or the request made from this session?
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialects())]
    pub dialect: Option<Dialect>,
    /// Format of the files (default: recognised by content). A dialect's name
    /// means a request body
    #[arg(long, value_name = "FORMAT", value_parser = formats_and_dialects(), hide_possible_values = true)]
    pub from: Option<String>,
    /// Fail on damage and name its line or row
    #[arg(long)]
    pub strict: bool,
    /// Print the shape of each file instead: its fields and their types, with
    /// all values removed, so that you can paste it into a report
    #[arg(long, conflicts_with_all = ["dialect", "from", "strict"])]
    pub describe: bool,
    /// Print one JSON object per line, one per conversation
    #[arg(long)]
    pub json: bool,
}

/// `rejoin convert`
#[derive(Debug, clap::Args)]
pub struct ConvertArguments {
    /// File (`-` is standard input), or conversation of the store
    #[arg(value_name = "PATH|ID", add = ArgValueCompleter::new(completing::subjects))]
    pub subject: String,
    /// Dialect for a request body, or session format (default: by the ending of
    /// FILE)
    #[arg(long, value_name = "DIALECT|FORMAT", value_parser = destinations())]
    pub to: Option<Destination>,
    #[command(flatten)]
    pub output: OutputArguments,
    /// Format of the file (default: recognised by content)
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub from: Option<String>,
    /// What to do with broken states (default: the setting, else keep)
    #[arg(long, value_parser = policies(CONVERTING), value_name = "POLICY")]
    pub on_broken: Option<OnBroken>,
    /// Model to name in the request
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Maximum tokens of the answer (default: as in the source)
    #[arg(long, value_name = "N", value_parser = from_one::<u64>, allow_negative_numbers = true)]
    pub max_tokens: Option<u64>,
    /// Conversation to take from a file of many, from 1
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub session: Option<usize>,
    /// File to write the findings to, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub place: InstallArguments,
}

/// Where a session file goes, and how much is said.
#[derive(Debug, clap::Args)]
pub struct InstallArguments {
    /// Put the session where its agent finds it, and print the command that
    /// resumes it
    ///
    /// For `--to codex`, a new file in $CODEX_HOME/sessions (default: ~/.codex). For `--to claude-code`, in the project of
    /// the folder that the conversation is about, in $CLAUDE_CONFIG_DIR/projects (default: ~/.claude). `rejoin doctor --self`
    /// shows the folders of the others. No file is overwritten.
    #[arg(long, conflicts_with = "output")]
    pub install: bool,
    /// With --install: print one JSON object instead of the command
    #[arg(long, requires = "install")]
    pub json: bool,
    /// Show every finding (default: a summary if there are many)
    #[arg(long, short = 'v')]
    pub verbose: bool,
}

const MOVE_EXAMPLES: &str = "Examples:
  rejoin move @ --to codex
      Continue the active conversation in Codex
  rejoin move ~/.codex/sessions/2026/11/16/rollout-….jsonl --to claude-code
      Continue a Codex session in Claude Code
  sh -c \"$(rejoin move @1 --to pi)\"
      Move the newest conversation to pi, and start pi with it";

/// `rejoin move`
#[derive(Debug, clap::Args)]
pub struct MoveArguments {
    /// File, or conversation of the store
    #[arg(value_name = "PATH|ID", add = ArgValueCompleter::new(completing::subjects))]
    pub subject: String,
    /// Agent to continue it with
    #[arg(long, value_name = "AGENT", value_parser = taking_agents())]
    pub to: Destination,
    /// Model to name in the copy, where the agent records one
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Conversation to take from a file of many, from 1
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub session: Option<usize>,
    /// Print one JSON object instead of the command
    #[arg(long)]
    pub json: bool,
    /// Show every finding (default: a summary if there are many)
    #[arg(long, short = 'v')]
    pub verbose: bool,
}

impl MoveArguments {
    /// The conversion that does it.
    pub fn as_conversion(&self) -> ConvertArguments {
        ConvertArguments {
            subject: self.subject.clone(),
            to: Some(self.to),
            output: OutputArguments::default(),
            from: None,
            on_broken: None,
            model: self.model.clone(),
            max_tokens: None,
            session: self.session,
            report: None,
            place: InstallArguments { install: true, json: self.json, verbose: self.verbose },
        }
    }
}

const DOCTOR_EXAMPLES: &str = "Examples:
  rejoin doctor ~/backup/sessions
      Check a folder as well
  rejoin doctor --agent opencode --since 7d
      Check what opencode wrote in the last week
  rejoin doctor --json | jq '.found[] | select(.resumable | not) | .path'
      Print the paths of sessions that cannot be resumed";

/// `rejoin doctor`
#[derive(Debug, clap::Args)]
pub struct DoctorArguments {
    /// Files or folders to check as well
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<String>,
    #[command(flatten)]
    pub agents: AgentsArguments,
    /// List all broken sessions, not only the first
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show this installation instead: abilities, settings, store, who answers
    #[arg(long = "self")]
    pub this_installation: bool,
}

/// `rejoin explain`
#[derive(Debug, clap::Args)]
pub struct ExplainArguments {
    /// Finding or provider's rule, as `check` names it (default: list all findings)
    #[arg(value_name = "RULE", value_parser = RuleName)]
    pub rule: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The words of a command line, split as a shell does, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (c, quote) {
                ('|' | '<' | '>', None) => break,
                (' ', None) => words.extend(word.take()),
                ('\'' | '"', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (c, Some(open)) if c == open => quote = None,
                (c, _) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    /// Every example in the help parses.
    #[test]
    fn examples_are_understood() {
        let mut root = CommandLine::command();
        root.build();
        let mut commands = vec![&root];
        let mut count = 0;
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            let help = command.get_after_long_help().or(command.get_after_help());
            let text = help.map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
                let Some(at) = line.find("rejoin ") else { continue };
                let line = line[at..].trim_end_matches([')', '"']);
                let line =
                    if line.matches('"').count() % 2 == 1 { format!("{line}\"") } else { line.to_owned() };
                let given = words(&line).into_iter().map(Into::into).collect();
                let given = crate::meaning::with_chat(&root, given);
                let parsed = CommandLine::try_parse_from(given);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
                count += 1;
            }
        }
        assert!(count > 60, "{count}");
    }
}
