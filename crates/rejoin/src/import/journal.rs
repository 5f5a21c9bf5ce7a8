//! A record of each import, in a file of the data folder, so that imports can be undone.
//!
//! It has one line per conversation that an import changed, written immediately, so a killed process still leaves lines for its
//! work. Lines with the same `import` belong to one import.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use rejoin_engine::{EngineError, Growth, Mode, TakeBackOutcome, Writer};
use rejoin_record::{
    ConversationId, Entry, Tail, Timestamp,
    json::{Doc, Object, Value},
};
use rejoin_store::{Location, files::PrivateFolder};

const FILE: &str = "imports.jsonl";

/// How many imports are kept when the file is shortened.
const REMEMBERED: usize = 50;
/// The size in bytes above which the file is shortened.
const LONG: u64 = 1024 * 1024;

/// How many conversations are deleted at once.
const AT_ONCE: usize = 100;

/// The journal cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub why: io::Error,
}

/// The journal file, to which an import adds its changes.
#[derive(Debug)]
pub struct Journal {
    folder: PrivateFolder,
    store: String,
    import: String,
    file: Option<File>,
}

impl Journal {
    /// The journal in a folder, for an import into a store that begins now. Nothing is created before the first change.
    #[must_use]
    pub fn open(folder: &Path, store: &Location, now: Timestamp) -> Self {
        let folder = PrivateFolder::new(folder);
        let size = folder.open(FILE).and_then(|file| file.metadata()).map_or(0, |metadata| metadata.len());
        let journal = Self { folder, store: store.to_string(), import: now.to_string(), file: None };
        if size > LONG {
            journal.shorten();
        }
        journal
    }

    /// Records that the import changed a conversation.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, id: ConversationId, path: &str, growth: Growth) -> Result<(), JournalError> {
        let path = match is_address(path) {
            true => path.to_owned(),
            false => {
                std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
            }
        };
        let (import, store) = (self.import.clone(), self.store.clone());
        self.write(&Line { import, store, id, path, growth: Some(growth) })
    }

    /// The newest import into this store that was not undone; `None` if there is none.
    #[must_use]
    pub fn last(&self) -> Option<PastImport> {
        self.last_of(|_| true)
    }

    /// The newest import that was not undone, limited to the conversations that a function allows, such as those of one scope. Its
    /// other conversations are left alone.
    pub fn last_of(&self, allows: impl Fn(ConversationId) -> bool) -> Option<PastImport> {
        for (began, mut lines) in imports(&self.text().unwrap_or_default()).into_iter().rev() {
            lines.retain(|line| line.store == self.store && allows(line.id));
            if !lines.is_empty() {
                return Some(PastImport { began, lines });
            }
        }
        None
    }

    /// Undoes an import: a conversation that it added is deleted, and one that had grown gets its former head back. A conversation
    /// is kept if entries were added since, or if its source file no longer exists. Each outcome is reported.
    ///
    /// # Errors
    /// If the store or the journal cannot be written, or `each` fails.
    pub fn undo<E: From<EngineError> + From<JournalError>>(
        &mut self,
        past: PastImport,
        writer: &Writer<'_>,
        each: &mut impl FnMut(&UndoneImport) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut lines = past.lines.into_iter().peekable();
        while let Some(line) = lines.next() {
            if line.is_added() {
                let mut added = vec![line];
                while let Some(line) = lines.next_if(|line| line.is_added() && added.len() < AT_ONCE) {
                    added.push(line);
                }
                self.undo_added(added, writer, each)?;
                continue;
            }
            let growth = line.growth.expect("BUG: a line that was taken back");
            let outcome = match growth.before {
                None => UndoOutcome::SourceGone,
                Some(_) => writer.take_back(line.id, growth)?.into(),
            };
            self.undone(line, outcome, Vec::new(), each)?;
        }
        Ok(())
    }

    /// Undoes the import of conversations that were new.
    fn undo_added<E: From<EngineError> + From<JournalError>>(
        &mut self,
        lines: Vec<Line>,
        writer: &Writer<'_>,
        each: &mut impl FnMut(&UndoneImport) -> Result<(), E>,
    ) -> Result<(), E> {
        let tail = |line: &Line| line.growth.expect("BUG: a line that was taken back").after;
        let added: Vec<(ConversationId, Tail)> = lines.iter().map(|line| (line.id, tail(line))).collect();
        let read = |line: &Line| rejoin_engine::read(writer.store, line.id, Mode::Recover);
        let entries: Vec<Vec<Entry>> =
            lines.iter().map(|line| read(line).map(|read| read.entries).unwrap_or_default()).collect();
        let outcomes = writer.take_back_new(&added)?;
        for ((line, entries), outcome) in lines.into_iter().zip(entries).zip(outcomes) {
            let entries = if outcome == TakeBackOutcome::Deleted { entries } else { Vec::new() };
            self.undone(line, outcome.into(), entries, each)?;
        }
        Ok(())
    }

    fn undone<E: From<JournalError>>(
        &mut self,
        line: Line,
        outcome: UndoOutcome,
        entries: Vec<Entry>,
        each: &mut impl FnMut(&UndoneImport) -> Result<(), E>,
    ) -> Result<(), E> {
        each(&UndoneImport { id: line.id, path: line.path.clone(), outcome, entries })?;
        if outcome.is_undone() {
            self.write(&Line { growth: None, ..line })?;
        }
        Ok(())
    }

    fn write(&mut self, line: &Line) -> Result<(), JournalError> {
        // Write it in one piece, so that lines of two processes do not mix.
        let line = line.to_json() + "\n";
        let written = self.end().and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|why| JournalError { path: self.folder.path_of(FILE), why })
    }

    /// The file, opened at its end.
    fn end(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            self.folder.make()?;
            self.file = Some(self.folder.open_to_append(FILE, true)?);
        }
        Ok(self.file.as_ref().expect("BUG: it was just opened"))
    }

    fn text(&self) -> io::Result<String> {
        let mut text = String::new();
        self.folder.open(FILE)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Drops all but the newest imports. If that fails, the file stays unchanged.
    fn shorten(&self) {
        let Ok(text) = self.text() else { return };
        let imports = imports(&text);
        let kept = imports.iter().skip(imports.len().saturating_sub(REMEMBERED));
        let lines: String = kept.flat_map(|(_, lines)| lines).map(|line| line.to_json() + "\n").collect();
        let _ = self.folder.replace(FILE, lines.as_bytes());
    }
}

/// An import that can be undone.
#[derive(Debug)]
pub struct PastImport {
    /// The time when it began, as a text.
    pub began: String,
    lines: Vec<Line>,
}

/// The outcome of undoing an import for one conversation.
#[derive(Debug)]
pub struct UndoneImport {
    /// The conversation.
    pub id: ConversationId,
    /// The file from which it came.
    pub path: String,
    /// What happened to it.
    pub outcome: UndoOutcome,
    /// The entries of a conversation that was deleted.
    pub entries: Vec<Entry>,
}

impl UndoneImport {
    /// As a JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        Object::new()
            .text("id", self.id)
            .text("path", &self.path)
            .flag("undone", self.outcome.is_undone())
            .text("outcome", self.outcome.words())
            .finish()
    }
}

/// What happened to a conversation when its import was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The import had created it, and it was deleted.
    Deleted,
    /// It has its former head again.
    Restored,
    /// The store no longer had it.
    Missing,
    /// It was kept, because entries were added since.
    WentOn,
    /// It was kept, because its source file no longer exists.
    SourceGone,
}

impl From<TakeBackOutcome> for UndoOutcome {
    fn from(outcome: TakeBackOutcome) -> Self {
        match outcome {
            TakeBackOutcome::Deleted => Self::Deleted,
            TakeBackOutcome::Restored => Self::Restored,
            TakeBackOutcome::Missing => Self::Missing,
            TakeBackOutcome::WentOn => Self::WentOn,
        }
    }
}

impl UndoOutcome {
    /// The outcome in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Restored => "restored",
            Self::Missing => "already gone",
            Self::WentOn => "kept: it was continued after the import",
            Self::SourceGone => "kept: its file is gone, so this is the only copy",
        }
    }

    /// Whether nothing of the import is left.
    #[must_use]
    pub fn is_undone(self) -> bool {
        !matches!(self, Self::WentOn | Self::SourceGone)
    }
}

/// Whether a source is a server. Unlike a file, it is assumed to have the conversations still.
fn is_address(source: &str) -> bool {
    source.parse().is_ok_and(|source| matches!(source, Location::Postgres(_)))
}

/// A line of the journal.
#[derive(Debug, Clone)]
struct Line {
    import: String,
    store: String,
    id: ConversationId,
    path: String,
    /// `None` for a line that records that the change was undone, or could not be.
    growth: Option<Growth>,
}

impl Line {
    /// Whether the import added the conversation, so that it can be repeated.
    fn is_added(&self) -> bool {
        let is_there = is_address(&self.path) || Path::new(&self.path).exists();
        is_there && self.growth.is_some_and(|growth| growth.before.is_none())
    }

    fn to_json(&self) -> String {
        let object = Object::new()
            .text("import", &self.import)
            .text("store", &self.store)
            .text("id", self.id)
            .text("path", &self.path);
        match self.growth {
            None => object.flag("undone", true),
            Some(Growth { before, after }) => {
                let object = object.object("after", tail_to_json(after));
                before.map_or(object.clone(), |before| object.object("before", tail_to_json(before)))
            }
        }
        .finish()
    }

    fn from_json(line: &str) -> Option<Self> {
        let doc = Doc::parse(line).ok()?;
        let root = doc.root()?;
        let text = |name: &str| Some(root.get(name)?.as_str()?.into_owned());
        let growth = match root.get("after") {
            Some(after) => {
                let before = root.get("before").map(tail_of);
                if before.is_some_and(|before| before.is_none()) {
                    return None;
                }
                Some(Growth { before: before.flatten(), after: tail_of(after)? })
            }
            None => None,
        };
        let id = text("id")?.parse().ok()?;
        Some(Self { import: text("import")?, store: text("store")?, id, path: text("path")?, growth })
    }
}

fn tail_to_json(tail: Tail) -> Object {
    Object::new().number("seq", tail.seq).text("id", tail.id).text("hash", tail.hash)
}

fn tail_of(value: Value<'_>) -> Option<Tail> {
    let text = |name: &str| value.get(name)?.as_str();
    Some(Tail {
        seq: value.get("seq")?.as_u64()?,
        id: text("id")?.parse().ok()?,
        hash: text("hash")?.parse().ok()?,
    })
}

/// The imports that can be undone, oldest first, with the total change of each conversation.
fn imports(text: &str) -> Vec<(String, Vec<Line>)> {
    let mut imports: Vec<(String, BTreeMap<ConversationId, Line>)> = Vec::new();
    for line in text.lines().filter_map(Line::from_json) {
        let place = imports.iter().position(|(import, _)| *import == line.import);
        let place = place.unwrap_or_else(|| {
            imports.push((line.import.clone(), BTreeMap::new()));
            imports.len() - 1
        });
        let lines = &mut imports[place].1;
        match (line.growth, lines.get_mut(&line.id)) {
            (None, _) => drop(lines.remove(&line.id)),
            // The conversation grew twice in one import.
            (Some(growth), Some(first)) => {
                let before = first.growth.and_then(|first| first.before);
                first.growth = Some(Growth { before, ..growth });
            }
            (Some(_), None) => drop(lines.insert(line.id, line)),
        }
    }
    let lines = |(import, lines): (String, BTreeMap<_, Line>)| (import, lines.into_values().collect());
    imports.into_iter().map(lines).filter(|(_, lines): &(String, Vec<Line>)| !lines.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(seq: u64) -> Tail {
        let id = ConversationId::derive("test", "x");
        Tail {
            seq,
            id: rejoin_record::EntryId::derive(&id, &seq.to_string(), ""),
            hash: rejoin_record::hash::of_bytes(&[1]),
        }
    }

    /// Several changes by one import are one change, and undone changes are gone.
    #[test]
    fn lines_add_up() {
        let line = |import: &str, name: &str, growth| Line {
            import: import.to_owned(),
            store: String::from("sqlite:x"),
            id: ConversationId::derive("test", name),
            path: format!("/tmp/{name}.jsonl"),
            growth,
        };
        let new = Growth { before: None, after: tail(3) };
        let more = Growth { before: Some(tail(3)), after: tail(7) };
        let mut text = String::new();
        for line in [
            line("1", "a", Some(new)),
            line("1", "b", Some(new)),
            line("1", "a", Some(more)),
            line("2", "b", Some(more)),
            line("1", "b", None),
        ] {
            text.push_str(&(line.to_json() + "\n"));
        }
        text.push_str("{\"torn");
        let found = imports(&text);
        assert_eq!(found.len(), 2);
        let [first] = &found[0].1[..] else { panic!("{found:?}") };
        assert_eq!(first.growth, Some(Growth { before: None, after: tail(7) }));
        assert_eq!(found[1].1[0].growth, Some(more));
    }
}
