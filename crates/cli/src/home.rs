//! rejoin's own places: the data folder and the settings file.
//!
//! `REJOIN_HOME` moves everything into one folder. Otherwise the folders are those of the desktop standard: `$XDG_DATA_HOME/rejoin`
//! and `$XDG_CONFIG_HOME/rejoin`, or their defaults in the home folder.

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rejoin::{
    places::Machine,
    store::{Location, files::PrivateFolder},
};

use crate::failure::Failure;

/// rejoin's own folders.
#[derive(Debug, Clone)]
pub struct Home {
    pub data: PathBuf,
    pub config: PathBuf,
}

impl Home {
    /// Finds the folders from the environment.
    pub fn from_environment() -> Result<Self, Failure> {
        if let Some(folder) = variable("REJOIN_HOME") {
            // Make it absolute, so that it stays the same folder if the process changes its working folder.
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            return Ok(Self { config: folder.join("config.toml"), data: folder });
        }
        let below = |name: &str, otherwise: &str| {
            // The standard says that relative paths are ignored.
            let set = variable(name).filter(|path| path.is_absolute());
            let folder = set.or_else(|| Some(env::home_dir()?.join(otherwise)));
            folder.map(|folder| folder.join("rejoin")).ok_or_else(|| {
                Failure::usage(
                    "there is no home folder to keep conversations in",
                    "set REJOIN_HOME to a folder",
                )
            })
        };
        Ok(Self {
            data: below("XDG_DATA_HOME", ".local/share")?,
            config: below("XDG_CONFIG_HOME", ".config")?.join("config.toml"),
        })
    }

    pub fn store(&self) -> Location {
        Location::Sqlite(self.data.join("rejoin.db"))
    }

    /// The folder for data that stores on servers keep on this machine.
    pub fn beside_servers(&self) -> PathBuf {
        self.data.join("postgres")
    }
}

/// This machine, with everything that the places of other agents depend on.
pub fn machine() -> Machine {
    Machine::new(env::home_dir(), PathBuf::from("."), |name| env::var_os(name))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes the names in the folder of a file durable. Systems that cannot open a folder do this on their own.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let Ok(folder) = File::open(folder_of(path)) else { return Ok(()) };
    match folder.sync_all() {
        // Ignore the error of file systems that cannot sync a folder.
        Err(why) if matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// What happens to a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfFileExists {
    /// It is replaced; the new file gets its permissions.
    Replace,
    /// It stays, and writing fails.
    Keep,
}

/// Writes a file as [`write`] does, and creates the folders above it, which only their owner can open.
pub fn write_with_folders(path: &Path, bytes: &[u8], existing: IfFileExists) -> io::Result<()> {
    PrivateFolder::new(folder_of(path)).make()?;
    write(path, bytes, existing)
}

/// Writes a file next to its place and then renames it, so that a reader sees either the old or the new file, whole, even after a
/// crash. Only its owner can read a new file.
pub fn write(path: &Path, bytes: &[u8], existing: IfFileExists) -> io::Result<()> {
    let old = path.metadata().ok();
    if old.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // A link stays a link: its target is replaced.
    let path = if old.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let folder = folder_of(&path);
    fs::metadata(folder)?;
    let beside = tempfile::Builder::new().prefix(".rejoin-").tempfile_in(folder);
    // Drop the name from the error: the user never chose the temporary file.
    let mut beside = beside.map_err(|error| io::Error::from(error.kind()))?;
    beside.write_all(bytes)?;
    if let Some(old) = &old {
        beside.as_file().set_permissions(old.permissions())?;
    }
    beside.as_file().sync_all()?;
    let moved = match existing {
        IfFileExists::Replace => beside.persist(&path),
        IfFileExists::Keep => beside.persist_noclobber(&path),
    };
    moved.map_err(|error| error.error)?;
    sync_folder_of(&path)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/file");
        let replace = |bytes: &[u8]| write_with_folders(&path, bytes, IfFileExists::Replace).unwrap();
        replace(b"one");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            replace(b"two");
            assert_eq!(mode(&path), 0o644);
        }
        replace(b"three");
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_is_created_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file");
        let create = |bytes: &[u8]| write_with_folders(&path, bytes, IfFileExists::Keep);
        create(b"first").unwrap();
        assert_eq!(create(b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }
}
