//! `rejoin history search`: who said it, and where.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use rejoin::{
    record::{EntryId, limits},
    store::{Excerpt, Hit, Item, Search, Store},
};

use super::numbers;

use crate::{
    args::SearchArguments,
    desk::{self, Desk, Flags},
    failure::Failure,
    json::Object,
    output::{self, harmless, local_time, paint},
};

/// Searches.
pub fn run(arguments: &SearchArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let words = arguments.words.join(" ");
    let search = Search { words: words.clone(), limit: arguments.limit, within: None };
    if search.is_too_long() {
        return Err(Failure::Usage {
            what: format!("a search takes at most {} words", limits::QUERY_WORDS),
            hint: Some(String::from(
                "search for a few words that stand out: rejoin history search \"a phrase\"",
            )),
        });
    }
    let store = match &arguments.session {
        Some(given) => Some(desk.find(given).map(|(store, id)| (store, Some(id)))?),
        None => desk.read_store()?.map(|store| (store, None)),
    };
    let hits = match &store {
        None => Vec::new(),
        Some((store, within)) => {
            let search = Search { within: *within, ..search };
            store.search(&search).map_err(|why| desk::unusable(store.location(), why))?
        }
    };
    let numbers = store.as_ref().map(|(store, _)| numbers_of(&**store, &hits)).unwrap_or_default();
    if arguments.json {
        hits.iter().try_for_each(|hit| output::json_data(&as_json(hit, numbers.get(&hit.entry).copied())))?;
        return Ok(0);
    }
    if hits.is_empty() {
        output::talk(&format!("Nothing found for: {}", harmless(&words)));
        return Ok(0);
    }
    let mut text = String::new();
    for hit in &hits {
        let title = harmless(hit.title.as_deref().unwrap_or("(untitled)"));
        text.push_str(&format!("{}  {title}\n", paint(&hit.conversation.to_string(), output::STRONG)));
        let role = harmless(&hit.role).to_uppercase();
        let number = numbers.get(&hit.entry).map_or_else(String::new, |number| format!("[{number}] "));
        let time = paint(&local_time(hit.time), output::DIM);
        text.push_str(&format!("    {number}{role}  {time}\n    {}\n\n", marked(&hit.excerpt)));
    }
    desk.show(&text)?;
    Ok(0)
}

/// The numbers of hits, as `history show` numbers messages. What lies on another branch, and a title, has none.
fn numbers_of(store: &dyn Store, hits: &[Hit]) -> HashMap<EntryId, usize> {
    let mut found = HashMap::new();
    for conversation in hits.iter().map(|hit| hit.conversation).collect::<HashSet<_>>() {
        let mut entries = Vec::new();
        let read = store.read(conversation, 0, &mut |item| {
            if let Item::Entry(entry) = item {
                entries.push(entry);
            }
            ControlFlow::Continue(())
        });
        if let Err(why) = read {
            // It was found a moment ago. Whoever asks for it next is told more.
            tracing::debug!("{conversation} has no message numbers: {why}");
            continue;
        }
        let wanted: HashSet<EntryId> =
            hits.iter().filter(|hit| hit.conversation == conversation).map(|hit| hit.entry).collect();
        let shown = numbers::shown(&entries);
        let numbered = shown.iter().enumerate().map(|(number, shown)| (shown.entry.id(), number));
        found.extend(numbered.filter(|(entry, _)| wanted.contains(entry)));
    }
    found
}

/// An excerpt on one line; hits in colour, between stars where there is none.
fn marked(excerpt: &Excerpt) -> String {
    let colour = output::has_colour();
    let pieces = excerpt.pieces.iter().map(|(piece, hit)| {
        let piece = harmless(&piece.replace(['\n', '\r', '\t'], " "));
        match (hit, colour) {
            (false, _) => piece,
            (true, true) => paint(&piece, output::HIT),
            (true, false) => format!("*{piece}*"),
        }
    });
    pieces.collect()
}

fn as_json(hit: &Hit, number: Option<usize>) -> String {
    let plain: String = hit.excerpt.pieces.iter().map(|(piece, _)| piece.as_str()).collect();
    let hits = hit.excerpt.pieces.iter().filter(|(_, hit)| *hit);
    Object::new()
        .text("conversation", hit.conversation)
        .text_or_null("title", hit.title.as_deref())
        .text("entry", hit.entry)
        .number("seq", hit.seq)
        .raw("message", &number.map_or_else(|| String::from("null"), |number| number.to_string()))
        .text("time", hit.time)
        .text("role", &hit.role)
        .text("excerpt", &plain)
        .list("hits", hits.map(|(piece, _)| crate::json::quoted(piece)))
        .raw("score", &score(hit.score))
        .finish()
}

/// A number that JSON has.
fn score(score: f64) -> String {
    if score.is_finite() { score.to_string() } else { String::from("null") }
}
