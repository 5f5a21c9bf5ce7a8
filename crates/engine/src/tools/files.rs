//! `read_file` and `list_dir`, which read the working folder and nothing outside of it.

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
    Call, Plan, Tool, ToolOutput,
    beneath::{Beneath, Hidden, Refused},
};
use crate::provider::Doing;

/// The most bytes that are read of a file at once, about twenty thousand words.
const PIECE: u64 = 128 * 1024;
/// The most names that are listed of a folder.
const NAMES: usize = 2_000;

/// The message to the model about a path that was not opened.
fn refusal_of(path: &str) -> impl Fn(Refused) -> String {
    move |why| format!("`{path}`: {why}")
}

/// Reads a text file.
#[derive(Debug, Clone)]
pub struct ReadFile {
    folder: Beneath,
    hidden: Hidden,
}

impl ReadFile {
    /// Reads files in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Beneath::new(folder), hidden: Hidden::default() }
    }

    /// Never reads this file, under any name. What is read goes to a provider and into the record, and keys must not.
    #[must_use]
    pub fn hiding(mut self, file: impl Into<PathBuf>) -> Self {
        self.hidden.file(file.into());
        self
    }

    /// Never reads a file of this store, under any name: a model must not see other conversations.
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
        let opened = self.folder.open_file(&path).map_err(refusal_of(&path))?;
        if self.hidden.has(&opened) {
            return Err(format!("`{path}` is one of rejoin's own files or holds keys: it is not shown"));
        }
        let mut file = opened.file;
        let said = |why: std::io::Error| format!("`{path}`: {why}");
        let len = file.metadata().map_err(said)?.len();
        file.seek(std::io::SeekFrom::Start(offset)).map_err(said)?;
        // One byte more than is shown tells whether there is more: not every file knows its length.
        let mut bytes = Vec::new();
        file.take(PIECE + 1).read_to_end(&mut bytes).map_err(said)?;
        if bytes.contains(&0) {
            return Err(format!("`{path}` is not a text file"));
        }
        let more = bytes.len() as u64 > PIECE;
        bytes.truncate(PIECE as usize);
        // A character that is cut at the end belongs to the next piece.
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

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path relative to the workspace, with `/` between names.
    pub path: String,
    /// The content before; none if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The content after.
    pub after: Vec<u8>,
}

/// Works on another thread, so that a turn can be stopped while a disk does not answer.
fn on_another_thread(
    work: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Doing<'static, ToolOutput> {
    Box::pin(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done.map_or_else(ToolOutput::error, ToolOutput::of),
            Err(why) => ToolOutput::error(format!("it was not done: {why}")),
        }
    })
}

impl Tool for ReadFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"relative to the working folder"},"offset":{"type":"integer","description":"the first byte to read, 0 if absent"}},"required":["path"],"additionalProperties":false}"#;
        ToolDeclaration::function("read_file", "Reads a text file of the working folder.", Raw::new(schema))
    }

    fn plan<'a>(&'a self, _arguments: &'a str) -> Doing<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> Doing<'a, ToolOutput> {
        let (tool, arguments) = (self.clone(), call.arguments.to_owned());
        on_another_thread(move || tool.read(&arguments))
    }
}

/// Lists a folder.
#[derive(Debug, Clone)]
pub struct ListDir(Beneath);

impl ListDir {
    /// Lists this folder and folders in it.
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
            // Keep at most twice as many as are listed.
            if names.len() >= 2 * NAMES {
                more += first(&mut names);
            }
        };
        self.0.each_name(&path, &mut take).map_err(refusal_of(&path))?;
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

/// Sorts names and keeps those that are listed. Returns the number of the others.
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

    fn plan<'a>(&'a self, _arguments: &'a str) -> Doing<'a, Result<Plan, ToolOutput>> {
        Plan::reads()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> Doing<'a, ToolOutput> {
        let (tool, arguments) = (self.clone(), call.arguments.to_owned());
        on_another_thread(move || tool.list(&arguments))
    }
}

#[cfg(test)]
mod tests;
