//! How often opening a conversation hashes an entry. It runs alone in its process, because it counts all hashes of the process.

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::{Arc, atomic::Ordering};

use rejoin_engine::{Conversation, Mode, New, SystemClock, open_store, read};
use rejoin_record::{Message, entry::BODIES_HASHED};
use rejoin_store::{Access, Location, Query, Store};

/// How many bodies are hashed while something is done.
fn hashed(work: impl FnOnce()) -> u64 {
    let before = BODIES_HASHED.load(Ordering::Relaxed);
    work();
    BODIES_HASHED.load(Ordering::Relaxed) - before
}

#[test]
fn an_entry_is_hashed_once_per_opening() {
    let folder = tempfile::tempdir().unwrap();
    for location in
        [Location::Sqlite(folder.path().join("rejoin.db")), Location::Jsonl(folder.path().join("chats"))]
    {
        let open = |access| -> Arc<dyn Store> { Arc::from(open_store(&location, access).unwrap()) };
        let mut talk = Conversation::create(open(Access::Write), &New::default(), "test");
        for number in 0..40 {
            talk.say(Message::user(format!("message {number}, and as many words as it takes")));
        }
        let (id, count) = (talk.id(), talk.entries().len() as u64);
        drop(talk);
        let store = open(Access::Write);
        // This lets the index read new entries, which must not count.
        store.list(&Query::default()).unwrap();
        let ways: [(&str, &dyn Fn()); 4] = [
            ("show", &|| drop(read(&*store, id, Mode::Strict).unwrap())),
            ("resume", &|| {
                let talk = Conversation::open(Arc::clone(&store), id, "test").unwrap();
                assert_eq!(talk.session().messages.len(), 40);
            }),
            ("look", &|| {
                let talk =
                    Conversation::open_read_only(Arc::clone(&store), Arc::new(SystemClock), id).unwrap();
                assert!(talk.findings().is_empty());
            }),
            ("verify one", &|| {
                store.verify(Some(id), &mut |problem| panic!("{problem:?}")).unwrap();
            }),
        ];
        for (way, work) in ways {
            assert_eq!(hashed(work), count, "{location}: {way}");
        }
        let all = hashed(|| {
            store.verify(None, &mut |problem| panic!("{problem:?}")).unwrap();
        });
        // Looking for conversations that the list lacks reads each header once more.
        assert!(all <= count + 1, "{location}: verifying everything hashes {all} bodies of {count} entries");
    }
}
