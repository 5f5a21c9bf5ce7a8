//! Cursor: `agent-transcripts/<session>.jsonl`, one message per line, `{role, message: {content}}`, with Anthropic's blocks.
//!
//! Cursor writes calls to this file, but no results, so every call is read as unanswered.

use super::parts::blocks;
use crate::sessions::prelude::*;

pub(crate) const FORMAT: &str = "cursor";

pub(crate) const KNOWN: &[Known] = &[Known::fields("message.usage")];

/// Whether a text is a transcript of Cursor.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::likely(sample.any_line(LOOK_AT, is_message), "lines with a `role` and a `message`")
}

fn is_message(root: Value<'_>) -> bool {
    let spoken = root.get("message").is_some_and(|message| message.get("content").is_some());
    spoken && root.holds("role", ValueKind::String) && root.get("type").is_none()
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
        self.builder.damaged_line(line, finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
