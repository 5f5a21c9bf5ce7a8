//! Opens paths inside one folder, and never outside of it, even if folders are replaced by links meanwhile.
//!
//! A path that is checked and then opened may lead elsewhere in between. So nothing is checked first: on Unix the folder is held
//! open, and a path is walked from that handle (`unix.rs`). Links are followed as long as they stay inside. On systems without such
//! handles, paths are checked before and after opening (`by_path.rs`), which a change at the right moment can defeat.
//!
//! Every tool that touches files goes through [`Beneath`]; [`Hidden`] says which files in the folder tools may not see.

#[cfg(not(unix))]
mod by_path;
mod hidden;
#[cfg(unix)]
mod unix;

use std::{
    ffi::OsString,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

#[cfg(not(unix))]
use self::by_path::Root;
pub(super) use self::hidden::Hidden;
#[cfg(unix)]
use self::unix::Root;

/// Why a path was not opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// It leads out of the folder. Whether such a path exists is not revealed.
    #[error("it is outside of the working folder, or a link on the way leads out of it")]
    Outside,
    /// It is a folder, a pipe or a device.
    #[error("it is not a file")]
    NotAFile,
    /// The working folder itself cannot be opened.
    #[error("the working folder cannot be opened: {0}")]
    NoFolder(io::Error),
    /// The system refused, about something inside the folder.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A folder that tools may look into. Clones share the handle.
#[derive(Debug, Clone)]
pub(super) struct Beneath {
    folder: PathBuf,
    /// Opened as soon as possible, and kept: like that of a process, the working folder stays the same folder when it is renamed.
    root: Arc<OnceLock<Root>>,
}

/// An open file inside the folder. It is a regular file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// Where it was found.
    #[cfg(not(unix))]
    path: PathBuf,
}

impl Beneath {
    /// The folder at a path, which may lead through links.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let beneath = Self { folder, root: Arc::default() };
        // If it does not exist yet, the tool that needs it fails.
        let _ = beneath.root();
        beneath
    }

    fn root(&self) -> Result<&Root, Refused> {
        if self.root.get().is_none() {
            let folder =
                if self.folder.as_os_str().is_empty() { Path::new(".") } else { self.folder.as_path() };
            let root = Root::open(folder).map_err(Refused::NoFolder)?;
            let _ = self.root.set(root);
        }
        Ok(self.root.get().expect("BUG: it was just set"))
    }

    /// A path relative to the folder. An absolute path is accepted if it begins with the folder's own.
    fn relative<'p>(&self, root: &Root, path: &'p str) -> Result<&'p Path, Refused> {
        let path = Path::new(path);
        if !path.has_root() && !path.is_absolute() {
            return Ok(path);
        }
        let named = std::path::absolute(&self.folder).ok();
        let names = [Some(root.path()), named.as_deref()];
        names.into_iter().flatten().find_map(|name| path.strip_prefix(name).ok()).ok_or(Refused::Outside)
    }

    /// Opens a regular file to be read. A pipe is not waited for.
    pub(super) fn open_file(&self, path: &str) -> Result<Opened, Refused> {
        let root = self.root()?;
        let opened = root.open_file(self.relative(root, path)?)?;
        if opened.file.metadata()?.is_file() { Ok(opened) } else { Err(Refused::NotAFile) }
    }

    /// Hands out the names in a folder, in no order.
    pub(super) fn each_name(&self, path: &str, each: &mut dyn FnMut(OsString)) -> Result<(), Refused> {
        let root = self.root()?;
        root.each_name(self.relative(root, path)?, each)
    }

    /// Whether a name in a folder is that of a folder, or of a link to one that stays inside.
    pub(super) fn is_folder(&self, path: &str, name: &str) -> bool {
        let Ok(root) = self.root() else { return false };
        self.relative(root, path).is_ok_and(|path| root.is_folder(&path.join(name)))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
