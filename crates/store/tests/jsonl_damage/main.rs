//! Files that are cut off, flipped, duplicated, out of order, emptied, joined, filled with zeros. Every undamaged entry is read,
//! all damage is found, and the conversation continues.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

mod any;
mod changed;
mod folder;
mod lines;
mod torn;

use std::{
    fs,
    path::{Path, PathBuf},
};

use rejoin_record::{ConversationId, Entry};
use rejoin_store::{Location, StoragePlace, Store, StoreError};
use support::{Talk, ancestors, hashes, ids, jsonl, problems, read, tail};

/// A folder with one conversation, and the entries that it should have.
struct Damaged {
    folder: tempfile::TempDir,
    talk: Talk,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Damaged {
    fn new(messages: usize) -> Self {
        let folder = support::folder();
        let (talk, entries) = Talk::of(1, messages);
        jsonl(folder.path()).append(talk.id, None, &entries).unwrap();
        let bytes = fs::read(folder.path().join(format!("{}.jsonl", talk.id))).unwrap();
        Self { folder, talk, entries, bytes }
    }

    fn id(&self) -> ConversationId {
        self.talk.id
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.jsonl", self.talk.id))
    }

    /// The store with other bytes in the file.
    fn with(&self, bytes: &[u8]) -> Box<dyn Store> {
        fs::write(self.path(), bytes).unwrap();
        jsonl(self.folder.path())
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        self.bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// Every way of reading returns the same entries.
    fn check(&self, store: &dyn Store, expected: &[Entry], what: &str) {
        let (entries, _) = read(store, self.id(), 0);
        assert_eq!(ids(&entries), ids(expected), "{what}");
        assert_eq!(hashes(&entries), hashes(expected), "{what}");
        assert_eq!(store.tail(self.id()).unwrap(), tail(expected), "{what}");
        let mut back = ancestors(store, self.id(), None);
        back.reverse();
        assert_eq!(ids(&back), ids(expected), "{what}");
    }

    /// Checks that every entry is read, one line is reported as changed, and the conversation continues.
    fn is_whole_beside(&self, store: &dyn Store, line: u64, what: &str) {
        self.check(store, &self.entries, what);
        let found = problems(store, None);
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert_eq!((found[0].place, found[0].torn), (StoragePlace::Line(line), false), "{what}");
        self.goes_on(store, &self.entries, what);
    }

    /// The conversation continues, without losing an existing entry.
    fn goes_on(&self, store: &dyn Store, expected: &[Entry], what: &str) {
        let before = fs::read(self.path()).unwrap();
        let mut talk = Talk::new(77);
        talk.id = self.id();
        talk.chain = rejoin_record::Chain::at(tail(expected));
        let mut all = expected.to_vec();
        if expected.is_empty() {
            all.push(talk.header());
        } else {
            all.push(talk.user("and on it goes"));
        }
        let new = &all[expected.len()..];
        assert_eq!(store.append(self.id(), tail(expected), new).unwrap(), tail(&all).unwrap(), "{what}");
        self.check(store, &all, what);
        self.check(&*jsonl(self.folder.path()), &all, what);
        assert!(fs::read(self.path()).unwrap().starts_with(&before), "{what}: only ever appended to");
    }
}

fn only_torn(store: &dyn Store, id: ConversationId, what: &str) {
    let found = problems(store, Some(id));
    assert!(found.iter().all(|problem| problem.torn), "{what}: {found:?}");
}
