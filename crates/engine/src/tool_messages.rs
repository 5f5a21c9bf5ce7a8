//! Results of tools as messages, for agents that run their tools themselves; and replacing a history.
//!
//! A result belongs to the message that asked for it, whenever it arrives. The record keeps the order in which results arrived; a
//! model sees them in the order of the calls.

use std::collections::HashSet;

use rejoin_record::{
    Block, CallId, Content, Entry, EntryId, Hash, Kind, Message, Role, Text, ToolResult, Tree,
    content::Branch,
};
use rejoin_view::OnBroken;

use crate::{
    conversation::{Appended, Conversation, Saved},
    error::EngineError,
};

impl Conversation {
    /// Appends the result of a call under the message that asked for it.
    ///
    /// Results of parallel calls may arrive in any order. Adding the same result again changes nothing and returns the existing
    /// entry. If the conversation continued on another branch, the result goes to the branch of its call, and the head does not
    /// move.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use rejoin_engine::{Conversation, New, SystemClock};
    /// use rejoin_record::{Message, Role, ToolCall};
    ///
    /// let mut conversation = Conversation::in_memory(Arc::new(SystemClock), &New::default());
    /// conversation.say(Message::user("Both, please."));
    /// let calls = vec![ToolCall::new("a", "first", "{}"), ToolCall::new("b", "second", "{}")];
    /// let parent = conversation.say(Message::assistant_with_tools(calls)).entry.id();
    /// conversation.add_tool_message(parent, "b", "the second was faster")?;
    /// conversation.add_tool_message(parent, "a", "the first")?;
    ///
    /// let request = conversation.current_path_as_llm_request_messages();
    /// let ids: Vec<&str> = request[2..].iter().map(|message| message.tool_call_id().unwrap().as_str()).collect();
    /// assert_eq!(ids, ["a", "b"]);
    /// # Ok::<(), rejoin_engine::EngineError>(())
    /// ```
    ///
    /// # Errors
    /// [`EngineError::NoSuchMessage`] if there is no such entry.
    pub fn add_tool_message(
        &mut self,
        parent: EntryId,
        call_id: impl Into<CallId>,
        text: impl Into<Text>,
    ) -> Result<Appended, EngineError> {
        self.add_result(parent, ToolResult::new(call_id, text))
    }

    pub(crate) fn add_result(
        &mut self,
        parent: EntryId,
        mut result: ToolResult,
    ) -> Result<Appended, EngineError> {
        if !self.is_whole() && self.tree().get(parent).is_none() {
            self.need_all();
        }
        let placed = match self.since(parent) {
            Some(since) => {
                name(&mut result, since[0]);
                stored(&since, &result).map_or(ResultPlace::AfterHead, ResultPlace::Stored)
            }
            None => {
                let tree = self.tree();
                let Some(asking) = tree.get(parent) else {
                    return Err(EngineError::NoSuchMessage(parent.to_string()));
                };
                name(&mut result, asking);
                place(&tree, self.head(), asking, &result)
            }
        };
        match placed {
            ResultPlace::Stored(entry) => Ok(Appended { entry: *entry, saved: self.saved().clone() }),
            ResultPlace::AfterHead => Ok(self.say(result.to_message())),
            ResultPlace::OnBranch(under) => {
                let head = self.head_with_hash();
                self.move_head(Some(under));
                let appended = self.say(result.to_message());
                // The result goes to the other branch; move the head back.
                self.move_head(head);
                let back =
                    Content::Branch(Branch { reason: Some(Text::new("a result of another branch came")) });
                let saved = self.append(&back).saved;
                Ok(Appended { saved, ..appended })
            }
        }
    }

    /// The entries from this one to the head, if each follows the one before it. It takes time in their number, which is small in a
    /// turn.
    fn since(&self, from: EntryId) -> Option<Vec<&Entry>> {
        let mut next = self.head()?;
        let mut since = Vec::new();
        for entry in self.entries().iter().rev() {
            if entry.id() != next {
                return None;
            }
            since.push(entry);
            if entry.id() == from {
                since.reverse();
                return Some(since);
            }
            next = entry.envelope().parent?;
        }
        None
    }

    /// The positions in [`Conversation::messages`] of the tool messages with results of a call. It compares only ids, as earlier
    /// agents did; [`rejoin_view::Pairing`] decides which call a result answers.
    pub fn find_tool_results_for_call(&self, call_id: &str) -> Vec<usize> {
        let answers = |message: &Message| {
            message.role == Role::Tool
                && message
                    .tool_results()
                    .any(|result| result.call_id.as_ref().is_some_and(|id| id.as_str() == call_id))
        };
        let messages = self.messages().iter().enumerate();
        messages.filter(|(_, message)| answers(message)).map(|(place, _)| place).collect()
    }

    /// The path to the head as the messages of a request: each result is a message of the role `tool` directly after its call, in
    /// the order of the calls; all else keeps its order. A result without an id becomes labelled text. A call without a result gets
    /// a result that states so. Each repair is logged.
    pub fn current_path_as_llm_request_messages(&self) -> Vec<Message> {
        self.view(OnBroken::Keep).view.to_messages()
    }

    /// Makes these the messages of the conversation. Common messages at the beginning stay; the rest goes to a new branch, and the
    /// old messages are kept.
    pub fn replace_history(&mut self, messages: &[Message]) -> Saved {
        self.replace_unsaved(messages);
        self.save()
    }

    /// Replaces the history in memory only: the next save stores it.
    pub(crate) fn replace_unsaved(&mut self, messages: &[Message]) {
        self.need_all();
        let known = self.messages().iter().zip(messages);
        let same = known.take_while(|(known, message)| ***known == **message).count();
        if self.messages().len() > same {
            let under = match same.checked_sub(1) {
                Some(last) => {
                    self.session().details.get(last).and_then(|detail| detail.id.as_ref()?.parse().ok())
                }
                // They have no message in common: continue after the header.
                None => self.entries().first().map(Entry::id),
            };
            let under = under.and_then(|id| self.entries().iter().find(|entry| entry.id() == id));
            let under = under.map(|entry| (entry.id(), entry.hash()));
            self.move_head(under);
            self.add(&Content::Branch(Branch { reason: Some(Text::new("the history was replaced")) }));
        }
        for message in &messages[same..] {
            self.add(&Content::Message(message.clone()));
        }
    }
}

/// The place of a result.
enum ResultPlace {
    /// It exists already.
    Stored(Box<Entry>),
    /// After the head, which follows the message that asked for it.
    AfterHead,
    /// After this entry, on another branch.
    OnBranch((EntryId, Hash)),
}

/// Sets the tool's name of a result from its call.
fn name(result: &mut ToolResult, asking: &Entry) {
    if let Content::Message(message) = Content::of(asking) {
        let call = message.tool_calls().find(|call| Some(&call.id) == result.call_id.as_ref());
        result.name = call.map(|call| call.name.clone());
    }
}

/// The entry that holds this result, if there is one.
fn stored(entries: &[&Entry], result: &ToolResult) -> Option<Box<Entry>> {
    entries.iter().find(|entry| holds(entry, result)).map(|entry| Box::new(Entry::clone(entry)))
}

fn place(tree: &Tree<'_>, head: Option<EntryId>, asking: &Entry, result: &ToolResult) -> ResultPlace {
    let path = head.and_then(|head| tree.get(head)).map(|head| tree.path_to(head).0).unwrap_or_default();
    if let Some(from) = path.iter().position(|entry| entry.id() == asking.id()) {
        return stored(&path[from..], result).map_or(ResultPlace::AfterHead, ResultPlace::Stored);
    }
    // Place it after the results that the message already has on its branch.
    let mut ours = HashSet::from([asking.id()]);
    let mut last = asking;
    for entry in tree.in_order() {
        let follows = entry.envelope().parent.is_some_and(|parent| ours.contains(&parent));
        let is_result =
            || matches!(Content::of(entry), Content::Message(message) if message.role == Role::Tool);
        if follows && is_result() {
            if holds(entry, result) {
                return ResultPlace::Stored(Box::new(entry.clone()));
            }
            ours.insert(entry.id());
            last = entry;
        }
    }
    ResultPlace::OnBranch((last.id(), last.hash()))
}

fn holds(entry: &Entry, result: &ToolResult) -> bool {
    if entry.envelope().kind != Kind::Message {
        return false;
    }
    let Content::Message(message) = Content::of(entry) else { return false };
    message.blocks.iter().filter_map(Block::as_result).any(|there| there == result)
}
