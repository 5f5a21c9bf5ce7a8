//! The binary against every provider with a transport, over real HTTP on loopback.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::Arc;

use rejoin::{
    Conversation,
    engine::{New, SystemClock},
    record::{Content, Raw, content::RecordedContext},
    store::Store,
};
use support::{
    Home, Ran,
    services::{PROVIDERS, Provider, with_keys},
};
use testkit::loopback::{Config, Loopback};

/// Runs a command with this provider.
fn ask(home: &Home, server: &Loopback, provider: &Provider, arguments: &[&str]) -> Ran {
    Ran::of(provider.command(home, server, arguments).output().unwrap())
}

/// Nothing that the provider heard was wrong.
fn nothing_was_refused(server: &Loopback, what: &str) {
    let violations = server.violations();
    assert!(violations.is_empty(), "{what}: {violations:#?}");
}

/// S3-01, S0-03: a turn with tools and reasoning works on every provider, and so does the next one, and one after `resume`.
#[test]
fn a_turn_works_on_every_provider() {
    let server = Loopback::start(Config::default());
    for provider in PROVIDERS {
        let home = Home::new("sqlite");
        let label = provider.label();
        let first = ask(&home, &server, provider, &["chat", "tools:3 steps:2 think"]);
        assert_eq!(first.code, 0, "{label}: {}\n{:#?}", first.err, server.violations());
        nothing_was_refused(&server, &label);
        let second = ask(&home, &server, provider, &["chat", "tools:1 think and again"]);
        assert_eq!(second.code, 0, "{label}: {}", second.err);
        // The same provider without a flag, because it is recorded.
        let mut command = home.command(&["resume", "@", "think once more"]);
        with_keys(&mut command, &server);
        let third = Ran::of(command.output().unwrap());
        assert_eq!(third.code, 0, "{label}: {}", third.err);
        nothing_was_refused(&server, &label);
        assert!(third.out.contains("once more"), "{label}: {}", third.out);
        home.verifies();
    }
}

/// One conversation goes through all providers in turn, twice, with tools and reasoning: every request is accepted.
#[test]
fn one_conversation_goes_through_all_providers() {
    let server = Loopback::start(Config::default());
    Home::each(|home| {
        for (number, provider) in PROVIDERS.iter().chain(PROVIDERS.iter().rev()).enumerate() {
            let label = provider.label();
            let ran =
                ask(home, &server, provider, &["chat", &format!("tools:2 steps:2 think round {number}")]);
            assert_eq!(ran.code, 0, "{number} {label}: {}\n{:#?}", ran.err, server.violations());
            nothing_was_refused(&server, &label);
        }
        home.verifies();
    });
}

/// Reasoning goes back to the provider that issued it, byte for byte, also after a new process and after turns on other providers.
#[test]
fn reasoning_goes_back_to_who_issued_it() {
    let server = Loopback::start(Config::default());
    let fields = [
        ("openai-responses", "\"encrypted_content\":\""),
        ("anthropic", "\"signature\":\""),
        ("gemini", "\"thoughtSignature\":\""),
        ("ollama", "\"thinking\":\""),
        ("openrouter", "\"reasoning_details\":["),
        ("deepseek", "\"reasoning_content\":\""),
    ];
    for (label, field) in fields {
        let provider = PROVIDERS.iter().find(|provider| provider.label() == label).unwrap();
        let other = PROVIDERS.iter().find(|provider| provider.name == "groq").unwrap();
        let home = Home::new("sqlite");
        let replayed = || {
            let requests = server.requests();
            let body = String::from_utf8(requests.last().unwrap().body.to_vec()).unwrap();
            // Some of what Anthropic issues cannot be read at all.
            body.matches(field).count() + body.matches("\"type\":\"redacted_thinking\"").count()
        };
        assert_eq!(ask(&home, &server, provider, &["chat", "tools:2 steps:2 think"]).code, 0);
        let first = replayed();
        assert!(first >= 2, "{label}: the turn's own reasoning: {first}");
        assert_eq!(ask(&home, &server, provider, &["chat", "tools:1 think"]).code, 0);
        let second = replayed();
        assert!(second > first, "{label}: that of the turn before, too: {second}");
        assert_eq!(ask(&home, &server, other, &["chat", "tools:1 think"]).code, 0);
        assert_eq!(replayed(), 0, "{label}: no other provider gets it");
        let back = ask(&home, &server, provider, &["chat", "tools:1 think"]);
        assert_eq!(back.code, 0, "{label}: {}", back.err);
        if label != "deepseek" {
            assert!(replayed() > second, "{label}: it is taken back: {} after {second}", replayed());
        }
        nothing_was_refused(&server, label);
    }
}

/// An address with or without the version of the API reaches the provider; a missing path is reported once, in the provider's
/// words.
#[test]
fn an_address_may_lack_the_version() {
    let server = Loopback::start(Config::default());
    for provider in PROVIDERS.iter().filter(|provider| ["anthropic", "gemini"].contains(&provider.name)) {
        let home = Home::new("sqlite");
        let base = server.base(provider.service);
        let run = |model: &str| {
            let mut command = home.command(&[
                "chat",
                "hello",
                "--provider",
                provider.name,
                "--model",
                model,
                "--base-url",
                &base,
            ]);
            with_keys(&mut command, &server);
            Ran::of(command.output().unwrap())
        };
        let ran = run(provider.model);
        assert_eq!(ran.code, 0, "{}: {}", provider.name, ran.err);
        let ran = run("no-such-model");
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("no-such-model") && ran.err.contains("rejoin models list"), "{}", ran.err);
        let mut command = home.command(&["models", "list", "--provider", provider.name, "--base-url", &base]);
        with_keys(&mut command, &server);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.out.is_empty());
    }
}

/// A conversation that says that it went there; its id.
fn went_to(home: &Home, target: &str) -> String {
    let store: Arc<dyn Store> = home.open().into();
    let mut conversation =
        Conversation::create_with_clock(store, Arc::new(SystemClock), &New::default(), "test");
    let context = RecordedContext { target: Some(Raw::new(target)), ..RecordedContext::default() };
    conversation.append(&Content::Context(context));
    conversation.id().to_string()
}

/// A conversation from another machine names an address: no key is sent there before the user agrees.
#[test]
fn no_key_goes_where_a_conversation_says() {
    for url in
        ["http://127.evil.invalid/v1", "https://evil.invalid/v1", "http://evil.invalid\\\\@localhost/v1"]
    {
        let home = Home::new("jsonl");
        let target = format!(r#"{{"provider":"openai","model":"m","base_url":"{url}"}}"#);
        let id = went_to(&home, &target);
        for arguments in [&["resume", &id, "hello"][..], &["chat", "--session", &id, "hello"]] {
            let ran = Ran::of(home.command(arguments).env("OPENAI_API_KEY", "sk-key").output().unwrap());
            assert_eq!(ran.code, 2, "{url}: {}", ran.err);
            support::has(&ran.err, &["this conversation went to", "--base-url"]);
        }
    }
}

/// A set address is used in full; in records and output it has neither password nor query.
#[test]
fn a_set_address_keeps_its_password() {
    let server = Loopback::start(Config::default());
    let provider = PROVIDERS.iter().find(|provider| provider.label() == "openai-chat").unwrap();
    let home = Home::new("jsonl");
    let base = format!("{}?api-version=4711-do-not-tell", server.base(provider.service));
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        with_keys(&mut command, &server);
        command
            .env("REJOIN_BASE_URL", &base)
            .env("REJOIN_PROVIDER", "openai")
            .env("REJOIN_MODEL", provider.model);
        Ran::of(command.output().unwrap())
    };
    for message in ["one", "two"] {
        let ran = run(&["chat", message]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(!ran.err.contains("do-not-tell"), "{}", ran.err);
    }
    let paths: Vec<String> = server.requests().iter().map(|request| request.target.clone()).collect();
    assert!(
        paths.iter().all(|path| path.ends_with("/chat/completions?api-version=4711-do-not-tell")),
        "{paths:?}"
    );
    let id = home.lines(&["list", "--json"])[0]["id"].as_str().unwrap().to_owned();
    assert!(!home.out(&["history", "export", &id, "--to", "jsonl"]).contains("do-not-tell"));
}

/// Names from a conversation cannot control the terminal, in output and in errors.
#[test]
fn names_of_others_steer_no_terminal() {
    let home = Home::new("jsonl");
    let id = went_to(&home, r#"{"provider":"offline","model":"\u001b]0;mine\u0007"}"#);
    for arguments in
        [&["--color", "always", "resume", &id][..], &["--color", "always", "chat", "--session", &id, "hi"]]
    {
        let ran = home.run(arguments);
        assert!(!ran.err.contains("\u{1b}]"), "{:?}", ran.err);
    }
}

/// Someone works in the folder where keys are kept: no model is shown them, and the record has none.
#[test]
fn no_tool_reads_keys() {
    let home = Home::new("jsonl");
    let here = home.path("here");
    let run = |arguments: &[&str], input: &str| {
        let mut command = home.command(arguments);
        command.env("REJOIN_HOME", &here);
        Ran::fed(command, input)
    };
    assert_eq!(run(&["auth", "login", "openai"], "sk-do-not-tell").code, 0);
    assert!(here.join("auth.json").exists());
    let ran = run(&["chat", "--provider", "offline", "read auth.json"], "");
    assert!(ran.out.contains("read_file did not work"), "{} {}", ran.out, ran.err);
    assert!(!(ran.out + &ran.err).contains("do-not-tell"));
    let exported = home.run(&["history", "export", "@1", "--to", "jsonl"]);
    assert!(exported.code == 0 && !exported.out.contains("do-not-tell"), "{}", exported.err);
}
