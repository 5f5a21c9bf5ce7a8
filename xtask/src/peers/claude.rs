//! Claude Code resumes what rejoin put where it looks, and sends every message on.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    Failure, Verdict,
    codex::{PATIENCE, PROMPT, patiently},
    conversations::{self, Said, Speaker},
    install,
    loopback::{Loopback, REPLY},
    rejoin::Rejoin,
    transcript,
};

pub fn ask(folder: &Path, rejoin: Option<&Rejoin>) -> Result<Verdict> {
    let program = install::claude_code(folder)?;
    let work = folder.join("claude-code-work");
    fs::create_dir_all(&work)?;
    let claude = ClaudeCode { program, work, provider: Loopback::start()? };
    let peer = format!("Claude Code {}", install::CLAUDE_CODE);
    let mut verdict = Verdict { peer, by_hand: 0, given: 0, failures: Vec::new() };
    claude.says_yes_and_no(&mut verdict)?;
    let Some(rejoin) = rejoin else { return Ok(verdict) };
    for conversation in conversations::all()? {
        verdict.given += 1;
        let mut evidence = vec![("source.json", conversation.text.clone())];
        let home = claude.fresh_home()?;
        let reason = match rejoin.install(&claude.work, &conversation, "claude-code", (VARIABLE, &home))? {
            Err(reason) => Some(reason),
            Ok(installed) => {
                let said = conversations::said(&conversation.text);
                let turn =
                    claude.resume(&home, &installed.directory, &installed.id, &installed.text, &said)?;
                evidence.push(("transcript.jsonl", installed.text));
                let reason = match (turn.problems.is_empty(), &turn.request) {
                    (true, Some(request)) => {
                        rejoin.check(&claude.work, "anthropic", &transcript::plain(request)?)?.err()
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

/// The variable that names the program's folder.
const VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The program, and the provider it talks to.
struct ClaudeCode {
    program: PathBuf,
    work: PathBuf,
    provider: Loopback,
}

/// What came of resuming a transcript.
struct Turn {
    problems: Vec<String>,
    request: Option<String>,
    stderr: String,
}

impl ClaudeCode {
    /// A folder in which Claude Code was never used.
    fn fresh_home(&self) -> Result<PathBuf> {
        let home = self.work.join("home");
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        Ok(home)
    }

    /// Resumes a transcript that lies in a home and asks for one turn.
    fn resume(&self, home: &Path, place: &Path, id: &str, text: &str, said: &[Said]) -> Result<Turn> {
        self.provider.turns();
        let (out, err) = (home.join("stdout.txt"), home.join("stderr.txt"));
        let mut command = Command::new(&self.program);
        command
            .args(["-p", "--resume", id, PROMPT])
            .current_dir(place)
            .env(VARIABLE, home)
            .env("HOME", home)
            .env("ANTHROPIC_BASE_URL", self.provider.origin())
            .env("ANTHROPIC_API_KEY", "none-is-needed")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .env_remove("ANTHROPIC_AUTH_TOKEN")
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        let status = patiently(&mut command)?;
        let stderr = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
        let stdout = String::from_utf8_lossy(&fs::read(&out)?).into_owned();
        let mut problems = Vec::new();
        match status {
            None => problems.push(format!("Claude Code was not done after {} seconds", PATIENCE.as_secs())),
            Some(status) if !status.success() => {
                problems.push(format!("Claude Code ended with {status}. {stderr}{stdout}"));
            }
            Some(_) if !stdout.contains(REPLY) => problems.push("Claude Code did not print the reply".into()),
            Some(_) => {}
        }
        let mut turns = self.provider.turns();
        if turns.len() != 1 {
            problems.push(format!("Claude Code asked for {} turns instead of one", turns.len()));
        }
        let request = turns.pop().map(|turn| turn.body);
        if let Some(request) = &request {
            problems.extend(transcript::problems(text, said, PROMPT, request));
        }
        Ok(Turn { problems, request, stderr })
    }

    /// Transcripts written by hand: a sound one must pass; what Claude Code leaves out or makes up must be noticed.
    fn says_yes_and_no(&self, verdict: &mut Verdict) -> Result<()> {
        let user = json!({"role": "user", "content": "hello"});
        let call =
            answer(&json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}));
        let result = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]});
        let reply = answer(&json!({"type": "text", "text": "good bye"}));
        let said = [(Speaker::User, "hello"), (Speaker::Assistant, "good bye")]
            .map(|(speaker, text)| Said { speaker, text: text.into() });
        for (sound, linked, messages) in [
            (true, true, vec![&user, &call, &result, &reply]),
            (false, true, vec![&user, &call, &reply]),
            (false, true, vec![&user, &result, &reply]),
            (false, true, vec![&reply, &user]),
            // Without links only the last message is sent.
            (false, false, vec![&user, &call, &result, &reply]),
        ] {
            verdict.by_hand += 1;
            let home = self.fresh_home()?;
            let text = by_hand(linked, &messages);
            // A session is found in any project.
            let project = home.join("projects/-p");
            fs::create_dir_all(&project)?;
            fs::write(project.join(format!("{ID}.jsonl")), &text)?;
            let turn = self.resume(&home, &self.work, ID, &text, &said)?;
            ensure!(
                turn.request.is_some(),
                "a transcript written by hand was not resumed:\n{:?}",
                turn.problems
            );
            if sound && !turn.problems.is_empty() {
                bail!("a sound transcript was not taken: {:?}", turn.problems);
            }
            ensure!(sound || !turn.problems.is_empty(), "nobody noticed what is wrong with {messages:?}");
        }
        Ok(())
    }
}

/// The session that is written by hand.
const ID: &str = "0194f3a2-0000-4000-8000-00000000c0de";

fn answer(block: &Value) -> Value {
    json!({"type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [block],
        "stop_reason": null, "stop_sequence": null})
}

/// The least that Claude Code takes for a transcript.
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
