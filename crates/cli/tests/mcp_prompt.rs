//! MCP servers at the prompt of a real pseudo-terminal: approved, renamed, retried, and ended gracefully.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use support::{Home, has, screen::Screen, services::PROVIDERS};
use testkit::{
    loopback::{Config, Loopback},
    mcp,
};

/// A prompt whose settings name a server `kit`.
fn prompt(home: &Home, server: &Loopback, arguments: &[&str], size: (u16, u16)) -> Screen {
    let mut command = PROVIDERS[0].command(home, server, &[&["chat"], arguments].concat());
    // Without colours there are no hints, which would look like typed text.
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    let screen = Screen::start(command, size);
    screen.prompt();
    screen
}

fn leave(screen: &Screen) {
    screen.prompt();
    screen.send("\u{4}");
    assert_eq!(screen.end(), 0);
}

fn add(home: &Home, words: &[&str]) {
    home.out(&[&["mcp", "add", "kit"], words].concat());
}

/// A call shows its effect and asks, even on a narrow terminal; its result is one line that can be opened.
#[test]
fn a_call_is_approved_on_a_narrow_terminal() {
    let (home, server) = (Home::new("sqlite"), Loopback::start(Config::default()));
    add(&home, &["--", &mcp::server().display().to_string()]);
    let mut screen = prompt(&home, &server, &[], (40, 20));
    // Nothing is broken in the middle of a word.
    screen.say("/help");
    screen.expect("  /fork [N]\n    go on in a copy of this\n    conversation, up to message N\n");
    screen.prompt();
    screen.say("/hlep");
    screen.expect("There is no command /hlep. Did you mean\n`/help`?\n");
    screen.prompt();
    screen.say("call:kit__echo");
    screen.expect("echo of the MCP server kit");
    screen.expect("[s]top? ");
    screen.send("y\r");
    screen.expect("% of");
    let shown = screen.prompt();
    // This terminal does not show the answer that was typed, so the line begins behind the question.
    let line = shown.lines().find_map(|line| line.split_once("← [")).unwrap_or_else(|| panic!("{shown}")).1;
    assert!(line.chars().count() < 38, "{line}");
    let number = line.split(']').next().unwrap().to_owned();
    screen.say(&format!("/show {number}"));
    screen.expect("value 0 (0)");
    leave(&screen);
}

/// A server renames a tool in the middle of a conversation: the new name works, the old one is an error, and no provider minds the
/// calls of before.
#[test]
fn tools_are_renamed_in_the_middle() {
    let (home, server) = (Home::new("sqlite"), Loopback::start(Config::default()));
    add(&home, &["--", &mcp::server().display().to_string()]);
    let mut screen = prompt(&home, &server, &["--mode", "auto"], (100, 40));
    for (said, answered) in [
        ("call:kit__echo", "value 0 (0)"),
        ("call:kit__rename", "echo is echo_again now"),
        ("call:kit__echo_again", "value 2 (2)"),
        ("call:kit__echo", "kit__echo"),
    ] {
        screen.say(said);
        screen.expect(answered);
        screen.expect("% of");
        screen.prompt();
    }
    leave(&screen);
    assert!(server.violations().is_empty(), "{:#?}", server.violations());
    let history = home.lines(&["history", "calls", "@", "--json"]);
    assert_eq!(history.len(), 4, "{history:?}");
    home.verifies();
}

/// The prompt appears while a server is still starting, and says so on request.
#[test]
fn the_prompt_waits_for_no_server() {
    let (home, server) = (Home::new("sqlite"), Loopback::start(Config::default()));
    let kit = mcp::server().display().to_string();
    add(&home, &["--start-timeout", "600", "--", &kit, "--manner", "silent"]);
    let began = Instant::now();
    let mut screen = prompt(&home, &server, &[], (100, 40));
    screen.say("/mcp");
    screen.expect("kit: is being started");
    screen.prompt();
    // Ctrl-C ends the wait of a turn, and nothing is lost.
    screen.say("hello");
    screen.expect("waiting for MCP servers to start: kit");
    screen.send("\u{3}");
    screen.expect("stopped; everything so far is recorded");
    screen.prompt();
    screen.say("/quit");
    assert_eq!(screen.end(), 0);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(home.lines(&["history", "show", "@", "--json"])[1]["content"], "hello");
}

/// A server that did not start is tried again by `/mcp`, and its tools are there in the next turn.
#[test]
fn a_server_that_did_not_start_is_tried_again() {
    let (home, server) = (Home::new("sqlite"), Loopback::start(Config::default()));
    let kit = mcp::server().display().to_string();
    let script = format!("test -e ready || exit 3; exec '{kit}'");
    add(&home, &["--read", &kit, "--", "sh", "-c", &script]);
    let mut screen = prompt(&home, &server, &["--mode", "auto"], (100, 40));
    for _ in 0..2 {
        screen.say("/mcp");
        screen.expect("kit does not work: it ended with exit code 3");
        screen.expect("The next /mcp tries again.");
        screen.prompt();
    }
    home.file("here/ready", "");
    screen.say("/mcp");
    screen.expect("kit (workshop");
    screen.expect("kit__echo");
    assert!(!screen.prompt().ends_with("The next /mcp tries again.\n›"));
    screen.say("/tools");
    screen.expect("read_file");
    screen.expect("kit__echo");
    screen.prompt();
    screen.say("call:kit__echo");
    screen.expect("value 0 (0)");
    screen.expect("% of");
    leave(&screen);
}

/// At the end, a server's input ends first. The server then has a moment to clean up, and the user does not wait for it.
#[test]
fn a_server_may_tidy_up() {
    let (home, server) = (Home::new("sqlite"), Loopback::start(Config::default()));
    let log = tempfile::tempdir().unwrap();
    let (folder, file) = (log.path().display().to_string(), log.path().join("log"));
    let kit = mcp::server().display().to_string();
    add(&home, &["--write", &folder, "--", &kit, "--manner", "tidy", "--log", &file.display().to_string()]);
    let said = &["chat", "hello"];
    assert!(PROVIDERS[0].command(&home, &server, said).output().unwrap().status.success());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&file).unwrap().ends_with("tidied\nend\n") {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(&file).unwrap());
        std::thread::sleep(Duration::from_millis(10));
    }
    has(&fs::read_to_string(&file).unwrap(), &["initialize", "tools/list"]);
}
