//! The names in other agents' tests and documents exist in `rejoin::compat`, and behave as expected.

#![allow(clippy::unwrap_used, reason = "a test may")]
#![cfg(feature = "testing")]

use rejoin::{
    Dialect, EngineError, Message, ToolCall,
    compat::{
        CompactConfig, Conversation, MockProvider, OllamaConfig, StateCommand, convert_messages,
        needs_compaction, run_compact_task,
    },
    serde_json::{self, json},
};

/// S0-58: a conversation from three numbers counts its messages and its tokens, and the count can be set.
#[test]
fn a_conversation_is_made_from_three_numbers() {
    let mut conversation = Conversation::new(500, 2, 0.5);
    conversation.add_message(Message::user("What is 2 + 2?"));
    conversation.add_message(Message::assistant_with_tools(vec![ToolCall::new("c1", "calculate", "{}")]));
    conversation.add_message(Message::tool("c1", "4"));
    assert_eq!(conversation.message_count(), 3);
    assert_eq!(conversation.find_tool_results_for_call("c1"), [2]);
    let estimated = conversation.token_count;
    assert!(estimated > 0);
    conversation.token_count = 450;
    conversation.add_message(Message::assistant("Two and two make four."));
    assert!(conversation.token_count > estimated && conversation.token_count < 450, "the estimate is new");
}

/// S0-58, S0-35: messages are validated before they are converted, for Ollama as for every other provider.
#[test]
fn converted_messages_hold_no_orphan() {
    let ollama =
        OllamaConfig { host: String::from("http://127.0.0.1:11434"), model: String::from("llama3.2") };
    let pair = [
        Message::user("What is 2 + 2?"),
        Message::assistant_with_tools(vec![ToolCall::new("c1", "calculate", "{}")]),
        Message::tool("c1", "4"),
    ];
    let orphan = [Message::user("Hello."), Message::tool("gone", "left over")];
    assert_eq!(ollama.convert_messages(&pair).len(), 3);
    assert_eq!(ollama.convert_messages(&orphan).len(), 1);
    for dialect in Dialect::all() {
        assert!(convert_messages(dialect, &pair).len() >= 3, "{dialect}");
        assert_eq!(convert_messages(dialect, &orphan).len(), 1, "{dialect}");
    }
    let provider = ollama.provider().unwrap();
    assert_eq!(provider.endpoint().model, "llama3.2");
    assert!(OllamaConfig { host: String::from("nowhere"), ..ollama }.provider().is_err());
}

/// S1-12: the command is a value that is written and read as JSON.
#[test]
fn a_command_is_written_and_read_as_json() {
    let mut conversation = Conversation::new(500, 2, 0.5);
    let calls = vec![ToolCall::new("c1", "calculate", "{}")];
    let parent = conversation.add_message(Message::assistant_with_tools(calls)).entry.id().to_string();
    let json = json!({"AddToolMessage": {"parent": parent, "call_id": "c1", "text": "4", "is_error": false}});
    let command: StateCommand = serde_json::from_value(json.clone()).unwrap();
    assert_eq!((command.name(), serde_json::to_value(&command).unwrap()), ("AddToolMessage", json));
    conversation.dispatch(command.clone()).unwrap();
    assert_eq!(conversation.find_tool_results_for_call("c1"), [1]);
    let elsewhere = Conversation::new(500, 2, 0.5).dispatch(command);
    assert!(matches!(elsewhere, Err(EngineError::NoSuchMessage(_))));
    assert!(serde_json::from_str::<StateCommand>(r#"{"AddToolMessage":{"parent":"no id"}}"#).is_err());
}

/// S3-22, S3-24, S3-26: a conversation is compacted above 0.8 of the window and not at it, people's messages stay up to 20,000
/// tokens, both limits can be changed, and a program can compact at once.
#[test]
fn compaction_has_its_old_names() {
    let config = CompactConfig::default();
    assert_eq!((config.threshold, config.user_message_max_tokens), (0.8, 20_000));
    for (tokens, window, is_needed) in [
        (80_000, 100_000, false),
        (80_001, 100_000, true),
        (102_400, 128_000, false),
        (102_401, 128_000, true),
        // The threshold is rounded down: 0.8 of 101 is 80.8.
        (80, 101, false),
        (81, 101, true),
        (0, 0, false),
    ] {
        assert_eq!(needs_compaction(tokens, window, &config), is_needed, "{tokens} of {window}");
    }
    assert!(needs_compaction(51, 100, &CompactConfig { threshold: 0.5, ..config }));
    let provider = std::sync::Arc::new(MockProvider::new([rejoin::Step::says("They met.")]));
    let answer = Message::assistant("Hello to you. ".repeat(2_000));
    let history =
        vec![Message::user("Hello."), answer, Message::user("And you?"), Message::assistant("Fine.")];
    let mut agent = rejoin::Agent::builder(provider).history(history).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run_compact_task(&mut agent, None));
    let messages = agent.conversation().messages();
    assert!(messages.iter().any(|message| message.content().is_some_and(|text| text.contains("They met."))));
}
