//! Copies of damaged bytes, each in its own file beside the store. Such a file is never overwritten, and is durable before the
//! original is touched.

use std::{collections::HashSet, io, path::PathBuf};

use rejoin_record::{EntryId, Raw, hash};

use crate::{
    error::{StoreError, StoreResult},
    files::PrivateFolder,
};

/// The folder for what was set aside.
#[derive(Debug, Clone)]
pub(crate) struct Asides {
    folder: PrivateFolder,
}

impl Asides {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::inside(folder) }
    }

    /// Keeps a copy of some bytes, and says where. The same bytes twice are one file; of nothing there is none.
    pub(crate) fn keep(&self, owner: &str, bytes: &[u8]) -> StoreResult<Option<PathBuf>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let name = name(owner, bytes);
        let path = self.folder.path_of(&name);
        let failed = || StoreError::io(format!("setting aside {}", path.display()));
        self.folder.make().map_err(failed())?;
        // The name says what is in it, so a file must never have it with half of that.
        let kept = match self.folder.has(&name).map_err(failed())? {
            // It may be there because its folder could not be synced the last time.
            true => self.folder.open(&name).and_then(|_| self.folder.sync()),
            false => self.folder.create(&name, bytes),
        };
        match kept {
            // Another process was faster.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            kept => kept.map_err(failed())?,
        }
        Ok(Some(path))
    }

    /// Keeps a copy of a whole file, and says where.
    #[cfg(feature = "sqlite")]
    pub(crate) fn keep_file(&self, owner: &str, path: &std::path::Path) -> StoreResult<PathBuf> {
        let bytes =
            crate::files::read(path).map_err(StoreError::io(format!("reading {}", path.display())))?;
        let kept = self.keep(owner, &bytes)?;
        Ok(kept.unwrap_or_else(|| path.to_owned()))
    }

    /// The files that hold what was set aside of something.
    #[cfg(feature = "sqlite")]
    pub(crate) fn of(&self, owner: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.names_of(owner)?.iter().map(|name| self.folder.path_of(name)).collect())
    }

    fn names_of(&self, owner: &str) -> io::Result<Vec<String>> {
        let beginning = format!("{owner}-");
        let names = self.folder.names()?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| name.starts_with(&beginning)).collect())
    }

    /// The files that hold what was set aside of something, and of which `holds` says so. A copy that a killed process did not
    /// finish is of no use, and always one of them.
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

    /// Removes what was set aside of something: all of it, or what `holds` says.
    pub(crate) fn forget(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let names = self.names_holding(owner, holds)?;
        for name in &names {
            self.folder.remove(name)?;
        }
        if names.is_empty() { Ok(()) } else { self.folder.sync() }
    }

    /// Removes one file, if it is there.
    #[cfg(feature = "sqlite")]
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.folder.remove(name)? { self.folder.sync() } else { Ok(()) }
    }
}

/// What an entry says, to look for copies of it.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) entry: EntryId,
    pub(crate) body: Raw,
}

/// Half as many bytes of text as two texts must share in a row, at least, to count as copies. What is damaged is little, and
/// losing a scrap of it weighs less than keeping a scrap of what was erased.
const RUN: usize = 12;

impl Sought {
    /// Whether bytes hold one of several entries.
    pub(crate) fn any(sought: &[Self]) -> impl Fn(&[u8]) -> bool {
        |bytes| sought.iter().any(|sought| sought.is_in(bytes))
    }

    /// Whether bytes hold the entry, or a piece of what it says: a damaged copy need not have its id any more.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if holds(&self.entry.to_string()) || holds(&self.entry.as_uuid().simple().to_string()) {
            return true;
        }
        // Only text between quotes is content; the rest is the same in every body.
        let runs = bytes.chunks_exact(RUN).filter(|run| !run.contains(&b'"'));
        let runs: HashSet<&[u8]> = runs.collect();
        !runs.is_empty() && self.body.as_str().as_bytes().windows(RUN).any(|window| runs.contains(window))
    }
}

/// How the names of whole copies end.
const ENDING: &str = ".txt";

/// The name of a copy of these bytes.
fn name(owner: &str, bytes: &[u8]) -> String {
    let name: String = hash::of_bytes(bytes).to_string().chars().take(16).collect();
    format!("{owner}-{name}{ENDING}")
}
