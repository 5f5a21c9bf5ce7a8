//! The command line about itself: help that fits a narrow terminal, suggestions for unknown words, completion.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{path::Path, process::Command};

use support::{Home, Ran, SOUND, bare, has};

fn help(path: &[String], flag: &str, columns: &str) -> String {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push(flag);
    let ran = Ran::of(bare(&arguments).env("COLUMNS", columns).output().unwrap());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

/// Every command in the help, with its subcommands.
fn commands() -> Vec<Vec<String>> {
    let mut found = vec![vec![]];
    let mut at = 0;
    while at < found.len() {
        let path: Vec<String> = found[at].clone();
        at += 1;
        let text = help(&path, "-h", "200");
        let list =
            text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        for line in list.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" {
                found.push(path.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

/// Help is at most 80 columns wide, even if there is more room; at 40 it is wrapped, and only text that cannot be broken (a usage
/// line, one long word) is longer.
#[test]
fn help_fits_narrow_terminals() {
    for path in commands() {
        for flag in ["-h", "--help"] {
            for columns in ["80", "200"] {
                for line in help(&path, flag, columns).lines() {
                    assert!(line.chars().count() <= 80, "{path:?} {flag} at {columns}: {line}");
                }
            }
            let narrow = help(&path, flag, "40");
            for line in narrow.lines().filter(|line| !line.starts_with("Usage: ")) {
                let breakable = line.trim().contains(' ');
                assert!(line.chars().count() <= 40 || !breakable, "{path:?} {flag} at 40: {line}");
            }
            // Nothing is squeezed into a column in which no sentence fits.
            let squeezed = narrow.lines().filter(|line| line.starts_with(&" ".repeat(25))).count();
            assert!(squeezed == 0, "{path:?} {flag}: {narrow}");
        }
    }
}

/// `--help` shows two examples or more; `-h` fits a screen.
#[test]
fn help_shows_examples() {
    for path in commands() {
        let long = help(&path, "--help", "80");
        let examples = long.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{path:?} has no examples"));
        let count =
            examples.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).count();
        assert!(count >= 2, "{path:?}: {examples}");
        if !path.is_empty() {
            let short = help(&path, "-h", "80");
            assert!(short.lines().count() <= 40, "{path:?}: {} lines\n{short}", short.lines().count());
        }
    }
}

/// A single unknown word is never sent. It is answered with the command that was meant, spelled out with the rest of the line.
#[test]
fn unknown_words_are_answered_with_what_they_mean() {
    let home = Home::new("jsonl");
    for (given, wanted) in [
        (&["search", "time", "out"][..], "`rejoin history search time out`"),
        (&["show"], "`rejoin history show`"),
        (&["show", "@1"], "`rejoin history show @1`"),
        (&["ls"], "`rejoin list`"),
        (&["export", "@", "-o", "my file.md"], "`rejoin history export @ -o 'my file.md'`"),
        (&["delete", "conv_abc"], "`rejoin history delete conv_abc`"),
        (&["rm"], "`rejoin history delete`"),
        (&["fork", "@"], "`rejoin history fork @`"),
        (&["rename"], "`rejoin history rename`"),
        (&["login", "anthropic"], "`rejoin auth login anthropic`"),
        (&["status"], "`rejoin doctor --self`"),
        (&["continue"], "`rejoin resume`"),
        (&["fix", "broken.json"], "`rejoin convert broken.json --to FORMAT`"),
        (&["repair"], "`rejoin convert --to FORMAT`"),
        (&["mend"], "`rejoin check`"),
        (&["validate", "a.json"], "`rejoin check a.json`"),
        (&["settings"], "`rejoin config list`"),
        (&["serch", "x"], "`rejoin history search x`"),
        (&["chek", "a.json"], "`rejoin check a.json`"),
        (&["Search"], "`rejoin history search`"),
        (&["--store", "jsonl:x", "ls"], "`rejoin list`"),
        (&["history", "rm", "@"], "`rejoin history delete @`"),
        (&["history", "serach"], "`rejoin history search`"),
        (&["config", "edit"], "`rejoin config path`"),
        (&["auth", "list"], "`rejoin auth status`"),
        (&["hello"], "rejoin chat hello"),
        (&["tell", "me", "more"], "rejoin chat 'tell me more'"),
    ] {
        let ran = home.run(given);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{given:?}: {}", ran.err);
        has(&ran.err, &["error: there is no command `rejoin ", wanted]);
        assert!(!home.place().exists(), "{given:?} created a store");
    }
    let escape = home.run(&["\u{1b}[31mx"]);
    assert!(escape.code == 2 && !escape.err.contains('\u{1b}'), "{:?}", escape.err);
}

/// Several words are a message, with or without flags of `chat`.
#[test]
fn several_words_are_a_message() {
    let home = Home::new("sqlite");
    assert_eq!(
        home.out(&["my name is Alice", "--provider", "offline"]),
        "I will remember that your name is Alice.\n"
    );
    assert_eq!(home.out(&["What's my name?"]), "Your name is Alice.\n");
    assert_eq!(home.out(&["--new", "-p", "offline", "what is 2+2"]), "2+2 = 4\n");
    let ran = home.run(&["--provider", "offline", "list"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "a command is no message: {}", ran.err);
}

/// The completions that bash offers for a line.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_rejoin"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let script = r#"
        source <(rejoin completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_rejoin rejoin "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-c", script, "bash"]).args(words).current_dir(home.path(""));
    for (name, value) in home.command(&[]).get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let ran = Ran::of(shell.env("PATH", path).output().unwrap());
    assert_eq!(ran.err, "", "{words:?}");
    ran.out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Ids of conversations are completed in bash wherever an id may occur.
#[test]
fn ids_are_completed() {
    Home::each(|home| {
        assert_eq!(offered(home, &["rejoin", "resume", "conv_"]), [""; 0]);
        assert!(!home.place().exists(), "completing creates no store");
        let one = home.import("one.json", SOUND);
        let other = home.out(&["new", "--title", "Another one"]).trim_end().to_owned();
        for words in [
            &["rejoin", "resume", "conv_"][..],
            &["rejoin", "history", "show", "conv_"],
            &["rejoin", "history", "show", "--id", "conv_"],
            &["rejoin", "chat", "--session", "conv_"],
            &["rejoin", "convert", "conv_"],
            &["rejoin", "copy", &one, "conv_"],
            &["rejoin", "--store", &home.store, "verify", "conv_"],
        ] {
            let found = offered(home, words);
            assert!(found.contains(&one) && found.contains(&other), "{words:?}: {found:?}");
        }
        assert_eq!(offered(home, &["rejoin", "history", "delete", &one[..9]]), [one.as_str()]);
        assert!(offered(home, &["rejoin", "check", "one"]).contains(&String::from("one.json")));
        assert_eq!(offered(home, &["rejoin", "--store", "jsonl:nowhere", "resume", "conv_"]), [""; 0]);
    });
    let home = Home::new("jsonl");
    assert_eq!(offered(&home, &["rejoin", "hist"]), ["history"]);
    assert_eq!(offered(&home, &["rejoin", "chat", "--prov"]), ["--provider"]);
    assert_eq!(offered(&home, &["rejoin", "chat", "--provider", "anth"]), ["anthropic"]);
    assert_eq!(offered(&home, &["rejoin", "config", "get", "on_b"]), ["on_broken"]);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        has(&Ran::of(bare(&["completions", shell]).output().unwrap()).out, &["REJOIN_COMPLETE", "rejoin"]);
    }
}

/// A line that names a scope is offered the conversations of that scope only, also as bash divides it.
#[test]
fn ids_of_other_users_are_not_completed() {
    Home::each(|home| {
        let chat = |scope: &str| {
            home.out(&["chat", "--provider", "offline", "--scope", scope, "hello"]);
            let listed = home.lines(&["list", "--json", "--scope", scope]);
            listed[0]["id"].as_str().unwrap().to_owned()
        };
        let (anns, bobs) = (chat("user=ann,channel=red"), chat("user=bob"));
        for (words, expected) in [
            (&["rejoin", "--scope", "user=ann", "resume", "conv_"][..], vec![&anns]),
            (&["rejoin", "--scope=user=bob", "history", "show", "conv_"], vec![&bobs]),
            (&["rejoin", "--scope", "user", "=", "ann,channel", "=", "red", "resume", "conv_"], vec![&anns]),
            (&["rejoin", "--scope", "=", "user", "=", "bob", "history", "show", "conv_"], vec![&bobs]),
            (&["rejoin", "--scope", "user=carl", "resume", "conv_"], vec![]),
            (&["rejoin", "--scope", "nonsense", "resume", "conv_"], vec![]),
            (&["rejoin", "--store", "nonsense", "resume", "conv_"], vec![]),
        ] {
            assert_eq!(offered(home, words).iter().collect::<Vec<_>>(), expected, "{words:?}");
        }
        assert_eq!(offered(home, &["rejoin", "resume", "conv_"]).len(), 2);
        let (kind, place) = home.store.split_once(':').unwrap();
        let divided =
            ["rejoin", "--store", kind, ":", place, "--scope", "user", "=", "bob", "resume", "conv_"];
        assert_eq!(offered(home, &divided), [bobs]);
    });
}
