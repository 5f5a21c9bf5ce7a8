//! A small storage of whole conversations under ids of the caller's choice: save, load, list, delete.
//!
//! For programs that hand over their list of messages after every turn. Only what is new in it is stored; a list that was
//! changed in the middle goes on as a branch, and what stood there before is kept.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Hash, Kind, Message, Raw, Tail, Text, Timestamp,
    content::{Branch, Context, Meta, Metadata},
    hash,
    json::{Doc, Object, Value},
};
use rejoin_store::{Access, Item, Location, Query, Store, StoreError};

use crate::{
    clock::{Clock, SystemClock, stamp},
    error::EngineError,
    open_store,
    reading::{Mode, read},
    writer::{Writer, append_in_batches},
};

/// What the lock of a conversation says while one is saved here.
const COMMAND: &str = "save_conversation";

/// What surrounds conversations that were given an id of their own: `{"id": "…"}`.
const OWN_ID: &str = "id";

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The id that it was saved under.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its model, if one was given.
    pub model: Option<String>,
    /// How many messages were stored.
    pub messages: u64,
    /// When it was last added to.
    pub updated_at: Timestamp,
}

/// A storage of conversations in one SQLite file, or wherever else a store can be.
#[derive(Debug)]
pub struct SqliteStorage {
    store: Box<dyn Store>,
    /// What was last saved, so that the next turn costs what is new in it.
    saved: Mutex<HashMap<ConversationId, Path>>,
}

/// The messages that lead to a head, as far as the next save has to know them.
#[derive(Debug, Clone)]
struct Path {
    tail: Tail,
    /// Each message's entry and its hash, and a hash of what it says.
    messages: Vec<((EntryId, Hash), Hash)>,
    /// The entry that a first message would follow.
    root: (EntryId, Hash),
    /// The entry that the next message follows.
    head: (EntryId, Hash),
    title: Option<String>,
    model: Option<String>,
}

impl SqliteStorage {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new_with_path(path: impl Into<PathBuf>) -> Result<Self, EngineError> {
        Ok(Self::over(open_store(&Location::Sqlite(path.into()), Access::Write)?))
    }

    /// A storage over a store that is open already.
    #[must_use]
    pub fn over(store: Box<dyn Store>) -> Self {
        Self { store, saved: Mutex::default() }
    }

    /// Saves a conversation: what is new in it. A message that changed, or is not there any more, starts a branch.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation.
    pub fn save_conversation(
        &self,
        id: &str,
        title: &str,
        model: Option<&str>,
        messages: &[Message],
    ) -> Result<(), EngineError> {
        let conversation = conversation_id(id);
        let clock = SystemClock;
        let writer = Writer { store: &*self.store, clock: &clock, command: COMMAND };
        let _lock = writer.lock(conversation)?;
        let tail = self.store.tail(conversation)?;
        let known = match tail {
            Some(tail) => Some(self.known(conversation, tail)?),
            None => None,
        };
        let mut saving = Saving::begin(conversation, id, model, known, &clock);
        saving.run(title, model, messages);
        append_in_batches(&*self.store, conversation, tail, saving.added)?;
        self.all_saved().insert(conversation, saving.path);
        Ok(())
    }

    /// A conversation's title, model and messages; none if there is no such conversation. Damage is passed over.
    ///
    /// # Errors
    /// If the store cannot be read.
    #[allow(clippy::type_complexity, reason = "the shape that callers know")]
    pub fn load(&self, id: &str) -> Result<Option<(String, Option<String>, Vec<Message>)>, EngineError> {
        let conversation = conversation_id(id);
        let summary = match self.store.summary(conversation) {
            Err(StoreError::NotFound(_)) => return Ok(None),
            summary => summary?,
        };
        let recorded = read(&*self.store, conversation, Mode::Recover)?;
        let messages = recorded.session.messages.iter().map(|message| Message::clone(message)).collect();
        Ok(Some((summary.title.unwrap_or_default(), summary.model, messages)))
    }

    /// Every conversation, newest first.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let mut listed = Vec::new();
        for summary in crate::list(&*self.store, &Query::default())?.conversations {
            listed.push(Listed {
                id: self.own_id(summary.id)?,
                title: summary.title.unwrap_or_default(),
                model: summary.model,
                messages: summary.messages,
                updated_at: summary.updated,
            });
        }
        Ok(listed)
    }

    /// Removes a conversation. False if there was none.
    ///
    /// # Errors
    /// If the store cannot be written, or another process writes to the conversation.
    pub fn delete(&self, id: &str) -> Result<bool, EngineError> {
        let conversation = conversation_id(id);
        let clock = SystemClock;
        let _lock = Writer { store: &*self.store, clock: &clock, command: "delete" }.lock(conversation)?;
        self.all_saved().remove(&conversation);
        match self.store.delete(conversation) {
            Err(StoreError::NotFound(_)) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn all_saved(&self) -> std::sync::MutexGuard<'_, HashMap<ConversationId, Path>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored: as it was left by the last save, or read again if somebody else went on with it.
    fn known(&self, id: ConversationId, tail: Tail) -> Result<Path, EngineError> {
        if let Some(path) = self.all_saved().get(&id).filter(|path| path.tail == tail) {
            return Ok(path.clone());
        }
        let recorded = read(&*self.store, id, Mode::Recover)?;
        let summary = self.store.summary(id)?;
        let entries: HashMap<EntryId, &Entry> =
            recorded.entries.iter().map(|entry| (entry.id(), entry)).collect();
        let on_path = recorded.session.details.iter().filter_map(|detail| detail.id.as_ref()?.parse().ok());
        let messages = on_path.filter_map(|id: EntryId| {
            let entry = entries.get(&id)?;
            Some(((id, entry.hash()), entry.body().map(said)?))
        });
        let root = recorded.entries.first().map(|entry| (entry.id(), entry.hash()));
        Ok(Path {
            tail,
            messages: messages.collect(),
            root: root.unwrap_or((tail.id, tail.hash)),
            head: (tail.id, tail.hash),
            title: summary.title.filter(|_| summary.renamed),
            model: summary.model,
        })
    }

    /// The id that a conversation was saved under: it stands directly behind the header.
    fn own_id(&self, id: ConversationId) -> Result<String, EngineError> {
        let mut own = None;
        self.store.read(id, 1, &mut |item| {
            if let Item::Entry(entry) = item
                && let Content::Meta(Meta { scope: Some(scope), .. }) = Content::of(&entry)
            {
                let doc = Doc::parse(scope.as_str());
                let root = doc.as_ref().ok().and_then(Doc::root);
                let found = root.and_then(|root| root.given(OWN_ID)).and_then(Value::as_str);
                own = found.map(|own| own.into_owned());
            }
            ControlFlow::Break(())
        })?;
        Ok(own.unwrap_or_else(|| id.to_string()))
    }
}

/// The conversation that goes by an id of the caller's.
pub(crate) fn conversation_id(id: &str) -> ConversationId {
    id.parse().unwrap_or_else(|_| ConversationId::derive("storage", id))
}

fn said(body: &Raw) -> Hash {
    hash::of_bytes(body.as_str().as_bytes())
}

/// A save under way.
struct Saving<'c> {
    clock: &'c dyn Clock,
    chain: Chain,
    path: Path,
    added: Vec<Entry>,
}

impl<'c> Saving<'c> {
    fn begin(
        conversation: ConversationId,
        id: &str,
        model: Option<&str>,
        known: Option<Path>,
        clock: &'c dyn Clock,
    ) -> Self {
        if let Some(path) = known {
            return Self { clock, chain: Chain::at(Some(path.tail)), path, added: Vec::new() };
        }
        let mut chain = Chain::empty();
        let model = model.map(str::to_owned);
        let header = Metadata {
            conversation,
            provider: None,
            model: model.as_deref().map(Text::from),
            directory: None,
            format: None,
        };
        let header = chain.append(Kind::Header, &Content::Header(header), stamp(clock, None));
        let scope = Object::new().text(OWN_ID, id).finish();
        let meta = Meta { title: None, tags: None, scope: Some(Raw::new(scope)) };
        let meta = chain.append(Kind::Meta, &Content::Meta(meta), stamp(clock, None));
        let root = (meta.id(), meta.hash());
        let path = Path { tail: Tail::of(&meta), messages: Vec::new(), root, head: root, title: None, model };
        Self { clock, chain, path, added: vec![header, meta] }
    }

    fn run(&mut self, title: &str, model: Option<&str>, messages: &[Message]) {
        let contents: Vec<Content> =
            messages.iter().map(|message| Content::Message(message.clone())).collect();
        let known = self.path.messages.iter().zip(&contents);
        let same = known.take_while(|((_, known), content)| said(&content.to_body()) == *known).count();
        let goes_back = same < self.path.messages.len();
        if goes_back {
            self.path.messages.truncate(same);
            self.path.head = self.path.messages.last().map_or(self.path.root, |(entry, _)| *entry);
        }
        self.title(title);
        self.model(model);
        for content in &contents[same..] {
            self.append(content, Kind::Message);
            self.path.messages.push((self.path.head, said(&content.to_body())));
        }
        if goes_back && self.added.is_empty() {
            // Nothing new follows that would take the head along.
            self.append(&Content::Branch(Branch { reason: None }), Kind::Branch);
        }
    }

    fn title(&mut self, title: &str) {
        if !title.trim().is_empty() && self.path.title.as_deref() != Some(title) {
            let meta = Meta { title: Some(Text::from(title)), tags: None, scope: None };
            self.append(&Content::Meta(meta), Kind::Meta);
            self.path.title = Some(title.to_owned());
        }
    }

    fn model(&mut self, model: Option<&str>) {
        let Some(model) = model.filter(|model| self.path.model.as_deref() != Some(*model)) else { return };
        let target = Object::new().text("model", model).finish();
        let context = Context { system: None, tools: None, target: Some(Raw::new(target)) };
        self.append(&Content::Context(context), Kind::Context);
        self.path.model = Some(model.to_owned());
    }

    /// Appends behind the head.
    fn append(&mut self, content: &Content, kind: Kind) {
        let entry = self.chain.append_under(Some(self.path.head), kind, content, stamp(self.clock, None));
        self.path.tail = Tail::of(&entry);
        self.path.head = (entry.id(), entry.hash());
        self.added.push(entry);
    }
}
