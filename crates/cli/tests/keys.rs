//! Choosing a provider and authenticating: `set-provider`, `set-auth`, `auth`, `models`, and the defaults.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _};

use support::{
    Home, Ran, has,
    services::{PROVIDERS, with_keys},
};
use testkit::loopback::{Config, Loopback, Service};

/// Runs a command with a text on standard input.
fn told(home: &Home, arguments: &[&str], input: &str) -> Ran {
    Ran::fed(home.command(arguments), input)
}

/// With nothing configured: a key in the environment, else a local Ollama, else the built-in responder, with one line on stderr
/// about how to get a real model.
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
    // A slip would keep the key for a provider that does not exist; one of the user's own may have any other name.
    let ran = home.run(&["auth", "login", "anthropc"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    has(&ran.err, &["no provider is called `anthropc`", "did you mean `anthropic`?"]);
    let ran = told(&home, &["auth", "login", "mylocal"], "sk-own");
    assert_eq!(ran.code, 0, "{}", ran.err);
    has(&ran.err, &["`mylocal` is not a provider that rejoin knows"]);
    home.out(&["set-provider", "anthropc", "--base-url", &base]);
    assert_eq!(told(&home, &["auth", "login", "anthropc"], "sk-own").code, 0);
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
    has(&ran.err, &["enter the code", "is stored in"]);
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

/// S3-02: each of the four ways to authenticate reaches its own service, in its own header; after `set-auth`, no other way is used
/// although it exists.
#[test]
fn four_ways_to_authenticate() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    home.file(
        ".codex/auth.json",
        r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"secret-chatgpt","account_id":"acc-7"}}"#,
    );
    home.file(
        ".claude/.credentials.json",
        r#"{"claudeAiOauth":{"accessToken":"secret-claude","expiresAt":4102444800000}}"#,
    );
    let (openai, anthropic) = (server.base(Service::OpenAi), server.base(Service::Anthropic) + "/v1");
    home.out(&["config", "set", "addresses.chatgpt", &server.base(Service::Codex)]);
    home.out(&["config", "set", "addresses.claude", &anthropic]);
    let chat = |provider: &str, model: &str, base: Option<&str>, keys: &[(&str, &str)]| {
        let mut arguments = vec!["chat", "--new", "hello", "--provider", provider, "--model", model];
        if let Some(base) = base {
            arguments.extend(["--base-url", base]);
        }
        let before = server.requests().len();
        let ran = Ran::of(home.command(&arguments).envs(keys.iter().copied()).output().unwrap());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        let mut heard = server.requests().split_off(before);
        let heard = heard.pop().expect("it was asked");
        let header = move |name: &str| {
            let found = heard.headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.clone())
        };
        let of_all = ["authorization", "x-api-key", "chatgpt-account-id"].map(header);
        of_all.map(Option::unwrap_or_default)
    };
    let keys = [("OPENAI_API_KEY", "secret-openai-key"), ("ANTHROPIC_API_KEY", "secret-anthropic-key")];
    // A key for OpenAI, and a key for Anthropic.
    home.out(&["set-auth", "key"]);
    assert_eq!(chat("openai", "gpt-5", Some(&openai), &keys), ["Bearer secret-openai-key", "", ""]);
    assert_eq!(
        chat("anthropic", "claude-sonnet-4-5", Some(&anthropic), &keys),
        ["", "secret-anthropic-key", ""]
    );
    // A ChatGPT login from Codex' folder, and a Claude login from Claude Code's.
    home.out(&["set-auth", "chatgpt"]);
    assert_eq!(chat("openai", "gpt-5", None, &[]), ["Bearer secret-chatgpt", "", "acc-7"]);
    let instructions = || {
        let body: serde_json::Value = serde_json::from_slice(&server.requests().pop().unwrap().body).unwrap();
        body["instructions"].as_str().unwrap_or_default().to_owned()
    };
    assert!(instructions().starts_with("You are rejoin"), "ChatGPT takes no request without any");
    let ran = home.run(&[
        "chat",
        "--new",
        "hi",
        "--provider",
        "openai",
        "--model",
        "gpt-5",
        "--system",
        "Be brief.",
    ]);
    assert_eq!((ran.code, instructions().as_str()), (0, "Be brief."), "{}", ran.err);
    home.out(&["set-auth", "claude"]);
    assert_eq!(chat("anthropic", "claude-sonnet-4-5", None, &[]), ["Bearer secret-claude", "", ""]);
    // A login does not work for the other service.
    let other = home.run(&["chat", "--new", "hello", "--provider", "openai", "--model", "gpt-5"]);
    assert_eq!(other.code, 1, "{}", other.err);
    has(&other.err, &["OPENAI_API_KEY"]);
    home.out(&["set-auth", "chatgpt"]);
    let other =
        home.run(&["chat", "--new", "hello", "--provider", "anthropic", "--model", "claude-sonnet-4-5"]);
    assert_eq!(other.code, 1, "{}", other.err);
    assert!(server.violations().is_empty(), "{:?}", server.violations());
}

/// The models of a provider, and the facts about one.
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

/// `config set` refuses values that rejoin would not understand later, names the valid ones, and writes nothing.
#[test]
fn config_set_refuses_what_it_does_not_know() {
    let home = Home::new("sqlite");
    for (key, value, says) in [
        ("provider", "opnai", &["no provider is called `opnai`", "did you mean `openai`?", "anthropic"][..]),
        ("provider", "mylocal", &["no provider is called `mylocal`", "config set base_url"]),
        ("base_url", "localhost:8080", &["http://", "https://"]),
        ("base_url", "ftp://localhost", &["http://", "https://"]),
        ("addresses.claude", "there", &["http://"]),
        ("api", "rest", &["chat, responses"]),
        ("effort", "huge", &["low, medium, high"]),
        ("on_broken", "mend", &["keep, drop, refuse"]),
        ("color", "pink", &["auto, always, never"]),
        ("auth", "magic", &["any, key, chatgpt, claude"]),
        ("keyring", "maybe", &["`true` or `false`"]),
        ("limits.requests", "0", &["a whole number", "from 1"]),
        ("limits.retries", "-1", &["a whole number", "from 0"]),
        ("max_tokens", "1e4", &["a whole number"]),
        ("prune_threshold", "80", &["above 0 and up to 1"]),
        ("url", "http://localhost", &["there is no setting `url`", "did you mean `base_url`?"]),
        ("colour", "never", &["did you mean `color`?"]),
    ] {
        let ran = home.run(&["config", "set", key, value]);
        assert_eq!(ran.code, 2, "{key} = {value}: {}", ran.err);
        has(&ran.err, says);
        assert!(!home.path("home/config.toml").exists(), "{key} = {value} was written");
    }
    // An address makes any name a provider, and a name is kept as rejoin spells it.
    home.out(&["config", "set", "base_url", "http://localhost:8080/v1"]);
    home.out(&["config", "set", "provider", "MyLocal"]);
    assert_eq!(home.out(&["config", "get", "provider"]), "mylocal\n");
    home.out(&["config", "set", "provider", "Claude"]);
    assert_eq!(home.out(&["config", "get", "provider"]), "anthropic\n");
    // Earlier settings still apply, which is reported.
    let ran = home.run(&["config", "set", "provider", "openai"]);
    has(&ran.err, &["base_url", "http://localhost:8080/v1", "rejoin set-provider openai"]);
    // Of several settings that are set together, either all are set or none.
    let wrong = home.run(&["set-provider", "gemini", "--base-url", "nowhere"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert_eq!(home.out(&["config", "get", "provider"]), "openai\n");
}

/// The error for an invalid value names the variable, the line or the flag.
#[test]
fn a_wrong_value_is_told_with_where_it_stands() {
    let home = Home::new("sqlite");
    let run = |arguments: &[&str], variable: (&str, &str)| {
        let mut command = home.command(arguments);
        Ran::of(command.env(variable.0, variable.1).output().unwrap())
    };
    for (variable, value, says) in [
        ("REJOIN_BASE_URL", "localhost:8080", "http://"),
        ("REJOIN_API", "rest", "chat, responses"),
        ("REJOIN_LIMITS_REQUESTS", "0", "from 1"),
        ("REJOIN_PROVIDER", "opnai", "did you mean `openai`?"),
    ] {
        let ran = run(&["chat", "hello"], (variable, value));
        assert_eq!(ran.code, 2, "{variable}: {}", ran.err);
        has(&ran.err, &[variable, says]);
    }
    let new = home.run(&["new", "--provider", "opnai"]);
    assert_eq!((new.code, new.out.as_str()), (2, ""), "{}", new.err);
    has(&new.err, &["--provider", "`opnai`", "did you mean `openai`?"]);
    let flag = home.run(&["chat", "hello", "--provider", "opnai"]);
    assert_eq!(flag.code, 2);
    has(&flag.err, &["--provider", "`opnai`", "did you mean `openai`?"]);
    home.file("home/config.toml", "provider = \"opnai\"\n");
    let file = home.run(&["chat", "hello"]);
    assert_eq!(file.code, 2);
    has(&file.err, &["settings", "`opnai`", "did you mean `openai`?"]);
    // With an address, any name will do; then it is a matter of whether someone answers there.
    let ran = run(
        &["chat", "hello", "--base-url", "http://127.0.0.1:1", "--model", "m"],
        ("REJOIN_PROVIDER", "mine"),
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
}

/// The facts in rejoin's own table can be shown without a key, and are marked as such.
#[test]
fn models_info_needs_no_key_for_what_is_known() {
    let home = Home::new("sqlite");
    let info = |arguments: &[&str]| {
        let mut command = home.command(&[&["models", "info"][..], arguments].concat());
        Ran::of(command.env("OLLAMA_HOST", "http://127.0.0.1:1").output().unwrap())
    };
    for arguments in [&["claude-opus-4-5"][..], &["claude-opus-4-5", "--provider", "anthropic"]] {
        let ran = info(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        has(
            &ran.out,
            &["claude-opus-4-5", "Window: 200000 tokens", "Longest answer: 64000 tokens", "built-in table"],
        );
        let ran = info(&[arguments, &["--json"]].concat());
        let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&told["window"], &told["max_output"]), (&200_000.into(), &64_000.into()));
        assert_eq!(
            (&told["provider"], &told["from_table"]),
            (&serde_json::Value::Null, &serde_json::json!(["window", "max_output"]))
        );
    }
    let asked = info(&["claude-opus-4-5", "--provider", "anthropic"]);
    has(&asked.out, &["no key for anthropic"]);
    // For a model that is not in the table, the output says why no provider was asked.
    let unknown = info(&["no-such-model", "--provider", "anthropic"]);
    assert_eq!(unknown.code, 1);
    has(&unknown.err, &["no key for anthropic"]);
    let unknown = info(&["no-such-model"]);
    assert_eq!(unknown.code, 1, "{}", unknown.out);
    // Facts from a provider are not marked; facts from the table are.
    let server = Loopback::start(Config { models: vec![String::from("gpt-4.1")], ..Config::default() });
    let base = server.base(Service::OpenAi);
    let mut command =
        home.command(&["models", "info", "gpt-4.1", "--json", "--provider", "openai", "--base-url", &base]);
    with_keys(&mut command, &server);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&told["provider"], &told["from_table"][0]), (&"openai".into(), &"window".into()));
}

/// A password in an address is in no list of settings and in no error, whatever the source of the address.
#[test]
fn settings_show_no_password() {
    let home = Home::new("sqlite");
    let secret = "https://me:hunter2@gateway.example/v1?key=hunter3";
    for key in
        ["base_url", "addresses.chatgpt", "addresses.claude", "addresses.github", "addresses.github_api"]
    {
        home.out(&["config", "set", key, secret]);
        assert_eq!(home.out(&["config", "get", key]), "https://***@gateway.example/v1?key=***\n");
    }
    for arguments in [
        &["config", "list"][..],
        &["config", "list", "--json"],
        &["config", "get", "base_url", "--json"],
        &["config", "set", "provider", "openai"],
        &["config", "set", "provider", "groq"],
        &["doctor", "--self"],
        &["doctor", "--self", "--json"],
        &["config", "set", "store", "postgres://me:hunter2@h/db"],
        &["list", "--store", "postgres://me:hunter2@h/db"],
        &["list", "--store", "postgres://me:hunter2/x@h/\u{1b}[1mdb"],
        &["config", "set", "base_url", "ftp://me:hunter2@h/v1"],
    ] {
        let mut command = home.command(arguments);
        let ran = Ran::of(
            command.env("REJOIN_ADDRESSES_CLAUDE", secret).env("RUST_LOG", "trace").output().unwrap(),
        );
        for shown in [&ran.out, &ran.err] {
            assert!(!shown.contains("hunter"), "{arguments:?}: {shown}");
        }
    }
    // It is used as it was set.
    assert!(fs::read_to_string(home.path("home/config.toml")).unwrap().contains("hunter2"));
}

/// A user who chose a login never gets a key from the environment or from rejoin's file: it may belong to another account.
#[test]
fn a_chosen_login_never_falls_back_to_a_key() {
    let server = Loopback::start(Config::default());
    let home = Home::new("sqlite");
    for (method, provider, variable) in
        [("chatgpt", "openai", "OPENAI_API_KEY"), ("claude", "anthropic", "ANTHROPIC_API_KEY")]
    {
        assert_eq!(told(&home, &["auth", "login", provider], "sk-stored-4711").code, 0);
        home.out(&["set-auth", method]);
        let run = |arguments: &[&str]| {
            let mut command = home.command(arguments);
            command.env(variable, "sk-of-the-environment").env("OLLAMA_HOST", "http://127.0.0.1:1");
            Ran::of(command.output().unwrap())
        };
        let ran = run(&["chat", "--new", "hello", "--provider", provider]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        has(&ran.err, &[&format!("no key for {provider}")]);
        let base = server.base(Service::OpenAi);
        run(&["chat", "--new", "hello", "--provider", provider, "--model", "m", "--base-url", &base]);
        let status = run(&["auth", "status"]).out;
        assert!(!status.contains(variable) || status.contains(&format!("set {variable}")), "{status}");
    }
    let heard = format!("{:?}", server.requests().iter().map(|request| &request.headers).collect::<Vec<_>>());
    assert!(!heard.contains("sk-"), "{heard}");
}
