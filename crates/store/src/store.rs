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

/// How often [`Store::wait`] checks for new entries if the store gets no notifications.
pub(crate) const POLL: Duration = Duration::from_millis(250);

/// A store of conversations.
///
/// Every method may be called from any thread. Reading works while other processes write. Damage does not make reading fail: it is
/// returned as a [`StoredItem`].
///
/// A method fails if the store cannot be read or written. `read`, `summary`, `erase_all`, `delete`, `files_that_go` and `verify` fail
/// with [`StoreError::NotFound`] if the conversation does not exist.
pub trait Store: Send + Sync + fmt::Debug {
    /// The location of the store.
    fn location(&self) -> &Location;

    /// The function that derives the facts about entries.
    fn digester(&self) -> Digester;

    /// The scope that this handle is limited to. It is open, except for a [`Scoped`] handle.
    fn scope(&self) -> &ScopeFilter {
        &ScopeFilter::OPEN
    }

    /// Why the store cannot be written; `None` if it can.
    fn read_only(&self) -> Option<&str> {
        None
    }

    /// Damage to the store as a whole that was found since it was opened.
    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// The newest entry of a conversation; `None` if there is no such conversation.
    fn tail(&self, conversation: ConversationId) -> StoreResult<Option<Tail>>;

    /// Waits until the newest entry of a conversation is no longer `after`, for example because another process has appended, and
    /// returns it. After `most`, returns the current one in any case. A conversation that does not exist has no newest entry.
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

    /// Appends entries after the tail that the caller knows. Without a tail the conversation is new, and the first entry is its
    /// header. When this returns, all entries are durable. Entries that are already in place are not appended again, so a caller
    /// may repeat an append whose outcome is unknown.
    ///
    /// # Errors
    /// [`StoreError::TailMoved`] if another writer appended in between. After any other error, none of the entries counts as
    /// stored.
    fn append(
        &self,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> StoreResult<Tail>;

    /// Reads a conversation from a `seq` on, oldest entry first, until its end or until `each` breaks.
    fn read(&self, conversation: ConversationId, from: u64, each: OnItem<'_>) -> StoreResult<()>;

    /// Reads a part of a conversation. Damage that concerns only other entries goes unnoticed.
    fn read_part(&self, id: ConversationId, part: Selection<'_>, each: OnItem<'_>) -> StoreResult<PartRead> {
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

    /// How many single entries [`read_part`](Self::read_part) finds quickly; 0 if the store keeps no checkpoints.
    fn single_reads(&self) -> usize {
        0
    }

    /// Passes the pieces that were last kept with [`keep_checkpoint`](Self::keep_checkpoint) to `each`, if there are any.
    fn checkpoint(&self, conversation: ConversationId, each: OnPiece<'_>) {
        let _ = (conversation, each);
    }

    /// Keeps a text, in pieces, with which the caller can open a conversation faster. It is only a cache: the store does not look
    /// into it, and may lose it at any time. An erasure removes it.
    fn keep_checkpoint(&self, conversation: ConversationId, pieces: &[String]) {
        let _ = (conversation, pieces);
    }

    /// Conversations, newest first. No content is loaded.
    fn list(&self, query: &Query) -> StoreResult<Page>;

    /// The summary of one conversation, as lists show it. No content is loaded.
    fn summary(&self, conversation: ConversationId) -> StoreResult<Summary>;

    /// The ids that begin with a prefix, in order, at most `limit` of them.
    fn ids(&self, prefix: &str, limit: usize) -> StoreResult<Vec<ConversationId>>;

    /// The entries that contain the words of a search, best first.
    fn search(&self, search: &Search) -> StoreResult<Vec<Hit>>;

    /// Makes this process the only writer of a conversation until the lock is dropped.
    ///
    /// # Errors
    /// [`StoreError::Locked`], with the holder, if another process holds the lock.
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

    /// Removes the salt and body of entries permanently, and appends the `erased` entry of each, in one step. When this returns, no
    /// file of the store contains their content, unless another conversation has the same content.
    ///
    /// # Errors
    /// As `append`; [`StoreError::NoSuchEntry`] if the conversation lacks one of the entries. It is also an error if the content
    /// was removed from the conversation but not yet from every file, because another process keeps a file open.
    fn erase_all(&self, conversation: ConversationId, after: Tail, erasures: &[Erasure])
    -> StoreResult<Tail>;

    /// Removes a conversation from every file of the store. Other conversations keep the entries that they share with it.
    fn delete(&self, conversation: ConversationId) -> StoreResult<()>;

    /// Removes several conversations. A store that must rewrite its files does so only once.
    fn delete_all(&self, conversations: &[ConversationId]) -> StoreResult<()> {
        conversations.iter().try_for_each(|conversation| self.delete(*conversation))
    }

    /// Copies damaged bytes to a file next to the store, and returns its path; `None` if there are no bytes. Such a file is never
    /// overwritten, and equal bytes share one file.
    fn set_aside(&self, conversation: ConversationId, damage: &Damage) -> StoreResult<Option<PathBuf>> {
        let _ = (conversation, damage);
        Ok(None)
    }

    /// The files that erasing entries of a conversation removes, or that deleting it removes if no entries are given: drafts and
    /// copies of damage. Nothing is changed.
    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> StoreResult<Vec<PathBuf>> {
        let _ = (conversation, entries);
        Ok(Vec::new())
    }

    /// Sets a function that is called from time to time while [`erase_all`](Self::erase_all) or [`delete`](Self::delete) runs.
    fn on_progress(&self, hook: ProgressHook) {
        let _ = hook;
    }

    /// The drafts of unfinished answers; `None` if the store keeps nothing on disk.
    fn drafts(&self) -> Option<&Drafts> {
        None
    }

    /// The files for entries that the store could not accept; `None` if its conversations are on this machine anyway.
    fn spool(&self) -> Option<&Spool> {
        None
    }

    /// Verifies the hashes of one conversation, or of all of them and everything else in the store, and passes each problem to
    /// `each`.
    fn verify(&self, conversation: Option<ConversationId>, each: EachProblem<'_>) -> StoreResult<Verified>;

    /// Writes the rows for reports about all entries so far, if the store keeps such rows.
    fn report(&self) -> StoreResult<()> {
        Ok(())
    }

    /// The key for the hashes in the rows for reports; `None` if the store keeps no rows.
    fn report_key(&self) -> StoreResult<Option<[u8; 32]>> {
        Ok(None)
    }

    /// The size of the store on disk.
    fn size(&self) -> StoreResult<Size>;

    /// The version of its schema; `None` if it has none or it cannot be read.
    fn schema(&self) -> Option<i64> {
        None
    }

    /// The features that can be added to this store for good; empty if there are none.
    fn options(&self) -> StoreResult<Vec<StoreOption>> {
        Ok(Vec::new())
    }

    /// Enables one of the [`options`](Self::options). It cannot be disabled again.
    ///
    /// # Errors
    /// [`StoreError::NoSuchOption`] if the store has no option with this name.
    fn enable(&self, option: &str) -> StoreResult<EnableOutcome> {
        Err(StoreError::NoSuchOption(option.to_owned()))
    }

    /// Brings the index up to date.
    fn settle(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Deletes the index and builds a new one from the entries.
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
    /// Every readable entry of a conversation, in the order of appending.
    pub fn entries(&self, conversation: ConversationId) -> StoreResult<Vec<Entry>> {
        let mut entries = Vec::new();
        self.each_entry(conversation, |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// Passes every readable entry of a conversation to `each`, in the order of appending.
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
pub struct Selection<'p> {
    /// The `seq`s of single entries, in ascending order.
    pub earlier: &'p [u64],
    /// The `seq` from which on all entries belong to the part.
    pub from: u64,
}

/// The result of reading part of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartRead {
    /// It was read to its end, or until the caller stopped.
    Done,
    /// It cannot be read alone. Some of its entries may already have been returned.
    Impossible,
}

/// The progress of an erasure or a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes written so far.
    pub done: u64,
    /// Bytes to write in all.
    pub total: u64,
}

/// A function that receives the progress.
pub type ProgressHook = Arc<dyn Fn(Progress) + Send + Sync>;

/// A function that receives items that are read. Breaking stops the reading.
pub type OnItem<'e> = &'e mut dyn FnMut(StoredItem) -> ControlFlow<()>;

/// A function that receives the pieces of a checkpoint. Breaking stops the reading.
pub type OnPiece<'e> = &'e mut dyn FnMut(String) -> ControlFlow<()>;

/// A function that receives the problems that verification finds.
pub type EachProblem<'e> = &'e mut dyn FnMut(Problem);

/// An entry to erase, and the `erased` entry that records it.
pub type Erasure = (EntryId, Entry);

/// An item that was read from a store.
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

/// Something in a store that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The place in the store.
    pub place: StoragePlace,
    /// The reason, for people.
    pub why: String,
    /// The bytes at that place that can be read. [`Store::set_aside`] copies them before anything is written there.
    pub bytes: Vec<u8>,
    /// Whether it is the remainder of an append that a crash cut off and that was never acknowledged. In that case, nothing was
    /// lost.
    pub torn: bool,
}

/// Which conversations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The most conversations to return; `None` for all.
    pub limit: Option<usize>,
    /// Only conversations after this place in the list.
    pub after: Option<Cursor>,
    /// Only conversations of these scopes.
    pub scope: ScopeFilter,
}

/// A position in the list of conversations: after this conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The time of the conversation's newest activity.
    pub updated: Timestamp,
    /// The conversation's id.
    pub id: ConversationId,
}

/// One page of the list of conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The conversations, newest first.
    pub conversations: Vec<Summary>,
    /// The number of conversations of the requested scopes, on all pages.
    pub total: u64,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Words, all of which must occur. `"…"` searches for a phrase, a trailing `*` for a prefix. Words beyond
    /// [`QUERY_WORDS`](rejoin_record::limits::QUERY_WORDS) are ignored: see [`Search::is_too_long`].
    pub words: String,
    /// The most hits to return.
    pub limit: usize,
    /// The conversation to search in; `None` for all.
    pub within: Option<ConversationId>,
    /// Only conversations of these scopes.
    pub scope: ScopeFilter,
}

impl Search {
    /// Whether there are more words than a search uses. In scripts that write no spaces, every character is a word.
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
    /// The author's role, or the kind of the text.
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

/// A problem that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The conversation that it concerns; `None` for the store as a whole.
    pub conversation: Option<ConversationId>,
    /// The place of the problem.
    pub place: StoragePlace,
    /// What is wrong.
    pub what: String,
    /// Whether it is only the remainder of an append that was never acknowledged.
    pub torn: bool,
}

impl Verified {
    /// Adds the counts of another verification.
    pub(crate) fn add(&mut self, more: Self) {
        self.conversations += more.conversations;
        self.entries += more.entries;
    }
}

impl Problem {
    /// A problem with acknowledged data, not the remainder of an append.
    pub(crate) fn of(
        conversation: Option<ConversationId>,
        place: StoragePlace,
        what: impl Into<String>,
    ) -> Self {
        Self { conversation, place, what: what.into(), torn: false }
    }
}

impl Damage {
    /// Damage to acknowledged data, not the remainder of an append, with its bytes.
    pub(crate) fn at(place: StoragePlace, why: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { place, why: why.into(), bytes, torn: false }
    }
}

/// The extent of a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of conversations.
    pub conversations: u64,
    /// The number of entries.
    pub entries: u64,
}

/// A feature that can be added to a store, at a cost that not every operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOption {
    /// The name that [`Store::enable`] takes.
    pub name: &'static str,
    /// Its effect, in a few words for people.
    pub about: &'static str,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// The outcome of [`Store::enable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnableOutcome {
    /// This call enabled the option.
    Enabled,
    /// The option was already enabled, and nothing was changed.
    AlreadyEnabled,
}

/// The size of a store on disk, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The record.
    pub record: u64,
    /// The index, which can be rebuilt from the record.
    pub index: u64,
}
