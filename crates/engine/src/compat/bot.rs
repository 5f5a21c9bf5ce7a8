//! The history of a chat bot: one conversation for each user and channel, and one for each thread.
//!
//! Messages have the shape that bots send to OpenAI's API. Each save appends its entries in one step: a reader sees all of a turn
//! or none of it. Programs that save at the same time do not wait for each other's locks: if another program's append came first,
//! this one is repeated after it.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rejoin_formats::{Dialect, Input, ReadError, sessions};
use rejoin_record::{
    Block, BlockKind, CallId, Chain, Content, ConversationId, Entry, EntryId, Form, Kind, Message, Role,
    Scope, Tail, Text, Timestamp, ToolCall, ToolResult, Tree,
    chain::Stamp,
    json::{Doc, ValueKind},
};
use rejoin_store::{Query, ScopeFilter, Store, StoreError, StoredItem, Summary};
use rejoin_view::{BlockAt, History, OnBroken, Pairing, repair};

use crate::{
    clock::{Clock, SystemClock, stamp},
    digest::time_of,
    error::EngineError,
    writer::New,
};

/// How often an append is retried after another program's append came first. Each retry means that the other program made progress.
const TRIES: usize = 100;

/// One message of a conversation in the form that bots use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationMessage {
    /// The role of the author: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text; none if the message only calls tools.
    pub content: Option<String>,
    /// When it was written. [`DatabaseService::save_messages`] uses the current time if this is `None`.
    pub timestamp: Option<Timestamp>,
    /// The calls of an assistant's message.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<String>,
    /// The tool's name, in a tool's message. It is read from the call; a value that the caller sets is not stored.
    pub tool_name: Option<String>,
    /// The caller's id of the message. A message whose id is already stored is not saved again, so a save may be repeated.
    pub id: Option<String>,
}

impl ConversationMessage {
    fn new(role: &str, content: Option<String>) -> Self {
        Self {
            role: role.to_owned(),
            content,
            timestamp: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool_name: None,
            id: None,
        }
    }

    /// A message of a person.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new("user", Some(text.into()))
    }

    /// A message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new("assistant", Some(text.into()))
    }

    /// A message of the model that only makes calls.
    pub fn calls(calls: Vec<ToolCall>) -> Self {
        Self { tool_calls: calls, ..Self::new("assistant", None) }
    }

    /// The result of a call.
    pub fn tool(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call.into()), ..Self::new("tool", Some(text.into())) }
    }

    /// The message in the form in which it is recorded.
    fn to_message(&self) -> Message {
        let role = Role::named(&self.role);
        let text = self.content.as_deref().map(Text::from);
        if role == Role::Tool {
            let content: Vec<Block> = text.map(Block::text).into_iter().collect();
            let result = ToolResult {
                call_id: self.tool_call_id.as_deref().map(|id| CallId::new(Text::from(id))),
                name: None,
                content,
                form: Form::Text,
                is_error: false,
            };
            return Message {
                form: Form::Text,
                ..Message::new(role, vec![Block::new(BlockKind::ToolResult(result))])
            };
        }
        let mut blocks: Vec<Block> = text.map(Block::text).into_iter().collect();
        let form = if blocks.is_empty() { Form::Null } else { Form::Text };
        blocks.extend(self.tool_calls.iter().cloned().map(|call| Block::new(BlockKind::ToolCall(call))));
        Message { form, ..Message::new(role, blocks) }
    }

    /// A recorded message in the form that bots use. A message with several results becomes several. `tool_of` returns the name of
    /// the tool whose call the result in a block answers.
    pub(crate) fn of(
        message: &Message,
        at: Option<Timestamp>,
        tool_of: impl Fn(usize) -> Option<String>,
    ) -> Vec<Self> {
        let texts = |blocks: &[Block]| {
            let texts: Vec<&str> =
                blocks.iter().filter_map(Block::as_text).map(|text| text.as_str()).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        };
        let results = message.blocks.iter().enumerate().filter_map(|(block, content)| {
            let result = content.as_result()?;
            Some(Self {
                timestamp: at,
                tool_call_id: result.call_id.as_ref().map(ToString::to_string),
                tool_name: tool_of(block),
                ..Self::new("tool", Some(texts(&result.content).unwrap_or_default()))
            })
        });
        let mut all: Vec<Self> = results.collect();
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        let text = texts(&message.blocks);
        if message.role != Role::Tool && (text.is_some() || !calls.is_empty() || all.is_empty()) {
            all.push(Self { timestamp: at, tool_calls: calls, ..Self::new(message.role.as_str(), text) });
        }
        all
    }

    /// Recorded messages in the form that bots use.
    fn of_all<'m>(messages: impl Iterator<Item = (Option<Timestamp>, &'m Message)> + Clone) -> Vec<Self> {
        let mut pairing = Pairing::default();
        messages.clone().for_each(|(_, message)| pairing.add(message));
        let all: Vec<&Message> = messages.clone().map(|(_, message)| message).collect();
        let shown = messages.enumerate().flat_map(|(number, (at, message))| {
            Self::of(message, at, |block| {
                let call = pairing.call_of(BlockAt { message: number, block })?;
                Some(all[call.message].blocks[call.block].as_call()?.name.to_string())
            })
        });
        shown.collect()
    }
}

/// Why a turn in a provider's form was not saved.
#[derive(Debug, thiserror::Error)]
pub enum BotError {
    /// The turn cannot be parsed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] EngineError),
}

/// A thread of a channel, with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatThread {
    /// The thread's own id.
    pub thread_id: String,
    /// The channel that it is in.
    pub channel_id: String,
    /// The user who began it.
    pub user_id: String,
    /// The messages to send to a model: every call has its result.
    pub conversation_history: Vec<ConversationMessage>,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The time of the newest message.
    pub last_activity: Timestamp,
}

/// Keeps the conversations of a bot's users in a store.
///
/// ```
/// use std::sync::Arc;
/// use rejoin_engine::{compat::{ConversationMessage, DatabaseService}, open_store};
/// use rejoin_store::{Access, Location};
///
/// let store = open_store(&Location::Memory, Access::Write)?;
/// let service = DatabaseService::new(Arc::from(store));
/// service.save_conversation_turn("alice", "general", "What is 6*7?", "42.")?;
/// let history = service.get_conversation_history("alice", "general", 25)?;
/// assert_eq!(history.len(), 2);
/// assert_eq!(history[1].content.as_deref(), Some("42."));
/// # Ok::<(), rejoin_engine::EngineError>(())
/// ```
pub struct DatabaseService {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The conversation of each scope that was used so far.
    known: Mutex<HashMap<Scope, ConversationId>>,
}

impl std::fmt::Debug for DatabaseService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseService").field("store", &self.store).finish_non_exhaustive()
    }
}

impl DatabaseService {
    /// A service over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with_clock(store, Arc::new(SystemClock))
    }

    /// A service over a store, with the caller's clock.
    pub fn with_clock(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, known: Mutex::default() }
    }

    /// Saves messages of a user in a channel, of all roles, with calls and results, in one step.
    ///
    /// # Errors
    /// If the store cannot be written. Then no message is saved.
    pub fn save_messages(
        &self,
        user: &str,
        channel: &str,
        messages: &[ConversationMessage],
    ) -> Result<(), EngineError> {
        self.save(&of_channel(user, channel), messages)
    }

    /// Saves a person's message and the model's answer, without calls.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn save_conversation_turn(
        &self,
        user: &str,
        channel: &str,
        prompt: &str,
        response: &str,
    ) -> Result<(), EngineError> {
        let turn = [ConversationMessage::user(prompt), ConversationMessage::assistant(response)];
        self.save_messages(user, channel, &turn)
    }

    /// Saves a turn in a provider's form: the list of its new messages, or an object with that list as `messages`. The person's
    /// message is saved first; if the list begins with it, it is saved only once. Returns the messages that were saved.
    ///
    /// # Errors
    /// If `messages` has neither form, or the store cannot be written. Then nothing is saved.
    pub fn save_conversation_with_messages(
        &self,
        (user, channel): (&str, &str),
        dialect: Dialect,
        messages: &str,
        user_prompt: &str,
    ) -> Result<Vec<ConversationMessage>, BotError> {
        let doc = Doc::parse(messages).ok();
        let list =
            doc.as_ref().and_then(Doc::root).and_then(|root| root.given("messages")).map(|list| list.raw());
        let mut turn = vec![ConversationMessage::user(user_prompt)];
        let list = list.unwrap_or(messages);
        let is_empty = |doc: Doc| {
            doc.root().is_some_and(|root| root.kind() == ValueKind::Array && root.items().next().is_none())
        };
        if !Doc::parse(list).is_ok_and(is_empty) {
            let input = Input::new("messages", list.as_bytes()).map_err(ReadError::from)?;
            let sessions = sessions::read(&input, sessions::named(dialect.name()))?;
            let messages: Vec<Arc<Message>> =
                sessions.into_iter().flat_map(|session| session.messages).collect();
            turn.extend(ConversationMessage::of_all(messages.iter().map(|message| (None, &**message))));
            if turn
                .get(1)
                .is_some_and(|first| first.role == "user" && first.content.as_deref() == Some(user_prompt))
            {
                turn.remove(0);
            }
        }
        self.save_messages(user, channel, &turn)?;
        Ok(turn)
    }

    /// The newest messages of a user in a channel, oldest first, ready for a request: every call has its result. There may be more than
    /// `limit`, because a call and its results are never torn apart.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn get_conversation_history(
        &self,
        user: &str,
        channel: &str,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, EngineError> {
        let scope = of_channel(user, channel);
        // Another process may have deleted the known conversation and begun a new one.
        for _ in 0..2 {
            let Some(id) = self.find(&scope)? else { break };
            match self.newest(id, limit) {
                Err(EngineError::Store(StoreError::NotFound(_))) => drop(self.known().remove(&scope)),
                newest => return newest,
            }
        }
        Ok(Vec::new())
    }

    /// Deletes the conversation of a user in a channel. Returns false if there is none.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn clear_conversation_history(&self, user: &str, channel: &str) -> Result<bool, EngineError> {
        let scope = of_channel(user, channel);
        let Some(id) = self.find(&scope)? else { return Ok(false) };
        self.known().remove(&scope);
        match self.store.delete(id) {
            Err(StoreError::NotFound(_)) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    /// Begins a thread, if there is none with this id.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn create_chat_thread(&self, thread: &str, channel: &str, user: &str) -> Result<(), EngineError> {
        if self.thread(thread)?.is_some() {
            return Ok(());
        }
        let scope = Scope { user: user.to_owned(), channel: channel.to_owned(), thread: thread.to_owned() };
        self.save(&scope, &[])
    }

    /// A thread with its whole history; `None` if no thread has this id.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn get_chat_thread(&self, thread: &str) -> Result<Option<ChatThread>, EngineError> {
        let Some(summary) = self.thread(thread)? else { return Ok(None) };
        Ok(Some(ChatThread {
            thread_id: summary.scope.thread,
            channel_id: summary.scope.channel,
            user_id: summary.scope.user,
            conversation_history: self.newest(summary.id, usize::MAX)?,
            created_at: summary.created,
            last_activity: summary.updated,
        }))
    }

    /// Adds messages of any role, with calls and results, to a thread in one step. Existing messages stay, so two updates at the
    /// same time both count.
    ///
    /// # Errors
    /// If there is no such thread, or the store cannot be written.
    pub fn update_thread_history(
        &self,
        thread: &str,
        messages: &[ConversationMessage],
    ) -> Result<(), EngineError> {
        let summary = self.thread(thread)?.ok_or_else(|| EngineError::Unknown(thread.to_owned()))?;
        self.add(summary.id, &summary.scope, messages)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Scope, ConversationId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest conversation of a scope. There are several if a history was imported in addition to the bot's own conversation.
    fn find(&self, scope: &Scope) -> Result<Option<ConversationId>, EngineError> {
        let known = self.known().get(scope).copied();
        if let Some(known) = known {
            return Ok(Some(known));
        }
        let query = Query { limit: Some(1), scope: ScopeFilter::only(scope), ..Query::default() };
        let found = self.store.list(&query)?.conversations.first().map(|summary| summary.id);
        if let Some(found) = found {
            self.known().insert(scope.clone(), found);
        }
        Ok(found)
    }

    fn thread(&self, thread: &str) -> Result<Option<Summary>, EngineError> {
        let scope = ScopeFilter { thread: Some(thread.to_owned()), ..ScopeFilter::OPEN };
        let query = Query { limit: Some(1), scope, ..Query::default() };
        Ok(self.store.list(&query)?.conversations.into_iter().next())
    }

    fn save(&self, scope: &Scope, messages: &[ConversationMessage]) -> Result<(), EngineError> {
        // The id is derived from the scope: two programs that begin the conversation at once begin the same one.
        let new = || ConversationId::derive("scope", scope.to_raw().as_str());
        let id = self.find(scope)?.unwrap_or_else(new);
        self.add(id, scope, messages)
    }

    /// Appends messages, after the header if the conversation is new.
    fn add(
        &self,
        id: ConversationId,
        scope: &Scope,
        messages: &[ConversationMessage],
    ) -> Result<(), EngineError> {
        let mut tail = self.store.tail(id)?;
        for _ in 0..TRIES {
            let mut entries = match tail {
                Some(_) => Vec::new(),
                None => New { scope: scope.clone(), ..New::default() }.entries(id, &*self.clock),
            };
            let mut chain = Chain::at(entries.last().map(Tail::of).or(tail));
            let there = self.there(id, tail, messages)?;
            for message in messages {
                let content = Content::Message(message.to_message());
                let stamp = self.stamp(id, message);
                if !there.contains(&stamp.id) && !entries.iter().any(|entry| entry.id() == stamp.id) {
                    entries.push(chain.append(Kind::Message, &content, stamp));
                }
            }
            if entries.is_empty() {
                return Ok(());
            }
            match self.store.append(id, tail, &entries) {
                Err(StoreError::TailMoved { .. }) => tail = self.store.tail(id)?,
                appended => {
                    appended?;
                    self.known().insert(scope.clone(), id);
                    return Ok(());
                }
            }
        }
        Err(StoreError::TailMoved { expected: tail, found: self.store.tail(id)? }.into())
    }

    /// Id and time of a new entry. The id is derived from the caller's id, if there is one.
    fn stamp(&self, id: ConversationId, message: &ConversationMessage) -> Stamp {
        let given = message.timestamp.map(|time| Text::from(time.to_string()));
        let stamp = stamp(&*self.clock, given);
        match &message.id {
            None => stamp,
            Some(own) => {
                let source_time = stamp.source_time.or_else(|| Some(Text::from(stamp.timestamp.to_string())));
                Stamp { id: EntryId::derive(&id, own, "message"), source_time, ..stamp }
            }
        }
    }

    /// The ids of those messages that are already stored.
    fn there(
        &self,
        id: ConversationId,
        tail: Option<Tail>,
        messages: &[ConversationMessage],
    ) -> Result<HashSet<EntryId>, EngineError> {
        let mut there = HashSet::new();
        if tail.is_none() || messages.iter().all(|message| message.id.is_none()) {
            return Ok(there);
        }
        let wanted: HashSet<EntryId> = messages
            .iter()
            .filter(|message| message.id.is_some())
            .map(|message| self.stamp(id, message).id)
            .collect();
        self.store.each_entry(id, |entry| {
            if wanted.contains(&entry.id()) {
                there.insert(entry.id());
            }
        })?;
        Ok(there)
    }

    /// The newest messages on the path to the head. They begin no later than the calls whose results are among them.
    fn newest(&self, id: ConversationId, limit: usize) -> Result<Vec<ConversationMessage>, EngineError> {
        let (said, first) = self.end_of(id, limit)?;
        let said = &said[first..];
        let history = History::of(said.iter().map(|(_, message)| Arc::clone(message)));
        let view = repair(&history, OnBroken::Keep).view;
        let mut shown: Vec<(Option<Timestamp>, Message)> = Vec::new();
        for item in view.items() {
            let time = said.get(item.index()).and_then(|(time, _)| *time);
            shown.extend(item.to_messages().into_iter().map(|message| (time, message)));
        }
        Ok(ConversationMessage::of_all(shown.iter().map(|(time, message)| (*time, message))))
    }

    /// Messages at the end of the path to the head, and the index of the first one to return. Reads only as many entries as `limit`
    /// messages and the calls of their results need.
    fn end_of(&self, id: ConversationId, limit: usize) -> Result<(Vec<TimedMessage>, usize), EngineError> {
        let tail = self.store.tail(id)?.ok_or(StoreError::NotFound(id))?;
        // Other entries lie between messages, so read a few more at once.
        let mut span = (limit as u64).saturating_mul(4).saturating_add(16);
        loop {
            let from = tail.seq.saturating_sub(span);
            let said = path_from(&*self.store, id, from)?;
            let history = History::of(said.iter().map(|(_, message)| Arc::clone(message)));
            let wanted = said.len().saturating_sub(limit);
            match window_start(&history, wanted) {
                WindowStart::From(first) if first > 0 || from == 0 => return Ok((said, first)),
                // Everything was read: this result has no call at all.
                WindowStart::Unknown(first) if from == 0 => return Ok((said, first)),
                _ => span = span.saturating_mul(4),
            }
        }
    }
}

/// A message and its time.
type TimedMessage = (Option<Timestamp>, Arc<Message>);

/// The messages on the path to the head, as far as it can be followed among the entries from a `seq` on.
fn path_from(store: &dyn Store, id: ConversationId, from: u64) -> Result<Vec<TimedMessage>, EngineError> {
    let mut entries: Vec<Entry> = Vec::new();
    store.read(id, from, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            entries.push(entry);
        }
        ControlFlow::Continue(())
    })?;
    let tree = Tree::new(&entries);
    let path: Vec<&Entry> = if from == 0 {
        tree.path().0
    } else {
        // The parent of the first entry was not read; it is not missing. The path ends here.
        let mut path: Vec<&Entry> =
            std::iter::successors(tree.head(), |entry| tree.get(entry.envelope().parent?)).collect();
        path.reverse();
        path
    };
    let said = path.into_iter().filter_map(|entry| match Content::of(entry) {
        Content::Message(message) => Some((time_of(entry), Arc::new(message))),
        _ => None,
    });
    Ok(said.collect())
}

fn of_channel(user: &str, channel: &str) -> Scope {
    Scope { user: user.to_owned(), channel: channel.to_owned(), thread: String::new() }
}

/// The first message of a window in which no result lacks its call.
enum WindowStart {
    /// At this message.
    From(usize),
    /// A result after this message has no call among the messages; it may be further back.
    Unknown(usize),
}

/// Finds the first message of a window: at or before `from`, and such that no result in it lacks its call.
fn window_start(history: &History, from: usize) -> WindowStart {
    let pairing = Pairing::of(history);
    let mut first = from;
    loop {
        let torn = pairing.paired().filter_map(|result| result.call.filter(|_| result.at.message >= first));
        match torn.map(|call| call.message).filter(|call| *call < first).min() {
            Some(call) => first = call,
            None => break,
        }
    }
    let is_orphan = pairing.paired().any(|result| result.at.message >= first && result.call.is_none());
    if is_orphan { WindowStart::Unknown(first) } else { WindowStart::From(first) }
}
