//! The trait that every store implements, and the types it takes and returns.

use std::{
    fmt,
    ops::ControlFlow,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use crate::{
    digest::Digester,
    drafts::Drafts,
    error::{StoreError, StoreResult},
    location::Location,
    lock::{Holder, Lock},
    scan,
    scope::ScopeFilter,
    scoped::Scoped,
    spool::Spool,
    summary::Summary,
};

/// How often [`Store::wait`] looks where nothing tells it of new entries.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// A store of conversations.
///
/// Every method may be called from any thread. Reading works while other processes write. Damage does not make reading fail: it is
/// handed out as an [`StoredItem`].
///
/// A method fails if the store cannot be read or written. `read`, `summary`, `erase_all`, `delete`, `files_that_go` and `verify` fail
/// with [`StoreError::NotFound`] if the conversation does not exist.
pub trait Store: Send + Sync + fmt::Debug {
    /// Where the store is.
    fn location(&self) -> &Location;

    /// The function that says what an entry is about.
    fn digester(&self) -> Digester;

    /// The scope that this handle is limited to; open, unless it is a [`Scoped`] one.
    fn scope(&self) -> &ScopeFilter {
        &ScopeFilter::OPEN
    }

    /// Why the store cannot be written; none if it can be.
    fn read_only(&self) -> Option<&str> {
        None
    }

    /// Damage to the store as a whole that was found since it was opened.
    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// The newest entry of a conversation; none if there is no such conversation.
    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>>;

    /// Waits until the newest entry of a conversation is another one than `after`, for instance because another process has appended,
    /// and returns it. Returns what there is after `most` in any case. While there is no such conversation, it has no newest entry.
    fn wait(&self, id: ConversationId, after: Option<Tail>, most: Duration) -> StoreResult<Option<Tail>> {
        let begun = Instant::now();
        loop {
            let found = self.tail(id)?;
            let left = most.saturating_sub(begun.elapsed());
            if found != after || left.is_zero() {
                return Ok(found);
            }
            thread::sleep(left.min(POLL));
        }
    }

    /// Appends entries after the tail that the caller knows; without one the conversation is new, and the first entry is its header.
    /// When it returns, all of them are durable. Entries that are already in their places are not appended again, so a caller may
    /// repeat an append whose outcome it does not know.
    ///
    /// # Errors
    /// [`StoreError::TailMoved`] if another writer appended in between. After any other error, none of the entries counts as stored.
    fn append(
        &self,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> StoreResult<Tail>;

    /// Reads a conversation from a `seq` on, oldest entry first, until its end or until `each` breaks.
    fn read(&self, conversation: ConversationId, from: u64, each: Each<'_>) -> StoreResult<()>;

    /// Reads a part of a conversation. Damage that only concerns other entries is not noticed.
    fn read_part(&self, id: ConversationId, part: Selected<'_>, each: Each<'_>) -> StoreResult<PartRead> {
        let mut flow = ControlFlow::Continue(());
        let mut wanted = part.earlier.iter().copied().peekable();
        self.read(id, 0, &mut |item| {
            let skips = matches!(&item, StoredItem::Entry(entry)
                if entry.envelope().seq < part.from && wanted.next_if_eq(&entry.envelope().seq).is_none());
            if !skips {
                flow = each(item);
            }
            flow
        })?;
        Ok(PartRead::Done)
    }

    /// The number of single entries that [`read_part`](Self::read_part) finds quickly; 0 if the store keeps no checkpoints.
    fn single_reads(&self) -> usize {
        0
    }

    /// Hands out the pieces that were last kept with [`keep_checkpoint`](Self::keep_checkpoint), if there are any.
    fn checkpoint(&self, conversation: ConversationId, each: EachPiece<'_>) {
        let _ = (conversation, each);
    }

    /// Keeps a text, in pieces, with which the caller can open a conversation faster. It is only a cache: the store does not look into it,
    /// and may lose it at any time. An erasure removes it.
    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        let _ = (conversation, pieces);
    }

    /// Conversations, newest first. No content is loaded.
    fn list(&self, query: &Query) -> StoreResult<Page>;

    /// What a list shows of one conversation. No content is loaded.
    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary>;

    /// The ids that begin with a prefix, in order, at most `limit` of them.
    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>>;

    /// The entries that contain the words of a search, best first.
    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>>;

    /// Makes this process the only writer of a conversation until the lock is dropped.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the holder's name, if there is one.
    fn lock(&self, conversation: ConversationId, holder: &Holder) -> StoreResult<Lock>;

    /// Removes the salt and body of an entry permanently, and appends `note` (an `erased` entry) in the same step.
    fn erase(
        &self,
        conversation: ConversationId,
        after: Tail,
        entry: EntryId,
        note: &Entry,
    ) -> StoreResult<Tail> {
        self.erase_all(conversation, after, &[(entry, note.clone())])
    }

    /// Removes the salt and body of entries permanently, and appends the `erased` entry of each, in one step. When it returns, no
    /// file of the store holds their content, unless another conversation has the same.
    ///
    /// # Errors
    /// As `append`; [`StoreError::NoSuchEntry`] if the conversation lacks one of the entries. It is also an error if the content
    /// is gone from the conversation but not yet from every file, because another process keeps one open.
    fn erase_all(&self, conversation: ConversationId, after: Tail, erasures: &[Erasure])
    -> StoreResult<Tail>;

    /// Removes a conversation from every file of the store. Other conversations keep what they share with it.
    fn delete(&self, conversation: ConversationId) -> StoreResult<()>;

    /// Removes several conversations. A store that rewrites its files for that does it once.
    fn delete_all(&self, conversations: &[ConversationId]) -> StoreResult<()> {
        conversations.iter().try_for_each(|conversation| self.delete(*conversation))
    }

    /// Copies damaged bytes to a file beside the store, and returns its path; none if there are no bytes to copy. Such a file is
    /// never overwritten: the same bytes twice are one file.
    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        let _ = (conversation, damage);
        Ok(None)
    }

    /// The files that are removed when entries of a conversation are erased, or the whole conversation if none are named: drafts
    /// and copies of damage. Nothing is changed.
    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        let _ = (conversation, entries);
        Ok(Vec::new())
    }

    /// Sets a function that is called now and then while [`erase_all`](Self::erase_all) or [`delete`](Self::delete) runs.
    fn on_progress(&self, hook: ProgressHook) {
        let _ = hook;
    }

    /// The drafts of unfinished answers; none if the store keeps nothing on disk.
    fn drafts(&self) -> Option<&Drafts> {
        None
    }

    /// Where entries go that the store could not take; none if its conversations are on this machine anyway.
    fn spool(&self) -> Option<&Spool> {
        None
    }

    /// Re-hashes one conversation, or all of them and everything else in the store, and hands out each problem.
    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified>;

    /// Makes the rows for reports, if the store keeps any, of what was appended so far.
    fn report(&self) -> StoreResult<()> {
        Ok(())
    }

    /// The key of the hashes in the rows for reports; none if the store keeps no rows.
    fn report_key(&self) -> StoreResult<Option<[u8; 32]>> {
        Ok(None)
    }

    /// How many bytes it takes on disk.
    fn size(&self) -> StoreResult<Size>;

    /// The version of its schema, if it has one that can be read.
    fn schema(&self) -> Option<i64> {
        None
    }

    /// What can be added to this store for good; empty if there is nothing to choose.
    fn options(&self) -> StoreResult<Vec<StoreOption>> {
        Ok(Vec::new())
    }

    /// Enables one of the [`options`](Self::options). It cannot be disabled again.
    ///
    /// # Errors
    /// [`StoreError::NoSuchOption`] if the store has no option of that name.
    fn enable(&self, option: &str) -> StoreResult<Enabled> {
        Err(StoreError::NoSuchOption(option.to_owned()))
    }

    /// Brings the index up to date.
    fn settle(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Deletes the index and makes a new one from the entries.
    fn rebuild(&self) -> StoreResult<()> {
        Ok(())
    }
}

impl dyn Store {
    /// A handle that sees only the conversations that a filter admits, and cannot read or write any others.
    pub fn scoped(self: Arc<Self>, scope: ScopeFilter) -> Scoped {
        Scoped::new(self, scope)
    }
}

impl dyn Store + '_ {
    /// Every entry of a conversation that can be read, in the order of appending.
    pub fn entries(&self, conversation: ConversationId) -> StoreResult<Vec<Entry>> {
        let mut entries = Vec::new();
        self.each_entry(conversation, |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// Hands out every entry of a conversation that can be read, in the order of appending.
    pub fn each_entry(&self, conversation: ConversationId, mut each: impl FnMut(Entry)) -> StoreResult<()> {
        self.read(conversation, 0, &mut |item| {
            if let StoredItem::Entry(entry) = item {
                each(entry);
            }
            ControlFlow::Continue(())
        })
    }
}

/// A part of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'p> {
    /// The `seq`s of single entries, in rising order.
    pub earlier: &'p [u64],
    /// The `seq` from which on all entries belong to it.
    pub from: u64,
}

/// The result of reading part of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartRead {
    /// It was read, until its end or until the caller stopped.
    Done,
    /// It cannot be read alone. Some of it may have been handed out.
    Impossible,
}

/// How far an erasure or a deletion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written so far.
    pub done: u64,
    /// Bytes to write in all.
    pub total: u64,
}

/// A function that is called with the progress.
pub type ProgressHook = Arc<dyn Fn(Progress) + Send + Sync>;

/// A function that takes what is read. Breaking stops the reading.
pub type Each<'e> = &'e mut dyn FnMut(StoredItem) -> ControlFlow<()>;

/// A function that takes the pieces of a checkpoint. Breaking stops the reading.
pub type EachPiece<'e> = &'e mut dyn FnMut(String) -> ControlFlow<()>;

/// A function that takes what verification finds.
pub type EachProblem<'e> = &'e mut dyn FnMut(Problem);

/// An entry whose content is erased, and the `erased` entry that says so.
pub type Erasure = (EntryId, Entry);

/// Something that was read from a store.
#[derive(Debug, Clone)]
pub enum StoredItem {
    /// An entry whose body and hash agree.
    Entry(Entry),
    /// Bytes that are not an entry, or not the one that was stored.
    Damage(Damage),
}

/// A place in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoragePlace {
    /// A line of a file, from 1.
    Line(u64),
    /// A row of a database, by the entry's `seq`.
    Row(u64),
    /// The store as a whole.
    Store,
}

impl fmt::Display for StoragePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
            Self::Store => f.write_str("the store"),
        }
    }
}

/// Something in a store that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The place in the store.
    pub place: StoragePlace,
    /// The reason, for people.
    pub why: String,
    /// The bytes at that place, as far as they can be read. [`Store::set_aside`] copies them before
    /// anything is written there.
    pub bytes: Vec<u8>,
    /// Whether it is the remainder of an append that a crash cut off and that was never acknowledged. Then nothing is lost.
    pub torn: bool,
}

/// Which conversations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The most conversations to return; none for all of them.
    pub limit: Option<usize>,
    /// Only conversations after this place in the list.
    pub after: Option<Cursor>,
    /// Only conversations of these scopes.
    pub scope: ScopeFilter,
}

/// A place in the list of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The time of its newest activity.
    pub updated: Timestamp,
    /// Its id.
    pub id: ConversationId,
}

/// One page of the list of conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The conversations, newest first.
    pub conversations: Vec<Summary>,
    /// The number of conversations of the scopes that were asked for, on all pages.
    pub total: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// What to search for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Words, all of which must occur. `"…"` searches for a phrase, a trailing `*` for a prefix. Words beyond
    /// [`QUERY_WORDS`](rejoin_record::limits::QUERY_WORDS) are not searched for: see [`Search::is_too_long`].
    pub words: String,
    /// The most hits to return.
    pub limit: usize,
    /// The conversation to search in; none for all of them.
    pub within: Option<ConversationId>,
    /// Only conversations of these scopes.
    pub scope: ScopeFilter,
}

impl Search {
    /// Whether there are more words than a search takes. In scripts without spaces every character is a word.
    pub fn is_too_long(&self) -> bool {
        scan::all_parts(&self.words).iter().map(|(words, _)| words.len()).sum::<usize>()
            > rejoin_record::limits::QUERY_WORDS
    }
}

/// An entry that contains the words of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its title.
    pub title: Option<String>,
    /// The entry.
    pub entry: EntryId,
    /// Its place in the order of appending.
    pub seq: u64,
    /// The time of the entry.
    pub time: Timestamp,
    /// The role of the speaker, or the kind of the text.
    pub role: String,
    /// The text around the first hit.
    pub excerpt: Excerpt,
    /// The rank; lower is better.
    pub score: f64,
}

/// A part of a text, with the hits marked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The pieces of the text in order, and whether each is a hit.
    pub pieces: Vec<(String, bool)>,
}

/// Something that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The conversation, if it is about one.
    pub conversation: Option<ConversationId>,
    /// Where it was found.
    pub place: StoragePlace,
    /// What is wrong.
    pub what: String,
    /// Whether it is only the remainder of an append that was never acknowledged.
    pub torn: bool,
}

impl Verified {
    /// Adds what else was verified.
    pub(crate) fn add(&mut self, more: Self) {
        self.conversations += more.conversations;
        self.entries += more.entries;
    }
}

impl Problem {
    /// A problem that is more than the remainder of an append.
    pub(crate) fn of(
        conversation: Option<ConversationId>,
        place: StoragePlace,
        what: impl Into<String>,
    ) -> Self {
        Self { conversation, place, what: what.into(), torn: false }
    }
}

impl Damage {
    /// Damage that is more than the remainder of an append, with the bytes of it.
    pub(crate) fn at(place: StoragePlace, why: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { place, why: why.into(), bytes, torn: false }
    }
}

/// How much was verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of conversations.
    pub conversations: u64,
    /// The number of entries.
    pub entries: u64,
}

/// Something that can be added to a store, at a cost that not everybody wants to pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOption {
    /// The name that [`Store::enable`] takes.
    pub name: &'static str,
    /// What it does, in a few words for people.
    pub about: &'static str,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// The outcome of [`Store::enable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// The option was enabled by this call.
    Now,
    /// The option was enabled before, and nothing was changed.
    Before,
}

/// The size of a store on disk, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The record.
    pub record: u64,
    /// The index, which can be rebuilt from the record.
    pub index: u64,
}
