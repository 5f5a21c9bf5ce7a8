//! `rejoin check` of a large rollout: its time as a ratio to parsing the same lines into `serde_json::Value`, its peak memory
//! as a ratio to the file. Run by `cargo xtask bench`; `REJOIN_BENCH_MB` sets the size. With the argument `doctor`: the same for
//! `rejoin doctor` over many small rollouts.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may")]

use std::{
    fs::{self, File},
    hint::black_box,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How often both are run, in turn; the best time of each counts.
const ROUNDS: usize = 9;

/// How many sessions `rejoin doctor` looks at, and how large each is.
const SESSIONS: usize = 10_000;
const SESSION_BYTES: usize = 20_000;

fn main() {
    if std::env::args().any(|argument| argument == "doctor") {
        return doctor();
    }
    let megabytes = std::env::var("REJOIN_BENCH_MB").ok().and_then(|size| size.parse().ok()).unwrap_or(100);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    fs::write(&path, testkit::varied::rollout(megabytes * 1_000_000)).unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let (mut value, mut time, mut peak) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..ROUNDS {
        value = value.min(timed(|| values(&path)));
        let (took, most) = process(Command::new(env!("CARGO_BIN_EXE_rejoin")).arg("check").arg(&path));
        time = time.min(took);
        peak = peak.max(most);
    }
    println!("\nrollout of {megabytes} MB, best of {ROUNDS} rounds");
    println!("  lines into serde_json::Value  {value:.2?}");
    println!("  rejoin check, a whole process {time:.2?}  {:.2} ×", time.as_secs_f64() / value.as_secs_f64());
    println!(
        "  peak memory                   {} MB  {:.2} × the file",
        peak / 1_000_000,
        peak as f64 / size as f64
    );
}

fn timed(work: impl FnOnce() -> usize) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn values(path: &Path) -> usize {
    let mut source = BufReader::new(File::open(path).unwrap());
    let (mut line, mut count) = (Vec::new(), 0);
    loop {
        line.clear();
        if source.read_until(b'\n', &mut line).unwrap() == 0 {
            return count;
        }
        count += serde_json::from_slice::<serde_json::Value>(&line).unwrap().as_object().unwrap().len();
    }
}

/// `rejoin doctor` over many sessions, in the folders of their days.
fn doctor() {
    let home = tempfile::tempdir().unwrap();
    let text = testkit::varied::rollout(SESSION_BYTES);
    let mut paths = Vec::new();
    for number in 0..SESSIONS {
        let folder =
            home.path().join(format!(".codex/sessions/2026/{:02}/{:02}", number % 12 + 1, number % 28 + 1));
        fs::create_dir_all(&folder).unwrap();
        let path =
            folder.join(format!("rollout-2026-01-01T00-00-00-0199aaaa-0000-7000-8000-{number:012}.jsonl"));
        fs::write(&path, &text).unwrap();
        paths.push(path);
    }
    let (mut value, mut time, mut peak) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..ROUNDS / 3 {
        value = value.min(timed(|| paths.iter().map(|path| values(path)).sum()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
        let (took, most) =
            process(command.args(["doctor", "--json"]).env("HOME", home.path()).env_remove("CODEX_HOME"));
        time = time.min(took);
        peak = peak.max(most);
    }
    println!("\n{SESSIONS} rollouts of {} KB, best of {} rounds", text.len() / 1000, ROUNDS / 3);
    println!("  lines into serde_json::Value  {value:.2?}");
    println!("  rejoin doctor                 {time:.2?}  {:.2} ×", time.as_secs_f64() / value.as_secs_f64());
    println!("  peak memory                   {} MB", peak / 1_000_000);
}

/// Time and peak memory of one process.
fn process(command: &mut Command) -> (Duration, u64) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) * 1024);
        thread::sleep(Duration::from_millis(2));
    }
    (start.elapsed(), peak)
}
