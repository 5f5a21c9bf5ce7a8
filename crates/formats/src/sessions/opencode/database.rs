//! Reads opencode's database. Its tables with accounts and credentials are never read.

use std::sync::Arc;

use hashbrown::HashMap;
use rejoin_record::json::{Doc, Kind, Layout, Object};

use super::{read::Reading, sources::item};
use crate::{
    parallel,
    session::{ReadError, Session},
    sessions::{
        building,
        database::{Database, Key, columns, sort},
        sample::Claim,
    },
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
    let (mut readings, mut ids) = (Vec::new(), Vec::new());
    for [id, title, directory, parent, revert] in database.rows(&sql, [])? {
        let id = id.unwrap_or_default();
        let mut reading = Reading::new();
        let info = Object::new().text("id", &id).text_if("parentID", parent).text_if("directory", directory);
        let revert = revert.filter(|revert| Doc::parse(revert).is_ok());
        let info = info.text_if("title", title).raw_if("revert", revert.as_deref()).finish();
        Doc::of(&info).root().into_iter().for_each(|info| reading.info(info));
        readings.push(reading);
        ids.push(id);
    }
    let sql = "SELECT session_id, time_created, id, data FROM message";
    let messages = database.by_session(sql, &ids, |row| {
        let [.., id, data] = columns::<4>(row)?.map(|text| text.unwrap_or_default().into_owned());
        Ok((id, data))
    })?;
    let mut parts = parts(database)?;
    let stored = messages.into_iter().map(|(session, number, (id, data))| {
        let parts = parts.remove(&id).unwrap_or_default();
        Stored { session, number, id, data, parts }
    });
    let messages: Vec<Stored> = stored.collect();
    let composed =
        parallel::filter_map(&messages, |_, message| Some(message.composed(&ids[message.session])));
    for (message, composed) in messages.iter().zip(composed) {
        let (reading, place) = (&mut readings[message.session], building::nth(message.number));
        composed.damaged.into_iter().for_each(|(data, why)| reading.damaged(place, data, why));
        if let Some((text, layout)) = composed.message {
            let doc = layout.into_doc(&text, String::new()).shared_as(&text);
            doc.root().into_iter().for_each(|root| reading.message(root, &text, place));
        }
    }
    let readings = readings.into_iter().filter(|reading| !reading.is_empty());
    let found: Vec<Session> = readings.map(|reading| reading.finish(database.name())).collect();
    if found.is_empty() { Err(ReadError::NoConversation("the database holds no session")) } else { Ok(found) }
}

/// The ids and the data of parts, in order.
type Parts = Vec<([Key; 1], [String; 2])>;

/// The parts of all messages, by the message. A query for each message would take longer.
fn parts(database: &Database) -> Result<HashMap<String, Parts>, ReadError> {
    let mut found: HashMap<String, Parts> = HashMap::new();
    database.each("SELECT id, data, message_id FROM part", [], |row| {
        let [id, data, message] = columns(row)?.map(Option::unwrap_or_default);
        let part = ([Key::of(row, 0)?], [id.into_owned(), data.into_owned()]);
        found.entry_ref(&*message).or_default().push(part);
        Ok(())
    })?;
    found.values_mut().for_each(|parts| sort(parts));
    Ok(found)
}

/// A message as the tables have it.
struct Stored {
    /// The number of its session, and its own.
    session: usize,
    number: usize,
    id: String,
    data: String,
    parts: Parts,
}

/// A message in the form of the export, parsed, and the rows of it that cannot be read.
struct Composed<'m> {
    damaged: Vec<(&'m str, &'static str)>,
    message: Option<(Arc<str>, Layout)>,
}

impl Stored {
    fn composed(&self, session: &str) -> Composed<'_> {
        let own = [("id", self.id.as_str()), ("sessionID", session)];
        let Some(info) = with_ids(&self.data, &own) else {
            let damaged = vec![(&*self.data, "the row of the message holds no JSON object")];
            return Composed { damaged, message: None };
        };
        let (mut parts, mut damaged) = (Vec::new(), Vec::new());
        for (_, [part, data]) in &self.parts {
            let own = [("id", part.as_str()), ("sessionID", session), ("messageID", &self.id)];
            match with_ids(data, &own) {
                Some(part) => parts.push(part),
                None => damaged.push((data.as_str(), "the row of the part holds no JSON object")),
            }
        }
        let text: Arc<str> = Arc::from(item(&info, &parts));
        // It is put together from objects, so that it is JSON.
        let (layout, _) = Layout::parse_prefix(&text);
        Composed { damaged, message: Some((text, layout)) }
    }
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
