//! Where rejoin keeps its own things: the folder for data and the file with settings.
//!
//! `REJOIN_HOME` moves everything into one folder. Otherwise the folders are those that the desktop standard names:
//! `$XDG_DATA_HOME/rejoin` and `$XDG_CONFIG_HOME/rejoin`, in the home folder if these are not set.

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

/// The file in the data folder with the key for the hashes of `history calls`.
pub const CALLS_KEY: &str = "calls.key";

/// rejoin's own folders.
#[derive(Debug, Clone)]
pub struct Home {
    pub data: PathBuf,
    pub config: PathBuf,
}

impl Home {
    /// Finds the folders by the environment.
    pub fn from_environment() -> Result<Self, Failure> {
        if let Some(folder) = variable("REJOIN_HOME") {
            // It stays the same folder if we change folders later.
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            return Ok(Self { config: folder.join("config.toml"), data: folder });
        }
        let below = |name: &str, otherwise: &str| {
            // The standard has a relative path ignored.
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

    /// The folder for what a store on a server keeps on this machine.
    pub fn beside_servers(&self) -> PathBuf {
        self.data.join("postgres")
    }
}

/// This machine, as far as the places of other agents depend on it.
pub fn machine() -> Machine {
    Machine::new(env::home_dir(), PathBuf::from("."), |name| env::var_os(name))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes the names in the folder of a file durable. Systems that cannot open a folder do so themselves.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let Ok(folder) = File::open(folder_of(path)) else { return Ok(()) };
    match folder.sync_all() {
        // Some file systems cannot sync a folder, and say so.
        Err(why) if matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// What happens to a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The new file replaces it, with the same permissions.
    Replaced,
    /// It stays, and writing fails.
    Kept,
}

/// Writes a file as [`write`] does, and the folders above it, which only their owner can open.
pub fn write_with_folders(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    PrivateFolder::new(folder_of(path)).make()?;
    write(path, bytes, existing)
}

/// Writes a file beside the place and moves it there, so that a reader sees the old one or the new one, whole, also after a
/// crash. If it is new, only its owner can read it.
pub fn write(path: &Path, bytes: &[u8], existing: Existing) -> io::Result<()> {
    let old = path.metadata().ok();
    if old.as_ref().is_some_and(fs::Metadata::is_dir) {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    // A link stays a link: what it points to is replaced.
    let path = if old.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let folder = folder_of(&path);
    fs::metadata(folder)?;
    let beside = tempfile::Builder::new().prefix(".rejoin-").tempfile_in(folder);
    // Its error names the temporary file, which the user never chose.
    let mut beside = beside.map_err(|error| io::Error::from(error.kind()))?;
    beside.write_all(bytes)?;
    if let Some(old) = &old {
        beside.as_file().set_permissions(old.permissions())?;
    }
    beside.as_file().sync_all()?;
    let moved = match existing {
        Existing::Replaced => beside.persist(&path),
        Existing::Kept => beside.persist_noclobber(&path),
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
        let replace = |bytes: &[u8]| write_with_folders(&path, bytes, Existing::Replaced).unwrap();
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
        let create = |bytes: &[u8]| write_with_folders(&path, bytes, Existing::Kept);
        create(b"first").unwrap();
        assert_eq!(create(b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }
}
