//! Interprets words on the command line that are no command: as a message to send, or as another name for a command.
//!
//! `rejoin "two words"` is a chat. A single unknown word is never sent, because it is more likely a mistyped command. The error
//! suggests the command that was probably meant, with the rest of the line.

use std::ffi::{OsStr, OsString};

use clap::{
    Arg, Command, CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use rejoin::places::quoted;

use crate::{args::CommandLine, near::is_near, output};

/// Words that people try for a command of a group (none: at the beginning of the line), and the commands that they mean. `{}`
/// stands for the rest of the line.
const MEANINGS: &[(&str, &[&str], &[&str])] = &[
    ("", &["search", "find", "grep"], &["history search {}"]),
    ("", &["show", "view", "read", "cat", "log", "print"], &["history show {}"]),
    ("", &["ls", "conversations", "sessions", "threads"], &["list {}"]),
    ("", &["export", "save", "dump", "backup"], &["history export {}"]),
    ("", &["delete", "rm", "remove", "del"], &["history delete {}"]),
    ("", &["fork", "branch"], &["history fork {}"]),
    ("", &["rename", "title", "mv"], &["history rename {}"]),
    ("", &["erase", "redact", "scrub", "wipe"], &["history erase {}"]),
    ("", &["calls", "tools", "audit"], &["history calls {}"]),
    ("", &["continue", "open", "attach", "go", "restore"], &["resume {}"]),
    ("", &["ask", "say", "talk", "send", "prompt", "message"], &["chat {}"]),
    ("", &["exec", "do", "task"], &["run {}"]),
    ("", &["revert"], &["undo {}"]),
    ("", &["edits", "changes", "diff"], &["history edits {}"]),
    ("", &["create", "start", "init", "begin"], &["new {}"]),
    ("", &["fix", "repair", "mend", "heal", "recover", "clean"], &["check {}", "convert {} --to FORMAT"]),
    ("", &["validate", "lint", "inspect", "test"], &["check {}"]),
    ("", &["diagnose", "scan"], &["doctor {}"]),
    ("", &["status", "info", "about", "where"], &["list", "doctor --self"]),
    ("", &["login", "signin"], &["auth login {}"]),
    ("", &["logout", "signout"], &["auth logout {}"]),
    ("", &["key", "keys", "token", "whoami"], &["auth status"]),
    ("", &["settings", "setting", "preferences", "options", "configure"], &["config list"]),
    ("", &["set"], &["config set {}"]),
    ("", &["get"], &["config get {}"]),
    ("", &["unset"], &["config unset {}"]),
    ("", &["model"], &["models list {}"]),
    ("", &["provider", "use", "switch"], &["set-provider {}"]),
    ("", &["load", "ingest", "add", "restore-backup"], &["import {}"]),
    ("", &["cp", "clone", "sync", "migrate"], &["copy {}"]),
    ("", &["hash", "fsck"], &["verify {}"]),
    ("", &["why", "describe", "man", "rule", "rules"], &["explain {}"]),
    ("", &["completion", "complete", "autocomplete"], &["completions {}"]),
    ("", &["tutorial", "example", "try", "tour"], &["demo"]),
    ("", &["version"], &["--version"]),
    ("history", &["ls"], &["list {}"]),
    ("history", &["find", "grep"], &["search {}"]),
    ("history", &["view", "read", "cat", "open", "print", "log"], &["show {}"]),
    ("history", &["rm", "remove", "del"], &["delete {}"]),
    ("history", &["save", "dump", "backup"], &["export {}"]),
    ("history", &["title", "mv"], &["rename {}"]),
    ("history", &["branch"], &["fork {}"]),
    ("history", &["redact", "scrub", "wipe"], &["erase {}"]),
    ("history", &["tools", "audit"], &["calls {}"]),
    ("history", &["changes", "diff", "files"], &["edits {}"]),
    ("config", &["ls", "show", "print"], &["list"]),
    ("config", &["edit", "open", "file", "where"], &["path"]),
    ("config", &["remove", "delete", "rm", "reset", "clear"], &["unset {}"]),
    ("auth", &["add", "set", "signin"], &["login {}"]),
    ("auth", &["remove", "delete", "rm", "signout"], &["logout {}"]),
    ("auth", &["list", "ls", "show", "whoami"], &["status"]),
    ("models", &["ls"], &["list {}"]),
    ("models", &["show", "describe"], &["info {}"]),
];

/// Inserts `chat` into a command line that begins with a message, or with a flag of `chat`.
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

/// Suggests what an unknown command probably means. Returns false if the error is about something else.
pub fn suggest(error: &clap::Error, given: &[OsString]) -> bool {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return false;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return false };
    let Some(at) = given.iter().position(|other| other == OsStr::new(word)) else { return false };
    // A group comes directly before the word; all else there is a flag or its value.
    let group = given[..at].last().and_then(|group| group.to_str()).unwrap_or_default();
    let is_group = CommandLine::command().find_subcommand(group).is_some_and(Command::has_subcommands);
    let group = if is_group { group } else { "" };
    let prefix = if group.is_empty() { String::new() } else { format!("{group} ") };
    let rest: Vec<String> = given[at + 1..].iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    output::error(output::harmless(&format!("there is no command `rejoin {prefix}{word}`")));
    let hint = |text: &str| output::hint(output::harmless(text));
    for command in meant(group, &prefix, word, &similar) {
        let command = command.replace("{}", &rest.join(" "));
        let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
        hint(&format!("did you mean `rejoin {command}`?"));
    }
    let message = given[at..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    hint(&match group {
        "" => {
            let message = quoted(&message);
            format!("`rejoin --help` lists the commands; to send it as a message: rejoin chat {message}")
        }
        group => format!("`rejoin {group} --help` lists the commands"),
    });
    true
}

/// The commands that a word probably means, best first, without `rejoin`.
fn meant(group: &str, prefix: &str, word: &str, similar: &[String]) -> Vec<String> {
    let word = word.to_lowercase();
    let with_prefix =
        |meanings: &[&str]| meanings.iter().map(|meaning| format!("{prefix}{meaning}")).collect();
    let in_table = |fits: &dyn Fn(&str) -> bool| {
        let mut of_group = MEANINGS.iter().filter(|(name, ..)| *name == group);
        of_group.find(|(_, words, _)| words.iter().any(|known| fits(known)))
    };
    if let Some((_, _, meanings)) = in_table(&|known| known == word) {
        return with_prefix(meanings);
    }
    if !similar.is_empty() {
        // A name that differs by one letter is meant; clap also lists names that merely look similar.
        let near: Vec<String> = similar.iter().filter(|name| is_near(name, &word)).cloned().collect();
        let similar = if near.is_empty() { similar } else { &near };
        return similar.iter().map(|name| format!("{prefix}{name} {{}}")).collect();
    }
    if let Some((_, _, meanings)) = in_table(&|known| is_near(known, &word)) {
        return with_prefix(meanings);
    }
    // A word that belongs to another group.
    let elsewhere = MEANINGS
        .iter()
        .find(|(other, words, _)| !group.is_empty() && !other.is_empty() && words.contains(&word.as_str()));
    elsewhere.map(|(other, _, meanings)| format!("{other} {}", meanings[0])).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Every suggested command exists, and no existing command is listed as a mistake.
    #[test]
    fn suggestions_are_real_commands() {
        let root = crate::args::CommandLine::command();
        for (group, words, meanings) in MEANINGS {
            let group = root.find_subcommand(group).unwrap_or(&root);
            assert!(words.iter().all(|word| group.find_subcommand(word).is_none()), "{words:?}");
            for meaning in *meanings {
                let mut command = group;
                let names = meaning.split_whitespace().take_while(|part| !part.starts_with(['{', '-']));
                for name in names {
                    command = command.find_subcommand(name).unwrap_or_else(|| panic!("{meaning}"));
                }
            }
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
}
