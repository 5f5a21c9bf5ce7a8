//! The Discord bot of Prometheus Protocol: dumps of its tables, in every form.

use super::*;

const FORMAT: &str = "prometheus";

fn first_channel() -> Vec<&'static str> {
    vec![
        "tool: gave call_gone a result whose call was pruned",
        "user: the plain question; it's here",
        "assistant: the plain answer, \"quoted\" and\nin two lines",
        "user: the question that needs tools",
        "assistant: the words before the calls + calls toolu_9 price {\"of\": \"a thing with a price\"} + calls toolu_8 stock {}",
        "tool: gave toolu_9 the price of the thing",
        "tool: gave toolu_8 Error: nothing is in stock",
        "assistant: the answer in a call\twith a tab",
        "user: [Scheduled task: daily] do what is due",
        "assistant: calls toolu_6 search {\"for\": \"what is never found\"}",
    ]
}

#[test]
fn one_conversation_for_each_user_and_channel() {
    let sessions = read_all(FORMAT, "rows.json");
    assert_eq!(sessions.len(), 2);
    assert_eq!(said(&sessions[0]), first_channel());
    assert_eq!(hidden(&sessions[0]), ["assistant: "], "the bot skips an empty row");
    assert_eq!(said(&sessions[1]), ["user: what another person asked here"]);
    assert_eq!(repairs(&sessions[0]), [Rule::OrphanResult, Rule::UnansweredCall]);
    let detail = &sessions[0].details[1];
    assert_eq!(detail.time.as_deref(), Some("2025-11-02T10:00:01.000+00:00"));
    assert_eq!(detail.id.as_deref(), Some("00000003-aaaa-4aaa-8aaa-aaaaaaaaaaaa"));
}

/// S4-29: a dump of `conversation_history` is read, as JSON, CSV and SQL.
#[test]
fn every_form_of_a_dump_tells_the_same() {
    let json = read_all(FORMAT, "rows.json");
    for file in ["rows.csv", "dump.sql"] {
        let sessions = read_all(FORMAT, file);
        assert_eq!(said(&sessions[0]), first_channel(), "{file}");
        assert_eq!(said(&sessions[1]), said(&json[1]), "{file}");
        assert_eq!(sessions[0].id, json[0].id, "{file}");
        assert_eq!(rules(&sessions[0]), [Rule::DamagedEntry], "{file}: a row with too few values");
    }
    let sql = read_all(FORMAT, "dump.sql");
    assert_eq!(said(&sql[2]), ["user: a question in the thread", "assistant: an answer in the thread"]);
    assert!(
        beside(&sql[0]).iter().any(|text| text.contains("somebody else")),
        "other tables are kept as they are"
    );
    assert_eq!(lines_of(&sql[0].findings, Rule::DamagedEntry), [13]);
}

/// S4-29: a dump of `chat_threads` is read.
#[test]
fn a_thread_is_a_conversation() {
    let sessions = read_all(FORMAT, "both.json");
    assert_eq!(sessions.len(), 3);
    assert_eq!(said(&sessions[2]), ["user: a question in the thread", "assistant: an answer in the thread"]);
    assert_eq!(sessions[2].id, read_all(FORMAT, "dump.sql")[2].id);
}

#[test]
fn a_bad_row_spoils_only_itself() {
    let sessions = read_all(FORMAT, "lines.jsonl");
    assert_eq!(said(&sessions[0]), first_channel());
    assert_eq!(rules(&sessions[0]), [Rule::DamagedEntry, Rule::TornTail, Rule::DamagedEntry]);
    let torn = read_all(FORMAT, "torn.json");
    // The row that was cut is the first one of the conversation.
    assert_eq!(said(&torn[0]), first_channel()[1..]);
    assert_eq!(rules(&torn[0]), [Rule::DamagedEntry]);
    let torn = read_all(FORMAT, "torn.sql");
    assert_eq!(said(&torn[0]), first_channel());
    assert_eq!(rules(&torn[0]), [Rule::DamagedEntry, Rule::TornTail]);
}

#[test]
fn a_dump_without_messages_is_no_conversation() {
    let sql = b"INSERT INTO conversation_history (id, content) VALUES ('1', NULL);";
    assert!(
        matches!(try_read("dump.sql", sql), Err(ReadError::NoConversation(_))),
        "{:?}",
        try_read("dump.sql", sql)
    );
}

#[test]
fn a_row_that_is_there_twice_is_read_once() {
    let row = r#"{"id":"1","user_id":"u","channel_id":"c","message_type":"user","content":"said only once by somebody"}"#;
    let sessions = try_read("rows.json", format!("[{row},{row}]").as_bytes()).unwrap();
    assert_eq!(said(&sessions[0]), ["user: said only once by somebody"]);
    holds(FORMAT, "", &sessions);
}
