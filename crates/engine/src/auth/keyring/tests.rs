//! Keys in the keyring of the system that runs the tests, if it has one.

use super::*;

/// S3-02: the login that Claude Code keeps in the keyring is read for Claude only, and not changed.
#[test]
fn the_login_of_claude_code_is_read_where_it_is() {
    let user = format!("test-{}", std::process::id());
    let entry = keyring::Entry::new(CLAUDE_CODE, &user).unwrap();
    let login = r#"{"claudeAiOauth":{"accessToken":"t-in-the-keyring","expiresAt":1700000000000}}"#;
    if let Err(why) = entry.set_password(login) {
        println!("not tested here: {why}");
        return;
    }
    let anthropic = crate::provider::registry::find("anthropic").unwrap();
    let keys = super::super::Keys { login: Some(Box::new(ClaudeCode::of(&user))), ..Default::default() };
    let found = keys.keys(anthropic, "anthropic");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].kind.clone(), found[0].secret.expose_secret()),
        (super::super::KeyKind::Claude, "t-in-the-keyring")
    );
    assert_eq!(found[0].expires.map(|at| at.as_second()), Some(1_700_000_000));
    assert!(found[0].origin.to_string().contains("keyring"), "{}", found[0].origin);
    for other in ["openai", "gemini"] {
        assert!(keys.keys(crate::provider::registry::find(other).unwrap(), other).is_empty(), "{other}");
    }
    assert_eq!(entry.get_password().unwrap(), login, "it is only read");
    for odd in ["", "{}", r#"{"claudeAiOauth":{"accessToken":""}}"#, "not json"] {
        entry.set_password(odd).unwrap_or_default();
        assert!(keys.keys(anthropic, "anthropic").is_empty(), "{odd}");
    }
    entry.delete_credential().unwrap();
    assert!(keys.keys(anthropic, "anthropic").is_empty());
}

#[test]
fn a_key_is_kept_and_forgotten() {
    let provider = format!("test-{}", std::process::id());
    let key = SecretString::from(String::from("sk-in-the-keyring"));
    if let Err(why) = Keyring.set(&provider, &key) {
        println!("not tested here: {why}");
        return;
    }
    let service = crate::provider::registry::custom();
    let found = Keyring.keys(service, &provider);
    assert_eq!(found.len(), 1);
    assert!(!format!("{found:?}").contains("sk-in"));
    assert!(Keyring.remove(&provider).unwrap());
    assert!(!Keyring.remove(&provider).unwrap());
    assert!(Keyring.keys(service, &provider).is_empty());
}
