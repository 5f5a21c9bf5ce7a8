//! Cursor: `agent-transcripts/<session>.jsonl`, one message a line, `{role, message: {content}}`, with Anthropic's blocks.
//!
//! Cursor writes calls and no results here, so a call has none when it is read.

use std::sync::Arc;

use rejoin_record::{
    Raw, Text,
    json::{Kind, Value},
};
use rejoin_view::Finding;

use super::parts::blocks;
use crate::{
    accounting::Known,
    context::Context,
    input::Stream,
    messages::roles,
    session::{Aside, Detail, ReadError, Session},
    sessions::{
        building::{SessionBuilder, item},
        lines::{self, Line, LineReader, text_of, time_of},
        sample::{Claim, Sample},
    },
    wire::registry::Dialect,
};

pub(crate) const FORMAT: &str = "cursor";

const LOOK_AT: usize = 50;

pub(crate) const KNOWN: &[Known] = &[Known::fields("message.usage")];

/// Whether a text is a transcript of Cursor.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::likely(sample.any_line(LOOK_AT, is_message), "lines with a `role` and a `message`")
}

fn is_message(root: Value<'_>) -> bool {
    let spoken = root.get("message").is_some_and(|message| message.get("content").is_some());
    spoken && root.holds("role", Kind::String) && root.get("type").is_none()
}

/// Reads a transcript, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut transcript = Transcript { builder: SessionBuilder::new(FORMAT), model: None };
    lines::read(&mut stream, &mut transcript)?;
    if transcript.builder.messages.is_empty() {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    let context = Context::of_model(Dialect::Anthropic, transcript.model.as_deref());
    Ok(vec![transcript.builder.finish(stream.name, None, context)])
}

struct Transcript {
    builder: SessionBuilder,
    model: Option<Text>,
}

impl LineReader for Transcript {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let raw = || Text::new(Arc::clone(&line.text));
        let message = root.given("message").filter(|_| is_message(root));
        let Some(message) = message else {
            let known = root.says("type", "turn_ended");
            return self
                .builder
                .aside(line.place, if known { Aside::Raw(raw()) } else { Aside::Unknown(raw()) });
        };
        let role = roles::named(&root.word("role"));
        let blocks = blocks(&role, message.get("content"), &line.text, 0);
        self.model = text_of(message, "model").or(self.model.take());
        let time = root.given("timestamp").map(time_of);
        let detail = Detail::of(format!("line {}", line.place.index), time);
        self.builder.say(item(FORMAT, role, blocks, Raw::new(Arc::clone(&line.text))), line.place, detail);
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        self.builder.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
