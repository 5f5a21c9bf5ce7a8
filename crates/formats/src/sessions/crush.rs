//! `crush`: the database of Crush, `.crush/crush.db`.
//!
//! A row of `messages` is put into one object, `{"id","role","created_at","model","provider","parts":[{"type","data"}…]}`. After a
//! summary, Crush sends the summary as a message of the user and nothing before it.

use std::sync::Arc;

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Doc, Object, Value},
};

use super::{
    building::{self, SessionBuilder, call, item, medium, opaque, result, text_in, thought},
    database::{Database, columns, holds_value},
    lines::{text_of, time_of},
    sample::Claim,
};
use crate::{
    accounting::Known,
    session::{Aside, Detail, Place, ReadError, Session},
};

/// The name of the format.
pub const FORMAT: &str = "crush";

/// How a request ended, what a tool noted for the display, and the provider's own form of the reasoning.
pub(crate) const KNOWN: &[Known] = &[Known::fields(
    "parts.data.details parts.data.message parts.data.metadata parts.data.responses_data parts.data.data",
)];

/// Whether a database is Crush's.
pub(crate) fn sniff(database: &Database) -> Option<Claim> {
    let is_so = database.has("sessions", &["id", "title", "message_count"])
        && database.has("messages", &["id", "session_id", "role", "parts"]);
    Claim::sure(is_so, "a table `messages` with `parts`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
pub(crate) fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let [parent, summary] =
        ["parent_session_id", "summary_message_id"].map(|name| database.or_null("sessions", name));
    let [model, provider] = ["model", "provider"].map(|name| database.or_null("messages", name));
    let sql = format!("SELECT id, title, {parent}, {summary} FROM sessions ORDER BY created_at, rowid");
    let mut found = Vec::new();
    for [id, title, parent, summary] in database.rows(&sql, [])? {
        let id = id.unwrap_or_default();
        let mut reading = Reading::new(summary.filter(|id| !id.is_empty()));
        let header = Object::new().text("id", &id).text_if("parent_session_id", parent);
        let header = header.text_if("title", title.as_ref()).finish();
        reading.builder.aside(building::nth(0), Aside::Raw(Text::from(header)));
        let title = title.filter(|title| !title.trim().is_empty());
        title.into_iter().for_each(|title| {
            reading.builder.aside(building::nth(0), Aside::Title(Text::from(title)));
        });
        let sql = format!(
            "SELECT id, role, parts, created_at, {model}, {provider} FROM messages \
             WHERE session_id = ?1 ORDER BY created_at, rowid"
        );
        let mut number = 0;
        database.each(&sql, [&id], |row| {
            let [message, role, parts, created, model, provider] = columns(row)?;
            let place = building::nth(number);
            number += 1;
            let parts = parts.unwrap_or_default();
            let item = Object::new().text_if("id", message).text("role", role.unwrap_or_default());
            let item =
                item.raw_if("created_at", created.filter(|time| time.parse::<f64>().is_ok()).as_deref());
            let item =
                item.text_if("model", model).text_if("provider", provider).raw("parts", &parts).finish();
            let item = Arc::from(item);
            let doc = Doc::of(&item).shared_as(&item);
            match doc.root().filter(|root| holds_value(*root, "parts", &parts)) {
                Some(root) => reading.message(root, &item, place),
                None => reading.builder.damaged(place, parts, "the parts of the message are not JSON"),
            }
            Ok(())
        })?;
        let context = building::context(reading.model.as_deref());
        found.push(reading.builder.finish(database.name(), Some(&id), context));
    }
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}

struct Reading {
    builder: SessionBuilder,
    model: Option<String>,
    /// The message that everything before it is summarised in.
    summary: Option<String>,
}

impl Reading {
    fn new(summary: Option<String>) -> Self {
        Self { builder: SessionBuilder::new(FORMAT), model: None, summary }
    }

    fn message(&mut self, root: Value<'_>, text: &Arc<str>, place: Place) {
        let id = text_of(root, "id");
        let model = text_of(root, "model").filter(|model| !model.is_empty()).map(|model| model.to_string());
        self.model = model.clone().or(self.model.take());
        let parts = root.get("parts").into_iter().flat_map(Value::items);
        let blocks: Vec<Block> = parts.filter_map(|part| block(part, model.as_deref())).collect();
        let mut role = Role::named(&root.word("role"));
        if self.summary.is_some() && self.summary.as_deref() == id.as_deref() {
            self.builder.replace(place);
            role = Role::User;
        }
        let detail = Detail { id, time: root.given("created_at").map(time_of), pieces: Vec::new() };
        self.builder.say(item(FORMAT, role, blocks, Raw::new(text.clone())), place, detail);
    }
}

/// What a part says. `None` if it says nothing to a model.
fn block(part: Value<'_>, model: Option<&str>) -> Option<Block> {
    let data = part.given("data")?;
    let text = |name| text_in(data, name);
    let filled = |name| text(name).filter(|text: &Text| !text.is_empty());
    Some(match &*part.word("type") {
        "text" => Block::text(filled("text")?),
        "reasoning" => thought(filled("thinking")?, FORMAT, model),
        "image_url" => medium(&text("url")?, Some("image/*"), None),
        "binary" => {
            let (kind, name) = (text("MIMEType"), text("Path"));
            let url = format!("data:{};base64,{}", kind.as_deref().unwrap_or_default(), text("Data")?);
            medium(&url, kind.as_deref(), name.as_deref())
        }
        "tool_call" => call(text("id").as_deref(), text("name").as_deref(), data.get("input")),
        "tool_result" => {
            let is_error = data.get("is_error").and_then(Value::as_bool) == Some(true);
            let mut content = vec![Block::text(text("content").unwrap_or_else(|| Text::new("")))];
            if let (Some(bytes), Some(kind)) = (filled("data"), filled("mime_type")) {
                content.push(medium(&format!("data:{kind};base64,{bytes}"), Some(&kind), None));
            }
            result(text("tool_call_id").as_deref(), text("name").as_deref(), content, is_error)
        }
        "finish" => return None,
        kind => opaque(kind, part),
    })
}
