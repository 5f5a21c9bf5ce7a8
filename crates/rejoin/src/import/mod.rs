//! Imports other agents' sessions into a store. Their files are only read.
//!
//! An [`Importer`] reads files, stores their new entries, and reports each step to its caller. `journal.rs` records the changes of
//! each import, so that it can be undone; `watch.rs` finds the files that changed since.
//!
//! ```
//! use rejoin::{
//!     Access, Clock as _, EngineError, SystemClock, Writer, open_store, source,
//!     import::{ImportStep, Importer, Journal},
//!     places::{self, FolderFiles, PlacesToSearch, Machine},
//! };
//!
//! let folder = tempfile::tempdir()?;
//! let chat = r#"{"messages":[{"role":"user","content":"Hello."},{"role":"assistant","content":"Hello."}]}"#;
//! std::fs::write(folder.path().join("chat.json"), chat)?;
//!
//! let location = "memory:".parse()?;
//! let store = open_store(&location, Access::Write)?;
//! let writer = Writer { store: &*store, clock: &SystemClock, command: "my program" };
//! let journal = Journal::open(folder.path(), &location, SystemClock.now());
//! let (wanted, machine) = (PlacesToSearch::default(), Machine::new(None, ".".into(), |_| None));
//! let found = places::candidates(&wanted, &[folder.path().join("chat.json")], FolderFiles::All, &machine);
//! let mut importer = Importer::new(writer, journal, wanted, source::open_file);
//! for candidate in &found.files {
//!     importer.file(candidate, &mut |step| {
//!         assert!(matches!(step, ImportStep::Stored { imported, .. } if imported.new));
//!         Ok::<(), EngineError>(())
//!     })?;
//! }
//! assert_eq!(importer.counts.new, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod journal;
mod watch;

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

use rejoin_engine::{EngineError, ImportMemory, ImportTrail, Imported, Writer};
use rejoin_formats::{
    Session,
    sessions::{Format, jsonl},
};
use rejoin_store::StoreError;

pub use self::{
    journal::{Journal, JournalError, PastImport, UndoOutcome, UndoneImport},
    watch::Watch,
};
use crate::{
    places::{Candidate, PlacesToSearch},
    source::{self, GrowingSources, HistoryError, Open, Unread},
};

/// The outcome for one file or one conversation of an import.
#[derive(Debug)]
pub enum ImportStep<'i> {
    /// A file gave no conversation.
    Unread {
        /// The file.
        candidate: &'i Candidate,
        /// The reason.
        why: &'i Unread,
    },
    /// A conversation is in the store; it may have been there before.
    Stored {
        /// The file, or the address of the database, without secrets.
        path: &'i str,
        /// The conversation, with the findings of its reader.
        session: &'i Session,
        /// The entries that were added.
        imported: Imported,
    },
    /// A conversation could not be stored. The import continues with the others.
    Failed {
        /// The file, or the address of the database, without secrets.
        path: &'i str,
        /// The conversation, with the findings of its reader.
        session: &'i Session,
        /// The reason.
        why: EngineError,
    },
    /// The journal cannot be written, so this import cannot be undone. The import continues, and this is reported only once.
    NotRemembered(JournalError),
}

/// The counts of an import.
#[derive(Debug, Default, Clone)]
pub struct ImportCounts {
    /// Conversations that were read.
    pub read: usize,
    /// Conversations that were not in the store before.
    pub new: usize,
    /// Conversations that were in the store and got new entries.
    pub grown: usize,
    /// Files that should be sessions and cannot be read. See [`Candidate::is_expected`].
    pub unreadable: usize,
    /// All files without a conversation, by the reason: their number, and the first of them.
    pub skipped: BTreeMap<&'static str, (u64, PathBuf)>,
    /// Conversations that could not be stored.
    pub failed: usize,
}

impl ImportCounts {
    /// Counts a file that gives no conversation.
    pub fn skip(&mut self, path: &Path, reason: &'static str) {
        let (count, _) = self.skipped.entry(reason).or_insert_with(|| (0, path.to_owned()));
        *count += 1;
    }

    /// Conversations that added nothing to the store.
    #[must_use]
    pub fn unchanged(&self) -> usize {
        self.read - self.new - self.grown - self.failed
    }
}

/// What is remembered of files while they are watched.
#[derive(Debug, Default)]
struct WatchMemory {
    /// The stored entries of the conversations that changed last.
    stored: ImportMemory,
    /// The large files that changed last.
    growing: GrowingSources<ImportTrail>,
}

/// Reads files and databases, and stores their new entries.
pub struct Importer<'s> {
    writer: Writer<'s>,
    journal: Journal,
    wanted: PlacesToSearch,
    open: Open,
    /// The format of the files; `None` to detect it from their content.
    pub from: Option<&'static Format>,
    /// The counts so far.
    pub counts: ImportCounts,
    /// Whether the failure of the journal was already reported.
    is_forgetful: bool,
}

impl fmt::Debug for Importer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<'s> Importer<'s> {
    /// An importer that stores the wanted sessions, and opens their files with `open`.
    #[must_use]
    pub fn new(writer: Writer<'s>, journal: Journal, wanted: PlacesToSearch, open: Open) -> Self {
        let counts = ImportCounts::default();
        Self { writer, journal, wanted, open, from: None, counts, is_forgetful: false }
    }

    /// Selects the sessions to import.
    #[must_use]
    pub fn wanted(&self) -> &PlacesToSearch {
        &self.wanted
    }

    /// Imports the conversations of a file.
    ///
    /// # Errors
    /// If the store cannot be written, or `each` fails. A file that cannot be read and a conversation that cannot be stored are
    /// reported as steps.
    pub fn file<E: From<EngineError>>(
        &mut self,
        candidate: &Candidate,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.file_again(candidate, None, each)
    }

    /// Imports the conversations of a file, with a memory of what was read and stored before.
    fn file_again<E: From<EngineError>>(
        &mut self,
        candidate: &Candidate,
        mut memory: Option<&mut WatchMemory>,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = candidate.path.display().to_string();
        let options = candidate.options(self.from, self.open);
        if let Some(WatchMemory { stored, growing }) = memory.as_deref_mut()
            && let Some((session, mut grown)) = growing.read(&candidate.path, &options)
        {
            let imported = self.writer.import_grown(&session, stored, &mut grown.with);
            growing.keep(grown);
            return self.report(&path, &session, imported, each);
        }
        let sessions = match candidate.read(self.from, self.open) {
            Ok(mut sessions) => {
                self.wanted.choose(&mut sessions);
                sessions
            }
            Err(why) => {
                self.counts.skip(&candidate.path, why.reason());
                self.counts.unreadable += usize::from(candidate.is_expected());
                return each(ImportStep::Unread { candidate, why: &why });
            }
        };
        sessions.iter().try_for_each(|session| self.session(&path, session, memory.as_deref_mut(), each))
    }

    /// Imports the conversations in the tables of a chat bot. See [`source::each_history`].
    ///
    /// # Errors
    /// If the database cannot be read, the store cannot be written, or `each` fails.
    pub fn database<E: From<EngineError> + From<HistoryError>>(
        &mut self,
        address: &str,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = rejoin_store::hidden(address);
        let mut stopped = Ok(());
        source::each_history(address, &mut |sessions| {
            let sessions = match sessions {
                Ok(mut sessions) => {
                    self.wanted.choose(&mut sessions);
                    sessions
                }
                Err(error) => {
                    self.counts.skip(Path::new(&name), "without a conversation in it");
                    tracing::debug!("{name}: {error}");
                    return;
                }
            };
            if stopped.is_ok() {
                stopped = sessions.iter().try_for_each(|session| self.session(&name, session, None, each));
            }
        })?;
        stopped
    }

    /// Stores a conversation.
    fn session<E: From<EngineError>>(
        &mut self,
        path: &str,
        session: &Session,
        memory: Option<&mut WatchMemory>,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let imported = match memory {
            _ if session.format == jsonl::FORMAT => self.own_record(path),
            Some(memory) => self.writer.import_again(session, &mut memory.stored),
            None => self.writer.import(session),
        };
        self.report(path, session, imported, each)
    }

    /// Counts and reports the outcome for a conversation.
    fn report<E: From<EngineError>>(
        &mut self,
        path: &str,
        session: &Session,
        imported: Result<Imported, EngineError>,
        each: &mut impl FnMut(ImportStep<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.counts.read += 1;
        match imported {
            Ok(imported) => {
                self.counts.new += usize::from(imported.new);
                self.counts.grown += usize::from(!imported.new && imported.added > 0);
                if let Some(growth) = imported.growth
                    && let Err(why) = self.journal.add(imported.id, path, growth)
                    && !std::mem::replace(&mut self.is_forgetful, true)
                {
                    each(ImportStep::NotRemembered(why))?;
                }
                each(ImportStep::Stored { path, session, imported })
            }
            // No further conversation can be saved either, so stop at once.
            Err(EngineError::Store(why)) if why.is_unwritable() => Err(EngineError::Store(why).into()),
            Err(why) => {
                self.counts.failed += 1;
                each(ImportStep::Failed { path, session, why })
            }
        }
    }

    /// A file of rejoin's own entries, which are stored unchanged, including their hashes.
    fn own_record(&self, path: &str) -> Result<Imported, EngineError> {
        let failed = |why| StoreError::Io { what: format!("opening {path}"), why };
        // It was already read once to detect its format.
        if !Path::new(path).is_file() {
            let why = io::Error::other("a pipe cannot be read twice; save it in a file first");
            return Err(failed(why).into());
        }
        let file = source::open_unpacked(Path::new(path), self.open).map_err(failed)?;
        self.writer.import_record(&mut BufReader::new(file))
    }
}
