//! rejoin's own file of keys: one JSON object, readable by its owner only.
//!
//! It is written whole beside itself and then put in its place, so that a crash leaves the old one or the new one. What it
//! holds and this version does not know stays in it.

use std::{
    io,
    path::{Path, PathBuf},
};

use rejoin_record::json::{Doc, Kind, Object, Value};
use rejoin_store::files::{self, PrivateFolder};
use secrecy::{ExposeSecret as _, SecretString};

use super::{Key, KeyOrigin};

/// The largest file of keys. There are a few dozen services, and keys are short.
const FILE_BYTES: u64 = 1024 * 1024;

/// Why keys cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file is there and cannot be read or written.
    #[error("the keys in {path} cannot be {what}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is not a file of keys; move it away, then log in again", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// A file of keys.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this place. It need not be there.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A provider's key.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn get(&self, provider: &str) -> Result<Option<Key>, AuthError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let entries = self.entries(&text)?;
        let found = entries.into_iter().rev().find(|(name, _)| name == provider);
        Ok(found.and_then(|(_, entry)| {
            let doc = Doc::parse(&entry).ok()?;
            let key = doc.root()?.given("key")?.as_str()?;
            Key::api(&key, KeyOrigin::Stored(self.path.clone()))
        }))
    }

    /// The providers that have a key here.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn providers(&self) -> Result<Vec<String>, AuthError> {
        let Some(text) = self.text()? else { return Ok(Vec::new()) };
        Ok(self.entries(&text)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Keeps a key.
    ///
    /// # Errors
    /// If the file cannot be written, or holds something else.
    pub fn set(&self, provider: &str, key: &SecretString) -> Result<(), AuthError> {
        let entry = Object::new().text("key", key.expose_secret().trim());
        self.change(provider, Some(entry.finish())).map(|_| ())
    }

    /// Forgets a key. Whether there was one.
    ///
    /// # Errors
    /// If the file cannot be written, or holds something else.
    pub fn remove(&self, provider: &str) -> Result<bool, AuthError> {
        self.change(provider, None)
    }

    fn change(&self, provider: &str, entry: Option<String>) -> Result<bool, AuthError> {
        let text = self.text()?;
        let mut entries = text.as_deref().map_or_else(|| Ok(Vec::new()), |text| self.entries(text))?;
        let before = entries.len();
        entries.retain(|(name, _)| name != provider);
        let had = entries.len() < before;
        if entry.is_none() && !had {
            self.sweep();
            return Ok(false);
        }
        entries.extend(entry.map(|entry| (provider.to_owned(), entry)));
        let all = entries.iter().fold(Object::new(), |all, (name, entry)| all.raw(name, entry));
        self.replace(&format!("{}\n", all.finish())).map_err(|source| self.trouble("written", source))?;
        Ok(had)
    }

    /// The providers' entries, as they are written.
    fn entries(&self, text: &str) -> Result<Vec<(String, String)>, AuthError> {
        let damaged = || AuthError::Damaged { path: self.path.clone() };
        let doc = Doc::parse(text.trim()).map_err(|_| damaged())?;
        let root = doc.root().filter(|root| root.kind() == Kind::Object).ok_or_else(damaged)?;
        let entry = |(name, value): (Value<'_>, Value<'_>)| {
            Some((name.as_str()?.into_owned(), value.raw().to_owned()))
        };
        Ok(root.fields().filter_map(entry).collect())
    }

    fn text(&self) -> Result<Option<String>, AuthError> {
        match read(&self.path) {
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.trouble("read", error)),
        }
    }

    fn trouble(&self, what: &'static str, source: io::Error) -> AuthError {
        AuthError::File { path: self.path.clone(), what, source }
    }

    /// The folder that the file lies in.
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

    fn replace(&self, text: &str) -> io::Result<()> {
        self.folder().make()?;
        self.sweep();
        self.folder().replace(&self.name(), text.as_bytes())
    }
}

/// A small file of text.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let bytes = files::read_small(path, FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.utf8_error()))
}
