//! `rejoin history search`: finds messages by their words.

use rejoin::{
    history,
    record::limits,
    shape,
    store::{Excerpt, Search},
};

use crate::{args::SearchArguments, commands::prelude::*};

pub fn run(arguments: &SearchArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let words = arguments.words.join(" ");
    let (store, within) = cli.find_or_all(arguments.session.as_deref())?;
    let search = Search { words: words.clone(), limit: arguments.limit, within, ..Search::default() };
    if search.is_too_long() {
        return Err(Failure::usage(
            format!("a search takes at most {} words", limits::QUERY_WORDS),
            "search for a few words that stand out: rejoin history search \"a phrase\"",
        ));
    }
    let hits = match &store {
        None => Vec::new(),
        Some(store) => store.search(&search).map_err(|why| context::unusable(store.location(), why))?,
    };
    let numbers = store.as_deref().map(|store| history::numbers_of(store, &hits)).unwrap_or_default();
    if arguments.json {
        hits.iter()
            .try_for_each(|hit| output::json_data(&shape::hit(hit, numbers.get(&hit.entry).copied())))?;
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
    cli.show(&text)?;
    Ok(0)
}

/// An excerpt on one line. Hits are coloured, or between stars if colours are off.
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
