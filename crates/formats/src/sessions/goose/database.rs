//! Reads goose's database, `sessions.db`.

use std::sync::Arc;

use rejoin_record::json::{Doc, Object, Value};
use rusqlite::Row;

use super::Reading;
use crate::{
    session::{ReadError, Session, SourcePlace},
    sessions::{
        building::{self, SessionBuilder},
        database::{Database, columns},
        message_rows::{FromRows, MessageRows, RowObject},
        registry::{DatabaseReading, Evidence},
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

/// How goose's database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    needs: &[
        ("sessions", &["id", "working_dir"]),
        ("messages", &["session_id", "role", "content_json", "created_timestamp"]),
    ],
    evidence: Evidence::Tables("a table `messages` with `content_json`"),
    tables: "messages schema_version sessions thread_messages threads",
    read,
};

/// Reads every session.
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
    let columns = format!("session_id, created_timestamp, id, role, content_json, {message_id}, {metadata}");
    let rows = MessageRows { columns: &columns, content: "content", known: MESSAGES, write: write_row };
    rows.read(database, &ids, &mut readings)?;
    Ok(readings.into_iter().map(|reading| reading.finish(database.name())).collect())
}

/// Writes a row of `messages` as the object that an export has.
fn write_row<'t>(row: &Row<'_>, object: RowObject<'t>) -> rusqlite::Result<RowObject<'t>> {
    let [_, created, _, role, content, own_id, metadata] = columns(row)?;
    let object = object.text("id", own_id).text("role", role.or(Some("".into()))).number("created", created);
    Ok(object.content("content", content).json("metadata", metadata))
}

impl FromRows for Reading {
    fn take(&mut self, root: Value<'_>, text: &Arc<str>, place: SourcePlace) {
        self.message(root, text, place);
    }

    fn builder(&mut self) -> &mut SessionBuilder {
        &mut self.builder
    }
}
