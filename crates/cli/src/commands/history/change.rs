//! What changes a conversation: rename, fork, erase, delete. The last two are for good, and asked about.

use rejoin::{
    ConversationId,
    engine::{self, EngineError, Mode},
    record::EntryId,
    store::{Store, Summary},
};

use super::numbers::{self, What};
use crate::{
    args::{DeleteArguments, EraseArguments, ForkArguments, RenameArguments},
    commands::asking::sure,
    desk::{self, Desk, Flags},
    failure::Failure,
    json::Object,
    output::{self, harmless, plural},
};

/// Gives a conversation a title.
pub fn rename(arguments: &RenameArguments, flags: &Flags) -> Result<u8, Failure> {
    let title = arguments.title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() {
        return Err(Failure::Usage {
            what: String::from("the title is empty"),
            hint: Some(String::from("`rejoin history rename ID 'A title'`")),
        });
    }
    let desk = Desk::new(flags)?;
    let (store, id) = desk.find_to_write(&arguments.conversation)?;
    desk::writer(&*store, "rejoin history rename").rename(id, &title)?;
    desk::settle(&*store);
    output::talk(&format!("{id} is now called: {}", harmless(&title)));
    Ok(0)
}

/// Makes a conversation of its own out of another.
pub fn fork(arguments: &ForkArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let (store, id) = desk.find_to_write(arguments.which.given())?;
    let at = match arguments.at {
        None => None,
        Some(number) => {
            let recorded = desk::read(&*store, id, Mode::Recover)?;
            Some(entry(&numbers::shown(&recorded.entries), number)?)
        }
    };
    let new = desk::writer(&*store, "rejoin history fork").fork(id, at)?;
    desk::settle(&*store);
    desk.pointer().set(new)?;
    output::talk(&format!(
        "The fork is now the active conversation here. Back to the original: rejoin resume {id}"
    ));
    if arguments.json {
        let object = Object::new().text("id", &new.to_string()).text("from", &id.to_string());
        output::raw_data(&object.finish())?;
    } else {
        output::raw_data(&new.to_string())?;
    }
    Ok(0)
}

/// Removes the content of messages.
pub fn erase(arguments: &EraseArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let (store, id) = desk.find_to_write(arguments.which.given())?;
    named_for_good(&*store, arguments.which.given(), id, arguments.yes)?;
    let recorded = desk::read(&*store, id, Mode::Recover)?;
    let shown = numbers::shown(&recorded.entries);
    let mut entries = Vec::new();
    for number in &arguments.messages {
        let entry = entry(&shown, *number)?;
        let gone = matches!(shown[*number].what, What::Erased);
        if !gone && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        output::talk("They are erased already.");
        return Ok(0);
    }
    let count = plural(entries.len() as u64, "message");
    let title = title(&store.summary(id).unwrap_or_else(|_| Summary::new(id)));
    let question = format!("Erase the content of {count} of {id} ({title})? This cannot be undone.");
    sure(&question, "erasing messages", arguments.yes)?;
    let reason = arguments.reason.as_deref();
    desk::writer(&*store, "rejoin history erase").erase(id, &entries, reason)?;
    desk::settle(&*store);
    output::talk(&format!("{id}: the content of {count} is gone, hashes stay."));
    Ok(0)
}

/// Removes a conversation.
pub fn delete(arguments: &DeleteArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = Desk::new(flags)?;
    let (store, id) = desk.find_to_write(arguments.which.given())?;
    named_for_good(&*store, arguments.which.given(), id, arguments.yes)?;
    let summary = store.summary(id).unwrap_or_else(|_| Summary::new(id));
    let question = format!(
        "Delete {id} ({}, {})? This cannot be undone.",
        title(&summary),
        plural(summary.messages, "message")
    );
    sure(&question, "deleting a conversation", arguments.yes)?;
    let failed = |why| Failure::from(EngineError::Store(why));
    let lock = store.lock(id, &desk::holder("rejoin history delete")).map_err(failed)?;
    store.delete(id).map_err(failed)?;
    drop(lock);
    desk::settle(&*store);
    let pointer = desk.pointer();
    if pointer.get() == Some(id) {
        pointer.clear()?;
    }
    output::talk(&format!("Deleted conversation: {id}"));
    Ok(0)
}

/// Refuses a part of a title where nobody is asked: what is gone for good must have been named.
fn named_for_good(store: &dyn Store, given: &str, id: ConversationId, yes: bool) -> Result<(), Failure> {
    if !yes || engine::names_exactly(store, given, id)? {
        return Ok(());
    }
    let summary = store.summary(id).unwrap_or_else(|_| Summary::new(id));
    Err(Failure::Usage {
        what: format!("`{given}` is only a part of the title of {id} ({})", title(&summary)),
        hint: Some(format!("name it exactly: {id}")),
    })
}

/// The entry of a number.
fn entry(shown: &[numbers::Shown<'_>], number: usize) -> Result<EntryId, Failure> {
    let found = shown.get(number).map(|shown| shown.entry.id());
    found.ok_or_else(|| EngineError::NoSuchMessage(number.to_string()).into())
}

fn title(summary: &Summary) -> String {
    harmless(summary.title.as_deref().unwrap_or("untitled"))
}
