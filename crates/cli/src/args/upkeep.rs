//! `import`, `copy`, `verify` and `config`: looking after the store.

use clap::{Args, Subcommand};
use rejoin::store::Location;

use super::choices::formats;

pub const IMPORT_EXAMPLES: &str = "Examples:
  rejoin import --all                            every session that `rejoin doctor` finds
  rejoin import chat.json ~/backup/sessions      files, and what is in folders
  rejoin import backup.jsonl                     what `rejoin history export` wrote";

/// `rejoin import`
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Files or folders
    #[arg(value_name = "PATH", required_unless_present = "all")]
    pub paths: Vec<String>,
    /// Every session of Codex and Claude Code on this machine
    #[arg(long)]
    pub all: bool,
    /// The format of the files, if it cannot be told
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub from: Option<String>,
    /// One JSON object a conversation and line
    #[arg(long)]
    pub json: bool,
}

pub const COPY_EXAMPLES: &str = "Examples:
  rejoin copy --all --to jsonl:backup            everything, as files that any tool reads
  rejoin copy @1 --to sqlite:other.db
  rejoin copy --all --store jsonl:backup --to sqlite:restored.db";

/// `rejoin copy`
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// The conversations
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub conversations: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "conversations")]
    pub all: bool,
    /// The store to copy to: `sqlite:PATH` or `jsonl:FOLDER`
    #[arg(long, value_name = "STORE")]
    pub to: Location,
    /// One JSON object a conversation and line
    #[arg(long)]
    pub json: bool,
}

pub const VERIFY_EXAMPLES: &str = "Examples:
  rejoin verify                                  the whole store
  rejoin verify @1                               one conversation
  rejoin verify --json | jq .problems";

/// `rejoin verify`
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// One conversation; none means the whole store
    #[arg(value_name = "ID")]
    pub conversation: Option<String>,
    /// As a JSON object
    #[arg(long)]
    pub json: bool,
}

pub const CONFIG_EXAMPLES: &str = "Examples:
  rejoin config list                             every setting, its value and where that is from
  rejoin config set store jsonl:/data/chats
  REJOIN_STORE=jsonl:/data/chats rejoin list     every setting can be given like this, too";

/// `rejoin config`
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print the value of a setting
    Get {
        /// The setting, such as `store` or `audit.full_arguments`
        #[arg(value_name = "KEY")]
        key: String,
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a setting in the file; comments and everything else in it stay
    Set {
        /// The setting
        #[arg(value_name = "KEY")]
        key: String,
        /// Its value
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Take a setting out of the file, so that its usual value holds
    Unset {
        /// The setting
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Print where the file is
    Path,
    /// List every setting, its value and where that is from
    List {
        /// One JSON object a setting and line
        #[arg(long)]
        json: bool,
    },
}
