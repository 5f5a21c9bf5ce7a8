//! The errors of the command line: what failed, on what, what to do, and the exit code.

use std::{fmt::Display, io, process::ExitCode};

use rejoin::{
    active::PointerError,
    engine::{EngineError, NamedConversation, provider::ProviderError, turn::TurnError},
    store::{Location, StoragePlace, StoreError},
};

use crate::output;

/// The command failed, or found something that a person can act on.
pub const FAILED: u8 = 1;
/// Wrong usage, or no readable input.
pub const UNREADABLE: u8 = 2;
/// The user stopped it.
pub const INTERRUPTED: u8 = 130;
pub const BUG: u8 = 255;

/// Why a command failed. Cases that callers tell apart have their own variants.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An input cannot be read.
    #[error("cannot read {name}: {why}")]
    Unreadable { name: String, why: String, hint: Option<String> },
    #[error("{what}")]
    Usage { what: String, hint: Option<String> },
    #[error("{what}")]
    Failed { what: String, hint: Option<String> },
    #[error("the store {location} cannot be used: {why}")]
    Store { location: Location, why: Box<StoreError> },
    /// A conversation cannot be read from its store.
    #[error("Failed to load conversation: {why} ({location})")]
    Load { location: Location, why: Box<StoreError> },
    #[error(transparent)]
    Engine(Box<EngineError>),
    #[error("{what}")]
    NotResumed { what: String, then: String },
    #[error("{0}")]
    Provider(Box<ProviderError>),
    /// A turn failed. Its findings were already printed.
    #[error("{0}")]
    Turn(Box<TurnError>),
    /// A file is damaged, and `--strict` was given.
    #[error("{name} is damaged at line {line}: {why}")]
    Damaged { name: String, line: usize, why: String },
    /// The user must be asked, but there is no terminal.
    #[error("{what} needs confirmation")]
    Unconfirmed { what: String },
    #[error("nothing was changed")]
    Declined,
    /// A signal asked the process to end. Nothing is printed.
    #[error("interrupted")]
    Interrupted,
    /// The reader of standard output has closed it.
    #[error("the output is closed")]
    ClosedPipe,
}

impl Failure {
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: Some(hint.into()) }
    }

    pub fn unreadable(name: impl Display, why: impl Display, hint: Option<&str>) -> Self {
        Self::Unreadable { name: name.to_string(), why: why.to_string(), hint: hint.map(str::to_owned) }
    }

    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: Some(hint.into()) }
    }

    /// Some of several items failed. Each failure was already printed.
    pub fn some_failed(failed: usize, all: usize) -> Self {
        Self::Failed { what: format!("{failed} of {all} failed"), hint: None }
    }

    pub fn unwritable(path: impl Display, why: &io::Error) -> Self {
        Self::failed(format!("cannot write {path}: {why}"), "check that the folder exists and is writable")
    }

    pub fn refused(name: impl Display) -> Self {
        Self::failed(
            format!("{name} is broken, and repairing it is turned off"),
            "use `--on-broken keep`; nothing is lost",
        )
    }

    pub fn auth(why: impl Display) -> Self {
        Self::failed(why.to_string(), "`rejoin auth status` lists the keys")
    }

    /// Whether the cause is damage, so that reading without `--strict` would work.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Engine(error) => matches!(**error, EngineError::Corrupted { .. } | EngineError::Empty(_)),
            _ => false,
        }
    }

    /// Whether the store itself cannot be used.
    pub fn is_store_trouble(&self) -> bool {
        match self {
            Self::Store { .. } | Self::Load { .. } => true,
            Self::Engine(error) => match &**error {
                EngineError::Store(why) | EngineError::Load(why) => {
                    matches!(why, StoreError::Io { .. } | StoreError::Database { .. })
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a server is unreachable or refuses at the moment, so that entries wait for it in a file.
    pub fn can_wait(&self) -> bool {
        matches!(self, Self::Store { why, .. } | Self::Load { why, .. } if matches!(**why, StoreError::Server { .. }) && why.is_unwritable())
    }

    /// Whether there may be conversations that cannot be seen, because the store or the pointer to the active one cannot be read.
    pub fn hides_conversations(&self) -> bool {
        self.is_store_trouble() || matches!(self, Self::Unreadable { .. })
    }

    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Unreadable { hint, .. } | Self::Usage { hint, .. } | Self::Failed { hint, .. } => {
                return hint.clone();
            }
            Self::Store { why, .. } | Self::Load { why, .. } => store_hint(why)?,
            Self::Engine(error) => return engine_hint(error),
            Self::Damaged { .. } => "leave out `--strict`: everything else can be used",
            Self::Unconfirmed { .. } => "add `--yes`",
            Self::Provider(error) => return error.hint(),
            Self::Turn(error) => return error.hint(),
            Self::NotResumed { .. } | Self::Declined | Self::Interrupted | Self::ClosedPipe => return None,
        };
        Some(text.to_owned())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } | Self::Usage { .. } | Self::Unconfirmed { .. } => UNREADABLE,
            Self::Engine(error) if matches!(**error, EngineError::Ambiguous { .. }) => UNREADABLE,
            Self::Interrupted => INTERRUPTED,
            Self::ClosedPipe => 0,
            _ => FAILED,
        }
    }

    /// Prints the error on stderr, with its hint.
    pub fn say(&self) {
        if let Self::Engine(error) = self
            && let EngineError::Unknown(id) = &**error
        {
            tracing::info!("Conversation not found: id={id}");
        }
        if matches!(self, Self::Declined) {
            output::talk("Nothing was changed.");
        } else if let Self::NotResumed { what, then } = self {
            let what = output::harmless_message(what);
            output::talk(&format!("{} {what}", output::paint("✗", output::ERROR)));
            output::talk(&format!("  {}", output::harmless_message(then)));
        } else if !matches!(self, Self::Interrupted | Self::ClosedPipe) {
            // The text may contain names and words from elsewhere, such as a model's.
            output::error(output::harmless_message(&self.to_string()));
            if let Some(hint) = self.hint() {
                output::hint(output::harmless_message(&hint));
            }
        }
    }

    /// Prints the error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        self.say();
        ExitCode::from(self.code())
    }
}

impl From<PointerError> for Failure {
    fn from(error: PointerError) -> Self {
        let hint = "it names the active conversation of this folder; check its permissions";
        match error {
            PointerError::Unreadable { path, why } => Self::unreadable(path.display(), why, Some(hint)),
            PointerError::Unwritable { path, why } => Self::unwritable(path.display(), &why),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(Box::new(match error {
            EngineError::Store(StoreError::NotFound(id)) => EngineError::Unknown(id.to_string()),
            other => other,
        }))
    }
}

fn engine_hint(error: &EngineError) -> Option<String> {
    let text = match error {
        EngineError::Store(why) | EngineError::Load(why) => store_hint(why)?,
        EngineError::Unknown(_) => "Run: rejoin list",
        EngineError::Ambiguous { found, .. } => {
            let line = |named: &NamedConversation| {
                let title = named.title.as_deref().unwrap_or("(untitled)");
                format!("\n  {}  {}", named.id, output::harmless(title))
            };
            let lines: String = found.iter().map(line).collect();
            return Some(format!("give the id of one of them:{lines}"));
        }
        EngineError::NoActive => {
            "`rejoin new` starts one; `rejoin list` lists the existing ones, `@1` is the newest"
        }
        EngineError::Corrupted { .. } | EngineError::Empty(_) => {
            "leave out `--strict`: everything that can be read is used, nothing is lost"
        }
        EngineError::NoSuchMessage(_) => "`rejoin history show` numbers the messages",
        EngineError::OwnRecord(_) => return None,
        EngineError::NoRecord { .. } => {
            "everything before that line was imported; `rejoin check FILE` says what else is wrong"
        }
        EngineError::Diverged(_) => {
            "both stay as they are; `rejoin history fork` makes a fork that can be copied"
        }
    };
    Some(text.to_owned())
}

fn store_hint(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::NotFound(_) => "Run: rejoin list",
        StoreError::Missing(_) => "check `--store` and REJOIN_STORE; `rejoin new` creates a store",
        StoreError::Locked(_) => {
            "wait until it is done, or end it; reading still works, and a fork can be written to"
        }
        StoreError::ReadOnly(_) => "check its permissions, or copy it: `rejoin copy --all --to STORE`",
        StoreError::TooNew { .. } => "use the newer version; nothing was changed",
        StoreError::Refused(_) => {
            "if you trust the origin of the file, open it with `sqlite3` and drop what does not belong there"
        }
        StoreError::Damaged { place: StoragePlace::Store, .. } => {
            "restore a copy, or move it away to start a new store"
        }
        StoreError::Damaged { .. } => "`rejoin verify` lists what is damaged; everything else can be read",
        StoreError::TailMoved { .. } => "another process changed it at the same time: try again",
        StoreError::Io { why, .. } => match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "the disk is full: make room and try again; nothing that was saved is lost"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "check the permissions of the folder, or name another store: `--store`"
            }
            _ => return None,
        },
        StoreError::Server { hint, .. } => hint,
        StoreError::Database { unwritable: true, .. } => {
            "check free space and permissions; nothing that was saved is lost"
        }
        StoreError::Database { .. } => {
            "if it is one of rejoin's stores, restore a copy; if not, name another: `--store`"
        }
        StoreError::OutOfScope => "you can only write to conversations of the scope that `--scope` names",
        StoreError::NoSuchOption(_) => "`rejoin store` lists the options",
        StoreError::NoSuchEntry(_) | StoreError::BrokenBatch(_) => return None,
    })
}
