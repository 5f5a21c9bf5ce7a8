//! The outcome of each break, kept in `target/sabotage-results`, so that runs of parts add up.
//!
//! There is one line per break: outcome, seconds, file, description. A result counts while the break is unchanged in the table.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash as _, Hasher as _},
    io::ErrorKind,
};

use anyhow::{Context as _, Result};

use super::{Break, run::Outcome};

const FILE: &str = "target/sabotage-results";

pub struct Results {
    lines: BTreeMap<String, (bool, String)>,
}

/// A name for a break made from all its fields, so that a changed break counts as not run.
fn key(b: &Break) -> String {
    let mut hasher = DefaultHasher::new();
    (b.file, b.within, b.from, b.to, b.tests).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Results {
    pub fn read() -> Result<Self> {
        let text = match fs::read_to_string(FILE) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).context(FILE),
        };
        let lines = text.lines().filter_map(|line| {
            let (key, rest) = line.split_once('\t')?;
            Some((key.to_owned(), (!rest.starts_with("NOT"), rest.to_owned())))
        });
        Ok(Self { lines: lines.collect() })
    }

    /// Whether a break was noticed; `None` if it was not run.
    pub fn of(&self, b: &Break) -> Option<bool> {
        self.lines.get(&key(b)).map(|(noticed, _)| *noticed)
    }

    /// Saves the outcome of a break immediately, because a long run may be stopped.
    pub fn record(&mut self, b: &Break, outcome: &Outcome, seconds: f64) -> Result<()> {
        let rest = format!("{outcome}\t{seconds:.1}\t{}\t{}", b.file, b.what);
        self.lines.insert(key(b), (outcome.is_noticed(), rest));
        let lines: Vec<String> =
            self.lines.iter().map(|(key, (_, rest))| format!("{key}\t{rest}\n")).collect();
        fs::write(FILE, lines.concat()).context(FILE)
    }
}
