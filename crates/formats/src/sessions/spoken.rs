//! A conversation taken apart into what each side said, for writers of files that are not made of a provider's messages.
//!
//! It goes through an Anthropic request, so it is as sound as one: every call has its result, and results come before what the
//! user says next.

use std::{borrow::Cow, collections::HashMap};

use rejoin_record::json::{Doc, Value};
use rejoin_view::{Action, Finding, List, Position, Rule, SoundView};

use super::{agents::writing, writing::Writing};
use crate::{
    session::Session,
    wire::{TooLarge, registry::Dialect},
};

/// A conversation as a request, to be taken apart.
pub(super) struct Conversation {
    body: String,
    sources: List<Option<usize>>,
    findings: Vec<Finding>,
}

/// What one side said.
pub(super) struct SpokenMessage<'d> {
    pub speaker: Speaker,
    pub pieces: Vec<Piece<'d>>,
    /// The number of the message in the session.
    pub source: Option<usize>,
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

/// A piece of what was said.
pub(super) enum Piece<'d> {
    Text(Cow<'d, str>),
    /// What the model thought, with its provider's signature.
    Thought {
        text: Cow<'d, str>,
        signature: Option<Cow<'d, str>>,
    },
    /// What the model thought, in a form that only its provider can read.
    Sealed(Cow<'d, str>),
    Call {
        id: Cow<'d, str>,
        name: Cow<'d, str>,
        /// An object, on one line.
        arguments: Cow<'d, str>,
    },
    Result {
        id: Cow<'d, str>,
        /// The tool of the call.
        name: String,
        content: Vec<Self>,
        failed: bool,
    },
    Image(Medium<'d>),
    Document(Medium<'d>),
    /// A block without a counterpart elsewhere, as JSON.
    Other(Value<'d>),
}

/// An image or a document.
pub(super) struct Medium<'d> {
    pub source: MediumSource<'d>,
    pub name: Option<Cow<'d, str>>,
    block: Value<'d>,
}

/// Where the bytes of an image or a document are.
pub(super) enum MediumSource<'d> {
    Base64 { media_type: Cow<'d, str>, data: Cow<'d, str> },
    Url(Cow<'d, str>),
}

impl Conversation {
    pub(super) fn of(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Self, TooLarge> {
        let encoded = writing.encode(session, view, Dialect::Anthropic)?;
        let doc = Doc::of(&encoded.body);
        let own = ["messages", "system", "model", "max_tokens"];
        let findings = match doc.root() {
            Some(body) => writing::findings(session, encoded.findings, body, &own),
            None => encoded.findings,
        };
        Ok(Self { body: encoded.body, sources: encoded.sources, findings })
    }

    pub(super) fn doc(&self) -> Doc<'_> {
        Doc::of(&self.body)
    }

    /// What was said, in order. `doc` is [`Self::doc`].
    pub(super) fn spoken<'d>(&self, doc: &'d Doc<'_>) -> Vec<SpokenMessage<'d>> {
        let Some(body) = doc.root() else { return Vec::new() };
        let mut spoken = Vec::new();
        let mut say = |speaker, pieces: Vec<Piece<'d>>, source| {
            if !pieces.is_empty() {
                spoken.push(SpokenMessage { speaker, pieces, source });
            }
        };
        let mut names = HashMap::new();
        say(Speaker::System, pieces(body.given("system"), &mut names), Some(0));
        let messages = body.get("messages").into_iter().flat_map(Value::items);
        for (message, source) in messages.zip(self.sources.iter().copied()) {
            let pieces = pieces(message.get("content"), &mut names);
            if message.says("role", "assistant") {
                say(Speaker::Assistant, pieces, source);
                continue;
            }
            let (results, said): (Vec<_>, Vec<_>) =
                pieces.into_iter().partition(|piece| matches!(piece, Piece::Result { .. }));
            say(Speaker::Tool, results, source);
            say(Speaker::User, said, source);
        }
        spoken
    }

    /// The findings of the request.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// The same, for a file that keeps the model of the conversation, which a request to another provider does not.
    pub(super) fn into_findings_with_model(self) -> Vec<Finding> {
        let is_model = |finding: &Finding| {
            finding.rule == Rule::ForeignField && finding.subject.as_deref() == Some("model")
        };
        self.findings.into_iter().filter(|finding| !is_model(finding)).collect()
    }
}

/// The pieces of a content: a text, or blocks.
fn pieces<'d>(content: Option<Value<'d>>, names: &mut HashMap<String, String>) -> Vec<Piece<'d>> {
    let Some(content) = content else { return Vec::new() };
    match content.as_str() {
        Some(text) if text.is_empty() => Vec::new(),
        Some(text) => vec![Piece::Text(text)],
        None => content.items().map(|block| piece(block, names)).collect(),
    }
}

fn piece<'d>(block: Value<'d>, names: &mut HashMap<String, String>) -> Piece<'d> {
    match &*block.word("type") {
        "text" => Piece::Text(block.word("text")),
        "thinking" => Piece::Thought {
            text: block.word("thinking"),
            signature: block.given("signature").and_then(Value::as_str).filter(|own| !own.is_empty()),
        },
        "redacted_thinking" => Piece::Sealed(block.word("data")),
        "tool_use" => {
            let (id, name) = (block.word("id"), block.word("name"));
            names.insert(id.clone().into_owned(), name.clone().into_owned());
            let arguments = block.get("input").map_or("{}", Value::raw);
            Piece::Call { id, name, arguments: writing::one_line(arguments) }
        }
        "tool_result" => {
            let id = block.word("tool_use_id");
            let name = names.get(&*id).cloned().unwrap_or_default();
            let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
            Piece::Result { id, name, content: pieces(block.get("content"), names), failed }
        }
        kind @ ("image" | "document") => {
            let Some(source) = block.get("source") else { return Piece::Other(block) };
            let source = match &*source.word("type") {
                "base64" => {
                    MediumSource::Base64 { media_type: source.word("media_type"), data: source.word("data") }
                }
                "url" => MediumSource::Url(source.word("url")),
                "text" => return Piece::Text(source.word("data")),
                _ => return Piece::Other(block),
            };
            let name = block.given("title").and_then(Value::as_str);
            let medium = Medium { source, name, block };
            if kind == "image" { Piece::Image(medium) } else { Piece::Document(medium) }
        }
        _ => Piece::Other(block),
    }
}

impl SpokenMessage<'_> {
    /// The position for findings.
    pub(super) fn at(&self) -> Position {
        self.source.map_or_else(Position::default, Position::message)
    }

    /// The texts of it, one after another.
    pub(super) fn text(&self) -> String {
        texts(&self.pieces).collect()
    }
}

/// The texts among some pieces.
pub(super) fn texts<'p>(pieces: &'p [Piece<'_>]) -> impl Iterator<Item = &'p str> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(&**text),
        _ => None,
    })
}

impl Piece<'_> {
    /// A text for a piece that an agent has no form for, with a finding. None for reasoning, which only its provider understands.
    pub(super) fn foreign(&self, agent: &str, at: Position, findings: &mut Vec<Finding>) -> Option<String> {
        let (kind, raw) = match self {
            Self::Thought { .. } => ("thinking", None),
            Self::Sealed(_) => ("redacted_thinking", None),
            Self::Image(medium) | Self::Document(medium) => match &medium.source {
                MediumSource::Url(url) => ("url", Some(url.to_string())),
                MediumSource::Base64 { .. } => {
                    ("document", Some(writing::one_line(medium.block.raw()).into_owned()))
                }
            },
            Self::Other(block) => ("block", Some(writing::one_line(block.raw()).into_owned())),
            Self::Text(text) => return Some(text.to_string()),
            Self::Call { .. } | Self::Result { .. } => return None,
        };
        let action = if raw.is_some() { Action::Replaced } else { Action::LeftOut };
        let finding = Finding::new(Rule::ForeignBlock, at, action).about(kind);
        let why = match raw {
            Some(_) => format!("{agent} has no such part: it is written as text"),
            None => format!("{agent} has no place for it"),
        };
        findings.push(finding.because(why));
        raw
    }
}
