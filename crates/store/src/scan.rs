//! Summaries, lists, search and verification by reading all entries, and the checks of appended entries. It is slow but always
//! right: tests compare the index with it.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::mpsc,
};

use jiff::Timestamp;
use rejoin_record::{
    Content, ConversationId, Entry, EntryId, Hash, Kind, Tail, limits,
    verify::{Discrepancy, verify_order},
};

use crate::{
    digest::{Digester, Words},
    error::{StoreError, StoreResult},
    store::{
        Cursor, EachProblem, Excerpt, Hit, OnItem, Page, Problem, Query, Search, StoragePlace, Store,
        StoredItem, Verified,
    },
    summary::{Summary, Tally},
};

/// Checks that entries follow a tail and each other. Their parents and hashes are checked by [`check_seals`].
pub(crate) fn check_batch(after: Option<Tail>, entries: &[Entry]) -> StoreResult<()> {
    let mut ids = HashSet::with_capacity(entries.len());
    for (seq, entry) in (after.map_or(0, |tail| tail.seq + 1)..).zip(entries) {
        let envelope = entry.envelope();
        if envelope.seq != seq {
            return Err(StoreError::BrokenBatch("a number is missing or repeated"));
        }
        if (seq == 0) != (envelope.kind == Kind::Header) || (seq == 0) != envelope.parent.is_none() {
            return Err(StoreError::BrokenBatch("the header must come first, and only there"));
        }
        if !ids.insert(entry.id()) {
            return Err(StoreError::BrokenBatch("an id occurs twice"));
        }
    }
    Ok(())
}

/// The `seq` and the hash of an entry's parent; `None` for a header.
pub(crate) type Parent = Option<(u64, Hash)>;

/// Checks that entries after a tail are sealed onto their parents: otherwise they could not be read later. `stored` looks up
/// parents that are neither the tail nor among the entries. Returns the parent of each entry.
pub(crate) fn check_seals(
    tail: Option<Tail>,
    entries: &[Entry],
    mut stored: impl FnMut(EntryId) -> StoreResult<Parent>,
) -> StoreResult<Vec<Parent>> {
    let mut known: HashMap<EntryId, (u64, Hash)> = HashMap::with_capacity(entries.len() + 1);
    known.extend(tail.map(|tail| (tail.id, (tail.seq, tail.hash))));
    let mut parents = Vec::with_capacity(entries.len());
    for entry in entries {
        let parent = match entry.envelope().parent {
            None => None,
            Some(id) => {
                let found = known.get(&id).copied().map_or_else(|| stored(id), |found| Ok(Some(found)))?;
                Some(found.ok_or(StoreError::BrokenBatch("the parent of an entry is missing"))?)
            }
        };
        if !entry.verifies(parent.map(|(_, hash)| hash)) {
            return Err(StoreError::BrokenBatch("an entry is not sealed onto its parent"));
        }
        known.insert(entry.id(), (entry.envelope().seq, entry.hash()));
        parents.push(parent);
    }
    Ok(parents)
}

/// How many of the entries, counted from the first, are already stored, if `stored` are the entries after the tail. `None` if those
/// differ.
pub(crate) fn already(stored: &[(EntryId, Hash)], entries: &[Entry]) -> Option<usize> {
    let same =
        stored.iter().zip(entries).all(|((id, hash), entry)| *id == entry.id() && *hash == entry.hash());
    (same && stored.len() <= entries.len()).then_some(stored.len())
}

/// The doubt about an entry with a sound body whose parent is lost. Its hash covers the parent's hash, so it cannot be checked.
pub(crate) fn unproven(entry: EntryId) -> String {
    format!("the entry before {entry} is lost, so nothing proves that its time is unchanged")
}

/// The number of items that one thread passes to the other at once.
const AT_ONCE: usize = 64;

/// Reads items in one thread and uses them in another, in order.
pub(crate) fn in_two_threads<T: Send, R: Send>(
    read: impl FnOnce(&mut dyn FnMut(T) -> ControlFlow<()>) -> R + Send,
    each: &mut dyn FnMut(T) -> ControlFlow<()>,
) -> R {
    let (send, receive) = mpsc::sync_channel::<Vec<T>>(8);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut batch = Vec::with_capacity(AT_ONCE);
            let done = read(&mut |one| {
                batch.push(one);
                if batch.len() < AT_ONCE {
                    return ControlFlow::Continue(());
                }
                // If the other thread has stopped, it needs no more.
                let sent = send.send(std::mem::replace(&mut batch, Vec::with_capacity(AT_ONCE)));
                if sent.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let _ = send.send(batch);
            done
        });
        let _ = receive.iter().flatten().try_for_each(each);
        drop(receive);
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The summary of a conversation, from its entries.
pub(crate) fn summary(
    store: &dyn Store,
    conversation: ConversationId,
    digester: Digester,
) -> StoreResult<Summary> {
    tally(store, conversation, digester).map(Tally::into_summary)
}

/// The summary of a conversation, with the kept state of its digester.
pub(crate) fn tally(
    store: &dyn Store,
    conversation: ConversationId,
    digester: Digester,
) -> StoreResult<Tally> {
    let mut tally = Tally::new(conversation, digester);
    store.read(conversation, 0, &mut |item| {
        match item {
            StoredItem::Entry(entry) => drop(tally.add(&entry)),
            StoredItem::Damage(damage) => tally.note_damage(!damage.torn),
        }
        ControlFlow::Continue(())
    })?;
    tally.settle(|newest| entries(newest, |each| store.read(conversation, 0, each)))?;
    Ok(tally)
}

/// The readable entries of a conversation, up to a `seq`. `read` reads the whole conversation.
pub(crate) fn entries(
    newest: u64,
    read: impl FnOnce(OnItem<'_>) -> StoreResult<()>,
) -> StoreResult<Vec<Entry>> {
    let mut entries = Vec::new();
    read(&mut |item| match item {
        StoredItem::Entry(entry) if entry.envelope().seq > newest => ControlFlow::Break(()),
        StoredItem::Entry(entry) => {
            entries.push(entry);
            ControlFlow::Continue(())
        }
        StoredItem::Damage(_) => ControlFlow::Continue(()),
    })?;
    Ok(entries)
}

/// The most entries that are read to check the beginning of a conversation.
const BEGINNING: u64 = 8;

/// Whether the header or the first message of a conversation cannot be read. Reads only a few entries, however long it is.
pub(crate) fn beginning_is_damaged(store: &dyn Store, conversation: ConversationId) -> StoreResult<bool> {
    let (mut damaged, mut next) = (false, 0);
    store.read(conversation, 0, &mut |item| {
        let last = match item {
            StoredItem::Entry(entry) => {
                damaged |= entry.envelope().seq != next;
                entry.envelope().kind == Kind::Message
            }
            StoredItem::Damage(damage) => {
                damaged |= !damage.torn;
                false
            }
        };
        next += 1;
        if damaged || last || next == BEGINNING { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(damaged || next == 0)
}

/// A page of conversations, from their entries.
pub(crate) fn list(
    store: &dyn Store,
    ids: &[ConversationId],
    digester: Digester,
    query: &Query,
) -> StoreResult<Page> {
    let mut all = Vec::new();
    for id in ids {
        match summary(store, *id, digester) {
            // It was deleted a moment ago.
            Err(StoreError::NotFound(_)) => {}
            summary => all.push(summary?),
        }
    }
    Ok(page(all, query))
}

pub(crate) fn page(mut all: Vec<Summary>, query: &Query) -> Page {
    all.retain(|summary| query.scope.admits(&summary.scope));
    let total = all.len() as u64;
    let key = |summary: &Summary| (std::cmp::Reverse(summary.updated), summary.id);
    all.sort_by_key(key);
    if let Some(after) = query.after {
        all.retain(|summary| key(summary) > (std::cmp::Reverse(after.updated), after.id));
    }
    let limit = query.limit.unwrap_or(usize::MAX);
    let more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| more).map(|last| Cursor { updated: last.updated, id: last.id });
    Page { conversations: all, total, next }
}

/// The parts of a query. Each is a word or a phrase, with whether it may be only a prefix. Words beyond the limit
/// ([`limits::QUERY_WORDS`]) are left out.
pub(crate) fn parts(words: &str) -> Vec<(Vec<String>, bool)> {
    let mut left = limits::QUERY_WORDS;
    let mut parts = all_parts(words);
    parts.retain_mut(|(words, _)| {
        words.truncate(left);
        left -= words.len();
        !words.is_empty()
    });
    parts
}

/// All parts of a query, however many there are.
pub(crate) fn all_parts(words: &str) -> Vec<(Vec<String>, bool)> {
    let mut parts = Vec::new();
    for (number, stretch) in words.split('"').enumerate() {
        if number % 2 == 1 {
            parts.push((stretch, false));
        } else {
            parts.extend(stretch.split_whitespace().map(|word| {
                let beginning = word.strip_suffix('*');
                (beginning.unwrap_or(word), beginning.is_some())
            }));
        }
    }
    let words = parts.into_iter().map(|(part, beginning)| (tokens(part), beginning));
    words.filter(|(words, _)| !words.is_empty()).collect()
}

/// The words of a text, folded in the way in which searches compare them.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    spans(text).into_iter().map(|(start, end)| text[start..end].to_lowercase()).collect()
}

/// The positions of the words of a text. In scripts that write no spaces, every character is a word.
pub(crate) fn spans(text: &str) -> Vec<(usize, usize)> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut open = false;
    for (place, c) in text.char_indices() {
        let end = place + c.len_utf8();
        if is_unspaced(c) {
            spans.push((place, end));
            open = false;
        } else if c.is_alphanumeric() {
            match spans.last_mut().filter(|_| open) {
                Some(span) => span.1 = end,
                None => spans.push((place, end)),
            }
            open = true;
        } else {
            open = false;
        }
    }
    spans
}

/// Whether a character belongs to a script that writes no spaces between words.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The number of characters before and after a hit in an excerpt.
const AROUND: usize = 60;

/// The part of a text around the first hit, with every hit in it marked, and the number of hits. `None` if some part of the query
/// does not occur.
pub(crate) fn excerpt(text: &str, parts: &[(Vec<String>, bool)]) -> Option<(Excerpt, usize)> {
    let spans = spans(text);
    let words: Vec<String> = spans.iter().map(|(start, end)| text[*start..*end].to_lowercase()).collect();
    let mut hits: Vec<(usize, usize)> = Vec::new();
    for (part, beginning) in parts {
        let before = hits.len();
        for first in 0..words.len().saturating_sub(part.len() - 1) {
            let matches = part.iter().enumerate().all(|(number, word)| {
                let said = &words[first + number];
                if *beginning && number + 1 == part.len() {
                    said.starts_with(word.as_str())
                } else {
                    said == word
                }
            });
            if matches {
                hits.push((spans[first].0, spans[first + part.len() - 1].1));
            }
        }
        if hits.len() == before {
            return None;
        }
    }
    hits.sort_unstable();
    let &(start, end) = hits.first()?;
    let from = text[..start].char_indices().rev().take(AROUND).last().map_or(0, |(place, _)| place);
    let to = text[end..].char_indices().nth(AROUND * 2).map_or(text.len(), |(place, _)| end + place);
    let mut pieces = Vec::new();
    let mut at = from;
    if from > 0 {
        pieces.push((String::from("…"), false));
    }
    for (start, end) in hits.iter().copied().filter(|(start, end)| *start >= from && *end <= to) {
        if start < at {
            continue;
        }
        pieces.push((text[at..start].to_owned(), false));
        pieces.push((text[start..end].to_owned(), true));
        at = end;
    }
    pieces.push((text[at..to].to_owned(), false));
    if to < text.len() {
        pieces.push((String::from("…"), false));
    }
    pieces.retain(|(piece, _)| !piece.is_empty());
    Some((Excerpt { pieces }, hits.len()))
}

/// The beginning of a text, without marks.
pub(crate) fn beginning(text: &str) -> Excerpt {
    let mut piece: String = text.chars().take(AROUND * 3).collect();
    if piece.len() < text.len() {
        piece.push('…');
    }
    Excerpt { pieces: vec![(piece, false)] }
}

/// Searches by reading all entries.
pub(crate) fn search(
    store: &dyn Store,
    conversations: &[ConversationId],
    digester: Digester,
    search: &Search,
) -> StoreResult<Vec<Hit>> {
    let parts = parts(&search.words);
    let mut found = Vec::new();
    if parts.is_empty() {
        return Ok(found);
    }
    for &conversation in conversations.iter().filter(|id| search.within.is_none_or(|within| within == **id)) {
        let first = found.len();
        let mut tally = Tally::new(conversation, digester);
        let read = store.read(conversation, 0, &mut |item| {
            if let StoredItem::Entry(entry) = item {
                let (words, time) = tally.add(&entry);
                let time = time.unwrap_or(entry.envelope().timestamp);
                found.extend(words.and_then(|words| hit(conversation, &entry, words, time, &parts)));
            }
            ControlFlow::Continue(())
        });
        // The conversation may have been deleted a moment ago.
        if !matches!(read, Err(StoreError::NotFound(_))) {
            read?;
        }
        if !search.scope.admits(&tally.summary().scope) {
            found.truncate(first);
        }
        for hit in &mut found[first..] {
            hit.title.clone_from(&tally.summary().title);
        }
    }
    rank(&mut found, search.limit);
    Ok(found)
}

/// An entry as a hit, without a title; `None` if some part of the query does not occur in its words.
pub(crate) fn hit(
    conversation: ConversationId,
    entry: &Entry,
    words: Words,
    time: Timestamp,
    parts: &[(Vec<String>, bool)],
) -> Option<Hit> {
    let (excerpt, count) = excerpt(&words.text, parts)?;
    let length = 1.0 + words.text.len() as f64 / 1000.0;
    Some(Hit {
        conversation,
        title: None,
        entry: entry.id(),
        seq: entry.envelope().seq,
        time,
        role: words.role,
        excerpt,
        score: -(count as f64) / length,
    })
}

/// Sorts the hits, best first, and drops those beyond a limit.
pub(crate) fn rank(found: &mut Vec<Hit>, limit: usize) {
    found.sort_by(|a, b| {
        let place = |hit: &Hit| (hit.conversation, hit.seq);
        a.score.total_cmp(&b.score).then(b.time.cmp(&a.time)).then_with(|| place(a).cmp(&place(b)))
    });
    found.truncate(limit);
}

/// Verifies the hashes of one conversation, and passes each problem to `each`.
pub(crate) fn verify_one(
    store: &dyn Store,
    conversation: ConversationId,
    each: EachProblem<'_>,
) -> StoreResult<Verified> {
    verify_with(conversation, each, |sink| {
        store.read(conversation, 0, &mut |item| {
            let row = if let StoredItem::Entry(entry) = &item { entry.envelope().seq } else { 0 };
            sink(StoragePlace::Row(row), item);
            ControlFlow::Continue(())
        })
    })
}

/// Verifies a conversation in a store that knows the place of each entry: `read` passes every item with its place.
pub(crate) fn verify_with(
    conversation: ConversationId,
    each: EachProblem<'_>,
    read: impl FnOnce(&mut dyn FnMut(StoragePlace, StoredItem)) -> StoreResult<()>,
) -> StoreResult<Verified> {
    let (mut entries, mut places) = (Vec::new(), HashMap::new());
    let mut damaged = false;
    read(&mut |place, item| match item {
        StoredItem::Entry(entry) => {
            places.insert(entry.id(), place);
            // Reading has verified the bodies, so a long conversation need not keep them all in memory.
            entries.push(if entry.envelope().seq > 0 { entry.erased() } else { entry });
        }
        StoredItem::Damage(damage) => {
            damaged |= !damage.torn;
            each(Problem {
                conversation: Some(conversation),
                place: damage.place,
                what: damage.why,
                torn: damage.torn,
            });
        }
    })?;
    for discrepancy in verify_order(&entries) {
        // Damage leaves gaps. They are reported only once, with the damage.
        let follows = matches!(
            discrepancy,
            Discrepancy::Sequence { .. } | Discrepancy::NoParent { .. } | Discrepancy::NoHeader
        );
        if damaged && follows {
            continue;
        }
        let place = match &discrepancy {
            Discrepancy::NoHeader => None,
            Discrepancy::Sequence { id, .. }
            | Discrepancy::Repeated(id)
            | Discrepancy::NoParent { id, .. }
            | Discrepancy::Rootless(id)
            | Discrepancy::Changed(id) => places.get(id).copied(),
        };
        let place = place.unwrap_or(StoragePlace::Store);
        each(Problem { conversation: Some(conversation), place, what: discrepancy.to_string(), torn: false });
    }
    // The conversation was found by its id, which the header must confirm.
    if let Some(Content::Header(header)) = entries.first().map(Content::of)
        && header.conversation != conversation
    {
        let what = format!("it is kept as {conversation}, but its header says {}", header.conversation);
        let place = entries.first().and_then(|entry| places.get(&entry.id()).copied());
        let place = place.unwrap_or(StoragePlace::Store);
        each(Problem { conversation: Some(conversation), place, what, torn: false });
    }
    Ok(Verified { conversations: 1, entries: entries.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_mark_every_hit() {
        let parts = parts("Straße \"two words\" pre*");
        assert_eq!(parts.len(), 3);
        let text = "the prefix, then STRASSE no, straße yes; two  words here";
        let (excerpt, count) = excerpt(text, &parts).unwrap();
        assert_eq!(count, 3);
        let marked: Vec<&str> =
            excerpt.pieces.iter().filter(|(_, hit)| *hit).map(|(text, _)| text.as_str()).collect();
        assert_eq!(marked, ["prefix", "straße", "two  words"]);
        assert!(super::excerpt("nothing", &parts).is_none());
    }

    #[test]
    fn scripts_without_spaces_are_searched_by_character() {
        let parts = parts("検索");
        assert!(excerpt("この検索は", &parts).is_some());
        assert!(excerpt("索検", &parts).is_none());
    }
}
