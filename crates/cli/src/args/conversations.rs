//! `new`, `list` and `history`: conversations of the store.

use clap::{Args, Subcommand};
use rejoin::Dialect;

use super::choices::{Destination, destinations, dialects};

pub const NEW_EXAMPLES: &str = "Examples:
  rejoin new
  rejoin new --title 'Fix the parser' --provider anthropic --model claude-x
  id=$(rejoin new)                               the id is all that is printed";

/// `rejoin new`
#[derive(Debug, Args)]
pub struct NewArguments {
    /// What to call it; otherwise the first line of the first message
    #[arg(long, value_name = "TITLE")]
    pub title: Option<String>,
    /// Provider of its first turn (default: as configured when the turn begins)
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Model of its first turn (default: as configured when the turn begins)
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// As a JSON object
    #[arg(long)]
    pub json: bool,
}

pub const LIST_EXAMPLES: &str = "Examples:
  rejoin list
  rejoin list --limit 5
  rejoin list --all --json | jq -r 'select(.state == \"interrupted\") | .id'";

/// `rejoin list`
#[derive(Debug, Args)]
pub struct ListArguments {
    /// At most so many, the newest ones (otherwise 20 on a terminal, 100 elsewhere)
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "all")]
    pub limit: Option<usize>,
    /// All of them
    #[arg(long)]
    pub all: bool,
    /// One JSON object a conversation and line
    #[arg(long)]
    pub json: bool,
}

pub const HISTORY_EXAMPLES: &str = "Examples:
  rejoin history show @1                         the newest conversation
  rejoin history show conv_abc --limit 5         the last five messages; an id may be cut short
  rejoin history search timeout                  who said it?
  rejoin history export @1 --to markdown         to read, or to hand on";

/// `rejoin history`
#[derive(Debug, Subcommand)]
pub enum History {
    /// List the conversations of the store, newest first (the same as `rejoin list`)
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArguments),
    /// Show what was said in a conversation, or what a model would see of it
    ///
    /// Messages are numbered from 0; the numbers stay, whatever part is shown.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArguments),
    /// Search what was said
    ///
    /// Every word must occur. `\"…\"` for words that stand together, a trailing `*` for the beginning of a word.
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(SearchArguments),
    /// Write a conversation to a file: every entry as it is, or another format
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArguments),
    /// List the tool calls of a conversation, with a keyed hash in place of their arguments
    #[command(after_help = CALLS_EXAMPLES)]
    Calls(CallsArguments),
    /// Give a conversation a title
    #[command(after_help = RENAME_EXAMPLES)]
    Rename(RenameArguments),
    /// Make a conversation of its own out of what leads to a message
    ///
    /// Prints the new id. The one it comes from stays as it is.
    #[command(after_help = FORK_EXAMPLES)]
    Fork(ForkArguments),
    /// Remove the content of messages for good; their hashes stay, so the rest still verifies
    #[command(after_help = ERASE_EXAMPLES)]
    Erase(EraseArguments),
    /// Remove a conversation for good; forks keep what they share with it
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(DeleteArguments),
}

/// Which conversation: as an argument of its own, or behind `--id`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// The conversation: an id, its beginning, `@` (the active one) or `@1` (the newest)
    #[arg(value_name = "ID")]
    conversation: Option<String>,
    /// The same
    #[arg(long = "id", short = 'i', value_name = "ID")]
    id: Option<String>,
}

impl Which {
    /// What was given.
    pub fn given(&self) -> &str {
        self.conversation.as_deref().or(self.id.as_deref()).unwrap_or_default()
    }
}

const SHOW_EXAMPLES: &str = "Examples:
  rejoin history show @1 --limit 10
  rejoin history show --id conv_abc --raw | jq '.messages[] | select(.role==\"tool\")'
  rejoin history show @1 --view                  what a model would see, and what was mended
  rejoin history show @1 --view --for anthropic  the messages as Anthropic would get them";

/// `rejoin history show`
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// As indented JSON, messages in the shape of OpenAI Chat
    #[arg(long, short = 'r', conflicts_with_all = ["view", "json"])]
    pub raw: bool,
    /// Only the last N messages
    #[arg(long, short = 'n', value_name = "N")]
    pub limit: Option<usize>,
    /// What a model would see of it, and at each message what was left out, moved or added
    #[arg(long)]
    pub view: bool,
    /// With `--view`: the messages as this dialect gets them
    #[arg(long = "for", value_name = "DIALECT", value_parser = dialects(), requires = "view")]
    pub dialect: Option<Dialect>,
    /// Stop at what is damaged, with its line or row
    #[arg(long)]
    pub strict: bool,
    /// One JSON object a message and line
    #[arg(long)]
    pub json: bool,
}

const SEARCH_EXAMPLES: &str = "Examples:
  rejoin history search parser error
  rejoin history search '\"no such file\"' --limit 5
  rejoin history search 'migrat*' --session @1 --json | jq -r .conversation";

/// `rejoin history search`
#[derive(Debug, Args)]
pub struct SearchArguments {
    /// What to search for
    #[arg(value_name = "WORDS", required = true)]
    pub words: Vec<String>,
    /// At most so many hits, the best ones
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only in this conversation
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// One JSON object a hit and line
    #[arg(long)]
    pub json: bool,
}

const EXPORT_EXAMPLES: &str = "Examples:
  rejoin history export @1 -o backup.jsonl       every entry, byte for byte; `rejoin import` takes it back
  rejoin history export @1 --to markdown
  rejoin history export @1 --to codex -o rollout.jsonl";

/// `rejoin history export`
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// A session format, or a dialect for a request body
    #[arg(long, value_name = "FORMAT|DIALECT", value_parser = destinations(), default_value = "jsonl")]
    pub to: Destination,
    /// Write to this file instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
}

const CALLS_EXAMPLES: &str = "Examples:
  rejoin history calls @1
  rejoin history calls @1 --full --json | jq 'select(.status == \"failed\")'";

/// `rejoin history calls`
#[derive(Debug, Args)]
pub struct CallsArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// Also the arguments, and what came of the calls
    #[arg(long)]
    pub full: bool,
    /// One JSON object a call and line
    #[arg(long)]
    pub json: bool,
}

const RENAME_EXAMPLES: &str = "Example:
  rejoin history rename @1 'Fix the parser'";

/// `rejoin history rename`
#[derive(Debug, Args)]
pub struct RenameArguments {
    /// The conversation
    #[arg(value_name = "ID")]
    pub conversation: String,
    /// Its title
    #[arg(value_name = "TITLE")]
    pub title: String,
}

const FORK_EXAMPLES: &str = "Examples:
  rejoin history fork @1                         a copy that goes its own way
  rejoin history fork @1 --at 4                  from message 4 on, try something else";

/// `rejoin history fork`
#[derive(Debug, Args)]
pub struct ForkArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// The last message to take along, as `history show` numbers them
    #[arg(long, value_name = "N")]
    pub at: Option<usize>,
    /// As a JSON object
    #[arg(long)]
    pub json: bool,
}

const ERASE_EXAMPLES: &str = "Example:
  rejoin history erase @1 --message 3 --message 4 --reason 'a password' --yes";

/// `rejoin history erase`
#[derive(Debug, Args)]
pub struct EraseArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// The messages, as `history show` numbers them
    #[arg(long = "message", short = 'm', value_name = "N", required = true, value_delimiter = ',')]
    pub messages: Vec<usize>,
    /// Why; kept beside the hash
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}

const DELETE_EXAMPLES: &str = "Examples:
  rejoin history delete conv_abc
  rejoin history delete --id conv_abc --yes      without a terminal, or without a question";

/// `rejoin history delete`
#[derive(Debug, Args)]
pub struct DeleteArguments {
    /// Which one
    #[command(flatten)]
    pub which: Which,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub yes: bool,
}
