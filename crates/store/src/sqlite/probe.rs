//! Writes to a database and undoes it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{ErrorContext as _, schema};
use crate::{error::StoreResult, files};

/// Writes pages to the log of an existing database, in a transaction that is rolled back. Schema and content do not change, and a
/// damaged file is left unchanged.
pub(crate) fn try_writing(path: &Path) -> StoreResult<()> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let name = files::plain_name(path)?;
    let mut connection = Connection::open_with_flags(name, flags).during("writing to the store")?;
    schema::be_patient(&mut connection)?;
    // With such a small cache, pages go to the disk before the transaction ends.
    let spill = "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN IMMEDIATE; CREATE TABLE probe (bytes BLOB); \
                 INSERT INTO probe VALUES (randomblob(262144));";
    let written = connection.execute_batch(spill);
    // Closing the connection would also roll it back.
    let undone = if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") };
    written.and(undone).during("writing to the store")
}
