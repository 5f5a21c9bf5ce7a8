//! A long conversation that is opened from its checkpoint continues exactly as if all of it had been read.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;
mod talk;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use rejoin_engine::{
    Conversation, LockTiming, New, Writer, open_store,
    provider::{
        Request,
        scripted::{ScriptedProvider, Step},
    },
    tools::Tools,
    turn::{CompactMode, Event, Stop, TurnInput, TurnSettings, WindowSettings, Worker},
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

/// Whether the conversation is opened from its checkpoint. The next request is the same in both cases.
fn goes_on_as_ever(store: &Arc<dyn Store>, id: ConversationId) -> bool {
    let whole = Conversation::open_read_only(Arc::clone(store), clock(), id).unwrap();
    let part =
        Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", LockTiming::Never).unwrap();
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
    let open =
        || Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", LockTiming::Now).unwrap();
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

fn opened(store: &Arc<dyn Store>, id: ConversationId, hold: LockTiming) -> Conversation {
    let part = Conversation::open_for_turns(Arc::clone(store), clock(), id, "test", hold).unwrap();
    assert!(!part.is_whole());
    part
}

/// A second compaction does not bring back what the first one hid, however few messages came in between.
#[test]
fn a_second_compaction_brings_nothing_back() {
    for kind in ["jsonl", "sqlite"] {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = compacted(folder.path(), kind);
        for round in 0..4 {
            let before = opened(&store, id, LockTiming::Never).messages().len();
            let mut worker = worker(opened(&store, id, LockTiming::Now), Arc::new(provider()), 1_000_000);
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

/// Entries that are appended before a worker takes the conversation are in its next request.
#[test]
fn what_was_appended_since_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = compacted(folder.path(), "sqlite");
    let mut conversation = opened(&store, id, LockTiming::Now);
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
        let mut reader = opened(&store, id, LockTiming::Never);
        assert!(!reader.say(Message::user("From memory.")).saved.is_durable());
        opened(&store, id, LockTiming::Now).say(Message::user("From another process."));
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

/// A Codex rollout whose turns have results of many lengths, and lines that are no messages.
fn imported(store: &Arc<dyn Store>, turns: u64, seed: u64) -> ConversationId {
    let mut dice = Dice(seed);
    let mut lines = vec![String::from(
        r#"{"timestamp":"2026-11-01T00:00:00Z","type":"session_meta","payload":{"id":"0199a6aa-0000-7000-8000-000000000001","cwd":"/"}}"#,
    )];
    let mut line = |kind: &str, payload: String| {
        lines.push(format!(r#"{{"timestamp":"2026-11-01T00:00:00Z","type":"{kind}","payload":{payload}}}"#));
    };
    let words = |dice: &mut Dice, most: u64| "some words here ".repeat(dice.roll(most) as usize + 1);
    for turn in 0..turns {
        let said = format!("Turn {turn}: {}", words(&mut dice, 4));
        line(
            "response_item",
            format!(
                r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{said}"}}]}}"#
            ),
        );
        line("event_msg", format!(r#"{{"type":"user_message","message":"{said}"}}"#));
        for number in 0..dice.roll(3) {
            // Some ids come twice.
            let id = format!("call_{}_{number}", dice.roll(turns));
            let tool = if dice.roll(2) == 0 { "shell" } else { "read" };
            line(
                "response_item",
                format!(r#"{{"type":"function_call","name":"{tool}","arguments":"{{}}","call_id":"{id}"}}"#),
            );
            let output = words(&mut dice, 80);
            line(
                "response_item",
                format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{output}"}}"#),
            );
        }
        let answer = words(&mut dice, 8);
        line(
            "response_item",
            format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{answer}"}}]}}"#
            ),
        );
    }
    let text = lines.join("\n") + "\n";
    let input = rejoin_formats::Input::new("rollout.jsonl", text.as_bytes()).unwrap();
    let session = rejoin_formats::sessions::read(&input, None).unwrap().remove(0);
    let writer = Writer { store: &**store, clock: &*clock(), command: "test" };
    // A checkpoint is kept if there is an index.
    writer.create(&New::default()).unwrap();
    store.settle().unwrap();
    let id = writer.import(&session).unwrap().id;
    store.settle().unwrap();
    id
}

/// The first turn after an import sends the same request as if everything had been read. If it prunes all old results, it does not
/// read them.
#[test]
fn the_first_turn_after_an_import_goes_on_as_the_whole_does() {
    let mut pruned_unread = 0;
    for seed in 0..12u64 {
        for (kind, model) in [("jsonl", "some-model"), ("sqlite", "some-model"), ("sqlite", "gpt-4o")] {
            let folder = tempfile::tempdir().unwrap();
            let store = open(folder.path(), kind);
            let id = imported(&store, 40, seed);
            for window in [1_500, 4_000, 20_000, 1_000_000] {
                let keep_last = (seed % 3 == 0).then_some(2);
                let next = |conversation: Conversation| {
                    let provider = Arc::new(provider().named("scripted", model));
                    let prune = PrunePolicy { keep_last, ..PrunePolicy::default() };
                    let compact = CompactMode::Off;
                    let window = WindowSettings {
                        context_window: Some(window),
                        compact,
                        prune,
                        ..WindowSettings::default()
                    };
                    let settings = TurnSettings { window, ..TurnSettings::default() };
                    let mut worker =
                        Worker::new(conversation, Arc::clone(&provider) as _, echo().1, settings);
                    let mut events = Vec::new();
                    let mut sink = |event: Event| {
                        if let Event::Pruned { results, tokens } = event {
                            events.push((results, tokens));
                        }
                    };
                    run(worker.turn(TurnInput::from("And now?"), &mut sink, &Stop::new())).unwrap();
                    let is_whole = worker.conversation().is_whole();
                    let said = (provider.last_body().unwrap(), worker.next_request_tokens(), events);
                    (said, is_whole)
                };
                let (whole, _) = next(Conversation::open_read_only(Arc::clone(&store), clock(), id).unwrap());
                let (part, is_whole) = next(opened(&store, id, LockTiming::Never));
                assert_eq!(part, whole, "{kind}, seed {seed}, a window of {window}");
                pruned_unread += usize::from(!is_whole && !whole.2.is_empty());
                if whole.2.is_empty() {
                    assert!(is_whole, "{kind}, seed {seed}, {window}: what is sent has to be read");
                }
            }
        }
    }
    assert!(pruned_unread > 10, "only {pruned_unread} turns pruned what was not read");
}

/// Later turns are the same, too, including what the first one pruned.
#[test]
fn results_that_were_pruned_unread_stay_pruned() {
    for kind in ["jsonl", "sqlite"] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), kind);
        let id = imported(&store, 60, 5);
        let settings = |window| {
            let window = WindowSettings {
                context_window: Some(window),
                compact: CompactMode::Off,
                ..WindowSettings::default()
            };
            TurnSettings { window, ..TurnSettings::default() }
        };
        for round in 0..4 {
            let mut worker = Worker::new(
                opened(&store, id, LockTiming::Now),
                Arc::new(provider()),
                echo().1,
                settings(1_500),
            );
            say(&mut worker, &format!("A number: {round}"));
            drop(worker);
            store.settle().unwrap();
            assert!(goes_on_as_ever(&store, id), "{kind}, round {round}");
        }
        let mut problems = 0;
        store.verify(Some(id), &mut |_| problems += 1).unwrap();
        assert_eq!(problems, 0, "{kind}");
    }
}

/// Every operation that shows or changes old results reads them first.
#[test]
fn what_needs_unread_results_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), "sqlite");
    let id = imported(&store, 40, 1);
    let whole = Conversation::open_read_only(Arc::clone(&store), clock(), id).unwrap();
    let shown = worker(whole, Arc::new(provider()), 1_000_000).shown().to_vec();
    let part = || worker(opened(&store, id, LockTiming::Never), Arc::new(provider()), 1_000_000);
    assert_eq!(part().shown(), shown);
    let mut known = part();
    let counter = rejoin_view::TokenCounter::for_model("some-model").estimating();
    let tokens: u64 = shown.iter().map(|message| counter.message(message)).sum();
    assert_eq!(known.shown_tokens(), tokens);
    let policy = PrunePolicy { keep_last: Some(3), batch: Some(1), ..PrunePolicy::default() };
    let mut conversation = opened(&store, id, LockTiming::Never);
    let report = conversation.prune_tool_calls("some-model", Some(&policy));
    let mut whole = Conversation::open_read_only(Arc::clone(&store), clock(), id).unwrap();
    assert_eq!(report, whole.prune_tool_calls("some-model", Some(&policy)));
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
        changed(0, "[4,", "[3,"),
        changed(0, "[0,0,", "[0,0,0,0,"),
        changed(1, "number", "member"),
    ];
    for nonsense in cases {
        store.keep_checkpoint(id, &nonsense);
        let whole =
            Conversation::open_for_turns(Arc::clone(&store), clock(), id, "test", LockTiming::Never).unwrap();
        assert!(whole.is_whole(), "{nonsense:?}");
    }
}
