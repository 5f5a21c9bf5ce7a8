//! Imports real sessions of real agents while they grow. They are read in place; if they are missing, the test says so.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, path::Path};

use rejoin_engine::{Mode, read};
use rejoin_formats::{Input, Session, sessions};
use rejoin_store::memory::Memory;
use support::{Counting, assert_verifies, lines, writer};
use testkit::corpus;

/// The conversation that the first lines of a file are.
fn state(path: &Path, text: &[&str]) -> Option<Session> {
    let input = Input::new(path.display().to_string(), text.concat().as_bytes()).ok()?;
    let mut found = sessions::read(&input, None).ok()?;
    (found.len() == 1).then(|| found.remove(0))
}

#[test]
fn growing_sessions_are_taken_in_as_they_are() {
    let Some(folder) = corpus::folder() else { return };
    let (mut taken, mut extra, mut all) = (0, 0, 0);
    for path in corpus::files(&folder) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let parts: Vec<&str> = text.split_inclusive('\n').collect();
        let Some(whole) = state(&path, &parts) else { continue };
        if whole.format == "jsonl" {
            continue;
        }
        let (store, clock) = (Memory::new(rejoin_engine::digest), Counting);
        let mut added = 0;
        for eighth in 1..=8 {
            let Some(state) = state(&path, &parts[..parts.len() * eighth / 8]) else { continue };
            if state.id != whole.id {
                continue;
            }
            added += writer(&store, &clock).import(&state).unwrap().added;
            let recorded = read(&store, state.id, Mode::Recover).unwrap();
            assert_eq!(lines(&recorded.session), lines(&state), "{} after {eighth}/8", path.display());
            assert_eq!(writer(&store, &clock).import(&state).unwrap().added, 0, "{}", path.display());
        }
        assert_verifies(&store, whole.id);
        let alone = Memory::new(rejoin_engine::digest);
        let alone = writer(&alone, &clock).import(&whole).unwrap().added;
        taken += 1;
        extra += added - alone;
        all += alone;
    }
    println!("{taken} sessions of {all} entries; taken in as they grew, {extra} more");
    assert!(taken > 0);
    // Answers that were still being written, and models that changed: seven times a file was taken in too early.
    assert!(extra < all / 4, "a grown file adds only its new messages");
}
