//! Finds out whether a store can be written, by writing to it.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::{
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
    location::Location,
};

/// How many bytes are written to test a folder: more than a block, so that a full disk is noticed.
const BYTES: usize = 64 * 1024;

/// Writes to a store and undoes it. If there is no store, none is created: its folder is tested instead.
pub fn try_writing(location: &Location) -> StoreResult<()> {
    match location {
        Location::Sqlite(path) if files::is_there(path)? => {
            files::check_database(path)?;
            crate::sqlite::try_writing(&files::plain_name(path)?)
        }
        Location::Sqlite(path) => try_folder(path.parent().unwrap_or(Path::new(""))),
        Location::Jsonl(folder) => try_folder(folder),
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => crate::postgres::try_writing(address),
        #[cfg(not(feature = "postgres"))]
        Location::Postgres(_) => Ok(()),
        Location::Memory => Ok(()),
    }
}

/// Writes a file in a folder, or in the nearest existing folder above it, and removes it.
fn try_folder(folder: &Path) -> StoreResult<()> {
    let folder = existing(folder);
    let name = format!(".rejoin-{}", std::process::id());
    let failed = || StoreError::io(format!("writing to {}", folder.display()));
    let folder = PrivateFolder::new(&folder);
    // A killed process with the same id may have left such a file.
    let mut file = folder.remove(&name).and_then(|_| folder.make_new(&name)).map_err(failed())?;
    let written = file.write_all(&[0; BYTES]).and_then(|()| file.sync_all());
    drop(file);
    // Remove it, whether writing succeeded or not.
    let removed = folder.remove(&name).map(drop);
    written.and(removed).map_err(failed())
}

/// The folder itself, or the nearest existing one above it.
fn existing(folder: &Path) -> PathBuf {
    let found = folder.ancestors().find(|folder| folder.as_os_str().is_empty() || folder.exists());
    match found {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
