//! `rejoin convert` for other agents: `--install`, and the output for many findings. `cargo xtask peers` proves that the agents
//! resume the installed sessions.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(home.path("work")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name).display().to_string()
    }

    /// Runs rejoin in the folder `work` of a home in which no agent was used yet.
    fn rejoin(&self, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command.args(arguments).current_dir(self.path("work")).env("HOME", self.path(""));
        command.env_remove("CODEX_HOME").env_remove("CLAUDE_CONFIG_DIR").env("REJOIN_HOME", self.path("own"));
        command.envs(variables.iter().copied()).output().unwrap()
    }

    fn install(&self, file: &str, to: &str) -> String {
        let done = self.rejoin(&["convert", file, "--to", to, "--install"], &[]);
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        out(&done)
    }

    /// Every file under a folder.
    fn files(&self, folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
                if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
            }
        }
        found.sort();
        found
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const CHAT: &str = r#"{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}"#;

/// A rollout of a session in a folder.
fn rollout(directory: &str) -> String {
    let time = "2026-03-04T05:06:07.890Z";
    let meta = json!({"id": "0199aaaa-0000-7000-8000-000000000001", "timestamp": time, "cwd": directory,
        "originator": "codex_exec", "cli_version": "0.166.0"});
    let message =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]});
    let line = |kind: &str, payload: Value| {
        format!("{}\n", json!({"timestamp": time, "type": kind, "payload": payload}))
    };
    line("session_meta", meta) + &line("response_item", message)
}

#[test]
fn a_session_is_put_where_codex_finds_it() {
    let home = Home::new();
    let source = home.file("rollout.jsonl", &rollout("/p"));
    let command = home.install(&source, "codex");
    let id = command.trim_end().strip_prefix("codex resume ").unwrap().to_owned();
    let day = home.path(".codex/sessions/2026/03/04");
    let file = day.join(format!("rollout-2026-03-04T05-06-07-{id}.jsonl"));
    assert_eq!(home.files(".codex"), std::slice::from_ref(&file), "and nothing else");
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let text = fs::read_to_string(&file).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["payload"]["id"], id);
    // A second copy gets its own file and id; the first one stays.
    let again = home.install(&source, "codex");
    assert_ne!(again, command);
    assert_eq!(home.files(".codex").len(), 2);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // An id that lies in another folder counts as taken, too.
    fs::rename(&day, home.path(".codex/archived_sessions")).unwrap();
    let third = home.install(&source, "codex");
    assert!(third != command && third != again);
}

#[test]
fn a_session_is_put_where_claude_code_finds_it() {
    let home = Home::new();
    let source = home.file("chat.json", CHAT);
    let work = home.path("work").display().to_string();
    let command = home.install(&source, "claude-code");
    let id = command.trim_end().strip_prefix(&format!("cd {work} && claude --resume ")).unwrap().to_owned();
    let project: String = work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = home.path(&format!(".claude/projects/{project}/{id}.jsonl"));
    assert_eq!(home.files(".claude"), std::slice::from_ref(&file));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.lines().all(|line| line.contains(&format!("\"sessionId\":\"{id}\""))), "{text}");
    assert_ne!(home.install(&source, "claude-code"), command);
    // It belongs to the folder that it was about, if that is here.
    let other = home.path("the other's");
    fs::create_dir(&other).unwrap();
    let there = home.file("there.jsonl", &rollout(&other.display().to_string()));
    let quoted = other.display().to_string().replace('\'', r"'\''");
    assert!(home.install(&there, "claude-code").starts_with(&format!("cd '{quoted}' && ")));
    let gone = home.file("gone.jsonl", &rollout("/not/on/this/machine").replace("0199aaaa", "0199bbbb"));
    assert!(home.install(&gone, "claude-code").starts_with(&format!("cd {work} && ")));
}

#[test]
fn the_folders_of_agents_can_be_elsewhere() {
    let home = Home::new();
    let source = home.file("chat.json", CHAT);
    for (variable, to, inside) in
        [("CODEX_HOME", "codex", "sessions"), ("CLAUDE_CONFIG_DIR", "claude-code", "projects")]
    {
        let folder = home.path(variable);
        let arguments = ["convert", &source, "--to", to, "--install", "--json"];
        let done = home.rejoin(&arguments, &[(variable, &folder)]);
        let told: Value = serde_json::from_str(&out(&done)).unwrap();
        let path = PathBuf::from(told["path"].as_str().unwrap());
        assert!(path.starts_with(folder.join(inside)) && path.is_file(), "{told}");
        assert_eq!(told["format"], to);
        assert!(told["command"].as_str().unwrap().ends_with(told["id"].as_str().unwrap()), "{told}");
        assert!(err(&done).contains("was not used here before"), "{}", err(&done));
    }
}

#[test]
fn only_a_session_of_an_agent_can_be_installed() {
    let home = Home::new();
    let source = home.file("chat.json", CHAT);
    for to in ["anthropic", "turns", "markdown"] {
        let done = home.rejoin(&["convert", &source, "--to", to, "--install"], &[]);
        assert_eq!(done.status.code(), Some(2), "{to}");
        assert!(
            err(&done).contains("--to codex") && err(&done).contains("--to claude-code"),
            "{}",
            err(&done)
        );
    }
    let done = home.rejoin(&["convert", &source, "--to", "codex", "--json"], &[]);
    assert_eq!(done.status.code(), Some(2), "without --install there is nothing to tell");
    let done = home.rejoin(&["convert", &source, "--to", "codex", "--install", "-o", "x.jsonl"], &[]);
    assert_eq!(done.status.code(), Some(2), "it goes to one place only");
    // A refused conversion is not written.
    let open = r#"[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}]"#;
    let open = home.file("open.json", open);
    let done = home.rejoin(&["convert", &open, "--to", "codex", "--install", "--on-broken", "refuse"], &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(home.files(".codex").is_empty() && out(&done).is_empty());
}

#[test]
fn many_findings_are_summed_up() {
    let home = Home::new();
    // An open call in each turn, and a thought that cannot be sent elsewhere.
    let turn = |number: usize| {
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": format!("toolu_{number}"), "name": "ls", "input": {}}]},
        ])
    };
    let messages: Vec<Value> = (0..20).flat_map(|number| turn(number).as_array().unwrap().clone()).collect();
    let source = home.file("chat.json", &json!({"messages": messages}).to_string());
    let report = home.path("report.json").display().to_string();
    let to = ["--to", "openai-chat", "--model", "gpt-x"];
    let done = home.rejoin(&[&["convert", &source, "--report", &report], &to[..]].concat(), &[]);
    let told = err(&done);
    assert_eq!(told.lines().filter(|line| line.starts_with("error at ")).count(), 5, "{told}");
    assert!(told.contains("error: 15 × a tool call has no result [unanswered-call]"), "{told}");
    assert!(told.contains("note: 20 × ") && told.contains("[foreign-reasoning]"), "{told}");
    assert!(told.contains("hint: -v shows all 4"), "{told}");
    assert!(told.lines().count() < 12, "{told}");
    let all: Vec<Value> = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    let verbose = err(&home.rejoin(&[&["convert", &source, "-v"], &to[..]].concat(), &[]));
    assert_eq!(verbose.lines().count(), all.len(), "the report and -v leave nothing out");
    // A few are all shown.
    let few = home.file("few.json", &json!({"messages": turn(1)}).to_string());
    let told = err(&home.rejoin(&[&["convert", &few], &to[..]].concat(), &[]));
    assert!(told.contains("[unanswered-call]") && !told.contains("hint:"), "{told}");
}
