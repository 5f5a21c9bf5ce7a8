//! goose lists and resumes sessions of its database.

use std::{
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

/// The id of the hand-written session.
const ID: &str = "20261115_1";

pub fn install(folder: &Path) -> Result<Box<dyn Program>> {
    Ok(Box::new(Goose(install::goose(folder)?)))
}

struct Goose(PathBuf);

impl Goose {
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.current_dir(directory(home)).env("HOME", home).env("GOOSE_PATH_ROOT", home.join("goose"));
        command.env("GOOSE_DISABLE_KEYRING", "1");
        // Naming a session and summarising old calls would send separate requests.
        command.env("GOOSE_DISABLE_SESSION_NAMING", "true").env("GOOSE_TOOL_PAIR_SUMMARIZATION", "false");
        command
    }
}

impl Program for Goose {
    fn name(&self) -> String {
        format!("goose {}", install::GOOSE.0)
    }

    fn format(&self) -> &'static str {
        "goose"
    }

    /// The dialect that keeps the texts of a message apart, and so also the text that goose adds.
    fn dialect(&self) -> &'static str {
        "anthropic"
    }

    /// A sound session must pass; anything that goose leaves out, hides or reorders must be noticed.
    fn by_hand(&self, directory: &Path) -> Vec<(bool, String)> {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let value = json!({"name": "ls", "arguments": {"path": "."}});
        let call =
            json!([{"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": value}}]);
        let value = json!({"content": [{"type": "text", "text": "x"}], "isError": false});
        let result = json!([{"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": value}}]);
        let [hello, call, result, reply] =
            [("user", text("hello")), ("assistant", call), ("user", result), ("assistant", text("good bye"))]
                .map(|(role, content)| Row { role, content: content.to_string(), seen: true, time: None });
        let (mut late, mut hidden, mut torn) = (hello.clone(), reply.clone(), reply.clone());
        late.time = Some(9);
        hidden.seen = false;
        torn.content = String::from("[{");
        let rows = |rows: &[&Row]| by_hand(directory, rows);
        vec![
            (true, rows(&[&hello, &call, &result, &reply])),
            (false, rows(&[&hello, &call, &reply])),
            (false, rows(&[&hello, &result, &reply])),
            (false, rows(&[&late, &call, &result, &reply])),
            (false, rows(&[&hello, &call, &result, &hidden])),
            (false, rows(&[&hello, &call, &result, &torn])),
            (false, String::from("SELECT 1;")),
        ]
    }

    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>> {
        let list = || output(home, self.command(home).args(["session", "list", "--format", "json"]));
        sqlite::place(session, &self.kept(home, ID)?, list)?;
        let listed = list()?;
        let sessions: Vec<Value> = serde_json::from_str(&listed).unwrap_or_default();
        Ok(match sessions.as_slice() {
            [session] => Ok(session["id"].as_str().unwrap_or_default().to_owned()),
            _ => Err(format!("goose session list: {listed}")),
        })
    }

    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command> {
        let mut command = self.command(home);
        command.args(["run", "--resume", "--session-id", id, "--text", PROMPT]);
        command.env("GOOSE_PROVIDER", "anthropic").env("GOOSE_MODEL", "m");
        command.env("ANTHROPIC_HOST", provider.origin()).env("ANTHROPIC_API_KEY", "none-is-needed");
        Ok(command)
    }

    fn kept(&self, home: &Path, _: &str) -> Result<PathBuf> {
        Ok(home.join("goose/data/sessions/sessions.db"))
    }

    /// It keeps the images in results, but sends this provider only their texts.
    fn leave_out(&self, body: &mut Value) {
        let messages = body["messages"].as_array_mut().into_iter().flatten();
        let blocks = messages.filter_map(|message| message["content"].as_array_mut()).flatten();
        for content in blocks.filter_map(|block| block.get_mut("content")?.as_array_mut()) {
            content.retain(|part| part["type"] == "text");
        }
    }

    /// Text with the time, the folder or a list of tasks, before or after a message of the user.
    fn adds(&self, text: &str) -> bool {
        text.starts_with("<info-msg>") && text.trim_end().ends_with("</info-msg>")
    }
}

/// A message in the database.
#[derive(Clone)]
struct Row {
    role: &'static str,
    content: String,
    /// Whether the model sees it.
    seen: bool,
    /// When it was written, in seconds; `None` means its index.
    time: Option<usize>,
}

fn by_hand(directory: &Path, rows: &[&Row]) -> String {
    let directory = quoted(directory.display());
    let mut sql =
        format!("INSERT INTO sessions (id, name, working_dir) VALUES ('{ID}', 'hello', {directory});\n");
    for (number, row) in rows.iter().enumerate() {
        let values = [
            quoted(ID),
            quoted(row.role),
            quoted(&row.content),
            row.time.unwrap_or(number).to_string(),
            quoted(json!({"userVisible": true, "agentVisible": row.seen})),
        ];
        sql.push_str(&format!(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json) VALUES ({});\n",
            values.join(", ")
        ));
    }
    sql
}
