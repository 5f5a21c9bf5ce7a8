//! Puts small bugs into the code on purpose, to check that the tests notice them: a test that cannot fail proves nothing.
//!
//! Each crate has its table in `xtask/sabotage/`. `run.rs` breaks a copy of the sources under `target/`, never the tree itself, and
//! `results.rs` keeps the outcomes, so that the list can be run in parts. A part is a crate, a number, a range of numbers, or
//! `left`: the breaks that no test has noticed yet. Several parts are separated by commas.

mod place;
mod results;
mod run;

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use results::Results;
use run::{Copy, Outcome};

/// The share of breaks that tests must notice, in percent.
const FLOOR: f64 = 95.0;

/// One small bug, and the tests that must notice it.
struct Break {
    /// The bug, as a reviewer would describe it.
    what: &'static str,
    file: &'static str,
    /// The name of the function or constant that contains it.
    within: &'static str,
    /// The text to replace. It must occur there exactly once; white space in it matches any white space.
    from: &'static str,
    to: &'static str,
    /// A narrow selection of tests, as `cargo test --package` takes it: a package, one of its targets, and perhaps a filter.
    tests: &'static str,
}

impl Break {
    /// Reads a row of a table: five lines, each with its mark.
    fn read(row: &'static str) -> Option<Self> {
        let [what, place, from, to, tests] = row.trim().lines().collect::<Vec<_>>().try_into().ok()?;
        let (file, within) = place.strip_prefix("in ")?.split_once(": ")?;
        let (from, to) = (from.strip_prefix('-')?.trim(), to.strip_prefix('+')?.trim());
        Some(Self { what, file, within, from, to, tests: tests.strip_prefix("test ")? })
    }
}

/// The tables, ordered so that little is built twice: a crate comes before those that use it.
const ROOMS: &[(&str, &str)] = &[
    ("record", include_str!("../../sabotage/record.txt")),
    ("view", include_str!("../../sabotage/view.txt")),
    ("checkers", include_str!("../../sabotage/checkers.txt")),
    ("formats", include_str!("../../sabotage/formats.txt")),
    ("store", include_str!("../../sabotage/store.txt")),
    ("engine", include_str!("../../sabotage/engine.txt")),
    ("rejoin", include_str!("../../sabotage/rejoin.txt")),
    ("cli", include_str!("../../sabotage/cli.txt")),
];

/// Every break with its number, from 1, and its crate.
fn all() -> impl Iterator<Item = (usize, &'static str, Break)> {
    // The first paragraph of a table describes it.
    let rows = ROOMS.iter().flat_map(|(room, table)| table.split("\n\n").skip(1).map(|row| (*room, row)));
    rows.enumerate().map(|(place, (room, row))| {
        let read = Break::read(row).unwrap_or_else(|| panic!("BUG: no row of a table of breaks: {row}"));
        (place + 1, room, read)
    })
}

/// Breaks that no longer fit the code, because their text is missing or occurs more than once.
pub fn stale() -> Vec<String> {
    let mut stale = Vec::new();
    for (number, _, b) in all() {
        let source = fs::read_to_string(b.file).unwrap_or_default();
        if let Err(found) = place::find(&source, b.within, b.from) {
            stale.push(format!(
                "{}: sabotage {number} wants to replace `{}` in `{}`, found {found} times",
                b.file, b.from, b.within
            ));
        }
    }
    stale
}

/// Breaks the code in one part of the list, or in all of it, and reports the share that was noticed.
pub fn sabotage(part: Option<&str>) -> Result<()> {
    let stale = stale();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    let mut results = Results::read()?;
    let chosen = choose(part, &results)?;
    let copy = Copy::lay_out()?;
    // A test that already fails notices nothing. Its normal duration shows later when it hangs.
    let mut limits: HashMap<&str, Duration> = HashMap::new();
    for (_, _, b) in &chosen {
        if limits.contains_key(b.tests) {
            continue;
        }
        copy.build(b.tests)?;
        let start = Instant::now();
        let outcome = copy.test(b.tests, run::PATIENCE)?;
        ensure!(
            matches!(outcome, Outcome::Passed),
            "`cargo test -p {}` fails before anything is broken",
            b.tests
        );
        limits.insert(b.tests, run::LIMIT.max(start.elapsed() * 4));
    }
    println!("{} selections of tests pass on the unbroken code", limits.len());
    for (number, room, b) in chosen {
        let start = Instant::now();
        let outcome = copy.broken(&b, limits[b.tests])?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{number:>4} {room:<9} {outcome:<12} {seconds:5.1} s  {}: {}", b.file, b.what);
        results.record(&b, &outcome, seconds)?;
    }
    summary(&results)
}

fn choose(part: Option<&str>, results: &Results) -> Result<Vec<(usize, &'static str, Break)>> {
    let Some(part) = part else { return Ok(all().collect()) };
    let is_chosen = |number: usize, room: &str, b: &Break, part: &str| {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&number),
            _ => part == room || (part == "left" && results.of(b) != Some(true)),
        }
    };
    let chosen: Vec<_> = all()
        .filter(|(number, room, b)| part.split(',').any(|part| is_chosen(*number, room, b, part)))
        .collect();
    if chosen.is_empty() && part != "left" {
        let rooms: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
        bail!(
            "no such part: name a room ({}), a number, a range such as 10..20, or `left`",
            rooms.join(", ")
        );
    }
    Ok(chosen)
}

/// Prints the outcomes of all breaks, from this run and earlier ones.
fn summary(results: &Results) -> Result<()> {
    println!("{:<9} {:>6} {:>8} {:>8}", "room", "breaks", "run", "noticed");
    let (mut total, mut run, mut noticed) = (0, 0, 0);
    for (room, _) in ROOMS {
        let breaks: Vec<Break> = all().filter(|(_, of, _)| of == room).map(|(_, _, b)| b).collect();
        let known: Vec<bool> = breaks.iter().filter_map(|b| results.of(b)).collect();
        let seen = known.iter().filter(|noticed| **noticed).count();
        println!("{room:<9} {:>6} {:>8} {seen:>8}", breaks.len(), known.len());
        (total, run, noticed) = (total + breaks.len(), run + known.len(), noticed + seen);
    }
    let share = 100.0 * noticed as f64 / run.max(1) as f64;
    println!("{:<9} {total:>6} {run:>8} {noticed:>8}: {share:.1} % noticed (floor {FLOOR} %)", "all");
    for (number, _, b) in all().filter(|(_, _, b)| results.of(b) == Some(false)) {
        println!("not noticed: {number} {}: {}", b.file, b.what);
    }
    ensure!(share >= FLOOR, "only {share:.1} % of the breaks were noticed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_their_marks() {
        let b = Break::read("a bug\nin a/b.rs: f\n- x - y\n+\ntest p --lib\n").unwrap();
        assert_eq!((b.what, b.file, b.within), ("a bug", "a/b.rs", "f"));
        assert_eq!((b.from, b.to, b.tests), ("x - y", "", "p --lib"));
        for bad in ["", "a bug\nin a/b.rs: f\n- x\n+ y", "a bug\na/b.rs: f\n- x\n+ y\ntest p --lib"] {
            assert!(Break::read(bad).is_none(), "{bad}");
        }
        assert!(all().count() > 200);
    }
}
