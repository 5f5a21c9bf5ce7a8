//! rejoin's own file of keys: one JSON object, readable by its owner only.
//!
//! A change writes a new file and renames it over the old one, so that a crash leaves either the old or the new file. Fields that
//! this version does not know are kept.

use std::{
    io,
    path::{Path, PathBuf},
};

use rejoin_store::files::{self, PrivateFolder};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use super::{Key, KeyOrigin};

/// Largest file of keys, in bytes. There are a few dozen services, and keys are short.
const FILE_BYTES: u64 = 1024 * 1024;

/// Why keys cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file exists and cannot be read or written.
    #[error("the keys in {path} cannot be {what}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file holds something other than keys.
    #[error("{path} is not a file of keys; move it away, then log in again", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// A file of keys. If it exists and cannot be read, or holds something other than keys, every operation fails and nothing is written.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this path. It need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A provider's key.
    pub fn get(&self, provider: &str) -> Result<Option<Key>, AuthError> {
        let entries = self.entries()?;
        let key = entries.get(provider).and_then(|entry| entry.get("key")?.as_str());
        Ok(key.and_then(|key| Key::api(key, KeyOrigin::Stored(self.path.clone()))))
    }

    /// The providers that have a key here.
    pub fn providers(&self) -> Result<Vec<String>, AuthError> {
        Ok(self.entries()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Stores a provider's key.
    pub fn set(&self, provider: &str, key: &SecretString) -> Result<(), AuthError> {
        let mut entries = self.entries()?;
        entries.shift_remove(provider);
        entries.insert(provider.to_owned(), json!({"key": key.expose_secret().trim()}));
        self.write(entries)
    }

    /// Removes a provider's key. Returns false if there was none.
    pub fn remove(&self, provider: &str) -> Result<bool, AuthError> {
        let mut entries = self.entries()?;
        if entries.shift_remove(provider).is_none() {
            self.sweep();
            return Ok(false);
        }
        self.write(entries).map(|()| true)
    }

    fn entries(&self) -> Result<Map<String, Value>, AuthError> {
        let text = match read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
            text => text.map_err(|error| self.trouble("read", error))?,
        };
        if text.trim().is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(&text).map_err(|_| AuthError::Damaged { path: self.path.clone() })
    }

    fn write(&self, entries: Map<String, Value>) -> Result<(), AuthError> {
        let replace = || {
            self.folder().make()?;
            self.sweep();
            self.folder().replace(&self.name(), format!("{}\n", Value::Object(entries)).as_bytes())
        };
        replace().map_err(|source| self.trouble("written", source))
    }

    fn trouble(&self, what: &'static str, source: io::Error) -> AuthError {
        AuthError::File { path: self.path.clone(), what, source }
    }

    fn folder(&self) -> PrivateFolder {
        PrivateFolder::new(self.path.parent().unwrap_or(Path::new("")))
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Removes files that a killed process left beside this one: they may hold keys.
    fn sweep(&self) {
        let (folder, own) = (self.folder(), self.name());
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        // Older versions named them after the stem.
        let ours = [format!("{own}.part-"), format!("{stem}.new.")];
        for name in folder.names().unwrap_or_default() {
            if ours.iter().any(|ours| name.to_string_lossy().starts_with(ours)) {
                let _ = folder.remove(name);
            }
        }
    }
}

/// Reads a small text file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let bytes = files::read_small(path, FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.utf8_error()))
}
