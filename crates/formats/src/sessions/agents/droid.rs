//! Droid: `~/.factory/sessions/…/<session>.jsonl`, with Anthropic's messages in lines of the type `message`. It also reads the
//! stream that `droid exec` prints: there, such a line has a `text`, and calls and results are separate lines.
//!
//! A line of the type `compaction_state` holds the summary that replaces the first messages.

use std::collections::VecDeque;

use super::{
    entries::{Entries, Entry},
    parts::blocks,
};
use crate::sessions::prelude::*;

pub(crate) const FORMAT: &str = "droid";

/// Fields of a line that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields("cwd"),
    // The description of the machine in a compaction.
    Known::fields("systemInfo anchorMessage"),
];

/// The types of lines that are not part of the conversation.
const BOOKKEEPING: &str =
    "session_start session_end session_settings todo_state agent_turn_outcome system completion";

/// Whether a text is a session of Droid, or its stream.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_start =
        |root: Value<'_>| root.says("type", "session_start") && root.holds("id", ValueKind::String);
    let is_stream = |root: Value<'_>| {
        root.says("type", "message")
            && root.holds("role", ValueKind::String)
            && root.holds("text", ValueKind::String)
    };
    Claim::sure(sample.any_line(LOOK_AT, is_start), "a line of the type `session_start`")
        .or_else(|| Claim::likely(sample.any_line(LOOK_AT, is_stream), "messages with a `text`"))
}

/// Reads a session, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut entries = Entries::read(&mut stream)?;
    let order = Order::of(&entries);
    let mut builder = SessionBuilder::new(FORMAT);
    builder.findings = std::mem::take(&mut entries.findings);
    let mut reader = SessionReader { builder, model: None, session: None };
    let mut visible = vec![false; entries.all.len()];
    order.visible.iter().for_each(|index| visible[*index] = true);
    let mut others = (0..entries.all.len()).filter(|index| !visible[*index]).peekable();
    // A compaction hides everything before it.
    if let Some(compaction) = order.compaction {
        while let Some(index) = others.next_if(|index| *index < compaction) {
            reader.tell(&entries.all[index], true);
        }
        let place = entries.all[compaction].place;
        reader.builder.aside(place, Aside::Compacted { summary: Text::new("") });
    }
    for &index in &order.visible {
        while let Some(other) = others.next_if(|other| *other < index) {
            reader.tell(&entries.all[other], true);
        }
        let from = reader.builder.messages.len();
        reader.tell(&entries.all[index], false);
        if order.compaction == Some(index) {
            reader.builder.came_with_compaction(from, Some(from));
        }
    }
    others.for_each(|index| reader.tell(&entries.all[index], true));
    if !order.known {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    let context = Context::of_model(Dialect::Anthropic, reader.model.as_deref());
    Ok(vec![reader.builder.finish(stream.name, reader.session.as_deref(), context)])
}

/// The lines that a model sees, in the order in which it sees them.
#[derive(Default)]
struct Order {
    visible: VecDeque<usize>,
    /// The last line with a summary.
    compaction: Option<usize>,
    known: bool,
}

impl Order {
    fn of(entries: &Entries) -> Self {
        let mut order = Self::default();
        for (index, entry) in entries.all.iter().enumerate() {
            entry.look(|root| {
                role_and_blocks(root, entry)?;
                order.known = true;
                if root.says("type", "compaction_state") {
                    // The summary replaces as many of the first messages as the line states, or all of them.
                    let all = order.visible.len();
                    let count = root.given("removedCount").and_then(Value::as_u64);
                    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(all);
                    order.visible.drain(..count.min(all));
                    order.visible.push_front(index);
                    order.compaction = Some(index);
                } else if !root.says("visibility", "user_only") {
                    order.visible.push_back(index);
                }
                Some(())
            });
        }
        order
    }
}

/// The role and the blocks of a line. `None` if it is not part of the conversation.
fn role_and_blocks(root: Value<'_>, entry: &Entry) -> Option<(Role, Vec<Block>)> {
    Some(match &*root.word("type") {
        "message" => match root.given("message") {
            Some(message) => {
                let role = roles::named(&message.word("role"));
                let told = blocks(&role, message.get("content"), &entry.text, 0);
                (role, told)
            }
            None => (roles::named(&root.word("role")), vec![Block::text(text_in(root, "text")?)]),
        },
        "tool_call" => {
            let name = text_of(root, "toolName").or_else(|| text_of(root, "toolId"));
            let id = text_of(root, "id").filter(|id| !id.is_empty());
            (Role::Assistant, vec![call(id.as_deref(), name.as_deref(), root.get("parameters"))])
        }
        "tool_result" => {
            let id = text_of(root, "id").filter(|id| !id.is_empty());
            let failed = root.get("isError").and_then(Value::as_bool).unwrap_or(false);
            let value = root.given("value").or_else(|| root.given("error"));
            let told = value.map(|value| Block::text(value.to_text(0).unwrap_or_else(|| as_text(value))));
            (Role::Tool, vec![result(id.as_deref(), None, told.into_iter().collect(), failed)])
        }
        "reasoning" => {
            let origin = rejoin_record::Origin::default();
            (Role::Assistant, vec![Block::reasoning(text_in(root, "text")?, false, origin)])
        }
        "compaction_state" => (Role::User, vec![Block::text(text_in(root, "summaryText")?)]),
        _ => return None,
    })
}

struct SessionReader {
    builder: SessionBuilder,
    model: Option<Text>,
    session: Option<String>,
}

impl SessionReader {
    /// Adds the message of a line, or sets the line aside if it has none.
    fn tell(&mut self, entry: &Entry, hidden: bool) {
        let text = || Text::new(Arc::clone(&entry.text));
        let doc = Doc::of(&entry.text).shared_as(&entry.text);
        let Some(root) = doc.root().filter(|_| !entry.damaged) else {
            return self.builder.aside(entry.place, Aside::Raw(text()));
        };
        if root.says("type", "session_start") {
            self.session = text_of(root, "id").map(|id| id.to_string()).or(self.session.take());
            if let Some(title) = text_of(root, "sessionTitle").or_else(|| text_of(root, "title")) {
                self.builder.aside(entry.place, Aside::Title(title));
            }
        }
        let session = || text_of(root, "session_id").map(|id| id.to_string());
        self.session = self.session.take().or_else(session);
        // The name of a model that the user configured is not one that a provider knows.
        let own = root.given("message").and_then(|message| text_of(message, "modelId"));
        let model = text_of(root, "model").or(own).filter(|model| !model.as_str().starts_with("custom:"));
        self.model = model.or(self.model.take());
        let Some((role, told)) = role_and_blocks(root, entry) else {
            let known = BOOKKEEPING.split(' ').any(|known| root.says("type", known));
            let aside = if known { Aside::Raw(text()) } else { Aside::Unknown(text()) };
            return self.builder.aside(entry.place, aside);
        };
        let id = text_of(root, "id").map(|id| format!("{} {id}", root.word("type")));
        let id = id.unwrap_or_else(|| format!("line {}", entry.place.index));
        let detail = Detail::of(id, root.given("timestamp").map(time_of));
        let message = item(FORMAT, role, told, Raw::new(Arc::clone(&entry.text)));
        match hidden {
            true => self.builder.hide(message, entry.place, detail),
            false => self.builder.say(message, entry.place, detail),
        }
    }
}
