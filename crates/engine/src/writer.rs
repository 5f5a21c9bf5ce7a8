//! Writes to a store: starts, renames, forks and erases conversations. Copying is in `copy.rs`, importing other tools' sessions
//! in `import.rs`.
//!
//! Each operation holds the conversation's lock while it writes.

use std::collections::{HashMap, HashSet};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Raw, Scope, Tail, Text, Tree,
    content::{self, Erased, Meta, Metadata},
    json::Object,
};
use rejoin_store::{Holder, Lock, Store, StoreError};
use rejoin_view::path::newest_pins;

use crate::{
    clock::{Clock, conversation_id, stamp},
    draft,
    error::EngineError,
    removal::goes_with,
};

/// The properties of a new conversation.
#[derive(Debug, Clone, Default)]
pub struct New {
    /// The title. Without one, lists show the first line of the first message.
    pub title: Option<String>,
    /// The provider for the first turn.
    pub provider: Option<String>,
    /// The provider's model. If a flag or the settings name another one, the first turn uses and records that.
    pub model: Option<String>,
    /// The working directory.
    pub directory: Option<String>,
    /// The owner's scope. In a store that is limited to a scope, that scope's parts replace empty ones.
    pub scope: Scope,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// The conversation's id. Importing the same source again returns the same id.
    pub id: ConversationId,
    /// Whether the conversation is new in this store.
    pub new: bool,
    /// The number of added entries; 0 if the store had all of them. A message that changed in the source counts, because it is
    /// appended as a branch.
    pub added: u64,
    /// The number of messages in the source.
    pub messages: u64,
    /// How many stored entries were read to find the new ones; 0 if an [`ImportMemory`](crate::ImportMemory) knew them.
    pub compared: u64,
    /// How the conversation grew; `None` if nothing was added. [`Writer::take_back`] undoes it.
    pub growth: Option<Growth>,
}

/// How an import changed a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// The newest entry before the import; `None` if the conversation was new.
    pub before: Option<Tail>,
    /// The newest entry after the import.
    pub after: Tail,
}

impl Growth {
    pub(crate) fn between(before: Option<Tail>, after: Option<Tail>) -> Option<Self> {
        after.filter(|after| before != Some(*after)).map(|after| Self { before, after })
    }
}

/// The outcome of taking an import back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeBackOutcome {
    /// The import had created the conversation, so it was deleted.
    Deleted,
    /// The conversation has its former head again. The imported entries stay in the record, off the path.
    Restored,
    /// Entries were added after the import, so the conversation was left alone.
    WentOn,
    /// The store no longer has the conversation.
    Missing,
}

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The number of entries that were added.
    pub added: u64,
    /// The number of entries that the conversation now has.
    pub total: u64,
}

/// Writes to a store.
pub struct Writer<'s> {
    /// The store.
    pub store: &'s dyn Store,
    /// The source of times and random numbers.
    pub clock: &'s dyn Clock,
    /// The program name that other processes see while they wait for the lock.
    pub command: &'s str,
}

impl Writer<'_> {
    /// Starts a conversation. The provider or model in `new` answers its first turn, unless a flag names another one. They are
    /// recorded as a context, because the header alone does not decide (see `ProviderChoice`).
    pub fn create(&self, new: &New) -> Result<ConversationId, EngineError> {
        let id = conversation_id(self.clock);
        let _lock = self.lock(id)?;
        let mut entries = new.in_scope_of(self.store).entries(id, self.clock);
        if let Some(target) = new.target() {
            let context =
                content::RecordedContext { target: Some(target), ..content::RecordedContext::default() };
            let last = entries.last().map(Tail::of);
            entries.push(Chain::at(last).append(
                Kind::Context,
                &Content::Context(context),
                stamp(self.clock, None),
            ));
        }
        self.store.append(id, None, &entries)?;
        Ok(id)
    }

    /// Gives a conversation a title.
    pub fn rename(&self, id: ConversationId, title: &str) -> Result<(), EngineError> {
        let _lock = self.lock(id)?;
        let tail = self.tail(id)?;
        let meta = Meta { title: Some(Text::from(title.trim())), ..Meta::default() };
        let entry = Chain::at(Some(tail)).append(Kind::Meta, &Content::Meta(meta), stamp(self.clock, None));
        self.store.append(id, Some(tail), &[entry])?;
        Ok(())
    }

    /// Forks a conversation at a message (at the head, if none is given). The entries keep their ids, times, salts and exact
    /// bodies; erased ones are left out. A note records where the fork comes from, and another one the pins that are not on its path. If
    /// the process is killed meanwhile, either the
    /// whole fork exists or none of it.
    pub fn fork(&self, id: ConversationId, at: Option<EntryId>) -> Result<ConversationId, EngineError> {
        let entries = draft::read_entries(self.store, id)?.0;
        let tree = Tree::new(&entries);
        let head = match at {
            Some(at) => Some(tree.get(at).ok_or_else(|| EngineError::NoSuchMessage(at.to_string()))?),
            None => tree.head(),
        };
        let path = head.map(|head| tree.path_to(head).0).unwrap_or_default();
        let new = conversation_id(self.clock);
        let _lock = self.lock(new)?;
        let mut forked = Forked::begin(new, &entries, self.clock);
        forked.note(id, head, &path, &entries, self.clock);
        for entry in &path {
            forked.add(entry);
        }
        // The next turn needs the system prompt and the tools, whose entry may not be on the path.
        if !path.iter().any(|entry| entry.envelope().kind == Kind::Context)
            && let Some(context) = entries.iter().rfind(|entry| entry.envelope().kind == Kind::Context)
        {
            forked.add(context);
        }
        forked.pin(&path, &entries, self.clock);
        // In one step, however large: a partial fork would look like a whole conversation.
        self.store.append(new, None, &forked.entries)?;
        Ok(new)
    }

    /// Removes the content of entries permanently; their hashes stay. Recorded file changes by a message's calls are erased with
    /// the message. Entries that are already erased are not changed.
    ///
    /// # Errors
    /// If one of them does not exist, or another process writes to the conversation. In that case nothing is erased.
    pub fn erase(
        &self,
        id: ConversationId,
        entries: &[EntryId],
        reason: Option<&str>,
    ) -> Result<(), EngineError> {
        let _lock = self.lock(id)?;
        let mut there: HashMap<EntryId, bool> = HashMap::new();
        // The changes that a call made contain old contents of files, so they are erased with the call's message.
        let mut changes: Vec<EntryId> = Vec::new();
        self.store.each_entry(id, |entry| {
            there.insert(entry.id(), entry.content().is_some());
            if goes_with(&entry, entries) {
                changes.push(entry.id());
            }
        })?;
        if let Some(missing) = entries.iter().find(|entry| !there.contains_key(entry)) {
            return Err(EngineError::NoSuchMessage(missing.to_string()));
        }
        let tail = self.tail(id)?;
        let mut chain = Chain::at(Some(tail));
        let mut erasures = Vec::new();
        for entry in entries.iter().chain(&changes) {
            if there.insert(*entry, false) != Some(true) {
                continue;
            }
            let erased = Erased { entry: *entry, reason: reason.map(Text::from) };
            let note = chain.append(Kind::Erased, &Content::Erased(erased), stamp(self.clock, None));
            erasures.push((*entry, note));
        }
        if !erasures.is_empty() {
            self.store.erase_all(id, tail, &erasures)?;
        }
        Ok(())
    }

    /// Locks a conversation for writing. If a kill cut off an answer, that answer is recorded first.
    pub(crate) fn lock(&self, id: ConversationId) -> Result<Lock, StoreError> {
        let lock = self.store.lock(id, &Holder::this(self.command, self.clock.now()))?;
        draft::absorb(self.store, id);
        Ok(lock)
    }

    fn tail(&self, id: ConversationId) -> Result<Tail, EngineError> {
        Ok(self.store.tail(id)?.ok_or(StoreError::NotFound(id))?)
    }
}

impl New {
    /// Fills in the scope that a handle is limited to. A part that is already set stays; if the handle does not admit it, the
    /// append fails.
    pub(crate) fn in_scope_of(&self, store: &dyn Store) -> Self {
        let own = store.scope().new_scope();
        let filled = |part: &String, own: String| if part.is_empty() { own } else { part.clone() };
        let scope = Scope {
            user: filled(&self.scope.user, own.user),
            channel: filled(&self.scope.channel, own.channel),
            thread: filled(&self.scope.thread, own.thread),
        };
        Self { scope, ..self.clone() }
    }

    pub(crate) fn entries(&self, id: ConversationId, clock: &dyn Clock) -> Vec<Entry> {
        let text = |text: &Option<String>| text.as_deref().map(Text::from);
        let header = Metadata {
            conversation: id,
            provider: text(&self.provider),
            model: text(&self.model),
            directory: text(&self.directory),
            format: None,
        };
        let mut chain = Chain::empty();
        let mut entries = vec![chain.append(Kind::Header, &Content::Header(header), stamp(clock, None))];
        if !self.scope.is_empty() {
            let meta = Meta { scope: Some(self.scope.to_raw()), ..Meta::default() };
            entries.push(chain.append(Kind::Meta, &Content::Meta(meta), stamp(clock, None)));
        }
        if let Some(title) = self.title.as_deref().map(str::trim).filter(|title| !title.is_empty()) {
            let meta = Meta { title: Some(Text::from(title)), ..Meta::default() };
            entries.push(chain.append(Kind::Meta, &Content::Meta(meta), stamp(clock, None)));
        }
        entries
    }

    /// The provider and model of requests; `None` if neither is set. A missing provider is written as `null`, which distinguishes
    /// this from the target of an imported request.
    fn target(&self) -> Option<Raw> {
        self.provider.as_ref().or(self.model.as_ref())?;
        let target = Object::new()
            .text_or_null("provider", self.provider.as_deref())
            .text_if("model", self.model.as_deref());
        Some(Raw::new(target.finish()))
    }
}

/// The most bytes that are appended at once. Several transactions of this size fit into memory.
const BATCH_BYTES: usize = 64 * 1024 * 1024;

/// The size of an entry that counts for a batch, in bytes.
pub(crate) fn weight(entry: &Entry) -> usize {
    entry.body().map_or(0, |body| body.as_str().len()) + 512
}

/// Appends entries in batches. The last two go into one batch, so that a note about the head is never stored alone.
pub(crate) fn append_in_batches(
    store: &dyn Store,
    id: ConversationId,
    mut tail: Option<Tail>,
    entries: &[Entry],
) -> Result<Option<Tail>, StoreError> {
    let mut rest = entries;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += weight(entry);
            bytes <= BATCH_BYTES
        };
        let mut count = rest.iter().take_while(fits).count().max(1);
        if count + 1 == rest.len() {
            count += 1;
        }
        let (batch, others) = rest.split_at(count);
        tail = Some(store.append(id, tail, batch)?);
        rest = others;
    }
    Ok(tail)
}

/// A conversation built from another one's entries.
struct Forked {
    chain: Chain,
    entries: Vec<Entry>,
}

impl Forked {
    /// Begins with a copy of the other conversation's header.
    fn begin(id: ConversationId, entries: &[Entry], clock: &dyn Clock) -> Self {
        let known = entries.iter().find_map(|entry| match Content::of(entry) {
            Content::Header(header) => Some(header),
            _ => None,
        });
        let nothing =
            Metadata { conversation: id, provider: None, model: None, directory: None, format: None };
        let header = Metadata { conversation: id, ..known.unwrap_or(nothing) };
        let mut chain = Chain::empty();
        let entries = vec![chain.append(Kind::Header, &Content::Header(header), stamp(clock, None))];
        Self { chain, entries }
    }

    /// Records where the fork comes from, and the title of the other conversation if it is not on the path.
    fn note(
        &mut self,
        from: ConversationId,
        head: Option<&Entry>,
        path: &[&Entry],
        entries: &[Entry],
        clock: &dyn Clock,
    ) {
        let title = |entry: &Entry| match Content::of(entry) {
            Content::Meta(meta) => meta.title,
            _ => None,
        };
        let given = entries.iter().rev().find_map(title);
        let known = path.iter().rev().find_map(|entry| title(entry));
        let fork = Object::new().text("conversation", from).text_if("entry", head.map(Entry::id));
        // The first entries must already show to whom the fork belongs.
        let scopes = entries.iter().rev().filter_map(|entry| match Content::of(entry) {
            Content::Meta(meta) => meta.scope.as_ref().and_then(Scope::read),
            _ => None,
        });
        let scope = Object::new().object("forked_from", fork);
        let scope = scopes.take(1).fold(scope, |object, scope| scope.write(object)).finish();
        let title = given.filter(|given| known.as_ref() != Some(given));
        let meta = Meta { title, scope: Some(Raw::new(scope)), ..Meta::default() };
        self.entries.push(self.chain.append(Kind::Meta, &Content::Meta(meta), stamp(clock, None)));
    }

    /// Records which messages are pinned, if their pins are not on the path.
    fn pin(&mut self, path: &[&Entry], entries: &[Entry], clock: &dyn Clock) {
        let on_path: HashSet<EntryId> = path.iter().map(|entry| entry.id()).collect();
        let Some((entry, mut pinned)) = newest_pins(entries.iter()) else { return };
        if on_path.contains(&entry.id()) {
            return;
        }
        pinned.retain(|pin| on_path.contains(pin));
        if !pinned.is_empty() || newest_pins(path.iter().copied()).is_some() {
            let meta = Meta { pinned: Some(pinned), ..Meta::default() };
            self.entries.push(self.chain.append(Kind::Meta, &Content::Meta(meta), stamp(clock, None)));
        }
    }

    /// Adds one entry of the other conversation, unless it is the header or was erased.
    fn add(&mut self, entry: &Entry) {
        if entry.envelope().kind != Kind::Header {
            self.entries.extend(self.chain.reseal(self.chain.head(), entry));
        }
    }
}
