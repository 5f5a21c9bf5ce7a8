//! Opens paths inside one folder and never outside, even if links replace folders meanwhile.
//!
//! A path that is checked and then opened may lead elsewhere in between. So nothing is checked beforehand: on Unix the folder is
//! held open, and the path is walked from that handle (`unix.rs`). Links are followed as long as they stay inside. Systems without
//! such handles check paths before and after opening (`by_path.rs`), which a change at the right moment can defeat.
//!
//! Every tool that touches files uses [`Beneath`]; [`Hidden`] lists the files in the folder that tools must not see. Changes are
//! made through a [`Spot`]: an open folder and a name in it (`spot.rs`).

#[cfg(not(unix))]
mod by_path;
mod hidden;
#[cfg(unix)]
mod spot;
#[cfg(not(unix))]
mod spot_by_path;
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
pub(super) use self::by_path::Folder;
#[cfg(not(unix))]
use self::by_path::Root;
pub(super) use self::hidden::{Hidden, HiddenNow};
#[cfg(unix)]
use self::spot::MadeFolder;
#[cfg(unix)]
pub(super) use self::spot::Spot;
#[cfg(not(unix))]
use self::spot_by_path::MadeFolder;
#[cfg(not(unix))]
pub(super) use self::spot_by_path::Spot;
#[cfg(unix)]
pub(super) use self::unix::Folder;
#[cfg(unix)]
use self::unix::Root;

/// How the names of temporary files begin and end, around 32 random hexadecimal digits.
const TEMPORARY: (&str, &str) = (".rejoin-", ".tmp");

/// A temporary file next to the file that it will become. It is removed when dropped, unless [`Temporary::leave`] was called.
#[derive(Debug)]
pub(super) struct Temporary<'s> {
    spot: &'s Spot,
    pub(super) file: File,
    name: String,
    kept: bool,
}

impl Temporary<'_> {
    /// Returns the temporary name, and does not remove the file that has it.
    pub(super) fn leave(mut self) -> String {
        self.kept = true;
        self.name.clone()
    }
}

/// Folders that were created for a file. They are removed again when dropped, if they are empty and not kept.
#[derive(Debug, Default)]
pub(super) struct MadeFolders {
    made: Vec<MadeFolder>,
}

impl MadeFolders {
    /// Keeps the folders.
    pub(super) fn keep(mut self) {
        self.made.clear();
    }
}

/// Why a tool does not open or change a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathRefused {
    /// It leads out of the folder. The error does not reveal whether such a path exists.
    #[error("it is outside of the working folder, or a link on the way leads out of it")]
    Outside,
    /// It is not a regular file but a folder, a pipe or a device.
    #[error("it is not a file")]
    NotAFile,
    /// It is inside `.git`, where files name commands that git runs later.
    #[error("it is part of a `.git` folder, whose hooks and settings run commands: tools do not change it")]
    Git,
    /// It is one of rejoin's own files or holds keys, or a new file there would.
    #[error("it is one of rejoin's own files or holds keys: tools do not show or change it")]
    Hidden,
    /// The file has several names. Replacing it would silently separate them; writing into it would change it under all of them.
    #[error(
        "it is a hard link: the file has {0} names, and a change would separate them or reach the others"
    )]
    HardLinked(u64),
    /// The name cannot be written as text, so it cannot be recorded.
    #[error("its name, or that of a folder on the way, is not UTF-8")]
    NotUtf8,
    /// The file is larger than the limit for changes.
    #[error("it has {size} bytes, and tools change files of at most {limit} bytes")]
    TooLarge {
        /// The size of the file in bytes.
        size: u64,
        /// The most bytes that tools change.
        limit: u64,
    },
    /// The working folder itself cannot be opened.
    #[error("the working folder cannot be opened: {0}")]
    NoFolder(io::Error),
    /// The system refused an operation inside the folder.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: EntryKind,
    /// The inode of the file; 0 on systems without inodes.
    pub(super) inode: u64,
}

/// The kind of file that a name belongs to. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link.
    Link,
    /// A pipe, a socket or a device.
    Special,
}

/// A folder that tools may look into. Clones share the handle.
#[derive(Debug, Clone)]
pub(super) struct Beneath {
    folder: PathBuf,
    /// Opened once and kept open, so that it stays the same folder when it is renamed, like the working folder of a process.
    root: Arc<OnceLock<Root>>,
}

/// An open file inside the folder. It is a regular file.
#[derive(Debug)]
pub(super) struct OpenFileBeneath {
    pub(super) file: File,
    /// The path under which it was found.
    #[cfg(not(unix))]
    path: PathBuf,
}

impl Beneath {
    /// The folder at a path, which may lead through links.
    pub(super) fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let beneath = Self { folder, root: Arc::default() };
        // If it does not exist yet, the tool that needs it reports the error.
        let _ = beneath.root();
        beneath
    }

    fn root(&self) -> Result<&Root, PathRefused> {
        if self.root.get().is_none() {
            let folder =
                if self.folder.as_os_str().is_empty() { Path::new(".") } else { self.folder.as_path() };
            let root = Root::open(folder).map_err(PathRefused::NoFolder)?;
            let _ = self.root.set(root);
        }
        Ok(self.root.get().expect("BUG: it was just set"))
    }

    /// The path of the folder without links; `None` if it cannot be opened.
    pub(super) fn path(&self) -> Option<&Path> {
        Some(self.root().ok()?.path())
    }

    /// A path relative to the folder. An absolute path is accepted if it begins with the folder's own.
    fn relative<'p>(&self, root: &Root, path: &'p str) -> Result<&'p Path, PathRefused> {
        let path = Path::new(path);
        if !path.has_root() && !path.is_absolute() {
            return Ok(path);
        }
        let named = std::path::absolute(&self.folder).ok();
        let names = [Some(root.path()), named.as_deref()];
        names.into_iter().flatten().find_map(|name| path.strip_prefix(name).ok()).ok_or(PathRefused::Outside)
    }

    /// Opens a regular file for reading. Opening a pipe does not wait for its writer.
    pub(super) fn open_file(&self, path: &str) -> Result<OpenFileBeneath, PathRefused> {
        let root = self.root()?;
        let opened = root.open_file(self.relative(root, path)?)?;
        if opened.file.metadata()?.is_file() { Ok(opened) } else { Err(PathRefused::NotAFile) }
    }

    /// Passes the names in a folder to `each`, in no particular order.
    pub(super) fn each_name(&self, path: &str, each: &mut dyn FnMut(OsString)) -> Result<(), PathRefused> {
        let root = self.root()?;
        root.each_name(self.relative(root, path)?, each)
    }

    /// Finds the place that a path leads to, for changing the file there. Links that stay inside are followed; missing folders may
    /// be created later.
    pub(super) fn spot(&self, path: &str) -> Result<Spot, PathRefused> {
        let root = self.root()?;
        root.spot(self.relative(root, path)?)
    }

    /// The path without links and `..`, relative to the folder, with `/`; empty for the folder itself. Everything on it must exist.
    pub(super) fn normal(&self, path: &str) -> Result<String, PathRefused> {
        let root = self.root()?;
        root.normal(self.relative(root, path)?)
    }

    /// Opens a folder to be walked.
    pub(super) fn folder(&self, path: &str) -> Result<Folder, PathRefused> {
        let root = self.root()?;
        root.folder(self.relative(root, path)?)
    }

    /// Whether a name in a folder belongs to a folder, or to a link to a folder inside the workspace.
    pub(super) fn is_folder(&self, path: &str, name: &str) -> bool {
        let Ok(root) = self.root() else { return false };
        self.relative(root, path).is_ok_and(|path| root.is_folder(&path.join(name)))
    }
}

/// Whether a name means `.git` on some file system. Windows drops dots and spaces at the end, has short names, and ignores case, as
/// macOS does; macOS also ignores some invisible characters.
fn is_git(name: &std::ffi::OsStr) -> bool {
    let ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let name: String = name.to_string_lossy().chars().filter(|c| !ignored(*c)).collect();
    let name = name.split(':').next().unwrap_or_default().trim_end_matches([' ', '.']).to_ascii_lowercase();
    name == ".git" || name.strip_prefix("git~").is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Names joined to a path with `/`.
fn joined<'n>(names: impl IntoIterator<Item = &'n OsString>) -> Result<String, PathRefused> {
    let names: Option<Vec<&str>> = names.into_iter().map(|name| name.to_str()).collect();
    Ok(names.ok_or(PathRefused::NotUtf8)?.join("/"))
}

/// A random, unguessable name for a temporary file.
fn temporary_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(format!("{}{:032x}{}", TEMPORARY.0, u128::from_ne_bytes(random), TEMPORARY.1))
}

/// Whether a name belongs to a temporary file.
#[cfg(unix)]
fn is_temporary(name: &std::ffi::OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY.0)?.strip_suffix(TEMPORARY.1));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
