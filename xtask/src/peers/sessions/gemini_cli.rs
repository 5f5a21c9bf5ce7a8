//! Gemini CLI resumes sessions in its project's `chats` folder, and lists them.
//!
//! It deletes sessions on its own, see `docs/peers.md`. So it lists before it resumes, and each session has a separate home folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{Program, directory, output};
use crate::{
    peers::{agents::PROMPT, install, provider::Provider},
    run::files,
};

/// The folder's name in the program's own folder.
const PROJECT: &str = "w";

/// The id for a session without one.
const NO_ID: &str = "0194f3a2-0000-4000-8000-00000000c0de";

/// Takes the place of an answer to results, so that the next user message stays a separate turn. rejoin writes it, too.
const INTERRUPTED: &str = "[The previous response was interrupted before it completed.]";

pub fn install(folder: &Path) -> Result<Box<dyn Program>> {
    Ok(Box::new(GeminiCli(install::gemini_cli(folder)?)))
}

struct GeminiCli(PathBuf);

impl GeminiCli {
    fn command(&self, home: &Path, provider: &Provider) -> Command {
        let mut command = Command::new("node");
        command
            .arg(&self.0)
            .current_dir(directory(home))
            .env("HOME", home)
            .env("GOOGLE_GEMINI_BASE_URL", provider.origin())
            .env("GEMINI_API_KEY", "none-is-needed")
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
            .env("GEMINI_CLI_NO_RELAUNCH", "true")
            .env_remove("GEMINI_CLI_HOME");
        command
    }
}

impl Program for GeminiCli {
    fn name(&self) -> String {
        format!("Gemini CLI {}", install::GEMINI_CLI)
    }

    fn format(&self) -> &'static str {
        "gemini-cli"
    }

    fn dialect(&self) -> &'static str {
        "gemini"
    }

    /// A sound log must pass; anything that the program duplicates, leaves out or does not find must be noticed.
    fn by_hand(&self, _: &Path) -> Vec<(bool, String)> {
        let header = json!({"sessionId": NO_ID, "projectHash": "x", "startTime": "2026-11-15T12:00:00.000Z"});
        let response = json!({"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "x"}}});
        let call = json!({"id": "c1", "name": "ls", "args": {"path": "."}, "status": "success"});
        let mut answered = call.clone();
        answered["result"] = json!([response]);
        let hello = json!({"id": "m1", "type": "user", "content": [{"text": "hello"}]});
        let called = |call: &Value| json!({"id": "m2", "type": "gemini", "content": "", "toolCalls": [call]});
        let again = json!({"id": "m3", "type": "user", "content": [response]});
        let reply = json!({"id": "m4", "type": "gemini", "content": "good bye"});
        let log = |lines: &[&Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        vec![
            (true, log(&[&header, &hello, &called(&answered), &reply])),
            (false, log(&[&header, &hello, &called(&answered), &again, &reply])),
            (false, log(&[&header, &hello, &called(&call), &reply])),
            (false, log(&[&header, &hello, &reply, &called(&answered)])),
            (false, log(&[&header, &hello, &reply])),
            (false, log(&[&hello, &called(&answered), &reply])),
        ]
    }

    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>> {
        let text = fs::read_to_string(session)?;
        let header: Value =
            text.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let id = header["sessionId"].as_str().unwrap_or(NO_ID).to_owned();
        let own = home.join(".gemini");
        let project = own.join("tmp").join(PROJECT);
        fs::create_dir_all(project.join("chats"))?;
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": false},
            "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
        });
        fs::write(own.join("settings.json"), settings.to_string())?;
        let directory = directory(home).to_string_lossy().into_owned();
        fs::write(own.join("projects.json"), json!({"projects": {&directory: PROJECT}}).to_string())?;
        fs::write(project.join(".project_root"), directory)?;
        let name = format!("session-2026-11-15T12-00-{}.jsonl", id.get(..8).unwrap_or_default());
        fs::write(project.join("chats").join(name), text)?;
        Ok(Ok(id))
    }

    fn unlisted(&self, home: &Path, id: &str) -> Result<Option<String>> {
        let provider = Provider::start();
        let list = output(home, self.command(home, &provider).arg("--list-sessions"))?;
        Ok((!list.contains(&format!("[{id}]"))).then(|| format!("{} does not list it: {list}", self.name())))
    }

    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command> {
        let mut command = self.command(home, provider);
        command.args(["--resume", id, "--model", "gemini-2.5-flash", "--prompt", PROMPT]);
        Ok(command)
    }

    fn kept(&self, home: &Path, id: &str) -> Result<PathBuf> {
        // A second file of the session, which it begins before it has found the first, is empty.
        let chats = home.join(".gemini/tmp").join(PROJECT).join("chats");
        let mut all = files(&chats, &format!("-{}.jsonl", id.get(..8).unwrap_or_default()))?;
        anyhow::ensure!(!all.is_empty(), "Gemini CLI keeps no session in {}", chats.display());
        Ok(all.remove(0))
    }

    fn adds(&self, text: &str) -> bool {
        text.starts_with("<session_context>") || text == INTERRUPTED
    }
}
