//! The binary in a separate home folder, on each kind of store.

#![allow(dead_code, reason = "each test file uses its part")]

#[cfg(unix)]
pub mod screen;
pub mod services;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rejoin::store::{Access, Location, Store};
use serde_json::Value;

/// The stores that every test runs on.
pub const STORES: &[&str] = &["sqlite", "jsonl"];

/// Two calls at once, of which one was answered and one not, and a result without a call.
pub const BROKEN: &str = r#"{"model":"gpt-x","messages":[
  {"role":"user","content":"List the files, please"},
  {"role":"assistant","content":null,"tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"ls","arguments":"{\"path\":\"secret-place\"}"}},
    {"id":"call_2","type":"function","function":{"name":"stat","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"call_1","content":"a.txt"},
  {"role":"user","content":"still there?"},
  {"role":"tool","tool_call_id":"call_7","content":"who asked?"}]}"#;

/// Everything in order: a question, two calls, their results, an answer.
pub const SOUND: &str = r#"{"model":"gpt-y","messages":[
  {"role":"user","content":"How many files?"},
  {"role":"assistant","content":"I look.","tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"ls","arguments":"{}"}},
    {"id":"call_2","type":"function","function":{"name":"wc","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"call_1","content":"a.txt b.txt"},
  {"role":"tool","tool_call_id":"call_2","content":"2"},
  {"role":"assistant","content":"Two."}]}"#;

/// A home folder with a store in it.
pub struct Home {
    folder: tempfile::TempDir,
    pub store: String,
}

impl Home {
    /// A home whose store is of that kind; nothing is made yet.
    pub fn new(kind: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = if kind == "sqlite" { "chats.db" } else { "chats" };
        let store = format!("{kind}:{}", folder.path().join(place).display());
        Self { folder, store }
    }

    /// A home with the conversation [`BROKEN`], and its id.
    pub fn broken(kind: &str) -> (Self, String) {
        let home = Self::new(kind);
        let id = home.import("broken.json", BROKEN);
        (home, id)
    }

    /// Runs a test in a home of each kind.
    pub fn each(test: impl Fn(&Self)) {
        for kind in STORES {
            println!("store: {kind}");
            test(&Self::new(kind));
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// The path of the store on disk.
    pub fn place(&self) -> &Path {
        Path::new(self.store.split_once(':').unwrap().1)
    }

    /// Puts a folder where the store's file should be, or a file where its folder should be.
    pub fn block_store(&self) {
        let blocked = if self.is_jsonl() {
            fs::write(self.place(), "no folder")
        } else {
            fs::create_dir_all(self.place())
        };
        blocked.unwrap();
    }

    pub fn is_jsonl(&self) -> bool {
        self.store.starts_with("jsonl:")
    }

    /// The binary, in this home and on its store.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        let here = self.path("here");
        fs::create_dir_all(&here).unwrap();
        command
            .current_dir(here)
            .env("HOME", self.folder.path())
            .env("REJOIN_HOME", self.path("home"))
            .env("REJOIN_STORE", &self.store);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn out(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?} on {}: {}", self.store, ran.err);
        ran.out
    }

    /// Checks that nothing in the store is damaged.
    #[track_caller]
    pub fn verifies(&self) {
        self.out(&["verify"]);
    }

    /// Its output as JSON, one object per line.
    pub fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        self.out(arguments).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Imports a text under a file name, and gives the id.
    pub fn import(&self, name: &str, text: &str) -> String {
        let file = self.file(name, text);
        self.lines(&["import", "--json", &file])[0]["id"].as_str().unwrap().to_owned()
    }

    /// The store itself.
    pub fn open(&self) -> Box<dyn Store> {
        let location: Location = self.store.parse().unwrap();
        rejoin::engine::open_store(&location, Access::Write).unwrap()
    }

    /// Replaces a word in the stored bytes by another of the same length.
    pub fn damage(&self, word: &str, other: &str) {
        assert_eq!(word.len(), other.len());
        let files = if self.is_jsonl() {
            fs::read_dir(self.place()).unwrap().map(|entry| entry.unwrap().path()).collect()
        } else {
            vec![self.place().to_owned()]
        };
        let mut changed = 0;
        for file in files.iter().filter(|file| file.is_file()) {
            let bytes = fs::read(file).unwrap();
            if let Some(at) = bytes.windows(word.len()).position(|window| window == word.as_bytes()) {
                let mut bytes = bytes;
                bytes[at..at + word.len()].copy_from_slice(other.as_bytes());
                fs::write(file, bytes).unwrap();
                changed += 1;
            }
        }
        assert!(changed > 0, "{word} is stored nowhere in {}", self.store);
    }
}

/// The output of a command.
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Ran {
    /// The output of a command with this text on standard input.
    pub fn fed(mut command: Command, input: impl AsRef<[u8]>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
        Self::of(child.wait_with_output().unwrap())
    }

    pub fn of(output: Output) -> Self {
        Self {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().expect("no signal"),
        }
    }
}

/// The binary without the developer's own settings.
pub fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let own = ["REJOIN_", "XDG_", "OLLAMA_", "COPILOT_"].iter().any(|prefix| text.starts_with(prefix));
        let key = text.ends_with("_API_KEY") || text.ends_with("_TOKEN");
        if own || key || text == "RUST_LOG" || text == "PAGER" {
            command.env_remove(&name);
        }
    }
    for name in [
        "CODEX_HOME",
        "CLAUDE_CONFIG_DIR",
        "CODY_HOME",
        "GEMINI_CLI_HOME",
        "GOOSE_PATH_ROOT",
        "LLM_USER_PATH",
        "OPENCODE_DB",
        "PI_CODING_AGENT_DIR",
        "XZATOMA_HISTORY_DB",
        "DISABLE_MESSAGE_SANITIZATION",
    ] {
        command.env_remove(name);
    }
    command.env("TZ", "UTC");
    command
}

/// Whether a text has every part.
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
