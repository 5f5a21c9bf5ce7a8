//! `rejoin import`: other agents' sessions into the store. The files are only read.
//!
//! In a folder every regular file is tried by its content. Files that are no sessions are counted by reason; none of them stops
//! the others. `journal.rs` remembers what each import did, so that it can be taken back; `watch.rs` goes on importing.

mod journal;
mod watch;

use std::{collections::BTreeMap, io::BufReader, path::Path};

use rejoin::{
    Session,
    engine::{EngineError, Imported, Writer},
    shape,
    store::StoreError,
};

use self::journal::Journal;
use super::report;
use crate::{
    args::ImportArguments,
    commands::prelude::*,
    places::{self, Candidate, Candidates, FolderFiles, LookFor},
    source,
};

/// The format of rejoin's own record.
const OWN: &str = "jsonl";

/// Imports every file; one that cannot be read does not stop the others.
pub fn run(arguments: &ImportArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    if arguments.undo {
        return journal::undo(&desk, arguments.json);
    }
    // `--agent` and `--watch` without paths mean what `--all` means.
    let everywhere = arguments.all || arguments.paths.is_empty();
    let named = !everywhere && arguments.agents.agents.is_empty();
    let wanted = if named {
        LookFor { since: arguments.agents.since(), ..LookFor::default() }
    } else {
        arguments.agents.wanted(&desk.settings)
    };
    let (databases, paths): (Vec<String>, Vec<String>) =
        arguments.paths.iter().cloned().partition(|path| source::is_database_address(path));
    let Candidates { files: candidates, missing, passed_over } =
        places::candidates(&wanted, &paths, FolderFiles::All);
    for path in &missing {
        Failure::unreadable(path.display(), "there is no such file or folder", None).say();
    }
    if candidates.is_empty() && databases.is_empty() && !arguments.watch {
        output::talk("There is nothing to import.");
        return Ok(if arguments.paths.is_empty() { 0 } else { UNREADABLE });
    }
    let store = desk.write_store()?;
    let bar = output::progress(candidates.len(), "{bar:40} {pos}/{len} sessions");
    let mut import = Import {
        writer: desk::writer(&*store, "rejoin import"),
        journal: Journal::open(&desk),
        wanted: &wanted,
        json: arguments.json,
        counts: Counts::default(),
        voice: Voice::Full,
    };
    let mut watched = watch::Watched::default();
    passed_over.into_iter().for_each(|(path, reason)| import.counts.skip(&path, reason));
    for candidate in &candidates {
        watched.note(&candidate.path);
        bar.suspend(|| import.file(candidate, arguments.from.as_deref()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    databases.iter().try_for_each(|address| import.database(address))?;
    desk::settle(&*store);
    if arguments.watch {
        let failed = import.counts.failed;
        output::talk(&import.counts.sentence());
        import.voice = Voice::News;
        return watch::run(&mut import, watched, arguments).map(|()| u8::from(failed > 0));
    }
    let counts = import.counts;
    if !arguments.json {
        output::talk(&counts.sentence());
    } else if !counts.skipped.is_empty() {
        let reasons = counts.skipped.iter().map(|(reason, (count, _))| (*reason, *count));
        output::json_data(&shape::skipped(reasons))?;
    }
    match (counts.read, counts.unreadable + missing.len(), counts.failed) {
        (0, 1.., _) => Ok(UNREADABLE),
        (_, _, 0) => Ok(0),
        (all, _, failed) => Err(Failure::some(failed, all)),
    }
}

#[derive(Debug, Default)]
struct Counts {
    read: usize,
    /// Conversations that were not in the store before.
    new: usize,
    grown: usize,
    /// Files that were named on the command line, or that belong to an agent, and cannot be read.
    unreadable: usize,
    /// Every file that gave no conversation, by the reason: how many, and the first of them.
    skipped: BTreeMap<&'static str, (u64, String)>,
    /// Conversations that could not be stored.
    failed: usize,
}

impl Counts {
    fn sentence(&self) -> String {
        let mut said = format!(
            "{} read: {} new, {} grown, {} as before",
            plural(self.read, "conversation"),
            self.new,
            self.grown,
            self.read - self.new - self.grown - self.failed
        );
        if !self.skipped.is_empty() {
            let total: u64 = self.skipped.values().map(|(count, _)| count).sum();
            let reasons = self.skipped.iter().map(|(reason, (count, first))| {
                let first =
                    if *count == 1 { harmless(first) } else { format!("such as {}", harmless(first)) };
                format!("\n  {count} {reason}: {first}")
            });
            said.push_str(&format!(".\n{} skipped", plural(total, "file")));
            return format!("{said}:{}", reasons.collect::<String>());
        }
        said + "."
    }

    fn skip(&mut self, path: &Path, reason: &'static str) {
        let (count, _) = self.skipped.entry(reason).or_insert_with(|| (0, path.display().to_string()));
        *count += 1;
    }
}

/// How much is said about each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    /// Everything.
    Full,
    /// Only what was added: the same file is read again and again.
    News,
}

struct Import<'s> {
    writer: Writer<'s>,
    journal: Journal,
    wanted: &'s LookFor,
    json: bool,
    counts: Counts,
    voice: Voice,
}

impl Import<'_> {
    fn file(&mut self, candidate: &Candidate, from: Option<&str>) -> Result<(), Failure> {
        let sessions = match candidate.try_read(from) {
            Ok(sessions) => sessions,
            Err(unread) => {
                self.counts.skip(&candidate.path, unread.reason());
                // Some file in a folder need not be a session. One that was named, or that an agent wrote, should be.
                if (candidate.agent.is_some() || candidate.named) && self.voice == Voice::Full {
                    self.counts.unreadable += 1;
                    unread.failure(&candidate.path, from).say();
                }
                return Ok(());
            }
        };
        let path = candidate.path.display().to_string();
        let recent = sessions.iter().filter(|session| self.wanted.wants(session));
        recent.collect::<Vec<_>>().into_iter().try_for_each(|session| self.session(&path, session))
    }

    /// The tables of a bot in a database.
    fn database(&mut self, address: &str) -> Result<(), Failure> {
        let name = rejoin::store::hidden(address);
        let mut stopped = Ok(());
        source::each_history(address, &mut |sessions| {
            let sessions = match sessions {
                Ok(sessions) => sessions,
                Err(error) => {
                    self.counts.skip(Path::new(&name), "without a conversation in it");
                    tracing::debug!("{name}: {error}");
                    return;
                }
            };
            for session in sessions.iter().filter(|session| self.wanted.wants(session)) {
                if stopped.is_ok() {
                    stopped = self.session(&name, session);
                }
            }
        })?;
        stopped
    }

    fn session(&mut self, path: &str, session: &Session) -> Result<(), Failure> {
        self.counts.read += 1;
        for finding in session.findings.iter().filter(|_| self.voice == Voice::Full) {
            output::talk(&format!("{}: {}", harmless(path), report::line(finding)));
        }
        let imported =
            if session.format == OWN { self.own_record(path) } else { self.writer.import(session) };
        match imported {
            Ok(imported) => {
                self.counts.new += usize::from(imported.new);
                self.counts.grown += usize::from(!imported.new && imported.added > 0);
                if let Some(growth) = imported.growth {
                    self.journal.add(imported.id, path, growth);
                }
                if self.voice == Voice::News && imported.added == 0 {
                    return Ok(());
                }
                self.tell(path, session, imported)
            }
            // Nothing more can be saved: the user should know at once.
            Err(EngineError::Store(why)) if why.is_unwritable() => Err(EngineError::Store(why).into()),
            Err(error) => {
                self.counts.failed += 1;
                output::talk(&format!("{}:", harmless(path)));
                Failure::from(error).say();
                Ok(())
            }
        }
    }

    /// A file of rejoin's own entries: they go in as they are, hashes included.
    fn own_record(&self, path: &str) -> Result<Imported, EngineError> {
        let failed = |why| StoreError::Io { what: format!("opening {path}"), why };
        // It was read once already, to see what it is.
        if !Path::new(path).is_file() {
            let why = std::io::Error::other("a pipe cannot be read twice; save it in a file first");
            return Err(failed(why).into());
        }
        let file = source::open_unpacked(Path::new(path)).map_err(failed)?;
        self.writer.import_record(&mut BufReader::new(file))
    }

    fn tell(&self, path: &str, session: &Session, imported: Imported) -> Result<(), Failure> {
        if self.json {
            return output::json_data(&shape::imported(&imported, path, session.format));
        }
        let id = imported.id.to_string();
        let added = if imported.added == 0 {
            String::from("nothing new")
        } else {
            format!("{} added", imported.added)
        };
        let messages = plural(imported.messages, "message");
        output::data(&format!(
            "{}  {added:>11}  {messages:>12}  {}",
            paint(&id, output::STRONG),
            harmless(path)
        ))
    }
}
