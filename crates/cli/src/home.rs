//! Where rejoin keeps its own things: the folder for data and the file with settings.
//!
//! `REJOIN_HOME` moves everything into one folder. Otherwise the folders are those that the desktop standard names:
//! `$XDG_DATA_HOME/rejoin` and `$XDG_CONFIG_HOME/rejoin`, in the home folder if these are not set.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rejoin::{
    engine::{Clock as _, SystemClock},
    store::{
        Location,
        files::{self, PrivateFolder},
    },
};

use crate::failure::Failure;

/// The file in the data folder with the secret behind the hashes of `history calls`.
pub const CALLS_KEY: &str = "calls.key";

/// rejoin's own folders.
#[derive(Debug, Clone)]
pub struct Home {
    /// The folder for data.
    pub data: PathBuf,
    /// The file with settings.
    pub config: PathBuf,
}

impl Home {
    /// As the environment says.
    pub fn from_environment() -> Result<Self, Failure> {
        if let Some(folder) = variable("REJOIN_HOME") {
            // Whoever changes folders later still means the same one.
            let folder = std::path::absolute(&folder).unwrap_or(folder);
            return Ok(Self { config: folder.join("config.toml"), data: folder });
        }
        let below = |name: &str, otherwise: &str| {
            // The standard has a relative path ignored.
            let set = variable(name).filter(|path| path.is_absolute());
            let folder = set.or_else(|| Some(env::home_dir()?.join(otherwise)));
            folder.map(|folder| folder.join("rejoin")).ok_or_else(|| Failure::Usage {
                what: String::from("there is no home folder to keep conversations in"),
                hint: Some(String::from("set REJOIN_HOME to a folder")),
            })
        };
        Ok(Self {
            data: below("XDG_DATA_HOME", ".local/share")?,
            config: below("XDG_CONFIG_HOME", ".config")?.join("config.toml"),
        })
    }

    /// The store that is used if none is named.
    pub fn store(&self) -> Location {
        Location::Sqlite(self.data.join("rejoin.db"))
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Reads a small file of our own.
pub fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    files::read_small(path, OWN_BYTES)
}

/// The largest file of our own: settings, pointers, keys and addresses are a few kilobytes.
const OWN_BYTES: u64 = 16 * 1024 * 1024;

/// Creates a folder that only its owner can look into, and those above it, each durable in the one above.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    PrivateFolder::new(folder).make()
}

/// Makes the names in the folder of a file durable. Where a folder cannot be opened, the system sees to it.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        // Some file systems cannot sync a folder, and say so.
        Err(why) if matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Makes a new file that only its owner can read.
pub fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes a file so that whoever looks sees the old one or the new one, whole, also after a crash.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays a link: what it points to is written.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let beside = beside(&path);
    let written = new_file(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    });
    let moved = written.and_then(|()| fs::rename(&beside, &path));
    if moved.is_err() {
        let _ = fs::remove_file(&beside);
    }
    moved?;
    // The new name lasts once the folder is on the disk.
    let _ = sync_folder_of(&path);
    Ok(())
}

/// Writes a new file, whole or not at all. An error if there is one of that name already: nothing is overwritten.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_folder(path.parent().unwrap_or(Path::new(".")))?;
    let beside = beside(path);
    let mut file = new_file(&beside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| fs::hard_link(&beside, path));
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // A file system without links.
            let mut file = new_file(path)?;
            file.write_all(bytes).and_then(|()| file.sync_all())
        }
        linked => linked,
    }
    .and_then(|()| sync_folder_of(path))
}

/// A name beside a file that nobody else uses, nor a process that was killed before.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let now = SystemClock.now().as_microsecond();
    path.with_file_name(format!(".{name}.{}-{now}.new", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/file");
        replace(&path, b"one").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            replace(&path, b"two").unwrap();
            assert_eq!(mode(&path), 0o644);
        }
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_is_created_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file");
        create(&path, b"first").unwrap();
        assert_eq!(create(&path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }
}
