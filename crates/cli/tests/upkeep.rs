//! Looking after the store, from outside: import, copy, verify, settings, and what becomes of damage, on each kind of store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, io::Write as _};

use rejoin::store::{Holder, Location};
use serde_json::Value;
use support::{BROKEN, Home, Ran, SOUND, bare, has};

/// What was not read of an imported file is not forgotten: the stored conversation is not sound either.
#[test]
fn an_imported_conversation_with_unread_text_is_not_sound() {
    Home::each(|home| {
        let unread =
            r#"[{"role":"user","content":"list the files in this folder","note":"one of them is hidden"}]"#;
        let file = home.file("unread.json", unread);
        home.run(&["import", &file]);
        let checked = home.run(&["check", "@1"]);
        assert_eq!(checked.code, 1, "{}", checked.out);
        has(&checked.out, &["field `note` [unread-text]"]);
    });
}

/// Importing twice adds nothing; a file that grew adds only what is new.
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
        assert_eq!(home.run(&["verify"]).code, 0);
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
        assert_eq!(ran.out.lines().count(), 2);
        assert_eq!(ran.err.matches("error: cannot read").count(), 2, "{}", ran.err);
        assert_eq!(home.run(&["import", &bad]).code, 2);
        assert_eq!(home.run(&["import", "/no/such/file"]).code, 2);
        assert_eq!(home.run(&["import"]).code, 2);
    });
}

/// `--all` takes what `doctor` finds, and tells what was found while reading.
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
        assert_eq!(ran.out.lines().count(), 1);
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

/// A store copied to the other kind and back is the same, hashes included, and copying again adds nothing.
#[test]
fn copies_are_the_same() {
    Home::each(|home| {
        home.import("broken.json", BROKEN);
        let id = home.import("sound.json", SOUND);
        home.out(&["new", "--title", "Mine", "--provider", "p", "--model", "m"]);
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
        // One that went on differently is not written over, and does not stop the others.
        home.out(&["history", "rename", &id, "There", "--store", &there]);
        home.out(&["history", "rename", &id, "Here"]);
        let ran = home.run(&["copy", "--all", "--to", &there]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["went on differently there", "1 of 3 failed"]);
        let ran = home.run(&["copy", "--all", "--store", "jsonl:nowhere", "--to", &there]);
        assert_eq!(ran.code, 2);
        has(&ran.err, &["there is no store at jsonl:nowhere to copy from"]);
        let same = home.run(&["copy", "--all", "--to", &home.store]);
        assert_eq!(same.code, 2);
        has(&same.err, &["is the store that is copied from"]);
    });
}

/// S1-26, S1-27, S1-33: the audit of calls has a keyed hash instead of arguments unless somebody asks for them, says how
/// each call went, and is the same however often a conversation is imported.
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

/// S3-14, S3-15: strictly read, damage is an error with its line or row; otherwise everything else is read, and said.
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
        has(&ran.err, &["[damaged-entry]", place, "note: what is damaged is kept in "]);
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
        // Whatever is damaged, every provider gets something that it takes.
        for dialect in rejoin::Dialect::all() {
            let body = home.out(&["convert", &id, "--to", dialect.name()]);
            assert_eq!(dialect.wire().check(body.as_bytes()), [], "{dialect}");
        }
        // A fork has what can be read, and is whole: it can be copied, and what is damaged cannot.
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

/// S3-14: strictly read, a conversation in which nothing was said is an error; otherwise it is a fresh start.
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
    assert_eq!(home.run(&["verify"]).code, 0);
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
    // Trying is done on a copy; the store itself stays what it was.
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
    assert_eq!(home.run(&["verify"]).code, 0);
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
            has(&ran.err, &["needs a yes\nhint: say it with `--yes`\n"]);
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
        assert_eq!(home.run(&["verify"]).code, 0);
        has(&home.out(&["history", "export", &id]), &["a password"]);
        let ran = home.run(&["history", "erase", &id, "--message", "9", "--yes"]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["there is no message 9", "hint: `rejoin history show` numbers"]);
        home.out(&["history", "delete", &id, "--yes"]);
        assert_eq!(home.run(&["history", "show", &id]).code, 1);
        // Forks keep what they share.
        let shown = home.out(&["history", "show", fork]);
        has(&shown, &["Messages: 4 total", "a.txt b.txt", "Conversation: How many files?"]);
        assert_eq!(home.run(&["verify"]).code, 0);
    });
}

#[test]
fn what_was_said_is_found() {
    Home::each(|home| {
        let sound = home.import("sound.json", SOUND);
        let broken = home.import("broken.json", BROKEN);
        let hits = home.out(&["history", "search", "files"]);
        has(&hits, &[&sound, &broken, "How many *files*?", "List the *files*, please", "    USER  "]);
        let hits = home.lines(&["history", "search", "files", "--json", "--session", &broken]);
        assert_eq!(hits.len(), 1);
        assert_eq!((&hits[0]["conversation"], &hits[0]["role"]), (&broken.as_str().into(), &"user".into()));
        assert_eq!(hits[0]["hits"], serde_json::json!(["files"]));
        assert_eq!(home.lines(&["history", "search", "files", "--json", "--limit", "1"]).len(), 1);
        let ran = home.run(&["history", "search", "unheard", "of"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""));
        has(&ran.err, &["Nothing found for: unheard of"]);
    });
}

/// A store that cannot be written says so, and what to do.
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
    run(&["new"], &[]);
    run(&["new"], &[("REJOIN_MODEL", "variable")]);
    run(&["new", "--model", "flag"], &[("REJOIN_MODEL", "variable")]);
    let models: Vec<Value> =
        home.lines(&["list", "--json"]).iter().map(|item| item["model"].clone()).collect();
    assert_eq!(models, ["flag", "variable", "file"]);
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
        (vec!["config", "set", "modle", "x"], vec![], "did you mean `model`?"),
        (vec!["config", "get", "nothing.like.it"], vec![], "settings are: store, provider, "),
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
            "WARN",
            "line 2: there is no setting `modle`; did you mean `model`?",
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
        &["line 4 is no entry of a conversation", "hint: what stands before that line was taken in"],
    );
}

/// What is stored cannot steer a terminal, in whatever form it is printed: JSON spells it as an escape that means the same.
#[test]
fn marks_that_steer_a_terminal_are_never_printed() {
    Home::each(|home| {
        let said = "plain \u{9b}31m \u{7f} \u{202e}drow \\u001b]0;title\\u0007 end";
        let id = home.import("chat.json", &SOUND.replace("Two.", said));
        let steers = |c: char| {
            (c.is_control() && c != '\n' && c != '\t')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        for arguments in [
            &["history", "show", &id][..],
            &["history", "show", &id, "--json"],
            &["history", "show", &id, "--raw"],
            &["history", "show", &id, "--view"],
            &["history", "search", "plain", "--json"],
            &["history", "search", "plain"],
            &["history", "export", &id, "--to", "markdown"],
            &["list"],
            &["list", "--json"],
        ] {
            let printed = home.out(arguments);
            let found: Vec<char> = printed.chars().filter(|c| steers(*c)).collect();
            assert!(found.is_empty(), "{arguments:?} prints {found:?}");
        }
        let lines = home.lines(&["history", "show", &id, "--json"]);
        let text = lines.last().unwrap()["content"].as_str().unwrap().to_owned();
        assert!(
            text.contains("\u{202e}drow") && text.contains('\u{9b}'),
            "the escapes mean what was stored: {text}"
        );
    });
}

/// Files of a folder that are no sessions are counted, and a title that fills pages is cut in a list.
#[test]
fn what_is_passed_over_is_said() {
    Home::each(|home| {
        home.file("folder/one.json", SOUND);
        home.file("folder/notes.txt", "no session");
        home.file("folder/other.json", "{\"no\":\"conversation\"}");
        let ran = home.run(&["import", &home.path("folder").display().to_string()]);
        has(&ran.err, &["1 other file is no session (name it to see why)."]);
        home.out(&["new", "--title", &"long ".repeat(1000)]);
        assert!(home.out(&["list"]).lines().all(|line| line.chars().count() < 120));
    });
}

/// A variable that is no text is not passed over: what was meant to go elsewhere must not go to the usual place.
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
