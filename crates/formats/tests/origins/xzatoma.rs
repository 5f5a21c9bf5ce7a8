//! xzatoma: a database with a row for each conversation.

use rejoin_formats::{
    input::Files,
    sessions::{Database, read_database, read_files},
};
use rusqlite::Connection;

use super::*;

const FORMAT: &str = "xzatoma";

const CONVERSATIONS: &str = "CREATE TABLE conversations (id TEXT PRIMARY KEY, title TEXT NOT NULL, created_at TEXT NOT NULL, \
                             updated_at TEXT NOT NULL, model TEXT, messages JSON NOT NULL);";

const RUNS: &str = "CREATE TABLE acp_sessions (session_id TEXT, conversation_id TEXT, title TEXT, created_at TEXT, updated_at TEXT, \
                    metadata_json TEXT, last_run_id TEXT);
    CREATE TABLE acp_runs (run_id TEXT, session_id TEXT, conversation_id TEXT, mode TEXT, state TEXT, created_at TEXT, \
                    updated_at TEXT, completed_at TEXT, failure_reason TEXT, cancellation_reason TEXT, await_kind TEXT, \
                    await_detail TEXT, input_json TEXT, output_json TEXT, metadata_json TEXT);
    CREATE TABLE acp_run_events (run_id TEXT, sequence INTEGER, kind TEXT, created_at TEXT, payload_json TEXT, terminal INTEGER);
    CREATE TABLE acp_stdio_sessions (session_id TEXT, workspace_root TEXT, conversation_id TEXT, provider_type TEXT, model TEXT, \
                    created_at TEXT, updated_at TEXT, metadata_json TEXT);";

/// A database that is made by these statements.
fn database(sql: &[&str], fill: impl FnOnce(&Connection)) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let connection = Connection::open(&path).unwrap();
    sql.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
    fill(&connection);
    drop(connection);
    let database = Database::open("history.db", &path).unwrap();
    (folder, database)
}

fn add(connection: &Connection, id: &str, title: &str, messages: &str) {
    let sql = "INSERT INTO conversations VALUES (?1, ?2, '2026-02-01T10:00:00Z', '2026-02-01T10:05:00Z', 'some-model', ?3)";
    connection.execute(sql, (id, title, messages)).unwrap();
}

fn read_one(messages: &str) -> Session {
    let (_folder, database) =
        database(&[CONVERSATIONS], |connection| add(connection, "one", "New Conversation", messages));
    let sessions = read_database(&database, None).unwrap();
    assert_eq!(sessions.len(), 1);
    holds(FORMAT, messages, &sessions);
    sessions.into_iter().next().unwrap()
}

/// S0-60: a conversation of `history.db` is read, message by message.
#[test]
fn a_row_is_a_conversation() {
    let messages = r#"[{"role":"system","content":"Summary of earlier conversation: what was said before"},
        {"role":"user","content":"the question of the person"},
        {"role":"assistant","content":"","tool_calls":[{"id":"call_7","function":{"name":"list_directory","arguments":"{\"path\":\"a folder with files\"}"}}]},
        {"role":"tool","content":"Error: there is no such folder","tool_call_id":"call_7"},
        {"role":"tool","content":"an orphan from a pruned turn","tool_call_id":"call_1"},
        {"role":"assistant","content":"the answer of the model"},
        {"role":"assistant","tool_calls":[{"id":"call_8","function":{"name":"grep","arguments":"{}"}}]},
        {"role":"user","content":"what else was asked then"}]"#;
    let session = read_one(messages);
    assert_eq!(
        said(&session),
        [
            "system: Summary of earlier conversation: what was said before",
            "user: the question of the person",
            "assistant:  + calls call_7 list_directory {\"path\":\"a folder with files\"}",
            "tool: gave call_7 Error: there is no such folder",
            "tool: gave call_1 an orphan from a pruned turn",
            "assistant: the answer of the model",
            "assistant: calls call_8 grep {}",
            "user: what else was asked then",
        ]
    );
    assert_eq!(rules(&session), []);
    let found = repairs(&session);
    assert!(found.contains(&Rule::OrphanResult) && found.contains(&Rule::UnansweredCall), "{found:?}");
    assert_eq!(session.context.model().as_deref(), Some("some-model"));
    assert_eq!(session.title(), None, "a title that says nothing is none");
}

#[test]
fn images_are_parts_beside_the_content() {
    let session = read_one(
        r#"[{"role":"user","content":"look at these two images","content_parts":[{"type":"text","text":"look at these two images"},
        {"type":"image","mime_type":"image/png","name":"a.png","source":{"source":"inline_bytes","value":[1,2,3]}},
        {"type":"image","mime_type":"image/png","name":"b.png","source":{"source":"remote_url","value":"https://example.org/b.png"}}]}]"#,
    );
    let shown = said(&session);
    assert!(shown[0].starts_with("user: look at these two images + image Base64("), "{shown:?}");
    assert!(shown[0].contains("AQID") && shown[0].contains("https://example.org/b.png"), "{shown:?}");
}

#[test]
fn a_bad_row_spoils_only_itself() {
    let (_folder, database) = database(&[CONVERSATIONS, RUNS], |connection| {
        add(
            connection,
            "a",
            "the title of the first",
            r#"[{"role":"user","content":"the words of the first"}]"#,
        );
        add(connection, "b", "the title of the second", "no list of messages at all");
        add(
            connection,
            "c",
            "the title of the third",
            r#"[{"role":"user","content":"the words of the third"},17,{"role":"user","content":"more words of the third"},{"role":"us"#,
        );
        let sql = "INSERT INTO acp_stdio_sessions VALUES ('s', '/home/someone/the project', 'c', 'ollama', 'm', '', '', NULL)";
        connection.execute_batch(sql).unwrap();
    });
    let sessions = read_database(&database, None).unwrap();
    holds(FORMAT, "", &sessions);
    let [first, third] = &sessions[..] else { panic!("{} conversations", sessions.len()) };
    assert_eq!(said(first), ["user: the words of the first"]);
    assert_eq!(rules(first), [Rule::DamagedEntry]);
    assert_eq!(first.findings[0].subject.as_deref(), Some("b"));
    assert!(beside(first).iter().any(|row| row.contains("no list of messages at all")));
    assert_eq!(first.title().map(|title| title.as_str()), Some("the title of the first"));
    assert_eq!(said(third), ["user: the words of the third", "user: more words of the third"]);
    assert_eq!(rules(third), [Rule::DamagedEntry, Rule::DamagedEntry]);
    assert_eq!(third.directory().as_deref(), Some("/home/someone/the project"));
}

#[test]
fn a_run_is_a_conversation() {
    let (_folder, database) = database(&[CONVERSATIONS, RUNS], |connection| {
        let input = r#"[{"role":"user","parts":[{"type":"text","data":{"text":"what was asked over the network"}}]}]"#;
        let output = r#"{"messages":[{"role":"agent","parts":[{"type":"text","data":{"text":"what was answered over the network"}}]}]}"#;
        let sql = "INSERT INTO acp_runs (run_id, session_id, state, created_at, input_json, output_json) VALUES (?1, 's', 'completed', ?1, ?2, ?3)";
        connection.execute(sql, ("run-1", input, Some(output))).unwrap();
        connection.execute(sql, ("run-2", input, None::<&str>)).unwrap();
        connection.execute(sql, ("run-3", "not JSON of any kind", None::<&str>)).unwrap();
        connection
            .execute_batch(
                "INSERT INTO acp_sessions (session_id, title) VALUES ('s', 'the title of the session')",
            )
            .unwrap();
        connection
            .execute_batch("INSERT INTO acp_run_events VALUES ('run-1', 1, 'message', 't', '{\"x\":1}', 0)")
            .unwrap();
    });
    let sessions = read_database(&database, None).unwrap();
    holds(FORMAT, "", &sessions);
    let [first, second] = &sessions[..] else { panic!("{} conversations", sessions.len()) };
    assert_eq!(
        said(first),
        ["user: what was asked over the network", "assistant: what was answered over the network"]
    );
    assert_eq!(said(second), ["user: what was asked over the network"]);
    assert_eq!(first.title().map(|title| title.as_str()), Some("the title of the session"));
    assert!(beside(first).iter().any(|row| row.contains("sequence")));
    assert_eq!(rules(first), [Rule::DamagedEntry], "the third run holds no message");
}

#[test]
fn reading_again_gives_the_same_ids() {
    let messages = r#"[{"role":"user","content":"the words of the first"}"#;
    let (before, after) = (
        read_one(&format!("{messages}]")),
        read_one(&format!("{messages},{{\"role\":\"assistant\",\"content\":\"an answer to it\"}}]")),
    );
    assert_eq!(before.id, after.id);
    let ids = |session: &Session| -> Vec<_> {
        session.to_entries(Timestamp::UNIX_EPOCH).iter().map(|entry| entry.id()).collect()
    };
    let kept = ids(&before).len() - 1;
    assert_eq!(ids(&before)[..kept], ids(&after)[..kept]);
}

#[derive(Debug)]
struct Folder(Vec<String>);

impl Files for Folder {
    fn name(&self) -> &str {
        "conversations.db"
    }

    fn paths(&self) -> &[String] {
        &self.0
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        (path == "conf").then(|| b"segment_size: 524288\nversion: 0.34".to_vec())
    }
}

#[test]
fn the_store_of_sub_agents_is_refused_with_what_to_do() {
    let folder = Folder(["conf", "db", "snap.0000"].map(String::from).to_vec());
    let error = read_files(&folder, None).unwrap_err();
    assert!(error.to_string().contains("`history.db`"), "{error}");
    assert_eq!(read_files(&Folder(vec![String::from("db")]), None).unwrap_err(), ReadError::UnknownFormat);
}
