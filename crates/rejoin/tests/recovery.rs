//! Recovery, with the names that people know: read, recover, sanitize, execute.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]
#![cfg(feature = "testing")]

use std::sync::Arc;

use rejoin::{
    Access, Message, New, Role, Store, ToolCall, Tools,
    compat::{AgentExecutor, FromNumbers as _, MockProvider, SessionManager, recover_session},
    open_store, providers,
};

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn broken() -> Vec<Message> {
    vec![
        Message::user("Look at both."),
        Message::assistant_with_tools(vec![
            ToolCall::new("a", "look", "{}"),
            ToolCall::new("b", "look", "{}"),
        ]),
        Message::tool("b", "the second"),
        Message::tool("gone", "an orphan"),
    ]
}

/// S2-01, S2-02: a stored conversation is read, recovered, sanitized and executed, without a change in the store.
#[test]
fn read_recover_sanitize_execute() {
    let store: Arc<dyn Store> = open_store(&"memory:".parse().unwrap(), Access::Write).unwrap().into();
    let provider = Arc::new(MockProvider::new_default());
    let manager = SessionManager::with_provider(store, provider.clone());
    let session = manager.new_conversation(New::default()).unwrap();
    run(session.replace_history(&broken()));
    let id = session.id().to_string();
    drop(session);

    let events = manager.read_events(&id).unwrap();
    let messages: Vec<Message> =
        events.session.messages.iter().map(|message| Message::clone(message)).collect();
    assert_eq!(messages, broken(), "as it was written");
    let sanitized = recover_session(&id, &messages);
    let mut agent = AgentExecutor::with_history(&id, "", sanitized.messages, provider.clone(), 8_000, 2, 0.8);
    assert_eq!(run(agent.execute("Go on.", &Tools::default())).unwrap().response, "OK.");
    assert_eq!(provider.last_messages(), [Message::user("Look at both."), Message::user("Go on.")]);

    // The same on the record itself, which forgets no call that ran.
    let session = manager.recover_session(&id).unwrap();
    run(session.process_message("Go on.")).unwrap();
    let sent = provider.last_messages();
    assert_eq!(providers::validate_message_sequence(&sent), sent, "sound");
    assert_eq!(sent.iter().filter(|message| message.role == Role::Tool).count(), 2);
    assert!(sent.iter().any(|message| message.content().is_some_and(|text| text == "the second")));
    let again = manager.read_events(&id).unwrap();
    assert_eq!(again.entries[..events.entries.len()], events.entries, "nothing was rewritten");
}

/// S0-33, S0-03: `providers::` has the trait of all of them, and the check that they share.
#[test]
fn providers_have_one_trait() {
    let provider = MockProvider::new_default().named("ollama", "llama2");
    let messages = broken();
    let tools = [];
    let answer: providers::CompletionResponse =
        run(providers::Provider::complete(&provider, &messages, &tools)).unwrap();
    assert_eq!(answer.message.content().as_deref(), Some("OK."));
    assert!(answer.token_usage.is_some());
    assert_eq!(provider.last_messages(), providers::validate_message_sequence(&messages));
}
