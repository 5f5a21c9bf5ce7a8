//! The answers about calls that need approval: from the person at the terminal, or from a program on standard input.

use std::{
    io::{self, BufRead as _, Write as _},
    process::Command,
    sync::Arc,
};

use rejoin::{
    approval::{ApprovalAnswer, ApprovalRequest, Approvals, Approve, DenyAll, Editable, Replies, Rules},
    engine::provider::BoxFuture,
    serde_json::{self, Value},
};

use super::{
    has_terminal,
    terminal::{Terminal, TerminalInput},
};
use crate::{
    args::Talk,
    failure::Failure,
    output::{self, harmless},
    settings::Settings,
};

/// The longest line of an approval, in bytes.
const LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Which calls may run, by flags and settings, and who decides about the others.
pub fn approvals(talk: &Talk, settings: &Settings, terminal: &Arc<Terminal>) -> Result<Approvals, Failure> {
    let rules = Rules::parse(&settings.list("allow"), &settings.list("deny")).map_err(|why| {
        Failure::usage(why.to_string(), "correct `allow` and `deny`: `rejoin config list` shows them")
    })?;
    let set = settings.value("mode").and_then(rejoin::approval::ApprovalMode::named);
    let approve: Arc<dyn Approve> = match talk.approvals {
        Some(_) => Arc::new(replies_on_stdin()),
        None if has_terminal() && !talk.json => Arc::new(AtTerminal(Arc::clone(terminal))),
        None => Arc::new(DenyAll),
    };
    Ok(Approvals { mode: talk.mode.or(set).unwrap_or_default(), rules, approve })
}

/// Asks the person at the terminal. The drawing of the turn has already shown the call's preview.
struct AtTerminal(Arc<Terminal>);

impl Approve for AtTerminal {
    fn answer<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(self.ask(request))
    }

    fn answered_by(&self) -> &'static str {
        "person"
    }
}

impl AtTerminal {
    async fn ask(&self, request: &ApprovalRequest) -> ApprovalAnswer {
        let always = if request.rule.is_some() { ", [a]lways in this conversation" } else { "" };
        let edit = if request.editable.is_some() { ", [e]dit first" } else { "" };
        self.0.forget_typed();
        let _shown = self.0.with_echo();
        loop {
            output::question(&format!("[y]es, [n]o{always}{edit}, [s]top? "));
            let Some(answer) = self.line().await else { return ApprovalAnswer::Stop };
            match (answer.trim().to_lowercase().as_str(), &request.editable) {
                ("y" | "yes", _) => return ApprovalAnswer::Yes,
                ("a" | "always", _) if request.rule.is_some() => return ApprovalAnswer::Always,
                ("s" | "stop", _) => return ApprovalAnswer::Stop,
                ("n" | "no", _) => {
                    output::question("Reason for the model (Enter for none): ");
                    let Some(reason) = self.line().await else { return ApprovalAnswer::Stop };
                    let reason = reason.trim().to_owned();
                    return ApprovalAnswer::No { reason: Some(reason).filter(|reason| !reason.is_empty()) };
                }
                ("e" | "edit", Some(editable)) => match edited(editable) {
                    Ok(text) => return ApprovalAnswer::Edited { text },
                    Err(why) => output::warning(why),
                },
                _ => output::talk("Please answer with one of these letters."),
            }
        }
    }

    /// The next line; `None` if the person left or pressed Ctrl-C.
    async fn line(&self) -> Option<String> {
        match self.0.next().await {
            Some(TerminalInput::Line(line)) => Some(line),
            Some(TerminalInput::Stopped(_)) | None => None,
        }
    }
}

/// Lets the person edit a text in the editor that VISUAL or EDITOR names, and returns the result.
fn edited(editable: &Editable) -> Result<String, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| String::from("vi"));
    let failed = |why: io::Error| format!("it cannot be edited: {why}");
    // Only this user may read it, because it may contain anything.
    let mut file = tempfile::Builder::new().prefix("rejoin-").suffix(".txt").tempfile().map_err(failed)?;
    file.write_all(editable.text.as_bytes()).and_then(|()| file.flush()).map_err(failed)?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(file.path()).status();
    match status {
        Err(why) => return Err(format!("the editor `{}` cannot be started: {why}", harmless(&editor))),
        Ok(status) if !status.success() => {
            return Err(String::from("the editor failed; nothing was changed"));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(file.path()).map_err(failed)?;
    // Editors add a newline to the last line; a command does not need it.
    let ends = editable.text.ends_with('\n');
    Ok(if ends { text } else { text.strip_suffix('\n').unwrap_or(&text).to_owned() })
}

/// Takes approvals from standard input, one JSON object per line, until it ends.
fn replies_on_stdin() -> Replies {
    let replies = Replies::default();
    let given = replies.clone();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            match io::Read::take(&mut input, LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match reply(&line) {
                    Ok((call, answer)) => given.reply(call, answer),
                    Err(why) => {
                        output::warning(format!("a line on standard input is not an approval: {why}"))
                    }
                },
            }
        }
        given.close();
    });
    replies
}

/// The call id and the answer in a line.
fn reply(line: &[u8]) -> Result<(String, ApprovalAnswer), String> {
    let line: Value = serde_json::from_slice(line).map_err(|why| why.to_string())?;
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let call = text("call_id").ok_or("`call_id` is missing")?;
    let answer = match text("answer").ok_or("`answer` is missing")?.as_str() {
        "yes" => ApprovalAnswer::Yes,
        "always" => ApprovalAnswer::Always,
        "no" => ApprovalAnswer::No { reason: text("reason") },
        "stop" => ApprovalAnswer::Stop,
        "edit" => ApprovalAnswer::Edited { text: text("text").ok_or("`text` is missing")? },
        other => return Err(format!("`{}` is not yes, no, always, edit or stop", harmless(other))),
    };
    Ok((call, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let read = |line: &str| reply(line.as_bytes());
        assert_eq!(read(r#"{"call_id":"a","answer":"yes"}"#), Ok((String::from("a"), ApprovalAnswer::Yes)));
        let no = ApprovalAnswer::No { reason: Some(String::from("late")) };
        assert_eq!(read(r#"{"call_id":"b","answer":"no","reason":"late"}"#), Ok((String::from("b"), no)));
        for bad in
            ["{", "[]", r#"{"answer":"yes"}"#, r#"{"call_id":"a"}"#, r#"{"call_id":"a","answer":"maybe"}"#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
