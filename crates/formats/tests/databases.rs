//! Databases of other agents.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod sketching;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use rejoin_formats::{ReadError, Session, accounting::FileShape, sessions};
use rejoin_view::Rule;
use rusqlite::Connection;
use sketching::{assert_sound, hidden, messages, rules};

/// The tables in which llm keeps threads.
const THREADS: &str = "
        CREATE TABLE threads(id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
        CREATE TABLE messages(hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
        CREATE TABLE parts(id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
        CREATE TABLE turns(id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT, datetime_utc TEXT);
";

/// A database in a temporary folder.
struct Made {
    folder: PathBuf,
}

/// The tables of opencode that hold conversations.
const OPENCODE: &str = "
    CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, revert TEXT);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
";

impl Made {
    /// A database of opencode with these further statements.
    fn of_opencode(sql: &str) -> Self {
        Self::new(&format!("{OPENCODE}{sql}"))
    }

    /// A database of llm with these further statements.
    fn with_threads(sql: &str) -> Self {
        Self::new(&format!("{THREADS}{sql}"))
    }

    fn new(sql: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rejoin-databases-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = Self { folder };
        Connection::open(made.path()).unwrap().execute_batch(sql).unwrap();
        made
    }

    fn path(&self) -> PathBuf {
        self.folder.join("x.db")
    }

    fn read(&self) -> Result<Vec<Session>, ReadError> {
        sessions::read_database(&sessions::Database::open("x.db", &self.path())?, None)
    }

    fn all(&self, format: &str) -> Vec<Session> {
        let sessions = self.read().unwrap();
        for session in &sessions {
            assert_eq!(session.format, format);
            assert_sound(session);
        }
        sessions
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn opencode() {
    let made = Made::of_opencode(
        r#"
        CREATE TABLE credential(id TEXT, secret TEXT);
        INSERT INTO credential VALUES ('x', 'SECRET words that nobody may read');
        INSERT INTO session VALUES ('ses_1', 'global', NULL, '/p', 'TITLE of the session', NULL);
        INSERT INTO session VALUES ('ses_2', 'global', 'ses_1', '/p', 'a sub-agent', NULL);
        INSERT INTO message VALUES ('msg_2', 'ses_1', 2, 2, '{"role":"assistant","modelID":"m","time":{"created":2}}');
        INSERT INTO message VALUES ('msg_1', 'ses_1', 1, 1, '{"role":"user","time":{"created":1}}');
        INSERT INTO message VALUES ('msg_3', 'ses_1', 3, 3, 'no JSON');
        INSERT INTO message VALUES ('msg_4', 'ses_2', 1, 1, '{"role":"user"}');
        INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', 1, '{"type":"text","text":"QUESTION about the files here"}');
        INSERT INTO part VALUES ('prt_3', 'msg_2', 'ses_1', 1, '{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{},"output":"OUTPUT of the tool here"}}');
        INSERT INTO part VALUES ('prt_2', 'msg_2', 'ses_1', 1, '{"type":"text","text":"LOOKING at the files now"}');
        INSERT INTO part VALUES ('prt_4', 'msg_4', 'ses_2', 1, '{"type":"text","text":"TASK for a sub-agent"}');
        "#,
    );
    let sessions = made.all("opencode");
    assert_eq!(messages(&sessions[0]), ["user QUESTION", "assistant LOOKING !c1:bash", "tool =c1:OUTPUT"]);
    assert_eq!(rules(&sessions[0]), ["damaged-entry"]);
    assert_eq!(sessions[0].title().unwrap().as_str(), "TITLE of the session");
    assert_eq!(sessions[0].context.model().as_deref(), Some("m"));
    assert_eq!(messages(&sessions[1]), ["user TASK"]);
    let said: String = sessions.iter().map(|session| format!("{session:?}")).collect();
    assert!(!said.contains("SECRET"));
}

/// An undo may begin in the middle of a message. Rows that opencode would not show are reported, and those of a newer table are kept.
#[test]
fn what_opencode_undid_or_does_not_show() {
    let made = Made::of_opencode(
        r#"
        CREATE TABLE session_message(id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'global', NULL, '/p', 'one', '{"messageID":"msg_2","partID":"prt_3"}');
        INSERT INTO session VALUES ('ses_2', 'global', NULL, '/p', 'two', NULL);
        INSERT INTO message VALUES ('msg_1', 'ses_1', 1, 1, '{"role":"user"}');
        INSERT INTO message VALUES ('msg_2', 'ses_1', 2, 2, '{"role":"assistant"}');
        INSERT INTO message VALUES ('msg_3', 'ses_1', 3, 3, '{"role":"user"}');
        INSERT INTO message VALUES ('msg_9', 'ses_9', 1, 1, '{"role":"user"}');
        INSERT INTO part VALUES ('prt_1', 'msg_1', 'ses_1', 1, '{"type":"text","text":"QUESTION about the files here"}');
        INSERT INTO part VALUES ('prt_2', 'msg_2', 'ses_1', 1, '{"type":"text","text":"KEPT words of the answer"}');
        INSERT INTO part VALUES ('prt_3', 'msg_2', 'ses_1', 1, '{"type":"text","text":"UNDONE words of the answer"}');
        INSERT INTO part VALUES ('prt_4', 'msg_3', 'ses_1', 1, '{"type":"text","text":"LATER words of the user"}');
        INSERT INTO session_message VALUES ('m1', 'ses_2', 'user', 1, 1, '{"text":"NEWER words in another table"}');
        "#,
    );
    let sessions = made.read().unwrap();
    assert_eq!(messages(&sessions[0]), ["user QUESTION", "assistant KEPT"]);
    assert_eq!(hidden(&sessions[0]), ["assistant UNDONE", "user LATER"]);
    assert_eq!(rules(&sessions[0]), ["unread-text"], "the message of another session");
    assert_eq!(rules(&sessions[1]), ["unread-text"]);
    let kept = sessions[1].set_aside.iter().filter_map(|item| item.raw());
    assert!(kept.into_iter().any(|text| text.contains("NEWER")));
}

#[test]
fn goose() {
    let made = Made::new(
        r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT, model_config_json TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('20260101_1', 'TITLE of the session', '/p', '{"model_name":"m"}');
        INSERT INTO messages VALUES (1, 'a', '20260101_1', 'user', '[{"type":"text","text":"QUESTION about the files here"}]', 5, '{"userVisible":true,"agentVisible":false}');
        INSERT INTO messages VALUES (2, 'b', '20260101_1', 'user', '[{"type":"text","text":"SUMMARY of what happened here"}]', 5, NULL);
        INSERT INTO messages VALUES (3, 'c', '20260101_1', 'assistant', '[{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":{}}}}]', 6, NULL);
        INSERT INTO messages VALUES (4, 'd', '20260101_1', 'user', '[{"type":"toolRes', 7, NULL);
        "#,
    );
    let sessions = made.all("goose");
    assert_eq!(messages(&sessions[0]), ["user SUMMARY", "assistant !c1:shell"]);
    assert_eq!(hidden(&sessions[0]), ["user QUESTION"]);
    assert_eq!(rules(&sessions[0]), ["damaged-entry"]);
    assert_eq!(sessions[0].context.model().as_deref(), Some("m"));
}

#[test]
fn crush() {
    let made = Made::new(
        r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT, message_count INTEGER, created_at INTEGER, summary_message_id TEXT);
        CREATE TABLE messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, provider TEXT, created_at INTEGER);
        INSERT INTO sessions VALUES ('s1', NULL, 'TITLE of the session', 3, 1, NULL);
        INSERT INTO sessions VALUES ('s2', 's1', 'summarised', 3, 2, 'm7');
        INSERT INTO messages VALUES ('m1', 's1', 'user', '[{"type":"text","data":{"text":"QUESTION about the files here"}},{"type":"finish","data":{"reason":"stop"}}]', '', '', 1);
        INSERT INTO messages VALUES ('m2', 's1', 'assistant', '[{"type":"reasoning","data":{"thinking":"THOUGHT before looking at it","signature":""}},{"type":"text","data":{"text":"LOOKING at the files now"}},{"type":"tool_call","data":{"id":"c1","name":"ls","input":"{\"path\":\"a path of four words\"}","finished":true}},{"type":"finish","data":{"reason":"tool_use","time":1}}]', 'm', 'p', 1);
        INSERT INTO messages VALUES ('m3', 's1', 'tool', '[{"type":"tool_result","data":{"tool_call_id":"c1","name":"ls","content":"OUTPUT of the tool here","metadata":"metadata of more than four words","is_error":false}}]', '', '', 2);
        INSERT INTO messages VALUES ('m4', 's1', 'assistant', '[{"type":"te', 'm', 'p', 3);
        INSERT INTO messages VALUES ('m6', 's2', 'user', '[{"type":"text","data":{"text":"OLD question before the summary"}}]', '', '', 1);
        INSERT INTO messages VALUES ('m7', 's2', 'assistant', '[{"type":"text","data":{"text":"SUMMARY of what happened here"}}]', 'm', 'p', 2);
        INSERT INTO messages VALUES ('m8', 's2', 'user', '[{"type":"text","data":{"text":"NEXT question after the summary"}}]', '', '', 3);
        "#,
    );
    let sessions = made.all("crush");
    let wanted = ["user QUESTION", "assistant ~THOUGHT LOOKING !c1:ls", "tool =c1:OUTPUT"];
    assert_eq!(messages(&sessions[0]), wanted);
    assert_eq!(rules(&sessions[0]), ["damaged-entry"]);
    assert_eq!(messages(&sessions[1]), ["user SUMMARY", "user NEXT"]);
    assert_eq!(hidden(&sessions[1]), ["user OLD"]);
}

/// A command that a person ran in Crush is part of what the model gets, as text and without the colours of a terminal.
#[test]
fn shell_commands_of_crush_are_text() {
    let made = Made::new(
        r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, title TEXT, message_count INTEGER, created_at INTEGER);
        CREATE TABLE messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER);
        INSERT INTO sessions VALUES ('s', 'TITLE', 1, 1);
        INSERT INTO messages VALUES ('1', 's', 'user', '[{"type":"shell_command","data":{"command":"ls -la","output":"\u001b[31mred\u001b[0m \u001b]0;a title\u0007file of four words","exit_code":2}}]', 'm', 1);"#,
    );
    let sessions = made.all("crush");
    assert_eq!(sessions[0].messages[0].content().unwrap(), "$ ls -la\nred file of four words\n(exit code 2)");
    assert_eq!(rules(&sessions[0]), [""; 0]);
}

#[test]
fn calls_that_goose_could_not_parse_keep_their_results() {
    let made = Made::new(
        r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
        INSERT INTO sessions VALUES ('s', 'TITLE', '/p');
        INSERT INTO messages VALUES (1, 's', 'assistant', '[{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":[1,2]}}},{"type":"toolRequest","id":"c2","toolCall":{"status":"error","error":"-32602: could not read the arguments"}}]', 1);
        INSERT INTO messages VALUES (2, 's', 'user', '[{"type":"toolResponse","id":"c1","toolResult":{"status":"success","value":[{"type":"text","text":"OUTPUT of the tool"}]}},{"type":"toolResponse","id":"c2","toolResult":{"status":"error","error":"FAILED to call the tool"}}]', 2);"#,
    );
    let sessions = made.all("goose");
    let calls: Vec<_> = sessions[0].messages[0].tool_calls().collect();
    assert_eq!(calls[0].arguments.text().as_str(), r#"{"value":[1,2]}"#);
    assert_eq!(
        (calls[1].id.as_str(), calls[1].arguments.text().as_str()),
        ("c2", "-32602: could not read the arguments")
    );
    let results: Vec<_> =
        sessions[0].messages[1].tool_results().map(|result| result.call_id.clone().unwrap()).collect();
    assert_eq!(results.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["c1", "c2"]);
}

#[test]
fn llm() {
    let made = Made::with_threads(
        r#"
        CREATE TABLE fragments(id INTEGER PRIMARY KEY, hash TEXT, content TEXT);
        CREATE TABLE conversations(id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses(id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT);
        CREATE TABLE tool_calls(id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, arguments TEXT, tool_call_id TEXT);
        CREATE TABLE tool_results(id INTEGER PRIMARY KEY, response_id TEXT, name TEXT, output TEXT, tool_call_id TEXT, exception TEXT);
        INSERT INTO fragments VALUES (1, 'h', 'QUESTION about the ');
        INSERT INTO threads VALUES ('t1', 'TITLE of the thread', 'b2:3', NULL, '2026');
        INSERT INTO threads VALUES ('t2', 'a fork', 'b2:4', 't1', '2026');
        INSERT INTO threads VALUES ('t3', 'broken', 'b2:9', NULL, '2026');
        INSERT INTO turns VALUES ('u1', 't1', 'b2:1', 'b2:2', 'm', '2026-01-01');
        INSERT INTO turns VALUES ('u2', 't2', 'b2:1', 'b2:4', 'm', '2026-01-01'), ('u3', 't3', NULL, 'b2:9', 'm', '2026-01-01');
        INSERT INTO messages VALUES ('b2:1', NULL, 'user', NULL), ('b2:2', 'b2:1', 'assistant', NULL), ('b2:3', 'b2:2', 'tool', NULL), ('b2:4', 'b2:1', 'assistant', NULL), ('b2:9', 'b2:missing', 'assistant', NULL);
        INSERT INTO parts VALUES (1, 'b2:1', 0, 'text', NULL, NULL, '{"text_ref":[{"fragment":1},{"literal":"files here"}]}');
        INSERT INTO parts VALUES (2, 'b2:2', 1, 'tool_call', 'f', NULL, '{"name":"f","arguments":{"a":1},"tool_call_id":"c1"}');
        INSERT INTO parts VALUES (3, 'b2:2', 0, 'text', NULL, 'LOOKING at the files now', NULL);
        INSERT INTO parts VALUES (4, 'b2:3', 0, 'tool_result', 'f', NULL, '{"name":"f","output":"OUTPUT of the tool here","tool_call_id":"c1"}');
        INSERT INTO parts VALUES (5, 'b2:4', 0, 'text', NULL, 'OTHER answer in a fork', NULL);
        INSERT INTO parts VALUES (6, 'b2:9', 0, 'text', NULL, 'LAST answer of a chain', NULL);
        INSERT INTO conversations VALUES ('t1', 'taken over', 'm'), ('o1', 'TITLE of the old one', 'm');
        INSERT INTO responses VALUES ('r1', 'm', 'QUESTION about the files here', 'SYSTEM prompt of the old', 'LOOKING at the files now', 'o1', '2025');
        INSERT INTO responses VALUES ('r2', 'm', '', 'SYSTEM prompt of the old', 'ANSWER after the tool here', 'o1', '2025');
        INSERT INTO tool_calls VALUES (1, 'r1', 'f', '{"a":1}', 'c1');
        INSERT INTO tool_results VALUES (1, 'r2', 'f', 'OUTPUT of the tool here', 'c1', NULL);
        "#,
    );
    let sessions = made.all("llm");
    assert_eq!(sessions.len(), 4);
    assert_eq!(messages(&sessions[0]), ["user QUESTION", "assistant LOOKING !c1:f", "tool =c1:OUTPUT"]);
    assert_eq!(sessions[0].messages[0].content().unwrap(), "QUESTION about the files here");
    assert_eq!(sessions[0].details[1].time.as_deref(), Some("2026-01-01"));
    assert_eq!(messages(&sessions[1]), ["user QUESTION", "assistant OTHER"]);
    assert_eq!(
        (messages(&sessions[2]), rules(&sessions[2])),
        (vec!["assistant LAST".to_owned()], vec!["damaged-entry"])
    );
    assert_eq!(
        messages(&sessions[3]),
        ["system SYSTEM", "user QUESTION", "assistant LOOKING !c1:f", "tool =c1:OUTPUT", "assistant ANSWER"]
    );
    assert_eq!(sessions[3].title().unwrap().as_str(), "TITLE of the old one");
}

/// The index for searches holds no conversation, so its damage blocks none.
#[test]
fn a_database_whose_index_is_damaged_is_read() {
    let made = Made::with_threads(
        r#"
        INSERT INTO threads VALUES ('t1', 'whole', 'b2:1', NULL, '2026');
        INSERT INTO turns VALUES ('u0', 't1', NULL, 'b2:1', 'm', '2026-01-01');
        INSERT INTO messages VALUES ('b2:1', NULL, 'user', NULL);
        INSERT INTO parts VALUES (1, 'b2:1', 0, 'text', NULL, 'WHOLE thread of one message', NULL);
        CREATE TABLE turn_search(id INTEGER PRIMARY KEY, turn_id TEXT, prompt TEXT, response TEXT);
        CREATE VIRTUAL TABLE turn_search_fts USING fts5(prompt, response, content=turn_search);
        PRAGMA writable_schema = ON;
        DELETE FROM sqlite_schema WHERE name LIKE 'turn_search_fts_%';
        "#,
    );
    let sessions = made.all("llm");
    assert_eq!((messages(&sessions[0]), rules(&sessions[0])), (vec!["user WHOLE".to_owned()], vec![]));
}

/// llm sends nothing of a thread if a message of its chain is missing. What was before it is kept.
#[test]
fn messages_before_a_hole_in_a_thread_of_llm_are_kept() {
    let made = Made::with_threads(
        r#"
        INSERT INTO threads VALUES ('t1', 'whole', 'b2:1', NULL, '2026'), ('t2', 'broken', 'b2:6', NULL, '2026');
        INSERT INTO turns VALUES ('u0', 't1', NULL, 'b2:1', 'm', '2026-01-01'), ('u1', 't2', 'b2:2', 'b2:3', 'm', '2026-01-01'), ('u2', 't2', 'b2:5', 'b2:6', 'm', '2026-01-02');
        INSERT INTO messages VALUES ('b2:1', NULL, 'user', NULL), ('b2:2', NULL, 'user', NULL), ('b2:3', 'b2:2', 'assistant', NULL),
            ('b2:4', 'b2:3', 'user', NULL), ('b2:6', 'b2:5', 'assistant', NULL);
        INSERT INTO parts VALUES (1, 'b2:1', 0, 'text', NULL, 'WHOLE thread of one message', NULL);
        INSERT INTO parts VALUES (2, 'b2:2', 0, 'text', NULL, 'QUESTION about the files here', NULL);
        INSERT INTO parts VALUES (3, 'b2:3', 0, 'text', NULL, 'ANSWER about the files here', NULL);
        INSERT INTO parts VALUES (4, 'b2:4', 0, 'text', NULL, 'LOOSE question that no turn names', NULL);
        INSERT INTO parts VALUES (5, 'b2:5', 0, 'text', NULL, 'PARTS of the missing message', NULL);
        INSERT INTO parts VALUES (6, 'b2:6', 0, 'text', NULL, 'LAST answer of a chain', NULL);
        "#,
    );
    let sessions = made.all("llm");
    assert_eq!((messages(&sessions[0]), rules(&sessions[0])), (vec!["user WHOLE".to_owned()], vec![]));
    assert_eq!(messages(&sessions[1]), ["assistant LAST"]);
    assert_eq!(rules(&sessions[1]), ["damaged-entry", "broken-chain"]);
    assert_eq!(hidden(&sessions[1]), ["user QUESTION", "assistant ANSWER", "user LOOSE"]);
    let told = sessions[1].findings[1].to_string();
    assert!(told.contains("3 messages that may come before it are kept beside"), "{told}");
    let beside = sessions[1].set_aside.iter().filter_map(|item| item.raw());
    assert!(beside.into_iter().any(|text| text.contains("PARTS of the missing message")));
}

/// The first releases of llm wrote responses without a conversation, and a conversation can be deleted without its responses.
#[test]
fn responses_of_llm_without_a_conversation_are_conversations() {
    let made = Made::new(
        r#"
        CREATE TABLE conversations(id TEXT PRIMARY KEY, name TEXT, model TEXT);
        CREATE TABLE responses(id TEXT PRIMARY KEY, model TEXT, prompt TEXT, system TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT);
        INSERT INTO responses VALUES ('r1', 'm1', 'FIRST question of a person', NULL, 'ONE answer of the model', NULL, '2023');
        INSERT INTO responses VALUES ('r2', 'm2', 'SECOND question of a person', 'SYSTEM prompt of the old', 'TWO answers of the model', NULL, '2023');
        INSERT INTO responses VALUES ('r3', 'm2', 'THIRD question of a person', NULL, 'THREE answers of the model', 'gone', '2023');
        INSERT INTO responses VALUES ('r4', 'm2', 'FOURTH question of a person', NULL, 'FOUR answers of the model', 'gone', '2023');
        "#,
    );
    let sessions = made.all("llm");
    let said: Vec<_> = sessions.iter().map(messages).collect();
    assert_eq!(
        said,
        [
            vec!["user FIRST", "assistant ONE"],
            vec!["system SYSTEM", "user SECOND", "assistant TWO"],
            vec!["user THIRD", "assistant THREE", "user FOURTH", "assistant FOUR"],
        ]
    );
    let models: Vec<_> = sessions.iter().filter_map(|session| session.context.model()).collect();
    assert_eq!(models, ["m1", "m2", "m2"]);
    assert_ne!(sessions[0].id, sessions[1].id);
}

#[test]
fn openai_agents() {
    let made = Made::new(
        r#"
        CREATE TABLE agent_sessions(session_id TEXT PRIMARY KEY);
        CREATE TABLE agent_messages(id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TEXT);
        INSERT INTO agent_messages VALUES (1, 's', '{"role":"user","content":"QUESTION about the files here"}', '2026');
        INSERT INTO agent_messages VALUES (2, 's', '{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}', '2026');
        INSERT INTO agent_messages VALUES (3, 's', '{"type":"function_call_output","call_id":"c1","output":"OUTPUT of the tool here"}', '2026');
        INSERT INTO agent_messages VALUES (4, 's', '{"type":"fun', '2026');
        "#,
    );
    let sessions = made.all("openai-agents");
    assert_eq!(messages(&sessions[0]), ["user QUESTION", "assistant !c1:f", "tool =c1:OUTPUT"]);
    assert_eq!(rules(&sessions[0]), ["damaged-entry"]);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let made = Made::new("CREATE TABLE bookmarks(id INTEGER, address TEXT)");
    assert_eq!(made.read().unwrap_err(), ReadError::UnknownFormat);
    std::fs::write(made.path(), b"SQLite format 3\0 and nothing else").unwrap();
    assert!(matches!(made.read().unwrap_err(), ReadError::Io(_)));
}

/// Tables of another program beside those of the format are named.
#[test]
fn tables_of_another_program_are_reported() {
    let goose = r#"
        CREATE TABLE schema_version(version INTEGER);
        CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
        CREATE TABLE empty(a);
        CREATE TABLE parts(id INTEGER, text TEXT);
        INSERT INTO schema_version VALUES (1);
        INSERT INTO parts VALUES (1, 'said elsewhere');
        INSERT INTO sessions VALUES ('s', 'TITLE', '/p');
        INSERT INTO messages VALUES (1, 's', 'user', '[{"type":"text","text":"QUESTION about files"}]', 1);"#;
    let sessions = Made::new(goose).read().unwrap();
    assert_eq!(rules(&sessions[0]), ["unread-text"]);
    let said = sessions[0].findings[0].to_string();
    assert!(
        said.contains("`parts`") && !said.contains("empty") && !said.contains("schema_version"),
        "{said}"
    );
    // Two formats that have all of their tables are an error that names both.
    let both = format!("{goose} CREATE TABLE agent_messages(session_id TEXT, message_data TEXT);");
    let error = Made::new(&both).read().unwrap_err();
    assert!(matches!(error, ReadError::Ambiguous { .. }), "{error}");
}

/// A newer release may rename a table or a column: the error says what is missing.
#[test]
fn a_database_that_lacks_something_comes_near_to_its_format() {
    let tables =
        "CREATE TABLE session(id, project_id, directory, title); CREATE TABLE part(id, message_id, data);";
    for (message, lacks) in [
        ("CREATE TABLE message_v3(id, session_id, data)", "the table `message`"),
        ("CREATE TABLE message(id, session_id, payload)", "the column `message.data`"),
    ] {
        let error = Made::new(&format!("{tables} {message}")).read().unwrap_err().to_string();
        assert!(error.contains("opencode") && error.contains(lacks), "{error}");
    }
}

/// What is left of a database that was cut off is read, and the sessions are reported as damaged.
#[test]
fn a_torn_database_gives_the_rows_that_are_left() {
    let mut sql = String::from(
        "CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
         CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
         INSERT INTO sessions VALUES ('s', 'TITLE', '/p');",
    );
    for number in 0..100 {
        let words = "some words ".repeat(30);
        sql += &format!(
            r#"INSERT INTO messages VALUES ({number}, 's', 'user', '[{{"type":"text","text":"{words}"}}]', {number});"#
        );
    }
    let made = Made::new(&sql);
    let bytes = std::fs::read(made.path()).unwrap();
    std::fs::write(made.path(), &bytes[..bytes.len() - 4096]).unwrap();
    let sessions = made.read().unwrap();
    let left = sessions[0].messages.len();
    assert!((50..100).contains(&left), "{left}");
    assert_eq!(rules(&sessions[0]), ["damaged-entry"]);
    assert!(sessions[0].findings[0].to_string().contains(".recover"), "{}", sessions[0].findings[0]);
}

/// A newer release may add columns: the words in them are kept, and reported.
#[test]
fn words_in_unknown_columns_are_reported() {
    let goose = r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT, added TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER,
            tokens INTEGER, "new ""column" TEXT);
        CREATE TABLE something_else(a, b);
        INSERT INTO sessions VALUES ('s', 'TITLE', '/p', NULL);
        INSERT INTO messages VALUES (1, 's', 'user', '[{"type":"text","text":"QUESTION about files"}]', 1, 7, 'four words of it');"#;
    let crush = r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, title TEXT, message_count INTEGER, created_at INTEGER);
        CREATE TABLE messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts TEXT, model TEXT, created_at INTEGER, note TEXT);
        INSERT INTO sessions VALUES ('s', 'TITLE', 1, 1);
        INSERT INTO messages VALUES ('1', 's', 'user', '[{"type":"text","data":{"text":"QUESTION about files"}}]', 'm', 1,
            'four words of it');"#;
    for (format, sql, name) in [("goose", goose, r#"new "column"#), ("crush", crush, "note")] {
        let sessions = Made::new(sql).read().unwrap();
        assert_eq!(sessions[0].format, format);
        let unread = sessions[0].findings.iter().find(|finding| finding.rule == Rule::UnreadText).unwrap();
        assert!(unread.to_string().contains(name), "{unread}");
        assert!(sessions[0].messages[0].native_text().contains("four words of it"));
    }
}

/// Rows are sorted as SQLite sorts them: nothing, numbers, texts.
#[test]
fn rows_are_read_in_the_order_of_their_times() {
    let sql = r#"
        CREATE TABLE sessions(id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
        CREATE TABLE messages(id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT, created_timestamp);
        INSERT INTO sessions VALUES ('s', 'TITLE', '/p'), ('t', 'OTHER', '/p');"#;
    let times = ["'2026'", "9007199254740993", "9007199254740992", "2.5", "NULL", "2", "2.25", "2"];
    let rows = times.iter().enumerate().map(|(number, time)| {
        let session = if number == 5 { "t" } else { "s" };
        format!(
            r#"INSERT INTO messages VALUES ({number}, '{session}', 'user', '[{{"type":"text","text":"{number}"}}]', {time});"#
        )
    });
    let made = Made::new(&(sql.to_owned() + &rows.collect::<String>()));
    let read = made.all("goose");
    let said = |session: &Session| {
        let said = session.messages.iter().filter_map(|message| message.content());
        said.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(&read[0]), "4 7 6 3 2 1 0");
    assert_eq!(said(&read[1]), "5");
    let connection = Connection::open(made.path()).unwrap();
    let sql = "SELECT id FROM messages WHERE session_id = 's' ORDER BY created_timestamp, id";
    let mut statement = connection.prepare(sql).unwrap();
    let sorted = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    let sorted: Vec<String> = sorted.map(|id| id.unwrap().to_string()).collect();
    assert_eq!(said(&read[0]), sorted.join(" "));
}

#[test]
fn the_shape_of_a_database_has_no_values() {
    let made = Made::new(
        r#"
        CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT, "alice's column" BLOB);
        INSERT INTO notes VALUES (1, '{"role":"user","text":"secret words","by":{"alice":1,"bob":2}}', x'00ff');
        INSERT INTO notes VALUES (2, 'secret text', NULL);"#,
    );
    let database = sessions::Database::open("x.db", &made.path()).unwrap();
    let shape = FileShape::of_database(4096, &database);
    let shown = shape.to_string();
    for hidden in ["secret", "alice", "bob"] {
        assert!(!shown.contains(hidden) && !shape.to_json().contains(hidden), "{shown}");
    }
    for line in
        ["4096 bytes, a database: 2 rows", "notes.body:text", "notes.body:by.*", "bytes × 1, null × 1"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}
