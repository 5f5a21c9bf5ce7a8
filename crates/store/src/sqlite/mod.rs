//! One SQLite file with every conversation.
//!
//! The record is two tables and the large strings; `migrations/` describes them. Lists and searches use an index in another file
//! (`../index`), which is updated soon after each append and can be deleted. Only `erase.rs` and `delete.rs` change rows.

mod body;
mod carve;
mod delete;
mod erase;
mod feed;
mod opening;
mod pen;
mod probe;
mod reading;
mod rebuild;
mod rows;
mod salvage;
mod schema;
mod scrub;
mod verify;
mod wal;

use std::{
    collections::HashMap,
    fmt,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rejoin_record::{ConversationId, Entry, EntryId, Hash, Tail};
use rusqlite::{Connection, ErrorCode, Row};

pub(crate) use self::probe::try_writing;
use self::{
    body::{Packer, Unpacker},
    pen::Pen,
    salvage::Salvage,
    schema::OpenedConnection,
};
use crate::{
    backend::*,
    index::{Feed, Follower, Index, Rhythm},
    lock::guard as lock,
    sql,
};

/// How many conversations of a list are checked for damage individually: a few screens.
const LOOKED_AT: usize = 200;

/// A store in one SQLite file.
pub struct Sqlite {
    inner: Arc<Inner>,
    follower: Follower,
}

/// The state that the store shares with the thread that updates its index.
struct Inner {
    path: PathBuf,
    location: Location,
    access: Access,
    /// Why the file could not be written when it was opened. This may change, unless it was opened for reading.
    read_only: Option<String>,
    writer: Mutex<Option<Pen>>,
    readers: Mutex<Vec<Reader>>,
    index: Index,
    locks: Locks,
    asides: Asides,
    drafts: Drafts,
    damage: Mutex<Vec<Damage>>,
    /// How many times the store was rescued.
    rescues: Mutex<u8>,
    /// The copy that is read in place of a damaged file.
    salvage: Mutex<Option<Salvage>>,
    /// Incremented whenever another file replaces the open one.
    opening: AtomicU64,
    /// Receives the progress of an erasure.
    progress: Mutex<Option<ProgressHook>>,
    digester: Digester,
}

struct Reader {
    connection: Connection,
    unpacker: Unpacker,
    /// The columns of an entry that this file has.
    columns: String,
}

impl Reader {
    fn new(connection: Connection) -> StoreResult<Self> {
        let columns = rows::columns_of(schema::version(&connection)?);
        schema::empties_log(&connection, true)?;
        let unpacker = Unpacker::new().map_err(StoreError::io("setting up decompression"))?;
        Ok(Self { connection, unpacker, columns })
    }
}

/// A reader that returns to the pool when it is dropped.
struct PooledReader<'i> {
    reader: Option<Reader>,
    inner: &'i Inner,
    opening: u64,
}

impl Drop for PooledReader<'_> {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take()
            && (reader.connection.is_autocommit() || reader.connection.execute_batch("ROLLBACK").is_ok())
            && self.opening == self.inner.opening.load(Ordering::Acquire)
        {
            lock(&self.inner.readers).push(reader);
        }
    }
}

impl Deref for PooledReader<'_> {
    type Target = Reader;
    fn deref(&self) -> &Reader {
        self.reader.as_ref().expect("BUG: it goes back only when dropped")
    }
}

impl DerefMut for PooledReader<'_> {
    fn deref_mut(&mut self) -> &mut Reader {
        self.reader.as_mut().expect("BUG: it goes back only when dropped")
    }
}

/// Adds the failed operation to an error of the database.
trait ErrorContext<T> {
    fn during(self, what: &'static str) -> StoreResult<T>;
}

impl<T> ErrorContext<T> for rusqlite::Result<T> {
    fn during(self, what: &'static str) -> StoreResult<T> {
        self.map_err(|error| {
            if is_damage(&error) {
                return StoreError::Damaged { place: StoragePlace::Store, why: format!("{what}: {error}") };
            }
            StoreError::Database { what, why: error.to_string(), unwritable: is_unwritable(&error) }
        })
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Whether an error means that the file cannot be written, although the data is valid.
fn is_unwritable(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(
            ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens a file, or creates it.
    pub fn open(path: &Path, options: Options) -> StoreResult<Self> {
        if options.access == Access::Read && !files::is_there(path)? {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let beside = |end: &str| files::with_end(path, end);
        let asides = Asides::new(beside(".aside"));
        let opening::OpenedFile { opened, salvage, damage } = opening::open(path, options.access, &asides)?;
        let (writer, readers, read_only) = match opened {
            OpenedConnection::Writable(connection) => (Some(Pen::new(connection, path)?), Vec::new(), None),
            OpenedConnection::Readable(connection, why) => (None, vec![Reader::new(connection)?], Some(why)),
        };
        let inner = Arc::new(Inner {
            location: Location::Sqlite(path.to_owned()),
            access: options.access,
            read_only,
            writer: Mutex::new(writer),
            readers: Mutex::new(readers),
            index: Index::default(),
            locks: Locks::new(beside(".locks")),
            asides,
            drafts: Drafts::new(beside(".drafts")),
            damage: Mutex::new(damage),
            rescues: Mutex::new(0),
            salvage: Mutex::new(salvage),
            opening: AtomicU64::new(0),
            progress: Mutex::new(None),
            digester: options.digester,
            path: path.to_owned(),
        });
        let followed = Arc::clone(&inner);
        let rhythm = Rhythm { rest: 0, longest: std::time::Duration::MAX };
        let follower = Follower::new(Arc::new(move || followed.index.catch_up(&*followed)), rhythm);
        scrub::finish_if_left(&inner);
        if inner.read_only.is_none() && options.access == Access::Write {
            inner.index.prepare(&*inner);
        }
        Ok(Self { inner, follower })
    }

    /// Runs an operation. If it finds damage, rescues the store and runs the operation again.
    fn attempt<T>(&self, work: impl Fn() -> StoreResult<T>) -> StoreResult<T> {
        match work() {
            Err(why) if why.is_damage() && self.inner.rescue(&why) => work(),
            done => done,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Closing the last connection writes the log into the file. Record the seal after that.
        lock(&self.readers).clear();
        let wrote = lock(&self.writer).take().is_some();
        if let Some(index) = self.index.close().filter(|_| wrote) {
            feed::put_seal(&index, &opening::seal(&self.path));
        }
    }
}

impl Inner {
    fn reader(&self) -> StoreResult<PooledReader<'_>> {
        let opening = self.opening.load(Ordering::Acquire);
        let known = lock(&self.readers).pop();
        let mut reader = match known {
            Some(reader) => reader,
            None => Reader::new(schema::reconnect(&self.file())?)?,
        };
        reader.unpacker.unlimit();
        Ok(PooledReader { reader: Some(reader), inner: self, opening })
    }

    /// A reader with a snapshot of the store.
    fn moment(&self) -> StoreResult<PooledReader<'_>> {
        let reader = self.reader()?;
        reader.connection.execute_batch("BEGIN").during("reading the store")?;
        Ok(reader)
    }

    /// The file to read: the store's own, or the copy that was rescued from it if it is damaged.
    fn file(&self) -> PathBuf {
        lock(&self.salvage).as_ref().map_or_else(|| self.path.clone(), |salvage| salvage.file.clone())
    }

    /// The length of that file.
    fn bytes(&self) -> u64 {
        std::fs::metadata(self.file()).map_or(0, |metadata| metadata.len())
    }

    /// Closes all connections, because another file replaced the open one.
    fn reopen(&self) {
        self.opening.fetch_add(1, Ordering::AcqRel);
        lock(&self.readers).clear();
        self.index.close();
    }

    fn key_of(connection: &Connection, conversation: ConversationId) -> StoreResult<Option<i64>> {
        let id = conversation.to_string();
        // The index finds the row, and the row must confirm the id: a damaged index must not lead to another conversation.
        let query = "SELECT key, (SELECT id FROM conversation AS named NOT INDEXED WHERE named.key = found.key) \
                     FROM conversation AS found WHERE id = ?1";
        let found: Option<(i64, Option<String>)> =
            sql::first(connection, query, [&id], |row| Ok((row.get(0)?, row.get(1)?)))
                .during("looking for the conversation")?;
        match found {
            None => Ok(None),
            Some((key, Some(named))) if named == id => Ok(Some(key)),
            Some(_) => {
                let why = String::from("the table and the index of conversations differ");
                Err(StoreError::Damaged { place: StoragePlace::Store, why })
            }
        }
    }

    fn tail_of(connection: &Connection, key: i64) -> StoreResult<Option<Tail>> {
        let query = "SELECT seq, id, hash FROM entry WHERE conversation = ?1 ORDER BY seq DESC LIMIT 1";
        let tail = |row: &Row<'_>| {
            let (id, hash) = (EntryId::from_bytes(row.get(1)?), Hash::from_bytes(row.get(2)?));
            Ok(Tail { seq: row.get::<_, i64>(0)?.unsigned_abs(), id, hash })
        };
        sql::first(connection, query, [key], tail).during("reading the newest entry")
    }

    /// The key that the next entry gets.
    fn next_key(connection: &Connection) -> rusqlite::Result<i64> {
        let newest: Option<i64> = sql::one(connection, "SELECT ifnull(max(key), 0) FROM entry", [])?;
        // Keys of deleted entries are not reused. If the floor cannot be read, the only cost is that the index is rebuilt more
        // often.
        let floor = sql::one(connection, "SELECT value FROM meta WHERE name = 'floor'", []);
        Ok(newest.max(floor.ok().flatten()).unwrap_or(0) + 1)
    }

    fn append(
        connection: &Connection,
        packer: &mut Packer,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> StoreResult<Tail> {
        let key = Self::key_of(connection, conversation)?;
        let found = key.map_or(Ok(None), |key| Self::tail_of(connection, key))?;
        let mut known = 0;
        if found != after {
            let moved = || StoreError::TailMoved { expected: after, found };
            let later = Self::stored_after(connection, key.ok_or_else(moved)?, after)?.ok_or_else(moved)?;
            known = scan::already(&later, entries).ok_or_else(moved)?;
        }
        let fresh = &entries[known..];
        let Some(last) = fresh.last() else {
            return found.ok_or(StoreError::BrokenBatch("there is nothing to append"));
        };
        let conversation_key = match key {
            Some(key) => key,
            None => {
                let insert = "INSERT INTO conversation (id) VALUES (?1)";
                sql::run(connection, insert, [conversation.to_string()])
                    .during("beginning the conversation")?;
                connection.last_insert_rowid()
            }
        };
        let mut stored = None;
        let parents = scan::check_seals(found, fresh, |parent| {
            let places = match &stored {
                Some(places) => places,
                None => stored.insert(Self::places(connection, conversation_key)?),
            };
            Ok(places.get(&parent).copied())
        })?;
        let first = Self::next_key(connection).during("numbering the entry")?;
        for (key, (entry, parent)) in (first..).zip(fresh.iter().zip(parents)) {
            let parent = rows::Parent { seq: parent.map(|(seq, _)| seq), hash: parent.map(|(_, hash)| hash) };
            rows::insert(connection, packer, (key, conversation_key), entry, parent)
                .during("writing the entry")?;
        }
        Ok(Tail::of(last))
    }

    /// The `seq` and the hash of every entry of a conversation.
    fn places(connection: &Connection, key: i64) -> StoreResult<HashMap<EntryId, (u64, Hash)>> {
        let query = "SELECT id, seq, hash FROM entry WHERE conversation = ?1";
        let places = sql::all(connection, query, [key], |row| {
            let place = (row.get::<_, i64>(1)?.unsigned_abs(), Hash::from_bytes(row.get(2)?));
            Ok((EntryId::from_bytes(row.get(0)?), place))
        });
        places.during("looking for the parent")
    }

    /// Ids and hashes of the entries after a tail; `None` if that tail is not stored.
    fn stored_after(
        connection: &Connection,
        key: i64,
        after: Option<Tail>,
    ) -> StoreResult<Option<Vec<(EntryId, Hash)>>> {
        let from = after.map_or(0, |tail| tail.seq);
        let query =
            "SELECT id, hash FROM entry WHERE conversation = ?1 AND seq >= ?2 ORDER BY seq LIMIT 100000";
        let stored = sql::all(connection, query, (key, from as i64), |row| {
            Ok((EntryId::from_bytes(row.get(0)?), Hash::from_bytes(row.get(1)?)))
        });
        let mut stored: Vec<(EntryId, Hash)> = stored.during("reading the newest entries")?;
        if let Some(after) = after {
            if stored.first() != Some(&(after.id, after.hash)) {
                return Ok(None);
            }
            stored.remove(0);
        }
        Ok(Some(stored))
    }
}

impl Store for Sqlite {
    fn location(&self) -> &Location {
        &self.inner.location
    }

    fn digester(&self) -> Digester {
        self.inner.digester
    }

    fn read_only(&self) -> Option<&str> {
        self.inner.read_only.as_deref()
    }

    fn damage(&self) -> Vec<Damage> {
        lock(&self.inner.damage).clone()
    }

    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>> {
        self.attempt(|| {
            let reader = self.inner.moment()?;
            let Some(key) = Inner::key_of(&reader.connection, conversation)? else { return Ok(None) };
            Inner::tail_of(&reader.connection, key)
        })
    }

    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        scan::check_batch(after, entries)?;
        let tail = self.attempt(|| {
            self.inner.write(|connection, packer| Inner::append(connection, packer, id, after, entries))
        })?;
        self.follower.follow();
        Ok(tail)
    }

    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
        reading::read(&self.inner, conversation, from, each)
    }

    fn read_part(&self, id: ConversationId, part: Selection<'_>, each: OnItem<'_>) -> StoreResult<PartRead> {
        let mut stopped = false;
        reading::read_at(&self.inner, id, part.earlier, &mut |item| {
            let flow = each(item);
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            self.read(id, part.from, each)?;
        }
        Ok(PartRead::Done)
    }

    fn single_reads(&self) -> usize {
        usize::MAX
    }

    fn checkpoint(&self, conversation: ConversationId, each: OnPiece<'_>) {
        self.inner.index.checkpoint(&*self.inner, conversation, each);
    }

    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        self.inner.index.keep_checkpoint(&*self.inner, conversation, pieces);
    }

    fn list(&self, query: &Query) -> StoreResult<Page> {
        let inner = &*self.inner;
        let mut page = match self.attempt(|| inner.index.list(inner, query)) {
            Err(why) if !why.is_damage() => {
                tracing::debug!("listing without the index: {why}");
                let ids = self.ids("", usize::MAX)?;
                return scan::list(self, &ids, inner.digester, query);
            }
            listed => listed?,
        };
        // The index does not notice later damage to rows that it has read.
        for summary in page.conversations.iter_mut().filter(|summary| !summary.damaged).take(LOOKED_AT) {
            let looked = scan::beginning_is_damaged(self, summary.id);
            if !matches!(looked, Ok(false) | Err(StoreError::NotFound(_))) {
                summary.damaged = true;
                inner.index.note_damage(inner, summary.id);
            }
        }
        Ok(page)
    }

    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary> {
        match self.attempt(|| self.inner.index.summary(&*self.inner, conversation)) {
            Ok(Some(summary)) => Ok(summary),
            Err(why) if why.is_damage() => Err(why),
            _ => scan::summary(self, conversation, self.inner.digester),
        }
    }

    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
        self.attempt(|| {
            let reader = self.inner.reader()?;
            reading::ids(&reader.connection, prefix, limit).during("looking for conversations")
        })
    }

    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>> {
        match self.attempt(|| self.inner.index.search(&*self.inner, search)) {
            Ok(hits) => Ok(hits),
            Err(why) => {
                tracing::debug!("searching without the index: {why}");
                scan::search(self, &self.ids("", usize::MAX)?, self.inner.digester, search)
            }
        }
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.inner.is_not_salvaged()?;
        if self.inner.read_only.is_some() {
            // A store that cannot be written is not locked.
            self.inner.take_up(&mut lock(&self.inner.writer))?;
        }
        self.inner.locks.acquire(conversation, holder)
    }

    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        scan::check_batch(Some(after), &notes)?;
        self.attempt(|| erase::erase(&self.inner, id, after, erasures))
    }

    fn delete(&self, conversation: ConversationId) -> StoreResult<()> {
        self.delete_all(&[conversation])
    }

    fn delete_all(&self, conversations: &[ConversationId]) -> StoreResult<()> {
        self.attempt(|| delete::delete(&self.inner, conversations))
    }

    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        let Some(entries) = entries else {
            let mut files = scrub::files_of(&self.inner, conversation)?;
            files.extend(self.inner.drafts.file_of(conversation));
            return Ok(files);
        };
        let (contents, _) = scrub::contents(&self.inner, conversation, entries)?;
        scrub::files_holding(&self.inner, conversation, &contents)
    }

    fn on_progress(&self, hook: ProgressHook) {
        *lock(&self.inner.progress) = Some(hook);
    }

    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        if !damage.torn {
            self.inner.index.note_damage(&*self.inner, conversation);
        }
        self.inner.asides.keep(&conversation.to_string(), &damage.bytes)
    }

    fn drafts(&self) -> Option<&Drafts> {
        Some(&self.inner.drafts)
    }

    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified> {
        verify::verify(self, conversation, each)
    }

    fn size(&self) -> StoreResult<Size> {
        let of = |path: &Path| {
            let log = |end: &str| {
                std::fs::metadata(files::with_end(path, end)).map_or(0, |metadata| metadata.len())
            };
            log("") + log("-wal")
        };
        Ok(Size { record: of(&self.inner.path), index: of(&Feed::path(&*self.inner)) })
    }

    fn schema(&self) -> Option<i64> {
        schema::version(&self.inner.reader().ok()?.connection).ok()
    }

    fn settle(&self) -> StoreResult<()> {
        self.attempt(|| self.inner.index.catch_up(&*self.inner))
    }

    fn rebuild(&self) -> StoreResult<()> {
        self.inner.index.discard(&*self.inner);
        self.settle()
    }
}
