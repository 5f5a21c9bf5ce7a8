//! From an append to the next request: new entries cost the same in a long conversation as in a short one.

use std::{sync::Arc, time::Duration};

use rejoin_engine::{Conversation, SystemClock, Writer, digest, open_store};
use rejoin_formats::Dialect;
use rejoin_store::{Access, Location, Store, memory::Memory};

use crate::{
    LONG, SHORT,
    talk::{Talk, text},
};

/// How many turns are measured.
const TURNS: usize = 200;

/// The times of many turns.
#[derive(Default)]
struct Times {
    /// From what a person says to the request.
    said: Vec<Duration>,
    /// The time from the model's answer, through the tool, to the next request.
    ran: Vec<Duration>,
}

impl Times {
    fn of(talk: &mut Talk) -> Self {
        let mut times = Self::default();
        for number in 0..TURNS {
            let began = talk.turn(number);
            let noted = talk.provider.noted.lock().unwrap();
            times.said.push(noted.asked[0] - began);
            times.ran.push(noted.asked[1] - noted.answered[0]);
        }
        times.said.sort();
        times.ran.sort();
        times
    }
}

fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

pub fn next() {
    println!("\nfrom an append to the next request as shared pieces, median of {TURNS} turns, in µs");
    println!(
        "{:>26} {:>10} {:>10} {:>7}   {:>10} {:>10} {:>7}",
        "", "said, 100", "10,000", "ratio", "ran, 100", "10,000", "ratio"
    );
    let mut worst: f64 = 0.0;
    for dialect in Dialect::all() {
        let [short, long] = [SHORT, LONG].map(|size| {
            let mut talk = Talk::of(Arc::new(Memory::new(digest)), dialect, size);
            Times::of(&mut talk)
        });
        worst = worst.max(show(dialect.name(), &short, &long));
    }
    let folder = tempfile::tempdir().unwrap();
    let [short, long] = [SHORT, LONG].map(|size| {
        let mut talk = in_sqlite(&folder.path().join(format!("{size}.db")), size);
        Times::of(&mut talk)
    });
    worst = worst.max(show("anthropic, SQLite", &short, &long));
    println!("worst: {worst:.2} (promised: at most 2)");
}

fn show(name: &str, short: &Times, long: &Times) -> f64 {
    let micros = |times: &[Duration]| median(times).as_secs_f64() * 1e6;
    let ratio = |short: &[Duration], long: &[Duration]| micros(long) / micros(short);
    let (said, ran) = (ratio(&short.said, &long.said), ratio(&short.ran, &long.ran));
    println!(
        "{name:>26} {:>10.1} {:>10.1} {said:>7.2}   {:>10.1} {:>10.1} {ran:>7.2}",
        micros(&short.said),
        micros(&long.said),
        micros(&short.ran),
        micros(&long.ran),
    );
    said.max(ran)
}

/// Opens a conversation with this many messages in SQLite. It is built in memory and copied, which is faster.
pub fn in_sqlite(path: &std::path::Path, messages: usize) -> Talk {
    let location = Location::Sqlite(path.to_owned());
    let store: Arc<dyn Store> = Arc::from(open_store(&location, Access::Write).unwrap());
    let id = fill(&*store, messages);
    let conversation = Conversation::open_with_clock(store, Arc::new(SystemClock), id, "bench").unwrap();
    let mut talk = Talk::with(conversation, Dialect::Anthropic);
    // The first turn reads everything.
    talk.turn(text(0, 1).len());
    talk
}

/// Writes a conversation with this many messages to a store.
pub fn fill(store: &dyn Store, messages: usize) -> rejoin_record::ConversationId {
    let memory: Arc<dyn Store> = Arc::new(Memory::new(digest));
    let talk = Talk::of(memory.clone(), Dialect::Anthropic, messages);
    let id = talk.worker.conversation().id();
    Writer { store, clock: &SystemClock, command: "bench" }.copy_from(&*memory, id).unwrap();
    id
}
