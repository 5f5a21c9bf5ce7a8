//! `import`, `copy`, `verify`, `store` and `config`: maintenance of the store.

use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use rejoin::{
    places::{AGENTS, AgentPlace, PlacesToSearch},
    record::Timestamp,
    store::Location,
};

use super::choices::{formats, found_agents, time};
use crate::{completing, settings::Settings};

pub const IMPORT_EXAMPLES: &str = "Examples:
  rejoin import --all
      Import every session that `rejoin doctor` finds
  rejoin import chat.json ~/backup/sessions
      Import a file, and every session in a folder
  rejoin import --agent gemini-cli --since 7d
      Import what Gemini CLI wrote in the last week
  rejoin import --watch
      Import every session, then every new message as it is written
  rejoin import postgres://bot@localhost/bot
      Import the tables in which a chat bot keeps its history
  rejoin import --undo
      Undo the last import";

/// Which agents' sessions, and which of them.
#[derive(Debug, Default, Args)]
pub struct AgentsArguments {
    /// Only sessions of this agent, such as codex or gemini-cli (may be repeated)
    #[arg(long = "agent", value_name = "NAME", value_parser = found_agents(), hide_possible_values = true)]
    pub agents: Vec<String>,
    /// Only sessions that changed since then: a day (2026-08-01), a time
    /// (2026-08-01T12:00:00Z), or how long ago (90m, 24h, 7d, 4w)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<Timestamp>,
}

impl AgentsArguments {
    /// The agents that were named, or all of them.
    pub fn wanted(&self, settings: &Settings) -> PlacesToSearch {
        let is_wanted = |agent: &&AgentPlace| {
            self.agents.is_empty() || self.agents.iter().any(|name| name == agent.format)
        };
        let mut folders = settings.agent_folders();
        folders.retain(|(agent, _)| is_wanted(agent));
        PlacesToSearch { agents: AGENTS.iter().filter(is_wanted).collect(), folders, since: self.since }
    }
}

/// `rejoin import`
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Files or folders, or `postgres://…`: the database of a chat bot
    #[arg(value_name = "PATH", required_unless_present_any = ["all", "agents", "watch", "undo"],
          value_hint = ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Import the sessions of every agent on this machine
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub agents: AgentsArguments,
    /// Keep importing new messages as they are written, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Undo the last import: delete the conversations that it added, and restore
    /// those that it extended. Conversations that were continued since are kept
    #[arg(long, conflicts_with_all = ["paths", "all", "agents", "since", "watch", "from"])]
    pub undo: bool,
    /// Format of the files (default: recognised by content)
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub from: Option<String>,
    /// Print one JSON object per line, one per conversation, then one that
    /// counts the skipped files
    #[arg(long)]
    pub json: bool,
}

pub const COPY_EXAMPLES: &str = "Examples:
  rejoin copy --all --to jsonl:backup
      Copy everything to files that any tool can read
  rejoin copy @1 --to sqlite:other.db
      Copy the newest conversation to another store";

/// `rejoin copy`
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// Conversations: ids or their beginnings, titles, `@` or `@1`
    #[arg(value_name = "ID", required_unless_present = "all",
          add = ArgValueCompleter::new(completing::conversations))]
    pub conversations: Vec<String>,
    /// Copy all conversations
    #[arg(long, conflicts_with = "conversations")]
    pub all: bool,
    /// Store to copy to: `sqlite:PATH`, `jsonl:FOLDER` or `postgres://…`
    #[arg(long, value_name = "STORE")]
    pub to: Location,
    /// Print one JSON object per line, one per conversation
    #[arg(long)]
    pub json: bool,
}

pub const VERIFY_EXAMPLES: &str = "Examples:
  rejoin verify
      Verify the whole store
  rejoin verify @1 --json | jq .problems
      Verify one conversation and list its problems";

/// `rejoin verify`
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Conversation (default: the whole store)
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completing::conversations))]
    pub conversation: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub const STORE_EXAMPLES: &str = "Examples:
  rejoin store
      Show where conversations are kept
  rejoin store enable search --store postgres://me@db.example.com/chats
      Let searches in PostgreSQL use an index";

/// `rejoin store`
#[derive(Debug, Args)]
pub struct StoreArguments {
    #[command(subcommand)]
    pub command: Option<StoreCommand>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// What can be done to a store.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Enable an option of a store in PostgreSQL, for good
    ///
    /// `search`: searches use an index instead of reading every conversation. `partitions`: entries are in 16 tables instead of one;
    /// reads and writes wait until they have been moved. An option cannot be disabled again.
    #[command(after_long_help = ENABLE_EXAMPLES)]
    Enable {
        /// Option: `search` or `partitions`
        #[arg(value_name = "OPTION")]
        option: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

const ENABLE_EXAMPLES: &str = "Examples:
  rejoin store enable search
      Index the words of all conversations
  rejoin store enable partitions --json | jq .milliseconds
      Divide the table of entries, and print how long it took";

pub const CONFIG_EXAMPLES: &str = "Examples:
  rejoin config list
      List every setting, its value and where the value comes from
  REJOIN_STORE=jsonl:/data/chats rejoin list
      Change a setting for one command";

/// `rejoin config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the value of a setting
    #[command(after_long_help = GET_EXAMPLES)]
    Get {
        /// Setting, such as `store` or `audit.full_arguments`
        #[arg(value_name = "KEY", add = ArgValueCompleter::new(completing::settings))]
        key: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a setting in the file
    ///
    /// Comments and everything else in the file stay.
    #[command(after_long_help = SET_EXAMPLES)]
    Set {
        /// Setting
        #[arg(value_name = "KEY", add = ArgValueCompleter::new(completing::settings))]
        key: String,
        /// Value
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a setting from the file, so that its default applies
    #[command(after_long_help = UNSET_EXAMPLES)]
    Unset {
        /// Setting
        #[arg(value_name = "KEY", add = ArgValueCompleter::new(completing::settings))]
        key: String,
    },
    /// Print the path of the file
    #[command(after_long_help = PATH_EXAMPLES)]
    Path,
    /// List every setting, its value and where the value comes from
    #[command(after_long_help = CONFIG_LIST_EXAMPLES)]
    List {
        /// Print one JSON object per line, one per setting
        #[arg(long)]
        json: bool,
    },
}

const GET_EXAMPLES: &str = "Examples:
  rejoin config get store
      Print where conversations are kept
  rejoin config get provider --json
      Print the value and where it comes from";

const SET_EXAMPLES: &str = "Examples:
  rejoin config set store jsonl:/data/chats
      Keep conversations in another place
  rejoin config set on_broken drop
      Leave out calls without a result";

const UNSET_EXAMPLES: &str = "Examples:
  rejoin config unset store
      Keep conversations in the default place again
  rejoin config unset base_url
      Use the provider's own address again";

const PATH_EXAMPLES: &str = "Examples:
  rejoin config path
      Print the path of the file
  \"$EDITOR\" \"$(rejoin config path)\"
      Edit the file";

const CONFIG_LIST_EXAMPLES: &str = "Examples:
  rejoin config list
      List every setting
  rejoin config list --json | jq -r .key
      Print only the names";
