//! Output on a real pseudo-terminal: no foreign text can control it, and a pipe gets exact bytes.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{process::Command, time::Duration};

use expectrl::{Eof, Expect as _, session::OsSession};
use serde_json::Value;
use support::{Home, SOUND, has};

/// Control characters of all kinds, and marks that turn the direction of writing, as JSON carries them.
const SAID: &str =
    "plain \u{9b}31m \u{85}\u{7f} \u{202e}drow \u{2066}\u{61c}\u{2028} \\u001b]0;title\\u0007\\u001b[2J end";

/// A name with the same, and with invisible characters.
const NAME: &str = "na\u{200b}me\u{61c}\u{202e}\u{9b}31m\u{1b}[31m\u{feff}";

/// `NAME` as a person gets to see it.
const NAME_SHOWN: &str = "na\\u{200b}me\\u{61c}\\u{202e}\\u{9b}31m\\u{1b}[31m\\u{feff}";

/// Everything that a command prints on a terminal, standard error included.
fn on_terminal(mut command: Command) -> String {
    command.env("NO_COLOR", "1").env("TERM", "dumb").env("PAGER", "none");
    let mut session = OsSession::spawn(command).unwrap();
    session.set_expect_timeout(Some(Duration::from_secs(30)));
    let printed = session.expect(Eof).unwrap();
    String::from_utf8(printed.as_bytes().to_vec()).unwrap().replace("\r\n", "\n")
}

/// Fails if a text holds anything that steers a terminal. Cursor and line control of progress bars is ours.
fn assert_harmless(what: &[&str], printed: &str) {
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
            || matches!(c, '\u{2028}' | '\u{2029}')
    };
    let found: Vec<char> = printed.chars().filter(|c| steers(*c)).collect();
    assert!(found.is_empty(), "{what:?} prints {found:?}:\n{printed:?}");
}

/// In every output form, stored text cannot control a terminal; JSON stays equivalent there, and a pipe gets every byte.
#[test]
fn stored_text_cannot_steer_a_terminal() {
    Home::each(|home| {
        let id = home.import("chat.json", &SOUND.replace("Two.", SAID));
        for arguments in [
            &["history", "show", &id][..],
            &["history", "show", &id, "--json"],
            &["history", "show", &id, "--raw"],
            &["history", "show", &id, "--view"],
            &["history", "show", &id, "--view", "--json"],
            &["history", "show", &id, "--view", "--for", "anthropic"],
            &["history", "show", &id, "--view", "--for", "anthropic", "--json"],
            &["history", "search", "plain", "--json"],
            &["history", "search", "plain"],
            &["history", "calls", &id, "--full"],
            &["history", "calls", &id, "--full", "--json"],
            &["history", "export", &id],
            &["history", "export", &id, "--to", "codex"],
            &["history", "export", &id, "--to", "markdown"],
            &["convert", &id, "--to", "openai-chat"],
            &["convert", &id, "--to", "anthropic"],
            &["check", &id, "--json"],
            &["list"],
            &["list", "--json"],
        ] {
            let printed = on_terminal(home.command(arguments));
            assert_harmless(arguments, &printed);
            assert!(!printed.is_empty(), "{arguments:?}");
        }
        let file = home.path("chat.json").display().to_string();
        for arguments in [&["convert", &file, "--to", "openai-chat"][..], &["history", "show", &id, "--raw"]]
        {
            let piped = home.out(arguments);
            assert!(piped.contains("\u{202e}drow") && piped.contains('\u{9b}'), "{arguments:?}: {piped:?}");
            let shown = on_terminal(home.command(arguments));
            let json = shown.lines().skip_while(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n");
            let value = |text: &str| {
                serde_json::from_str::<Value>(text).unwrap_or_else(|why| panic!("{why}: {text}"))
            };
            assert_eq!(value(&json), value(&piped), "{arguments:?}");
        }
    });
}

/// A terminal cannot show a database, so it gets none; a pipe does.
#[test]
fn a_database_is_not_printed_on_a_terminal() {
    let home = Home::new("sqlite");
    let id = home.import("chat.json", SOUND);
    for arguments in [
        &["convert", &id, "--to", "goose"][..],
        &["convert", &id, "--to", "llm", "-o", "/dev/tty"],
        &["history", "export", &id, "--to", "xzatoma"],
    ] {
        let printed = on_terminal(home.command(arguments));
        assert_harmless(arguments, &printed);
        has(&printed, &["a database, which cannot be printed", "hint: save it with `-o FILE`"]);
    }
}

/// Names of others are shown so that a person can tell two of them apart.
#[test]
fn what_cannot_be_seen_in_a_name_is_shown() {
    Home::each(|home| {
        let name = serde_json::to_string(NAME).unwrap();
        let body = SOUND.replace("\"ls\"", &name).replace("\"gpt-y\"", &name);
        let id = home.import(&format!("{}.json", "na\u{200b}me\u{61c}"), &body);
        home.out(&["history", "rename", &id, NAME]);
        for arguments in [
            &["list"][..],
            &["history", "show", &id],
            &["history", "calls", &id],
            &["history", "search", "files"],
            &["history", "rename", &id, NAME],
            &["history", "delete", &id, "--dry-run"],
        ] {
            for printed in
                [on_terminal(home.command(arguments)), home.run(arguments).out + &home.run(arguments).err]
            {
                assert_harmless(arguments, &printed);
                has(&printed, &[NAME_SHOWN]);
                assert!(!printed.contains(['\u{200b}', '\u{feff}']), "{arguments:?}: {printed:?}");
            }
        }
        let file = home.path("na\u{200b}me\u{61c}.json").display().to_string();
        for arguments in [&["check", &file][..], &["import", &file], &["doctor", &file]] {
            let printed = on_terminal(home.command(arguments));
            assert!(!printed.contains(['\u{200b}', '\u{61c}']), "{arguments:?}: {printed:?}");
        }
    });
}

/// Typed text and settings appear in errors with their escapes made visible, both in rejoin's errors and in those of the argument
/// parser.
#[test]
fn errors_and_settings_echo_no_escape() {
    let home = Home::new("sqlite");
    let bad = NAME;
    let path = format!("/nowhere/{bad}");
    home.out(&["config", "set", "system", bad]);
    for arguments in [
        &["check", &path][..],
        &["convert", &path, "--to", "anthropic"],
        &["convert", &path, "--to", bad],
        &["import", &path],
        &["doctor", &path],
        &["history", "show", bad],
        &["resume", bad],
        &["list", "--state", bad],
        &["list", "--limit", bad],
        &["list", bad],
        &[bad],
        &["history", bad],
        &["--store", bad, "list"],
        &["--store", &format!("jsonl:/dev/null/{bad}"), "new"],
        &["chat", "--provider", bad, "hello"],
        &["config", "get", bad],
        &["config", "set", "color", bad],
        &["config", "get", "system"],
        &["config", "list"],
        &["explain", bad],
        &["auth", "logout", bad],
        &["auth", "login", bad],
        &["set-provider", bad],
        &["models", "info", bad, "--provider", "offline"],
        &["completions", bad],
    ] {
        let printed = on_terminal(home.command(arguments));
        assert_harmless(arguments, &printed);
        assert!(printed.contains("\\u{9b}31m"), "{arguments:?}: {printed:?}");
    }
    for (name, value) in [("REJOIN_STORE", bad), ("REJOIN_COLOR", bad), ("RUST_LOG", bad)] {
        let mut command = home.command(&["list"]);
        command.env(name, value);
        assert_harmless(&[name], &on_terminal(command));
    }
    let exact = home.out(&["config", "get", "system"]);
    assert_eq!(exact.trim_end(), bad, "a pipe gets the exact value");
    // A log line quotes the content of a file.
    home.file("home/config.toml", "\"no\\u001b[31m\\u202esuch\" = 1\n");
    let printed = on_terminal(home.command(&["list"]));
    assert_harmless(&["an unknown setting"], &printed);
    has(&printed, &["\\u{202e}such"]);
}
