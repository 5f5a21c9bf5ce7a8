//! Counting tokens, next to the tokenizer's crate alone: usual texts of agents, and texts without a place to split.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use rejoin_view::TokenCounter;

const MEGABYTE: usize = 1 << 20;
const ROUNDS: usize = 3;

fn main() {
    let began = Instant::now();
    let counter = TokenCounter::for_model("gpt-5");
    black_box(counter.text("load"));
    println!("loading the vocabulary  {:>7.1} ms", millis(began.elapsed()));
    println!(
        "{:<12} {:>12} {:>12} {:>8} {:>12} {:>10} {:>10}",
        "1 MiB of", "alone, ms", "ours, ms", "ratio", "4 MiB / 1", "estimate", "off by"
    );
    let vocabulary = tiktoken::get_encoding("o200k_base").unwrap();
    for (name, unit) in texts() {
        let text = |bytes: usize| unit.repeat(bytes / unit.len() + 1);
        let (one, four) = (text(MEGABYTE), text(4 * MEGABYTE));
        let alone = best(|| vocabulary.count(black_box(&one)) as u64);
        let ours = best(|| counter.text(black_box(&one)));
        let larger = best(|| counter.text(black_box(&four)));
        let estimate = best(|| counter.estimating().text(black_box(&one)));
        let exact = vocabulary.count(&one) as i64;
        println!(
            "{name:<12} {:>12.1} {:>12.1} {:>8.2} {:>12.2} {:>7.1} ms {:>10}",
            millis(alone),
            millis(ours),
            ours.as_secs_f64() / alone.as_secs_f64(),
            larger.as_secs_f64() / ours.as_secs_f64(),
            millis(estimate),
            counter.text(&one) as i64 - exact,
        );
    }
}

fn texts() -> Vec<(&'static str, String)> {
    let random = |alphabet: &[u8]| -> String {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(alphabet[(state >> 33) as usize % alphabet.len()])
        };
        (0..MEGABYTE).map(|_| next()).collect()
    };
    vec![
        ("pages", [include_str!("../../../README.md"), include_str!("../../../ARCHITECTURE.md")].concat()),
        ("code", [include_str!("../src/turn/mod.rs"), include_str!("../src/turn/calls.rs")].concat()),
        ("one letter", String::from("a")),
        ("spaces", String::from(" ")),
        ("line breaks", String::from("\n")),
        ("letters", random(b"abcdefghijklmnopqrstuvwxyz")),
        ("base64", random(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")),
    ]
}

/// The best time of a few rounds.
fn best(work: impl Fn() -> u64) -> Duration {
    let round = || {
        let began = Instant::now();
        black_box(work());
        began.elapsed()
    };
    (0..ROUNDS).map(|_| round()).min().unwrap()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
