//! Failures between rejoin and a model, as a user sees them: what, why, what to do, the exit code, and nothing lost.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use support::{
    BROKEN, Home, Ran, SOUND, has,
    services::{PROVIDERS, Provider, SECRET, with_keys},
};
use testkit::{
    faults::{self, Kind, shim},
    loopback::{Config, Fault, Loopback, Service, brain::Say},
};

fn named(label: &str) -> &'static Provider {
    PROVIDERS.iter().find(|provider| provider.label() == label).unwrap()
}

fn command(home: &Home, server: &Loopback, provider: &Provider, arguments: &[&str]) -> Command {
    let mut command = provider.command(home, server, arguments);
    command.env("REJOIN_LIMITS_RETRIES", "1");
    command
}

fn ask(home: &Home, server: &Loopback, provider: &Provider, arguments: &[&str]) -> Ran {
    Ran::of(command(home, server, provider, arguments).output().unwrap())
}

/// After any failure, the next turn works, and contains the earlier messages.
fn goes_on(home: &Home, server: &Loopback, provider: &Provider, what: &str) {
    server.clear_faults();
    let ran = ask(home, server, provider, &["resume", "@", "and now?"]);
    assert_eq!(ran.code, 0, "{what}: {}", ran.err);
    let body = String::from_utf8(server.requests().last().unwrap().body.to_vec()).unwrap();
    assert!(body.contains("hello there"), "{what}: what was said before is still there");
    assert!(server.violations().is_empty(), "{what}: {:?}", server.violations());
    assert_eq!(home.run(&["verify"]).code, 0, "{what}");
}

/// Wrong key, unknown model, garbage, web pages, long and endless lines, every status: a clear message with a hint, exit code 1,
/// and the conversation continues.
#[test]
fn every_answer_that_is_none() {
    let cases: &[(Fault, &[&str])] = &[
        (Fault::status(401), &["401", "rejoin auth"]),
        (Fault::status(403), &["403"]),
        (Fault::status(404), &["404", "rejoin models list"]),
        (Fault::status(429), &["429", "nothing is lost"]),
        (Fault::status(500), &["500", "nothing is lost"]),
        (Fault::status(529), &["529", "nothing is lost"]),
        (Fault::ContextLength, &["--model"]),
        (Fault::Garbage, &["not a valid answer", "--base-url"]),
        (Fault::HtmlPage(200), &["not a valid answer", "--base-url"]),
        (Fault::EndlessLine, &["not a valid answer"]),
        (Fault::Nothing, &["nothing is lost"]),
        (Fault::CutAfter(200), &["nothing is lost"]),
        (Fault::ErrorAfter(2), &["nothing is lost"]),
    ];
    for label in ["openai-responses", "openai-chat", "anthropic", "gemini", "ollama"] {
        let provider = named(label);
        let server = Loopback::start(Config::default());
        for (fault, words) in cases {
            let home = Home::new("jsonl");
            let what = format!("{label}, {fault:?}");
            server.always(fault.clone());
            let ran = ask(&home, &server, provider, &["chat", "hello there words:30"]);
            assert_eq!(ran.code, 1, "{what}: {} {}", ran.out, ran.err);
            assert!(ran.err.contains("error:") && ran.err.contains("hint:"), "{what}: {}", ran.err);
            support::has(&ran.err, words);
            assert!(!ran.err.contains("panicked"), "{what}: {}", ran.err);
            goes_on(&home, &server, provider, &what);
        }
    }
}

/// There is no answer at all: connection refused, an unknown host, a provider that falls silent.
#[test]
fn nobody_answers() {
    let home = Home::new("sqlite");
    for url in ["http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"] {
        let mut command = home.command(&[
            "chat",
            "--new",
            "hello",
            "--provider",
            "openai",
            "--model",
            "m",
            "--base-url",
            url,
        ]);
        command.env("REJOIN_LIMITS_RETRIES", "0").env("OPENAI_API_KEY", SECRET);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        support::has(&ran.err, &["cannot be reached", url, "check the network"]);
    }
    let server = Loopback::start(Config::default());
    let provider = named("openai-chat");
    server.always(Fault::Stall { after: 0, time: None });
    let mut command = command(&home, &server, provider, &["chat", "--new", "hello there"]);
    command.env("REJOIN_LIMITS_SILENCE_SECONDS", "1").env("REJOIN_LIMITS_RETRIES", "0");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 1, "{}", ran.err);
    support::has(&ran.err, &["sent nothing for 1 second", "hint:"]);
    goes_on(&home, &server, provider, "silence");
}

/// No key, an unknown provider, an invalid line in the settings: reported before anything is sent or stored.
#[test]
fn before_anything_is_sent() {
    let home = Home::new("sqlite");
    let ran = home.run(&["chat", "--provider", "anthropic", "hello"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    support::has(&ran.err, &["no key for anthropic", "ANTHROPIC_API_KEY", "rejoin auth login anthropic"]);
    let ran = home.run(&["chat", "--provider", "nobody", "hello"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    support::has(&ran.err, &["`nobody`", "anthropic", "--base-url"]);
    assert_eq!(home.lines(&["list", "--json"]).len(), 0, "nothing was begun");
    home.file("home/config.toml", "provider = \"offline\"\nmodel = [1, 2]\n");
    let ran = home.run(&["chat", "hello"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    support::has(&ran.err, &["line 2", "model"]);
}

/// If a provider asks for a pause, rejoin waits that long; then the answer comes.
#[test]
fn waiting_as_long_as_it_says() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    server.fault(Fault::Status { status: 429, retry_after: Some(1) });
    let began = Instant::now();
    let ran = ask(&home, &server, named("anthropic"), &["chat", "hello there"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(began.elapsed() >= Duration::from_secs(1));
    support::has(&ran.err, &["trying again in 1.0 s"]);
}

/// S0-23: a refused sequence is shown with the findings in it, and is sent only once.
#[test]
fn a_refusal_is_explained() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    let id = home.import("broken.json", BROKEN);
    server.always(Fault::status(400));
    let ran = ask(&home, &server, named("anthropic"), &["resume", &id, "go on"]);
    assert_eq!(ran.code, 1);
    support::has(&ran.err, &["answered 400", "[unanswered-call]", "[orphan-result]"]);
    assert_eq!(server.requests().len(), 1, "it is not repeated");
}

/// The key appears nowhere: not in the output, in a log, or in the record, even if the provider repeats it.
#[test]
fn no_secret_is_told() {
    let server = Loopback::start(Config::default());
    for provider in PROVIDERS {
        let home = Home::new("jsonl");
        for fault in [Some(Fault::EchoKey), Some(Fault::status(400)), None] {
            match fault {
                Some(fault) => server.always(fault),
                None => server.clear_faults(),
            }
            for json in [&["chat", "tools:1 think", "--json"][..], &["chat", "tools:1 think"]] {
                let mut command = command(&home, &server, provider, json);
                command.env("RUST_LOG", "trace");
                let ran = Ran::of(command.output().unwrap());
                for secret in [SECRET, "gho_loopback_user"] {
                    assert!(
                        !ran.out.contains(secret) && !ran.err.contains(secret),
                        "{}: {}{}",
                        provider.label(),
                        ran.out,
                        ran.err
                    );
                }
            }
        }
        let mut command = home.command(&["auth", "status", "--json"]);
        with_keys(&mut command, &server);
        let status = Ran::of(command.output().unwrap());
        assert!(!status.out.contains(SECRET), "{}", status.out);
        for path in files(home.place()).into_iter().chain(files(&home.path("home"))) {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(SECRET) && !text.contains("gho_loopback_user"), "{}", path.display());
        }
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The first Ctrl-C stops the turn, which is recorded as interrupted with the text so far; exit code 130. So does SIGTERM.
#[test]
fn stopped_by_a_signal() {
    let server = Loopback::start(Config::default());
    for (signal, label) in
        [("INT", "anthropic"), ("TERM", "openai-responses"), ("HUP", "gemini"), ("QUIT", "ollama")]
    {
        let provider = named(label);
        let home = Home::new("sqlite");
        server.fault(Fault::Slow(Duration::from_millis(15)));
        let mut child = command(&home, &server, provider, &["chat", "--json", "hello there words:400"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut seen = String::new();
        let mut bytes = [0; 512];
        while !seen.contains("\"text\"") {
            let count = out.read(&mut bytes).unwrap();
            assert!(count > 0, "{label}: it ended too early: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        out.read_to_string(&mut seen).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{label}: {seen}");
        assert!(seen.contains("\"ending\":\"interrupted\""), "{seen}");
        let list = home.lines(&["list", "--json"]);
        assert_eq!(list[0]["state"], "interrupted", "{label}");
        assert_eq!(list[0]["messages"], 2, "{label}: what came is kept");
        assert!(
            home.out(&["history", "show", "@"]).contains("[interrupted: this may not be all of it]"),
            "{label}"
        );
        goes_on(&home, &server, provider, label);
    }
}

/// A second Ctrl-C leaves at once, also if nothing stops the turn.
#[test]
fn twice_leaves() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    server.always(Fault::Stall { after: 0, time: None });
    let mut child = command(&home, &server, named("ollama"), &["chat", "hello there"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while server.requests().is_empty() && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(20));
        if home.run(&["list", "--json"]).out.contains("waiting") {
            break;
        }
    }
    for _ in 0..2 {
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// S3-11: the disk is full from any moment of a turn on: a warning, the reply, exit code 0, and the earlier entries verify. If the
/// process is killed at any write instead, `resume` continues.
#[test]
fn the_disk_fails_in_mid_turn() {
    let Some(shim) = shim(env!("CARGO_TARGET_TMPDIR")) else { return };
    for kind in support::STORES {
        let run = |kind_of_fault: Kind, at: u64| {
            let mut home = Home::new(kind);
            // Use a separate folder, in which it may create any files.
            let place = home.path("store");
            home.store = if *kind == "sqlite" {
                format!("sqlite:{}", place.join("chats.db").display())
            } else {
                format!("jsonl:{}", place.display())
            };
            fs::create_dir_all(home.path("notes")).unwrap();
            home.run(&["chat", "--provider", "offline", "my name is Alice"]);
            let fault = faults::Fault { kind: kind_of_fault, at, under: place, notes: home.path("notes") };
            let mut command = home.command(&["chat", "What's my name? And what is 6*7?"]);
            shim.put_into(&mut command, &fault);
            let output = command.output().unwrap();
            (home, fault, output)
        };
        let (_home, counted, _) = run(Kind::Eio, 0);
        let calls = counted.calls().unwrap();
        assert!(calls > 5, "{kind}: {calls} calls");
        let step = (calls / 25).max(1) as usize;
        let mut unsaved = 0;
        for at in (1..=calls).step_by(step) {
            let (home, fault, output) = run(Kind::Full, at);
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            // It fails exactly if some entry is not stored, and reports it once.
            let said = err.matches("Failed to save turn: ").count();
            assert!(said <= 1, "{kind}, full at {at}: {err}");
            assert_eq!(output.status.code(), Some(i32::from(said == 1)), "{kind}, full at {at}: {err}");
            unsaved += said;
            assert!(out.contains("6*7 = 42") && out.contains("Alice"), "{kind}, full at {at}: {out} {err}");
            fs::write(fault.over(), "").unwrap();
            assert_eq!(home.run(&["verify"]).code, 0, "{kind}, full at {at}");
            let again = home.run(&["chat", "What's my name?"]);
            assert!(
                again.out.contains("Your name is Alice."),
                "{kind}, full at {at}: {} {}",
                again.out,
                again.err
            );
            for end in [Kind::KillBefore, Kind::KillAfter] {
                let (home, fault, output) = run(end, at);
                // The thread that keeps the index makes more calls or fewer, as the machine is busy.
                let is_killed = output.status.code().is_none();
                let ended_before = fault.calls().is_some_and(|calls| calls < at);
                assert!(is_killed || ended_before, "{kind}, {end:?} at {at}: it was killed");
                let resumed = home.run(&["resume", "@", "What's my name?"]);
                assert_eq!(resumed.code, 0, "{kind}, {end:?} at {at}: {}", resumed.err);
                assert!(resumed.out.contains("Alice"), "{kind}, {end:?} at {at}: {}", resumed.out);
                assert_eq!(home.run(&["verify"]).code, 0, "{kind}, {end:?} at {at}");
            }
        }
        assert!(unsaved > 0, "{kind}: a full disk is noticed");
    }
}

/// S3-13, S3-14: damage in the store is reported when a conversation continues, to people and to programs; the rest is used.
#[test]
fn damage_is_told() {
    Home::each(|home| {
        home.out(&["chat", "--provider", "offline", "my budget is 5000 euros"]);
        home.out(&["chat", "my name is Alice"]);
        home.damage("5000", "9000");
        let resumed = home.run(&["resume", "@"]);
        assert_eq!(resumed.code, 0, "{}", resumed.err);
        support::has(&resumed.err, &["1 part cannot be read", "everything else is used"]);
        let ran = home.run(&["chat", "What's my name?"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "Your name is Alice.\n"), "{}", ran.err);
        support::has(&ran.err, &["warning:", "[damaged-entry]"]);
        let events = home.lines(&["chat", "--json", "What's my name?"]);
        let damaged = events.iter().find(|event| event["type"] == "damaged").expect("an event");
        assert_eq!(damaged["findings"][0]["rule"], "damaged-entry");
    });
}

/// A conversation that came from elsewhere does not say where a key goes, not even on this machine. Once someone here named the
/// address, it is kept in mind.
#[test]
fn a_key_goes_where_somebody_here_sent_it() {
    let server = Loopback::start(Config::default());
    let provider = named("openai-chat");
    let (there, here) = (Home::new("jsonl"), Home::new("jsonl"));
    assert_eq!(ask(&there, &server, provider, &["chat", "hello there"]).code, 0);
    let exported = there.out(&["history", "export", "@", "--to", "jsonl"]);
    let id = here.import("theirs.jsonl", &exported);
    server.forget();
    let go_on = |arguments: &[&str]| {
        let mut command = here.command(arguments);
        with_keys(&mut command, &server);
        Ran::of(command.output().unwrap())
    };
    let ran = go_on(&["resume", &id, "go on"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    support::has(&ran.err, &["this conversation went to", "--base-url"]);
    assert_eq!(server.requests().len(), 0, "nothing was sent");
    assert_eq!(ask(&here, &server, provider, &["resume", &id, "go on"]).code, 0);
    assert_eq!(go_on(&["resume", &id, "and on"]).code, 0, "it is known by now");
}

/// A message that is too large to send does not block later ones; it is kept.
#[test]
fn what_is_too_large_is_passed_by() {
    let server = Loopback::start(Config::default());
    let provider = named("openai-chat");
    let home = Home::new("sqlite");
    assert_eq!(ask(&home, &server, provider, &["chat", "hello there"]).code, 0);
    let ran = Ran::fed(command(&home, &server, provider, &["chat", "-"]), "far too much ".repeat(900_000));
    assert_eq!(ran.code, 1, "{}", ran.err);
    support::has(&ran.err, &["takes at most", "kept on a branch"]);
    goes_on(&home, &server, provider, "too large");
    assert!(home.out(&["history", "search", "far too much", "--json"]).contains("far"), "it is kept");
}

/// A limit on the size of files is a full disk like any other.
#[test]
fn a_limit_of_the_system_ends_nothing() {
    let home = Home::new("jsonl");
    home.out(&["chat", "--provider", "offline", "my name is Alice"]);
    let plain = home.command(&["chat", "-"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 24; exec \"$0\" chat -"]).arg(plain.get_program());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(plain.get_current_dir().unwrap());
    let ran = Ran::fed(command, format!("What's my name? {}", "x".repeat(60_000)));
    assert_eq!((ran.code, ran.out.as_str()), (1, "Your name is Alice.\n"), "{}", ran.err);
    assert_eq!(ran.err.matches("Failed to save turn").count(), 1, "{}", ran.err);
    assert_eq!(home.out(&["chat", "What's my name?"]), "Your name is Alice.\n");
    home.verifies();
}

/// S2-48: calls are run again where they were made; a conversation that may not be repaired is not resumed.
#[test]
fn where_and_whether_calls_run_again() {
    let (home, id) = Home::broken("sqlite");
    let refused = home.run(&["resume", &id, "--on-broken", "refuse"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
    support::has(&refused.err, &["[unanswered-call]", "repairing it is turned off"]);
    home.file("here/notes.txt", "here");
    home.out(&["chat", "--new", "--provider", "offline", "read notes.txt"]);
    let fork = home.out(&["history", "fork", "@", "--at", "1"]);
    let fork = fork.trim();
    fs::create_dir_all(home.path("there")).unwrap();
    let mut command = home.command(&["resume", fork, "--on-broken", "rerun", "go on"]);
    command.current_dir(home.path("there"));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.err);
    support::has(&ran.err, &["these calls were made in the folder", "here"]);
    let ran = home.run(&["resume", fork, "--on-broken", "rerun"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("✓ Resumed conversation") && ran.out.contains("notes.txt says:\nhere"),
        "{}",
        ran.out
    );
}

/// Input that is not text is not sent.
#[test]
fn what_is_no_text_is_not_said() {
    let home = Home::new("sqlite");
    let ran = Ran::fed(home.command(&["chat", "--provider", "offline"]), b"caf\xe9");
    assert_eq!(ran.code, 2);
    support::has(&ran.err, &["not UTF-8 (byte 3)"]);
    assert_eq!(home.lines(&["list", "--json"]).len(), 0);
}

/// S3-16, S3-62: to make a conversation the active one takes no key, no network and no trust in where it went.
#[test]
fn resuming_without_a_word_takes_no_key() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    assert_eq!(ask(&home, &server, named("anthropic"), &["chat", "hello there"]).code, 0);
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    fs::remove_file(home.path("home/addresses")).unwrap();
    let ran = home.run(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.starts_with(&format!("✓ Resumed conversation: {id}\n")), "{}", ran.out);
    support::has(&ran.err, &["Provider: anthropic, model: claude-sonnet-4-5", "State: ready"]);
    let id = home.import("broken.json", BROKEN);
    let ran = home.run(&["resume", &id]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(home.run(&["resume", "@", "go on", "--provider", "anthropic"]).code, 1, "to go on takes one");
}

/// A search of thousands of words is refused at once, in words or in a script without spaces.
#[test]
fn a_search_has_a_limit_of_words() {
    Home::each(|home| {
        home.import("sound.json", SOUND);
        // One argument may have 128 KiB.
        let many: String = (0..20_000).map(|number| format!("{number} ")).collect();
        for words in [many, format!("\"{}\"", "x ".repeat(20_000)), "\u{6f22}".repeat(20_000)] {
            let ran = home.run(&["history", "search", &words]);
            assert_eq!(ran.code, 2, "{}", &ran.err[..ran.err.len().min(300)]);
            has(&ran.err, &["at most 256 words"]);
            assert!(ran.err.len() < 500, "the words are not repeated");
        }
        has(&home.out(&["history", "search", "files?"]), &["How many"]);
    });
}

/// The largest amount of memory that a command had, in bytes, and its exit code.
#[cfg(target_os = "linux")]
fn peak_of(mut command: Command) -> (usize, Option<i32>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kilobytes = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = kilobytes.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
        peak = kilobytes.map_or(peak, |kilobytes| kilobytes << 10);
        if let Some(ended) = child.try_wait().unwrap() {
            return (peak, ended.code());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// An answer that never ends is given up at 64 MiB. Keeping it, also in the index, takes less than eight times that: the allocator
/// gives memory back late.
#[test]
#[cfg(target_os = "linux")]
fn an_answer_without_end_takes_a_small_multiple_of_its_bound() {
    // Long events with something to escape in them: nothing can be shared with what came over the wire.
    let word = format!("{}\"\n ", "some words ".repeat(1500));
    let brain = move |_: &_| Say { text: word.repeat(80), ..Say::default() };
    let server = Loopback::start(Config { brain: Arc::new(brain), ..Config::default() });
    for store in ["sqlite", "jsonl"] {
        let home = Home::new(store);
        server.fault(Fault::EndlessAnswer);
        let mut command = home.command(&["chat", "go", "--provider", "openai", "--model", "a-model"]);
        command.args(["--base-url", &server.base(Service::OpenAi)]).env("OPENAI_API_KEY", "sk-loopback");
        let (peak, code) = peak_of(command);
        println!("{store}: {:.2} times the bound", peak as f64 / f64::from(64 << 20));
        assert_eq!(code, Some(1), "{store}");
        assert!(peak > 64 << 20, "{store}: {peak} bytes, so nothing was kept");
        assert!(peak < 8 * (64 << 20), "{store}: {peak} bytes");
        let found = home.run(&["history", "search", "some words"]);
        assert_eq!(found.code, 0, "{store}: {}", found.err);
        has(&found.out, &["*some* *words*"]);
    }
}
