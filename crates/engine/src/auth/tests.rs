//! Where keys come from, and what may be shown of them.

use std::fs;

use super::*;
use crate::provider::registry::find;

const KEY: &str = "sk-0123456789-abcdefgh-WXYZ";

fn service(name: &str) -> &'static Service {
    find(name).unwrap()
}

fn origins(keys: &Keys, name: &str) -> Vec<String> {
    keys.keys(service(name), name).iter().map(|key| key.origin.to_string()).collect()
}

/// S3-02: given, environment, settings, stored, and last the login of the service's own agent.
#[test]
fn keys_come_in_this_order() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("keys.json");
    KeyFile::new(&own).set("openai", &KEY.into()).unwrap();
    fs::write(folder.path().join("auth.json"), r#"{"OPENAI_API_KEY":"sk-codex"}"#).unwrap();
    // Each agent has its own folder, and a login in the other's folder is ignored.
    let claude = folder.path().join("claude");
    fs::create_dir(&claude).unwrap();
    fs::write(claude.join("auth.json"), r#"{"OPENAI_API_KEY":"sk-not-codex"}"#).unwrap();
    fs::write(claude.join(".credentials.json"), r#"{"claudeAiOauth":{"accessToken":"t-claude"}}"#).unwrap();
    fs::write(folder.path().join(".credentials.json"), r#"{"claudeAiOauth":{"accessToken":"t-no"}}"#)
        .unwrap();
    let variable = |name: &str| (name == "OPENAI_API_KEY").then(|| String::from("sk-variable"));
    let keys = Keys {
        codex: Some(folder.path().to_owned()),
        claude: Some(claude.clone()),
        stored: Some(KeyFile::new(&own)),
        given: Some("sk-given".into()),
        ..Keys::in_variables(variable)
    };
    let expected = [
        String::from("given for this run"),
        String::from("OPENAI_API_KEY"),
        own.display().to_string(),
        folder.path().join("auth.json").display().to_string(),
    ];
    assert_eq!(origins(&keys, "openai"), expected);
    let login = claude.join(".credentials.json").display().to_string();
    assert_eq!(origins(&keys, "anthropic"), [String::from("given for this run"), login]);
    assert_eq!(origins(&keys, "gemini"), ["given for this run"]);
}

/// S3-02: the logins of Codex and Claude Code, in every state of their files. The files are never written.
#[test]
fn logins_of_other_tools_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let auth = folder.path().join("auth.json");
    let codex = |text: &str| {
        fs::write(&auth, text).unwrap();
        let key = others::codex(folder.path());
        assert_eq!(fs::read_to_string(&auth).unwrap(), text);
        key
    };
    assert_eq!(codex(r#"{"OPENAI_API_KEY":"sk-1"}"#).unwrap().kind, KeyKind::Api);
    // {"exp":1700000000,"https://api.openai.com/auth":{"chatgpt_account_id":"acc-2"}}
    let token = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDAsImh0dHBzOi8vYXBpLm9wZW5haS5jb20vYXV0aCI6eyJjaGF0Z3B0X2FjY291bnRfaWQiOiJhY2MtMiJ9fQ.c2ln";
    let key = codex(&format!(r#"{{"OPENAI_API_KEY":null,"tokens":{{"access_token":"{token}"}}}}"#)).unwrap();
    assert_eq!(key.kind, KeyKind::ChatGpt { account: Some(String::from("acc-2")) });
    assert_eq!(key.expires.unwrap().as_second(), 1_700_000_000);
    assert!(key.has_expired(SystemNow::now()));
    let key = codex(r#"{"tokens":{"access_token":"opaque","account_id":"acc-1"}}"#).unwrap();
    assert_eq!((key.kind, key.expires), (KeyKind::ChatGpt { account: Some(String::from("acc-1")) }, None));
    for odd in
        ["", "[]", "{", r#"{"tokens":{}}"#, r#"{"tokens":{"access_token":"  "}}"#, r#"{"OPENAI_API_KEY":7}"#]
    {
        assert!(codex(odd).is_none(), "{odd}");
    }

    let credentials = folder.path().join(".credentials.json");
    fs::write(&credentials, r#"{"claudeAiOauth":{"accessToken":"t-0123456789","expiresAt":1700000000000}}"#)
        .unwrap();
    let key = others::claude(folder.path()).unwrap();
    assert_eq!((key.kind.clone(), key.expires.unwrap().as_second()), (KeyKind::Claude, 1_700_000_000));
    // The account stays the same when the token changes.
    fs::write(&credentials, r#"{"claudeAiOauth":{"accessToken":"t-other"}}"#).unwrap();
    let later = others::claude(folder.path()).unwrap();
    assert_eq!((later.account(), later.expires), (key.account(), None));
    for odd in ["{}", r#"{"claudeAiOauth":{}}"#, "\u{0}"] {
        fs::write(&credentials, odd).unwrap();
        assert!(others::claude(folder.path()).is_none(), "{odd}");
    }
    assert!(others::claude(&folder.path().join("nowhere")).is_none());
}

struct SystemNow;

impl SystemNow {
    fn now() -> Timestamp {
        crate::clock::Clock::now(&crate::clock::SystemClock)
    }
}

#[test]
fn a_file_of_keys_keeps_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::new(folder.path().join("deeper/auth.json"));
    assert!(file.get("openai").unwrap().is_none() && !file.remove("openai").unwrap());
    assert!(!file.path().exists(), "asking makes nothing");
    file.set("openai", &format!(" {KEY}\n").into()).unwrap();
    file.set("groq", &"gsk-\"quoted\"".into()).unwrap();
    assert_eq!(file.get("openai").unwrap().unwrap().secret.expose_secret(), KEY);
    assert_eq!(file.get("groq").unwrap().unwrap().secret.expose_secret(), "gsk-\"quoted\"");
    file.set("openai", &"sk-new".into()).unwrap();
    assert_eq!(file.providers().unwrap(), ["groq", "openai"]);
    assert!(file.remove("groq").unwrap());
    assert_eq!(file.providers().unwrap(), ["openai"]);
    let left: Vec<_> = fs::read_dir(file.path().parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside it: {left:?}");
}

/// Only its owner can read it, even if everyone could read it before.
#[cfg(unix)]
#[test]
fn a_file_of_keys_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = testkit::folder_with(&[("auth.json", "{}")]);
    let path = folder.path().join("auth.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    KeyFile::new(&path).set("openai", &KEY.into()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A file that holds something other than keys is not overwritten; unknown fields stay.
#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.json");
    let file = KeyFile::new(&path);
    for text in ["not json", "[1]", "{\"a\":"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(file.set("openai", &KEY.into()), Err(AuthError::Damaged { .. })), "{text}");
        assert!(file.get("openai").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        // A key in another place is still found.
        let keys = Keys {
            stored: Some(file.clone()),
            codex: Some(folder.path().to_owned()),
            ..Keys::in_variables(|_| Some(String::from(KEY)))
        };
        assert_eq!(
            keys.find(service("openai"), "openai").unwrap().origin,
            KeyOrigin::Variable("OPENAI_API_KEY".into())
        );
    }
    fs::write(&path, r#"{"later":{"kind":"new","x":[1]},"openai":{"key":"a","more":1}}"#).unwrap();
    file.set("groq", &KEY.into()).unwrap();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .contains(r#""later":{"kind":"new","x":[1]},"openai":{"key":"a","more":1}"#)
    );
    assert!(file.get("later").unwrap().is_none());
}

/// `auth status` shows the origin, at most four characters, and the expiry. It shows no secret.
#[test]
fn a_status_shows_no_secret() {
    let keys = Keys::in_variables(|name| match name {
        "OPENAI_API_KEY" => Some(String::from(KEY)),
        "GROQ_API_KEY" => Some(String::from("short")),
        _ => None,
    });
    let all = status(&keys, SystemNow::now());
    assert_eq!(all.len(), registry::all().count());
    let of = |name: &str| all.iter().find(|status| status.provider == name).unwrap();
    let openai = of("openai").key.as_ref().unwrap();
    assert_eq!(
        (openai.origin.to_string().as_str(), openai.ending.as_deref()),
        ("OPENAI_API_KEY", Some("WXYZ"))
    );
    assert_eq!(of("groq").key.as_ref().unwrap().ending, None);
    assert!(of("anthropic").key.is_none() && of("anthropic").needs_key && !of("ollama").needs_key);
    let shown = format!("{all:?} {keys:?} {:?}", keys.keys(service("openai"), "openai"));
    assert!(!shown.contains("abcdefgh") && !shown.contains("short"), "{shown}");
}

/// Every service in the table says how to get a key.
#[test]
fn every_row_is_whole() {
    let mut names = Vec::new();
    for service in registry::all() {
        assert!(!service.description.is_empty() && !service.get_a_key.is_empty(), "{}", service.name);
        assert!(!service.apis.is_empty() && service.models_path.starts_with('/'), "{}", service.name);
        assert!(service.apis.iter().all(|api| api.path.starts_with('/')), "{}", service.name);
        assert!(
            !service.base_url.ends_with('/') && !service.variables(service.name).is_empty(),
            "{}",
            service.name
        );
        names.push(service.name);
        names.extend(service.aliases);
        for name in [service.name].iter().chain(service.aliases) {
            assert_eq!(find(&name.to_uppercase()).unwrap().name, service.name);
        }
    }
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
