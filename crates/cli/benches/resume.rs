//! Resuming long conversations, as whole processes. Run by `cargo xtask bench resume`; `REJOIN_BENCH_ENTRIES` and `REJOIN_BENCH_MB`
//! set the sizes.
//!
//! Each conversation is a Codex rollout that is imported into a SQLite store. A time runs from the start of `rejoin chat` until the
//! first byte of its request reaches the provider, on loopback.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use serde_json::json;
use testkit::loopback::scripted::{Answer, Server};

/// How often each is run, in turn; the best time of each counts.
const ROUNDS: usize = 9;

/// The turns after the compaction.
const TAIL: usize = 10;

fn main() {
    let number =
        |name: &str, or: usize| std::env::var(name).ok().and_then(|size| size.parse().ok()).unwrap_or(or);
    let (entries, megabytes) = (number("REJOIN_BENCH_ENTRIES", 1_000_000), number("REJOIN_BENCH_MB", 99));
    let bench = Bench::new();
    println!("\nbest of {ROUNDS} rounds");
    // 14 entries and 6 messages a turn.
    let short = bench.conversation("short", &rollout(72, 100, Some(TAIL)));
    let long = bench.conversation("long", &rollout(entries / 14, 100, Some(TAIL)));
    bench.compare(&format!("{entries} entries, compacted, next to 1,000"), &long, &short);
    let short = bench.conversation("few", &rollout(500 / 6, 400, Some(TAIL)));
    let long = bench.conversation("many", &rollout(50_000 / 6, 400, Some(TAIL)));
    bench.compare("50,000 messages, compacted, next to 500", &long, &short);
    // A turn takes 8,450 bytes.
    let turns = megabytes * 1_000_000 / 8_450;
    let big = bench.conversation("big", &rollout(turns, 2_200, Some(TAIL)));
    let (mut time, mut list) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        time = time.min(bench.first_byte(&big).0);
        list = list.min(bench.list(&big));
    }
    say(&format!("{megabytes} MB, compacted, next to `rejoin list`"), time, list);
    let text = rollout(turns, 2_200, None);
    let whole = bench.conversation("whole", &text);
    bench.run(&whole, &["config", "set", "compact", "off"]);
    // The first turn prunes what does not fit, so each of its rounds begins with the store as it was after the import.
    let (mut first, mut time, mut values) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let (mut first_peak, mut peak) = (0, 0);
    for _ in 0..ROUNDS {
        let (took, most) = bench.first_byte(&bench.copy(&whole));
        (first, first_peak) = (first.min(took), first_peak.max(most));
    }
    bench.first_byte(&whole);
    for _ in 0..ROUNDS {
        let (took, most) = bench.first_byte(&whole);
        (time, peak) = (time.min(took), peak.max(most));
        let start = Instant::now();
        let count = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        assert!(count.filter(serde_json::Value::is_object).count() > turns);
        values = values.min(start.elapsed());
    }
    for (which, time, peak) in [("the first turn", first, first_peak), ("later turns", time, peak)] {
        say(&format!("{megabytes} MB, never compacted, {which}, next to parsing its lines"), time, values);
        println!("    peak memory: {:.2} × the file", peak as f64 / text.len() as f64);
    }
}

fn say(what: &str, time: Duration, other: Duration) {
    let ratio = time.as_secs_f64() / other.as_secs_f64();
    println!("  {what}: {ratio:.2} × ({time:.1?} against {other:.1?})");
}

/// A store with one conversation, and its home.
struct Stored {
    home: PathBuf,
    id: String,
}

struct Bench {
    folder: tempfile::TempDir,
    server: Server,
    /// When the first byte of each request came.
    heard: Receiver<Instant>,
}

impl Bench {
    fn new() -> Self {
        let (send, heard) = channel();
        let server = Server::answering(move |asked| {
            let _ = send.send(asked.began);
            answer()
        });
        Self { folder: tempfile::tempdir().unwrap(), server, heard }
    }

    fn rejoin(&self, home: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        command
            .env_clear()
            .env("HOME", home)
            .env("OPENAI_API_KEY", "a key")
            .arg("--store")
            .arg(format!("sqlite:{}", home.join("rejoin.db").display()))
            .current_dir(home)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, stored: &Stored, arguments: &[&str]) -> String {
        let output = self.rejoin(&stored.home).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Imports a rollout into a new store.
    fn conversation(&self, name: &str, rollout: &str) -> Stored {
        let home = self.folder.path().join(name);
        fs::create_dir(&home).unwrap();
        let file = home.join("rollout.jsonl");
        fs::write(&file, rollout).unwrap();
        let mut stored = Stored { home, id: String::new() };
        let imported = self.run(&stored, &["import", file.to_str().unwrap(), "--json"]);
        let line: serde_json::Value = serde_json::from_str(imported.lines().next().unwrap()).unwrap();
        stored.id = line["id"].as_str().unwrap().to_owned();
        stored
    }

    /// A copy of a store with its home, opened once: SQLite checks all pages of a file that was copied, and no turn after an import does
    /// that. The last copy is removed, because they are large.
    fn copy(&self, stored: &Stored) -> Stored {
        let home = self.folder.path().join("copy");
        let _ = fs::remove_dir_all(&home);
        let status = Command::new("cp").arg("-a").args([&stored.home, &home]).status().unwrap();
        assert!(status.success(), "{status}");
        let copy = Stored { home, id: stored.id.clone() };
        self.list(&copy);
        copy
    }

    /// The time until the provider hears of a turn, and the peak memory of the process.
    fn first_byte(&self, stored: &Stored) -> (Duration, u64) {
        let base = format!("{}/v1", self.server.url);
        let mut command = self.rejoin(&stored.home);
        command.args(["chat", "--session", &stored.id, "--provider", "openai", "--model", "gpt-4o"]);
        command.args(["--base-url", &base, "hi"]).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        let exit = loop {
            if let Some(exit) = child.try_wait().unwrap() {
                break exit;
            }
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            peak = peak.max(kilobytes.unwrap_or(0) * 1024);
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(exit.success(), "{exit}");
        let first = self.heard.recv().unwrap();
        while self.heard.try_recv().is_ok() {}
        (first - start, peak)
    }

    fn list(&self, stored: &Stored) -> Duration {
        let start = Instant::now();
        self.run(stored, &["list"]);
        start.elapsed()
    }

    fn compare(&self, what: &str, one: &Stored, other: &Stored) {
        let (mut time, mut next) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            time = time.min(self.first_byte(one).0);
            next = next.min(self.first_byte(other).0);
        }
        say(what, time, next);
    }
}

/// A short answer, as a stream.
fn answer() -> Answer {
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"id": "1", "object": "chat.completion.chunk", "choices": [choice]}))
    };
    let events = chunk(json!({"role": "assistant", "content": "Hello."}), None)
        + &chunk(json!({}), Some("stop"))
        + "data: [DONE]\n\n";
    Answer::stream(&events)
}

/// Makes a rollout. Each turn has 14 lines and two calls with outputs of about `bytes`. It may be compacted some turns before its end.
fn rollout(turns: usize, bytes: usize, compacted: Option<usize>) -> String {
    let mut words = Words(turns as u64);
    let (mut out, mut lines) = (String::new(), 0usize);
    let mut line = |kind: &str, payload: serde_json::Value| {
        lines += 1;
        let (minute, second, milli) = (lines / 60_000 % 60, lines / 1_000 % 60, lines % 1_000);
        let hour = lines / 3_600_000;
        let time = format!("2026-11-01T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
        let _ = writeln!(out, "{}", json!({"timestamp": time, "type": kind, "payload": payload}));
    };
    let id = format!("0199a6aa-0000-7000-8000-{:012}", turns * 10_000 + bytes);
    line(
        "session_meta",
        json!({"id": id, "timestamp": "2026-11-01T00:00:00.000Z", "cwd": "/tmp", "originator": "codex_cli_rs",
        "cli_version": "0.50.0", "instructions": null, "source": "cli", "model_provider": "openai"}),
    );
    for turn in 0..turns {
        line(
            "turn_context",
            json!({"cwd": "/tmp", "approval_policy": "never", "sandbox_policy": {"mode": "read-only"},
            "model": "gpt-5", "effort": "medium", "summary": "auto"}),
        );
        let said = format!("Turn {turn}: {}", words.text(bytes / 11));
        line(
            "response_item",
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}),
        );
        line("event_msg", json!({"type": "user_message", "message": said, "kind": "plain"}));
        line("event_msg", json!({"type": "agent_reasoning", "text": words.text(bytes / 14)}));
        for number in 0..2 {
            let call = format!("call_{turn}_{number}");
            let arguments = json!({"command": ["bash", "-lc", words.text(bytes / 28)], "workdir": "/tmp"});
            line(
                "response_item",
                json!({"type": "function_call", "name": "shell", "arguments": arguments.to_string(),
                "call_id": call}),
            );
            line(
                "event_msg",
                json!({"type": "token_count", "info": {"total_token_usage": {"input_tokens": turn,
                "cached_input_tokens": 0, "output_tokens": 3, "reasoning_output_tokens": 0, "total_tokens": turn + 3},
                "model_context_window": 272_000}}),
            );
            let output =
                json!({"output": words.text(bytes), "metadata": {"exit_code": 0, "duration_seconds": 0.1}});
            line(
                "response_item",
                json!({"type": "function_call_output", "call_id": call, "output": output.to_string()}),
            );
        }
        let answer = words.text(bytes / 6);
        line("event_msg", json!({"type": "agent_message", "message": answer}));
        line(
            "response_item",
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]}),
        );
        line("event_msg", json!({"type": "token_count", "info": null}));
        line("event_msg", json!({"type": "task_complete", "last_agent_message": null}));
        if compacted.is_some_and(|tail| turn + tail == turns) {
            let summary = format!("Summary of the work: {}", words.text(2_000));
            let shown = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]});
            line("compacted", json!({"message": summary, "replacement_history": [shown]}));
        }
    }
    out
}

/// Random words, the same in every run.
struct Words(u64);

impl Words {
    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 12);
        while text.len() < bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let chance = self.0 >> 33;
            for letter in 0..2 + chance % 8 {
                text.push(char::from(b"etaoinshrdlu"[(chance >> (letter * 3)) as usize % 12]));
            }
            text.push(if chance.is_multiple_of(16) { '\n' } else { ' ' });
        }
        text
    }
}
