//! Databases, which are made here: a conversation in turns of a question, a call, its result and an answer.
//!
//! Reading one, from opening it, is compared with parsing the columns that hold JSON, without SQLite, and with fetching all columns of
//! the rows with messages, in no order, and parsing those columns. The columns of `llm` are texts, so the same conversation as a request
//! is parsed instead.

use std::{hint::black_box, path::Path};

use rejoin_formats::{Choice, Dialect, convert_with, sessions};
use rejoin_view::OnBroken;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::{BYTES, TEXT, Values, compare};

/// What makes the database of a format, and returns the columns that hold JSON.
type Make = fn(&Connection, &[Turn]) -> Vec<String>;

/// Each format, what makes its database, and the tables with the messages.
const DATABASES: &[(&str, Make, &[&str])] = &[
    ("crush", crush, &["messages"]),
    ("goose", goose, &["messages"]),
    ("llm", llm, &["messages", "parts"]),
    ("opencode", opencode, &["message", "part"]),
    ("openai-agents", openai_agents, &["agent_messages"]),
    ("xzatoma", xzatoma, &["conversations"]),
];

/// What is said in a turn.
struct Turn {
    number: usize,
    call: String,
    question: String,
    output: String,
    answer: String,
}

pub fn measure_all(wanted: Option<&str>) {
    let turns: Vec<Turn> = (0..BYTES / (3 * TEXT)).map(turn).collect();
    let wanted = |format: &str| wanted.is_none_or(|wanted| wanted == format);
    for (format, make, tables) in DATABASES.iter().filter(|(format, ..)| wanted(format)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        let columns = make(&connection, &turns);
        connection.execute_batch("COMMIT").unwrap();
        drop(connection);
        measure(format, &path, columns, tables);
    }
}

fn measure(format: &str, path: &Path, columns: Vec<String>, tables: &[&str]) {
    let read = || {
        let database = sessions::Database::open("large.db", path).unwrap();
        sessions::read_database(&database, None).unwrap_or_else(|error| panic!("{format}: {error}"))
    };
    let found = read();
    assert_eq!(found[0].format, format);
    let messages: usize = found.iter().map(|session| session.messages.len()).sum();
    let values = Values::Many(match columns.is_empty() {
        true => {
            let choice = Choice { model: Some("m"), max_tokens: None };
            let request =
                |session| convert_with(session, Dialect::OpenAiChat, choice, OnBroken::Keep).unwrap().body;
            found.iter().map(request).collect()
        }
        false => columns,
    });
    let Values::Many(texts) = &values else { return };
    let bytes = texts.iter().map(String::len).sum();
    let fetch = || {
        let connection = Connection::open(path).unwrap();
        for table in tables {
            let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let all = |row: &rusqlite::Row<'_>| (0..columns).map(|number| row.get(number)).collect();
            let rows = statement.query_map([], all).unwrap();
            drop(black_box(rows.collect::<Result<Vec<Vec<rusqlite::types::Value>>, _>>().unwrap()));
        }
        values.parse();
    };
    let name = format!("{format} (database)");
    compare(&name, bytes, messages, &|| values.parse(), &|| drop(black_box(read())));
    compare("and fetching", bytes, messages, &fetch, &|| drop(black_box(read())));
}

fn turn(number: usize) -> Turn {
    let text = |words: &str| format!("{words} {number}, \"quoted\"\n").repeat(TEXT / (words.len() + 14));
    Turn {
        number,
        call: format!("call_{number}"),
        question: text("QUESTION about the files that are here"),
        output: text("OUTPUT of the tool, as it was printed"),
        answer: text("ANSWER of the model, after looking"),
    }
}

fn crush(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE sessions(id TEXT PRIMARY KEY, title TEXT, message_count INTEGER, created_at INTEGER);
        CREATE TABLE messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER);
        INSERT INTO sessions VALUES ('s1', 'TITLE of the session', 3, 1);";
    database.execute_batch(tables).unwrap();
    let said = turns.iter().flat_map(|turn| {
        let text = |text: &str| json!({"type": "text", "data": {"text": text}});
        let finish = json!({"type": "finish", "data": {"reason": "stop", "time": turn.number}});
        let input = json!({"path": "src"}).to_string();
        let call = json!({"type": "tool_call", "data": {"id": turn.call, "name": "ls", "input": input, "finished": true}});
        let result = json!({"type": "tool_result", "data": {"tool_call_id": turn.call, "name": "ls", "content": turn.output, "is_error": false}});
        [
            ("user", json!([text(&turn.question), finish])),
            ("assistant", json!([call, finish])),
            ("tool", json!([result, finish])),
            ("assistant", json!([text(&turn.answer), finish])),
        ]
    });
    let sql = "INSERT INTO messages VALUES (?1, 's1', ?2, ?3, 'm', ?1)";
    insert(database, sql, said)
}

fn goose(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT, model_config_json TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
        INSERT INTO sessions VALUES ('20260101_1', 'TITLE of the session', '/p', '{\"model_name\":\"m\"}');";
    database.execute_batch(tables).unwrap();
    let said = turns.iter().flat_map(|turn| {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let value = json!({"name": "shell", "arguments": {"command": "ls"}});
        let call = json!([{"type": "toolRequest", "id": turn.call, "toolCall": {"status": "success", "value": value}}]);
        let value = json!({"content": [{"type": "text", "text": turn.output}], "isError": false});
        let result = json!([{"type": "toolResponse", "id": turn.call, "toolResult": {"status": "success", "value": value}}]);
        [("user", text(&turn.question)), ("assistant", call), ("user", result), ("assistant", text(&turn.answer))]
    });
    insert(database, "INSERT INTO messages VALUES (?1, '20260101_1', ?2, ?3, ?1)", said)
}

fn openai_agents(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE agent_sessions(session_id TEXT PRIMARY KEY);
        CREATE TABLE agent_messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, message_data TEXT, created_at TEXT);
        CREATE INDEX messages_of_session ON agent_messages(session_id, created_at);";
    database.execute_batch(tables).unwrap();
    let said = turns.iter().flat_map(|turn| {
        let arguments = json!({"path": "src"}).to_string();
        let id = format!("msg_{}", turn.number);
        let content = json!([{"type": "output_text", "text": turn.answer, "annotations": []}]);
        [
            ("user", json!({"role": "user", "content": turn.question})),
            ("", json!({"type": "function_call", "call_id": turn.call, "name": "ls", "arguments": arguments})),
            ("", json!({"type": "function_call_output", "call_id": turn.call, "output": turn.output})),
            ("", json!({"type": "message", "id": id, "role": "assistant", "content": content, "status": "completed"})),
        ]
    });
    insert(database, "INSERT INTO agent_messages VALUES (?1, 's1', ?2, ?3, '2026-01-01 00:00:00')", said)
}

fn opencode(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, directory TEXT, title TEXT);
        CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        CREATE INDEX part_message_idx ON part(message_id);
        CREATE INDEX part_session_idx ON part(session_id);
        INSERT INTO session VALUES ('ses_1', 'p', '/p', 'TITLE of the session');";
    database.execute_batch(tables).unwrap();
    let mut message = database.prepare("INSERT INTO message VALUES (?1, 'ses_1', ?2, ?3)").unwrap();
    let mut part = database.prepare("INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3, ?4)").unwrap();
    let mut columns = Vec::new();
    let mut add = |number: usize, role: &str, parts: &[Value]| {
        let (id, time) = (format!("msg_{number:08}"), number as i64);
        let info =
            json!({"role": role, "time": {"created": number}, "modelID": "m", "providerID": "p"}).to_string();
        message.execute(params![id, time, info]).unwrap();
        columns.push(info);
        for (place, data) in parts.iter().enumerate() {
            let data = data.to_string();
            part.execute(params![format!("prt_{number:08}{place}"), id, time, data]).unwrap();
            columns.push(data);
        }
    };
    for turn in turns {
        let text = |text: &str| json!({"type": "text", "text": text});
        let state = json!({"status": "completed", "input": {"path": "src"}, "output": turn.output, "title": "ls", "metadata": {}, "time": {"start": 1, "end": 2}});
        let tool = json!({"type": "tool", "callID": turn.call, "tool": "ls", "state": state});
        add(2 * turn.number, "user", &[text(&turn.question)]);
        add(2 * turn.number + 1, "assistant", &[tool, text(&turn.answer)]);
    }
    columns
}

/// Inserts the rows: a number, a role, and a column of JSON. Returns those columns.
fn insert<'t>(database: &Connection, sql: &str, rows: impl Iterator<Item = (&'t str, Value)>) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap();
    let rows = rows.enumerate().map(|(number, (role, json))| {
        let json = json.to_string();
        statement.execute(params![number as i64, role, json]).unwrap();
        json
    });
    rows.collect()
}

fn xzatoma(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE conversations(id TEXT PRIMARY KEY, title TEXT NOT NULL, created_at TEXT NOT NULL, \
                  updated_at TEXT NOT NULL, model TEXT, messages JSON NOT NULL);";
    database.execute_batch(tables).unwrap();
    let said = turns.iter().flat_map(|turn| {
        let function = json!({"name": "ls", "arguments": json!({"path": "src"}).to_string()});
        [
            json!({"role": "user", "content": turn.question}),
            json!({"role": "assistant", "tool_calls": [{"id": turn.call, "type": "function", "function": function}]}),
            json!({"role": "tool", "content": turn.output, "tool_call_id": turn.call}),
            json!({"role": "assistant", "content": turn.answer}),
        ]
    });
    let messages = Value::from(said.collect::<Vec<Value>>()).to_string();
    let sql = "INSERT INTO conversations VALUES ('c1', 'TITLE of it', '2026-01-01', '2026-01-01', 'm', ?1)";
    database.execute(sql, [&messages]).unwrap();
    vec![messages]
}

fn llm(database: &Connection, turns: &[Turn]) -> Vec<String> {
    let tables = "CREATE TABLE threads(id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT);
        CREATE TABLE messages(hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT);
        CREATE TABLE parts(id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, text TEXT, payload TEXT, \
                           tool_name TEXT);
        CREATE INDEX parts_of_message ON parts(message_hash, position);";
    database.execute_batch(tables).unwrap();
    let mut message = database.prepare("INSERT INTO messages VALUES (?1, ?2, ?3)").unwrap();
    let sql = "INSERT INTO parts(message_hash, position, type, text, payload, tool_name) VALUES (?1, 0, ?2, ?3, ?4, ?5)";
    let mut part = database.prepare(sql).unwrap();
    let mut last: Option<String> = None;
    let mut add = |role: &str, kind: &str, text: Option<&str>, payload: Option<Value>| {
        let number = last.as_ref().map_or(0, |last| 1 + usize::from_str_radix(last, 16).unwrap());
        let hash = format!("{number:064x}");
        message.execute(params![hash, last, role]).unwrap();
        let tool = payload.as_ref().map(|_| "ls");
        part.execute(params![hash, kind, text, payload.map(|json| json.to_string()), tool]).unwrap();
        last = Some(hash);
    };
    for turn in turns {
        add("user", "text", Some(&turn.question), None);
        let call = json!({"tool_call_id": turn.call, "name": "ls", "arguments": {"path": "src"}});
        add("assistant", "tool_call", None, Some(call));
        let result = json!({"tool_call_id": turn.call, "name": "ls", "output": turn.output});
        add("tool", "tool_result", None, Some(result));
        add("assistant", "text", Some(&turn.answer), None);
    }
    database.execute("INSERT INTO threads VALUES ('t1', 'NAME of the thread', ?1)", [last]).unwrap();
    Vec::new()
}
