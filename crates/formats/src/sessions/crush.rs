//! `crush`: the database of Crush, `.crush/crush.db`.
//!
//! A row of `messages` is put into one object, `{"id","role","created_at","model","provider","parts":[{"type","data"}…]}`. After a
//! summary, Crush sends the summary as a message of the user and nothing before it.

use std::sync::Arc;

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Object, Value, write},
};
use rusqlite::Row;

use super::{
    building::{self, SessionBuilder, call, item, medium, opaque, result, text_in, thought},
    database::{Database, Item, Others, columns, parse_each},
    lines::{text_of, time_of},
    registry::DatabaseReading,
    sample::Claim,
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

const NEEDS: &[(&str, &[&str])] =
    &[("sessions", &["id", "title", "message_count"]), ("messages", &["id", "session_id", "role", "parts"])];

/// How Crush's database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    sniff,
    read,
    needs: NEEDS,
    tables: "files goose_db_version messages read_files sessions",
};

/// Whether a database is Crush's.
fn sniff(database: &Database) -> Option<Claim> {
    Claim::sure(database.has_all(NEEDS), "a table `messages` with `parts`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
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
    let others = database.others("messages", MESSAGES);
    let sql = format!(
        "SELECT session_id, created_at, rowid, id, role, parts, {model}, {provider}{} FROM messages",
        others.sql()
    );
    let mut text = String::new();
    let items = database.by_session(&sql, &ids, |row| object(row, &others, &mut text))?;
    parse_each(
        items,
        |(_, _, item)| &item.text,
        |(session, number, item), root| {
            let (reading, place) = (&mut readings[session], building::nth(number));
            match root.filter(|root| item.is_whole(root.get("parts"))) {
                Some(root) => reading.message(root, &item.text, place),
                None => {
                    let why = "the parts of the message are not JSON";
                    reading.builder.damaged(place, Text::new(item.column()), why);
                }
            }
        },
    );
    let finish = |(id, reading): (&String, Reading)| {
        let context = building::context(reading.model.as_deref());
        reading.builder.finish(database.name(), Some(id), context)
    };
    let found: Vec<Session> = ids.iter().zip(readings).map(finish).collect();
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}

/// A row of `messages` as one object, written in a buffer.
fn object(row: &Row<'_>, others: &Others, text: &mut String) -> rusqlite::Result<Item> {
    let [_, created, _, message, role, parts, model, provider] = columns(row)?;
    text.clear();
    text.push('{');
    let field = |text: &mut String, name: &str, value: &str| {
        write::key(text, name);
        write::string(text, value);
    };
    message.into_iter().for_each(|id| field(text, "id", &id));
    field(text, "role", &role.unwrap_or_default());
    if let Some(created) = created.filter(|time| time.parse::<f64>().is_ok()) {
        write::key(text, "created_at");
        text.push_str(&created);
    }
    model.into_iter().for_each(|model| field(text, "model", &model));
    provider.into_iter().for_each(|provider| field(text, "provider", &provider));
    write::key(text, "parts");
    let start = text.len();
    text.push_str(&parts.unwrap_or_default());
    let end = text.len();
    others.write(row, 8, text)?;
    text.push('}');
    Ok(Item::new(text, start..end))
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

    fn message(&mut self, root: Value<'_>, text: &Arc<str>, place: SourcePlace) {
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
