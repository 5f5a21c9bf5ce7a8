//! Conversations of users, channels and threads, from outside: `--scope`, and the tables of a chat bot.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use support::{Home, SOUND, has};

const ANN: &[&str] = &["--scope", "user=ann,channel=red"];
const BOB: &[&str] = &["--scope", "user=bob"];

fn with<'a>(scope: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [rest, scope].concat()
}

/// S4-01, S4-19: each user continues their own conversation, sees only that, and finds only its messages.
#[test]
fn users_do_not_see_each_other() {
    Home::each(|home| {
        let chat =
            |scope: &[&str], text: &str| home.out(&with(scope, &["chat", "--provider", "offline", text]));
        chat(ANN, "my name is Ann");
        chat(BOB, "my name is Bob");
        has(&chat(ANN, "What is my name?"), &["Ann"]);
        has(&chat(BOB, "What is my name?"), &["Bob"]);
        let all = home.lines(&["list", "--json"]);
        assert_eq!(all.len(), 2);
        let of = |scope: &[&str]| home.lines(&with(scope, &["list", "--json"]));
        assert_eq!((of(ANN).len(), of(BOB).len()), (1, 1));
        assert_eq!(of(ANN)[0]["scope"], serde_json::json!({"user": "ann", "channel": "red"}));
        assert_eq!(of(&["--scope", "channel=red"]).len(), 1);
        assert_eq!(of(&["--scope", "user=carl"]).len(), 0);
        has(&home.out(&with(ANN, &["list"])), &["Scope: user ann, channel red", "Total: 1 conversation(s)"]);
        let found = |scope: &[&str], words: &str| {
            home.lines(&with(scope, &["history", "search", "--json", words])).len()
        };
        assert!(found(&[], "Bob") > 0 && found(BOB, "Bob") > 0);
        assert_eq!(found(ANN, "Bob"), 0);
        // Even with its id.
        let bobs = of(BOB)[0]["id"].as_str().unwrap().to_owned();
        for command in [
            &["history", "show", &bobs][..],
            &["resume", &bobs],
            &["history", "calls", &bobs],
            &["history", "delete", "--yes", &bobs],
            &["chat", "--session", &bobs, "hello"],
        ] {
            let ran = home.run(&with(ANN, command));
            assert_ne!(ran.code, 0, "{command:?}: {}", ran.out);
            assert!(
                !ran.out.contains("Bob") && !ran.err.contains("Bob"),
                "{command:?}: {}{}",
                ran.out,
                ran.err
            );
            has(&ran.err, &["not found"]);
        }
        has(&home.out(&with(BOB, &["history", "show", &bobs])), &["my name is Bob", "\nScope: user bob\n"]);
        home.verifies();
    });
}

/// Two users import the same file, and each gets a separate conversation, even after a second import. A fork stays with its user.
#[test]
fn what_users_import_and_fork_is_theirs() {
    Home::each(|home| {
        let file = home.file("chat.json", SOUND);
        for _ in 0..2 {
            home.out(&with(ANN, &["import", &file]));
            home.out(&with(BOB, &["import", &file]));
        }
        assert_eq!(home.lines(&["list", "--json"]).len(), 2);
        let anns = home.lines(&with(ANN, &["list", "--json"]))[0]["id"].as_str().unwrap().to_owned();
        home.out(&with(ANN, &["history", "fork", &anns]));
        assert_eq!(home.lines(&with(ANN, &["list", "--json"])).len(), 2);
        assert_eq!(home.lines(&with(BOB, &["list", "--json"])).len(), 1);
        home.out(&with(ANN, &["new", "--title", "mine"]));
        assert_eq!(home.lines(&with(ANN, &["list", "--json"])).len(), 3);
    });
}

/// Only an import of the own scope is undone, also if another scope imported later.
#[test]
fn an_import_of_another_scope_is_not_undone() {
    Home::each(|home| {
        let file = home.file("chat.json", SOUND);
        home.out(&with(BOB, &["import", &file]));
        home.out(&with(ANN, &["import", &file]));
        let anns = home.lines(&with(ANN, &["list", "--json"]))[0]["id"].as_str().unwrap().to_owned();
        let ran = home.run(&with(BOB, &["import", "--undo"]));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("deleted") && !ran.out.contains(&anns), "{}", ran.out);
        assert_eq!(home.lines(&with(BOB, &["list", "--json"])).len(), 0);
        let ran = home.run(&with(BOB, &["import", "--undo"]));
        has(&ran.err, &["There is no import to undo"]);
        assert!(ran.code == 0 && ran.out.is_empty(), "{}", ran.out);
        assert_eq!(home.lines(&with(ANN, &["list", "--json"])).len(), 1);
        has(&home.out(&["import", "--undo"]), &[&anns, "deleted"]);
    });
}

#[test]
fn a_scope_that_is_none_is_explained() {
    let home = Home::new("sqlite");
    for (scope, why) in [("ann", "user=U"), ("usr=ann", "user, channel and thread"), ("", "user=U")] {
        let ran = home.run(&["list", "--scope", scope]);
        assert_eq!(ran.code, 2, "{scope}: {}", ran.err);
        has(&ran.err, &[why]);
    }
}

/// The tables that a bot has made, as far as they matter.
#[cfg(unix)]
const BOT: &str = r#"
CREATE TABLE conversation_history (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), user_id text NOT NULL, channel_id text NOT NULL,
  message_type text NOT NULL, content text, function_calls jsonb, function_results jsonb, created_at timestamptz DEFAULT now(),
  updated_at timestamptz DEFAULT now(), tool_call_id text, tool_calls jsonb, tool_name text);
CREATE TABLE chat_threads (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), thread_id text UNIQUE NOT NULL, channel_id text NOT NULL,
  user_id text NOT NULL, conversation_history jsonb DEFAULT '[]', is_active boolean, created_at timestamptz DEFAULT now(),
  last_activity timestamptz DEFAULT now());
INSERT INTO conversation_history (user_id, channel_id, message_type, content, tool_calls, tool_call_id, tool_name, created_at) VALUES
  ('ann', 'red', 'user', 'what does it cost?', NULL, NULL, NULL, '2026-05-01T10:00:00Z'),
  ('ann', 'red', 'assistant', NULL, to_jsonb('[{"id":"toolu_9","type":"function","function":{"name":"price","arguments":"{}"}}]'::text), NULL, NULL, '2026-05-01T10:00:01Z'),
  ('ann', 'red', 'tool', '42', NULL, 'toolu_9', 'toolu', '2026-05-01T10:00:02Z'),
  ('ann', 'red', 'assistant', 'It costs 42.', NULL, NULL, NULL, '2026-05-01T10:00:03Z'),
  ('bob', 'red', 'user', 'hello', NULL, NULL, NULL, '2026-05-01T10:00:00Z'),
  ('bob', 'red', 'assistant', 'hi', NULL, NULL, NULL, '2026-05-01T10:00:00Z');
INSERT INTO chat_threads (thread_id, channel_id, user_id, conversation_history) VALUES
  ('t1', 'red', 'ann', '[{"role":"user","content":"in a thread"},{"role":"assistant","content":"so it is"}]');
"#;

/// A database with the tables of a bot. None if there is no PostgreSQL.
#[cfg(unix)]
fn bot_database() -> Option<(&'static testkit::postgres::Server, String)> {
    let server = testkit::postgres::shared()?;
    let database = server.database();
    server.psql(&database, BOT).unwrap();
    Some((server, database))
}

/// S4-18, S4-23, S4-29: the tables of a bot are imported while it runs, with their scopes; a second import adds only new messages.
#[cfg(unix)]
#[test]
fn the_tables_of_a_bot_are_imported_as_they_are() {
    let Some((server, database)) = bot_database() else { return };
    let address = server.address(&database);
    let home = Home::new("sqlite");
    assert_eq!(home.lines(&["import", "--json", &address]).len(), 3);
    let scopes: Vec<_> =
        home.lines(&["list", "--json"]).iter().map(|line| line["scope"].to_string()).collect();
    assert_eq!(scopes.len(), 3);
    assert!(scopes.contains(&String::from(r#"{"user":"ann","channel":"red","thread":"t1"}"#)), "{scopes:?}");
    let shown = home.out(&["history", "show", "@1", "--scope", "user=ann,channel=red,thread="]);
    has(&shown, &["what does it cost?", "price", "42", "It costs 42."]);
    // Nothing new, then one row more.
    has(&home.run(&["import", &address]).err, &["3 as before"]);
    server.psql(&database, "INSERT INTO conversation_history (user_id, channel_id, message_type, content) VALUES ('bob', 'red', 'user', 'again')").unwrap();
    has(&home.run(&["import", &address]).err, &["0 new, 1 grown, 2 as before"]);
    has(&home.out(&["history", "show", "@1", "--scope", "user=bob"]), &["hello", "again"]);
    // The server keeps its data, so an import from it can be undone.
    home.out(&["import", "--undo"]);
    assert!(!home.out(&["history", "show", "@1", "--scope", "user=bob"]).contains("again"));
    // Import into the same database, whose view of the same name is not a table of the bot.
    let own = ["--store", &address, "import", &address];
    home.out(&own);
    has(&home.run(&own).err, &["3 as before"]);
    assert_eq!(
        server.psql(&database, "SELECT count(*) FROM rejoin.conversation_history").unwrap().trim(),
        "9"
    );
    // The options of a store, and a search with its index.
    let at = |arguments: &[&str]| home.out(&[&["--store", &address], arguments].concat());
    for option in ["search", "partitions"] {
        at(&["store", "enable", option]);
        has(&at(&["store"]), &[option]);
    }
    let enabled = home.run(&["--store", &address, "store", "enable", "search"]);
    assert_eq!(enabled.code, 0, "enabling twice is no mistake: {}", enabled.err);
    has(&at(&["history", "search", "costs"]), &["It *costs* 42."]);
    assert!(at(&["store", "--json"]).contains("search"));
    assert_eq!(home.run(&["--store", &address, "verify"]).code, 0);
    // A database without such tables, and the password never shown.
    let empty = server.address(&server.database());
    let ran = home.run(&["import", &empty]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    has(&ran.err, &["conversation_history", "hint:"]);
    let secret = "postgres://me:sesame@127.0.0.1:1/none";
    assert!(!home.run(&["import", secret]).err.contains("sesame"));
}

/// S4-05: imported rows show the columns `function_calls` and `function_results` again, also where they were imported before the view
/// had them.
#[cfg(unix)]
#[test]
fn the_view_shows_the_function_columns_of_imported_rows() {
    let Some((server, database)) = bot_database() else { return };
    let row = r#"INSERT INTO conversation_history (user_id, channel_id, message_type, content, function_calls, function_results, created_at) VALUES
        ('eve', 'red', 'user', 'what does it cost?', NULL, NULL, '2025-09-24T10:00:00Z'),
        ('eve', 'red', 'assistant', 'I look it up', '[{"name":"price","arguments":{"of":"x"}}]', '[{"name":"price","result":"42"}]', '2025-09-24T10:00:01Z'),
        ('eve', 'red', 'assistant', 'half', to_jsonb('{"name":"stock","arguments":"{}"}'::text), NULL, '2025-09-24T10:00:02Z')"#;
    server.psql(&database, row).unwrap();
    let address = server.address(&database);
    let home = Home::new("sqlite");
    home.out(&["--store", &address, "import", &address]);
    let of = |table: &str| {
        let query = format!(
            "SELECT content, function_calls, function_results FROM {table} WHERE user_id = 'eve' AND message_type <> 'tool' ORDER BY created_at, content"
        );
        server.psql(&database, &query).unwrap()
    };
    // JSON in a text is shown as JSON.
    let expected = of("public.conversation_history")
        .replace(r#""{\"name\":\"stock\",\"arguments\":\"{}\"}""#, r#"{"name": "stock", "arguments": "{}"}"#);
    assert!(expected.contains("price") && expected.contains(r#"{"name": "stock""#), "{expected}");
    assert_eq!(of("rejoin.conversation_history"), expected);
    // The calls of new messages are in `tool_calls`.
    let others = "SELECT count(*) FROM rejoin.conversation_history WHERE user_id <> 'eve' AND (function_calls IS NOT NULL OR function_results IS NOT NULL)";
    assert_eq!(server.psql(&database, others).unwrap(), "0");
    // As an older version left it.
    let older = "DELETE FROM rejoin.schema_version WHERE version = 5; \
                 ALTER TABLE rejoin.said DROP COLUMN function_calls CASCADE, DROP COLUMN function_results CASCADE";
    server.psql(&database, older).unwrap();
    home.out(&["--store", &address, "chat", "--provider", "offline", "--scope", "user=zoe", "hello"]);
    assert_eq!(of("rejoin.conversation_history"), expected);
}
