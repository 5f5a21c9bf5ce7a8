//! Every target over its own inputs, and over a few mutations of them: the same ones in every run.

#![allow(clippy::unwrap_used, reason = "a test may")]

use testkit::fuzz::{
    Broken, Signs, Target,
    explore::{Limits, explore},
    guarded, seeds,
};

/// How many inputs of a target are run, those in its folder included.
const RUNS: u64 = 200;

#[test]
fn the_inputs_in_the_folders_hold() {
    for target in Target::all() {
        let inputs = seeds::own(&target);
        assert!(inputs.len() >= 3, "{} has no inputs to begin with", target.name());
        for (path, input) in inputs {
            if let Err(Broken { law, detail }) = guarded(&target, &input, &mut Signs::default()) {
                panic!("{}: {law}\n{}\n{detail}", target.name(), path.display());
            }
        }
    }
}

#[test]
fn mutations_of_them_hold() {
    let limits = Limits { time: None, runs: Some(RUNS), probes: false };
    for target in Target::all() {
        let outcome = explore(&target, 1, limits, |_| {});
        for failure in outcome.failures {
            let input = String::from_utf8_lossy(&failure.input);
            panic!("{}: {}\n{input}\n{}", target.name(), failure.broken.law, failure.broken.detail);
        }
    }
}
