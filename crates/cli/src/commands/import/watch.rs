//! `rejoin import --watch`: importing what changes, as it changes.
//!
//! The files are looked at again and again: their names, sizes and times. That works on every file system, and looking at ten
//! thousand files takes some hundredths of a second. The more there is to look at, the longer is the pause.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::Import;
use crate::{
    args::ImportArguments,
    failure::Failure,
    output,
    places::{self, Candidate, FolderFiles},
    signals::SignalWatch,
};

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// How many times as long as a look, or as the import of a file, the pause after it is.
const REST: u32 = 3;

/// How long a file that could not be stored is left alone.
const AGAIN: Duration = Duration::from_secs(5);

/// The files that were imported, and what they looked like then.
#[derive(Debug, Default)]
pub struct Watched {
    files: HashMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    trace: Trace,
    /// When it may be imported again.
    not_before: Option<Instant>,
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

impl Watched {
    /// Remembers what a file looks like, before it is read.
    pub fn note(&mut self, path: &Path) {
        self.files.insert(path.to_owned(), Seen { trace: Trace::of(path), not_before: None });
    }

    /// Whether a file is new or has changed, and may be imported now.
    fn is_due(&self, path: &Path, now: Instant) -> bool {
        let Some(seen) = self.files.get(path) else { return true };
        seen.not_before.is_none_or(|time| time <= now) && Trace::of(path) != seen.trace
    }

    fn imported(&mut self, path: &Path, trace: Trace, not_before: Instant) {
        self.files.insert(path.to_owned(), Seen { trace, not_before: Some(not_before) });
    }
}

/// Imports what changes until a signal comes.
pub fn run(
    import: &mut Import<'_>,
    mut watched: Watched,
    arguments: &ImportArguments,
) -> Result<(), Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    let _signals = SignalWatch::start(move || stop.store(true, Ordering::Relaxed));
    output::talk("Watching for new messages. Ctrl-C stops.");
    while !stopped.load(Ordering::Relaxed) {
        let begun = Instant::now();
        for candidate in places::candidates(import.wanted, &arguments.paths, FolderFiles::All).files {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            if watched.is_due(&candidate.path, Instant::now()) {
                one(import, &mut watched, &candidate, arguments.from.as_deref())?;
            }
        }
        let pause = PAUSE.max(begun.elapsed() * REST);
        let until = Instant::now() + pause;
        while Instant::now() < until && !stopped.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50).min(pause));
        }
    }
    output::talk(&import.counts.sentence());
    Ok(())
}

fn one(
    import: &mut Import<'_>,
    watched: &mut Watched,
    candidate: &Candidate,
    from: Option<&str>,
) -> Result<(), Failure> {
    let (begun, failed) = (Instant::now(), import.counts.failed);
    // Taken before it is read: what is written meanwhile is a change.
    let trace = Trace::of(&candidate.path);
    import.file(candidate, from)?;
    let took = begun.elapsed();
    if import.counts.failed > failed {
        // Perhaps another process writes to the conversation just now.
        watched.imported(&candidate.path, Trace::default(), Instant::now() + AGAIN);
    } else {
        watched.imported(&candidate.path, trace, Instant::now() + took * REST);
    }
    Ok(())
}
