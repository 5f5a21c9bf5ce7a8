//! The messages that were sent from this folder, for the arrow keys and Ctrl-R. They are in a file that only their owner can read.
//!
//! Nothing that looks like a key is kept, and nothing long.

use std::{
    io,
    path::{Path, PathBuf},
};

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};
use rejoin::{engine::auth::redact::may_hold_secret, record::hash, serde_json, store::files::PrivateFolder};

use super::pastes::Pastes;

/// How many messages are kept.
const LINES: usize = 1000;

/// The longest message that is kept.
const LINE_BYTES: usize = 4 * 1024;

/// The largest file that is read: more than it can have.
const MOST_BYTES: u64 = 2 * (LINES * LINE_BYTES) as u64;

/// The folder of histories, in the data folder.
const FOLDER: &str = "prompts";

/// The history of a folder. The file has one JSON text per line, the newest last.
pub struct Past {
    inner: FileBackedHistory,
    folder: PrivateFolder,
    name: String,
    pastes: Pastes,
}

impl Past {
    pub fn open(data: &Path, of: &Path, pastes: Pastes) -> Result<Self> {
        let whole: PathBuf = std::fs::canonicalize(of).unwrap_or_else(|_| of.to_owned());
        let name = hash::of_bytes(whole.as_os_str().as_encoded_bytes()).to_string();
        let folder = PrivateFolder::inside(data.join(FOLDER));
        let mut past = Self {
            inner: FileBackedHistory::new(LINES)?,
            folder,
            name: format!("{}.jsonl", &name[..32]),
            pastes,
        };
        for line in past.stored() {
            past.inner.save(HistoryItem::from_command_line(line))?;
        }
        Ok(past)
    }

    /// What the file has. A line that is no text is left out.
    fn stored(&self) -> Vec<String> {
        let bytes = self.folder.read(&self.name, MOST_BYTES).ok().flatten().unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Adds a message to the file. Other prompts in the same folder add theirs, so it is read again first.
    fn store(&self, text: &str) -> io::Result<()> {
        self.folder.make()?;
        let mut lines = self.stored();
        if lines.last().is_some_and(|last| last == text) {
            return Ok(());
        }
        lines.push(text.to_owned());
        let newest = &lines[lines.len().saturating_sub(LINES)..];
        let file: String =
            newest.iter().map(|line| format!("{}\n", serde_json::Value::from(line.as_str()))).collect();
        self.folder.replace(&self.name, file.as_bytes())
    }
}

impl History for Past {
    fn save(&mut self, mut item: HistoryItem) -> Result<HistoryItem> {
        let text = self.pastes.put_back(&item.command_line);
        if text.len() > LINE_BYTES || text.trim().is_empty() || may_hold_secret(&text) {
            return Ok(item);
        }
        if let Err(why) = self.store(&text) {
            tracing::debug!("the history of the prompt cannot be written: {why}");
        }
        item.command_line = text;
        self.inner.save(item)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.inner.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.inner.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.inner.search(query)
    }

    fn update(&mut self, id: HistoryItemId, updater: &dyn Fn(HistoryItem) -> HistoryItem) -> Result<()> {
        self.inner.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.inner.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.inner.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn session(&self) -> Option<HistorySessionId> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(past: &Past) -> Vec<String> {
        let all = SearchQuery::everything(reedline::SearchDirection::Forward, None);
        past.search(all).unwrap().into_iter().map(|item| item.command_line).collect()
    }

    #[test]
    fn messages_are_kept_for_their_folder_without_keys() {
        let data = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| {
            let folder = data.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        });
        let open = |folder: &Path| Past::open(data.path(), folder, Pastes::default()).unwrap();
        let mut past = open(&here);
        for text in ["one", "two\nlines", "my key is sk-ant-api03-abcdefghijklmnopqrstuvwx", "x", "x", " "] {
            past.save(HistoryItem::from_command_line(text)).unwrap();
        }
        past.save(HistoryItem::from_command_line("long ".repeat(10_000))).unwrap();
        assert_eq!(texts(&past), ["one", "two\nlines", "x"]);
        assert_eq!(texts(&open(&here)), ["one", "two\nlines", "x"]);
        assert!(texts(&open(&there)).is_empty());
        let file = data.path().join(FOLDER).join(&past.name);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // What was damaged does no harm.
        std::fs::write(&file, b"\"one\"\n\xff{\n[]\n\"two\"\n").unwrap();
        assert_eq!(texts(&open(&here)), ["one", "two"]);
        for number in 0..LINES + 5 {
            past.save(HistoryItem::from_command_line(number.to_string())).unwrap();
        }
        assert_eq!(texts(&open(&here)).len(), LINES, "it is bounded");
    }
}
