//! A place for one store, and one for notes next to it.

use std::path::{Path, PathBuf};

use rejoin_store::Location;
use tempfile::TempDir;

use super::{Fault, Kind};

/// A folder with a store of one kind, and the notes of its writers.
#[derive(Debug)]
pub struct Place {
    /// The folder of both.
    pub folder: TempDir,
    /// `sqlite` or `jsonl`.
    pub kind: &'static str,
}

impl Place {
    /// The kinds of stores that are made to fail.
    pub const KINDS: [&'static str; 2] = ["sqlite", "jsonl"];

    /// A place in an empty folder.
    ///
    /// # Panics
    /// If the folder cannot be written.
    #[must_use]
    pub fn new(folder: TempDir, kind: &'static str) -> Self {
        let place = Self { folder, kind };
        for folder in [place.under(), place.notes()] {
            std::fs::create_dir(folder).expect("an empty folder");
        }
        place
    }

    /// The folder that everything of the store is in.
    #[must_use]
    pub fn under(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The folder of the notes.
    #[must_use]
    pub fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    /// The location of the store.
    #[must_use]
    pub fn location(&self) -> Location {
        Self::location_in(&self.under(), self.kind)
    }

    /// The location of a store of some kind in a folder.
    #[must_use]
    pub fn location_in(folder: &Path, kind: &str) -> Location {
        match kind {
            "sqlite" => Location::Sqlite(folder.join("rejoin.db")),
            _ => Location::Jsonl(folder.to_owned()),
        }
    }

    /// A fault that strikes the store.
    #[must_use]
    pub fn fault(&self, kind: Kind, at: u64) -> Fault {
        Fault { kind, at, under: self.under(), notes: self.notes() }
    }
}
