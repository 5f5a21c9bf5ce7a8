//! The protection that a sandbox enforces on this machine, as a type and in plain words.
//!
//! This file does not query the system: `linux/trial.rs` runs a confined process that ends before its command, and reports the
//! result.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

/// The protection that a sandbox enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// Everything that [`Policy`](super::Policy) promises.
    Full,
    /// Files and network are confined, with gaps.
    Partial(Vec<Gap>),
    /// Commands can read and write everything that this user can. Their environment is still filtered, and they are still killed at
    /// their end or time limit.
    None {
        /// Why there is no confinement, in plain words.
        reason: String,
    },
}

impl Confinement {
    /// Whether commands reach only the files that the policy grants, perhaps with gaps.
    #[must_use]
    pub fn confines_files(&self) -> bool {
        !matches!(self, Self::None { .. })
    }

    /// The gaps, if files are confined at all.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        match self {
            Self::Partial(gaps) => gaps,
            Self::Full | Self::None { .. } => &[],
        }
    }

    /// `full`, `partial` or `none`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial(_) => "partial",
            Self::None { .. } => "none",
        }
    }
}

/// Something that a partial confinement does not enforce. The error text describes what a command can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// There are no namespaces, so Landlock alone guards files, and it does not cover metadata.
    Metadata {
        /// Why the namespaces could not be created.
        reason: String,
    },
    /// There is no PID namespace that would end together with the supervisor.
    Survivors,
    /// The kernel's Landlock cannot scope signals, and there is no PID namespace.
    Signals,
    /// The kernel's Landlock cannot restrict the truncation of files, and there is no mount namespace.
    Truncation,
    /// The kernel's Landlock cannot restrict control requests to devices, and there is no mount namespace.
    Devices,
    /// The kernel has no Landlock; a mount namespace alone guards files.
    Landlock,
    /// System calls are not filtered on this processor.
    SystemCalls {
        /// Why the filter could not be installed.
        reason: String,
    },
    /// A path in the workspace that the policy makes read-only is writable.
    Writable(PathBuf),
    /// A path in the workspace that the policy hides is readable and writable.
    Visible(PathBuf),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata { reason } => write!(
                f,
                "commands can see names and sizes of files outside the workspace and change their modes, owners and times, because namespaces are not available ({reason})"
            ),
            Self::Survivors => f.write_str(
                "background processes of a command survive if its supervising process is killed with SIGKILL",
            ),
            Self::Signals => f.write_str("commands can send signals to your other processes"),
            Self::Truncation => f.write_str("commands can truncate files outside the workspace"),
            Self::Devices => {
                f.write_str("commands can send control requests to devices that they can already open")
            }
            Self::Landlock => {
                f.write_str("the kernel has no Landlock, so that a mount namespace alone guards files")
            }
            Self::SystemCalls { reason } => write!(f, "system calls are not filtered ({reason})"),
            Self::Writable(path) => write!(f, "commands can change {}", path.display()),
            Self::Visible(path) => write!(f, "commands can read and change {}", path.display()),
        }
    }
}

impl Gap {
    /// Whether this is the same gap, perhaps for a different reason.
    #[cfg(target_os = "linux")]
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Metadata { .. }, Self::Metadata { .. })
            | (Self::SystemCalls { .. }, Self::SystemCalls { .. }) => true,
            _ => self == other,
        }
    }

    /// The gap as two fields of the protocol between the processes of a sandbox.
    #[cfg(target_os = "linux")]
    pub(super) fn to_fields(&self) -> (u8, &OsStr) {
        match self {
            Self::Metadata { reason } => (0, reason.as_ref()),
            Self::Survivors => (1, OsStr::new("")),
            Self::Signals => (2, OsStr::new("")),
            Self::Truncation => (3, OsStr::new("")),
            Self::Devices => (4, OsStr::new("")),
            Self::Landlock => (5, OsStr::new("")),
            Self::SystemCalls { reason } => (6, reason.as_ref()),
            Self::Writable(path) => (7, path.as_os_str()),
            Self::Visible(path) => (8, path.as_os_str()),
        }
    }

    /// The inverse of `to_fields`.
    #[cfg(target_os = "linux")]
    pub(super) fn from_fields(kind: u8, detail: &OsStr) -> Option<Self> {
        let reason = || detail.to_string_lossy().into_owned();
        Some(match kind {
            0 => Self::Metadata { reason: reason() },
            1 => Self::Survivors,
            2 => Self::Signals,
            3 => Self::Truncation,
            4 => Self::Devices,
            5 => Self::Landlock,
            6 => Self::SystemCalls { reason: reason() },
            7 => Self::Writable(Path::new(detail).to_owned()),
            8 => Self::Visible(Path::new(detail).to_owned()),
            _ => return None,
        })
    }
}
