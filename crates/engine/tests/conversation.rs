//! The `Conversation` that agents hold: durable or reported to be in memory, one writer or a branch, and never ended by its store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::{Arc, atomic::Ordering};

use rejoin_engine::{Conversation, EngineError, LockTiming, Mode, New, Saved, digest, read};
use rejoin_formats::{ConvertError, Dialect};
use rejoin_record::{
    Chain, Content, ConversationId, Kind, Message, ToolCall,
    content::{CallAt, Compacted, Metadata, Turn, TurnState},
};
use rejoin_store::{SessionState, Store, StoreError, memory::Memory};
use rejoin_view::{OnBroken, Rule};
use support::{Fragile, assert_verifies, clock, lines, stored, writer};

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(rejoin_engine::digest))
}

fn create(store: &Arc<Fragile>) -> Conversation {
    Conversation::create_with_clock(store.clone(), clock(), &New::default(), "rejoin chat")
}

/// S3-13: messages are there when the conversation is opened again, any number of times.
#[test]
fn what_is_said_is_stored_and_comes_back() {
    let store = memory();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    let id = conversation.id();
    let appended = conversation.say(Message::user("my name is Alice"));
    assert_eq!(appended.saved, Saved::Durable);
    assert_eq!(stored(&*store, id).last().unwrap(), &appended.entry);
    for round in 0..3 {
        drop(conversation);
        conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
        assert_eq!(conversation.messages().len(), 1 + round);
        assert_eq!(lines(conversation.session())[0], "user: my name is Alice");
        conversation.say(Message::assistant(format!("answer {round}")));
        assert_eq!(conversation.messages().len(), 2 + round, "and at once");
    }
    assert_eq!(lines(conversation.session()), lines(&read(&*store, id, Mode::Strict).unwrap().session));
    assert_verifies(&*store, id);
}

/// B29: a full disk becomes a warning, the conversation continues in memory, and all of it is stored when there is room again.
#[test]
fn a_full_disk_ends_nothing() {
    let store = Fragile::new();
    let mut conversation = create(&store);
    conversation.say(Message::user("one"));
    store.full.store(true, Ordering::Relaxed);
    let appended = conversation.say(Message::assistant("two"));
    assert_eq!(appended.saved.warning(), Some("Failed to save turn: writing chats: no space left on device"));
    conversation.say(Message::user("three"));
    assert_eq!(conversation.unsaved().len(), 2);
    assert_eq!(lines(conversation.session()), ["user: one", "assistant: two", "user: three"]);
    assert_eq!(stored(&*store, conversation.id()).len(), 2);
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(conversation.say(Message::assistant("four")).saved, Saved::Durable);
    assert_eq!(conversation.unsaved(), []);
    assert_eq!(stored(&*store, conversation.id()), conversation.entries());
    assert_verifies(&store.inner, conversation.id());
}

#[test]
fn a_store_that_cannot_be_written_from_the_beginning() {
    let store = Fragile::new();
    store.full.store(true, Ordering::Relaxed);
    let mut conversation = create(&store);
    assert!(conversation.saved().warning().unwrap().starts_with("Failed to save turn: "));
    conversation.say(Message::user("one"));
    assert!(store.tail(conversation.id()).unwrap().is_none());
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(conversation.save(), Saved::Durable);
    assert_eq!(stored(&*store, conversation.id()), conversation.entries());
    // An existing store that can only be read is read, and the conversation continues in memory.
    let id = conversation.id();
    drop(conversation);
    store.full.store(true, Ordering::Relaxed);
    let mut conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert_eq!(lines(conversation.session()), ["user: one"]);
    assert!(conversation.say(Message::assistant("two")).saved.warning().is_some());
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(conversation.save(), Saved::Durable);
    assert_eq!(stored(&*store, id).len(), 3);
}

#[test]
fn without_a_store_and_with_one_later() {
    let mut conversation =
        Conversation::in_memory(clock(), &New { title: Some("T".into()), ..New::default() });
    let appended = conversation.say(Message::user("one"));
    assert!(appended.saved.warning().unwrap().starts_with("Failed to save turn: "), "{:?}", appended.saved);
    let store = memory();
    assert_eq!(conversation.attach(store.clone(), "test"), Saved::Durable);
    assert_eq!(stored(&*store, conversation.id()), conversation.entries());
    assert_eq!(conversation.say(Message::assistant("two")).saved, Saved::Durable);
    // Another store gets all of it.
    let other = memory();
    assert_eq!(conversation.attach(other.clone(), "test"), Saved::Durable);
    assert_eq!(stored(&*other, conversation.id()), stored(&*store, conversation.id()));
    // Attaching the same store again changes nothing.
    assert_eq!(conversation.attach(other.clone(), "test"), Saved::Durable);
    assert_eq!(stored(&*other, conversation.id()).len(), 4);
}

/// S4-24: an append with an unknown outcome may be repeated: the entry is known by its id and stored once.
#[test]
fn a_repeated_append_stores_once() {
    let store = Fragile::new();
    let mut conversation = create(&store);
    let id = conversation.id();
    store.full.store(true, Ordering::Relaxed);
    let lost = conversation.say(Message::user("one")).entry;
    // The append was stored, but its answer was lost.
    let before = conversation.tail();
    store.inner.append(id, before, std::slice::from_ref(&lost)).unwrap();
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(conversation.save(), Saved::Durable);
    assert_eq!(stored(&*store, id).iter().filter(|entry| entry.id() == lost.id()).count(), 1);
    assert_eq!(stored(&*store, id), conversation.entries());
    // The same after another writer's entry.
    store.full.store(true, Ordering::Relaxed);
    let lost = conversation.say(Message::assistant("two")).entry;
    let tail = store.inner.append(id, conversation.tail(), std::slice::from_ref(&lost)).unwrap();
    foreign(&store.inner, id, "between");
    assert_ne!(store.tail(id).unwrap(), Some(tail));
    store.full.store(false, Ordering::Relaxed);
    assert_eq!(conversation.say(Message::user("three")).saved, Saved::Durable);
    assert_eq!(stored(&*store, id).iter().filter(|entry| entry.id() == lost.id()).count(), 1);
    assert_eq!(lines(conversation.session()), ["user: one", "assistant: two", "user: three"]);
    assert_verifies(&store.inner, id);
}

/// Someone who takes no lock appends after the tail.
fn foreign(store: &dyn Store, id: ConversationId, text: &str) {
    let tail = store.tail(id).unwrap();
    let content = Content::Message(Message::user(text));
    let entry = Chain::at(tail).append(Kind::Message, &content, rejoin_engine::clock::stamp(&*clock(), None));
    store.append(id, tail, &[entry]).unwrap();
}

/// B50: entries have one order without gaps, even with two writers; the other writer's entries become a branch, and none is lost.
#[test]
fn two_writers_make_a_branch() {
    let store = Fragile::new();
    let mut conversation = create(&store);
    let id = conversation.id();
    conversation.say(Message::user("one"));
    foreign(&*store, id, "theirs");
    let appended = conversation.say(Message::assistant("two"));
    assert_eq!(appended.saved, Saved::Durable);
    assert_eq!(lines(conversation.session()), ["user: one", "assistant: two"]);
    assert_eq!(conversation.entries().len(), 4, "theirs is known here too");
    assert_eq!(appended.entry.envelope().seq, 3);
    conversation.say(Message::user("three"));
    let entries = stored(&*store, id);
    assert_eq!(entries.iter().map(|entry| entry.envelope().seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(entries.iter().any(|entry| entry.to_line().contains("theirs")));
    assert_eq!(entries, conversation.entries());
    assert_eq!(lines(&read(&*store, id, Mode::Strict).unwrap().session), lines(conversation.session()));
    assert_verifies(&store.inner, id);
}

/// B29: damage is set aside as soon as a conversation is opened to be continued, before anything is written; a process that
/// only reads copies nothing.
#[test]
fn damage_is_set_aside_on_opening() {
    let folder = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Store> {
        let location = rejoin_store::Location::Jsonl(folder.path().to_owned());
        Arc::from(rejoin_engine::open_store(&location, rejoin_store::Access::Write).unwrap())
    };
    let mut conversation = Conversation::create_with_clock(open(), clock(), &New::default(), "test");
    for text in ["one", "two", "three"] {
        conversation.say(Message::user(text));
    }
    let id = conversation.id();
    drop(conversation);
    let path = folder.path().join(format!("{id}.jsonl"));
    let damaged = std::fs::read_to_string(&path).unwrap().replace("\"two\"", "\"too\"");
    std::fs::write(&path, &damaged).unwrap();
    let aside = || {
        let files = std::fs::read_dir(folder.path().join("aside")).into_iter().flatten();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    drop(Conversation::open_read_only(open(), clock(), id).unwrap());
    assert_eq!(aside(), [""; 0]);
    let conversation = Conversation::open_with_clock(open(), clock(), id, "test").unwrap();
    let kept = aside();
    assert!(kept.len() == 1 && kept[0].contains("\"too\""), "{kept:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged, "nothing was written yet");
    drop(conversation);
}

/// S0-50, S2-36: a stored orphan stays stored, and is not in the request.
#[test]
fn an_orphan_is_stored_and_not_sent() {
    let store = memory();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    conversation.say(Message::user("go"));
    conversation.say(Message::tool("gone", "left over"));
    conversation.say(Message::assistant("hello"));
    assert_eq!(conversation.messages().len(), 3);
    let repaired = conversation.view(OnBroken::Drop);
    assert_eq!(repaired.view.to_messages().len(), 2);
    assert_eq!(repaired.findings[0].rule, Rule::OrphanResult);
    for to in Dialect::all() {
        let request = conversation.request(to, None, OnBroken::Drop).unwrap();
        assert!(!request.body.contains("left over"), "{to}");
        assert_eq!(testkit::refusals(to, request.body.as_bytes()), []);
        let kept = conversation.request(to, None, OnBroken::Keep).unwrap();
        assert!(kept.body.contains("left over"), "as labelled text");
        assert_eq!(testkit::refusals(to, kept.body.as_bytes()), []);
    }
    let refused = conversation.request(Dialect::Anthropic, None, OnBroken::Refuse).unwrap_err();
    assert!(matches!(refused, ConvertError::Refused(_)));
    assert_eq!(stored(&*store, conversation.id()).len(), 4);
}

/// Other entries than messages take effect at once: a compaction hides, a call in progress counts as started.
#[test]
fn other_entries_change_what_is_seen() {
    let store = memory();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    conversation.say(Message::user("one"));
    let asked = conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")])).entry;
    assert_eq!(store.summary(conversation.id()).unwrap().state, SessionState::WaitingForTools);
    assert_eq!(conversation.history().known(), []);
    let call = CallAt { entry: asked.id(), block: 0 };
    conversation.append(&Content::Turn(Turn::new(TurnState::CallRunning, Some(call))));
    assert_eq!(conversation.history().known().len(), 1);
    conversation.say(Message::tool("c1", "done"));
    let summary = Compacted::new("it ran", None);
    conversation.append(&Content::Compacted(summary));
    assert_eq!(lines(conversation.session()), ["user: it ran"]);
    conversation.say(Message::user("next"));
    assert_eq!(lines(conversation.session()), ["user: it ran", "user: next"]);
    // A header in the middle is not valid; it is kept unchanged.
    let strange = Metadata {
        conversation: conversation.id(),
        provider: None,
        model: None,
        directory: None,
        format: None,
    };
    assert_eq!(conversation.append(&Content::Header(strange)).saved, Saved::Durable);
    assert_eq!(
        lines(&read(&*store, conversation.id(), Mode::Strict).unwrap().session),
        lines(conversation.session())
    );
}

#[test]
fn only_read() {
    let store = memory();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    conversation.say(Message::user("one"));
    let id = conversation.id();
    let mut looking = Conversation::open_read_only(store.clone(), clock(), id).unwrap();
    let appended = looking.say(Message::user("two"));
    assert!(appended.saved.warning().unwrap().contains("opened to be read"));
    assert_eq!(stored(&*store, id).len(), 2);
    assert_eq!(
        Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap_err().code(),
        "LOCKED"
    );
    drop(conversation);
    assert!(Conversation::open_with_clock(store, clock(), id, "test").is_ok());
}

/// Two processes that write to one conversation in turn, releasing the lock in between, see all of each other's messages.
#[test]
fn two_take_turns_in_one_conversation() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(digest));
    let mut one = Conversation::create_with_clock(Arc::clone(&store), clock(), &New::default(), "one");
    let id = one.id();
    one.say(Message::user("one"));
    assert!(Conversation::open_with_clock(Arc::clone(&store), clock(), id, "two").is_err(), "it is locked");
    let mut two =
        Conversation::open_for_turns(Arc::clone(&store), clock(), id, "two", LockTiming::Later).unwrap();
    assert!(matches!(two.reclaim(), Err(EngineError::Store(StoreError::Locked(_)))));
    one.release();
    for round in 0..3 {
        for (speaker, name) in [(&mut two, "two"), (&mut one, "one")] {
            let added = speaker.reclaim().unwrap();
            assert_eq!(added.len(), usize::from(round > 0 || name == "one"), "{name}, {round}");
            assert!(speaker.reclaim().unwrap().is_empty(), "nothing is added while the lock is held");
            assert!(speaker.say(Message::user(format!("{name} {round}"))).saved.is_durable());
            speaker.release();
        }
    }
    two.reclaim().unwrap();
    let said: Vec<String> = two.messages().iter().filter_map(|message| message.content()).collect();
    assert_eq!(said, ["one", "two 0", "one 0", "two 1", "one 1", "two 2", "one 2"]);
    assert_verifies(&*store, id);
}

/// After another process erases a message, a model no longer sees it; a deleted conversation is not stored again.
#[test]
fn what_others_erase_or_delete_is_gone_here_too() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(digest));
    let mut one = Conversation::create_with_clock(Arc::clone(&store), clock(), &New::default(), "one");
    let secret = one.say(Message::user("a secret")).entry.id();
    one.say(Message::assistant("I see."));
    one.release();
    writer(&*store, &*clock()).erase(one.id(), &[secret], None).unwrap();
    assert_eq!(one.reclaim().unwrap().len(), 1);
    let said: Vec<String> = one.messages().iter().filter_map(|message| message.content()).collect();
    assert_eq!(said, ["I see."]);
    assert!(one.say(Message::user("go on")).saved.is_durable());
    one.release();
    store.delete(one.id()).unwrap();
    assert!(matches!(one.reclaim(), Err(EngineError::Store(StoreError::NotFound(_)))));
    assert!(store.tail(one.id()).unwrap().is_none());
}
