//! What lists and search come from: a file beside the record that can be thrown away.
//!
//! It holds a summary of each conversation and the words of each entry. It follows the record: each entry has a key that only
//! grows, and the index knows up to which key it has read. Whatever is asked of it, it first reads what is new; a moment after
//! an append it does so by itself. Where it cannot be written, the record is read in its place.

mod folder;
mod follower;
pub(crate) mod lost;
mod words;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, Transaction, TransactionBehavior};

pub(crate) use self::{folder::Folder, follower::Follower};
use crate::{
    digest::Digester,
    error::StoreError,
    files, scan,
    store::{Cursor, Damage, Hit, Page, Place, Problem, Query, Search},
    summary::Summary,
};

/// The form of the file. Any other is thrown away and made anew.
const FORM: i64 = 6;

const SCHEMA: &str = "
    CREATE TABLE state (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
    CREATE TABLE summary (
        id TEXT PRIMARY KEY, title TEXT, renamed INTEGER NOT NULL, provider TEXT, model TEXT, directory TEXT,
        format TEXT, state TEXT NOT NULL, messages INTEGER NOT NULL, entries INTEGER NOT NULL,
        created INTEGER NOT NULL, updated INTEGER NOT NULL, seq INTEGER, tail BLOB, hash BLOB, open TEXT NOT NULL,
        damaged INTEGER NOT NULL, forked_from TEXT
    ) STRICT;
    CREATE INDEX summary_newest ON summary (updated DESC, id);
    CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1, detail = full,
        tokenize = \"unicode61 remove_diacritics 2\");
";

/// How many entries are taken in at once: an append waits no longer than for these.
const AT_ONCE: usize = 2000;

/// How often record and index are compared while others remove something.
const COMPARISONS: usize = 4;

/// How often an index is made anew because something was removed while it was made.
const REMAKES: usize = 8;

/// What an index follows.
pub(crate) trait Source: Send + Sync {
    /// Where the index is.
    fn path(&self) -> PathBuf;
    /// Which store it is.
    fn name(&self) -> Result<String, StoreError>;
    /// How often something was removed from it.
    fn removed(&self) -> Result<i64, StoreError>;
    /// The key of its newest entry.
    fn newest(&self) -> Result<i64, StoreError>;
    /// Hands out the entries behind a key, in order.
    fn behind(
        &self,
        key: i64,
        each: &mut dyn FnMut(i64, ConversationId, Result<Entry, Damage>) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;
    /// The hash of the entry at a place of a conversation, if there is one.
    fn hash_of(&self, conversation: ConversationId, seq: u64) -> Result<Option<Hash>, StoreError>;
    /// The key of a conversation's first entry and the place of its newest one; none if there is no such conversation.
    fn ends_of(&self, conversation: ConversationId) -> Result<Option<(i64, u64)>, StoreError>;
    /// What tells whether anybody else touched the record since; none if that cannot be said just now.
    fn seal(&self) -> Option<String>;
    /// The entry with a key.
    fn fetch(&self, key: i64) -> Result<Option<(ConversationId, Entry)>, StoreError>;
    /// The hash of the entry with a key, if there is one.
    fn hash_at(&self, key: i64) -> Result<Option<Hash>, StoreError>;
    /// The keys of a conversation's entries.
    fn keys_of(&self, conversation: ConversationId) -> Result<Vec<i64>, StoreError>;
    /// Who says what entries are about.
    fn digester(&self) -> Digester;
    /// The index, once it is open.
    fn index(&self) -> &Mutex<Option<Index>>;
}

/// What an index finds when it turns to the record again.
#[derive(PartialEq, Eq)]
enum Followed {
    /// It has read everything there is.
    UpToDate,
    /// Something that it read was removed from the record, or the record is another one.
    Outdated(&'static str),
}

/// An open index.
pub(crate) struct Index {
    connection: Connection,
}

fn failed(what: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |why| StoreError::Database { what, why: why.to_string(), unwritable: true }
}

impl Index {
    /// Does something with an index that is up to date.
    fn with<T>(
        source: &dyn Source,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut open = source.index().lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = Some(Self::open(source)?);
        }
        let index = open.as_ref().expect("BUG: just opened");
        match index.update(source) {
            Ok(Followed::UpToDate) => {}
            Ok(Followed::Outdated(why)) => {
                tracing::debug!("the index is made anew: {why}");
                Self::anew(source, &mut open)?;
            }
            // What is wrong with the record is not mended here.
            Err(why) if why.is_damage() => return Err(why),
            // The index may be damaged: made anew it is not.
            Err(why) => {
                tracing::debug!("the index is made anew: {why}");
                Self::anew(source, &mut open)?;
            }
        }
        let index = open.as_ref().expect("BUG: it was open");
        work(&index.connection)
    }

    /// Makes an index anew. What it missed, and what turns out to be missing just now, the new one misses too.
    fn anew(source: &dyn Source, open: &mut Option<Self>) -> Result<(), StoreError> {
        for _ in 0..REMAKES {
            if Self::anew_at_once(source, open)? == Followed::UpToDate {
                break;
            }
        }
        // If others remove something all the time, it lags a little behind.
        Ok(())
    }

    fn anew_at_once(source: &dyn Source, open: &mut Option<Self>) -> Result<Followed, StoreError> {
        let old = open.take().map_or_else(|| Self::open_as_it_is(&source.path(), &source.name()?), Ok);
        let lost = match old {
            Ok(old) => lost::find(&old.connection, source).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        remove(&source.path());
        let new = open.insert(Self::open(source)?);
        for lost in &lost {
            tracing::warn!("{}: {}", lost.conversation, lost.problem().what);
            lost::put(&new.connection, lost).map_err(failed("writing the index"))?;
        }
        new.update(source)
    }

    fn state(&self, name: &str) -> Result<i64, StoreError> {
        self.connection
            .prepare_cached("SELECT value FROM state WHERE name = ?1")
            .and_then(|mut statement| statement.query_row([name], |row| row.get(0)))
            .map_err(failed("reading the index"))
    }

    /// How the record was left, as far as an index knows.
    pub(crate) fn seal_of(path: &Path) -> Option<String> {
        let connection = glance(path).ok()?;
        let query = "SELECT value FROM state WHERE name = 'seal'";
        connection.query_row(query, [], |row| row.get(0)).ok()?
    }

    /// Whether an index has seen nothing that is not in a record. One that is not there knows nothing, and proves nothing.
    pub(crate) fn knows_no_more(path: &Path, record: &Connection) -> bool {
        let known = || -> rusqlite::Result<bool> {
            let connection = glance(path)?;
            let query = "SELECT (SELECT value FROM state WHERE name = 'seen'), (SELECT value FROM state WHERE name = 'mark')";
            let (seen, mark): (i64, Option<String>) =
                connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let there: Option<[u8; 32]> = record
                .query_row("SELECT hash FROM entry WHERE key = ?1", [seen], |row| row.get(0))
                .optional()?;
            Ok(mark == there.map(|hash| Hash::from_bytes(hash).to_string()))
        };
        known().unwrap_or(false)
    }

    /// Notes how the record was left, if there is an index to note it in.
    pub(crate) fn put_seal_in(path: &Path, seal: &str) {
        if path.is_file()
            && let Ok(connection) = connect(path)
        {
            let _ = put_seal(&connection, seal);
        }
    }

    /// Notes how the record was left.
    pub(crate) fn put_seal(&self, seal: &str) {
        let put = put_seal(&self.connection, seal);
        if let Err(why) = put {
            tracing::debug!("how the record was left is not noted: {why}");
        }
    }

    /// What is missing in a record that an index has seen, wherever that index is.
    pub(crate) fn missing(path: &Path, source: &dyn Source) -> Vec<lost::Lost> {
        let found = glance(path)
            .map_err(failed("opening the index"))
            .and_then(|connection| lost::find(&connection, source));
        found.unwrap_or_default()
    }

    fn open(source: &dyn Source) -> Result<Self, StoreError> {
        let path = source.path();
        let name = source.name()?;
        if let Ok(index) = Self::open_as_it_is(&path, &name) {
            return Ok(index);
        }
        remove(&path);
        files::make_file(&path)?;
        let connection = connect(&path)?;
        let removed = source.removed()?;
        let make = || -> rusqlite::Result<()> {
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
            // Somebody else may have been quicker.
            let form: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            if form == FORM {
                return Ok(());
            }
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(lost::SCHEMA)?;
            transaction.execute(
                "INSERT INTO state VALUES ('store', ?1), ('seen', 0), ('mark', NULL), ('removed', ?2), ('seal', NULL)",
                (&name, removed),
            )?;
            transaction.pragma_update(None, "user_version", FORM)?;
            transaction.commit()
        };
        // That there is an index survives a power cut: it tells an append that was torn from one that was lost.
        let durably = |level: &str| connection.pragma_update(None, "synchronous", level);
        durably("FULL")
            .and_then(|()| make())
            .and_then(|()| durably("NORMAL"))
            .map_err(failed("making the index"))?;
        if let Some(folder) = path.parent() {
            files::sync_folder(folder).map_err(StoreError::io("making the index"))?;
        }
        Ok(Self { connection })
    }

    fn open_as_it_is(path: &Path, name: &str) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let connection = connect(path)?;
        let form: i64 = connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed("opening the index"))?;
        let store: String = connection
            .query_row("SELECT value FROM state WHERE name = 'store'", [], |row| row.get(0))
            .map_err(failed("opening the index"))?;
        if form == FORM && store == name && is_plain(&connection) {
            Ok(Self { connection })
        } else {
            Err(StoreError::Missing(path.to_owned()))
        }
    }

    /// Reads what is new.
    fn update(&self, source: &dyn Source) -> Result<Followed, StoreError> {
        let state = |name: &str| self.state(name);
        let removed = || Ok::<_, StoreError>(state("removed")? != source.removed()?);
        let outdated = Followed::Outdated("something was removed from the record");
        if removed()? {
            return Ok(outdated);
        }
        // The record may have been put back from a copy; then what was seen last is not there, or is something else.
        let mark: Option<String> = self
            .connection
            .prepare_cached("SELECT value FROM state WHERE name = 'mark'")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(failed("reading the index"))?;
        if mark != source.hash_at(state("seen")?)?.map(|hash| hash.to_string()) {
            // What was removed may be what was seen last.
            return Ok(if removed()? { outdated } else { Followed::Outdated("the record is another one") });
        }
        let newest = source.newest()?;
        while state("seen")? < newest {
            let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
                .map_err(failed("writing the index"))?;
            // Somebody else may have been quicker.
            let mut seen = state("seen")?;
            let before = seen;
            let mut summaries: std::collections::HashMap<ConversationId, Summary> =
                std::collections::HashMap::new();
            let mut trouble = None;
            let mut taken = 0;
            source.behind(seen, &mut |key, conversation, entry| {
                seen = key;
                taken += 1;
                let done = match entry {
                    Ok(entry) => {
                        take(&transaction, &mut summaries, key, conversation, &entry, source.digester())
                    }
                    Err(damage) => known(&transaction, &mut summaries, conversation)
                        .map(|summary| summary.damaged |= !damage.torn),
                };
                if let Err(why) = done {
                    trouble = Some(why);
                    return ControlFlow::Break(());
                }
                if taken < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if let Some(why) = trouble {
                return Err(failed("writing the index")(why));
            }
            // A conversation that was deleted may have come back meanwhile, from an import; what was read of the two would be
            // taken for one.
            if removed()? {
                return Ok(outdated);
            }
            for summary in summaries.values() {
                put(&transaction, summary).map_err(failed("writing the index"))?;
            }
            transaction
                .execute("UPDATE state SET value = ?1 WHERE name = 'seen'", [seen])
                .map_err(failed("writing the index"))?;
            put_mark(&transaction, source.hash_at(seen)?).map_err(failed("writing the index"))?;
            if let Some(seal) = source.seal() {
                put_seal(&transaction, &seal).map_err(failed("writing the index"))?;
            }
            transaction.commit().map_err(failed("writing the index"))?;
            if seen == before {
                break;
            }
        }
        Ok(Followed::UpToDate)
    }

    /// Sees to it that there is an index before anything is appended. Nothing is read yet.
    pub(crate) fn prepare(source: &dyn Source) {
        if !source.path().exists()
            && let Err(why) = Self::open(source)
        {
            tracing::debug!("there is no index: {why}");
        }
    }

    /// Brings the index up to date.
    pub(crate) fn catch_up(source: &dyn Source) -> Result<(), StoreError> {
        Self::with(source, |_| Ok(()))
    }

    /// Makes the index anew, and still misses what it missed.
    pub(crate) fn remake(source: &dyn Source) -> Result<(), StoreError> {
        let mut open = source.index().lock().unwrap_or_else(PoisonError::into_inner);
        Self::anew(source, &mut open)
    }

    /// Throws the index away, so that none of its words is found. It is made anew when it is next used.
    pub(crate) fn discard(source: &dyn Source) {
        *source.index().lock().unwrap_or_else(PoisonError::into_inner) = None;
        remove(&source.path());
    }

    /// Throws the index away and makes it anew.
    pub(crate) fn rebuild(source: &dyn Source) -> Result<(), StoreError> {
        Self::discard(source);
        Self::catch_up(source)
    }

    /// Every conversation, without an index, up to a key.
    fn read_all(source: &dyn Source, last: i64) -> Result<Vec<Summary>, StoreError> {
        let mut all: std::collections::HashMap<ConversationId, Summary> = std::collections::HashMap::new();
        source.behind(0, &mut |key, conversation, entry| {
            if key > last {
                return ControlFlow::Break(());
            }
            let summary = all.entry(conversation).or_insert_with(|| Summary::new(conversation));
            match entry {
                Ok(entry) => summary.add(&entry, source.digester()(&entry)),
                Err(damage) => summary.damaged |= !damage.torn,
            }
            ControlFlow::Continue(())
        })?;
        Ok(all.into_values().collect())
    }

    /// A page of conversations, newest first.
    pub(crate) fn list(source: &dyn Source, query: &Query) -> Result<Page, StoreError> {
        let listed =
            Self::with(source, |connection| list(connection, query).map_err(failed("listing conversations")));
        match listed {
            Ok(page) => Ok(page),
            Err(why) if why.is_damage() => Err(why),
            Err(why) => {
                tracing::debug!("listing without the index: {why}");
                Ok(scan::page(Self::read_all(source, i64::MAX)?, query))
            }
        }
    }

    /// What is known of a conversation.
    pub(crate) fn summary(
        source: &dyn Source,
        conversation: ConversationId,
    ) -> Result<Option<Summary>, StoreError> {
        let found = Self::with(source, |connection| {
            get(connection, conversation).map_err(failed("reading the index"))
        });
        match found {
            Err(why) if why.is_damage() => Err(why),
            found => Ok(found.unwrap_or_default()),
        }
    }

    /// Keeps in mind that a part of a conversation cannot be read. An index that is made later finds out by itself.
    pub(crate) fn note_damage(source: &dyn Source, conversation: ConversationId) {
        if !source.path().exists() {
            return;
        }
        let noted = Self::with(source, |connection| {
            note_damage(connection, conversation).map_err(failed("writing the index"))
        });
        if let Err(why) = noted {
            tracing::debug!("the damage is not noted: {why}");
        }
    }

    /// Entries that say something, best first.
    pub(crate) fn search(source: &dyn Source, search: &Search) -> Result<Vec<Hit>, StoreError> {
        words::search(source, search)
    }

    /// Says where the index differs from the record.
    pub(crate) fn verify(source: &dyn Source, each: &mut dyn FnMut(Problem)) -> Result<(), StoreError> {
        let open = source.index().lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() && !source.path().exists() {
            return Ok(());
        }
        drop(open);
        // Something may be removed while it is compared; then there is nothing to compare.
        for _ in 0..COMPARISONS {
            if Self::compare(source, each)? {
                break;
            }
        }
        let missed = Self::with(source, |connection| {
            let lost = lost::missed(connection).map_err(failed("reading the index"))?;
            let mut missed = Vec::new();
            for lost in lost {
                if source.hash_of(lost.conversation, lost.seq)? == Some(lost.hash) {
                    lost::forget(connection, &lost).map_err(failed("writing the index"))?;
                } else {
                    missed.push(lost);
                }
            }
            Ok(missed)
        });
        let missed = missed.unwrap_or_default();
        missed.iter().for_each(|lost| each(lost.problem()));
        if !missed.is_empty() {
            each(lost::advice(&source.path()));
        }
        Ok(())
    }

    /// Compares the index with the record, as far as the index has read it. Says whether that was possible.
    fn compare(source: &dyn Source, each: &mut dyn FnMut(Problem)) -> Result<bool, StoreError> {
        let mut found = Vec::new();
        let problem = |conversation, what| Problem { conversation, place: Place::Store, what, torn: false };
        let listed = Self::with(source, |connection| {
            let check = connection.execute("INSERT INTO words (words) VALUES ('integrity-check')", []);
            // Where it cannot be written it cannot be asked either; that is no damage.
            if let Err(why) = check
                && why.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
            {
                found.push(problem(None, format!("the search index is damaged: {why}; it is made anew")));
            }
            // Others go on with record and index meanwhile: what is listed and how far it goes is read in one moment.
            let read = || -> rusqlite::Result<(Vec<Summary>, i64, i64)> {
                let moment = connection.unchecked_transaction()?;
                let state = |name: &str| {
                    moment.query_row("SELECT value FROM state WHERE name = ?1", [name], |row| row.get(0))
                };
                Ok((list(&moment, &Query::default())?.conversations, state("seen")?, state("removed")?))
            };
            read().map_err(failed("reading the index"))
        });
        let (listed, seen, removed) = match listed {
            Ok(listed) => listed,
            Err(why) if why.is_damage() => return Err(why),
            // Where it cannot be written, the record is read in its place; that is nothing wrong with the record.
            Err(why) => {
                tracing::debug!("verifying without the index: {why}");
                return Ok(true);
            }
        };
        let mut real = Self::read_all(source, seen)?;
        if source.removed()? != removed {
            return Ok(false);
        }
        real.sort_by_key(|summary| summary.id);
        let mut listed = listed;
        listed.sort_by_key(|summary| summary.id);
        for summary in &listed {
            match real.binary_search_by_key(&summary.id, |other| other.id) {
                Ok(place) if real[place] == *summary => {}
                Ok(place) if real[place].entries < summary.entries => {
                    let what = format!(
                        "{} of its {} entries are missing",
                        summary.entries - real[place].entries,
                        summary.entries
                    );
                    found.push(problem(Some(summary.id), what));
                }
                Ok(_) => found.push(problem(
                    Some(summary.id),
                    String::from("the list shows something else than the record; it is made anew"),
                )),
                Err(_) => {
                    found
                        .push(problem(Some(summary.id), String::from("it is listed, and not in the record")));
                }
            }
        }
        if listed.len() < real.len() {
            found.push(problem(None, String::from("the list lacks conversations; it is made anew")));
        }
        // Whoever lists is told of damage that was found just now.
        let unknown = |summary: &Summary| {
            let place = real.binary_search_by_key(&summary.id, |other| other.id);
            place.is_ok_and(|place| real[place].damaged && !summary.damaged)
        };
        let anew =
            found.iter().any(|problem| problem.what.ends_with("made anew")) || listed.iter().any(unknown);
        found.into_iter().for_each(each);
        if anew {
            let _ = Self::remake(source);
        }
        Ok(true)
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection =
        Connection::open_with_flags(files::plain_name(path)?, flags).map_err(failed("opening the index"))?;
    connection.busy_timeout(std::time::Duration::from_secs(30)).map_err(failed("opening the index"))?;
    // What is lost by a power failure is read again from the record.
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA secure_delete = ON;")
        .map_err(failed("opening the index"))?;
    Ok(connection)
}

/// Opens an index to look something up. It is opened to be written, since only such a connection removes the files beside it that
/// it made.
fn glance(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Whether a file holds nothing that would act by itself when something is written to it.
fn is_plain(connection: &Connection) -> bool {
    let query = "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')";
    connection.query_row(query, [], |row| row.get::<_, i64>(0)) == Ok(0)
}

/// Keeps what was seen last.
fn put_mark(connection: &Connection, hash: Option<Hash>) -> rusqlite::Result<()> {
    let mark = hash.map(|hash| hash.to_string());
    connection.execute("UPDATE state SET value = ?1 WHERE name = 'mark'", [mark]).map(drop)
}

fn put_seal(connection: &Connection, seal: &str) -> rusqlite::Result<()> {
    connection.execute("UPDATE state SET value = ?1 WHERE name = 'seal'", [seal]).map(drop)
}

/// Removes the files of an index.
fn remove(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}

/// Takes in one entry.
fn take(
    connection: &Connection,
    summaries: &mut std::collections::HashMap<ConversationId, Summary>,
    key: i64,
    conversation: ConversationId,
    entry: &Entry,
    digester: Digester,
) -> rusqlite::Result<()> {
    let mut digest = digester(entry);
    if let Some(words) = digest.words.take() {
        connection
            .prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?
            .execute((key, words::spaced(&words.text)))?;
    }
    known(connection, summaries, conversation)?.add(entry, digest);
    Ok(())
}

/// What is known of a conversation so far.
fn known<'s>(
    connection: &Connection,
    summaries: &'s mut std::collections::HashMap<ConversationId, Summary>,
    conversation: ConversationId,
) -> rusqlite::Result<&'s mut Summary> {
    Ok(match summaries.entry(conversation) {
        std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::hash_map::Entry::Vacant(free) => {
            free.insert(get(connection, conversation)?.unwrap_or_else(|| Summary::new(conversation)))
        }
    })
}

fn note_damage(connection: &Connection, conversation: ConversationId) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("UPDATE summary SET damaged = 1 WHERE id = ?1")?;
    statement.execute([conversation.to_string()]).map(drop)
}

const COLUMNS: &str = "id, title, renamed, provider, model, directory, format, state, messages, entries, created, \
                       updated, seq, tail, hash, open, damaged, forked_from";

fn put(connection: &Connection, summary: &Summary) -> rusqlite::Result<()> {
    let tail = summary.tail;
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO summary ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
             ?14, ?15, ?16, ?17, ?18)"
        ))?
        .execute(rusqlite::params![
            summary.id.to_string(),
            summary.title,
            summary.renamed,
            summary.provider,
            summary.model,
            summary.directory,
            summary.format,
            summary.state.name(),
            summary.messages as i64,
            summary.entries as i64,
            summary.created.as_microsecond(),
            summary.updated.as_microsecond(),
            tail.map(|tail| tail.seq as i64),
            tail.map(|tail| *tail.id.as_uuid().as_bytes()),
            tail.map(|tail| *tail.hash.as_bytes()),
            summary.open.join("\n"),
            summary.damaged,
            summary.forked_from,
        ])?;
    Ok(())
}

fn get(connection: &Connection, conversation: ConversationId) -> rusqlite::Result<Option<Summary>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM summary WHERE id = ?1"))?
        .query_row([conversation.to_string()], summary)
        .optional()
        .map(Option::flatten)
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
    let open: String = row.get(15)?;
    Ok(Some(Summary {
        id,
        title: row.get(1)?,
        renamed: row.get(2)?,
        provider: row.get(3)?,
        model: row.get(4)?,
        directory: row.get(5)?,
        format: row.get(6)?,
        state: row.get::<_, String>(7)?.parse().unwrap_or_default(),
        damaged: row.get(16)?,
        messages: row.get::<_, i64>(8)?.unsigned_abs(),
        entries: row.get::<_, i64>(9)?.unsigned_abs(),
        created: time(10)?,
        updated: time(11)?,
        tail,
        forked_from: row.get(17)?,
        open: open.split('\n').filter(|call| !call.is_empty()).map(str::to_owned).collect(),
    }))
}

fn list(connection: &Connection, query: &Query) -> rusqlite::Result<Page> {
    let total: i64 = connection.query_row("SELECT count(*) FROM summary", [], |row| row.get(0))?;
    let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
    let after = query.after.map(|after| (after.updated.as_microsecond(), after.id.to_string()));
    let (updated, id) = after.unwrap_or((i64::MAX, String::new()));
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM summary WHERE (updated < ?1) OR (updated = ?1 AND id > ?2) \
         ORDER BY updated DESC, id LIMIT ?3"
    ))?;
    // One more than asked for tells whether there is a next page.
    let more = if limit < 0 { -1 } else { limit.saturating_add(1) };
    let rows = statement.query_map((updated, id, more), summary)?;
    let mut found: Vec<Summary> = rows.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten().collect();
    let is_more = query.limit.is_some_and(|limit| found.len() > limit);
    found.truncate(query.limit.unwrap_or(usize::MAX));
    let next = found.last().filter(|_| is_more).map(|last| Cursor { updated: last.updated, id: last.id });
    Ok(Page { conversations: found, total: total.unsigned_abs(), next })
}
