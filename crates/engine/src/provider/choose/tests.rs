//! The provider that is chosen if none is named.

use std::{net::TcpListener, time::Duration};

use super::*;
use crate::{
    auth::{KeyFile, Keys},
    provider::http::tests::shared::{Answer, Ending, Server, quick, run},
};

fn nobody() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{free}")
}

fn variables(names: &'static [&'static str]) -> Keys {
    Keys::in_variables(|name| names.contains(&name).then(|| String::from("sk-0123456789abcdefghij")))
}

fn chosen(keys: &Keys, ollama: &str) -> ChosenProvider {
    chosen_within(Duration::from_millis(300), keys, ollama)
}

fn chosen_within(local_answer: Duration, keys: &Keys, ollama: &str) -> ChosenProvider {
    let options = HttpOptions { local_answer, ..quick() };
    run(choose(&ProviderChoice::default(), Some(ollama), keys, &options))
}

/// The first key in the environment counts, in the order of the table.
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
        assert_eq!(chosen.wanted.provider.as_deref(), Some(*provider));
        let line = chosen.reason.to_string();
        assert!(line.contains(variable) && !line.contains('\n') && !line.contains("sk-0"), "{line}");
    }
}

/// A stored key comes after those of the environment. The login of another agent is not used unasked.
#[test]
fn stored_keys_come_later_and_other_tools_logins_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let login = r#"{"claudeAiOauth":{"accessToken":"token-0123456789"}}"#;
    std::fs::write(folder.path().join(".credentials.json"), login).unwrap();
    let in_claude = Keys { claude: Some(folder.path().to_owned()), ..Keys::default() };
    assert_eq!(chosen(&in_claude, &nobody()).reason, Reason::Nothing);

    let file = KeyFile::new(folder.path().join("auth.json"));
    file.set("anthropic", &"sk-stored-0123456789".into()).unwrap();
    let stored = Keys { stored: Some(file.clone()), ..Keys::default() };
    assert_eq!(chosen(&stored, &nobody()).wanted.provider.as_deref(), Some("anthropic"));
    let both = Keys { stored: Some(file), ..variables(&["GROQ_API_KEY"]) };
    assert_eq!(chosen(&both, &nobody()).wanted.provider.as_deref(), Some("groq"));
}

/// A server on this machine that answers at once is used, with the first model of its list.
#[test]
fn a_local_model_is_better_than_none() {
    let list = r#"{"models":[{"name":"first:1b","model":"first:1b"},{"name":"second"}]}"#;
    let server = Server::new(vec![Answer::json(200, list)]);
    let found = chosen_within(Duration::from_secs(20), &Keys::default(), &server.url);
    assert_eq!(found.wanted.provider.as_deref(), Some("ollama"));
    assert_eq!(found.wanted.model.as_deref(), Some("first:1b"));
    assert_eq!(found.wanted.base_url.as_deref(), Some(server.url.as_str()));
    assert_eq!(found.reason, Reason::Local { url: server.url.clone(), model: String::from("first:1b") });
}

/// No server, a silent one, one without models, one of another kind: rejoin does not wait for it and does not choose it.
#[test]
fn without_anybody_it_is_offline() {
    let silent = Server::new(vec![Answer::json(200, "").ending(Ending::Stall)]);
    let empty = Server::new(vec![Answer::json(200, r#"{"models":[]}"#)]);
    let other = Server::new(vec![Answer::of(200, "text/html", "<html>")]);
    for url in [nobody(), silent.url.clone(), empty.url.clone(), other.url.clone()] {
        let before = std::time::Instant::now();
        let found = chosen(&Keys::default(), &url);
        assert_eq!(
            (found.wanted.provider.as_deref(), &found.reason),
            (Some(offline::NAME), &Reason::Nothing),
            "{url}"
        );
        assert!(before.elapsed() < Duration::from_secs(5), "{url}");
    }
    assert!(Reason::Nothing.to_string().contains("rejoin auth status"));
}

/// A named provider is used.
#[test]
fn what_was_asked_for_stands() {
    let asked = ProviderChoice { provider: Some(String::from("groq")), ..ProviderChoice::default() };
    let keys = variables(&["ANTHROPIC_API_KEY"]);
    let found = run(choose(&asked, None, &keys, &quick()));
    assert_eq!((found.wanted, found.reason), (asked, Reason::Configured));
    let asked = ProviderChoice { base_url: Some(String::from("http://h:1")), ..ProviderChoice::default() };
    assert_eq!(run(choose(&asked, None, &keys, &quick())).wanted.provider.as_deref(), Some("custom"));
}
