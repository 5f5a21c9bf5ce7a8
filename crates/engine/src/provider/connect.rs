//! Connects: finds the table row, the address, the key and the request fields of the wanted provider.

use std::sync::Arc;

use rejoin_formats::wire::settings::{AnswerLimit, RequestSettings, SettingFields};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::{
    Endpoint, Provider, ProviderError, ServiceAddress, catalogue,
    http::{HttpOptions, HttpProvider, ServiceSettings},
    offline::{self, Offline},
    registry::{self, Api, AuthStyle, KeyUse, Login, Service},
};
use crate::{
    auth::{Key, KeyKind, KeySource, copilot},
    clock::{Clock as _, SystemClock},
    provider_choice::ProviderChoice,
};

/// The longest answer to request, in tokens, for a model that the catalogue does not know: Anthropic requires a limit.
const MAX_TOKENS: u64 = 8_192;

/// The longest answer to request, in tokens, even if the model allows more: the limit counts against the window.
const MOST_TOKENS: u64 = 32_000;

/// Makes the wanted provider, or the built-in responder. Nothing is sent yet.
///
/// # Errors
/// [`ProviderError::NoKey`] if it needs a key and there is none; otherwise the reason why there is no such provider.
pub fn connect(
    wanted: &ProviderChoice,
    keys: &dyn KeySource,
    options: &HttpOptions,
) -> Result<Arc<dyn Provider>, ProviderError> {
    if wanted.provider.as_deref() == Some(offline::NAME) {
        return Ok(Arc::new(Offline::new(wanted.model.as_deref().unwrap_or(offline::MODEL))));
    }
    Ok(Arc::new(wire(wanted, keys, options)?))
}

pub(crate) fn wire(
    wanted: &ProviderChoice,
    keys: &dyn KeySource,
    options: &HttpOptions,
) -> Result<HttpProvider, ProviderError> {
    let given = wanted.base_url.as_deref().map(str::trim).filter(|url| !url.is_empty());
    let (service, name) = named(wanted.provider.as_deref().unwrap_or_default(), given.is_some())?;
    if given.is_none() && service.base_url.is_empty() {
        return Err(ProviderError::Other(format!(
            "the address of {name} is not known: give it with `--base-url`"
        )));
    }
    let key = match usable(keys.keys(service, &name), wanted, given.is_some()) {
        Ok(None) if service.key_use == KeyUse::Needed && given.is_none() => Err(no_key(service, &name)),
        Err(expired) if service.key_use == KeyUse::Needed => Err(ProviderError::NoKey {
            provider: name.clone(),
            hint: format!("the login in {} has expired: log in again where it comes from", expired.origin),
        }),
        found => Ok(found.unwrap_or(None)),
    }?;
    let login = key.as_ref().map(|key| &key.kind);
    let api = api_of(service, wanted, given.is_some())?;
    let base = match (given, login) {
        (Some(url), _) => url,
        (None, Some(KeyKind::ChatGpt { .. })) => &options.addresses.chatgpt,
        (None, Some(KeyKind::Claude)) => &options.addresses.claude,
        (None, _) => service.base_url,
    };
    let base = address(base, &name)?;
    if key.is_some() && base.starts_with("http://") && !super::http::is_local(&base) {
        tracing::warn!("the key for {name} goes to {} unencrypted", super::http::public(&base));
    }
    let model = wanted.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let model = model.unwrap_or(service.default_model).to_owned();
    let headers = headers(service, key.as_ref(), &name)?;
    let path = api.path.replace("{model}", &in_path(&model));
    let account = key.as_ref().map(Key::account);
    let url = at(&base, &path);
    let endpoint = Endpoint {
        provider: name,
        dialect: Some(api.dialect),
        model,
        address: ServiceAddress {
            url: Some(super::http::public(&url)),
            base_url: given.map(super::http::public),
        },
        account,
    };
    let fields = fields(service, api, wanted, &endpoint.model, login);
    let copilot = (service.login == Some(Login::Copilot))
        .then(|| key.as_ref().map(|key| copilot::Session::new(key.secret.clone(), given.is_none(), options)))
        .flatten();
    let models_url = at(&base, service.models_path);
    let base = without_query(&base).0.to_owned();
    let replays_reasoning = service.quirks.replays_reasoning;
    let version = api.dialect.wire().version.filter(|version| given.is_some() && !base.ends_with(version));
    let secret = key.map(|key| key.secret);
    Ok(HttpProvider::new(
        ServiceSettings {
            endpoint,
            base,
            url,
            models_url,
            version,
            headers,
            fields,
            secret,
            copilot,
            replays_reasoning,
        },
        options,
    ))
}

/// The hash, as [`Key::account`] makes it, of the key that a provider's requests carry to an address other than the provider's own.
pub fn account_elsewhere(provider: &str, keys: &dyn KeySource) -> Option<String> {
    let (service, name) = named(provider, true).ok()?;
    let key = usable(keys.keys(service, &name), &ProviderChoice::default(), true).ok().flatten();
    key.as_ref().map(Key::account)
}

/// The table row for a name, and the name to show.
fn named(name: &str, has_address: bool) -> Result<(&'static Service, String), ProviderError> {
    if let Some(service) = registry::find(name) {
        return Ok((service, service.name.to_owned()));
    }
    let name = name.trim();
    if has_address && !name.is_empty() {
        return Ok((registry::custom(), name.to_owned()));
    }
    let names: Vec<&str> = registry::all().map(|service| service.name).collect();
    Err(ProviderError::Other(format!(
        "no provider is called `{name}`; there are {}, and any other with `--base-url`",
        names.join(", ")
    )))
}

/// The first key that has not expired; if there is none, the first expired one as the error. Logins are only sent to their own
/// address.
fn usable(keys: Vec<Key>, wanted: &ProviderChoice, has_address: bool) -> Result<Option<Key>, Key> {
    let chat = wanted.api.as_deref().is_some_and(|api| api.eq_ignore_ascii_case("chat"));
    let now = SystemClock.now();
    let mut expired = None;
    for key in keys {
        let fits = match key.kind {
            KeyKind::Api => true,
            KeyKind::ChatGpt { .. } => !has_address && !chat,
            KeyKind::Claude => !has_address,
        };
        match (fits, key.has_expired(now)) {
            (true, false) => return Ok(Some(key)),
            (true, true) => expired = expired.or(Some(key)),
            (false, _) => {}
        }
    }
    expired.map_or(Ok(None), Err)
}

fn no_key(service: &Service, name: &str) -> ProviderError {
    let variable = service.variables(name).into_iter().next().unwrap_or_default();
    let hint = match service.login {
        Some(Login::Copilot) => format!("`rejoin auth login {name}`"),
        _ => format!("set {variable} or `rejoin auth login {name}`; a key: {}", service.get_a_key),
    };
    ProviderError::NoKey { provider: name.to_owned(), hint }
}

/// The API to use. At an address other than its own, `openai` means Chat Completions unless an API is named: most servers speak
/// that.
fn api_of(
    service: &'static Service,
    wanted: &ProviderChoice,
    has_address: bool,
) -> Result<&'static Api, ProviderError> {
    let usual = if has_address && service.apis.len() > 1 { Some("chat") } else { None };
    let named = wanted.api.as_deref().or(usual);
    service.api(named).ok_or_else(|| {
        let names: Vec<&str> = service.apis.iter().map(|api| api.name).collect();
        let asked = named.unwrap_or_default();
        let provider = service.name;
        ProviderError::Other(format!("{provider} has no API `{asked}`; it has {}", names.join(", ")))
    })
}

/// Whether a text can be a base address: it begins with `http://` or `https://`, names a host and holds no whitespace.
pub fn is_address(url: &str) -> bool {
    let url = url.trim().trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty()) && !url.contains(char::is_whitespace)
}

/// An address without its final slash.
fn address(url: &str, name: &str) -> Result<String, ProviderError> {
    let url = url.trim().trim_end_matches('/');
    if is_address(url) {
        return Ok(url.to_owned());
    }
    Err(ProviderError::Other(format!(
        "the address of {name} must begin with http:// or https://: {}",
        crate::auth::redact::harmless(&super::http::public(url), 120)
    )))
}

/// The URL of a path at a base address. The query of the base address stays at the end.
fn at(base: &str, path: &str) -> String {
    let (base, query) = without_query(base);
    match query {
        "" => format!("{base}{path}"),
        query => format!("{base}{path}{}{query}", if path.contains('?') { '&' } else { '?' }),
    }
}

/// An address without its query, and the query.
fn without_query(url: &str) -> (&str, &str) {
    let url = url.split('#').next().unwrap_or("");
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    (url.trim_end_matches('/'), query)
}

/// A model's name as a part of a URL. Slashes stay, because names of fine-tuned models contain one.
fn in_path(model: &str) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    // A step of dots would lead out of the path; then the slashes are escaped.
    let climbs = model.split('/').any(|step| matches!(step, "." | ".."));
    let mut out = String::new();
    for byte in model.bytes() {
        match byte {
            b'/' if climbs => out.push_str("%2F"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn headers(service: &Service, key: Option<&Key>, name: &str) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    for (name, value) in service.headers {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let Some(key) = key else { return Ok(headers) };
    // Copilot's key is exchanged for a token before each request.
    if service.login == Some(Login::Copilot) {
        return Ok(headers);
    }
    let unusable = || ProviderError::NoKey {
        provider: name.to_owned(),
        hint: format!("the key from {} contains characters that a key never has: copy it again", key.origin),
    };
    let (header, value) = match (&key.kind, service.auth) {
        (KeyKind::Api, AuthStyle::Header(header)) => (header, secret_value(key.secret.expose_secret())),
        _ => ("authorization", secret_value(&format!("Bearer {}", key.secret.expose_secret()))),
    };
    headers.insert(HeaderName::from_static(header), value.ok_or_else(unusable)?);
    match &key.kind {
        KeyKind::Api => {}
        KeyKind::Claude => {
            headers.insert("anthropic-beta", HeaderValue::from_static("oauth-2025-04-20"));
        }
        KeyKind::ChatGpt { account } => {
            headers.insert("openai-beta", HeaderValue::from_static("responses=experimental"));
            headers.insert("originator", HeaderValue::from_static("rejoin"));
            if let Some(account) = account {
                headers.insert("chatgpt-account-id", secret_value(account).ok_or_else(unusable)?);
            }
        }
    }
    Ok(headers)
}

/// A header value that is not shown in logs.
pub(crate) fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The request fields other than messages, instructions, tools and model.
fn fields(
    service: &Service,
    api: &Api,
    wanted: &ProviderChoice,
    model: &str,
    login: Option<&KeyKind>,
) -> SettingFields {
    let known = catalogue::known(model);
    let usual = || known.map_or(MAX_TOKENS, |family| family.max_output.min(MOST_TOKENS));
    (api.dialect.wire().settings)(&RequestSettings {
        limit: wanted.answer.max_tokens.map_or_else(|| AnswerLimit::Usual(usual()), AnswerLimit::Set),
        quirks: service.quirks,
        effort: wanted.answer.effort,
        thinking: known.map(|family| family.thinking),
        is_subscription: matches!(login, Some(KeyKind::ChatGpt { .. })),
    })
}

#[cfg(test)]
mod tests;
