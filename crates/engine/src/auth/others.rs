//! Logins that other tools keep in files of their own, or in the system's keyring (`keyring.rs`). They are read and never
//! written: the tool that logged in renews the login.

use std::path::Path;

use jiff::Timestamp;
use rejoin_formats::wire::base64;
use rejoin_record::json::{Doc, Value};
use secrecy::SecretString;

use super::{Key, KeyKind, KeyOrigin, file::read};

/// What Codex keeps in its folder: a key of the API, or the token of a ChatGPT login.
#[must_use]
pub fn codex(folder: &Path) -> Option<Key> {
    let path = folder.join("auth.json");
    let text = read(&path).ok()?;
    let doc = Doc::parse(text.trim()).ok()?;
    let root = doc.root()?;
    if let Some(key) = root.given("OPENAI_API_KEY").and_then(Value::as_str)
        && let Some(key) = Key::api(&key, KeyOrigin::OtherTool(path.clone()))
    {
        return Some(key);
    }
    let tokens = root.given("tokens")?;
    let token = tokens.given("access_token")?.as_str()?;
    let claims = claims(&token);
    let account = text_of(tokens, "account_id").or_else(|| claims.as_ref()?.account.clone());
    Some(Key {
        secret: secret(&token)?,
        kind: KeyKind::ChatGpt { account },
        origin: KeyOrigin::OtherTool(path),
        expires: claims.and_then(|claims| claims.expires),
    })
}

/// What Claude Code keeps in its folder: the token of a Claude login.
#[must_use]
pub fn claude(folder: &Path) -> Option<Key> {
    let path = folder.join(".credentials.json");
    let text = read(&path).ok()?;
    claude_login(&text, KeyOrigin::OtherTool(path))
}

/// A Claude login as Claude Code writes it, to its file or to the system's keyring.
pub(super) fn claude_login(text: &str, origin: KeyOrigin) -> Option<Key> {
    let doc = Doc::parse(text.trim()).ok()?;
    let login = doc.root()?.given("claudeAiOauth")?;
    let token = login.given("accessToken")?.as_str()?;
    let expires = login.given("expiresAt").and_then(Value::as_u64);
    Some(Key {
        secret: secret(&token)?,
        kind: KeyKind::Claude,
        origin,
        expires: expires.and_then(|at| Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()),
    })
}

fn secret(token: &str) -> Option<SecretString> {
    let token = token.trim();
    (!token.is_empty()).then(|| SecretString::from(token))
}

fn text_of(value: Value<'_>, name: &str) -> Option<String> {
    value.given(name)?.as_str().map(std::borrow::Cow::into_owned).filter(|text| !text.trim().is_empty())
}

/// What a token says about itself. It is believed only where being wrong does no harm.
struct Claims {
    expires: Option<Timestamp>,
    account: Option<String>,
}

fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    let json = String::from_utf8(base64::decode(payload.as_bytes())?).ok()?;
    let doc = Doc::parse(&json).ok()?;
    let root = doc.root()?;
    let expires = root.given("exp").and_then(Value::as_u64);
    Some(Claims {
        expires: expires.and_then(|at| Timestamp::from_second(i64::try_from(at).ok()?).ok()),
        account: root
            .given("https://api.openai.com/auth")
            .and_then(|auth| text_of(auth, "chatgpt_account_id")),
    })
}
