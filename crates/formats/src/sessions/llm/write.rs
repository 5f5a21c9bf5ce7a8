//! Writes a conversation as a thread: a chain of messages, their parts, and a turn for each answer of the model.
//!
//! `llm` finds a thread by its turns, and continues it with the model of the last one, which has to be a model that it knows.
//! Messages are named by their content, so conversations that begin alike share them.

use std::borrow::Cow;

use rejoin_record::{
    Timestamp, hash,
    json::{Object, quoted},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};
use sha2::{Digest as _, Sha256};

use super::{FORMAT, canonical};
use crate::{
    session::Session,
    sessions::{
        agents::writing::Clock,
        rows::{Cell, Row, Rows},
        spoken::{Conversation, Medium, MediumSource, Piece, Speaker, SpokenMessage},
        writing::{FileContent, Writing, Written},
    },
    wire::{TooLarge, base64},
};

const SCHEMA: &str = include_str!("schema.sql");

/// The longest id of a call that OpenAI takes, in characters. `llm` sends ids as they are.
const LONGEST_ID: usize = 40;

/// The model of a conversation that names none: the one that `llm` uses by default.
const USUAL_MODEL: &str = "gpt-4o-mini";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let conversation = Conversation::of(session, view, writing)?;
    let doc = conversation.doc();
    let mut clock = Clock::new(session, writing.now);
    let began = clock.at(Some(0));
    let thread = ulid(began, 0, &format!("{} thread", session.id));
    let mut chain =
        Chain { rows: Rows::new(FORMAT, SCHEMA, thread.clone()), tip: None, findings: Vec::new() };
    let (mut turns, mut prompt) = (Vec::new(), String::new());
    for spoken in conversation.spoken(&doc) {
        let time = clock.at(spoken.source);
        let parent = chain.tip.clone();
        if !chain.say(&spoken) {
            continue;
        }
        if spoken.speaker == Speaker::Assistant {
            let response = spoken.text();
            turns.push(Turn {
                parent,
                tip: chain.tip.clone(),
                time,
                prompt: std::mem::take(&mut prompt),
                response,
            });
        } else {
            // A prompt is the text of the last message before the answer, unless that is a result.
            prompt = if spoken.speaker == Speaker::User { spoken.text() } else { String::new() };
        }
    }
    drop(doc);
    let Chain { mut rows, tip, mut findings } = chain;
    if turns.is_empty() {
        // Without a turn, the thread would not be found.
        turns.push(Turn {
            parent: tip.clone(),
            tip: tip.clone(),
            time: began,
            prompt,
            response: String::new(),
        });
    }
    let name = Some(session.headline()).filter(|name| !name.is_empty());
    rows.add(
        "threads",
        vec![
            ("id", thread.clone().into()),
            ("name", name.into()),
            ("tip_message_hash", tip.into()),
            ("datetime_utc", stamp(began).into()),
        ],
    );
    let model = writing.model.map(str::to_owned).or_else(|| session.context.model());
    let model = model.unwrap_or_else(|| USUAL_MODEL.to_owned());
    for (number, turn) in turns.into_iter().enumerate() {
        turn.add(&mut rows, &thread, &model, number);
    }
    findings.splice(0..0, conversation.into_findings_with_model());
    Ok(Written { content: FileContent::Rows(rows), findings })
}

/// An answer of the model.
struct Turn {
    /// The last message that was sent.
    parent: Option<String>,
    /// The answer.
    tip: Option<String>,
    time: Timestamp,
    prompt: String,
    response: String,
}

impl Turn {
    fn add(self, rows: &mut Rows, thread: &str, model: &str, number: usize) {
        let id = ulid(self.time, number, thread);
        rows.add(
            "turns",
            vec![
                ("id", id.clone().into()),
                ("thread_id", thread.into()),
                ("parent_message_hash", self.parent.into()),
                ("tip_message_hash", self.tip.into()),
                ("model", model.into()),
                ("datetime_utc", stamp(self.time).into()),
            ],
        );
        if !self.prompt.is_empty() || !self.response.is_empty() {
            let (prompt, response) = (self.prompt.into(), self.response.into());
            rows.add("turn_search", vec![("turn_id", id.into()), ("prompt", prompt), ("response", response)]);
        }
    }
}

/// A chain of messages.
struct Chain {
    rows: Rows,
    /// The name of the last message.
    tip: Option<String>,
    findings: Vec<Finding>,
}

/// A part of a message.
struct Part {
    kind: &'static str,
    tool: Option<String>,
    text: Option<String>,
    /// What is stored besides the text and the attachments.
    fields: Object,
    attachments: Vec<Attachment>,
}

struct Attachment {
    /// The hash of its content, or of its address.
    id: String,
    media_type: String,
    url: Option<String>,
    content: Option<Vec<u8>>,
}

impl Chain {
    /// Adds a message. False if nothing of it can be written.
    fn say(&mut self, spoken: &SpokenMessage<'_>) -> bool {
        let at = spoken.at();
        let role = match spoken.speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::Tool => "tool",
        };
        let findings = &mut self.findings;
        let mut parts: Vec<Part> =
            spoken.pieces.iter().filter_map(|piece| Part::of(piece, at, findings)).collect();
        if parts.is_empty() {
            return false;
        }
        separate(&mut parts);
        let shown: Vec<Part> = parts.iter_mut().flat_map(Part::shown).collect();
        self.add(role, parts);
        if !shown.is_empty() {
            // As llm does it: a result is a text; other tool output is sent as a user message.
            self.add("user", shown);
        }
        true
    }

    fn add(&mut self, role: &str, parts: Vec<Part>) {
        let whole = parts.iter().map(Part::hashed);
        let message = Object::new().text("role", role).list("parts", whole).finish();
        let name = canonical::hash(self.tip.as_deref(), &message);
        let cells = vec![
            ("hash", name.clone().into()),
            ("parent_hash", self.tip.take().into()),
            ("role", role.into()),
        ];
        let mut rows = vec![Row { table: "messages", cells }];
        for (position, part) in parts.into_iter().enumerate() {
            for attachment in &part.attachments {
                self.rows.add_shared(vec![attachment.row()]);
            }
            rows.extend(part.rows(&name, position));
        }
        self.rows.add_shared(rows);
        self.tip = Some(name);
    }
}

/// Ends a text that another text of the message follows: `llm` sends the texts of a message with nothing between them.
fn separate(parts: &mut [Part]) {
    let last = parts.iter().rposition(|part| part.kind == "text").unwrap_or(0);
    let earlier = parts[..last].iter_mut().filter(|part| part.kind == "text");
    for text in earlier.filter_map(|part| part.text.as_mut()).filter(|text| !text.ends_with('\n')) {
        text.push('\n');
    }
}

impl Part {
    /// None if `llm` has no place for the piece.
    fn of(piece: &Piece<'_>, at: Position, findings: &mut Vec<Finding>) -> Option<Self> {
        let part = |kind, text: Option<String>, fields| Self {
            kind,
            tool: None,
            text,
            fields,
            attachments: Vec::new(),
        };
        Some(match piece {
            Piece::Thought { text, signature } => {
                // This is where the plugin for Anthropic looks for it.
                let seal = signature.as_ref().map(|own| {
                    Object::new().object("anthropic", Object::new().text("signature", own)).finish()
                });
                let fields = Object::new().raw_if("provider_metadata", seal.as_deref());
                part("reasoning", Some(text.to_string()), fields)
            }
            Piece::Call { id, name, arguments } => {
                let fields = Object::new().text("name", name).raw("arguments", arguments);
                let short = fitting(id);
                if *short != **id {
                    findings.push(Finding::new(Rule::IllegalId, at, Action::Renamed).about(&**id));
                }
                let call = part("tool_call", None, fields.text("tool_call_id", short));
                Self { tool: Some(name.to_string()), ..call }
            }
            Piece::Result { id, name, content, failed } => {
                let mut attachments = Vec::new();
                let said = content.iter().filter_map(|piece| match piece {
                    Piece::Image(medium) | Piece::Document(medium) => {
                        attachments.push(Attachment::of(medium, piece));
                        findings.push(Finding::new(Rule::MovedMedia, at, Action::Moved).about(&**id));
                        None
                    }
                    _ => piece.foreign(FORMAT, at, findings),
                });
                let output = said.collect::<Vec<_>>().join("\n");
                let fields = Object::new().text("name", name).text("output", output);
                let fields = fields.text("tool_call_id", fitting(id));
                let fields = fields.text_if("exception", failed.then_some("Error"));
                Self { tool: Some(name.clone()), attachments, ..part("tool_result", None, fields) }
            }
            Piece::Image(medium) | Piece::Document(medium) => {
                let attachments = vec![Attachment::of(medium, piece)];
                Self { attachments, ..part("attachment", None, Object::new()) }
            }
            Piece::Text(_) | Piece::Sealed(_) | Piece::Other(_) => {
                part("text", Some(piece.foreign(FORMAT, at, findings)?), Object::new())
            }
        })
    }

    /// Takes the attachments away from a result.
    fn shown(&mut self) -> Vec<Self> {
        if self.kind != "tool_result" {
            return Vec::new();
        }
        let attachments = std::mem::take(&mut self.attachments).into_iter();
        let part = |own| Self {
            kind: "attachment",
            tool: None,
            text: None,
            fields: Object::new(),
            attachments: vec![own],
        };
        attachments.map(part).collect()
    }

    /// The part as its message is hashed.
    fn hashed(&self) -> String {
        let part = self.fields.clone().text("type", self.kind).text_if("text", self.text.as_ref());
        let named =
            |own: &Attachment| Object::new().text("id", &own.id).text("type", &own.media_type).finish();
        part.raw_if("attachment", self.attachments.first().map(named).as_deref()).finish()
    }

    /// The rows that store the part and its attachments.
    fn rows(self, message: &str, position: usize) -> Vec<Row> {
        let name = self.attachments.first().map(|own| Object::new().text("id", &own.id).finish());
        let payload = self.fields.clone().raw_if("attachment", name.as_deref()).finish();
        let cells = vec![
            ("message_hash", message.into()),
            ("position", (position as i64).into()),
            ("type", self.kind.into()),
            ("tool_name", self.tool.into()),
            ("text", self.text.into()),
            ("payload", Some(payload).filter(|payload| payload != "{}").into()),
        ];
        let mut rows = vec![Row { table: "parts", cells }];
        for (order, attachment) in self.attachments.into_iter().enumerate() {
            let cells = vec![
                ("part_id", Cell::NumberOf("parts")),
                ("attachment_id", attachment.id.into()),
                ("order", (order as i64).into()),
            ];
            rows.push(Row { table: "part_attachments", cells });
        }
        rows
    }
}

impl Attachment {
    fn of(medium: &Medium<'_>, piece: &Piece<'_>) -> Self {
        let digest = |bytes: &[u8]| -> String {
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        match &medium.source {
            MediumSource::Base64 { media_type, data } => {
                let content = base64::decode(data.as_bytes()).unwrap_or_default();
                let (id, media_type) = (digest(&content), media_type.to_string());
                Self { id, media_type, url: None, content: Some(content) }
            }
            MediumSource::Url(url) => {
                // As Python writes JSON, with a space before the value.
                let named = Object::new().raw("url", &format!(" {}", ascii(&quoted(url)))).finish();
                let image = matches!(piece, Piece::Image(_));
                // Without a type, `llm` would ask the address for one whenever it is listed.
                let media_type = String::from(if image { "image/png" } else { "application/pdf" });
                Self { id: digest(named.as_bytes()), media_type, url: Some(url.to_string()), content: None }
            }
        }
    }

    fn row(&self) -> Row {
        let cells = vec![
            ("id", self.id.clone().into()),
            ("type", self.media_type.clone().into()),
            ("url", self.url.clone().into()),
            ("content", self.content.clone().map_or(Cell::Null, Cell::Blob)),
        ];
        Row { table: "attachments", cells }
    }
}

/// The id of a call, or a short one in its place.
fn fitting(id: &str) -> Cow<'_, str> {
    if id.chars().count() <= LONGEST_ID {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{}", hash::short_name(id, 24)))
}

/// JSON in which everything that is not ASCII is escaped.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// A time as Python's `isoformat` writes it.
fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// A ULID, ordered by time and then by number, in the digits that `llm` uses. It is deterministic for a seed.
fn ulid(time: Timestamp, number: usize, seed: &str) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let seed = hash::of_bytes(seed.as_bytes());
    let milliseconds = u128::try_from(time.as_millisecond()).unwrap_or(0) & ((1 << 48) - 1);
    let rest = seed.as_bytes()[..6].iter().fold(0, |rest, byte| rest << 8 | u128::from(*byte));
    let bits = milliseconds << 80 | (number as u128 & 0xffff_ffff) << 48 | rest;
    (0..26).rev().map(|place| char::from(DIGITS[(bits >> (5 * place) & 31) as usize])).collect()
}
