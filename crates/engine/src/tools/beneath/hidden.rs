//! Files that no tool shows or changes under any path: files with keys, and rejoin's own stores.
//!
//! A file may have many paths: links, hard links, other spellings. So files are compared by device and inode, not by path.

use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::{collections::HashSet, time::SystemTime};

use rejoin_store::Location;

use super::{Entry, OpenFileBeneath, Spot};

/// The hidden files and stores.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Hidden {
    files: Vec<PathBuf>,
    stores: Vec<Location>,
}

/// The hidden files at one moment, for checking many files: most pass by their inode alone.
#[derive(Debug)]
pub(in super::super) struct HiddenNow<'h> {
    hidden: &'h Hidden,
    #[cfg(unix)]
    inodes: HashSet<u64>,
    /// Whether some hidden files could not be listed, so that each file must be opened to check it.
    #[cfg(unix)]
    incomplete: bool,
    /// The device of the kernel's files (`/proc`).
    #[cfg(unix)]
    kernel: Option<u64>,
    #[cfg(unix)]
    since: SystemTime,
}

impl Hidden {
    pub(in super::super) fn file(&mut self, path: PathBuf) {
        self.files.push(path);
    }

    pub(in super::super) fn store(&mut self, location: Location) {
        self.stores.push(location);
    }
}

#[cfg(unix)]
impl Hidden {
    /// Whether an open file is hidden.
    pub(in super::super) fn has(&self, opened: &OpenFileBeneath) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(found) = opened.file.metadata() else { return true };
        let is_it = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
        };
        let in_store = |store: &Location| {
            // A file in an unreadable store cannot be opened there, but perhaps under a hard link.
            rejoin_store::files::belongs_to(store, &opened.file).unwrap_or(found.nlink() > 1)
        };
        kernel_device() == Some(found.dev())
            || self.files.iter().any(|path| is_it(path))
            || self.stores.iter().any(in_store)
    }

    /// Whether a new file would be hidden: a file with keys, or a part of a store.
    pub(in super::super) fn would_have(&self, spot: &Spot) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok((folder, names)) = spot.place() else { return true };
        let is_it = |path: &PathBuf| {
            let Ok(path) = std::path::absolute(path) else { return true };
            path.ancestors().skip(1).any(|above| {
                let same = std::fs::metadata(above).is_ok_and(|found| (found.dev(), found.ino()) == folder);
                same && path.strip_prefix(above).is_ok_and(|way| {
                    let way = way.iter().map(|name| name.to_string_lossy().to_lowercase());
                    way.eq(names.iter().map(|name| name.to_lowercase()))
                })
            })
        };
        let in_store =
            |store: &Location| rejoin_store::files::would_belong_to(store, folder, &names).unwrap_or(true);
        self.files.iter().any(is_it) || self.stores.iter().any(in_store)
    }

    /// The hidden files at this moment.
    pub(in super::super) fn now(&self) -> HiddenNow<'_> {
        use std::os::unix::fs::MetadataExt as _;
        let since = SystemTime::now();
        let files = self.files.iter().filter_map(|path| std::fs::metadata(path).ok());
        let mut inodes: HashSet<u64> = files.map(|found| found.ino()).collect();
        let mut incomplete = false;
        for store in &self.stores {
            match rejoin_store::files::inodes(store) {
                Ok(own) => inodes.extend(own),
                Err(_) => incomplete = true,
            }
        }
        HiddenNow { hidden: self, inodes, incomplete, kernel: kernel_device(), since }
    }
}

/// The device of `/proc`. It shows the environment of this process, which may contain keys.
#[cfg(unix)]
fn kernel_device() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self/environ").ok().map(|own| own.dev())
}

#[cfg(unix)]
impl HiddenNow<'_> {
    /// Whether an open file is hidden.
    pub(in super::super) fn has(&self, opened: &OpenFileBeneath) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(found) = opened.file.metadata() else { return true };
        // The coarsest clock of a file system has steps of two seconds.
        let since = self.since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is_new = found.ctime() >= i64::try_from(since).unwrap_or(i64::MAX) - 2;
        let suspect = self.incomplete || is_new || self.inodes.contains(&found.ino());
        self.kernel == Some(found.dev()) || (suspect && self.hidden.has(opened))
    }

    /// Whether a name may belong to a hidden file. Only opening the file decides.
    pub(in super::super) fn may_have(&self, entry: &Entry) -> bool {
        self.inodes.contains(&entry.inode)
    }
}

/// Without inodes, hard links are not recognised.
#[cfg(not(unix))]
impl Hidden {
    /// Whether an open file is hidden.
    pub(in super::super) fn has(&self, opened: &OpenFileBeneath) -> bool {
        self.has_path(&opened.path)
    }

    /// Whether a new file would be hidden.
    pub(in super::super) fn would_have(&self, spot: &Spot) -> bool {
        self.has_path(spot.full_path())
    }

    fn has_path(&self, path: &Path) -> bool {
        let real = |path: &Path| match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
            (Ok(path), _, _) => Some(path),
            (_, Some(above), Some(name)) => Some(std::fs::canonicalize(above).ok()?.join(name)),
            _ => None,
        };
        let is_it = |hidden: &Path| real(hidden).is_some_and(|hidden| hidden == path);
        let in_store = |store: &Location| match store {
            Location::Sqlite(store) => {
                real(store).is_some_and(|store| path.to_string_lossy().starts_with(&*store.to_string_lossy()))
            }
            Location::Jsonl(folder) => real(folder).is_some_and(|folder| path.starts_with(folder)),
            Location::Postgres(address) => {
                address.beside().and_then(real).is_some_and(|folder| path.starts_with(folder))
            }
            Location::Memory => false,
        };
        self.files.iter().any(|hidden| is_it(hidden)) || self.stores.iter().any(in_store)
    }

    /// The hidden files at this moment.
    pub(in super::super) fn now(&self) -> HiddenNow<'_> {
        HiddenNow { hidden: self }
    }
}

#[cfg(not(unix))]
impl HiddenNow<'_> {
    /// Whether an open file is hidden.
    pub(in super::super) fn has(&self, opened: &OpenFileBeneath) -> bool {
        self.hidden.has(opened)
    }

    /// Whether a name may belong to a hidden file.
    pub(in super::super) fn may_have(&self, _: &Entry) -> bool {
        true
    }
}
