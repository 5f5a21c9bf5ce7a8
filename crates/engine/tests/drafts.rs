//! Drafts of answers: the text that an unfinished turn had shown. The tests of the command line kill real processes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rejoin_engine::{
    Conversation, New, SessionState, open_store,
    provider::scripted::{ScriptedProvider, Step},
    tools::Tools,
    turn::{Event, Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_record::{Chain, Content, ConversationId, Kind, Message, content::Meta};
use rejoin_store::{Access, Location, Store};
use support::{assert_verifies, clock, path_kinds, stored, writer};

/// Runs a test on a store of each kind that keeps files.
fn on_each(test: impl Fn(&Arc<dyn Store>, &Path)) {
    for kind in ["sqlite", "jsonl"] {
        println!("store: {kind}");
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("chats");
        let location: Location = format!("{kind}:{}", place.display()).parse().unwrap();
        let store: Arc<dyn Store> = Arc::from(open_store(&location, Access::Write).unwrap());
        test(&store, &place);
    }
}

fn worker(store: &Arc<dyn Store>, steps: Vec<Step>) -> Worker {
    let conversation = Conversation::create_with_clock(Arc::clone(store), clock(), &New::default(), "test");
    with(conversation, steps)
}

fn with(conversation: Conversation, steps: Vec<Step>) -> Worker {
    Worker::new(
        conversation,
        Arc::new(ScriptedProvider::new(steps)),
        Tools::default(),
        TurnSettings::default(),
    )
}

/// A turn that is given up in the middle, as if the process were gone: its future is dropped after the whole text was shown.
fn give_up(worker: &mut Worker, said: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut shown) = tokio::sync::mpsc::unbounded_channel();
        let mut sink = move |event| {
            if let Event::Text(text) = event {
                sender.send(text).unwrap();
            }
        };
        let stop = Stop::new();
        let turn = worker.turn(TurnInput::from(said), &mut sink, &stop);
        let enough = async {
            let mut heard = String::new();
            while !heard.ends_with('.') {
                heard.push_str(&shown.recv().await.unwrap());
            }
        };
        tokio::select! {
            _ = turn => panic!("the turn finished"),
            () = enough => {}
        }
    });
}

fn turn(worker: &mut Worker, said: &str) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut events = Vec::new();
    let turned =
        runtime.block_on(worker.turn(TurnInput::from(said), &mut |event| events.push(event), &Stop::new()));
    turned.unwrap();
    events
}

fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.messages().iter().filter_map(|message| message.content()).collect()
}

fn drafts(place: &Path) -> Vec<PathBuf> {
    let beside = PathBuf::from(format!("{}.drafts", place.display()));
    let folder = if place.is_dir() { place.join("drafts") } else { beside };
    fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path()).collect()
}

fn cut() -> Step {
    Step::says("Half an answer.").in_pieces_of(3).then_hangs()
}

/// A conversation whose first answer was cut by the end of its process.
fn left_behind(store: &Arc<dyn Store>) -> ConversationId {
    let mut worker = worker(store, vec![cut()]);
    give_up(&mut worker, "first");
    worker.conversation().id()
}

/// If a program drops a turn and begins another one in the same conversation, no shown text is lost.
#[test]
fn a_turn_that_is_dropped_leaves_its_words() {
    on_each(|store, place| {
        let mut worker = worker(store, vec![cut(), Step::says("Whole.")]);
        give_up(&mut worker, "first");
        assert_eq!(drafts(place).len(), 1);
        turn(&mut worker, "second");
        assert_eq!(texts(worker.conversation()), ["first", "Half an answer.", "second", "Whole."]);
        assert_eq!(drafts(place).len(), 0);
        assert_verifies(&**store, worker.conversation().id());
    });
}

/// The next process sees the same entries, whether it reads or writes.
#[test]
fn readers_and_the_next_writer_see_the_same_entries() {
    on_each(|store, place| {
        let id = left_behind(store);
        let looked = Conversation::open_read_only(Arc::clone(store), clock(), id).unwrap();
        assert_eq!((texts(&looked).len(), looked.state()), (2, SessionState::Interrupted));
        assert_eq!(rejoin_engine::summary(&**store, id).unwrap().state, SessionState::Interrupted);
        assert_eq!(drafts(place).len(), 1, "reading changes nothing");
        // A copy and a fork have it as well; the copy has the same hashes.
        let other: Arc<dyn Store> = Arc::new(rejoin_store::memory::Memory::new(rejoin_engine::digest));
        writer(&*other, &*clock()).copy_from(&**store, id).unwrap();
        let fork = writer(&**store, &*clock()).fork(id, None).unwrap();
        let fork = Conversation::open_read_only(Arc::clone(store), clock(), fork).unwrap();
        assert_eq!(texts(&fork), ["first", "Half an answer."]);
        let opened = Conversation::open_with_clock(Arc::clone(store), clock(), id, "test").unwrap();
        assert!(opened.saved().is_durable() && opened.unsaved().is_empty());
        assert_eq!(opened.entries(), looked.entries());
        assert_eq!(stored(&*other, id), opened.entries());
        assert_eq!(drafts(place).len(), 0);
        assert_verifies(&**store, id);
    });
}

/// An answer that could not be stored keeps its draft: it is all that is left of it on the disk.
#[test]
fn an_answer_that_was_not_stored_keeps_its_draft() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Jsonl(folder.path().to_owned());
    let store: Arc<dyn Store> = Arc::from(open_store(&location, Access::Write).unwrap());
    let mut worker = worker(&store, vec![Step::says("A whole answer.").in_pieces_of(4)]);
    let id = worker.conversation().id();
    let file = folder.path().join(format!("{id}.jsonl"));
    let hidden = folder.path().join("hidden");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut warned = false;
    let mut sink = |event| match event {
        Event::Text(_) if file.is_file() => {
            fs::rename(&file, &hidden).unwrap();
            fs::create_dir(&file).unwrap();
        }
        Event::NotSaved(_) => warned = true,
        _ => {}
    };
    runtime.block_on(worker.turn(TurnInput::from("hello"), &mut sink, &Stop::new())).unwrap();
    assert!(warned && !worker.conversation().saved().is_durable());
    drop(worker);
    fs::remove_dir(&file).unwrap();
    fs::rename(&hidden, &file).unwrap();
    let opened = Conversation::open_with_clock(Arc::clone(&store), clock(), id, "test").unwrap();
    assert_eq!(texts(&opened), ["hello", "A whole answer."]);
    assert_eq!(drafts(folder.path()).len(), 0);
}

/// If the record grew without the draft, the draft's text goes to its own place, and the head does not move.
#[test]
fn a_draft_does_not_move_a_conversation_that_went_on() {
    on_each(|store, place| {
        let id = left_behind(store);
        went_on(&**store, id);
        let opened = Conversation::open_with_clock(Arc::clone(store), clock(), id, "test").unwrap();
        assert_eq!(texts(&opened), ["first", "meanwhile"]);
        assert!(stored(&**store, id).iter().any(|entry| {
            matches!(Content::of(entry), Content::Message(message)
                if message.content().as_deref() == Some("Half an answer."))
        }));
        assert_eq!(drafts(place).len(), 0);
        assert_verifies(&**store, id);
    });
}

/// Appends in spite of a draft, like a program that does not know about drafts.
fn went_on(store: &dyn Store, id: ConversationId) {
    let tail = store.tail(id).unwrap();
    let stamp = rejoin_engine::clock::stamp(&*clock(), None);
    let said = Content::Message(Message::user("meanwhile"));
    let entry = Chain::at(tail).append(Kind::Message, &said, stamp);
    store.append(id, tail, &[entry]).unwrap();
}

/// A new title is a write like any other: the words go in before it.
#[test]
fn a_new_title_takes_the_draft_in() {
    on_each(|store, place| {
        let id = left_behind(store);
        writer(&**store, &*clock()).rename(id, "a title").unwrap();
        assert_eq!(drafts(place).len(), 0);
        let kinds = path_kinds(&stored(&**store, id));
        assert_eq!(kinds[kinds.len() - 3..], ["message", "turn", "meta"]);
        let entries = stored(&**store, id);
        let title = Content::of(entries.last().unwrap());
        assert!(matches!(title, Content::Meta(Meta { title: Some(title), .. }) if &*title == "a title"));
    });
}
