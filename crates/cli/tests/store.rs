//! Conversations of the store, from outside: start, list and read them, on each kind of store.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::fs;

use rejoin::{
    engine::{SystemClock, clock::stamp},
    record::{Chain, Content, Kind, content},
};
use serde_json::Value;
use support::{BROKEN, Home, Ran, SOUND, bare, has};

/// S3-19, S3-21, S3-48, S3-60: three conversations are listed right after they were started, newest first, with provider,
/// model and time.
#[test]
fn what_is_new_is_listed_at_once() {
    Home::each(|home| {
        let ids = [
            home.out(&["new", "--title", "First", "--provider", "openai", "--model", "gpt-x"]),
            home.out(&["new", "--title", "Second"]),
            home.out(&["new"]),
        ]
        .map(|printed| printed.trim_end().to_owned());
        assert!(ids.iter().all(|id| id.starts_with("conv_") && id.len() == 17), "{ids:?}");
        let list = home.out(&["list"]);
        let lines: Vec<&str> = list.lines().collect();
        assert_eq!(lines[0], "Saved Conversations:");
        assert_eq!(*lines.last().unwrap(), "Total: 3 conversation(s)");
        let places: Vec<usize> = ids.iter().map(|id| list.find(id.as_str()).unwrap()).collect();
        assert!(places.is_sorted_by(|a, b| a > b), "newest first:\n{list}");
        has(
            &list,
            &[
                "First [new]",
                "Second",
                "(untitled)",
                "Provider: openai (gpt-x)",
                "Provider: unknown (unknown)",
            ],
        );
        assert_eq!(list.matches("    Updated: 2").count(), 3, "{list}");
        assert_eq!(home.out(&["history", "list"]), list, "`history list` is the same");
    });
}

/// S3-19: times are in the reader's local time; items without a time say so.
#[test]
fn times_are_local_or_unknown() {
    Home::each(|home| {
        let rollout = include_str!("../../../examples/rollout.jsonl");
        let id = home.import("rollout.jsonl", rollout);
        for (zone, time) in
            [("UTC", "09:00:05"), ("Asia/Tokyo", "18:00:05"), ("America/New_York", "04:00:05")]
        {
            let ran = Ran::of(home.command(&["list"]).env("TZ", zone).output().unwrap());
            has(&ran.out, &[&id, &format!("    Updated: 2026-11-15 {time}, 3 messages\n")]);
        }
        if home.is_jsonl() {
            // Nothing is in it, and not even the file has a time.
            let emptied = fs::File::create(home.place().join(format!("{id}.jsonl"))).unwrap();
            emptied.set_modified(std::time::UNIX_EPOCH).unwrap();
            has(&home.out(&["list"]), &[&id, "    Updated: unknown, 0 messages\n"]);
        }
    });
}

/// S3-50: a list item carries provider, model and the time of the last update.
#[test]
fn a_list_item_has_provider_model_and_time() {
    Home::each(|home| {
        home.out(&["new", "--provider", "anthropic", "--model", "claude-x", "--title", "T"]);
        let items = home.lines(&["list", "--json"]);
        let item = &items[0];
        assert_eq!(
            (&item["provider"], &item["model"], &item["title"], &item["state"]),
            (&"anthropic".into(), &"claude-x".into(), &"T".into(), &"new".into())
        );
        let updated = item["updated_at"].as_str().unwrap();
        assert!(updated.ends_with('Z') && updated.starts_with('2'), "{updated}");
        assert!(item["directory"].as_str().unwrap().ends_with("/here"));
        // An imported conversation is as old as its messages.
        assert_eq!(item["active"], true);
    });
}

/// S3-20, S3-49, S3-61: an empty store says so and how to begin; as JSON the output is empty. Listing creates no store.
#[test]
fn an_empty_list_says_how_to_begin() {
    Home::each(|home| {
        let empty = "No saved conversations.\nCreate one: rejoin new\n";
        assert_eq!(home.out(&["list"]), empty);
        assert_eq!(home.out(&["list", "--json"]), "");
        assert!(!home.place().exists(), "reading makes nothing");
        let id = home.out(&["new"]);
        home.out(&["history", "delete", id.trim_end(), "--yes"]);
        assert_eq!(home.out(&["list"]), empty);
        assert_eq!(home.out(&["list", "--json"]), "");
    });
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    Home::each(|home| {
        for _ in 0..5 {
            home.out(&["new"]);
        }
        let list = home.out(&["list", "--limit", "2"]);
        assert_eq!(list.matches("conv_").count(), 2);
        has(
            &list,
            &["Total: 5 conversation(s)\nThe newest 2 of 5 are shown; `--limit N` or `--all` shows more."],
        );
        let ran = home.run(&["list", "--limit", "2", "--json"]);
        assert_eq!(ran.out.lines().count(), 2);
        has(&ran.err, &["The newest 2 of 5 are shown"]);
        assert_eq!(home.out(&["list", "--all"]).matches("conv_").count(), 5);
    });
}

/// B44: the active conversation is kept for each folder, across processes, until it is deleted.
#[test]
fn the_active_conversation_outlives_the_process() {
    Home::each(|home| {
        let elsewhere = home.path("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        let there =
            |arguments: &[&str]| Ran::of(home.command(arguments).current_dir(&elsewhere).output().unwrap());
        let first = home.out(&["new", "--title", "Mine"]);
        let second = there(&["new", "--title", "Theirs"]).out;
        has(&home.out(&["history", "show", "@"]), &["Conversation: Mine", &format!("ID: {first}")]);
        has(&there(&["history", "show", "@"]).out, &["Conversation: Theirs"]);
        let list = home.out(&["list"]);
        has(&list, &[&format!("* {}", first.trim_end()), &format!("  {}", second.trim_end())]);
        home.out(&["history", "delete", "@", "--yes"]);
        let ran = home.run(&["history", "show", "@"]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["error: there is no active conversation here", "hint: `rejoin new` starts one"]);
        has(&there(&["history", "show", "@"]).out, &["Conversation: Theirs"]);
        let pointers = fs::read_dir(home.path("home/active")).unwrap();
        assert_eq!(pointers.count(), 1, "nothing is left behind");
    });
}

/// S0-38: the spellings of `history show`, `list` and `delete` that people know, and their help.
#[test]
fn the_spellings_that_people_know() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let shown = home.out(&["history", "show", &id]);
        for spelling in [
            vec!["history", "show", "--id", &id],
            vec!["history", "show", "-i", &id],
            vec!["history", "show", &id[..10]],
            vec!["history", "show", &id[5..10]],
            vec!["history", "show", "@1"],
        ] {
            assert_eq!(home.out(&spelling), shown, "{spelling:?}");
        }
        let raw = home.out(&["history", "show", "-i", &id, "-r", "-n", "1"]);
        assert_eq!(home.out(&["history", "show", "--id", &id, "--raw", "--limit", "1"]), raw);
        for wrong in [
            &["history", "show", &id, "--id", &id][..],
            &["history", "show", &id, "--limit", "many"],
            &["history", "delete"],
        ] {
            assert_eq!(home.run(wrong).code, 2, "{wrong:?}");
        }
        home.out(&["history", "delete", "--id", &id, "--yes"]);
        assert_eq!(home.run(&["history", "show", &id]).code, 1);
    });
    for command in ["show", "list", "delete"] {
        let help = Ran::of(bare(&["history", command, "--help"]).output().unwrap());
        assert_eq!(help.code, 0);
        has(&help.out, &["Usage: rejoin history ", "Examples:\n  rejoin "]);
    }
}

/// S0-41, S0-42, S0-43: header and messages as people read them.
#[test]
fn a_conversation_is_shown_for_people() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let shown = home.out(&["history", "show", &id]);
        let rule = "=".repeat(80);
        let head =
            format!("Conversation: How many files?\nID: {id}\nModel: gpt-y\nMessages: 5 total\n{rule}\n");
        assert!(shown.starts_with(&head), "{shown}");
        has(
            &shown,
            &[
                "\n\n[0] USER\nTime: 2",
                "Content:\nHow many files?\n",
                "\n\n[1] ASSISTANT\n",
                "Tool Calls: 2 total\n  - ls (id: call_1)\n  - wc (id: call_2)\nContent:\nI look.\n",
                "\n\n[2] TOOL\n",
                "Tool Call ID: call_1\nContent:\na.txt b.txt\n",
                "\n\n[4] ASSISTANT\n",
            ],
        );
        let id = home.out(&["new"]);
        has(&home.out(&["history", "show", id.trim_end()]), &["Model: unknown\nMessages: 0 total\n"]);
    });
}

/// S0-39: the last N messages keep their numbers.
#[test]
fn a_limit_shows_the_last_ones() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let shown = |limit: &str| home.out(&["history", "show", &id, "--limit", limit]);
        for (limit, count) in [("2", 2), ("99", 5), ("0", 0)] {
            assert_eq!(shown(limit).matches("\n[").count(), count, "{limit}");
        }
        let parts = &["Messages: 5 total\nShowing: last 2 messages\n", "\n[3] TOOL\n", "\n[4] ASSISTANT\n"];
        has(&shown("2"), parts);
    });
}

/// S0-42, B1: long content is cut after 500 characters, wherever these end, and says how long it is.
#[test]
fn long_content_is_cut_between_characters() {
    Home::each(|home| {
        let long = format!("{}語{}", "a".repeat(499), "é".repeat(100));
        let body = serde_json::json!({"messages": [
            {"role": "user", "content": long},
            {"role": "assistant", "content": "🦀".repeat(500)},
        ]});
        let id = home.import("long.json", &body.to_string());
        let shown = home.out(&["history", "show", &id]);
        has(&shown, &[&format!("{}語... (600 chars total)\n", "a".repeat(499)), &"🦀".repeat(500)]);
        assert_eq!(shown.matches("chars total").count(), 1);
    });
}

/// S0-40: `--raw` is what jq wants, and nothing is cut in it.
#[test]
fn raw_is_indented_json_in_the_shape_that_jq_scripts_expect() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let raw = home.out(&["history", "show", &id, "--raw"]);
        assert!(raw.starts_with("{\n  \"id\": \"conv_"), "{raw}");
        let value: Value = serde_json::from_str(&raw).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["id", "title", "model", "message_count", "messages"]);
        assert_eq!((&value["id"], &value["message_count"]), (&id.as_str().into(), &5.into()));
        let messages = value["messages"].as_array().unwrap();
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
        assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "ls");
        assert_eq!(
            messages[2],
            serde_json::json!({"role":"tool","tool_call_id":"call_1","content":"a.txt b.txt"})
        );
        let last: Value =
            serde_json::from_str(&home.out(&["history", "show", &id, "-r", "-n", "1"])).unwrap();
        assert_eq!((&last["message_count"], last["messages"].as_array().unwrap().len()), (&5.into(), 1));
        let lines = home.lines(&["history", "show", &id, "--json"]);
        assert_eq!((lines.len(), &lines[3]["index"], &lines[3]["role"]), (5, &3.into(), &"tool".into()));
        assert_eq!(lines[3]["tool_results"][0]["tool_call_id"], "call_2");
    });
}

/// S0-18, S0-22, S0-43, S3-14: an unknown id is an error with the words people know, a hint, and a line in the log.
#[test]
fn an_unknown_id_is_said_and_logged() {
    Home::each(|home| {
        for made in [false, true] {
            if made {
                home.out(&["new"]);
            }
            for command in ["show", "export", "calls"] {
                let ran = home.run(&["history", command, "conv_aaaaaaaaaaaa"]);
                assert_eq!((ran.code, ran.out.as_str()), (1, ""));
                assert_eq!(
                    ran.err,
                    "error: Conversation not found: id=conv_aaaaaaaaaaaa\nhint: Run: rejoin list\n"
                );
            }
            let ran = home.command(&["history", "show", "nobody"]).env("RUST_LOG", "info").output().unwrap();
            let err = String::from_utf8(ran.stderr).unwrap();
            has(&err, &[" INFO ", "Conversation not found: id=nobody\nerror: "]);
            for command in [
                &["history", "delete", "conv_aaaaaaaaaaaa", "--yes"][..],
                &["history", "rename", "conv_aaaaaaaaaaaa", "T"],
                &["history", "fork", "conv_aaaaaaaaaaaa"],
                &["verify", "conv_aaaaaaaaaaaa"],
            ] {
                let ran = home.run(command);
                assert_eq!(ran.code, 1, "{command:?}");
                has(&ran.err, &["Conversation not found: id=conv_aaaaaaaaaaaa"]);
            }
            assert_eq!(home.place().exists(), made, "asking for one makes no store");
        }
    });
}

/// S0-19: a store that cannot be read at all is a reason, not a crash.
#[test]
fn a_store_that_cannot_be_read_says_why() {
    Home::each(|home| {
        home.block_store();
        let ran = home.run(&["history", "show", "conv_aaaaaaaaaaaa"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.starts_with("error: Failed to load conversation: "), "{}", ran.err);
        has(&ran.err, &[&home.store]);
    });
}

/// S0-29: showing a conversation logs its id and the number of its messages, before and after, in every form. The
/// lines show only with RUST_LOG.
#[test]
fn showing_is_logged() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let show = |more: &[&str]| {
            let mut command = home.command(&[&["history", "show", &id], more].concat());
            command.env("RUST_LOG", "rejoin=info");
            command
        };
        for form in
            [&[][..], &["--raw"], &["--json"], &["--view"], &["--limit", "2"], &["--raw", "--limit", "1"]]
        {
            let ran = Ran::of(show(form).output().unwrap());
            assert_eq!(ran.code, 0, "{form:?}: {}", ran.err);
            let logged: Vec<&str> = ran.err.lines().filter(|line| line.contains(": Display")).collect();
            let [before, after] = logged[..] else { panic!("{form:?}: {}", ran.err) };
            assert!(
                before.ends_with(&format!("Displaying conversation: id={id}, message_count=5")),
                "{before}"
            );
            assert!(after.ends_with(&format!("Displayed conversation: id={id}, message_count=5")), "{after}");
        }
        // Output that could not be written was not displayed.
        if let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") {
            for form in [&[][..], &["--raw"], &["--json"], &["--view"]] {
                let ran = Ran::of(show(form).stdout(full.try_clone().unwrap()).output().unwrap());
                assert_eq!(ran.code, 1, "{form:?}: {}", ran.err);
                has(&ran.err, &["Displaying conversation"]);
                assert!(!ran.err.contains("Displayed"), "{form:?}: {}", ran.err);
            }
        }
        assert_eq!(home.run(&["history", "show", &id]).err, "");
        let ran = Ran::of(home.command(&["history", "show", &id]).env("RUST_LOG", "=[").output().unwrap());
        assert_eq!(ran.code, 0);
    });
}

/// Commands are shown as SYSTEM, with their own numbers, and no model sees them.
#[test]
fn commands_are_shown_as_system() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        let parsed = id.parse().unwrap();
        {
            let store = home.open();
            let tail = store.tail(parsed).unwrap();
            let command = content::Command {
                command: "/models list".into(),
                output: "3 models available".into(),
                failed: false,
            };
            let entry =
                Chain::at(tail).append(Kind::Command, &Content::Command(command), stamp(&SystemClock, None));
            store.append(parsed, tail, &[entry]).unwrap();
        }
        let shown = home.out(&["history", "show", &id]);
        has(
            &shown,
            &[
                "Messages: 6 total",
                "\n[5] SYSTEM\n",
                "Content:\nUser executed command: /models list\nCommand result: 3 models available\n",
            ],
        );
        let view = home.out(&["history", "show", &id, "--view"]);
        assert!(!view.contains("/models list"), "{view}");
        let body = home.out(&["convert", &id, "--to", "openai-chat"]);
        assert!(!body.contains("/models list"), "{body}");
    });
}

/// What a model would see, with the repairs at each message; for a dialect, in that dialect's form.
#[test]
fn a_view_shows_what_was_mended_where() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let view = home.out(&["history", "show", &id, "--view"]);
        has(
            &view,
            &[
                "\n[1] ASSISTANT\n",
                "  → error at message 1, block 1: a tool call has no result (call_2, tool stat) [unanswered-call]",
                "\n[2] TOOL\nTool Call ID: call_1\n",
                "\n[+] TOOL  (added)\nTool Call ID: call_2 (failed)\nContent:\n[no result was recorded",
                "\n[4] USER  (changed)\n",
                "a tool result has no call (call_7) [orphan-result]",
                "[tool result for call call_7, whose call is not in this conversation]",
            ],
        );
        let rows = home.lines(&["history", "show", &id, "--view", "--json"]);
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[1]["findings"][0]["rule"], "partial-batch");
        assert_eq!(rows[3]["index"], Value::Null);
        // Left out, it is still named.
        let ran = home
            .command(&["history", "show", &id, "--view"])
            .env("REJOIN_ON_BROKEN", "drop")
            .output()
            .unwrap();
        let view = Ran::of(ran).out;
        has(&view, &["\n[4] TOOL  (not in the view)\n", "\n[2] TOOL  (not in the view)\n"]);
        let encoded = home.out(&["history", "show", &id, "--view", "--for", "anthropic"]);
        has(
            &encoded,
            &[
                "\n[0] USER\n{\n  \"role\": \"user\"",
                "\"tool_use_id\": \"call_1\"",
                "What was done for Anthropic:\n",
            ],
        );
        let body: Value = serde_json::from_str(&home.out(&[
            "history",
            "show",
            &id,
            "--view",
            "--for",
            "anthropic",
            "--json",
        ]))
        .unwrap();
        assert_eq!(body["dialect"], "anthropic");
        assert_eq!(body["body"]["messages"][0]["role"], "user");
    });
}

/// B51: the last N messages of a view never begin between a call and its result.
#[test]
fn a_limit_never_cuts_through_a_pair() {
    Home::each(|home| {
        let id = home.import("a.json", SOUND);
        for (limit, first) in [("1", 4), ("2", 1), ("3", 1), ("4", 1), ("5", 0)] {
            let rows = home.lines(&["history", "show", &id, "--view", "--json", "--limit", limit]);
            assert_eq!(rows[0]["index"], first, "--limit {limit}");
        }
        for dialect in ["openai-chat", "anthropic", "openai-responses", "gemini", "bedrock"] {
            let mut met = 0;
            for limit in ["1", "2", "3", "4"] {
                let view = home.out(&["history", "show", &id, "--view", "--for", dialect, "--limit", limit]);
                let (result, call) = (view.contains("a.txt b.txt"), view.contains("\"ls\""));
                assert_eq!(result, call, "{dialect}, --limit {limit}: {view}");
                met += usize::from(result);
            }
            assert!(met > 0, "{dialect}");
        }
    });
}

/// Stored text cannot control the terminal on which it is shown.
#[test]
fn control_sequences_are_stripped() {
    Home::each(|home| {
        let body = serde_json::json!({"messages": [
            {"role": "user", "content": "\u{1b}]0;owned\u{7}red \u{1b}[31mrose\u{1b}[0m\n\tnext \u{202e}line\u{7}"}]});
        let id = home.import("a.json", &body.to_string());
        home.out(&["history", "rename", &id, "bad \u{1b}[2Jtitle"]);
        for arguments in [
            vec!["list"],
            vec!["history", "show", &id],
            vec!["history", "show", &id, "--view"],
            vec!["history", "show", &id, "--view", "--for", "gemini"],
            vec!["history", "search", "rose"],
        ] {
            let out = home.out(&arguments);
            assert!(out.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{arguments:?}: {out:?}");
            assert!(!out.contains('\u{202e}'), "{arguments:?}");
        }
        has(&home.out(&["history", "show", &id]), &["red rose\n\tnext line"]);
        // The record has every byte.
        has(
            &home.out(&["history", "show", &id, "--raw"]),
            &["\\u001b[31mrose\\u001b[0m\\n\\tnext \u{202e}line"],
        );
    });
}

/// `check` and `convert` take a conversation of the store like a file; an existing file takes precedence.
#[test]
fn check_and_convert_take_ids() {
    Home::each(|home| {
        let id = home.import("broken.json", BROKEN);
        let ran = home.run(&["check", "--json", &id]);
        assert_eq!(ran.code, 1);
        let report: Value = serde_json::from_str(&ran.out).unwrap();
        let keys: Vec<_> = report.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys.join(" "), "id path format kind messages calls results for accepted findings sound");
        assert_eq!((&report["id"], &report["sound"]), (&id.as_str().into(), &false.into()));
        let places: Vec<_> =
            report["findings"].as_array().unwrap().iter().map(|f| &f["at"]["message"]).collect();
        assert_eq!(places, [1, 1, 4]);
        let from_file =
            home.out(&["convert", &home.path("broken.json").display().to_string(), "--to", "anthropic"]);
        for given in [id.as_str(), &id[..9], "@1"] {
            assert_eq!(home.out(&["convert", given, "--to", "anthropic"]), from_file);
        }
        assert_eq!(home.run(&["check", "@1"]).code, 1);
        let ran = home.run(&["check", "conv_aaaaaaaaaaaa"]);
        assert_eq!(ran.code, 2);
        has(&ran.err, &["Conversation not found: id=conv_aaaaaaaaaaaa"]);
        let ran = home.run(&["check", "abc"]);
        assert_eq!(ran.code, 2);
        has(&ran.err, &["cannot read abc: "]);
        // A file of that name is a file.
        home.file(&format!("here/{id}"), SOUND);
        assert_eq!(home.run(&["check", &id]).code, 0);
    });
}

/// A file never needs a store, or settings that can be read.
#[test]
fn a_file_is_checked_without_a_store() {
    let home = Home::new("sqlite");
    let file = home.file("a.json", SOUND);
    home.file("home/config.toml", "nonsense\n");
    let run = |arguments: &[&str]| {
        Ran::of(home.command(arguments).env("REJOIN_STORE", "nowhere").output().unwrap())
    };
    assert_eq!(run(&["check", &file]).code, 0);
    let ran = run(&["list"]);
    assert_eq!(ran.code, 2);
    has(&ran.err, &["config.toml, line 1: ", "hint: "]);
}

/// Changes the stored form of one entry so that it cannot be read any more.
fn ruin(home: &Home, id: &str, seq: usize) {
    if home.is_jsonl() {
        let file = home.place().join(format!("{id}.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[seq] = lines[seq].replace(':', ";");
        fs::write(&file, lines.join("\n") + "\n").unwrap();
    } else {
        let store = rusqlite::Connection::open(home.place()).unwrap();
        let query = "UPDATE entry SET hash = zeroblob(32) WHERE seq = ?1 AND conversation = \
                     (SELECT key FROM conversation WHERE id = ?2)";
        assert_eq!(store.execute(query, (seq as i64, id)).unwrap(), 1);
    }
}

/// A damaged conversation is listed as damaged, whichever part is damaged; never as new, and never as untitled.
#[test]
fn a_damaged_conversation_is_listed_as_damaged() {
    Home::each(|home| {
        let listed = |id: &str| {
            let all = home.lines(&["list", "--json"]);
            let one = all.into_iter().find(|one| one["id"] == id).unwrap();
            one["state"].as_str().unwrap().to_owned()
        };
        let sound = home.import("sound.json", SOUND);
        let entries = home.out(&["history", "export", &sound, "--to", "jsonl"]).lines().count();
        // Known before it was damaged, and damaged before it was ever listed.
        for known in [true, false] {
            for seq in 0..entries {
                let name = format!("{known}-{seq}.json");
                let id = home.import(&name, &SOUND.replace("files", &format!("files {known} {seq}")));
                if known {
                    assert_eq!(listed(&id), "ready");
                }
                ruin(home, &id, seq);
                if !known {
                    let index = if home.is_jsonl() { "chats/.index" } else { "chats.db-index" };
                    let _ = fs::remove_file(home.path(index));
                }
                // In a database that was read before, only the beginning is checked again; reading the conversation finds the rest.
                let first = home.lines(&["history", "show", &id, "--json"]).len();
                let what = format!("{known}, entry {seq}, {first} messages, {}", home.store);
                assert_eq!(listed(&id), "damaged", "{what}");
                let people = home.out(&["history", "list"]);
                let line = people.lines().find(|line| line.contains(&id)).unwrap();
                assert!(line.ends_with("[damaged]") && !line.contains("untitled"), "{what}: {line}");
                home.out(&["history", "delete", &id, "--yes"]);
            }
        }
        // The beginning is checked each time.
        for seq in [0, 1] {
            let id = home.import(&format!("{seq}.json"), &SOUND.replace("files", &format!("things {seq}")));
            assert_eq!(listed(&id), "ready");
            ruin(home, &id, seq);
            assert_eq!(listed(&id), "damaged", "{seq}, {}", home.store);
        }
        assert_eq!(listed(&sound), "ready");
        assert_eq!(home.lines(&["list", "--json", "--state", "ready"]).len(), 1);
        assert_eq!(home.lines(&["list", "--json", "--state", "damaged"]).len(), 2);
    });
}

/// A file of which nothing can be read is damaged as well; one that was never acknowledged, too.
#[test]
fn a_file_without_entries_is_listed_as_damaged() {
    let home = Home::new("jsonl");
    let id = home.import("sound.json", SOUND);
    for content in ["", "nonsense\n", "{\"v\":\"1.0\",\"id"] {
        fs::write(home.place().join(format!("{id}.jsonl")), content).unwrap();
        let listed = home.lines(&["list", "--json"]);
        assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&id.as_str().into(), &"damaged".into()));
        let people = home.out(&["list"]);
        assert!(people.contains("(title unreadable) [damaged]"), "{people}");
    }
}

/// Titles name conversations wherever ids do: the whole title, its beginning, a part of it, in any case. What fits several is
/// refused with their ids.
#[test]
fn titles_name_conversations() {
    Home::each(|home| {
        let new = |title: &str| home.out(&["new", "--title", title]).trim_end().to_owned();
        let (parser, lexer, exact) = (new("Fix the parser"), new("Fix the lexer"), new("Fix the"));
        for (given, wanted) in [
            ("Fix the parser", &parser),
            ("fix  the PARSER", &parser),
            ("Fix the l", &lexer),
            ("lexer", &lexer),
            ("fix the", &exact),
            (&lexer[..9], &lexer),
            (&lexer[5..10], &lexer),
        ] {
            has(&home.out(&["history", "show", given]), &[&format!("ID: {wanted}\n")]);
            let resumed = home.out(&["resume", given]);
            has(&resumed, &[&format!("Resumed conversation: {wanted}\n")]);
        }
        home.out(&["history", "rename", "parser", "Fix the parser for good"]);
        has(&home.out(&["convert", "for good", "--to", "jsonl"]), &[&parser]);
        assert_eq!(home.run(&["check", "for good"]).code, 0);
        assert_eq!(home.run(&["verify", "lexer"]).code, 0);
        home.out(&["chat", "--provider", "offline", "--session", "lexer", "hello there"]);
        for command in
            [vec!["resume", "the"], vec!["history", "show", "the"], vec!["convert", "the", "--to", "md"]]
        {
            let ran = home.run(&command);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{command:?}: {}", ran.err);
            has(
                &ran.err,
                &["`the` could mean several conversations", &parser, &lexer, &exact, "Fix the lexer"],
            );
        }
        // Too short to be a part of a title.
        assert_eq!(home.run(&["history", "show", "er"]).code, 1);
        let ran = home.run(&["resume", "go on, please"]);
        assert_eq!(ran.code, 1);
        has(&ran.err, &["not found", "rejoin chat 'go on, please'"]);
        // A title may mean another conversation than the person had in mind, so `--yes` needs an id.
        for title in ["lexer", "fix the lexer"] {
            let ran = home.run(&["history", "delete", title, "--yes"]);
            assert_eq!(ran.code, 2, "{}", ran.err);
            has(&ran.err, &["is not a whole id", &format!("hint: to delete that one, use its id: {lexer}")]);
        }
        home.out(&["history", "delete", &lexer, "--yes"]);
        assert_eq!(home.run(&["history", "show", &lexer]).code, 1);
    });
}

/// A list shows the conversations of a folder, of an agent or in a state, also to programs.
#[test]
fn lists_are_filtered() {
    Home::each(|home| {
        let ids = |arguments: &[&str]| -> Vec<String> {
            let mut all = vec!["list", "--json"];
            all.extend(arguments);
            home.lines(&all).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
        };
        let sound = home.import("sound.json", SOUND);
        let broken = home.import("broken.json", BROKEN);
        home.out(&["chat", "--provider", "offline", "hello there"]);
        let mine = ids(&["--agent", "rejoin"]);
        assert_eq!(mine.len(), 1);
        assert_eq!(ids(&["--agent", "openai-chat"]).len(), 2);
        assert_eq!(ids(&["--agent", "codex"]), [""; 0]);
        assert_eq!(ids(&["--state", "interrupted"]), [broken.as_str()]);
        let mut ready = ids(&["--state", "ready"]);
        ready.sort();
        let mut wanted = vec![mine[0].clone(), sound.clone()];
        wanted.sort();
        assert_eq!(ready, wanted);
        assert_eq!(ids(&["--folder", "."]), mine);
        assert_eq!(ids(&["--folder", ".."]), mine, "folders in it count");
        assert_eq!(ids(&["--folder", &home.path("here").display().to_string()]), mine);
        assert_eq!(ids(&["--folder", &home.path("her").display().to_string()]), [""; 0]);
        assert_eq!(ids(&["--folder", ".", "--state", "interrupted"]), [""; 0]);
        assert_eq!(ids(&["--agent", "openai-chat", "--limit", "1"]).len(), 1);
        let text = home.out(&["list", "--agent", "openai-chat"]);
        has(&text, &[&sound, &broken, "Total: 2 conversation(s)"]);
        has(&home.out(&["history", "list", "--agent", "codex"]), &["No conversation matches"]);
        assert_eq!(home.run(&["list", "--state", "sleepy"]).code, 2);
        let ran = home.run(&["list", "--agent", "openai-chat", "--limit", "1"]);
        has(&ran.out, &["The newest 1 of 2 are shown"]);
        // A damaged conversation is in no other state.
        ruin(home, &sound, 0);
        assert_eq!(ids(&["--state", "damaged"]), [sound.as_str()]);
        assert_eq!(ids(&["--state", "ready"]), mine);
    });
}

/// `history show --follow` prints what other processes append, as text and as JSON, and ends with Ctrl-C.
#[cfg(unix)]
#[test]
fn a_conversation_is_followed_while_others_write() {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
        sync::mpsc,
        time::Duration,
    };
    Home::each(|home| {
        let chat =
            |words: &str| home.command(&["chat", words]).env("REJOIN_PROVIDER", "offline").output().unwrap();
        assert!(chat("my name is Alice").status.success());
        let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
        let before = home.lines(&["history", "show", &id, "--json"]);
        let follow = |more: &[&str]| {
            let mut arguments = vec!["history", "show", &id, "--follow"];
            arguments.extend(more);
            let mut child =
                home.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let (send, lines) = mpsc::channel::<String>();
            let out = BufReader::new(child.stdout.take().unwrap());
            std::thread::spawn(move || {
                out.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
            });
            (child, lines)
        };
        let (mut json, json_lines) = follow(&["--json"]);
        let (mut people, people_lines) = follow(&["--limit", "1"]);
        let next = |lines: &mpsc::Receiver<String>| lines.recv_timeout(Duration::from_secs(30)).unwrap();
        let next_json = || serde_json::from_str::<Value>(&next(&json_lines)).unwrap();
        for expected in &before {
            assert_eq!(next_json(), *expected);
        }
        let until = |words: &str| while !next(&people_lines).contains(words) {};
        until(&format!("[{}] ASSISTANT", before.len() - 1));
        for words in ["what is my name?", "and 6*7?"] {
            assert!(chat(words).status.success());
            let asked = next_json();
            assert_eq!((&asked["role"], &asked["content"]), (&"user".into(), &words.into()));
            until(&format!("[{}] USER", asked["index"]));
            until(words);
            let mut answer = next_json();
            // A sum is left to a tool.
            while answer["role"] != "assistant" || answer["content"].is_null() {
                answer = next_json();
            }
            until(&format!("[{}] ASSISTANT", answer["index"]));
        }
        for child in [&mut json, &mut people] {
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
            assert_eq!(child.wait().unwrap().code(), Some(0));
        }
        // Everything was printed once, under its number.
        assert!(json_lines.try_recv().is_err());
    });
}
