//! Maintenance of the store, from outside: import, copy, verify, settings, and damage, on each kind of store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{collections::BTreeMap, fs, io::Write as _, path::PathBuf};

use rejoin::store::{Holder, Location};
use serde_json::Value;
use support::{BROKEN, Home, Ran, SOUND, bare, has};

/// Unread text of an imported file is not forgotten: the stored conversation is not sound either.
#[test]
fn an_imported_conversation_with_unread_text_is_not_sound() {
    Home::each(|home| {
        let unread =
            r#"[{"role":"user","content":"list the files in this folder","note":"one of them is hidden"}]"#;
        let file = home.file("unread.json", unread);
        has(&home.run(&["import", &file]).err, &["[unread-text]"]);
        assert!(!home.run(&["import", &file]).err.contains("[unread-text]"), "once is enough");
        let checked = home.run(&["check", "@1"]);
        assert_eq!(checked.code, 1, "{}", checked.out);
        has(&checked.out, &["field `note` [unread-text]"]);
    });
}

/// Importing twice adds nothing; a file that grew adds only its new entries.
#[test]
fn importing_again_adds_only_what_is_new() {
    Home::each(|home| {
        let file = home.path("chat.json").display().to_string();
        let id = home.import("chat.json", SOUND);
        let before = home.out(&["history", "export", &id]);
        let again = home.lines(&["import", "--json", &file]);
        let keys: Vec<_> = again[0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["id", "path", "format", "new", "added", "messages"]);
        assert_eq!((&again[0]["added"], &again[0]["new"]), (&0.into(), &false.into()));
        assert_eq!(home.out(&["history", "export", &id]), before);
        let grown = SOUND.replace(
            r#"{"role":"assistant","content":"Two."}]}"#,
            r#"{"role":"assistant","content":"Two."},{"role":"user","content":"And now?"}]}"#,
        );
        fs::write(&file, grown).unwrap();
        let ran = home.run(&["import", &file]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        has(&ran.out, &[&id, "added", "6 messages", "chat.json"]);
        has(&ran.err, &["1 conversation read: 0 new, 1 grown, 0 as before."]);
        has(&home.out(&["history", "show", &id]), &["Messages: 6 total", "[5] USER"]);
        home.verifies();
    });
}

/// One that cannot be read does not stop the others; only if nothing can be read the code is 2.
#[test]
fn what_cannot_be_read_does_not_stop_an_import() {
    Home::each(|home| {
        let (good, bad) = (home.file("good.json", SOUND), home.file("bad.json", "nonsense"));
        home.file("folder/deep/one.json", BROKEN);
        home.file("folder/notes.txt", "no session");
        home.file("folder/other.json", "{\"no\":\"conversation\"}");
        let folder = home.path("folder").display().to_string();
        let ran = home.run(&["import", "--json", &bad, &good, &folder, "/no/such/file"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.out.matches("\"id\":").count(), 2);
        has(&ran.out, &["\"skipped\":3"]);
        assert_eq!(ran.err.matches("error: cannot read").count(), 2, "{}", ran.err);
        assert_eq!(home.run(&["import", &bad]).code, 2);
        assert_eq!(home.run(&["import", "/no/such/file"]).code, 2);
        assert_eq!(home.run(&["import"]).code, 2);
    });
}

/// `--all` imports what `doctor` finds, and reports the findings of reading.
#[test]
fn everything_on_the_machine_is_imported() {
    Home::each(|home| {
        let rollout = include_str!("../../../examples/rollout.jsonl");
        home.file("codex/sessions/2026/11/15/rollout-2026-11-15T09-00-00-a.jsonl", rollout);
        home.file("codex/sessions/2026/11/15/rollout-broken.jsonl", "garbage");
        let command = |arguments: &[&str]| {
            Ran::of(home.command(arguments).env("CODEX_HOME", home.path("codex")).output().unwrap())
        };
        let ran = command(&["import", "--all", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(ran.out.matches("\"id\":").count(), 1);
        has(
            &ran.err,
            &[
                "rollout-2026-11-15T09-00-00-a.jsonl: note at line 8: the last write was cut off",
                "rollout-broken.jsonl",
            ],
        );
        has(
            &home.out(&["list"]),
            &["Why is the checkout slow?", "Updated: 2026-11-15 09:00:05, 3 messages", "(gpt-5.5)"],
        );
    });
}

/// S1-30: Markdown can be had as well; the entries themselves come back byte for byte, from a file or from another store.
#[test]
fn what_is_exported_comes_back_with_its_hashes() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let markdown = home.out(&["history", "export", &id, "--to", "markdown"]);
        has(&markdown, &["# List the files, please\n", "## User\n", "a.txt"]);
        let entries = home.out(&["history", "export", &id]);
        assert_eq!(home.out(&["convert", &id, "--to", "jsonl"]), entries);
        let file = home.path("backup.jsonl").display().to_string();
        assert_eq!(home.out(&["history", "export", &id, "-o", &file]), "");
        assert_eq!(fs::read_to_string(&file).unwrap(), entries);
        let other = home.path("restored").display().to_string();
        for restored in [format!("jsonl:{other}"), format!("sqlite:{other}.db")] {
            home.out(&["import", &file, "--store", &restored]);
            assert_eq!(home.out(&["history", "export", &id, "--store", &restored]), entries);
            has(&home.out(&["import", &file, "--store", &restored]), &["nothing new"]);
            assert_eq!(home.run(&["verify", "--store", &restored]).code, 0);
        }
        for format in ["codex", "claude-code", "anthropic", "gemini", "openai-chat"] {
            assert!(!home.out(&["history", "export", &id, "--to", format]).is_empty());
        }
    });
}

/// A store that is copied to the other kind and back is the same, including hashes, and copying again adds nothing.
#[test]
fn copies_are_the_same() {
    Home::each(|home| {
        home.import("broken.json", BROKEN);
        let id = home.import("sound.json", SOUND);
        home.out(&["new", "--title", "Mine", "--provider", "offline", "--model", "m"]);
        home.out(&["history", "rename", &id, "Renamed"]);
        home.out(&["history", "erase", &id, "--message", "2", "--yes"]);
        let kind = if home.is_jsonl() { "sqlite" } else { "jsonl" };
        let there = format!("{kind}:{}", home.path("there").display());
        let back = home.store.replace("chats", "back");
        let copied = home.lines(&["copy", "--all", "--to", &there, "--json"]);
        assert_eq!(copied.len(), 3);
        assert!(copied.iter().all(|copy| copy["added"] == copy["entries"]), "{copied:?}");
        home.out(&["copy", "--all", "--store", &there, "--to", &back]);
        for summary in home.lines(&["list", "--json"]) {
            let id = summary["id"].as_str().unwrap();
            let entries = home.out(&["history", "export", id]);
            assert_eq!(home.out(&["history", "export", id, "--store", &there]), entries);
            assert_eq!(home.out(&["history", "export", id, "--store", &back]), entries);
        }
        let again = home.lines(&["copy", "--all", "--to", &there, "--json"]);
        assert!(again.iter().all(|copy| copy["added"] == 0), "{again:?}");
        for store in [&home.store, &there, &back] {
            assert_eq!(home.run(&["verify", "--store", store]).code, 0);
        }
        // One that continues differently there is not overwritten, and does not stop the others.
        home.out(&["history", "rename", &id, "There", "--store", &there]);
        home.out(&["history", "rename", &id, "Here"]);
        let ran = home.run(&["copy", "--all", "--to", &there]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["has diverged in the other store", "1 of 3 failed"]);
        let ran = home.run(&["copy", "--all", "--store", "jsonl:nowhere", "--to", &there]);
        assert_eq!(ran.code, 2);
        has(&ran.err, &["there is no store at jsonl:nowhere to copy from"]);
        let same = home.run(&["copy", "--all", "--to", &home.store]);
        assert_eq!(same.code, 2);
        has(&same.err, &["is the store that is copied from"]);
    });
}

/// S1-26, S1-27, S1-33: the audit of calls has a keyed hash instead of arguments unless these are requested, shows the outcome of
/// each call, and is the same however often a conversation is imported.
#[test]
fn calls_are_audited_without_their_arguments() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let calls = home.lines(&["history", "calls", &id, "--json"]);
        let keys: Vec<_> = calls[0].as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "request_id",
                "call_id",
                "tool",
                "status",
                "error_kind",
                "started_at",
                "ended_at",
                "latency_ms",
                "args_sha256"
            ]
        );
        assert_eq!((&calls[0]["tool"], &calls[0]["status"]), (&"ls".into(), &"completed".into()));
        assert_eq!((&calls[1]["tool"], &calls[1]["status"]), (&"stat".into(), &"requested".into()));
        assert_eq!(calls[0]["args_sha256"].as_str().unwrap().len(), 64);
        let people = home.out(&["history", "calls", &id]);
        assert!(!people.contains("secret-place") && people.contains("call_1"), "{people}");
        home.out(&["import", &home.path("broken.json").display().to_string()]);
        assert_eq!(home.lines(&["history", "calls", &id, "--json"]), calls);
        let full = home.lines(&["history", "calls", &id, "--json", "--full"]);
        assert_eq!(full[0]["arguments"], "{\"path\":\"secret-place\"}");
        assert_eq!(
            (&full[0]["outcome"], &full[0]["args_sha256"]),
            (&"a.txt".into(), &calls[0]["args_sha256"])
        );
        home.out(&["config", "set", "audit.full_arguments", "true"]);
        assert_eq!(home.lines(&["history", "calls", &id, "--json"]), full);
        has(&home.out(&["history", "calls", &id]), &["arguments: {\"path\":\"secret-place\"}"]);
        // The key is kept, for its owner only; with another one nothing can be compared.
        let key = home.path("home/calls.key");
        assert_eq!(fs::read(&key).unwrap().len(), 32);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(&key, [7; 32]).unwrap();
        assert_ne!(
            home.lines(&["history", "calls", &id, "--json"])[0]["args_sha256"],
            calls[0]["args_sha256"]
        );
    });
}

/// S3-14, S3-15: in strict mode, damage is an error with its line or row; otherwise everything else is read, and the damage is
/// reported.
#[test]
fn damage_is_found_and_everything_else_is_read() {
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        home.damage("a.txt b.txt", "a.txt B.txt");
        let place = if home.is_jsonl() { "line 4" } else { "row 3" };
        for arguments in [vec!["history", "show", &id, "--strict"], vec!["check", &id, "--strict"]] {
            let ran = home.run(&arguments);
            assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{arguments:?}");
            has(
                &ran.err,
                &[&format!("error: Conversation {id} is damaged at {place}: "), "hint: leave out `--strict`"],
            );
        }
        let ran = home.run(&["history", "show", &id]);
        assert_eq!(ran.code, 0);
        has(&ran.out, &["Messages: 4 total", "Content:\nTwo.\n"]);
        has(&ran.err, &["[damaged-entry]", place, "note: a copy of the damage is kept in "]);
        let kept = ran.err.lines().find_map(|line| line.split_once("is kept in ")).unwrap().1;
        let bytes = fs::read(kept).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("a.txt B.txt"), "{kept}");
        let ran = home.run(&["check", &id]);
        assert_eq!(ran.code, 1);
        has(&ran.out, &["[damaged-entry]", "[unanswered-call]", "everything that can be read is used"]);
        let ran = home.run(&["verify"]);
        assert_eq!(ran.code, 1);
        has(&ran.out, &[&format!("error in {id}, {place}: "), "damaged: 1 conversation with "]);
        let report: Value = serde_json::from_str(&home.run(&["verify", &id, "--json"]).out).unwrap();
        assert_eq!(report["sound"], false);
        let (kind, number) = place.split_once(' ').unwrap();
        assert_eq!(report["problems"][0][kind].to_string(), number);
        // With any damage, every provider gets an acceptable request.
        for dialect in rejoin::Dialect::all() {
            let body = home.out(&["convert", &id, "--to", dialect.name()]);
            assert_eq!(testkit::refusals(dialect, body.as_bytes()), [], "{dialect}");
        }
        // A fork has the readable part, and is sound: it can be copied, but a damaged conversation cannot.
        let fork = home.out(&["history", "fork", &id]);
        assert_eq!(home.run(&["verify", fork.trim_end()]).code, 0);
        let there = format!("jsonl:{}", home.path("there").display());
        let ran = home.run(&["copy", "--all", "--to", &there]);
        assert_eq!(ran.code, 1);
        has(
            &ran.err,
            &[&format!("Conversation {id} is damaged at {place}: "), "hint: `rejoin history fork "],
        );
        assert_eq!(home.run(&["verify", fork.trim_end(), "--store", &there]).code, 0);
    });
}

/// S3-14: in strict mode, a conversation without messages is an error; otherwise it is a new start.
#[test]
fn an_empty_conversation_is_an_error_only_if_read_strictly() {
    Home::each(|home| {
        let id = home.out(&["new"]);
        let id = id.trim_end();
        let ran = home.run(&["history", "show", id, "--strict"]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &[&format!("error: Conversation {id} has no turns\n")]);
        has(&home.out(&["history", "show", id]), &["Messages: 0 total"]);
        assert_eq!(home.run(&["check", id]).code, 0);
    });
}

/// A write that was cut off was never acknowledged: it is named, and nothing is wrong.
#[test]
fn a_torn_tail_is_a_note() {
    let home = Home::new("jsonl");
    let id = home.import("sound.json", SOUND);
    let file = home.place().join(format!("{id}.jsonl"));
    let mut open = fs::OpenOptions::new().append(true).open(&file).unwrap();
    open.write_all(b"{\"v\":\"1.0\",\"id\":\"0199").unwrap();
    let ran = home.run(&["verify"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    has(
        &ran.out,
        &[&format!("note in {id}, line "), "sound: ", "1 write was cut off and never acknowledged"],
    );
    assert_eq!(home.run(&["history", "show", &id]).code, 0);
    home.out(&["history", "rename", &id, "Goes on"]);
    has(&home.out(&["history", "show", &id]), &["Conversation: Goes on", "Messages: 5 total"]);
    home.verifies();
}

/// S0-55: before its schema changes a database is copied, and the copy put back is the store as it was.
#[test]
fn the_backup_of_an_old_schema_restores_the_store() {
    let home = Home::new("sqlite");
    let id = home.import("sound.json", SOUND);
    let before = home.out(&["history", "export", &id]);
    {
        let old = rusqlite::Connection::open(home.place()).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
    }
    // The trial works on a copy; the store itself is unchanged.
    let trial = format!("sqlite:{}", home.path("trial.db").display());
    fs::copy(home.place(), home.path("trial.db")).unwrap();
    assert_eq!(home.out(&["history", "export", &id, "--store", &trial]), before);
    let ran = Ran::of(home.command(&["new"]).env("RUST_LOG", "info").output().unwrap());
    let backup = home.path("chats.db.backup");
    has(&ran.err, &[" INFO ", &backup.display().to_string()]);
    home.damage("Two.", "Too.");
    assert_eq!(home.run(&["verify"]).code, 1);
    for name in ["chats.db", "chats.db-index", "chats.db-wal", "chats.db-shm"] {
        let _ = fs::remove_file(home.path(name));
    }
    fs::copy(&backup, home.place()).unwrap();
    home.verifies();
    assert_eq!(home.out(&["history", "export", &id]), before);
    assert_eq!(home.lines(&["list", "--json"]).len(), 1, "what came after the backup is not in it");
}

/// Another process that writes is named; reading works all the while.
#[test]
fn a_second_writer_is_told_who_the_first_one_is() {
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        let store = home.open();
        let now = rejoin::record::Timestamp::from_second(1_800_000_000).unwrap();
        let lock = store.lock(id.parse().unwrap(), &Holder::this("a long turn", now)).unwrap();
        for arguments in [
            vec!["history", "rename", &id, "T"],
            vec!["history", "delete", &id, "--yes"],
            vec!["history", "erase", &id, "-m", "1", "--yes"],
        ] {
            let ran = home.run(&arguments);
            assert_eq!(ran.code, 1, "{arguments:?}");
            let me = std::process::id();
            has(
                &ran.err,
                &[&format!("process {me} (`a long turn`) since 2027-"), "hint: wait until it is done"],
            );
        }
        for arguments in
            [vec!["history", "show", &id], vec!["list"], vec!["verify"], vec!["history", "export", &id]]
        {
            assert_eq!(home.run(&arguments).code, 0, "{arguments:?}");
        }
        drop(lock);
        home.out(&["history", "rename", &id, "T"]);
    });
}

/// Deleting and erasing ask; without a terminal they need a yes, and nothing happens without.
#[test]
fn what_is_gone_for_good_needs_a_yes() {
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        let before = home.out(&["history", "export", &id]);
        for arguments in [vec!["history", "delete", &id], vec!["history", "erase", &id, "--message", "0"]] {
            let ran = home.run(&arguments);
            assert_eq!(ran.code, 2);
            has(&ran.err, &["needs confirmation\nhint: add `--yes`\n"]);
        }
        assert_eq!(home.out(&["history", "export", &id]), before);
        let fork = home.out(&["history", "fork", &id, "--at", "3"]);
        let fork = fork.trim_end();
        home.out(&[
            "history",
            "erase",
            &id,
            "--message",
            "2,0",
            "--message",
            "2",
            "--reason",
            "a password",
            "--yes",
        ]);
        let shown = home.out(&["history", "show", &id]);
        has(&shown, &["Messages: 5 total", "\n[0] ERASED\n", "\n[2] ERASED\n", "\n[4] ASSISTANT\n"]);
        assert!(!shown.contains("a.txt"), "{shown}");
        home.verifies();
        has(&home.out(&["history", "export", &id]), &["a password"]);
        let ran = home.run(&["history", "erase", &id, "--message", "9", "--yes"]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["there is no message 9", "hint: `rejoin history show` numbers"]);
        home.out(&["history", "delete", &id, "--yes"]);
        assert_eq!(home.run(&["history", "show", &id]).code, 1);
        // Forks keep the entries that they share.
        let shown = home.out(&["history", "show", fork]);
        has(&shown, &["Messages: 4 total", "a.txt b.txt", "Conversation: How many files?"]);
        home.verifies();
    });
}

/// `--yes` asks nothing, so it wants the whole id: the beginning of one may mean another conversation.
#[test]
fn deleting_without_a_question_needs_the_whole_id() {
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        let before = home.out(&["history", "export", &id]);
        for part in [&id[..16], &id[5..9], "@1", "How many files?"] {
            for arguments in
                [&["history", "delete", part, "--yes"][..], &["history", "erase", part, "-m", "0", "--yes"]]
            {
                let ran = home.run(arguments);
                assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
                has(
                    &ran.err,
                    &[&format!("`{part}` is not a whole id"), &id, "How many files?", "use its id"],
                );
            }
        }
        assert_eq!(home.out(&["history", "export", &id]), before);
        home.out(&["history", "erase", &id[5..], "-m", "0", "--yes"]);
        home.out(&["resume", &id]);
        home.out(&["history", "erase", "@", "-m", "1", "--yes"]);
        home.out(&["history", "delete", &id, "--yes"]);
        assert_eq!(home.run(&["history", "show", &id]).code, 1);
    });
}

/// `--dry-run` says what would go and who would keep it, changes nothing, and is right.
#[test]
fn a_dry_run_says_what_would_go_and_changes_nothing() {
    fn files(folder: &std::path::Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                found.extend(files(&entry.path()));
            // The shared memory of a database says who reads it just now.
            } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
                found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
        found
    }
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        let other = home.import("other.json", BROKEN);
        let twin = home
            .import("twin.json", &SOUND.replace("How many files?", "How many then?").replace("gpt-y", "z"));
        let fork = home.out(&["history", "fork", &id, "--at", "2"]).trim_end().to_owned();
        let before = files(home.path("").as_path());
        let ran = home.run(&["history", "erase", &id, "-m", "2", "--dry-run"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        has(
            &ran.out,
            &[
                &format!(
                    "Would erase the content of 1 message of {id} (How many files?):\n  1 message in 1 entry, "
                ),
                "Would stay, because another conversation holds it too:\n",
                &format!("  {fork} (How many files?): 1 entry shared by a fork\n"),
                "\nNothing was changed.\n",
            ],
        );
        let said = home.lines(&["history", "delete", &id[..9], "--dry-run", "--json"]);
        let [said] = &said[..] else { panic!("{said:?}") };
        assert_eq!(
            (&said["action"], &said["dry_run"], &said["id"]),
            (&"delete".into(), &true.into(), &id.as_str().into())
        );
        assert_eq!(said["messages"], 5);
        let held: Vec<(&str, bool)> = said["held_by"]
            .as_array()
            .unwrap()
            .iter()
            .map(|held| (held["id"].as_str().unwrap(), held["fork"].as_bool().unwrap()))
            .collect();
        let mut wanted = vec![(fork.as_str(), true), (twin.as_str(), false)];
        wanted.sort_unstable();
        assert_eq!(held, wanted, "and not {other}");
        assert_eq!(said["files"].as_array().unwrap().len(), usize::from(home.is_jsonl()));
        assert_eq!(files(home.path("").as_path()), before, "nothing was changed");
        // The command itself reports the same.
        let ran = home.run(&["history", "delete", &id, "--yes", "--json"]);
        let done: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&done["bytes"], &done["held_by"]), (&said["bytes"], &said["held_by"]));
        has(
            &ran.err,
            &[&format!("note: still held by {fork} (How many files?): 4 entries shared by a fork")],
        );
        let ran = home.run(&["history", "delete", &other, "--dry-run"]);
        has(&ran.out, &["No other conversation holds the same content.\n"]);
    });
}

#[test]
fn what_was_said_is_found() {
    Home::each(|home| {
        let sound = home.import("sound.json", SOUND);
        let broken = home.import("broken.json", BROKEN);
        let hits = home.out(&["history", "search", "files"]);
        has(&hits, &[&sound, &broken, "How many *files*?", "List the *files*, please", "    [0] USER  "]);
        let hits = home.lines(&["history", "search", "files", "--json", "--session", &broken]);
        assert_eq!(hits.len(), 1);
        assert_eq!((&hits[0]["conversation"], &hits[0]["role"]), (&broken.as_str().into(), &"user".into()));
        assert_eq!(hits[0]["hits"], serde_json::json!(["files"]));
        // The number is the one for `show`, `fork` and `erase`.
        let hits = home.lines(&["history", "search", "still", "--json"]);
        assert_eq!(hits[0]["message"], 3);
        has(&home.out(&["history", "show", &broken]), &["\n[3] USER\n"]);
        home.out(&["history", "erase", &broken, "-m", "3", "--yes"]);
        assert_eq!(home.lines(&["history", "search", "still", "--json"]).len(), 0);
        home.out(&["history", "rename", &broken, "A better name"]);
        let hits = home.lines(&["history", "search", "better", "--json"]);
        assert_eq!((&hits[0]["role"], hits[0]["message"].is_null()), (&"title".into(), true));
        assert_eq!(home.lines(&["history", "search", "files", "--json", "--limit", "1"]).len(), 1);
        let ran = home.run(&["history", "search", "unheard", "of"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""));
        has(&ran.err, &["Nothing found for: unheard of"]);
    });
}

/// The error for a store that cannot be written says what to do.
#[test]
fn a_store_that_cannot_be_written_is_said() {
    for store in ["sqlite:/dev/null/chats.db", "jsonl:/dev/null/chats"] {
        let home = Home::new("sqlite");
        let ran = home.run(&["new", "--store", store]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
        has(&ran.err, &[store, "error: "]);
    }
    let home = Home::new("sqlite");
    for wrong in ["nowhere", "redis:x", "sqlite:"] {
        let ran = home.run(&["list", "--store", wrong]);
        assert_eq!(ran.code, 2);
        has(&ran.err, &[&format!("`{wrong}` is no store: ")]);
    }
}

/// Everything is in one folder with REJOIN_HOME, and where the standard says without; only its owner can look into it.
#[test]
fn things_are_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |arguments: &[&str], variables: &[(&str, String)]| {
        let mut command = bare(arguments);
        command.env("HOME", at("me")).current_dir(folder.path());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Ran::of(command.output().unwrap())
    };
    for (variables, data, config) in [
        (vec![("REJOIN_HOME", at("one"))], at("one/rejoin.db"), at("one/config.toml")),
        (vec![], at("me/.local/share/rejoin/rejoin.db"), at("me/.config/rejoin/config.toml")),
        (
            vec![("XDG_DATA_HOME", at("d")), ("XDG_CONFIG_HOME", at("c"))],
            at("d/rejoin/rejoin.db"),
            at("c/rejoin/config.toml"),
        ),
        (
            vec![("XDG_DATA_HOME", String::from("relative"))],
            at("me/.local/share/rejoin/rejoin.db"),
            at("me/.config/rejoin/config.toml"),
        ),
    ] {
        assert_eq!(run(&["config", "path"], &variables).out.trim_end(), config);
        assert_eq!(run(&["config", "get", "store"], &variables).out.trim_end(), format!("sqlite:{data}"));
        assert_eq!(run(&["new"], &variables).code, 0);
        assert_eq!(run(&["config", "set", "model", "m"], &variables).code, 0);
        for file in [&data, &config] {
            let path = std::path::Path::new(file);
            assert!(path.is_file(), "{file}");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
                assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700), "{file}");
            }
        }
    }
}

#[test]
fn settings_come_from_flag_environment_file_and_default_in_this_order() {
    let home = Home::new("jsonl");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command(arguments);
        command.env_remove("REJOIN_STORE").envs(variables.iter().copied());
        Ran::of(command.output().unwrap())
    };
    assert_eq!(run(&["config", "get", "prune_threshold"], &[]).out, "0.8\n");
    assert_eq!(run(&["config", "get", "persist_special_commands"], &[]).out, "true\n");
    let unset = run(&["config", "get", "model"], &[]);
    assert_eq!((unset.code, unset.out.as_str()), (1, ""));
    home.file("home/config.toml", "# mine\nmodel = \"file\" # this one\n");
    assert_eq!(run(&["config", "set", "store", &home.store], &[]).code, 0);
    let text = fs::read_to_string(home.path("home/config.toml")).unwrap();
    assert_eq!(text, format!("# mine\nmodel = \"file\" # this one\nstore = \"{}\"\n", home.store));
    for (flags, variables, model) in [
        (vec![], vec![], "file"),
        (vec![], vec![("REJOIN_MODEL", "variable")], "variable"),
        (vec!["--model", "flag"], vec![("REJOIN_MODEL", "variable")], "flag"),
    ] {
        let arguments = [&["chat", "--new", "--provider", "offline", "hello"][..], &flags].concat();
        has(&run(&arguments, &variables).err, &[&format!("there is no model `{model}`")]);
    }
    assert!(home.store.parse::<Location>().is_ok() && home.place().is_dir());
    let list = run(&["config", "list", "--json"], &[("REJOIN_AUDIT_FULL_ARGUMENTS", "on")]).out;
    let find = |key: &str| {
        let lines = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["key"] == key).unwrap()
    };
    assert_eq!((&find("model")["from"], &find("model")["value"]), (&"file".into(), &"file".into()));
    let full = find("audit.full_arguments");
    assert_eq!((&full["from"], &full["value"]), (&"environment".into(), &"true".into()));
    assert_eq!(find("color")["from"], "default");
    for (arguments, variables, says) in [
        (vec!["config", "set", "modle", "x"], vec![], "did you mean `mode` or `model`?"),
        (vec!["config", "get", "nothing.like.it"], vec![], "`rejoin config list` lists all settings"),
        (vec!["config", "set", "max_tokens", "many"], vec![], "`many` is not a whole number"),
        (vec!["list"], vec![("REJOIN_MAX_TOKENS", "many")], "the variable REJOIN_MAX_TOKENS does not fit"),
    ] {
        let ran = run(&arguments, &variables);
        assert_eq!(ran.code, 2, "{arguments:?}");
        has(&ran.err, &[says, "hint: "]);
    }
    home.file("home/config.toml", "model = \"m\"\nmodle = 3\nmax_tokens = [1]\n");
    let ran = run(&["list"], &[]);
    assert_eq!(ran.code, 2);
    has(
        &ran.err,
        &[
            "config.toml, line 3: `max_tokens` does not fit",
            "warning: ",
            "line 2: there is no setting `modle`; did you mean `mode` or `model`?",
        ],
    );
}

/// S3-14, S3-15: a damaged file is an error with its line, too, if it is checked strictly.
#[test]
fn a_damaged_file_is_an_error_with_its_line_if_checked_strictly() {
    let home = Home::new("jsonl");
    let id = home.import("sound.json", SOUND);
    let file = home.file("copy.jsonl", home.out(&["history", "export", &id]).replace("a.txt", "b.txt"));
    let ran = home.run(&["check", "--strict", &file]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    has(&ran.err, &["copy.jsonl is damaged at line 4: ", "hint: leave out `--strict`"]);
    let ran = home.run(&["check", &file]);
    assert_eq!(ran.code, 1);
    has(&ran.out, &["[damaged-entry]", "everything that can be read is used"]);
    let ran = home.run(&["import", &file, "--store", &format!("jsonl:{}", home.path("other").display())]);
    assert_eq!(ran.code, 1);
    has(
        &ran.err,
        &["line 4 is not an entry of a conversation", "hint: everything before that line was imported"],
    );
}

/// Files of a folder that are no sessions are counted, and a title that fills pages is cut in a list.
#[test]
fn what_is_passed_over_is_said() {
    Home::each(|home| {
        home.file("folder/one.json", SOUND);
        let folder = home.path("folder").display().to_string();
        let ran = home.run(&["import", &folder]);
        has(&ran.err, &["1 conversation read: 1 new, 0 grown, 0 as before.\n"]);
        assert_eq!(home.lines(&["import", &folder, "--json"]).len(), 1, "nothing was skipped");
        home.file("folder/notes.txt", "no session");
        home.file("folder/other.json", "{\"no\":\"conversation\"}");
        let ran = home.run(&["import", &folder]);
        has(&ran.err, &["2 files skipped:\n  1 no conversation in it: ", "  1 not JSON: ", "notes.txt"]);
        let lines = home.lines(&["import", &folder, "--json"]);
        let skipped =
            serde_json::json!({"skipped": 2, "reasons": {"no conversation in it": 1, "not JSON": 1}});
        assert_eq!(lines.last().unwrap(), &skipped);
        home.out(&["new", "--title", &"long ".repeat(1000)]);
        assert!(home.out(&["list"]).lines().all(|line| line.chars().count() < 120));
    });
}

/// A variable that is not valid text is not ignored: data meant for another place must not go to the default one.
#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_named_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_rejoin"))
        .arg("new")
        .env("REJOIN_HOME", home.path())
        .env("REJOIN_STORE", std::ffi::OsStr::from_bytes(b"jsonl:/tmp/zz\xff"))
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("REJOIN_STORE is not text"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// A file's name need not be text.
#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_a_name() {
    use std::os::unix::ffi::OsStrExt as _;
    Home::each(|home| {
        let folder = home.path("odd");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(std::ffi::OsStr::from_bytes(b"chat\xff.json")), SOUND).unwrap();
        let ran = home.run(&["import", "--json", &folder.display().to_string()]);
        assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}", ran.err);
    });
}

/// Every regular file of a folder is tried by its content, whatever its name. Other files are skipped and counted by reason; a loop
/// of links, a broken link or a pipe stops nothing.
#[test]
fn a_folder_is_imported_by_content() {
    Home::each(|home| {
        home.file("folder/a.traj", SOUND);
        home.file("folder/deep/er/session", BROKEN);
        home.file("folder/picture.json.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
        home.file("folder/nothing", "");
        home.file("folder/log.txt", "12:00 started\n".repeat(1000));
        home.file("folder/old.jsonl.zst", b"\x28\xb5\x2f\xfd");
        home.file("folder/package.json", r#"{"name":"x","version":"1"}"#);
        let utf16: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain(SOUND.replace("Two.", "Three.").encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        home.file("folder/windows.traj", utf16);
        let folder = home.path("folder");
        std::os::unix::fs::symlink(&folder, folder.join("deep/loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("broken")).unwrap();
        std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        let folder = folder.display().to_string();
        let lines = home.lines(&["import", &folder, "--json"]);
        let paths: Vec<&str> = lines.iter().filter_map(|line| line["path"].as_str()).collect();
        assert_eq!(paths.len(), 3, "{paths:?}");
        assert!(paths.iter().any(|path| path.ends_with("a.traj")), "{paths:?}");
        let wanted = serde_json::json!({"skipped": 8, "reasons": {
            "binary": 1, "broken link": 1, "cannot be unpacked": 1, "empty": 1, "link to a folder": 1,
            "no conversation in it": 1, "not JSON": 1, "not a regular file": 1}});
        assert_eq!(lines.last().unwrap(), &wanted);
        let again = home.run(&["import", &folder]);
        assert_eq!(again.code, 0);
        has(
            &again.err,
            &["3 conversations read: 0 new, 0 grown, 3 as before.\n8 files skipped:\n  1 binary: "],
        );
        // A format that is named does not turn every text into a damaged session.
        let forced = home.lines(&["import", &folder, "--from", "codex", "--json"]);
        assert!(
            forced.iter().all(|line| line["path"].as_str().is_none_or(|path| !path.ends_with("log.txt")))
        );
        // `check` and `import` read the same files.
        for path in paths {
            assert_ne!(home.run(&["check", path]).code, 2, "{path}");
        }
        assert_eq!(home.run(&["check", &format!("{folder}/log.txt")]).code, 2);
    });
}

/// `-o` writes a file whose extension chooses the format, whole or not at all. An existing file is kept unless `--force` is given,
/// and the source is never overwritten.
#[test]
fn results_are_written_to_files() {
    Home::each(|home| {
        let source = home.file("chat.json", SOUND);
        let id = home.import("chat.json", SOUND);
        let at = |name: &str| home.path(name).display().to_string();
        let read = |name: &str| fs::read_to_string(home.path(name)).unwrap();
        // Endings.
        let markdown = home.out(&["history", "export", &id, "--to", "md"]);
        assert_eq!(markdown, home.out(&["history", "export", &id, "--to", "markdown"]));
        for name in ["a.md", "a.Markdown"] {
            let ran = home.run(&["history", "export", &id, "-o", &at(name)]);
            assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
            has(&ran.err, &[&format!("5 messages written to {}", at(name))]);
            assert_eq!(read(name), markdown);
        }
        home.out(&["convert", &source, "-o", &at("b.md")]);
        has(&read("b.md"), &["How many files?"]);
        home.out(&["history", "export", &id, "-o", &at("c.jsonl")]);
        assert_eq!(read("c.jsonl"), home.out(&["history", "export", &id]));
        home.out(&["convert", &source, "--to", "anthropic", "--output", &at("d.json")]);
        assert_eq!(read("d.json"), home.out(&["convert", &source, "--to", "anthropic"]));
        assert!(home.out(&["convert", &source, "--to", "codex", "-o", "-"]).lines().count() > 1);
        for wrong in [
            vec!["history", "export", &id, "-o", "x.json"],
            vec!["history", "export", &id, "-o", "x.txt"],
            vec!["convert", &source, "-o", "x.txt"],
            vec!["convert", &source, "-o", "x.json"],
            vec!["convert", &source, "-o", "x.jsonl"],
            vec!["convert", &source, "-o", "x"],
            vec!["convert", &source],
            vec!["convert", &source, "--to", "anthropic", "--force"],
            vec!["convert", &source, "--to", "codex", "--install", "-o", "x.jsonl"],
        ] {
            let ran = home.run(&wrong);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{wrong:?}: {}", ran.err);
            assert!(ran.err.contains("--to") || ran.err.contains("--output"), "{wrong:?}: {}", ran.err);
        }
        for name in ["x", "x.json", "x.jsonl", "x.txt"] {
            assert!(!home.path("here").join(name).exists(), "{name}");
        }
        // An existing file is kept.
        for arguments in [["history", "export", &id, "-o"], ["convert", &source, "--to=markdown", "-o"]] {
            fs::write(home.path("kept.md"), "mine").unwrap();
            let mut arguments = arguments.to_vec();
            let kept = at("kept.md");
            arguments.push(&kept);
            let ran = home.run(&arguments);
            assert_eq!(ran.code, 1, "{}", ran.err);
            has(&ran.err, &["already exists\nhint: ", "--force"]);
            assert_eq!(read("kept.md"), "mine");
            arguments.push("--force");
            home.out(&arguments);
            has(&read("kept.md"), &["How many files?"]);
        }
        // The source is never overwritten, under any name.
        std::os::unix::fs::symlink(&source, home.path("link.md")).unwrap();
        let own =
            if home.is_jsonl() { home.place().join(format!("{id}.jsonl")) } else { home.place().to_owned() };
        let before = fs::read(&own).unwrap();
        for arguments in [
            vec!["convert", &source, "--to", "anthropic", "--force", "-o", &source],
            vec!["convert", &source, "--force", "-o", &at("link.md")],
            vec!["history", "export", &id, "--force", "-o", &own.display().to_string()],
            vec!["convert", &id, "--to", "jsonl", "--force", "-o", &own.display().to_string()],
        ] {
            let ran = home.run(&arguments);
            assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
            has(&ran.err, &["is never overwritten"]);
        }
        assert_eq!(fs::read_to_string(&source).unwrap(), SOUND);
        assert_eq!(fs::read(&own).unwrap(), before);
        // Nothing is left behind where it cannot be written, and no folder is made.
        let ran = home.run(&["history", "export", &id, "-o", &at("no/such/folder.md")]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(!home.path("no").exists());
        let names = fs::read_dir(home.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".rejoin-")));
        assert_eq!(
            home.out(&["convert", &source, "--to", "md", "-o", "/dev/stdout"]),
            markdown_of(home, &source)
        );
    });
}

fn markdown_of(home: &Home, source: &str) -> String {
    home.out(&["convert", source, "--to", "markdown"])
}

/// A fork becomes the active conversation and the newest, and lists say where it is from.
#[test]
fn a_fork_is_active_and_marked() {
    Home::each(|home| {
        let id = home.import("sound.json", SOUND);
        home.import("broken.json", BROKEN);
        home.out(&["resume", &id]);
        let ran = home.run(&["history", "fork", "@", "--at", "3"]);
        let fork = ran.out.trim_end();
        has(&ran.err, &[&format!("Back to the original: rejoin resume {id}")]);
        has(&home.out(&["history", "show"]), &[&format!("ID: {fork}\n"), "Messages: 4 total"]);
        has(&home.out(&["history", "show", "@1"]), &[&format!("ID: {fork}\n")]);
        has(&home.out(&["list"]), &[&format!("    Fork of: {id}\n"), &format!("* {fork}")]);
        let listed = home.lines(&["list", "--json"]);
        assert_eq!((&listed[0]["id"], &listed[0]["forked_from"]), (&fork.into(), &id.as_str().into()));
        assert!(listed[1..].iter().all(|other| other["forked_from"].is_null()));
        // A fork of the fork comes from the fork, also in another store.
        let second = home.out(&["history", "fork", fork]).trim_end().to_owned();
        let other = format!("jsonl:{}", home.path("other").display());
        home.out(&["copy", "--all", "--to", &other]);
        for store in [&home.store, &other] {
            let listed = home.lines(&["list", "--json", "--store", store]);
            assert_eq!(
                (&listed[0]["id"], &listed[0]["forked_from"]),
                (&second.as_str().into(), &fork.into())
            );
        }
        home.verifies();
    });
}

/// A named folder without a file in it is nothing readable; a machine without agents is no mistake.
#[test]
fn importing_an_empty_folder_is_an_error() {
    let home = Home::new("jsonl");
    fs::create_dir_all(home.path("empty")).unwrap();
    let ran = home.run(&["import", &home.path("empty").display().to_string()]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    has(&ran.err, &["There is nothing to import."]);
    assert_eq!(home.run(&["import", "--all"]).code, 0);
}

/// Errors and warnings use names that the user knows: no temporary file, no command that fails for the same reason, and no
/// repetition.
#[test]
fn errors_say_what_the_user_can_use() {
    let home = Home::new("jsonl");
    let id = home.import("sound.json", SOUND);
    let ran = home.run(&["history", "export", &id, "-o", "nodir/x.md"]);
    assert_eq!(ran.code, 1);
    has(&ran.err, &["error: cannot write nodir/x.md: No such file or directory (os error 2)\n"]);
    home.file("home/config.toml", "modle = \"x\"\n");
    let ran = home.run(&["doctor", "--self"]);
    assert_eq!(ran.err.matches("there is no setting `modle`").count(), 1, "{}", ran.err);
    home.file("home/config.toml", "model = \n");
    let ran = home.run(&["list"]);
    assert_eq!(ran.code, 2);
    has(&ran.err, &["config.toml, line 1: ", "hint: correct that line or remove it\n"]);
}

/// A summary may repeat erased text, so it is named, also by a dry run.
#[test]
fn summaries_of_what_is_erased_are_named() {
    let home = Home::new("sqlite");
    let chat = ["chat", "--provider", "offline", "--model", "tiny"];
    home.out(&[&chat[..], &["remember that the door code is hunter2"]].concat());
    for number in 1..4 {
        let words =
            format!("Part {number} of a story: {}", "the keeper of the lighthouse walks. ".repeat(20));
        home.out(&[&chat[..], &[&words]].concat());
    }
    home.out(&["compact"]);
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    for last in ["--dry-run", "--yes"] {
        let ran = home.run(&["history", "erase", &id, "-m", "0,1", last]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        has(
            &ran.err,
            &["the summary at message 8 may repeat the text you erase", &format!("history erase {id} -m 8")],
        );
    }
    home.out(&["history", "erase", &id, "-m", "8", "--yes"]);
    assert_eq!(home.run(&["history", "search", "hunter2"]).out, "");
}

/// Erased or deleted text is in no file of rejoin: store, index, drafts, pointers, settings.
#[test]
fn what_was_removed_is_in_no_file() {
    fn holding(folder: &std::path::Path, word: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                found.extend(holding(&path, word));
            } else if fs::read(&path).unwrap().windows(word.len()).any(|window| window == word.as_bytes()) {
                found.push(path);
            }
        }
        found
    }
    Home::each(|home| {
        home.out(&["chat", "--provider", "offline", "my name is Xyzzyplugh"]);
        home.out(&["chat", "Plughxyzzy is a fine word"]);
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        home.out(&["history", "search", "Xyzzyplugh"]);
        home.out(&["history", "erase", &id, "-m", "0,1", "--yes"]);
        assert_eq!(holding(&home.path(""), "Xyzzyplugh"), Vec::<PathBuf>::new());
        assert!(!holding(&home.path(""), "Plughxyzzy").is_empty());
        home.out(&["history", "delete", &id, "--yes"]);
        assert_eq!(holding(&home.path(""), "Plughxyzzy"), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(home.path("home/active")).unwrap().count(), 0, "nothing points to it");
    });
}
