//! Claude Code resumes sessions that rejoin put in its place, and sends every message on.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    agents::{Agent, PROMPT, Turn},
    conversations::ExpectedText,
    install,
    provider::Provider,
    rejoin::Installed,
    transcript,
};

pub struct ClaudeCode(pub PathBuf);

impl Agent for ClaudeCode {
    const FORMAT: &'static str = "claude-code";
    const VARIABLE: &'static str = "CLAUDE_CONFIG_DIR";
    const DIALECT: &'static str = "anthropic";
    // Claude Code finds a session in any project.
    const BY_HAND: (&'static str, &'static str) =
        ("projects/-p/0194f3a2-0000-4000-8000-00000000c0de.jsonl", "0194f3a2-0000-4000-8000-00000000c0de");

    fn name(&self) -> String {
        format!("Claude Code {}", install::CLAUDE_CODE)
    }

    /// A sound transcript must pass; anything that Claude Code leaves out or adds must be noticed.
    fn by_hand(&self) -> Vec<(bool, String)> {
        let user = json!({"role": "user", "content": "hello"});
        let call =
            answer(&json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}));
        let result = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]});
        let reply = answer(&json!({"type": "text", "text": "good bye"}));
        vec![
            (true, by_hand(true, &[&user, &call, &result, &reply])),
            (false, by_hand(true, &[&user, &call, &reply])),
            (false, by_hand(true, &[&user, &result, &reply])),
            (false, by_hand(true, &[&reply, &user])),
            // Without links, Claude Code sends only the last message.
            (false, by_hand(false, &[&user, &call, &result, &reply])),
        ]
    }

    fn resume(&self, home: &Path, session: &Installed, said: &[ExpectedText]) -> Result<Turn> {
        let provider = Provider::start();
        let mut command = Command::new(&self.0);
        command
            .args(["-p", "--resume", &session.id, PROMPT])
            .current_dir(&session.directory)
            .env(Self::VARIABLE, home)
            .env("ANTHROPIC_BASE_URL", provider.origin())
            .env("ANTHROPIC_API_KEY", "none-is-needed")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env_remove("ANTHROPIC_AUTH_TOKEN");
        Turn::run("Claude Code", home, &provider, &mut command, |request| {
            transcript::problems(&session.text, said, PROMPT, request)
        })
    }

    fn plain(&self, request: &str) -> Result<String> {
        transcript::plain(request)
    }
}

fn answer(block: &Value) -> Value {
    json!({"type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [block],
        "stop_reason": null, "stop_sequence": null})
}

/// The smallest transcript that Claude Code accepts.
fn by_hand(linked: bool, messages: &[&Value]) -> String {
    let uuid = |number: usize| format!("0194f3a2-0000-4000-8000-{number:012}");
    let mut text = String::new();
    for (number, message) in messages.iter().enumerate() {
        let mut message = (*message).clone();
        if message["role"] == "assistant" {
            message["id"] = json!(format!("msg_{number}"));
        }
        let parent = (linked && number > 0).then(|| uuid(number - 1));
        let line = json!({"type": message["role"], "message": message, "uuid": uuid(number), "parentUuid": parent,
            "timestamp": format!("2026-11-15T12:00:{number:02}.000Z")});
        text.push_str(&format!("{line}\n"));
    }
    text
}
