//! rejoin's own file of keys: one JSON object, readable by its owner only.
//!
//! It is written whole beside itself and then put in its place, so that a crash leaves the old one or the new one. What it
//! holds and nobody here knows stays in it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
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
            if let Some(folder) = self.path.parent() {
                self.sweep(folder);
            }
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

    /// Takes away what a process that was killed left beside the file: there may be keys in it.
    fn sweep(&self, folder: &Path) {
        let Some(stem) = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else {
            return;
        };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("{stem}.new.")) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            PrivateFolder::new(folder).make()?;
            self.sweep(folder);
        }
        let beside = self.path.with_extension(format!("new.{}", std::process::id()));
        let written = private(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let done = written.and_then(|()| fs::rename(&beside, &self.path));
        if done.is_err() {
            // The old file is still there; what was begun is of no use to anybody.
            let _ = fs::remove_file(&beside);
        }
        done?;
        #[cfg(unix)]
        if let Some(folder) = folder {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

/// A new file that only its owner can read, from its first moment on.
fn private(path: &Path) -> io::Result<File> {
    // One that a crash left behind has whatever rights it has.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A small file of text.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let bytes = files::read_small(path, FILE_BYTES)?;
    String::from_utf8(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.utf8_error()))
}
