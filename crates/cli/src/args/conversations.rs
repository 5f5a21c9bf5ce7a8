//! `new`, `list` and `history`: conversations of the store.

use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use rejoin::{Dialect, Timestamp, destination::Destination, stats::Grouping};

use super::choices::{agents, destinations, dialects, states, time, ways, whole_number};
use crate::completing;

pub const NEW_EXAMPLES: &str = "Examples:
  rejoin new --title 'Fix the parser'
      Start a conversation under this title
  id=$(rejoin new)
      Keep the id in a variable: nothing else is printed";

/// `rejoin new`
#[derive(Debug, Args)]
pub struct NewArguments {
    /// Title (default: the first line of the first message)
    #[arg(long, value_name = "TITLE")]
    pub title: Option<String>,
    /// Provider of its first turn (default: as configured when the turn begins)
    #[arg(long, value_name = "PROVIDER", add = ArgValueCompleter::new(completing::providers))]
    pub provider: Option<String>,
    /// Model of its first turn (default: as configured when the turn begins)
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub const LIST_EXAMPLES: &str = "Examples:
  rejoin list --limit 5
      List the five newest conversations
  rejoin list --folder . --agent codex
      List conversations of this folder that were imported from Codex
  rejoin list --state interrupted --all --json | jq -r .id
      Print the ids of all interrupted conversations";

/// `rejoin list`
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Show only the newest N (default: 20 on a terminal, otherwise 100)
    #[arg(long, short = 'n', value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true, conflicts_with = "all")]
    pub limit: Option<usize>,
    /// Show all conversations
    #[arg(long)]
    pub all: bool,
    /// Only conversations that belong to this folder or one below it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<std::path::PathBuf>,
    /// Only conversations of this agent
    #[arg(long, value_name = "AGENT", value_parser = agents(), hide_possible_values = true)]
    pub agent: Option<String>,
    /// Only conversations in this state
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub state: Option<String>,
    /// Print one JSON object per line, one per conversation
    #[arg(long)]
    pub json: bool,
}

pub const STATS_EXAMPLES: &str = "Examples:
  rejoin stats
      Add up the whole store
  rejoin stats @ --by tool
      Show which tools the active conversation called
  rejoin stats --since 7d --by day
      Show the tokens and the cost of each day of the last week
  rejoin stats --since 2026-08-01 --json
      Print the numbers since a day as one JSON object";

/// `rejoin stats`
#[derive(Debug, Args)]
pub struct StatsArguments {
    /// Conversation (default: the whole store)
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    pub conversation: Option<String>,
    /// Count only what was recorded since then: a day (2026-08-01), a time
    /// (2026-08-01T12:00:00Z), or how long ago (90m, 24h, 7d, 4w)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Timestamp>,
    /// Break the numbers down (default: by model and by tool; with --json, in
    /// every way)
    #[arg(long, value_name = "WAY", value_parser = ways())]
    pub by: Option<Grouping>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub const HISTORY_EXAMPLES: &str = "Examples:
  rejoin history show @1
      Show the newest conversation
  rejoin history search timeout
      Find every message that mentions a timeout
  rejoin history export 'Fix the parser' -o parser.md
      Write the conversation with this title to a Markdown file";

/// `rejoin history`
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// List conversations, newest first (same as `rejoin list`)
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListArguments),
    /// Show the messages of a conversation, or what a model would see
    ///
    /// Messages are numbered from 0. The numbers stay the same whatever part is shown; `history fork` and `history erase`
    /// take them.
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Search messages, titles and tool results
    ///
    /// Every word must occur. Quote a phrase with "…"; end a word with * to match its beginning. Each hit shows its message
    /// number for `history show`, `fork` and `erase`.
    #[command(after_long_help = SEARCH_EXAMPLES)]
    Search(SearchArguments),
    /// Export a conversation: every entry as stored, or another format
    #[command(after_long_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// List the tool calls of a conversation
    ///
    /// Arguments are shown as a keyed hash unless --full is given.
    #[command(after_long_help = CALLS_EXAMPLES)]
    Calls(CallsArguments),
    /// List the changes made to files, and their state
    ///
    /// Each change by write_file or edit_file is proposed, approved, denied, applied or reverted, and shown as a diff.
    #[command(after_long_help = EDITS_EXAMPLES)]
    Edits(EditsArguments),
    /// Keep a message in every view, even after pruning or compacting
    #[command(after_long_help = PIN_EXAMPLES)]
    Pin(PinArguments),
    /// Rename a conversation
    #[command(after_long_help = RENAME_EXAMPLES)]
    Rename {
        /// Conversation: id or its beginning, title, `@` (active) or `@1` (newest)
        #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
        conversation: String,
        /// New title
        title: String,
    },
    /// Fork a conversation, at its end or at a message
    ///
    /// The fork becomes the active conversation of this folder and its id is printed. The original is not changed.
    #[command(after_long_help = FORK_EXAMPLES)]
    Fork(ForkArguments),
    /// Erase the content of messages for good
    ///
    /// Hashes stay, so that the rest of the conversation still verifies.
    #[command(after_long_help = ERASE_EXAMPLES)]
    Erase(EraseArguments),
    /// Delete a conversation for good
    ///
    /// Forks keep what they share with it.
    #[command(after_long_help = DELETE_EXAMPLES)]
    Delete(DeleteArguments),
}

/// The conversation that a command is about: as an argument, or after `--id`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ConversationArgument {
    /// Conversation: id or its beginning, title, `@` (active) or `@1` (newest)
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    conversation: Option<String>,
    /// The conversation, as an option instead of an argument
    #[arg(long = "id", short = 'i', value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    id: Option<String>,
}

impl ConversationArgument {
    /// The given conversation. For a command that needs none, the default is the active one.
    pub fn given(&self) -> &str {
        self.conversation.as_deref().or(self.id.as_deref()).unwrap_or("@")
    }
}

const WHICH_OR_ACTIVE: &str =
    "Conversation: id or its beginning, title, `@` (active; default) or `@1` (newest)";

/// What every command takes that changes a conversation, by default the active one.
#[derive(Debug, Args)]
#[command(mut_group("ConversationArgument", |which| which.required(false)), mut_arg("conversation", |id| id.help(WHICH_OR_ACTIVE)))]
pub struct ChangeArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Show what would change; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const SHOW_EXAMPLES: &str = "Examples:
  rejoin history show @1 --limit 10
      Show the last ten messages of the newest conversation
  rejoin history show @1 --limit 1 --follow
      Watch a conversation that another process writes
  rejoin history show --view --for anthropic
      Show the active conversation as Anthropic would get it
  rejoin history show @ --tokens --model gpt-5
      Show how much of that model's window it would fill
  rejoin history show conv_abc --raw | jq '.messages[] | .role'
      Process the messages with other tools";

/// `rejoin history show`
#[derive(Debug, Args)]
#[command(mut_group("ConversationArgument", |which| which.required(false)), mut_arg("conversation", |id| id.help(WHICH_OR_ACTIVE)))]
pub struct ShowArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Print indented JSON, messages in the form of OpenAI Chat
    #[arg(long, short = 'r', conflicts_with_all = ["view", "json"])]
    pub raw: bool,
    /// Show only the last N messages
    #[arg(long, short = 'n', value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Show only this message, and all of it
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true, conflicts_with_all = ["limit", "view", "tokens"])]
    pub message: Option<usize>,
    /// Then show new messages as they arrive, until Ctrl-C
    #[arg(long, short = 'f', conflicts_with_all = ["raw", "message", "view", "tokens"])]
    pub follow: bool,
    /// Show what a model would see, and what was left out, moved or added
    #[arg(long)]
    pub view: bool,
    /// Dialect for --view: show the messages as it encodes them
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialects(), requires = "view")]
    pub dialect: Option<Dialect>,
    /// Show what fills the model's window, in tokens
    #[arg(long, conflicts_with_all = ["view", "raw", "limit"])]
    pub tokens: bool,
    /// Model for --tokens (default: the one that answered last)
    #[arg(long, short = 'm', value_name = "MODEL", requires = "tokens")]
    pub model: Option<String>,
    /// Fail on damage and name its line or row
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object per line, one per message
    #[arg(long)]
    pub json: bool,
}

const SEARCH_EXAMPLES: &str = "Examples:
  rejoin history search parser error
      Find messages with both words
  rejoin history search '\"no such file\"' --limit 5
      Find the exact phrase
  rejoin history search 'migrat*' --session @1 --json
      Search one conversation for migrate, migration, …";

/// `rejoin history search`
#[derive(Debug, Args)]
pub struct SearchArguments {
    /// Words to search for
    #[arg(value_name = "WORDS", required = true)]
    pub words: Vec<String>,
    /// Show only the best N hits
    #[arg(long, short = 'n', value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true, default_value_t = 20)]
    pub limit: usize,
    /// Conversation to search (default: all)
    #[arg(long, short = 's', value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    pub session: Option<String>,
    /// Print one JSON object per line, one per hit
    #[arg(long)]
    pub json: bool,
}

const EXPORT_EXAMPLES: &str = "Examples:
  rejoin history export @1 -o backup.jsonl
      Write every entry as stored; `rejoin import` reads it back
  rejoin history export @1 -o talk.md
      Write Markdown: the ending chooses the format
  rejoin history export @1 --to anthropic -o body.json
      Write a request body for Anthropic";

/// `rejoin history export`
#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Session format, or dialect for a request body (default: by the ending
    /// of FILE; jsonl if it has none)
    #[arg(long, value_name = "FORMAT|DIALECT", value_parser = destinations())]
    pub to: Option<Destination>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The file that a command writes its result to.
#[derive(Debug, Default, Args)]
pub struct OutputArguments {
    /// File to write (default: standard output, also `-`)
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<std::path::PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, short = 'f', requires = "output")]
    pub force: bool,
}

const CALLS_EXAMPLES: &str = "Examples:
  rejoin history calls @1
      List the tool calls of the newest conversation
  rejoin history calls @1 --full --json | jq 'select(.status == \"failed\")'
      Show failed calls with arguments and results";

/// `rejoin history calls`
#[derive(Debug, Args)]
pub struct CallsArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Also show arguments and results
    #[arg(long)]
    pub full: bool,
    /// Print one JSON object per line, one per call
    #[arg(long)]
    pub json: bool,
}

const RENAME_EXAMPLES: &str = "Examples:
  rejoin history rename @ 'Fix the parser'
      Rename the active conversation
  rejoin history rename 'Fix the parser' 'Fix the lexer'
      Rename by the old title";

const FORK_EXAMPLES: &str = "Examples:
  rejoin history fork @
      Fork the active conversation at its end
  rejoin history fork @1 --at 4
      Fork the newest one after message 4 and try something else";

/// `rejoin history fork`
#[derive(Debug, Args)]
pub struct ForkArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Last message to keep, as `history show` numbers it (default: all)
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub at: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const ERASE_EXAMPLES: &str = "Examples:
  rejoin history erase @1 -m 3
      Erase message 3, after asking
  rejoin history erase @1 -m 3 --dry-run
      Show what would be erased; change nothing
  rejoin history erase @ -m 3,4 --reason 'a password' --yes
      Erase two messages of the active conversation without asking";

/// `rejoin history erase`
#[derive(Debug, Args)]
pub struct EraseArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Messages to erase, as `history show` numbers them
    #[arg(long = "message", short = 'm', value_name = "N", required = true, value_delimiter = ',')]
    pub messages: Vec<usize>,
    /// Reason, recorded with the hash
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

/// How something is removed for good.
#[derive(Debug, Args)]
pub struct RemovalArguments {
    /// Do not ask; requires a whole id or `@`
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Show what would be removed and what other conversations keep; change
    /// nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const DELETE_EXAMPLES: &str = "Examples:
  rejoin history delete conv_abc
      Delete a conversation, after asking
  rejoin history delete conv_abc --dry-run
      Show what would be deleted; change nothing
  rejoin history delete --id conv_abcdefghijkl --yes
      Delete it without asking, for scripts";

/// `rejoin history delete`
#[derive(Debug, Args)]
pub struct DeleteArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    #[command(flatten)]
    pub removal: RemovalArguments,
}

pub const EDITS_EXAMPLES: &str = "Examples:
  rejoin history edits
      Show the changes of the active conversation
  rejoin history edits @1 --json | jq -r 'select(.state == \"applied\") | .path'
      Print the files that the newest conversation changed";

/// `rejoin history edits`
#[derive(Debug, Args)]
#[command(mut_group("ConversationArgument", |which| which.required(false)), mut_arg("conversation", |id| id.help(WHICH_OR_ACTIVE)))]
pub struct EditsArguments {
    #[command(flatten)]
    pub which: ConversationArgument,
    /// Print one JSON object per line, one per change
    #[arg(long)]
    pub json: bool,
}

pub const UNDO_EXAMPLES: &str = "Examples:
  rejoin undo
      Restore the files that the last turn of the active conversation changed
  rejoin undo --dry-run
      Show what would be restored";

/// `rejoin undo`
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("Print one JSON object per line, one per file")))]
pub struct UndoArguments {
    #[command(flatten)]
    pub change: ChangeArguments,
}

pub const COMPACT_EXAMPLES: &str = "Examples:
  rejoin compact --dry-run
      Show what a summary would replace in the active conversation; send nothing
  rejoin compact @1 --keep 'the database schema'
      Compact the newest conversation, and keep the schema in the summary";

/// `rejoin compact`
#[derive(Debug, Args)]
#[command(mut_arg("dry_run", |dry| dry.help("Show what would change; send nothing and change nothing")))]
pub struct CompactArguments {
    /// What the summary must keep
    #[arg(long, value_name = "TEXT")]
    pub keep: Option<String>,
    /// Provider that writes the summary (default: the conversation's)
    #[arg(long, short = 'p', value_name = "PROVIDER", add = ArgValueCompleter::new(completing::providers))]
    pub provider: Option<String>,
    /// Model that writes the summary (default: `compact.model`, else the conversation's)
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub model: Option<String>,
    /// Address of the provider's API
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    #[command(flatten)]
    pub change: ChangeArguments,
}

pub const PRUNE_EXAMPLES: &str = "Examples:
  rejoin prune --dry-run
      Show which results would be left out
  rejoin prune @1 --keep-last 5
      Leave out all results of the newest conversation except the last five";

/// `rejoin prune`
#[derive(Debug, Args)]
pub struct PruneArguments {
    /// Number of newest results to keep
    #[arg(long, value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub keep_last: Option<usize>,
    /// Leave out results that are older than this
    #[arg(long, value_name = "SECONDS", value_parser = whole_number::<u64>, allow_negative_numbers = true)]
    pub max_age: Option<u64>,
    /// Tokens that all results together may take (default: the setting, else two
    /// fifths of the window)
    #[arg(long, value_name = "TOKENS", value_parser = whole_number::<u64>, allow_negative_numbers = true)]
    pub token_budget: Option<u64>,
    #[command(flatten)]
    pub change: ChangeArguments,
}

pub const UNCOMPACT_EXAMPLES: &str = "Examples:
  rejoin uncompact
      Show the model all messages of the active conversation again
  rejoin uncompact @1 --dry-run
      Show how many tokens the newest conversation would then take";

/// `rejoin uncompact`
#[derive(Debug, Args)]
pub struct UncompactArguments {
    #[command(flatten)]
    pub change: ChangeArguments,
}

pub const PIN_EXAMPLES: &str = "Examples:
  rejoin history pin @ 3
      Keep message 3 of the active conversation in every view
  rejoin history pin @ 3 --remove
      Unpin it";

/// `rejoin history pin`
#[derive(Debug, Args)]
pub struct PinArguments {
    /// Conversation: id or its beginning, title, `@` (active) or `@1` (newest)
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    pub conversation: String,
    /// Message, as `history show` numbers it
    #[arg(value_name = "N", value_parser = whole_number::<usize>, allow_negative_numbers = true)]
    pub message: usize,
    /// Unpin the message
    #[arg(long)]
    pub remove: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
