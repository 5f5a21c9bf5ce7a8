//! The names of other agents' tests and documents exist in `rejoin::compat`, and do what they say.

#![allow(clippy::unwrap_used, reason = "a test may")]
#![cfg(feature = "testing")]

use rejoin::{
    Dialect, EngineError, Message, ToolCall,
    compat::{Conversation, OllamaConfig, StateCommand, convert_messages},
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
