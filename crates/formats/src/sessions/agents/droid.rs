//! Droid: `~/.factory/sessions/…/<session>.jsonl`, Anthropic's messages in lines of the type `message`, and the stream that
//! `droid exec` prints, with a `text` in such a line and calls and results in lines of their own.
//!
//! A line of the type `compaction_state` holds the summary that replaces the first messages.

use std::sync::Arc;

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Kind, Value},
};
use rejoin_view::Finding;

use super::parts::{SourceIds, blocks, text_in};
use crate::{
    accounting::Known,
    context::Context,
    input::Stream,
    messages::roles,
    session::{Aside, ReadError, Session},
    sessions::{
        building::{SessionBuilder, as_text, call, item, result},
        lines::{self, Line, LineReader, text_of, time_of},
        sample::{Claim, Sample},
    },
    wire::registry::Dialect,
};

pub(crate) const FORMAT: &str = "droid";

const LOOK_AT: usize = 50;

/// Fields of a line that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields("cwd"),
    // What a compaction says of the machine.
    Known::fields("systemInfo anchorMessage"),
];

/// The types of lines that are not part of the conversation.
const BOOKKEEPING: &str =
    "session_start session_end session_settings todo_state agent_turn_outcome system completion";

/// Whether a text is a session of Droid, or its stream.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_start = |root: Value<'_>| root.says("type", "session_start") && root.holds("id", Kind::String);
    let is_stream = |root: Value<'_>| {
        root.says("type", "message") && root.holds("role", Kind::String) && root.holds("text", Kind::String)
    };
    Claim::sure(sample.any_line(LOOK_AT, is_start), "a line of the type `session_start`")
        .or_else(|| Claim::likely(sample.any_line(LOOK_AT, is_stream), "messages with a `text`"))
}

/// Reads a session, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let (builder, ids) = (SessionBuilder::new(FORMAT), SourceIds::default());
    let mut lines = Lines { builder, ids, model: None, session: None, known: false };
    lines::read(&mut stream, &mut lines)?;
    if !lines.known {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    let context = Context::of_model(Dialect::Anthropic, lines.model.as_deref());
    Ok(vec![lines.builder.finish(stream.name, lines.session.as_deref(), context)])
}

struct Lines {
    builder: SessionBuilder,
    ids: SourceIds,
    model: Option<Text>,
    session: Option<String>,
    known: bool,
}

impl Lines {
    /// What a line says. None if it is not part of the conversation.
    fn said(root: Value<'_>, line: &Line) -> Option<(Role, Vec<Block>)> {
        Some(match &*root.word("type") {
            "message" => match root.given("message") {
                Some(message) => {
                    let role = roles::named(&message.word("role"));
                    let told = blocks(&role, message.get("content"), &line.text, 0);
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
                let told = result(id.as_deref(), None, told.into_iter().collect(), failed);
                (Role::Tool, vec![told])
            }
            "reasoning" => {
                let origin = rejoin_record::Origin::default();
                (Role::Assistant, vec![Block::reasoning(text_in(root, "text")?, false, origin)])
            }
            "compaction_state" => (Role::User, vec![Block::text(text_in(root, "summaryText")?)]),
            _ => return None,
        })
    }

    /// Hides the messages that a summary replaces: as many as it says, or all.
    fn compact(&mut self, line: &Line, root: Value<'_>) {
        let removed =
            root.given("removedCount").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let all = self.builder.messages.len();
        let removed = removed.unwrap_or(all).min(all);
        let kept: Vec<_> = self.builder.messages.split_off(removed);
        let (places, details) =
            (self.builder.places.split_off(removed), self.builder.details.split_off(removed));
        // What stays comes after the summary, so it is added again.
        self.builder.set_aside.iter_mut().for_each(|item| item.after = item.after.min(removed));
        self.builder.replace(line.place);
        self.say(line, root);
        for ((message, place), detail) in kept.into_iter().zip(places).zip(details) {
            self.builder.push(Arc::unwrap_or_clone(message), place, detail);
        }
    }

    fn say(&mut self, line: &Line, root: Value<'_>) {
        let Some((role, told)) = Self::said(root, line) else {
            let known = BOOKKEEPING.split(' ').any(|known| root.says("type", known));
            let text = Text::new(Arc::clone(&line.text));
            return self
                .builder
                .aside(line.place, if known { Aside::Raw(text) } else { Aside::Unknown(text) });
        };
        self.known = true;
        let id = text_of(root, "id").map(|id| format!("{} {id}", root.word("type")));
        let id = id.unwrap_or_else(|| format!("line {}", line.place.index));
        let detail = self.ids.detail(id, &line.text, root.given("timestamp").map(time_of));
        let message = item(FORMAT, role, told, Raw::new(Arc::clone(&line.text)));
        if root.says("visibility", "user_only") {
            return self.builder.hide(message, line.place, detail);
        }
        self.builder.say(message, line.place, detail);
    }
}

impl LineReader for Lines {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        if root.says("type", "session_start") {
            self.session = text_of(root, "id").map(|id| id.to_string()).or(self.session.take());
            if let Some(title) = text_of(root, "sessionTitle").or_else(|| text_of(root, "title")) {
                self.builder.aside(line.place, Aside::Title(title));
            }
        }
        let session = || text_of(root, "session_id").map(|id| id.to_string());
        self.session = self.session.take().or_else(session);
        self.model = text_of(root, "model").or(self.model.take());
        if root.says("type", "compaction_state") && text_of(root, "summaryText").is_some() {
            return self.compact(line, root);
        }
        self.say(line, root);
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        self.builder.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
