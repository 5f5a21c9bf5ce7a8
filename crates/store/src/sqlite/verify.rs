//! Verifying a file: every entry, every reference, and whether the lists agree with what is there.

use rejoin_record::ConversationId;
use rusqlite::Connection;

use super::{Sqlite, failed, lock, opening, reading, schema::version};
use crate::{
    error::StoreError,
    index::Index,
    scan,
    store::{Place, Problem, Store as _, Verified},
};

/// Verifies one conversation, or the whole file.
pub(super) fn verify(
    store: &Sqlite,
    conversation: Option<ConversationId>,
    each: &mut dyn FnMut(Problem),
) -> Result<Verified, StoreError> {
    if let Some(conversation) = conversation {
        return scan::verify_one(store, conversation, each);
    }
    let known = lock(&store.inner.damage).clone();
    for damage in &known {
        each(Problem { torn: damage.torn, ..problem(damage.why.clone()) });
    }
    let found = std::cell::RefCell::new(Vec::new());
    let mut all = Verified::default();
    let mut ids = match store.ids("", usize::MAX) {
        Ok(ids) => ids,
        Err(why) => {
            each(problem(format!("the list of conversations cannot be read: {why}")));
            Vec::new()
        }
    };
    let unlisted = store.attempt(|| {
        let mut reader = store.inner.moment()?;
        let reader = reader.reader.as_mut().expect("BUG: just borrowed");
        reading::unlisted(reader).map_err(failed("looking for the beginnings of conversations"))
    });
    for id in unlisted.unwrap_or_default() {
        let what = format!("{id} has entries but is not in the list of conversations");
        each(Problem { conversation: Some(id), ..problem(what) });
        ids.push(id);
    }
    for id in ids {
        match scan::verify_one(store, id, each) {
            Ok(one) => {
                all.conversations += 1;
                all.entries += one.entries;
            }
            // It was deleted a moment ago.
            Err(StoreError::NotFound(_)) => {}
            Err(why) => each(Problem { conversation: Some(id), ..problem(why.to_string()) }),
        }
    }
    structure(&store.inner.reader()?.connection, each)?;
    // Damage that was met on the way.
    for damage in lock(&store.inner.damage).iter().skip(known.len()) {
        each(Problem { torn: damage.torn, ..problem(damage.why.clone()) });
    }
    if lock(&store.inner.salvage).is_some() {
        // The store's own index knows what was there.
        let index = opening::index_of(&store.inner.path);
        Index::missing(&index, &*store.inner).iter().for_each(|lost| each(lost.problem()));
    }
    store.attempt(|| Index::verify(&*store.inner, &mut |problem| found.borrow_mut().push(problem)))?;
    found.into_inner().into_iter().for_each(each);
    Ok(all)
}

/// The schema that brought large strings a table of their own.
const BLOBS: i64 = 2;

/// What is wrong with a use of a large string that is not there.
const USES: &str = "uses of large strings lead nowhere";

fn problem(what: String) -> Problem {
    Problem { conversation: None, place: Place::Store, what, torn: false }
}

/// What the database itself says of its pages, and rows that belong to nothing.
fn structure(connection: &Connection, each: &mut dyn FnMut(Problem)) -> Result<(), StoreError> {
    let mut statement =
        connection.prepare("PRAGMA integrity_check(20)").map_err(failed("checking the file"))?;
    let mut rows = statement.query([]).map_err(failed("checking the file"))?;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let said: String = row.get(0).unwrap_or_default();
                if said != "ok" {
                    each(problem(said));
                }
            }
            Ok(None) => break,
            Err(why) => {
                each(problem(why.to_string()));
                break;
            }
        }
    }
    // A store of an older version that is only read has no table of large strings yet.
    let blobs = version(connection).is_ok_and(|schema| schema >= BLOBS);
    for (query, what) in [
        (
            "SELECT count(*) FROM entry WHERE conversation NOT IN (SELECT key FROM conversation)",
            "entries belong to no conversation",
        ),
        (
            "SELECT count(*) FROM conversation WHERE NOT EXISTS \
             (SELECT 1 FROM entry WHERE entry.conversation = conversation.key)",
            "conversations have no entries",
        ),
        (
            "SELECT count(*) FROM blob_use WHERE blob NOT IN (SELECT key FROM blob) \
             OR entry NOT IN (SELECT key FROM entry)",
            USES,
        ),
    ] {
        if what == USES && !blobs {
            continue;
        }
        match connection.query_row(query, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => {}
            Ok(count) => each(problem(format!("{count} {what}"))),
            Err(why) => each(problem(why.to_string())),
        }
    }
    Ok(())
}
