//! `rejoin check` of a large rollout: its time as a ratio to parsing the same lines into `serde_json::Value`, its peak memory
//! as a ratio to the file. Run by `cargo xtask bench`; `REJOIN_BENCH_MB` sets the size.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may")]

use std::{
    fmt::Write as _,
    fs::{self, File},
    hint::black_box,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

fn main() {
    let megabytes = std::env::var("REJOIN_BENCH_MB").ok().and_then(|size| size.parse().ok()).unwrap_or(100);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    fs::write(&path, rollout(megabytes * 1_000_000)).unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let value = (0..5).map(|_| timed(|| values(&path))).min().unwrap();
    let checks: Vec<(Duration, u64)> = (0..5).map(|_| check(&path)).collect();
    let time = checks.iter().map(|(time, _)| *time).min().unwrap();
    let peak = checks.iter().map(|(_, peak)| *peak).max().unwrap();
    println!("rollout of {megabytes} MB, best of 5, one run");
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

/// Time and peak memory of one run.
fn check(path: &Path) -> (Duration, u64) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .arg("check")
        .arg(path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
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

/// A rollout of at least so many bytes, the same every time: turns with reasoning, calls, outputs, and the events between.
fn rollout(bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 65_536);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let words = [
        "the",
        "quick",
        "brown",
        "fox",
        "path/to/file.rs:12",
        "fn",
        "main()",
        "\\\"quoted\\\"",
        "é",
        "done.\\n",
    ];
    let mut text = |count: usize| {
        let mut text = String::with_capacity(count * 8);
        for _ in 0..count {
            text.push_str(words[(random() % words.len() as u64) as usize]);
            text.push(' ');
        }
        text
    };
    let mut line = |kind: &str, payload: &str| {
        writeln!(out, r#"{{"timestamp":"2026-11-15T12:00:00.000Z","type":"{kind}","payload":{payload}}}"#)
            .unwrap();
        out.len()
    };
    let meta = r#"{"id":"0199aaaa-0000-7000-8000-000000000001","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/w","originator":"codex_exec","cli_version":"0.166.0"}"#;
    let mut written = line("session_meta", meta);
    let mut turn = 0;
    while written < bytes {
        turn += 1;
        if turn % 20 == 1 {
            let said = text(60);
            line(
                "response_item",
                &format!(
                    r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{said}"}}]}}"#
                ),
            );
            line("event_msg", &format!(r#"{{"type":"user_message","message":"{said}"}}"#));
        }
        let blob = "gAAAAABo".repeat(120);
        line(
            "response_item",
            &format!(
                r#"{{"type":"reasoning","id":"rs_{turn}","summary":[{{"type":"summary_text","text":"{}"}}],"content":null,"encrypted_content":"{blob}"}}"#,
                text(30)
            ),
        );
        line(
            "response_item",
            &format!(
                r#"{{"type":"function_call","id":"fc_{turn}","name":"exec_command","arguments":"{{\"cmd\":\"ls {turn}\",\"workdir\":\"/w\"}}","call_id":"call_{turn}"}}"#
            ),
        );
        line(
            "event_msg",
            &format!(
                r#"{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{turn},"output_tokens":10,"total_tokens":110}},"model_context_window":258400}}}}"#
            ),
        );
        let output = text([20, 200, 900][turn % 3]);
        written = line(
            "response_item",
            &format!(r#"{{"type":"function_call_output","call_id":"call_{turn}","output":"{output}"}}"#),
        );
    }
    out
}
