//! Opening a long conversation and its first request: the time, and the memory.
//!
//! Each measurement runs in a separate process and reports from there, because memory left over from another one would count.

use std::{
    fs,
    hint::black_box,
    ops::ControlFlow,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use rejoin_engine::{Conversation, SystemClock, open_store};
use rejoin_formats::Dialect;
use rejoin_record::ConversationId;
use rejoin_store::{Access, Location, Store, StoredItem};

use crate::{LONG, next::fill, talk::Talk};

/// How often each is done; the best one counts for time, the median for memory.
const ROUNDS: usize = 5;

/// The measurements of one process.
#[derive(Clone, Copy)]
struct Found {
    open: Duration,
    first: Duration,
    /// Bytes that are in memory now, and those that were at most.
    resident: u64,
    peak: u64,
}

pub fn load() {
    let folder = tempfile::tempdir().unwrap();
    // The memory of a process with an almost empty conversation.
    let empty = made(&folder.path().join("empty.db"), 4);
    let long = made(&folder.path().join("long.db"), LONG);
    let lines = fs::read_to_string(folder.path().join("long.db.jsonl")).unwrap();
    let json = lines.len() as u64;
    println!("\na conversation of {LONG} messages in SQLite: {:.1} MB as lines", json as f64 / 1e6);
    let parsed = (0..ROUNDS).map(|_| parse(&lines)).min().unwrap();
    let runs: Vec<Found> = (0..ROUNDS).map(|_| run(&long)).collect();
    let nothing: Vec<Found> = (0..ROUNDS).map(|_| run(&empty)).collect();
    let open = runs.iter().map(|found| found.open).min().unwrap();
    let first = runs.iter().map(|found| found.first).min().unwrap();
    let ratio = |time: Duration| time.as_secs_f64() / parsed.as_secs_f64();
    println!("  parsing its lines into serde_json::Value {parsed:>10.1?}");
    println!("  opening it                               {open:>10.1?} {:>6.2} ×", ratio(open));
    println!("  from there to its first request          {first:>10.1?} {:>6.2} ×", ratio(first));
    for (name, of, promise) in [
        ("memory after that", (|found: &Found| found.resident) as fn(&Found) -> u64, "(promised: at most 3)"),
        ("memory at most", |found| found.peak, ""),
    ] {
        let taken = median(&runs, of).saturating_sub(median(&nothing, of));
        let (mega, ratio) = (taken as f64 / 1e6, taken as f64 / json as f64);
        println!("  {name:<40} {mega:>7.1} MB {ratio:>6.2} × its lines {promise}");
    }
}

fn median(runs: &[Found], of: fn(&Found) -> u64) -> u64 {
    let mut values: Vec<u64> = runs.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Writes a conversation with this many messages to SQLite and also to a JSONL file. Returns the arguments for the measuring
/// process.
fn made(path: &Path, messages: usize) -> String {
    let store = open_store(&Location::Sqlite(path.to_owned()), Access::Write).unwrap();
    let id = fill(&*store, messages);
    let mut lines = String::new();
    let read = store.read(id, 0, &mut |item| {
        if let StoredItem::Entry(entry) = item {
            lines.push_str(&entry.to_line());
            lines.push('\n');
        }
        ControlFlow::Continue(())
    });
    read.unwrap();
    fs::write(format!("{}.jsonl", path.display()), lines).unwrap();
    format!("{id} {}", path.display())
}

fn parse(lines: &str) -> Duration {
    let began = Instant::now();
    let values: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    black_box(values.len());
    began.elapsed()
}

fn run(job: &str) -> Found {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.env("REJOIN_BENCH_JOB", job).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [open, first, resident, peak] = numbers[..] else { panic!("it said: {text}") };
    Found { open: Duration::from_micros(open), first: Duration::from_micros(first), resident, peak }
}

/// Opens a conversation, continues it, and prints the measurements.
pub fn job(job: &str) {
    let (id, path) = job.split_once(' ').unwrap();
    let id: ConversationId = id.parse().unwrap();
    let began = Instant::now();
    let store = open_store(&Location::Sqlite(path.into()), Access::Write).unwrap();
    let store: Arc<dyn Store> = Arc::from(store);
    let conversation = Conversation::open_with_clock(store, Arc::new(SystemClock), id, "bench").unwrap();
    let open = began.elapsed();
    let mut talk = Talk::with(conversation, Dialect::Anthropic);
    let began = talk.turn(0);
    let first = talk.provider.noted.lock().unwrap().asked[0] - began;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    println!("{} {} {} {}", open.as_micros(), first.as_micros(), kilobytes("VmRSS:"), kilobytes("VmHWM:"));
}
