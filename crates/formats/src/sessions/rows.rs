//! A conversation as rows of the SQLite database in which an agent keeps its conversations.
//!
//! A writer says which rows; this module puts them into a database: a new one ([`Rows::save_new`], [`Rows::to_bytes`]), or the
//! agent's own ([`Rows::add_to`]). Rows are only ever added. What is in a database already is neither changed nor replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, MAIN_DB, OpenFlags, OptionalExtension as _, ToSql, Transaction,
    TransactionBehavior, ffi,
    types::{ToSqlOutput, Value, ValueRef},
};

use super::database::Database;
use crate::session::ReadError;

/// How long [`Rows::add_to`] waits for a program that is writing to the database. Agents write one message at a time, so a lock that
/// is held for longer is not about to be released.
const PATIENCE: Duration = Duration::from_secs(10);

/// A conversation as rows of an agent's database.
#[derive(Debug, Clone)]
pub struct Rows {
    agent: &'static str,
    schema: &'static str,
    id: String,
    groups: Vec<Group>,
}

/// A row to add: a table, and a value for each of these columns. The others get their defaults.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub table: &'static str,
    pub cells: Vec<(&'static str, Cell)>,
}

/// A value of a column.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
    /// The number that the database gave to the last row that was added to this table.
    NumberOf(&'static str),
}

/// Rows that are added together.
#[derive(Debug, Clone)]
enum Group {
    /// A row of this conversation only.
    Own(Row),
    /// Rows that conversations share, because the first column of the first row names their content. If there is such a row
    /// already, all of them are there.
    Shared(Vec<Row>),
}

/// Why rows could not be added to a database, or a new database could not be saved. Nothing was added.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// There is a file at the place of a new database.
    #[error("{} already exists", .0.display())]
    FileExists(PathBuf),
    /// The database holds a conversation with the same id. Under another id, it can be added.
    #[error("the database already has a row {key:?} in its table `{table}`")]
    RowExists {
        /// The table.
        table: &'static str,
        /// The value of the first column of the row.
        key: String,
    },
    /// The database lacks a table or a column that the conversation needs: it belongs to another program, or to a release
    /// that is older than the supported ones.
    #[error("the database has no {}", missing(.table, .column.as_deref()))]
    OlderSchema {
        /// The table.
        table: &'static str,
        /// The column; `None` if there is no such table.
        column: Option<String>,
    },
    /// The agent demands a value for a column that is not known here: its release is newer than the supported ones.
    #[error("the table `{table}` demands a column `{column}`, which is not known here")]
    NewerSchema {
        /// The table.
        table: &'static str,
        /// The column.
        column: String,
    },
    /// Another program is writing to the database and did not finish.
    #[error("the database is locked by a program that is writing to it")]
    Locked,
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is no database, or is damaged.
    #[error("the database cannot be written: {0}")]
    Database(rusqlite::Error),
}

fn missing(table: &str, column: Option<&str>) -> String {
    match column {
        Some(column) => format!("column `{column}` in its table `{table}`"),
        None => format!("table `{table}`"),
    }
}

impl From<rusqlite::Error> for RowsError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            _ => Self::Database(error),
        }
    }
}

impl Rows {
    /// A conversation without rows yet. `schema` makes the agent's tables in an empty database, `id` is the agent's id of it.
    pub(super) fn new(agent: &'static str, schema: &'static str, id: String) -> Self {
        Self { agent, schema, id, groups: Vec::new() }
    }

    pub(super) fn add(&mut self, table: &'static str, cells: Vec<(&'static str, Cell)>) {
        self.groups.push(Group::Own(Row { table, cells }));
    }

    pub(super) fn add_shared(&mut self, rows: Vec<Row>) {
        self.groups.push(Group::Shared(rows));
    }

    /// The name of the format.
    #[must_use]
    pub fn agent(&self) -> &'static str {
        self.agent
    }

    /// The id under which the agent finds the conversation.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A new database with these rows, as the bytes of its file.
    ///
    /// # Errors
    /// If a value is larger than SQLite can store.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RowsError> {
        Ok(self.in_memory()?.serialize(MAIN_DB)?.to_vec())
    }

    /// A new database with these rows, in memory, to be read. `name` is what to call it.
    ///
    /// # Errors
    /// If a value is larger than SQLite can store.
    pub fn to_database(&self, name: &str) -> Result<Database, ReadError> {
        let connection = self.in_memory().map_err(|error| ReadError::Io(error.to_string()))?;
        Database::of(name, connection)
    }

    /// Saves a new database with these rows. It is written to a temporary file and moved into place, so the path holds a complete
    /// database or nothing. Only its owner can read it.
    ///
    /// # Errors
    /// If there is a file at `path`, or none can be written.
    pub fn save_new(&self, path: &Path) -> Result<(), RowsError> {
        let bytes = self.to_bytes()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = tempfile::Builder::new().prefix(".rejoin-").tempfile_in(folder);
        // The error names the temporary file, which the caller does not know.
        let mut beside = beside.map_err(|error| io::Error::from(error.kind()))?;
        beside.write_all(&bytes)?;
        beside.as_file().sync_all()?;
        beside.persist_noclobber(path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => RowsError::FileExists(path.to_owned()),
            _ => RowsError::Io(error.error),
        })?;
        // Not every system can open a folder; then the name is synced with the next change in it.
        Ok(File::open(folder).map_or(Ok(()), |folder| folder.sync_all())?)
    }

    /// Adds the rows to the database of the agent at `path`, all of them or none, in one transaction. The agent may be running: a
    /// program that is writing is waited for, ten seconds at most.
    ///
    /// Nothing that is in the database is changed. Rows that conversations share, such as an image of `llm`, stay as they are.
    ///
    /// ```no_run
    /// # use rejoin_formats::sessions::{Rows, RowsError};
    /// # fn add(rows: &Rows, path: &std::path::Path) -> Result<(), RowsError> {
    /// if let Err(RowsError::RowExists { table, key }) = rows.add_to(path) {
    ///     eprintln!("{table} has {key}: write the conversation again under another id");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no database at `path`, its tables are not the ones that are known here, it holds a conversation with the
    /// same id, or it cannot be written.
    pub fn add_to(&self, path: &Path) -> Result<(), RowsError> {
        self.add_within(path, PATIENCE)
    }

    /// Whether the database at `path` holds a conversation with this id. No, if there is none that can be read.
    #[must_use]
    pub fn are_in(&self, path: &Path) -> bool {
        let own = self.groups.iter().find_map(|group| match group {
            Group::Own(row) => Some(row),
            Group::Shared(_) => None,
        });
        let look = || {
            let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
            connection.busy_timeout(PATIENCE).ok()?;
            own?.is_there(&connection.transaction().ok()?).ok()
        };
        path.exists() && look().unwrap_or(false)
    }

    fn add_within(&self, path: &Path, patience: Duration) -> Result<(), RowsError> {
        // SQLite says only that it is unable to open what is not there.
        path.metadata()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(patience)?;
        // What a schema says is data, never an order.
        connection.pragma_update(None, "trusted_schema", false)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.fits(&transaction)?;
        self.insert(&transaction)?;
        Ok(transaction.commit()?)
    }

    fn in_memory(&self) -> Result<Connection, RowsError> {
        let mut connection = Connection::open_in_memory()?;
        // One transaction for all of it is much faster.
        let transaction = connection.transaction()?;
        transaction.execute_batch(self.schema)?;
        self.insert(&transaction)?;
        transaction.commit()?;
        Ok(connection)
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| match group {
            Group::Own(row) => std::slice::from_ref(row),
            Group::Shared(rows) => rows,
        })
    }

    /// Checks that the tables have the columns of the rows, and demand no others.
    fn fits(&self, transaction: &Transaction<'_>) -> Result<(), RowsError> {
        let mut needed: BTreeMap<&'static str, BTreeSet<&str>> = BTreeMap::new();
        for row in self.rows() {
            needed.entry(row.table).or_default().extend(row.cells.iter().map(|(column, _)| *column));
        }
        for (table, needed) in needed {
            let columns = columns(transaction, table)?;
            if columns.is_empty() {
                return Err(RowsError::OlderSchema { table, column: None });
            }
            let is_missing = |name: &&&str| !columns.iter().any(|column| column.name == **name);
            if let Some(column) = needed.iter().find(is_missing) {
                return Err(RowsError::OlderSchema { table, column: Some((*column).to_owned()) });
            }
            let is_unknown = |column: &&Column| column.demanded && !needed.contains(&*column.name);
            if let Some(column) = columns.iter().find(is_unknown) {
                return Err(RowsError::NewerSchema { table, column: column.name.clone() });
            }
        }
        Ok(())
    }

    fn insert(&self, transaction: &Transaction<'_>) -> Result<(), RowsError> {
        let mut numbers = BTreeMap::new();
        for group in &self.groups {
            match group {
                Group::Own(row) => row.insert(transaction, &mut numbers)?,
                Group::Shared(rows) => {
                    let Some(first) = rows.first() else { continue };
                    if !first.is_there(transaction)? {
                        rows.iter().try_for_each(|row| row.insert(transaction, &mut numbers))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The numbers of the last rows that were added, by their tables.
type Numbers = BTreeMap<&'static str, i64>;

impl Row {
    fn insert(&self, transaction: &Transaction<'_>, numbers: &mut Numbers) -> Result<(), RowsError> {
        let names: Vec<String> = self.cells.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let marks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO \"{}\" ({}) VALUES ({marks})", self.table, names.join(", "));
        let values = self.cells.iter().map(|(_, cell)| cell.value(numbers));
        let added = transaction.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(values));
        added.map_err(|error| self.refused(error))?;
        numbers.insert(self.table, transaction.last_insert_rowid());
        Ok(())
    }

    fn is_there(&self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        let Some((name, cell)) = self.cells.first() else { return Ok(false) };
        let sql = format!("SELECT 1 FROM \"{}\" WHERE \"{name}\" = ?1", self.table);
        let mut statement = transaction.prepare_cached(&sql)?;
        statement.query_row([cell.value(&Numbers::new())], |_| Ok(())).optional().map(|row| row.is_some())
    }

    fn refused(&self, error: rusqlite::Error) -> RowsError {
        let code = error.sqlite_error().map(|error| error.extended_code);
        let exists = [ffi::SQLITE_CONSTRAINT_PRIMARYKEY, ffi::SQLITE_CONSTRAINT_UNIQUE];
        if !code.is_some_and(|code| exists.contains(&code)) {
            return error.into();
        }
        let key = match self.cells.first() {
            Some((_, Cell::Text(key))) => key.clone(),
            Some((_, Cell::Integer(key))) => key.to_string(),
            _ => String::new(),
        };
        RowsError::RowExists { table: self.table, key }
    }
}

impl Cell {
    fn value<'c>(&'c self, numbers: &Numbers) -> CellValue<'c> {
        CellValue(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Integer(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::NumberOf(table) => {
                let number = numbers.get(table).expect("BUG: a row refers to one that is added later");
                ToSqlOutput::Owned(Value::Integer(*number))
            }
        })
    }
}

struct CellValue<'c>(ToSqlOutput<'c>);

impl ToSql for CellValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.clone())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

struct Column {
    name: String,
    /// Whether a row without a value for it is refused.
    demanded: bool,
}

/// The columns of a table; none if there is no such table.
fn columns(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Vec<Column>> {
    let sql = "SELECT c.name, c.\"notnull\" AND c.dflt_value IS NULL AND NOT (c.pk AND upper(c.type) = 'INTEGER') \
               FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name = ?1";
    let mut statement = transaction.prepare(sql)?;
    let rows = statement.query_map([table], |row| Ok(Column { name: row.get(0)?, demanded: row.get(1)? }))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "CREATE TABLE talks (id TEXT PRIMARY KEY, said TEXT NOT NULL)";

    fn rows(id: &str) -> Rows {
        let mut rows = Rows::new("test", SCHEMA, id.to_owned());
        rows.add("talks", vec![("id", id.into()), ("said", "hello".into())]);
        rows
    }

    #[test]
    fn a_database_that_another_program_writes_to_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talks.db");
        rows("one").save_new(&path).unwrap();
        let mut other = Connection::open(&path).unwrap();
        let writing = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let refused = rows("two").add_within(&path, Duration::ZERO);
        assert!(matches!(refused, Err(RowsError::Locked)), "{refused:?}");
        writing.rollback().unwrap();
        rows("two").add_within(&path, Duration::ZERO).unwrap();
        let count: i64 = other.query_row("SELECT count(*) FROM talks", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn a_new_database_replaces_nothing_and_leaves_nothing_else_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talks.db");
        std::fs::write(&path, "somebody's notes").unwrap();
        let refused = rows("one").save_new(&path);
        assert!(matches!(refused, Err(RowsError::FileExists(_))), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "somebody's notes");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talks.db");
        let missing = rows("one").add_to(&path);
        assert!(matches!(&missing, Err(RowsError::Io(why)) if why.kind() == io::ErrorKind::NotFound));
        assert!(!path.exists());
        std::fs::write(&path, "somebody's notes, long enough to have the header of a database in it")
            .unwrap();
        let refused = rows("one").add_to(&path);
        assert!(matches!(refused, Err(RowsError::Database(_))), "{refused:?}");
    }
}
