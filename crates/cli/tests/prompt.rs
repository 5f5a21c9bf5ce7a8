//! The prompt, on a real pseudo-terminal.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::time::Duration;

use expectrl::{ControlCode, Eof, Expect as _, session::OsSession};
use support::{BROKEN, Home, services::PROVIDERS};
use testkit::loopback::{Config, Fault, Loopback};

fn on_terminal(home: &Home, arguments: &[&str]) -> OsSession {
    let mut command = home.command(arguments);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    spawn(command)
}

fn spawn(command: std::process::Command) -> OsSession {
    let mut session = OsSession::spawn(command).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(20)));
    session
}

/// Presses Ctrl-C, and waits for what is said to it and for the next prompt.
fn interrupted(session: &mut OsSession, says: &str) {
    session.send(ControlCode::EndOfText).unwrap();
    session.expect(says).unwrap();
    session.expect("›").unwrap();
}

/// S3-03: a prompt on a terminal; each line is a turn; Ctrl-D leaves; what was said is there for the next process.
#[test]
fn lines_are_turns() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["chat", "--provider", "offline"]);
    session.expect("›").unwrap();
    session.send_line("my name is Alice").unwrap();
    session.expect("remember that your name is Alice").unwrap();
    session.expect("›").unwrap();
    session.send_line("/help").unwrap();
    session.expect("Ctrl-C stops a turn or clears the line").unwrap();
    session.expect("›").unwrap();
    session.send_line("/nosuch").unwrap();
    session.expect("There is no command /nosuch").unwrap();
    session.expect("›").unwrap();
    session.send(ControlCode::EndOfTransmission).unwrap();
    session.expect(Eof).unwrap();
    assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
    // What was commanded is part of the history, and no part of what a model sees.
    let shown = home.out(&["history", "show", "@"]);
    assert!(shown.contains("/help") && !shown.contains("/nosuch"), "{shown}");
    assert!(!home.out(&["convert", "@", "--to", "openai-chat"]).contains("/help"));
}

/// S0-54, S3-67: what people try by hand. Commands at the prompt; the list, the history, its raw form and the newest five messages;
/// a conversation with an orphan; twenty messages in a row, pruned, compacted and resumed.
#[test]
fn what_people_try_by_hand() {
    for store in support::STORES {
        let home = Home::new(store);
        let mut session = on_terminal(&home, &["chat", "--provider", "offline"]);
        for (line, says) in
            [("my name is Alice", "your name is Alice"), ("/help", "Ctrl-C stops a turn or clears the line")]
        {
            session.expect("›").unwrap();
            session.send_line(line).unwrap();
            session.expect(says).unwrap();
        }
        session.expect("›").unwrap();
        session.send_line("/exit").unwrap();
        session.expect(Eof).unwrap();
        for number in 1..=20 {
            assert_eq!(home.out(&["chat", &format!("{number}+1")]), format!("{number}+1 = {}\n", number + 1));
        }
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        assert!(home.out(&["list"]).contains(&id));
        let shown = home.out(&["history", "show", &id]);
        assert!(shown.contains("/help") && shown.contains("my name is Alice"), "{shown}");
        assert!(home.out(&["history", "show", &id, "--raw"]).contains("my name is Alice"));
        let newest = home.lines(&["history", "show", &id, "--json", "--limit", "5"]);
        assert_eq!(newest.iter().filter(|line| line["role"].is_string()).count(), 5, "{newest:?}");
        home.out(&["prune", &id, "--keep-last", "0"]);
        home.out(&["compact", &id]);
        assert!(home.out(&["history", "show", &id, "--view"]).contains("Summary of earlier conversation:"));
        assert_eq!(home.out(&["resume", &id, "What's my name?"]), "Your name is Alice.\n");
        let broken = home.import("broken.json", BROKEN);
        assert_eq!(home.run(&["resume", &broken, "go on", "--provider", "offline"]).code, 0);
        assert_eq!(home.run(&["verify"]).code, 0);
    }
}

/// S2-48: on a terminal, `resume` shows the last exchange, names the calls without a result, and asks what to do about them.
#[test]
fn resume_asks_about_calls_without_a_result() {
    // What is left out is decided at once, also for later; what is shown as interrupted is said when it is sent.
    for (answer, at_once, noted) in [
        ("k", false, "shown to the model as interrupted"),
        ("l", true, "left out from now on; the history keeps them"),
    ] {
        let home = Home::new("sqlite");
        let id = home.import("broken.json", BROKEN);
        let mut session = on_terminal(&home, &["resume", &id, "--provider", "offline"]);
        session.expect("you:   still there?").unwrap();
        session.expect("1 call without a result:").unwrap();
        session.expect("  stat {}").unwrap();
        session.expect("[k]eep as interrupted, [l]eave out? [k]").unwrap();
        session.send_line(answer).unwrap();
        if at_once {
            session.expect(noted).unwrap();
        }
        session.expect("›").unwrap();
        session.send_line("go on").unwrap();
        if !at_once {
            session.expect(noted).unwrap();
        }
        session.expect("›").unwrap();
        session.send_line("/exit").unwrap();
        session.expect(Eof).unwrap();
        assert_eq!(home.run(&["check", &id]).code, 1, "the record is as it was");
    }
}

/// Ctrl-C leaves only when it is pressed twice within two seconds on an empty line. On any other line it clears the line.
#[test]
fn control_c_leaves_when_pressed_twice_on_an_empty_line() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["--color", "never", "chat", "--provider", "offline"]);
    session.expect("›").unwrap();
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // Too late.
    std::thread::sleep(Duration::from_millis(2200));
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // A line that is not empty is cleared, and counts for nothing.
    session.send("my name is Bob").unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.expect("›").unwrap();
    interrupted(&mut session, "Press Ctrl-C again to leave");
    // So does one that was sent.
    session.send_line("my name is Alice").unwrap();
    session.expect("remember that your name is Alice").unwrap();
    session.expect("›").unwrap();
    interrupted(&mut session, "Press Ctrl-C again to leave");
    session.send(ControlCode::EndOfText).unwrap();
    session.expect(Eof).unwrap();
    let status = session.get_process().wait().unwrap();
    assert!(format!("{status:?}").contains("130"), "{status:?}");
    let said = home.lines(&["history", "show", "@", "--json"]);
    assert_eq!(said[0]["content"], "my name is Alice", "what was cleared was not said");
}

/// While a turn runs, Ctrl-C stops the turn, and the prompt is there again.
#[test]
fn control_c_stops_a_turn() {
    let server = Loopback::start(Config::default());
    server.always(Fault::Slow(Duration::from_millis(20)));
    let home = Home::new("sqlite");
    let provider = &PROVIDERS[2];
    let mut session = spawn(provider.command(&home, &server, &["--color", "never", "chat"]));
    session.expect("›").unwrap();
    session.send_line("hello words:500").unwrap();
    session.expect("word").unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.expect("stopped; everything so far is recorded").unwrap();
    session.expect("›").unwrap();
    session.send_line("/exit").unwrap();
    session.expect(Eof).unwrap();
    let said = home.lines(&["history", "show", "@", "--json"]);
    assert_eq!(said[1]["interrupted"], true, "{said:?}");
}

/// A waiting prompt holds no lock: two prompts take turns, and each shows what the other added.
#[test]
fn two_prompts_take_turns_in_one_conversation() {
    Home::each(|home| {
        home.out(&["chat", "--provider", "offline", "my name is Alice"]);
        let mut one = on_terminal(home, &["--color", "never", "chat"]);
        one.expect("›").unwrap();
        let mut two = on_terminal(home, &["--color", "never", "resume"]);
        two.expect("›").unwrap();
        one.send_line("my dog is called Rex").unwrap();
        one.expect("›").unwrap();
        two.send_line("What's my name?").unwrap();
        two.expect("Added by another process in the meantime").unwrap();
        two.expect("my dog is called Rex").unwrap();
        two.expect("Your name is Alice.").unwrap();
        two.expect("›").unwrap();
        // A command in between, while both wait.
        home.out(&["chat", "my cat is called Tom"]);
        one.send_line("What's my name?").unwrap();
        one.expect("Added by another process in the meantime").unwrap();
        one.expect("What's my name?").unwrap();
        one.expect("my cat is called Tom").unwrap();
        one.expect("Your name is Alice.").unwrap();
        one.expect("›").unwrap();
        two.send_line("2+2").unwrap();
        two.expect("my cat is called Tom").unwrap();
        two.expect("2+2 = 4").unwrap();
        two.expect("›").unwrap();
        for session in [&mut one, &mut two] {
            session.send(ControlCode::EndOfTransmission).unwrap();
            session.expect(Eof).unwrap();
        }
        let said = home.lines(&["history", "show", "@", "--json"]);
        let by_person: Vec<&str> = said
            .iter()
            .filter(|one| one["role"] == "user")
            .map(|one| one["content"].as_str().unwrap())
            .collect();
        assert_eq!(
            by_person,
            [
                "my name is Alice",
                "my dog is called Rex",
                "What's my name?",
                "my cat is called Tom",
                "What's my name?",
                "2+2"
            ]
        );
        assert_eq!(home.run(&["verify"]).code, 0);
        assert_eq!(home.lines(&["list", "--json"]).len(), 1);
    });
}

/// A message sent while another process is answering waits for it, and can be given up.
#[test]
fn a_prompt_waits_for_another_answer() {
    let home = Home::new("sqlite");
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().parse().unwrap();
    let mut session = on_terminal(&home, &["--color", "never", "chat"]);
    session.expect("›").unwrap();
    let store = home.open();
    let holder = rejoin::store::Holder::this("a test", rejoin::engine::Clock::now(&rejoin::SystemClock));
    let lock = store.lock(id, &holder).unwrap();
    session.send_line("2+2").unwrap();
    session.expect("Waiting for process").unwrap();
    interrupted(&mut session, "Nothing was sent");
    session.send_line("3+3").unwrap();
    session.expect("Waiting for process").unwrap();
    drop(lock);
    session.expect("3+3 = 6").unwrap();
    session.expect("›").unwrap();
    session.send_line("/exit").unwrap();
    session.expect(Eof).unwrap();
}

/// A conversation that was deleted while the prompt waited is not brought back.
#[test]
fn a_conversation_that_was_deleted_stays_deleted() {
    let home = Home::new("jsonl");
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let mut session = on_terminal(&home, &["--color", "never", "chat"]);
    session.expect("›").unwrap();
    home.out(&["history", "delete", "@", "--yes"]);
    session.send_line("What's my name?").unwrap();
    session.expect("Conversation not found").unwrap();
    session.expect(Eof).unwrap();
    assert_eq!(home.lines(&["list", "--json"]).len(), 0);
}

/// After giving up at the question for a key, typed text is visible again.
#[test]
fn giving_up_a_key_leaves_the_terminal_as_it_was() {
    let home = Home::new("sqlite");
    let mut rejoin = home.command(&[]);
    let path = rejoin.get_program().to_owned();
    let mut shell = std::process::Command::new("bash");
    let line = "\"$0\" auth login openai; echo \"left with $?\"; stty -a | grep -ow -e '-\\?echo'";
    shell
        .args(["-c", line])
        .arg(path)
        .current_dir(rejoin.current_dir(home.path("here")).get_current_dir().unwrap());
    for (name, value) in rejoin.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut session = OsSession::spawn(shell).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(20)));
    session.expect("it is not shown").unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.expect("left with 130").unwrap();
    let rest = session.expect(Eof).unwrap();
    let rest = String::from_utf8_lossy(rest.as_bytes()).into_owned();
    assert!(rest.contains("echo") && !rest.contains("-echo"), "{rest:?}");
}

/// On a terminal, `--yes` with the beginning of an id shows the conversation and asks.
#[test]
fn a_beginning_of_an_id_is_asked_about() {
    let home = Home::new("sqlite");
    let id = home.import("broken.json", BROKEN);
    for (answer, then) in [("n", "Nothing was changed"), ("y", "Deleted conversation")] {
        let mut session = on_terminal(&home, &["history", "delete", &id[..10], "--yes"]);
        session
            .expect(format!("Delete {id} (List the files, please, 5 messages)? This cannot").as_str())
            .unwrap();
        session.expect("[y/N]").unwrap();
        session.send_line(answer).unwrap();
        session.expect(then).unwrap();
        session.expect(Eof).unwrap();
    }
    assert_eq!(home.run(&["history", "show", &id]).code, 1);
}
