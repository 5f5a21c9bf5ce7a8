//! The commands and console sessions in the README are run, and print what the page says.

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
    let arguments = arguments.split(" | ").next().unwrap_or_default().to_owned();
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .args(arguments.split_whitespace())
        .current_dir(root())
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

#[test]
fn the_console_session_of_the_readme_is_real() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let sessions = blocks(&readme, "console");
    assert!(!sessions.is_empty());
    for session in sessions {
        let (command, expected) = session.split_once('\n').unwrap();
        let (printed, _) = run(command.strip_prefix("$ ").unwrap());
        assert_eq!(printed, expected);
    }
}

#[test]
fn the_commands_of_the_readme_work() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut count = 0;
    for line in blocks(&readme, "sh")
        .iter()
        .flat_map(|block| block.lines())
        .filter(|line| line.starts_with("rejoin "))
    {
        let (printed, code) = run(line);
        assert!(code == 0 || (code == 1 && line.contains("check")), "{line} exited with {code}");
        assert!(!printed.is_empty(), "{line} printed nothing");
        count += 1;
    }
    assert!(count >= 5);
    assert!(readme.contains("cargo run --release -- check examples/interrupted.json"));
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.contains("cargo xtask ci") && readme.contains("\ncargo xtask ci\n"),
        "CI runs the README's test command"
    );
}
