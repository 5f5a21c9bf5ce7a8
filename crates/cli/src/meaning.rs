//! Words on the command line that name no command: a message to send, or a command that people know by another name.
//!
//! `rejoin "two words"` is a chat. A single unknown word is never sent, because it is more likely a mistyped command; it
//! is answered with the command that was probably meant, spelled out with the rest of the line.

use std::ffi::{OsStr, OsString};

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{near::is_near, output};

/// Words that people try, and the commands they mean. `{}` stands for the rest of the line.
const MEANINGS: &[(&[&str], &[&str])] = &[
    (&["search", "find", "grep"], &["history search {}"]),
    (&["show", "view", "read", "cat", "log", "print"], &["history show {}"]),
    (&["ls", "conversations", "sessions", "threads"], &["list {}"]),
    (&["export", "save", "dump", "backup"], &["history export {}"]),
    (&["delete", "rm", "remove", "del"], &["history delete {}"]),
    (&["fork", "branch"], &["history fork {}"]),
    (&["rename", "title", "mv"], &["history rename {}"]),
    (&["erase", "redact", "scrub", "wipe"], &["history erase {}"]),
    (&["calls", "tools", "audit"], &["history calls {}"]),
    (&["continue", "open", "attach", "go", "restore"], &["resume {}"]),
    (&["ask", "say", "talk", "send", "prompt", "message", "run"], &["chat {}"]),
    (&["create", "start", "init", "begin"], &["new {}"]),
    (&["fix", "repair", "mend", "heal", "recover", "clean"], &["check {}", "convert {} --to FORMAT"]),
    (&["validate", "lint", "inspect", "test"], &["check {}"]),
    (&["diagnose", "scan"], &["doctor {}"]),
    (&["status", "info", "about", "where"], &["list", "doctor --self"]),
    (&["login", "signin"], &["auth login {}"]),
    (&["logout", "signout"], &["auth logout {}"]),
    (&["key", "keys", "token", "whoami"], &["auth status"]),
    (&["settings", "setting", "preferences", "options", "configure"], &["config list"]),
    (&["set"], &["config set {}"]),
    (&["get"], &["config get {}"]),
    (&["unset"], &["config unset {}"]),
    (&["model"], &["models list {}"]),
    (&["provider", "use", "switch"], &["set-provider {}"]),
    (&["load", "ingest", "add", "restore-backup"], &["import {}"]),
    (&["cp", "clone", "sync", "migrate"], &["copy {}"]),
    (&["hash", "fsck"], &["verify {}"]),
    (&["why", "describe", "man", "rule", "rules"], &["explain {}"]),
    (&["completion", "complete", "autocomplete"], &["completions {}"]),
    (&["tutorial", "example", "try", "tour"], &["demo"]),
    (&["version"], &["--version"]),
];

/// The same for the commands of a group.
const IN_GROUPS: &[(&str, &[&str], &str)] = &[
    ("history", &["ls"], "list {}"),
    ("history", &["find", "grep"], "search {}"),
    ("history", &["view", "read", "cat", "open", "print", "log"], "show {}"),
    ("history", &["rm", "remove", "del"], "delete {}"),
    ("history", &["save", "dump", "backup"], "export {}"),
    ("history", &["title", "mv"], "rename {}"),
    ("history", &["branch"], "fork {}"),
    ("history", &["redact", "scrub", "wipe"], "erase {}"),
    ("history", &["tools", "audit"], "calls {}"),
    ("config", &["ls", "show", "print"], "list"),
    ("config", &["edit", "open", "file", "where"], "path"),
    ("config", &["remove", "delete", "rm", "reset", "clear"], "unset {}"),
    ("auth", &["add", "set", "signin"], "login {}"),
    ("auth", &["remove", "delete", "rm", "signout"], "logout {}"),
    ("auth", &["list", "ls", "show", "whoami"], "status"),
    ("models", &["ls"], "list {}"),
    ("models", &["show", "describe"], "info {}"),
];

/// Puts `chat` into a command line that begins with a message, or with a flag of `chat`.
pub fn with_chat(root: &Command, mut given: Vec<OsString>) -> Vec<OsString> {
    let Some(chat) = root.find_subcommand("chat") else { return given };
    let mut flags_begin = None;
    let mut at = 1;
    while let Some(word) = given.get(at) {
        let text = word.to_string_lossy();
        if text == "--" {
            break;
        }
        if !text.starts_with('-') || text == "-" {
            let is_message = text.trim().is_empty() || text.trim().contains(char::is_whitespace);
            if is_message {
                given.insert(flags_begin.unwrap_or(at), OsString::from("chat"));
            }
            return given;
        }
        let (flag, of_chat) = match (flag(root, &text), flag(chat, &text)) {
            (Some(flag), _) => (flag, false),
            (None, Some(flag)) => (flag, true),
            // Help, or an unknown flag, which clap reports.
            (None, None) => return given,
        };
        if of_chat && flags_begin.is_none() {
            flags_begin = Some(at);
        }
        let holds_value = text.contains('=') || (!text.starts_with("--") && text.chars().count() > 2);
        at += if flag.get_action().takes_values() && !holds_value { 2 } else { 1 };
    }
    if let Some(at) = flags_begin {
        given.insert(at, OsString::from("chat"));
    }
    given
}

/// The flag that a word names, with or without a value after it.
fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|argument| match word.strip_prefix("--") {
        Some(name) => argument.get_long() == Some(name.split('=').next().unwrap_or(name)),
        None => argument.get_short().is_some() && argument.get_short() == word.chars().nth(1),
    })
}

/// Says what an unknown command probably means; false if the error is about something else.
pub fn suggest(error: &clap::Error, given: &[OsString]) -> bool {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return false;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return false };
    let Some(at) = given.iter().position(|other| other == OsStr::new(word)) else { return false };
    // A group comes right before the word; anything else is a flag or its value.
    let group = given[..at].last().and_then(|group| group.to_str());
    let group = group.filter(|group| IN_GROUPS.iter().any(|(name, _, _)| name == group));
    let rest: Vec<String> = given[at + 1..].iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let meant = meant(group, word, &similar);
    let in_group = group.map_or_else(String::new, |group| format!("{group} "));
    output::error(output::harmless(&format!("there is no command `rejoin {in_group}{word}`")));
    let hint = |text: &str| output::hint(output::harmless(text));
    for command in &meant {
        let command = command.replace("{}", &rest.join(" "));
        let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        hint(&format!("did you mean `rejoin {command}`?"));
    }
    match group {
        Some(group) => hint(&format!("`rejoin {group} --help` lists the commands")),
        None => {
            let message: Vec<String> =
                given[at..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
            hint(&format!(
                "`rejoin --help` lists the commands; to send it as a message: rejoin chat {}",
                quoted(&message.join(" "))
            ));
        }
    }
    true
}

/// The commands that a word probably means, best first, without `rejoin`.
fn meant(group: Option<&str>, word: &str, similar: &[String]) -> Vec<String> {
    let word = word.to_lowercase();
    let fits = |words: &[&str], near: bool| {
        words.iter().any(|known| if near { is_near(known, &word) } else { *known == word })
    };
    for near in [false, true] {
        let found: Vec<String> = match group {
            Some(group) => IN_GROUPS
                .iter()
                .filter(|(name, words, _)| *name == group && fits(words, near))
                .map(|(_, _, meaning)| format!("{group} {meaning}"))
                .collect(),
            None => {
                let found = MEANINGS.iter().find(|(words, _)| fits(words, near));
                found
                    .map(|(_, meanings)| meanings.iter().map(ToString::to_string).collect())
                    .unwrap_or_default()
            }
        };
        if !found.is_empty() {
            return found;
        }
        if !similar.is_empty() {
            let prefix = group.map_or_else(String::new, |group| format!("{group} "));
            // One that differs by a letter is meant; clap also names those that merely look alike.
            let near: Vec<String> = similar.iter().filter(|name| is_near(name, &word)).cloned().collect();
            let similar = if near.is_empty() { similar } else { &near };
            return similar.iter().map(|name| format!("{prefix}{name} {{}}")).collect();
        }
    }
    // A word that another group knows.
    let elsewhere = IN_GROUPS.iter().find(|(_, words, _)| group.is_some() && words.contains(&word.as_str()));
    elsewhere.map(|(group, _, meaning)| format!("{group} {meaning}")).into_iter().collect()
}

pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every command that is suggested exists, and no word that is one is explained.
    #[test]
    fn suggestions_are_real_commands() {
        let root = crate::args::CommandLine::command();
        for (words, meanings) in MEANINGS {
            for word in *words {
                assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            }
            for meaning in *meanings {
                let mut command = &root;
                let names = meaning.split_whitespace().take_while(|part| !part.starts_with(['{', '-']));
                for name in names {
                    command = command.find_subcommand(name).unwrap_or_else(|| panic!("{meaning}"));
                }
            }
        }
        for (group, words, meaning) in IN_GROUPS {
            let group = root.find_subcommand(group).unwrap();
            let name = meaning.split_whitespace().next().unwrap();
            assert!(group.find_subcommand(name).is_some(), "{meaning}");
            assert!(words.iter().all(|word| group.find_subcommand(word).is_none()), "{words:?}");
        }
    }

    #[test]
    fn only_what_can_be_nothing_else_becomes_a_chat() {
        let root = crate::args::CommandLine::command();
        for (given, becomes) in [
            ("rejoin|two words", "rejoin|chat|two words"),
            ("rejoin|--store|jsonl:x|two words|--json", "rejoin|--store|jsonl:x|chat|two words|--json"),
            ("rejoin|--model|m|two words", "rejoin|chat|--model|m|two words"),
            ("rejoin|-mx|--no-pager|two words", "rejoin|chat|-mx|--no-pager|two words"),
            ("rejoin|-c", "rejoin|chat|-c"),
            ("rejoin|", "rejoin|chat|"),
            ("rejoin|word", "rejoin|word"),
            ("rejoin|--model|m|list", "rejoin|--model|m|list"),
            ("rejoin|list|two words", "rejoin|list|two words"),
            ("rejoin|--nosuch|two words", "rejoin|--nosuch|two words"),
            ("rejoin|--help", "rejoin|--help"),
            ("rejoin", "rejoin"),
        ] {
            let split = |line: &str| line.split('|').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(with_chat(&root, split(given)), split(becomes), "{given}");
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, wanted) in [
            ("/home/a.json", "/home/a.json"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
