//! The prompt, on a real pseudo-terminal.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::time::Duration;

use expectrl::{ControlCode, Eof, Expect as _, session::OsSession};
use support::{BROKEN, Home};

fn on_terminal(home: &Home, arguments: &[&str]) -> OsSession {
    let mut command = home.command(arguments);
    command.env("NO_COLOR", "1").env("TERM", "xterm");
    let mut session = OsSession::spawn(command).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(20)));
    session
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
    session.expect("Ctrl-C stops a turn").unwrap();
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

/// S2-48: on a terminal, `resume` shows the last exchange, names the calls without a result, and asks what to do about them.
#[test]
fn resume_asks_about_calls_without_a_result() {
    for (answer, noted) in [("k", "shown to the model as interrupted"), ("l", "left out")] {
        let home = Home::new("sqlite");
        let id = home.import("broken.json", BROKEN);
        let mut session = on_terminal(&home, &["resume", &id, "--provider", "offline"]);
        session.expect("you:   still there?").unwrap();
        session.expect("1 call without a result:").unwrap();
        session.expect("  stat {}").unwrap();
        session.expect("[k]eep as interrupted, [l]eave out? [k]").unwrap();
        session.send_line(answer).unwrap();
        session.expect("›").unwrap();
        session.send_line("go on").unwrap();
        session.expect(noted).unwrap();
        session.expect("›").unwrap();
        session.send_line("/exit").unwrap();
        session.expect(Eof).unwrap();
        assert_eq!(home.run(&["check", &id]).code, 1, "the record is as it was");
    }
}

/// Ctrl-C at the prompt asks whether that was meant; twice leaves.
#[test]
fn control_c_at_the_prompt_leaves() {
    let home = Home::new("sqlite");
    let mut session = on_terminal(&home, &["--color", "never", "chat", "--provider", "offline"]);
    session.expect("›").unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.expect("Ctrl-C again leaves").unwrap();
    session.expect("›").unwrap();
    session.send(ControlCode::EndOfText).unwrap();
    session.expect(Eof).unwrap();
}

/// Whoever gives up while a key is asked for sees again what is typed.
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
