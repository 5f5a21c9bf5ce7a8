//! The spending of conversations: `stats`, `history show --tokens`, and the limits of a turn.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use insta::assert_snapshot;
use serde_json::{Value, json};
use support::{Home, Ran, services::with_keys};
use testkit::loopback::{Config, Loopback, Service};

fn object(home: &Home, arguments: &[&str]) -> Value {
    let ran = home.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {}", ran.out))
}

fn said(home: &Home, arguments: &[&str]) -> String {
    let ran = home.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
    ran.out
}

/// A conversation with two turns and no tool.
fn talked() -> Home {
    let home = Home::new("sqlite");
    said(&home, &["chat", "-p", "offline", "my name is Alice"]);
    said(&home, &["chat", "what is my name?"]);
    home
}

#[test]
fn stats_for_people() {
    let home = talked();
    // How many depends on the words that describe the tools.
    let input = object(&home, &["stats", "--json"])["usage"]["input_tokens"].as_u64().unwrap();
    let input = format!("{},{:03} tokens", input / 1000, input % 1000);
    let said = |arguments: &[&str]| said(&home, arguments).replace(&input, "[tokens]");
    assert_snapshot!(said(&["stats"]), @r"
    Conversations  1
    Turns          2, with 2 requests
    Tokens         [tokens] in, 12 out
    From cache     0% of the tokens in
    Cost           $0.00
    Tools          0 calls
    Repairs        0 problems
    Pruned         0 results
    Compactions    0

    By model
      offline offline  2 requests, [tokens] in, 12 out, $0.00
    ");
    assert!(said(&["stats", "--by", "rule"]).ends_with("There is nothing to show by rule.\n"));
    assert!(said(&["stats", "@", "--by", "day"]).contains("2 requests, [tokens] in, 12 out, $0.00"));
    let nothing = said(&["stats", "--since", "2099-01-01"]);
    assert_eq!(nothing, "Nothing to count: no conversation has an entry in this time.\n");
}

#[test]
fn stats_of_an_empty_store_make_no_store() {
    let home = Home::new("sqlite");
    assert_eq!(object(&home, &["stats", "--json"])["conversations"], 0);
    assert!(!home.path("chats.db").exists());
}

#[test]
fn stats_for_programs() {
    let home = talked();
    said(&home, &["chat", "--new", "-p", "offline", "--model", "tiny", "What is 6*7?"]);
    let stats = object(&home, &["stats", "--json"]);
    assert_eq!(
        (&stats["conversations"], &stats["turns"], &stats["requests"]),
        (&json!(2), &json!(3), &json!(4))
    );
    assert_eq!(stats["calls"]["count"], 1);
    assert_eq!(stats["tools"][0]["tool"], "calculate");
    assert_eq!((&stats["cost_usd"], &stats["unpriced_tokens"]), (&json!(0), &json!(0)));
    let models: Vec<&Value> =
        stats["models"].as_array().unwrap().iter().map(|model| &model["model"]).collect();
    assert_eq!(models, ["offline", "tiny"]);
    let parts = stats["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["usage"]["input_tokens"].as_u64().unwrap());
    assert_eq!(parts.sum::<u64>(), stats["usage"]["input_tokens"].as_u64().unwrap());
    assert_eq!(stats["days"].as_array().unwrap().len(), 1);
    // Only the requested parts.
    let stats = object(&home, &["stats", "@", "--by", "tool", "--json"]);
    assert_eq!((&stats["conversations"], &stats["turns"]), (&json!(1), &json!(1)));
    assert!(stats.get("tools").is_some() && stats.get("models").is_none());
    assert_eq!(home.run(&["stats", "--since", "yesterday"]).code, 2);
}

/// A fork holds a copy of every entry. Nothing is counted twice for that.
#[test]
fn a_fork_is_not_counted_twice() {
    let home = talked();
    let before = object(&home, &["stats", "--json"]);
    said(&home, &["history", "fork", "@"]);
    let after = object(&home, &["stats", "--json"]);
    assert_eq!(after["conversations"], 2);
    for name in ["turns", "requests", "usage", "calls"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(object(&home, &["stats", "@", "--json"])["usage"], before["usage"], "alone it counts");
}

/// Imported conversations have messages and calls, but tokens only if they were counted.
#[test]
fn imported_conversations_count_as_far_as_they_go() {
    let home = Home::new("sqlite");
    let body = r#"{"messages":[
        {"role":"user","content":"List the files."},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"call_1","type":"function","function":{"name":"list","arguments":"{}"}}]},
        {"role":"user","content":"Are you still there?"}]}"#;
    std::fs::write(home.path("body.json"), body).unwrap();
    said(&home, &["import", home.path("body.json").to_str().unwrap()]);
    let stats = object(&home, &["stats", "--json"]);
    assert_eq!((&stats["turns"], &stats["requests"]), (&json!(2), &json!(1)));
    assert_eq!(stats["calls"]["count"], 1);
    assert_eq!(stats["cost_usd"], Value::Null, "nothing was counted");
    assert_eq!(stats["rules"], json!([{"rule": "unanswered-call", "count": 1}]));
    assert!(said(&home, &["stats"]).contains("Tokens         none counted"));
}

#[test]
fn what_fills_the_window() {
    let home = talked();
    let tokens = |arguments: &[&str]| {
        object(&home, &[&["history", "show", "@", "--tokens", "--json"], arguments].concat())
    };
    let used = tokens(&[]);
    assert_eq!(
        (&used["model"], &used["window"], &used["exact"]),
        (&json!("offline"), &json!(128_000), &json!(false))
    );
    let parts: u64 = used["parts"].as_object().unwrap().values().map(|part| part.as_u64().unwrap()).sum();
    assert_eq!(used["total"], parts);
    for part in ["tools", "people", "answers"] {
        assert!(used["parts"][part].as_u64().unwrap() > 0, "{part}: {used}");
    }
    assert_eq!(used["parts"]["results"], 0);
    // The provider counted instructions and tools, too, and its count corrects ours.
    let (total, last) = (used["total"].as_u64().unwrap(), used["last_request"].as_u64().unwrap());
    assert!(used["corrected"] == true && last > 1_000 && (last..last + 100).contains(&total), "{used}");
    let exact = tokens(&["--model", "gpt-4o"]);
    assert_eq!((&exact["exact"], &exact["parts"]["people"]), (&json!(true), &json!(17)));
    assert_eq!(exact["corrected"], false, "that model has not been asked");
    assert_eq!(tokens(&["--model", "somebody-elses"])["window"], Value::Null);
    said(&home, &["config", "set", "context_window", "2000"]);
    assert_eq!(tokens(&["--model", "gpt-4o"])["window"], 2_000);
    let drawn = said(&home, &["history", "show", "@", "--tokens"]);
    assert!(drawn.contains("of 2,000 tokens in the window of offline"), "{drawn}");
}

#[test]
fn a_turn_stops_before_it_takes_too_much() {
    let home = Home::new("sqlite");
    for command in ["run", "chat"] {
        let ran = home.run(&[command, "-p", "offline", "--max-turn-tokens", "100", "hi"]);
        assert_eq!(ran.code, 1, "{command}: {}", ran.err);
        assert!(
            ran.err.contains("the turn took 0 tokens, and the next request would take about"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("the limit is 100"), "{}", ran.err);
    }
    assert_eq!(home.run(&["run", "-p", "offline", "--max-turn-tokens", "0", "hi"]).code, 2);
    assert_eq!(home.run(&["run", "-p", "offline", "--max-turn-tokens", "100000", "hi"]).code, 0);
    said(&home, &["config", "set", "limits.tokens", "100"]);
    assert_eq!(home.run(&["chat", "--new", "-p", "offline", "hi"]).code, 1, "the setting counts, too");
    assert_eq!(
        home.run(&["chat", "-p", "offline", "--max-turn-tokens", "100000", "hi"]).code,
        0,
        "the flag wins"
    );
}

#[test]
fn the_end_of_a_turn_says_what_it_took() {
    let home = Home::new("sqlite");
    let out = said(&home, &["chat", "-p", "offline", "--json", "What is 6*7?"]);
    let ended: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&ended["type"], &ended["cost_usd"]), (&json!("ended"), &json!(0)));
    let answers = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answers = answers.filter(|event| event["type"] == "answered");
    let input: u64 = answers.map(|event| event["usage"]["input_tokens"].as_u64().unwrap()).sum();
    assert_eq!(ended["usage"]["input_tokens"], input);
}

/// The facts from a provider's list of models are kept, and used without asking again.
#[test]
fn a_window_that_a_provider_told_is_remembered() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    let base = server.base(Service::OpenRouter);
    let asked = ["--provider", "openrouter", "--base-url", &base];
    let run = |arguments: &[&str]| {
        let mut command = home.command(&[arguments, &asked].concat());
        with_keys(&mut command, &server);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        ran.out
    };
    let models = run(&["models", "list", "--json"]);
    let listed: Value = serde_json::from_str(models.lines().next().unwrap()).unwrap();
    let model = listed["id"].as_str().unwrap();
    assert_eq!(listed["window"], 200_000);
    run(&["chat", "hello", "--model", model]);
    let window = || object(&home, &["history", "show", "@", "--tokens", "--json"])["window"].clone();
    assert_eq!(window(), 200_000);
    // The window comes from that file.
    let file = home.path("home/windows");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("200000", "77777")).unwrap();
    assert_eq!(window(), 77_777);
    run(&["models", "list"]);
    assert_eq!(window(), 200_000, "what the provider says last counts");
}
