//! Verifies a file: every entry, every reference, and whether lists agree with the record.

use std::{collections::HashMap, ops::ControlFlow, sync::atomic::Ordering};

use rejoin_record::{
    ConversationId,
    text::{agreeing, plural},
};
use rusqlite::Connection;

use super::{ErrorContext as _, Inner, Sqlite, lock, opening, reading, schema::version};
use crate::{
    digest::Digester,
    error::{StoreError, StoreResult},
    index::{Feed as _, glance, lost},
    scan,
    store::{Damage, EachProblem, Problem, Query, StoragePlace, Store as _, StoredItem, Verified},
    summary::{Summary, Tally},
};

/// Verifies one conversation, or the whole file.
pub(super) fn verify(
    store: &Sqlite,
    conversation: Option<ConversationId>,
    each: EachProblem<'_>,
) -> StoreResult<Verified> {
    if let Some(conversation) = conversation {
        return scan::verify_one(store, conversation, each);
    }
    let inner = &*store.inner;
    let known = lock(&inner.damage).clone();
    known.iter().for_each(|damage| each(of_store(damage)));
    let mut all = Verified::default();
    let mut ids = match store.ids("", usize::MAX) {
        Ok(ids) => ids,
        Err(why) => {
            each(problem(None, format!("the list of conversations cannot be read: {why}")));
            Vec::new()
        }
    };
    let unlisted = store.attempt(|| {
        let mut reader = inner.moment()?;
        reading::unlisted(&mut reader).during("looking for the beginnings of conversations")
    });
    for id in unlisted.unwrap_or_default() {
        each(problem(Some(id), format!("{id} has entries but is not in the list of conversations")));
        ids.push(id);
    }
    let mut listing = store.attempt(|| Listing::of(inner))?;
    for id in ids {
        let verified = scan::verify_with(id, each, |sink| {
            store.read(id, 0, &mut |item| {
                let row = if let StoredItem::Entry(entry) = &item { entry.envelope().seq } else { 0 };
                if let Some(listing) = &mut listing {
                    listing.take(id, &item, inner.digester);
                }
                sink(StoragePlace::Row(row), item);
                ControlFlow::Continue(())
            })
        });
        if let Some(read) = listing.as_mut().and_then(|listing| listing.read.get_mut(&id)) {
            // If the conversation was deleted a moment ago, its state does not matter.
            let _ = read.settle(|newest| scan::entries(newest, |each| store.read(id, 0, each)));
        }
        match verified {
            Ok(one) => all.add(one),
            // It was deleted a moment ago.
            Err(StoreError::NotFound(_)) => {}
            Err(why) => each(problem(Some(id), why.to_string())),
        }
    }
    structure(&inner.reader()?.connection, each)?;
    // Also report damage that was found on the way.
    lock(&inner.damage).iter().skip(known.len()).for_each(|damage| each(of_store(damage)));
    if lock(&inner.salvage).is_some()
        && let Ok(index) = glance(&opening::index_of(&inner.path))
    {
        // The store's own index knows which entries existed.
        inner.lost(&index).unwrap_or_default().iter().for_each(|lost| each(lost.problem()));
    }
    if let Some(listing) = listing {
        store.attempt(|| listing.compare(inner))?.into_iter().for_each(&mut *each);
    }
    let missed = inner.index.missed(inner, |lost| inner.has(lost));
    missed.iter().for_each(|lost| each(lost.problem()));
    if !missed.is_empty() {
        each(lost::advice(&inner.path()));
    }
    Ok(all)
}

/// The list of conversations, with summaries of the entries that were read, to compare them.
struct Listing {
    listed: HashMap<ConversationId, Summary>,
    read: HashMap<ConversationId, Tally>,
    /// The number of removals, and which file was open.
    as_of: (i64, u64),
}

impl Listing {
    /// `None` if there is no usable index; lists then come from the record itself.
    fn of(inner: &Inner) -> StoreResult<Option<Self>> {
        if !inner.index.exists(inner) {
            return Ok(None);
        }
        let as_of = now(inner)?;
        match inner.index.list(inner, &Query::default()) {
            Err(why) if why.is_damage() => Err(why),
            Err(why) => {
                tracing::debug!("verifying without the index: {why}");
                Ok(None)
            }
            Ok(page) => {
                let listed = page.conversations.into_iter().map(|summary| (summary.id, summary)).collect();
                Ok(Some(Self { listed, read: HashMap::new(), as_of }))
            }
        }
    }

    /// Adds an item that was read, up to the newest entry in the list, because other processes may append meanwhile.
    fn take(&mut self, id: ConversationId, item: &StoredItem, digester: Digester) {
        let read = self.read.entry(id).or_insert_with(|| Tally::new(id, digester));
        let last = self.listed.get(&id).and_then(|listed| listed.tail).map(|tail| tail.seq);
        match item {
            StoredItem::Entry(entry) if last.is_none_or(|last| entry.envelope().seq <= last) => {
                read.add(entry);
            }
            StoredItem::Entry(_) => {}
            StoredItem::Damage(damage) => read.note_damage(!damage.torn),
        }
    }

    /// The differences between the list and the record. If there are any, a new index is made.
    fn compare(&self, inner: &Inner) -> StoreResult<Vec<Problem>> {
        let (mut found, mut is_stale) = (Vec::new(), false);
        if let Some(why) = inner.index.damaged_words(inner) {
            is_stale = true;
            found.push(problem(None, format!("the search index is damaged: {why}; it is rebuilt")));
        }
        for (id, listed) in &self.listed {
            let what = match self.read.get(id).map(Tally::summary) {
                Some(read) if read == listed => continue,
                Some(read) if read.entries < listed.entries => {
                    let missing = listed.entries - read.entries;
                    let entries = plural(listed.entries, "entry");
                    format!("{missing} of its {entries} {} missing", agreeing(missing, "is", "are"))
                }
                Some(_) => {
                    is_stale = true;
                    String::from("the list differs from the record; it is rebuilt")
                }
                // The conversation may be newer than the list.
                None if inner.ends_of(*id)?.is_some() => continue,
                None => String::from("it is listed, and not in the record"),
            };
            found.push(problem(Some(*id), what));
        }
        if self.read.keys().any(|id| !self.listed.contains_key(id)) {
            is_stale = true;
            found.push(problem(None, "the list lacks conversations; it is rebuilt"));
        }
        // If entries were removed meanwhile, the two cannot be compared.
        if now(inner)? != self.as_of {
            return Ok(Vec::new());
        }
        if is_stale {
            let _ = inner.index.wipe(inner);
        }
        Ok(found)
    }
}

/// The number of removals, and which file is open.
fn now(inner: &Inner) -> StoreResult<(i64, u64)> {
    Ok((inner.removed()?, inner.opening.load(Ordering::Acquire)))
}

/// The first schema version with a table for large strings.
const BLOBS: i64 = 2;

fn problem(conversation: Option<ConversationId>, what: impl Into<String>) -> Problem {
    Problem::of(conversation, StoragePlace::Store, what)
}

fn of_store(damage: &Damage) -> Problem {
    Problem { torn: damage.torn, ..problem(None, damage.why.clone()) }
}

/// Runs the database's own check of the pages, and finds rows that belong to nothing.
fn structure(connection: &Connection, each: EachProblem<'_>) -> StoreResult<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check(20)").during("checking the file")?;
    let mut rows = statement.query([]).during("checking the file")?;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let said: String = row.get(0).unwrap_or_default();
                if said != "ok" {
                    each(problem(None, said));
                }
            }
            Ok(None) => break,
            Err(why) => {
                each(problem(None, why.to_string()));
                break;
            }
        }
    }
    // A store of an older version that is only read has no table for large strings yet.
    let blobs = version(connection).is_ok_and(|schema| schema >= BLOBS);
    for (query, (noun, [one, many], rest), is_there) in [
        (
            "SELECT count(*) FROM entry WHERE conversation NOT IN (SELECT key FROM conversation)",
            ("entry", ["belongs", "belong"], "to no conversation"),
            true,
        ),
        (
            "SELECT count(*) FROM conversation WHERE NOT EXISTS \
             (SELECT 1 FROM entry WHERE entry.conversation = conversation.key)",
            ("conversation", ["has", "have"], "no entries"),
            true,
        ),
        (
            "SELECT count(*) FROM blob_use WHERE blob NOT IN (SELECT key FROM blob) \
             OR entry NOT IN (SELECT key FROM entry)",
            ("use", ["of a large string leads", "of large strings lead"], "nowhere"),
            blobs,
        ),
    ] {
        if !is_there {
            continue;
        }
        match connection.query_row(query, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => {}
            Ok(count) => {
                let count = count.unsigned_abs();
                let what = format!("{} {} {rest}", plural(count, noun), agreeing(count, one, many));
                each(problem(None, what));
            }
            Err(why) => each(problem(None, why.to_string())),
        }
    }
    Ok(())
}
