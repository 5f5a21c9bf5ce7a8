//! Saving whole lists of messages under ids of the caller's choice.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::{Arc, atomic::Ordering};

use rejoin_engine::{
    Conversation,
    compat::{Listed, SqliteStorage},
};
use rejoin_formats::Dialect;
use rejoin_record::{ConversationId, Kind, Message, Role, ToolCall};
use rejoin_store::Store;
use rejoin_view::{OnBroken, repair};
use support::{Fragile, assert_verifies, clock, stored};

/// A storage over a store that this test looks into.
fn storage() -> (SqliteStorage, Arc<Fragile>) {
    let store = Fragile::new();
    (over(&store), store)
}

fn over(store: &Arc<Fragile>) -> SqliteStorage {
    SqliteStorage::over(Arc::clone(store) as Arc<dyn Store>)
}

fn only(store: &dyn Store) -> ConversationId {
    store.ids("", 2).unwrap()[0]
}

fn talk(words: &[&str]) -> Vec<Message> {
    words
        .iter()
        .enumerate()
        .map(|(number, word)| if number % 2 == 0 { Message::user(*word) } else { Message::assistant(*word) })
        .collect()
}

/// S0-07: save, load, list and delete, under any id.
#[test]
fn the_whole_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let storage = SqliteStorage::new_with_path(folder.path().join("history.db")).unwrap();
    let messages = talk(&["hello", "hi"]);
    assert_eq!(storage.load("../odd id/é").unwrap(), None);
    storage.save_conversation("../odd id/é", "Odd", Some("llama2"), &messages).unwrap();
    let own = ConversationId::from_random(11).to_string();
    storage.save_conversation(&own, "", None, &messages[..1]).unwrap();
    let loaded = storage.load("../odd id/é").unwrap().unwrap();
    assert_eq!(loaded, (String::from("Odd"), Some(String::from("llama2")), messages));
    let (title, model, _) = storage.load(&own).unwrap().unwrap();
    assert_eq!((title.as_str(), model), ("hello", None), "without a title it is what was said first");
    let mut listed = storage.list().unwrap();
    listed.sort_by_key(|listed| listed.messages);
    let ids: Vec<_> = listed.iter().map(|Listed { id, messages, .. }| (id.as_str(), *messages)).collect();
    assert_eq!(ids, [(own.as_str(), 1), ("../odd id/é", 2)]);
    assert!(storage.delete("../odd id/é").unwrap());
    assert!(!storage.delete("../odd id/é").unwrap());
    assert_eq!(storage.load("../odd id/é").unwrap(), None);
    assert_eq!(storage.list().unwrap().len(), 1);
}

/// B15: a turn costs only its new messages: stored entries are neither passed on again nor read.
#[test]
fn only_what_is_new_is_stored() {
    let (storage, store) = storage();
    let words: Vec<String> = (0..40).map(|number| format!("word {number}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let all = talk(&words);
    storage.save_conversation("x", "T", Some("m"), &all[..2]).unwrap();
    let id = only(&*store);
    let before = stored(&*store, id);
    // From here on nothing of it is read again.
    store.unreadable.store(true, Ordering::Relaxed);
    for count in (4..=40).step_by(2) {
        let handed = store.handed.load(Ordering::Relaxed);
        storage.save_conversation("x", "T", Some("m"), &all[..count]).unwrap();
        assert_eq!(store.handed.load(Ordering::Relaxed) - handed, 2);
    }
    store.unreadable.store(false, Ordering::Relaxed);
    let after = stored(&*store, id);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 38);
    storage.save_conversation("x", "T", Some("m"), &all).unwrap();
    assert_eq!(stored(&*store, id).len(), after.len(), "the same again is nothing new");
    assert_eq!(storage.load("x").unwrap().unwrap().2, all);
    assert_verifies(&store.inner, id);
    // Another process that opens the same store continues in the same way.
    let other = over(&store);
    other.save_conversation("x", "T", Some("m"), &all).unwrap();
    assert_eq!(stored(&*store, id).len(), after.len());
}

/// B15, B29: a changed or shortened list continues on a branch; the stored messages are kept.
#[test]
fn a_changed_list_is_a_branch() {
    let (storage, store) = storage();
    storage.save_conversation("x", "T", None, &talk(&["one", "two", "three"])).unwrap();
    let id = only(&*store);
    for words in [
        &["one", "TWO", "three", "four"][..],
        &["one"],
        &[],
        &["one", "two", "three"],
        &["one", "two", "three", "more"],
    ] {
        let before = stored(&*store, id);
        storage.save_conversation("x", "T", None, &talk(words)).unwrap();
        assert_eq!(storage.load("x").unwrap().unwrap().2, talk(words), "{words:?}");
        let after = stored(&*store, id);
        assert_eq!(after[..before.len()], before);
        storage.save_conversation("x", "T", None, &talk(words)).unwrap();
        assert_eq!(stored(&*store, id).len(), after.len(), "{words:?}");
        let fresh = over(&store);
        fresh.save_conversation("x", "T", None, &talk(words)).unwrap();
        assert_eq!(stored(&*store, id).len(), after.len(), "{words:?}");
        assert_verifies(&store.inner, id);
    }
}

#[test]
fn titles_and_models_change() {
    let (storage, store) = storage();
    storage.save_conversation("x", "One", Some("m-1"), &talk(&["a"])).unwrap();
    storage.save_conversation("x", "Two", Some("m-2"), &talk(&["a", "b"])).unwrap();
    let (title, model, messages) = storage.load("x").unwrap().unwrap();
    assert_eq!((title.as_str(), model.as_deref(), messages), ("Two", Some("m-2"), talk(&["a", "b"])));
    let kinds = stored(&*store, only(&*store));
    assert_eq!(kinds.iter().filter(|entry| entry.envelope().kind == Kind::Context).count(), 1);
    storage.save_conversation("x", "Two", Some("m-2"), &talk(&["a", "b"])).unwrap();
    assert_eq!(stored(&*store, only(&*store)).len(), kinds.len());
}

/// S0-50: an orphan that was saved is still stored after loading, all three messages, and is not in the request.
#[test]
fn an_orphan_is_stored_and_not_sent() {
    let (storage, store) = storage();
    let saved =
        vec![Message::user("hello"), Message::tool("call_gone", "left over"), Message::assistant("hi")];
    storage.save_conversation("x", "T", None, &saved).unwrap();
    let (_, _, loaded) = storage.load("x").unwrap().unwrap();
    assert_eq!(loaded, saved);
    let repaired = repair(&loaded.into_iter().collect(), OnBroken::Drop);
    assert_eq!(repaired.view.to_messages().len(), 2);
    let mut conversation =
        Conversation::open_with_clock(store, clock(), ConversationId::derive("storage", "x"), "test")
            .unwrap();
    conversation.say(Message::user("Continue"));
    for to in Dialect::all() {
        let request = conversation.request(to, None, OnBroken::Drop).unwrap();
        assert!(!request.body.contains("left over"));
        assert_eq!(testkit::refusals(to, request.body.as_bytes()), []);
    }
}

/// S1-28: a tool's message comes back with its role and the id of its call.
#[test]
fn tool_messages_come_back() {
    let (storage, _) = storage();
    let saved = vec![
        Message::user("go"),
        Message::assistant_with_tools(vec![ToolCall::new("call_1", "calc", "{ \"a\": 1e2 }")]),
        Message::tool("call_1", "4"),
    ];
    storage.save_conversation("x", "T", None, &saved).unwrap();
    let (_, _, loaded) = storage.load("x").unwrap().unwrap();
    assert_eq!(loaded, saved);
    assert_eq!(loaded[2].role, Role::Tool);
    assert_eq!(loaded[2].tool_call_id().map(|id| id.as_str()), Some("call_1"));
    assert_eq!(loaded[1].tool_calls().next().unwrap().arguments.text().as_str(), "{ \"a\": 1e2 }");
}

/// S0-19, B29: a store that cannot be read is an error, never an empty conversation; one that cannot be written loses
/// nothing.
#[test]
fn trouble_is_said() {
    let (storage, store) = storage();
    storage.save_conversation("x", "T", None, &talk(&["a"])).unwrap();
    store.unreadable.store(true, Ordering::Relaxed);
    let error = over(&store).save_conversation("x", "T", None, &[]).unwrap_err();
    assert!(error.to_string().starts_with("Failed to load conversation: "), "{error}");
    store.unreadable.store(false, Ordering::Relaxed);
    store.full.store(true, Ordering::Relaxed);
    assert!(storage.save_conversation("x", "T", None, &talk(&["a", "b"])).is_err());
    store.full.store(false, Ordering::Relaxed);
    storage.save_conversation("x", "T", None, &talk(&["a", "b"])).unwrap();
    assert_eq!(storage.load("x").unwrap().unwrap().2.len(), 2);
}
