//! Helpers for frequent queries of a SQLite database.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, types::FromSql};

/// The first column of the first row; `None` if there is no row.
pub(crate) fn one<T: FromSql>(
    connection: &Connection,
    query: &str,
    params: impl Params,
) -> rusqlite::Result<Option<T>> {
    first(connection, query, params, |row| row.get(0))
}

/// The first row; `None` if there is none.
pub(crate) fn first<T>(
    connection: &Connection,
    query: &str,
    params: impl Params,
    row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(query)?.query_row(params, row).optional()
}

/// All rows.
pub(crate) fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    query: &str,
    params: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    connection.prepare_cached(query)?.query_map(params, row)?.collect()
}

/// Runs a statement that returns no rows.
pub(crate) fn run(connection: &Connection, statement: &str, params: impl Params) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute(params).map(drop)
}

/// Moves the content of the log into the file, and empties the log. Returns false if another connection prevented that.
pub(crate) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
        .map(|busy| busy == 0)
}
