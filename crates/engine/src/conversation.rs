//! An open conversation: read once, then appended to. If its store fails, it continues in memory.
//!
//! When an append returns, its entry is durable, or the result says why it is not. Entries that are not durable are kept in memory
//! and stored before any newer entry, so the store never has a gap.

#[cfg(feature = "agent")]
mod checkpoint;
mod drafts;
mod pruning;
mod sharing;

#[cfg(feature = "agent")]
pub(crate) use checkpoint::keep_of_import;
pub use pruning::{Pinning, PruneReport, TurnsPruned, Window};

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use rejoin_formats::{
    ConvertError, Converted, Dialect, Session, convert, session::Detail, session::SourcePlace,
};
use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Message, Scope, Tail, Text, Tree,
    chain::Stamp, content::RawItem,
};
use rejoin_store::{Damage, Holder, Lock, Store, StoreError, StoredItem};
use rejoin_view::{Finding, History, OnBroken, Repaired, TokenCounter, repair};

use self::drafts::DraftToRemove;
use crate::{
    clock::{Clock, SystemClock, conversation_id, stamp},
    error::EngineError,
    reading::{self, Numbering},
    unsaved::{Waiting, resealed},
    writer::New,
};

/// How often a save reads other writers' entries before it gives up until the next append.
const CATCH_UPS: usize = 4;

/// Takes the lock of a conversation. Returns none if locking fails for a reason other than another writer: the conversation can
/// still be used.
fn locked(
    store: &dyn Store,
    clock: &dyn Clock,
    id: ConversationId,
    command: &str,
) -> Result<Option<Lock>, EngineError> {
    match store.lock(id, &Holder::this(command, clock.now())) {
        Ok(lock) => Ok(Some(lock)),
        Err(why @ StoreError::Locked(_)) => Err(why.into()),
        Err(why) => {
            tracing::warn!("Failed to lock conversation {id}: {why}");
            Ok(None)
        }
    }
}

/// The number of entries from the header to the one that records the owner's scope; 0 if no entry does.
fn scoped_beginning(entries: &[Entry]) -> usize {
    let named = |entry: &Entry| matches!(Content::of(entry), Content::Meta(meta) if meta.scope.as_ref().and_then(Scope::read).is_some());
    let metas = entries.iter().enumerate().filter(|(_, entry)| entry.envelope().kind == Kind::Meta);
    metas.into_iter().find(|(_, entry)| named(entry)).map_or(0, |(place, _)| place + 1)
}

/// Whether the entries of a conversation are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// All of them are stored, durably.
    Durable,
    /// Some are in memory only. The next append tries again to store them.
    InMemory {
        /// A message to show to a person.
        warning: String,
        /// What the person can do about it; `None` if no advice is known.
        hint: Option<&'static str>,
    },
}

impl Saved {
    /// Some entries are not stored, for this reason. `kept` says where they are kept meanwhile.
    fn not(why: &StoreError, kept: Option<String>) -> Self {
        let kept = kept.map_or_else(String::new, |kept| format!("; {kept}"));
        let hint = match why {
            StoreError::Server { hint, .. } => Some(*hint),
            _ => None,
        };
        Self::InMemory { warning: format!("Failed to save turn: {why}{kept}"), hint }
    }

    /// Whether everything is stored.
    pub fn is_durable(&self) -> bool {
        *self == Self::Durable
    }

    /// The message to show to a person; `None` if everything is stored.
    pub fn warning(&self) -> Option<&str> {
        match self {
            Self::Durable => None,
            Self::InMemory { warning, .. } => Some(warning),
        }
    }

    /// What a person can do about entries that are not stored; `None` if no advice is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Durable => None,
            Self::InMemory { hint, .. } => *hint,
        }
    }
}

/// The result of an append.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The new entry. Its id is final; its place and hash may still change while it is in memory only.
    pub entry: Entry,
    /// Whether all entries up to this one are stored.
    pub saved: Saved,
}

/// When a conversation that is opened for turns takes its lock.
#[cfg(feature = "agent")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTiming {
    /// At once, until the conversation is dropped.
    Now,
    /// At the first turn: see [`Conversation::reclaim`]. Until then other processes may write to it.
    Later,
    /// Never. It is opened for reading; appended entries stay in memory.
    Never,
}

/// The store of a conversation, and the lock in it.
struct Home {
    store: Arc<dyn Store>,
    /// The program name that other processes see while they wait for the lock; `None` if the conversation was opened for reading.
    command: Option<String>,
    lock: Option<Lock>,
}

/// An open conversation.
pub struct Conversation {
    id: ConversationId,
    clock: Arc<dyn Clock>,
    home: Option<Home>,
    numbering: Numbering,
    /// The entries that were read, in the order of appending.
    entries: Vec<Entry>,
    /// The checkpoint and its gaps, if only a part of the conversation was read.
    #[cfg(feature = "agent")]
    part: Option<checkpoint::Part>,
    /// Whether a new checkpoint may save more reading than the stored one.
    #[cfg(feature = "agent")]
    wants_checkpoint: bool,
    /// The path to the head as it was read, until a worker takes it.
    #[cfg(feature = "agent")]
    walk: Option<rejoin_view::path::Walk>,
    damage: Vec<Damage>,
    /// The number of entries that are stored.
    stored: usize,
    /// The newest entry of the store, as far as this process knows.
    after: Option<Tail>,
    /// The head: the entry that the next one will follow.
    head: Option<(EntryId, Hash)>,
    saved: Saved,
    /// The draft of an answer whose message may not be stored yet.
    draft: Option<DraftToRemove>,
    /// The file on this machine that keeps the entries which a server did not accept.
    waiting: Option<Waiting>,
    session: OnceLock<Session>,
    /// The number of messages that were appended to the session since it was derived.
    added_messages: usize,
    /// The findings of reading. Appending entries does not change them.
    findings: OnceLock<Vec<Finding>>,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unsaved = self.unsaved().len();
        write!(
            f,
            "Conversation({}, {} entries, {unsaved} of them in memory only)",
            self.id,
            self.entries.len()
        )
    }
}

impl Conversation {
    /// Starts a conversation in a store: [`Conversation::create_with_clock`] with the system's clock. `command` is the program name
    /// that other processes see while they wait for the conversation's lock.
    pub fn create(store: Arc<dyn Store>, new: &New, command: &str) -> Self {
        Self::create_with_clock(store, Arc::new(SystemClock), new, command)
    }

    /// Opens a conversation to continue it: [`Conversation::open_with_clock`] with the system's clock.
    ///
    /// # Errors
    /// If it does not exist, cannot be read at all, or another process writes to it.
    pub fn open(store: Arc<dyn Store>, id: ConversationId, command: &str) -> Result<Self, EngineError> {
        Self::open_with_clock(store, Arc::new(SystemClock), id, command)
    }

    /// Starts a conversation in a store. If the store cannot be written, it starts in memory; [`Conversation::saved`] says so.
    pub fn create_with_clock(store: Arc<dyn Store>, clock: Arc<dyn Clock>, new: &New, command: &str) -> Self {
        let mut conversation = Self::begin(store, clock, new, command);
        conversation.save();
        conversation
    }

    /// Starts a conversation whose header is stored together with the first appended entry, so that the store never holds an empty
    /// conversation.
    pub fn begin(store: Arc<dyn Store>, clock: Arc<dyn Clock>, new: &New, command: &str) -> Self {
        Self::begin_as(conversation_id(&*clock), store, clock, new, command)
    }

    /// Does what [`Conversation::begin`] does, with an id that the caller chose.
    pub(crate) fn begin_as(
        id: ConversationId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        new: &New,
        command: &str,
    ) -> Self {
        let mut conversation = Self::begun(id, clock, &new.in_scope_of(&*store));
        conversation.set_home(store, Some(command.to_owned()));
        conversation
    }

    /// Starts a conversation without a store. [`Conversation::attach`] gives it one.
    pub fn in_memory(clock: Arc<dyn Clock>, new: &New) -> Self {
        let mut conversation = Self::begun(conversation_id(&*clock), clock, new);
        conversation.save();
        conversation
    }

    fn begun(id: ConversationId, clock: Arc<dyn Clock>, new: &New) -> Self {
        let entries = new.entries(id, &*clock);
        Self::of(id, clock, entries)
    }

    /// A conversation with these entries, none of which is stored yet.
    fn of(id: ConversationId, clock: Arc<dyn Clock>, entries: Vec<Entry>) -> Self {
        Self {
            id,
            clock,
            home: None,
            numbering: Numbering::Rows,
            head: entries.last().map(|entry| (entry.id(), entry.hash())),
            entries,
            #[cfg(feature = "agent")]
            part: None,
            #[cfg(feature = "agent")]
            wants_checkpoint: false,
            #[cfg(feature = "agent")]
            walk: None,
            damage: Vec::new(),
            stored: 0,
            after: None,
            saved: Saved::Durable,
            draft: None,
            waiting: None,
            session: OnceLock::new(),
            added_messages: 0,
            findings: OnceLock::new(),
        }
    }

    /// Opens a conversation to continue it, and locks it until it is dropped. Damage does not prevent that:
    /// [`Conversation::findings`] and [`Conversation::damage`] report it. If the store can only be read, the conversation continues
    /// in memory.
    ///
    /// # Errors
    /// If it does not exist, cannot be read at all, or another process writes to it.
    pub fn open_with_clock(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        id: ConversationId,
        command: &str,
    ) -> Result<Self, EngineError> {
        // Lock first, so that no other process changes what is read next.
        let lock = locked(&*store, &*clock, id, command)?;
        Self::opened(store, clock, id, Some(command.to_owned()), lock, Vec::new())
    }

    /// Opens a conversation for reading. Appended entries stay in memory.
    pub fn open_read_only(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        id: ConversationId,
    ) -> Result<Self, EngineError> {
        Self::opened(store, clock, id, None, None, Vec::new())
    }

    /// Opens a conversation to continue it with turns. If it is long and was compacted, only the entries that the next turn needs
    /// are read: [`Conversation::is_whole`] is then false, and damage to the other entries goes unnoticed. Operations that need
    /// more read the rest.
    ///
    /// # Errors
    /// As [`Conversation::open_with_clock`].
    #[cfg(feature = "agent")]
    pub fn open_for_turns(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        id: ConversationId,
        command: &str,
        hold: LockTiming,
    ) -> Result<Self, EngineError> {
        let lock = match hold {
            LockTiming::Now => locked(&*store, &*clock, id, command)?,
            LockTiming::Later | LockTiming::Never => None,
        };
        let command = (hold != LockTiming::Never).then(|| command.to_owned());
        let mut damage = Vec::new();
        let read = checkpoint::read(&*store, id, &mut damage);
        let Some(checkpoint::OpenedPart { entries, part, walk }) = read else {
            return Self::opened(store, clock, id, command, lock, damage);
        };
        let newest = entries.last().map(Tail::of);
        let conversation = Self {
            id,
            clock,
            numbering: Numbering::of(store.location()),
            home: Some(Home { store, command, lock }),
            head: newest.map(|tail| (tail.id, tail.hash)),
            stored: entries.len(),
            entries,
            wants_checkpoint: part.is_none(),
            part,
            walk: Some(walk),
            damage: Vec::new(),
            after: newest,
            saved: Saved::Durable,
            draft: None,
            waiting: None,
            session: OnceLock::new(),
            added_messages: 0,
            findings: OnceLock::from(Vec::new()),
        };
        Ok(conversation)
    }

    /// Stores a checkpoint, which makes the next opening faster, if a new one may save any reading.
    #[cfg(feature = "agent")]
    pub(crate) fn keep_checkpoint(&mut self) {
        if std::mem::take(&mut self.wants_checkpoint)
            && let Some(store) = self.store()
            && self.unsaved().is_empty()
            && self.damage.is_empty()
        {
            checkpoint::keep_of_part(&**store, self.id, &self.entries, self.part.as_ref());
        }
    }

    /// Token estimates for messages whose entries were not read, as `counter` counts what is sent.
    #[cfg(feature = "agent")]
    pub(crate) fn known_estimates(
        &self,
        walk: &rejoin_view::path::Walk,
        counter: rejoin_view::TokenCounter,
    ) -> impl Iterator<Item = (EntryId, u64)> {
        let gaps = self.part.iter().flat_map(|part| part.gaps.values());
        // A result that was pruned since then is now a shorter tombstone, so its estimate no longer holds.
        let is_pruned = move |known: &&rejoin_record::StandIn| {
            matches!(known.results, rejoin_record::StandInResults::Unread(_))
                && walk.unread(known.entry).is_none()
        };
        // An estimate may be from before a compaction shortened the message.
        let is_changed =
            move |known: &&rejoin_record::StandIn| is_pruned(known) || walk.shortened(known.entry).is_some();
        let known = gaps.flat_map(|gap| &gap.stand_ins).filter(move |known| !is_changed(known));
        known.map(move |known| match known.results {
            rejoin_record::StandInResults::Unread(unread) => (known.entry, counter.unread(unread).tokens),
            _ => (known.entry, known.tokens),
        })
    }

    /// Whether results were left out when the conversation was opened.
    #[cfg(feature = "agent")]
    pub(crate) fn leaves_results_unread(&self) -> bool {
        self.part.as_ref().is_some_and(checkpoint::Part::leaves_results_unread)
    }

    /// The path to the head, if it was walked on opening and nothing was added since. A second call returns `None`.
    #[cfg(feature = "agent")]
    pub(crate) fn take_walk(&mut self) -> Option<rejoin_view::path::Walk> {
        self.walk.take()
    }

    fn opened(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        id: ConversationId,
        command: Option<String>,
        lock: Option<Lock>,
        damage: Vec<Damage>,
    ) -> Result<Self, EngineError> {
        let recorded = reading::read_after(&*store, id, reading::Mode::Recover, damage)?;
        if lock.is_some() {
            // Copy the damaged bytes aside before anything is written, so that a later write cannot destroy them.
            for damage in &recorded.damage {
                if let Err(why) = store.set_aside(id, damage) {
                    tracing::warn!("{} of {id} could not be set aside: {why}", damage.place);
                }
            }
        }
        let mut entries = recorded.entries;
        let mut stored = entries.len() - recorded.drafted;
        // If everything could be read, the newest entry is known. Otherwise ask the store, which may know a newer one.
        let is_whole = recorded.damage.is_empty() && stored > 0;
        let after = if is_whole { entries[..stored].last().map(Tail::of) } else { store.tail(id)? };
        if after.is_none() && entries.is_empty() {
            // Nothing can be read, not even a header, so the conversation starts over.
            entries = New::default().entries(id, &*clock);
            stored = 0;
        }
        let newest = entries.iter().max_by_key(|entry| entry.envelope().seq).map(Tail::of);
        let after = after.or(newest.filter(|_| stored > 0));
        // If no entry can be read, the store's newest entry is the head.
        let head = newest.or(after).map(|tail| (tail.id, tail.hash));
        let locked = lock.is_some();
        let mut conversation = Self {
            numbering: Numbering::of(store.location()),
            home: Some(Home { store, command, lock }),
            head,
            damage: recorded.damage,
            stored,
            after,
            draft: (locked && recorded.drafted > 0).then_some(DraftToRemove(None)),
            findings: OnceLock::from(recorded.session.findings.clone()),
            session: OnceLock::from(recorded.session),
            ..Self::of(id, clock, entries)
        };
        if locked {
            conversation.keep_left_draft();
        }
        Ok(conversation)
    }

    /// Gives the conversation a store, or moves it to another one. All its entries are stored there.
    pub fn attach(&mut self, store: Arc<dyn Store>, command: &str) -> Saved {
        let same = self.after.is_some() && store.tail(self.id).ok().flatten() == self.after;
        if !same {
            // A different store gets all entries, so read the rest first.
            if let Err(why) = self.read_all() {
                self.saved = Saved::not(&why, None);
                return self.saved.clone();
            }
            (self.stored, self.after) = (0, None);
        }
        self.set_home(store, Some(command.to_owned()));
        self.save()
    }

    fn set_home(&mut self, store: Arc<dyn Store>, command: Option<String>) {
        self.numbering = Numbering::of(store.location());
        self.home = Some(Home { store, command, lock: None });
        self.forget();
    }

    /// Forgets everything that was derived from the entries. It is derived again on demand.
    fn forget(&mut self) {
        self.session.take();
        self.findings.take();
        self.added_messages = 0;
        #[cfg(feature = "agent")]
        self.walk.take();
    }

    /// The conversation's id.
    pub fn id(&self) -> ConversationId {
        self.id
    }

    /// The store, if it has one.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.home.as_ref().map(|home| &home.store)
    }

    /// The clock and source of random numbers.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The entries that were read, in the order of appending; those that are only in memory come last. If
    /// [`Conversation::is_whole`], these are all readable entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries that are only in memory.
    pub fn unsaved(&self) -> &[Entry] {
        &self.entries[self.stored..]
    }

    /// The entry that the next one will follow.
    pub fn head(&self) -> Option<EntryId> {
        self.head.map(|(id, _)| id)
    }

    pub(crate) fn head_with_hash(&self) -> Option<(EntryId, Hash)> {
        self.head
    }

    /// Makes the next entry follow this one. The caller must append at once: that entry moves the head in the record, too.
    pub(crate) fn move_head(&mut self, head: Option<(EntryId, Hash)>) {
        self.head = head;
        self.forget();
    }

    /// The newest entry of the store, as far as this process knows.
    pub fn tail(&self) -> Option<Tail> {
        self.after
    }

    /// Whether everything is stored, as of the last attempt to save.
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// The damage that reading found in the store.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The tree of the entries that were read.
    pub(crate) fn tree(&self) -> Tree<'_> {
        #[cfg(feature = "agent")]
        if let Some(part) = &self.part {
            return Tree::of_part(&self.entries, &part.gaps);
        }
        Tree::new(&self.entries)
    }

    /// Whether all entries were read, and not only those that the next turn needs.
    pub fn is_whole(&self) -> bool {
        #[cfg(feature = "agent")]
        return self.part.is_none();
        #[cfg(not(feature = "agent"))]
        true
    }

    /// Every readable entry, in the order of appending. Entries that were skipped on opening are read from the store.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn all_entries(&self) -> Result<Cow<'_, [Entry]>, StoreError> {
        match self.store().filter(|_| !self.is_whole()) {
            None => Ok(Cow::Borrowed(&self.entries)),
            Some(store) => {
                let mut entries = self.stored_entries(&**store)?;
                entries.extend_from_slice(self.unsaved());
                Ok(Cow::Owned(entries))
            }
        }
    }

    /// Reads the entries that were skipped on opening.
    ///
    /// # Errors
    /// If the store cannot be read. Then nothing changes.
    pub fn read_all(&mut self) -> Result<(), StoreError> {
        if self.is_whole() {
            return Ok(());
        }
        let Some(store) = self.store().cloned() else { return Ok(()) };
        self.read_stored_again(&*store)
    }

    /// The session along the path to the head.
    pub fn session(&self) -> &Session {
        self.session.get_or_init(|| {
            // If the rest cannot be read, the session covers the entries that were read, and reports that.
            let entries = self.all_entries().unwrap_or(Cow::Borrowed(&self.entries));
            // After an append the line numbers are not known, but the order is.
            let numbered = entries.iter().zip(1..);
            let session = reading::session(self.id, numbered, &self.damage, self.numbering);
            self.numbering.name(session)
        })
    }

    /// The messages that were already parsed from their entries.
    #[cfg(feature = "agent")]
    pub(crate) fn messages_read(&self) -> HashMap<EntryId, Arc<Message>> {
        let Some(session) = self.session.get() else { return HashMap::new() };
        let read = session.messages.len().saturating_sub(self.added_messages);
        let ids = session.details.iter().map(|detail| detail.id.as_ref()?.parse().ok());
        let messages = session.messages.iter().take(read).cloned();
        ids.zip(messages).filter_map(|(id, message)| Some((id?, message))).collect()
    }

    /// The given title, else the first line of the first message.
    pub fn title(&self) -> String {
        self.session().headline()
    }

    /// Estimates the tokens of all messages, with [`TokenCounter`]'s rule for unknown models.
    pub fn token_count(&self) -> usize {
        let counter = TokenCounter::for_model("").estimating();
        let tokens: u64 = self.messages().iter().map(|message| counter.message(message)).sum();
        usize::try_from(tokens).unwrap_or(usize::MAX)
    }

    /// The messages on the path to the head.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.session().messages
    }

    /// The history along the path to the head.
    pub fn history(&self) -> History {
        self.session().history()
    }

    /// The findings of reading.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| self.session().findings.clone())
    }

    /// The view to send to a model, and the repairs that were needed.
    pub fn view(&self, policy: OnBroken) -> Repaired {
        repair(&self.history(), policy)
    }

    /// Encodes a request body in a dialect.
    ///
    /// # Errors
    /// If the setting refuses a broken conversation, or the provider's size limits do.
    pub fn request(
        &self,
        dialect: Dialect,
        model: Option<&str>,
        on_broken: OnBroken,
    ) -> Result<Converted, ConvertError> {
        convert(self.session(), dialect, model, on_broken)
    }

    /// Appends a message after the head.
    pub fn say(&mut self, message: Message) -> Appended {
        self.append(&Content::Message(message))
    }

    /// Appends content after the head. Entries that are only in memory are stored before it.
    ///
    /// If another process appended in between despite the lock, both keep their entries: these follow their own head, which makes a
    /// branch.
    pub fn append(&mut self, content: &Content) -> Appended {
        let stamp = stamp(&*self.clock, None);
        self.append_as(content, stamp)
    }

    fn append_as(&mut self, content: &Content, stamp: Stamp) -> Appended {
        let entry = self.add_as(content, stamp);
        self.saved_as(entry)
    }

    /// Stores all entries that are only in memory, including this one.
    fn saved_as(&mut self, entry: Entry) -> Appended {
        let saved = self.save();
        // Saving may have moved the entry, so return its current version.
        let entry = self.entries.iter().rfind(|other| other.id() == entry.id()).cloned().unwrap_or(entry);
        Appended { entry, saved }
    }

    /// Appends after the head in memory only. The next entry that must be durable is stored together with this one.
    #[cfg(feature = "agent")]
    pub(crate) fn append_later(&mut self, content: &Content) -> Appended {
        Appended { entry: self.add(content), saved: self.saved.clone() }
    }

    /// Appends after the head in memory only. The next save stores all such entries in one batch.
    pub(crate) fn add(&mut self, content: &Content) -> Entry {
        let stamp = stamp(&*self.clock, None);
        self.add_as(content, stamp)
    }

    fn add_as(&mut self, content: &Content, stamp: Stamp) -> Entry {
        let raw;
        let (kind, content) = match content.kind().filter(|kind| *kind != Kind::Header) {
            Some(kind) => (kind, content),
            // Only the first entry may be a header. Content without a kind is kept as raw text.
            None => {
                let text = Text::from(content.to_body().as_str());
                raw = Content::Raw(RawItem { format: Text::new("rejoin"), text });
                (Kind::Raw, &raw)
            }
        };
        #[cfg(feature = "agent")]
        {
            // Results that a checkpoint leaves unread need not be pruned in it: the entry that prunes them is read after the
            // checkpoint.
            let prunes = kind == Kind::Prune && !self.leaves_results_unread();
            // A checkpoint does not serve a pin of a message that it leaves out.
            let pins = matches!(content, Content::Meta(meta) if meta.pinned.is_some());
            self.wants_checkpoint |= prunes || pins || kind == Kind::Compacted;
        }
        let entry = self.chain().append_under(self.head, kind, content, stamp);
        self.head = Some((entry.id(), entry.hash()));
        self.entries.push(entry.clone());
        #[cfg(feature = "agent")]
        self.walk.take();
        self.update_session(&entry, content);
        entry
    }

    /// The hash chain at the head, which the next entry extends.
    fn chain(&self) -> Chain {
        let last = self.unsaved().last().map(Tail::of).or(self.after);
        Chain::at(last)
    }

    /// Keeps the session up to date. A message after the head is added to it. Any other entry may change the session, so the
    /// session is derived again on demand.
    fn update_session(&mut self, entry: &Entry, content: &Content) {
        let Some(mut session) = self.session.take() else { return };
        let added = std::mem::take(&mut self.added_messages);
        if let Content::Message(message) = content {
            self.added_messages = added + 1;
            let index = session.messages.len();
            let line = (self.numbering == Numbering::Lines).then_some(self.entries.len());
            session.places.push(SourcePlace { index, offset: 0, line });
            session.messages.push(Arc::new(message.clone()));
            let id = Some(Text::from(entry.id().to_string()));
            session.details.push(Detail { id, ..Detail::default() });
            self.session = OnceLock::from(session);
        }
    }

    /// Stores the entries that are only in memory, if that is possible.
    pub fn save(&mut self) -> Saved {
        self.saved = match self.try_save() {
            Ok(()) => {
                self.remove_draft();
                if let Some(waiting) = self.waiting.take() {
                    waiting.done();
                }
                Saved::Durable
            }
            Err(why) => {
                let kept = self.keep_waiting(&why);
                let saved = Saved::not(&why, kept);
                // Log it once only: the caller sees it in the result of every append.
                if self.saved.is_durable() {
                    tracing::warn!("{}", saved.warning().unwrap_or_default());
                }
                saved
            }
        };
        self.saved.clone()
    }

    /// Writes entries that could not be saved to a file on this machine, if the store is on another one. Returns the message for a
    /// person.
    fn keep_waiting(&mut self, why: &StoreError) -> Option<String> {
        let store = Arc::clone(&self.home.as_ref()?.store);
        let is_newer = matches!(why, StoreError::TooNew { .. });
        // Whatever a server objects to, the next process may succeed.
        let is_of_server = matches!(why, StoreError::Server { .. });
        let spool = store.spool().filter(|_| is_newer || is_of_server || why.is_unwritable())?;
        let (waiting, after) = (self.waiting.take(), self.after);
        match Waiting::keep(waiting, spool, self.id, after, &self.entries[self.stored..]) {
            Ok(waiting) => {
                let until = if is_newer { "by the newer version" } else { "as soon as the server takes it" };
                let kept = format!("it is kept in {} and is saved {until}", waiting.path().display());
                self.waiting = Some(waiting);
                Some(kept)
            }
            Err(why) => {
                tracing::warn!("unsaved entries could not be buffered on this machine either: {why}");
                None
            }
        }
    }

    pub(crate) fn try_save(&mut self) -> Result<(), StoreError> {
        if self.unsaved().is_empty() {
            return Ok(());
        }
        let Some(home) = &mut self.home else {
            return Err(StoreError::ReadOnly(String::from("the conversation has none yet")));
        };
        let Some(command) = &home.command else {
            let why = home.store.read_only().unwrap_or("the conversation was opened to be read");
            return Err(StoreError::ReadOnly(why.to_owned()));
        };
        if home.lock.is_none() {
            match home.store.lock(self.id, &Holder::this(command.as_str(), self.clock.now())) {
                Ok(lock) => home.lock = Some(lock),
                // A scoped handle lets a new conversation wait in a file only after it has seen its first entries. So offer them to
                // the store although it cannot accept them either.
                Err(why) if self.after.is_none() && home.store.spool().is_some() && why.is_unwritable() => {
                    tracing::debug!("the new conversation {} cannot be locked: {why}", self.id);
                }
                Err(why) => return Err(why),
            }
        }
        let store = Arc::clone(&home.store);
        // A database writes all of them or none. In a file of lines, a power cut may keep the second line and lose the first, so
        // store one at a time.
        let at_once = if self.numbering == Numbering::Lines { 1 } else { usize::MAX };
        let mut catch_ups = 0;
        while catch_ups < CATCH_UPS {
            // Store the scope together with the header, so that a new conversation never lacks it.
            let first = if self.stored == 0 { scoped_beginning(&self.entries) } else { 0 };
            let end = self.entries.len().min(self.stored.saturating_add(at_once.max(first)));
            match store.append(self.id, self.after, &self.entries[self.stored..end]) {
                Ok(tail) => {
                    self.after = Some(tail);
                    self.stored = end;
                }
                Err(StoreError::TailMoved { .. }) => {
                    self.catch_up(&*store)?;
                    catch_ups += 1;
                }
                Err(why) => return Err(why),
            }
            if self.unsaved().is_empty() {
                return Ok(());
            }
        }
        Err(StoreError::TailMoved { expected: self.after, found: store.tail(self.id)? })
    }

    /// Reads the entries that other processes appended, and seals the unsaved entries after them. Each entry keeps its id and its
    /// parent.
    fn catch_up(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let Some(after) = store.tail(self.id)? else {
            // Deleting a conversation takes its lock, which this process holds. So the store was replaced by a different one, which
            // gets all entries.
            if !self.is_whole() {
                return Err(StoreError::NotFound(self.id));
            }
            (self.stored, self.after) = (0, None);
            return Ok(());
        };
        let mut ours = self.take_lost(store)?;
        let from = self.after.map_or(0, |tail| tail.seq + 1);
        let (mut theirs, mut damage) = (Vec::new(), Vec::new());
        store.read(self.id, from, &mut |item| {
            match item {
                StoredItem::Entry(entry) => theirs.push(entry),
                StoredItem::Damage(found) => damage.push(found),
            }
            ControlFlow::Continue(())
        })?;
        // An append that failed may have been stored nevertheless: entries with the same ids are this process's own.
        let ids: HashMap<EntryId, Hash> = theirs.iter().map(|entry| (entry.id(), entry.hash())).collect();
        ours.extend(self.entries.split_off(self.stored));
        ours.retain(|entry| !ids.contains_key(&entry.id()));
        self.damage
            .extend(damage.into_iter().filter(|found| !self.damage.contains(found)).collect::<Vec<_>>());
        self.entries.extend(theirs);
        self.stored = self.entries.len();
        self.after = Some(after);
        self.forget();
        let mut hashes: HashMap<EntryId, Hash> =
            self.entries.iter().map(|entry| (entry.id(), entry.hash())).collect();
        let sealed = resealed(after, &mut hashes, ours);
        self.entries.extend(sealed);
        self.head = self.head.map(|(id, hash)| (id, hashes.get(&id).copied().unwrap_or(hash)));
        Ok(())
    }

    /// Takes out the entries that the store acknowledged but no longer has, so that they are stored again. A server loses such
    /// entries if it is restored from a backup, or if a standby that had not received them takes over.
    fn take_lost(&mut self, store: &dyn Store) -> Result<Vec<Entry>, StoreError> {
        let Some(known) = self.after else { return Ok(Vec::new()) };
        let mut is_there = false;
        store.read(self.id, known.seq, &mut |item| {
            is_there = !matches!(&item, StoredItem::Entry(entry) if entry.id() != known.id);
            ControlFlow::Break(())
        })?;
        if is_there {
            return Ok(Vec::new());
        }
        let mut stored = HashSet::new();
        store.each_entry(self.id, |entry| {
            stored.insert(entry.id());
        })?;
        let unsaved = self.entries.split_off(self.stored);
        let all = std::mem::take(&mut self.entries);
        let (kept, lost): (Vec<Entry>, Vec<Entry>) =
            all.into_iter().partition(|entry| stored.contains(&entry.id()));
        tracing::warn!("the store lost {} entries of {}; saving them again", lost.len(), self.id);
        self.stored = kept.len();
        self.after = kept.last().map(Tail::of);
        self.entries = kept;
        self.entries.extend(unsaved);
        Ok(lost)
    }
}
