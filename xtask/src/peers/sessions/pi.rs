//! pi resumes a session file by its path.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Program, directory};
use crate::peers::{agents::PROMPT, install, provider::Provider};

pub fn install(folder: &Path) -> Result<Box<dyn Program>> {
    let (node, script) = install::pi(folder)?;
    Ok(Box::new(Pi { node, script }))
}

struct Pi {
    node: PathBuf,
    script: PathBuf,
}

impl Program for Pi {
    fn name(&self) -> String {
        format!("pi {}", install::PI)
    }

    fn format(&self) -> &'static str {
        "pi"
    }

    fn dialect(&self) -> &'static str {
        "anthropic"
    }

    /// A sound session must pass; those that pi refuses, shortens or answers by itself must be noticed.
    fn by_hand(&self, directory: &Path) -> Vec<(bool, String)> {
        let header = json!({"type": "session", "version": 3, "id": "0194f3a2-0000-7000-8000-00000000c0de",
            "timestamp": "2026-11-15T12:00:00.000Z", "cwd": directory});
        let hello = json!({"role": "user", "content": "hello"});
        let call = answer(&json!({"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}));
        let result = json!({"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "isError": false,
            "content": [{"type": "text", "text": "x"}]});
        let reply = answer(&json!({"type": "text", "text": "good bye"}));
        let mut aborted = call.clone();
        aborted["stopReason"] = json!("aborted");
        vec![
            (true, by_hand(Some(&header), &[&hello, &call, &result, &reply])),
            (false, by_hand(None, &[&hello, &call, &result, &reply])),
            (false, by_hand(Some(&header), &[&hello, &aborted, &result, &reply])),
            (false, by_hand(Some(&header), &[&hello, &call, &reply])),
            (false, by_hand(Some(&header), &[&hello, &result, &reply])),
            (false, by_hand(Some(&header), &[&reply, &hello, &call, &result])),
        ]
    }

    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>> {
        let text = fs::read_to_string(session)?;
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let mut header: Value = serde_json::from_str(first).unwrap_or_default();
        // Without a terminal it refuses a session whose folder does not exist.
        let is_elsewhere = header["cwd"].as_str().is_some_and(|cwd| !Path::new(cwd).is_dir());
        let place = home.join("session.jsonl");
        if is_elsewhere {
            header["cwd"] = json!(directory(home));
            fs::write(&place, format!("{header}\n{rest}"))?;
        } else {
            fs::write(&place, text)?;
        }
        Ok(Ok(place.to_string_lossy().into_owned()))
    }

    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command> {
        let folder = home.join(".pi/agent");
        fs::create_dir_all(&folder)?;
        let nothing = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
        let model = json!({"id": "m", "name": "m", "reasoning": false, "input": ["text", "image"], "cost": nothing,
            "contextWindow": 1_000_000, "maxTokens": 1000});
        let loopback = json!({"baseUrl": provider.origin(), "api": "anthropic-messages", "apiKey": "none-is-needed",
            "models": [model]});
        fs::write(folder.join("models.json"), json!({"providers": {"loopback": loopback}}).to_string())?;
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(["--provider", "loopback", "--model", "m", "--session", id]);
        command.args(["--print", PROMPT]).env("PI_OFFLINE", "1").env_remove("PI_CODING_AGENT_DIR");
        Ok(command)
    }

    fn kept(&self, _: &Path, id: &str) -> Result<PathBuf> {
        Ok(id.into())
    }
}

fn answer(block: &Value) -> Value {
    let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
    let usage =
        json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost});
    json!({"role": "assistant", "content": [block], "api": "anthropic-messages", "provider": "p", "model": "m",
        "usage": usage, "stopReason": if block["type"] == "toolCall" { "toolUse" } else { "stop" }})
}

fn by_hand(header: Option<&Value>, messages: &[&Value]) -> String {
    let id = |number: usize| format!("{number:08x}");
    let mut text = header.map(|header| format!("{header}\n")).unwrap_or_default();
    for (number, message) in messages.iter().enumerate() {
        let line = json!({"type": "message", "id": id(number), "parentId": (number > 0).then(|| id(number - 1)),
            "timestamp": format!("2026-11-15T12:00:{number:02}.000Z"), "message": message});
        text.push_str(&format!("{line}\n"));
    }
    text
}
