//! Imports files whenever they change.
//!
//! The files are polled: their names, sizes and times. That works on every file system, and polling ten thousand files takes some
//! hundredths of a second. The longer a poll takes, the longer is the pause after it.
//!
//! Of a large file of lines that has grown, only the new lines are read (`source/growing.rs`). Any other changed file is read
//! completely, and compared with the stored entries, which are kept in memory. Then the file rests for `REST` times as long as that
//! took, and everything written to it meanwhile is imported together. So watching a file takes at most a fixed share of the time,
//! however large it is and however often it changes. Other files do not have to wait for it.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rejoin_engine::EngineError;

use super::{ImportStep, Importer, WatchMemory};
use crate::places::Candidate;

/// The shortest pause between two polls.
const PAUSE: Duration = Duration::from_millis(300);

/// The pause after a poll, or after the import of a file, is this many times as long as that took. So each takes at most a fifth
/// of the time.
const REST: u32 = 4;

/// A file that changed in this time before watching began is probably that of a session that is still going on.
const RECENT: Duration = Duration::from_secs(60 * 60);

/// How long to wait before retrying a file that could not be stored.
const AGAIN: Duration = Duration::from_secs(5);

/// The files that were imported, with their state at that time.
#[derive(Debug, Default)]
pub struct Watch {
    files: HashMap<PathBuf, Seen>,
    memory: WatchMemory,
}

#[derive(Debug)]
struct Seen {
    trace: Trace,
    /// The earliest time of the next import.
    not_before: Instant,
}

/// The values that change when a file does: sizes and times, including those of a database's log, and of every file in a folder.
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
    /// Whether a file is new or changed, and may be imported now.
    fn is_due(&self, path: &Path, now: Instant) -> bool {
        let Some(seen) = self.files.get(path) else { return true };
        seen.not_before <= now && Trace::of(path) != seen.trace
    }

    /// Imports the files that are new or changed, and returns the pause before the next poll. `goes_on` is asked before each file
    /// whether to continue.
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
        let (begun, mut importing) = (Instant::now(), Duration::ZERO);
        for candidate in candidates {
            if !goes_on() {
                break;
            }
            if self.is_due(&candidate.path, Instant::now()) {
                let due = Instant::now();
                self.note(importer, candidate, |importer, memory| {
                    importer.file_again(candidate, Some(memory), each)
                })?;
                importing += due.elapsed();
            }
        }
        self.memory.growing.forget_idle();
        // Each imported file rests separately.
        Ok(PAUSE.max(begun.elapsed().saturating_sub(importing) * REST))
    }

    /// Imports a file that will be watched, and remembers its state.
    ///
    /// # Errors
    /// If the store cannot be written, or `each` fails.
    pub fn import<E: From<EngineError>>(
        &mut self,
        importer: &mut Importer<'_>,
        candidate: &Candidate,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Remember those that are probably written to right now, so that their first change need not be read with the whole file.
        let changed = candidate.path.metadata().and_then(|metadata| metadata.modified());
        let is_recent = changed.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < RECENT));
        self.note(importer, candidate, |importer, memory| {
            importer.file_again(candidate, is_recent.then_some(memory), each)
        })
    }

    /// Remembers the state of a file at its import, and how long the import took.
    fn note<'i, E>(
        &mut self,
        importer: &mut Importer<'i>,
        candidate: &Candidate,
        import: impl FnOnce(&mut Importer<'i>, &mut WatchMemory) -> Result<(), E>,
    ) -> Result<(), E> {
        let (begun, failed) = (Instant::now(), importer.counts.failed);
        let is_new = !self.files.contains_key(&candidate.path);
        let was_remembered = self.memory.growing.has(&candidate.path);
        // Take the state before reading, so that later writes count as a change.
        let trace = Trace::of(&candidate.path);
        import(importer, &mut self.memory)?;
        let is_remembered = self.memory.growing.has(&candidate.path);
        let seen = if importer.counts.failed > failed {
            // Another process may be writing to the conversation right now.
            Seen { trace: Trace::default(), not_before: Instant::now() + AGAIN }
        } else {
            // Everything had to be read this time, and the next change will be faster.
            let is_first = is_new || (is_remembered && !was_remembered);
            let ended = Instant::now();
            Seen { trace, not_before: if is_first { ended } else { rested(begun, ended) } }
        };
        self.files.insert(candidate.path.clone(), seen);
        Ok(())
    }
}

/// The time at which a file may be imported again, if its import took from `begun` to `ended`.
fn rested(begun: Instant, ended: Instant) -> Instant {
    ended + (ended - begun) * REST
}

#[cfg(test)]
mod tests {
    use rejoin_engine::{SystemClock, Writer, open_store};
    use rejoin_store::Access;

    use super::*;
    use crate::{
        import::Journal,
        places::{self, FolderFiles, Machine, PlacesToSearch},
        source,
    };

    /// After an appended line, no stored entry is read again, and an unchanged file is not read at all.
    #[test]
    fn only_what_changed_is_imported_again() {
        let folder = tempfile::tempdir().unwrap();
        let line = |role: &str, text: &str| {
            format!(
                r#"{{"timestamp":"2026-11-18T10:00:00.000Z","type":"response_item","payload":{{"type":"message","role":"{role}","content":[{{"type":"input_text","text":"{text}"}}]}}}}"#
            ) + "\n"
        };
        let meta = r#"{"timestamp":"2026-11-18T10:00:00.000Z","type":"session_meta","payload":{"id":"0199-x","cwd":"/w","originator":"o","cli_version":"1"}}"#;
        let [growing, still] = ["a.jsonl", "b.json"].map(|name| folder.path().join(name));
        let mut text = format!("{meta}\n{}", line("user", "hello"));
        fs::write(&growing, &text).unwrap();
        fs::write(
            &still,
            r#"{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello."}]}"#,
        )
        .unwrap();
        let location = "memory:".parse().unwrap();
        let store = open_store(&location, Access::Write).unwrap();
        let writer = Writer { store: &*store, clock: &SystemClock, command: "test" };
        let journal =
            Journal::open(&folder.path().join("data"), &location, "2026-11-18T10:00:00Z".parse().unwrap());
        let (wanted, machine) = (PlacesToSearch::default(), Machine::new(None, ".".into(), |_| None));
        let candidates =
            places::candidates(&wanted, &[growing.clone(), still], FolderFiles::All, &machine).files;
        let mut importer = Importer::new(writer, journal, wanted, source::open_file);
        let mut watch = Watch::default();
        let mut look = |watch: &mut Watch| {
            let mut steps = Vec::new();
            let each = &mut |step: ImportStep<'_>| {
                let ImportStep::Stored { imported, .. } = step else { panic!("{step:?}") };
                steps.push((imported.new, imported.compared));
                Ok::<(), EngineError>(())
            };
            watch.look(&mut importer, &candidates, || true, each).unwrap();
            steps
        };
        assert_eq!(look(&mut watch), [(true, 0), (true, 0)]);
        for number in 0..3 {
            text.push_str(&line("user", &format!("more {number}")));
            fs::write(&growing, &text).unwrap();
            assert_eq!(look(&mut watch), [(false, 0)], "{number}");
            assert_eq!(look(&mut watch), [], "{number}");
            // Pretend that the file has rested.
            watch.files.values_mut().for_each(|seen| seen.not_before = Instant::now());
        }
    }

    #[test]
    fn a_file_rests_after_its_import() {
        let (begun, took) = (Instant::now(), Duration::from_millis(200));
        let rested = rested(begun, begun + took);
        let path = Path::new("there is no such file");
        let seen = Seen { trace: Trace(vec![(1, None)]), not_before: rested };
        let watch = Watch { files: HashMap::from([(path.to_owned(), seen)]), ..Watch::default() };
        assert!(!watch.is_due(path, begun + took * 4));
        assert!(watch.is_due(path, begun + took * 5), "a fifth of the time at most");
    }
}
