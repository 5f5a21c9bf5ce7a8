//! Finds out which files belong to a store, under any name.
//!
//! A model that may read the working folder must not read a store through a hard link in it. A hard link has the same inode as the file,
//! so inodes are compared.

use std::{
    fs::{self, DirEntry, File},
    io,
    path::{Path, PathBuf},
};

use rejoin_record::ConversationId;

use super::{above, identity};
use crate::location::Location;

/// The endings of the names of files beside a database.
const BESIDE: [&str; 11] = [
    "-wal",
    "-shm",
    "-journal",
    "-index",
    ".backup",
    ".making",
    ".mending",
    ".salvage-",
    ".aside",
    ".drafts",
    ".locks",
];

/// Folders in a folder of conversations.
const INNER: [&str; 3] = ["aside", "drafts", ".locks"];

/// Whether an open file belongs to a store: to its record, logs, index, copies, drafts or locks. On systems without inodes the answer is
/// always no.
pub fn belongs_to(location: &Location, file: &File) -> io::Result<bool> {
    let wanted = identity(&file.metadata()?);
    let folder = match location {
        Location::Sqlite(path) => above(path),
        Location::Jsonl(folder) => folder,
        Location::Memory => return Ok(false),
    };
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_name_of(location, name)) else { continue };
        if entry.file_type()?.is_dir() {
            folders.push(folder.join(name));
        } else if is(&entry, wanted) {
            return Ok(true);
        }
    }
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            if is(&entry?, wanted) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a name in a store's folder is one that the store uses.
fn is_name_of(location: &Location, name: &str) -> bool {
    match location {
        Location::Sqlite(path) => {
            let own = path.file_name().and_then(|own| own.to_str());
            let rest = own.and_then(|own| name.strip_prefix(own));
            rest.is_some_and(|rest| rest.is_empty() || BESIDE.iter().any(|end| rest.starts_with(end)))
        }
        Location::Jsonl(_) => {
            let id = |name: &str| name.parse::<ConversationId>().is_ok();
            INNER.contains(&name)
                || name.starts_with(".index")
                || Path::new(name.trim_start_matches('.'))
                    .file_stem()
                    .is_some_and(|stem| stem.to_str().is_some_and(id))
        }
        Location::Memory => false,
    }
}

/// Whether an entry of a folder is this file. Its inode is compared first, because asking for the device costs a call to the system.
fn is(entry: &DirEntry, wanted: super::Identity) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::fs::DirEntryExt::ino(entry) == wanted.1
            && entry.metadata().is_ok_and(|metadata| identity(&metadata) == wanted)
    }
    #[cfg(not(unix))]
    {
        let _ = (entry, wanted);
        false
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
