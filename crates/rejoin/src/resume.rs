//! The state of a conversation when it is resumed: its size, its damage, and the calls without a result.

use rejoin_engine::{provider::Endpoint, summary, turn::Worker};
use rejoin_record::{Content, ConversationId, EntryId, Message, content::CallAt, json::Object};
use rejoin_store::{SessionState, Store};
use rejoin_view::Rule;

/// A tool call without a result.
#[derive(Debug)]
pub struct OpenCall {
    /// The tool.
    pub name: String,
    /// Its arguments, as the model wrote them.
    pub arguments: String,
    /// Whether rejoin has this tool, so that the call can run again. It lacks most tools of other agents.
    pub can_run: bool,
}

/// The state of a conversation.
#[derive(Debug)]
pub struct Resumption {
    /// The conversation.
    pub id: ConversationId,
    /// Its state in the store.
    pub state: SessionState,
    /// The number of calls that have no result and no recorded decision.
    pub unanswered: usize,
    /// The number of messages that a model would see.
    pub messages: usize,
    /// The number of places that cannot be read.
    pub damaged: usize,
    /// The readable calls among them.
    pub calls: Vec<OpenCall>,
}

impl Resumption {
    /// Examines the conversation that a worker would continue.
    #[must_use]
    pub fn of(worker: &mut Worker, store: Option<&dyn Store>) -> Self {
        let id = worker.conversation().id();
        let state = store.and_then(|store| summary(store, id).ok()).map(|summary| summary.state);
        // Findings that follow from damage are not counted again.
        let damaged = worker.damaged().iter().filter(|finding| finding.rule == Rule::DamagedEntry).count();
        Self {
            id,
            state: state.unwrap_or_default(),
            unanswered: worker.unanswered().len(),
            messages: worker.shown_messages(),
            damaged,
            calls: open_calls(worker),
        }
    }

    /// The state as a JSON object, with the endpoint that answered last.
    #[must_use]
    pub fn to_json(&self, endpoint: &Endpoint) -> String {
        let call = |call: &OpenCall| {
            Object::new().text("name", &call.name).text("arguments", &call.arguments).finish()
        };
        Object::new()
            .text("type", "resumed")
            .text("id", self.id)
            .text("state", self.state.word())
            .count("unanswered_calls", self.unanswered)
            .count("messages", self.messages)
            .count("damaged", self.damaged)
            .list("calls", self.calls.iter().map(call))
            .text("provider", &endpoint.provider)
            .text("model", &endpoint.model)
            .finish()
    }
}

/// The calls that have no result and no recorded decision.
fn open_calls(worker: &mut Worker) -> Vec<OpenCall> {
    let open = worker.unanswered();
    let tools = worker.tools().clone();
    let entries = worker.conversation().entries();
    // Calls of one message follow each other, so look up each message only once.
    let mut read: Option<(EntryId, Message)> = None;
    let call = |at: &CallAt| {
        if read.as_ref().is_none_or(|(entry, _)| *entry != at.entry) {
            let entry = entries.iter().rfind(|entry| entry.id() == at.entry)?;
            let Content::Message(message) = Content::of(entry) else { return None };
            read = Some((at.entry, message));
        }
        let (_, message) = read.as_ref()?;
        let call = message.blocks.get(usize::try_from(at.block).ok()?)?.as_call()?;
        Some(OpenCall {
            name: call.name.to_string(),
            arguments: call.arguments.text().to_string(),
            can_run: tools.get(&call.name).is_some(),
        })
    };
    open.iter().filter_map(call).collect()
}
