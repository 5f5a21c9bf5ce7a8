//! Conversations on a server: while it is down, and on two machines at once.

#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use rejoin_engine::{Conversation, Mode, New, open_store, read};
use rejoin_record::{ConversationId, Message};
use rejoin_store::{Access, Location, Store};
use testkit::postgres::Server;

fn opened(location: &Location) -> Arc<dyn Store> {
    open_store(location, Access::Write).unwrap().into()
}

fn texts(store: &dyn Store, id: ConversationId) -> String {
    let session = read(store, id, Mode::Strict).unwrap().session;
    let texts: Vec<String> =
        session.messages.iter().map(|message| message.content().unwrap_or_default().to_string()).collect();
    texts.join(" ")
}

/// Entries that are appended while the server is down are kept on this machine. The same process saves them when the server is
/// back; if it has ended, the next one does, after other processes' entries.
#[test]
fn what_is_said_while_the_server_is_down_is_delivered() {
    let Some(programs) = testkit::postgres::programs() else { return };
    let server = Server::start(programs, &["fsync=off"]);
    let folder = tempfile::tempdir().unwrap();
    let location: Location = server.address(&server.database()).parse().unwrap();
    let other_folder = tempfile::tempdir().unwrap();
    let location_elsewhere = || location.clone().with_folder(other_folder.path());
    let location = location.clone().with_folder(folder.path());
    let store = opened(&location);
    let waiting = || store.spool().unwrap().conversations().len();

    let mut first = Conversation::create(Arc::clone(&store), &New::default(), "test");
    assert!(first.say(Message::user("one")).saved.is_durable());
    server.kill();
    let said = first.say(Message::assistant("two"));
    let warning = said.saved.warning().unwrap().to_owned();
    assert!(warning.contains("is kept in") && waiting() == 1, "{warning}");
    first.say(Message::user("three"));
    server.restart();
    assert!(first.say(Message::assistant("four")).saved.is_durable());
    assert_eq!((texts(&*store, first.id()), waiting()), (String::from("one two three four"), 0));

    // A process that ends before the server is back.
    let mut third = Conversation::create(Arc::clone(&store), &New::default(), "test");
    third.say(Message::user("begun"));
    server.kill();
    first.say(Message::user("five"));
    first.say(Message::assistant("six"));
    drop(first);
    assert_eq!(waiting(), 1);
    // Another one begins a conversation without any server.
    let unreached = opened(&location);
    let mut second = Conversation::create(Arc::clone(&unreached), &New::default(), "test");
    second.say(Message::user("begun in the dark"));
    let second_id = second.id();
    drop((second, unreached));
    // A third conversation has more entries than are delivered at once, and other processes append to it.
    let third_id = third.id();
    for text in ["a", "b", "c"] {
        third.say(Message::user(text.repeat(3 << 20)));
    }
    drop(third);
    assert_eq!(waiting(), 3);
    server.restart();
    let elsewhere = location_elsewhere();
    Conversation::open(opened(&elsewhere), third_id, "test").unwrap().say(Message::user("meanwhile"));
    let store = opened(&location);
    assert_eq!(store.spool().unwrap().conversations(), []);
    let ids = store.ids("", 10).unwrap();
    assert!(ids.len() == 3 && ids.contains(&second_id), "{ids:?}");
    let one = ids.into_iter().find(|id| ![second_id, third_id].contains(id)).unwrap();
    let entries = store.entries(third_id).unwrap();
    let bodies: Vec<usize> = entries.iter().map(|entry| entry.body().unwrap().as_str().len() >> 20).collect();
    assert_eq!(bodies.iter().filter(|megabytes| **megabytes == 3).count(), 3, "{bodies:?}");
    assert_eq!(bodies.len(), 6, "{bodies:?}");
    assert_eq!(texts(&*store, one), "one two three four five six");
    assert_eq!(texts(&*store, second_id), "begun in the dark");
    let mut problems = Vec::new();
    store.verify(None, &mut |problem| problems.push(problem)).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

/// A conversation that is deleted on another machine stays deleted. Its waiting entries are kept, and not delivered again and
/// again.
#[test]
fn what_waits_for_a_deleted_conversation_is_set_aside() {
    let Some(programs) = testkit::postgres::programs() else { return };
    let server = Server::start(programs, &["fsync=off"]);
    let [here, there] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let location: Location = server.address(&server.database()).parse().unwrap();
    let [near, far] = [&here, &there].map(|folder| location.clone().with_folder(folder.path()));
    let store = opened(&near);
    let mut conversation = Conversation::create(Arc::clone(&store), &New::default(), "test");
    let id = conversation.id();
    conversation.say(Message::user("saved"));
    server.kill();
    conversation.say(Message::user("never saved"));
    drop(conversation);
    assert_eq!(store.spool().unwrap().conversations(), [id]);
    drop(store);
    server.restart();
    opened(&far).delete(id).unwrap();
    for _ in 0..2 {
        let store = opened(&near);
        assert_eq!(store.spool().unwrap().conversations(), []);
        assert_eq!(store.ids("", 10).unwrap(), []);
    }
    let folder = std::fs::read_dir(here.path()).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_to_string(folder.join(format!("unsaved/{id}.deleted"))).unwrap();
    assert!(kept.contains("never saved"), "{kept}");
}

/// A standby that had not received everything takes over: the process with the missing entries saves them again, and waiting
/// entries are delivered after those of the server.
#[test]
fn what_a_server_has_lost_is_saved_again() {
    let Some(server) = testkit::postgres::shared() else { return };
    let database = server.database();
    let folder = tempfile::tempdir().unwrap();
    let location: Location = server.address(&database).parse().unwrap();
    let location = location.with_folder(folder.path());
    let store = opened(&location);
    let lose = |entries: u32| {
        let kept = format!("(SELECT max(seq) - {entries} FROM rejoin.entry)");
        let query = format!(
            "UPDATE rejoin.conversation c SET seq = e.seq, tail = e.id, hash = e.hash FROM rejoin.entry e WHERE e.seq = {kept}; \
             DELETE FROM rejoin.entry WHERE seq > {kept}; DELETE FROM rejoin.summary"
        );
        server.psql(&database, &query).unwrap();
    };
    let mut talk = Conversation::create(Arc::clone(&store), &New::default(), "test");
    for text in ["one", "two", "three", "four"] {
        assert!(talk.say(Message::user(text)).saved.is_durable());
    }
    lose(2);
    assert!(talk.say(Message::user("five")).saved.is_durable());
    assert_eq!(texts(&*store, talk.id()), "one two three four five");
    assert!(talk.say(Message::user("six")).saved.is_durable());
    // Another process has appended after the lost entries.
    lose(2);
    drop(talk);
    let id = store.ids("", 10).unwrap()[0];
    let mut talk = Conversation::open(Arc::clone(&store), id, "test").unwrap();
    assert!(talk.say(Message::user("seven")).saved.is_durable());
    let only_reads = |on: &str| {
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = {on}");
        let end = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{database}'"
        );
        server.psql("postgres", &format!("{set}; {end}")).unwrap();
    };
    only_reads("on");
    assert!(!talk.say(Message::user("eight")).saved.is_durable());
    drop(talk);
    only_reads("off");
    lose(1);
    let store = opened(&location);
    assert_eq!(store.spool().unwrap().conversations(), []);
    assert_eq!(texts(&*store, id), "one two three four eight");
    let mut problems = Vec::new();
    store.verify(None, &mut |problem| problems.push(problem)).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}
