//! A long conversation that is opened by its checkpoint goes on exactly as if all of it had been read.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;
mod talk;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use rejoin_engine::{
    Conversation, Hold, New, Writer, open_store,
    provider::{
        Request,
        scripted::{ScriptedProvider, Step},
    },
    tools::Tools,
    turn::{Stop, TurnInput, TurnSettings, WindowSettings, Worker},
};
use rejoin_formats::Dialect;
use rejoin_record::{Content, ConversationId, EntryId, Kind, Message, Role, ToolCall, content::Branch};
use rejoin_store::{Access, Store};
use rejoin_view::window::PrunePolicy;
use support::clock;
use talk::{echo, run};

fn open(folder: &Path, kind: &str) -> Arc<dyn Store> {
    let location = format!("{kind}:{}", folder.join("store").display()).parse().unwrap();
    Arc::from(open_store(&location, Access::Write).unwrap())
}

/// A model that calls a tool now and then, and writes short summaries.
fn provider() -> ScriptedProvider {
    ScriptedProvider::answering(|request: &Request| {
        let messages = request.messages();
        let last = messages.last().unwrap();
        let said = last.content().unwrap_or_default();
        match &last.role {
            Role::User if said.contains("concise summary") => Step::says("We spoke about numbers."),
            Role::User if said.contains("call") => {
                let arguments = format!("{said} {}", "and so on ".repeat(12));
                Step::calls(vec![ToolCall::new(format!("c{}", said.len()), "echo", arguments)])
            }
            _ => Step::says("Good. What comes next is another number."),
        }
    })
    .speaking(Dialect::OpenAiChat)
    .named("scripted", "some-model")
}

fn worker(conversation: Conversation, provider: Arc<ScriptedProvider>, window: u64) -> Worker {
    let tools: Tools = echo().1;
    let window = WindowSettings { context_window: Some(window), ..WindowSettings::default() };
    Worker::new(conversation, provider, tools, TurnSettings { window, ..TurnSettings::default() })
}

fn say(worker: &mut Worker, text: &str) {
    run(worker.turn(TurnInput::from(text), &mut |_| {}, &Stop::new())).unwrap();
}

/// The next request of a conversation that is only read, and its tokens.
fn next_request(conversation: Conversation) -> (String, u64) {
    let provider = Arc::new(provider());
    let mut worker = worker(conversation, Arc::clone(&provider), 1_000_000);
    say(&mut worker, "And now?");
    (provider.last_body().unwrap(), worker.next_request_tokens())
}

/// Whether the conversation is opened by its checkpoint. Either way the next request is the same.
fn goes_on_as_ever(store: &Arc<dyn Store>, id: ConversationId) -> bool {
    let whole = Conversation::open_read_only(Arc::clone(store), clock(), id).unwrap();
    let part = Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", Hold::Never).unwrap();
    let is_part = !part.is_whole();
    assert_eq!(part.head(), whole.head());
    assert_eq!(part.state(), whole.state());
    assert_eq!(part.all_entries().unwrap(), whole.entries());
    assert_eq!(part.recorded_system(), whole.recorded_system());
    assert_eq!(part.title(), whole.title());
    let (part, whole) = (next_request(part), next_request(whole));
    assert_eq!(part, whole);
    is_part
}

/// A source of arbitrary numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One arbitrary step, as another process would take it.
fn step(store: &Arc<dyn Store>, id: ConversationId, dice: &mut Dice) {
    let open = || Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", Hold::Now).unwrap();
    let any_message = |dice: &mut Dice| -> Option<EntryId> {
        let entries = store.entries(id).unwrap();
        let messages: Vec<_> =
            entries.iter().filter(|entry| entry.envelope().kind == Kind::Message).collect();
        Some(messages.get(dice.roll(messages.len().max(1) as u64) as usize)?.id())
    };
    match dice.roll(14) {
        0 => {
            let mut worker = worker(open(), Arc::new(provider()), 1_000_000);
            run(worker.compact(None, &mut |_| {}, &Stop::new()));
        }
        1 => {
            let policy = PrunePolicy { keep_last: Some(1), ..PrunePolicy::default() };
            worker(open(), Arc::new(provider()), 1_000_000).prune_with(&policy);
        }
        2 => {
            let Some(entry) = any_message(dice) else { return };
            open().pin(entry);
        }
        3 => {
            open().uncompact();
        }
        4 => {
            // Another process goes back to an earlier message.
            let Some(entry) = any_message(dice) else { return };
            let entries = store.entries(id).unwrap();
            let under = entries.iter().find(|other| other.id() == entry).unwrap();
            let tail = store.tail(id).unwrap().unwrap();
            let stamp = rejoin_record::chain::Stamp {
                id: EntryId::from_bytes([dice.roll(256) as u8; 16]),
                timestamp: clock().now(),
                salt: rejoin_record::Salt([7; 16]),
                source_time: None,
            };
            if entries.iter().any(|other| other.id() == stamp.id) {
                return;
            }
            let branch = Content::Branch(Branch { reason: None });
            let entry = rejoin_record::Chain::at(Some(tail)).append_under(
                Some((under.id(), under.hash())),
                Kind::Branch,
                &branch,
                stamp,
            );
            store.append(id, Some(tail), &[entry]).unwrap();
        }
        5 => {
            let Some(entry) = any_message(dice) else { return };
            let writer = Writer { store: &**store, clock: &*clock(), command: "test" };
            let _ = writer.erase(id, &[entry], None);
        }
        6 => {
            open().append(&Content::Message(Message::assistant_with_tools(vec![ToolCall::new(
                format!("lost{}", dice.roll(1_000)),
                "echo",
                "{}",
            )])));
        }
        _ => {
            let text = if dice.roll(2) == 0 { "A number" } else { "A call" };
            let text =
                format!("{text}: {} {}", dice.roll(1_000_000), "words ".repeat(dice.roll(60) as usize));
            // A small window compacts by itself.
            let window = if dice.roll(4) == 0 { 900 } else { 1_000_000 };
            say(&mut worker(open(), Arc::new(provider()), window), &text);
        }
    }
}

#[test]
fn a_part_goes_on_as_the_whole_does() {
    let (mut parts, mut wholes) = (std::collections::HashMap::new(), 0);
    let seeds =
        std::env::var("REJOIN_LAW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000u64) / 250;
    for seed in 0..seeds.max(1) {
        let folder = tempfile::tempdir().unwrap();
        let kind = if seed % 2 == 0 { "jsonl" } else { "sqlite" };
        let store = open(folder.path(), kind);
        let id =
            Writer { store: &*store, clock: &*clock(), command: "test" }.create(&New::default()).unwrap();
        let mut dice = Dice(seed * 7_919 + 1);
        for _ in 0..45 {
            step(&store, id, &mut dice);
            store.settle().unwrap();
            match goes_on_as_ever(&store, id) {
                true => *parts.entry(kind).or_insert(0) += 1,
                false => wholes += 1,
            }
        }
    }
    assert!(
        parts.len() == 2 && parts.values().all(|count| *count > 5) && wholes > 50,
        "{parts:?}, {wholes} wholes"
    );
}

/// A conversation with a summary, long enough for a checkpoint.
fn compacted(folder: &Path, kind: &str) -> (Arc<dyn Store>, ConversationId) {
    let store = open(folder, kind);
    let id = Writer { store: &*store, clock: &*clock(), command: "test" }.create(&New::default()).unwrap();
    let conversation = Conversation::open(Arc::clone(&store), id, "test").unwrap();
    let mut worker = worker(conversation, Arc::new(provider()), 1_000_000);
    for number in 0..20 {
        say(&mut worker, &format!("A number: {number} {}", "words ".repeat(30)));
    }
    store.settle().unwrap();
    run(worker.compact(None, &mut |_| {}, &Stop::new()));
    drop(worker);
    (store, id)
}

fn opened(store: &Arc<dyn Store>, id: ConversationId, hold: Hold) -> Conversation {
    let part = Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", hold).unwrap();
    assert!(!part.is_whole());
    part
}

/// What one compaction hid does not come back with the next, whatever little was said in between.
#[test]
fn a_second_compaction_brings_nothing_back() {
    for kind in ["jsonl", "sqlite"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = compacted(folder.path(), kind);
        for round in 0..4 {
            let before = opened(&store, id, Hold::Never).messages().len();
            let mut worker = worker(opened(&store, id, Hold::Now), Arc::new(provider()), 1_000_000);
            if round % 2 == 1 {
                say(&mut worker, "Short.");
            }
            run(worker.compact(None, &mut |_| {}, &Stop::new()));
            assert!(worker.shown_messages() <= before + 2, "{kind}: {} of {before}", worker.shown_messages());
            drop(worker);
            goes_on_as_ever(&store, id);
        }
    }
}

/// What is appended before a worker takes the conversation is part of its next request.
#[test]
fn what_was_appended_since_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = compacted(folder.path(), "sqlite");
    let mut conversation = opened(&store, id, Hold::Now);
    conversation.say(Message::user("By the way: zebra."));
    let provider = Arc::new(provider());
    let mut worker = worker(conversation, Arc::clone(&provider), 1_000_000);
    say(&mut worker, "And now?");
    assert!(provider.last_body().unwrap().contains("zebra"));
}

/// A part that was only read is stored after what another process added in the meantime.
#[test]
fn a_part_in_memory_is_stored_later() {
    for kind in ["jsonl", "sqlite"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = compacted(folder.path(), kind);
        let mut reader = opened(&store, id, Hold::Never);
        assert!(!reader.say(Message::user("From memory.")).saved.is_durable());
        opened(&store, id, Hold::Now).say(Message::user("From another process."));
        assert!(reader.attach(Arc::clone(&store), "test").is_durable(), "{kind}");
        drop(reader);
        let texts: Vec<String> = store
            .entries(id)
            .unwrap()
            .iter()
            .filter_map(|entry| match Content::of(entry) {
                Content::Message(message) => message.content(),
                _ => None,
            })
            .collect();
        assert_eq!(texts[texts.len() - 2..], ["From another process.", "From memory."], "{kind}");
        let mut problems = 0;
        store.verify(Some(id), &mut |_| problems += 1).unwrap();
        assert_eq!(problems, 0, "{kind}");
    }
}

/// A checkpoint that is nonsense is not used.
#[test]
fn a_damaged_checkpoint_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = compacted(folder.path(), "sqlite");
    let mut pieces = Vec::new();
    store.checkpoint(id, &mut |piece| {
        pieces.push(piece);
        ControlFlow::Continue(())
    });
    assert!(pieces.len() > 1, "{pieces:?}");
    let changed = |number: usize, from: &str, to: &str| {
        let mut pieces = pieces.clone();
        assert!(pieces[number].contains(from), "{}", pieces[number]);
        pieces[number] = pieces[number].replacen(from, to, 1);
        pieces
    };
    let cases = [
        vec![String::new()],
        vec![String::from("[]")],
        pieces[..1].to_vec(),
        changed(0, "[2,", "[3,"),
        changed(0, "[0,0,", "[0,0,0,0,"),
        changed(1, "number", "member"),
    ];
    for nonsense in cases {
        store.keep_checkpoint(id, &nonsense);
        let whole =
            Conversation::open_for_turns(Arc::clone(&store), clock(), id, "test", Hold::Never).unwrap();
        assert!(whole.is_whole(), "{nonsense:?}");
    }
}
