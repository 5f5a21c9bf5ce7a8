//! Kills turns at any moment, on any provider, and continues them: real processes, real SIGKILLs, real HTTP.
//!
//! `REJOIN_KILLS` sets the number of runs (default 50), `REJOIN_KILL_SEED` the seed; `cargo xtask kill` runs 500.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use support::{
    Home, Ran, STORES,
    services::{PROVIDERS, Provider, with_keys},
};
use testkit::loopback::{Config, Fault, Loopback};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides.max(1)
    }
}

/// The acknowledgements of a process before it was killed.
#[derive(Debug, Default)]
struct Seen {
    conversation: Option<String>,
    /// Messages of the model.
    answered: Vec<String>,
    /// Calls whose result was reported.
    ended: Vec<String>,
    /// The text that was shown of an answer that was not acknowledged.
    shown: String,
    /// Whether a request was sent, so that the message before it must be stored.
    asked: bool,
    /// Whether it ended before it was killed.
    finished: bool,
    /// The call of an MCP server that ran when it was killed.
    in_server: Option<String>,
}

/// Runs a command and kills it after a while. All its questions about approval are answered with yes.
fn run_and_kill(mut command: std::process::Command, after: Duration) -> Seen {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut answers = child.stdin.take().unwrap();
    let reader = thread::spawn(move || {
        let mut seen = Seen::default();
        for line in lines.lines().map_while(Result::ok) {
            // The last line may be cut off with the process.
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap_or_default() {
                "started" => seen.conversation = Some(text("conversation")),
                "asking" => seen.asked = true,
                "approval_wanted" => {
                    let reply = serde_json::json!({"call_id": event["call_id"], "answer": "yes"});
                    // It may be dead by now.
                    let _ = writeln!(answers, "{reply}");
                }
                "text" => seen.shown.push_str(&text("text")),
                "answered" => {
                    seen.answered.push(text("entry"));
                    seen.shown.clear();
                }
                "call_started" if text("name").starts_with("kit__") => seen.in_server = Some(text("id")),
                "call_ended" => {
                    seen.in_server = None;
                    seen.ended.push(text("id"));
                }
                "ended" => seen.finished = true,
                _ => {}
            }
        }
        seen
    });
    let began = Instant::now();
    while began.elapsed() < after && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_micros(300));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// The content of the record.
struct Record {
    ids: HashSet<String>,
    messages: usize,
    /// The text of each message of the model.
    said: Vec<String>,
    /// For each call, how often it was set running, and how many results it has.
    running: HashMap<(String, u64), usize>,
    results: HashMap<String, usize>,
}

impl Record {
    fn of(home: &Home, id: &str) -> Self {
        let text = home.out(&["history", "export", id, "--to", "jsonl"]);
        let mut record = Self {
            ids: HashSet::new(),
            messages: 0,
            said: said_by_model(home, id),
            running: HashMap::new(),
            results: HashMap::new(),
        };
        for line in text.lines() {
            let entry: Value = serde_json::from_str(line).unwrap();
            record.ids.insert(entry["id"].as_str().unwrap().to_owned());
            match entry["type"].as_str().unwrap() {
                "message" => {
                    record.messages += 1;
                    // In every form of the body, a result names its call.
                    for call in result_ids(&entry) {
                        *record.results.entry(call).or_default() += 1;
                    }
                }
                "turn" if entry["body"]["state"] == "call-running" => {
                    let call = &entry["body"]["call"];
                    let key = (call["entry"].as_str().unwrap().to_owned(), call["block"].as_u64().unwrap());
                    *record.running.entry(key).or_default() += 1;
                }
                "compacted" | "prune" => _ = FITTED.fetch_add(1, Ordering::Relaxed),
                _ => {}
            }
        }
        record
    }
}

/// The notes at the beginning.
fn notes() -> String {
    "a note\n".repeat(200)
}

/// For each file, the hashes of what tools were about to make of it, in this conversation and those of delegated tasks.
fn planned(home: &Home) -> HashSet<(String, String)> {
    let ids = home.lines(&["list", "--json"]).into_iter();
    let exports =
        ids.map(|listed| home.out(&["history", "export", listed["id"].as_str().unwrap(), "--to", "jsonl"]));
    let entries = exports.flat_map(|export| {
        export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
    let approved = entries.filter(|entry| entry["type"] == "change" && entry["body"]["state"] == "approved");
    approved
        .map(|entry| {
            let text = |name: &str| entry["body"][name].as_str().unwrap_or_default().to_owned();
            (text("path"), text("after"))
        })
        .collect()
}

/// A file that is not as it was and not as a recorded change makes it. What commands change is not known.
fn unknown_change(home: &Home) -> Option<String> {
    let planned = planned(home);
    let here = home.path("here");
    let made = std::fs::read_dir(here.join("made")).into_iter().flatten();
    let made = made.map(|file| format!("made/{}", file.unwrap().file_name().to_string_lossy()));
    // A killed process may leave the file that it was writing next to the real one.
    let files = made.filter(|path| !path.contains("/.")).chain([String::from("notes.txt")]);
    files.into_iter().find(|path| {
        let content = std::fs::read(here.join(path)).unwrap();
        let hash = blake3::hash(&content).to_hex().to_string();
        content != notes().as_bytes() && !planned.contains(&(path.clone(), hash))
    })
}

/// The text of each message of the model, as people and programs see it.
fn said_by_model(home: &Home, id: &str) -> Vec<String> {
    let messages = home.lines(&["history", "show", id, "--json"]).into_iter();
    let by_model = messages.filter(|message| message["role"] == "assistant");
    by_model.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A text without its white space. Gemini signs the last part of some answers, so that part is stored as a separate text: the
/// history shows it on a new line, but the stream continues on the same line.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The calls that a message of a tool answers.
fn result_ids(entry: &Value) -> Vec<String> {
    let body = &entry["body"];
    if body["role"] != "tool" {
        return Vec::new();
    }
    let blocks = body["blocks"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| Some(block["result"]["for"].as_str()?.to_owned())).collect()
}

fn command(
    home: &Home,
    server: &Loopback,
    provider: Option<&Provider>,
    arguments: &[&str],
    window: Option<&str>,
) -> std::process::Command {
    let mut command = match provider {
        Some(provider) => provider.command(home, server, arguments),
        // The conversation says who answers.
        None => home.command(arguments),
    };
    with_keys(&mut command, server);
    // A window so small that results are pruned and the conversation is compacted in the middle of turns.
    if let Some(window) = window {
        command.env("REJOIN_CONTEXT_WINDOW", window);
        command.env("REJOIN_PRUNE_KEEP_LAST", "0").env("REJOIN_PRUNE_BATCH", "1");
    }
    command
}

/// How many kills hit an answer of which something was shown.
static CUT: AtomicUsize = AtomicUsize::new(0);

/// How many compactions and prunes were seen in records.
static FITTED: AtomicUsize = AtomicUsize::new(0);

/// How many kills hit a call of an MCP server.
static IN_SERVER: AtomicUsize = AtomicUsize::new(0);

/// Adds an MCP server whose processes can be distinguished from those of other homes.
fn add_server(home: &Home) {
    let (kit, log) =
        (testkit::mcp::server().display().to_string(), home.path("kit.log").display().to_string());
    home.out(&["mcp", "add", "kit", "--", &kit, "--log", &log]);
}

/// Waits until nothing of the MCP server of a home runs any more; false if something stays.
fn server_is_gone(home: &Home) -> bool {
    let (kit, marker) = (testkit::mcp::server(), home.path("kit.log"));
    let (kit, marker) = (kit.to_str().unwrap().as_bytes(), marker.to_str().unwrap().as_bytes());
    let runs = || {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).any(|line| {
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&kit) && words.contains(&marker)
        })
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while runs() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// How many kills left files that a tool had changed.
static CHANGED: AtomicUsize = AtomicUsize::new(0);

/// One run: a turn is killed, perhaps two or three times, and continued.
fn run(number: u64, server: &Loopback) -> Result<bool, String> {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed());
    let home = Home::new(STORES[(number % 2) as usize]);
    std::fs::create_dir_all(home.path("here")).unwrap();
    std::fs::write(home.path("here").join("notes.txt"), notes()).unwrap();
    // In some runs the tools are those of an MCP server, which is killed with everything else.
    let serving = number % 5 == 4;
    if serving {
        add_server(&home);
    }
    let mut provider = &PROVIDERS[(number as usize / 2) % PROVIDERS.len()];
    let label = format!("run {number} on {} and {}", provider.label(), home.store.split(':').next().unwrap());
    let fail = |what: String| Err(format!("{label}: {what}"));
    let window = number.is_multiple_of(3).then_some("2200");
    let mut id: Option<String> = None;
    let mut known: Option<Record> = None;
    let mut interrupted = false;
    for round in 0..=dice.roll(3) {
        // Every other one is an answer of many words, to be cut in the middle.
        let talkative =
            if dice.roll(2) == 0 { format!("words:{}", 40 + dice.roll(80)) } else { String::new() };
        let (tools, steps) = (1 + dice.roll(4), 1 + dice.roll(3));
        // And every other turn of tools changes files and runs commands.
        let change = if dice.roll(2) == 0 { "change " } else { "" };
        let said = match talkative.as_str() {
            _ if serving => format!("call:kit__nap tools:{tools} steps:{steps} round {round}"),
            "" => format!("{change}tools:{tools} steps:{steps} think round {round}"),
            words => format!("{words} think round {round}"),
        };
        // Some turns ask about every change, and a program approves it.
        let mode = if dice.roll(2) == 0 { "ask" } else { "auto" };
        let approved = ["--mode", mode, "--approvals", "stdin", "--json"];
        let mut arguments = [&["chat"], &approved[..], &[said.as_str()]].concat();
        let rerun = dice.roll(4) == 0;
        if let Some(id) = &id {
            // As a person would: resume, with a word or by running again what has no result; sometimes on another provider.
            arguments = [&["resume"], &approved[..], &[id]].concat();
            if rerun {
                arguments.extend(["--on-broken", "rerun"]);
            }
            arguments.push(&said);
            if dice.roll(4) == 0 {
                provider = &PROVIDERS[dice.roll(PROVIDERS.len() as u64) as usize];
            }
        }
        let mut after = Duration::from_micros(dice.roll(140_000));
        if serving {
            // It takes a moment to start.
            after += Duration::from_micros(100_000 + dice.roll(500_000));
        }
        let seen = run_and_kill(command(&home, server, Some(provider), &arguments, window), after);
        interrupted |= !seen.finished;
        if serving && !server_is_gone(&home) {
            return fail(String::from("the MCP server runs on"));
        }
        IN_SERVER.fetch_add(usize::from(seen.in_server.is_some()), Ordering::Relaxed);
        id = id.or(seen.conversation.clone());
        let Some(id) = &id else { continue };
        if seen.conversation.is_none() && known.is_none() {
            continue;
        }
        let record = Record::of(&home, id);
        for entry in &seen.answered {
            if !record.ids.contains(entry) {
                return fail(format!("the model's message {entry} was acknowledged and is missing"));
            }
        }
        for call in &seen.ended {
            if !record.results.contains_key(call) {
                return fail(format!("the result of {call} was acknowledged and is missing"));
            }
        }
        let shown = letters(&seen.shown);
        CUT.fetch_add(usize::from(!shown.is_empty()), Ordering::Relaxed);
        if !record.said.iter().any(|said| letters(said).starts_with(&shown)) && !shown.is_empty() {
            return fail(format!("{:?} was shown and is missing", seen.shown));
        }
        if let Some(known) = &known {
            if known.said.iter().any(|said| !record.said.contains(said)) {
                return fail(String::from("words of the model that were there are gone"));
            }
            if !known.ids.is_subset(&record.ids) {
                return fail(String::from("an entry that was there is gone"));
            }
            for (call, times) in &known.running {
                let now = record.running.get(call).copied().unwrap_or(0);
                if now > *times && !rerun {
                    return fail(format!("{call:?} was run again without being asked for"));
                }
            }
        }
        for (call, results) in &record.results {
            if *results > 1 && !call.is_empty() {
                return fail(format!("{call} has {results} results: it was run again"));
            }
        }
        CHANGED.fetch_add(usize::from(home.path("here/made").exists()), Ordering::Relaxed);
        if let Some(unknown) = unknown_change(&home) {
            return fail(format!("{unknown} was changed, and the record does not know it"));
        }
        if seen.asked && record.messages == 0 {
            return fail(String::from("a request left before what was said was stored"));
        }
        known = Some(record);
    }
    let Some(id) = id else { return Ok(interrupted) };
    let last = command(&home, server, None, &["resume", &id, "and now the end"], window).output().unwrap();
    let ran = Ran::of(last);
    if ran.code != 0 {
        return fail(format!("resume failed with {}: {}", ran.code, ran.err));
    }
    let verified = home.run(&["verify"]);
    if verified.code != 0 {
        return fail(format!("verify: {}{}", verified.out, verified.err));
    }
    let violations = server.violations();
    if !violations.is_empty() {
        return fail(format!("the provider refused: {violations:#?}"));
    }
    Ok(interrupted)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

fn seed() -> u64 {
    number("REJOIN_KILL_SEED", 7)
}

/// S2-38, S2-39, S2-34: turns of several tools are killed at random moments, on every provider and both stores. `resume` continues,
/// the provider gets nothing unsound, nothing acknowledged or shown is missing, no completed call runs again, no file changes
/// without a record, and the store verifies.
#[test]
fn killed_at_any_moment() {
    let runs = number("REJOIN_KILLS", 50);
    let next = AtomicUsize::new(0);
    let problems = Mutex::new(Vec::new());
    let hit = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Each thread has a separate server, so that a refusal is reported by the run that caused it.
                let server = Loopback::start(Config::default());
                server.always(Fault::Slow(Duration::from_micros(700)));
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= runs {
                        break;
                    }
                    match run(number, &server) {
                        Ok(interrupted) => {
                            hit.fetch_add(usize::from(interrupted), Ordering::Relaxed);
                        }
                        Err(problem) => problems.lock().unwrap().push(problem),
                    }
                    server.forget();
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    let cut = CUT.load(Ordering::Relaxed);
    println!("{runs} runs, {} of them killed in the middle of a turn", hit.load(Ordering::Relaxed));
    println!("{cut} answers were cut after some of their words were shown");
    let changed = CHANGED.load(Ordering::Relaxed);
    println!("{changed} kills left files that tools had changed");
    let in_server = IN_SERVER.load(Ordering::Relaxed);
    println!("{in_server} kills hit a call of an MCP server");
    let fitted = FITTED.load(Ordering::Relaxed);
    println!("{fitted} compactions and prunes were in the records");
    assert!(problems.is_empty(), "{} of {runs} runs:\n{}", problems.len(), problems.join("\n"));
    assert!(hit.load(Ordering::Relaxed) * 2 > runs as usize, "most kills hit a turn");
    assert!(runs < 50 || cut > 0, "some kills hit an answer");
    assert!(runs < 50 || changed > 0, "some kills came after a change");
    assert!(runs < 500 || in_server > 0, "some kills hit a call of an MCP server");
    assert!(runs < 500 || fitted > 0, "some conversations were made to fit");
}

/// Killed while an MCP server works on a call: the server ends, too, the record shows that the call ran, and the conversation
/// continues with a result that says that it was interrupted.
#[test]
fn killed_in_a_call_of_a_server() {
    let server = Loopback::start(Config::default());
    for (number, kind) in STORES.iter().cycle().take(4).enumerate() {
        let home = Home::new(kind);
        add_server(&home);
        let provider = &PROVIDERS[number];
        let arguments = ["chat", "--json", "--mode", "auto", "call:kit__wait"];
        let mut command = command(&home, &server, Some(provider), &arguments, None);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut id = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            match event["type"].as_str().unwrap() {
                "started" => event["conversation"].as_str().unwrap().clone_into(&mut id),
                "call_started" => break,
                "call_ended" => panic!("{event}"),
                _ => {}
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(server_is_gone(&home), "the server runs on");
        let record = Record::of(&home, &id);
        assert_eq!((record.running.len(), record.results.len()), (1, 0), "{}", provider.label());
        let arguments = ["resume", &id, "and now?"];
        let ran = Ran::of(self::command(&home, &server, None, &arguments, None).output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(server.violations().is_empty(), "{:#?}", server.violations());
        home.verifies();
        server.forget();
    }
}

/// A turn that is killed while the model speaks, after it has shown a few words.
struct Cut {
    id: String,
    /// The part of the answer that was shown.
    text: String,
}

/// Runs a turn whose answer comes slowly, and kills it when enough of the answer was shown.
fn cut_in_the_middle(home: &Home, server: &Loopback, arguments: &[&str], enough: usize) -> Cut {
    server.always(Fault::Slow(Duration::from_millis(15)));
    let mut command = command(home, server, Some(&PROVIDERS[2]), arguments, None);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut cut = Cut { id: String::new(), text: String::new() };
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match event["type"].as_str().unwrap() {
            "started" => event["conversation"].as_str().unwrap().clone_into(&mut cut.id),
            "text" => cut.text.push_str(event["text"].as_str().unwrap()),
            "answered" => panic!("the answer came to its end before the kill"),
            _ => {}
        }
        if cut.text.len() >= enough {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    server.clear_faults();
    cut
}

/// The drafts next to a store.
fn drafts(home: &Home) -> Vec<std::path::PathBuf> {
    let folder = if home.is_jsonl() {
        home.place().join("drafts")
    } else {
        std::path::PathBuf::from(format!("{}.drafts", home.place().display()))
    };
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    files.map(|file| file.unwrap().path()).collect()
}

/// How often a text occurs in another.
fn times(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// Words that were on the screen when the process was killed are shown as interrupted by every reader, change no file until
/// someone writes, are recorded once by the next writer, and are part of the next request.
#[test]
fn words_that_were_shown_survive_a_kill() {
    let server = Loopback::start(Config::default());
    Home::each(|home| {
        let cut = cut_in_the_middle(home, &server, &["chat", "--json", "hello words:400"], 60);
        let shown = cut.text.trim();
        assert_eq!(drafts(home).len(), 1, "{}", home.store);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&drafts(home)[0]).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        // Readers show it, and change nothing.
        let before = std::fs::read(&drafts(home)[0]).unwrap();
        let people = home.out(&["history", "show", &cut.id]);
        assert!(people.contains("[interrupted: "), "{people}");
        let said = home.lines(&["history", "show", &cut.id, "--json"]);
        let last = said.last().unwrap();
        assert_eq!((last["role"].as_str(), &last["interrupted"]), (Some("assistant"), &Value::Bool(true)));
        assert!(last["content"].as_str().unwrap().starts_with(shown), "{last}");
        for arguments in [
            &["history", "export", &cut.id, "--to", "markdown"][..],
            &["history", "export", &cut.id, "--to", "jsonl"],
            &["convert", &cut.id, "--to", "openai-chat"],
            &["history", "show", &cut.id, "--view", "--json"],
        ] {
            assert_eq!(times(&home.out(arguments), shown), 1, "{arguments:?}");
        }
        let listed = &home.lines(&["list", "--json"])[0];
        assert_eq!((listed["state"].as_str(), listed["messages"].as_u64()), (Some("interrupted"), Some(2)));
        assert_eq!(std::fs::read(&drafts(home)[0]).unwrap(), before);
        home.verifies();
        // The next writer records it, and shows where the conversation was.
        let resumed = home.run(&["resume", &cut.id]);
        let beginning: String = shown.chars().take(20).collect();
        support::has(&resumed.err, &["State: interrupted, 2 messages", "Last exchange", &beginning]);
        let ran =
            command(home, &server, None, &["resume", &cut.id, "and now the end"], None).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(drafts(home).len(), 0);
        let record = home.out(&["history", "export", &cut.id, "--to", "jsonl"]);
        assert_eq!(times(&record, shown), 1, "{record}");
        assert!(record.contains(last["entry"].as_str().unwrap()), "under the id that readers gave it");
        let body = String::from_utf8(server.requests().last().unwrap().body.to_vec()).unwrap();
        assert_eq!(times(&body, shown), 1, "the next request has it: {body}");
        assert!(server.violations().is_empty(), "{:?}", server.violations());
        home.verifies();
        server.forget();
    });
}

/// Runs a test in a home of each kind, after a kill in the middle of an answer, with the draft that it left and its bytes.
fn each_with_draft(test: impl Fn(&Home, &Cut, &std::path::Path, &[u8])) {
    let server = Loopback::start(Config::default());
    Home::each(|home| {
        let cut = cut_in_the_middle(home, &server, &["chat", "--json", "hello words:400"], 60);
        let draft = drafts(home).remove(0);
        test(home, &cut, &draft, &std::fs::read(&draft).unwrap());
        server.forget();
    });
}

/// A kill between the append of the whole answer and the removal of its draft leaves both. The draft is dropped.
#[test]
fn a_draft_whose_answer_is_recorded_adds_nothing() {
    each_with_draft(|home, cut, draft, bytes| {
        home.out(&["history", "rename", &cut.id, "a title"]);
        assert!(!draft.exists(), "the next writer takes it in");
        let record = home.out(&["history", "export", &cut.id, "--to", "jsonl"]);
        std::fs::write(draft, bytes).unwrap();
        assert_eq!(home.out(&["history", "export", &cut.id, "--to", "jsonl"]), record);
        home.out(&["resume", &cut.id]);
        assert_eq!(home.out(&["history", "export", &cut.id, "--to", "jsonl"]), record);
        assert!(!draft.exists());
    });
}

/// Wherever the draft is cut, a whole prefix of its text is kept; one that cannot be read at all is copied aside.
#[test]
fn a_torn_draft_is_used_as_far_as_it_goes() {
    each_with_draft(|home, cut, draft, bytes| {
        for missing in [1, 2, 3, 4, 5, 20] {
            std::fs::write(draft, &bytes[..bytes.len() - missing]).unwrap();
            let last = home.lines(&["history", "show", &cut.id, "--json"]).pop().unwrap();
            let kept = last["content"].as_str().unwrap();
            assert!(kept.len() + 20 >= 60 && cut.text.starts_with(&kept[..40]), "{missing}: {kept}");
        }
        // A piece with half a character at its end.
        let mut torn = bytes.to_vec();
        torn.extend_from_slice("{\"text\":\"and caf\u{e9}".as_bytes());
        torn.pop();
        std::fs::write(draft, &torn).unwrap();
        let last = home.lines(&["history", "show", &cut.id, "--json"]).pop().unwrap();
        assert!(last["content"].as_str().unwrap().ends_with("and caf"), "{last}");
        std::fs::write(draft, b"no draft at all").unwrap();
        assert_eq!(home.lines(&["history", "show", &cut.id, "--json"]).len(), 1);
        home.out(&["resume", &cut.id]);
        assert!(!draft.exists());
        let aside = if home.is_jsonl() {
            home.place().join("aside")
        } else {
            std::path::PathBuf::from(format!("{}.aside", home.place().display()))
        };
        let kept = std::fs::read_dir(aside).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
        assert!(kept.into_iter().any(|bytes| bytes == b"no draft at all"));
    });
}

/// Deleting a conversation deletes its draft; erasing the message made from it leaves no copy.
#[test]
fn deleting_and_erasing_reach_drafts() {
    let server = Loopback::start(Config::default());
    Home::each(|home| {
        let cut = cut_in_the_middle(home, &server, &["chat", "--json", "hello words:400"], 60);
        home.out(&["history", "erase", &cut.id, "-m", "1", "--yes"]);
        assert_eq!(drafts(home).len(), 0);
        assert!(!home.out(&["history", "export", &cut.id, "--to", "jsonl"]).contains(cut.text.trim()));
        let cut = cut_in_the_middle(home, &server, &["chat", "--new", "--json", "hello words:400"], 60);
        assert_eq!(drafts(home).len(), 1);
        home.out(&["history", "delete", &cut.id, "--yes"]);
        assert_eq!(drafts(home).len(), 0);
        server.forget();
    });
}

/// While the answer is still being written, readers show the record alone, and the draft is its writer's.
#[test]
fn a_draft_in_writing_is_its_writers() {
    let server = Loopback::start(Config::default());
    server.always(Fault::Slow(Duration::from_millis(15)));
    Home::each(|home| {
        let mut command =
            command(home, &server, Some(&PROVIDERS[2]), &["chat", "--json", "hello words:300"], None);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("\"text\"") {}
        assert_eq!(drafts(home).len(), 1);
        assert_eq!(home.lines(&["history", "show", "@", "--json"]).len(), 1);
        assert_eq!(home.lines(&["list", "--json"])[0]["state"], "waiting");
        lines.for_each(drop);
        assert!(child.wait().unwrap().success());
        assert_eq!(drafts(home).len(), 0);
        assert_eq!(home.lines(&["history", "show", "@", "--json"]).len(), 2);
    });
}

/// A draft that cannot be written does not hold up the answer.
#[test]
fn an_answer_without_a_draft_is_an_answer() {
    let server = Loopback::start(Config::default());
    Home::each(|home| {
        let folder = if home.is_jsonl() { "chats/drafts" } else { "chats.db.drafts" };
        home.file(folder, "a file where the folder should be");
        let ran = Ran::of(
            command(home, &server, Some(&PROVIDERS[2]), &["chat", "hello words:30"], None).output().unwrap(),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.is_empty());
        assert_eq!(home.lines(&["history", "show", "@", "--json"]).len(), 2);
    });
}
