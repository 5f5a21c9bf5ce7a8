//! The Codex CLI resumes what rejoin put where it looks, sends it on word for word, and lists it under its title.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    Failure, Verdict,
    conversations::{self, Said, Speaker},
    install,
    loopback::{Loopback, REPLY},
    rejoin::Rejoin,
    sent::{self, Rollout},
};

/// What it is asked after resuming.
pub(super) const PROMPT: &str = "go on";

/// A turn takes half a second; a Codex that waits for something would wait for ever.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The provider of rollouts that name none.
const PROVIDER: &str = "loopback";

pub fn ask(folder: &Path, rejoin: Option<&Rejoin>) -> Result<Verdict> {
    let program = install::codex(folder)?;
    let work = folder.join("codex-work");
    fs::create_dir_all(&work)?;
    let codex = Codex { program, work, provider: Loopback::start()? };
    let mut verdict =
        Verdict { peer: format!("Codex CLI {}", install::CODEX), by_hand: 0, given: 0, failures: Vec::new() };
    codex.says_yes_and_no(&mut verdict)?;
    let Some(rejoin) = rejoin else { return Ok(verdict) };
    for conversation in conversations::all()? {
        verdict.given += 1;
        let mut evidence = vec![("source.json", conversation.text.clone())];
        let home = codex.fresh_home()?;
        let reason = match rejoin.install(&codex.work, &conversation, "codex", ("CODEX_HOME", &home))? {
            Err(reason) => Some(reason),
            Ok(installed) => {
                let mut turn =
                    codex.resume(&home, &installed.text, &conversations::said(&conversation.text))?;
                if turn.problems.is_empty() {
                    turn.problems.extend(codex.not_listed(
                        &home,
                        &installed.id,
                        conversation.title().as_deref(),
                    )?);
                }
                evidence.push(("rollout.jsonl", installed.text));
                let reason = match (turn.problems.is_empty(), &turn.request) {
                    (true, Some(request)) => {
                        rejoin.check(&codex.work, "openai-responses", &without_own_fields(request)?)?.err()
                    }
                    _ => Some(turn.problems.join("\n")),
                };
                evidence.push(("request.json", turn.request.unwrap_or_default()));
                evidence.push(("stderr.txt", turn.stderr));
                reason
            }
        };
        if let Some(reason) = reason {
            verdict.failures.push(Failure { name: conversation.name, reason, evidence });
        }
    }
    Ok(verdict)
}

/// The program, and the provider it talks to.
struct Codex {
    program: PathBuf,
    work: PathBuf,
    provider: Loopback,
}

/// What came of resuming a rollout.
struct Turn {
    problems: Vec<String>,
    request: Option<String>,
    stderr: String,
}

impl Turn {
    fn refused(problem: String) -> Self {
        Self { problems: vec![problem], request: None, stderr: String::new() }
    }
}

impl Codex {
    /// A home in which Codex was never used.
    fn fresh_home(&self) -> Result<PathBuf> {
        let home = self.work.join("home");
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(home.join("w"))?;
        Ok(home)
    }

    /// Resumes a rollout that was written by hand.
    fn resume_by_hand(&self, rollout: &str, said: &[Said]) -> Result<Turn> {
        let home = self.fresh_home()?;
        let day = home.join("sessions/2026/11/15");
        fs::create_dir_all(&day)?;
        let id = Rollout::read(rollout)?.meta.id;
        fs::write(day.join(format!("rollout-2026-11-15T12-00-00-{id}.jsonl")), rollout)?;
        self.resume(&home, rollout, said)
    }

    /// Resumes a rollout that lies in a home and asks for one turn.
    fn resume(&self, home: &Path, rollout: &str, said: &[Said]) -> Result<Turn> {
        let read = match Rollout::read(rollout) {
            Ok(read) => read,
            Err(error) => return Ok(Turn::refused(format!("this is no rollout: {error:#}"))),
        };
        let id = &read.meta.id;
        if id.len() != 36 || id.chars().any(|c| !c.is_ascii_hexdigit() && c != '-') {
            return Ok(Turn::refused(format!("`{id}` is no id of a Codex thread")));
        }
        let place = home.join("w");
        fs::write(home.join("config.toml"), self.config(read.meta.provider.as_deref()))?;
        self.provider.turns();

        let (out, err) = (home.join("stdout.txt"), home.join("stderr.txt"));
        let mut command = self.command(home);
        command
            .args(["exec", "resume", id, "--skip-git-repo-check", PROMPT])
            .current_dir(&place)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        let status = patiently(&mut command)?;
        let stderr = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
        let mut turns = self.provider.turns();
        let mut problems = Vec::new();
        match status {
            None => problems.push(format!("Codex was not done after {} seconds", PATIENCE.as_secs())),
            Some(status) if !status.success() => {
                let said = stderr.lines().find(|line| line.starts_with("Error")).unwrap_or_default();
                problems.push(format!("Codex ended with {status}. {said}"));
            }
            Some(_) if !String::from_utf8_lossy(&fs::read(&out)?).contains(REPLY) => {
                problems.push("Codex did not print the reply".into());
            }
            Some(_) => {}
        }
        if turns.len() != 1 {
            problems.push(format!("Codex asked for {} turns instead of one", turns.len()));
        }
        let request = turns.pop().map(|turn| turn.body);
        if let Some(request) = &request {
            problems.extend(sent::problems(&read, said, PROMPT, request));
        }
        Ok(Turn { problems, request, stderr })
    }

    /// Codex, in a home and without a word to anyone outside.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("CODEX_HOME", home)
            .env("HOME", home)
            .env("CODEX_API_KEY", "none-is-needed")
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .env_remove("OPENAI_API_KEY")
            .env_remove("OPENAI_BASE_URL");
        command
    }

    /// What is wrong with how Codex lists a session: it has to be there, under the first word of a person.
    fn not_listed(&self, home: &Path, id: &str, title: Option<&str>) -> Result<Option<String>> {
        let Some(answer) = self.asks(home, "thread/list")? else {
            return Ok(Some("Codex did not list its sessions".into()));
        };
        let listed = answer["result"]["data"].as_array().cloned().unwrap_or_default();
        let Some(own) = listed.iter().find(|thread| thread["id"] == id) else {
            return Ok(Some(format!("Codex does not list it: {answer}")));
        };
        let preview = own["preview"].as_str().unwrap_or_default();
        let fits = title.is_none_or(|title| preview.trim_start().starts_with(title));
        Ok((!fits).then(|| format!("Codex lists it as {preview:?} instead of {title:?}")))
    }

    /// What the server of Codex answers to a question without parameters.
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
    fn config(&self, provider: Option<&str>) -> String {
        let url = self.provider.base_url();
        let name = provider.unwrap_or(PROVIDER);
        let mut config = format!(
            "model = \"gpt-5.5\"\nmodel_provider = {name:?}\napproval_policy = \"never\"\n\
             sandbox_mode = \"read-only\"\ncheck_for_update_on_startup = false\n"
        );
        if name == "openai" {
            // Built in, so it cannot be described; but it can be sent elsewhere.
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

    /// Rollouts written by hand: a sound one must pass; what Codex would mend in silence must be noticed.
    fn says_yes_and_no(&self, verdict: &mut Verdict) -> Result<()> {
        let user = message("user", "input_text", "hello");
        let reply = message("assistant", "output_text", "good bye");
        let call = json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"});
        let output = json!({"type": "function_call_output", "call_id": "c1", "output": "x"});
        let said = [(Speaker::User, "hello"), (Speaker::Assistant, "good bye")]
            .map(|(speaker, text)| Said { speaker, text: text.into() });
        for (provider, sound, items) in [
            (None, true, vec![&user, &call, &output, &reply]),
            (Some("openai"), true, vec![&user, &call, &output, &reply]),
            (None, false, vec![&user, &call, &reply]),
            (None, false, vec![&user, &reply, &call]),
            (None, false, vec![&user, &output, &reply]),
            (None, false, vec![&user, &call, &output, &message("system", "input_text", "x"), &reply]),
            (None, false, vec![&reply, &user]),
        ] {
            verdict.by_hand += 1;
            let turn = self.resume_by_hand(&by_hand(provider, &items), &said)?;
            ensure!(turn.request.is_some(), "a rollout written by hand was not resumed:\n{}", turn.stderr);
            if sound && !turn.problems.is_empty() {
                bail!("a sound rollout was not taken: {:?}", turn.problems);
            }
            ensure!(sound || !turn.problems.is_empty(), "nobody noticed what is wrong with {items:?}");
        }
        Ok(())
    }
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

/// The least that Codex takes for a rollout.
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

/// Fields that Codex adds for its own provider and no other is asked to understand.
fn without_own_fields(request: &str) -> Result<String> {
    let mut body: Value = serde_json::from_str(request).context("a request of Codex")?;
    for item in body["input"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        item.shift_remove("internal_chat_message_metadata_passthrough");
    }
    Ok(body.to_string())
}

/// Waits for a program, but not for ever. `None`: it was ended.
pub(super) fn patiently(command: &mut Command) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_written_by_hand_can_be_read() {
        let text = by_hand(Some("openai"), &[&message("user", "input_text", "hello")]);
        let rollout = Rollout::read(&text).unwrap();
        assert_eq!(rollout.meta.id.len(), 36);
        assert_eq!(rollout.meta.provider.as_deref(), Some("openai"));
    }

    #[test]
    fn own_fields_go_and_nothing_else() {
        let request = r#"{"input":[{"role":"user","internal_chat_message_metadata_passthrough":{},"content":[]}],"b":1.50}"#;
        assert_eq!(
            without_own_fields(request).unwrap(),
            r#"{"input":[{"role":"user","content":[]}],"b":1.5}"#
        );
    }
}
