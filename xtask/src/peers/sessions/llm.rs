//! llm lists and resumes conversations of its database.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Program, directory, output,
    sqlite::{self, quoted},
};
use crate::peers::{agents::PROMPT, install, provider::Provider};

/// The model of the provider on this machine.
const MODEL: &str = "loopback";

pub fn install(folder: &Path) -> Result<Box<dyn Program>> {
    Ok(Box::new(Llm(install::llm(folder)?)))
}

struct Llm(PathBuf);

impl Llm {
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.current_dir(directory(home)).env("HOME", home).env("LLM_USER_PATH", home.join("llm"));
        command
    }
}

impl Program for Llm {
    fn name(&self) -> String {
        format!("llm {}", install::LLM)
    }

    fn format(&self) -> &'static str {
        "llm"
    }

    fn dialect(&self) -> &'static str {
        "openai-chat"
    }

    /// OpenAI's limits do not apply to llm: with a plugin, it sends the same thread to any provider.
    fn measure(&self) -> &'static str {
        "anthropic"
    }

    /// The complaint about more than 128 calls in one message.
    fn exceeds_a_limit(&self, complaint: &str) -> bool {
        let mut errors = complaint.lines().filter(|line| line.trim_start().starts_with("error ")).peekable();
        errors.peek().is_some() && errors.all(|error| error.contains(".tool_calls': array too long"))
    }

    /// llm does not resume a conversation whose last model is unknown to it, even if it is told to use another one.
    fn options(&self) -> &'static [&'static str] {
        &["--model", MODEL]
    }

    /// A sound thread must pass; a broken chain, a different order and an unknown model must be noticed.
    fn by_hand(&self, _: &Path) -> Vec<(bool, String)> {
        let call = json!({"name": "ls", "arguments": {"path": "."}, "tool_call_id": "c1"});
        let result = json!({"name": "ls", "output": "x", "tool_call_id": "c1"});
        let [hello, call, result, reply] = [
            ("user", "text", "'hello'", Value::Null),
            ("assistant", "tool_call", "NULL", call),
            ("tool", "tool_result", "NULL", result),
            ("assistant", "text", "'good bye'", Value::Null),
        ]
        .map(|(role, kind, text, payload)| {
            let payload = if payload.is_null() { String::from("NULL") } else { quoted(payload) };
            Message { role, kind, text, payload }
        });
        let sound = by_hand(MODEL, &[&hello, &call, &result, &reply]);
        vec![
            (true, sound.clone()),
            (false, by_hand(MODEL, &[&hello, &call, &reply])),
            (false, by_hand(MODEL, &[&hello, &result, &reply])),
            (false, by_hand(MODEL, &[&reply, &hello, &call, &result])),
            (false, by_hand("unheard-of", &[&hello, &call, &result, &reply])),
            (false, format!("{sound}DELETE FROM messages WHERE hash = 'b2:1';")),
            (false, format!("{sound}DELETE FROM turns;")),
        ]
    }

    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>> {
        // Any command that reads something else creates the database.
        let empty = || output(home, self.command(home).args(["fragments", "list"]));
        fs::create_dir_all(home.join("llm"))?;
        sqlite::place(session, &self.kept(home, "")?, empty)?;
        let listed = output(home, self.command(home).args(["logs", "list", "--json", "--count", "1"]))?;
        let turns: Vec<Value> = serde_json::from_str(&listed).unwrap_or_default();
        Ok(match turns.as_slice() {
            [turn] => Ok(turn["conversation_id"].as_str().unwrap_or_default().to_owned()),
            _ => Err(format!("llm logs list: {listed}")),
        })
    }

    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command> {
        // YAML accepts JSON.
        let model = json!([{"model_id": MODEL, "model_name": MODEL, "api_base": format!("{}/v1", provider.origin()),
            "vision": true, "supports_tools": true}]);
        fs::write(home.join("llm/extra-openai-models.yaml"), model.to_string())?;
        let mut command = self.command(home);
        command.args(["--cid", id, "--model", MODEL, PROMPT]);
        Ok(command)
    }

    fn kept(&self, home: &Path, _: &str) -> Result<PathBuf> {
        Ok(home.join("llm/logs.db"))
    }
}

/// A message with one part. The text and the payload are SQL.
struct Message {
    role: &'static str,
    kind: &'static str,
    text: &'static str,
    payload: String,
}

/// A thread with one turn. The names of its messages are made up, which llm does not mind.
fn by_hand(model: &str, messages: &[&Message]) -> String {
    let name = |number: usize| format!("'b2:{number}'");
    let mut sql = String::new();
    for (number, Message { role, kind, text, payload }) in messages.iter().enumerate() {
        let (hash, parent) = (name(number), number.checked_sub(1).map_or(String::from("NULL"), name));
        sql.push_str(&format!(
            "INSERT INTO messages (hash, parent_hash, role) VALUES ({hash}, {parent}, '{role}');\n"
        ));
        sql.push_str(&format!(
            "INSERT INTO parts (message_hash, position, type, text, payload) VALUES ({hash}, 0, '{kind}', {text}, {payload});\n"
        ));
    }
    let (id, time) = ("'01m7p68jyf1s8533hq34yc2nmd'", "'2026-11-15T12:00:00.000000+00:00'");
    let [before, tip] = [2, 1].map(|back| name(messages.len() - back));
    sql.push_str(&format!(
        "INSERT INTO threads (id, name, tip_message_hash, datetime_utc) VALUES ({id}, 'hello', {tip}, {time});\n\
         INSERT INTO turns (id, thread_id, parent_message_hash, tip_message_hash, model, datetime_utc) \
         VALUES ({id}, {id}, {before}, {tip}, '{model}', {time});\n"
    ));
    sql
}
