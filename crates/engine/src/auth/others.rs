//! Logins that other agents keep in their own files or in the system's keyring (`keyring.rs`). They are only read: the agent that
//! logged in renews the login.

use std::path::Path;

use jiff::Timestamp;
use rejoin_formats::wire::base64;
use secrecy::SecretString;
use serde_json::Value;

use super::{Key, KeyKind, KeyOrigin, file::read};

/// The key or the ChatGPT login in the folder of Codex.
pub fn codex(folder: &Path) -> Option<Key> {
    let path = folder.join("auth.json");
    let file: Value = serde_json::from_str(&read(&path).ok()?).ok()?;
    let origin = KeyOrigin::OtherTool(path);
    if let Some(key) = file["OPENAI_API_KEY"].as_str().and_then(|key| Key::api(key, origin.clone())) {
        return Some(key);
    }
    let tokens = &file["tokens"];
    let token = tokens["access_token"].as_str()?;
    let claims = claims(token).unwrap_or_default();
    let account = text_of(&tokens["account_id"])
        .or_else(|| text_of(&claims["https://api.openai.com/auth"]["chatgpt_account_id"]));
    Some(Key {
        secret: secret(token)?,
        kind: KeyKind::ChatGpt { account },
        origin,
        expires: claims["exp"].as_i64().and_then(|at| Timestamp::from_second(at).ok()),
    })
}

/// The Claude login in the folder of Claude Code.
pub fn claude(folder: &Path) -> Option<Key> {
    let path = folder.join(".credentials.json");
    let text = read(&path).ok()?;
    claude_login(&text, KeyOrigin::OtherTool(path))
}

/// A Claude login as Claude Code writes it, to its file or to the system's keyring.
pub(super) fn claude_login(text: &str, origin: KeyOrigin) -> Option<Key> {
    let file: Value = serde_json::from_str(text).ok()?;
    let login = &file["claudeAiOauth"];
    Some(Key {
        secret: secret(login["accessToken"].as_str()?)?,
        kind: KeyKind::Claude,
        origin,
        expires: login["expiresAt"].as_i64().and_then(|at| Timestamp::from_millisecond(at).ok()),
    })
}

fn secret(token: &str) -> Option<SecretString> {
    let token = token.trim();
    (!token.is_empty()).then(|| SecretString::from(token))
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).filter(|text| !text.trim().is_empty())
}

/// The claims of a token (the middle part of a JWT), unverified. They are used only where a wrong claim does no harm.
fn claims(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1)?;
    serde_json::from_slice(&base64::decode(payload.as_bytes())?).ok()
}
