//! What can go wrong on the command line: what, where, and what to do, with the exit code that says the same.

use std::process::ExitCode;

use crate::output;

/// Failed, or something was found; a person can act.
pub const FAILED: u8 = 1;
/// Usage, or nothing that could be read.
pub const UNREADABLE: u8 = 2;
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
    /// Whoever read our output stopped reading.
    #[error("nobody reads the output")]
    ClosedPipe,
}

impl Failure {
    fn hint(&self) -> Option<String> {
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
            Self::ClosedPipe => None,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } | Self::Many { .. } | Self::NoSuch { .. } => UNREADABLE,
            Self::Refused { .. } | Self::TooLarge { .. } | Self::Unwritable { .. } => FAILED,
            Self::ClosedPipe => 0,
        }
    }

    /// Says it on stderr, with the hint apart.
    pub fn say(&self) {
        if !matches!(self, Self::ClosedPipe) {
            output::talk(&format!("{} {self}", output::paint("error:", output::ERROR)));
            if let Some(hint) = self.hint() {
                output::talk(&format!("{} {hint}", output::paint("hint:", output::HINT)));
            }
        }
    }

    /// Says it and gives the exit code.
    pub fn report(&self) -> ExitCode {
        self.say();
        ExitCode::from(self.code())
    }
}
