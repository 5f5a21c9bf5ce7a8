//! GitHub Copilot apart from its chat: login by a code, exchanging the token, and the required headers.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Shared,
    http::{Reply, Request},
    speak::{Objection, list, seconds, text},
};

/// How Copilot's gate behaves.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The answers to the question whether the user has typed the code, in order. After the last comes the token.
    pub polls: Vec<Poll>,
    /// Seconds between two such questions.
    pub interval: u64,
    /// How long a token lasts.
    pub token_life: Duration,
    /// Whether a GitHub token is taken without being exchanged, and the exchange is refused (COP-01, path B).
    pub direct: bool,
}

impl Default for Gate {
    fn default() -> Self {
        let polls = vec![Poll::Pending, Poll::SlowDown];
        Self { polls, interval: 1, token_life: Duration::from_secs(1500), direct: false }
    }
}

/// An answer before the user has typed the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// The user has not typed it yet.
    Pending,
    /// The polls come too quickly.
    SlowDown,
    /// It is too late.
    Expired,
    /// The user refused.
    Denied,
}

/// The state of the gate.
#[derive(Debug, Default)]
pub(super) struct Guests {
    asked: usize,
    codes: Vec<String>,
    /// Tokens of GitHub.
    known: Vec<String>,
    /// Tokens of Copilot, and when they end.
    tokens: Vec<(String, i64)>,
}

impl Guests {
    /// No token is good any more.
    pub fn expire(&mut self) {
        self.tokens.clear();
    }

    fn knows(&self, token: &str, key: Option<&str>) -> bool {
        let usual = key.is_none() && (token.starts_with("gho_") || token.starts_with("ghu_"));
        usual || key == Some(token) || self.known.iter().any(|known| known == token)
    }
}

/// Returns a code.
pub(super) fn device_code(shared: &Shared, request: &Request) -> Reply {
    if field(request, "client_id").is_none() {
        return Reply::json(404, &json!({"error": "Not Found"}));
    }
    let mut guests = shared.guests();
    let code = format!("{:040x}", 0x3584_d835_u64 + guests.codes.len() as u64);
    guests.codes.push(code.clone());
    guests.asked = 0;
    written(
        request,
        &json!({
            "device_code": code, "user_code": "LOOP-BACK", "verification_uri": "https://github.com/login/device",
            "expires_in": 899, "interval": shared.config.copilot.interval,
        }),
    )
}

/// Answers whether the user has typed the code.
pub(super) fn access_token(shared: &Shared, request: &Request) -> Reply {
    let gate = &shared.config.copilot;
    let mut guests = shared.guests();
    let grant = field(request, "grant_type");
    if grant.as_deref() != Some("urn:ietf:params:oauth:grant-type:device_code") {
        return written(request, &trouble("unsupported_grant_type", "The grant_type is not supported."));
    }
    if !field(request, "device_code").is_some_and(|code| guests.codes.contains(&code)) {
        return written(request, &trouble("incorrect_device_code", "The device_code provided is not valid."));
    }
    let poll = gate.polls.get(guests.asked).copied();
    guests.asked += 1;
    let said = match poll {
        Some(Poll::Pending) => {
            trouble("authorization_pending", "The authorization request is still pending.")
        }
        Some(Poll::SlowDown) => {
            let mut said = trouble("slow_down", "Too many requests have been made in the same timeframe.");
            said["interval"] = json!(gate.interval + 5);
            said
        }
        Some(Poll::Expired) => trouble("expired_token", "This 'device_code' has expired."),
        Some(Poll::Denied) => trouble("access_denied", "The authorization request was denied."),
        None => {
            let token = format!("gho_loopback{:028}", guests.known.len());
            guests.known.push(token.clone());
            json!({"access_token": token, "token_type": "bearer", "scope": "read:user"})
        }
    };
    written(request, &said)
}

fn trouble(error: &str, description: &str) -> Value {
    json!({"error": error, "error_description": description, "error_uri": "https://docs.github.com/developers/apps/authorizing-oauth-apps"})
}

/// Exchanges a token of GitHub for one of Copilot that lasts for a while.
pub(super) fn exchange(shared: &Shared, request: &Request, base: &str) -> Reply {
    let gate = &shared.config.copilot;
    let mut guests = shared.guests();
    let given =
        request.header("authorization").and_then(|value| value.split_once(' ')).map(|(_, token)| token);
    if !given.is_some_and(|token| guests.knows(token, shared.config.key.as_deref())) {
        let refused = json!({"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"});
        return Reply::json(401, &refused);
    }
    if gate.direct {
        return Reply::json(
            403,
            &json!({"message": "Resource not accessible by integration", "status": "403"}),
        );
    }
    let life = i64::try_from(gate.token_life.as_secs()).unwrap_or(i64::MAX);
    let expires = seconds().saturating_add(life);
    let token = format!(
        "tid={:032x};exp={expires};sku=loopback;st=dotcom;chat=1:{:064x}",
        guests.tokens.len(),
        expires
    );
    guests.tokens.push((token.clone(), expires));
    Reply::json(
        200,
        &json!({
            "token": token, "expires_at": expires, "refresh_in": life.saturating_sub(60).max(0), "chat_enabled": true,
            "individual": true, "sku": "loopback",
            "endpoints": {"api": base, "proxy": base, "telemetry": base, "origin-tracker": base},
        }),
    )
}

/// Whether a token is good for asking a model.
pub(super) fn admits(shared: &Shared, token: &str) -> bool {
    let guests = shared.guests();
    let now = seconds();
    let exchanged = guests.tokens.iter().any(|(known, expires)| known == token && now < *expires);
    exchanged || shared.config.copilot.direct && guests.knows(token, shared.config.key.as_deref())
}

/// COP-02 to COP-04: the faults in the headers of a request.
pub(super) fn headers(request: &Request, body: Option<&Value>) -> Vec<Objection> {
    let mut found = Vec::new();
    for (name, shown) in
        [("editor-version", "Editor-Version"), ("copilot-integration-id", "Copilot-Integration-Id")]
    {
        if request.header(name).is_none_or(str::is_empty) {
            let words = format!("bad request: missing {shown} header for IDE auth");
            found.push(Objection::new("COP-02", shown, words));
        }
    }
    let Some(body) = body else { return found };
    let messages = list(body, "messages");
    let parts = messages.iter().flat_map(|message| list(message, "content"));
    let sees = parts.into_iter().any(|part| part["type"] == "image_url");
    if sees && request.header("copilot-vision-request") != Some("true") {
        let words = "missing required Copilot-Vision-Request header for vision requests";
        found.push(Objection::new("COP-03", "Copilot-Vision-Request", words));
    }
    let initiator =
        if messages.last().is_some_and(|last| text(last, "role") == "user") { "user" } else { "agent" };
    if request.header("x-initiator") != Some(initiator) {
        let words = format!("bad request: X-Initiator should be `{initiator}`");
        found.push(Objection::new("COP-04", "X-Initiator", words));
    }
    found
}

/// A field of a form or of a JSON document.
fn field(request: &Request, name: &str) -> Option<String> {
    if let Ok(body) = serde_json::from_slice::<Value>(&request.body) {
        return body[name].as_str().map(str::to_owned);
    }
    let form = String::from_utf8_lossy(&request.body).into_owned();
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    let pairs = form.split('&').chain(query.split('&')).filter_map(|pair| pair.split_once('='));
    pairs.filter(|(given, _)| *given == name).map(|(_, value)| decoded(value)).next()
}

/// A value of a form.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// GitHub's answer: JSON on request, otherwise a form.
fn written(request: &Request, said: &Value) -> Reply {
    if request.header("accept").is_some_and(|accept| accept.contains("json")) {
        return Reply::json(200, said);
    }
    let pairs = said.as_object().into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let letter = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        };
        format!("{name}={}", value.bytes().map(letter).collect::<String>())
    });
    Reply::text(200, "application/x-www-form-urlencoded; charset=utf-8", pairs.collect::<Vec<_>>().join("&"))
}
