//! `rejoin history edits`: the changes of files, and their state.

use rejoin::{
    changes::{FileEdit, edits},
    engine::Mode,
    record::content::ChangeState,
    shape,
};

use crate::{args::EditsArguments, commands::prelude::*};

pub fn run(arguments: &EditsArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let (store, id) = cli.find(arguments.which.given())?;
    let recorded = context::read(&*store, id, Mode::Recover)?;
    let edits = edits(&recorded.entries);
    if arguments.json {
        edits.iter().try_for_each(|edit| output::json_data(&shape::edit(edit)))?;
        return Ok(0);
    }
    if edits.is_empty() {
        output::talk(&format!("No tool has proposed to change a file in {id}."));
        return Ok(0);
    }
    cli.show(&edits.iter().map(for_people).collect::<String>())?;
    Ok(0)
}

fn for_people(edit: &FileEdit) -> String {
    let by = edit.decision.by.as_deref().map(decider);
    let reason = edit.decision.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(": {}", harmless(reason))).unwrap_or_default();
    // An applied or reverted change was allowed before; show who allowed it, not who applied or reverted it.
    let (denied_by, allowed_by) = match edit.state {
        // The reason says more. If no person could be asked, the reason says so itself.
        ChangeState::Denied => (by.filter(|_| reason.is_empty()).map(|by| format!(" by {by}")), None),
        _ => (None, by.map(|by| format!(", allowed by {by}"))),
    };
    let state = paint(shape::change_state(edit.state), output::STRONG);
    let (path, tool) = (harmless(&edit.path), harmless(&edit.tool));
    let commit = edit.commit.as_deref().map(|commit| format!(", at commit {}", harmless(short(commit))));
    let sure = edit.confidence.map(|confidence| format!(", confidence {confidence}"));
    let mut text = format!(
        "{state}{}{reason}  {path}  ({tool}, {}, turn {}{}{}{})\n",
        denied_by.unwrap_or_default(),
        local_time(edit.time),
        edit.turn,
        allowed_by.unwrap_or_default(),
        commit.unwrap_or_default(),
        sure.unwrap_or_default()
    );
    match edit.diff() {
        Some(diff) => {
            diff.lines().for_each(|line| text.push_str(&format!("  {}\n", output::diff_line(line))))
        }
        None => text.push_str("  [the difference cannot be shown: its content was erased]\n"),
    }
    text.push('\n');
    text
}

/// Who decided, in words for people.
fn decider(by: &str) -> String {
    match by {
        "person" => String::from("a person"),
        "program" => String::from("a program"),
        "rule" => String::from("a rule"),
        "mode" => String::from("the mode"),
        other => harmless(other),
    }
}

/// The beginning of a hash, at least as long as git shows it.
fn short(hash: &str) -> &str {
    hash.get(..7).unwrap_or(hash)
}
