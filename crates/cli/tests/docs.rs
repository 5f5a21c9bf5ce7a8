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

/// A place to run a page's commands in, one after the other: the examples that ship, and a store with two of them.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        let examples = desk.folder.path().join("examples");
        fs::create_dir(&examples).unwrap();
        for file in fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                fs::copy(&file, examples.join(file.file_name().unwrap())).unwrap();
            }
        }
        let (_, code) = desk.run("rejoin import examples/rollout.jsonl examples/transcript.jsonl");
        assert_eq!(code, 0);
        desk
    }

    fn run(&self, line: &str) -> (String, i32) {
        let arguments = line.split(" #").next().unwrap_or(line).trim();
        let arguments = arguments.strip_prefix("rejoin ").expect("a rejoin command");
        // What the pages call `session.json` is the example that ships.
        let arguments =
            arguments.replace("*.json", "session.json").replace("session.json", "examples/interrupted.json");
        let arguments = arguments.split(['|', '>']).next().unwrap_or_default().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REJOIN_"))
        {
            command.env_remove(name);
        }
        let output = command
            .args(arguments.split_whitespace())
            // Nobody's own sessions, and nobody's own store.
            .env("HOME", self.folder.path().join("nobody"))
            .env("REJOIN_HOME", self.folder.path().join("home"))
            .env("TZ", "UTC")
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
    }
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
        let desk = Desk::new();
        for session in sessions {
            let (command, expected) = session.split_once('\n').unwrap();
            let (printed, _) = desk.run(command.strip_prefix("$ ").unwrap());
            assert_eq!(printed, expected, "{name}");
        }
    }
}

#[test]
fn commands_work() {
    let mut count = 0;
    for (name, page) in pages() {
        let commands = blocks(&page, "sh");
        let desk = Desk::new();
        for line in commands.iter().flat_map(|block| block.lines()).filter(|line| line.starts_with("rejoin "))
        {
            let (printed, code) = desk.run(line);
            let finds = line.contains("check") || line.contains("doctor");
            assert!(code == 0 || (code == 1 && finds), "{name}: {line} exited with {code}");
            // What changes something says so on stderr.
            let quiet = ["config set", "rename", "delete", "erase"].iter().any(|word| line.contains(word));
            assert!(!printed.is_empty() || quiet, "{name}: {line} printed nothing");
            count += 1;
        }
    }
    assert!(count >= 30, "{count}");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("cargo run --release -- check examples/interrupted.json"));
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(
        ci.contains("cargo xtask ci") && readme.contains("\ncargo xtask ci\n"),
        "CI runs the README's test command"
    );
}
