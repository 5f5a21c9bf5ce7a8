//! Reads opencode's database. Its tables with accounts and credentials are never read.

use std::sync::Arc;

use hashbrown::HashMap;
use rejoin_record::json::{Doc, Layout, Object, Value, ValueKind, write};

use super::read::Reading;
use crate::{
    parallel,
    session::{ReadError, Session},
    sessions::{
        building,
        database::{Database, Key, columns, sort},
        registry::{DatabaseReading, Evidence},
    },
};

/// How opencode's database is read.
pub(crate) const DATABASE: DatabaseReading = DatabaseReading {
    needs: &[
        ("session", &["id", "project_id", "directory", "title"]),
        ("message", &["id", "session_id", "data"]),
        ("part", &["id", "message_id", "data"]),
    ],
    evidence: Evidence::Tables("the tables `session`, `message` and `part`"),
    tables: "account account_state control_account credential event event_sequence message migration part permission project \
             session session_context_epoch session_entry session_input session_message session_share todo workspace",
    read,
};

/// Reads every session.
fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
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
    let composed = parallel::filter_map_with(&messages, |buffer, _, message| {
        Some(message.composed(&ids[message.session], buffer))
    });
    let mut buffer = String::new();
    for (message, composed) in messages.iter().zip(composed) {
        let (reading, place) = (&mut readings[message.session], building::nth(message.number));
        composed.damaged.into_iter().for_each(|(data, why)| reading.damaged(place, data, why));
        if let Some((text, layout)) = composed.message {
            let doc = layout.into_doc(&text, buffer).shared_as(&text);
            doc.root().into_iter().for_each(|root| reading.message(root, &text, place));
            (_, buffer) = doc.into_layout();
        }
    }
    keep_newer_messages(database, &ids, &messages, &mut readings)?;
    let readings = readings.into_iter().filter(|reading| !reading.is_empty());
    Ok(readings.map(|reading| reading.finish(database.name())).collect())
}

/// Keeps the rows of a newer table of messages, for sessions that have none in the older one: the mapping to a conversation is not
/// known.
fn keep_newer_messages(
    database: &Database,
    ids: &[String],
    messages: &[Stored],
    readings: &mut [Reading],
) -> Result<(), ReadError> {
    if !database.has("session_message", &["session_id", "time_created", "data"]) {
        return Ok(());
    }
    let sql = "SELECT session_id, time_created, rowid, data FROM session_message";
    let newer = database.by_session(sql, ids, |row| {
        let [.., data] = columns::<4>(row)?.map(|text| text.unwrap_or_default().into_owned());
        Ok(data)
    })?;
    let is_read: hashbrown::HashSet<usize> = messages.iter().map(|message| message.session).collect();
    for (session, number, data) in newer.into_iter().filter(|(session, ..)| !is_read.contains(session)) {
        let why = "the row is in the table `session_message`, which rejoin does not read yet";
        readings[session].unread(building::nth(number), &data, why);
    }
    Ok(())
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
    /// Puts the message together in a buffer.
    fn composed(&self, session: &str, out: &mut String) -> Composed<'_> {
        let info = Doc::of(&self.data);
        let Some(info) = object(&info) else {
            let damaged = vec![(&*self.data, "the row of the message holds no JSON object")];
            return Composed { damaged, message: None };
        };
        let parts = self.parts.iter().map(|(_, [id, data])| (id, data, Doc::of(data)));
        let (parts, damaged): (Vec<_>, Vec<_>) = parts.partition(|(.., doc)| object(doc).is_some());
        let damaged = damaged.into_iter();
        let damaged =
            damaged.map(|(_, data, _)| (&**data, "the row of the part holds no JSON object")).collect();
        let parts = parts.iter().filter_map(|(id, _, doc)| Some((id, object(doc)?)));
        out.clear();
        Object::append(out, |message| {
            let ids = [("id", self.id.as_str()), ("sessionID", session)];
            message.with("info", |out| write_with_ids(out, info, &ids)).with("parts", |out| {
                write::list(out, parts, |out, (id, part)| {
                    let ids = [("id", id.as_str()), ("sessionID", session), ("messageID", &self.id)];
                    write_with_ids(out, part, &ids);
                });
            })
        });
        let text: Arc<str> = Arc::from(out.as_str());
        // It is put together from objects, so that it is JSON.
        let (layout, _) = Layout::parse_prefix(&text);
        Composed { damaged, message: Some((text, layout)) }
    }
}

/// The object of a row.
fn object<'d>(row: &'d Doc<'_>) -> Option<Value<'d>> {
    row.root().filter(|root| root.kind() == ValueKind::Object)
}

/// Writes the object of a row with the ids that are columns, as the export has them.
fn write_with_ids(out: &mut String, row: Value<'_>, ids: &[(&str, &str)]) {
    let missing = ids.iter().filter(|(name, _)| row.get(name).is_none());
    Object::append(out, |object| {
        missing.fold(object, |object, (name, id)| object.text(name, id)).fields(row)
    });
}
