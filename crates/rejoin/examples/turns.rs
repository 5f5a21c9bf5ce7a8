//! A folder of files of turns, one `{timestamp, items, metadata}` object per line: `cargo run -p rejoin --example turns -- FOLDER`.
//! The folder is created, and keeps the example's files.

use rejoin::{
    Clock as _, Dialect, OnBroken, Raw, SystemClock,
    compat::{CompactedTurn, RolloutLine, RolloutRecorder, RolloutTurn, TurnMetadata},
    convert,
};

#[allow(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder that may be made")?;
    let recorder = RolloutRecorder::new(folder);
    let said = |role: &str, text: &str| {
        Raw::new(format!(r#"{{"type":"message","role":"{role}","content":"{text}"}}"#))
    };
    let turn = |question: &str, answer: &str| RolloutTurn {
        timestamp: Some(SystemClock.now()),
        items: vec![said("user", question), said("assistant", answer)],
        metadata: Some(TurnMetadata {
            provider: Some("openai".into()),
            model: Some("gpt-x".into()),
            tokens: Some(42),
        }),
    };

    recorder.append_turn("demo", &turn("My name is Alice.", "Hello, Alice."))?;
    recorder.append_turn("demo", &turn("What is new?", "Little."))?;
    let summary = CompactedTurn {
        timestamp: Some(SystemClock.now()),
        summary: String::from("Alice said hello."),
        truncated_count: 0,
    };
    recorder.append_compacted("demo", &summary)?;
    recorder.append_turn("demo", &turn("Who am I?", "You are Alice."))?;

    for listed in recorder.list()? {
        println!(
            "{}: {} ({})",
            listed.id,
            listed.provider.unwrap_or_default(),
            listed.model.unwrap_or_default()
        );
    }
    for line in recorder.read_rollout("demo")? {
        match line {
            RolloutLine::Turn(turn) => println!("turn of {} items", turn.items.len()),
            RolloutLine::Compacted(compacted) => println!("compacted: {}", compacted.summary),
        }
    }
    // Every error has a code, its place if there is one, and advice.
    if let Err(error) = recorder.read_rollout("nobody") {
        println!("{error} [{}]", error.code());
    }
    // The messages that a model would see: the summary replaces the earlier ones.
    let session = recorder.session("demo")?;
    println!("{}", convert(&session, Dialect::OpenAiChat, None, OnBroken::Keep)?.body);
    Ok(())
}
