//! Which of two servers on this machine gets a message, for every source that may name a server.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::Arc;

use rejoin::{
    Conversation,
    engine::{New, SystemClock},
    record::{Content, Raw, content::RecordedContext},
    store::Store,
};
use serde_json::Value;
use support::{Home, Ran, has};
use testkit::loopback::{Config, Loopback, Service};

const KEY: &str = "sk-only-for-openai-4711";

/// A home, and two servers that speak as OpenAI does.
struct Scene {
    home: Home,
    one: Loopback,
    two: Loopback,
}

impl Scene {
    fn new() -> Self {
        let server = || Loopback::start(Config::default());
        Self { home: Home::new("sqlite"), one: server(), two: server() }
    }

    fn one(&self) -> String {
        self.one.base(Service::OpenAi)
    }

    fn two(&self) -> String {
        self.two.base(Service::OpenAi)
    }

    /// Runs a command with a key for OpenAI only.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut command = self.home.command(arguments);
        // A name that leads nowhere: nothing here may reach the network.
        command.env("OLLAMA_HOST", "http://127.0.0.1:1").env("OPENAI_API_KEY", KEY);
        Ran::of(command.envs(variables.iter().copied()).output().unwrap())
    }

    fn ok(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
        let ran = self.run(arguments, variables);
        assert_eq!(ran.code, 0, "{arguments:?} {variables:?}: {}", ran.err);
        ran
    }

    /// How many requests each server heard since the beginning.
    fn heard(&self) -> (usize, usize) {
        (self.one.requests().len(), self.two.requests().len())
    }
}

/// A conversation whose record says that it went there; its id.
fn went_to(home: &Home, provider: &str, base_url: &str) -> String {
    let store: Arc<dyn Store> = home.open().into();
    let mut conversation =
        Conversation::create_with_clock(store, Arc::new(SystemClock), &New::default(), "test");
    let target = serde_json::json!({"provider": provider, "model": "gpt-4.1", "base_url": base_url});
    let context =
        RecordedContext { target: Some(Raw::new(target.to_string())), ..RecordedContext::default() };
    conversation.append(&Content::Context(context));
    conversation.id().to_string()
}

/// A conversation that was only begun holds no provider, model or address: settings made before or after it count.
#[test]
fn settings_count_after_rejoin_new() {
    let scene = Scene::new();
    scene.ok(&["config", "set", "provider", "openai"], &[]);
    scene.ok(&["new"], &[]);
    scene.ok(&["config", "set", "base_url", &scene.one()], &[]);
    scene.ok(&["config", "set", "model", "gpt-4.1"], &[]);
    let ran = scene.ok(&["chat", "for the first server"], &[]);
    assert_eq!(scene.heard(), (1, 0), "{}", ran.err);
    scene.ok(&["new"], &[]);
    scene.ok(&["set-provider", "openai", "--base-url", &scene.two(), "--model", "gpt-4.1"], &[]);
    scene.ok(&["chat", "for the second server"], &[]);
    assert_eq!(scene.heard(), (1, 1));
    // The first conversation continues at the address in the current settings.
    scene.ok(&["chat", "--session", "@2", "on"], &[]);
    assert_eq!(scene.heard(), (1, 2));
}

/// `rejoin new` records its own flags, and nothing else.
#[test]
fn new_records_only_what_it_is_told() {
    let home = Home::new("sqlite");
    home.out(&["set-provider", "openai", "--model", "gpt-x"]);
    let begun: Value = serde_json::from_str(&home.out(&["new", "--json"])).unwrap();
    assert_eq!((&begun["provider"], &begun["model"]), (&Value::Null, &Value::Null));
    home.out(&["new", "--provider", "offline", "--model", "tiny"]);
    let ran = home.run(&["chat", "2+2"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "2+2 = 4\n"), "{}", ran.err);
    has(&ran.err, &["with offline (as before), model tiny (as before)"]);
    home.out(&["set-provider", "offline"]);
    home.out(&["new", "--model", "tiny"]);
    has(&home.run(&["chat", "2+2"]).err, &["with offline (settings), model tiny (as before)"]);
}

#[test]
fn an_address_in_the_environment_counts_after_rejoin_new_and_over_settings() {
    let scene = Scene::new();
    let (one, two) = (scene.one(), scene.two());
    scene.ok(&["new"], &[]);
    let variables =
        [("REJOIN_PROVIDER", "openai"), ("REJOIN_MODEL", "gpt-4.1"), ("REJOIN_BASE_URL", two.as_str())];
    scene.ok(&["chat", "for the second server"], &variables);
    assert_eq!(scene.heard(), (0, 1));
    scene.ok(&["set-provider", "openai", "--base-url", &one, "--model", "gpt-4.1"], &[]);
    scene.ok(&["chat", "still"], &[("REJOIN_BASE_URL", &two)]);
    assert_eq!(scene.heard(), (0, 2));
    scene.ok(&["chat", "the flag wins", "--base-url", &one], &[("REJOIN_BASE_URL", &two)]);
    assert_eq!(scene.heard(), (1, 2));
}

/// With `openai`, an address means Chat there, whichever source names it, unless an API is named.
#[test]
fn an_address_means_the_same_from_every_source() {
    for (source, expected) in [
        ("flag", "/chat/completions"),
        ("environment", "/chat/completions"),
        ("settings", "/chat/completions"),
        ("settings with an api", "/responses"),
    ] {
        let scene = Scene::new();
        let one = scene.one();
        let mut arguments = vec!["chat", "hello"];
        let mut variables = vec![];
        match source {
            "flag" => arguments.extend(["--provider", "openai", "--model", "gpt-4.1", "--base-url", &one]),
            "environment" => variables.extend([
                ("REJOIN_PROVIDER", "openai"),
                ("REJOIN_MODEL", "gpt-4.1"),
                ("REJOIN_BASE_URL", one.as_str()),
            ]),
            _ => {
                scene.ok(&["set-provider", "openai", "--model", "gpt-4.1", "--base-url", &one], &[]);
                if source.ends_with("api") {
                    scene.ok(&["config", "set", "api", "responses"], &[]);
                }
            }
        }
        scene.ok(&arguments, &variables);
        let requests = scene.one.requests();
        assert_eq!(requests.len(), 1, "{source}");
        assert!(requests[0].target.ends_with(expected), "{source}: {}", requests[0].target);
    }
}

/// The address of one provider is not used for another, whether a flag or a variable names that one: its text and key stay away.
#[test]
fn an_address_that_is_set_for_one_provider_is_not_used_for_another() {
    let scene = Scene::new();
    scene.ok(&["set-provider", "openai", "--base-url", &scene.one(), "--model", "gpt-4.1"], &[]);
    // There is no key for it, so nothing leaves this machine either.
    for (arguments, variables) in [
        (vec!["chat", "hello", "--provider", "anthropic"], vec![]),
        (vec!["chat", "hello"], vec![("REJOIN_PROVIDER", "anthropic")]),
    ] {
        let ran = scene.run(&arguments, &variables);
        assert_eq!(ran.code, 1, "{}", ran.err);
        has(&ran.err, &["there is no key for anthropic"]);
    }
    assert_eq!(scene.heard(), (0, 0));
    scene.ok(&["chat", "hello"], &[]);
    assert_eq!(scene.heard(), (1, 0));
}

/// An address that the user named once is followed; the settings go before it.
#[test]
fn a_recorded_address_is_followed_where_it_is_trusted() {
    let scene = Scene::new();
    let flags = ["--provider", "openai", "--model", "gpt-4.1", "--base-url", &scene.one()];
    scene.ok(&[&["chat", "hello"], &flags[..]].concat(), &[]);
    has(&scene.ok(&["chat", "again"], &[]).err, &["/chat/completions (as before)"]);
    assert_eq!(scene.heard(), (2, 0));
    scene.ok(&["set-provider", "openai", "--base-url", &scene.two()], &[]);
    scene.ok(&["chat", "elsewhere"], &[]);
    assert_eq!(scene.heard(), (2, 1));
}

/// A conversation from elsewhere names an address: nothing goes there, and nothing goes anywhere else instead.
#[test]
fn a_recorded_address_that_is_not_trusted_gets_nothing() {
    let scene = Scene::new();
    let (one, two) = (scene.one(), scene.two());
    let id = went_to(&scene.home, "openai", &one);
    let refused = scene.run(&["chat", "--session", &id, "hello"], &[]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    has(&refused.err, &["this conversation went to", &one, "--base-url"]);
    // Named for one provider, it is trusted for that one only.
    let other = [("CUSTOM_API_KEY", "sk-other")];
    scene.ok(
        &["chat", "--new", "hi", "--provider", "custom", "--model", "gpt-4.1", "--base-url", &one],
        &other,
    );
    assert_eq!(scene.heard(), (1, 0));
    let shown = || {
        scene.one.requests().iter().filter(|request| format!("{:?}", request.headers).contains(KEY)).count()
    };
    assert_eq!(shown(), 0, "the key for openai is not for others");
    assert_eq!(scene.run(&["resume", &id, "hello"], &[]).code, 2);
    assert_eq!(scene.heard(), (1, 0));
    // The user names the address: now the key is sent there, and next time without asking.
    scene.ok(&["resume", &id, "hello", "--base-url", &one], &[]);
    scene.ok(&["resume", &id, "hello"], &[]);
    assert_eq!(scene.heard(), (3, 0));
    assert_eq!(shown(), 2);
    let id = went_to(&scene.home, "openai", &two);
    assert_eq!(scene.run(&["resume", &id, "hello"], &[]).code, 2, "another address");
    assert_eq!(scene.heard(), (3, 0));
}

/// An address is trusted for one provider and its key. If you point rejoin to your own server, under any name and by any means, it
/// does not send that server the key of a provider that only an imported conversation names.
#[test]
fn a_conversation_does_not_choose_whose_key_an_address_gets() {
    for means in
        ["flags", "settings", "settings without a provider", "environment", "environment without one"]
    {
        let scene = Scene::new();
        let one = scene.one();
        let mut variables = vec![];
        match means {
            "flags" => {
                let flags = ["--provider", "mylocal", "--model", "gpt-4.1", "--base-url", &one];
                let own = [("MYLOCAL_API_KEY", "sk-mine")];
                scene.ok(&[&["chat", "--new", "mine"], &flags[..]].concat(), &own);
            }
            "settings" => {
                scene.ok(&["set-provider", "mylocal", "--model", "gpt-4.1", "--base-url", &one], &[]);
            }
            "settings without a provider" => drop(scene.ok(&["config", "set", "base_url", &one], &[])),
            "environment" => {
                variables = vec![("REJOIN_PROVIDER", "mylocal"), ("REJOIN_BASE_URL", one.as_str())];
            }
            _ => variables = vec![("REJOIN_BASE_URL", one.as_str())],
        }
        for recorded in [one.clone(), String::from("https://api.openai.com/v1")] {
            let id = went_to(&scene.home, "openai", &recorded);
            // By flags or by settings for another provider, nothing names this address for openai, and the provider's own
            // address would be asked for real.
            if recorded != one && matches!(means, "flags" | "settings") {
                continue;
            }
            for _ in 0..2 {
                scene.run(&["resume", &id, "hello"], &variables);
            }
        }
        let heard = scene.one.requests();
        assert!(means == "flags" || means == "settings" || !heard.is_empty(), "{means}: the text goes there");
        for request in heard {
            assert!(!format!("{:?}", request.headers).contains(KEY), "{means}: {request:?}");
        }
    }
}

/// An address that was used with a dummy key gets no real one later: neither by a conversation of the user's own nor by one that
/// was imported.
#[test]
fn an_address_that_got_a_dummy_key_does_not_get_the_real_one() {
    for first in ["sk-dummy", ""] {
        let scene = Scene::new();
        let one = scene.one();
        let dummy = [("OPENAI_API_KEY", first)];
        let flags = ["--provider", "openai", "--model", "gpt-4.1", "--base-url", &one];
        scene.run(&[&["chat", "--new", "mine"], &flags[..]].concat(), &dummy);
        scene.run(&["chat", "again"], &dummy);
        assert_eq!(scene.heard(), (2, 0), "with the same key it is followed");
        let imported = went_to(&scene.home, "openai", &one);
        for arguments in [&["chat", "hello"][..], &["resume", &imported, "hello"]] {
            let ran = scene.run(arguments, &[]);
            assert_eq!(ran.code, 2, "{}", ran.err);
            has(&ran.err, &["this conversation went to", &one, "not with its current key", "--base-url"]);
        }
        assert_eq!(scene.heard(), (2, 0));
        // Named once more, it gets the new key, and keeps it.
        scene.ok(&["resume", &imported, "hello", "--base-url", &one], &[]);
        scene.ok(&["resume", &imported, "hello"], &[]);
        assert_eq!(scene.heard(), (4, 0));
    }
}

/// An address that only looks like the provider's own is not followed: the client reads a backslash as a slash.
#[test]
fn an_address_in_disguise_gets_nothing() {
    let scene = Scene::new();
    let host = scene.one().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    for disguise in [
        format!("http://{host}\\@api.openai.com/v1"),
        format!("https://{host}\\@api.openai.com/v1"),
        format!("http://{host}/\\@api.openai.com/v1"),
    ] {
        let id = went_to(&scene.home, "openai", &disguise);
        let ran = scene.run(&["resume", &id, "hello"], &[]);
        assert_eq!(ran.code, 2, "{disguise}: {}", ran.err);
        assert_eq!(scene.heard(), (0, 0), "{disguise}");
    }
}

/// An Ollama that was found by its own variable is found again in the next turn.
#[test]
fn a_local_model_that_was_found_is_found_again() {
    let home = Home::new("sqlite");
    let server = Loopback::start(Config::default());
    for message in ["hello", "again"] {
        let mut command = home.command(&["chat", message]);
        let ran = Ran::of(command.env("OLLAMA_HOST", server.base(Service::Ollama)).output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
}

/// The first line of a chat says who answers, where, and what named each of them.
#[test]
fn the_first_line_says_who_answers_and_why() {
    let scene = Scene::new();
    let (one, two) = (scene.one(), scene.two());
    scene.ok(&["set-provider", "openai", "--base-url", &one], &[]);
    let first = |ran: Ran| ran.err.lines().next().unwrap_or_default().to_owned();
    let line = first(scene.ok(&["chat", "hello", "--model", "gpt-4.1"], &[]));
    assert_eq!(
        line,
        format!(
            "note: new conversation with openai (settings), model gpt-4.1 (--model), at {one}/chat/completions (settings)"
        )
    );
    let variables = [("REJOIN_BASE_URL", two.as_str()), ("REJOIN_PROVIDER", "ollama")];
    // The server wants a key, and gets none that was not meant for it.
    let line = first(scene.run(&["chat", "hello"], &variables));
    let (before, after) = line.split_once(" with ").unwrap();
    assert!(before.starts_with("note: continuing conv_"), "{line}");
    assert_eq!(
        after,
        format!(
            "openai (as before), model gpt-4.1 (as before), \
             at {two}/chat/completions (REJOIN_BASE_URL); no key is sent: this address was never used for openai \
             with its current key (`--base-url` allows it); `--provider ollama` switches to ollama, which is configured"
        )
    );
    let line = first(scene.ok(&["chat", "--new", "hello", "--provider", "offline"], &[]));
    assert_eq!(line, "note: new conversation with offline (--provider)");
}

/// `doctor --self` shows who would answer in a new conversation and in the active one, and what is missing for that.
#[test]
fn doctor_says_who_would_answer() {
    let scene = Scene::new();
    let one = scene.one();
    let answers = |variables: &[(&str, &str)]| -> Vec<Value> {
        let told = scene.ok(&["doctor", "--self", "--json"], variables).out;
        let told: Value = serde_json::from_str(&told).unwrap();
        told["answers"].as_array().unwrap().clone()
    };
    scene.ok(&["set-provider", "openai", "--base-url", &one, "--model", "gpt-4.1"], &[]);
    let told = answers(&[]);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["provider"], serde_json::json!({"value": "openai", "from": "settings"}));
    assert_eq!(told[0]["address"]["value"], format!("{one}/chat/completions"));
    scene.ok(&["chat", "hello"], &[]);
    let told = answers(&[("REJOIN_PROVIDER", "anthropic")]);
    assert_eq!(told.len(), 2, "a new conversation and the active one");
    assert_eq!(told[0]["provider"], serde_json::json!({"value": "anthropic", "from": "REJOIN_PROVIDER"}));
    assert_eq!(told[0]["address"]["from"], "default");
    has(told[0]["error"].as_str().unwrap(), &["no key for anthropic"]);
    assert_eq!(told[1]["provider"]["from"], "as before");
    let ran = scene.ok(&["doctor", "--self"], &[]);
    has(
        &ran.out,
        &["answers:  using openai (settings), model gpt-4.1 (settings), at ", "which is active here: "],
    );
    assert!(!ran.out.contains(KEY));
    assert_eq!(scene.heard(), (1, 0), "asking sends nothing");
}
