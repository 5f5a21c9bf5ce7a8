//! `rejoin list`: the conversations of the store, newest first. No content is loaded.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

use rejoin::{
    ConversationId, engine,
    record::{Timestamp, limits::TITLE_CHARS},
    store::{Filter, Page, Query, Store, StoreError, Summary},
};

use crate::{
    args::ListArguments,
    desk::{self, Desk, Flags},
    failure::{FAILED, Failure},
    json::Object,
    output::{self, harmless, local_time, paint, plural},
};

/// What fits a screen or two.
const ON_TERMINAL: usize = 20;
/// What a script gets if it does not say: enough for most, and as quick in a store of a hundred thousand.
const ELSEWHERE: usize = 100;
/// How many are asked for at a time. A folder of files is looked through each time.
const AT_A_TIME: usize = 5000;

/// Lists conversations.
pub fn run(arguments: &ListArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let store = desk.read_store()?;
    let usual = if io::stdout().is_terminal() { ON_TERMINAL } else { ELSEWHERE };
    let limit = if arguments.all { usize::MAX } else { arguments.limit.unwrap_or(usual) };
    let active = desk.pointer().get().unwrap_or_default();
    let filter = filter(arguments);
    let mut unreadable = Vec::new();
    let mut listing =
        Listing { text: String::new(), shown: 0, total: 0, active, filtered: !filter.is_open() };
    if let Some(store) = &store {
        // What a filter shows may lie anywhere in the list.
        let looked_at = if filter.is_open() { limit } else { usize::MAX };
        pages(&**store, looked_at, |page| {
            let fitting: Vec<_> = page.conversations.iter().filter(|summary| filter.shows(summary)).collect();
            listing.total = if filter.is_open() { page.total } else { listing.total + fitting.len() as u64 };
            let left = limit.saturating_sub(usize::try_from(listing.shown).unwrap_or(usize::MAX));
            for summary in fitting.into_iter().take(left) {
                listing.shown += 1;
                if summary.damaged {
                    // Damage is told where the conversation is read; a file that may not be read is told at once.
                    unreadable.extend(
                        store.tail(summary.id).err().filter(|why| matches!(why, StoreError::Io { .. })),
                    );
                }
                if arguments.json {
                    output::json_data(&json(summary, active))?;
                } else {
                    listing.add(summary);
                }
            }
            Ok(())
        })?;
    }
    if !arguments.json {
        desk.show(&listing.finish())?;
    } else if listing.hidden() > 0 {
        output::talk(&listing.more());
    }
    let code = if unreadable.is_empty() { 0 } else { FAILED };
    for why in unreadable {
        desk::unusable(&desk.location, why).say();
    }
    Ok(code)
}

/// What the flags ask for. A folder is compared as it was given and as the system knows it: both may be recorded.
fn filter(arguments: &ListArguments) -> Filter {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(folder) = &arguments.folder {
        folders.extend(std::path::absolute(folder));
        folders.extend(std::fs::canonicalize(folder));
        if folders.is_empty() {
            folders.push(folder.clone());
        }
    }
    Filter { folders, agent: arguments.agent.clone(), state: arguments.state }
}

/// Goes through the list, a stretch at a time.
pub fn pages(
    store: &dyn Store,
    limit: usize,
    mut each: impl FnMut(&Page) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut query = Query { limit: Some(limit.min(AT_A_TIME)), after: None };
    let mut left = limit;
    loop {
        let page = engine::list(store, &query).map_err(|why| desk::unusable(store.location(), why))?;
        each(&page)?;
        left = left.saturating_sub(page.conversations.len());
        match page.next {
            Some(next) if left > 0 && !page.conversations.is_empty() => {
                query = Query { limit: Some(left.min(AT_A_TIME)), after: Some(next) };
            }
            _ => return Ok(()),
        }
    }
}

struct Listing {
    text: String,
    shown: u64,
    total: u64,
    active: Option<ConversationId>,
    filtered: bool,
}

impl Listing {
    fn add(&mut self, summary: &Summary) {
        let mark = if self.active == Some(summary.id) { "*" } else { " " };
        let id = paint(&summary.id.to_string(), output::STRONG);
        let untitled = if summary.damaged { "(title unreadable)" } else { "(untitled)" };
        let title = short(&harmless(summary.title.as_deref().unwrap_or(untitled)));
        let state = paint(&format!("[{}]", summary.shown_state()), output::NOTE);
        let unknown = |value: &Option<String>| harmless(value.as_deref().unwrap_or("unknown"));
        self.text.push_str(&format!("\n{mark} {id}  {title} {state}\n"));
        self.text.push_str(&format!(
            "    Provider: {} ({})\n    Updated: {}, {}\n",
            unknown(&summary.provider),
            unknown(&summary.model),
            updated(summary),
            plural(summary.messages, "message"),
        ));
        if let Some(from) = &summary.forked_from {
            self.text.push_str(&format!("    Fork of: {}\n", harmless(from)));
        }
    }

    fn finish(self) -> String {
        if self.total == 0 && self.filtered {
            return String::from("No conversation matches. List all: rejoin list\n");
        }
        if self.total == 0 {
            return String::from("No saved conversations.\nCreate one: rejoin new\n");
        }
        let mut text =
            format!("Saved Conversations:\n{}\nTotal: {} conversation(s)\n", self.text, self.total);
        if self.hidden() > 0 {
            text.push_str(&format!("{}\n", self.more()));
        }
        text
    }

    fn hidden(&self) -> u64 {
        self.total.saturating_sub(self.shown)
    }

    fn more(&self) -> String {
        format!("The newest {} of {} are shown; `--limit N` or `--all` shows more.", self.shown, self.total)
    }
}

/// When something was last said, as a person's clock shows it. Of a file that says nothing and has no time it is not known.
fn updated(summary: &Summary) -> String {
    let known = summary.updated != Timestamp::UNIX_EPOCH;
    if known { local_time(summary.updated) } else { String::from("unknown") }
}

fn json(summary: &Summary, active: Option<ConversationId>) -> String {
    Object::new()
        .text("id", summary.id)
        .text_or_null("title", summary.title.as_deref())
        .text("state", summary.shown_state().name())
        .text_or_null("provider", summary.provider.as_deref())
        .text_or_null("model", summary.model.as_deref())
        .text_or_null("directory", summary.directory.as_deref())
        .text_or_null("format", summary.format.as_deref())
        .text_or_null("forked_from", summary.forked_from.as_deref())
        .number("messages", summary.messages)
        .text("created_at", summary.created)
        .text("updated_at", summary.updated)
        .flag("active", active == Some(summary.id))
        .finish()
}

/// A title that fits on a line.
fn short(title: &str) -> String {
    let mut short: String = title.chars().take(TITLE_CHARS).collect();
    if short.len() < title.len() {
        short.push('…');
    }
    short
}
