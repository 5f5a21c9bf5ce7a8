//! Small bugs put into the code on purpose, to see that the tests notice them: a test that cannot fail proves nothing.
//!
//! Each room has its table in a file of its own. `run.rs` breaks a copy of the sources under `target/`, never the tree
//! itself, and `results.rs` keeps what came of it, so that the list can be run in parts. A part is a room, a number, a
//! range of numbers, or `left`: the breaks that nothing has noticed yet. Several are joined by commas.

mod checkers;
mod cli;
mod engine;
mod formats;
mod place;
mod record;
mod rejoin;
mod results;
mod run;
mod store;
mod view;

use std::{
    collections::HashMap,
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use results::Results;
use run::{Copy, Outcome};

/// How many of the breaks must be noticed, in percent.
const FLOOR: f64 = 95.0;

/// One small bug, and the tests that must notice it.
struct Break {
    /// The bug, as a reviewer would describe it.
    what: &'static str,
    file: &'static str,
    /// The function or constant that it is in, by its name.
    within: &'static str,
    /// The text to replace. It occurs there exactly once, with any white space where it has some.
    from: &'static str,
    to: &'static str,
    tests: Tests,
}

/// A narrow selection of tests: one target of one package, and a filter on names (empty for all of them).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Tests {
    package: &'static str,
    target: Target,
    filter: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    /// The unit tests of the library.
    Lib,
    /// The unit tests of the binary.
    Bins,
    /// An integration test by its name.
    Test(&'static str),
}

/// Unit tests of a package's library.
const fn lib(package: &'static str, filter: &'static str) -> Tests {
    Tests { package, target: Target::Lib, filter }
}

/// Unit tests of a package's binary.
const fn bins(package: &'static str, filter: &'static str) -> Tests {
    Tests { package, target: Target::Bins, filter }
}

/// An integration test of a package.
const fn test(package: &'static str, name: &'static str, filter: &'static str) -> Tests {
    Tests { package, target: Target::Test(name), filter }
}

/// The tables, in an order in which little is built twice: a room before those that use it.
const ROOMS: &[(&str, &[Break])] = &[
    ("record", record::BREAKS),
    ("view", view::BREAKS),
    ("checkers", checkers::BREAKS),
    ("formats", formats::BREAKS),
    ("store", store::BREAKS),
    ("engine", engine::BREAKS),
    ("rejoin", rejoin::BREAKS),
    ("cli", cli::BREAKS),
];

/// Every break with its room; its number is its place here, from 1.
fn all() -> impl Iterator<Item = (usize, &'static str, &'static Break)> {
    let breaks = ROOMS.iter().flat_map(|(room, breaks)| breaks.iter().map(|b| (*room, b)));
    breaks.enumerate().map(|(place, (room, b))| (place + 1, room, b))
}

/// Breaks that no longer fit the code: their text is gone, or occurs more than once.
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

/// Breaks the code in one part of the list, or all of it, and reports the share that was noticed.
pub fn sabotage(part: Option<&str>) -> Result<()> {
    let stale = stale();
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    let mut results = Results::read()?;
    let chosen = choose(part, &results)?;
    let copy = Copy::lay_out()?;
    // A test that fails anyway notices nothing. How long it takes when all is well says when it hangs.
    let mut limits: HashMap<Tests, Duration> = HashMap::new();
    for (_, _, b) in &chosen {
        if limits.contains_key(&b.tests) {
            continue;
        }
        copy.build(&b.tests)?;
        let start = Instant::now();
        let outcome = copy.test(&b.tests, run::PATIENCE)?;
        ensure!(matches!(outcome, Outcome::Passed), "{} fails before anything is broken", b.tests);
        limits.insert(b.tests, run::LIMIT.max(start.elapsed() * 4));
    }
    println!("{} selections of tests pass on the unbroken code", limits.len());
    for (number, room, b) in chosen {
        let start = Instant::now();
        let outcome = copy.broken(b, limits[&b.tests])?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{number:>4} {room:<9} {outcome:<12} {seconds:5.1} s  {}: {}", b.file, b.what);
        results.record(b, &outcome, seconds)?;
    }
    summary(&results)
}

fn choose(part: Option<&str>, results: &Results) -> Result<Vec<(usize, &'static str, &'static Break)>> {
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

/// Prints what is known about all breaks, from this run and earlier ones.
fn summary(results: &Results) -> Result<()> {
    println!("{:<9} {:>6} {:>8} {:>8}", "room", "breaks", "run", "noticed");
    let (mut total, mut run, mut noticed) = (0, 0, 0);
    for (room, breaks) in ROOMS {
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
