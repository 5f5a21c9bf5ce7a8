//! An installation: its places, who would answer, and whether it could save a conversation now.
//!
//! Examining it changes nothing: the test write is undone.

use std::path::PathBuf;

use rejoin_engine::{open_store, sandbox::Confinement};
use rejoin_formats::{Dialect, sessions::FORMATS};
use rejoin_record::{
    ConversationId,
    entry::VERSION,
    json::{Object, quoted},
};
use rejoin_store::{Access, Location, Size, StoreError, try_writing};

use crate::answering::Outcome;

/// An installation.
#[derive(Debug)]
pub struct Installation {
    /// The version of the program.
    pub version: &'static str,
    /// The path of the program.
    pub program: String,
    /// The path of the settings file, which need not exist.
    pub settings: PathBuf,
    /// Why the settings cannot be used.
    pub settings_error: Option<String>,
    /// Who would answer in a new conversation, and then in the active one.
    pub answers: Vec<AnswerOutlook>,
    /// The store.
    pub store: StoreReport,
    /// The protection that this machine's sandbox can enforce.
    pub sandbox: Confinement,
}

/// Who would answer in a conversation.
#[derive(Debug)]
pub struct AnswerOutlook {
    /// The conversation; `None` for a new one.
    pub conversation: Option<ConversationId>,
    /// Who would answer and the reason if that provider cannot, or why there is no provider.
    pub outcome: Result<(Outcome, Option<String>), String>,
}

/// A store and its state.
#[derive(Debug)]
pub struct StoreReport {
    /// The location of the store.
    pub location: Location,
    /// Why it cannot be written; `None` if it can.
    pub unwritable: Option<String>,
    /// Whether it can be read, and its size.
    pub state: StoreState,
}

/// Whether a store can be read, and its size.
#[derive(Debug)]
pub enum StoreState {
    /// It does not exist; the first command that saves something creates it.
    Missing,
    /// It exists but cannot be opened.
    Unusable(String),
    /// It can be read.
    Open {
        /// The number of conversations.
        conversations: usize,
        /// The size on disk.
        size: Size,
        /// The version of its schema; `None` if it has none.
        schema: Option<i64>,
    },
}

/// The formats that can be read, by name.
pub fn readable() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|format| format.read.is_some()).map(|format| format.name)
}

/// The formats that can be written, by name.
pub fn writable() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name)
}

impl StoreReport {
    /// Examines a store.
    #[must_use]
    pub fn of(location: Location) -> Self {
        let unwritable = match &location {
            Location::Sqlite(path) | Location::Jsonl(path) => {
                try_writing(&location).err().map(|why| format!("{}: {why}", path.display()))
            }
            Location::Postgres(_) => try_writing(&location).err().map(|why| why.to_string()),
            Location::Memory => None,
        };
        let look = || {
            let store = open_store(&location, Access::Read)?;
            let conversations = store.ids("", usize::MAX)?.len();
            Ok(StoreState::Open { conversations, size: store.size()?, schema: store.schema() })
        };
        let state = match look() {
            // Opening a store in memory would create it.
            _ if location == Location::Memory => StoreState::Missing,
            Ok(state) => state,
            Err(StoreError::Missing(_)) => StoreState::Missing,
            Err(why) => StoreState::Unusable(why.to_string()),
        };
        Self { location, unwritable, state }
    }

    fn to_json(&self) -> Object {
        let store = Object::new()
            .text("location", &self.location)
            .flag("there", !matches!(self.state, StoreState::Missing))
            .flag("writable", self.unwritable.is_none())
            .text_or_null("unwritable", self.unwritable.as_deref());
        match &self.state {
            StoreState::Missing => store,
            StoreState::Unusable(why) => store.text("error", why),
            StoreState::Open { conversations, size, schema } => store
                .count("conversations", *conversations)
                .number("record_bytes", size.record)
                .number("index_bytes", size.index)
                .raw("schema", &schema.map_or_else(|| String::from("null"), |schema| schema.to_string()))
                .text("entries", VERSION),
        }
    }
}

impl AnswerOutlook {
    fn to_json(&self) -> String {
        let object = Object::new().text_or_null("conversation", self.conversation);
        match &self.outcome {
            Ok((outcome, trouble)) => outcome.with_parts(object).text_or_null("error", trouble.as_deref()),
            Err(trouble) => object.text("error", trouble),
        }
        .finish()
    }
}

fn sandbox_json(confinement: &Confinement) -> Object {
    let reason = match confinement {
        Confinement::None { reason } => Some(reason.as_str()),
        Confinement::Full | Confinement::Partial(_) => None,
    };
    let gaps = confinement.gaps().iter().map(|gap| quoted(&gap.to_string()));
    Object::new().text("confinement", confinement.name()).list("gaps", gaps).text_or_null("reason", reason)
}

impl Installation {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let settings = Object::new()
            .text("path", self.settings.display())
            .flag("there", self.settings.is_file())
            .text_or_null("error", self.settings_error.as_deref());
        Object::new()
            .text("version", self.version)
            .text("program", &self.program)
            .list("dialects", Dialect::all().map(|dialect| quoted(dialect.name())))
            .list("reads", readable().map(quoted))
            .list("writes", writable().map(quoted))
            .object("settings", settings)
            .list("answers", self.answers.iter().map(AnswerOutlook::to_json))
            .object("store", self.store.to_json())
            .object("sandbox", sandbox_json(&self.sandbox))
            .finish()
    }
}
