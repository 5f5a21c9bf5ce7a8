//! The cost of PostgreSQL through the store, next to pgbench with the same statements. `cargo xtask bench postgres` runs it.
//!
//! The statements and their parameters are taken from the server's log of the store's queries, so pgbench always runs what the
//! store runs. Both take turns on one server that syncs every commit (`fsync` and `synchronous_commit` are on).

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark may")]

use std::{
    fmt::Write as _,
    fs,
    ops::ControlFlow,
    path::PathBuf,
    process::Command,
    sync::Barrier,
    time::{Duration, Instant},
};

use rejoin_record::{
    Chain, Content, ConversationId, Entry, Kind, Message, Tail, chain::Stamp, content::Metadata,
};
use rejoin_store::{Access, Location, Options, Query, Store, StoredItem, open};
use testkit::{
    faults::{Dice, digest},
    postgres::{INSTALL, Server, processor_time, programs},
};

mod stamps;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often the store and pgbench take turns: `REJOIN_BENCH_ROUNDS`, or this.
const ROUNDS: usize = 12;

/// How long each turn takes.
const TURN: Duration = Duration::from_secs(1);

/// The number of entries in a conversation that is read. It is less than the first page of a read.
const PAGE: usize = 50;

/// The length of a message.
const BYTES: usize = 1000;

/// A conversation in the making.
struct Talk {
    id: ConversationId,
    chain: Chain,
    dice: Dice,
    made: u64,
}

impl Talk {
    fn new(number: u64) -> Self {
        let id = ConversationId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self { id, chain: Chain::empty(), dice: Dice(number + 1), made: 0 }
    }

    fn stamp(&mut self) -> Stamp {
        self.made += 1;
        stamps::stamp(self.made, || self.dice.roll())
    }

    fn header(&mut self) -> Entry {
        let conversation = self.id;
        let metadata = Metadata { conversation, provider: None, model: None, directory: None, format: None };
        let stamp = self.stamp();
        self.chain.append(Kind::Header, &Content::Header(metadata), stamp)
    }

    fn message(&mut self) -> Entry {
        let mut text = String::with_capacity(BYTES + 16);
        while text.len() < BYTES {
            write!(text, "{:x} ", self.dice.roll() >> 24).unwrap();
        }
        let stamp = self.stamp();
        self.chain.append(Kind::Message, &Content::Message(Message::user(text)), stamp)
    }

    fn messages(&mut self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| self.message()).collect()
    }

    /// A header and messages.
    fn entries(&mut self, count: usize) -> Vec<Entry> {
        let mut entries = vec![self.header()];
        entries.extend(self.messages(count - 1));
        entries
    }
}

/// A database and the programs of the server that it is on.
struct Base<'s> {
    server: &'s Server,
    name: String,
    programs: PathBuf,
    folder: tempfile::TempDir,
}

/// A statement that the store sent, with its parameters as text; none for a null.
#[derive(Debug, Clone)]
struct Sent {
    statement: String,
    parameters: Vec<Option<String>>,
}

impl<'s> Base<'s> {
    fn new(server: &'s Server, programs: PathBuf) -> Self {
        Self { server, name: server.database(), programs, folder: tempfile::tempdir().unwrap() }
    }

    fn psql(&self, statement: &str) -> String {
        self.server.psql(&self.name, statement).unwrap()
    }

    fn store(&self) -> Box<dyn Store> {
        let location: Location = self.server.address(&self.name).parse().unwrap();
        open(&location, Options { access: Access::Write, digester: digest }).unwrap()
    }

    /// The statements that some work sends, in order.
    fn sent(&self, work: impl FnOnce(&dyn Store)) -> Vec<Sent> {
        drop(self.store());
        let before = self.server.log().len();
        let name = &self.name;
        // Bytes as text where they are text: as digits, a body would be twice as long for pgbench.
        self.psql(&format!("ALTER DATABASE {name} SET bytea_output = 'escape'"));
        self.psql(&format!("ALTER DATABASE {name} SET log_statement = 'all'"));
        work(&*self.store());
        self.psql(&format!("ALTER DATABASE {name} RESET log_statement"));
        self.psql(&format!("ALTER DATABASE {name} RESET bytea_output"));
        statements(&self.server.log()[before..])
    }

    /// How many times a second pgbench runs a script.
    fn pgbench(&self, script: &str, variables: &[(String, String)], clients: usize) -> Turn {
        let path = self.folder.path().join("script.sql");
        fs::write(&path, script).unwrap();
        let mut command = Command::new(self.programs.join("pgbench"));
        command.args(["-n", "-M", "prepared", "-U", "postgres", "-h"]).arg(self.server.socket());
        command.args(["-c", &clients.to_string(), "-j", &clients.min(2).to_string()]);
        command.args(["-T", &TURN.as_secs().to_string(), "-f"]).arg(&path);
        for (name, value) in variables {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        command.arg(&self.name);
        turn(
            self,
            || processor_time("self").1,
            || {
                let done = command.output().unwrap();
                let (out, err) =
                    (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
                assert!(done.status.success(), "pgbench: {err}");
                let said = |what: &str| {
                    out.lines()
                        .find_map(|line| line.strip_prefix(what)?.split([' ', '/']).next()?.parse().ok())
                };
                let said = said("tps = ").zip(said("number of transactions actually processed: "));
                said.unwrap_or_else(|| panic!("pgbench says no rate: {out} {err}"))
            },
        )
    }
}

/// The result of one turn of either.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// How many times a second it was done.
    rate: f64,
    /// The processor time of the client for each time, in microseconds, and that of the server.
    client: f64,
    server: f64,
}

/// Measures the processor time of a turn: `own` is the client's so far. `work` returns a rate and how often it was done.
fn turn(base: &Base<'_>, own: impl Fn() -> f64, work: impl FnOnce() -> (f64, f64)) -> Turn {
    let (client, server) = (own(), base.server.processor_time());
    let (rate, count) = work();
    let each = |from: f64, to: f64| (to - from) * 1e6 / count;
    Turn { rate, client: each(client, own()), server: each(server, base.server.processor_time()) }
}

/// The statements in a server's log, with their parameters.
fn statements(log: &str) -> Vec<Sent> {
    let mut found: Vec<Sent> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("LOG:  execute ")
            && let Some((_, statement)) = rest.split_once(": ")
        {
            found.push(Sent { statement: statement.to_owned(), parameters: Vec::new() });
        } else if let Some((_, list)) = line.split_once("arameters: ")
            && let Some(last) = found.last_mut()
        {
            last.parameters = parameters(list);
        }
    }
    found
}

/// Reads `$1 = 'it''s', $2 = NULL`.
fn parameters(mut list: &str) -> Vec<Option<String>> {
    let mut found = Vec::new();
    while let Some((_, rest)) = list.split_once(" = ") {
        let Some(quoted) = rest.strip_prefix('\'') else {
            found.push(None);
            list = &rest["NULL".len()..];
            continue;
        };
        let (mut value, mut end) = (String::new(), quoted.len());
        let mut characters = quoted.char_indices().peekable();
        while let Some((place, character)) = characters.next() {
            if character == '\'' && characters.next_if(|(_, next)| *next == '\'').is_none() {
                end = place + 1;
                break;
            }
            value.push(character);
        }
        found.push(Some(value));
        list = &quoted[end..];
    }
    found
}

/// A statement as pgbench takes it: `$3` becomes the given text.
fn with_parameters(statement: &str, mut text: impl FnMut(usize) -> String) -> String {
    let mut out = String::with_capacity(statement.len());
    let mut rest = statement;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&text(after[..digits].parse::<usize>().unwrap() - 1));
        rest = &after[digits..];
    }
    out + rest
}

/// The script that repeats an append: numbers continue as from the first of two appends to the second, all else stays the same.
fn append_script(first: &Sent, second: &Sent, after: Tail) -> (String, Vec<(String, String)>) {
    assert_eq!(first.statement, second.statement, "two appends are the same statement");
    let mut script = String::from(
        "\\if :fresh\nSELECT :prefix::text || :client_id::text AS p0 \\gset\n\\set fresh 0\n\\endif\n",
    );
    let mut variables = vec![(String::from("fresh"), String::from("1"))];
    let mut texts = Vec::new();
    // The expected tail is the one that the last append has set; it keeps its id and its hash.
    let before = [after.id.to_string(), escaped(after.hash.as_bytes())];
    let same: Vec<Option<&String>> = second
        .parameters
        .iter()
        .map(|value| {
            let place = before.iter().position(|before| Some(before) == value.as_ref())?;
            second.parameters[2 + place].as_ref()
        })
        .collect();
    for (number, value) in second.parameters.iter().enumerate() {
        let Some(value) = value else {
            texts.push(String::from("NULL"));
            continue;
        };
        // pgbench has no empty variables.
        if value.is_empty() {
            texts.push(String::from("''"));
            continue;
        }
        let bare = value.trim_start_matches('{').trim_end_matches('}');
        let earlier = first.parameters[number].as_deref().unwrap_or_default();
        let earlier = earlier.trim_start_matches('{').trim_end_matches('}');
        let step = match (bare.parse::<i64>(), earlier.parse::<i64>()) {
            (Ok(now), Ok(then)) if now != then => Some(now - then),
            _ => None,
        };
        let is_list = bare.len() < value.len();
        texts.push(if is_list && step.is_some() {
            format!("ARRAY[:p{number}]")
        } else {
            format!(":p{number}")
        });
        match step {
            Some(step) => {
                writeln!(script, "\\set p{number} :p{number} + {step}").unwrap();
                variables.push((format!("p{number}"), bare.to_owned()));
            }
            // The conversation is each client's own.
            None if number == 0 => {}
            None => variables.push((format!("p{number}"), same[number].unwrap_or(value).clone())),
        }
    }
    writeln!(script, "{};", with_parameters(&second.statement, |number| texts[number].clone())).unwrap();
    (script, variables)
}

/// Bytes as the server writes them with `bytea_output = escape`.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => write!(out, "\\{byte:03o}").unwrap(),
        }
    }
    out
}

fn rounds() -> usize {
    std::env::var("REJOIN_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Lets the two take turns, and prints the median rate of each and the median of the ratios of the rounds; beside it, the ratio of the
/// best rates, which is that of two single rounds.
fn turns(what: &str, mut ours: impl FnMut(usize) -> Turn, mut plain: impl FnMut(usize) -> Turn) {
    let (mut rates, mut plains) = (Vec::new(), Vec::new());
    for round in 0..rounds() {
        // Each is the first one every other time.
        if round % 2 == 0 {
            rates.push(ours(round));
            plains.push(plain(round));
        } else {
            plains.push(plain(round));
            rates.push(ours(round));
        }
    }
    let best = |turns: &[Turn]| turns.iter().map(|turn| turn.rate).fold(0.0, f64::max);
    let middle = |turns: &[Turn]| median(turns.iter().map(|turn| turn.rate).collect());
    let (rate, other) = (middle(&rates), middle(&plains));
    let ratio = median(rates.iter().zip(&plains).map(|(ours, plain)| ours.rate / plain.rate).collect());
    let of_best = best(&rates) / best(&plains);
    println!(
        "{what:<34} {rate:>10.0}/s {other:>10.0}/s {ratio:>7.2}×   (of the best rounds {of_best:.2}; aim: ≥ 0.8)"
    );
    let cost = |turns: &[Turn]| {
        let middle = |of: fn(&Turn) -> f64| median(turns.iter().map(of).collect());
        let (client, server) = (middle(|turn| turn.client), middle(|turn| turn.server));
        format!("{:.0} µs ({client:.0} client, {server:.0} server)", client + server)
    };
    println!("    processor time of each: {}; of pgbench's: {}", cost(&rates), cost(&plains));
}

/// Lets threads do something together, each on its own.
fn rate<T: Send>(base: &Base<'_>, work: Vec<T>, each: impl Fn(&mut T) -> ControlFlow<()> + Sync) -> Turn {
    turn(base, || processor_time("self").0, || together(work, each))
}

fn together<T: Send>(work: Vec<T>, each: impl Fn(&mut T) -> ControlFlow<()> + Sync) -> (f64, f64) {
    let barrier = Barrier::new(work.len());
    let done: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let threads = work.into_iter().map(|mut work| {
            let (barrier, each) = (&barrier, &each);
            scope.spawn(move || {
                // The first time opens a connection.
                let _ = each(&mut work);
                barrier.wait();
                let (begun, mut count) = (Instant::now(), 0);
                while begun.elapsed() < TURN && each(&mut work).is_continue() {
                    count += 1;
                }
                (count, begun.elapsed())
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let rate = done.iter().map(|(count, time)| *count as f64 / time.as_secs_f64()).sum();
    (rate, done.iter().map(|(count, _)| *count as f64).sum())
}

/// Durable appends of one message, each client to its own conversation.
fn appends(base: &Base<'_>, clients: usize) {
    let mut talk = Talk::new(clients as u64);
    let entries = talk.entries(4);
    let sent = base.sent(|store| {
        let mut tail = None;
        for batch in entries.chunks(1) {
            tail = Some(store.append(talk.id, tail, batch).unwrap());
        }
    });
    let appends: Vec<&Sent> =
        sent.iter().filter(|sent| sent.statement.contains("INSERT INTO rejoin.entry")).collect();
    let [_, _, first, second] = appends[..] else { panic!("four appends: {appends:?}") };
    let (script, variables) = append_script(first, second, Tail::of(&entries[2]));
    let store = base.store();
    let source = talk.id;
    let made = std::cell::Cell::new(1000 * clients as u64);
    let reporting = std::cell::RefCell::new(Vec::new());
    let ours = |_: usize| {
        let work: Vec<(ConversationId, Option<Tail>, std::vec::IntoIter<Entry>)> = (0..clients)
            .map(|_| {
                made.set(made.get() + 1);
                let mut talk = Talk::new(made.get());
                let header = talk.header();
                let tail = store.append(talk.id, None, &[header]).unwrap();
                // Sealing entries must not be measured.
                (talk.id, Some(tail), talk.messages(40_000 / clients).into_iter())
            })
            .collect();
        let rate = rate(base, work, |(id, tail, entries)| match entries.next() {
            None => ControlFlow::Break(()),
            Some(entry) => {
                *tail = Some(store.append(*id, *tail, &[entry]).unwrap());
                ControlFlow::Continue(())
            }
        });
        // The rows for reports are also the store's work. Make them now, so that they do not disturb the other's turn.
        let begun = Instant::now();
        store.report().unwrap();
        reporting.borrow_mut().push(begun.elapsed().as_secs_f64() / TURN.as_secs_f64());
        rate
    };
    let plain = |round: usize| {
        let prefix = format!("r{round}n{clients}c");
        let names = format!("(SELECT '{prefix}' || n AS name FROM generate_series(0, {}) AS n)", clients - 1);
        base.psql(&format!(
            "INSERT INTO rejoin.conversation SELECT name, seq, tail, hash FROM rejoin.conversation, {names} AS n WHERE id = '{source}'; \
             INSERT INTO rejoin.summary SELECT copy.* FROM rejoin.summary AS s, {names} AS n, \
             LATERAL jsonb_populate_record(s, jsonb_build_object('id', name)) AS copy WHERE s.id = '{source}'"
        ));
        let mut variables = variables.clone();
        variables.push((String::from("prefix"), prefix.clone()));
        let rate = base.pgbench(&script, &variables, clients);
        let appended = base
            .psql(&format!("SELECT min(seq), count(*) FROM rejoin.conversation WHERE id LIKE '{prefix}%'"));
        let (least, count) = appended.split_once('|').unwrap();
        assert!(
            least.parse::<u64>().unwrap() > 4 && count == clients.to_string(),
            "pgbench appends: {appended}"
        );
        rate
    };
    turns(&format!("durable appends, {}", named(clients)), ours, plain);
    println!(
        "    rows for reports of what was appended in a second take {:.0} ms more, in the median",
        1000.0 * median(reporting.take())
    );
}

fn named(clients: usize) -> String {
    if clients == 1 { String::from("1 client") } else { format!("{clients} clients") }
}

/// Reads of a whole page, with a separate conversation for each client.
fn reads(base: &Base<'_>, clients: usize) {
    let store = base.store();
    let ids: Vec<ConversationId> = (0..clients as u64)
        .map(|number| {
            let mut talk = Talk::new(1_000_000 + 1000 * clients as u64 + number);
            store.append(talk.id, None, &talk.entries(PAGE)).unwrap();
            talk.id
        })
        .collect();
    let read = |store: &dyn Store, id: ConversationId| {
        let mut count = 0;
        let each = &mut |item| {
            count += usize::from(matches!(item, StoredItem::Entry(_)));
            ControlFlow::Continue(())
        };
        store.read(id, 0, each).unwrap();
        assert_eq!(count, PAGE);
    };
    let sent = base.sent(|store| read(store, ids[0]));
    let name = ids[0].to_string();
    let sent: Vec<&Sent> =
        sent.iter().filter(|sent| sent.parameters.first() == Some(&Some(name.clone()))).collect();
    assert!(!sent.is_empty(), "the store reads");
    let mut script = String::from("\\if :fresh\n");
    for (client, id) in ids.iter().enumerate() {
        writeln!(script, "\\if :client_id = {client}\nSELECT '{id}' AS name \\gset\n\\endif").unwrap();
    }
    script.push_str("\\set fresh 0\n\\endif\n");
    let mut variables = vec![(String::from("fresh"), String::from("1"))];
    for (number, sent) in sent.iter().enumerate() {
        let text = |parameter: usize| match parameter {
            0 => String::from(":name"),
            _ => format!(":s{number}p{parameter}"),
        };
        writeln!(script, "{};", with_parameters(&sent.statement, text)).unwrap();
        for (parameter, value) in sent.parameters.iter().enumerate().skip(1) {
            variables.push((format!("s{number}p{parameter}"), value.clone().unwrap()));
        }
    }
    base.psql("VACUUM ANALYZE");
    let ours = |_: usize| {
        rate(base, ids.clone(), |id| {
            read(&*store, *id);
            ControlFlow::Continue(())
        })
    };
    let plain = |_: usize| base.pgbench(&script, &variables, clients);
    turns(&format!("reads of {PAGE} entries, {}", named(clients)), ours, plain);
}

/// The first page of a list, in microseconds: the median of many.
fn list(base: &Base<'_>, count: u64) -> f64 {
    let store = base.store();
    let mut talk = Talk::new(count);
    store.append(talk.id, None, &talk.entries(4)).unwrap();
    let source = talk.id;
    let copies = count - 1;
    // Digits of a hash are letters of an id, except for four.
    let name = "'conv_' || left(translate(md5(n::text), '0189', 'ghij'), 12)";
    base.psql(&format!(
        "INSERT INTO rejoin.conversation SELECT {name}, seq, tail, hash \
         FROM rejoin.conversation, generate_series(1, {copies}) AS n WHERE id = '{source}'; \
         INSERT INTO rejoin.summary SELECT copy.* FROM rejoin.summary AS s, generate_series(1, {copies}) AS n, \
         LATERAL jsonb_populate_record(s, jsonb_build_object('id', {name}, 'title', 'Conversation ' || n, \
         'updated', s.updated - (n::bigint * 7919 % 100000000) * 1000)) AS copy WHERE s.id = '{source}'; \
         UPDATE rejoin.total SET conversations = CASE WHEN part = 0 THEN {count} ELSE 0 END;"
    ));
    base.psql("VACUUM ANALYZE");
    let query = Query { limit: Some(20), ..Query::default() };
    let mut times = Vec::new();
    for _ in 0..501 {
        let begun = Instant::now();
        let page = store.list(&query).unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e6);
        assert_eq!((page.conversations.len(), page.total), (20, count));
    }
    median(times)
}

fn lists(few: &Base<'_>, many: &Base<'_>) {
    let (few, many) = (list(few, 1_000), list(many, 1_000_000));
    let what = "list, 1,000,000 next to 1,000";
    println!("{what:<34} {many:>9.0} µs {few:>9.0} µs {:>7.2}×   (aim: ≤ 3)", many / few);
}

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    let Some(programs) = programs() else { panic!("PostgreSQL is not installed: `{INSTALL}`") };
    assert!(programs.join("pgbench").exists(), "{} has no pgbench", programs.display());
    // A checkpoint in the middle would hit only one of the two.
    let server = Server::start(programs.clone(), &["max_wal_size=8GB", "checkpoint_timeout=1h"]);
    let base = Base::new(&server, programs.clone());
    for setting in ["fsync", "synchronous_commit"] {
        assert_eq!(base.psql(&format!("SHOW {setting}")), "on");
    }
    println!("{:<34} {:>12} {:>12} {:>8}", "", "rejoin", "pgbench", "ratio");
    for clients in [1, 16] {
        if wanted("append") {
            appends(&base, clients);
        }
        if wanted("read") {
            reads(&base, clients);
        }
    }
    if wanted("list") {
        let [few, many] = [(), ()].map(|()| Base::new(&server, programs.clone()));
        lists(&few, &many);
    }
}
