//! `xzatoma`: the database `history.db`. Every row of `conversations` is a conversation, and so is every run that came in over HTTP,
//! of which `acp_runs` holds the question and the answer.
//!
//! `database.rs` reads the tables, `message.rs` the messages in them; `write.rs` writes a conversation. The conversations of sub-agents are in another store, a folder
//! that the library `sled` writes; it is recognised and refused.

#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod message;
#[cfg(feature = "sqlite")]
mod write;

use super::{
    registry::{FilesReading, Reading},
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Files, Input, Stream},
    session::{ReadError, Session},
};

#[cfg(feature = "sqlite")]
pub(super) use write::write;

/// The name of the format.
pub(super) const FORMAT: &str = "xzatoma";

/// The text of a message with parts, which the parts hold as well.
pub(super) const KNOWN: &[Known] = &[Known::beside("content_parts", "content")];

const NO_TEXT: &str = "xzatoma keeps its conversations in a database, `history.db`; this is a text";

const SLED: &str = "this is a sled database, in which xzatoma keeps what its sub-agents said; only xzatoma can open it. The \
                    conversations themselves are in `history.db`, which can be read";

/// Refuses a text.
pub(super) fn read(_: &Input, _: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    Err(ReadError::NoConversation(NO_TEXT))
}

/// Refuses a text that comes as a stream.
pub(super) fn read_stream(_: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    Err(ReadError::NoConversation(NO_TEXT))
}

/// The store of the sub-agents, which is recognised so that it can be refused.
pub(super) const SUBAGENTS: FilesReading =
    FilesReading { root: folder_of_sled, owns: sled_owns, sniff: sniff_sled, read: refuse_sled };

fn folder_of_sled(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("conf")?;
    (folder.is_empty() || folder.ends_with('/')).then_some(folder)
}

fn sled_owns(path: &str) -> bool {
    ["conf", "db"].contains(&path) || path.starts_with("snap.") || path.starts_with("blobs/")
}

fn sniff_sled(files: &dyn Files) -> Option<Claim> {
    let has = |name: &str| files.paths().iter().any(|path| path == name);
    let is_sled = has("conf") && has("db");
    let settings =
        || files.read("conf").is_some_and(|conf| String::from_utf8_lossy(&conf).contains("segment_size"));
    Claim::likely(is_sled && settings(), "the files of a sled database")
}

fn refuse_sled(_: &dyn Files) -> Result<Vec<Session>, ReadError> {
    Err(ReadError::NoConversation(SLED))
}

/// Also reads the database.
pub(super) const fn and_databases(reading: Reading) -> Reading {
    #[cfg(feature = "sqlite")]
    let reading = reading.with_database(database::READING);
    reading
}
