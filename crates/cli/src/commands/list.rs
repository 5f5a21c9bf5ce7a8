//! `rejoin list`: the conversations of the store, newest first. No content is loaded.

use std::{
    io::{self, IsTerminal as _},
    ops::ControlFlow,
};

use rejoin::{
    ConversationId,
    list::ListCounts,
    record::{Scope, Timestamp, limits::TITLE_CHARS},
    shape,
    store::{Filter, StoreError, Summary},
};

use super::exchange::shortened_line;
use crate::{args::ListArguments, commands::prelude::*};

/// The default limit on a terminal: one or two screens.
const ON_TERMINAL: usize = 20;
/// The default limit for scripts: enough for most, and fast even in a store of a hundred thousand conversations.
const ELSEWHERE: usize = 100;
pub fn run(arguments: &ListArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let store = cli.read_store()?;
    let usual = if io::stdout().is_terminal() { ON_TERMINAL } else { ELSEWHERE };
    let limit = if arguments.all { usize::MAX } else { arguments.limit.unwrap_or(usual) };
    let active = cli.pointer().get().unwrap_or_default();
    let filter = filter(arguments);
    let (mut unreadable, mut failed) = (Vec::new(), None);
    let mut drawn =
        ListDrawing { text: String::new(), active, filtered: !filter.is_open() || !cli.scope.is_open() };
    let mut counts = ListCounts::default();
    if let Some(store) = &store {
        let each = |summary: &Summary| {
            if summary.damaged {
                // Opening the conversation reports damage. A file that this user may not read is reported here.
                let tail = store.tail(summary.id).err();
                unreadable.extend(tail.filter(|why| matches!(why, StoreError::Io { .. })));
            }
            if arguments.json {
                let line = shape::conversation(summary, active == Some(summary.id));
                failed = output::json_data(&line).err();
            } else {
                drawn.add(summary);
            }
            if failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        counts = rejoin::list::list(&**store, &filter, limit, each)
            .map_err(|why| context::unusable(store.location(), why))?;
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    if !arguments.json {
        cli.show(&drawn.finish(counts))?;
    } else if counts.hidden() > 0 {
        output::talk(&more(counts));
    }
    let code = if unreadable.is_empty() { 0 } else { FAILED };
    for why in unreadable {
        context::unusable(&cli.location, why).say();
    }
    Ok(code)
}

/// The filter from the flags.
fn filter(arguments: &ListArguments) -> Filter {
    let of_folder = arguments.folder.as_deref().map(context::of_folder).unwrap_or_default();
    Filter { agent: arguments.agent.clone(), state: arguments.state.clone(), ..of_folder }
}

/// The list while it is being drawn.
struct ListDrawing {
    text: String,
    active: Option<ConversationId>,
    filtered: bool,
}

/// The parts of a scope that are not empty, with their names; `None` if all are empty.
pub fn shown_scope(scope: &Scope) -> Option<String> {
    let named = Scope::PARTS.iter().zip(scope.parts()).filter(|(_, part)| !part.is_empty());
    let parts: Vec<String> = named.map(|(name, part)| format!("{name} {}", harmless(part))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl ListDrawing {
    fn add(&mut self, summary: &Summary) {
        let mark = if self.active == Some(summary.id) { "*" } else { " " };
        let id = paint(&summary.id.to_string(), output::STRONG);
        let untitled = if summary.damaged { "(title unreadable)" } else { "(untitled)" };
        let title = shortened_line(&harmless(summary.title.as_deref().unwrap_or(untitled)), TITLE_CHARS);
        let state = paint(&format!("[{}]", summary.shown_state().word()), output::NOTE);
        let unknown = |value: &Option<String>| harmless(value.as_deref().unwrap_or("unknown"));
        self.text.push_str(&format!("\n{mark} {id}  {title} {state}\n"));
        self.text.push_str(&format!(
            "    Provider: {} ({})\n    Updated: {}, {}\n",
            unknown(&summary.about.provider),
            unknown(&summary.about.model),
            updated(summary),
            plural(summary.messages, "message"),
        ));
        if let Some(scope) = shown_scope(&summary.scope) {
            self.text.push_str(&format!("    Scope: {scope}\n"));
        }
        if let Some(from) = &summary.forked_from {
            self.text.push_str(&format!("    Fork of: {}\n", harmless(from)));
        }
    }

    fn finish(self, counts: ListCounts) -> String {
        if counts.total == 0 && self.filtered {
            return String::from("No conversation matches. List all: rejoin list\n");
        }
        if counts.total == 0 {
            return String::from("No saved conversations.\nCreate one: rejoin new\n");
        }
        let mut text =
            format!("Saved Conversations:\n{}\nTotal: {} conversation(s)\n", self.text, counts.total);
        if counts.hidden() > 0 {
            text.push_str(&format!("{}\n", more(counts)));
        }
        text
    }
}

fn more(ListCounts { shown, total }: ListCounts) -> String {
    format!("The newest {shown} of {total} are shown; `--limit N` or `--all` shows more.")
}

/// The local time of the last message; "unknown" for an empty file without a time.
fn updated(summary: &Summary) -> String {
    let known = summary.updated != Timestamp::UNIX_EPOCH;
    if known { local_time(summary.updated) } else { String::from("unknown") }
}
