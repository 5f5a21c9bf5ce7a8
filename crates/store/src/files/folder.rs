//! A folder that belongs to rejoin, and in which no link is followed.
//!
//! The folder itself may be reached through links: users move their data to another disk that way. But rejoin puts no links into
//! it. A link in it comes from elsewhere: an unpacked archive, a cloned repository, another user of a shared folder. So every name
//! is opened relative to a handle of the folder (`handle.rs`), and anything but a regular file is refused.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    path::PathBuf,
};

use super::handle::{Handle, OpenMode};
use crate::error::{StoreError, StoreResult};

/// A folder that only rejoin writes to. Links in it are never followed: opening a name that belongs to a link, a pipe, a device or
/// a folder is an error that names the kind.
///
/// Only the path is kept. The folder is opened for each operation, so that a removed folder is noticed. An operation fails if the
/// system refuses it.
#[derive(Debug, Clone)]
pub struct PrivateFolder {
    /// The outermost folder. It may be a link.
    outer: PathBuf,
    /// The name of a folder inside it, if this value means that one. It must not be a link.
    inner: Option<OsString>,
}

impl PrivateFolder {
    /// The folder at a path. The path may lead through links.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let outer = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        Self { outer, inner: None }
    }

    /// The folder at a path. The last part of the path must not be a link.
    pub fn inside(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        match (path.parent(), path.file_name()) {
            (Some(outer), Some(name)) => Self { inner: Some(name.to_owned()), ..Self::new(outer) },
            _ => Self::new(path),
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> PathBuf {
        self.inner.as_ref().map_or_else(|| self.outer.clone(), |inner| self.outer.join(inner))
    }

    /// The path of a name in it, only for display: opening it would follow links.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path().join(name.as_ref())
    }

    /// Whether the outer folder exists.
    pub(crate) fn has_outer(&self) -> bool {
        self.outer.is_dir()
    }

    /// Creates the folder inside the store's folder. That folder existed when the store was opened; if it is gone, it was removed
    /// on purpose and is not created again.
    pub(crate) fn make_beside_store(&self) -> StoreResult<()> {
        if !self.has_outer() {
            return Err(StoreError::Missing(self.outer.clone()));
        }
        self.make().map_err(StoreError::io(format!("making the folder {}", self.path().display())))
    }

    /// Creates the folder and those above it. Only their owner can read them, and each is durable in the one above. An existing
    /// folder is left unchanged.
    pub fn make(&self) -> io::Result<()> {
        super::make_folders(&self.outer)?;
        let Some(inner) = &self.inner else { return Ok(()) };
        let outer = Handle::of(&self.outer)?;
        match outer.folder(inner) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            found => return found.map(drop),
        }
        if outer.make_folder(inner)?
            && let Err(why) = outer.sync()
        {
            // Remove it, so that the next attempt creates and syncs it again.
            let _ = outer.remove_folder(inner);
            return Err(why);
        }
        outer.folder(inner).map(drop)
    }

    fn handle(&self) -> io::Result<Handle> {
        let outer = Handle::of(&self.outer)?;
        match &self.inner {
            Some(inner) => outer.folder(inner),
            None => Ok(outer),
        }
    }

    /// Opens a file for reading.
    pub fn open(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.handle()?.open(name.as_ref(), OpenMode::Read)
    }

    /// Opens a file for reading and appending. If `make` is set, a missing file is created.
    pub fn open_to_append(&self, name: impl AsRef<OsStr>, make: bool) -> io::Result<File> {
        self.handle()?.open(name.as_ref(), if make { OpenMode::AppendOrMake } else { OpenMode::Append })
    }

    /// Opens a file for reading and writing, or creates it.
    pub(crate) fn open_or_make(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.handle()?.open(name.as_ref(), OpenMode::WriteOrMake)
    }

    /// Creates a file that must not exist yet and that only its owner can read.
    pub fn make_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.handle()?.open(name.as_ref(), OpenMode::MakeNew)
    }

    /// Reads a file, up to `limit` bytes; `None` if it does not exist.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.open(name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a file so that readers see either the old or the new one, whole, even after a crash. A link with that name is
    /// replaced, never followed.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes, |folder, beside| folder.rename(OsStr::new(beside), OsStr::new(name)))
    }

    /// Writes a new file, whole or not at all.
    pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes, |folder, beside| folder.rename_new(OsStr::new(beside), OsStr::new(name)))
    }

    fn put(
        &self,
        name: &str,
        bytes: &[u8],
        publish: impl FnOnce(&Handle, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let folder = self.handle()?;
        let (beside, mut file) = new_beside(&folder, name)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let published = written.and_then(|()| publish(&folder, &beside));
        if published.is_err() {
            let _ = folder.remove(OsStr::new(&beside));
        }
        published.and_then(|()| folder.sync())
    }

    /// Renames a file, replacing any file that has the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.handle()?.rename(OsStr::new(from), OsStr::new(to))
    }

    /// Renames a file. The new name must be free.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.handle()?.rename_new(OsStr::new(from), OsStr::new(to))
    }

    /// Removes a name; if it is a link, its target stays. Returns false if there was none.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        let removed = self.handle().and_then(|folder| folder.remove(name.as_ref()));
        match removed {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    /// Whether a name refers to an open file.
    pub(crate) fn is_named(&self, file: &File, name: &str) -> bool {
        self.handle().is_ok_and(|folder| folder.is_named(file, OsStr::new(name)))
    }

    /// Whether a name exists, including a broken link.
    pub fn has(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        self.handle()?.has(name.as_ref())
    }

    /// Every name in the folder, in no particular order; empty if the folder does not exist.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        match self.handle() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            folder => folder?.names(),
        }
    }

    /// Makes the names in the folder durable.
    pub fn sync(&self) -> io::Result<()> {
        self.handle()?.sync()
    }
}

/// Creates a file next to another one, under a free name that begins with the other's name, so that it is found when leftovers are
/// removed.
fn new_beside(folder: &Handle, name: &str) -> io::Result<(String, File)> {
    for number in 0_u32.. {
        let beside = format!("{name}.part-{}-{number}", std::process::id());
        match folder.open(OsStr::new(&beside), OpenMode::MakeNew) {
            // A killed process left a file with this name.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
            file => return file.map(|file| (beside, file)),
        }
    }
    unreachable!("BUG: the loop returns")
}
