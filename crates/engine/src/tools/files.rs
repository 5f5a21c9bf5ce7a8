//! `read_file` and `list_dir`: looking at the working folder, and never outside of it.

use std::{
    io::{Read as _, Seek as _},
    path::PathBuf,
};

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{
    Raw,
    json::{Doc, Value},
};
use rejoin_store::Location;

use super::{
    Output, Tool,
    beneath::{Beneath, Hidden, Refused},
};
use crate::provider::Doing;

/// How much of a file is read at a time: some ten thousand words.
const PIECE: u64 = 128 * 1024;
/// How many names of a folder are listed.
const NAMES: usize = 2_000;

/// What a model is told of a path that was not opened.
fn told(path: &str) -> impl Fn(Refused) -> String {
    move |why| format!("`{path}`: {why}")
}

/// Reads a text file.
#[derive(Debug, Clone)]
pub struct ReadFile {
    folder: Beneath,
    hidden: Hidden,
}

impl ReadFile {
    /// For files in this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Beneath::new(folder), hidden: Hidden::default() }
    }

    /// Never reads this file, whatever link leads to it: what is read goes to a provider and into the record, and keys must
    /// not.
    #[must_use]
    pub fn hiding(mut self, file: impl Into<PathBuf>) -> Self {
        self.hidden.file(file.into());
        self
    }

    /// Never reads a file of this store, whatever link leads to it: other conversations are not the model's business.
    #[must_use]
    pub fn hiding_store(mut self, store: Location) -> Self {
        self.hidden.store(store);
        self
    }

    fn read(&self, arguments: &str) -> Result<String, String> {
        let doc = Doc::parse(arguments).map_err(|why| why.to_string())?;
        let root = doc.root();
        let path = text(root, "path").ok_or("`path` is missing")?;
        let offset = root.and_then(|root| root.given("offset")?.as_u64()).unwrap_or(0);
        let opened = self.folder.open_file(&path).map_err(told(&path))?;
        if self.hidden.has(&opened) {
            return Err(format!("`{path}` is one of rejoin's own files or holds keys: it is not shown"));
        }
        let mut file = opened.file;
        let said = |why: std::io::Error| format!("`{path}`: {why}");
        let len = file.metadata().map_err(said)?.len();
        file.seek(std::io::SeekFrom::Start(offset)).map_err(said)?;
        // One byte more than is shown tells whether there is more: not every file says how long it is.
        let mut bytes = Vec::new();
        file.take(PIECE + 1).read_to_end(&mut bytes).map_err(said)?;
        if bytes.contains(&0) {
            return Err(format!("`{path}` is not a text file"));
        }
        let more = bytes.len() as u64 > PIECE;
        bytes.truncate(PIECE as usize);
        // A letter that the end cuts in two belongs to the next piece.
        let cut = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && more => bytes.len() - error.valid_up_to(),
            _ => 0,
        };
        bytes.truncate(bytes.len() - cut);
        let end = offset.saturating_add(bytes.len() as u64);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if more {
            let length = len.max(end + 1);
            text.push_str(&format!("\n[{end} of {length} bytes; go on with offset {end}]"));
        }
        Ok(text)
    }
}

/// Does it on a thread of its own. A disk may take its time, or never answer, and a turn can be stopped all the same.
fn elsewhere(work: impl FnOnce() -> Result<String, String> + Send + 'static) -> Doing<'static, Output> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_or_else(Output::error, Output::of),
            Err(why) => Output::error(format!("it was not done: {why}")),
        }
    })
}

impl Tool for ReadFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"relative to the working folder"},"offset":{"type":"integer","description":"the first byte to read, 0 if absent"}},"required":["path"],"additionalProperties":false}"#;
        ToolDeclaration::function("read_file", "Reads a text file of the working folder.", Raw::new(schema))
    }

    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, Output> {
        let (tool, arguments) = (self.clone(), arguments.to_owned());
        elsewhere(move || tool.read(&arguments))
    }
}

/// Lists a folder.
#[derive(Debug, Clone)]
pub struct ListDir(Beneath);

impl ListDir {
    /// For folders in this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Beneath::new(folder))
    }

    fn list(&self, arguments: &str) -> Result<String, String> {
        let doc = Doc::parse(arguments).map_err(|why| why.to_string())?;
        let path = text(doc.root(), "path").unwrap_or_else(|| String::from("."));
        let mut names: Vec<String> = Vec::new();
        let mut more = 0;
        let mut take = |name: std::ffi::OsString| {
            names.push(name.to_string_lossy().into_owned());
            // However many there are, no more are kept than are listed twice.
            if names.len() >= 2 * NAMES {
                more += first(&mut names);
            }
        };
        self.0.each_name(&path, &mut take).map_err(told(&path))?;
        more += first(&mut names);
        for name in &mut names {
            if self.0.is_folder(&path, name) {
                name.push('/');
            }
        }
        if names.is_empty() {
            return Ok(String::from("[the folder is empty]"));
        }
        let mut text = names.join("\n");
        if more > 0 {
            text.push_str(&format!("\n[and {more} more]"));
        }
        Ok(text)
    }
}

/// Sorts names and keeps those that are listed: how many were left out.
fn first(names: &mut Vec<String>) -> usize {
    names.sort();
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    more
}

fn text(root: Option<Value<'_>>, name: &str) -> Option<String> {
    root?.given(name)?.as_str().map(std::borrow::Cow::into_owned)
}

impl Tool for ListDir {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"relative to the working folder, which it is if absent"}},"additionalProperties":false}"#;
        ToolDeclaration::function("list_dir", "Lists the names in a folder.", Raw::new(schema))
    }

    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, Output> {
        let (tool, arguments) = (self.clone(), arguments.to_owned());
        elsewhere(move || tool.list(&arguments))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_in_the_folder_are_read_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        let inside = folder.path().join("in");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::write(inside.join("a.txt"), "hello").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../secret", inside.join("link")).unwrap();
        let read = ReadFile::new(&inside);
        assert_eq!(read.read(r#"{"path":"a.txt"}"#).unwrap(), "hello");
        assert_eq!(read.read(r#"{"path":"a.txt","offset":3}"#).unwrap(), "lo");
        for outside in ["../secret", "link", "sub", "nothing"] {
            assert!(read.read(&format!("{{\"path\":\"{outside}\"}}")).is_err(), "{outside}");
        }
        assert!(read.read("{}").is_err());
        let list = ListDir::new(&inside);
        assert_eq!(list.list("{}").unwrap(), if cfg!(unix) { "a.txt\nlink\nsub/" } else { "a.txt\nsub/" });
        assert!(list.list(r#"{"path":".."}"#).is_err());
    }

    /// No tool reads a file with keys, whatever its name, nor anything that only looks like a file.
    #[test]
    fn what_holds_keys_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("auth.json");
        fs::write(&keys, "sk-secret").unwrap();
        fs::write(folder.path().join("other"), "fine").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("auth.json", folder.path().join("link")).unwrap();
        fs::hard_link(&keys, folder.path().join("hard")).unwrap();
        let read = ReadFile::new(folder.path()).hiding(&keys).hiding(folder.path().join("not-there"));
        let names =
            if cfg!(unix) { &["auth.json", "./auth.json", "link", "hard"][..] } else { &["auth.json"] };
        for path in names {
            let why = read.read(&format!("{{\"path\":\"{path}\"}}")).unwrap_err();
            assert!(why.contains("holds keys") && !why.contains("sk-secret"), "{why}");
        }
        assert_eq!(read.read(r#"{"path":"other"}"#).unwrap(), "fine");
        for offset in ["5", "99", "18446744073709551615", "-1", "\"x\""] {
            let read = read.read(&format!("{{\"path\":\"other\",\"offset\":{offset}}}"));
            assert!(read.is_err() || read.is_ok_and(|text| text.len() <= 4), "{offset}");
        }
    }

    /// Other conversations are no business of a model that works in the folder of a store, or beside hard links to one.
    #[cfg(unix)]
    #[test]
    fn the_files_of_a_store_are_hidden() {
        use rejoin_store::{Access, Digest, Options, open};
        for kind in ["sqlite", "jsonl"] {
            let folder = tempfile::tempdir().unwrap();
            let location = match kind {
                "sqlite" => Location::Sqlite(folder.path().join("store/r.db")),
                _ => Location::Jsonl(folder.path().join("store")),
            };
            let options =
                Options { access: Access::Write, digester: |_| Box::new(|_: &_| Digest::default()) };
            let store = open(&location, options).unwrap();
            let new = crate::New { title: Some(String::from("secret")), ..crate::New::default() };
            let writer = crate::Writer { store: &*store, clock: &crate::SystemClock, command: "a test" };
            let id = writer.create(&new).unwrap();
            store.settle().unwrap();
            let mut draft = store.drafts().unwrap().begin(id).unwrap();
            draft.append(b"secret").unwrap();
            fs::create_dir(folder.path().join("work")).unwrap();
            let read = ReadFile::new(folder.path()).hiding_store(location);
            let (mut folders, mut found) = (vec![folder.path().join("store")], 0);
            while let Some(inside) = folders.pop() {
                for entry in fs::read_dir(inside).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                        continue;
                    }
                    found += 1;
                    let link = folder.path().join(format!("work/{found}"));
                    fs::hard_link(&path, &link).unwrap();
                    for path in [path, link] {
                        let why = read.read(&format!("{{\"path\":\"{}\"}}", path.display())).unwrap_err();
                        assert!(why.contains("rejoin's own files"), "{kind}: {why}");
                    }
                }
            }
            assert!(found >= 3, "{kind}: {found} files");
            fs::write(folder.path().join("store/notes"), "mine").unwrap();
            assert_eq!(read.read(r#"{"path":"store/notes"}"#).unwrap(), "mine");
        }
    }

    /// A disk that does not answer holds no turn up: the work is done on another thread.
    #[test]
    fn looking_is_done_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let (read, list) = (ReadFile::new(folder.path()), ListDir::new(folder.path()));
        // The only thread for such work has something else to do.
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            for (mut doing, expected) in [(read.run(r#"{"path":"a"}"#), "x"), (list.run("{}"), "a")] {
                let (free, busy) = std::sync::mpsc::channel::<()>();
                tokio::task::spawn_blocking(move || busy.recv());
                let first =
                    std::future::poll_fn(|context| std::task::Poll::Ready(doing.as_mut().poll(context)));
                assert!(first.await.is_pending());
                drop(free);
                assert_eq!(doing.await, Output::of(expected));
            }
        });
    }

    #[test]
    fn a_folder_of_many_is_listed_in_part() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * NAMES + 10 {
            fs::write(folder.path().join(format!("{number:05}")), "").unwrap();
        }
        fs::create_dir(folder.path().join("00000x")).unwrap();
        let listed = ListDir::new(folder.path()).list("{}").unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!((lines[0], lines[1], lines[NAMES - 1]), ("00000", "00000x/", "01998"));
        assert_eq!(lines[NAMES..], [format!("[and {} more]", NAMES + 11)]);
    }

    #[test]
    fn a_long_file_is_read_in_pieces_and_no_letter_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let whole = format!("x{}", "\u{e9}".repeat(PIECE as usize));
        fs::write(folder.path().join("long"), &whole).unwrap();
        let read = ReadFile::new(folder.path());
        let (mut text, mut offset) = (String::new(), 0);
        loop {
            let piece = read.read(&format!("{{\"path\":\"long\",\"offset\":{offset}}}")).unwrap();
            match piece.rsplit_once("\n[") {
                Some((piece, more)) => {
                    text.push_str(piece);
                    offset = more.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
                }
                None => {
                    text.push_str(&piece);
                    break;
                }
            }
        }
        assert_eq!(text, whole);
    }
}
