//! opencode imports, lists and resumes sessions that rejoin exported.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Program, directory, output};
use crate::peers::{agents::PROMPT, install, provider::Provider};

pub fn install(folder: &Path) -> Result<Box<dyn Program>> {
    Ok(Box::new(Opencode(install::opencode(folder)?)))
}

struct Opencode(PathBuf);

impl Opencode {
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.0);
        // It trusts `PWD` more than its working folder.
        command.current_dir(directory(home)).env("PWD", directory(home)).env("HOME", home);
        for variable in ["MODELS_FETCH", "DEFAULT_PLUGINS", "AUTOUPDATE", "LSP_DOWNLOAD"] {
            command.env(format!("OPENCODE_DISABLE_{variable}"), "1");
        }
        for variable in
            ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "OPENCODE_DB"]
        {
            command.env_remove(variable);
        }
        command
    }
}

impl Program for Opencode {
    fn name(&self) -> String {
        format!("opencode {}", install::OPENCODE)
    }

    fn format(&self) -> &'static str {
        "opencode"
    }

    fn dialect(&self) -> &'static str {
        "anthropic"
    }

    /// A sound export must pass; sessions that the import refuses, and those with other answers or another order, must be noticed.
    fn by_hand(&self, directory: &Path) -> Vec<(bool, String)> {
        let time = json!({"start": 1, "end": 2});
        let done = json!({"status": "completed", "input": {"path": "."}, "output": "x", "title": "", "metadata": {}, "time": time});
        let call = |state: &Value| json!({"type": "tool", "tool": "ls", "callID": "c1", "state": state});
        let text = |text: &str| json!({"type": "text", "text": text});
        let sound = export(
            directory,
            &[("user", text("hello")), ("assistant", call(&done)), ("assistant", text("good bye"))],
        );
        let open = call(&json!({"status": "pending", "input": {"path": "."}, "raw": ""}));
        let open = export(
            directory,
            &[("user", text("hello")), ("assistant", open), ("assistant", text("good bye"))],
        );
        let (mut no_slug, mut no_tokens, mut late) = (sound.clone(), sound.clone(), sound.clone());
        no_slug["info"].as_object_mut().map(|info| info.remove("slug"));
        no_tokens["messages"][2]["info"].as_object_mut().map(|info| info.remove("tokens"));
        late["messages"][0]["info"]["time"]["created"] = json!(9);
        [(true, sound), (false, open), (false, no_slug), (false, no_tokens), (false, late)]
            .map(|(sound, export)| (sound, export.to_string()))
            .into()
    }

    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>> {
        // In a repository it writes into `.git`, so it must not find the repository around this folder.
        let init = Command::new("git")
            .args(["init", "--quiet"])
            .arg(directory(home))
            .status()
            .context("cannot run git")?;
        ensure!(init.success(), "git made no repository in {}", home.display());
        let said = output(home, self.command(home).arg("import").arg(session))?;
        let export: Value = serde_json::from_str(&fs::read_to_string(session)?).unwrap_or_default();
        let id = export["info"]["id"].as_str().unwrap_or_default().to_owned();
        let imported = said.contains(&format!("Imported session: {id}"));
        Ok(if imported { Ok(id) } else { Err(format!("opencode import: {said}")) })
    }

    fn unlisted(&self, home: &Path, id: &str) -> Result<Option<String>> {
        let list = output(home, self.command(home).args(["session", "list"]))?;
        Ok((!list.contains(id)).then(|| format!("{} does not list it: {list}", self.name())))
    }

    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command> {
        let model = json!({
            "name": "m", "attachment": true, "tool_call": true, "limit": {"context": 1_000_000, "output": 1000},
            "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]},
        });
        let options = json!({"baseURL": format!("{}/v1", provider.origin()), "apiKey": "none-is-needed"});
        let loopback = json!({"npm": "@ai-sdk/anthropic", "name": "loopback", "options": options, "models": {"m": model}});
        let config = json!({
            "autoupdate": false, "share": "disabled", "snapshot": false, "small_model": "loopback/m", "provider": {"loopback": loopback},
        });
        let mut command = self.command(home);
        // It puts an argument with a space into quotation marks.
        command.args(["run", "--model", "loopback/m", "--session", id]).args(PROMPT.split(' '));
        command.env("OPENCODE_CONFIG_CONTENT", config.to_string());
        Ok(command)
    }

    fn kept(&self, home: &Path, _: &str) -> Result<PathBuf> {
        Ok(home.join(".local/share/opencode/opencode.db"))
    }
}

/// The smallest export that opencode accepts, each message with one part.
fn export(directory: &Path, messages: &[(&str, Value)]) -> Value {
    let session = "ses_00000000000000000000000001";
    let message = |(number, (role, part)): (usize, &(&str, Value))| {
        let number = number + 1;
        let id = format!("msg_{number:026}");
        let mut part = part.clone();
        part["id"] = json!(format!("prt_{number:026}"));
        part["sessionID"] = json!(session);
        part["messageID"] = json!(id);
        let mut info = json!({"id": id, "sessionID": session, "role": role, "time": {"created": number}, "agent": "build"});
        if *role == "user" {
            info["model"] = json!({"providerID": "p", "modelID": "m"});
        } else {
            info["time"]["completed"] = json!(number);
            info["parentID"] = json!("msg_00000000000000000000000001");
            info["mode"] = json!("build");
            info["path"] = json!({"cwd": directory, "root": "/"});
            info["cost"] = json!(0);
            info["tokens"] =
                json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}});
            info["modelID"] = json!("m");
            info["providerID"] = json!("p");
        }
        json!({"info": info, "parts": [part]})
    };
    let messages: Vec<Value> = messages.iter().enumerate().map(message).collect();
    let info = json!({
        "id": session, "slug": "s", "projectID": "global", "directory": directory, "title": "hello",
        "version": "1.18.0", "time": {"created": 1, "updated": 3},
    });
    json!({"info": info, "messages": messages})
}
