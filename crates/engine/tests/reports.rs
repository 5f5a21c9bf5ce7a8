//! The views that other programs query in a PostgreSQL database: the columns of a bot's table, and the audit of calls.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::sync::Arc;

use rejoin_engine::{
    CallKey, Conversation, Mode, New, SystemClock, Writer,
    calls::calls,
    compat::{ConversationMessage as BotMessage, DatabaseService},
    open_store, read,
};
use rejoin_record::{
    Content, ConversationId, Message, Scope, ToolCall,
    content::{CallAt, Meta, Turn, TurnState},
};
use rejoin_store::{Access, Location, Query, Store};
use testkit::postgres::{Server, shared};

/// Runs a test with an empty database.
fn with_database(test: impl Fn(&'static Server, &str, Arc<dyn Store>)) {
    let Some(server) = shared() else { return };
    let database = server.database();
    let location: Location = server.address(&database).parse().unwrap();
    test(server, &database, Arc::from(open_store(&location, Access::Write).unwrap()));
}

fn only(store: &dyn Store) -> ConversationId {
    store.list(&Query::default()).unwrap().conversations[0].id
}

fn turn(number: usize) -> Vec<BotMessage> {
    let (one, two) = (format!("call_{number}_1"), format!("call_{number}_2"));
    let calls =
        vec![ToolCall::new(&*one, "price", r#"{"of":"x\u0000"}"#), ToolCall::new(&*two, "time", "{}")];
    vec![
        BotMessage::user(format!("question {number} with a zero \0 in it")),
        BotMessage::calls(calls),
        BotMessage::tool(one, "42"),
        BotMessage::tool(two, "noon"),
        BotMessage::assistant(format!("answer {number}")),
    ]
}

/// S4-03, S4-04, S4-05: the view has the origin's columns, with native JSON, names looked up in the calls, and content that may be null.
#[test]
fn the_view_has_what_the_older_table_had() {
    with_database(|server, database, store| {
        let service = DatabaseService::new(Arc::clone(&store));
        service.save_messages("ann", "general", &turn(1)).unwrap();
        service.save_conversation_turn("bob", "general", "hello", "hi").unwrap();
        service.create_chat_thread("t7", "general", "ann").unwrap();
        service.update_thread_history("t7", &turn(2)).unwrap();
        // A conversation without an owner is not in it.
        let mut own = Conversation::create(Arc::clone(&store), &New::default(), "test");
        own.say(Message::user("of nobody"));
        store.report().unwrap();
        let query = |query: &str| server.psql(database, query).unwrap();
        let columns = "SELECT string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) FROM information_schema.columns \
                       WHERE table_schema = 'rejoin' AND table_name = 'conversation_history'";
        assert_eq!(
            query(columns).trim(),
            "id uuid, user_id text, channel_id text, message_type text, content text, function_calls jsonb, function_results jsonb, \
             created_at timestamp with time zone, updated_at timestamp with time zone, tool_call_id text, tool_calls jsonb, tool_name text, \
             thread_id text, conversation text, seq bigint"
        );
        let rows = "SELECT message_type, coalesce(content, '-'), coalesce(tool_call_id, '-'), coalesce(tool_name, '-'), \
                    coalesce(tool_calls->0->'function'->>'name', '-'), function_calls IS NULL FROM rejoin.conversation_history \
                    WHERE user_id = 'ann' AND thread_id = '' ORDER BY created_at, seq, id";
        assert_eq!(
            query(rows).trim(),
            "user|question 1 with a zero ␀ in it|-|-|-|t\n\
             assistant|-|-|-|price|t\n\
             tool|42|call_1_1|price|-|t\n\
             tool|noon|call_1_2|time|-|t\n\
             assistant|answer 1|-|-|-|t"
        );
        let counts = "SELECT user_id, thread_id, count(*), count(DISTINCT id) FROM rejoin.conversation_history GROUP BY 1, 2 ORDER BY 1, 2";
        assert_eq!(query(counts).trim(), "ann||5|5\nann|t7|5|5\nbob||2|2");
    });
}

/// The rows of the view, in the form of [`audited`].
const VIEW: &str = "SELECT request_id, call_id, tool_name, status, args_sha256, coalesce(error_kind, '-'), coalesce(latency_ms::text, '-') \
                    FROM rejoin.tool_calls ORDER BY conversation, request_id, call_id";

fn audited(store: &dyn Store) -> String {
    let key = CallKey(store.report_key().unwrap().unwrap());
    let mut ids = store.ids("", usize::MAX).unwrap();
    ids.sort_unstable_by_key(ToString::to_string);
    let mut lines = Vec::new();
    for id in ids {
        let mut own: Vec<String> = Vec::new();
        for call in calls(&read(store, id, Mode::Recover).unwrap(), &key) {
            let kind = call.error_kind.map_or("-", |kind| kind.name());
            let latency =
                call.times.latency_ms().map_or_else(|| String::from("-"), |latency| latency.to_string());
            own.push(format!(
                "{}|{}|{}|{}|{}|{kind}|{latency}",
                call.request,
                call.call_id,
                call.tool,
                call.status.name(),
                call.args_sha256
            ));
        }
        own.sort();
        lines.extend(own);
    }
    lines.join("\n")
}

/// S1-26, S1-27, S1-33: the view agrees with `history calls` at every step of a turn: requested, running, completed, failed,
/// interrupted. Arguments are hashed, and kept only if the operator enables that.
#[test]
fn the_audit_in_the_database_is_the_audit() {
    with_database(|server, database, store| {
        let query = |query: &str| server.psql(database, query).unwrap();
        let check = |step: &str| {
            store.report().unwrap();
            // Latencies are rounded in one place and truncated in the other. Without both times there is no latency.
            let cut = |text: &str| -> Vec<String> {
                let has_latency = |line: &str| {
                    let (rest, latency) = line.rsplit_once('|').unwrap();
                    format!("{rest}|{}", if latency == "-" { "none" } else { "some" })
                };
                let mut lines: Vec<String> = text.lines().map(has_latency).collect();
                lines.sort();
                lines
            };
            assert_eq!(cut(query(VIEW).trim()), cut(&audited(&*store)), "{step}");
        };
        let mut talk = Conversation::create(Arc::clone(&store), &New::default(), "test");
        talk.say(Message::user("go"));
        check("a question");
        let asked = talk.say(Message::assistant_with_tools(vec![
            ToolCall::new("a", "price", r#"{"secret":"sesame"}"#),
            ToolCall::new("b", "time", "{}"),
            ToolCall::new("b", "time", "{}"),
        ]));
        check("calls");
        assert_eq!(
            query("SELECT string_agg(DISTINCT status, ',') FROM rejoin.tool_calls").trim(),
            "requested"
        );
        let running = |block: u64| {
            Content::Turn(Turn::new(TurnState::CallRunning, Some(CallAt { entry: asked.entry.id(), block })))
        };
        talk.append(&running(0));
        check("a call runs");
        assert_eq!(query("SELECT status FROM rejoin.tool_calls WHERE call_id = 'a'").trim(), "running");
        talk.say(Message::tool("a", "42"));
        check("a result");
        assert_eq!(
            query("SELECT status, started_at <= ended_at FROM rejoin.tool_calls WHERE call_id = 'a'").trim(),
            "completed|t"
        );
        talk.append(&running(1));
        talk.append(&Content::Turn(Turn::new(TurnState::Interrupted, None)));
        check("interrupted");
        talk.say(Message::user("and now?"));
        check("a late question");
        // A later conversation, so that the rows of the first are not made again.
        let mut other = Conversation::create(Arc::clone(&store), &New::default(), "test");
        for number in 0..40 {
            let id = format!("c{}", number % 7);
            other.say(Message::assistant_with_tools(vec![ToolCall::new(&*id, "run", "{}")]));
            if number % 3 > 0 {
                other.say(Message::tool(&*id, "done"));
            }
            if number % 5 == 0 {
                check("many calls");
            }
        }
        check("the end");
        // Only hashes are stored.
        assert_eq!(
            query(
                "SELECT count(*) FROM rejoin.tool_calls WHERE arguments IS NOT NULL OR outcome IS NOT NULL"
            )
            .trim(),
            "0"
        );
        assert!(!query("SELECT * FROM rejoin.called").contains("sesame"));
        query("UPDATE rejoin.setting SET value = 'true' WHERE name = 'audit_arguments'");
        query("UPDATE rejoin.summary SET reported = -1");
        check("with arguments");
        assert_eq!(
            query("SELECT arguments, outcome FROM rejoin.tool_calls WHERE call_id = 'a'").trim(),
            r#"{"secret":"sesame"}|42"#
        );
    });
}

/// A completed call never becomes a failed one, and each row exists once however often it is reported.
#[test]
fn a_completed_call_stays_completed() {
    with_database(|server, database, store| {
        let service = DatabaseService::new(Arc::clone(&store));
        service.save_messages("ann", "general", &turn(1)).unwrap();
        store.report().unwrap();
        let before = server.psql(database, VIEW).unwrap();
        server.psql(database, "UPDATE rejoin.summary SET reported = -1").unwrap();
        store.report().unwrap();
        assert_eq!(server.psql(database, VIEW).unwrap(), before);
        let mut talk = Conversation::open(Arc::clone(&store), only(&*store), "test").unwrap();
        talk.say(Message::tool("call_1_1", "and once more"));
        store.report().unwrap();
        assert_eq!(
            server.psql(database, "SELECT DISTINCT status FROM rejoin.tool_calls").unwrap().trim(),
            "completed"
        );
        assert_eq!(server.psql(database, "SELECT count(*) FROM rejoin.tool_calls").unwrap().trim(), "2");
    });
}

/// The rows are there a moment after the append, without being asked for, and when the process that appended has ended.
#[test]
fn rows_follow_the_appends() {
    with_database(|server, database, store| {
        let count = || {
            server
                .psql(database, "SELECT count(*) FROM rejoin.conversation_history")
                .unwrap()
                .trim()
                .to_owned()
        };
        let service = DatabaseService::new(Arc::clone(&store));
        service.save_messages("ann", "general", &turn(1)).unwrap();
        let begun = std::time::Instant::now();
        while count() != "5" {
            assert!(begun.elapsed().as_secs() < 20, "the rows are not made");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        service.save_messages("ann", "general", &turn(2)).unwrap();
        drop((service, store));
        assert_eq!(count(), "10");
    });
}

/// Erased or deleted content is in no row, and a conversation that gets its scope later gets all its rows.
#[test]
fn rows_go_with_what_they_are_made_from() {
    with_database(|server, database, store| {
        let query = |query: &str| server.psql(database, query).unwrap().trim().to_owned();
        let mut talk = Conversation::create(Arc::clone(&store), &New::default(), "test");
        let secret = talk.say(Message::user("the secret is sesame"));
        talk.say(Message::assistant("noted"));
        store.report().unwrap();
        assert_eq!(query("SELECT count(*) FROM rejoin.conversation_history"), "0");
        let scope = Scope { user: String::from("ann"), ..Scope::default() };
        talk.append(&Content::Meta(Meta { scope: Some(scope.to_raw()), ..Meta::default() }));
        store.report().unwrap();
        assert_eq!(
            query("SELECT string_agg(content, '; ' ORDER BY seq) FROM rejoin.conversation_history"),
            "the secret is sesame; noted"
        );
        let id = talk.id();
        drop(talk);
        let clock = SystemClock;
        let writer = Writer { store: &*store, clock: &clock, command: "test" };
        writer.erase(id, &[secret.entry.id()], None).unwrap();
        assert_eq!(query("SELECT count(*) FROM rejoin.said"), "0");
        store.report().unwrap();
        assert_eq!(
            query("SELECT string_agg(content, '; ' ORDER BY seq) FROM rejoin.conversation_history"),
            "noted"
        );
        store.delete(id).unwrap();
        assert_eq!(
            query("SELECT (SELECT count(*) FROM rejoin.said) + (SELECT count(*) FROM rejoin.called)"),
            "0"
        );
    });
}
