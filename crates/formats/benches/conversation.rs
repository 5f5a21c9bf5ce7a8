//! What reading, checking, repairing and encoding cost, next to parsing the same bytes into `serde_json::Value`.
//!
//! Times of one machine say little; the table of ratios at the end is what is promised (docs/benchmarks.md).

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use divan::{Bencher, counter::BytesCount};
use rejoin_formats::{Dialect, Input, Session, Target, sessions};
use rejoin_view::{History, OnBroken, repair};

const SIZES: &[usize] = &[100, 1_000, 10_000, 100_000];

fn main() {
    divan::main();
    ratios();
}

/// A tool-heavy OpenAI Chat body: of three messages one is a user's, one calls a tool, one is its result; 1 to 2 KB each.
/// Broken: every tenth result is missing and every tenth turn has an orphan.
fn body(messages: usize, broken: bool) -> String {
    let code = "    let value = compute(&input)?; // \"quoted\" and\n    println!(\"{value}\");\n".repeat(16);
    let arguments = serde_json::json!({"path": "src/lib.rs", "text": code}).to_string();
    let mut list = Vec::with_capacity(messages);
    let mut turn = 0;
    while list.len() < messages {
        turn += 1;
        list.push(serde_json::json!({"role": "user", "content": format!("Step {turn}: {code}")}).to_string());
        let function = serde_json::json!({"name": "edit_file", "arguments": arguments});
        let call =
            serde_json::json!({"id": format!("call_{turn}"), "type": "function", "function": function});
        list.push(
            serde_json::json!({"role": "assistant", "content": null, "tool_calls": [call]}).to_string(),
        );
        let asker = if broken && turn % 10 == 1 { "orphan" } else { "call" };
        if !(broken && turn % 10 == 0) {
            let result = serde_json::json!({"role": "tool", "tool_call_id": format!("{asker}_{turn}"), "content": code});
            list.push(result.to_string());
        }
    }
    list.truncate(messages);
    let body = format!(r#"{{"messages":[{}]}}"#, list.join(","));
    assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok(), "BUG: the body is JSON");
    body
}

fn read(text: &str) -> Session {
    let input = Input::new("bench", text.as_bytes()).expect("BUG: the body is text");
    sessions::read(&input, sessions::registry::named("openai-chat"))
        .expect("BUG: the body is a conversation")
        .remove(0)
}

#[divan::bench(args = SIZES)]
fn value(bencher: Bencher<'_, '_>, size: usize) {
    let text = body(size, true);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| serde_json::from_str::<serde_json::Value>(&text).is_ok());
}

#[divan::bench(args = SIZES)]
fn parse(bencher: Bencher<'_, '_>, size: usize) {
    let text = body(size, true);
    bencher.counter(BytesCount::of_str(&text)).bench(|| read(&text));
}

#[divan::bench(args = SIZES)]
fn check(bencher: Bencher<'_, '_>, size: usize) {
    let text = body(size, true);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| repair(&read(&text).history(), OnBroken::Keep).findings.len());
}

#[divan::bench(args = SIZES, consts = [false, true])]
fn repair_pass<const BROKEN: bool>(bencher: Bencher<'_, '_>, size: usize) {
    let text = body(size, BROKEN);
    let history = read(&text).history();
    bencher.counter(BytesCount::of_str(&text)).bench(|| repair(&history, OnBroken::Keep));
}

#[divan::bench(args = SIZES, consts = [false, true])]
fn encode<const FOREIGN: bool>(bencher: Bencher<'_, '_>, size: usize) {
    let text = body(size, true);
    let session = read(&text);
    let view = repair(&session.history(), OnBroken::Keep).view;
    let to = if FOREIGN { Dialect::Anthropic } else { Dialect::OpenAiChat };
    let target = Target::of(&session.context);
    bencher.counter(BytesCount::of_str(&text)).bench(|| to.wire().encode(&view, &target).is_ok());
}

/// The best of several runs: what the work costs when nothing disturbs it.
fn best<T>(mut work: impl FnMut() -> T) -> Duration {
    let started = Instant::now();
    let mut best = Duration::MAX;
    for round in 0.. {
        let start = Instant::now();
        black_box(work());
        best = best.min(start.elapsed());
        if round >= 4 && started.elapsed() > Duration::from_millis(600) {
            break;
        }
    }
    best
}

#[allow(clippy::print_stdout, reason = "a benchmark prints")]
fn ratios() {
    println!("\nratios to parsing the same bytes into serde_json::Value, best of several, one run");
    println!(
        "{:>9} {:>9} {:>12} {:>12} {:>8} {:>8} {:>10} {:>10}",
        "messages", "KB/msg", "repair sound", "repair broken", "parse", "check", "enc. same", "enc. other"
    );
    let mut per_message = Vec::new();
    for &size in SIZES {
        let (sound, broken) = (body(size, false), body(size, true));
        let value = best(|| serde_json::from_str::<serde_json::Value>(&broken).is_ok()).as_secs_f64();
        let session = read(&broken);
        let (history, sound_history): (History, History) = (session.history(), read(&sound).history());
        let repair_sound = best(|| repair(&sound_history, OnBroken::Keep)).as_secs_f64();
        let repair_broken = best(|| repair(&history, OnBroken::Keep)).as_secs_f64();
        let parse = best(|| read(&broken)).as_secs_f64();
        let check = best(|| repair(&read(&broken).history(), OnBroken::Keep).findings.len()).as_secs_f64();
        let view = repair(&history, OnBroken::Keep).view;
        let target = Target::of(&session.context);
        let same = best(|| Dialect::OpenAiChat.wire().encode(&view, &target).is_ok()).as_secs_f64();
        let other = best(|| Dialect::Anthropic.wire().encode(&view, &target).is_ok()).as_secs_f64();
        let ratio = |time: f64| format!("{:.3}", time / value);
        println!(
            "{size:>9} {:>9.2} {:>12} {:>12} {:>8} {:>8} {:>10} {:>10}",
            broken.len() as f64 / size as f64 / 1000.0,
            ratio(repair_sound),
            ratio(repair_broken),
            ratio(parse),
            ratio(check),
            ratio(same),
            ratio(other)
        );
        per_message.push(repair_broken / size as f64);
    }
    let thousand = body(1_000, true);
    let all = best(|| {
        let session = read(&thousand);
        let view = repair(&session.history(), OnBroken::Keep).view;
        Dialect::OpenAiChat.wire().encode(&view, &Target::of(&session.context)).is_ok()
    });
    println!(
        "recovery of 1,000 messages ({} KB): read, repair and encode in {all:.2?}",
        thousand.len() / 1000
    );
    let growth = per_message[per_message.len() - 1] / per_message[1];
    println!("repair a message at 100,000 messages: {growth:.2} × that at 1,000");
}
