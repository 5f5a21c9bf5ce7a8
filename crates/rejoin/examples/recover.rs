//! Reads and continues a conversation whose file is damaged in the middle and torn at the end:
//! `cargo run -p rejoin --example recover -- FOLDER`. The folder is created, and keeps the example's files.

use std::{fs, io::Write as _, path::PathBuf, sync::Arc};

use rejoin::{
    Access, Conversation, Dialect, Location, Message, Mode, New, OnBroken, Store, engine, open_store,
};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("give a folder that may be made")?);
    let location = Location::Jsonl(folder.clone());
    let open =
        || -> Result<Arc<dyn Store>, rejoin::StoreError> { Ok(open_store(&location, Access::Write)?.into()) };

    let mut conversation = Conversation::create(open()?, &New::default(), "example");
    let id = conversation.id();
    for (question, answer) in [("Who are you?", "An example."), ("What is 2 + 2?", "4, as ever.")] {
        conversation.say(Message::user(question));
        conversation.say(Message::assistant(answer));
    }
    drop(conversation);

    // One letter of the first answer is changed, and a write is cut off.
    let file = folder.join(format!("{id}.jsonl"));
    fs::write(&file, fs::read_to_string(&file)?.replace("An example.", "Another one"))?;
    fs::OpenOptions::new().append(true).open(&file)?.write_all(br#"{"v":"1.0","id":"0199"#)?;

    // Reading strictly fails, and names the damaged line.
    if let Err(error) = engine::read(&*open()?, id, Mode::Strict) {
        println!("strictly: {error} [{}]", error.code());
    }

    // In recover mode, the conversation continues. Damage is reported, and copied into `aside/` before anything is written.
    let mut conversation = Conversation::open(open()?, id, "example")?;
    for finding in conversation.findings() {
        println!("{}: {finding}", finding.rule);
    }
    let appended = conversation.say(Message::user("And 3 + 3?"));
    println!("saved: {}", appended.saved.warning().unwrap_or("yes"));
    for message in conversation.messages() {
        println!("{}: {}", message.role, message.content().unwrap_or_default());
    }
    println!("{} file(s) are set aside", fs::read_dir(folder.join("aside"))?.count());
    println!("{}", conversation.request(Dialect::OpenAiChat, None, OnBroken::Keep)?.body);
    Ok(())
}
