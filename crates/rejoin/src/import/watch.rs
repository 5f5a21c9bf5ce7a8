//! Importing what changes, as it changes.
//!
//! The files are looked at again and again: their names, sizes and times. That works on every file system, and looking at ten
//! thousand files takes some hundredths of a second. The more there is to look at, the longer is the pause.
//!
//! A file that changed is read whole, and compared with a memory of what the store has of it. Then it rests for `REST` times as long
//! as that took, and everything that is written meanwhile is imported together. So watching a file takes at most a fixed share of the
//! time, however large it is and however often it changes. Other files do not wait while it rests.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rejoin_engine::{EngineError, ImportMemory};

use super::{ImportStep, Importer};
use crate::places::Candidate;

/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// How many times as long as a look, or as the import of a file, the pause after it is: each takes a fifth of the time at most.
const REST: u32 = 4;

/// How long a file that could not be stored is left alone.
const AGAIN: Duration = Duration::from_secs(5);

/// The files that were imported, and what they looked like then.
#[derive(Debug, Default)]
pub struct Watch {
    files: HashMap<PathBuf, Seen>,
    /// What the store has of the files that changed last.
    memory: ImportMemory,
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
        let (begun, mut importing) = (Instant::now(), Duration::ZERO);
        for candidate in candidates {
            if !goes_on() {
                break;
            }
            if self.is_due(&candidate.path, Instant::now()) {
                let due = Instant::now();
                let mut memory = std::mem::take(&mut self.memory);
                self.note(importer, candidate, |importer| {
                    importer.file_again(candidate, Some(&mut memory), each)
                })?;
                self.memory = memory;
                importing += due.elapsed();
            }
        }
        // Each file that was imported rests by itself.
        Ok(PAUSE.max(begun.elapsed().saturating_sub(importing) * REST))
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
        self.note(importer, candidate, |importer| importer.file(candidate, each))
    }

    /// Remembers what a file looked like when it was imported, and how long that took.
    fn note<'i, E>(
        &mut self,
        importer: &mut Importer<'i>,
        candidate: &Candidate,
        import: impl FnOnce(&mut Importer<'i>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (begun, failed) = (Instant::now(), importer.counts.failed);
        let is_new = !self.files.contains_key(&candidate.path);
        // Taken before it is read: what is written meanwhile is a change.
        let trace = Trace::of(&candidate.path);
        import(importer)?;
        let seen = if importer.counts.failed > failed {
            // Perhaps another process writes to the conversation just now.
            Seen { trace: Trace::default(), not_before: Instant::now() + AGAIN }
        } else {
            // The first time, everything in it was new, and the next change need not wait.
            let ended = Instant::now();
            Seen { trace, not_before: if is_new { ended } else { rested(begun, ended) } }
        };
        self.files.insert(candidate.path.clone(), seen);
        Ok(())
    }
}

/// When a file may be imported again whose import took from one time to another.
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
        places::{self, FolderFiles, LookFor, Machine},
        source,
    };

    /// A line that is appended costs no entry that is read from the store, and a file that has not changed is not read at all.
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
        let (wanted, machine) = (LookFor::default(), Machine::new(None, ".".into(), |_| None));
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
            // As if it had rested.
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
