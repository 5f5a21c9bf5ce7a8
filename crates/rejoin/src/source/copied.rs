//! Copies another program's database together with its log, and reads the copy. The original is only read as a file and never
//! opened as a database, so a program that writes to it is never locked out, and nothing is changed or left beside it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rejoin_formats::{
    ReadError, Session,
    accounting::FileShape,
    sessions::{self, Format},
};
use tempfile::TempDir;

use super::ByteSource;

/// How often a database that changes while it is copied is copied again.
const ATTEMPTS: usize = 5;

/// The length of a database's header. The header counts the changes.
const HEADER: u64 = 100;
/// The length of a log's header. The header differs from one log to the next.
const LOG_HEADER: u64 = 32;

/// The file name of the copy.
const COPY: &str = "copy.db";

/// Reads the conversations in the database at a path.
pub fn read(path: &Path, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    let copy = copy(path).map_err(|why| ReadError::Io(why.to_string()))?;
    open(&path.to_string_lossy(), &copy, format)
}

/// Reads the conversations in a database that comes from a pipe or a packed file.
pub fn read_stream(
    name: &str,
    source: ByteSource,
    format: Option<&'static Format>,
) -> Result<Vec<Session>, ReadError> {
    open(name, &saved(source)?, format)
}

/// The shape of the database at a path.
pub fn shape(path: &Path) -> Result<FileShape, ReadError> {
    let copy = copy(path).map_err(|why| ReadError::Io(why.to_string()))?;
    describe(&path.to_string_lossy(), &copy)
}

/// The shape of a database that comes from a pipe or a packed file.
pub fn shape_of_stream(name: &str, source: ByteSource) -> Result<FileShape, ReadError> {
    describe(name, &saved(source)?)
}

fn describe(name: &str, folder: &TempDir) -> Result<FileShape, ReadError> {
    let path = folder.path().join(COPY);
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let database = sessions::Database::open(name, &path)?;
    Ok(FileShape::of_database(usize::try_from(bytes).unwrap_or(usize::MAX), &database))
}

/// Saves a database that comes from a pipe or a packed file.
fn saved(mut source: ByteSource) -> Result<TempDir, ReadError> {
    let saved = folder().and_then(|folder| {
        io::copy(&mut source, &mut File::create(folder.path().join(COPY))?)?;
        Ok(folder)
    });
    saved.map_err(|why| ReadError::Io(why.to_string()))
}

fn open(name: &str, folder: &TempDir, format: Option<&'static Format>) -> Result<Vec<Session>, ReadError> {
    let database = sessions::Database::open(name, &folder.path().join(COPY))?;
    sessions::read_database(&database, format).map_err(|error| match error {
        ReadError::UnknownFormat => {
            ReadError::NoConversation("it is a database of a program whose tables rejoin does not know")
        }
        error => error,
    })
}

/// Creates a folder that only its owner can read. It is removed when the result is dropped.
fn folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("rejoin-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o700));
    }
    builder.tempdir()
}

/// Copies a database and its log. The log may grow meanwhile: its pages carry checksums, so SQLite ignores a last page that is
/// incomplete. But if the database itself changed or the log was restarted, the two copies may not fit together, so they are made
/// again.
fn copy(path: &Path) -> io::Result<TempDir> {
    let folder = folder()?;
    let target = folder.path().join(COPY);
    for _ in 0..ATTEMPTS {
        let before = State::of(path)?;
        fs::copy(path, &target)?;
        for ending in ["-wal", "-journal"] {
            let copied = beside(&target, ending);
            match fs::copy(beside(path, ending), &copied) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::remove_file(&copied) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                    _ => {}
                },
                copied => drop(copied?),
            }
        }
        if State::of(path)? == before {
            // The copy of a read-only file is read-only, too, but SQLite must write to it to apply the log.
            #[cfg(unix)]
            for entry in fs::read_dir(folder.path())? {
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o600))?;
            }
            return Ok(folder);
        }
    }
    let why =
        format!("it changed each of {ATTEMPTS} times while it was copied; close the program that uses it");
    Err(io::Error::other(why))
}

/// The facts that differ if a database or its log was changed.
#[derive(Debug, PartialEq, Eq)]
struct State {
    size: u64,
    modified: Option<SystemTime>,
    header: Vec<u8>,
    log: Vec<u8>,
}

impl State {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let log = match beginning(&beside(path, "-wal"), LOG_HEADER) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
            log => log?,
        };
        let header = beginning(path, HEADER)?;
        Ok(Self { size: metadata.len(), modified: metadata.modified().ok(), header, log })
    }
}

fn beginning(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut header)?;
    Ok(header)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
