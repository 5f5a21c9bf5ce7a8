//! Conversations that are written as rows of other agents' databases.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod sketching;

use std::path::{Path, PathBuf};

use rejoin_formats::{
    Input, Session,
    sessions::{self, Database, FileContent, Rows, RowsError, Writing, Written},
};
use rejoin_record::{ConversationId, Timestamp};
use rejoin_view::{OnBroken, Rule};
use rusqlite::{Connection, types::Value};
use sketching::{assert_sound, messages, rules};

const AGENTS: [&str; 3] = ["goose", "llm", "xzatoma"];

const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Everything that a conversation can hold, with a word in capitals for each piece.
fn conversation() -> Session {
    read(&format!(
        r#"{{"model":"claude-x","max_tokens":9,"system":"RULES of the game","messages":[
            {{"role":"user","content":"QUESTION about files"}},
            {{"role":"assistant","content":[
                {{"type":"thinking","thinking":"THOUGHT about it","signature":"c2ln"}},
                {{"type":"text","text":"LOOKING at them"}},
                {{"type":"tool_use","id":"c1","name":"list","input":{{"path":".","depth":1.0}}}},
                {{"type":"tool_use","id":"c2","name":"read","input":{{}}}}]}},
            {{"role":"user","content":[
                {{"type":"tool_result","tool_use_id":"c1","content":"FILES in the folder"}},
                {{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{{"type":"text","text":"MISSING is the file"}}]}},
                {{"type":"text","text":"MORE of the user"}}]}},
            {{"role":"assistant","content":"ANSWER to it"}},
            {{"role":"user","content":[
                {{"type":"text","text":"PICTURE of a dot"}},
                {{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{DOT}"}}}}]}}]}}"#
    ))
}

fn read(body: &str) -> Session {
    let input = Input::new("body.json", body.as_bytes()).unwrap();
    sessions::read(&input, None).unwrap().remove(0)
}

/// Another short conversation, with a different id.
fn other(said: &str) -> Session {
    let body = format!(
        r#"{{"max_tokens":9,"messages":[{{"role":"user","content":"hello"}},{{"role":"assistant","content":"{said}"}}]}}"#
    );
    Session { id: ConversationId::derive("test", said), ..read(&body) }
}

fn write(session: &Session, agent: &str) -> Written {
    let now: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
    let writing = Writing { model: None, now, directory: "/work" };
    sessions::write(session, sessions::named(agent).unwrap(), OnBroken::Keep, &writing).unwrap()
}

fn rows(session: &Session, agent: &str) -> Rows {
    match write(session, agent).content {
        FileContent::Rows(rows) => rows,
        FileContent::Text(text) => panic!("a text: {text}"),
    }
}

/// A database in a folder that is removed with it.
struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.db");
        Self { _folder: folder, path }
    }

    fn with(session: &Session, agent: &str) -> Self {
        let place = Self::new();
        rows(session, agent).save_new(&place.path).unwrap();
        place
    }

    fn change(&self, sql: &str) {
        Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }

    fn read(&self) -> Vec<Session> {
        sessions::read_database(&Database::open("agent.db", &self.path).unwrap(), None).unwrap()
    }

    /// Every row of every table of the agent.
    fn dump(&self) -> Vec<String> {
        dump(&self.path)
    }
}

fn dump(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%_fts%' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = connection.prepare(sql).unwrap();
    let tables: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut all = Vec::new();
    for table in tables {
        let mut statement =
            connection.prepare(&format!("SELECT rowid, * FROM \"{table}\" ORDER BY rowid")).unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells: Vec<Value> = (0..width).map(|column| row.get(column).unwrap()).collect();
            all.push(format!("{table} {cells:?}"));
        }
    }
    all
}

/// S0-60: what is written to the `history.db` of xzatoma, and to the databases of other agents, is read again.
#[test]
fn everything_is_said_by_whom_it_was_said() {
    let session = conversation();
    let said = |agent: &str| {
        let place = Place::with(&session, agent);
        let again = place.read().remove(0);
        assert_eq!(again.format, agent);
        assert_sound(&again);
        messages(&again)
    };
    assert_eq!(
        said("llm"),
        [
            "system RULES",
            "user QUESTION",
            "assistant ~THOUGHT LOOKING !c1:list !c2:read",
            "tool =c1:FILES =c2?MISSING",
            "user MORE",
            "assistant ANSWER",
            "user PICTURE #",
        ]
    );
    assert_eq!(
        said("goose"),
        [
            "user <system>RULES",
            "user QUESTION",
            "assistant ~THOUGHT LOOKING !c1:list !c2:read",
            "user =c1:FILES =c2?MISSING",
            "user MORE",
            "assistant ANSWER",
            "user PICTURE #",
        ]
    );
    // It has no place for reasoning, and tells a failed result by its text.
    assert_eq!(
        said("xzatoma"),
        [
            "system RULES",
            "user QUESTION",
            "assistant LOOKING !c1:list !c2:read",
            "tool =c1:FILES",
            "tool =c2:Error:",
            "user MORE",
            "assistant ANSWER",
            "user PICTURE #",
        ]
    );
}

#[test]
fn what_is_lost_is_reported() {
    let session = conversation();
    let found = |agent: &str| -> Vec<&str> {
        write(&session, agent).findings.iter().map(|finding| finding.rule.name()).collect()
    };
    assert!(found("goose").is_empty(), "{:?}", found("goose"));
    assert!(found("llm").is_empty(), "{:?}", found("llm"));
    assert_eq!(found("xzatoma"), ["foreign-block"]);
    let image = r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}"#;
    let image = format!(r#"{{"max_tokens":9,"messages":[{{"role":"user","content":[{image}]}}]}}"#);
    let written = write(&read(&image), "goose");
    let told: Vec<String> = written.findings.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|line| line.contains("written as text")), "{told:?}");
    assert_eq!(rules(&read(&image)), [""; 0]);
}

/// Nothing depends on the time, the machine or chance: the same conversation is the same file.
#[test]
fn the_same_conversation_is_the_same_file() {
    for agent in AGENTS {
        let session = conversation();
        assert!(
            rows(&session, agent).to_bytes().unwrap() == rows(&session, agent).to_bytes().unwrap(),
            "{agent}"
        );
    }
}

#[test]
fn a_written_database_is_whole() {
    for agent in AGENTS {
        let place = Place::with(&conversation(), agent);
        let connection = Connection::open(&place.path).unwrap();
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{agent}");
        let broken = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
        assert!(!broken, "{agent}: a row refers to one that is not there");
    }
}

/// The names of messages are those that `llm` 0.36 itself computes.
#[test]
fn messages_of_llm_have_the_names_that_llm_gives_them() {
    let session = read(
        r#"{"max_tokens":9,"messages":[{"role":"user","content":"hello"},
            {"role":"assistant","content":[{"type":"text","text":"QUOTE \" é"},
                {"type":"tool_use","id":"c1","name":"f","input":{"b":1.0,"a":[null,true]}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"x"}]}]}"#,
    );
    let place = Place::with(&session, "llm");
    let connection = Connection::open(&place.path).unwrap();
    let mut statement = connection.prepare("SELECT hash FROM messages ORDER BY rowid").unwrap();
    let names: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        names,
        [
            "b2:6169f5b736295e66c935569b79d2b171",
            "b2:8b0652cca992cb77712e6ac662279685",
            "b2:72473e54b16a3028853aa2d6775a45be",
        ]
    );
}

#[test]
fn adding_leaves_what_is_there_untouched() {
    for agent in AGENTS {
        let place = Place::with(&other("FIRST answer"), agent);
        let before = place.dump();
        rows(&conversation(), agent).add_to(&place.path).unwrap();
        let after = place.dump();
        assert!(before.iter().all(|row| after.contains(row)), "{agent}\n{before:#?}\n{after:#?}");
        let told: Vec<Vec<String>> = place.read().iter().map(messages).collect();
        assert!(
            told.contains(&vec![String::from("user hello"), String::from("assistant FIRST")]),
            "{told:?}"
        );
        assert!(told.iter().flatten().any(|line| line == "assistant ANSWER"), "{told:?}");
        assert_eq!(told.len(), 2, "{agent}");
    }
}

#[test]
fn a_conversation_that_is_there_already_is_not_added_again() {
    for agent in AGENTS {
        let place = Place::with(&conversation(), agent);
        let before = place.dump();
        let again = rows(&conversation(), agent);
        match again.add_to(&place.path) {
            Err(RowsError::RowExists { key, .. }) => assert_eq!(key, again.id(), "{agent}"),
            other => panic!("{agent}: {other:?}"),
        }
        assert_eq!(place.dump(), before, "{agent}");
        // Under another id it is another conversation.
        let copy = Session { id: ConversationId::derive("copy", "1"), ..conversation() };
        rows(&copy, agent).add_to(&place.path).unwrap();
        assert_eq!(place.read().len(), 2, "{agent}");
    }
}

/// Conversations that begin alike share messages, and both stay whole.
#[test]
fn conversations_of_llm_share_what_they_have_in_common() {
    let place = Place::with(&other("FIRST answer"), "llm");
    rows(&other("SECOND answer"), "llm").add_to(&place.path).unwrap();
    let told: Vec<Vec<String>> = place.read().iter().map(messages).collect();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|lines| lines[0] == "user hello"), "{told:?}");
    let greetings =
        place.dump().iter().filter(|row| row.starts_with("parts") && row.contains("hello")).count();
    assert_eq!(greetings, 1);
}

#[test]
fn a_database_of_another_release_is_refused_and_stays_as_it_is() {
    let conversations = ["sessions", "threads", "conversations"];
    for (agent, table) in AGENTS.into_iter().zip(conversations) {
        let added = rows(&conversation(), agent);
        let refused = |place: &Place| {
            let before = place.dump();
            let refused = added.add_to(&place.path).unwrap_err();
            assert_eq!(place.dump(), before, "{agent}");
            refused
        };
        let place = Place::with(&other("FIRST answer"), agent);
        place.change(&format!("ALTER TABLE \"{table}\" ADD COLUMN flavour TEXT"));
        added.add_to(&place.path).unwrap();

        let place = Place::new();
        place.change("CREATE TABLE unrelated (id TEXT)");
        assert!(matches!(refused(&place), RowsError::OlderSchema { column: None, .. }), "{agent}");

        // A newer release that demands more.
        let place = Place::with(&other("FIRST answer"), agent);
        let connection = Connection::open(&place.path).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let sql = "SELECT sql FROM sqlite_schema WHERE name = ?1";
        let made: String = connection.query_row(sql, [table], |row| row.get(0)).unwrap();
        let newer = made.replacen('(', "(flavour TEXT NOT NULL, ", 1);
        connection.execute_batch(&format!("DROP TABLE \"{table}\"; {newer}")).unwrap();
        let error = refused(&place);
        assert!(matches!(&error, RowsError::NewerSchema { column, .. } if column == "flavour"), "{error:?}");
        assert!(error.to_string().contains("flavour"), "{error}");

        // An older one that does not know a column yet.
        let older = made.replace("created_at", "made_at").replace("tip_message_hash", "tip");
        connection.execute_batch(&format!("DROP TABLE \"{table}\"; {older}")).unwrap();
        assert!(matches!(refused(&place), RowsError::OlderSchema { column: Some(_), .. }), "{agent}");
    }
}

/// The model that is asked for is the one with which the agent continues.
#[test]
fn a_model_that_is_named_is_written() {
    for agent in AGENTS {
        let writing = Writing { model: Some("model-1"), now: Timestamp::UNIX_EPOCH, directory: "/work" };
        let format = sessions::named(agent).unwrap();
        let written = sessions::write(&conversation(), format, OnBroken::Keep, &writing).unwrap();
        let FileContent::Rows(rows) = written.content else { panic!("no rows") };
        let database = rows.to_database("agent.db").unwrap();
        let again = sessions::read_database(&database, None).unwrap().remove(0);
        assert_eq!(again.context.model().as_deref(), Some("model-1"), "{agent}");
    }
}

/// An agent finds a conversation in which nothing was answered yet, or nothing was said.
#[test]
fn a_conversation_without_an_answer_is_kept() {
    let asked = read(r#"{"max_tokens":9,"messages":[{"role":"user","content":"QUESTION for later"}]}"#);
    for agent in AGENTS {
        let place = Place::with(&asked, agent);
        assert_eq!(messages(&place.read()[0]), ["user QUESTION"], "{agent}");
    }
    let place = Place::with(&asked, "llm");
    assert!(place.dump().iter().any(|row| row.starts_with("turns")), "llm finds a thread by its turns");
}

#[test]
fn llm_sends_what_it_is_given_in_the_form_that_it_sends() {
    let id = "c".repeat(41);
    let session = read(&format!(
        r#"{{"max_tokens":9,"messages":[
            {{"role":"user","content":[{{"type":"text","text":"one"}},{{"type":"text","text":"two"}}]}},
            {{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"look","input":{{}}}}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":[
                {{"type":"text","text":"seen"}},
                {{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{DOT}"}}}}]}}]}},
            {{"role":"assistant","content":"done"}}]}}"#
    ));
    let place = Place::with(&session, "llm");
    let connection = Connection::open(&place.path).unwrap();
    let sql = "SELECT m.role || ' ' || p.type || ' ' || coalesce(p.text, json_extract(p.payload, '$.tool_call_id'), '') \
               FROM parts p JOIN messages m ON m.hash = p.message_hash ORDER BY p.id";
    let mut statement = connection.prepare(sql).unwrap();
    let parts: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let [one, two, call, result, image, done] = parts.as_slice() else { panic!("{parts:?}") };
    // The texts of a message are sent with nothing between them.
    assert_eq!([one, two], ["user text one\n", "user text two"]);
    // Ids are sent as they are, and OpenAI takes 40 characters.
    let id = call.strip_prefix("assistant tool_call ").unwrap();
    assert!(id.len() <= 40, "{id}");
    assert_eq!(result, &format!("tool tool_result {id}"));
    // Of a result only the text is sent.
    assert_eq!([image, done], ["user attachment ", "assistant text done"]);
    // What was changed for that is reported, the id once.
    let findings = write(&session, "llm").findings;
    let told: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.at.message)).collect();
    assert_eq!(told, [(Rule::IllegalId, Some(1)), (Rule::MovedMedia, Some(2))]);
    let long = "c".repeat(41);
    assert!(findings.iter().all(|finding| finding.to_string().contains(&long)), "{findings:?}");
}
