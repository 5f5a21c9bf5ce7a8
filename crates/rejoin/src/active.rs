//! The active conversation of a folder: a pointer that outlives the process.
//!
//! There is one small file for each folder and store, in rejoin's data folder. It is always replaced as a whole, so a reader sees either
//! the old or the new conversation.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use rejoin_record::{
    ConversationId, hash,
    json::{Doc, Object},
};
use rejoin_store::{Location, ScopeFilter, files::PrivateFolder};

/// Largest pointer file, in bytes: an id and two paths.
const MOST_BYTES: u64 = 64 * 1024;

/// The pointer to the active conversation of a folder in a store.
#[derive(Debug)]
pub struct Pointer {
    pointers: PrivateFolder,
    name: String,
    folder: String,
    store: String,
}

/// Why a pointer cannot be read or set.
#[derive(Debug, thiserror::Error)]
pub enum PointerError {
    /// It exists, but cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The pointer's file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {}: {why}", .path.display())]
    Unwritable {
        /// The pointer's file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
}

impl Pointer {
    /// The pointer of a folder; its file need not exist.
    pub fn new(data: &Path, folder: &Path, store: &Location, scope: &ScopeFilter) -> Self {
        let (folder, store) = (whole(folder), whole_location(store));
        // Paths contain no NUL, so different folders and stores give different texts.
        let scope = if scope.is_open() { String::new() } else { format!("\0{scope}") };
        let name = hash::of_bytes(format!("{folder}\0{store}{scope}").as_bytes()).to_string();
        let pointers = PrivateFolder::inside(data.join("active"));
        Self { pointers, name: format!("{}.json", &name[..32]), folder, store }
    }

    /// Reads the active conversation; `None` if there is no pointer, or if its content is not valid.
    ///
    /// # Errors
    /// If a pointer exists but cannot be read. Treating it as missing would let another conversation replace it.
    pub fn get(&self) -> Result<Option<ConversationId>, PointerError> {
        named_in(&self.pointers, &self.name)
            .map_err(|why| PointerError::Unreadable { path: self.pointers.path_of(&self.name), why })
    }

    /// Makes a conversation the active one.
    ///
    /// # Errors
    /// If the pointer cannot be written. It is as before then.
    pub fn set(&self, conversation: ConversationId) -> Result<(), PointerError> {
        let text = Object::new()
            .text("conversation", conversation)
            .text("folder", &self.folder)
            .text("store", &self.store)
            .finish();
        let text = format!("{text}\n");
        let written = self.pointers.make().and_then(|()| self.pointers.replace(&self.name, text.as_bytes()));
        written.map_err(|why| PointerError::Unwritable { path: self.pointers.path_of(&self.name), why })
    }
}

fn whole(path: &Path) -> String {
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A store's location, spelled the same for every way to write its path.
#[must_use]
pub fn whole_location(store: &Location) -> String {
    match store {
        Location::Sqlite(path) => format!("sqlite:{}", whole(path)),
        Location::Jsonl(path) => format!("jsonl:{}", whole(path)),
        // Without user and password, because the database is the same for every user.
        Location::Postgres(address) => address.to_string(),
        Location::Memory => String::from("memory:"),
    }
}

/// Removes every folder's pointer to a deleted conversation. A pointer that stays does no harm, because it is not followed.
pub fn forget(data: &Path, conversation: ConversationId) {
    let pointers = PrivateFolder::inside(data.join("active"));
    for name in pointers.names().unwrap_or_default() {
        if named_in(&pointers, &name).is_ok_and(|named| named == Some(conversation)) {
            let _ = pointers.remove(&name);
        }
    }
}

/// Reads the conversation that a pointer file names.
fn named_in(pointers: &PrivateFolder, name: impl AsRef<OsStr>) -> io::Result<Option<ConversationId>> {
    let Some(bytes) = pointers.read(name, MOST_BYTES)? else { return Ok(None) };
    let named = || {
        let text = String::from_utf8(bytes).ok()?;
        let doc = Doc::parse(text.trim()).ok()?;
        doc.root()?.given("conversation")?.as_str()?.parse().ok()
    };
    Ok(named())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B44: each folder and store has a separate pointer, which can be read, replaced and removed.
    #[test]
    fn a_pointer_is_kept_for_each_folder_and_store() {
        let data = tempfile::tempdir().unwrap();
        let [here, there] = ["here", "there"].map(|name| {
            let folder = data.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        });
        let sqlite = Location::Sqlite(data.path().join("a.db"));
        let pointer = Pointer::new(data.path(), &here, &sqlite, &ScopeFilter::OPEN);
        let (one, two) = (ConversationId::from_random(1), ConversationId::from_random(2));
        assert_eq!(pointer.get().unwrap(), None);
        pointer.set(one).unwrap();
        pointer.set(two).unwrap();
        assert_eq!(
            Pointer::new(data.path(), &here.join("../here"), &sqlite, &ScopeFilter::OPEN).get().unwrap(),
            Some(two)
        );
        assert_eq!(Pointer::new(data.path(), &there, &sqlite, &ScopeFilter::OPEN).get().unwrap(), None);
        let other = Location::Jsonl(data.path().join("a.db"));
        assert_eq!(Pointer::new(data.path(), &here, &other, &ScopeFilter::OPEN).get().unwrap(), None);
        fs::write(pointer.pointers.path_of(&pointer.name), "{\"conversation\":\"../../etc\"}").unwrap();
        assert_eq!(pointer.get().unwrap(), None);
        pointer.set(one).unwrap();
        Pointer::new(data.path(), &there, &sqlite, &ScopeFilter::OPEN).set(one).unwrap();
        Pointer::new(data.path(), &there, &other, &ScopeFilter::OPEN).set(two).unwrap();
        forget(data.path(), one);
        assert_eq!(fs::read_dir(data.path().join("active")).unwrap().count(), 1, "of all folders");
        assert_eq!(Pointer::new(data.path(), &there, &other, &ScopeFilter::OPEN).get().unwrap(), Some(two));
    }

    /// A link in place of a pointer, or of the folder of pointers, is not followed.
    #[cfg(unix)]
    #[test]
    fn a_pointer_that_is_a_link_is_not_followed() {
        let data = tempfile::tempdir().unwrap();
        let pointer = Pointer::new(data.path(), data.path(), &Location::Memory, &ScopeFilter::OPEN);
        let id = ConversationId::from_random(1);
        pointer.set(id).unwrap();
        let file = pointer.pointers.path_of(&pointer.name);
        let victim = data.path().join("victim");
        fs::rename(&file, &victim).unwrap();
        let before = fs::read(&victim).unwrap();
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        assert!(pointer.get().is_err(), "it is no pointer of ours, and not none either");
        pointer.set(ConversationId::from_random(2)).unwrap();
        assert_eq!(pointer.get().unwrap(), Some(ConversationId::from_random(2)), "the link was replaced");
        forget(data.path(), ConversationId::from_random(2));
        fs::rename(data.path().join("active"), data.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", data.path().join("active")).unwrap();
        assert!(pointer.set(id).is_err() && pointer.get().is_err());
        assert_eq!(fs::read(&victim).unwrap(), before);
        assert_eq!(fs::read_dir(data.path().join("elsewhere")).unwrap().count(), 0);
    }
}
