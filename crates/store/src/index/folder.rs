//! The index of a folder of files. It knows each file's mark as it was when the file was last read, and reads again what has
//! another one. Nothing needs it: where it cannot be used, the files are read.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::UNIX_EPOCH,
};

use rejoin_record::{ConversationId, Entry};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{
    FORM, SCHEMA, connect, failed, get, is_plain, list,
    lost::{self, Lost},
    note_damage, put, remove, take, words,
};
use crate::{
    digest::Digester,
    error::StoreError,
    files::{self, Identity},
    jsonl::Mark,
    scan,
    store::{Hit, Item, Page, Query, Search, Store},
    summary::Summary,
};

const FILES: &str = "
    CREATE TABLE file (id TEXT PRIMARY KEY, mark TEXT NOT NULL) STRICT;
    CREATE TABLE place (key INTEGER PRIMARY KEY, id TEXT NOT NULL, seq INTEGER NOT NULL) STRICT;
    CREATE INDEX place_of ON place (id);
    CREATE TABLE going (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
";

/// How often something is tried again because another process made the index anew meanwhile.
const TRIES: usize = 20;

/// The index of a folder.
pub(crate) struct Folder {
    path: PathBuf,
    digester: Digester,
    open: Mutex<Option<Opened>>,
}

/// An open index, and which file that is.
struct Opened {
    connection: Connection,
    identity: Option<Identity>,
}

/// Which file goes by a name.
fn named(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|metadata| files::identity(&metadata))
}

/// What an index finds when it turns to the files again.
enum Followed {
    UpToDate,
    /// Words that it holds are gone from the files.
    Removed,
    /// Another process made the index anew.
    Replaced,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A mark as it is kept.
fn spelled(mark: &Mark) -> String {
    let since = mark.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let since = since.map_or_else(String::new, |since| since.as_nanos().to_string());
    format!("{} {since} {:?}", mark.size, mark.identity)
}

impl Folder {
    pub(crate) fn new(folder: &Path, digester: Digester) -> Self {
        Self { path: folder.join(".index"), digester, open: Mutex::new(None) }
    }

    /// How many bytes it takes.
    pub(crate) fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Opened>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Throws it away, with all that it knows. It is made anew when it is next used.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
        remove(&self.path);
    }

    /// Throws away every word that it holds. It still misses what it missed.
    pub(crate) fn wipe(&self) -> Result<(), StoreError> {
        let mut open = self.lock();
        if open.is_none() && !self.path.exists() {
            return Ok(());
        }
        self.anew(&mut open)
    }

    fn anew(&self, open: &mut Option<Opened>) -> Result<(), StoreError> {
        let old = open.take().map_or_else(|| connect(&self.path), |open| Ok(open.connection));
        let (missed, going) = match &old {
            Ok(old) => (lost::missed(old).unwrap_or_default(), going(old).unwrap_or_default()),
            Err(_) => Default::default(),
        };
        drop(old);
        remove(&self.path);
        let new = self.opened(open)?;
        for lost in &missed {
            lost::put(new, lost).map_err(failed("writing the index"))?;
        }
        for (id, seq) in &going {
            put_going(new, id, *seq).map_err(failed("writing the index"))?;
        }
        Ok(())
    }

    /// The index that goes by its name. The one that was open may have been replaced by another process.
    fn opened<'o>(&self, open: &'o mut Option<Opened>) -> Result<&'o Connection, StoreError> {
        if open.as_ref().is_some_and(|open| open.identity != named(&self.path)) {
            *open = None;
        }
        let open = match open {
            Some(open) => open,
            None => {
                let connection = self.open()?;
                open.insert(Opened { connection, identity: named(&self.path) })
            }
        };
        Ok(&open.connection)
    }

    /// Does something with an index that knows these files as they are.
    fn with<T>(
        &self,
        store: &dyn Store,
        marks: &[(ConversationId, Mark)],
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut open = self.lock();
        for _ in 0..TRIES {
            let connection = self.opened(&mut open)?;
            match self.update(connection, store, marks) {
                Ok(Followed::UpToDate) => return work(connection),
                Ok(Followed::Replaced) => *open = None,
                Ok(Followed::Removed) => self.anew(&mut open)?,
                Err(why) => {
                    tracing::debug!("the index is made anew: {why}");
                    self.anew(&mut open)?;
                }
            }
        }
        Err(StoreError::ReadOnly(String::from("other processes keep making the index anew")))
    }

    /// Keeps in mind that a conversation is about to be deleted, so that nobody misses it should it come back shorter.
    pub(crate) fn let_go(&self, id: ConversationId, newest: u64) -> Result<(), StoreError> {
        self.in_its_place(|connection| put_going(connection, &id.to_string(), newest))
    }

    /// It is deleted, and the index has followed.
    pub(crate) fn is_gone(&self, id: ConversationId) -> Result<(), StoreError> {
        self.in_its_place(|connection| {
            connection.execute("DELETE FROM going WHERE id = ?1", [id.to_string()]).map(drop)
        })
    }

    /// Writes to the index that goes by its name, also when another process makes it anew just now.
    fn in_its_place(&self, work: impl Fn(&Connection) -> rusqlite::Result<()>) -> Result<(), StoreError> {
        let mut open = self.lock();
        for _ in 0..TRIES {
            work(self.opened(&mut open)?).map_err(failed("writing the index"))?;
            if open.as_ref().is_some_and(|open| open.identity == named(&self.path)) {
                break;
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<Connection, StoreError> {
        if self.path.exists()
            && let Ok(connection) = connect(&self.path)
            && connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)) == Ok(FORM)
            && is_plain(&connection)
        {
            return Ok(connection);
        }
        remove(&self.path);
        files::make_file(&self.path)?;
        let connection = connect(&self.path)?;
        let make = || -> rusqlite::Result<()> {
            let transaction = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
            // Somebody else may have been quicker.
            if transaction.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? == FORM {
                return Ok(());
            }
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(FILES)?;
            transaction.execute_batch(lost::SCHEMA)?;
            transaction.pragma_update(None, "user_version", FORM)?;
            transaction.commit()
        };
        make().map_err(failed("making the index"))?;
        Ok(connection)
    }

    /// Reads the files that changed.
    fn update(
        &self,
        connection: &Connection,
        store: &dyn Store,
        marks: &[(ConversationId, Mark)],
    ) -> Result<Followed, StoreError> {
        let known = || -> rusqlite::Result<HashMap<String, String>> {
            let mut statement = connection.prepare_cached("SELECT id, mark FROM file")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let mut known = known().map_err(failed("reading the index"))?;
        let changed: Vec<(ConversationId, String)> = marks
            .iter()
            .map(|(id, mark)| (*id, spelled(mark)))
            .filter(|(id, mark)| known.remove(&id.to_string()).as_ref() != Some(mark))
            .collect();
        if changed.is_empty() && known.is_empty() {
            return Ok(Followed::UpToDate);
        }
        let identity = named(&self.path);
        let mut removed = !known.is_empty();
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
            .map_err(failed("writing the index"))?;
        for (id, mark) in changed {
            match self.take_file(&transaction, store, id, &mark) {
                // It was deleted a moment ago.
                Err(StoreError::NotFound(_)) => {}
                // One that cannot be read does not keep the others out; it is tried again next time.
                Err(StoreError::Io { what, why }) => tracing::warn!("{what}: {why}"),
                taken => removed |= taken?,
            }
        }
        // What is missed by an index that nobody uses any more may have been deleted, and only the new index knows that.
        if identity != named(&self.path) {
            return Ok(Followed::Replaced);
        }
        transaction.commit().map_err(failed("writing the index"))?;
        // Deleted rows leave words behind. A file that is made anew has none of them, and still misses what is missing.
        Ok(if removed { Followed::Removed } else { Followed::UpToDate })
    }

    /// Takes in a file. Says whether something that was taken in before had to go.
    fn take_file(
        &self,
        connection: &Connection,
        store: &dyn Store,
        id: ConversationId,
        mark: &str,
    ) -> Result<bool, StoreError> {
        let write = failed("writing the index");
        let before = get(connection, id).map_err(failed("reading the index"))?;
        let tail = before.as_ref().and_then(|summary| summary.tail);
        // What was read before stays, if the file goes on behind it.
        let (mut entries, mut damaged) = read_from(store, id, tail.map_or(0, |tail| tail.seq))?;
        let goes_on = tail.is_some_and(|tail| {
            let same = entries.first().is_some_and(|entry| entry.hash() == tail.hash);
            same && self.mark_of(connection, id).is_some_and(|before| has_grown(&before, mark))
        }) && !scan::beginning_is_damaged(store, id)?;
        let work = || -> Result<(), StoreError> {
            if goes_on {
                entries.remove(0);
            } else {
                drop_file(connection, &id.to_string()).map_err(failed("writing the index"))?;
                if let Some(tail) = tail {
                    (entries, damaged) = read_from(store, id, 0)?;
                    let there = |entry: &Entry| entry.envelope().seq == tail.seq && entry.hash() == tail.hash;
                    if !entries.iter().any(there) && !is_going(connection, id, tail.seq) {
                        let rest = entries.last().map(|entry| entry.envelope().seq);
                        let lost = Lost { conversation: id, seq: tail.seq, hash: tail.hash, rest };
                        lost::put(connection, &lost).map_err(failed("writing the index"))?;
                    }
                }
            }
            let mut summaries = HashMap::new();
            for entry in &entries {
                let mut taken = || -> rusqlite::Result<()> {
                    connection
                        .prepare_cached("INSERT INTO place (id, seq) VALUES (?1, ?2)")?
                        .execute((id.to_string(), entry.envelope().seq as i64))?;
                    let key = connection.last_insert_rowid();
                    take(connection, &mut summaries, key, id, entry, self.digester)
                };
                taken().map_err(failed("writing the index"))?;
            }
            for summary in summaries.values() {
                put(connection, summary).map_err(failed("writing the index"))?;
            }
            if damaged {
                note_damage(connection, id).map_err(failed("writing the index"))?;
            }
            connection
                .execute("INSERT OR REPLACE INTO file (id, mark) VALUES (?1, ?2)", (id.to_string(), mark))
                .map(drop)
                .map_err(write)
        };
        work().map(|()| tail.is_some() && !goes_on)
    }

    /// The mark of a conversation's file when it was last read.
    fn mark_of(&self, connection: &Connection, id: ConversationId) -> Option<String> {
        let query = "SELECT mark FROM file WHERE id = ?1";
        connection.query_row(query, [id.to_string()], |row| row.get(0)).ok()
    }

    /// Keeps in mind that a part of a conversation cannot be read, if the index is there.
    pub(crate) fn note_damage(&self, id: ConversationId) {
        let open = self.lock();
        let noted = match open.as_ref() {
            Some(open) => note_damage(&open.connection, id),
            None if self.path.is_file() => match connect(&self.path) {
                Ok(connection) => note_damage(&connection, id),
                Err(_) => return,
            },
            None => return,
        };
        if let Err(why) = noted {
            tracing::debug!("the damage is not noted: {why}");
        }
    }

    /// What was seen of a conversation: its newest entry when its file was last read, and what was missed even then. Nothing
    /// is read anew.
    pub(crate) fn seen_of(&self, id: ConversationId) -> Vec<Lost> {
        let mut open = self.lock();
        if open.is_none() && !self.path.is_file() {
            return Vec::new();
        }
        let Ok(connection) = self.opened(&mut open) else { return Vec::new() };
        let seen = lost::seen(connection).into_iter().chain(lost::missed(connection)).flatten();
        seen.filter(|lost| lost.conversation == id && !is_going(connection, id, lost.seq)).collect()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A page of conversations, newest first.
    pub(crate) fn list(
        &self,
        store: &dyn Store,
        marks: &[(ConversationId, Mark)],
        query: &Query,
    ) -> Result<Page, StoreError> {
        self.with(store, marks, |connection| list(connection, query).map_err(failed("listing conversations")))
    }

    /// Entries that say something, best first.
    pub(crate) fn search(
        &self,
        store: &dyn Store,
        marks: &[(ConversationId, Mark)],
        search: &Search,
    ) -> Result<Vec<Hit>, StoreError> {
        let parts = scan::parts(&search.words);
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let (found, titles) = self.with(store, marks, |connection| {
            let work = || -> rusqlite::Result<_> {
                let within = match search.within {
                    None => None,
                    Some(id) => {
                        let mut statement =
                            connection.prepare_cached("SELECT key FROM place WHERE id = ?1")?;
                        let keys = statement.query_map([id.to_string()], |row| row.get(0))?;
                        Some(keys.collect::<rusqlite::Result<HashSet<i64>>>()?)
                    }
                };
                let best = words::matching(connection, &words::query(&parts), within.as_ref(), search.limit)?;
                let mut places: Vec<(ConversationId, u64, f64)> = Vec::new();
                let mut titles: HashMap<ConversationId, Option<Summary>> = HashMap::new();
                for (key, score) in best {
                    let query = "SELECT id, seq FROM place WHERE key = ?1";
                    let (id, seq): (String, i64) = connection
                        .prepare_cached(query)?
                        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
                    let Ok(id) = id.parse() else { continue };
                    places.push((id, seq.unsigned_abs(), score));
                    if let std::collections::hash_map::Entry::Vacant(free) = titles.entry(id) {
                        free.insert(get(connection, id)?);
                    }
                }
                Ok((places, titles))
            };
            work().map_err(failed("searching"))
        })?;
        // Each conversation is read once, however many of its entries are wanted.
        let mut entries: HashMap<(ConversationId, u64), Entry> = HashMap::new();
        for id in found.iter().map(|(id, _, _)| *id).collect::<HashSet<_>>() {
            let wanted: HashSet<u64> =
                found.iter().filter(|(other, _, _)| *other == id).map(|(_, seq, _)| *seq).collect();
            let mut left = wanted.len();
            store.read(id, wanted.iter().copied().min().unwrap_or(0), &mut |item| {
                if let Item::Entry(entry) = item
                    && wanted.contains(&entry.envelope().seq)
                {
                    entries.insert((id, entry.envelope().seq), entry);
                    left -= 1;
                }
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        let hit = |(id, seq, score): (ConversationId, u64, f64)| {
            let entry = entries.get(&(id, seq))?;
            let title = titles.get(&id).and_then(|summary| summary.as_ref()?.title.clone());
            words::hit(self.digester, id, entry, title, &parts, score)
        };
        Ok(found.into_iter().filter_map(hit).collect())
    }
}

/// The entries of a conversation from a place on, and whether something there is damaged.
fn read_from(store: &dyn Store, id: ConversationId, from: u64) -> Result<(Vec<Entry>, bool), StoreError> {
    let (mut entries, mut damaged) = (Vec::new(), false);
    store.read(id, from, &mut |item| {
        match item {
            Item::Entry(entry) => entries.push(entry),
            Item::Damage(damage) => damaged |= !damage.torn,
        }
        ControlFlow::Continue(())
    })?;
    Ok((entries, damaged))
}

/// Whether a file is the one that it was and has only become longer, as far as its marks tell.
fn has_grown(before: &str, now: &str) -> bool {
    let size = |mark: &str| mark.split(' ').next().and_then(|size| size.parse::<u64>().ok());
    let identity = |mark: &str| mark.rsplit(' ').next().map(str::to_owned);
    identity(before) == identity(now) && size(before) < size(now)
}

/// Conversations that somebody deletes just now, with the places of their newest entries.
fn going(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare("SELECT id, seq FROM going")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn put_going(connection: &Connection, id: &str, newest: impl TryInto<i64>) -> rusqlite::Result<()> {
    let newest = newest.try_into().unwrap_or(i64::MAX);
    connection.execute("INSERT OR REPLACE INTO going (id, seq) VALUES (?1, ?2)", (id, newest)).map(drop)
}

/// Whether an entry was, or is, being deleted with its conversation.
fn is_going(connection: &Connection, id: ConversationId, seq: u64) -> bool {
    let query = "SELECT count(*) FROM going WHERE id = ?1 AND seq >= ?2";
    let count = connection.query_row(query, (id.to_string(), seq as i64), |row| row.get(0));
    count.is_ok_and(|count: i64| count > 0)
}

/// Forgets a file.
fn drop_file(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM words WHERE rowid IN (SELECT key FROM place WHERE id = ?1)")?
        .execute([id])?;
    for table in ["place", "summary", "file"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?.execute([id])?;
    }
    Ok(())
}
