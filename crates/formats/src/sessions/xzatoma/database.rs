//! The tables of the database. A row that cannot be read spoils only itself.

use std::sync::Arc;

use hashbrown::HashMap;
use rejoin_record::{
    Text,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};
use rusqlite::Row;

use super::{FORMAT, message};
use crate::{
    context::Context,
    messages::{MessageReader, ReadMessage, Style},
    session::{Aside, Detail, ReadError, Session, SetAside, SourcePlace},
    sessions::{
        building::SessionBuilder,
        database::{self, Database, Key, sort},
        registry::{DatabaseReading, Evidence},
        sample::Claim,
    },
    wire::registry::Dialect,
};

pub(super) const READING: DatabaseReading = DatabaseReading {
    evidence: Evidence::Sniffed(sniff),
    read,
    needs: &[("conversations", &CONVERSATIONS)],
    tables: "acp_run_events acp_runs acp_sessions acp_stdio_sessions conversations schema_version",
};

const CONVERSATIONS: [&str; 6] = ["id", "title", "created_at", "updated_at", "model", "messages"];

/// The title of a conversation that has none.
pub(super) const UNTITLED: &str = "New Conversation";

fn sniff(database: &Database) -> Option<Claim> {
    let has_all = database.has("conversations", &CONVERSATIONS);
    let has_runs = database.has("acp_runs", &["run_id", "input_json", "output_json"]);
    Claim::sure(has_all && has_runs, "the tables `conversations` and `acp_runs`")
        .or_else(|| Claim::likely(has_all, "a table `conversations` with `title`, `model` and `messages`"))
}

fn read(database: &Database) -> Result<Vec<Session>, ReadError> {
    let mut found = Found { name: database.name(), sessions: Vec::new(), spoiled: Vec::new() };
    found.conversations(database)?;
    found.runs(database)?;
    found.into_sessions()
}

/// A row: its columns by name, those without a value left out. One of them may be a whole conversation, which is not copied again.
type Columns = Vec<(&'static str, Arc<str>)>;

/// The columns of conversations that a newer release may have added, as an object for each conversation, by its id.
fn other_columns(database: &Database) -> Result<HashMap<String, String>, ReadError> {
    let others = database.others("conversations", &CONVERSATIONS);
    let mut found = HashMap::new();
    if others.is_empty() {
        return Ok(found);
    }
    let sql = format!("SELECT id{} FROM conversations", others.sql());
    database.each(&sql, [], |row| {
        let [id] = database::columns(row)?;
        let mut object = String::from("{");
        others.write(row, 1, &mut object)?;
        object.push('}');
        found.insert(id.unwrap_or_default().into_owned(), object);
        Ok(())
    })?;
    Ok(found)
}

/// The rows of a table with these columns, or none if there is no such table. They are in the order of two of the columns.
fn rows(
    database: &Database,
    table: &str,
    columns: &'static [&'static str],
    order: [&str; 2],
) -> Result<Vec<Columns>, ReadError> {
    let mut rows = Vec::new();
    if database.has(table, columns) {
        let sql = format!("SELECT {}, {} FROM {table}", order.join(", "), columns.join(", "));
        database.each(&sql, [], |row| {
            rows.push(([Key::of(row, 0)?, Key::of(row, 1)?], columns_of(row, columns, order.len())?));
            Ok(())
        })?;
    }
    sort(&mut rows);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn columns_of(row: &Row<'_>, columns: &'static [&'static str], first: usize) -> rusqlite::Result<Columns> {
    let mut values = Vec::with_capacity(columns.len());
    for (place, name) in columns.iter().enumerate() {
        values.extend(database::column(row, first + place)?.map(|value| (*name, Arc::from(&*value))));
    }
    Ok(values)
}

fn column<'c>(row: &'c Columns, name: &str) -> Option<&'c str> {
    shared(row, name).map(|value| &**value)
}

fn shared<'c>(row: &'c Columns, name: &str) -> Option<&'c Arc<str>> {
    row.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
}

/// A row as a JSON object, without columns that are read.
fn object(row: &Columns, without: &[&str]) -> Text {
    let kept = row.iter().filter(|(name, _)| !without.contains(name));
    Text::from(kept.fold(Object::new(), |object, (name, value)| object.text(name, value)).finish())
}

/// Rows by the value of one of their columns.
fn by<'r>(rows: &'r [Columns], name: &str) -> HashMap<&'r str, Vec<&'r Columns>> {
    let mut found: HashMap<&str, Vec<&Columns>> = HashMap::new();
    for row in rows {
        found.entry(column(row, name).unwrap_or_default()).or_default().push(row);
    }
    found
}

fn nowhere() -> SourcePlace {
    SourcePlace { index: 0, offset: 0, line: None }
}

struct Found<'d> {
    name: &'d str,
    sessions: Vec<Session>,
    /// Rows that hold no conversation, and why.
    spoiled: Vec<(Text, Finding)>,
}

impl Found<'_> {
    fn spoil(&mut self, row: &Columns, id: &str, why: &str) {
        let finding = Finding::new(Rule::DamagedEntry, Position::default(), Action::SetAside);
        self.spoiled.push((object(row, &[]), finding.about(id).because(why)));
    }

    fn conversations(&mut self, database: &Database) -> Result<(), ReadError> {
        const STDIO: &[&str] = &["session_id", "workspace_root", "conversation_id", "provider_type", "model"];
        let editors = rows(database, "acp_stdio_sessions", STDIO, ["session_id"; 2])?;
        let editors = by(&editors, "conversation_id");
        let others = other_columns(database)?;
        for row in rows(database, "conversations", &CONVERSATIONS, ["created_at", "id"])? {
            let id = column(&row, "id").unwrap_or_default();
            let messages = shared(&row, "messages").map_or_else(|| Arc::from(""), Arc::clone);
            let (doc, error) = Doc::parse_prefix(&messages);
            let doc = doc.shared_as(&messages);
            let Some(list) = doc.root().filter(|list| list.kind() == ValueKind::Array) else {
                self.spoil(&row, id, "its `messages` are no list");
                continue;
            };
            let mut builder = SessionBuilder::new(FORMAT);
            builder.aside(nowhere(), Aside::Raw(object(&row, &["messages"])));
            if let Some(others) = others.get(id) {
                builder.aside(nowhere(), Aside::Unknown(Text::new(others.as_str())));
            }
            for editor in editors.get(id).into_iter().flatten() {
                builder.aside(nowhere(), Aside::Raw(object(editor, &[])));
            }
            if let Some(title) = column(&row, "title").filter(|title| *title != UNTITLED && !title.is_empty())
            {
                builder.aside(nowhere(), Aside::Title(Text::new(title)));
            }
            let model = column(&row, "model").filter(|model| !model.is_empty());
            let mut reader = MessageReader::new(Style::ToolCalls, model.map(Text::new));
            let mut end = 0;
            for (index, value) in list.items().enumerate() {
                let place = SourcePlace { index, offset: value.start(), line: None };
                let read = Some(value).filter(|value| !value.is_cut());
                match read.and_then(|value| message::stored(&mut reader, value, &messages, index)) {
                    Some(ReadMessage { message, findings }) => {
                        builder.push(message, place, Detail::default());
                        builder.findings.extend(findings);
                    }
                    // The last one, which is not whole; see below.
                    None if value.is_cut() => break,
                    None => {
                        builder.aside(place, Aside::Unknown(Text::new(value.raw())));
                        let at = Position::message(index);
                        let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
                        builder.findings.push(finding.because("it is not a message"));
                    }
                }
                end = value.end();
            }
            if let Some(error) = error {
                let place = SourcePlace { index: list.items().count(), offset: end, line: None };
                builder.aside(place, Aside::Raw(Text::new(&messages[end..])));
                let at = Position::message(place.index);
                let finding = Finding::new(Rule::DamagedEntry, at, Action::SetAside);
                builder
                    .findings
                    .push(finding.because(format!("{}, and nothing after it can be read", error.reason())));
            }
            let context = Context::of_model(Dialect::OpenAiChat, model);
            self.sessions.push(builder.finish(self.name, Some(id), context));
        }
        Ok(())
    }

    /// Runs that came in over HTTP. Each began with an empty history, and nothing of what happened in between is stored.
    fn runs(&mut self, database: &Database) -> Result<(), ReadError> {
        const RUNS: &[&str] = &[
            "run_id",
            "session_id",
            "mode",
            "state",
            "created_at",
            "completed_at",
            "failure_reason",
            "cancellation_reason",
            "await_kind",
            "await_detail",
            "input_json",
            "output_json",
            "metadata_json",
        ];
        const EVENTS: &[&str] = &["run_id", "sequence", "kind", "created_at", "payload_json"];
        let titles = rows(database, "acp_sessions", &["session_id", "title"], ["session_id"; 2])?;
        let titles = by(&titles, "session_id");
        let events = rows(database, "acp_run_events", EVENTS, ["run_id", "sequence"])?;
        let events = by(&events, "run_id");
        for row in rows(database, "acp_runs", RUNS, ["created_at", "run_id"])? {
            let id = column(&row, "run_id").unwrap_or_default();
            let mut builder = SessionBuilder::new(FORMAT);
            builder.aside(nowhere(), Aside::Raw(object(&row, &["input_json", "output_json"])));
            let session = titles.get(column(&row, "session_id").unwrap_or_default());
            let title = session.and_then(|rows| column(rows.first()?, "title"));
            title.into_iter().for_each(|title| builder.aside(nowhere(), Aside::Title(Text::new(title))));
            for name in ["input_json", "output_json"] {
                let Some(json) = column(&row, name) else { continue };
                let (doc, error) = Doc::parse_prefix(json);
                let root = doc.root().filter(|_| error.is_none());
                let list = root.map(|root| root.get("messages").unwrap_or(root));
                let Some(list) = list.filter(|list| list.kind() == ValueKind::Array) else {
                    builder.aside(nowhere(), Aside::Raw(Text::new(json)));
                    let finding = Finding::new(Rule::DamagedEntry, Position::default(), Action::SetAside);
                    builder.findings.push(finding.about(name).because("it is no list of messages"));
                    continue;
                };
                list.items().for_each(|value| run_message(&mut builder, value));
            }
            for event in events.get(id).into_iter().flatten() {
                builder.aside(nowhere(), Aside::Raw(object(event, &[])));
            }
            if builder.messages.is_empty() {
                self.spoil(&row, id, "the run holds no message");
                continue;
            }
            let context = Context::of_model(Dialect::OpenAiChat, None);
            self.sessions.push(builder.finish(self.name, Some(&format!("run\n{id}")), context));
        }
        Ok(())
    }

    fn into_sessions(mut self) -> Result<Vec<Session>, ReadError> {
        let none = ReadError::NoConversation("no row of its tables holds a conversation");
        let first = self.sessions.first_mut().ok_or(none)?;
        let (rows, findings): (Vec<Text>, Vec<Finding>) = self.spoiled.into_iter().unzip();
        let aside = |row| SetAside { place: nowhere(), after: 0, what: Aside::Raw(row) };
        first.set_aside.splice(0..0, rows.into_iter().map(aside));
        first.findings.extend(findings);
        Ok(self.sessions)
    }
}

fn run_message(builder: &mut SessionBuilder, value: Value<'_>) {
    let index = builder.messages.len() + builder.set_aside.len();
    let place = SourcePlace { index, offset: value.start(), line: None };
    match message::of_run(value) {
        Some(message) => builder.say(message, place, Detail::default()),
        None => {
            builder.aside(place, Aside::Unknown(Text::new(value.raw())));
            let finding = Finding::new(Rule::DamagedEntry, Position::message(index), Action::SetAside);
            builder.findings.push(finding.because("it is not a message"));
        }
    }
}
