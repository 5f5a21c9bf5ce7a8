//! The cost of storing, as ratios to the plainest way of doing the same. `cargo xtask bench store` runs it.
//!
//! Each line has the measurement, the two figures, their ratio, and the promise.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark may")]

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, Kind, Message, Tail, chain::Stamp, content::Metadata,
};
use rejoin_store::{Access, Location, Options, Query, Search, Store, StoredItem, open};
use testkit::faults::digest;

mod stamps;

/// A small random generator: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Words of which some are frequent and many are rare, as in real text.
    fn text(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 12);
        while text.len() < length {
            let spread = self.roll() % 100;
            let word = if spread < 60 { self.roll() % 400 } else { self.roll() % 60_000 };
            for _ in 0..2 {
                text.push(char::from(b'a' + (word % 26) as u8));
                text.push(char::from(b"aeiou"[(word / 26 % 5) as usize]));
            }
            text.push_str(&format!("{:x} ", word / 130));
        }
        text
    }
}

struct Maker {
    dice: Dice,
    chain: Chain,
    number: u64,
}

impl Maker {
    fn new(seed: u64) -> Self {
        Self { dice: Dice(seed | 1), chain: Chain::empty(), number: seed << 24 }
    }

    fn stamp(&mut self) -> Stamp {
        self.number += 1;
        stamps::stamp(self.number, || self.dice.roll())
    }

    fn header(&mut self, conversation: ConversationId) -> Entry {
        let metadata = Metadata { conversation, provider: None, model: None, directory: None, format: None };
        let stamp = self.stamp();
        self.chain.append(Kind::Header, &Content::Header(metadata), stamp)
    }

    fn message(&mut self, text: &str) -> Entry {
        let stamp = self.stamp();
        self.chain.append(Kind::Message, &Content::Message(Message::user(text)), stamp)
    }

    fn entries(&mut self, conversation: ConversationId, count: usize, bytes: usize) -> Vec<Entry> {
        let mut entries = vec![self.header(conversation)];
        while entries.len() < count {
            let length = bytes / 2 + (self.dice.roll() as usize % bytes.max(1));
            let text = self.dice.text(length);
            entries.push(self.message(&text));
        }
        entries
    }
}

fn id(number: u64) -> ConversationId {
    ConversationId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn store(location: &str) -> Box<dyn Store> {
    let location: Location = location.parse().unwrap();
    open(&location, Options { access: Access::Write, digester: digest }).unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn line(what: &str, ours: String, plain: String, ratio: f64, promise: &str) {
    println!("{what:<34} {ours:>14} {plain:>14} {ratio:>7.2}×   {promise}");
}

/// One durable append at a time, the ways taken in turn so that the disk treats them alike.
fn appends(folder: &Path) {
    const COUNT: usize = 1500;
    let entries = Maker::new(1).entries(id(1), COUNT, 1500);
    let lines: Vec<String> = entries.iter().map(|entry| entry.to_line() + "\n").collect();
    let mut plain = File::create(folder.join("plain")).unwrap();
    let jsonl = store(&format!("jsonl:{}", folder.join("jsonl").display()));
    let sqlite = store(&format!("sqlite:{}", folder.join("append.db").display()));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut tails: [Option<Tail>; 2] = [None, None];
    for (entry, line) in entries.iter().zip(&lines) {
        let begun = Instant::now();
        plain.write_all(line.as_bytes()).unwrap();
        plain.sync_data().unwrap();
        times[0].push(begun.elapsed());
        for (number, store) in [&jsonl, &sqlite].into_iter().enumerate() {
            let begun = Instant::now();
            tails[number] = Some(store.append(id(1), tails[number], std::slice::from_ref(entry)).unwrap());
            times[number + 1].push(begun.elapsed());
        }
    }
    let [plain, jsonl, sqlite] = times.map(median).map(micros);
    let unit = |time: f64| format!("{time:.0} µs");
    line("durable append, JSONL", unit(jsonl), unit(plain), jsonl / plain, "≤ 1.2 of write + fdatasync");
    line("durable append, SQLite", unit(sqlite), unit(plain), sqlite / plain, "≤ 1.6 of write + fdatasync");
}

/// Many entries at once, next to rows of the same size.
fn import(folder: &Path) {
    const COUNT: usize = 100_000;
    let entries = Maker::new(2).entries(id(2), COUNT, 1000);
    let bodies: Vec<String> = entries.iter().map(Entry::to_line).collect();
    let raw: usize = entries.iter().map(|entry| entry.body().unwrap().as_str().len()).sum();
    let begun = Instant::now();
    let plain = rusqlite::Connection::open(folder.join("rows.db")).unwrap();
    plain.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE row (key INTEGER PRIMARY KEY, body TEXT); BEGIN").unwrap();
    for body in &bodies {
        plain.prepare_cached("INSERT INTO row (body) VALUES (?1)").unwrap().execute([body]).unwrap();
    }
    plain.execute_batch("COMMIT").unwrap();
    let rows = begun.elapsed();
    let path = folder.join("import.db");
    let sqlite = store(&format!("sqlite:{}", path.display()));
    let begun = Instant::now();
    sqlite.append(id(2), None, &entries).unwrap();
    let ours = begun.elapsed();
    let per = |time: Duration| format!("{:.0}/s", COUNT as f64 / time.as_secs_f64());
    let ratio = rows.as_secs_f64() / ours.as_secs_f64();
    line("import of 100,000 entries", per(ours), per(rows), ratio, "≥ 0.7 of plain rows");
    sqlite.settle().unwrap();
    drop(sqlite);
    let sqlite = store(&format!("sqlite:{}", path.display()));
    let size = sqlite.size().unwrap();
    let over = (size.record as f64 - raw as f64) / COUNT as f64;
    let unit = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    line(
        "size of the record",
        unit(size.record as f64),
        unit(raw as f64),
        size.record as f64 / raw as f64,
        &format!("≤ raw bodies + 200 bytes an entry: {over:+.0}"),
    );
    line(
        "size of the index, apart",
        unit(size.index as f64),
        unit(raw as f64),
        size.index as f64 / raw as f64,
        "reported",
    );
}

/// The same tool output again and again.
fn repeated(folder: &Path) {
    let mut maker = Maker::new(3);
    let outputs: Vec<String> = (0..20).map(|_| maker.dice.text(8000)).collect();
    let mut entries = vec![maker.header(id(3))];
    for number in 0..2000 {
        let text = outputs[number % outputs.len()].clone();
        entries.push(maker.message(&text));
    }
    let raw: usize = entries.iter().map(|entry| entry.body().unwrap().as_str().len()).sum();
    let path = folder.join("repeated.db");
    let sqlite = store(&format!("sqlite:{}", path.display()));
    sqlite.append(id(3), None, &entries).unwrap();
    drop(sqlite);
    let size = fs::metadata(&path).unwrap().len();
    let unit = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    line("size, repeated outputs", unit(size as f64), unit(raw as f64), size as f64 / raw as f64, "< 1");
}

/// Reading a conversation, next to parsing the same bytes.
fn load(folder: &Path) {
    const COUNT: usize = 10_000;
    let entries = Maker::new(4).entries(id(4), COUNT, 1500);
    let lines: Vec<String> = entries.iter().map(Entry::to_line).collect();
    for kind in ["sqlite", "jsonl"] {
        let store = store(&format!("{kind}:{}", folder.join(format!("load-{kind}")).display()));
        store.append(id(4), None, &entries).unwrap();
        store.settle().unwrap();
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let begun = Instant::now();
            let mut kept = Vec::with_capacity(COUNT);
            for line in &lines {
                kept.push(serde_json::from_str::<serde_json::Value>(line).unwrap());
            }
            plain.push(begun.elapsed());
        }
        // Measure them separately: memory that one frees would be a cost for the other.
        for _ in 0..200 {
            let begun = Instant::now();
            let mut kept = Vec::with_capacity(COUNT);
            store
                .read(id(4), 0, &mut |item| {
                    if let StoredItem::Entry(entry) = item {
                        kept.push(entry);
                    }
                    ControlFlow::Continue(())
                })
                .unwrap();
            ours.push(begun.elapsed());
            assert_eq!(kept.len(), COUNT);
        }
        let [ours, plain] = [ours, plain].map(median).map(micros);
        let unit = |time: f64| format!("{:.1} ms", time / 1000.0);
        line(
            &format!("load of 10,000 entries, {kind}"),
            unit(ours),
            unit(plain),
            ours / plain,
            "≤ 1.5 of parsing",
        );
    }
}

/// The first page of a list.
fn lists(folder: &Path) {
    let time = |count: u64| {
        let path = folder.join(format!("list-{count}.db"));
        let location = format!("sqlite:{}", path.display());
        {
            let sqlite = store(&location);
            let mut maker = Maker::new(5);
            for number in 0..count {
                maker.chain = Chain::empty();
                let entries = maker.entries(id(number), 2, 60);
                // One commit each would measure the disk, not the list: durability is measured above.
                sqlite.append(id(number), None, &entries).unwrap();
            }
            sqlite.settle().unwrap();
        }
        let mut times = Vec::new();
        for _ in 0..31 {
            let begun = Instant::now();
            let location: Location = location.parse().unwrap();
            let sqlite = open(&location, Options { access: Access::Read, digester: digest }).unwrap();
            let page = sqlite.list(&Query { limit: Some(20), ..Query::default() }).unwrap();
            assert_eq!((page.conversations.len(), page.total), (20, count));
            drop(sqlite);
            times.push(begun.elapsed());
        }
        micros(median(times))
    };
    let (few, many) = (time(100), time(100_000));
    let unit = |time: f64| format!("{time:.0} µs");
    line("list, 100,000 next to 100", unit(many), unit(few), many / few, "≤ 3");
}

/// How long ripgrep (or `grep` without it) takes to find a text in a file, in microseconds.
fn grep(words: &str, file: &Path) -> (f64, &'static str) {
    for (program, by) in [("rg", "of ripgrep"), ("grep", "of grep (ripgrep is not installed)")] {
        let begun = Instant::now();
        if std::process::Command::new(program).args(["-F", "-c", words]).arg(file).output().is_ok() {
            return (micros(begun.elapsed()), by);
        }
    }
    (f64::NAN, "neither ripgrep nor grep is installed")
}

/// A search, next to ripgrep over the same data.
fn search(folder: &Path, count: usize) {
    let path = folder.join("search.db");
    let sqlite = store(&format!("sqlite:{}", path.display()));
    let mut lines = OpenOptions::new().create(true).append(true).open(folder.join("search.jsonl")).unwrap();
    let mut maker = Maker::new(6);
    let each = 10_000;
    for number in 0..count / each {
        maker.chain = Chain::empty();
        let mut entries = maker.entries(id(number as u64 + 1000), each, 400);
        if number == 7 {
            entries.push(maker.message("the needle in the haystack is called zyzzyva"));
        }
        sqlite.append(id(number as u64 + 1000), None, &entries).unwrap();
        for entry in &entries {
            lines.write_all(entry.to_line().as_bytes()).unwrap();
            lines.write_all(b"\n").unwrap();
        }
    }
    let begun = Instant::now();
    sqlite.settle().unwrap();
    println!("indexing {count} messages took {:.1} s more", begun.elapsed().as_secs_f64());
    for words in ["zyzzyva", "needle haystack", "caae1a", "aaaa0"] {
        let mut times = Vec::new();
        let mut hits = 0;
        for _ in 0..9 {
            let begun = Instant::now();
            let found =
                sqlite.search(&Search { words: words.into(), limit: 20, ..Search::default() }).unwrap();
            hits = found.len();
            times.push(begun.elapsed());
        }
        let ours = micros(median(times));
        let (plain, by) = grep(words, &folder.join("search.jsonl"));
        let unit = |time: f64| format!("{:.1} ms", time / 1000.0);
        line(&format!("search `{words}` ({hits} hits)"), unit(ours), unit(plain), ours / plain, by);
    }
}

/// How many entries several processes append to one store in a few seconds, each to its own conversation.
fn writers(folder: &Path) {
    const SECONDS: u64 = 4;
    let count = |kind: &str, writers: u64| -> u64 {
        let location = format!("{kind}:{}", folder.join(format!("writers-{writers}-{kind}")).display());
        drop(store(&location));
        let children: Vec<_> = (0..writers)
            .map(|number| {
                std::process::Command::new(std::env::current_exe().unwrap())
                    .env("REJOIN_BENCH_WRITER", format!("{number} {SECONDS} {location}"))
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let said = children.into_iter().map(|child| child.wait_with_output().unwrap().stdout);
        said.map(|said| String::from_utf8(said).unwrap().trim().parse::<u64>().unwrap()).sum()
    };
    for kind in ["sqlite", "jsonl"] {
        let (one, eight) = (count(kind, 1), count(kind, 8));
        let unit = |count: u64| format!("{}/s", count / SECONDS);
        line(
            &format!("appends of 8 processes, {kind}"),
            unit(eight),
            unit(one),
            eight as f64 / one as f64,
            "of one",
        );
    }
}

/// One of the processes.
fn writer(job: &str) {
    let mut job = job.splitn(3, ' ');
    let number: u64 = job.next().unwrap().parse().unwrap();
    let time = Duration::from_secs(job.next().unwrap().parse().unwrap());
    let store = store(job.next().unwrap());
    let mut maker = Maker::new(100 + number);
    let mut tail = Some(store.append(id(100 + number), None, &[maker.header(id(100 + number))]).unwrap());
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        let text = maker.dice.text(1000);
        let entry = maker.message(&text);
        tail = Some(store.append(id(100 + number), tail, &[entry]).unwrap());
        count += 1;
    }
    println!("{count}");
}

fn main() {
    if let Ok(job) = std::env::var("REJOIN_BENCH_WRITER") {
        return writer(&job);
    }
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = folder.path();
    println!("{:<34} {:>14} {:>14} {:>8}   promise", "", "ours", "plain", "ratio");
    if wanted("append") {
        appends(folder);
    }
    if wanted("import") {
        import(folder);
    }
    if wanted("repeated") {
        repeated(folder);
    }
    if wanted("load") {
        load(folder);
    }
    if wanted("list") {
        lists(folder);
    }
    if wanted("writers") {
        writers(folder);
    }
    if wanted("search") {
        let count = std::env::var("REJOIN_BENCH_MESSAGES").ok().and_then(|count| count.parse().ok());
        search(folder, count.unwrap_or(1_000_000));
    }
}
