//! Files that no tool shows, under any path: files with keys, and rejoin's own stores.
//!
//! A file may have many paths: links, hard links, other spellings. So files are compared by device and inode, not by path.

use std::path::{Path, PathBuf};

use rejoin_store::Location;

use super::Opened;

/// The files and stores that are not shown.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Hidden {
    files: Vec<PathBuf>,
    stores: Vec<Location>,
}

impl Hidden {
    pub(in super::super) fn file(&mut self, path: PathBuf) {
        self.files.push(path);
    }

    pub(in super::super) fn store(&mut self, location: Location) {
        self.stores.push(location);
    }

    /// Whether a file is one of those that are not shown.
    #[cfg(unix)]
    pub(in super::super) fn has(&self, opened: &Opened) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(found) = opened.file.metadata() else { return true };
        let is_it = |path: &Path| {
            std::fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
        };
        let in_store = |store: &Location| {
            // Files in a store that cannot be read cannot be opened there, but perhaps under another name.
            rejoin_store::files::belongs_to(store, &opened.file).unwrap_or(found.nlink() > 1)
        };
        // `/proc` shows the environment of this process, which may contain keys.
        let in_kernel = std::fs::metadata("/proc/self/environ").is_ok_and(|own| own.dev() == found.dev());
        in_kernel || self.files.iter().any(|path| is_it(path)) || self.stores.iter().any(in_store)
    }

    /// Whether a file is one of those that are not shown. Without numbers of files, hard links are not recognised.
    #[cfg(not(unix))]
    pub(in super::super) fn has(&self, opened: &Opened) -> bool {
        let is_it = |path: &Path| std::fs::canonicalize(path).is_ok_and(|path| path == opened.path);
        let in_store = |store: &Location| match store {
            Location::Sqlite(path) => std::fs::canonicalize(path)
                .is_ok_and(|path| opened.path.to_string_lossy().starts_with(&*path.to_string_lossy())),
            Location::Jsonl(folder) => {
                std::fs::canonicalize(folder).is_ok_and(|folder| opened.path.starts_with(folder))
            }
            Location::Memory => false,
        };
        self.files.iter().any(|path| is_it(path)) || self.stores.iter().any(in_store)
    }
}
