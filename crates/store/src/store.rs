//! The trait that every home of conversations implements, and what goes in and out of it.

use std::{fmt, ops::ControlFlow, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use rejoin_record::{ConversationId, Entry, EntryId, Tail};

use crate::{
    drafts::Drafts,
    error::StoreError,
    location::Location,
    lock::{Holder, Lock},
    scan,
    summary::Summary,
};

/// A home for conversations.
///
/// Every method may be called from any thread. Reading goes on while others write, and never fails because something is
/// damaged: damage is handed out as an [`Item`] of its own.
pub trait Store: Send + Sync + fmt::Debug {
    /// Where it is.
    fn location(&self) -> &Location;

    /// Why it cannot be written, if it cannot.
    fn read_only(&self) -> Option<&str>;

    /// What was found to be damaged since it was opened, as far as it concerns the whole store.
    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// The newest entry of a conversation; none if there is no such conversation.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn tail(&self, conversation: ConversationId) -> Result<Option<Tail>, StoreError>;

    /// Appends entries after the tail that the caller knows (none: the conversation is new, and the first entry is its
    /// header). When it returns they are durable, all of them. Entries that are there already, at their places, are not
    /// appended again, so a caller may repeat what it does not know the outcome of.
    ///
    /// # Errors
    /// [`StoreError::TailMoved`] if somebody else appended in between; any other error means that none of the entries
    /// counts as stored.
    fn append(
        &self,
        conversation: ConversationId,
        after: Option<Tail>,
        entries: &[Entry],
    ) -> Result<Tail, StoreError>;

    /// Reads a conversation from a place in the order of appending, oldest first, until there is no more or `each` breaks.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or if the store cannot be read at all.
    fn read(&self, conversation: ConversationId, from: u64, each: Each<'_>) -> Result<(), StoreError>;

    /// Reads an entry (the head, if none is named) and its ancestors, newest first, until there is no more or `each` breaks.
    /// Other branches are left out. Damage is handed out before the entries; where an ancestor cannot be read, the path goes on
    /// with the readable entry that has the next lower `seq`. The whole conversation is read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::NoSuchEntry`], or if the store cannot be read at all.
    fn ancestors(
        &self,
        conversation: ConversationId,
        of: Option<EntryId>,
        each: Each<'_>,
    ) -> Result<(), StoreError> {
        scan::ancestors(of, each, |sink| self.read(conversation, 0, sink))
    }

    /// Conversations, newest first. No content is loaded.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn list(&self, query: &Query) -> Result<Page, StoreError>;

    /// What is known of a conversation without loading its content.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or if the store cannot be read.
    fn summary(&self, conversation: ConversationId) -> Result<Summary, StoreError>;

    /// The ids that begin with a prefix, in order; at most so many.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn ids(&self, prefix: &str, limit: usize) -> Result<Vec<ConversationId>, StoreError>;

    /// Entries that say something, best first.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn search(&self, search: &Search) -> Result<Vec<Hit>, StoreError>;

    /// Makes this process the one writer of a conversation until the lock is dropped.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the holder's name, if there is one.
    fn lock(&self, conversation: ConversationId, holder: &Holder) -> Result<Lock, StoreError>;

    /// Removes salt and body of an entry for good, and appends `note` (an `erased` entry) in the same step.
    ///
    /// # Errors
    /// As [`erase_all`](Self::erase_all).
    fn erase(
        &self,
        conversation: ConversationId,
        after: Tail,
        entry: EntryId,
        note: &Entry,
    ) -> Result<Tail, StoreError> {
        self.erase_all(conversation, after, &[(entry, note.clone())])
    }

    /// Removes salt and body of entries for good, each with the `erased` entry that says so, in one step. When it returns, no
    /// file of the store holds any of their content, unless another conversation has the same.
    ///
    /// # Errors
    /// As `append`; [`StoreError::NoSuchEntry`] if one of the entries is not there. If the content is gone from the
    /// conversation but not yet from every file, because another process keeps one open, that is an error as well.
    fn erase_all(
        &self,
        conversation: ConversationId,
        after: Tail,
        erasures: &[(EntryId, Entry)],
    ) -> Result<Tail, StoreError>;

    /// Removes a conversation, from every file of the store. Others keep what they share with it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or if the store cannot be written.
    fn delete(&self, conversation: ConversationId) -> Result<(), StoreError>;

    /// Keeps a copy of something damaged in a file beside the store, and says where. Such a file is never overwritten: the
    /// same thing twice is one file. Of what cannot be read at all there is none.
    ///
    /// # Errors
    /// If there is no room for it. What is damaged stays where it is as well.
    fn set_aside(&self, conversation: ConversationId, damage: &Damage)
    -> Result<Option<PathBuf>, StoreError>;

    /// The files beside the record that go when entries of a conversation are erased, or with all of it if none are named:
    /// drafts, and what was set aside. Entries that are not recorded have none. Nothing is changed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or if the store cannot be read.
    fn files_that_go(
        &self,
        conversation: ConversationId,
        entries: Option<&[EntryId]>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let _ = (conversation, entries);
        Ok(Vec::new())
    }

    /// Calls something now and then while [`erase_all`](Self::erase_all) or [`delete`](Self::delete) takes its time.
    fn on_progress(&self, hook: ProgressHook) {
        let _ = hook;
    }

    /// The drafts of answers that are not recorded yet; none if the store keeps nothing on disk.
    fn drafts(&self) -> Option<&Drafts> {
        None
    }

    /// Re-hashes one conversation, or all of them with whatever else the store keeps, and hands out each thing that does
    /// not add up.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], or if the store cannot be read at all.
    fn verify(
        &self,
        conversation: Option<ConversationId>,
        each: &mut dyn FnMut(Problem),
    ) -> Result<Verified, StoreError>;

    /// How much room it takes.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn size(&self) -> Result<Size, StoreError>;
    /// The version of its schema, where it has one and it can be read.
    fn schema(&self) -> Option<i64> {
        None
    }

    /// Brings whatever follows after an append, such as the search index, up to date.
    ///
    /// # Errors
    /// If the store cannot be written. No entry is lost by that.
    fn settle(&self) -> Result<(), StoreError>;

    /// Throws away what can be made anew from the entries, and makes it anew.
    ///
    /// # Errors
    /// If the store cannot be written. No entry is lost by that.
    fn rebuild(&self) -> Result<(), StoreError>;
}

/// How far something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// So many bytes are written.
    pub done: u64,
    /// So many there are.
    pub total: u64,
}

/// What is told how far something is.
pub type ProgressHook = Arc<dyn Fn(Progress) + Send + Sync>;

/// What reading hands out to; breaking stops it.
pub type Each<'e> = &'e mut dyn FnMut(Item) -> ControlFlow<()>;

/// Something that was read.
#[derive(Debug, Clone)]
pub enum Item {
    /// An entry, whose body and hash agree.
    Entry(Entry),
    /// Something that is no entry, or not the one that was stored.
    Damage(Damage),
}

/// Where something stands in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// A line of a file, from 1.
    Line(u64),
    /// A row, by its place in the order of appending.
    Row(u64),
    /// Somewhere in the store.
    Store,
}

impl fmt::Display for Place {
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
    /// Where it is.
    pub place: Place,
    /// What is wrong with it.
    pub why: String,
    /// Its bytes, as far as they can be read.
    pub bytes: Vec<u8>,
    /// Whether it is the remainder of an append that was never acknowledged: nothing that was ever promised is missing.
    pub torn: bool,
}

/// Which conversations to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// At most so many; none: all.
    pub limit: Option<usize>,
    /// Only those that come behind this place.
    pub after: Option<Cursor>,
}

/// A place in the list of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// When the conversation there was last added to.
    pub updated: Timestamp,
    /// Its id.
    pub id: ConversationId,
}

/// A stretch of the list of conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The conversations, newest first.
    pub conversations: Vec<Summary>,
    /// How many there are in all.
    pub total: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Words, all of which must occur; `"…"` for words that stand together; a trailing `*` for a beginning. Words beyond
    /// [`QUERY_WORDS`](rejoin_record::limits::QUERY_WORDS) are not searched for: see [`Search::is_too_long`].
    pub words: String,
    /// At most so many hits.
    pub limit: usize,
    /// Only in this conversation.
    pub within: Option<ConversationId>,
}

impl Search {
    /// Whether there are more words than a search takes. A character of a script without spaces is a word.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        scan::query_words(&self.words) > rejoin_record::limits::QUERY_WORDS
    }
}

/// An entry that says what was searched for.
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
    /// When it was said.
    pub time: Timestamp,
    /// Who said it.
    pub role: String,
    /// The words around the best place.
    pub excerpt: Excerpt,
    /// How good it is; lower is better.
    pub score: f64,
}

/// A piece of a text in which hits are marked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The stretches of it, and whether each is a hit.
    pub pieces: Vec<(String, bool)>,
}

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The conversation, if it is about one.
    pub conversation: Option<ConversationId>,
    /// Where.
    pub place: Place,
    /// What.
    pub what: String,
    /// Whether it is only the remainder of an append that was never acknowledged.
    pub torn: bool,
}

/// What was verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verified {
    /// So many conversations.
    pub conversations: u64,
    /// So many entries.
    pub entries: u64,
}

/// How much room a store takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The record.
    pub record: u64,
    /// What can be made anew from it.
    pub index: u64,
}
