//! The files with the messages sent from each folder, for the arrow keys and the search of the prompt. Only their owner can read
//! them.

use std::{
    collections::HashSet,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use rejoin_engine::serde_json;
use rejoin_record::{Block, Content, Entry, Role, hash};
use rejoin_store::files::PrivateFolder;

/// How many messages are kept per folder.
pub const LINES: usize = 1000;

/// The longest message that is kept, in bytes.
pub const LINE_BYTES: usize = 4 * 1024;

/// The largest file that is read, in bytes: more than it can have.
const MOST_BYTES: u64 = 2 * (LINES * LINE_BYTES) as u64;

/// The folder of these files, in the data folder.
pub const FOLDER: &str = "prompts";

/// The messages sent from one folder. The file has one JSON string per line, the newest last.
#[derive(Debug)]
pub struct SentFile {
    folder: PrivateFolder,
    /// The name of the file.
    pub name: OsString,
}

impl SentFile {
    /// The file of the folder `of`.
    #[must_use]
    pub fn of_folder(data: &Path, of: &Path) -> Self {
        let whole: PathBuf = std::fs::canonicalize(of).unwrap_or_else(|_| of.to_owned());
        let name = hash::of_bytes(whole.as_os_str().as_encoded_bytes()).to_string();
        Self { folder: all(data), name: format!("{}.jsonl", &name[..32]).into() }
    }

    /// The messages, the newest last. Invalid lines are skipped.
    #[must_use]
    pub fn read(&self) -> Vec<String> {
        let bytes = self.folder.read(&self.name, MOST_BYTES).ok().flatten().unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Adds a message. The file is read again first, because other prompts in the same folder add theirs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&self, text: &str) -> io::Result<()> {
        self.folder.make()?;
        let mut lines = self.read();
        if lines.last().is_some_and(|last| last == text) {
            return Ok(());
        }
        lines.push(text.to_owned());
        self.write(&lines[lines.len().saturating_sub(LINES)..])
    }

    fn write(&self, lines: &[String]) -> io::Result<()> {
        let text: String =
            lines.iter().map(|line| format!("{}\n", serde_json::Value::from(line.as_str()))).collect();
        self.folder.replace(&self.name.to_string_lossy(), text.as_bytes())
    }
}

/// All files, in the data folder.
fn all(data: &Path) -> PrivateFolder {
    PrivateFolder::inside(data.join(FOLDER))
}

/// Removes a person's text in these entries from the files of all folders, because it is being erased from the record.
///
/// # Errors
/// If a file cannot be changed. It may still contain the text.
pub fn forget<'e>(data: &Path, entries: impl IntoIterator<Item = &'e Entry>) -> io::Result<()> {
    let said: HashSet<String> = entries.into_iter().flat_map(typed).map(|text| comparable(&text)).collect();
    if said.is_empty() {
        return Ok(());
    }
    for name in all(data).names()? {
        let file = SentFile { folder: all(data), name };
        let mut lines = file.read();
        let before = lines.len();
        lines.retain(|line| !said.contains(&comparable(line)));
        if lines.len() < before {
            file.write(&lines)?;
        }
    }
    Ok(())
}

/// The typed text of an entry: of a message, or of a command.
fn typed(entry: &Entry) -> Vec<String> {
    match Content::of(entry) {
        Content::Message(message) if message.role == Role::User => {
            message.blocks.iter().filter_map(Block::as_text).map(|text| text.to_string()).collect()
        }
        Content::Command(command) => vec![command.command.to_string()],
        _ => Vec::new(),
    }
}

/// A text in the form for comparing: without the backslashes that keep a line from being a command or a mention of a file.
fn comparable(text: &str) -> String {
    text.trim().replace('\\', "")
}
