//! Finds the sessions in an export of opencode, or in its folder of JSON files.
//!
//! The folder is `session/<project>/<session>.json`, `message/<session>/<message>.json` and `part/<message>/<part>.json`; the oldest
//! releases have `session/info`, `session/message` and `session/part`, with the session once more above each message's parts.

use std::collections::BTreeMap;

use rejoin_record::{
    Text,
    json::{Doc, Object, Value, ValueKind},
};

use super::{read::Reading, trajectory};
use crate::{
    input::{Files, Input},
    session::{Aside, ReadError, Session, SourcePlace, replaced_bytes, unreadable_rest},
    sessions::{
        building, lines,
        registry::FilesReading,
        sample::{Claim, Sample},
    },
    wire::render,
};

/// Whether a text is an export or a trajectory.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_export = |root: Value<'_>| {
        let mut messages = root.get("messages").into_iter().flat_map(Value::items);
        let session = root.given("info").is_some_and(|info| info.word("id").starts_with("ses"));
        let spoken = |message: Value<'_>| {
            message.holds("parts", ValueKind::Array)
                && message.get("info").is_some_and(|info| info.word("id").starts_with("msg_"))
        };
        root.holds("messages", ValueKind::Array) && (session || messages.next().is_some_and(spoken))
    };
    let export =
        || Claim::sure(sample.whole().0.root().is_some_and(is_export), "`messages` with `info` and `parts`");
    Claim::sure(trajectory::sniff(sample), "events of a session of opencode").or_else(export)
}

/// Reads the session of an export, or the sessions of a trajectory.
///
/// # Errors
/// If it is neither.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    if trajectory::sniff(&sample) {
        return lines::of_text(input, trajectory::read_stream);
    }
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let Some(root) = doc.root().filter(|root| root.holds("messages", ValueKind::Array)) else {
        let not_json = |error| ReadError::not_json(input, error);
        return Err(error.map_or(ReadError::NoConversation("it is no export of opencode"), not_json));
    };
    let mut reading = Reading::new();
    root.given("info").filter(|info| !info.is_cut()).into_iter().for_each(|info| reading.info(info));
    let is_usual = |key: Value<'_>| matches!(key.as_str().as_deref(), Some("info" | "messages"));
    if root.fields().count() > 2 || !root.fields().all(|(key, _)| is_usual(key)) {
        let around = render::with_field_of(root, "messages", "[]");
        reading.beside(building::nth(0), Aside::Unknown(Text::from(around)));
    }
    let mut count = 0;
    for message in root.get("messages").into_iter().flat_map(Value::items) {
        let place = SourcePlace { offset: message.start(), ..building::nth(count) };
        match message.is_cut() {
            true => reading.cut_off(place, &input.text[message.start()..]),
            false => reading.message(message, &input.text, place),
        }
        count += 1;
    }
    let rest = root.get("messages").and_then(|list| building::rest_after(list, &input.text));
    if let Some(rest) = rest.filter(|_| error.is_some()) {
        let place = SourcePlace { offset: input.text.len() - rest.len(), ..building::nth(count) };
        reading.cut_off(place, rest);
    }
    let mut session = reading.finish(&input.name);
    session.findings.splice(0..0, replaced_bytes(input));
    session.findings.extend(error.map(|error| unreadable_rest(input, error, count.saturating_sub(1))));
    Ok(vec![session])
}

/// The files of one session.
#[derive(Default)]
struct Stored<'f> {
    info: Option<&'f str>,
    /// The message's id and the path of its file.
    messages: Vec<(&'f str, &'f str)>,
}

/// The sessions in a storage folder, and the files with the parts of each message.
fn stored<'f>(files: &'f dyn Files) -> (BTreeMap<&'f str, Stored<'f>>, BTreeMap<&'f str, Vec<&'f str>>) {
    let mut sessions: BTreeMap<&str, Stored<'_>> = BTreeMap::new();
    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in files.paths() {
        let Some(inside) = path.strip_prefix("storage/").unwrap_or(path).strip_suffix(".json") else {
            continue;
        };
        let names: Vec<&str> = inside.split('/').collect();
        match names[..] {
            ["message", session, message] | ["session", "message", session, message] => {
                sessions.entry(session).or_default().messages.push((message, path));
            }
            ["part", message, _] | ["session", "part", _, message, _] => {
                parts.entry(message).or_default().push(path);
            }
            ["session", _, session] => sessions.entry(session).or_default().info = Some(path),
            _ => {}
        }
    }
    (sessions, parts)
}

/// The folder in which older versions keep every session.
pub(crate) const STORAGE: FilesReading =
    FilesReading { root: folder_of, owns, sniff: sniff_files, read: read_files };

/// The storage folder that a file is a message in.
fn folder_of(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/')?;
    let (folder, session) = folder.rsplit_once('/')?;
    if !(name.starts_with("msg_") && session.starts_with("ses_")) {
        return None;
    }
    let root = folder.strip_suffix("message")?;
    let is_inside = |root: &&str| root.is_empty() || root.ends_with('/');
    root.strip_suffix("session/").filter(is_inside).or(Some(root)).filter(is_inside)
}

/// Whether a file of a storage folder belongs to it.
fn owns(path: &str) -> bool {
    let is_known = |folder| {
        matches!(folder, "message" | "part" | "permission" | "project" | "todo" | "share")
            || matches!(folder, "session" | "session_diff" | "session_share")
    };
    path.split_once('/').is_some_and(|(folder, _)| is_known(folder)) || path == "migration"
}

/// Whether files are a storage folder.
fn sniff_files(files: &dyn Files) -> Option<Claim> {
    let is_message = |path: &String| {
        let path = path.strip_prefix("storage/").unwrap_or(path);
        let path = path.strip_prefix("session/").unwrap_or(path);
        path.starts_with("message/ses_") && path.contains("/msg_")
    };
    Claim::sure(files.paths().iter().any(is_message), "files `message/ses_…/msg_….json`")
}

/// Reads every session of a storage folder.
///
/// # Errors
/// If there is none.
fn read_files(files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    let (sessions, parts) = stored(files);
    let mut found = Vec::new();
    for (id, stored) in sessions {
        let mut reading = Reading::new();
        reading.named(id);
        if let Some(text) = stored.info.and_then(|path| text_of_file(files, path)) {
            match Doc::parse(&text) {
                Ok(doc) => doc.root().into_iter().for_each(|info| reading.info(info)),
                Err(error) => reading.damaged(building::nth(0), &text, error.reason()),
            }
        }
        // The time of each message decides; its id grows with time too.
        let mut messages = Vec::new();
        for (message, path) in stored.messages {
            let text = text_of_file(files, path).unwrap_or_default();
            let time = Doc::parse(&text).ok().and_then(|doc| {
                let time = doc.root()?.get("time")?.get("created")?;
                time.raw().parse::<f64>().ok()
            });
            messages.push((time, message, text));
        }
        messages.sort_by(|(one, one_id, _), (other, other_id, _)| {
            one.unwrap_or(f64::MAX).total_cmp(&other.unwrap_or(f64::MAX)).then(one_id.cmp(other_id))
        });
        for (number, (time, message, info)) in messages.into_iter().enumerate() {
            let place = building::nth(number);
            if time.is_none() && Doc::parse(&info).is_err() {
                reading.damaged(place, &info, "the file of the message is not JSON");
                continue;
            }
            let mut own = Vec::new();
            for path in parts.get(message).into_iter().flatten() {
                let text = text_of_file(files, path).unwrap_or_default();
                match Doc::parse(&text) {
                    Ok(_) => own.push(text),
                    Err(error) => reading.damaged(place, &text, error.reason()),
                }
            }
            reading.message_text(&item(&info, &own), place);
        }
        if !reading.is_empty() {
            found.push(reading.finish(files.name()));
        }
    }
    if found.is_empty() { Err(ReadError::NoConversation("no session is stored there")) } else { Ok(found) }
}

fn text_of_file(files: &dyn Files, path: &str) -> Option<String> {
    files.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A message in the form of the export.
fn item(info: &str, parts: &[String]) -> String {
    Object::new().raw("info", info.trim()).list("parts", parts).finish()
}
