//! Sessions that their own agent refuses to open, as it was seen with the real programs.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Input, Session, sessions};
use rejoin_view::Rule;

fn read(format: &str, text: &str) -> Session {
    let input = Input::new("session.jsonl", text.as_bytes()).unwrap();
    sessions::read(&input, sessions::named(format)).unwrap().remove(0)
}

/// Why the agent refuses a session, and the line at which it does.
fn refusals(session: &Session) -> Vec<(Option<usize>, String)> {
    let findings = session.findings.iter().filter(|finding| finding.rule == Rule::CannotBeOpened);
    findings.map(|finding| (finding.at.line, finding.detail.as_ref().unwrap().to_string())).collect()
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn claude_code_needs_the_time_of_the_last_message() {
    let line = |number: usize, time: bool| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        let parent = number.checked_sub(1).map_or("null".into(), |parent| format!("\"u{parent}\""));
        let time =
            if time { format!(",\"timestamp\":\"2026-11-15T12:00:0{number}.000Z\"") } else { String::new() };
        let content = "[{\"type\":\"text\",\"text\":\"words\"}]";
        format!(
            "{{\"type\":\"{role}\",\"uuid\":\"u{number}\",\"parentUuid\":{parent},\"sessionId\":\"s\",\
             \"message\":{{\"role\":\"{role}\",\"id\":\"m{number}\",\"content\":{content}}}{time}}}\n"
        )
    };
    let transcript = |times: [bool; 4]| (0..4).map(|number| line(number, times[number])).collect::<String>();
    for times in [[true; 4], [false, false, false, true]] {
        assert_eq!(refusals(&read("claude-code", &transcript(times))), []);
    }
    for times in [[false; 4], [true, true, true, false]] {
        let refused = refusals(&read("claude-code", &transcript(times)));
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, Some(4));
        assert!(refused[0].1.contains("has no `timestamp`"), "{refused:?}");
    }
}

#[test]
fn pi_needs_its_header_first() {
    let header =
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/p"}"#;
    let hello = r#"{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"hello"}}"#;
    let reply = r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"text","text":"good bye"}],"stopReason":"stop"}}"#;
    assert_eq!(refusals(&read("pi", &lines(&[header, hello, reply]))), []);
    let nameless = header.replace("\"id\":\"s1\",", "");
    for text in [lines(&[hello, reply]), lines(&[hello, header, reply]), lines(&[&nameless, hello, reply])] {
        let refused = refusals(&read("pi", &text));
        assert_eq!(refused.len(), 1, "{text}");
        assert_eq!(refused[0].0, Some(1));
        assert!(refused[0].1.contains("of the type `session`"), "{refused:?}");
    }
}

#[test]
fn gemini_cli_needs_the_id_of_the_session_and_of_the_project() {
    let header = r#"{"sessionId":"s1","projectHash":"x","startTime":"2026-11-15T12:00:00.000Z"}"#;
    let hello = r#"{"id":"m1","type":"user","content":[{"text":"hello"}]}"#;
    let reply = r#"{"id":"m2","type":"gemini","content":"good bye"}"#;
    let set = format!("{{\"$set\":{header}}}");
    for text in [lines(&[header, hello, reply]), lines(&[hello, reply, header]), lines(&[&set, hello, reply])]
    {
        assert_eq!(refusals(&read("gemini-cli", &text)), [], "{text}");
    }
    let unplaced = header.replace("\"projectHash\":\"x\",", "");
    let nameless = header.replace("\"sessionId\":\"s1\",", "");
    for text in [lines(&[hello, reply]), lines(&[&unplaced, hello, reply]), lines(&[&nameless, hello, reply])]
    {
        let refused = refusals(&read("gemini-cli", &text));
        assert_eq!(refused.len(), 1, "{text}");
        assert!(refused[0].1.contains("`projectHash`"), "{refused:?}");
    }
    let document =
        |fields: &str| format!("{{{fields}\"startTime\":\"2026\",\"messages\":[{hello},{reply}]}}");
    assert_eq!(refusals(&read("gemini-cli", &document("\"sessionId\":\"s1\","))), []);
    assert_eq!(refusals(&read("gemini-cli", &document(""))).len(), 1);
}

#[cfg(feature = "sqlite")]
#[test]
fn llm_needs_a_turn_of_each_thread() {
    let folder = tempfile::tempdir().unwrap();
    let sessions = |name: &str, sql: &str| {
        let path = folder.path().join(name);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let tables = "
            CREATE TABLE threads(id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT);
            CREATE TABLE messages(hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
            CREATE TABLE parts(id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
            INSERT INTO threads VALUES ('t1', 'one', 'b2:1'), ('t2', 'two', 'b2:1');
            INSERT INTO messages VALUES ('b2:1', NULL, 'user', NULL);
            INSERT INTO parts VALUES (1, 'b2:1', 0, 'text', NULL, 'hello', NULL);";
        connection.execute_batch(&format!("{tables}{sql}")).unwrap();
        drop(connection);
        let database = sessions::Database::open(name, &path).unwrap();
        sessions::read_database(&database, None).unwrap()
    };
    let turns = "CREATE TABLE turns(id TEXT PRIMARY KEY, thread_id TEXT, tip_message_hash TEXT, model TEXT, datetime_utc TEXT);
                 INSERT INTO turns VALUES ('u1', 't1', 'b2:1', 'm', '2026'), ('u2', NULL, 'b2:1', 'm', '2026');";
    let refused =
        |sessions: Vec<Session>| sessions.iter().map(|session| refusals(session).len()).collect::<Vec<_>>();
    assert_eq!(refused(sessions("some.db", turns)), [0, 1]);
    assert_eq!(refused(sessions("none.db", "")), [1, 1]);
    assert_eq!(refused(sessions("other.db", "CREATE TABLE turns(id TEXT)")), [0, 0], "another version");
}
