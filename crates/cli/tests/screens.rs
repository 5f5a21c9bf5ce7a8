//! The prompt as a person sees it: screens of a real pseudo-terminal, compared as text.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use ptyprocess::Signal;
use support::{
    Home, has,
    screen::Screen,
    services::{PROVIDERS, slow_server},
};
use testkit::loopback::{
    Config, Loopback, Say,
    brain::{Call, PromptMessage},
};

/// Ctrl-C, Ctrl-D, and keys that send sequences.
const STOP: &str = "\u{3}";
const LEAVE: &str = "\u{4}";
const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";
const RIGHT: &str = "\u{1b}[C";
const ALT_ENTER: &str = "\u{1b}\r";

const SIZE: (u16, u16) = (80, 24);

fn start(home: &Home, arguments: &[&str], size: (u16, u16), environment: &[(&str, &str)]) -> Screen {
    let mut command = home.command(arguments);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(environment.iter().copied());
    Screen::start(command, size)
}

/// A prompt with the built-in responder.
fn prompt(home: &Home, size: (u16, u16), environment: &[(&str, &str)]) -> Screen {
    let screen = start(home, &["chat", "--provider", "offline"], size, environment);
    screen.prompt();
    screen
}

/// The messages of people in the active conversation.
fn said(home: &Home) -> Vec<String> {
    let history = home.lines(&["history", "show", "@", "--json"]);
    let by_person = history.iter().filter(|one| one["role"] == "user");
    by_person.map(|one| one["content"].as_str().unwrap().to_owned()).collect()
}

/// A prompt in a new home.
fn opened() -> (Home, Screen) {
    let home = Home::new("sqlite");
    let screen = prompt(&home, SIZE, &[]);
    (home, screen)
}

/// Leaves the prompt, and gives the messages of people in the active conversation.
fn left(screen: &Screen, home: &Home) -> Vec<String> {
    leave(screen);
    said(home)
}

fn leave(screen: &Screen) {
    screen.prompt();
    screen.send(LEAVE);
    assert_eq!(screen.end(), 0);
    assert!(!screen.marks_pastes(), "the terminal is as it was");
}

/// Keys edit the line, including wide characters, and the record gets the text on the screen.
#[test]
fn a_line_is_edited() {
    let (home, screen) = opened();
    // Ctrl-A, Ctrl-E, Ctrl-W, the arrow keys and Backspace.
    screen.shows("name is Bob\u{1}my \u{5}by\u{17}Älïce日本", "› my name is Älïce日本");
    screen.shows(format!("{LEFT}\u{7f}{LEFT}語\r"), "› my name is Älïc語e本");
    screen.prompt();
    // Keys that mean nothing here leave nothing behind.
    screen.shows("\u{1b}[15~\u{1b}OP\u{1b}[1;5Hplain\u{b}", "› plain");
    screen.send("\r");
    assert_eq!(left(&screen, &home), ["my name is Älïc語e本", "plain"]);
}

/// Messages sent earlier come back with the arrow keys, as a hint and by search, in this folder; keys never do.
#[test]
fn messages_come_back() {
    let (home, screen) = opened();
    for line in ["2+2", "my name is Alice", "my key is sk-ant-api03-abcdefghijklmnop"] {
        screen.say(line);
        screen.prompt();
    }
    leave(&screen);
    let folder = home.path("home/prompts");
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"2+2\"\n\"my name is Alice\"\n");
    }
    let screen = prompt(&home, SIZE, &[]);
    screen.shows(UP, "› my name is Alice");
    screen.send(UP);
    screen.until_it(|screen| screen.ends_with("› 2+2"));
    screen.enter(STOP);
    // A hint is dim, and the right arrow takes it.
    screen.send("my n");
    screen.until_it(|screen| screen.ends_with("› my name is Alice"));
    assert!(screen.styled(|cell| cell.dim()).contains("ame is Alice"));
    screen.shows(format!("{RIGHT}\r"), "your name is Alice");
    screen.prompt();
    // Ctrl-R.
    screen.shows("\u{12}2+", "search (2+) › 2+2");
    screen.send("\r");
    screen.until_it(|screen| screen.ends_with("› 2+2"));
    screen.shows("\r", "2+2 = 4");
    leave(&screen);
}

/// Tab completes commands, paths and conversations.
#[test]
fn words_are_completed() {
    let home = Home::new("sqlite");
    home.file("here/notes/long-name.txt", "x");
    let screen = prompt(&home, SIZE, &[]);
    screen.send("/he\t");
    screen.until_it(|screen| screen.ends_with("› /help"));
    screen.shows("\r", "Ctrl-C stops a turn");
    screen.prompt();
    screen.shows("see @no\t", "› see @notes/");
    screen.shows("\t", "› see @notes/long-name.txt");
    screen.enter(STOP);
    screen.answers("2+2", "2+2 = 4");
    screen.prompt();
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    for (typed, completed) in [
        (format!("/resume {}\t", &id[..8]), format!("› /resume {id}")),
        (String::from("/model of\t"), String::from("› /model offline")),
        (String::from("/mode read\t"), String::from("› /mode read-only")),
        (String::from("/provider anth\t"), String::from("› /provider anthropic")),
    ] {
        screen.send(typed);
        screen.until_it(|screen| screen.trim_end().ends_with(&completed));
        screen.enter(STOP);
    }
    leave(&screen);
}

/// Alt-Enter, a backslash and an open fence begin another line; the lines are sent as one message.
#[test]
fn messages_have_lines() {
    let (home, screen) = opened();
    screen.shows(format!("one{ALT_ENTER}two\\\rthree"), "› one\n· two\\\n· three");
    screen.enter("\r");
    screen.shows("```\rcode\r", "› ```\n· code\n·");
    screen.send("```\r");
    assert_eq!(left(&screen, &home), ["one\ntwo\nthree", "```\ncode\n```"]);
}

/// A paste is one message, however long; a long one is a mark in the line. Nothing in it controls the terminal or is recorded as an
/// escape sequence, and invalid UTF-8 is replaced.
#[test]
fn pastes_are_one_message() {
    let (home, mut screen) = opened();
    screen.paste("short\r\nwith \u{1b}[31mcolour\u{1b}[0m\u{7}");
    screen.until("› short\n· with colour");
    screen.enter("\r");
    let long: String = (0..5000).map(|number| format!("line {number} of a long paste\n")).collect();
    screen.send("before ");
    screen.paste(&long);
    screen.until("› before [pasted 128 KB, 5,000 lines]");
    screen.enter(" after\r");
    screen.paste(b"caf\xe9 \xff\xfe end");
    // The screen of the tests does not show the replacement.
    screen.expect("› caf\u{fffd} \u{fffd}\u{fffd} end");
    screen.send("\r");
    leave(&screen);
    assert_eq!(
        said(&home),
        [
            String::from("short\nwith colour"),
            format!("before {long} after"),
            String::from("caf\u{fffd} \u{fffd}\u{fffd} end")
        ]
    );
}

/// Ten megabytes are pasted and sent; the prompt stays usable.
#[test]
fn a_paste_of_ten_megabytes() {
    let (home, screen) = opened();
    let long =
        "eighty bytes of text that a person copied from somewhere, and a line break end.\n".repeat(125_000);
    assert_eq!(long.len(), 10_000_000);
    screen.paste(&long);
    screen.until("› [pasted 10 MB, 125,000 lines]");
    screen.send("x\u{7f}");
    screen.send("\r");
    assert_eq!(left(&screen, &home), [long]);
}

/// Bytes that are not UTF-8 have a replacement when they are typed, too, and take nothing with them.
#[test]
fn typed_bytes_that_are_not_text() {
    let (home, mut screen) = opened();
    screen.send(b"caf\xe9 \xff\xe9x");
    screen.expect("› caf\u{fffd} \u{fffd}\u{fffd}x");
    screen.enter(b"\xe9\r");
    screen.answers("2+2", "2+2 = 4");
    assert_eq!(left(&screen, &home), ["caf\u{fffd} \u{fffd}\u{fffd}x\u{fffd}", "2+2"]);
}

/// Lines typed while a turn ran are used afterwards, one by one.
#[test]
fn typing_ahead_is_not_lost() {
    let server = slow_server();
    let home = Home::new("sqlite");
    let mut command = PROVIDERS[2].command(&home, &server, &["chat"]);
    command.env("TERM", "xterm");
    let screen = Screen::start(command, SIZE);
    screen.prompt();
    screen.answers("hello words:50", "word10");
    screen.send("second\rthird\rhalf");
    screen.until_it(|screen| screen.ends_with("› half"));
    screen.send(" done\r");
    assert_eq!(left(&screen, &home), ["hello words:50", "second", "third", "half done"]);
}

/// Ctrl-C at a question stops the turn, and the next line is a message again; an answer lets the call run.
#[test]
fn questions_and_messages_take_turns() {
    let (home, mut screen) = opened();
    for _ in 0..2 {
        screen.say("write `hello` to notes/a.txt");
        screen.expect("[s]top? ");
        screen.send(STOP);
        screen.expect("stopped; everything so far is recorded");
        screen.prompt();
        screen.say("2+2");
        screen.expect("2+2 = 4");
        screen.prompt();
    }
    screen.say("write `hello` to notes/a.txt");
    screen.expect("[s]top? ");
    screen.send("y\r");
    screen.expect("created `notes/a.txt`");
    leave(&screen);
    assert_eq!(std::fs::read_to_string(home.path("here/notes/a.txt")).unwrap(), "hello\n");
}

/// If answers go to a file, that gets nothing else, and lines are plain.
#[test]
fn a_file_gets_only_the_answers() {
    let home = Home::new("sqlite");
    let rejoin = home.command(&[]);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "exec \"$0\" chat --provider offline > answers.txt"]).arg(rejoin.get_program());
    shell.current_dir(home.path("here")).env("TERM", "xterm");
    for (name, value) in rejoin.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let screen = Screen::start(shell, SIZE);
    screen.prompt();
    screen.shows("2+2\r", " s · ");
    leave(&screen);
    assert_eq!(std::fs::read_to_string(home.path("here/answers.txt")).unwrap(), "2+2 = 4\n");
}

/// Signals of others end the prompt, and the terminal is as it was.
#[test]
fn others_can_end_the_prompt() {
    let (_home, mut screen) = opened();
    screen.answers("my name is Alice", "your name is Alice");
    screen.prompt();
    screen.shows("half a line", "› half a line");
    screen.signal(Signal::SIGINT);
    screen.until("Press Ctrl-C again to leave.");
    screen.prompt();
    screen.shows("more", "› more");
    screen.signal(Signal::SIGTERM);
    assert_eq!(screen.end(), 130);
    assert!(!screen.marks_pastes());
}

/// They end the picker as well, at the start and at the prompt, and a question before the prompt.
#[test]
fn others_can_end_the_picker() {
    let home = Home::new("sqlite");
    let [_, _, here] = conversations(&home);
    let mut screen = start(&home, &["resume", "--provider", "offline"], SIZE, &[]);
    screen.until("3 of 3\n");
    assert!(!screen.is_given_back());
    screen.signal(Signal::SIGTERM);
    assert_eq!(screen.end(), 130);
    assert!(screen.is_given_back());
    assert!(!screen.now().contains("Resume:"), "{}", screen.now());
    let mut screen = start(&home, &["resume", &here, "--provider", "offline"], SIZE, &[]);
    screen.until("›");
    screen.shows("/resume\r", "3 of 3\n");
    screen.signal(Signal::SIGTERM);
    assert_eq!(screen.end(), 130);
    assert!(screen.is_given_back());
    // On a terminal without a picker: Ctrl-C at the question.
    let screen = start(&home, &["resume", "--provider", "offline"], SIZE, &[("TERM", "dumb")]);
    screen.until("1 to 3");
    screen.send(STOP);
    assert_eq!(screen.end(), 130);
}

const ANSWER: &str = "# Title\n\nSome **bold** words and `code` in a paragraph that is long enough to need two rows here.\n\n\
    ```rust\nfn main() {\n    println!(\"日本\");\n}\n```\n\n| k | what |\n|---|---|\n| a | first |\n\n- one\n- two &#27;[31m\n";

fn markdown(size: (u16, u16), environment: &[(&str, &str)]) -> (Home, Screen) {
    let brain = Arc::new(|_: &testkit::loopback::Ask| Say::text(ANSWER));
    let server = Loopback::start(Config { brain, ..Config::default() });
    let home = Home::new("sqlite");
    let mut command = PROVIDERS[2].command(&home, &server, &["chat"]);
    command
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("REJOIN_EFFORT")
        .envs(environment.iter().copied());
    let screen = Screen::start(command, size);
    screen.prompt();
    screen.shows("go\r", "% of");
    screen.prompt();
    (home, screen)
}

/// The answer between the message and the line about the turn.
fn answer(screen: &Screen) -> String {
    let all = screen.all();
    // In a test terminal, typed text is shown only if the program shows it.
    let after = all.split_once("› go\n").or_else(|| all.split_once("› ")).unwrap().1;
    let lines: Vec<&str> = after.lines().take_while(|line| !line.contains("tokens in")).collect();
    lines.join("\n")
}

#[test]
fn answers_are_markdown() {
    let shown = |paragraph: &str| {
        format!(
            "Title

{paragraph}

```rust
fn main() {{
    println!(\"日本\");
}}
```

k │ what
──┼──────
a │ first

• one
• two [31m"
        )
    };
    let (_home, screen) = markdown(SIZE, &[]);
    assert_eq!(
        answer(&screen),
        shown("Some bold words and code in a paragraph that is long enough to need two rows\nhere.")
    );
    assert!(screen.styled(|cell| cell.bold()).contains("Title"));
    assert!(screen.styled(|cell| cell.fgcolor() != vt100::Color::Default).contains("fn"));
    let status = screen.all().lines().find(|line| line.contains("tokens in")).unwrap().to_owned();
    has(&status, &[" s · ", " tokens in, ", " out · ", "% of the window"]);
    let (_home, screen) = markdown((40, 12), &[]);
    assert_eq!(
        answer(&screen),
        shown("Some bold words and code in a paragraph\nthat is long enough to need two rows\nhere.")
    );
}

/// Without colours, and on a terminal that cannot move its cursor, an answer is the text as the model wrote it.
#[test]
fn plain_terminals_get_plain_text() {
    for environment in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb"), ("CI", "true")]] {
        let (_home, screen) = markdown((100, 40), environment);
        let plain = ANSWER.trim_end();
        assert_eq!(answer(&screen), plain, "{environment:?}");
        let written = screen.written();
        if environment[0].0 == "TERM" {
            let steers = written.iter().filter(|byte| **byte == 0x1b).count();
            assert_eq!(steers, 0, "{:?}", String::from_utf8_lossy(&written));
        }
    }
}

/// `TERM=dumb`: the terminal edits the line, invalid UTF-8 has a replacement, and keys that send sequences leave nothing behind.
#[test]
fn a_dumb_terminal_has_plain_lines() {
    let home = Home::new("sqlite");
    let screen = prompt(&home, (40, 24), &[("TERM", "dumb")]);
    screen.shows("my name is Alice\r", "your name is Alice");
    screen.prompt();
    screen.send(b"caf\xe9 \x1b[A\x1b[D2+2\r");
    assert_eq!(left(&screen, &home), ["my name is Alice", "caf\u{fffd} 2+2"]);
    assert!(!screen.written().windows(4).any(|window| window == b"\x1b[6n"));
}

/// At 40 columns, and after the terminal changed its size, the line is where it should be.
#[test]
fn narrow_terminals_and_new_sizes() {
    let home = Home::new("sqlite");
    let mut screen = prompt(&home, (40, 12), &[]);
    let line = "a line that is longer than forty columns and wraps 日本語";
    screen.shows(line, "wraps 日本語");
    has(&screen.all(), &["› a line that is longer than forty colum\nns and wraps 日本語"]);
    screen.resize((60, 20));
    screen.shows("!", "wraps 日本語!");
    screen.enter("\r");
    screen.answers("2+2", "2+2 = 4");
    assert_eq!(left(&screen, &home), [format!("{line}!").as_str(), "2+2"]);
}

/// A call is one line with the number of its result in the history.
#[test]
fn a_call_is_one_line_with_a_number() {
    let brain = Arc::new(|ask: &testkit::loopback::Ask| match ask.said.last() {
        Some(PromptMessage::Result { .. }) => Say::text("Done."),
        _ => Say {
            text: String::from("I look."),
            calls: vec![Call { name: String::from("list_dir"), arguments: String::from("{\"path\":\".\"}") }],
            ..Say::default()
        },
    });
    let server = Loopback::start(Config { brain, ..Config::default() });
    let home = Home::new("sqlite");
    home.file("here/a.txt", "x");
    let mut command = PROVIDERS[2].command(&home, &server, &["chat"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("REJOIN_EFFORT");
    let screen = Screen::start(command, SIZE);
    screen.prompt();
    screen.answers("go", "Done.");
    let shown = screen.prompt();
    has(&shown, &["I look.\n← [2] list_dir {\"path\":\".\"}: a.txt\nDone.\n"]);
    leave(&screen);
    let history = home.lines(&["history", "show", "@", "--json"]);
    assert_eq!(history[2]["role"], "tool", "{history:?}");
}

/// Three conversations: one of another folder, one imported, and one of this folder with two messages.
fn conversations(home: &Home) -> [String; 3] {
    let imported = home.import("chat.json", support::SOUND);
    std::fs::create_dir_all(home.path("there")).unwrap();
    let mut elsewhere = home.command(&["chat", "--provider", "offline", "a talk about pears"]);
    assert!(elsewhere.current_dir(home.path("there")).output().unwrap().status.success());
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let newest = home.lines(&["list", "--json"]);
    let id = |number: usize| newest[number]["id"].as_str().unwrap().to_owned();
    assert!((0..3).any(|number| id(number) == imported));
    let other = (0..3)
        .map(id)
        .find(|id| newest.iter().any(|one| one["id"] == **id && one["title"] == "a talk about pears"));
    let here = (0..3)
        .map(id)
        .find(|id| newest.iter().any(|one| one["id"] == **id && one["title"] == "my name is Alice"));
    [other.unwrap(), imported, here.unwrap()]
}

/// `resume` without an id: a list, a search, a preview, this folder only; Enter resumes and Esc leaves.
#[test]
fn a_conversation_is_picked() {
    let home = Home::new("sqlite");
    let [other, imported, _] = conversations(&home);
    for size in [SIZE, (40, 14)] {
        let screen = start(&home, &["resume", "--provider", "offline"], size, &[]);
        screen.until_it(|screen| screen.contains("3 of 3\n"));
        let shown = screen.until("model: I will remember that your name");
        has(
            &shown,
            &["Resume:", "my name is Alice", "a talk about pears", "How many files?", "Enter resumes"],
        );
        has(&shown, &["you:   my name is Alice"]);
        // Tab leaves only what belongs to this folder, and brings the rest back.
        screen.send("\t");
        screen.until_it(|screen| screen.contains("of 3, this folder only") && !screen.contains("pears"));
        screen.shows("\t", "3 of 3\n");
        screen.send("tlkprs");
        let shown = screen.until("Resume: tlkprs▏\n1 of 3\n");
        has(&shown, &["› ", "a talk about pears"]);
        screen.shows("\u{15}", "3 of 3\n");
        screen.send("\u{1b}");
        assert_eq!(screen.end(), 0);
        assert!(!screen.now().contains("pears"), "the screen is as it was: {}", screen.now());
        assert!(!screen.marks_pastes());
    }
    for (search, id) in [("pears", &other), ("gpt-y files", &imported)] {
        let screen = start(&home, &["resume", "--provider", "offline"], SIZE, &[]);
        screen.until("3 of 3\n");
        screen.shows(search, "1 of 3");
        screen.shows("\r", &format!("Resumed conversation: {id}"));
        leave(&screen);
    }
}

/// The commands of the prompt work in the line editor: /resume opens the picker, and the prompt switches to the picked
/// conversation.
#[test]
fn commands_in_the_editor() {
    let home = Home::new("sqlite");
    let [other, _, here] = conversations(&home);
    let screen = start(&home, &["resume", &here, "--provider", "offline"], SIZE, &[]);
    screen.until(&format!("Resumed conversation: {here}"));
    screen.until("›");
    screen.shows("/resume\r", "3 of 3\n");
    screen.shows("pears", "1 of 3");
    screen.shows("\r", &format!("Resumed conversation: {other}"));
    screen.send("/clear\r");
    screen.until_it(|screen| !screen.contains("Resumed"));
    screen.shows("/hepl\r", "There is no command /hepl. Did you mean `/help`?");
    screen.shows("/mo\t", "/models");
    screen.send("\u{3}");
    leave(&screen);
}

/// At 40 columns, the output of /history and /branches is broken between words.
#[test]
fn the_history_is_broken_between_words() {
    let home = Home::new("sqlite");
    let words = ["alphabet"; 12].join(" ");
    home.out(&["chat", "--provider", "offline", &words]);
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    let screen = start(&home, &["resume", &id, "--provider", "offline", "--no-pager"], (40, 40), &[]);
    screen.until("›");
    screen.send("/history\r");
    let row = ["alphabet"; 4].join(" ");
    has(&screen.until("[1] ASSISTANT"), &[&format!("Content:\n{row}\n{row}\n{row}\n")]);
    screen.prompt();
    screen.send("/branches\r");
    screen.until_it(|screen| {
        screen.rsplit("/branches").next().is_some_and(|shown| shown.contains("messages,"))
    });
    let shown = screen.now();
    let row = shown.rsplit("/branches").next().unwrap();
    // The beginning of the branch is shortened anywhere.
    let is_whole = |word: &str| word.ends_with('…') || word == "alphabet";
    assert!(row.split_whitespace().filter(|word| word.starts_with("alph")).all(is_whole), "{row}");
    assert!(row.contains("(2 messages"), "{row}");
    leave(&screen);
}

/// On a dumb terminal, `resume` lists the newest with numbers and asks.
#[test]
fn a_dumb_terminal_picks_by_number() {
    let home = Home::new("jsonl");
    let [_, _, here] = conversations(&home);
    let mut screen = start(&home, &["resume", "--provider", "offline"], (40, 24), &[("TERM", "dumb")]);
    screen.expect("1 to 3");
    let list = screen.now();
    let row = list.lines().find(|line| line.contains("my name is Alice")).unwrap();
    let number = row.split_whitespace().next().unwrap().to_owned();
    screen.send("9\r");
    screen.expect("Please answer with one of the numbers");
    screen.send(format!("{number}\r"));
    screen.expect(&format!("Resumed conversation: {here}"));
    leave(&screen);
    let screen = start(&home, &["resume", "--provider", "offline"], (40, 24), &[("TERM", "dumb")]);
    screen.until("1 to 3");
    screen.send("\r");
    assert_eq!(screen.end(), 0);
    // Without conversations there is nothing to pick, and `resume` fails.
    let empty = Home::new("sqlite");
    let screen = start(&empty, &["resume"], SIZE, &[]);
    assert_eq!(screen.end(), 1);
    has(&screen.now(), &["not found"]);
}
