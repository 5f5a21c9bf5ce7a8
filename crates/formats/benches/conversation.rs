//! What reading, repairing and encoding a conversation cost, next to parsing the same bytes into `serde_json::Value`.
//!
//! Times on one machine say little, so the table shows ratios (docs/benchmarks.md). In every round the work is done once,
//! directly after parsing into a `Value`; the best rounds of both are compared, so that what else the machine does counts as
//! little as possible.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use rejoin_formats::{Dialect, Input, Session, Target, convert, input::Stream, sessions};
use rejoin_view::{OnBroken, repair};
use testkit::{timing::best, varied::chat_body};

/// Numbers of messages, and of rounds.
const SIZES: &[(usize, usize)] = &[(100, 1_000), (1_000, 200), (10_000, 21), (100_000, 5)];

fn main() {
    if std::env::args().any(|argument| argument == "rollout") {
        return rollout();
    }
    println!("\nratios to parsing the same bytes into serde_json::Value");
    println!(
        "{:>9} {:>7} {:>11} {:>7} {:>9} {:>13} {:>13} {:>12} {:>12} {:>12} {:>9}",
        "messages",
        "MB",
        "value",
        "parse",
        "detected",
        "repair sound",
        "repair broken",
        "encode same",
        "encode other",
        "whole other",
        "whole same"
    );
    let wanted = std::env::args().nth(1).and_then(|size| size.parse().ok());
    let sizes = SIZES.iter().filter(|(size, _)| wanted.is_none_or(|wanted: usize| wanted == *size));
    let mut per_message = Vec::new();
    for &(size, rounds) in sizes {
        let row = Row::measure(size, rounds);
        println!(
            "{size:>9} {:>7.2} {:>11.2?} {:>7.2} {:>9.2} {:>13.3} {:>13.3} {:>12.2} {:>12.2} {:>12.2} {:>9.2}",
            row.megabytes,
            row.value,
            row.parse,
            row.detected,
            row.repair_sound,
            row.repair_broken,
            row.encode_same,
            row.encode_other,
            row.whole_other,
            row.whole_same
        );
        per_message.push(row.repair_broken * row.value.as_secs_f64() / size as f64);
    }
    if let [_, at_thousand, .., at_most] = per_message[..] {
        println!("repair per message at 100,000 messages: {:.2} × that at 1,000", at_most / at_thousand);
    }
}

/// Reading a rollout of 100 MB, without the process and the verdict around it that `rejoin check` adds.
fn rollout() {
    let text = testkit::varied::rollout(100_000_000);
    let reading = sessions::named("codex").and_then(|format| format.read.as_ref()).expect("BUG: it is read");
    let mut ratios: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            let parse = |line| black_box(serde_json::from_str::<serde_json::Value>(line)).is_ok();
            assert!(text.lines().all(parse), "BUG: every line is JSON");
            let value = start.elapsed();
            let mut source = text.as_bytes();
            let stream = Stream { name: "bench", source: &mut source, companions: None };
            let start = Instant::now();
            let sessions = black_box(reading.read_stream(stream));
            let read = start.elapsed();
            // `rejoin check` ends without taking the session apart.
            drop(sessions);
            read.as_secs_f64() / value.as_secs_f64()
        })
        .collect();
    println!(
        "\nreading a rollout of 100 MB: {:.2} × parsing its lines into serde_json::Value",
        median(&mut ratios)
    );
}

/// What a conversation of one size costs.
struct Row {
    megabytes: f64,
    value: Duration,
    parse: f64,
    detected: f64,
    repair_sound: f64,
    repair_broken: f64,
    encode_same: f64,
    encode_other: f64,
    whole_other: f64,
    whole_same: f64,
}

impl Row {
    fn measure(size: usize, rounds: usize) -> Self {
        let (sound, broken) = (chat_body(size, false), chat_body(size, true));
        let session = read(&broken);
        let (history, sound_history) = (session.history(), read(&sound).history());
        let view = repair(&history, OnBroken::Keep).view;
        let target = Target::of(&session.context);
        let mut value = Duration::MAX;
        let parse_into_value = || drop(black_box(serde_json::from_str::<serde_json::Value>(&broken)));
        let mut ratio = |work: &dyn Fn()| {
            let [plain, ours] = best(rounds, [&parse_into_value, work]);
            value = value.min(plain);
            ours.as_secs_f64() / plain.as_secs_f64()
        };
        Self {
            megabytes: broken.len() as f64 / 1e6,
            parse: ratio(&|| drop(black_box(read(&broken)))),
            detected: ratio(&|| drop(black_box(read_as(&broken, None)))),
            repair_sound: ratio(&|| drop(black_box(repair(&sound_history, OnBroken::Keep)))),
            repair_broken: ratio(&|| drop(black_box(repair(&history, OnBroken::Keep)))),
            encode_same: ratio(&|| drop(black_box(Dialect::OpenAiChat.wire().encode(&view, &target)))),
            encode_other: ratio(&|| drop(black_box(Dialect::Anthropic.wire().encode(&view, &target)))),
            whole_other: ratio(&|| whole(&broken, Dialect::Anthropic)),
            whole_same: ratio(&|| whole(&broken, Dialect::OpenAiChat)),
            value,
        }
    }
}

/// The whole conversion: from bytes whose format is not known to the bytes of a request.
fn whole(text: &str, dialect: Dialect) {
    let session = read_as(text, None);
    // Past a provider's limit there is no body, at the end of the same work.
    let _ = black_box(convert(&session, dialect, None, OnBroken::Keep));
}

fn read(text: &str) -> Session {
    read_as(text, Some("openai-chat"))
}

fn read_as(text: &str, format: Option<&str>) -> Session {
    let input = Input::new("bench", text.as_bytes()).expect("BUG: the body is text");
    sessions::read(&input, format.and_then(sessions::registry::named))
        .expect("BUG: the body is a conversation")
        .remove(0)
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
