//! Writes a conversation as a row of `conversations`: its messages are a list in the form of OpenAI Chat.
//!
//! xzatoma keeps neither reasoning nor the times of messages. A failed result is one whose text begins with `Error: `.

use rejoin_record::{
    EntryId,
    json::{Object, list},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView};

use super::{FORMAT, database::UNTITLED};
use crate::{
    session::Session,
    sessions::{
        agents::writing::Clock,
        rows::Rows,
        spoken::{Conversation, MediumSource, Piece, Speaker, SpokenMessage},
        writing::{FileContent, Writing, Written},
    },
    wire::TooLarge,
};

const SCHEMA: &str = include_str!("schema.sql");

/// How the text of a failed result begins.
const FAILED: &str = "Error: ";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let conversation = Conversation::of(session, view, writing)?;
    let doc = conversation.doc();
    let mut clock = Clock::new(session, writing.now);
    let (began, mut findings) = (clock.at(Some(0)), Vec::new());
    let (mut ended, mut messages) = (began, Vec::new());
    for spoken in conversation.spoken(&doc) {
        messages.extend(written(&spoken, &mut findings));
        ended = clock.at(spoken.source);
    }
    drop(doc);
    let title = Some(session.headline()).filter(|title| !title.is_empty());
    let model = writing.model.map(str::to_owned).or_else(|| session.context.model());
    let id = EntryId::derive(&session.id, FORMAT, "conversation").to_string();
    let mut rows = Rows::new(FORMAT, SCHEMA, id.clone());
    rows.add(
        "conversations",
        vec![
            ("id", id.into()),
            ("title", title.unwrap_or_else(|| UNTITLED.to_owned()).into()),
            ("created_at", format!("{began:.3}").into()),
            ("updated_at", format!("{ended:.3}").into()),
            ("model", model.into()),
            ("messages", list(messages).into()),
        ],
    );
    findings.splice(0..0, conversation.into_findings_with_model());
    Ok(Written { content: FileContent::Rows(rows), findings })
}

/// A part of a message.
enum Part {
    Text(String),
    /// An image, as JSON.
    Image(String),
}

/// The messages of xzatoma for what one side said.
fn written(spoken: &SpokenMessage<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let at = spoken.at();
    let role = match spoken.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => return results(spoken, findings),
    };
    let calls = spoken.pieces.iter().filter_map(|piece| match piece {
        Piece::Call { id, name, arguments } => {
            let function = Object::new().text("name", name).text("arguments", arguments);
            Some(Object::new().text("id", id).object("function", function).finish())
        }
        _ => None,
    });
    let calls: Vec<String> = calls.collect();
    let content = parts(&spoken.pieces, at, findings);
    match (content.is_empty(), calls.is_empty()) {
        (true, true) => Vec::new(),
        (_, true) => vec![message(role, &content).finish()],
        _ => vec![message(role, &content).list("tool_calls", calls).finish()],
    }
}

/// Each result is a message, and it is a text. Images follow in a message of the user.
fn results(spoken: &SpokenMessage<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let at = spoken.at();
    let (mut messages, mut shown) = (Vec::new(), Vec::new());
    for piece in &spoken.pieces {
        let Piece::Result { id, content, failed, .. } = piece else { continue };
        let mut said = Vec::new();
        for part in parts(content, at, findings) {
            match part {
                Part::Text(text) => said.push(text),
                image @ Part::Image(_) => {
                    findings.push(Finding::new(Rule::MovedMedia, at, Action::Moved).about(&**id));
                    said.push(String::from("[shown in the next user message]"));
                    shown.extend([Part::Text(format!("[from the result of call {id}]")), image]);
                }
            }
        }
        let mut text = said.join("\n");
        if *failed && !text.starts_with(FAILED) {
            text.insert_str(0, FAILED);
        }
        messages.push(message("tool", &[Part::Text(text)]).text("tool_call_id", id).finish());
    }
    if !shown.is_empty() {
        messages.push(message("user", &shown).finish());
    }
    messages
}

/// The texts and images among some pieces.
fn parts(pieces: &[Piece<'_>], at: Position, findings: &mut Vec<Finding>) -> Vec<Part> {
    let parts = pieces.iter().filter_map(|piece| match piece {
        Piece::Image(medium) => {
            let (media_type, source, value) = match &medium.source {
                MediumSource::Base64 { media_type, data } => (&**media_type, "inline_base64", data),
                MediumSource::Url(url) => ("image/*", "remote_url", url),
            };
            let source = Object::new().text("source", source).text("value", value);
            let image = Object::new().text("type", "image").text("mime_type", media_type);
            let image = image.text_or_null("name", medium.name.as_deref()).object("source", source);
            Some(Part::Image(image.finish()))
        }
        _ => piece.foreign(FORMAT, at, findings).map(Part::Text),
    });
    parts.collect()
}

/// A message. If it has more than one text, or an image, its parts are listed beside the content, which repeats the texts.
fn message(role: &str, parts: &[Part]) -> Object {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image(_) => None,
    });
    let message = Object::new().text("role", role).text("content", texts.collect::<Vec<_>>().join("\n"));
    if let [] | [Part::Text(_)] = parts {
        return message;
    }
    let parts = parts.iter().map(|part| match part {
        Part::Text(text) => Object::new().text("type", "text").text("text", text).finish(),
        Part::Image(image) => image.clone(),
    });
    message.list("content_parts", parts)
}
