//! Real sessions of real agents, used where they lie. Says so when they are not there. Claude Code's have tests of their own,
//! in `claude_code.rs`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rejoin_formats::{Dialect, Input, Session, convert, sessions};
use rejoin_record::Timestamp;
use rejoin_view::{OnBroken, Policy, Rule, repair};

fn corpus() -> Option<PathBuf> {
    let given = std::env::var_os("REJOIN_CORPUS").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let found = given.or(Some(usual)).filter(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: there is no corpus beside the project, and REJOIN_CORPUS is not set");
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn real_sessions_become_requests_that_every_checker_accepts() {
    let Some(folder) = corpus() else { return };
    let mut read: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut unknown = 0;
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let Ok(input) = Input::new(path.display().to_string(), &bytes) else { continue };
        let Ok(found) = sessions::read(&input, None) else {
            unknown += 1;
            continue;
        };
        let again = sessions::read(&input, None).unwrap();
        for (session, again) in found.iter().zip(&again) {
            let counts = read.entry(session.format).or_default();
            counts.0 += 1;
            counts.1 += session.messages.len();
            same_ids(session, again, &path);
            for to in Dialect::all() {
                for policy in [OnBroken::Keep, OnBroken::Drop] {
                    let out = convert(session, to, None, policy).unwrap();
                    let violations = testkit::refusals(to, out.body.as_bytes());
                    assert_eq!(violations, [], "{} → {to} {policy:?}", path.display());
                }
            }
        }
    }
    println!("conversations and messages: {read:?}; {unknown} files are in formats that are not read");
    let conversations: usize = read.values().map(|(count, _)| count).sum();
    assert!(conversations >= 100, "only {conversations} conversations were read");
}

fn same_ids(session: &Session, again: &Session, path: &Path) {
    let ids = |session: &Session| {
        let entries = session.to_entries(Timestamp::UNIX_EPOCH);
        assert_eq!(rejoin_record::verify::verify(&entries), [], "{}", path.display());
        entries.iter().map(|entry| entry.id()).collect::<Vec<_>>()
    };
    assert_eq!(session.id, again.id, "{}", path.display());
    assert_eq!(ids(session), ids(again), "{}", path.display());
}

/// Rollouts whose counts differ from those of the simple counter that made the corpus, and why: orphans, unanswered calls,
/// lines that cannot be read.
const DIFFERENCES: &[(&str, [usize; 3], &str)] = &[
    (
        "4d6d231898",
        [0, 0, 1],
        "the orphan stands before the last compaction; its mode of history is not known",
    ),
    ("d5dd64811e", [0, 0, 1], "its mode of history is not known, and Codex refuses it"),
    ("0635d7bfe3", [0, 0, 0], "the result has a type of its own and no id; it pairs by place"),
    ("43bb1eb28a", [0, 0, 0], "the result has a type of its own and no id; it pairs by place"),
    ("80e1a6e35c", [0, 0, 0], "the result has a type of its own and no id; it pairs by place"),
    ("ab593a2a6f", [0, 0, 0], "the result has a type of its own and no id; it pairs by place"),
];

#[test]
fn rollouts_hold_what_was_counted_in_them() {
    let Some(folder) = corpus() else { return };
    let rows = fs::read(folder.join("ATTRIBUTION.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&rows).unwrap();
    let rows: Vec<_> = rows.into_iter().filter(|row| row["format"] == "codex").collect();
    assert!(!rows.is_empty());
    for row in rows {
        let name = row["file"].as_str().unwrap();
        let input = Input::new(name, &fs::read(folder.join(name)).unwrap()).unwrap();
        let session = sessions::read(&input, None).unwrap().remove(0);
        assert_eq!(session.format, "codex", "{name}");
        let repaired = repair(&session.history(), Policy::Keep);
        let count = |rules: &[Rule]| {
            let all = session.findings.iter().chain(&repaired.findings);
            all.filter(|finding| rules.contains(&finding.rule)).count()
        };
        let found = [
            count(&[Rule::OrphanResult]),
            count(&[Rule::UnansweredCall]),
            count(&[Rule::DamagedEntry, Rule::TornTail]),
        ];
        let counted = |names: &[&str]| -> usize {
            names.iter().map(|name| row[name].as_u64().unwrap_or(0) as usize).sum()
        };
        let counted = [counted(&["orphan"]), counted(&["unans_tail", "unans_mid"]), counted(&["bad_line"])];
        let known = DIFFERENCES.iter().find(|(part, ..)| name.contains(part));
        assert_eq!(found, known.map_or(counted, |(_, ours, _)| *ours), "{name}");
        assert!(known.is_none_or(|(_, ours, _)| *ours != counted), "{name}: a difference that is none");
    }
}
