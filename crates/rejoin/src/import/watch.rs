//! Importing what changes, as it changes.
//!
//! The files are looked at again and again: their names, sizes and times. That works on every file system, and looking at ten
//! thousand files takes some hundredths of a second. The more there is to look at, the longer is the pause.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rejoin_engine::EngineError;

use super::{ImportStep, Importer};
use crate::places::Candidate;

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// How many times as long as a look, or as the import of a file, the pause after it is.
const REST: u32 = 3;

/// How long a file that could not be stored is left alone.
const AGAIN: Duration = Duration::from_secs(5);

/// The files that were imported, and what they looked like then.
#[derive(Debug, Default)]
pub struct Watch {
    files: HashMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    trace: Trace,
    /// When it may be imported again.
    not_before: Instant,
}

/// What changes when a file does: sizes and times, of a database's log as well, and of every file in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Trace(Vec<(u64, Option<SystemTime>)>);

impl Trace {
    fn of(path: &Path) -> Self {
        let mut trace = Self::default();
        trace.add(path.metadata().ok());
        if path.is_dir() {
            trace.folder(path);
        } else {
            let mut log = path.as_os_str().to_owned();
            log.push("-wal");
            trace.add(Path::new(&log).metadata().ok());
        }
        trace
    }

    fn add(&mut self, metadata: Option<Metadata>) {
        self.0.extend(metadata.map(|metadata| (metadata.len(), metadata.modified().ok())));
    }

    fn folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            self.add(entry.metadata().ok());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.folder(&entry.path());
            }
        }
    }
}

impl Watch {
    /// Whether a file is new or has changed, and may be imported now.
    fn is_due(&self, path: &Path, now: Instant) -> bool {
        let Some(seen) = self.files.get(path) else { return true };
        seen.not_before <= now && Trace::of(path) != seen.trace
    }

    /// Imports the files that are new or have changed, and returns how long to pause before the next look. `goes_on` is asked
    /// before each file.
    ///
    /// # Errors
    /// If the store cannot be written, or `each` fails.
    pub fn look<E: From<EngineError>>(
        &mut self,
        importer: &mut Importer<'_>,
        candidates: &[Candidate],
        goes_on: impl Fn() -> bool,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<Duration, E> {
        let begun = Instant::now();
        for candidate in candidates {
            if !goes_on() {
                break;
            }
            if self.is_due(&candidate.path, Instant::now()) {
                self.import(importer, candidate, each)?;
            }
        }
        Ok(PAUSE.max(begun.elapsed() * REST))
    }

    /// Imports a file and remembers what it looked like.
    ///
    /// # Errors
    /// If the store cannot be written, or `each` fails.
    pub fn import<E: From<EngineError>>(
        &mut self,
        importer: &mut Importer<'_>,
        candidate: &Candidate,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (begun, failed) = (Instant::now(), importer.counts.failed);
        // Taken before it is read: what is written meanwhile is a change.
        let trace = Trace::of(&candidate.path);
        importer.file(candidate, each)?;
        let seen = if importer.counts.failed > failed {
            // Perhaps another process writes to the conversation just now.
            Seen { trace: Trace::default(), not_before: Instant::now() + AGAIN }
        } else {
            Seen { trace, not_before: Instant::now() + begun.elapsed() * REST }
        };
        self.files.insert(candidate.path.clone(), seen);
        Ok(())
    }
}
