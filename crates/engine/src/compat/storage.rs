//! Saves, loads, lists and deletes whole conversations under ids of the caller's choice, for programs that hand over all messages
//! after every turn. Only new messages are stored; a change in the middle becomes a branch, and the old messages are kept.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rejoin_record::{
    Content, ConversationId, Kind, Message, Raw, Text, Timestamp,
    content::{Meta, RecordedContext},
    json::{Doc, Object, Value},
};
use rejoin_store::{Access, Location, Query, Store, StoreError, StoredItem, Summary};

use crate::{
    clock::SystemClock,
    conversation::Conversation,
    digest::digest_of,
    error::EngineError,
    open_store,
    reading::{Mode, read},
    writer::{New, Writer},
};

/// The program name that a conversation's lock shows during a save.
const COMMAND: &str = "save_conversation";

/// The field that holds the caller's id in the entry after the header: `{"id": "…"}`.
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
    /// The number of messages.
    pub messages: u64,
    /// When an entry was last added.
    pub updated_at: Timestamp,
}

/// A storage of conversations in one SQLite file or in any other store.
#[derive(Debug)]
pub struct SqliteStorage {
    store: Arc<dyn Store>,
    /// The conversations that were saved, without their locks, so that the next save compares only new messages.
    saved: Mutex<HashMap<ConversationId, Conversation>>,
}

impl SqliteStorage {
    /// Opens the file, or creates it.
    pub fn new_with_path(path: impl Into<PathBuf>) -> Result<Self, EngineError> {
        Ok(Self::over(open_store(&Location::Sqlite(path.into()), Access::Write)?))
    }

    /// A storage over an open store.
    pub fn over(store: impl Into<Arc<dyn Store>>) -> Self {
        Self { store: store.into(), saved: Mutex::default() }
    }

    /// Saves the new messages of a conversation. If an earlier message changed or was removed, they are saved on a new branch.
    pub fn save_conversation(
        &self,
        id: &str,
        title: &str,
        model: Option<&str>,
        messages: &[Message],
    ) -> Result<(), EngineError> {
        let mut conversation = self.locked(id, model)?;
        conversation.replace_unsaved(messages);
        let known = described(&conversation);
        if !title.trim().is_empty() && known.title.filter(|_| known.renamed).as_deref() != Some(title) {
            conversation.add(&meta(Some(Text::from(title)), None));
        }
        if let Some(model) = model.filter(|model| known.about.model.as_deref() != Some(*model)) {
            let target = Raw::new(Object::new().text("model", model).finish());
            conversation.add(&Content::Context(RecordedContext {
                target: Some(target),
                ..RecordedContext::default()
            }));
        }
        conversation.try_save()?;
        conversation.release();
        self.all_saved().insert(conversation.id(), conversation);
        Ok(())
    }

    /// A conversation's title, model and messages; `None` if there is no such conversation. Damage is skipped.
    #[allow(clippy::type_complexity, reason = "the shape that callers know")]
    pub fn load(&self, id: &str) -> Result<Option<(String, Option<String>, Vec<Message>)>, EngineError> {
        let conversation = conversation_id(id);
        let summary = match self.store.summary(conversation) {
            Err(StoreError::NotFound(_)) => return Ok(None),
            summary => summary?,
        };
        let recorded = read(&*self.store, conversation, Mode::Recover)?;
        let messages = recorded.session.messages.iter().map(|message| Message::clone(message)).collect();
        Ok(Some((summary.title.unwrap_or_default(), summary.about.model, messages)))
    }

    /// Every conversation, newest first.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let mut listed = Vec::new();
        for summary in crate::list(&*self.store, &Query::default())?.conversations {
            listed.push(Listed {
                id: self.own_id(summary.id)?,
                title: summary.title.unwrap_or_default(),
                model: summary.about.model,
                messages: summary.messages,
                updated_at: summary.updated,
            });
        }
        Ok(listed)
    }

    /// Removes a conversation. Returns false if there was none.
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

    fn all_saved(&self) -> MutexGuard<'_, HashMap<ConversationId, Conversation>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A conversation with its lock held: the one that the last save kept, or read again, or new.
    fn locked(&self, id: &str, model: Option<&str>) -> Result<Conversation, EngineError> {
        let own = conversation_id(id);
        let saved = self.all_saved().remove(&own);
        if let Some(mut conversation) = saved
            && conversation.reclaim().is_ok()
        {
            return Ok(conversation);
        }
        if self.store.tail(own)?.is_some() {
            return Conversation::open(Arc::clone(&self.store), own, COMMAND);
        }
        let new = New { model: model.map(str::to_owned), ..New::default() };
        let clock = Arc::new(SystemClock);
        let mut conversation = Conversation::begin_as(own, Arc::clone(&self.store), clock, &new, COMMAND);
        let scope = Object::new().text(OWN_ID, id).finish();
        conversation.add(&meta(None, Some(Raw::new(scope))));
        Ok(conversation)
    }

    /// The caller's id of a conversation, from the entry after the header.
    fn own_id(&self, id: ConversationId) -> Result<String, EngineError> {
        let mut own = None;
        self.store.read(id, 1, &mut |item| {
            if let StoredItem::Entry(entry) = item
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

/// The store's id of a conversation, derived from the caller's id.
pub(crate) fn conversation_id(id: &str) -> ConversationId {
    id.parse().unwrap_or_else(|_| ConversationId::derive("storage", id))
}

fn meta(title: Option<Text>, scope: Option<Raw>) -> Content {
    Content::Meta(Meta { title, scope, ..Meta::default() })
}

/// The title and the model of a conversation.
fn described(conversation: &Conversation) -> Summary {
    let mut summary = Summary::new(conversation.id());
    let beside = |kind: &Kind| matches!(kind, Kind::Header | Kind::Meta | Kind::Context);
    for entry in conversation.entries().iter().filter(|entry| beside(&entry.envelope().kind)) {
        summary.add(entry, digest_of(entry, Content::of(entry)));
    }
    summary
}
