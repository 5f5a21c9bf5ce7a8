//! The index for lists and searches: a file next to the record that can be deleted at any time.
//!
//! It holds a summary of each conversation and the words of each entry. A [`Feed`] supplies them: rows of a database
//! (`sqlite/feed.rs`) or files of a folder (`jsonl/feed.rs`). The index is updated before every query. If it cannot be written, the
//! caller reads the record instead.

mod follower;
pub(crate) mod lost;
mod words;

use std::{
    collections::{HashMap, HashSet, hash_map},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Hash, Scope, Tail};
use rusqlite::{Connection, ErrorCode, OpenFlags, Row, Transaction, TransactionBehavior};

pub(crate) use self::follower::{Follower, Rhythm};
use self::lost::LostEntry;
use crate::{
    backend::*,
    files::Identity,
    scope::ScopeFilter,
    sql,
    store::Cursor,
    summary::{About, Tally},
};

/// The version of the file format. An index of another version is deleted and rebuilt.
const FORM: i64 = 11;

/// The feed of a database uses `state`; that of a folder uses `file`, `place` and `going`.
const SCHEMA: &str = "
    CREATE TABLE state (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
    CREATE TABLE file (id TEXT PRIMARY KEY, mark TEXT NOT NULL) STRICT;
    CREATE TABLE place (key INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL) STRICT;
    CREATE INDEX place_of ON place (id);
    CREATE TABLE going (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
    CREATE TABLE summary (
        id TEXT PRIMARY KEY, title TEXT, renamed INTEGER NOT NULL, provider TEXT, model TEXT, directory TEXT,
        format TEXT, state TEXT NOT NULL, messages INTEGER NOT NULL, entries INTEGER NOT NULL,
        created INTEGER NOT NULL, updated INTEGER NOT NULL, seq INTEGER, tail BLOB, hash BLOB, standing TEXT NOT NULL,
        damaged INTEGER NOT NULL, forked_from TEXT, scope_user TEXT NOT NULL, scope_channel TEXT NOT NULL,
        scope_thread TEXT NOT NULL
    ) STRICT;
    CREATE INDEX summary_newest ON summary (updated DESC, id);
    CREATE INDEX summary_of_user ON summary (scope_user, updated DESC, id) WHERE scope_user <> '';
    CREATE INDEX summary_of_channel ON summary (scope_channel, updated DESC, id) WHERE scope_channel <> '';
    CREATE INDEX summary_of_thread ON summary (scope_thread, updated DESC, id) WHERE scope_thread <> '';
    CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1, detail = full,
        tokenize = \"unicode61 remove_diacritics 2\");
    CREATE TABLE lost (id TEXT NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, rest INTEGER,
        PRIMARY KEY (id, seq)) STRICT, WITHOUT ROWID;
    CREATE TABLE checkpoint (id TEXT NOT NULL, piece INTEGER NOT NULL, text TEXT NOT NULL) STRICT;
    CREATE INDEX checkpoint_of ON checkpoint (id, piece);
";

/// How often an operation is repeated because another process replaced the index or removed data from the record.
const TRIES: usize = 20;

/// The source of an index's entries.
pub(crate) trait Feed {
    /// The path of the index file.
    fn path(&self) -> PathBuf;
    /// The function that derives the facts about entries.
    fn digester(&self) -> Digester;
    /// Initialises a new index.
    fn begin(&self, index: &Connection) -> Result<(), IndexError> {
        let _ = index;
        Ok(())
    }
    /// Whether an index belongs to this record.
    fn owns(&self, index: &Connection) -> Result<bool, IndexError> {
        let _ = index;
        Ok(true)
    }
    /// Adds the new entries to the index.
    fn update(&self, index: &Connection) -> Result<IndexUpdate, IndexError>;
    /// The facts that the next index must keep.
    fn remember(&self, index: &Connection) -> Result<Remembered, IndexError>;
    /// The keys of a conversation's words in an index.
    fn keys_of(&self, index: &Connection, conversation: ConversationId) -> Result<HashSet<i64>, IndexError>;
    /// The readable entries with these keys.
    fn entries(
        &self,
        index: &Connection,
        keys: &[i64],
    ) -> Result<HashMap<i64, (ConversationId, Entry)>, IndexError>;
}

/// The result of an update.
pub(crate) enum IndexUpdate {
    /// The index covers all entries.
    UpToDate,
    /// Entries were removed from the record. Deleting rows would leave their words in the file, so a new index is made.
    Outdated(&'static str),
}

/// The facts that a new index takes over from the old one.
#[derive(Default)]
pub(crate) struct Remembered {
    /// Entries that were seen and are now missing.
    pub(crate) lost: Vec<LostEntry>,
    /// Conversations that are being deleted, with the `seq` of their newest entry.
    pub(crate) going: Vec<(String, i64)>,
}

/// Why an operation on the index failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// SQLite failed on the index itself.
    #[error(transparent)]
    Index(#[from] rusqlite::Error),
    /// The record cannot be read, or the index cannot be created.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<IndexError> for StoreError {
    fn from(trouble: IndexError) -> Self {
        match trouble {
            IndexError::Index(why) => {
                Self::Database { what: "using the index", why: why.to_string(), unwritable: true }
            }
            IndexError::Store(why) => why,
        }
    }
}

/// The index of a store. It is opened on first use.
#[derive(Debug, Default)]
pub(crate) struct Index {
    open: Mutex<Option<OpenIndex>>,
}

/// An open index, and the identity of its file.
#[derive(Debug)]
struct OpenIndex {
    connection: Connection,
    identity: Option<Identity>,
}

fn named(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|metadata| files::identity(&metadata))
}

impl Index {
    /// Updates the index, and then uses it.
    fn with<T>(
        &self,
        feed: &dyn Feed,
        work: impl FnOnce(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, StoreError> {
        let mut open = guard(&self.open);
        let mut failed = false;
        for _ in 0..TRIES {
            let OpenIndex { connection, identity } = opened(feed, &mut open)?;
            let updated = feed.update(connection);
            if *identity != named(&feed.path()) {
                // Another process made a new index. Only the new one knows what was deleted meanwhile, so open it.
                *open = None;
                continue;
            }
            match updated {
                Ok(IndexUpdate::UpToDate) => return Ok(work(connection)?),
                Ok(IndexUpdate::Outdated(why)) => tracing::debug!("a new index is made: {why}"),
                // A damaged record is not repaired here, and the same error does not rebuild the index twice.
                Err(IndexError::Store(why)) if failed || why.is_damage() => return Err(why),
                Err(why) if failed => return Err(why.into()),
                Err(why) => {
                    tracing::debug!("a new index is made: {why}");
                    failed = true;
                }
            }
            make_again(feed, &mut open)?;
        }
        Err(StoreError::ReadOnly(String::from("other processes keep replacing the index")))
    }

    /// Writes to the index without updating it first, even if another process is replacing it.
    pub(crate) fn write(
        &self,
        feed: &dyn Feed,
        work: impl Fn(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let mut open = guard(&self.open);
        for _ in 0..TRIES {
            let OpenIndex { connection, identity } = opened(feed, &mut open)?;
            let done = work(connection);
            if *identity == named(&feed.path()) {
                return Ok(done.map_err(IndexError::from)?);
            }
        }
        Ok(())
    }

    /// Whether an index exists, so that a query need not create one.
    pub(crate) fn exists(&self, feed: &dyn Feed) -> bool {
        guard(&self.open).is_some() || feed.path().exists()
    }

    /// Creates the index before the first append, if there is none. Nothing is read yet.
    pub(crate) fn prepare(&self, feed: &dyn Feed) {
        if !feed.path().exists()
            && let Err(why) = opened(feed, &mut guard(&self.open))
        {
            tracing::debug!("there is no index: {why}");
        }
    }

    /// Brings the index up to date.
    pub(crate) fn catch_up(&self, feed: &dyn Feed) -> Result<(), StoreError> {
        self.with(feed, |_| Ok(()))
    }

    /// Makes a new index without the words of removed entries. It still knows which entries are missing.
    pub(crate) fn wipe(&self, feed: &dyn Feed) -> Result<(), StoreError> {
        if self.exists(feed) { Ok(make_again(feed, &mut guard(&self.open))?) } else { Ok(()) }
    }

    /// Deletes the index with everything that it knows. The next query creates a new one.
    pub(crate) fn discard(&self, feed: &dyn Feed) {
        *guard(&self.open) = None;
        remove(&feed.path());
    }

    /// Closes the index, and returns its connection for a last write.
    pub(crate) fn close(&self) -> Option<Connection> {
        guard(&self.open).take().map(|open| open.connection)
    }

    /// A page of conversations, newest first.
    pub(crate) fn list(&self, feed: &dyn Feed, query: &Query) -> Result<Page, StoreError> {
        self.with(feed, |index| Ok(list(index, query)?))
    }

    /// The summary of a conversation, if the index has it.
    pub(crate) fn summary(
        &self,
        feed: &dyn Feed,
        conversation: ConversationId,
    ) -> Result<Option<Summary>, StoreError> {
        self.with(feed, |index| Ok(get(index, conversation)?))
    }

    /// The entries that match a search, best first.
    pub(crate) fn search(&self, feed: &dyn Feed, search: &Search) -> Result<Vec<Hit>, StoreError> {
        self.with(feed, |index| words::search(feed, index, search))
    }

    /// The checkpoint of a conversation. The index is not updated first.
    pub(crate) fn checkpoint(&self, feed: &dyn Feed, conversation: ConversationId, each: OnPiece<'_>) {
        if !self.exists(feed) {
            return;
        }
        let mut open = guard(&self.open);
        let Ok(index) = opened(feed, &mut open) else { return };
        let query = "SELECT text FROM checkpoint WHERE id = ?1 ORDER BY piece";
        let read = index.connection.prepare_cached(query).and_then(|mut statement| {
            let mut rows = statement.query([conversation.to_string()])?;
            while let Some(row) = rows.next()? {
                if each(row.get(0)?).is_break() {
                    break;
                }
            }
            Ok(())
        });
        if let Err(why) = read {
            tracing::debug!("the checkpoint cannot be read: {why}");
        }
    }

    /// Keeps the checkpoint of a conversation, if the index exists.
    pub(crate) fn keep_checkpoint(&self, feed: &dyn Feed, conversation: ConversationId, pieces: &[String]) {
        let id = conversation.to_string();
        let insert = "INSERT INTO checkpoint (id, piece, text) VALUES (?1, ?2, ?3)";
        if self.exists(feed)
            && let Err(why) = self.write(feed, |index| {
                sql::run(index, "DELETE FROM checkpoint WHERE id = ?1", [&id])?;
                (0i64..).zip(pieces).try_for_each(|(piece, text)| sql::run(index, insert, (&id, piece, text)))
            })
        {
            tracing::debug!("the checkpoint is not kept: {why}");
        }
    }

    /// Records that a part of a conversation cannot be read. Without an index this does nothing: the next index will find the
    /// damage.
    pub(crate) fn note_damage(&self, feed: &dyn Feed, conversation: ConversationId) {
        if self.exists(feed)
            && let Err(why) = self.write(feed, |index| note_damage(index, conversation))
        {
            tracing::debug!("the damage is not noted: {why}");
        }
    }

    /// Checks the words in the index. Returns the error if they are damaged and cannot be searched.
    pub(crate) fn damaged_words(&self, feed: &dyn Feed) -> Option<String> {
        let checked = self.with(feed, |index| {
            let check = index.execute("INSERT INTO words (words) VALUES ('integrity-check')", []);
            // An index that cannot be written cannot be checked either; that is not damage.
            Ok(check
                .err()
                .filter(|why| why.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)))
        });
        checked.ok().flatten().map(|why| why.to_string())
    }

    /// The entries that were missing when the index was last made, without those that `is_back` accepts.
    pub(crate) fn missed(
        &self,
        feed: &dyn Feed,
        is_back: impl Fn(&LostEntry) -> Result<bool, StoreError>,
    ) -> Vec<LostEntry> {
        let missed = self.with(feed, |index| {
            let mut missed = Vec::new();
            for lost in lost::missed(index)? {
                if is_back(&lost)? {
                    lost::forget(index, &lost)?;
                } else {
                    missed.push(lost);
                }
            }
            Ok(missed)
        });
        missed.unwrap_or_default()
    }

    /// The newest entry of each conversation when it was last read, and the entries that were missing then. The index is not
    /// updated first.
    pub(crate) fn seen<T>(
        &self,
        feed: &dyn Feed,
        use_it: impl FnOnce(&Connection, Vec<LostEntry>) -> T,
    ) -> Option<T> {
        if !self.exists(feed) {
            return None;
        }
        let mut open = guard(&self.open);
        let index = &opened(feed, &mut open).ok()?.connection;
        let seen = lost::seen(index).into_iter().chain(lost::missed(index)).flatten().collect();
        Some(use_it(index, seen))
    }
}

/// The current index. Another process may have replaced the open one.
fn opened<'o>(feed: &dyn Feed, open: &'o mut Option<OpenIndex>) -> Result<&'o OpenIndex, IndexError> {
    let path = feed.path();
    if open.as_ref().is_some_and(|open| open.identity != named(&path)) {
        *open = None;
    }
    if open.is_none() {
        *open = Some(open_as_it_is(feed, &path).or_else(|_| make(feed, &path))?);
    }
    Ok(open.as_ref().expect("BUG: just opened"))
}

fn open_as_it_is(feed: &dyn Feed, path: &Path) -> Result<OpenIndex, IndexError> {
    let identity = named(path);
    if identity.is_some() {
        let connection = connect(path)?;
        if form_of(&connection)? == FORM && is_plain(&connection) && feed.owns(&connection)? {
            return Ok(OpenIndex { connection, identity });
        }
    }
    Err(StoreError::Missing(path.to_owned()).into())
}

fn make(feed: &dyn Feed, path: &Path) -> Result<OpenIndex, IndexError> {
    let mut tries = 0;
    loop {
        remove(path);
        files::make_file(path)?;
        let identity = named(path);
        tries += 1;
        match make_tables(feed, path) {
            Ok(connection) => return Ok(OpenIndex { connection, identity }),
            // Another process created a new index meanwhile.
            Err(_) if tries < TRIES && identity != named(path) => {}
            Err(why) => return Err(why),
        }
    }
}

fn make_tables(feed: &dyn Feed, path: &Path) -> Result<Connection, IndexError> {
    let connection = connect(path)?;
    // The existence of an index must survive a power cut: it distinguishes a torn append from a lost one.
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
    // Another process may have initialised it first.
    if form_of(&transaction)? != FORM {
        transaction.execute_batch(SCHEMA)?;
        feed.begin(&transaction)?;
        transaction.pragma_update(None, "user_version", FORM)?;
    }
    transaction.commit()?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    files::sync_folder(files::above(path)).map_err(StoreError::io("making the index"))?;
    Ok(connection)
}

/// Makes a new index. It takes over the missing entries from the old one, and adds those that are missing now.
fn make_again(feed: &dyn Feed, open: &mut Option<OpenIndex>) -> Result<(), IndexError> {
    let path = feed.path();
    let old = open.take().map_or_else(|| open_as_it_is(feed, &path), Ok);
    let remembered = old.and_then(|old| feed.remember(&old.connection)).unwrap_or_default();
    remove(&path);
    let new = &opened(feed, open)?.connection;
    for lost in &remembered.lost {
        lost::put(new, lost)?;
    }
    for (id, seq) in &remembered.going {
        record_deletion(new, id, *seq)?;
    }
    Ok(())
}

/// Records that a conversation is about to be deleted. If a shorter version of it is imported later, nothing counts as missing.
pub(crate) fn record_deletion(index: &Connection, id: &str, newest: i64) -> rusqlite::Result<()> {
    sql::run(index, "INSERT OR REPLACE INTO going (id, seq) VALUES (?1, ?2)", (id, newest))
}

fn form_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// How long to wait for another process that uses the index.
const PATIENCE: Duration = Duration::from_secs(30);

fn connect(path: &Path) -> Result<Connection, IndexError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(files::plain_name(path)?, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // Data lost in a power failure is read again from the record.
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA secure_delete = ON;";
    // SQLite does not wait for another process that turns the log on at the same moment.
    let begun = Instant::now();
    loop {
        match connection.execute_batch(settings) {
            Err(why)
                if why.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(5));
            }
            done => break done?,
        }
    }
    words::prepare(&connection)?;
    Ok(connection)
}

/// Opens an index for a single query. It is opened for writing, because only a connection that may write removes the files that
/// it creates next to the index.
pub(crate) fn glance(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Whether a database has no triggers and no views, which could run when rejoin writes to the database.
fn is_plain(connection: &Connection) -> bool {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')";
    connection.query_row(query, [], |row| row.get::<_, i64>(0)) == Ok(0)
}

fn remove(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(files::with_end(path, end));
    }
}

/// Summaries that are being updated. They are written at the end of the update.
#[derive(Default)]
pub(crate) struct Summaries(HashMap<ConversationId, Tally>);

impl Summaries {
    /// Adds one entry, and its words under a key. The entry is dropped before its words are stored, because both may be very long.
    pub(crate) fn take(
        &mut self,
        index: &Connection,
        key: i64,
        conversation: ConversationId,
        entry: Entry,
        digester: Digester,
    ) -> rusqlite::Result<()> {
        let (words, _) = self.of(index, conversation, digester)?.add(&entry);
        drop(entry);
        words.map_or(Ok(()), |words| words::put(index, key, words.text))
    }

    /// The summary of a conversation so far.
    pub(crate) fn of(
        &mut self,
        index: &Connection,
        conversation: ConversationId,
        digester: Digester,
    ) -> rusqlite::Result<&mut Tally> {
        Ok(match self.0.entry(conversation) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(free) => {
                let query = "SELECT standing FROM summary WHERE id = ?1";
                let kept: Option<String> = sql::one(index, query, [conversation.to_string()])?;
                free.insert(match get(index, conversation)?.zip(kept) {
                    Some((summary, kept)) => Tally::resume(summary, &kept, digester),
                    None => Tally::new(conversation, digester),
                })
            }
        })
    }

    /// Writes the summaries. If a state cannot be derived otherwise, `entries` reads the entries of a conversation up to a `seq`.
    pub(crate) fn put(
        &mut self,
        index: &Connection,
        entries: impl Fn(ConversationId, u64) -> Result<Vec<Entry>, StoreError>,
    ) -> Result<(), IndexError> {
        for (id, tally) in &mut self.0 {
            tally.settle(|newest| entries(*id, newest))?;
            put(index, tally)?;
        }
        Ok(())
    }
}

fn note_damage(index: &Connection, conversation: ConversationId) -> rusqlite::Result<()> {
    sql::run(index, "UPDATE summary SET damaged = 1 WHERE id = ?1", [conversation.to_string()])
}

const COLUMNS: &str = "id, title, renamed, provider, model, directory, format, state, messages, entries, created, \
                       updated, seq, tail, hash, standing, damaged, forked_from, scope_user, scope_channel, scope_thread";

fn put(connection: &Connection, tally: &Tally) -> rusqlite::Result<()> {
    let summary = tally.summary();
    let tail = summary.tail;
    let insert = format!(
        "INSERT OR REPLACE INTO summary ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
         ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)"
    );
    sql::run(
        connection,
        &insert,
        rusqlite::params![
            summary.id.to_string(),
            summary.title,
            summary.renamed,
            summary.about.provider,
            summary.about.model,
            summary.about.directory,
            summary.about.format,
            summary.state.as_str(),
            summary.messages as i64,
            summary.entries as i64,
            summary.created.as_microsecond(),
            summary.updated.as_microsecond(),
            tail.map(|tail| tail.seq as i64),
            tail.map(|tail| *tail.id.as_uuid().as_bytes()),
            tail.map(|tail| *tail.hash.as_bytes()),
            tally.kept(),
            summary.damaged,
            summary.forked_from,
            summary.scope.user,
            summary.scope.channel,
            summary.scope.thread,
        ],
    )
}

pub(crate) fn get(
    connection: &Connection,
    conversation: ConversationId,
) -> rusqlite::Result<Option<Summary>> {
    let query = format!("SELECT {COLUMNS} FROM summary WHERE id = ?1");
    sql::first(connection, &query, [conversation.to_string()], summary).map(Option::flatten)
}

fn summary(row: &Row<'_>) -> rusqlite::Result<Option<Summary>> {
    let Ok(id) = row.get::<_, String>(0)?.parse() else { return Ok(None) };
    let time = |column| -> rusqlite::Result<Timestamp> {
        Ok(Timestamp::from_microsecond(row.get(column)?).unwrap_or(Timestamp::UNIX_EPOCH))
    };
    let tail = match (row.get::<_, Option<i64>>(12)?, row.get(13)?, row.get(14)?) {
        (Some(seq), Some(id), Some(hash)) => {
            Some(Tail { seq: seq.unsigned_abs(), id: EntryId::from_bytes(id), hash: Hash::from_bytes(hash) })
        }
        _ => None,
    };
    Ok(Some(Summary {
        id,
        title: row.get(1)?,
        renamed: row.get(2)?,
        about: About {
            provider: row.get(3)?,
            model: row.get(4)?,
            directory: row.get(5)?,
            format: row.get(6)?,
        },
        state: row.get::<_, String>(7)?.parse().unwrap_or_default(),
        damaged: row.get(16)?,
        messages: row.get::<_, i64>(8)?.unsigned_abs(),
        entries: row.get::<_, i64>(9)?.unsigned_abs(),
        created: time(10)?,
        updated: time(11)?,
        tail,
        forked_from: row.get(17)?,
        scope: Scope { user: row.get(18)?, channel: row.get(19)?, thread: row.get(20)? },
    }))
}

/// The SQL condition that a summary is in a scope, with parameters numbered from `first`, and their values. Parts that are set are
/// tested to be non-empty, because SQLite uses their partial index only then.
fn of_scope(scope: &ScopeFilter, first: usize) -> (String, Vec<&str>) {
    let given = Scope::PARTS.iter().zip(scope.parts()).filter_map(|(name, part)| Some((name, part?)));
    let mut condition = String::new();
    let mut values = Vec::new();
    for (number, (name, part)) in (first..).zip(given) {
        condition.push_str(&format!(" AND scope_{name} = ?{number}"));
        if !part.is_empty() {
            condition.push_str(&format!(" AND scope_{name} <> ''"));
        }
        values.push(part);
    }
    (condition, values)
}

/// The conversations of a scope.
fn ids_of_scope(connection: &Connection, scope: &ScopeFilter) -> rusqlite::Result<Vec<ConversationId>> {
    let (condition, values) = of_scope(scope, 1);
    let query = format!("SELECT id FROM summary WHERE true{condition}");
    let ids: Vec<String> =
        sql::all(connection, &query, rusqlite::params_from_iter(values), |row| row.get(0))?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

fn list(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let (condition, parts) = of_scope(&query.scope, 4);
    let (count, counted) = of_scope(&query.scope, 1);
    let count = format!("SELECT count(*) FROM summary WHERE true{count}");
    let total: i64 =
        sql::first(connection, &count, rusqlite::params_from_iter(counted), |row| row.get(0))?.unwrap_or(0);
    let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
    let after = query.after.map(|after| (after.updated.as_microsecond(), after.id.to_string()));
    let (updated, id) = after.unwrap_or((i64::MAX, String::new()));
    let select = format!(
        "SELECT {COLUMNS} FROM summary WHERE ((updated < ?1) OR (updated = ?1 AND id > ?2)){condition} \
         ORDER BY updated DESC, id LIMIT ?3"
    );
    // Read one more than requested, to know whether there is a next page.
    let more = if limit < 0 { -1 } else { limit.saturating_add(1) };
    let mut values: Vec<&dyn rusqlite::ToSql> = vec![&updated, &id, &more];
    values.extend(parts.iter().map(|part| part as &dyn rusqlite::ToSql));
    let found: Vec<Option<Summary>> = sql::all(connection, &select, &*values, summary)?;
    let mut found: Vec<Summary> = found.into_iter().flatten().collect();
    let is_more = query.limit.is_some_and(|limit| found.len() > limit);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    let next = found.last().filter(|_| is_more).map(|last| Cursor { updated: last.updated, id: last.id });
    Ok(Page { conversations: found, total: total.unsigned_abs(), next })
}
