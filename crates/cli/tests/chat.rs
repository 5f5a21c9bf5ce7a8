//! `chat`, `resume` and `demo` with the built-in responder, used as people and scripts do.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{BROKEN, Home, Ran, has, services::PROVIDERS};
use testkit::loopback::{Config, Fault, Loopback};

fn offline(home: &Home, message: &str) -> Ran {
    home.run(&["chat", "--provider", "offline", message])
}

/// S3-03, S3-10, S3-62, S3-67: the obvious test. A name is remembered, also by a new process after `resume`; sums are calculated;
/// the last question is repeated; the conversation is summarised.
#[test]
fn the_obvious_test() {
    Home::each(|home| {
        let first = offline(home, "my name is Alice");
        assert_eq!((first.code, first.out.as_str()), (0, "I will remember that your name is Alice.\n"));
        let again = home.run(&["chat", "What's my name?"]);
        assert_eq!(again.out, "Your name is Alice.\n");
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        assert!(again.err.contains(&id), "which conversation goes on is said: {}", again.err);
        assert_eq!(home.out(&["chat", "2+2"]), "2+2 = 4\n");
        assert_eq!(home.out(&["chat", "What math question did I just ask?"]), "You asked: 2+2\n");
        let summary = home.out(&["chat", "Summarize our conversation"]);
        assert!(summary.contains("Alice") && summary.contains("2+2"), "{summary}");
        // Another conversation comes between.
        home.out(&["chat", "--new", "--provider", "offline", "my name is Bob"]);
        assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Bob.\n");
        let resumed = home.out(&["resume", &id]);
        assert!(resumed.starts_with(&format!("✓ Resumed conversation: {id}\n")), "{resumed}");
        assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
        assert_eq!(home.out(&["resume", &id, "What's my name?"]), "Your name is Alice.\n");
        assert_eq!(home.out(&["chat", "--session", &id[..9], "2*3"]), "2*3 = 6\n");
        home.verifies();
    });
}

/// S3-14, S3-16, S3-17, S3-63: the output of `resume`, and its exit codes.
#[test]
fn resume_says_what_it_found() {
    Home::each(|home| {
        let nothing = home.run(&["resume", "nonexistent"]);
        assert_eq!(nothing.code, 1);
        assert!(
            nothing.err.contains("✗ Conversation 'nonexistent' not found\n  List available: rejoin list"),
            "{}",
            nothing.err
        );
        assert_eq!(home.run(&["resume"]).code, 1, "there is none at all");
        offline(home, "hello");
        assert_eq!(home.run(&["resume", "nonexistent"]).code, 1);
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        let resumed = home.run(&["resume", &id]);
        assert_eq!(resumed.code, 0, "{}", resumed.err);
        assert!(resumed.out.contains("  Continue chatting: rejoin chat \"your message\""), "{}", resumed.out);
        assert!(resumed.err.contains("Provider: offline, model: offline"), "{}", resumed.err);
        assert!(resumed.err.contains("State: ready, 2 messages"), "{}", resumed.err);
        let json: Value = serde_json::from_str(&home.out(&["resume", &id, "--json"])).unwrap();
        assert_eq!((json["state"].as_str(), json["id"].as_str()), (Some("ready"), Some(id.as_str())));
        if home.is_jsonl() {
            let path = home.place().join(format!("{id}.jsonl"));
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("hello", "jello", 1)).unwrap();
            let strict = home.run(&["resume", &id, "--strict"]);
            assert_eq!(strict.code, 1);
            assert!(
                strict.err.contains(&format!("✗ Conversation '{id}' has corrupted data\n  ")),
                "{}",
                strict.err
            );
            assert_eq!(home.run(&["resume", &id, "--recover"]).code, 0);
        }
    });
}

/// S2-32, S0-20, S0-21: an imported history with unanswered calls continues, mended; the record does not change.
#[test]
fn a_broken_history_goes_on() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let before = home.out(&["history", "export", &id, "--to", "jsonl"]);
        // Without a message nothing would be sent, but it is still refused.
        let refused = home.run(&["resume", &id, "--on-broken", "refuse", "--provider", "offline"]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        let no_id = home.run(&["resume", "please go on"]);
        assert!(no_id.code == 1 && no_id.err.contains("rejoin chat 'please go on'"), "{}", no_id.err);
        let refused = home.run(&["resume", &id, "--on-broken", "refuse", "--provider", "offline", "go on"]);
        assert_eq!(refused.code, 1);
        assert!(
            refused.err.contains("repairing it is turned off") && refused.out.is_empty(),
            "{}",
            refused.err
        );
        assert_eq!(before, home.out(&["history", "export", &id, "--to", "jsonl"]), "nothing was said");
        let resumed = home.run(&["resume", &id, "--provider", "offline", "go on"]);
        assert_eq!(resumed.code, 0, "{}", resumed.err);
        assert!(
            resumed.err.contains("interrupted") && resumed.err.contains("1 call has no result"),
            "{}",
            resumed.err
        );
        assert!(resumed.err.contains("shown to the model as interrupted"), "{}", resumed.err);
        let after = home.out(&["history", "export", &id, "--to", "jsonl"]);
        assert!(after.starts_with(&before), "what was recorded stays");
        let again = home.run(&["chat", "and again"]);
        assert!(!again.err.contains("without a result"), "it was decided once: {}", again.err);
    });
}

/// Input from a pipe is the message; so is `-`. Without either, there is no message.
#[test]
fn what_is_piped_in_is_said() {
    let home = Home::new("sqlite");
    for arguments in [vec!["chat", "--provider", "offline"], vec!["chat", "-"], vec![]] {
        let ran = Ran::fed(home.command(&arguments), b"what is\n20+1?\n");
        assert_eq!((ran.code, ran.out.as_str()), (0, "20+1 = 21\n"), "{arguments:?}: {}", ran.err);
    }
    let nothing = home.run(&["chat"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("no message was given") && nothing.err.contains("hint:"), "{}", nothing.err);
}

/// Events as JSON, one object a line; the text pieces make up the reply.
#[test]
fn events_are_json() {
    let home = Home::new("sqlite");
    let events = home.lines(&["chat", "--json", "--provider", "offline", "what is 3*3 and list the files"]);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.first(), Some(&"started"));
    assert_eq!(kinds.last(), Some(&"ended"));
    assert_eq!(events.last().unwrap()["ending"], "done");
    for kind in ["asking", "text", "answered", "call_started", "call_ended"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "call_ended").collect();
    assert_eq!((ended.len(), ended[0]["output"].as_str()), (2, Some("9")));
}

/// S3-11, S3-42, S3-67: a turn that cannot be stored shows its answer, reports that once and fails.
#[test]
fn a_turn_that_cannot_be_stored_says_so_once() {
    let not_stored = |ran: &Ran, answer: &str| {
        assert_eq!((ran.code, ran.out.as_str()), (1, answer), "{}", ran.err);
        assert_eq!(ran.err.matches("Failed to save turn: ").count(), 1, "{}", ran.err);
        assert_eq!(ran.err.matches("error:").count() + ran.err.matches("warning:").count(), 1, "{}", ran.err);
        assert!(ran.err.contains("hint: the answer is complete, but it is not in the store"), "{}", ran.err);
    };
    // A store that does not exist and cannot be created.
    for store in ["jsonl:/proc/nowhere/store", "sqlite:/proc/nowhere/store.db"] {
        let home = Home::new("jsonl");
        let mut command = home.command(&["chat", "--provider", "offline", "2+2"]);
        let ran = Ran::of(command.env("REJOIN_STORE", store).output().unwrap());
        not_stored(&ran, "2+2 = 4\n");
        assert!(ran.err.contains("/proc/nowhere"), "{}", ran.err);
        let mut command = home.command(&["chat", "--provider", "offline", "--json", "2+2"]);
        let ran = Ran::of(command.env("REJOIN_STORE", store).output().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let not_saved: Vec<&Value> = events.iter().filter(|event| event["type"] == "not_saved").collect();
        assert_eq!(not_saved.len(), 1, "{}", ran.out);
        assert!(not_saved[0]["warning"].as_str().unwrap().starts_with("Failed to save turn: "));
        assert_eq!(events.last().unwrap()["ending"], "done");
    }
    // One that was written before and cannot be any more.
    Home::each(|home| {
        offline(home, "my name is Alice");
        let mut places = vec![home.place().to_owned()];
        if home.is_jsonl() {
            places.extend(fs::read_dir(home.place()).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            places.push(home.place().parent().unwrap().to_owned());
        }
        let set = |mode: u32| {
            for place in &places {
                let mode = if place.is_dir() { mode | 0o111 } else { mode };
                fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        set(0o444);
        // Nothing is forbidden to root; `trouble.rs` lets the disk fail instead.
        let folder = if home.is_jsonl() { home.place() } else { home.place().parent().unwrap() };
        let forbidden = fs::write(folder.join("probe"), "").is_err();
        if forbidden {
            for command in [&["chat", "What's my name?"][..], &["resume", "@", "What's my name?"]] {
                not_stored(&home.run(command), "Your name is Alice.\n");
            }
        }
        set(0o644);
        assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
    });
}

/// A second process is told who holds the conversation; reading works all the time.
#[test]
fn one_writer_at_a_time() {
    let home = Home::new("sqlite");
    offline(&home, "hello");
    let store = home.open();
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().parse().unwrap();
    let holder = rejoin::store::Holder::this("a test", rejoin::engine::Clock::now(&rejoin::SystemClock));
    let _lock = store.lock(id, &holder).unwrap();
    let ran = home.run(&["chat", "hello again"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("a test") && ran.err.contains("hint:"), "{}", ran.err);
    assert_eq!(home.run(&["history", "show", "@"]).code, 0);
}

/// S2-38, S2-48: the demonstration kills a turn of three tools for real, resumes it, and is done in 15 seconds.
#[test]
fn the_demonstration_works() {
    let home = Home::new("sqlite");
    let began = Instant::now();
    let ran = home.run(&["demo"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(began.elapsed() < Duration::from_secs(15));
    for words in [
        "killed (SIGKILL) after 1 of 3 tools",
        "[interrupted]",
        "Anthropic would answer 400",
        "2 calls without a result: run again",
        "6*7 = 42",
        "call Alice",
        "everything is as it was when it was saved",
    ] {
        assert!(ran.out.contains(words), "{words}\n{}", ran.out);
    }
    assert_eq!(home.lines(&["list", "--json"]).len(), 0, "your own store is not touched");
}

/// An endless device is not accepted as a message, and does not fill the memory.
#[test]
fn a_device_without_end_is_no_message() {
    let home = Home::new("jsonl");
    let mut command = home.command(&["chat", "--provider", "offline", "-"]);
    let output = command.stdin(fs::File::open("/dev/zero").unwrap()).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("it is a device that sent more than 16 MiB"), "{}", ran.err);
}

/// Runs a command with a text on standard input, and returns the last message.
fn with_input(home: &Home, arguments: &[&str], input: Stdio) -> (Ran, String) {
    let mut command = home.command(arguments);
    let ran = Ran::of(command.stdin(input).output().unwrap());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    (ran, last_said(home))
}

/// The last message of a person in the active conversation.
fn last_said(home: &Home) -> String {
    let messages = home.lines(&["history", "show", "--json"]);
    let said = messages.iter().rfind(|message| message["role"] == "user").unwrap();
    said["content"].as_str().unwrap().to_owned()
}

/// A pipe that holds a text, and is closed after it.
fn pipe_with(text: &str) -> Stdio {
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(text.as_bytes()).unwrap();
    read.into()
}

/// A message and text from a pipe or a file are both sent, the message first; also by `resume`.
#[test]
fn a_message_and_piped_text_are_both_sent() {
    let home = Home::new("sqlite");
    let chat = &["chat", "--provider", "offline", "Sum this up:"];
    let (ran, said) = with_input(&home, chat, pipe_with("one\ntwo\n\n"));
    assert_eq!(said, "Sum this up:\n\none\ntwo");
    assert!(!ran.err.contains("standard input"), "{}", ran.err);
    let file = home.file("notes.txt", "from a file\n");
    let (_, said) = with_input(&home, chat, fs::File::open(&file).unwrap().into());
    assert_eq!(said, "Sum this up:\n\nfrom a file");
    let (_, said) = with_input(&home, &["resume", "@", "And this:"], pipe_with("three"));
    assert_eq!(said, "And this:\n\nthree");
    let (_, said) = with_input(&home, &["resume", "-s", "@", "And this, too:"], pipe_with("four"));
    assert_eq!(said, "And this, too:\n\nfour");
    // Nothing comes: the message alone.
    for nothing in [pipe_with(""), pipe_with("\n"), Stdio::null()] {
        let (ran, said) = with_input(&home, &["chat", "Only this"], nothing);
        assert_eq!(said, "Only this");
        assert!(!ran.err.contains("standard input"), "{}", ran.err);
    }
    let (_, said) = with_input(&home, &["chat", ""], pipe_with("only that"));
    assert_eq!(said, "only that");
    let mut command = home.command(&["chat", "what is this?"]);
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(b"caf\xe9").unwrap();
    drop(write);
    let ran = Ran::of(command.stdin(read).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.contains("not UTF-8"), "{}", ran.err);
    assert_eq!(last_said(&home), "only that", "nothing was sent");
}

/// An open standard input on which nothing comes does not hold up `chat MESSAGE`.
#[test]
fn a_silent_input_is_not_waited_for() {
    let home = Home::new("sqlite");
    let began = Instant::now();
    let (socket, _other_end) = std::os::unix::net::UnixStream::pair().unwrap();
    let (ran, said) = with_input(
        &home,
        &["chat", "--provider", "offline", "hello there"],
        std::os::fd::OwnedFd::from(socket).into(),
    );
    assert_eq!(said, "hello there");
    assert!(!ran.err.contains("standard input"), "a socket is not read: {}", ran.err);
    let (read, _kept_open) = std::io::pipe().unwrap();
    let (ran, said) = with_input(&home, &["chat", "hello again"], read.into());
    assert_eq!(said, "hello again");
    assert!(ran.err.contains("only the message is sent") && ran.err.contains("< FILE"), "{}", ran.err);
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// Text arrives through a pipe while it is generated, including text between tool calls, which a blank line separates.
#[test]
fn answers_stream_through_pipes() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    // In Chat Completions, each word is a separate event.
    let provider = &PROVIDERS[1];
    let chat = |said: &str| {
        let mut command = provider.command(&home, &server, &["chat", said]);
        command.env("REJOIN_LIMITS_SILENCE_SECONDS", "30");
        command
    };
    let ran = Ran::of(chat("tools:1 steps:1").output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("Round 1: let me look.\n\nAfter 1 rounds I saw 1 results:\n1. "),
        "{:?}",
        ran.out
    );
    assert!(ran.out.ends_with('\n') && !ran.out.ends_with("\n\n"), "{:?}", ran.out);
    // The server stalls in the middle of its answer: the earlier text has arrived.
    server.fault(Fault::Stall { after: 8000, time: None });
    let mut child =
        chat("words:2000").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut seen = String::new();
    while !seen.contains("word3 ") {
        let mut piece = [0; 256];
        let count = std::io::Read::read(&mut out, &mut piece).unwrap();
        assert!(count > 0, "it ended: {seen:?}");
        seen.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // An answer that breaks off ends its line.
    server.fault(Fault::CutAfter(8000));
    let mut command = chat("words:2000");
    let ran = Ran::of(command.env("REJOIN_LIMITS_RETRIES", "0").output().unwrap());
    assert_ne!(ran.code, 255);
    assert!(ran.out.is_empty() || (ran.out.ends_with('\n') && !ran.out.ends_with("\n\n")), "{:?}", ran.out);
}

/// `resume` lists the unanswered calls and shows the last exchange. Without a terminal it names the commands that decide.
#[test]
fn resume_names_calls_and_shows_the_last_exchange() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let ran = home.run(&["resume", &id]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for words in [
            "  Last exchange:\n    you:   still there?\n",
            "  Calls without a result:\n    stat {}\n",
            &format!("leave them out: rejoin resume {id} --on-broken drop \"your message\""),
        ] {
            assert!(ran.err.contains(words), "{words}\n{}", ran.err);
        }
        assert!(!ran.err.contains("[k]"), "a question without a terminal: {}", ran.err);
        assert!(!ran.err.contains("run them again"), "rejoin has no such tool: {}", ran.err);
        // The suggested commands work.
        let dropped =
            home.run(&["resume", &id, "--on-broken", "drop", "--provider", "offline", "what is 1+1?"]);
        assert_eq!((dropped.code, dropped.out.as_str()), (0, "1+1 = 2\n"), "{}", dropped.err);
        assert!(!dropped.err.contains("Last exchange"), "{}", dropped.err);
        let ran = home.run(&["resume", &id]);
        for words in ["    you:   what is 1+1?\n", "    model: 1+1 = 2\n"] {
            assert!(ran.err.contains(words), "{words}\n{}", ran.err);
        }
        assert!(!ran.err.contains("Calls without a result"), "{}", ran.err);
        let other = home.import("other.json", &BROKEN.replace("List the files", "Show the files"));
        // A tool that rejoin has can be run again.
        let own =
            home.import("own.json", &BROKEN.replace("\"stat\"", "\"list_dir\"").replace("List", "Count"));
        let ran = home.run(&["resume", &own]);
        let again = format!("    run them again: rejoin resume {own} --on-broken rerun\n");
        assert!(ran.err.contains(&again), "{}", ran.err);
        let json: Value = serde_json::from_str(&home.out(&["resume", &other, "--json"])).unwrap();
        assert_eq!(json["calls"], serde_json::json!([{"name": "stat", "arguments": "{}"}]));
    });
}

/// S2-34: calls that `resume --on-broken drop` leaves out stay out in every later turn, whatever the setting is then, with and
/// without a message, including the answered calls of their batch.
#[test]
fn what_resume_drops_stays_out() {
    Home::each(|home| {
        for message in [Some("what is 1+1?"), None] {
            let id = home.import(
                "batch.json",
                &BROKEN.replace("List the files", if message.is_some() { "List them" } else { "Show them" }),
            );
            let mut arguments = vec!["resume", &id, "--on-broken", "drop", "--provider", "offline"];
            arguments.extend(message);
            let ran = home.run(&arguments);
            assert_eq!(ran.code, 0, "{}", ran.err);
            if message.is_none() {
                has(&ran.err, &["2 calls are left out from now on"]);
                let again = home.run(&["resume", &id]);
                assert!(!again.err.contains("Calls without a result"), "{}", again.err);
            }
            home.out(&["chat", "what is 2+2?", "--session", &id, "--provider", "offline"]);
            let body = home.out(&["convert", &id, "--to", "openai-chat"]);
            has(&body, &["still there?", "what is 2+2?"]);
            for gone in ["call_1", "call_2", "a.txt", "secret-place"] {
                assert!(!body.contains(gone), "{gone} with {message:?} is back:\n{body}");
            }
            // The record has all of it.
            has(&home.out(&["history", "show", &id]), &["a.txt", "call_2"]);
            home.out(&["verify", &id]);
        }
    });
}
