//! What is damaged, copied into a file of its own beside the store. Such a file is never overwritten.

use std::{
    collections::HashSet,
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use rejoin_record::{EntryId, Raw, hash};

use crate::{error::StoreError, files};

/// A folder for what was set aside.
#[derive(Debug, Clone)]
pub(crate) struct Asides {
    folder: PathBuf,
}

impl Asides {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Keeps a copy of some bytes, and says where. The same bytes twice are one file; of nothing there is none.
    pub(crate) fn keep(&self, owner: &str, bytes: &[u8]) -> Result<Option<PathBuf>, StoreError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        files::make_folder(&self.folder)?;
        let path = self.name(owner, bytes);
        let failed = || StoreError::io(format!("setting aside {}", path.display()));
        match files::make_new(&path) {
            Ok(mut file) => {
                file.write_all(bytes).and_then(|()| file.sync_data()).map_err(failed())?;
            }
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(failed()(why)),
        }
        Ok(Some(path))
    }

    /// Keeps a copy of a whole file, and says where.
    #[cfg(feature = "sqlite")]
    pub(crate) fn keep_file(&self, owner: &str, path: &std::path::Path) -> Result<PathBuf, StoreError> {
        let bytes = fs::read(path).map_err(StoreError::io(format!("reading {}", path.display())))?;
        let kept = self.keep(owner, &bytes)?;
        Ok(kept.unwrap_or_else(|| path.to_owned()))
    }

    /// Where a copy of these bytes lies.
    fn name(&self, owner: &str, bytes: &[u8]) -> PathBuf {
        let name: String = hash::of_bytes(bytes).to_string().chars().take(16).collect();
        self.folder.join(format!("{owner}-{name}.txt"))
    }

    /// The files that hold what was set aside of something.
    pub(crate) fn of(&self, owner: &str) -> io::Result<Vec<PathBuf>> {
        let folder = match fs::read_dir(&self.folder) {
            Ok(folder) => folder,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(why),
        };
        let beginning = format!("{owner}-");
        let mut paths = Vec::new();
        for file in folder {
            let file = file?;
            if file.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
                paths.push(file.path());
            }
        }
        Ok(paths)
    }

    /// The files that hold what was set aside of something, and of which `holds` says so.
    pub(crate) fn holding(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for path in self.of(owner)? {
            if holds(&fs::read(&path)?) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Removes what was set aside of something: all of it, or what `holds` says.
    pub(crate) fn forget(&self, owner: &str, holds: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let paths = self.holding(owner, holds)?;
        for path in &paths {
            fs::remove_file(path)?;
        }
        if paths.is_empty() { Ok(()) } else { files::sync_folder(&self.folder) }
    }

    /// Removes one file, if it is there.
    #[cfg(feature = "sqlite")]
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name)) {
            Ok(()) => files::sync_folder(&self.folder),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(why) => Err(why),
        }
    }
}

/// What an entry says, for whoever looks for copies of it.
#[derive(Debug)]
pub(crate) struct Sought {
    pub(crate) entry: EntryId,
    pub(crate) body: Raw,
}

/// So many bytes of text in a row that two texts share are no accident.
const RUN: usize = 40;

impl Sought {
    /// Whether bytes hold the entry, or a piece of what it says: a damaged copy need not have its id any more.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if holds(&self.entry.to_string()) || holds(&self.entry.as_uuid().simple().to_string()) {
            return true;
        }
        // What stands between quotes was said by somebody; the rest is the same in every body.
        let runs = self.body.as_str().as_bytes().chunks_exact(RUN).filter(|run| !run.contains(&b'"'));
        let runs: HashSet<&[u8]> = runs.collect();
        !runs.is_empty() && bytes.windows(RUN).any(|window| runs.contains(window))
    }
}
