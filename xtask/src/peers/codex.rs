//! The Codex CLI resumes sessions that rejoin put in its place, sends them on word for word, and lists them under their titles.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    agents::{Agent, PATIENCE, PROMPT, Turn},
    conversations::{Conversation, ExpectedText},
    install,
    provider::Provider,
    rejoin::Installed,
    sent::{self, Rollout},
};

/// The provider of rollouts that name none.
const PROVIDER: &str = "loopback";

pub struct Codex(pub PathBuf);

impl Agent for Codex {
    const FORMAT: &'static str = "codex";
    const VARIABLE: &'static str = "CODEX_HOME";
    const DIALECT: &'static str = "openai-responses";
    const BY_HAND: (&'static str, &'static str) = (
        "sessions/2026/11/15/rollout-2026-11-15T12-00-00-0194f3a2-0000-7000-8000-00000000c0de.jsonl",
        "0194f3a2-0000-7000-8000-00000000c0de",
    );

    fn name(&self) -> String {
        format!("Codex CLI {}", install::CODEX)
    }

    /// A sound rollout must pass; anything that Codex would silently repair must be noticed.
    fn by_hand(&self) -> Vec<(bool, String)> {
        let user = message("user", "input_text", "hello");
        let reply = message("assistant", "output_text", "good bye");
        let call = json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"});
        let output = json!({"type": "function_call_output", "call_id": "c1", "output": "x"});
        let system = message("system", "input_text", "x");
        vec![
            (true, by_hand(None, &[&user, &call, &output, &reply])),
            (true, by_hand(Some("openai"), &[&user, &call, &output, &reply])),
            (false, by_hand(None, &[&user, &call, &reply])),
            (false, by_hand(None, &[&user, &reply, &call])),
            (false, by_hand(None, &[&user, &output, &reply])),
            (false, by_hand(None, &[&user, &call, &output, &system, &reply])),
            (false, by_hand(None, &[&reply, &user])),
        ]
    }

    fn resume(&self, home: &Path, session: &Installed, said: &[ExpectedText]) -> Result<Turn> {
        let rollout = match Rollout::read(&session.text) {
            Ok(rollout) => rollout,
            Err(error) => return Ok(Turn::refused(format!("this is no rollout: {error:#}"))),
        };
        let id = &rollout.id;
        if id.len() != 36 || id.chars().any(|c| !c.is_ascii_hexdigit() && c != '-') {
            return Ok(Turn::refused(format!("`{id}` is no id of a Codex thread")));
        }
        let provider = Provider::start();
        let config = Self::config(&format!("{}/v1", provider.origin()), rollout.provider.as_deref());
        fs::write(home.join("config.toml"), config)?;
        let mut command = self.command(home);
        command.args(["exec", "resume", id, "--skip-git-repo-check", PROMPT]).current_dir(home.join("w"));
        Turn::run("Codex", home, &provider, &mut command, |request| {
            sent::problems(&rollout, said, PROMPT, request)
        })
    }

    /// Codex must list the session under the first words of the user.
    fn afterwards(&self, home: &Path, session: &Installed, source: &Conversation) -> Result<Option<String>> {
        let Some(answer) = self.asks(home, "thread/list")? else {
            return Ok(Some("Codex did not list its sessions".into()));
        };
        let listed = answer["result"]["data"].as_array().cloned().unwrap_or_default();
        let Some(own) = listed.iter().find(|thread| thread["id"] == session.id.as_str()) else {
            return Ok(Some(format!("Codex does not list it: {answer}")));
        };
        let (preview, title) = (own["preview"].as_str().unwrap_or_default(), source.title());
        let fits = title.as_ref().is_none_or(|title| preview.trim_start().starts_with(title.as_str()));
        Ok((!fits).then(|| format!("Codex lists it as {preview:?} instead of {title:?}")))
    }

    /// The request without the fields that Codex adds for its own provider.
    fn plain(&self, request: &str) -> Result<String> {
        let mut body: Value = serde_json::from_str(request).context("a request of Codex")?;
        for item in body["input"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            item.shift_remove("internal_chat_message_metadata_passthrough");
        }
        Ok(body.to_string())
    }
}

impl Codex {
    /// Codex with this home folder, without access to anything outside.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command
            .env("CODEX_HOME", home)
            .env("HOME", home)
            .env("CODEX_API_KEY", "none-is-needed")
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL");
        command
    }

    /// Sends a request without parameters to the server of Codex.
    fn asks(&self, home: &Path, method: &str) -> Result<Option<Value>> {
        let mut child = self
            .command(home)
            .arg("app-server")
            .current_dir(home.join("w"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run the server of Codex")?;
        let (mut input, output) = (child.stdin.take(), child.stdout.take());
        let client = json!({"clientInfo": {"name": "xtask", "title": "xtask", "version": "0"}});
        for message in [
            json!({"id": 0, "method": "initialize", "params": client}),
            json!({"method": "initialized"}),
            json!({"id": 1, "method": method, "params": {}}),
        ] {
            writeln!(input.as_mut().context("no input")?, "{message}")?;
        }
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            let messages =
                lines.map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            for message in messages.filter(|message| message["id"] == 1) {
                let _ = sender.send(message);
            }
        });
        let answer = answers.recv_timeout(PATIENCE).ok();
        child.kill()?;
        child.wait()?;
        Ok(answer)
    }

    /// Codex resumes a rollout only with the provider that the rollout names.
    fn config(url: &str, provider: Option<&str>) -> String {
        let name = provider.unwrap_or(PROVIDER);
        let mut config = format!(
            "model = \"gpt-5.5\"\nmodel_provider = {name:?}\napproval_policy = \"never\"\n\
             sandbox_mode = \"read-only\"\ncheck_for_update_on_startup = false\n"
        );
        if name == "openai" {
            // It is built in, so it cannot be configured, but its address can be replaced.
            config.push_str(&format!("openai_base_url = {url:?}\n"));
        } else {
            config.push_str(&format!(
                "[model_providers.{name:?}]\nname = {name:?}\nbase_url = {url:?}\nwire_api = \"responses\"\n\
                 requires_openai_auth = false\nrequest_max_retries = 0\nstream_max_retries = 0\n"
            ));
        }
        config.push_str("[analytics]\nenabled = false\n");
        config
    }
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

/// The smallest rollout that Codex accepts.
fn by_hand(provider: Option<&str>, items: &[&Value]) -> String {
    let time = "2026-11-15T12:00:00.000Z";
    let mut meta = json!({
        "id": "0194f3a2-0000-7000-8000-00000000c0de", "timestamp": time, "cwd": ".", "originator": "rejoin", "cli_version": "0.0.0",
    });
    if let Some(provider) = provider {
        meta["model_provider"] = provider.into();
    }
    let mut text = json!({"timestamp": time, "type": "session_meta", "payload": meta}).to_string() + "\n";
    for item in items {
        let line = json!({"timestamp": time, "type": "response_item", "payload": item});
        text.push_str(&format!("{line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_written_by_hand_can_be_read() {
        let text = by_hand(Some("openai"), &[&message("user", "input_text", "hello")]);
        let rollout = Rollout::read(&text).unwrap();
        assert_eq!(rollout.id.len(), 36);
        assert_eq!(rollout.provider.as_deref(), Some("openai"));
    }

    #[test]
    fn own_fields_go_and_nothing_else() {
        let request = r#"{"input":[{"role":"user","internal_chat_message_metadata_passthrough":{},"content":[]}],"b":1.50}"#;
        assert_eq!(
            Codex(PathBuf::new()).plain(request).unwrap(),
            r#"{"input":[{"role":"user","content":[]}],"b":1.5}"#
        );
    }
}
