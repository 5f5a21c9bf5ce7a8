//! An agent that keeps its conversation in a store, is stopped while a tool runs, and continues with another provider:
//! `cargo run -p rejoin --example store -- [sqlite:PATH | jsonl:FOLDER]`. Without a place it is kept in memory.

use std::sync::Arc;

use rejoin::{Access, Conversation, Dialect, Location, Message, New, OnBroken, Store, ToolCall, open_store};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| String::from("memory:"));
    let location: Location = place.parse()?;
    let store: Arc<dyn Store> = open_store(&location, Access::Write)?.into();

    let new = New { provider: Some("openai".into()), model: Some("gpt-x".into()), ..New::default() };
    let mut conversation = Conversation::create(store.clone(), &new, "example");
    let id = conversation.id();
    conversation.say(Message::user("Run the tests."));
    let appended =
        conversation.say(Message::assistant_with_tools(vec![ToolCall::new("call_1", "run_tests", "{}")]));
    // It is on the disk before the tool runs. Where that is not possible, this is the warning to show.
    println!("saved: {}", appended.saved.warning().unwrap_or("yes"));
    drop(conversation);

    // Here the process was killed. The next one finds a call without a result.
    let conversation = Conversation::open(store, id, "example")?;
    let repaired = conversation.view(OnBroken::Keep);
    for finding in &repaired.findings {
        println!("{}: {finding}", finding.rule);
    }
    println!(
        "{} messages are stored, {} are in the view",
        conversation.messages().len(),
        repaired.view.to_messages().len()
    );

    // This works for any provider, not only the one with which the conversation began.
    let request = conversation.request(Dialect::Anthropic, Some("claude-x"), OnBroken::Keep)?;
    println!("{}", request.body);
    Ok(())
}
