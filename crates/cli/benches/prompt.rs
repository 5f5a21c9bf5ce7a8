//! The prompt on a real pseudo-terminal, as whole processes. Run by `cargo xtask bench prompt`; `REJOIN_BENCH_CONVERSATIONS` sets how
//! many conversations the large store has.
//!
//! Times run from the start of the process until its prompt, or the first page of its picker, is on the screen. The cost of drawing
//! is the processor time of the whole process while an answer streams to it from loopback in pieces of four characters.

#![allow(clippy::unwrap_used, clippy::print_stdout, dead_code, reason = "a benchmark may")]

#[path = "../tests/support/screen.rs"]
mod screen;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use rejoin::{
    Conversation, Message, New, SystemClock,
    store::{Access, Location, Store},
};
use screen::Screen;
use testkit::loopback::scripted::{Answer, Asked, Server};

/// How often each is run, in turn; the best time of each counts.
const ROUNDS: usize = 9;

/// The letters of a token, about.
const PIECE: usize = 4;

/// The tokens that a fast model writes in a second.
const SPEED: f64 = 200.0;

fn main() {
    let count = std::env::var("REJOIN_BENCH_CONVERSATIONS").ok().and_then(|count| count.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    starting(folder.path(), count.unwrap_or(100_000));
    drawing(folder.path());
}

fn rejoin(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command
        .env_clear()
        .env("HOME", home)
        .env("TERM", "xterm-256color")
        .env("OPENAI_API_KEY", "a key")
        .arg("--store")
        .arg(format!("sqlite:{}", home.join("rejoin.db").display()))
        .args(arguments)
        .current_dir(home);
    command
}

fn starting(folder: &Path, count: usize) {
    println!("\nstarting, best of {ROUNDS} rounds");
    let [few, many] = [10, count].map(|count| store(folder, count));
    for (what, arguments, shows) in [
        ("from start to prompt", &["chat", "--new", "--provider", "offline"][..], "›"),
        ("from start to the picker's first page", &["resume", "--provider", "offline"], "Enter resumes"),
    ] {
        let time = |home: &Path| {
            let began = Instant::now();
            let screen = Screen::start(rejoin(home, arguments), (80, 24));
            // The picker is ready when it lists something.
            screen.until_it(|screen| screen.contains(shows) && (shows == "›" || screen.contains("talk ")));
            let took = began.elapsed();
            screen.send("\u{4}");
            screen.end();
            took
        };
        let (mut small, mut large) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            small = small.min(time(&few));
            large = large.min(time(&many));
        }
        let ratio = large.as_secs_f64() / small.as_secs_f64();
        let promise = if shows == "›" { "; promised: at most 2" } else { "" };
        println!(
            "  {what}, {count} conversations next to 10: {ratio:.2} × ({large:.1?} against {small:.1?}{promise})"
        );
    }
}

/// A home with `count` conversations of two entries each.
fn store(folder: &Path, count: usize) -> PathBuf {
    let home = folder.join(count.to_string());
    fs::create_dir(&home).unwrap();
    let location: Location = format!("sqlite:{}", home.join("rejoin.db").display()).parse().unwrap();
    let store: Arc<dyn Store> = Arc::from(rejoin::engine::open_store(&location, Access::Write).unwrap());
    for number in 0..count {
        let directory = Some(format!("/work/project-{}", number % 50));
        let new = New { directory, ..New::default() };
        let mut conversation = Conversation::begin(Arc::clone(&store), Arc::new(SystemClock), &new, "bench");
        conversation.say(Message::user(format!("talk {number} about something that people talk about")));
    }
    store.settle().unwrap();
    home
}

fn drawing(folder: &Path) {
    println!(
        "\ndrawing an answer of varied Markdown in pieces of {PIECE} characters, processor time of the whole process"
    );
    let server = Server::answering(answer);
    let base = format!("{}/v1", server.url);
    let mut costs = Vec::new();
    for bytes in [100_000, 1_000_000] {
        let home = folder.join(format!("drawing-{bytes}"));
        fs::create_dir(&home).unwrap();
        // The longer answer fills the window, and a summary would be another answer of its length.
        assert!(rejoin(&home, &["config", "set", "compact", "off"]).status().unwrap().success());
        let cost = |plain: bool| {
            let mut command = rejoin(
                &home,
                &[
                    "chat",
                    "--new",
                    "--provider",
                    "openai",
                    "--api",
                    "chat",
                    "--model",
                    "gpt-4o",
                    "--base-url",
                    &base,
                ],
            );
            if plain {
                command.env("NO_COLOR", "1");
            }
            let screen = Screen::start(command, (80, 24));
            screen.prompt();
            let before = processor_time(screen.pid());
            screen.say(&format!("bytes:{bytes}"));
            screen.until("The end of the answer.");
            screen.prompt();
            let took = processor_time(screen.pid()) - before;
            screen.send("\u{4}");
            screen.end();
            took
        };
        let (drawn, plain) = (cost(false), cost(true));
        let seconds = (bytes / PIECE) as f64 / SPEED;
        let share = |time: f64| time / seconds * 100.0;
        println!(
            "  {bytes} bytes: {drawn:.2} s, {:.2} % of a core at {SPEED} tokens a second (promised: at most 5); plain text {plain:.2} s",
            share(drawn)
        );
        costs.push((drawn, drawn - plain));
    }
    let (whole, own) = (costs[1].0 / costs[0].0, costs[1].1 / costs[0].1);
    println!("  ten times the length costs {whole:.1} × as much; without what plain text costs, {own:.1} ×");
}

/// The seconds that a process has used.
fn processor_time(pid: i32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// Answers a request with as much Markdown as its last message asks for, as a stream.
fn answer(asked: &Asked) -> Answer {
    let asked = asked.body.rsplit_once("bytes:").map_or("", |(_, rest)| rest);
    let bytes: usize =
        asked.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let chars: Vec<char> = markdown(bytes).chars().collect();
    let mut out = String::new();
    let event = |delta: &serde_json::Value, reason: &serde_json::Value| {
        let choice = serde_json::json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]})
        )
    };
    for piece in chars.chunks(PIECE) {
        let text: String = piece.iter().collect();
        out += &event(&serde_json::json!({"content": text}), &serde_json::Value::Null);
    }
    out += &event(&serde_json::json!({}), &"stop".into());
    out += "data: [DONE]\n\n";
    Answer::stream(&out)
}

/// About `bytes` bytes of typical model output.
fn markdown(bytes: usize) -> String {
    let mut text = String::new();
    let mut part = 0;
    while text.len() < bytes {
        part += 1;
        text += &format!("## Part {part}\n\n");
        for sentence in 0..6 {
            text += &format!(
                "Sentence {sentence} of **part {part}** says *something* about `value_{sentence}` and goes on for a while, as they do. "
            );
        }
        text += "\n\n";
        for item in 1..6 {
            text += &format!(
                "{item}. An item with a [link](https://example.org/{part}/{item}) and some words\n   - and one inside\n"
            );
        }
        text += "\n```rust\n";
        for line in 0..12 {
            text += &format!("    let value_{line} = compute(\"{part}\", {line})?; // line {line}\n");
        }
        text += "```\n\n| name | value | what it means |\n|------|------:|---------------|\n";
        for row in 0..8 {
            text += &format!("| row {row} | {} | the meaning of row {row} in part {part} |\n", row * part);
        }
        text += "\n> A quote that\n> has two lines.\n\n";
    }
    text + "The end of the answer.\n"
}
