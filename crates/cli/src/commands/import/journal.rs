//! What each import did, in a file of the data folder, so that `rejoin import --undo` can take it back.
//!
//! One line per conversation that an import changed, written as soon as it was: a process that is killed leaves lines for what it
//! did. Lines with the same `import` belong to one command.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rejoin::{
    engine::{Clock as _, Growth, SystemClock, TakenBack},
    record::{
        ConversationId, Tail,
        json::{Doc, Object, Value},
    },
};

use crate::{
    active,
    desk::{self, Desk},
    failure::{FAILED, Failure},
    home::{self, Existing},
    output::{self, harmless, paint, plural},
    prompts,
};

const FILE: &str = "imports.jsonl";

/// How many imports are remembered when the file is shortened, and the size at which that happens.
const REMEMBERED: usize = 50;
const LONG: u64 = 1024 * 1024;

/// The end of the file, to which an import adds what it does.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    store: String,
    import: String,
    file: Option<File>,
    /// Whether something could not be written.
    broken: bool,
}

impl Journal {
    pub fn open(desk: &Desk) -> Self {
        let path = desk.home.data.join(FILE);
        if path.metadata().is_ok_and(|metadata| metadata.len() > LONG) {
            shorten(&path);
        }
        let import = SystemClock.now().to_string();
        Self { path, store: desk.location.to_string(), import, file: None, broken: false }
    }

    /// Remembers that an import changed a conversation. An import is not stopped by a journal that cannot be written.
    pub fn add(&mut self, id: ConversationId, path: &str, growth: Growth) {
        let path =
            std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
        let line =
            Line { import: self.import.clone(), store: self.store.clone(), id, path, growth: Some(growth) };
        if let Err(why) = self.write(&line.to_json())
            && !std::mem::replace(&mut self.broken, true)
        {
            let path = output::shown(&self.path);
            output::warning(format!("`rejoin import --undo` will not know of this import: {path}: {why}"));
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(append_to(&self.path)?);
        }
        let file = self.file.as_mut().expect("BUG: it was just opened");
        // In one piece, so that lines of two processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    if !path.exists() {
        home::write_with_folders(path, b"", Existing::Replaced)?;
    }
    OpenOptions::new().append(true).open(path)
}

/// A line of the journal.
#[derive(Debug, Clone)]
struct Line {
    import: String,
    store: String,
    id: ConversationId,
    path: String,
    /// None once it was taken back, or could not be.
    growth: Option<Growth>,
}

impl Line {
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

/// The imports that can be taken back, oldest first: what each did to each conversation, all in all.
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
            // It grew twice in one import that goes on.
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

/// Keeps the newest imports. If that fails, the file stays as it is.
fn shorten(path: &Path) {
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let imports = imports(&text);
    let kept = imports.iter().skip(imports.len().saturating_sub(REMEMBERED));
    let lines: String = kept.flat_map(|(_, lines)| lines).map(|line| line.to_json() + "\n").collect();
    let _ = home::write(path, lines.as_bytes(), Existing::Replaced);
}

/// `rejoin import --undo`: takes the last import into this store back.
pub fn undo(desk: &Desk, json: bool) -> Result<u8, Failure> {
    let mut journal = Journal::open(desk);
    let text = std::fs::read_to_string(&journal.path).unwrap_or_default();
    let here = |(_, lines): &(String, Vec<Line>)| lines.iter().any(|line| line.store == journal.store);
    let Some((import, lines)) = imports(&text).into_iter().rfind(here) else {
        output::talk("There is no import to undo.");
        return Ok(0);
    };
    let store = desk.write_store()?;
    let writer = desk::writer(&*store, "rejoin import --undo");
    let time = import.split('.').next().unwrap_or(&import).replace('T', " ");
    output::talk(&format!("Undoing the import of {time} UTC."));
    let (mut undone, mut left) = (0, 0);
    let location = journal.store.clone();
    for line in lines.into_iter().filter(|line| line.store == location) {
        let growth = line.growth.expect("BUG: a line that was taken back");
        let outcome = if growth.before.is_none() && !Path::new(&line.path).exists() {
            // Here is the only copy.
            Outcome::SourceGone
        } else {
            let said = rejoin::engine::read(&*store, line.id, rejoin::engine::Mode::Recover);
            match writer.take_back(line.id, growth)? {
                TakenBack::Deleted => {
                    active::forget(&desk.home.data, line.id);
                    let entries = said.map(|said| said.entries).unwrap_or_default();
                    if let Err(why) = prompts::forget(&desk.home.data, entries.iter()) {
                        output::warning(format!("the prompt may still remember what was said: {why}"));
                    }
                    Outcome::Done("deleted")
                }
                TakenBack::Restored => Outcome::Done("restored"),
                TakenBack::Missing => Outcome::Done("already gone"),
                TakenBack::WentOn => Outcome::WentOn,
            }
        };
        outcome.tell(&line, json)?;
        match outcome {
            Outcome::Done(_) => {
                undone += 1;
                let done = Line { growth: None, ..line };
                journal
                    .write(&done.to_json())
                    .map_err(|why| Failure::unwritable(journal.path.display(), &why))?;
            }
            Outcome::WentOn | Outcome::SourceGone => left += 1,
        }
    }
    desk::settle(&*store);
    if !json {
        let left_alone = if left == 0 { String::new() } else { format!(", {left} kept") };
        output::talk(&format!(
            "{} undone{left_alone}. No session file was changed.",
            plural(undone, "conversation")
        ));
    }
    Ok(if left > 0 { FAILED } else { 0 })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was taken back, and is now as the words say.
    Done(&'static str),
    /// There was more said in it since.
    WentOn,
    /// The file that it came from does not exist any more.
    SourceGone,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::Done(words) => words,
            Self::WentOn => "kept: it was continued after the import",
            Self::SourceGone => "kept: its file is gone, so this is the only copy",
        }
    }

    fn tell(self, line: &Line, json: bool) -> Result<(), Failure> {
        if json {
            let object = Object::new().text("id", line.id).text("path", &line.path);
            let object = object.flag("undone", matches!(self, Self::Done(_))).text("outcome", self.words());
            return output::json_data(&object.finish());
        }
        let id = paint(&line.id.to_string(), output::STRONG);
        output::data(&format!("{id}  {}  {}", self.words(), harmless(&line.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(seq: u64) -> Tail {
        let id = ConversationId::derive("test", "x");
        Tail {
            seq,
            id: rejoin::record::EntryId::derive(&id, &seq.to_string(), ""),
            hash: rejoin::record::hash::of_bytes(&[1]),
        }
    }

    /// Several changes of one import are one change, and what was taken back is not there any more.
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
