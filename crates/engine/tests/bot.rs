//! The history of a bot: saved messages come back completely, from every store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::sync::Arc;

use rejoin_engine::{
    EngineError, Mode,
    compat::{ConversationMessage as BotMessage, DatabaseService},
    open_store, read,
};
use rejoin_formats::{Dialect, convert};
use rejoin_record::{Scope, Timestamp, ToolCall};
use rejoin_store::{Access, Location, Query, ScopeFilter, Store};
use rejoin_view::OnBroken;

fn in_every_store(test: impl Fn(Arc<dyn Store>, &dyn Fn() -> Arc<dyn Store>)) {
    let folder = tempfile::tempdir().unwrap();
    let mut places = vec![
        Location::Sqlite(folder.path().join("s/rejoin.db")),
        Location::Jsonl(folder.path().join("jsonl")),
    ];
    if let Some(server) = testkit::postgres::shared() {
        places.push(server.address(&server.database()).parse().unwrap());
    }
    for place in places {
        println!("{place}");
        let open = || Arc::from(open_store(&place, Access::Write).unwrap());
        test(open(), &open);
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments)
}

/// A turn with two calls, as a bot saves it.
fn turn(number: usize) -> Vec<BotMessage> {
    let (one, two) = (format!("toolu_{number}_1"), format!("toolu_{number}_2"));
    vec![
        BotMessage::user(format!("question {number}")),
        BotMessage {
            content: Some(String::from("checking")),
            ..BotMessage::calls(vec![call(&one, "price", r#"{"of":"icp"}"#), call(&two, "time", "{}")])
        },
        BotMessage::tool(one, "42"),
        BotMessage::tool(two, "noon"),
        BotMessage::assistant(format!("answer {number}")),
    ]
}

fn texts(messages: &[BotMessage]) -> Vec<String> {
    messages.iter().map(|said| format!("{}:{}", said.role, said.content.as_deref().unwrap_or("-"))).collect()
}

/// S4-02, S4-06, S4-07, S4-08, S4-09, S4-13, S4-19, S4-20, S4-21: all roles are saved with calls, ids and names, and come back complete, also
/// for the next process.
#[test]
fn a_turn_with_tools_comes_back_whole() {
    in_every_store(|store, again| {
        let service = DatabaseService::new(store);
        service.save_messages("ann", "general", &turn(1)).unwrap();
        drop(service);
        let service = DatabaseService::new(again());
        let history = service.get_conversation_history("ann", "general", 50).unwrap();
        assert_eq!(
            texts(&history),
            ["user:question 1", "assistant:checking", "tool:42", "tool:noon", "assistant:answer 1"]
        );
        assert_eq!(history[1].tool_calls, turn(1)[1].tool_calls);
        assert_eq!(history[2].tool_call_id.as_deref(), Some("toolu_1_1"));
        // B47: the name is that of the call, not the beginning of its id.
        assert_eq!(history[2].tool_name.as_deref(), Some("price"));
        assert_eq!(history[3].tool_name.as_deref(), Some("time"));
        assert!(history.iter().all(|said| said.timestamp.is_some()));
        // Another user, another channel.
        assert!(service.get_conversation_history("bob", "general", 50).unwrap().is_empty());
        assert!(service.get_conversation_history("ann", "random", 50).unwrap().is_empty());
    });
}

/// B46: a call without a text is saved; its content is none, not an empty text.
#[test]
fn a_call_needs_no_text() {
    in_every_store(|store, _| {
        let service = DatabaseService::new(store);
        let messages = [
            BotMessage::user("go"),
            BotMessage::calls(vec![call("call_1", "run", "{}")]),
            BotMessage::tool("call_1", ""),
        ];
        service.save_messages("ann", "general", &messages).unwrap();
        let history = service.get_conversation_history("ann", "general", 9).unwrap();
        assert_eq!(history[1].content, None);
        assert_eq!(history[2].content.as_deref(), Some(""));
    });
}

/// B48, S4-14: an exception in the middle of a turn leaves a call without a result. In the returned history it has one, and every
/// provider accepts it.
#[test]
fn a_call_that_was_cut_off_has_a_result() {
    in_every_store(|store, _| {
        let service = DatabaseService::new(Arc::clone(&store));
        service.save_messages("ann", "general", &turn(1)[..3]).unwrap();
        service.save_conversation_turn("ann", "general", "and now?", "now it works").unwrap();
        let history = service.get_conversation_history("ann", "general", 50).unwrap();
        let results: Vec<_> = history.iter().filter_map(|said| said.tool_call_id.as_deref()).collect();
        assert_eq!(results, ["toolu_1_1", "toolu_1_2"]);
        assert!(
            texts(&history)
                .ends_with(&[String::from("user:and now?"), String::from("assistant:now it works")])
        );
        let id = store.list(&Query::default()).unwrap().conversations[0].id;
        let session = read(&*store, id, Mode::Recover).unwrap().session;
        for dialect in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::Gemini, Dialect::Bedrock] {
            let body = convert(&session, dialect, None, OnBroken::Keep);
            assert!(body.is_ok(), "{dialect}");
        }
    });
}

/// B51, S4-25: the last messages never begin with a result whose call is before them.
#[test]
fn the_last_messages_never_cut_a_pair() {
    in_every_store(|store, _| {
        let service = DatabaseService::new(store);
        for number in 0..30 {
            service.save_messages("ann", "general", &turn(number)).unwrap();
        }
        for limit in 0..25 {
            let history = service.get_conversation_history("ann", "general", limit).unwrap();
            let called: Vec<&str> =
                history.iter().flat_map(|said| &said.tool_calls).map(|call| call.id.as_str()).collect();
            let answered: Vec<&str> =
                history.iter().filter_map(|said| said.tool_call_id.as_deref()).collect();
            assert_eq!(called, answered, "{limit}");
            assert!(history.len() >= limit && history.len() <= limit + 3, "{limit}: {}", history.len());
            assert_eq!(
                texts(&history).last().cloned().unwrap_or_default(),
                if limit == 0 { "" } else { "assistant:answer 29" }
            );
        }
        assert_eq!(service.get_conversation_history("ann", "general", usize::MAX).unwrap().len(), 150);
    });
}

/// S4-11, S4-17, S4-23: turns without tools are saved by the older function, and both kinds are one history.
#[test]
fn older_turns_and_newer_ones_are_one_history() {
    in_every_store(|store, _| {
        let service = DatabaseService::new(store);
        service.save_conversation_turn("ann", "general", "hello", "hi").unwrap();
        service.save_messages("ann", "general", &turn(1)).unwrap();
        let history = service.get_conversation_history("ann", "general", 50).unwrap();
        assert_eq!(texts(&history)[..3], ["user:hello", "assistant:hi", "user:question 1"]);
        assert!(service.clear_conversation_history("ann", "general").unwrap());
        assert!(!service.clear_conversation_history("ann", "general").unwrap());
        assert!(service.get_conversation_history("ann", "general", 50).unwrap().is_empty());
        service.save_conversation_turn("ann", "general", "again", "yes").unwrap();
        assert_eq!(service.get_conversation_history("ann", "general", 50).unwrap().len(), 2);
    });
}

/// S4-14, S4-16, S4-17: a turn in a provider's own form is saved as messages, both as an object with the messages and as a bare
/// list.
#[test]
fn a_turn_in_a_providers_form_is_saved() {
    in_every_store(|store, _| {
        let service = DatabaseService::new(store);
        let anthropic = r#"[{"role":"user","content":"what does it cost?"},
            {"role":"assistant","content":[{"type":"text","text":"checking"},{"type":"tool_use","id":"toolu_1","name":"price","input":{"of":"x"}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"42"}]},
            {"role":"assistant","content":[{"type":"text","text":"It costs 42."}]}]"#;
        let wrapped = format!(r#"{{"response":"It costs 42.","messages":{anthropic}}}"#);
        let expected = ["user:what does it cost?", "assistant:checking", "tool:42", "assistant:It costs 42."];
        for (channel, form) in [("bare", anthropic), ("wrapped", &wrapped)] {
            let saved = service
                .save_conversation_with_messages(
                    ("ann", channel),
                    Dialect::Anthropic,
                    form,
                    "what does it cost?",
                )
                .unwrap();
            assert_eq!(texts(&saved), expected);
            let history = service.get_conversation_history("ann", channel, 50).unwrap();
            assert_eq!(texts(&history), expected);
            assert_eq!(
                (history[2].tool_call_id.as_deref(), history[2].tool_name.as_deref()),
                (Some("toolu_1"), Some("price"))
            );
            assert_eq!(history[1].tool_calls[0].arguments.text().as_str(), r#"{"of":"x"}"#);
        }
        // The prompt is not in the list, and the list may be empty.
        service
            .save_conversation_with_messages(
                ("ann", "openai"),
                Dialect::OpenAiChat,
                r#"[{"role":"assistant","content":"hi"}]"#,
                "hello",
            )
            .unwrap();
        service
            .save_conversation_with_messages(("ann", "openai"), Dialect::OpenAiChat, "[]", "are you there?")
            .unwrap();
        let history = service.get_conversation_history("ann", "openai", 50).unwrap();
        assert_eq!(texts(&history), ["user:hello", "assistant:hi", "user:are you there?"]);
        let broken = service.save_conversation_with_messages(
            ("ann", "broken"),
            Dialect::OpenAiChat,
            r#"[{"role":"#,
            "hello",
        );
        assert!(broken.is_err());
        assert!(service.get_conversation_history("ann", "broken", 9).unwrap().is_empty());
    });
}

/// S4-10, S4-22: a thread keeps tool calls and results, and knows its channel and user.
#[test]
fn a_thread_keeps_its_tools() {
    in_every_store(|store, again| {
        let service = DatabaseService::new(store);
        assert_eq!(service.get_chat_thread("thread-7").unwrap(), None);
        assert!(matches!(service.update_thread_history("thread-7", &turn(1)), Err(EngineError::Unknown(_))));
        service.create_chat_thread("thread-7", "general", "ann").unwrap();
        service.create_chat_thread("thread-7", "elsewhere", "bob").unwrap();
        service.update_thread_history("thread-7", &turn(1)).unwrap();
        DatabaseService::new(again()).update_thread_history("thread-7", &turn(2)).unwrap();
        let thread = service.get_chat_thread("thread-7").unwrap().unwrap();
        assert_eq!(
            (&*thread.thread_id, &*thread.channel_id, &*thread.user_id),
            ("thread-7", "general", "ann")
        );
        assert_eq!(thread.conversation_history.len(), 10);
        assert_eq!(thread.conversation_history[7].tool_name.as_deref(), Some("price"));
        assert!(thread.created_at <= thread.last_activity);
        // The history of the channel is another one.
        assert!(service.get_conversation_history("ann", "general", 50).unwrap().is_empty());
    });
}

/// S4-24: a save that is repeated adds nothing, if its messages have ids.
#[test]
fn a_message_with_an_id_is_saved_once() {
    in_every_store(|store, again| {
        let time: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        let messages: Vec<BotMessage> = turn(1)
            .into_iter()
            .enumerate()
            .map(|(number, said)| BotMessage {
                id: Some(format!("discord-{number}")),
                timestamp: Some(time),
                ..said
            })
            .collect();
        let service = DatabaseService::new(store);
        service.save_messages("ann", "general", &messages[..3]).unwrap();
        service.save_messages("ann", "general", &messages).unwrap();
        DatabaseService::new(again()).save_messages("ann", "general", &messages).unwrap();
        let history = service.get_conversation_history("ann", "general", 50).unwrap();
        assert_eq!(texts(&history), texts(&turn(1)));
        assert!(history.iter().all(|said| said.timestamp == Some(time)));
    });
}

/// B50, B52: programs that save to one conversation at once lose nothing, and each turn stays together.
#[test]
fn turns_that_are_saved_at_once_are_all_there() {
    in_every_store(|_, open| {
        let services: Vec<DatabaseService> = (0..4).map(|_| DatabaseService::new(open())).collect();
        std::thread::scope(|scope| {
            for (writer, service) in services.iter().enumerate() {
                scope.spawn(move || {
                    for number in 0..8 {
                        service.save_messages("ann", "general", &turn(writer * 100 + number)).unwrap();
                    }
                });
            }
        });
        let history = services[0].get_conversation_history("ann", "general", usize::MAX).unwrap();
        assert_eq!(history.len(), 4 * 8 * 5);
        for turn in history.chunks(5) {
            let number = turn[0].content.as_deref().unwrap().trim_start_matches("question ").to_owned();
            assert_eq!(turn[4].content, Some(format!("answer {number}")));
            assert_eq!(turn[2].tool_call_id, Some(format!("toolu_{number}_1")));
        }
    });
}

/// The service over a handle for one user cannot reach another's.
#[test]
fn a_scoped_service_saves_only_its_own() {
    in_every_store(|store, _| {
        let all = DatabaseService::new(Arc::clone(&store));
        all.save_conversation_turn("bob", "general", "a secret", "kept").unwrap();
        let handle =
            Arc::clone(&store).scoped(ScopeFilter { user: Some(String::from("ann")), ..ScopeFilter::OPEN });
        let service = DatabaseService::new(Arc::new(handle));
        service.save_conversation_turn("ann", "general", "hello", "hi").unwrap();
        assert!(service.save_conversation_turn("bob", "general", "I am", "not bob").is_err());
        assert!(service.get_conversation_history("bob", "general", 9).unwrap().is_empty());
        assert_eq!(service.get_conversation_history("ann", "general", 9).unwrap().len(), 2);
        assert_eq!(all.get_conversation_history("bob", "general", 9).unwrap().len(), 2);
        let scope = store.list(&Query::default()).unwrap().conversations[0].scope.clone();
        assert_eq!(
            scope,
            Scope { user: String::from("ann"), channel: String::from("general"), thread: String::new() }
        );
    });
}

/// Another process deletes the conversation that this one has found before.
#[test]
fn a_history_that_was_deleted_elsewhere_is_empty() {
    in_every_store(|store, again| {
        let service = DatabaseService::new(store);
        service.save_conversation_turn("ann", "general", "hello", "hi").unwrap();
        assert!(DatabaseService::new(again()).clear_conversation_history("ann", "general").unwrap());
        assert!(service.get_conversation_history("ann", "general", 5).unwrap().is_empty());
        service.save_conversation_turn("ann", "general", "again", "yes").unwrap();
        assert_eq!(service.get_conversation_history("ann", "general", 5).unwrap().len(), 2);
    });
}

/// Two calls with one id in a provider's form: each result has the name of its own call.
#[test]
fn a_result_has_the_name_of_its_own_call() {
    let service = DatabaseService::new(Arc::from(open_store(&Location::Memory, Access::Write).unwrap()));
    let turn = r#"[
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"same","type":"function","function":{"name":"price","arguments":"{}"}},
            {"id":"same","type":"function","function":{"name":"time","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"same","content":"42"},
        {"role":"tool","tool_call_id":"same","content":"noon"}]"#;
    let at = ("ann", "general");
    let saved = service.save_conversation_with_messages(at, Dialect::OpenAiChat, turn, "go").unwrap();
    let names: Vec<_> = saved.iter().filter_map(|message| message.tool_name.as_deref()).collect();
    assert_eq!(names, ["price", "time"]);
}
