//! The binary against every provider with a transport, over real HTTP on loopback.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use support::{
    Home, Ran,
    services::{PROVIDERS, Provider, with_keys},
};
use testkit::loopback::{Config, Loopback};

/// Runs a command with this provider.
fn ask(home: &Home, server: &Loopback, provider: &Provider, arguments: &[&str]) -> Ran {
    let flags = provider.flags(server);
    let mut all: Vec<&str> = arguments.to_vec();
    all.extend(flags.iter().map(String::as_str));
    let mut command = home.command(&all);
    with_keys(&mut command, server);
    Ran::of(command.output().unwrap())
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
        // The same provider without a flag: it is recorded.
        let mut command = home.command(&["resume", "@", "think once more"]);
        with_keys(&mut command, &server);
        let third = Ran::of(command.output().unwrap());
        assert_eq!(third.code, 0, "{label}: {}", third.err);
        nothing_was_refused(&server, &label);
        assert!(third.out.contains("once more"), "{label}: {}", third.out);
        assert_eq!(home.run(&["verify"]).code, 0);
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
        assert_eq!(home.run(&["verify"]).code, 0);
    });
}

/// What a provider issued goes back to it, byte for byte, also after a new process and after turns on other providers.
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
            body.matches(field).count()
        };
        assert_eq!(ask(&home, &server, provider, &["chat", "tools:2 steps:2 think"]).code, 0);
        let first = replayed();
        assert!(first >= 2, "{label}: the turn's own reasoning: {first}");
        assert_eq!(ask(&home, &server, provider, &["chat", "tools:1 think"]).code, 0);
        let second = replayed();
        assert!(second > first, "{label}: that of the turn before, too: {second}");
        assert_eq!(ask(&home, &server, other, &["chat", "tools:1 think"]).code, 0);
        assert_eq!(replayed(), 0, "{label}: nobody else gets it");
        let back = ask(&home, &server, provider, &["chat", "tools:1 think"]);
        assert_eq!(back.code, 0, "{label}: {}", back.err);
        if label != "deepseek" {
            assert!(replayed() > second, "{label}: it is taken back: {} after {second}", replayed());
        }
        nothing_was_refused(&server, label);
    }
}

/// An address with or without the version of the API leads to the provider; what is not there is said once, in its own words.
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
