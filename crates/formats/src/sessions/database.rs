//! A SQLite database that another program keeps its conversations in, as a source.
//!
//! The caller first copies the database and its log elsewhere, so that a program that is writing is never locked out.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::Arc,
};

use hashbrown::HashMap;
use rejoin_record::json::{Layout, Value, write};
use rejoin_view::{Action, Finding, Position, Rule};
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row, types::ValueRef};

use crate::{parallel, session::ReadError};

/// A copy of a database, open for reading.
#[derive(Debug)]
pub struct Database {
    name: String,
    connection: Connection,
    /// The columns of each table.
    tables: BTreeMap<String, Vec<String>>,
    /// What SQLite said where a page is missing or damaged.
    damage: RefCell<Option<String>>,
    /// How many messages belong to no session.
    astray: Cell<usize>,
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
        let mut damage = None;
        let tables = tables_of(&connection).or_else(|error| {
            if !is_damage(&error) {
                return Err(error);
            }
            // A file that is shorter than it says is refused as a whole, unless its schema counts as writable. Nothing is written:
            // the connection is for queries only.
            connection.pragma_update(None, "writable_schema", true)?;
            damage = Some(error.to_string());
            tables_of(&connection)
        });
        let tables = tables.map_err(failed)?;
        Ok(Self {
            name: name.to_owned(),
            connection,
            tables,
            damage: RefCell::new(damage),
            astray: Cell::new(0),
        })
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
    /// If the query cannot be run. Where the database is damaged, the query ends, and the sessions are reported as damaged.
    pub fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), ReadError> {
        // Some tables are asked about each message.
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        loop {
            match rows.next() {
                Ok(Some(row)) => each(row).map_err(failed)?,
                Ok(None) => return Ok(()),
                // The rows before it are kept, and other tables may be whole.
                Err(error) if is_damage(&error) => {
                    self.damage.borrow_mut().get_or_insert_with(|| error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Whether it has all of these tables, with these columns.
    pub(crate) fn has_all(&self, needs: &[(&str, &[&str])]) -> bool {
        needs.iter().all(|(table, columns)| self.has(table, columns))
    }

    /// Whether rows may be missing because pages are missing or damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.borrow().is_some()
    }

    /// The error of a database that is damaged and holds nothing that can be read.
    pub(crate) fn damage_error(&self) -> ReadError {
        let why = self.damage.borrow().clone().unwrap_or_default();
        ReadError::DamagedDatabase(why)
    }

    /// Reports that rows may be missing because pages are missing or damaged.
    pub(crate) fn damage(&self) -> Option<Finding> {
        let why = self.damage.borrow().clone()?;
        let why = format!("{why}; rows are missing, and `sqlite3 FILE .recover` may find some of them");
        Some(Finding::new(Rule::DamagedEntry, Position::default(), Action::Kept).because(why))
    }

    /// Reports messages of sessions that are not in the database. No agent shows them.
    pub(crate) fn astray(&self) -> Option<Finding> {
        let count = self.astray.get();
        let (messages, belong) = if count == 1 { ("message", "belongs") } else { ("messages", "belong") };
        let why = format!(
            "{count} {messages} {belong} to no session of the database, so rejoin does not read them"
        );
        let finding = Finding::new(Rule::UnreadText, Position::default(), Action::Kept).because(why);
        (count > 0).then_some(finding)
    }

    /// Reports tables with rows that are not the format's own.
    pub(crate) fn foreign_tables(&self, known: &str) -> Option<Finding> {
        let is_foreign = |table: &&String| {
            // Tables of SQLite, of a search index, and those that count migrations.
            let is_kept = table.starts_with("sqlite_") || table.contains("_fts") || table.starts_with('_');
            let sql = format!("SELECT 1 FROM \"{}\" LIMIT 1", table.replace('"', "\"\""));
            let has_rows = || self.rows::<1>(&sql, []).is_ok_and(|rows| !rows.is_empty());
            !is_kept && !known.split_whitespace().any(|known| known == *table) && has_rows()
        };
        let foreign: Vec<String> =
            self.tables.keys().filter(is_foreign).map(|table| format!("`{table}`")).collect();
        let why = format!("the database also has {}, which this format does not have", foreign.join(", "));
        let finding = Finding::new(Rule::UnreadText, Position::default(), Action::Kept).because(why);
        (!foreign.is_empty()).then_some(finding)
    }
}

/// The columns of each table.
fn tables_of(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<String>>> {
    let mut tables = BTreeMap::new();
    let sql = "SELECT name, sql LIKE 'CREATE VIRTUAL%' FROM sqlite_schema WHERE type = 'table'";
    let mut statement = connection.prepare(sql)?;
    let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, is_virtual): (String, Option<bool>) = (row.get(0)?, row.get(1)?);
        let names = columns.query_map([&table], |row| row.get(0)).and_then(Iterator::collect);
        match names {
            Ok(names) => _ = tables.insert(table, names),
            // A search index may be damaged, or need a module that is not here. No conversation is only in one.
            Err(_) if is_virtual == Some(true) => {}
            Err(error) => return Err(error),
        }
    }
    // A table without columns is none.
    tables.retain(|_, columns: &mut Vec<String>| !columns.is_empty());
    Ok(tables)
}

/// Whether pages of the database are missing or damaged.
fn is_damage(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

fn failed(error: rusqlite::Error) -> ReadError {
    if is_damage(&error) {
        return ReadError::DamagedDatabase(error.to_string());
    }
    ReadError::Io(format!("the database cannot be read: {error}"))
}

/// A column as text. Bytes that are not text are replaced; `NULL` is `None`. What is text already is not copied: most of a database is
/// only written into an item.
pub(crate) fn column<'r>(row: &'r Row<'_>, number: usize) -> rusqlite::Result<Option<Cow<'r, str>>> {
    Ok(match row.get_ref(number)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into()),
        ValueRef::Real(number) => Some(number.to_string().into()),
        // Most columns are text, and checking is several times as fast as replacing.
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
        }
    })
}

/// The first columns of a row as texts.
pub(crate) fn columns<'r, const N: usize>(row: &'r Row<'_>) -> rusqlite::Result<[Option<Cow<'r, str>>; N]> {
    let mut texts = [const { None }; N];
    for (number, text) in texts.iter_mut().enumerate() {
        *text = column(row, number)?;
    }
    Ok(texts)
}

/// Columns that a reader does not know. They are kept in the item of their row, so that accounting reports the words in them.
pub(crate) struct UnknownColumns(Vec<String>);

impl UnknownColumns {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The columns for a query, each after a comma.
    pub(crate) fn sql(&self) -> String {
        self.0.iter().map(|name| format!(", \"{}\"", name.replace('"', "\"\""))).collect()
    }

    /// Writes them as fields. The first has this number in the row.
    pub(crate) fn write(&self, row: &Row<'_>, first: usize, out: &mut String) -> rusqlite::Result<()> {
        for (place, name) in self.0.iter().enumerate() {
            if let Some(value) = column(row, first + place)? {
                write::key(out, name);
                write::string(out, &value);
            }
        }
        Ok(())
    }
}

/// What a row is sorted by, in the order that SQLite has. Sorting here is faster than by SQLite, which copies whole rows for it, and
/// most rows are in order already.
#[derive(Debug, PartialEq, PartialOrd)]
pub(crate) enum Key {
    Null,
    /// The whole part of a number and the rest: a large number is not rounded.
    Number(i64, f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Key {
    /// The key that a column is.
    pub(crate) fn of(row: &Row<'_>, number: usize) -> rusqlite::Result<Self> {
        Ok(match row.get_ref(number)? {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Number(number, 0.0),
            ValueRef::Real(number) => Self::Number(number.floor() as i64, number - number.floor()),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        })
    }
}

/// Sorts rows by their keys; those with equal keys stay in their order.
pub(crate) fn sort<T, const N: usize>(rows: &mut [([Key; N], T)]) {
    let by_key = |one: &([Key; N], T), other: &([Key; N], T)| {
        one.0.partial_cmp(&other.0).unwrap_or(std::cmp::Ordering::Equal)
    };
    if !rows.is_sorted_by(|one, other| by_key(one, other).is_le()) {
        rows.sort_by(by_key);
    }
}

/// A row as a JSON object.
pub(crate) struct Item {
    pub(crate) text: Arc<str>,
    /// The place in `text` of the one column that was copied into it verbatim.
    value: Range<usize>,
}

impl Item {
    /// Makes an item of the text of an object. `value` is the place of the column that was copied into it verbatim.
    pub(crate) fn new(text: &str, value: Range<usize>) -> Self {
        Self { text: Arc::from(text), value }
    }

    /// The column.
    pub(crate) fn column(&self) -> &str {
        &self.text[self.value.clone()]
    }

    /// Whether a field of the object is the whole column, and not a part of it: a text that is not one JSON value may look like a value
    /// and another field.
    pub(crate) fn is_whole(&self, field: Option<Value<'_>>) -> bool {
        const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
        let column = self.column();
        let start = self.value.start + column.len() - column.trim_start_matches(SPACE).len();
        let end = self.value.end - (column.len() - column.trim_end_matches(SPACE).len());
        field.is_some_and(|field| (field.start(), field.end()) == (start, end))
    }
}

/// Parses the texts of rows, in two threads if there are many, and hands each document to `each`, in order. One that is not JSON has no
/// root.
pub(crate) fn parse_each<T: Sync>(
    items: Vec<T>,
    text: impl Fn(&T) -> &Arc<str> + Sync,
    mut each: impl FnMut(T, Option<Value<'_>>),
) {
    let parsed = parallel::filter_map(&items, |_, item| Some(Layout::parse_prefix(text(item))));
    let mut buffer = String::new();
    for (item, (layout, error)) in items.into_iter().zip(parsed) {
        let text = Arc::clone(text(&item));
        let doc = layout.into_doc(&text, buffer).shared_as(&text);
        each(item, doc.root().filter(|_| error.is_none()));
        (_, buffer) = doc.into_layout();
    }
}

/// Writes the texts of rows in a buffer, parses them and makes something of each, in two threads if there are many. One that is not JSON
/// has no root.
pub(crate) fn make_each<T: Sync, R: Send>(
    items: &[T],
    write: impl Fn(&T, &mut String) + Sync,
    make: impl Fn(&T, &Arc<str>, Option<Value<'_>>) -> R + Sync,
) -> Vec<R> {
    parallel::filter_map_with(items, |(written, decoded): &mut (String, String), _, item| {
        written.clear();
        write(item, written);
        let text: Arc<str> = Arc::from(written.as_str());
        let (layout, error) = Layout::parse_prefix(&text);
        let doc = layout.into_doc(&text, std::mem::take(decoded)).shared_as(&text);
        let made = make(item, &text, doc.root().filter(|_| error.is_none()));
        (_, *decoded) = doc.into_layout();
        Some(made)
    })
}

/// The columns of a row, one after the other in one text.
pub(crate) struct Columns<const N: usize> {
    text: String,
    lengths: [Option<usize>; N],
}

impl<const N: usize> Columns<N> {
    /// Keeps columns.
    pub(crate) fn new(columns: [Option<Cow<'_, str>>; N]) -> Self {
        let lengths = columns.each_ref().map(|column| column.as_ref().map(|column| column.len()));
        Self { text: columns.map(Option::unwrap_or_default).concat(), lengths }
    }

    /// The columns.
    pub(crate) fn get(&self) -> [Option<&str>; N] {
        let mut rest = self.text.as_str();
        self.lengths.map(|length| {
            let (column, after) = rest.split_at(length?);
            rest = after;
            Some(column)
        })
    }
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
            rows.push(columns(row)?.map(|text| text.map(Cow::into_owned)));
            Ok(())
        })?;
        Ok(rows)
    }

    /// The columns of a table that are none of these, as newer releases of a program add them.
    pub(crate) fn others(&self, table: &str, known: &[&str]) -> UnknownColumns {
        let names = self.tables.get(table).into_iter().flatten();
        UnknownColumns(names.filter(|name| !known.contains(&name.as_str())).cloned().collect())
    }

    /// What `make` makes of the rows of a query, with the number of the row's session and its own number in that. The first column is
    /// the id of the session, and the next two are what the rows of a session are sorted by. Rows of other sessions are left out.
    ///
    /// The table is read once and in its own order: by session, SQLite would look up or sort every row.
    pub(crate) fn by_session<T>(
        &self,
        sql: &str,
        sessions: &[String],
        mut make: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<(usize, usize, T)>, ReadError> {
        let numbers: HashMap<&str, usize> =
            sessions.iter().enumerate().map(|(number, id)| (id.as_str(), number)).rev().collect();
        let mut rows: Vec<Vec<([Key; 2], T)>> = sessions.iter().map(|_| Vec::new()).collect();
        self.each(sql, [], |row| {
            let id = column(row, 0)?.unwrap_or_default();
            if let Some(number) = numbers.get(&*id) {
                rows[*number].push(([Key::of(row, 1)?, Key::of(row, 2)?], make(row)?));
            } else {
                self.astray.set(self.astray.get() + 1);
            }
            Ok(())
        })?;
        let numbered = rows.into_iter().enumerate().flat_map(|(session, mut rows)| {
            sort(&mut rows);
            rows.into_iter().enumerate().map(move |(number, (_, made))| (session, number, made))
        });
        Ok(numbered.collect())
    }

    /// The name of a column, or `NULL` if the table has none of that name, as in an older database.
    pub(crate) fn or_null<'c>(&self, table: &str, column: &'c str) -> &'c str {
        if self.has(table, &[column]) { column } else { "NULL" }
    }
}
