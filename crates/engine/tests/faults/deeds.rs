//! Random operations on a store: turns, imports, forks, erasures, deletions, copies, new titles, lists and searches. A child
//! process performs them while a witness watches.

use std::{ops::ControlFlow, path::Path, sync::Arc, time::Instant};

use rejoin_engine::{
    Conversation, EngineError, New, SystemClock, Writer,
    provider::scripted::{ScriptedProvider, Step},
    turn::{Stop, TurnInput, TurnSettings, Worker},
};
use rejoin_formats::{Input as File, Session, sessions};
use rejoin_record::{ConversationId, EntryId, Kind, Message};
use rejoin_store::{Access, Location, Query, Search, Store, StoreError, StoredItem};
use testkit::faults::{Dice, Job, Place, Witness, open_patiently, say};

use super::{
    OPTIONS, opened,
    talk::{call, echo, run},
};

/// The names of the operations.
pub const DEEDS: [&str; 12] = [
    "turn", "say", "import", "fork", "erase", "delete", "copy", "rename", "list", "search", "verify", "begin",
];

/// With this many conversations, crowded writers delete some.
const MANY: usize = 20;

/// The folder next to a store that contains the store to copy from.
pub const OTHER: &str = "other";

/// Fills the store that is copied from.
pub fn make_other(notes: &Path, kind: &str) {
    let place = Place::location_in(&notes.join(OTHER), if kind == "sqlite" { "jsonl" } else { "sqlite" });
    let store = opened(&place);
    for number in 0..3 {
        let new = New { title: Some(format!("other {number}")), ..New::default() };
        let mut conversation = Conversation::create(store.clone(), &new, "test");
        for message in 0..6 {
            conversation.say(Message::user(text(&mut Dice(number * 10 + message), 400)));
        }
        let id = conversation.id();
        let erased = conversation.entries()[3].id();
        drop(conversation);
        writer(&*store).erase(id, &[erased], None).unwrap();
    }
}

fn writer(store: &dyn Store) -> Writer<'_> {
    Writer { store, clock: &SystemClock, command: "test" }
}

fn text(dice: &mut Dice, bytes: u64) -> String {
    let mut text = String::from("file");
    while (text.len() as u64) < bytes {
        text.push_str(&format!(" {:x}", dice.roll()));
    }
    text
}

/// Another tool's session, which grows.
fn session(number: u64, messages: u64) -> Session {
    let lines: Vec<String> = (0..messages)
        .map(|message| {
            let role = if message % 2 == 0 { "user" } else { "assistant" };
            let said = text(&mut Dice(number * 100 + message), 150);
            format!(r#"{{"role":"{role}","content":"{said}"}}"#)
        })
        .collect();
    let text = format!(r#"{{"id":"imported-{number}","messages":[{}]}}"#, lines.join(","));
    let input = File::new("chat.json", text.as_bytes()).unwrap();
    sessions::read(&input, None).unwrap().remove(0)
}

/// Someone who does things to a store.
pub struct Doer {
    /// Whether other processes work at the same time: conversations that they lock or delete are left alone.
    crowded: bool,
    store: Arc<dyn Store>,
    other: Arc<dyn Store>,
    dice: Dice,
}

impl Doer {
    pub fn new(store: Arc<dyn Store>, other: &Location, seed: u64) -> Self {
        let other = Arc::from(rejoin_engine::open_store(other, Access::Read).unwrap());
        Self { crowded: false, store, other, dice: Dice(seed) }
    }

    /// Unwraps the result of an operation that must succeed unless another process interferes.
    fn must<T>(&self, done: Result<T, impl Into<EngineError>>) -> Option<T> {
        match done.map_err(Into::into) {
            Ok(done) => Some(done),
            Err(EngineError::Store(
                StoreError::Locked(_) | StoreError::NotFound(_) | StoreError::TailMoved { found: None, .. },
            )) if self.crowded => None,
            Err(why) => panic!("{why}"),
        }
    }

    fn any(&mut self) -> Option<ConversationId> {
        // A file whose writer was killed before its first line was whole has a name, and nothing in it.
        let mut ids = self.store.ids("", 1000).unwrap();
        ids.retain(|id| self.store.tail(*id).unwrap().is_some());
        let number = self.dice.below(ids.len() as u64) as usize;
        ids.get(number).copied()
    }

    /// Does one thing.
    pub fn deed(&mut self, what: &str) {
        let some = self.any();
        let many = self.crowded && self.store.ids("", 100).unwrap().len() > MANY;
        let what = if many { "delete" } else { what };
        say(format_args!("op {what}"));
        match (what, some) {
            ("import", _) => {
                let (number, messages) = (self.dice.below(3), 2 + self.dice.below(12));
                self.must(writer(&*self.store).import(&session(number, messages)));
            }
            ("copy", _) => {
                let ids = self.other.ids("", 10).unwrap();
                let id = ids[self.dice.below(ids.len() as u64) as usize];
                match writer(&*self.store).copy_from(&*self.other, id) {
                    // Entries were added to the copy since.
                    Err(EngineError::Diverged(_)) => {}
                    copied => drop(self.must(copied)),
                }
            }
            ("list", _) => {
                self.store.list(&Query::default()).unwrap();
                self.store.settle().unwrap();
            }
            ("search", _) => {
                let search = Search { words: String::from("file"), limit: 5, ..Search::default() };
                self.store.search(&search).unwrap();
            }
            ("verify", _) => testkit::faults::verified(&*self.store, None).unwrap(),
            ("begin", _) | (_, None) => self.begin(),
            ("fork", Some(id)) => drop(self.must(writer(&*self.store).fork(id, None))),
            ("erase", Some(id)) => self.erase(id),
            ("delete", Some(id)) => drop(self.must(self.store.delete(id))),
            ("rename", Some(id)) => {
                let title = text(&mut self.dice, 40);
                self.must(writer(&*self.store).rename(id, &title));
            }
            ("say", Some(id)) => {
                let bytes = [30, 300, 3000, 30_000][self.dice.below(4) as usize];
                let opened = Conversation::open(self.store.clone(), id, "test");
                let Some(mut conversation) = self.must(opened) else { return };
                conversation.say(Message::user(text(&mut self.dice, bytes)));
            }
            (_, Some(id)) => self.turn(id),
        }
    }

    fn begin(&mut self) {
        let mut conversation = Conversation::create(self.store.clone(), &New::default(), "test");
        conversation.say(Message::user(text(&mut self.dice, 100)));
    }

    fn turn(&mut self, id: ConversationId) {
        let opened = Conversation::open(self.store.clone(), id, "test");
        let Some(conversation) = self.must(opened) else { return };
        let call_id = format!("call_{:x}", self.dice.roll());
        let steps = vec![
            Step::says_and_calls(&text(&mut self.dice, 200), vec![call(&call_id, r#"{"slow":1}"#)])
                .in_pieces_of(40),
            Step::says(&text(&mut self.dice, 300)).in_pieces_of(60),
        ];
        let provider = Arc::new(ScriptedProvider::new(steps));
        let mut worker = Worker::new(conversation, provider, echo().1, TurnSettings::default());
        let said = text(&mut self.dice, 100);
        let turned = run(worker.turn(TurnInput::from(said), &mut |_| {}, &Stop::default()));
        if let Err(why) = turned {
            say(format_args!("told a turn failed: {why}"));
        }
    }

    fn erase(&mut self, id: ConversationId) {
        let mut messages: Vec<EntryId> = Vec::new();
        let read = self.store.read(id, 0, &mut |item| {
            if let StoredItem::Entry(entry) = item
                && entry.envelope().kind == Kind::Message
                && entry.content().is_some()
            {
                messages.push(entry.id());
            }
            ControlFlow::Continue(())
        });
        self.must(read);
        let count = messages.len() as u64;
        if count > 0 {
            let entry = messages[self.dice.below(count) as usize];
            self.must(writer(&*self.store).erase(id, &[entry], Some("a test")));
        }
    }
}

/// As a child: does this many things, not longer than the job says, or one of them again and again if the job names it.
pub fn work(job: &Job, notes: &Path) {
    let begun = Instant::now();
    let kind = if matches!(job.store, Location::Sqlite(_)) { "jsonl" } else { "sqlite" };
    let other = Place::location_in(&notes.join(OTHER), kind);
    let Some(store) = open_patiently(&job.store, OPTIONS) else { return };
    let mut doer = Doer::new(Arc::new(Witness::new(store)), &other, job.seed);
    doer.crowded = !job.time.is_zero();
    let named = job.what.strip_prefix("deed ");
    for _ in 0..job.steps {
        if !job.time.is_zero() && begun.elapsed() > job.time {
            break;
        }
        let by_chance = DEEDS[doer.dice.below(DEEDS.len() as u64) as usize];
        doer.deed(named.unwrap_or(by_chance));
    }
    drop(doer);
    say(format_args!("done"));
}
