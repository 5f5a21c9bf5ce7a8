//! Reads opencode's database. Its tables with accounts and credentials are never read.

use rejoin_record::json::{Doc, Kind, Object};

use super::{read::Reading, sources::item};
use crate::{
    session::{ReadError, Session},
    sessions::{building, database::Database, sample::Claim},
};

/// Whether a database is opencode's.
pub(crate) fn sniff(database: &Database) -> Option<Claim> {
    let is_so = database.has("session", &["id", "project_id", "directory", "title"])
        && database.has("message", &["id", "session_id", "data"])
        && database.has("part", &["id", "message_id", "data"]);
    Claim::sure(is_so, "the tables `session`, `message` and `part`")
}

/// Reads every session.
///
/// # Errors
/// If the database cannot be read, or holds none.
pub(crate) fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let [parent, revert] = ["parent_id", "revert"].map(|name| database.or_null("session", name));
    let sql = format!("SELECT id, title, directory, {parent}, {revert} FROM session ORDER BY rowid");
    let mut found = Vec::new();
    for [id, title, directory, parent, revert] in database.rows(&sql, [])? {
        let id = id.unwrap_or_default();
        let mut reading = Reading::new();
        let info = Object::new().text("id", &id).text_if("parentID", parent).text_if("directory", directory);
        let revert = revert.filter(|revert| Doc::parse(revert).is_ok());
        let info = info.text_if("title", title).raw_if("revert", revert.as_deref()).finish();
        Doc::of(&info).root().into_iter().for_each(|info| reading.info(info));
        let sql = "SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id";
        for (number, [message, data]) in database.rows(sql, [&id])?.into_iter().enumerate() {
            let (message, data) = (message.unwrap_or_default(), data.unwrap_or_default());
            let place = building::nth(number);
            let own = [("id", message.as_str()), ("sessionID", id.as_str())];
            let Some(info) = with_ids(&data, &own) else {
                reading.damaged(place, &data, "the row of the message holds no JSON object");
                continue;
            };
            let mut parts = Vec::new();
            let sql = "SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id";
            for [part, data] in database.rows(sql, [&message])? {
                let (part, data) = (part.unwrap_or_default(), data.unwrap_or_default());
                let own = [("id", part.as_str()), ("sessionID", &id), ("messageID", &message)];
                match with_ids(&data, &own) {
                    Some(part) => parts.push(part),
                    None => reading.damaged(place, &data, "the row of the part holds no JSON object"),
                }
            }
            reading.message_text(&item(&info, &parts), place);
        }
        if !reading.is_empty() {
            found.push(reading.finish(database.name()));
        }
    }
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}

/// The object of a row with the ids that are columns, as the export has them. `None` if it is no object.
fn with_ids(data: &str, ids: &[(&str, &str)]) -> Option<String> {
    let doc = Doc::parse(data).ok()?;
    let root = doc.root().filter(|root| root.kind() == Kind::Object)?;
    let missing = ids.iter().filter(|(name, _)| root.get(name).is_none());
    let mut own = missing.fold(Object::new(), |object, (name, id)| object.text(name, id)).finish();
    let fields = root.raw().strip_prefix('{')?;
    if own == "{}" || fields.trim() == "}" {
        return Some(if own == "{}" { root.raw().to_owned() } else { own });
    }
    own.pop();
    Some(format!("{own},{fields}"))
}
