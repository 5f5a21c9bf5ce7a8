//! Turns an error of a provider into a [`ProviderError`]: its kind, and the provider's message, short and without control characters.
//!
//! Each service has its own shape of error. One reader handles all shapes, because services of one dialect mix them. Codes decide
//! first; the words of the message decide only if no code does.

use std::time::Duration;

use rejoin_record::json::{Doc, Value, ValueKind};
use secrecy::SecretString;

use super::super::error::{ProviderError, ProviderFault};
use crate::auth::redact::{harmless, redact};

/// The most characters of a message. Providers quote parts of the request in it.
pub const MESSAGE_CHARACTERS: usize = 600;

/// The most characters of the name of a kind of error.
pub const KIND_CHARACTERS: usize = 60;

/// The most characters of an excerpt of a body that is not an answer.
pub const EXCERPT_CHARACTERS: usize = 120;

/// An error, as a provider sent it.
pub struct ErrorAnswer<'a> {
    /// The provider's name, for messages.
    pub provider: &'a str,
    /// The HTTP status; `None` if the error came in the middle of a stream.
    pub status: Option<u16>,
    /// The beginning of the body.
    pub body: &'a str,
    /// The secrets that the error must not contain.
    pub secrets: &'a [&'a SecretString],
    /// The time after which the headers allow another attempt.
    pub retry_after: Option<Duration>,
    /// Whether the headers forbid another attempt.
    pub is_final: bool,
}

/// An attempt that failed.
#[derive(Debug)]
pub struct FailedAttempt {
    /// Why it failed.
    pub error: ProviderError,
    /// Whether the same request may be sent again.
    pub again: bool,
}

impl FailedAttempt {
    /// A failure after which the request is sent again if the error is transient.
    pub fn of(error: ProviderError) -> Self {
        let again = error.is_transient();
        Self { error, again }
    }

    /// A failure after which the request is not sent again.
    pub fn last(error: ProviderError) -> Self {
        Self { error, again: false }
    }
}

/// The fields of an error body, whatever its shape.
#[derive(Debug, Default)]
struct ErrorBody {
    message: String,
    /// The name of the kind of error, for messages.
    kind: Option<String>,
    /// Every code in the body that may name the kind.
    codes: Vec<String>,
    retry_after: Option<Duration>,
}

impl ErrorAnswer<'_> {
    /// Decides which error it is.
    pub fn failure(&self) -> FailedAttempt {
        let mut said = read_error(self.body);
        if said.message.is_empty() {
            said.message = words_of(self.status, self.body);
        }
        let lower = said.message.to_lowercase();
        let codes = &said.codes;
        let has = |names: &[&str]| {
            codes.iter().any(|code| names.iter().any(|name| code.eq_ignore_ascii_case(name)))
        };
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let status = self.status.unwrap_or(0);
        let retry_after = self.retry_after.or(said.retry_after);
        // Remove secrets before shortening: a cut must not leave half of a secret.
        let clean = |text: &str, characters| harmless(&redact(text, self.secrets), characters);
        let kind = said.kind.as_deref().map(|kind| clean(kind, KIND_CHARACTERS));
        let message = clean(&said.message, MESSAGE_CHARACTERS);
        let fault = ProviderFault { provider: self.provider.to_owned(), status: self.status, kind, message };

        if status == 402 || has(NO_MONEY) || says(NO_MONEY_WORDS) {
            return FailedAttempt::last(ProviderError::RateLimited { fault, retry_after: None });
        }
        let may_be_long = !matches!(status, 401 | 403 | 404);
        if status == 413 || may_be_long && (has(TOO_LONG) || is_too_long(&lower)) {
            return FailedAttempt::last(ProviderError::ContextLength(fault));
        }
        if status == 401 || has(NO_ACCESS) || says(NO_ACCESS_WORDS) {
            return FailedAttempt::last(ProviderError::Unauthorized(fault));
        }
        // The Responses API answers 404 for an item of the history that it does not keep.
        let is_item = lower.starts_with("item with id");
        if !is_item && (matches!(status, 404 | 405 | 410) || has(NO_MODEL) || says(NO_MODEL_WORDS)) {
            return FailedAttempt::last(ProviderError::NotFound(fault));
        }
        let error = match status {
            403 if says(&["flagged", "moderation"]) => ProviderError::Refused(fault),
            403 => ProviderError::Unauthorized(fault),
            429 => ProviderError::RateLimited { fault, retry_after },
            408 | 409 | 425 | 500 | 502..=504 | 506..=599 => {
                ProviderError::Unavailable { fault, retry_after }
            }
            0 if has(TOO_MANY) => ProviderError::RateLimited { fault, retry_after },
            0 if !has(INVALID) => ProviderError::Unavailable { fault, retry_after },
            _ => ProviderError::Refused(fault),
        };
        FailedAttempt { again: error.is_transient() && !self.is_final, error }
    }
}

const NO_MONEY: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient_balance",
];
const NO_MONEY_WORDS: &[&str] =
    &["credit balance is too low", "insufficient balance", "insufficient credits"];

const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "request_too_large",
    "model_max_prompt_tokens_exceeded",
    "exceed_context_size_error",
];

/// Pairs of phrases that services use for this error; the message must contain both.
const TOO_LONG_WORDS: &[(&str, &str)] = &[
    ("maximum context length", ""),
    ("maximum prompt length", ""),
    ("prompt is too long", ""),
    ("input is too long", ""),
    ("exceed context limit", ""),
    ("request exceeds the maximum size", ""),
    ("reduce the length of the messages", ""),
    ("request too large for", ""),
    ("available context size", ""),
    ("max_new_tokens", "must be <="),
    ("context window", "exceed"),
    ("context length", "exceed"),
    ("context length", "greater than"),
    ("context length", "overflow"),
    ("input token count", "exceed"),
    ("prompt token count", "exceed"),
    ("too large for model with", "context"),
];

fn is_too_long(lower: &str) -> bool {
    TOO_LONG_WORDS.iter().any(|(one, other)| lower.contains(one) && lower.contains(other))
}

const NO_ACCESS: &[&str] = &[
    "invalid_api_key",
    "api_key_invalid",
    "authentication_error",
    "invalid_authentication",
    "unauthenticated",
    "account_deactivated",
];
const NO_ACCESS_WORDS: &[&str] =
    &["api key not valid", "incorrect api key", "invalid api key", "invalid api-key", "missing api key"];

const NO_MODEL: &[&str] =
    &["model_not_found", "model_not_supported", "invalid_model", "model_decommissioned", "not_found_error"];
const NO_MODEL_WORDS: &[&str] =
    &["is not a valid model id", "model not exist", "invalid model:", "unknown model", "unsupported model"];

/// Codes that replace a status in the middle of a stream.
const TOO_MANY: &[&str] = &["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "429"];
const INVALID: &[&str] = &[
    "invalid_request_error",
    "invalid_argument",
    "failed_precondition",
    "invalid_prompt",
    "invalid_encrypted_content",
    "400",
    "422",
];

/// A message for an error body without one.
fn words_of(status: Option<u16>, body: &str) -> String {
    let reason = status
        .and_then(|status| reqwest::StatusCode::from_u16(status).ok())
        .and_then(|status| status.canonical_reason())
        .unwrap_or("no reason given");
    match is_markup(body) {
        true => format!("{reason} (a web page, not an answer of an API)"),
        false => String::from(reason),
    }
}

/// Whether a body is a web page.
pub fn is_markup(body: &str) -> bool {
    body.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with('<')
}

/// Reads the body of an error in any shape. If it is not JSON, the body itself is the message, unless it is a web page.
fn read_error(body: &str) -> ErrorBody {
    let doc = Doc::parse(body.trim_start_matches('\u{feff}').trim());
    let Some(root) = doc.as_ref().ok().and_then(Doc::root) else {
        let message = if is_markup(body) { String::new() } else { body.trim().to_owned() };
        return ErrorBody { message, ..ErrorBody::default() };
    };
    // Gemini wraps it in a list when it streams.
    let root = match root.kind() {
        ValueKind::Array => root.items().next().unwrap_or(root),
        _ => root,
    };
    let mut said = ErrorBody::default();
    let holder = root.given("error").filter(|error| error.kind() == ValueKind::Object).unwrap_or(root);
    let first = |holders: [Value<'_>; 2], names: &[&str]| {
        let texts = holders.into_iter().flat_map(|holder| names.iter().map(move |name| holder.given(name)));
        texts.flatten().find_map(|value| value.as_str().map(std::borrow::Cow::into_owned))
    };
    said.message = first([holder, root], &["message", "error", "detail", "msg", "error_description"])
        .or_else(|| details(root.given("detail")?))
        .unwrap_or_default();
    let kinds = [holder, root]
        .into_iter()
        .flat_map(|holder| ["code", "type", "status"].into_iter().filter_map(move |name| holder.given(name)));
    for kind in kinds {
        match kind.kind() {
            ValueKind::String => said.codes.extend(kind.as_str().map(std::borrow::Cow::into_owned)),
            ValueKind::Number => said.codes.push(kind.raw().to_owned()),
            _ => {}
        }
    }
    for detail in holder.given("details").into_iter().flat_map(Value::items) {
        said.codes.extend(detail.given("reason").and_then(Value::as_str).map(std::borrow::Cow::into_owned));
        let delay = detail.given("retryDelay").and_then(Value::as_str);
        said.retry_after = said.retry_after.or_else(|| seconds(delay?.strip_suffix('s')?));
    }
    // A router quotes the error of the service that it forwards to.
    if let Some(raw) = holder.given("metadata").and_then(|metadata| metadata.given("raw")) {
        let raw = raw.as_str().map_or_else(|| raw.raw().to_owned(), std::borrow::Cow::into_owned);
        let inner = read_quoted(&raw);
        if !inner.message.is_empty() {
            said.message = format!("{}: {}", said.message, inner.message);
            said.codes.extend(inner.codes);
        }
    }
    said.kind = said.codes.iter().find(|code| code.parse::<u64>().is_err() && *code != "error").cloned();
    said
}

/// Reads the error that a router quotes. Quotes inside that error are not followed: a router may quote itself without end.
fn read_quoted(raw: &str) -> ErrorBody {
    let doc = Doc::parse(raw.trim());
    let Some(root) = doc.as_ref().ok().and_then(Doc::root) else {
        return ErrorBody { message: raw.trim().to_owned(), ..ErrorBody::default() };
    };
    let holder = root.given("error").filter(|error| error.kind() == ValueKind::Object).unwrap_or(root);
    let text = |name| holder.given(name).and_then(Value::as_str).map(std::borrow::Cow::into_owned);
    let message = text("message").or_else(|| text("error")).unwrap_or_default();
    let codes = ["code", "type"].into_iter().filter_map(text).collect();
    ErrorBody { message, codes, ..ErrorBody::default() }
}

/// The message of a list of invalid fields, with their paths.
fn details(list: Value<'_>) -> Option<String> {
    let mut out = String::new();
    for detail in list.items().take(5) {
        let message = detail.given("msg").and_then(Value::as_str)?;
        let path: Vec<String> = detail
            .given("loc")
            .into_iter()
            .flat_map(Value::items)
            .map(|step| step.as_str().map_or_else(|| step.raw().to_owned(), std::borrow::Cow::into_owned))
            .collect();
        if !out.is_empty() {
            out.push_str("; ");
        }
        out.push_str(&format!("{}: {message}", path.join(".")));
    }
    (!out.is_empty()).then_some(out)
}

/// Parses seconds, with or without a fraction.
pub fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The wait that the headers ask for: in milliseconds, in seconds, or until a date by the server's clock.
pub fn retry_after(header: impl Fn(&str) -> Option<String>, now: jiff::Timestamp) -> Option<Duration> {
    if let Some(wait) = header("retry-after-ms").and_then(|text| seconds(&text)) {
        return Some(wait / 1000);
    }
    let text = header("retry-after")?;
    if let Some(wait) = seconds(&text) {
        return Some(wait);
    }
    let date = |text: &str| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok();
    let then = date(&text)?;
    let now = header("date").and_then(|text| date(&text)).unwrap_or(now);
    Some(Duration::try_from(then.duration_since(now)).unwrap_or_default())
}
