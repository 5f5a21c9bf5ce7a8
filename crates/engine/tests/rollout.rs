//! Files of turns: appended, durable, one writer at a time, and readable after any crash.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{fs, io::Write as _, thread};

use rejoin_engine::compat::{
    CompactedTurn, DamagedLine, RolloutError, RolloutLine, RolloutRecorder, RolloutTurn, TurnMetadata,
};
use rejoin_record::{Raw, Timestamp};

fn at(second: i64) -> Option<Timestamp> {
    Some(Timestamp::from_second(1_800_000_000 + second).unwrap())
}

fn item(role: &str, text: &str) -> Raw {
    Raw::new(format!(r#"{{"type":"message","role":"{role}","content":"{text}"}}"#))
}

fn turn(second: i64, said: &str, model: Option<&str>) -> RolloutTurn {
    let metadata = model.map(|model| TurnMetadata {
        provider: Some(String::from("openai")),
        model: Some(model.to_owned()),
        tokens: Some(12),
    });
    RolloutTurn { timestamp: at(second), items: vec![item("user", said), item("assistant", "ok")], metadata }
}

/// S3-07, S3-08, S3-09, B39: turns and compactions are appended to `{base}/{id}.jsonl`, an object a line, and read back.
#[test]
fn what_is_appended_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("a/b");
    let recorder = RolloutRecorder::new(&base);
    assert_eq!(recorder.list().unwrap(), []);
    let first = turn(1, "my name is Alice", Some("m-1"));
    recorder.append_turn("conv-1", &first).unwrap();
    let before = fs::read(base.join("conv-1.jsonl")).unwrap();
    let compacted =
        CompactedTurn { timestamp: at(2), summary: String::from("Alice\nsaid hello"), truncated_count: 3 };
    recorder.append_compacted("conv-1", &compacted).unwrap();
    let second = RolloutTurn { metadata: None, ..turn(3, "line\\nbreak", None) };
    recorder.append_turn("conv-1", &second).unwrap();
    let lines = recorder.read_rollout("conv-1").unwrap();
    assert_eq!(
        lines,
        [RolloutLine::Turn(first), RolloutLine::Compacted(compacted), RolloutLine::Turn(second)]
    );
    let after = fs::read_to_string(base.join("conv-1.jsonl")).unwrap();
    assert!(after.as_bytes().starts_with(&before), "the lines already written are unchanged");
    assert_eq!(after.lines().count(), 3);
    for line in after.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = value["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.parse::<Timestamp>().is_ok(), "{time}");
    }
    assert!(after.contains(r#""truncatedCount":3"#));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&base), mode(&base.join("conv-1.jsonl"))), (0o700, 0o600));
    }
}

/// S3-13: the recorded turns become a session, with items flattened and the last compaction applied, and again after more turns.
#[test]
fn a_file_of_turns_is_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    for round in 1..4 {
        recorder.append_turn("x", &turn(round, &format!("word {round}"), Some("m"))).unwrap();
        let session = recorder.session("x").unwrap();
        assert_eq!(session.messages.len(), 2 * round as usize);
        assert_eq!(session.messages[0].content().as_deref(), Some("word 1"));
        assert_eq!(session.context.model().as_deref(), Some("m"));
    }
    let compacted =
        CompactedTurn { timestamp: at(9), summary: String::from("three words"), truncated_count: 0 };
    recorder.append_compacted("x", &compacted).unwrap();
    let texts: Vec<_> =
        recorder.session("x").unwrap().messages.iter().map(|message| message.content().unwrap()).collect();
    assert_eq!(texts, ["word 1", "word 2", "word 3", "three words"]);
}

/// S3-14, S3-15: a missing, a damaged and an empty conversation have different errors and codes.
#[test]
fn errors_are_typed() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    let missing = recorder.read_rollout("nobody").unwrap_err();
    assert_eq!(missing.to_string(), "Conversation nobody not found. Run: rejoin list");
    assert_eq!(missing.code(), "CONVERSATION_NOT_FOUND");
    assert_eq!(recorder.recover_rollout("nobody").unwrap_err().code(), "CONVERSATION_NOT_FOUND");
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let empty = recorder.read_rollout("empty").unwrap_err();
    assert_eq!(empty.to_string(), "Conversation empty has no turns");
    assert_eq!(empty.code(), "EMPTY_ROLLOUT");
    assert_eq!(
        recorder.recover_rollout("empty").unwrap().lines,
        [],
        "an empty file is recovered as an empty conversation"
    );
    recorder.append_turn("x", &turn(1, "a", None)).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("x.jsonl")).unwrap();
    file.write_all(b"{\"timestamp\":1,\"items\":[}\n\n{\"a\":1}\n").unwrap();
    recorder.append_turn("x", &turn(2, "b", None)).unwrap();
    let damaged = recorder.read_rollout("x").unwrap_err();
    match &damaged {
        RolloutError::CorruptedRollout { line, why, .. } => {
            assert_eq!(*line, 2);
            assert!(why.contains("(byte 24)"), "{why}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(damaged.code(), "CORRUPTED_ROLLOUT");
    assert!(damaged.to_string().starts_with("Conversation x is damaged at line 2: "), "{damaged}");
    let recovered = recorder.recover_rollout("x").unwrap();
    assert_eq!(recovered.lines.len(), 2);
    assert_eq!(recovered.damaged.iter().map(|damaged| damaged.line).collect::<Vec<_>>(), [2, 4]);
}

/// B42: a line that was cut off is distinguished from damage, and the next append begins a new line, wherever the cut is.
#[test]
fn a_torn_line_is_isolated() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    recorder.append_turn("x", &turn(1, "a", None)).unwrap();
    let path = folder.path().join("x.jsonl");
    let first = fs::read(&path).unwrap();
    recorder.append_turn("x", &turn(2, "b", None)).unwrap();
    let whole = fs::read(&path).unwrap();
    for cut in first.len()..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        // Only the line break may be missing: then nothing is.
        let known = if cut == whole.len() - 1 { 2 } else { 1 };
        assert_eq!(recorder.read_rollout("x").unwrap().len(), known, "cut at {cut}");
        let recovered = recorder.recover_rollout("x").unwrap();
        let torn = cut > first.len() && known == 1;
        assert_eq!(recovered.damaged.iter().filter(|damaged| damaged.torn).count(), usize::from(torn));
        recorder.append_turn("x", &turn(3, "c", None)).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&whole[..cut]));
        let recovered = recorder.recover_rollout("x").unwrap();
        assert_eq!(recovered.lines.len(), known + 1, "cut at {cut}");
        assert_eq!(recovered.lines.last().unwrap(), &RolloutLine::Turn(turn(3, "c", None)));
        let places: Vec<_> =
            recovered.damaged.iter().map(|DamagedLine { line, torn, .. }| (*line, *torn)).collect();
        assert_eq!(places, if torn { vec![(2, false)] } else { vec![] });
    }
}

/// B40, B41: the list has the time, provider and model of the last line, with times in any unit; newest first.
#[test]
fn the_list_is_about_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    recorder.append_turn("old", &turn(10, "a", Some("m-1"))).unwrap();
    recorder.append_turn("old", &turn(20, "b", Some("m-2"))).unwrap();
    recorder.append_turn("new", &turn(30, "a", Some("m-3"))).unwrap();
    let compacted = CompactedTurn { timestamp: at(40), summary: String::from("s"), truncated_count: 0 };
    recorder.append_compacted("new", &compacted).unwrap();
    for (name, time) in
        [("seconds", "1800000050"), ("millis", "1800000060000"), ("text", "\"2027-01-15T08:01:10Z\"")]
    {
        fs::write(
            folder.path().join(format!("{name}.jsonl")),
            format!("{{\"timestamp\":1,\"items\":[]}}\n{{\"timestamp\":{time},\"items\":[]}}\n{{\"torn"),
        )
        .unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    fs::create_dir(folder.path().join("folder.jsonl")).unwrap();
    let list = recorder.list().unwrap();
    let seen: Vec<_> =
        list.iter().map(|listed| (listed.id.as_str(), listed.updated_at, listed.model.as_deref())).collect();
    let at = |second| at(second).unwrap();
    assert_eq!(
        seen,
        [
            ("text", at(70), None),
            ("millis", at(60), None),
            ("seconds", at(50), None),
            ("new", at(40), Some("m-3")),
            ("old", at(20), Some("m-2"))
        ]
    );
    assert_eq!(list[3].provider.as_deref(), Some("openai"));
    // A last line that is longer than the first piece read is found, too.
    recorder.append_turn("old", &turn(80, &"x".repeat(300_000), Some("m-9"))).unwrap();
    let first = &recorder.list().unwrap()[0];
    assert_eq!((first.id.as_str(), first.updated_at, first.model.as_deref()), ("old", at(80), Some("m-9")));
}

/// B43: an id names a file in the folder and nothing else; two that append take turns.
#[test]
fn ids_and_locks() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("base");
    let recorder = RolloutRecorder::new(&base);
    let long = "x".repeat(300);
    for id in
        ["", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "a\0b", ".hidden", "é", "a b", long.as_str()]
    {
        let refused = recorder.append_turn(id, &turn(1, "a", None)).unwrap_err();
        assert_eq!(refused.code(), "INVALID_ID", "{id:?}");
        assert_eq!(recorder.read_rollout(id).unwrap_err().code(), "INVALID_ID");
        assert_eq!(recorder.session(id).unwrap_err().code(), "INVALID_ID");
    }
    assert!(!base.exists(), "nothing was written");
    thread::scope(|scope| {
        for writer in 0..4 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                for round in 0..25 {
                    let said = format!("{writer}.{round} {}", "x".repeat(5000));
                    recorder.append_turn("shared", &turn(round, &said, None)).unwrap();
                }
            });
        }
    });
    assert_eq!(recorder.read_rollout("shared").unwrap().len(), 100);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    for bad in ["", "17", "{\"a\":", "[]"] {
        let turn =
            RolloutTurn { timestamp: at(1), items: vec![item("user", "a"), Raw::new(bad)], metadata: None };
        let refused = recorder.append_turn("x", &turn).unwrap_err();
        assert!(matches!(refused, RolloutError::InvalidItem { index: 1, .. }), "{refused}");
    }
    assert!(!folder.path().join("x.jsonl").exists());
    // A line break between values does not make a second line.
    let turn = RolloutTurn {
        timestamp: None,
        items: vec![Raw::new("{\n\"type\": \"message\",\r\n\"role\":\"user\",\"content\":\"a\"}")],
        metadata: None,
    };
    recorder.append_turn("x", &turn).unwrap();
    assert_eq!(recorder.read_rollout("x").unwrap().len(), 1);
    // The time of a line that has none is that of the file.
    assert!(recorder.list().unwrap()[0].updated_at > Timestamp::UNIX_EPOCH);
}

/// B43: an append waits for the lock before it looks at the end of the file.
#[test]
fn an_append_waits_for_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = RolloutRecorder::new(folder.path());
    recorder.append_turn("x", &turn(1, "a", None)).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("x.jsonl")).unwrap();
    file.lock().unwrap();
    let (ready, begun) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.send(()).unwrap();
            recorder.append_turn("x", &turn(2, "b", None)).unwrap();
        });
        begun.recv().unwrap();
        // Long enough for an append that does not wait to be done.
        (0..2000).for_each(|_| thread::yield_now());
        file.write_all(b"{\"half\":").unwrap();
        file.unlock().unwrap();
    });
    let recovered = recorder.recover_rollout("x").unwrap();
    assert_eq!(recovered.lines.len(), 2);
    assert_eq!(recovered.damaged.iter().map(|damaged| damaged.line).collect::<Vec<_>>(), [2]);
}

/// A link in place of a conversation is neither read nor written, because its target is not rejoin's.
#[cfg(unix)]
#[test]
fn a_conversation_that_is_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("turns");
    let recorder = RolloutRecorder::new(&base);
    recorder.append_turn("real", &turn(1, "hello", None)).unwrap();
    let victim = folder.path().join("victim");
    fs::rename(base.join("real.jsonl"), &victim).unwrap();
    let before = fs::read(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, base.join("real.jsonl")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("nothing"), base.join("new.jsonl")).unwrap();
    for id in ["real", "new"] {
        let why = recorder.append_turn(id, &turn(2, "more", None)).unwrap_err();
        assert!(why.to_string().contains("symbolic link"), "{id}: {why}");
        let why = recorder.read_rollout(id).unwrap_err();
        assert!(why.to_string().contains("symbolic link"), "{id}: {why}");
    }
    assert_eq!(recorder.list().unwrap(), []);
    assert_eq!(fs::read(&victim).unwrap(), before);
    assert!(!folder.path().join("nothing").exists());
}
