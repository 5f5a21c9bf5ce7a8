//! Opens the file: its settings, its schema, and the backup before the schema changes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};

use super::ErrorContext as _;
use crate::{
    error::{StoreError, StoreResult},
    files, sql,
};

/// The migration to each version of the schema. Each can safely run twice.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001-record.sql"),
    include_str!("migrations/0002-blobs.sql"),
    include_str!("migrations/0003-before.sql"),
];

/// Marks the file as rejoin's: `rejo` in ASCII.
const APPLICATION: i32 = 0x72_65_6a_6f;

/// The size of pages, in bytes. It wastes little space with messages of a few kilobytes, and pages are still quick to write.
pub(super) const PAGE_BYTES: usize = 8192;

/// How long to wait while another process holds the file, before that is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a file was opened.
pub(super) enum OpenedConnection {
    /// It can be written.
    Writable(Connection),
    /// It can only be read, for this reason.
    Readable(Connection, String),
}

/// The newest schema that this version knows.
pub(super) fn newest() -> i64 {
    MIGRATIONS.len() as i64
}

/// Opens a file for writing, creates it if it does not exist, and migrates its schema.
pub(super) fn open_to_write(path: &Path) -> StoreResult<OpenedConnection> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files::make_folder(folder)?;
    }
    if !files::is_there(path)? {
        make(path)?;
    }
    let connection = match connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
        Ok(connection) => connection,
        Err(_) => return open_to_read(path),
    };
    match prepare(&connection, path) {
        Ok(()) => Ok(OpenedConnection::Writable(connection)),
        Err(why) if why.is_unwritable() => {
            drop(connection);
            open_to_read(path)
        }
        Err(StoreError::TooNew { found, known }) => {
            let why = StoreError::TooNew { found, known }.to_string();
            Ok(OpenedConnection::Readable(connection, why))
        }
        Err(why) => Err(why),
    }
}

/// Creates and opens a store that will hold a copy.
pub(super) fn open_new(path: &Path) -> StoreResult<Connection> {
    match open_to_write(path)? {
        OpenedConnection::Writable(connection) => Ok(connection),
        OpenedConnection::Readable(..) => {
            Err(StoreError::ReadOnly(format!("{} cannot be written", path.display())))
        }
    }
}

/// Creates a store under a temporary name, and renames it once it is complete.
fn make(path: &Path) -> StoreResult<()> {
    let part = files::with_end(path, ".making");
    let failed = || StoreError::io(format!("making {}", path.display()));
    // The process that creates a store holds this lock file. A second process waits for it; a kill releases it.
    let held = loop {
        let file = files::open_to_append(&part, true).map_err(failed())?;
        files::lock(&file).map_err(failed())?;
        if files::is_there(path)? {
            let _ = fs::remove_file(&part);
            return Ok(());
        }
        let same = |metadata: fs::Metadata| files::identity(&metadata);
        let named = fs::metadata(&part).map(same).ok();
        if named.is_some() && named == file.metadata().map(same).ok() {
            break file;
        }
    };
    held.set_len(0).map_err(failed())?;
    let remove_logs = || ["-wal", "-shm"].map(|end| fs::remove_file(files::with_end(&part, end)));
    let _ = remove_logs();
    let made = connect(&part, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| {
            prepare(&connection, &part)?;
            // Only the file itself is renamed, so everything must be in it.
            let why = String::from("another process is using it");
            let used = StoreError::Database { what: "making the store", why, unwritable: true };
            if sql::empty_log(&connection).during("making the store")? { Ok(()) } else { Err(used) }
        })
        .and_then(|()| held.sync_all().map_err(failed()))
        .and_then(|()| fs::rename(&part, path).map_err(failed()))
        .and_then(|()| files::sync_folder(files::above(path)).map_err(failed()));
    if made.is_err() {
        let _ = fs::remove_file(&part);
    }
    // The log was emptied, so it can be removed.
    let _ = remove_logs();
    made
}

pub(super) fn open_to_read(path: &Path) -> StoreResult<OpenedConnection> {
    let why = String::from("the file or its folder cannot be written");
    // Another process may have left a log that only a writer can recover.
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .or_else(|_| connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY));
    if let Ok(connection) = connection
        && version(&connection).is_ok()
    {
        return Ok(OpenedConnection::Readable(connection, why));
    }
    // If not even the shared memory of the log can be created, no other process is writing either.
    let name = format!("file:{}?immutable=1", uri(&files::plain_name(path)?));
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(name, flags).during("opening the store")?;
    settings(&mut connection)?;
    version(&connection)?;
    Ok(OpenedConnection::Readable(connection, why))
}

fn uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let text = absolute.to_string_lossy();
    text.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Opens another connection to an open file.
pub(super) fn reconnect(path: &Path) -> StoreResult<Connection> {
    match open_to_read(path)? {
        OpenedConnection::Writable(connection) | OpenedConnection::Readable(connection, _) => Ok(connection),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> StoreResult<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection =
        Connection::open_with_flags(files::plain_name(path)?, flags).during("opening the store")?;
    settings(&mut connection)?;
    Ok(connection)
}

fn settings(connection: &mut Connection) -> StoreResult<()> {
    be_patient(connection)?;
    // The file or its log may be damaged. Do not change them until they were checked.
    empties_log(connection, false)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Detect a damaged page when it is read; trust nothing in the schema to call functions.
    connection
        .execute_batch("PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL;")
        .during("setting up the store")
}

/// Sets whether closing the last connection writes the log into the file.
pub(super) fn empties_log(connection: &Connection, does: bool) -> StoreResult<()> {
    let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !does);
    set.map(drop).during("setting up the store")
}

/// Lets a connection wait while another process holds the file.
pub(super) fn be_patient(connection: &mut Connection) -> StoreResult<()> {
    connection.busy_handler(Some(wait_a_little)).during("setting up the store")
}

/// The longest pause between two attempts, about.
const LONGEST: Duration = Duration::from_micros(900);

/// Waits while another process holds the file: only briefly at first, because an append is brief.
fn wait_a_little(times: i32) -> bool {
    // Keep pauses short: the file is free only for a moment, and a process that misses it must wait again.
    let pause = Duration::from_micros(100 * u64::from(times.clamp(1, 8).unsigned_abs()));
    std::thread::sleep(pause);
    LONGEST * times.unsigned_abs() < PATIENCE
}

/// The schema version of a file.
pub(super) fn version(connection: &Connection) -> StoreResult<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).during("reading the schema")
}

/// Whether the tables of a file are those of a store.
fn is_ours(connection: &Connection) -> StoreResult<bool> {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('conversation', 'entry', 'meta')";
    let ours: i64 = connection.query_row(query, [], |row| row.get(0)).during("reading the schema")?;
    Ok(ours > 0)
}

/// Migrates the schema to the newest version.
fn prepare(connection: &Connection, path: &Path) -> StoreResult<()> {
    let found = version(connection)?;
    if found == newest() {
        return Ok(());
    }
    if found > newest() {
        return Err(StoreError::TooNew { found, known: newest() });
    }
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .during("reading the schema")?;
    if tables == 0 {
        connection
            .execute_batch(&format!(
                "PRAGMA page_size = {PAGE_BYTES}; PRAGMA application_id = {APPLICATION};"
            ))
            .during("setting up the store")?;
    } else if !is_ours(connection)? {
        let why = String::from("it is the database of another program");
        return Err(StoreError::Database { what: "opening the store", why, unwritable: false });
    }
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .during("setting up the store")?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::ReadOnly(String::from("the file system does not allow a write-ahead log")));
    }
    let mut schema = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .during("upgrading the store")?;
    schema.set_drop_behavior(rusqlite::DropBehavior::Rollback);
    // Another process may have migrated it first. From here on, none can.
    let found = version(&schema)?;
    if found > newest() {
        return Err(StoreError::TooNew { found, known: newest() });
    }
    if tables > 0 && found < newest() {
        back_up(path)?;
    }
    let from = usize::try_from(found).unwrap_or(0).min(MIGRATIONS.len());
    let upgrade = || {
        for migration in &MIGRATIONS[from..] {
            schema.execute_batch(migration)?;
        }
        let before = "SELECT count(*) FROM pragma_table_info('entry') WHERE name = 'before'";
        if schema.query_row(before, [], |row| row.get::<_, i64>(0))? == 0 {
            schema.execute_batch("ALTER TABLE entry ADD COLUMN before BLOB")?;
        }
        schema.pragma_update(None, "user_version", newest())?;
        schema.commit()
    };
    upgrade().during("upgrading the store")
}

/// Copies the store next to itself. The copy gets its final, free name when it is complete. The caller keeps other processes from
/// writing.
fn back_up(path: &Path) -> StoreResult<()> {
    let name = |end: &str| files::with_end(path, &format!(".backup{end}"));
    // A killed process may have left such a file.
    let part = name(".part");
    if part.exists() {
        fs::remove_file(&part).map_err(StoreError::io(format!("removing {}", part.display())))?;
    }
    files::make_file(&part)?;
    let copied = copy(path, &part).and_then(|()| {
        let numbered = (2..).map(|number| name(&format!("-{number}")));
        let mut names = std::iter::once(name("")).chain(numbered);
        let free = names.find(|name| !name.exists()).expect("BUG: some number is free");
        let failed = || StoreError::io(format!("writing {}", free.display()));
        fs::File::open(&part).and_then(|file| file.sync_all()).map_err(failed())?;
        fs::rename(&part, &free).map_err(failed())?;
        files::sync_folder(files::above(path)).map_err(failed())?;
        tracing::info!("copied the store to {} before upgrading it", free.display());
        Ok(())
    });
    if copied.is_err() {
        let _ = fs::remove_file(&part);
    }
    copied
}

/// The backups that were made before migrations. Incomplete ones are removed.
pub(super) fn backups(path: &Path) -> StoreResult<Vec<PathBuf>> {
    let failed = || StoreError::io(format!("looking for backups of {}", path.display()));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let beginning = format!("{name}.backup");
    let mut found = Vec::new();
    for file in fs::read_dir(files::above(path)).map_err(failed())? {
        let file = file.map_err(failed())?;
        let end = file.file_name().to_str().and_then(|name| name.strip_prefix(&beginning)).map(str::to_owned);
        match end.as_deref() {
            Some(".part") => fs::remove_file(file.path()).map_err(failed())?,
            Some("") => found.push(file.path()),
            Some(end) if end.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()) => {
                found.push(file.path());
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Copies a store page by page, including its log.
fn copy(path: &Path, to: &Path) -> StoreResult<()> {
    let from = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let copy = || {
        let mut to = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // An incomplete copy is deleted, so it needs no journal.
        to.execute_batch("PRAGMA journal_mode = OFF")?;
        rusqlite::backup::Backup::new(&from, &mut to)?.run_to_completion(1000, Duration::ZERO, None)
    };
    copy().during("copying the store before its upgrade")
}
