//! Who is chosen when nobody said who.

use std::{net::TcpListener, time::Duration};

use super::*;
use crate::{
    auth::{KeyFile, Keys},
    provider::http::testing::{Answer, Ending, Server, quick, run},
};

fn nobody() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{free}")
}

fn variables(names: &'static [&'static str]) -> Keys {
    Keys::none().variables(|name| names.contains(&name).then(|| String::from("sk-0123456789abcdefghij")))
}

fn chosen(keys: &Keys, ollama: &str) -> Chosen {
    chosen_within(Duration::from_millis(300), keys, ollama)
}

fn chosen_within(local_answer: Duration, keys: &Keys, ollama: &str) -> Chosen {
    let options = HttpOptions { local_answer, ..quick() };
    run(choose(&Connection::default(), Some(ollama), keys, &options))
}

/// The first key of the environment, in the order of the rows.
#[test]
fn the_first_key_of_the_environment_decides() {
    let cases: &[(&'static [&'static str], &str, &str)] = &[
        (&["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], "anthropic", "ANTHROPIC_API_KEY"),
        (&["OPENAI_API_KEY", "GEMINI_API_KEY"], "openai", "OPENAI_API_KEY"),
        (&["GOOGLE_API_KEY", "OPENROUTER_API_KEY"], "gemini", "GOOGLE_API_KEY"),
        (&["OPENROUTER_API_KEY"], "openrouter", "OPENROUTER_API_KEY"),
        (&["GROQ_API_KEY"], "groq", "GROQ_API_KEY"),
    ];
    for (names, provider, variable) in cases {
        let chosen = chosen(&variables(names), &nobody());
        assert_eq!(chosen.choice.provider, *provider);
        let line = chosen.reason.to_string();
        assert!(line.contains(variable) && !line.contains('\n') && !line.contains("sk-0"), "{line}");
    }
}

/// A stored key comes after those of the environment, and the login of another tool is not used unasked.
#[test]
fn stored_keys_come_later_and_other_tools_logins_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let login = r#"{"claudeAiOauth":{"accessToken":"token-0123456789"}}"#;
    std::fs::write(folder.path().join(".credentials.json"), login).unwrap();
    assert_eq!(chosen(&Keys::none().claude(folder.path()), &nobody()).reason, Reason::Nothing);

    let file = KeyFile::new(folder.path().join("auth.json"));
    file.set("anthropic", &"sk-stored-0123456789".into()).unwrap();
    let stored = Keys::none().stored(file.clone());
    assert_eq!(chosen(&stored, &nobody()).choice.provider, "anthropic");
    let both = variables(&["GROQ_API_KEY"]).stored(file);
    assert_eq!(chosen(&both, &nobody()).choice.provider, "groq");
}

/// A model on this machine that answers at once; the first of its list.
#[test]
fn a_local_model_is_better_than_none() {
    let list = r#"{"models":[{"name":"first:1b","model":"first:1b"},{"name":"second"}]}"#;
    let server = Server::new(vec![Answer::json(200, list)]);
    let found = chosen_within(Duration::from_secs(20), &Keys::none(), &server.url);
    assert_eq!(found.choice.provider, "ollama");
    assert_eq!(found.choice.model.as_deref(), Some("first:1b"));
    assert_eq!(found.choice.base_url.as_deref(), Some(server.url.as_str()));
    assert_eq!(found.reason, Reason::Local { url: server.url.clone(), model: String::from("first:1b") });
}

/// Nobody, a server that is silent, one without models, one that is something else: nobody is waited for, nobody is chosen.
#[test]
fn without_anybody_it_is_offline() {
    let silent = Server::new(vec![Answer::json(200, "").ending(Ending::Stall)]);
    let empty = Server::new(vec![Answer::json(200, r#"{"models":[]}"#)]);
    let other = Server::new(vec![Answer::of(200, "text/html", "<html>")]);
    for url in [nobody(), silent.url.clone(), empty.url.clone(), other.url.clone()] {
        let before = std::time::Instant::now();
        let found = chosen(&Keys::none(), &url);
        assert_eq!((found.choice.provider.as_str(), &found.reason), (OFFLINE, &Reason::Nothing), "{url}");
        assert!(before.elapsed() < Duration::from_secs(5), "{url}");
    }
    assert!(Reason::Nothing.to_string().contains("rejoin auth status"));
}

/// What was asked for stands.
#[test]
fn what_was_asked_for_stands() {
    let asked = Connection { provider: String::from("groq"), ..Connection::default() };
    let keys = variables(&["ANTHROPIC_API_KEY"]);
    let found = run(choose(&asked, None, &keys, &quick()));
    assert_eq!((found.choice, found.reason), (asked, Reason::Configured));
    let asked = Connection { base_url: Some(String::from("http://h:1")), ..Connection::default() };
    assert_eq!(run(choose(&asked, None, &keys, &quick())).choice.provider, "custom");
}
