//! Conversations in a PostgreSQL database, for many users and more than one machine.
//!
//! The record is two tables (`migrations/`). An append is one statement: if the tail of the conversation is the expected one, it
//! moves the tail, adds the entries, and updates the summary for lists. Only `erase.rs` and `delete.rs` change or delete entries.

mod address;
mod append;
mod convoy;
mod delete;
mod erase;
mod lease;
mod link;
mod notice;
mod options;
mod reading;
mod reports;
mod rows;
mod schema;
mod socket;
mod summaries;
mod tables;
mod tls;
mod words;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use rejoin_record::{ConversationId, Entry, EntryId, Raw, Tail};

pub(crate) use self::lease::Lease;
pub use self::tables::each_history;
use self::{
    append::Batch,
    convoy::Convoys,
    link::{Link, Trouble},
    notice::Notices,
    reports::{Unreported, UpdateTargets},
    schema::SchemaState,
    summaries::SummaryParameters,
};
use crate::{
    backend::*,
    index::Follower,
    location::Address,
    spool::{self, Spool},
    store::{EnableOutcome, StoreOption},
    summary::Tally,
};

/// The number of conversations whose summary is kept in memory between appends.
const REMEMBERED: usize = 256;

/// How often an append is retried after another writer's append came first, before the caller gets an error.
const TRIES: usize = 3;

/// A store in a PostgreSQL database.
pub struct Postgres {
    /// Writes the rows for reports. It is dropped before the other fields, after a last update.
    follower: Follower,
    inner: Arc<Inner>,
}

/// The state that the store and its leases share.
struct Inner {
    link: Link,
    location: Location,
    access: Access,
    /// The facts about the database, read when the server was first reached.
    opened: OnceLock<OpenState>,
    digester: Digester,
    /// Summaries of conversations to which this process appends, so that an append need not read them first.
    tallies: Mutex<HashMap<ConversationId, Tally>>,
    convoys: Convoys,
    notices: Notices,
    unreported: Mutex<Unreported>,
    /// Set once the option `search` is found to be enabled.
    has_words: OnceLock<()>,
    beside: Option<LocalFolders>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.notices.finish(&self.link);
    }
}

struct OpenState {
    version: i64,
    read_only: Option<String>,
}

/// The folders on this machine.
struct LocalFolders {
    drafts: Drafts,
    asides: Asides,
    spool: Spool,
}

impl LocalFolders {
    fn in_folder(folder: &Path) -> Self {
        Self {
            drafts: Drafts::new(folder.join("drafts")),
            asides: Asides::new(folder.join("aside")),
            spool: Spool::new(folder.join(spool::FOLDER)),
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("location", &self.inner.location).finish_non_exhaustive()
    }
}

fn connect(address: &Address) -> StoreResult<Link> {
    Link::new(address::reach(address, &address::Process)?)
}

/// Checks whether a database can be written, in a transaction that is rolled back.
pub(crate) fn try_writing(address: &Address) -> StoreResult<()> {
    connect(address)?.run("writing to the database", |mut client| async move {
        let found = schema::find(&client).await?;
        let transaction = client.transaction().await?;
        match found {
            SchemaState::Version(_) => {
                let lock = "SELECT 1 FROM rejoin.total WHERE part = 0 FOR UPDATE";
                transaction.query_opt(lock, &[]).await?;
            }
            SchemaState::Nothing => transaction.batch_execute("CREATE SCHEMA IF NOT EXISTS rejoin").await?,
        }
        transaction.rollback().await?;
        Ok(())
    })
}

impl Postgres {
    /// Opens a database, and creates the tables if there are none.
    pub fn open(address: &Address, options: Options) -> StoreResult<Self> {
        let link = connect(address)?;
        address.adopt_former_folder();
        if let Some(folder) = address.beside().filter(|_| options.access == Access::Write) {
            files::make_folders(folder)
                .map_err(StoreError::io(format!("making the folder {}", folder.display())))?;
        }
        let inner = Arc::new(Inner {
            link,
            location: Location::Postgres(address.clone()),
            access: options.access,
            opened: OnceLock::new(),
            digester: options.digester,
            tallies: Mutex::default(),
            convoys: Convoys::default(),
            notices: Notices::default(),
            unreported: Mutex::default(),
            has_words: OnceLock::new(),
            beside: address.beside().map(LocalFolders::in_folder),
        });
        let followed = Arc::clone(&inner);
        let follower = Follower::new(Arc::new(move || reports::follow(&followed)), reports::RHYTHM);
        let store = Self { follower, inner };
        match store.opened() {
            // The server may be reachable again for the first append. Until then, entries go to a folder on this machine.
            Err(why)
                if why.is_unwritable() && store.inner.beside.is_some() && options.access == Access::Write =>
            {
                tracing::debug!("the database is not open yet: {why}");
            }
            opened => drop(opened?),
        }
        Ok(store)
    }

    /// The facts about the database. The first time that the server can be reached, this reads them, and creates or migrates the
    /// tables.
    fn opened(&self) -> StoreResult<&OpenState> {
        if let Some(opened) = self.inner.opened.get() {
            return Ok(opened);
        }
        let Location::Postgres(address) = &self.inner.location else {
            unreachable!("BUG: it was opened by its address")
        };
        let access = self.inner.access;
        let opened = self.inner.link.run("opening the database", |mut client| async move {
            let found = schema::find(&client).await?;
            let (version, read_only) = match found {
                SchemaState::Version(version) if version > schema::KNOWN => {
                    let newer = StoreError::TooNew { found: version, known: schema::KNOWN };
                    (version, Some(newer.to_string()))
                }
                SchemaState::Version(version) if access == Access::Read => {
                    let older =
                        "its tables are of an older version, which a command that writes brings up to date";
                    (version, (version < schema::KNOWN).then(|| String::from(older)))
                }
                SchemaState::Nothing if access == Access::Read => {
                    return Err(StoreError::Missing(PathBuf::from(address.to_string())).into());
                }
                SchemaState::Version(version) if version == schema::KNOWN => {
                    let query =
                        "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";
                    let only_reads: bool = client.query_one(query, &[]).await?.get(0);
                    (
                        version,
                        only_reads.then(|| {
                            String::from(
                                "the server only reads at the moment; name the primary server in the address",
                            )
                        }),
                    )
                }
                _ => (schema::migrate(&mut client).await?, None),
            };
            Ok(OpenState { version, read_only })
        })?;
        Ok(self.inner.opened.get_or_init(|| opened))
    }

    /// The connections to the database.
    fn link(&self) -> StoreResult<&Link> {
        self.opened()?;
        Ok(&self.inner.link)
    }

    fn writable(&self) -> StoreResult<()> {
        // A read-only server may become writable, but a newer schema stays.
        let version = self.opened()?.version;
        if version > schema::KNOWN {
            Err(StoreError::TooNew { found: version, known: schema::KNOWN })
        } else {
            Ok(())
        }
    }

    /// The summary of a conversation that ends with `after`, if it is available without reading the conversation.
    fn tally(&self, id: ConversationId, after: Option<Tail>) -> StoreResult<Option<Tally>> {
        let Some(after) = after else { return Ok(Some(Tally::new(id, self.inner.digester))) };
        let known = guard(&self.inner.tallies).remove(&id);
        if let Some(known) = known.filter(|tally| tally.summary().tail == Some(after)) {
            return Ok(Some(known));
        }
        let (digester, version) = (self.inner.digester, self.opened()?.version);
        self.link()?.run("reading the summary", |client| async move {
            summaries::resume(&client, version, id, after, digester).await
        })
    }

    fn remember(&self, id: ConversationId, tally: Tally) {
        let mut tallies = guard(&self.inner.tallies);
        if tallies.len() >= REMEMBERED {
            tallies.clear();
        }
        tallies.insert(id, tally);
    }

    /// Appends entries if the conversation ends with `after`.
    fn append_after(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<bool> {
        let parents = self.parents(id, after, entries)?;
        let mut tally = self.tally(id, after)?;
        let parameters = tally.as_mut().and_then(|tally| {
            for entry in entries {
                tally.add(entry);
            }
            // If the state depends on entries that were not kept, the next list computes it.
            let mut is_known = true;
            let settled = tally.settle(|_| {
                is_known = false;
                Ok(Vec::new())
            });
            (settled.is_ok() && is_known).then(|| SummaryParameters::of(tally))
        });
        let link = self.link()?;
        let is_known = parameters.is_some();
        let batch = Batch { id, after, entries: entries.to_vec(), parents, summary: parameters };
        let appended = self.inner.convoys.append(link, batch)?;
        if appended {
            self.inner.notices.tell(link, id);
            guard(&self.inner.unreported).add(id);
            self.follower.follow();
        }
        if let Some(tally) = tally.filter(|_| appended && is_known) {
            self.remember(id, tally);
        }
        Ok(appended)
    }

    /// Checks that entries are sealed onto their parents, and returns the parents.
    fn parents(
        &self,
        id: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> StoreResult<Vec<scan::Parent>> {
        let own: HashSet<EntryId> =
            entries.iter().map(Entry::id).chain(after.map(|after| after.id)).collect();
        let far: Vec<EntryId> = entries.iter().filter_map(|entry| entry.envelope().parent).collect();
        let far: Vec<EntryId> = far.into_iter().filter(|parent| !own.contains(parent)).collect();
        let stored: HashMap<EntryId, (u64, rejoin_record::Hash)> = if far.is_empty() {
            HashMap::new()
        } else {
            let found = self.link()?.run("looking for the parent", |client| {
                let far = &far;
                async move { append::places(&client, id, far).await }
            })?;
            found.into_iter().collect()
        };
        scan::check_seals(after, entries, |parent| Ok(stored.get(&parent).copied()))
    }

    /// Recomputes the summary of a conversation.
    fn refresh(&self, id: ConversationId) -> StoreResult<Summary> {
        let tail = self.tail(id)?.ok_or(StoreError::NotFound(id))?;
        let tally = scan::tally(self, id, self.inner.digester)?;
        if self.read_only().is_none() {
            self.link()?.run("writing the summary", |client| {
                let tally = &tally;
                async move { summaries::put(&client, id, tail, tally).await }
            })?;
        }
        Ok(tally.into_summary())
    }

    /// Recomputes the stale summaries.
    fn settle_summaries(&self) -> StoreResult<()> {
        if self.read_only().is_some() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        loop {
            let stale = self
                .link()?
                .run("reading what is stale", |client| async move { summaries::stale(&client).await })?;
            // A conversation to which another process appends at this moment stays stale until the next time.
            let stale: Vec<ConversationId> = stale.into_iter().filter(|id| seen.insert(*id)).collect();
            if stale.is_empty() {
                return Ok(());
            }
            for id in stale {
                match self.refresh(id) {
                    Err(StoreError::NotFound(_)) => {
                        self.link()?.run("noting what is fresh", |client| async move {
                            client
                                .execute("DELETE FROM rejoin.stale WHERE id = $1", &[&id.to_string()])
                                .await?;
                            Ok::<_, Trouble>(())
                        })?;
                    }
                    refreshed => drop(refreshed?),
                }
            }
        }
    }

    /// The content of entries, to find copies of it.
    fn contents(&self, id: ConversationId, entries: &[EntryId]) -> StoreResult<Vec<ErasedContent>> {
        let wanted: Vec<uuid::Uuid> = entries.iter().map(EntryId::as_uuid).collect();
        let rows = self.link()?.run("reading entries", |client| {
            let wanted = &wanted;
            async move {
                let query = "SELECT id, body FROM rejoin.entry WHERE conversation = $1 AND id = ANY($2)";
                Ok(client.query(query, &[&id.to_string(), wanted]).await?)
            }
        })?;
        let sought = rows.iter().map(|row| {
            let body = row.get::<_, Option<&[u8]>>(1).map(String::from_utf8_lossy).unwrap_or_default();
            ErasedContent {
                entry: EntryId::from_bytes(*row.get::<_, uuid::Uuid>(0).as_bytes()),
                body: Raw::new(body),
            }
        });
        Ok(sought.collect())
    }

    fn forget_copies(&self, id: ConversationId, holds: impl Fn(&[u8]) -> bool) -> StoreResult<()> {
        let Some(beside) = &self.inner.beside else { return Ok(()) };
        let forgotten = beside.asides.forget(&id.to_string(), holds);
        forgotten.map_err(StoreError::io("removing what was set aside"))
    }

    fn clean(&self) -> StoreResult<()> {
        self.link()?
            .run("freeing what was removed (VACUUM)", |client| async move { erase::clean(&client).await })
    }
}

impl Store for Postgres {
    fn location(&self) -> &Location {
        &self.inner.location
    }

    fn digester(&self) -> Digester {
        self.inner.digester
    }

    fn read_only(&self) -> Option<&str> {
        self.inner.opened.get()?.read_only.as_deref()
    }

    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>> {
        self.link()?.run("reading the newest entry", |client| async move {
            append::tail(&client, conversation).await
        })
    }

    fn wait(&self, id: ConversationId, after: Option<Tail>, most: Duration) -> StoreResult<Option<Tail>> {
        let link = self.link()?;
        self.inner.notices.wait(link, (id, after), most, || self.tail(id))
    }

    fn append(&self, id: ConversationId, after: Option<Tail>, entries: &[Entry]) -> StoreResult<Tail> {
        scan::check_batch(after, entries)?;
        self.writable()?;
        if let Some(last) = entries.last()
            && self.append_after(id, after, entries)?
        {
            return Ok(Tail::of(last));
        }
        // Either another writer appended first, or an earlier attempt already stored these entries. The stored entries show
        // which.
        for _ in 0..TRIES {
            let (found, later) = self.link()?.run("reading the newest entries", |client| async move {
                let found = append::tail(&client, id).await?;
                Ok((found, append::stored_after(&client, id, after, entries.len()).await?))
            })?;
            let moved = || StoreError::TailMoved { expected: after, found };
            let later = later.filter(|_| found.is_some() || after.is_none()).ok_or_else(moved)?;
            let fresh = &entries[scan::already(&later, entries).ok_or_else(moved)?..];
            let Some(last) = fresh.last() else {
                return found.ok_or(StoreError::BrokenBatch("there is nothing to append"));
            };
            if self.append_after(id, found, fresh)? {
                return Ok(Tail::of(last));
            }
        }
        Err(StoreError::TailMoved { expected: after, found: self.tail(id)? })
    }

    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()> {
        reading::read(self.link()?, conversation, from, each)
    }

    fn read_part(&self, id: ConversationId, part: Selection<'_>, each: OnItem<'_>) -> StoreResult<PartRead> {
        if reading::read_at(self.link()?, id, part.earlier, each)?.is_continue() {
            self.read(id, part.from, each)?;
        }
        Ok(PartRead::Done)
    }

    fn single_reads(&self) -> usize {
        usize::MAX
    }

    fn checkpoint(&self, conversation: ConversationId, each: OnPiece<'_>) {
        if let Err(why) = self.link().and_then(|link| reading::checkpoint(link, conversation, each)) {
            tracing::debug!("the checkpoint cannot be read: {why}");
        }
    }

    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        if let Err(why) = self.link().and_then(|link| reading::keep_checkpoint(link, conversation, pieces)) {
            tracing::debug!("the checkpoint is not kept: {why}");
        }
    }

    fn list(&self, query: &Query) -> StoreResult<Page> {
        self.settle_summaries()?;
        let version = self.opened()?.version;
        self.link()?.run("listing conversations", |client| async move {
            summaries::list(&client, version, query).await
        })
    }

    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary> {
        let version = self.opened()?.version;
        let (tail, stored) = self.link()?.run("reading the summary", |client| async move {
            let tail = append::tail(&client, conversation).await?;
            Ok((tail, summaries::get(&client, version, conversation).await?))
        })?;
        let tail = tail.ok_or(StoreError::NotFound(conversation))?;
        match stored {
            Some((summary, _)) if summary.tail == Some(tail) => Ok(summary),
            _ => self.refresh(conversation),
        }
    }

    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>> {
        reading::ids(self.link()?, prefix, limit)
    }

    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>> {
        self.opened()?;
        if words::is_enabled(&self.inner)? {
            return words::search(self, search);
        }
        let ids = match search.within {
            Some(within) => vec![within],
            None if search.scope.is_open() => self.ids("", usize::MAX)?,
            None => {
                let query = Query { scope: search.scope.clone(), ..Query::default() };
                self.list(&query)?.conversations.iter().map(|summary| summary.id).collect()
            }
        };
        scan::search(self, &ids, self.inner.digester, search)
    }

    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock> {
        self.writable()?;
        Ok(lease::take(&self.inner, conversation, holder)?.into())
    }

    fn erase_all(&self, id: ConversationId, after: Tail, erasures: &[Erasure]) -> StoreResult<Tail> {
        let notes: Vec<Entry> = erasures.iter().map(|(_, note)| note.clone()).collect();
        scan::check_batch(Some(after), &notes)?;
        self.writable()?;
        guard(&self.inner.tallies).remove(&id);
        let entries: Vec<EntryId> = erasures.iter().map(|(entry, _)| *entry).collect();
        let sought = self.contents(id, &entries)?;
        self.link()?.run("erasing", |client| async move { erase::check_rights(&client).await })?;
        let tail = self.link()?.run("erasing", |mut client| async move {
            erase::erase(&mut client, id, after, erasures).await
        })?;
        self.inner.notices.tell(self.link()?, id);
        guard(&self.inner.unreported).add(id);
        self.follower.follow();
        // Copies of the entries may have been set aside when they were found damaged, or may be waiting to be saved.
        self.forget_copies(id, ErasedContent::any(&sought))?;
        if let Some(beside) = &self.inner.beside {
            beside.spool.erase(id, &entries)?;
        }
        self.clean()?;
        Ok(tail)
    }

    fn delete(&self, conversation: ConversationId) -> StoreResult<()> {
        self.writable()?;
        guard(&self.inner.tallies).remove(&conversation);
        self.link()?.run("deleting", |client| async move { erase::check_rights(&client).await })?;
        self.link()?
            .run("deleting", |mut client| async move { delete::delete(&mut client, conversation).await })?;
        self.inner.notices.tell(self.link()?, conversation);
        self.forget_copies(conversation, |_| true)?;
        if let Some(beside) = &self.inner.beside {
            beside.drafts.remove(conversation)?;
            beside.spool.remove(conversation)?;
        }
        self.clean()
    }

    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        self.tail(conversation)?.ok_or(StoreError::NotFound(conversation))?;
        let Some(beside) = &self.inner.beside else { return Ok(Vec::new()) };
        let owner = conversation.to_string();
        let unreadable = StoreError::io("reading what was set aside");
        let Some(entries) = entries else {
            let mut files: Vec<PathBuf> = beside.drafts.file_of(conversation).into_iter().collect();
            files.extend(beside.spool.files_of(conversation));
            files.extend(beside.asides.holding(&owner, |_| true).map_err(unreadable)?);
            return Ok(files);
        };
        let sought = self.contents(conversation, entries)?;
        beside.asides.holding(&owner, ErasedContent::any(&sought)).map_err(unreadable)
    }

    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        if !damage.torn {
            let noted = self.link()?.run("noting damage", |client| async move {
                let note = "UPDATE rejoin.summary SET damaged = true WHERE id = $1";
                client.execute(note, &[&conversation.to_string()]).await?;
                Ok(())
            });
            if let Err(why) = noted {
                tracing::debug!("{why}");
            }
        }
        let Some(beside) = &self.inner.beside else { return Ok(None) };
        beside.asides.keep(&conversation.to_string(), &damage.bytes)
    }

    fn drafts(&self) -> Option<&Drafts> {
        self.inner.beside.as_ref().map(|beside| &beside.drafts)
    }

    fn spool(&self) -> Option<&Spool> {
        self.inner.beside.as_ref().map(|beside| &beside.spool)
    }

    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified> {
        let ids = conversation.map_or_else(|| self.ids("", usize::MAX), |id| Ok(vec![id]))?;
        let mut all = Verified::default();
        for id in ids {
            match scan::verify_one(self, id, each) {
                // It was deleted a moment ago.
                Err(StoreError::NotFound(_)) if conversation.is_none() => {}
                verified => all.add(verified?),
            }
        }
        Ok(all)
    }

    fn report(&self) -> StoreResult<()> {
        self.settle_summaries()?;
        if self.read_only().is_some() { Ok(()) } else { reports::catch_up(&self.inner, &UpdateTargets::All) }
    }

    fn report_key(&self) -> StoreResult<Option<[u8; 32]>> {
        if self.opened()?.version < schema::REPORTS {
            return Ok(None);
        }
        let found = self.link()?.run("reading the settings of reports", |client| async move {
            reports::settings(&client).await
        })?;
        Ok(Some(found.0))
    }

    fn size(&self) -> StoreResult<Size> {
        self.link()?.run("measuring the database", |client| async move {
            // The size of a partitioned table is that of its parts.
            let query = "SELECT (pg_total_relation_size('rejoin.entry') + pg_total_relation_size('rejoin.conversation') + \
                         coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('rejoin.entry') WHERE isleaf), 0))::bigint, \
                         pg_total_relation_size('rejoin.summary') + pg_total_relation_size('rejoin.checkpoint') + \
                         coalesce(pg_total_relation_size(to_regclass('rejoin.words')), 0)";
            let row = client.query_one(query, &[]).await?;
            Ok(Size { record: row.get::<_, i64>(0).unsigned_abs(), index: row.get::<_, i64>(1).unsigned_abs() })
        })
    }

    fn schema(&self) -> Option<i64> {
        Some(self.opened().ok()?.version)
    }

    fn options(&self) -> StoreResult<Vec<StoreOption>> {
        if self.opened()?.version != schema::KNOWN {
            return Ok(Vec::new());
        }
        self.link()?.run("reading the options", |client| async move { options::all(&client).await })
    }

    fn enable(&self, option: &str) -> StoreResult<EnableOutcome> {
        self.writable()?;
        let link = self.link()?;
        let enabled = link.run("enabling the option", |mut client| async move {
            options::enable(&mut client, option).await
        })?;
        // If a process was killed before it had written all words, this writes the rest.
        self.settle()?;
        if enabled == EnableOutcome::Enabled {
            link.run("gathering statistics (ANALYZE)", |client| async move {
                let table = if option == options::SEARCH { "words" } else { "entry" };
                Ok(client.batch_execute(&format!("VACUUM (ANALYZE) rejoin.{table}")).await?)
            })?;
        }
        Ok(enabled)
    }

    fn settle(&self) -> StoreResult<()> {
        if self.read_only().is_some() {
            return Ok(());
        }
        self.settle_summaries()?;
        if words::is_enabled(&self.inner)? {
            words::catch_up(&self.inner, &UpdateTargets::All)
        } else {
            Ok(())
        }
    }

    fn rebuild(&self) -> StoreResult<()> {
        self.writable()?;
        guard(&self.inner.tallies).clear();
        self.link()?.run("forgetting the summaries", |client| async move {
            let statement = "WITH gone AS (DELETE FROM rejoin.summary) \
                             INSERT INTO rejoin.stale (id) SELECT id FROM rejoin.conversation ON CONFLICT (id) DO NOTHING";
            client.execute(statement, &[]).await?;
            Ok(())
        })?;
        self.settle()
    }
}
