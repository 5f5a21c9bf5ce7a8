//! Real sessions of real agents, read where they lie. If they are missing, the tests say so. The sessions of Claude Code have
//! separate tests, in `claude_code.rs`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{collections::BTreeMap, fs, path::Path};

use rejoin_formats::{Dialect, Input, ReadError, Session, convert, input::InputError, sessions};
use rejoin_record::Timestamp;
use rejoin_view::{OnBroken, Rule, repair};
use testkit::{corpus, fuzz::accounted};

/// What became of the files of one source.
#[derive(Default)]
struct Outcome {
    read: usize,
    conversations: usize,
    messages: usize,
    /// Files of which some text is reported as not understood.
    reported: usize,
    /// Why others were not read, and how many for each reason.
    refused: BTreeMap<String, usize>,
}

/// Files of which some text is not understood, and what it is.
const UNREAD: &[(&str, &str)] = &[
    ("76597bb6c0", "a line of a test: `content` is misspelled"),
    ("a8d82d91c0", "an event of a test, of a type that no program writes"),
    ("ac635601f5", "a line of a test whose `message` is one word"),
    ("223d806fed", "a reasoning of two words under `codex_reasoning_items`"),
    ("49cc5cf65b", "the same"),
    ("22f5cee036", "answers of a test that are of the type `model`, which Gemini CLI does not write"),
    ("5327e48185", "the same"),
    ("e40da93430", "the same"),
];

/// Files in a form that holds less than others, or says everything several times: their format, the number of their messages, and
/// whether a finding says that they are lossy.
const OTHER_FORMS: &[(&str, &str, usize, bool)] = &[
    ("127e08a530", "opencode", 8, false),
    ("361f9c9bdc", "roo-code", 3, true),
    ("4279e104da", "roo-code", 33, true),
];

/// Files of some folders are parts of a session, which only the whole folder is.
const PARTS: [&str; 2] = ["a part of an opencode message", "an opencode message without its parts"];

#[test]
fn real_sessions_become_requests_that_every_checker_accepts() {
    let Some(folder) = corpus::folder() else { return };
    let mut sources: BTreeMap<String, Outcome> = BTreeMap::new();
    for path in corpus::files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let source = path.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        let outcome = sources.entry(source).or_default();
        let input = Input::new(path.display().to_string(), &bytes);
        let read =
            input.map_err(ReadError::from).and_then(|input| Ok((sessions::read(&input, None)?, input)));
        let (found, input) = match read {
            Ok(read) => read,
            Err(error) => {
                if let ReadError::Foreign { shape } = &error {
                    assert!(PARTS.contains(&shape.as_str()), "{}: {error}", path.display());
                }
                *outcome.refused.entry(words_of(&error)).or_default() += 1;
                continue;
            }
        };
        outcome.read += 1;
        assert_eq!(accounted::unaccounted(&input.text, &found), [""; 0], "{}", path.display());
        let unread =
            |session: &Session| session.findings.iter().any(|finding| finding.rule == Rule::UnreadText);
        let reported = found.iter().any(unread);
        let expected = UNREAD.iter().any(|(name, _)| input.name.contains(name));
        assert_eq!(reported, expected, "{}: text that is not understood", path.display());
        outcome.reported += usize::from(reported);
        if let Some((name, format, messages, lossy)) =
            OTHER_FORMS.iter().find(|(name, ..)| input.name.contains(name))
        {
            let session = &found[0];
            assert_eq!((session.format, session.messages.len()), (*format, *messages), "{name}");
            let is_lossy = session.findings.iter().any(|finding| finding.rule == Rule::ForeignBlock);
            assert_eq!(is_lossy, *lossy, "{name}");
        }
        let again = sessions::read(&input, None).unwrap();
        for (session, again) in found.iter().zip(&again) {
            outcome.conversations += 1;
            outcome.messages += session.messages.len();
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
    for (source, outcome) in &sources {
        let Outcome { read, conversations, messages, reported, refused } = outcome;
        println!(
            "{source}: {read} files read ({conversations} conversations, {messages} messages), every word accounted for; \
             {reported} with text that is reported as not understood"
        );
        refused.iter().for_each(|(why, count)| println!("    {count} refused: {why}"));
    }
    let conversations: usize = sources.values().map(|outcome| outcome.conversations).sum();
    assert!(conversations >= 100, "only {conversations} conversations were read");
}

/// Why a file was refused, without what differs from file to file.
fn words_of(error: &ReadError) -> String {
    match error {
        ReadError::NotJson { .. } => String::from("not JSON"),
        ReadError::Input(InputError::Binary { .. }) => String::from("not text"),
        ReadError::MostlyUnread { shape, .. } => {
            format!("most of its text would be lost: it looks like {shape}")
        }
        error => error.to_string(),
    }
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

/// Rollouts whose counts differ from those of the simple counter that made the corpus, by the reason: orphans, unanswered calls,
/// lines that cannot be read, and parts of the names of the files.
const DIFFERENCES: &[(&str, [usize; 3], &str)] = &[
    (
        "the orphan stands before the last compaction; its mode of history is not known",
        [0, 0, 1],
        "4d6d231898",
    ),
    ("its mode of history is not known, and Codex refuses it", [0, 0, 1], "d5dd64811e"),
    (
        "the result has a special type and no id; it pairs by place",
        [0, 0, 0],
        "0635d7bfe3 43bb1eb28a 80e1a6e35c ab593a2a6f",
    ),
];

#[test]
fn rollouts_hold_what_was_counted_in_them() {
    let Some(folder) = corpus::folder() else { return };
    let rows = fs::read(folder.join("ATTRIBUTION.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&rows).unwrap();
    let rows: Vec<_> = rows.into_iter().filter(|row| row["format"] == "codex").collect();
    assert!(!rows.is_empty());
    for row in rows {
        let name = row["file"].as_str().unwrap();
        let input = Input::new(name, &fs::read(folder.join(name)).unwrap()).unwrap();
        let session = sessions::read(&input, None).unwrap().remove(0);
        assert_eq!(session.format, "codex", "{name}");
        let repaired = repair(&session.history(), OnBroken::Keep);
        let count = |rules: &[Rule]| {
            let all = session.findings.iter().chain(&repaired.findings);
            all.filter(|finding| rules.contains(&finding.rule)).count()
        };
        let found = [
            count(&[Rule::OrphanResult]),
            count(&[Rule::UnansweredCall]),
            count(&[Rule::DamagedEntry, Rule::TornTail, Rule::CannotBeOpened]),
        ];
        let counted = |names: &[&str]| -> usize {
            names.iter().map(|name| row[name].as_u64().unwrap_or(0) as usize).sum()
        };
        let counted = [counted(&["orphan"]), counted(&["unans_tail", "unans_mid"]), counted(&["bad_line"])];
        let known = DIFFERENCES.iter().find(|(.., parts)| parts.split(' ').any(|part| name.contains(part)));
        assert_eq!(found, known.map_or(counted, |(_, ours, _)| *ours), "{name}");
        assert!(known.is_none_or(|(_, ours, _)| *ours != counted), "{name}: a difference that is none");
    }
}
