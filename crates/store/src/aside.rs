//! Copies of damaged bytes, each in a separate file next to the store. A copy is durable before the original is changed, and is
//! never overwritten.

use std::{collections::HashSet, io, path::PathBuf};

use rejoin_record::{EntryId, Raw, hash};

use crate::{
    error::{StoreError, StoreResult},
    files::PrivateFolder,
};

/// The folder of copies of damaged bytes.
#[derive(Debug, Clone)]
pub(crate) struct Asides {
    folder: PrivateFolder,
}

impl Asides {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::inside(folder) }
    }

    /// Copies bytes to a file, and returns its path. Equal bytes share one file. Returns `None` if there are no bytes.
    pub(crate) fn keep(&self, owner: &str, bytes: &[u8]) -> StoreResult<Option<PathBuf>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let name = name(owner, bytes);
        let path = self.folder.path_of(&name);
        let failed = || StoreError::io(format!("setting aside {}", path.display()));
        self.folder.make().map_err(failed())?;
        // The name is a hash of the content, so a file with that name must never be partial.
        let kept = match self.folder.has(&name).map_err(failed())? {
            // Sync again: the folder may not have been synced the last time.
            true => self.folder.open(&name).and_then(|_| self.folder.sync()),
            false => self.folder.create(&name, bytes),
        };
        match kept {
            // Another process created it first.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            kept => kept.map_err(failed())?,
        }
        Ok(Some(path))
    }

    /// Copies a whole file, and returns the path of the copy.
    pub(crate) fn keep_file(&self, owner: &str, path: &std::path::Path) -> StoreResult<PathBuf> {
        let bytes =
            crate::files::read(path).map_err(StoreError::io(format!("reading {}", path.display())))?;
        let kept = self.keep(owner, &bytes)?;
        Ok(kept.unwrap_or_else(|| path.to_owned()))
    }

    /// The copies that belong to an owner.
    pub(crate) fn of(&self, owner: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.names_of(owner)?.iter().map(|name| self.folder.path_of(name)).collect())
    }

    fn names_of(&self, owner: &str) -> io::Result<Vec<String>> {
        let beginning = format!("{owner}-");
        let names = self.folder.names()?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| name.starts_with(&beginning)).collect())
    }

    /// The copies of an owner that `holds` accepts. A copy that a killed process did not finish is useless, so it is always
    /// included.
    pub(crate) fn holding(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<Vec<PathBuf>> {
        let names = self.names_holding(owner, holds)?;
        Ok(names.iter().map(|name| self.folder.path_of(name)).collect())
    }

    fn names_holding(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<Vec<String>> {
        let mut names = self.names_of(owner)?;
        let mut failed = None;
        names.retain(|name| {
            !name.ends_with(ENDING)
                || self
                    .folder
                    .read(name, u64::MAX)
                    .map(|bytes| bytes.is_some_and(|bytes| holds(&bytes)))
                    .unwrap_or_else(|why| {
                        failed = Some(why);
                        false
                    })
        });
        failed.map_or(Ok(names), Err)
    }

    /// Removes the copies of an owner that `holds` accepts.
    pub(crate) fn forget(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let names = self.names_holding(owner, holds)?;
        for name in &names {
            self.folder.remove(name)?;
        }
        if names.is_empty() { Ok(()) } else { self.folder.sync() }
    }

    /// Removes one copy, if it exists.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.folder.remove(name)? { self.folder.sync() } else { Ok(()) }
    }
}

/// The content of an entry, to find copies of it.
#[derive(Debug)]
pub(crate) struct ErasedContent {
    pub(crate) entry: EntryId,
    pub(crate) body: Raw,
}

/// Half the number of consecutive bytes that two texts must share at least to count as copies. Damage is rare, and it is better to
/// lose some of it than to keep some of the erased text.
const RUN: usize = 12;

impl ErasedContent {
    /// A test for bytes that contain one of several entries.
    pub(crate) fn any(sought: &[Self]) -> impl Fn(&[u8]) -> bool {
        |bytes| sought.iter().any(|sought| sought.is_in(bytes))
    }

    /// Whether bytes contain the entry or a part of its content: a damaged copy may lack the id.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if holds(&self.entry.to_string()) || holds(&self.entry.as_uuid().simple().to_string()) {
            return true;
        }
        // Only text between quotes is content; the rest is alike in all bodies.
        let runs = bytes.chunks_exact(RUN).filter(|run| !run.contains(&b'"'));
        let runs: HashSet<&[u8]> = runs.collect();
        !runs.is_empty() && self.body.as_str().as_bytes().windows(RUN).any(|window| runs.contains(window))
    }
}

/// The ending of the names of finished copies.
const ENDING: &str = ".txt";

/// The name of a copy of these bytes.
fn name(owner: &str, bytes: &[u8]) -> String {
    let name: String = hash::of_bytes(bytes).to_string().chars().take(16).collect();
    format!("{owner}-{name}{ENDING}")
}
