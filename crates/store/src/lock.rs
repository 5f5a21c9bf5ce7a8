//! Allows one writer per conversation, by an operating system lock on a file that names the holder. The lock is released even if
//! its process is killed.

use std::{
    fmt,
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rejoin_record::{
    ConversationId,
    json::{Doc, Object},
};

use crate::{
    error::{StoreError, StoreResult},
    files::{self, PrivateFolder},
};

/// Locks a mutex, even after a panic of its holder: its content is then as before or after a change, never in between.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process that writes to a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// The id of the process.
    pub pid: u32,
    /// The command or program name to show to other processes.
    pub command: String,
    /// When it took the lock, as RFC 3339.
    pub since: String,
}

impl Holder {
    /// This process, running `command`.
    pub fn this(command: impl Into<String>, since: jiff::Timestamp) -> Self {
        Self { pid: std::process::id(), command: command.into(), since: format!("{since:.0}") }
    }

    fn to_json(&self) -> String {
        let holder = Object::new()
            .number("pid", u64::from(self.pid))
            .text("command", &self.command)
            .text("since", &self.since);
        format!("{}\n", holder.finish())
    }

    pub(crate) fn from_json(text: &str) -> Self {
        let (doc, _) = Doc::parse_prefix(text.trim());
        let root = doc.root();
        let field = |name: &str| {
            let value = root.and_then(|root| root.given(name));
            value.and_then(|value| value.as_str().map(|text| text.into_owned())).unwrap_or_default()
        };
        let pid = root.and_then(|root| root.given("pid")?.as_u64());
        Self {
            pid: pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default(),
            command: field("command"),
            since: field("since"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == 0 {
            // It holds the lock but has not written its name yet.
            return f.write_str("a process that has just started");
        }
        write!(f, "process {}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " (`{}`)", self.command)?;
        }
        if !self.since.is_empty() {
            write!(f, " since {}", self.since)?;
        }
        Ok(())
    }
}

/// The right to write to a conversation, until it is dropped.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held for what happens when it is dropped")] HeldLock);

#[cfg(feature = "postgres")]
impl From<crate::postgres::Lease> for Lock {
    fn from(lease: crate::postgres::Lease) -> Self {
        Self(HeldLock::Lease(lease))
    }
}

#[derive(Debug)]
enum HeldLock {
    File {
        folder: PrivateFolder,
        name: String,
        file: File,
    },
    Memory {
        held: Arc<Mutex<Vec<(ConversationId, Holder)>>>,
        conversation: ConversationId,
    },
    #[cfg(feature = "postgres")]
    #[allow(dead_code, reason = "held for what happens when it is dropped")]
    Lease(crate::postgres::Lease),
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        match self {
            // Remove the name before the lock: a process that waits for the lock then sees that its file is gone.
            Self::File { folder, name, file } => {
                let _ = folder.remove(&*name);
                let _ = file.unlock();
            }
            Self::Memory { held, conversation } => {
                let mut held = guard(held);
                held.retain(|(other, _)| other != conversation);
            }
            #[cfg(feature = "postgres")]
            Self::Lease(_) => {}
        }
    }
}

/// Locks as files in a folder.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    folder: PrivateFolder,
}

impl Locks {
    pub(crate) fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: PrivateFolder::inside(folder) }
    }

    pub(crate) fn acquire(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.folder.make_beside_store()?;
        let name = format!("{conversation}.lock");
        let failed = |what: &str| StoreError::io(format!("{what} {}", self.folder.path_of(&name).display()));
        // A holder removes its file at the end. A process that opened the file just before that then locks a file without a name,
        // and tries again.
        loop {
            let mut file = self.folder.open_or_make(&name).map_err(failed("opening"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    let _ = (&file).take(HOLDER_BYTES).read_to_string(&mut text);
                    return Err(StoreError::Locked(Holder::from_json(&text)));
                }
                Err(TryLockError::Error(why)) => return Err(failed("locking")(why)),
            }
            if !self.folder.is_named(&file, &name) {
                continue;
            }
            // A file with a second name is not ours alone: remove this name and leave the file unchanged.
            if file.metadata().is_ok_and(|metadata| files::names(&metadata) > 1) {
                self.folder.remove(&name).map_err(failed("removing"))?;
                continue;
            }
            let named = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(holder.to_json().as_bytes()));
            // On a full disk the name cannot be written; the lock holds nevertheless.
            let _ = named;
            return Ok(Lock(HeldLock::File { folder: self.folder.clone(), name, file }));
        }
    }
}

/// The longest description of a holder that is read, in bytes: a process id, a command and a time.
const HOLDER_BYTES: u64 = 64 * 1024;

/// Locks in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryLocks {
    held: Arc<Mutex<Vec<(ConversationId, Holder)>>>,
}

impl MemoryLocks {
    pub(crate) fn acquire(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        let mut held = guard(&self.held);
        if let Some((_, holder)) = held.iter().find(|(other, _)| *other == conversation) {
            return Err(StoreError::Locked(holder.clone()));
        }
        held.push((conversation, holder.clone()));
        Ok(Lock(HeldLock::Memory { held: Arc::clone(&self.held), conversation }))
    }
}
