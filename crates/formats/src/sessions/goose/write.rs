//! Writes a session as rows of goose's database.
//!
//! goose gives its model its own instructions and has no place for others, so those of the conversation become a user message. It
//! asks which provider and model to use unless the session names them; rejoin writes them only if the caller names them.

use rejoin_record::{
    Timestamp,
    hash::short_name,
    json::{Object, list},
};
use rejoin_view::{Finding, Position, SoundView};

use super::FORMAT;
use crate::{
    session::Session,
    sessions::{
        agents::writing::{Clock, as_said},
        rows::Rows,
        spoken::{Conversation, MediumSource, Piece, Speaker, texts},
        writing::{FileContent, Writing, Written},
    },
    wire::TooLarge,
};

const SCHEMA: &str = include_str!("schema.sql");

/// Whether goose asks before a tool runs. The file cannot know what its user has chosen, so it says the careful thing; the mode
/// that the column has by default runs tools without asking.
const MODE: &str = "approve";

/// Both people and the model see a message.
const VISIBLE: &str = "{\"userVisible\":true,\"agentVisible\":true}";

pub(crate) fn write(session: &Session, view: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let conversation = Conversation::of(session, view, writing)?;
    let doc = conversation.doc();
    let mut clock = Clock::new(session, writing.now);
    let (began, mut findings) = (clock.at(Some(0)), Vec::new());
    let id = id_of(session, began);
    let mut messages = Vec::new();
    for spoken in conversation.spoken(&doc) {
        let at = spoken.at();
        let parts: Vec<String> = if spoken.speaker == Speaker::System {
            texts(&spoken.pieces).map(|said| text(&as_said(said))).collect()
        } else {
            spoken.pieces.iter().filter_map(|piece| part(piece, at, &mut findings)).collect()
        };
        if parts.is_empty() {
            continue;
        }
        // goose keeps results in messages of the user.
        let role = if spoken.speaker == Speaker::Assistant { "assistant" } else { "user" };
        messages.push((role, list(parts), clock.at(spoken.source)));
    }
    let ended = messages.last().map_or(began, |(.., time)| *time);
    let mut rows = Rows::new(FORMAT, SCHEMA, id.clone());
    let title = session.title().map(ToString::to_string);
    let model = writing.model.map(|model| Object::new().text("model_name", model).finish());
    rows.add(
        "sessions",
        vec![
            ("id", id.clone().into()),
            ("user_set_name", i64::from(title.is_some()).into()),
            ("name", title.unwrap_or_else(|| session.headline()).into()),
            ("description", "".into()),
            ("session_type", "user".into()),
            ("working_dir", session.directory().unwrap_or_else(|| writing.directory.to_owned()).into()),
            ("created_at", stamp(began).into()),
            ("updated_at", stamp(ended).into()),
            ("extension_data", "{}".into()),
            ("model_config_json", model.into()),
            ("goose_mode", MODE.into()),
        ],
    );
    for (number, (role, content, time)) in messages.into_iter().enumerate() {
        let name = short_name(&format!("{} {id} {number}", session.id), 24);
        rows.add(
            "messages",
            vec![
                ("message_id", format!("msg_{name}").into()),
                ("session_id", id.clone().into()),
                ("role", role.into()),
                ("content_json", content.into()),
                ("created_timestamp", time.as_second().into()),
                ("timestamp", stamp(time).into()),
                ("metadata_json", VISIBLE.into()),
            ],
        );
    }
    drop(doc);
    findings.splice(0..0, conversation.into_findings());
    Ok(Written { content: FileContent::Rows(rows), findings })
}

/// An id in goose's form, a day and a name. goose counts its sessions of a day by the numbers in the ids, so this is none.
fn id_of(session: &Session, began: Timestamp) -> String {
    let name = short_name(&format!("goose {}", session.id), 8).to_lowercase();
    format!("{}_r{name}", began.strftime("%Y%m%d"))
}

/// A time as SQLite's `CURRENT_TIMESTAMP` writes it.
fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn text(text: &str) -> String {
    Object::new().text("type", "text").text("text", text).finish()
}

/// A part of a message of goose. None if goose has no place for it.
fn part(piece: &Piece<'_>, at: Position, findings: &mut Vec<Finding>) -> Option<String> {
    Some(match piece {
        Piece::Text(said) => text(said),
        Piece::Thought { text, signature } => Object::new()
            .text("type", "thinking")
            .text("thinking", text)
            .text("signature", signature.as_deref().unwrap_or_default())
            .finish(),
        Piece::Sealed(data) => Object::new().text("type", "redactedThinking").text("data", data).finish(),
        Piece::Call { id, name, arguments } => {
            let value = Object::new().text("name", name).raw("arguments", arguments);
            let call = Object::new().text("status", "success").object("value", value);
            Object::new().text("type", "toolRequest").text("id", id).object("toolCall", call).finish()
        }
        Piece::Result { id, content, failed, .. } => {
            let content = content.iter().filter_map(|piece| part(piece, at, findings));
            let value = Object::new().list("content", content).flag("isError", *failed);
            let result = Object::new().text("status", "success").object("value", value);
            Object::new().text("type", "toolResponse").text("id", id).object("toolResult", result).finish()
        }
        Piece::Image(image) => match &image.source {
            MediumSource::Base64 { media_type, data } => {
                Object::new().text("type", "image").text("data", data).text("mimeType", media_type).finish()
            }
            MediumSource::Url(_) => text(&piece.foreign(FORMAT, at, findings)?),
        },
        Piece::Document(_) | Piece::Other(_) => text(&piece.foreign(FORMAT, at, findings)?),
    })
}
