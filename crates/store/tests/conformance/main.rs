//! The one suite that every kind of store passes: memory, a folder of files, a file, a server.
//!
//! `in_every_home` is the list of stores. `model.rs` compares each with a plain list of entries under random operations.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

#[path = "../support/mod.rs"]
mod support;

mod finding;
mod gone;
mod keeping;
mod model;
mod scopes;
mod together;
mod writing;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use rejoin_record::{Chain, Entry, Kind, Message, Raw, Tail, ToolCall, entry::SaltedBody};
use rejoin_store::{
    Damage, Holder, Location, Query, Search, SessionState, StoragePlace, Store, StoreError, StoredItem,
    lock::Lock,
};
use support::{Talk, WRITE, ancestors, hashes, ids, problems, read, tail};

/// A place where a store can be.
struct Home {
    name: &'static str,
    location: Location,
    folder: tempfile::TempDir,
}

impl Home {
    fn open(&self) -> Box<dyn Store> {
        rejoin_store::open(&self.location, WRITE).unwrap()
    }

    /// Reopens the store as the next process would. A store in memory would be lost, so it stays open.
    fn reopen(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        if self.is_on_disk() {
            drop(store);
            self.open()
        } else {
            store
        }
    }

    fn is_on_disk(&self) -> bool {
        self.location != Location::Memory
    }

    /// Whether the conversations are in files of this machine, and not a server's.
    fn keeps_files(&self) -> bool {
        matches!(self.location, Location::Sqlite(_) | Location::Jsonl(_))
    }

    /// Every file, with its folder.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for file in fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }

    /// A store in which there is one conversation.
    fn with_talk(&self, number: u64, messages: usize) -> (Box<dyn Store>, Talk, Vec<Entry>) {
        let store = self.open();
        let (talk, entries) = Talk::of(number, messages);
        store.append(talk.id, None, &entries).unwrap();
        (store, talk, entries)
    }

    /// A store in which there is one conversation, with these messages at its end.
    fn with_texts(&self, texts: &[&str]) -> (Box<dyn Store>, Talk, Vec<Entry>) {
        let (store, mut talk, mut entries) = self.with_talk(1, 2);
        let more: Vec<Entry> = texts.iter().map(|text| talk.user(text)).collect();
        store.append(talk.id, tail(&entries), &more).unwrap();
        entries.extend(more);
        (store, talk, entries)
    }

    /// How many files hold some text.
    fn holding(&self, text: &str) -> usize {
        let holds = |path: &PathBuf| position(&fs::read(path).unwrap(), text).is_some();
        self.files().iter().filter(|path| holds(path)).count()
    }
}

fn position(bytes: &[u8], text: &str) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text.as_bytes())
}

/// Runs a test in every home.
fn in_every_home(test: impl Fn(&Home)) {
    type StoragePlace = fn(&Path) -> Option<Location>;
    let homes: [(&str, StoragePlace); 5] = [
        ("memory", |_| Some(Location::Memory)),
        ("jsonl", |folder| Some(Location::Jsonl(folder.join("store")))),
        ("sqlite", |folder| Some(Location::Sqlite(folder.join("store/rejoin.db")))),
        ("postgres", support::postgres),
        ("postgres with its options", |folder| {
            let location = support::postgres(folder)?;
            let store = rejoin_store::open(&location, WRITE).unwrap();
            for option in store.options().unwrap() {
                store.enable(option.name).unwrap();
            }
            Some(location)
        }),
    ];
    for (name, place) in homes {
        let folder = support::folder();
        let Some(location) = place(folder.path()) else { continue };
        let home = Home { name, location, folder };
        assert_eq!(*home.open().location(), home.location);
        println!("{name}");
        test(&home);
    }
}

/// Runs a test in every home, with a new store there.
fn in_every_store(test: impl Fn(&Home, Box<dyn Store>)) {
    in_every_home(|home| test(home, home.open()));
}

/// Runs a test in every home that keeps its conversations in files of this machine.
fn in_every_home_on_disk(test: impl Fn(&Home)) {
    in_every_home(|home| {
        if home.keeps_files() {
            test(home);
        }
    });
}

fn search(store: &dyn Store, words: &str) -> Vec<rejoin_store::Hit> {
    store.settle().unwrap();
    store.search(&Search { words: words.to_owned(), limit: 10, ..Search::default() }).unwrap()
}
