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
    let dump = String::from_utf8(fixture("prometheus/dump.sql")).unwrap();
    // Cut off in a JSON text of its last table.
    let torn = &dump[..dump.rfind("'[{\"").unwrap() + 4];
    let torn = try_read("torn.sql", torn.as_bytes()).unwrap();
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

/// S4-05: the columns of calls and results that are no longer filled are read where they are, in either form of JSON.
#[test]
fn the_older_columns_are_read() {
    let row = |number: u32, kind: &str, content: &str, more: &str| {
        format!(
            r#"{{"id":"{number}","user_id":"u","channel_id":"c","message_type":"{kind}","content":{content},"created_at":"2025-09-24T10:00:0{number}Z"{more}}}"#
        )
    };
    let calls = r#"[{"name":"price","arguments":{"of":"the old thing"}},{"name":"stock","arguments":"{}"}]"#;
    let results = r#"[{"name":"price","result":"it costs forty two"},"there are none of them left"]"#;
    let quoted = |json: &str| rejoin_record::json::quoted(json);
    for (calls, results) in [(calls.to_owned(), results.to_owned()), (quoted(calls), quoted(results))] {
        let more = format!(r#","function_calls":{calls},"function_results":{results}"#);
        let rows = [
            row(
                1,
                "user",
                "\"what does the old thing cost\"",
                r#","function_calls":null,"function_results":null"#,
            ),
            row(2, "assistant", "\"I will look it up\"", &more),
            row(3, "assistant", "\"forty two, and none are left\"", ""),
        ];
        let text = format!("[{}]", rows.join(","));
        let sessions = try_read("rows.json", text.as_bytes()).unwrap();
        holds(FORMAT, &text, &sessions);
        let said = said(&sessions[0]);
        assert_eq!(said.len(), 4, "{said:?}");
        let of = r#"{"of":"the old thing"}"#;
        assert!(said[1].starts_with("assistant: I will look it up + calls "), "{said:?}");
        assert!(
            said[1].contains(&format!(" price {of} + calls ")) && said[1].ends_with(" stock {}"),
            "{said:?}"
        );
        assert!(
            said[2].contains("it costs forty two") && said[2].contains("there are none of them left"),
            "{said:?}"
        );
        let calls: Vec<_> = sessions[0].messages[1].tool_calls().map(|call| call.id.clone()).collect();
        let results: Vec<_> =
            sessions[0].messages[2].tool_results().filter_map(|result| result.call_id.clone()).collect();
        assert_eq!(calls, results, "the results answer the calls in their order");
        let times: Vec<_> = sessions[0].details.iter().map(|detail| detail.time.clone()).collect();
        assert!(
            times[1].is_some() && times[1] == times[2],
            "the results have the time of their row: {times:?}"
        );
    }
    let broken = row(1, "assistant", "\"words that stay\"", r#","function_calls":"what is not JSON at all""#);
    let sessions = try_read("rows.json", format!("[{broken}]").as_bytes()).unwrap();
    assert_eq!(said(&sessions[0]), ["assistant: words that stay"]);
    assert_eq!(rules(&sessions[0]), [Rule::DamagedEntry]);
}

/// S4-18, S4-23: rows from before the migration, which have none of its columns, are read beside those from after it, and so is a
/// dump that the migration ran over twice.
#[test]
fn rows_from_before_the_migration_are_read() {
    let create = "CREATE TABLE public.conversation_history (id uuid, user_id text NOT NULL, channel_id text NOT NULL, \
                  message_type text NOT NULL, content text NOT NULL, function_calls jsonb, function_results jsonb, created_at timestamptz);";
    let migration = "ALTER TABLE public.conversation_history ADD COLUMN IF NOT EXISTS tool_call_id text, \
                     ADD COLUMN IF NOT EXISTS tool_calls jsonb, ADD COLUMN IF NOT EXISTS tool_name text;";
    let old = "INSERT INTO public.conversation_history (id, user_id, channel_id, message_type, content, function_calls, function_results, created_at) VALUES \
               ('1', 'u', 'c', 'user', 'the question of long ago', NULL, NULL, '2025-09-24 10:00:00+00'), \
               ('2', 'u', 'c', 'assistant', 'the answer of long ago', NULL, NULL, '2025-09-24 10:00:00+00');";
    let new = r#"INSERT INTO public.conversation_history (id, user_id, channel_id, message_type, content, function_calls, function_results, created_at, tool_call_id, tool_calls, tool_name) VALUES
               ('3', 'u', 'c', 'user', 'the question of today', NULL, NULL, '2025-11-02 10:00:00+00', NULL, NULL, NULL),
               ('4', 'u', 'c', 'assistant', 'I will look', NULL, NULL, '2025-11-02 10:00:01+00', NULL, '[{"id":"call_1","type":"function","function":{"name":"price","arguments":"{}"}}]', NULL),
               ('5', 'u', 'c', 'tool', 'forty two of them', NULL, NULL, '2025-11-02 10:00:02+00', 'call_1', NULL, 'call');"#;
    let told = [
        "user: the question of long ago",
        "assistant: the answer of long ago",
        "user: the question of today",
        "assistant: I will look + calls call_1 price {}",
        "tool: gave call_1 forty two of them",
    ];
    let before = format!("{create}\n{old}\n");
    for (dump, expected) in [
        (before.clone(), &told[..2]),
        (format!("{before}{migration}\n{new}\n"), &told[..]),
        (format!("{before}{migration}\n{migration}\n{new}\n"), &told[..]),
    ] {
        let sessions = try_read("dump.sql", dump.as_bytes()).unwrap();
        holds(FORMAT, &dump, &sessions);
        assert_eq!(said(&sessions[0]), expected);
        assert_eq!(sessions[0].findings, [], "{dump}");
    }
}

/// The first line of such a dump holds the names of the columns with commas between them, like that of a CSV file.
#[test]
fn a_dump_may_begin_with_its_first_statement() {
    let columns = "(id, user_id, channel_id, message_type, content)";
    let copy = format!("COPY conversation_history {columns} FROM stdin;\n1\tu\tc\tuser\thello there\n\\.\n");
    let insert =
        format!("INSERT INTO conversation_history {columns} VALUES ('1','u','c','user','hello there');\n");
    for dump in [copy, insert] {
        let sessions = try_read("dump.sql", dump.as_bytes()).unwrap();
        assert_eq!(said(&sessions[0]), ["user: hello there"], "{dump}");
    }
}
