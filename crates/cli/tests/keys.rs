//! Who answers and how to prove who you are: `set-provider`, `set-auth`, `auth`, `models`, and what is chosen if nobody chose.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Stdio};

use support::{
    Home, Ran, has,
    services::{PROVIDERS, with_keys},
};
use testkit::loopback::{Config, Loopback, Service};

/// A command that is told something on standard input.
fn told(home: &Home, arguments: &[&str], input: &str) -> Ran {
    let mut command = home.command(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

/// With nothing configured: a key in the environment, else a local Ollama, else the built-in responder, said in one line on stderr
/// with how to get a real model.
#[test]
fn if_nobody_chose() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    let mut command = home.command(&["chat", "hello"]);
    command.env("OLLAMA_HOST", "http://127.0.0.1:1");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("offline responder"), "{}", ran.out);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    has(&ran.err, &["offline", "set a key", "rejoin auth status"]);
    let mut command = home.command(&["chat", "--new", "hello"]);
    command.env("OLLAMA_HOST", server.base(Service::Ollama));
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.err, &["Ollama"]);
    let mut command = home.command(&["chat", "--new", "hello"]);
    command.env("OLLAMA_HOST", server.base(Service::Ollama)).env("ANTHROPIC_API_KEY", "sk-x");
    command.env("REJOIN_BASE_URL", server.base(Service::Anthropic)).env("REJOIN_PROVIDER", "anthropic");
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(server.requests().iter().any(|request| request.service == Some(Service::Anthropic)));
}

/// S3-02, S3-03: `set-provider` and `set-auth` are short for settings, and what belongs to another provider goes.
#[test]
fn setting_who_answers() {
    let home = Home::new("sqlite");
    home.out(&["set-provider", "openai", "--api", "chat", "--model", "gpt-x"]);
    let get = |key: &str| home.run(&["config", "get", key]).out.trim().to_owned();
    assert_eq!((get("provider"), get("api"), get("model")), ("openai".into(), "chat".into(), "gpt-x".into()));
    home.out(&["set-provider", "github-copilot"]);
    assert_eq!((get("provider"), get("api"), get("model")), ("copilot".into(), String::new(), String::new()));
    let wrong = home.run(&["set-provider", "nobody"]);
    assert_eq!(wrong.code, 2);
    has(&wrong.err, &["`nobody`", "anthropic"]);
    for (given, kept) in [("oauth-chatgpt", "chatgpt"), ("claude", "claude"), ("api-key", "key")] {
        home.out(&["set-auth", given]);
        assert_eq!(get("auth"), kept);
    }
    assert_eq!(home.run(&["set-auth", "magic"]).code, 2);
    home.out(&["set-provider", "offline"]);
    assert!(home.out(&["chat", "2+2"]).contains("2+2 = 4"));
    home.out(&["config", "unset", "provider"]);
    assert_eq!(get("provider"), "");
}

/// A key is read from standard input, kept where only its owner can read it, used, never shown, and forgotten.
#[test]
fn keys_are_kept_and_forgotten() {
    let server = Loopback::start(Config { key: Some(String::from("sk-right-0815")), ..Config::default() });
    let home = Home::new("sqlite");
    let base = server.base(Service::Anthropic);
    let chat = || {
        home.run(&[
            "chat",
            "--new",
            "hello",
            "--provider",
            "anthropic",
            "--base-url",
            &base,
            "--model",
            "claude-x",
        ])
    };
    let wrong = told(&home, &["auth", "login", "anthropic"], "sk-wrong-4711\n");
    assert_eq!(wrong.code, 0, "{}", wrong.err);
    let refused = chat();
    assert_eq!(refused.code, 1);
    has(&refused.err, &["401", "rejoin auth"]);
    assert_eq!(told(&home, &["auth", "login", "anthropic"], "sk-right-0815").code, 0);
    assert_eq!(chat().code, 0);
    let file = home.path("home/auth.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for arguments in
        [&["auth", "status"][..], &["auth", "status", "--json"], &["config", "list"], &["doctor", "--self"]]
    {
        let ran = home.run(arguments);
        assert!(!ran.out.contains("sk-right") && !ran.err.contains("sk-right"), "{arguments:?}");
    }
    assert!(
        home.out(&["auth", "status"])
            .lines()
            .any(|line| line.starts_with("anthropic") && line.contains("auth.json"))
    );
    home.out(&["auth", "logout", "anthropic"]);
    assert!(!fs::read_to_string(&file).unwrap().contains("sk-right"));
    assert_eq!(told(&home, &["auth", "login", "anthropic"], "two words").code, 2);
    assert_eq!(told(&home, &["auth", "login"], "sk-x").code, 2, "for whom?");
}

/// S0-57: GitHub's login in the browser, with a code that is typed in; the token is exchanged and renewed.
#[test]
fn logging_in_to_copilot() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    let provider = PROVIDERS.iter().find(|provider| provider.name == "copilot").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        with_keys(&mut command, &server);
        command.env_remove("COPILOT_GITHUB_TOKEN");
        Ran::of(command.output().unwrap())
    };
    let ran = run(&["auth", "login", "copilot"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.err, &["enter the code", "is kept in"]);
    let flags = provider.flags(&server);
    let mut arguments = vec!["chat", "tools:1"];
    arguments.extend(flags.iter().map(String::as_str));
    assert_eq!(run(&arguments).code, 0);
    server.expire_tokens();
    let ran = run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(server.violations().is_empty(), "{:?}", server.violations());
}

/// S3-02: the logins of Codex and Claude Code are found in their own files, and read only.
#[test]
fn logins_of_other_tools() {
    let home = Home::new("sqlite");
    home.file(
        ".codex/auth.json",
        r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"secret-chatgpt","account_id":"a"}}"#,
    );
    home.file(
        ".claude/.credentials.json",
        r#"{"claudeAiOauth":{"accessToken":"secret-claude","expiresAt":4102444800000}}"#,
    );
    let status = home.out(&["auth", "status"]);
    has(&status, &["ChatGPT login", "Claude login"]);
    assert!(!status.contains("secret-"), "{status}");
    home.out(&["set-auth", "key"]);
    assert!(!home.out(&["auth", "status"]).contains("login in"), "only keys are asked for");
}

/// The models of a provider, and what is known of one.
#[test]
fn models_are_listed() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    for provider in PROVIDERS {
        let base = provider.flags(&server)[5].clone();
        let mut command =
            home.command(&["models", "list", "--json", "--provider", provider.name, "--base-url", &base]);
        with_keys(&mut command, &server);
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}: {}", provider.label(), ran.err);
        let first: serde_json::Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
        assert!(first["id"].is_string(), "{}", ran.out);
    }
    assert!(home.out(&["models", "list", "--provider", "offline"]).contains("tiny"));
    has(&home.out(&["models", "info", "tiny", "--provider", "offline"]), &["tiny", "4096 tokens"]);
    let none = home.run(&["models", "info", "none", "--provider", "offline"]);
    assert_eq!(none.code, 1);
    has(&none.err, &["has no model `none`", "rejoin models list"]);
}
