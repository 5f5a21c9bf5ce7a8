//! What is asked of a database again and again.

use rusqlite::{Connection, OptionalExtension as _, Params, types::FromSql};

/// The first column of the first row, if there is one.
pub(crate) fn one<T: FromSql>(
    connection: &Connection,
    query: &str,
    params: impl Params,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(query)?.query_row(params, |row| row.get(0)).optional()
}

/// Runs a statement that gives no rows.
pub(crate) fn run(connection: &Connection, statement: &str, params: impl Params) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute(params).map(drop)
}

/// Brings what is in the log into the file, and empties the log. False if another connection kept it from that.
pub(crate) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        .map(|busy| busy == 0)
}
