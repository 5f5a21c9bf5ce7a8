//! What can go wrong on the command line: what, where, and what to do, with the exit code that says the same.

use std::{io, process::ExitCode};

use rejoin::{
    engine::{EngineError, NamedConversation, provider::ProviderError, turn::TurnError},
    store::{Location, Place, StoreError},
};

use crate::output;

/// Failed, or something was found; a person can act.
pub const FAILED: u8 = 1;
/// Usage, or nothing that could be read.
pub const UNREADABLE: u8 = 2;
/// A person stopped it.
pub const INTERRUPTED: u8 = 130;
/// A bug of ours.
pub const BUG: u8 = 255;

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An input cannot be read.
    #[error("cannot read {name}: {why}")]
    Unreadable {
        /// The input.
        name: String,
        /// Why.
        why: String,
        /// What to do.
        hint: Option<String>,
    },
    /// There are several conversations and none was chosen.
    #[error("{name} holds {count} conversations")]
    Many {
        /// The input.
        name: String,
        /// How many.
        count: usize,
    },
    /// There is no such conversation in the file.
    #[error("{name} has no conversation {wanted}, it holds {count}")]
    NoSuch {
        /// The input.
        name: String,
        /// What was asked for.
        wanted: usize,
        /// How many there are.
        count: usize,
    },
    /// The conversation is broken and must not be repaired.
    #[error("{name} is broken, and repairing it is turned off")]
    Refused {
        /// The input.
        name: String,
    },
    /// The provider takes nothing this large.
    #[error("{name} cannot be sent: {why}")]
    TooLarge {
        /// The input.
        name: String,
        /// Why.
        why: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {why}")]
    Unwritable {
        /// The file.
        path: String,
        /// Why.
        why: std::io::Error,
    },
    /// A file is there, and was not to be overwritten.
    #[error("{path} already exists")]
    Exists {
        /// The file.
        path: String,
    },
    /// Something that was given does not fit.
    #[error("{what}")]
    Usage {
        /// What.
        what: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A store cannot be used.
    #[error("the store {location} cannot be used: {why}")]
    Store {
        /// Where it is.
        location: Location,
        /// Why.
        why: Box<StoreError>,
    },
    /// A turn is done, and not all of it is stored.
    #[error("{0}")]
    NotSaved(String),
    /// A conversation cannot be read from its store.
    #[error("Failed to load conversation: {why} ({location})")]
    Load {
        /// Where the store is.
        location: Location,
        /// Why.
        why: Box<StoreError>,
    },
    /// Something could not be done with a conversation.
    #[error(transparent)]
    Engine(Box<EngineError>),
    /// A conversation cannot be gone on with.
    #[error("{what}")]
    NotResumed {
        /// What is wrong.
        what: String,
        /// What else there is to say.
        then: String,
    },
    /// A provider cannot be used.
    #[error("{0}")]
    Provider(Box<ProviderError>),
    /// A provider has no such model.
    #[error("{provider} has no model `{model}`")]
    NoModel {
        /// The model.
        model: String,
        /// The provider.
        provider: String,
        /// What to do.
        hint: String,
    },
    /// A key could not be kept, or a login did not work.
    #[error("{0}")]
    Auth(String),
    /// A turn did not come to its end. What was found was said already.
    #[error("{0}")]
    Turn(Box<TurnError>),
    /// Read strictly, a file is damaged.
    #[error("{name} is damaged at line {line}: {why}")]
    Damaged {
        /// The file.
        name: String,
        /// Where.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Somebody would have to be asked, and nobody is there.
    #[error("{what} needs confirmation")]
    Unasked {
        /// What was to be done.
        what: String,
    },
    /// Somebody was asked and said no.
    #[error("nothing was changed")]
    Declined,
    /// Some of several could not be done; each was said already.
    #[error("{failed} of {all} failed")]
    Some {
        /// How many.
        failed: usize,
        /// Of how many.
        all: usize,
    },
    /// Whoever read our output stopped reading.
    #[error("nobody reads the output")]
    ClosedPipe,
}

impl Failure {
    /// Whether it is about something that is damaged, and could be read otherwise.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Engine(error) => matches!(**error, EngineError::Corrupted { .. } | EngineError::Empty(_)),
            _ => false,
        }
    }

    /// Whether it is about a store that cannot be used, and not about what was asked for.
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

    /// Whether it says that conversations may be there and cannot be seen: a store, or the pointer to the active one.
    pub fn hides_conversations(&self) -> bool {
        self.is_store_trouble() || matches!(self, Self::Unreadable { .. })
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { hint, .. } => hint.clone(),
            Self::Many { .. } => Some(String::from("choose one with `--session N`")),
            Self::NoSuch { .. } => Some(String::from("leave `--session` out to list them")),
            Self::Refused { .. } => Some(String::from("use `--on-broken keep`; nothing is lost")),
            Self::TooLarge { .. } => {
                Some(String::from("leave out what is no longer needed, or split the conversation"))
            }
            Self::Unwritable { .. } => {
                Some(String::from("check that the folder exists and who may write there"))
            }
            Self::Exists { .. } => {
                Some(String::from("choose another name, or add `--force` to overwrite it"))
            }
            Self::Usage { hint, .. } => hint.clone(),
            Self::Store { why, .. } | Self::Load { why, .. } => store_hint(why),
            Self::NotSaved(_) => Some(String::from(
                "the answer is complete, but it is not in the store; `rejoin doctor --self` says whether that can be written",
            )),
            Self::Engine(error) => engine_hint(error),
            Self::Damaged { .. } => Some(String::from("leave out `--strict`: everything else can be used")),
            Self::Unasked { .. } => Some(String::from("add `--yes`")),
            Self::Provider(error) => error.hint(),
            Self::NoModel { hint, .. } => Some(hint.clone()),
            Self::Auth(_) => Some(String::from("`rejoin auth status` says what there is")),
            Self::Turn(error) => error.hint(),
            Self::NotResumed { .. } | Self::Declined | Self::Some { .. } | Self::ClosedPipe => None,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Unreadable { .. }
            | Self::Many { .. }
            | Self::NoSuch { .. }
            | Self::Usage { .. }
            | Self::Unasked { .. } => UNREADABLE,
            Self::Engine(error) if matches!(**error, EngineError::Ambiguous { .. }) => UNREADABLE,
            Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::Unwritable { .. }
            | Self::Exists { .. }
            | Self::Store { .. }
            | Self::Load { .. }
            | Self::NotSaved(_)
            | Self::Engine(_)
            | Self::Damaged { .. }
            | Self::NotResumed { .. }
            | Self::Provider(_)
            | Self::NoModel { .. }
            | Self::Auth(_)
            | Self::Turn(_)
            | Self::Declined
            | Self::Some { .. } => FAILED,
            Self::ClosedPipe => 0,
        }
    }

    /// Says it on stderr, with the hint apart.
    pub fn say(&self) {
        if let Self::Engine(error) = self
            && let EngineError::Unknown(id) = &**error
        {
            tracing::info!("Conversation not found: id={id}");
        }
        if matches!(self, Self::Declined) {
            // Whoever said no knows why.
            output::talk("Nothing was changed.");
        } else if let Self::NotResumed { what, then } = self {
            let what = output::harmless_message(what);
            output::talk(&format!("{} {what}", output::paint("✗", output::ERROR)));
            output::talk(&format!("  {}", output::harmless_message(then)));
        } else if !matches!(self, Self::ClosedPipe) {
            // Names and words of others are in it, such as a model's.
            let (what, hint) = (self.to_string(), self.hint());
            let said = output::harmless_message(&what);
            output::talk(&format!("{} {said}", output::paint("error:", output::ERROR)));
            if let Some(hint) = hint {
                let said = output::harmless_message(&hint);
                output::talk(&format!("{} {said}", output::paint("hint:", output::HINT)));
            }
        }
    }

    /// Says it and gives the exit code.
    pub fn report(&self) -> ExitCode {
        self.say();
        ExitCode::from(self.code())
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
    Some(match error {
        EngineError::Store(why) | EngineError::Load(why) => return store_hint(why),
        EngineError::Unknown(_) => String::from("Run: rejoin list"),
        EngineError::Ambiguous { found, .. } => {
            let line = |named: &NamedConversation| {
                let title = named.title.as_deref().unwrap_or("(untitled)");
                format!("\n  {}  {}", named.id, output::harmless(title))
            };
            format!("give the id of one of them:{}", found.iter().map(line).collect::<String>())
        }
        EngineError::NoActive => String::from(
            "`rejoin new` starts one; `rejoin list` shows those that are there, `@1` is the newest",
        ),
        EngineError::Corrupted { .. } | EngineError::Empty(_) => {
            String::from("leave out `--strict`: everything that can be read is used, nothing is lost")
        }
        EngineError::NoSuchMessage(_) => String::from("`rejoin history show` numbers the messages"),
        EngineError::OwnRecord(_) => return None,
        EngineError::NoRecord { .. } => String::from(
            "what stands before that line was taken in; `rejoin check FILE` says what else is wrong",
        ),
        EngineError::Diverged(_) => String::from(
            "both stay as they are; `rejoin history fork` makes one of its own that can be copied",
        ),
    })
}

fn store_hint(error: &StoreError) -> Option<String> {
    Some(match error {
        StoreError::NotFound(_) => String::from("Run: rejoin list"),
        StoreError::Missing(_) => {
            String::from("check `--store` and REJOIN_STORE; `rejoin new` makes a store")
        }
        StoreError::Locked(_) => String::from(
            "wait until it is done, or end it; reading works all the while, and a fork can be written to",
        ),
        StoreError::ReadOnly(_) => {
            String::from("check who may write there, or copy it: `rejoin copy --all --to STORE`")
        }
        StoreError::TooNew { .. } => {
            String::from("use the newer version; what it wrote stays readable there, and nothing was changed")
        }
        StoreError::Refused(_) => String::from(
            "if you trust where the file is from, look at it with `sqlite3` and drop what does not belong there",
        ),
        StoreError::Damaged { place: Place::Store, .. } => String::from(
            "it cannot be read as it is: put a copy in its place, or move it away to begin a new store",
        ),
        StoreError::Damaged { .. } => {
            String::from("`rejoin verify` lists what is damaged; everything else can be read")
        }
        StoreError::TailMoved { .. } => String::from("try again: it was changed at the same time"),
        StoreError::Io { why, .. } => match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                String::from("the disk is full: make room and try again; nothing that was saved is lost")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                String::from("check who may use the folder, or name another store: `--store`")
            }
            _ => return None,
        },
        StoreError::Database { unwritable: true, .. } => String::from(
            "check that there is room on the disk and who may write there; nothing that was saved is lost",
        ),
        StoreError::Database { .. } => String::from(
            "is it one of rejoin's stores? if it is, put a copy in its place; if not, name another: `--store`",
        ),
        StoreError::NoSuchEntry(_) | StoreError::BrokenBatch(_) => return None,
    })
}
