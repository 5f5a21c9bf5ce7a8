//! A program that keeps its conversations in a store: it submits a text, listens to events, and a new manager continues where the
//! first one stopped. `cargo run -p rejoin --example manager -- [sqlite:PATH | jsonl:FOLDER]`

use std::sync::Arc;

use rejoin::{Access, ConversationManager, Event, Location, Mode, New, Offline, Store, Tools, open_store};

#[allow(clippy::print_stdout, reason = "an example prints")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| String::from("memory:"));
    let location: Location = place.parse()?;
    let store: Arc<dyn Store> = open_store(&location, Access::Write)?.into();
    let manager = || {
        let offline = Arc::new(Offline::default());
        ConversationManager::with_provider(Arc::clone(&store), offline).with_tools(Tools::builtin("."))
    };

    let first = manager();
    let conversation = first.new_conversation(New::default())?;
    conversation.submit("my name is Alice, and what is 2 + 2?");
    // The entries that an event reports are already stored.
    let mut reply = String::new();
    loop {
        match conversation.next_event().await {
            Event::Text(piece) => reply.push_str(&piece),
            Event::CallStarted { name, .. } => println!("runs {name}"),
            Event::NotSaved(warning) => println!("{warning}"),
            Event::Failed { message, .. } => println!("failed: {message}"),
            Event::Ended { ending, .. } => break println!("ended: {ending:?}"),
            _ => {}
        }
    }
    println!("{}", reply.lines().last().unwrap_or_default());
    let id = conversation.id().to_string();
    // Dropping it lets go of it, in the middle of a turn too.
    drop((conversation, first));

    let second = manager();
    let conversation = second.resume_conversation(&id, Mode::Recover)?;
    println!("resumed with {} messages", conversation.get_history().len());
    println!("{}", conversation.process_message("What is my name?").await?.response);
    for summary in second.list_conversations()? {
        let provider = summary.about.provider.unwrap_or_default();
        println!(
            "{}: {} messages, {provider}, {}",
            summary.title.unwrap_or_default(),
            summary.messages,
            summary.state.word()
        );
    }
    if let Err(error) = second.resume_conversation("nobody", Mode::Recover) {
        println!("{error} [{}]", error.code());
    }
    Ok(())
}
