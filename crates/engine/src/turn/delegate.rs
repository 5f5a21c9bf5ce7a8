//! Delegation: a call hands a task to a new conversation with the same provider, store and approvals.
//!
//! The two conversations are linked both ways before the new one starts: the parent's `change` entry names the child, and the
//! child's `meta` entry names the call. So if either process is killed, each conversation names the other, and both can be resumed.

use std::sync::Arc;

use rejoin_record::{
    Content, ConversationId, Raw,
    content::{CallAt, Meta},
    json::Object,
};
use rejoin_store::Store;

use super::{Ending, Event, Limits, Stop, TurnInProgress, TurnInput, TurnSettings, Worker};
use crate::{
    agent,
    clock::{Clock, conversation_id},
    conversation::Conversation,
    provider::{BoxFuture, Provider},
    tools::{LiveOutput, ToolOutput, Tools, delegate},
    writer::New,
};

/// How many delegations may lead to a conversation, so that a model cannot delegate without end.
const DEPTH: u8 = 3;

/// The most requests that a delegated task may take.
const REQUESTS: u32 = 30;

/// Starts the conversation of a delegated task.
pub struct Delegation {
    child: ConversationId,
    parent: ConversationId,
    at: CallAt,
    directory: Option<String>,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn Clock>,
    provider: Arc<dyn Provider>,
    tools: Tools,
    settings: TurnSettings,
    depth: u8,
}

impl std::fmt::Debug for Delegation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delegation({} to {})", self.parent, self.child)
    }
}

impl Worker {
    /// The context that a call needs to delegate a task.
    pub(super) fn delegation(&self, running: &TurnInProgress<'_>, at: CallAt) -> Delegation {
        let clock = Arc::clone(self.conversation.clock());
        let limits = self.limits_left(running);
        Delegation {
            child: conversation_id(&*clock),
            parent: self.conversation.id(),
            at,
            directory: self.conversation.directory(),
            store: self.conversation.store().cloned(),
            clock,
            provider: Arc::clone(&self.provider),
            tools: self.tools.clone(),
            settings: TurnSettings {
                limits: Limits { requests: limits.requests.min(REQUESTS), ..limits },
                ..self.settings.clone()
            },
            depth: self.depth + 1,
        }
    }
}

impl Delegation {
    /// The conversation of the task.
    pub fn child(&self) -> ConversationId {
        self.child
    }

    /// Works on a task until it is done, and returns the final answer. `tools` names the tools that the task may use; `None` means
    /// all of the parent's.
    pub fn work<'a>(
        &'a self,
        task: &'a str,
        tools: Option<&'a [String]>,
        live: &'a LiveOutput,
        stop: &'a Stop,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let tools = match self.tools_for(tools) {
                Ok(tools) => tools,
                Err(output) => return output,
            };
            let mut worker =
                Worker::new(self.begin(), Arc::clone(&self.provider), tools, self.settings.clone());
            worker.depth = self.depth;
            let mut sink = |event: Event| match event {
                Event::ApprovalWanted(_) | Event::Warning(_) => live.send(event),
                Event::CallStarted { name, arguments, .. } => live.show(&format!("→ {name} {arguments}\n")),
                Event::Text(text) => live.show(&text),
                Event::NotSaved(warning) => live.show(&format!("\nwarning: {warning}\n")),
                _ => {}
            };
            let turned = worker.turn(TurnInput::from(task), &mut sink, stop).await;
            let child = self.child;
            match turned {
                Ok(outcome) if outcome.ending == Ending::Done => {
                    ToolOutput::of(format!("{}\n[from conversation {child}]", outcome.response))
                }
                Ok(outcome) => {
                    let why = match outcome.ending {
                        Ending::Limit(limit) => limit.to_string(),
                        _ => String::from("it was stopped"),
                    };
                    ToolOutput::error(format!(
                        "{}\n[the task is not finished: {why}; conversation {child} has what was done]",
                        outcome.response
                    ))
                }
                Err(error) => ToolOutput::error(format!(
                    "[the task is not finished: {error}; conversation {child} has what was done]"
                )),
            }
        })
    }

    /// The tools of the task. A conversation at the greatest depth cannot delegate.
    fn tools_for(&self, names: Option<&[String]>) -> Result<Tools, ToolOutput> {
        let unknown = names.unwrap_or_default().iter().find(|name| self.tools.get(name).is_none());
        if let Some(unknown) = unknown {
            let known: Vec<String> =
                self.tools.declarations().iter().map(|tool| tool.name.to_string()).collect();
            let known = known.join(", ");
            return Err(ToolOutput::error(format!("there is no tool `{unknown}`; there are: {known}")));
        }
        Ok(self.tools.only(|name| {
            (self.depth < DEPTH || name != delegate::NAME)
                && names.is_none_or(|names| names.iter().any(|wanted| wanted == name))
        }))
    }

    /// The child's conversation, linked to the call.
    fn begin(&self) -> Conversation {
        let new = New { directory: self.directory.clone(), ..agent::of(&*self.provider) };
        let clock = Arc::clone(&self.clock);
        let store = self.store.clone().unwrap_or_else(agent::memory);
        let mut conversation = Conversation::begin_as(self.child, store, clock, &new, "delegate");
        let from = Object::new()
            .text("conversation", self.parent)
            .text("entry", self.at.entry)
            .number("block", self.at.block);
        let scope = Object::new().object("delegated_by", from).finish();
        conversation.append(&Content::Meta(Meta { scope: Some(Raw::new(scope)), ..Meta::default() }));
        conversation
    }
}
