//! Finds out which files belong to a store, under any name.
//!
//! A model that may read the working folder must not read a store through a hard link in it. A hard link has the same inode as the
//! original, so inodes are compared.

use std::{
    fs::{self, DirEntry, File},
    io,
    path::{Path, PathBuf},
};

use rejoin_record::ConversationId;

use super::{above, identity};
use crate::location::Location;

/// How the names of files next to a database end.
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

/// The folders inside a folder of conversations.
const INNER: [&str; 3] = ["aside", "drafts", ".locks"];

/// Whether an open file belongs to a store: to its record, logs, index, copies, drafts or locks. Always false on systems without
/// inodes.
pub fn belongs_to(location: &Location, file: &File) -> io::Result<bool> {
    let wanted = identity(&file.metadata()?);
    let mut found = false;
    each_own(location, &mut |entry| {
        found = found || is(entry, wanted);
        !found
    })?;
    Ok(found)
}

/// The inodes of all files of a store, for checking many files at once. A file with one of these numbers may be on another device,
/// and files may have been added since, so [`belongs_to`] decides.
///
/// # Errors
/// If a folder of the store cannot be read.
#[cfg(unix)]
pub fn inodes(location: &Location) -> io::Result<Vec<u64>> {
    let mut inodes = Vec::new();
    each_own(location, &mut |entry| {
        inodes.push(std::os::unix::fs::DirEntryExt::ino(entry));
        true
    })?;
    Ok(inodes)
}

/// Whether a new file would belong to a store. The file is given by an existing folder (its device and inode) and the names that
/// lead from there to the file; the folders among them do not exist yet.
///
/// # Errors
/// If the store's folder cannot be read.
pub fn would_belong_to(location: &Location, folder: (u64, u64), names: &[&str]) -> io::Result<bool> {
    let Some(home) = home(location) else { return Ok(false) };
    let is_own = |name: &&str| is_name_of(location, name) || is_name_of(location, &name.to_lowercase());
    let home = std::path::absolute(home)?;
    for above in home.ancestors() {
        if !fs::metadata(above).is_ok_and(|found| identity(&found) == folder) {
            continue;
        }
        let way: Vec<_> = home.strip_prefix(above).unwrap_or(Path::new("")).iter().collect();
        let leads = names.len() > way.len() && way.iter().zip(names).all(|(one, other)| *one == *other);
        return Ok(leads && names.get(way.len()).is_some_and(is_own));
    }
    let entries = match fs::read_dir(&home) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let inner = entry.file_name().to_str().is_some_and(|name| is_own(&name));
        if inner && entry.metadata().is_ok_and(|found| found.is_dir() && identity(&found) == folder) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The folder that contains a store.
fn home(location: &Location) -> Option<&Path> {
    match location {
        Location::Sqlite(path) => Some(above(path)),
        Location::Jsonl(folder) => Some(folder),
        Location::Postgres(address) => address.beside(),
        Location::Memory => None,
    }
}

/// Passes every file of a store to `more`, until that returns false.
fn each_own(location: &Location, more: &mut dyn FnMut(&DirEntry) -> bool) -> io::Result<()> {
    let Some(folder) = home(location) else { return Ok(()) };
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_name_of(location, name)) else { continue };
        if entry.file_type()?.is_dir() {
            folders.push(folder.join(name));
        } else if !more(&entry) {
            return Ok(());
        }
    }
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            if !more(&entry?) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether the store uses a name in its folder.
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
        // The whole folder belongs to the store.
        Location::Postgres(_) => true,
        Location::Memory => false,
    }
}

/// Whether a directory entry is this file. Its inode is compared first, because reading the device takes a system call.
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
