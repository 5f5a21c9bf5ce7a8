//! `crush`: the database of Crush, `.crush/crush.db`.
//!
//! A row of `messages` is put into one object, `{"id","role","created_at","model","provider","parts":[{"type","data"}…]}`. After a
//! summary, Crush sends the summary as a message of the user and nothing before it.

use std::sync::Arc;

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Object, Value},
};
use rusqlite::Row;

use super::{
    building::{self, SessionBuilder, call, item, medium, opaque, result, text_in, thought},
    database::{Database, columns},
    lines::{text_of, time_of},
    message_rows::{FromRows, MessageRows, RowObject},
    registry::{DatabaseReading, Evidence},
};
use crate::{
    accounting::Known,
    session::{Aside, Detail, ReadError, Session, SourcePlace},
};

/// The name of the format.
pub const FORMAT: &str = "crush";

/// A command that a person ran and its output, which are read as one text; how a request ended, what a tool noted for the display, and the provider's own form of the reasoning.
pub(crate) const KNOWN: &[Known] = &[Known::fields(
    "parts.data.command parts.data.output parts.data.details parts.data.message parts.data.metadata parts.data.responses_data parts.data.data",
)];

/// The columns of `messages` that are read, or that hold no words.
const MESSAGES: &[&str] = &[
    "id",
    "session_id",
    "role",
    "parts",
    "model",
    "provider",
    "created_at",
    "updated_at",
    "finished_at",
    "is_summary_message",
];

/// How Crush's database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    needs: &[
        ("sessions", &["id", "title", "message_count"]),
        ("messages", &["id", "session_id", "role", "parts"]),
    ],
    evidence: Evidence::Tables("a table `messages` with `parts`"),
    tables: "files goose_db_version messages read_files sessions",
    read,
};

/// Reads every session.
fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let [parent, summary] =
        ["parent_session_id", "summary_message_id"].map(|name| database.or_null("sessions", name));
    let [model, provider] = ["model", "provider"].map(|name| database.or_null("messages", name));
    let sql = format!("SELECT id, title, {parent}, {summary} FROM sessions ORDER BY created_at, rowid");
    let (mut readings, mut ids) = (Vec::new(), Vec::new());
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
        readings.push(reading);
        ids.push(id);
    }
    let columns = format!("session_id, created_at, rowid, id, role, parts, {model}, {provider}");
    let rows = MessageRows { columns: &columns, content: "parts", known: MESSAGES, write: write_row };
    rows.read(database, &ids, &mut readings)?;
    let finish = |(id, reading): (&String, Reading)| {
        let context = building::context(reading.model.as_deref());
        reading.builder.finish(database.name(), Some(id), context)
    };
    Ok(ids.iter().zip(readings).map(finish).collect())
}

fn write_row<'t>(row: &Row<'_>, object: RowObject<'t>) -> rusqlite::Result<RowObject<'t>> {
    let [_, created, _, message, role, parts, model, provider] = columns(row)?;
    let object =
        object.text("id", message).text("role", role.or(Some("".into()))).number("created_at", created);
    Ok(object.text("model", model).text("provider", provider).content("parts", parts))
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
}

impl FromRows for Reading {
    fn take(&mut self, root: Value<'_>, text: &Arc<str>, place: SourcePlace) {
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
        let detail = Detail { id, time: root.given("created_at").map(time_of), ..Detail::default() };
        self.builder.say(item(FORMAT, role, blocks, Raw::new(text.clone())), place, detail);
    }

    fn builder(&mut self) -> &mut SessionBuilder {
        &mut self.builder
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
        "shell_command" => Block::text(shell_text(data)),
        "finish" => return None,
        kind => opaque(kind, part),
    })
}

/// A command that a person ran, with its output, as Crush gives it to a model: `$ ls`, the output, `(exit code 0)`.
fn shell_text(data: Value<'_>) -> String {
    let text = |name| text_in(data, name).unwrap_or_else(|| Text::new(""));
    let code = data.given("exit_code").map_or("0", Value::raw);
    format!("$ {}\n{}\n(exit code {code})", text("command"), without_escapes(&text("output")))
}

/// A text without the escape sequences of a terminal.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = match after.as_bytes().first() {
            // A sequence for the display ends with a letter or a sign like it.
            Some(b'[') => {
                let end = after[1..].find(|sign| matches!(sign, '@'..='~'));
                end.map_or("", |end| &after[end + 2..])
            }
            // A title or a link ends with a bell, or with another escape.
            Some(b']') => match after.find(['\u{7}', '\u{1b}']) {
                Some(end) if after[end..].starts_with('\u{7}') => &after[end + 1..],
                Some(end) => after[end + 1..].strip_prefix('\\').unwrap_or(&after[end..]),
                None => "",
            },
            _ => after.char_indices().nth(1).map_or("", |(end, _)| &after[end..]),
        };
    }
    plain.push_str(rest);
    plain
}
