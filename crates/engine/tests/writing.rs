//! Starts, renames, forks, erases and copies conversations.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use rejoin_engine::{Conversation, EngineError, Mode, New, read};
use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Salt, Tail, chain::Stamp, content::Meta,
};
use rejoin_store::{Access, Holder, Location, Query, Search, SessionState, Store, memory::Memory};
use std::sync::Arc;
use support::{Counting, Fragile, assert_verifies, clock, lines, stored, writer};

fn memory() -> Arc<Memory> {
    Arc::new(Memory::new(rejoin_engine::digest))
}

fn talk(store: &Arc<Memory>, new: &New) -> ConversationId {
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), new, "test");
    for message in [Message::user("one"), Message::assistant("two"), Message::user("three")] {
        assert_eq!(conversation.say(message).saved.warning(), None);
    }
    conversation.id()
}

fn messages(entries: &[Entry]) -> Vec<&Entry> {
    entries.iter().filter(|entry| entry.envelope().kind == Kind::Message).collect()
}

#[test]
fn a_new_conversation_is_listed_at_once() {
    let (store, clock) = (memory(), Counting);
    let new = New {
        title: Some(String::from(" Plans ")),
        provider: Some(String::from("offline")),
        model: Some(String::from("tiny")),
        directory: Some(String::from("/work")),
        ..New::default()
    };
    let id = writer(&*store, &clock).create(&new).unwrap();
    let listed = store.list(&Query::default()).unwrap().conversations;
    assert_eq!(listed.len(), 1);
    let summary = &listed[0];
    assert_eq!(summary.id, id);
    assert_eq!(summary.title.as_deref(), Some("Plans"));
    assert_eq!(
        (summary.about.provider.as_deref(), summary.about.model.as_deref()),
        (Some("offline"), Some("tiny"))
    );
    assert_eq!((summary.about.directory.as_deref(), summary.state), (Some("/work"), SessionState::Empty));
    assert_verifies(&*store, id);
}

#[test]
fn a_title_is_what_was_said_first_until_somebody_gives_one() {
    let (store, clock) = (memory(), Counting);
    let id = talk(&store, &New::default());
    let before = store.summary(id).unwrap();
    assert_eq!((before.title.as_deref(), before.renamed), (Some("one"), false));
    writer(&*store, &clock).rename(id, "A long\nafternoon ").unwrap();
    let after = store.summary(id).unwrap();
    assert_eq!((after.title.as_deref(), after.renamed), (Some("A long afternoon"), true));
    assert_eq!((after.updated, after.messages), (before.updated, 3), "nothing was said");
    let unknown = ConversationId::from_random(5);
    assert_eq!(writer(&*store, &clock).rename(unknown, "x").unwrap_err().code(), "CONVERSATION_NOT_FOUND");
}

#[test]
fn a_fork_has_what_leads_to_a_message() {
    let (store, clock) = (memory(), Counting);
    let new = New { provider: Some(String::from("offline")), ..New::default() };
    let id = talk(&store, &new);
    writer(&*store, &clock).rename(id, "Mine").unwrap();
    let entries = stored(&*store, id);
    let second = messages(&entries)[1];
    let fork = writer(&*store, &clock).fork(id, Some(second.id())).unwrap();
    assert_ne!(fork, id);
    assert_verifies(&*store, fork);
    let forked = stored(&*store, fork);
    let Content::Header(header) = Content::of(&forked[0]) else { panic!() };
    assert_eq!((header.conversation, header.provider.as_deref()), (fork, Some("offline")));
    for (old, new) in messages(&entries).iter().zip(messages(&forked)) {
        assert_eq!(
            (old.id(), old.envelope().timestamp, old.content()),
            (new.id(), new.envelope().timestamp, new.content())
        );
        assert_eq!(old.inner(), new.inner());
    }
    let read_back = read(&*store, fork, Mode::Strict).unwrap();
    assert_eq!(lines(&read_back.session), ["user: one", "assistant: two"]);
    assert_eq!(store.summary(fork).unwrap().title.as_deref(), Some("Mine"));
    let note = forked.iter().find_map(|entry| match Content::of(entry) {
        Content::Meta(Meta { scope, .. }) => scope,
        _ => None,
    });
    assert_eq!(
        note.unwrap().as_str(),
        format!(r#"{{"forked_from":{{"conversation":"{id}","entry":"{}"}}}}"#, second.id())
    );
    // A fork is as new as the fork, and lists say where it is from: a fork of it is from the fork.
    let summary = store.summary(fork).unwrap();
    assert_eq!(summary.forked_from, Some(id.to_string()));
    assert!(summary.updated > store.summary(id).unwrap().updated);
    let again = writer(&*store, &clock).fork(fork, None).unwrap();
    assert_eq!(store.summary(again).unwrap().forked_from, Some(fork.to_string()));
    assert_eq!(store.summary(id).unwrap().forked_from, None);
    // The fork has everything, and each of the two continues separately.
    let whole = writer(&*store, &clock).fork(id, None).unwrap();
    assert_eq!(read(&*store, whole, Mode::Strict).unwrap().session.messages.len(), 3);
    let mut conversation =
        Conversation::open_with_clock(store.clone(), support::clock(), fork, "test").unwrap();
    conversation.say(Message::user("another way"));
    assert_eq!(stored(&*store, id), entries);
    let strange = writer(&*store, &clock).fork(id, Some(forked[0].id())).unwrap_err();
    assert!(matches!(strange, EngineError::NoSuchMessage(_)));
}

/// A fork of an imported conversation keeps its system prompt and its tools, although their entries are off the path.
#[test]
fn a_fork_keeps_what_surrounds_it() {
    let (store, clock) = (memory(), Counting);
    let body = r#"{"model":"m","system":"be kind","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
    let session = support::session("x.json", body);
    writer(&*store, &clock).import(&session).unwrap();
    let first = messages(&stored(&*store, session.id))[0].id();
    let fork = writer(&*store, &clock).fork(session.id, Some(first)).unwrap();
    let read_back = read(&*store, fork, Mode::Strict).unwrap().session;
    assert_eq!(lines(&read_back), ["user: a"]);
    assert_eq!(read_back.context.get("system").unwrap().as_str(), "\"be kind\"");
    assert_verifies(&*store, fork);
}

#[test]
fn a_fork_leaves_behind_what_cannot_be_read() {
    let (store, clock) = (Fragile::new(), Counting);
    let mut conversation =
        Conversation::create_with_clock(store.clone(), support::clock(), &New::default(), "test");
    for said in ["one", "two", "three"] {
        conversation.say(Message::user(said));
    }
    let id = conversation.id();
    drop(conversation);
    store.damage(0);
    store.damage(2);
    let fork = writer(&*store, &clock).fork(id, None).unwrap();
    store.damaged.lock().unwrap().clear();
    assert_eq!(lines(&read(&*store, fork, Mode::Strict).unwrap().session), ["user: one", "user: three"]);
    assert_verifies(&store.inner, fork);
}

#[test]
fn what_is_erased_is_gone_and_still_verifies() {
    let (store, clock) = (memory(), Counting);
    let id = talk(&store, &New::default());
    let before = stored(&*store, id);
    let second = messages(&before)[1].id();
    let unknown = rejoin_record::EntryId::new(1, [1; 10]);
    let refused = writer(&*store, &clock).erase(id, &[second, unknown], None).unwrap_err();
    assert_eq!(refused.to_string(), format!("there is no message {unknown} in the conversation"));
    assert_eq!(stored(&*store, id), before, "nothing is erased if something is not there");
    writer(&*store, &clock).erase(id, &[second, second], Some("asked for")).unwrap();
    let after = stored(&*store, id);
    assert_eq!(after.len(), before.len() + 1);
    let all: String = after.iter().map(Entry::to_line).collect();
    assert!(!all.contains("two") && all.contains("asked for"));
    assert_verifies(&*store, id);
    assert_eq!(lines(&read(&*store, id, Mode::Strict).unwrap().session), ["user: one", "user: three"]);
    writer(&*store, &clock).erase(id, &[second], None).unwrap();
    assert_eq!(stored(&*store, id).len(), after.len(), "once is enough");
    let found = store.search(&Search { words: String::from("two"), limit: 9, ..Search::default() }).unwrap();
    assert_eq!(found, []);
    // A fork does not bring it back.
    let fork = writer(&*store, &clock).fork(id, None).unwrap();
    assert!(!stored(&*store, fork).iter().any(|entry| entry.to_line().contains("two")));
}

#[test]
fn a_copy_has_the_same_hashes_and_grows() {
    let (here, there, clock) = (memory(), memory(), Counting);
    let id = talk(&there, &New::default());
    let copied = writer(&*here, &clock).copy_from(&*there, id).unwrap();
    assert_eq!((copied.added, copied.total), (4, 4));
    assert_eq!(stored(&*here, id), stored(&*there, id));
    assert_eq!(writer(&*here, &clock).copy_from(&*there, id).unwrap().added, 0);
    let mut conversation =
        Conversation::open_with_clock(there.clone(), support::clock(), id, "test").unwrap();
    conversation.say(Message::assistant("four"));
    drop(conversation);
    // Content that is erased in the source is erased here, too.
    let first = messages(&stored(&*there, id))[0].id();
    writer(&*there, &clock).erase(id, &[first], None).unwrap();
    let copied = writer(&*here, &clock).copy_from(&*there, id).unwrap();
    assert_eq!((copied.added, copied.total), (2, 6));
    assert_eq!(stored(&*here, id), stored(&*there, id));
    assert!(!stored(&*here, id).iter().any(|entry| entry.to_line().contains("\"one\"")));
    // In the other direction there is nothing to do, even if this one has more.
    writer(&*here, &clock).rename(id, "Mine").unwrap();
    let back = writer(&*here, &clock).copy_from(&*there, id).unwrap();
    assert_eq!((back.added, back.total), (0, 7));
    assert_eq!(writer(&*there, &clock).copy_from(&*here, id).unwrap().added, 1);
    // Two that continue differently are never mixed.
    writer(&*here, &clock).rename(id, "Here").unwrap();
    writer(&*there, &clock).rename(id, "There").unwrap();
    let before = stored(&*here, id);
    let refused = writer(&*here, &clock).copy_from(&*there, id).unwrap_err();
    assert!(matches!(refused, EngineError::Diverged(_)), "{refused}");
    assert_eq!(stored(&*here, id), before);
    let unknown = ConversationId::from_random(9);
    assert_eq!(
        writer(&*here, &clock).copy_from(&*there, unknown).unwrap_err().code(),
        "CONVERSATION_NOT_FOUND"
    );
}

/// A file of entries is imported unchanged, once, twice, and after it has grown.
#[test]
fn our_own_files_are_taken_in_as_they_are() {
    let (here, there, clock) = (memory(), memory(), Counting);
    let id = talk(&there, &New::default());
    let entries = stored(&*there, id);
    let file = |count: usize| entries[..count].iter().map(|entry| entry.to_line() + "\n").collect::<String>();
    let take = |text: &str| writer(&*here, &clock).import_record(&mut text.as_bytes());
    let time_of = |entry: &Entry| format!("{:.6}", entry.envelope().timestamp);
    let first = take(&file(2)).unwrap();
    assert_eq!((first.id, first.new, first.added, first.messages), (id, true, 2, 1));
    assert_eq!(take(&file(2)).unwrap().added, 0);
    let grown = take(&(file(4) + "{\"v\":\"1.0\",\"torn")).unwrap();
    assert_eq!((grown.new, grown.added, grown.messages), (false, 2, 3));
    assert_eq!(stored(&*here, id), entries);
    assert_eq!(take(&file(1)).unwrap().added, 0, "an older state");
    for (text, line) in [
        (String::new(), 1),
        (String::from("{}\n"), 1),
        (file(4)[file(1).len()..].to_owned(), 1),
        (file(4).replace("two", "six"), 3),
        // The fields outside the body are protected, too: the time, and the kind of the entry.
        (file(4).replace(&time_of(&entries[2]), "2031-01-01T00:00:00.000000Z"), 3),
        (file(2) + "what\n" + &file(4)[file(2).len()..], 3),
    ] {
        match take(&text).unwrap_err() {
            EngineError::NoRecord { line: found, .. } => assert_eq!(found, line, "{text}"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(stored(&*here, id), entries);
}

/// A file of entries that lacks one is refused, also where nothing that follows builds on the missing one.
#[test]
fn a_file_with_a_gap_is_not_taken_in() {
    let (here, there, clock) = (memory(), memory(), Counting);
    let id = talk(&there, &New::default());
    let mut entries = stored(&*there, id);
    let fork = &entries[1];
    let message = Content::Message(Message::user("another way"));
    let mut chain = Chain::at(entries.last().map(Tail::of));
    let stamp = Stamp {
        id: EntryId::new(1, [9; 10]),
        timestamp: fork.envelope().timestamp,
        salt: Salt([9; 16]),
        source_time: None,
    };
    let other = chain.append_under(Some((fork.id(), fork.hash())), Kind::Message, &message, stamp);
    entries.push(other);
    let file = |left_out: Option<usize>| {
        let lines = entries.iter().enumerate().filter(|(place, _)| Some(*place) != left_out);
        lines.map(|(_, entry)| entry.to_line() + "\n").collect::<String>()
    };
    let take = |text: &str| writer(&*here, &clock).import_record(&mut text.as_bytes());
    let refused = take(&file(Some(entries.len() - 2))).unwrap_err();
    assert!(matches!(refused, EngineError::Corrupted { .. }), "{refused}");
    take(&file(None)).unwrap();
    assert_eq!(stored(&*here, id), entries);
}

#[test]
fn damage_is_not_copied() {
    let (there, clock) = (Fragile::new(), Counting);
    let mut conversation =
        Conversation::create_with_clock(there.clone(), support::clock(), &New::default(), "test");
    conversation.say(Message::user("one"));
    let id = conversation.id();
    drop(conversation);
    there.damage(1);
    let here = memory();
    let refused = writer(&*here, &clock).copy_from(&*there, id).unwrap_err();
    assert!(matches!(refused, EngineError::Corrupted { .. }), "{refused}");
}

/// A store from which an entry is missing is not copied as if it were whole.
#[test]
fn a_gap_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        || rejoin_engine::open_store(&Location::Jsonl(folder.path().to_owned()), Access::Write).unwrap();
    let there: Arc<dyn Store> = Arc::from(open());
    let mut conversation = Conversation::create_with_clock(there, support::clock(), &New::default(), "test");
    let first = conversation.say(Message::user("one")).entry.id();
    conversation.say(Message::user("two"));
    let id = conversation.id();
    drop(conversation);
    let path = folder.path().join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let without: String = text
        .lines()
        .filter(|line| !line.contains(&format!("\"id\":\"{first}\"")))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(without.lines().count(), 2);
    std::fs::write(&path, without).unwrap();
    let (here, clock) = (memory(), Counting);
    let refused = writer(&*here, &clock).copy_from(&*open(), id).unwrap_err();
    assert!(matches!(refused, EngineError::Corrupted { .. }), "{refused}");
    assert!(here.tail(id).unwrap().is_none_or(|tail| tail.seq == 0), "nothing behind the gap is copied");
}

/// B43: every one of these takes the conversation's lock, and says who holds it.
#[test]
fn one_writer_at_a_time() {
    let (store, clock) = (memory(), Counting);
    let id = talk(&store, &New::default());
    let lock = store.lock(id, &Holder::this("rejoin chat", rejoin_record::Timestamp::UNIX_EPOCH)).unwrap();
    let writer = writer(&*store, &clock);
    let other = memory();
    let refused = [
        writer.rename(id, "x").unwrap_err(),
        writer.erase(id, &[], None).unwrap_err(),
        writer.copy_from(&*other, id).unwrap_err(),
        Conversation::open_with_clock(store.clone(), support::clock(), id, "test").unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.code(), "LOCKED");
        assert!(error.to_string().contains("`rejoin chat`"), "{error}");
    }
    // Reading always works.
    assert!(read(&*store, id, Mode::Strict).is_ok());
    assert!(Conversation::open_read_only(store.clone(), support::clock(), id).is_ok());
    drop(lock);
    assert!(writer.rename(id, "x").is_ok());
}
