//! Reads goose's database, `sessions.db`.

use rejoin_record::json::{Doc, Kind, Object, Value};

use super::Reading;
use crate::{
    session::{ReadError, Session},
    sessions::{
        building,
        database::{Database, columns, holds_value},
        sample::Claim,
    },
};

/// Whether a database is goose's.
pub(crate) fn sniff(database: &Database) -> Option<Claim> {
    let is_so = database.has("sessions", &["id", "working_dir"])
        && database.has("messages", &["session_id", "role", "content_json", "created_timestamp"]);
    Claim::sure(is_so, "a table `messages` with `content_json`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
pub(crate) fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let named = ["name", "description", "model_config_json", "session_type", "provider_name"];
    let named = named.map(|name| database.or_null("sessions", name)).join(", ");
    let sql = format!("SELECT id, working_dir, {named} FROM sessions ORDER BY rowid");
    let [message_id, metadata] =
        ["message_id", "metadata_json"].map(|name| database.or_null("messages", name));
    let mut found = Vec::new();
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
        let sql = format!(
            "SELECT role, content_json, created_timestamp, {message_id}, {metadata} FROM messages \
             WHERE session_id = ?1 ORDER BY created_timestamp, id"
        );
        let mut number = 0;
        database.each(&sql, [&id], |row| {
            let [role, content, created, own_id, metadata] = columns(row)?;
            let place = building::nth(number);
            number += 1;
            let content = content.unwrap_or_default();
            let metadata = metadata.filter(|metadata| Doc::parse(metadata).is_ok());
            let message = Object::new().text_if("id", own_id).text("role", role.unwrap_or_default());
            let message =
                message.raw_if("created", created.filter(|time| time.parse::<f64>().is_ok()).as_deref());
            let message = message.raw("content", &content).raw_if("metadata", metadata.as_deref()).finish();
            let buffer = std::sync::Arc::from(message);
            let doc = Doc::of(&buffer).shared_as(&buffer);
            let is_list = |root: &Value<'_>| {
                root.holds("content", Kind::Array) && holds_value(*root, "content", &content)
            };
            match doc.root().filter(is_list) {
                Some(root) => reading.message(root, &buffer, place),
                None => {
                    reading.builder.damaged(place, content, "the content of the message is no JSON list");
                }
            }
            Ok(())
        })?;
        found.push(reading.finish(database.name()));
    }
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}
