//! `read_file` and `list_dir`: looking at a folder, and never outside of it.

use std::{
    fs,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
};

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{
    Raw,
    json::{Doc, Value},
};

use super::{Output, Tool};
use crate::provider::Doing;

/// How much of a file is read at a time: some ten thousand words.
const PIECE: u64 = 128 * 1024;
/// How many names of a folder are listed.
const NAMES: usize = 2_000;

/// Where files are looked for.
#[derive(Debug, Clone)]
struct Folder(PathBuf);

impl Folder {
    /// The path that is meant, if it is in the folder. Links are followed before that is decided.
    fn find(&self, path: &str) -> Result<PathBuf, String> {
        let base = fs::canonicalize(&self.0).map_err(|why| format!("the folder is not there: {why}"))?;
        let found = fs::canonicalize(base.join(path)).map_err(|why| format!("`{path}`: {why}"))?;
        if found.starts_with(&base) {
            Ok(found)
        } else {
            Err(format!("`{path}` is outside of the folder that may be looked at"))
        }
    }
}

/// Reads a text file.
#[derive(Debug, Clone)]
pub struct ReadFile(Folder);

impl ReadFile {
    /// For files in this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Folder(folder.into()))
    }

    fn read(&self, arguments: &str) -> Result<String, String> {
        let doc = Doc::parse(arguments).map_err(|why| why.to_string())?;
        let root = doc.root();
        let path = text(root, "path").ok_or("`path` is missing")?;
        let offset = root.and_then(|root| root.given("offset")?.as_u64()).unwrap_or(0);
        let found = self.0.find(&path)?;
        let said = |why: std::io::Error| format!("`{path}`: {why}");
        // Looking at what it is comes first: opening a pipe would wait for somebody to write to it.
        let meta = fs::metadata(&found).map_err(said)?;
        if !meta.is_file() {
            return Err(format!("`{path}` is not a file"));
        }
        let mut file = fs::File::open(&found).map_err(said)?;
        file.seek(std::io::SeekFrom::Start(offset)).map_err(said)?;
        let mut bytes = Vec::new();
        file.take(PIECE).read_to_end(&mut bytes).map_err(said)?;
        if bytes.contains(&0) {
            return Err(format!("`{path}` is not a text file"));
        }
        // A letter that the end cuts in two belongs to the next piece.
        let end = offset + bytes.len() as u64;
        let cut = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && end < meta.len() => {
                bytes.len() - error.valid_up_to()
            }
            _ => 0,
        };
        bytes.truncate(bytes.len() - cut);
        let end = end - cut as u64;
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if end < meta.len() {
            text.push_str(&format!("\n[{} of {} bytes; go on with offset {end}]", end, meta.len()));
        }
        Ok(text)
    }
}

impl Tool for ReadFile {
    fn declaration(&self) -> ToolDeclaration {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string","description":"relative to the working folder"},"offset":{"type":"integer","description":"the first byte to read, 0 if absent"}},"required":["path"],"additionalProperties":false}"#;
        ToolDeclaration::function("read_file", "Reads a text file of the working folder.", Raw::new(schema))
    }

    fn run<'a>(&'a self, arguments: &'a str) -> Doing<'a, Output> {
        Box::pin(async move { self.read(arguments).map_or_else(Output::error, Output::of) })
    }
}

/// Lists a folder.
#[derive(Debug, Clone)]
pub struct ListDir(Folder);

impl ListDir {
    /// For folders in this folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Folder(folder.into()))
    }

    fn list(&self, arguments: &str) -> Result<String, String> {
        let doc = Doc::parse(arguments).map_err(|why| why.to_string())?;
        let path = text(doc.root(), "path").unwrap_or_else(|| String::from("."));
        let found = self.0.find(&path)?;
        let entries = fs::read_dir(&found).map_err(|why| format!("`{path}`: {why}"))?;
        let mut names: Vec<String> = entries.flatten().map(|entry| name(&entry.path())).collect();
        names.sort();
        let more = names.len().saturating_sub(NAMES);
        names.truncate(NAMES);
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

/// A name as it is listed: folders end with a slash.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if path.is_dir() { name + "/" } else { name }
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
        Box::pin(async move { self.list(arguments).map_or_else(Output::error, Output::of) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_folder_are_read_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in");
        fs::create_dir(&inside).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(inside.join("a.txt"), "hello").unwrap();
        fs::create_dir(inside.join("sub")).unwrap();
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
