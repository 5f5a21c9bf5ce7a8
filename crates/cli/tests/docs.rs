//! The commands and console sessions in the README and the guides are run, and print what the page says.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fs, path::Path, process::Command};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Fenced blocks of a language in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    for line in page.lines() {
        match &mut inside {
            None if line == format!("```{language}") => inside = Some(String::new()),
            None => {}
            Some(text) if line == "```" => {
                found.push(std::mem::take(text));
                inside = None;
            }
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found
}

fn run(line: &str) -> (String, i32) {
    let arguments = line.split(" #").next().unwrap_or(line).trim();
    let arguments = arguments.strip_prefix("rejoin ").expect("a rejoin command");
    // What the pages call `session.json` is the example that ships.
    let arguments =
        arguments.replace("*.json", "session.json").replace("session.json", "examples/interrupted.json");
    let arguments = arguments.split(['|', '>']).next().unwrap_or_default().to_owned();
    // Nobody's own sessions.
    let nowhere = root().join("examples/nobody");
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(arguments.split_whitespace())
        .env("HOME", &nowhere)
        .env_remove("CODEX_HOME")
        .env_remove("CLAUDE_CONFIG_DIR")
        .current_dir(root())
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// The README and the guides, by name.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    paths.extend(fs::read_dir(root().join("docs/guides")).unwrap().map(|entry| entry.unwrap().path()));
    paths.sort();
    paths.into_iter().map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn console_sessions_are_real() {
    for (name, page) in pages() {
        let sessions = blocks(&page, "console");
        assert!(!sessions.is_empty(), "{name}");
        for session in sessions {
            let (command, expected) = session.split_once('\n').unwrap();
            let (printed, _) = run(command.strip_prefix("$ ").unwrap());
            assert_eq!(printed, expected, "{name}");
        }
    }
}

#[test]
fn commands_work() {
    let mut count = 0;
    for (name, page) in pages() {
        let commands = blocks(&page, "sh");
        for line in commands.iter().flat_map(|block| block.lines()).filter(|line| line.starts_with("rejoin "))
        {
            let (printed, code) = run(line);
            let finds = line.contains("check") || line.contains("doctor");
            assert!(code == 0 || (code == 1 && finds), "{name}: {line} exited with {code}");
            assert!(!printed.is_empty(), "{name}: {line} printed nothing");
            count += 1;
        }
    }
    assert!(count >= 15, "{count}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("cargo run --release -- check examples/interrupted.json"));
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.contains("cargo xtask ci") && readme.contains("\ncargo xtask ci\n"),
        "CI runs the README's test command"
    );
}
