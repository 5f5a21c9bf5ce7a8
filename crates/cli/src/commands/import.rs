//! `rejoin import`: other tools' sessions into the store. The files are only read.

use std::{fs::File, io::BufReader};

use indicatif::{ProgressBar, ProgressStyle};
use rejoin::{
    Session,
    engine::{EngineError, Imported, Writer},
    store::StoreError,
};

use super::report;
use crate::{
    args::ImportArguments,
    desk::{self, Desk, Flags},
    failure::{Failure, UNREADABLE},
    json::Object,
    output::{self, harmless, paint, plural},
    places::{self, AGENTS, Candidate},
};

/// The format of rejoin's own entries.
const OWN: &str = "jsonl";

/// Takes in everything that can be read; what cannot does not stop the others.
pub fn run(arguments: &ImportArguments, flags: &Flags) -> Result<u8, Failure> {
    let agents = if arguments.all { AGENTS } else { &[] };
    let (candidates, missing) = places::candidates(agents, &arguments.paths);
    for path in &missing {
        let failure = Failure::Unreadable {
            name: path.display().to_string(),
            why: String::from("there is no such file or folder"),
            hint: None,
        };
        failure.say();
    }
    if candidates.is_empty() {
        output::talk("There is nothing to import.");
        return Ok(if missing.is_empty() { 0 } else { UNREADABLE });
    }
    let desk = Desk::new(flags)?;
    let store = desk.write_store()?;
    let bar = ProgressBar::new(candidates.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} sessions") {
        bar.set_style(style);
    }
    let mut import = Import {
        writer: desk::writer(&*store, "rejoin import"),
        json: arguments.json,
        counts: Counts::default(),
    };
    for candidate in &candidates {
        bar.suspend(|| import.file(candidate, arguments.from.as_deref()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    desk::settle(&*store);
    let counts = import.counts;
    if !arguments.json {
        output::talk(&counts.sentence());
    }
    match (counts.read, counts.unreadable + missing.len(), counts.failed) {
        (0, 1.., _) => Ok(UNREADABLE),
        (_, _, 0) => Ok(0),
        (all, _, failed) => Err(Failure::Some { failed, all }),
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// Conversations that were read.
    read: usize,
    /// Conversations that were not there before.
    new: usize,
    /// Conversations that grew.
    grown: usize,
    /// Files that cannot be read.
    unreadable: usize,
    /// Files in a folder that are no sessions.
    others: usize,
    /// Conversations that the store did not take.
    failed: usize,
}

impl Counts {
    fn sentence(&self) -> String {
        let mut said = format!(
            "{} read: {} new, {} grown, {} as before",
            plural(self.read as u64, "conversation"),
            self.new,
            self.grown,
            self.read - self.new - self.grown - self.failed
        );
        if self.unreadable > 0 {
            said.push_str(&format!("; {} could not be read", plural(self.unreadable as u64, "file")));
        }
        match self.others {
            0 => {}
            1 => said.push_str("; 1 other file is no session (name it to see why)"),
            others => said.push_str(&format!("; {others} other files are no sessions (name one to see why)")),
        }
        said + "."
    }
}

struct Import<'s> {
    writer: Writer<'s>,
    json: bool,
    counts: Counts,
}

impl Import<'_> {
    fn file(&mut self, candidate: &Candidate, from: Option<&str>) -> Result<(), Failure> {
        let sessions = match candidate.read(from) {
            Ok(sessions) => sessions,
            // Some file in a folder that somebody named: it need not be a session.
            Err(_) if candidate.agent.is_none() && !candidate.named => {
                self.counts.others += 1;
                return Ok(());
            }
            Err(failure) => {
                self.counts.unreadable += 1;
                failure.say();
                return Ok(());
            }
        };
        let path = candidate.path.display().to_string();
        sessions.iter().try_for_each(|session| self.session(&path, session))
    }

    fn session(&mut self, path: &str, session: &Session) -> Result<(), Failure> {
        self.counts.read += 1;
        for finding in &session.findings {
            output::talk(&format!("{}: {}", harmless(path), report::line(finding)));
        }
        let imported =
            if session.format == OWN { self.own_record(path) } else { self.writer.import(session) };
        match imported {
            Ok(imported) => {
                self.counts.new += usize::from(imported.new);
                self.counts.grown += usize::from(!imported.new && imported.added > 0);
                self.tell(path, session, imported)
            }
            // Nothing more can be saved: whoever asked should know at once.
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
        let file = File::open(path).map_err(|why| StoreError::Io { what: format!("opening {path}"), why })?;
        self.writer.import_record(&mut BufReader::new(file))
    }

    fn tell(&self, path: &str, session: &Session, imported: Imported) -> Result<(), Failure> {
        let id = imported.id.to_string();
        if self.json {
            let object = Object::new()
                .text("id", &id)
                .text("path", path)
                .text("format", session.format)
                .flag("new", imported.new)
                .number("added", imported.added)
                .number("messages", imported.messages);
            return output::raw_data(&object.finish());
        }
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
