//! Opening a store by its location.

use std::{
    fs::{self, File},
    io,
};

use crate::{
    digest::Digester,
    error::{StoreError, StoreResult},
    files,
    jsonl::Jsonl,
    location::Location,
    memory::Memory,
    store::Store,
};

/// The purpose for which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Read an existing store. Nothing is created or changed.
    Read,
    /// Read and write. A missing store is created.
    #[default]
    Write,
}

/// How to open a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether the store may be written.
    pub access: Access,
    /// The function that derives the facts about entries.
    pub digester: Digester,
}

/// Opens a store. Its folder may be a symbolic link; links inside the folder are refused.
///
/// # Errors
/// [`StoreError::Missing`] if it is opened for reading and does not exist; otherwise the reason why it cannot be opened.
pub fn open(location: &Location, options: Options) -> StoreResult<Box<dyn Store>> {
    refuse_unreadable(location)?;
    Ok(match location {
        Location::Sqlite(path) => {
            files::check_database(path)?;
            files::check_index(&files::with_end(path, "-index"))?;
            Box::new(crate::sqlite::Sqlite::open(path, options)?)
        }
        Location::Jsonl(folder) => {
            files::check_index(&folder.join(".index"))?;
            Box::new(Jsonl::open(folder, options)?)
        }
        #[cfg(feature = "postgres")]
        Location::Postgres(address) => Box::new(crate::postgres::Postgres::open(address, options)?),
        #[cfg(not(feature = "postgres"))]
        Location::Postgres(_) => return Err(StoreError::Refused(String::from(NO_POSTGRES))),
        Location::Memory => Box::new(Memory::new(options.digester)),
    })
}

/// Reads the tables in which some chat bots keep their history: see `postgres/tables.rs`.
///
/// # Errors
/// If the database cannot be read, or has no such table.
pub fn each_history(address: &crate::location::Address, each: &mut dyn FnMut(String)) -> StoreResult<()> {
    #[cfg(feature = "postgres")]
    return crate::postgres::each_history(address, each);
    #[cfg(not(feature = "postgres"))]
    {
        let _ = (address, each);
        Err(StoreError::Refused(String::from(NO_POSTGRES)))
    }
}

/// The reason why this build cannot use a server.
#[cfg(not(feature = "postgres"))]
const NO_POSTGRES: &str = "this build of rejoin has no PostgreSQL (it needs the feature `postgres`)";

/// Refuses a database that this user may not read, and a pipe or a device in its place, which could block for ever. SQLite's own
/// error would not name the cause; and without its log, a database would seem to have lost entries.
fn refuse_unreadable(location: &Location) -> StoreResult<()> {
    let Location::Sqlite(path) = location else { return Ok(()) };
    for path in [path.clone(), files::with_end(path, "-wal")] {
        let looked = fs::metadata(&path).and_then(|metadata| match metadata {
            metadata if metadata.is_file() => File::open(&path).map(drop),
            metadata if metadata.is_dir() => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe or a device, not a file")),
        });
        match looked {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::Io { what: format!("opening {}", path.display()), why });
            }
            _ => {}
        }
    }
    Ok(())
}
