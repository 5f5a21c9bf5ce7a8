//! `rejoin history show --follow`: shows new messages as they arrive, whichever process appends them.

use std::{collections::HashSet, ops::ControlFlow, thread, time::Duration};

use rejoin::{
    ConversationId,
    engine::EngineError,
    history,
    record::{Entry, EntryId, Tail},
    store::{Store, StoreError, StoredItem},
};

use super::shape::numbered;
use crate::{context, failure::Failure, output, signals::SignalWatch};

/// How long one call waits for the store.
const LONG: Duration = Duration::from_secs(60);

/// How long to wait before trying again while the store is unreachable.
const AWAY: Duration = Duration::from_secs(1);

/// How messages are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printing {
    ForPeople,
    Json,
}

/// Prints the messages after these entries, until Ctrl-C.
pub fn run(
    store: &dyn Store,
    id: ConversationId,
    mut entries: Vec<Entry>,
    printing: Printing,
) -> Result<u8, Failure> {
    // Nothing is half written at any time, so exit at once.
    let _signals = SignalWatch::start(|| std::process::exit(0));
    output::talk("Waiting for new messages. Ctrl-C stops.");
    let mut printed: HashSet<EntryId> =
        history::shown(&entries).iter().map(|shown| shown.entry.id()).collect();
    let mut tail = entries.last().map(Tail::of);
    let mut is_away = false;
    loop {
        match next(store, id, tail, &mut entries) {
            Ok(found) => {
                tail = Some(found);
                is_away = false;
            }
            Err(why) if why.is_unwritable() => {
                if !std::mem::replace(&mut is_away, true) {
                    output::note(format!("{why}; trying again every second"));
                }
                thread::sleep(AWAY);
            }
            Err(why) => return Err(context::loading(store, EngineError::Store(why))),
        }
        for (number, shown) in history::shown(&entries).iter().enumerate() {
            if !printed.insert(shown.entry.id()) {
                continue;
            }
            match printing {
                Printing::Json => output::json_data(&shown.to_json(number))?,
                Printing::ForPeople => {
                    let text = numbered(shown, number);
                    output::data(output::data_in_rows(&text).trim_end_matches('\n'))?;
                }
            }
        }
    }
}

/// Waits for entries after the tail, and adds them. Returns the new tail.
fn next(
    store: &dyn Store,
    id: ConversationId,
    tail: Option<Tail>,
    entries: &mut Vec<Entry>,
) -> Result<Tail, StoreError> {
    let found = store.wait(id, tail, LONG)?.ok_or(StoreError::NotFound(id))?;
    if tail == Some(found) {
        return Ok(found);
    }
    store.read(id, tail.map_or(0, |tail| tail.seq + 1), &mut |item| {
        if let StoredItem::Entry(entry) = item {
            entries.push(entry);
        }
        ControlFlow::Continue(())
    })?;
    // More entries may have arrived before reading; fewer are readable if some are damaged.
    let last = entries.last().map(Tail::of).filter(|last| last.seq > found.seq);
    Ok(last.unwrap_or(found))
}
