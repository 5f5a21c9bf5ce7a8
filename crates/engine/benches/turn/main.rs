//! The cost of a turn in a long conversation, end to end in the engine. `cargo xtask bench turn` runs it.
//!
//! `next`: from an append to the next request as shared pieces, at 10,000 messages against 100. `memory`: the memory of a
//! conversation of 10,000 messages, against its own lines. `load`: opening it and its first request, against parsing its lines.
//! Times on one machine mean little; the ratios are promised (docs/benchmarks.md).

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a benchmark may")]

mod load;
mod next;
mod talk;

/// How many messages a long conversation has.
const LONG: usize = 10_000;
/// How many messages a short one has.
const SHORT: usize = 100;

fn main() {
    if let Some(job) = std::env::var_os("REJOIN_BENCH_JOB") {
        load::job(&job.into_string().unwrap());
        return;
    }
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("next") {
        next::next();
    }
    if wanted("memory") || wanted("load") {
        load::load();
    }
}
