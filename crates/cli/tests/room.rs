//! Fitting conversations into their model's window: `compact`, `uncompact`, `prune`, `history pin`, and the settings.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use serde_json::{Value, json};
use support::Home;

fn said(home: &Home, arguments: &[&str]) -> String {
    let ran = home.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

fn object(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&said(home, arguments)).unwrap()
}

/// A conversation with sums and facts in it.
fn talked(store: &str) -> Home {
    let home = Home::new(store);
    said(&home, &["chat", "-p", "offline", "--new", "my dog is called Rex"]);
    for number in 1..8 {
        said(
            &home,
            &[
                "chat",
                &format!(
                    "what is {number} * 37? And please mind that this is a long sentence with many words in it."
                ),
            ],
        );
    }
    home
}

fn view(home: &Home) -> String {
    said(home, &["history", "show", "@", "--view"])
}

/// S3-37: a compaction is shown before it is made, hides older messages from the model only, and can be taken back.
#[test]
fn compact_and_uncompact() {
    for store in support::STORES {
        let home = talked(store);
        let before = view(&home);
        let plan = object(&home, &["compact", "@", "--dry-run", "--json"]);
        assert_eq!(plan["changed"], false);
        assert!(plan["tokens_after"].as_u64() < plan["tokens_before"].as_u64(), "{plan}");
        assert_eq!(view(&home), before, "a dry run changes nothing");
        let picture = said(&home, &["compact", "@", "--dry-run"]);
        assert!(picture.starts_with("before ") && picture.contains("\nafter "), "{picture}");
        let ran = home.run(&["compact", "@", "--json", "--keep", "the dog"]);
        support::has(&ran.err, &["Compacting conversation history...", "the record keeps every word"]);
        let done: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(done["changed"], true, "{done}");
        assert!(done["messages_after"].as_u64() < done["messages_before"].as_u64(), "{done}");
        let after = view(&home);
        assert!(after.contains("Summary of earlier conversation:"), "{after}");
        assert!(after.len() < before.len());
        // A file holds what the model sees. It keeps its title, and the messages that are not in it are counted.
        let markdown = home.run(&["convert", "@", "--to", "markdown"]);
        support::has(&markdown.out, &["# my dog is called Rex\n"]);
        support::has(
            &markdown.err,
            &["note: left out ", " messages that the model no longer sees", "`--to jsonl`"],
        );
        let exported = home.run(&["history", "export", "@", "--to", "openai-chat"]);
        support::has(&exported.err, &[" messages that the model no longer sees"]);
        assert_eq!(home.run(&["history", "export", "@"]).err.matches("no longer sees").count(), 0);
        // The record keeps every word, and finds it.
        let all = said(&home, &["history", "show", "@"]);
        assert!(all.contains("my dog is called Rex") && all.contains("what is 1 * 37?"));
        assert!(said(&home, &["history", "search", "Rex"]).contains("Rex"));
        assert_eq!(said(&home, &["verify"]).matches("changed").count(), 0);
        // The next turn continues from the summary.
        assert!(said(&home, &["chat", "what is 2 + 2?"]).contains('4'));
        assert_eq!(object(&home, &["uncompact", "@", "--dry-run", "--json"])["changed"], false);
        assert_eq!(object(&home, &["uncompact", "@", "--json"])["changed"], true);
        assert!(view(&home).contains("my dog is called Rex") && !view(&home).contains("Summary of earlier"));
        let none = home.run(&["uncompact", "@"]);
        assert_eq!(none.code, 0);
        assert!(none.err.contains("Nothing is compacted"), "{}", none.err);
    }
}

/// A message that is pinned after a compaction comes back. That is no other compaction: `uncompact` undoes both, and `stats` counts
/// one.
#[test]
fn a_pin_after_a_compaction_is_no_other_one() {
    let home = talked("sqlite");
    said(&home, &["compact", "@"]);
    let compacted = object(&home, &["stats", "@", "--json"]);
    assert_eq!(object(&home, &["history", "pin", "@", "0", "--json"])["changed"], true);
    assert!(view(&home).contains("my dog is called Rex") && view(&home).contains("Summary of earlier"));
    let pinned = object(&home, &["stats", "@", "--json"]);
    for field in ["compactions", "requests"] {
        assert_eq!(pinned[field], compacted[field], "{field}");
    }
    let shown = object(&home, &["uncompact", "@", "--dry-run", "--json"])["messages_after"].clone();
    assert_eq!(object(&home, &["uncompact", "@", "--json"])["messages_after"], shown);
    assert!(!view(&home).contains("Summary of earlier"));
    assert!(home.run(&["uncompact", "@"]).err.contains("Nothing is compacted"));
}

/// A pinned message stays in the view through a compaction.
#[test]
fn pinned_messages_stay() {
    let home = talked("sqlite");
    assert_eq!(object(&home, &["history", "pin", "@", "3", "--json"])["changed"], true);
    assert_eq!(object(&home, &["history", "pin", "@", "3", "--json"])["changed"], false);
    let pinned = said(&home, &["history", "show", "@", "--json"]);
    let third: Value = serde_json::from_str(pinned.lines().nth(3).unwrap()).unwrap();
    said(&home, &["compact", "@"]);
    let shown = view(&home);
    let text = third["content"].as_str().unwrap_or("37");
    assert!(shown.contains(text), "{text}: {shown}");
    assert_eq!(object(&home, &["history", "pin", "@", "3", "--remove", "--json"])["pinned"], false);
    let missing = home.run(&["history", "pin", "@", "999"]);
    assert_eq!(missing.code, 1, "{}", missing.err);
}

/// S1-31: pruning says what would go, and leaves a note that says how to read it again.
#[test]
fn prune_leaves_notes() {
    let home = Home::new("sqlite");
    std::fs::create_dir_all(home.path("here")).unwrap();
    std::fs::write(home.path("here").join("long.txt"), "a line of a long file\n".repeat(200)).unwrap();
    said(&home, &["chat", "-p", "offline", "--new", "read `long.txt`"]);
    said(&home, &["chat", "what is 1 + 1?"]);
    let nothing = home.run(&["prune", "@"]);
    assert!(nothing.err.contains("No result needs to be removed"), "{}", nothing.err);
    let plan = object(&home, &["prune", "@", "--keep-last", "0", "--dry-run", "--json"]);
    assert_eq!((plan["changed"].as_bool(), plan["pruned"].as_u64()), (Some(false), Some(1)), "{plan}");
    assert!(view(&home).contains("a line of a long file"));
    assert_eq!(object(&home, &["prune", "@", "--keep-last", "0", "--json"])["changed"], true);
    let shown = view(&home);
    assert!(shown.contains("was left out to save room") && shown.contains("call recall with"), "{shown}");
    assert!(said(&home, &["history", "show", "@"]).contains("a line of a long file"));
}

/// The setting `compact` shares a table with the settings below it, in whatever order they are set.
#[test]
fn settings_below_a_setting() {
    let home = Home::new("sqlite");
    said(&home, &["config", "set", "compact", "off"]);
    said(&home, &["config", "set", "compact.tail_tokens", "0"]);
    said(&home, &["config", "set", "compact", "auto"]);
    said(&home, &["config", "set", "compact.model", "small"]);
    let get = |name: &str| said(&home, &["config", "get", name]).trim().to_owned();
    assert_eq!((get("compact").as_str(), get("compact.tail_tokens").as_str()), ("auto", "0"));
    assert_eq!(get("compact.model"), "small");
    for (name, value) in [
        ("context_window", "0"),
        ("compact_threshold", "1.5"),
        ("prune_threshold", "0"),
        ("compact", "maybe"),
    ] {
        let wrong = home.run(&["config", "set", name, value]);
        assert_eq!(wrong.code, 2, "{name} {value}: {}", wrong.err);
    }
}

/// A compaction that is killed at any moment is either complete or missing; nothing else changes, and the store verifies.
#[test]
fn killed_compactions_never_show_in_halves() {
    for store in support::STORES {
        let home = Home::new(store);
        let messages: Vec<Value> = (0..40)
            .flat_map(|number| {
                let words = format!("sentence {number} with quite a few words in it ").repeat(8);
                [
                    serde_json::json!({"role": "user", "content": words}),
                    serde_json::json!({"role": "assistant", "content": format!("answer {number}")}),
                ]
            })
            .collect();
        let body = serde_json::json!({"model": "m", "messages": messages}).to_string();
        std::fs::write(home.path("talk.json"), body).unwrap();
        said(&home, &["import", home.path("talk.json").to_str().unwrap()]);
        let mut whole = 0;
        for round in 0..24_u64 {
            let mut command = home.command(&["compact", "@1", "-p", "offline"]);
            let null = std::process::Stdio::null;
            let mut child = command.stdin(null()).stdout(null()).stderr(null()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(round * 7 % 90));
            let _ = child.kill();
            child.wait().unwrap();
            let export = said(&home, &["history", "export", "@1", "--to", "jsonl"]);
            let entries = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let compacted = entries.filter(|entry| entry["type"] == "compacted").collect::<Vec<_>>();
            assert!(compacted.iter().all(|entry| entry["body"]["summary"].as_str().unwrap().len() > 100));
            let shown = said(&home, &["history", "show", "@1", "--view"]);
            let summarized = shown.contains("Summary of earlier conversation:");
            assert_eq!(summarized, !compacted.is_empty(), "{store}, round {round}");
            assert!(shown.contains("answer 39"), "the newest message stays");
            assert_eq!(home.run(&["verify"]).code, 0, "{store}, round {round}");
            whole = compacted.len();
        }
        println!("{store}: {whole} of 24 compactions came to an end");
        let all = said(&home, &["history", "show", "@1"]);
        assert!((0..40).all(|number| all.contains(&format!("answer {number}"))), "{store}");
    }
}

/// A compaction of Codex in an imported session: its summary counts as a summary, and after `uncompact` the view has neither the
/// summary nor the messages that it repeats. What is exported says what it leaves out.
#[test]
fn a_compaction_of_another_agent_is_undone_like_any_other() {
    let home = Home::new("sqlite");
    let line = |kind: &str, payload: Value| {
        let time = "2026-11-15T12:00:00.000Z";
        json!({"timestamp": time, "type": kind, "payload": payload}).to_string() + "\n"
    };
    let item = |role: &str, text: &str| {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    };
    let summary = "Another model wrote:\nThey talked about plums and nothing else.";
    let replaced = json!([item("user", "What is a plum?"), item("user", summary)]);
    let meta = json!({"id": "0199", "timestamp": "2026-11-15T12:00:00.000Z", "cwd": "/w", "originator": "codex", "cli_version": "1"});
    let text = line("session_meta", meta)
        + &line("response_item", item("user", "What is a plum?"))
        + &line("response_item", item("assistant", "A fruit."))
        + &line(
            "compacted",
            json!({"message": "They talked about plums and nothing else.", "replacement_history": replaced}),
        )
        + &line("response_item", item("user", "And a pear?"));
    let file = home.file("rollout-2026.jsonl", text);
    said(&home, &["import", &file]);
    let parts = || object(&home, &["history", "show", "@1", "--tokens", "--json"])["parts"].clone();
    let compacted = parts();
    assert!(compacted["summaries"].as_u64() > Some(10), "{compacted}");
    let exported = home.run(&["history", "export", "@1", "--to", "markdown"]);
    assert!(exported.err.contains("left out 2 messages"), "{}", exported.err);
    assert!(exported.out.contains("_Left out: 2 messages that the model no longer sees"), "{}", exported.out);
    said(&home, &["uncompact", "@1"]);
    let undone = parts();
    assert_eq!(undone["summaries"], 0);
    assert!(undone["people"].as_u64() > Some(0) && undone["answers"].as_u64() > Some(0), "{undone}");
    let view = said(&home, &["history", "show", "@1", "--view"]);
    assert!(!view.contains("Another model wrote"), "{view}");
    assert_eq!(
        view.matches("What is a plum?").count(),
        1 + usize::from(view.starts_with("Conversation: What"))
    );
    assert!(home.run(&["uncompact", "@1"]).err.contains("Nothing is compacted"));
}
