//! Reads goose's database, `sessions.db`.

use rejoin_record::{
    Text,
    json::{Doc, Object, Value, ValueKind, write},
};
use rusqlite::Row;

use super::Reading;
use crate::{
    session::{ReadError, Session},
    sessions::{
        building,
        database::{Database, Item, Others, columns, parse_each},
        registry::DatabaseReading,
        sample::Claim,
    },
};

/// The columns of `messages` that are read, or that hold no words.
const MESSAGES: &[&str] = &[
    "id",
    "message_id",
    "session_id",
    "role",
    "content_json",
    "created_timestamp",
    "timestamp",
    "tokens",
    "metadata_json",
];

const NEEDS: &[(&str, &[&str])] = &[
    ("sessions", &["id", "working_dir"]),
    ("messages", &["session_id", "role", "content_json", "created_timestamp"]),
];

/// How goose's database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    sniff,
    read,
    needs: NEEDS,
    tables: "messages schema_version sessions thread_messages threads",
};

/// Whether a database is goose's.
fn sniff(database: &Database) -> Option<Claim> {
    Claim::sure(database.has_all(NEEDS), "a table `messages` with `content_json`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let named = ["name", "description", "model_config_json", "session_type", "provider_name"];
    let named = named.map(|name| database.or_null("sessions", name)).join(", ");
    let sql = format!("SELECT id, working_dir, {named} FROM sessions ORDER BY rowid");
    let [message_id, metadata] =
        ["message_id", "metadata_json"].map(|name| database.or_null("messages", name));
    let (mut readings, mut ids) = (Vec::new(), Vec::new());
    for [id, directory, name, description, config, kind, provider] in database.rows(&sql, [])? {
        let id = id.unwrap_or_default();
        let mut reading = Reading::new();
        let config = config.filter(|config| Doc::parse(config).is_ok());
        let header = Object::new().text("id", &id).text_if("working_dir", directory);
        let header =
            header.text_if("name", name.filter(|name| !name.is_empty())).text_if("description", description);
        let header = header.text_if("session_type", kind).text_if("provider_name", provider);
        let header = header.raw_if("model_config", config.as_deref()).finish();
        Doc::of(&header).root().into_iter().for_each(|root| reading.header(root, building::nth(0)));
        readings.push(reading);
        ids.push(id);
    }
    let others = database.others("messages", MESSAGES);
    let sql = format!(
        "SELECT session_id, created_timestamp, id, role, content_json, {message_id}, {metadata}{} FROM messages",
        others.sql()
    );
    let mut text = String::new();
    let items = database.by_session(&sql, &ids, |row| item(row, &others, &mut text))?;
    parse_each(
        items,
        |(_, _, item)| &item.text,
        |(session, number, item), root| {
            let (reading, place) = (&mut readings[session], building::nth(number));
            let is_list = |root: &Value<'_>| {
                root.holds("content", ValueKind::Array) && item.is_whole(root.get("content"))
            };
            match root.filter(is_list) {
                Some(root) => reading.message(root, &item.text, place),
                None => {
                    let why = "the content of the message is no JSON list";
                    reading.builder.damaged(place, Text::new(item.column()), why);
                }
            }
        },
    );
    let found: Vec<Session> = readings.into_iter().map(|reading| reading.finish(database.name())).collect();
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}

/// A row of `messages` as the object that an export has, written in a buffer.
fn item(row: &Row<'_>, others: &Others, text: &mut String) -> rusqlite::Result<Item> {
    let [_, created, _, role, content, own_id, metadata] = columns(row)?;
    text.clear();
    text.push('{');
    let field = |text: &mut String, name: &str, value: &str| {
        write::key(text, name);
        write::string(text, value);
    };
    own_id.into_iter().for_each(|id| field(text, "id", &id));
    field(text, "role", &role.unwrap_or_default());
    if let Some(created) = created.filter(|time| time.parse::<f64>().is_ok()) {
        write::key(text, "created");
        text.push_str(&created);
    }
    write::key(text, "content");
    let start = text.len();
    text.push_str(&content.unwrap_or_default());
    let end = text.len();
    if let Some(metadata) = metadata.filter(|metadata| Doc::parse(metadata).is_ok()) {
        write::key(text, "metadata");
        text.push_str(&metadata);
    }
    others.write(row, 7, text)?;
    text.push('}');
    Ok(Item::new(text, start..end))
}
