//! The one connection that writes.
//!
//! A store may be removed and restored, and a read-only folder may become writable. So each write first checks that the open file
//! still has its name; if not, the file is opened again.

use std::{fs, io, time::Duration};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{
    ErrorContext as _, Inner,
    body::Packer,
    lock,
    schema::{self, OpenedConnection},
};
use crate::{
    error::{StoreError, StoreResult},
    files,
    open::Access,
    sql,
};

pub(super) struct Pen {
    pub(super) connection: Connection,
    packer: Packer,
    file: files::Identity,
    /// Whether a write failed. The log may then contain frames that belong to no transaction.
    pub(super) failed: bool,
}

impl Pen {
    /// A pen for a newly opened file.
    pub(super) fn new(connection: Connection, path: &std::path::Path) -> StoreResult<Self> {
        let packer = Packer::new().map_err(StoreError::io("setting up compression"))?;
        schema::empties_log(&connection, true)?;
        Ok(Self { connection, packer, file: identity(path)?, failed: false })
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Packer) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .during("beginning to write")?;
        let done = work(&transaction, &mut self.packer)?;
        transaction.commit().during("writing")?;
        Ok(done)
    }

    /// Writes the log into the file, and empties it. A reader of an older state prevents that; a later checkpoint then does it.
    /// Writers wait meanwhile, so it must not take long.
    pub(super) fn empty_log(&mut self) -> StoreResult<()> {
        self.try_to_empty_log(EMPTYING).map(drop)
    }

    /// Empties the log, and fails if a reader of an older state prevents it.
    pub(super) fn empty_log_for_good(&mut self) -> StoreResult<()> {
        if self.try_to_empty_log(EMPTYING_FOR_GOOD)? {
            return Ok(());
        }
        let why = String::from(
            "another process is still reading the old state; what was erased leaves the file when the store is next opened",
        );
        Err(StoreError::Database { what: "emptying the log", why, unwritable: true })
    }

    fn try_to_empty_log(&mut self, patience: Duration) -> StoreResult<bool> {
        self.connection.busy_timeout(patience).during("writing")?;
        let emptied = sql::empty_log(&self.connection);
        schema::be_patient(&mut self.connection)?;
        emptied.during("writing")
    }
}

/// How long to wait for readers of an older state.
const EMPTYING: Duration = Duration::from_secs(2);

/// How long to wait for such readers if the log must be emptied.
const EMPTYING_FOR_GOOD: Duration = Duration::from_secs(20);

fn identity(path: &std::path::Path) -> StoreResult<files::Identity> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(files::identity(&metadata)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(path.to_owned())),
        Err(why) => Err(StoreError::Io { what: format!("looking for {}", path.display()), why }),
    }
}

impl Inner {
    /// Runs a transaction. It is durable when this returns.
    pub(super) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &mut Packer) -> StoreResult<T>,
    ) -> StoreResult<T> {
        self.is_not_salvaged()?;
        let mut writer = lock(&self.writer);
        let pen = self.take_up(&mut writer)?;
        let done = pen.write(work);
        match &done {
            Err(why) if why.is_unwritable() => {
                // A connection to a file that was read-only stays read-only.
                let useless = pen.connection.is_readonly("main").unwrap_or(true);
                pen.failed = true;
                if useless {
                    *writer = None;
                }
            }
            // If the process is killed, the frames of a failed write would look like damage.
            Ok(_) if pen.failed && pen.empty_log().is_ok() => pen.failed = false,
            _ => {}
        }
        done
    }

    /// The pen, if the file can be written now.
    pub(super) fn take_up<'w>(&self, writer: &'w mut Option<Pen>) -> StoreResult<&'w mut Pen> {
        if self.access == Access::Read {
            let why = self.read_only.clone();
            return Err(StoreError::ReadOnly(
                why.unwrap_or_else(|| String::from("it was opened to be read")),
            ));
        }
        let file = identity(&self.path)?;
        let open = writer.take().filter(|pen| pen.file == file);
        let pen = match open {
            Some(pen) => pen,
            None => {
                // Readers may have another file open.
                self.reopen();
                match schema::open_to_write(&self.path)? {
                    OpenedConnection::Writable(connection) => Pen::new(connection, &self.path)?,
                    OpenedConnection::Readable(_, why) => return Err(StoreError::ReadOnly(why)),
                }
            }
        };
        Ok(writer.insert(pen))
    }
}
