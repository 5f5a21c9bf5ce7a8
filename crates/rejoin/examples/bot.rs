//! A chat bot that keeps the history of its users: `cargo run -p rejoin --example bot -- [sqlite:PATH | jsonl:FOLDER | postgres://…]`.
//!
//! It answers a few messages and stops. Run it again with the same place, and it remembers them.

use std::sync::Arc;

use rejoin::{
    Access, Location, ToolCall,
    compat::{ConversationMessage as BotMessage, DatabaseService},
    open_store,
};

/// The data that your bot gets from its platform.
struct Incoming {
    user: &'static str,
    channel: &'static str,
    text: &'static str,
}

/// Answers a message. `history` is what the model sees; the returned messages are new, and not in the history yet.
fn answer(history: &[BotMessage], text: &str) -> (String, Vec<BotMessage>) {
    // Instead of a model, this uses a tool to count the messages so far.
    let call = ToolCall::new(format!("call_{}", history.len()), "count", r#"{"what":"messages"}"#);
    let told = history.iter().filter(|said| said.role == "user").count();
    let response = format!("You told me {told} things before \"{text}\".");
    let messages = vec![
        BotMessage::user(text),
        BotMessage::calls(vec![call.clone()]),
        BotMessage::tool(call.id.to_string(), told.to_string()),
        BotMessage::assistant(&*response),
    ];
    (response, messages)
}

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| String::from("memory:"));
    let location: Location = place.parse()?;
    let service = DatabaseService::new(Arc::from(open_store(&location, Access::Write)?));
    for incoming in [
        Incoming { user: "ann", channel: "red", text: "hello" },
        Incoming { user: "bob", channel: "red", text: "good evening" },
        Incoming { user: "ann", channel: "red", text: "what did I say?" },
    ] {
        // The last 25 messages, without a call that lacks its result.
        let history = service.get_conversation_history(incoming.user, incoming.channel, 25)?;
        let (response, messages) = answer(&history, incoming.text);
        // All of the turn, or nothing.
        service.save_messages(incoming.user, incoming.channel, &messages)?;
        println!("{} in {}: {response}", incoming.user, incoming.channel);
    }
    Ok(())
}
