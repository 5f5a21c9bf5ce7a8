//! `turns`: one turn per line, `{timestamp, items, metadata}`, with Responses items. A compaction is a separate line,
//! `{timestamp, summary, truncatedCount}`.

use rejoin_record::{
    Message, Text, Timestamp,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Rule, SoundView};

use super::{
    lines::{self, Line, LineReader, at, text_of, time_of},
    sample::{Claim, Sample},
    writing::{Writing, Written},
};
use crate::{
    context::Context,
    input::Stream,
    session::{Aside, ReadError, Session, instant},
    wire::openai_responses::read::{Assembler, Source, is_said_by_a_person},
    wire::{TooLarge, registry::Dialect, render},
};

/// The dialect of the items.
pub const DIALECT: Dialect = Dialect::OpenAiResponses;

/// The name of the format.
pub const FORMAT: &str = "turns";

/// The number of lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// The fields of a turn.
const AROUND: &[&str] = &["timestamp", "items", "metadata", "id", "turn_id", "truncatedCount"];

/// Whether a text looks like turns.
pub fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_turn = |root: Value<'_>| root.holds("items", ValueKind::Array) && root.get("timestamp").is_some();
    Claim::likely(sample.any_line(LOOK_AT, is_turn), "lines with `items` and a `timestamp`")
}

/// Reads the conversation in a file of turns, line by line.
///
/// # Errors
/// If the file has no conversation, or cannot be read.
pub fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut turns = Turns { assembler: Assembler::new(FORMAT), provider: None, model: None, known: false };
    lines::read(&mut stream, &mut turns)?;
    if !turns.known {
        return Err(ReadError::NoConversation("no line of it is a turn"));
    }
    let context = Context::of_model(DIALECT, turns.model.as_deref());
    Ok(vec![turns.assembler.into_session(stream.name, None, context)])
}

struct Turns {
    assembler: Assembler,
    provider: Option<Text>,
    model: Option<Text>,
    known: bool,
}

impl LineReader for Turns {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let time = root.given("timestamp").map(time_of);
        let items = root.get("items").filter(|items| items.kind() == ValueKind::Array);
        let summary = text_of(root, "summary");
        if items.is_none() && summary.is_none() {
            let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::SetAside);
            self.assembler.aside(line.place, Aside::Unknown(Text::new(line.text.clone())));
            return self.assembler.session.findings.push(finding.because("it is not a turn"));
        }
        self.known = true;
        if let Some(metadata) = root.given("metadata") {
            self.provider = text_of(metadata, "provider").or(self.provider.take());
            self.model = text_of(metadata, "model").or(self.model.take());
            self.assembler.set_model(self.model.clone());
        }
        if let (Some(summary), None) = (summary, items) {
            // The words of people stay, and the summary comes after them.
            self.assembler.aside(line.place, Aside::Raw(Text::new(line.text.clone())));
            self.assembler.compact(line.place, is_said_by_a_person, Text::new(""));
            if !summary.is_blank() {
                self.assembler.push_message(Message::user(summary), line.place, time);
            }
            return;
        }
        // The rest of the line is kept once, with an empty list in place of its items.
        let around = Text::from(render::with_field_of(root, "items", "[]"));
        let known = |(key, _): (Value<'_>, Value<'_>)| AROUND.iter().any(|name| key.is_str(name));
        let known = root.fields().all(known);
        self.assembler.aside(line.place, if known { Aside::Raw(around) } else { Aside::Unknown(around) });
        for item in items.into_iter().flat_map(Value::items) {
            let source = Source::of(item, &line.text, line.place, time.clone());
            self.assembler.add_or_report(item, &source, at(line.place));
        }
        // The next turn begins with another speaker, or is another answer.
        self.assembler.flush();
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.assembler.aside(line.place, Aside::Raw(Text::new(line.text.clone())));
        self.assembler.session.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.assembler.session.findings.push(finding);
    }
}

/// Writes the view of a session as turns.
///
/// # Errors
/// If something in it is larger than OpenAI accepts.
pub fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let InTurns { turns, model, now, findings } = InTurns::of(session, view, writing)?;
    let metadata = model.map(|model| Object::new().text("model", model).finish());
    let mut text = String::new();
    for items in turns {
        let turn = Object::new().text("timestamp", now).list("items", items);
        text.push_str(&turn.raw_if("metadata", metadata.as_deref()).finish());
        text.push('\n');
    }
    Ok(Written::text(text, findings))
}

/// A conversation in turns, each of which begins with a user's message: what formats that store turns are written from.
pub(super) struct InTurns {
    /// The Responses items of each turn, as JSON without line breaks.
    pub turns: Vec<Vec<String>>,
    /// The model that continues the conversation, or else the one that led it.
    pub model: Option<String>,
    /// The time of the last message, or else of the writing.
    pub now: Timestamp,
    /// What had to be changed.
    pub findings: Vec<Finding>,
}

impl InTurns {
    /// Divides the view of a session into turns.
    pub fn of(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Self, TooLarge> {
        let model = writing.model.map(str::to_owned);
        let encoded = writing.encode(session, view, DIALECT)?;
        let doc = Doc::of(&encoded.body);
        let body = doc.root();
        let known = session.details.iter().rev().find_map(|detail| instant(detail.time.as_ref()?));
        let message = |role: &str, text: &str| {
            Object::new().text("type", "message").text("role", role).text("content", text).finish()
        };
        let instructions = body.and_then(|body| body.given("instructions")).and_then(Value::as_str);
        let mut turn: Vec<String> = instructions.map(|text| message("system", &text)).into_iter().collect();
        let mut turns = Vec::new();
        let mut answered = false;
        let input = body.and_then(|body| body.get("input"));
        for item in input.into_iter().flat_map(Value::items) {
            let role = item.get("role").and_then(Value::as_str);
            if role.as_deref() == Some("user") && answered {
                turns.push(std::mem::take(&mut turn));
                answered = false;
            }
            answered |= role.as_deref() != Some("user") && role.as_deref() != Some("system");
            turn.push(item.raw().replace(['\n', '\r'], " "));
        }
        turn.extend(input.and_then(Value::as_str).map(|text| message("user", &text)));
        turns.push(turn);
        turns.retain(|turn| !turn.is_empty());
        Ok(Self {
            turns,
            model: model.or_else(|| session.context.model()),
            now: known.unwrap_or(writing.now),
            findings: encoded.findings,
        })
    }
}
