//! A SQLite database that another program keeps its conversations in, as a source.
//!
//! The caller copies the database and its log to a place of its own first, so that a program that is writing is never locked out.

use std::{collections::BTreeMap, path::Path};

use rejoin_record::json::Value;
use rusqlite::{Connection, OpenFlags, Params, Row, types::ValueRef};

use crate::session::ReadError;

/// A copy of a database, open for reading.
#[derive(Debug)]
pub struct Database {
    name: String,
    connection: Connection,
    /// The columns of each table.
    tables: BTreeMap<String, Vec<String>>,
}

impl Database {
    /// Opens the copy at `path`. `name` is what to call the original.
    ///
    /// # Errors
    /// If it is no database, or damaged in a place that tells what is in it.
    pub fn open(name: &str, path: &Path) -> Result<Self, ReadError> {
        // A log beside the copy is taken in when it is opened, so it has to be writable.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::of(name, Connection::open_with_flags(path, flags).map_err(failed)?)
    }

    /// Reads through a connection that nothing else uses.
    pub(super) fn of(name: &str, connection: Connection) -> Result<Self, ReadError> {
        connection.pragma_update(None, "query_only", true).map_err(failed)?;
        // What a schema says is data, never an order.
        connection.pragma_update(None, "trusted_schema", false).map_err(failed)?;
        let mut tables = BTreeMap::new();
        {
            let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
                       WHERE m.type = 'table' ORDER BY m.name, c.cid";
            let mut statement = connection.prepare(sql).map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let (table, column): (String, String) =
                    (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
                tables.entry(table).or_insert_with(Vec::new).push(column);
            }
        }
        Ok(Self { name: name.to_owned(), connection, tables })
    }

    /// What to call the original: its path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns of each table.
    pub fn tables(&self) -> &BTreeMap<String, Vec<String>> {
        &self.tables
    }

    /// Whether it has a table with all of these columns.
    pub fn has(&self, table: &str, columns: &[&str]) -> bool {
        self.tables.get(table).is_some_and(|own| columns.iter().all(|name| own.iter().any(|own| own == name)))
    }

    /// Hands each row of a query to `each`.
    ///
    /// # Errors
    /// If the query cannot be run, or the database is damaged where it reads.
    pub fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), ReadError> {
        // Some tables are asked about each message.
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(row).map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: rusqlite::Error) -> ReadError {
    ReadError::Io(format!("the database cannot be read: {error}"))
}

/// A column as text. Bytes that are not text are replaced; `NULL` is `None`.
pub(crate) fn column(row: &Row<'_>, number: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(number)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// The first columns of a row as texts.
pub(crate) fn columns<const N: usize>(row: &Row<'_>) -> rusqlite::Result<[Option<String>; N]> {
    let mut texts = [const { None }; N];
    for (number, text) in texts.iter_mut().enumerate() {
        *text = column(row, number)?;
    }
    Ok(texts)
}

/// Whether a field of an object is the whole text of a column that was written into it, and not a part of it: a text that is not one
/// JSON value may look like a value and another field.
pub(crate) fn holds_value(object: Value<'_>, name: &str, column: &str) -> bool {
    let column = column.trim_matches([' ', '\t', '\n', '\r']);
    object.get(name).is_some_and(|value| value.raw() == column)
}

impl Database {
    /// Every row of a query, with its first columns as texts.
    pub(crate) fn rows<const N: usize>(
        &self,
        sql: &str,
        params: impl Params,
    ) -> Result<Vec<[Option<String>; N]>, ReadError> {
        let mut rows = Vec::new();
        self.each(sql, params, |row| {
            rows.push(columns(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The name of a column, or `NULL` if the table has none of that name, as in an older database.
    pub(crate) fn or_null<'c>(&self, table: &str, column: &'c str) -> &'c str {
        if self.has(table, &[column]) { column } else { "NULL" }
    }
}
