//! The history of messages that were sent from this folder, for the arrow keys and Ctrl-R. `rejoin::prompts` has the file.
//!
//! Nothing that looks like a key is kept, and no long message.

use std::{io, path::Path};

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};
use rejoin::engine::auth::redact::may_hold_secret;

use super::pastes::Pastes;
use rejoin::prompts::{LINE_BYTES, LINES, SentFile};

/// The history of a folder.
pub struct FolderHistory {
    inner: FileBackedHistory,
    file: SentFile,
    pastes: Pastes,
}

impl FolderHistory {
    pub fn open(data: &Path, of: &Path, pastes: Pastes) -> Result<Self> {
        let mut past =
            Self { inner: FileBackedHistory::new(LINES)?, file: SentFile::of_folder(data, of), pastes };
        for line in past.file.read() {
            past.inner.save(HistoryItem::from_command_line(line))?;
        }
        Ok(past)
    }
}

impl History for FolderHistory {
    fn save(&mut self, mut item: HistoryItem) -> Result<HistoryItem> {
        let text = self.pastes.put_back(&item.command_line);
        if text.len() > LINE_BYTES || text.trim().is_empty() || may_hold_secret(&text) {
            return Ok(item);
        }
        if let Err(why) = self.file.add(&text) {
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
    use rejoin::prompts::FOLDER;

    fn texts(past: &FolderHistory) -> Vec<String> {
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
        let open = |folder: &Path| FolderHistory::open(data.path(), folder, Pastes::default()).unwrap();
        let mut past = open(&here);
        for text in ["one", "two\nlines", "my key is sk-ant-api03-abcdefghijklmnopqrstuvwx", "x", "x", " "] {
            past.save(HistoryItem::from_command_line(text)).unwrap();
        }
        past.save(HistoryItem::from_command_line("long ".repeat(10_000))).unwrap();
        assert_eq!(texts(&past), ["one", "two\nlines", "x"]);
        assert_eq!(texts(&open(&here)), ["one", "two\nlines", "x"]);
        assert!(texts(&open(&there)).is_empty());
        let file = data.path().join(FOLDER).join(&past.file.name);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // Damaged lines do no harm.
        std::fs::write(&file, b"\"one\"\n\xff{\n[]\n\"two\"\n").unwrap();
        assert_eq!(texts(&open(&here)), ["one", "two"]);
        for number in 0..LINES + 5 {
            past.save(HistoryItem::from_command_line(number.to_string())).unwrap();
        }
        assert_eq!(texts(&open(&here)).len(), LINES, "it is bounded");
    }
}
