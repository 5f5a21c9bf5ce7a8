//! One attempt: sends the request, checks the status, and reads the answer.

use std::time::Duration;

use rejoin_formats::{
    Dialect,
    wire::stream::{End, Received, StreamDecoder},
};
use rejoin_record::json::Object;
use reqwest::{
    RequestBuilder, Response,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION},
};
use secrecy::SecretString;

use super::{
    Client,
    refusal::{self, EXCERPT_CHARACTERS, ErrorAnswer, FailedAttempt, KIND_CHARACTERS, MESSAGE_CHARACTERS},
};
use crate::{
    auth::redact::{harmless, redact},
    clock::{Clock, SystemClock},
    provider::{Listener, ProviderError, SendProgress},
    turn,
};

/// How many bytes of an error are read, at most.
const ERROR_BYTES: usize = 64 * 1024;

/// How many bytes of a body that is not an answer are shown, at most.
const HEAD_BYTES: usize = 1024;

/// One attempt to send a request.
pub struct Attempt<'a> {
    /// The client that sends it.
    pub client: &'a Client,
    /// The address without secrets, for messages.
    pub shown: &'a str,
    /// The secrets that no error may contain.
    pub secrets: &'a [&'a SecretString],
}

impl Attempt<'_> {
    /// Sends the request, and returns the response if its status is a success.
    pub async fn begin(&self, request: RequestBuilder) -> Result<Response, FailedAttempt> {
        let request = request.header(ACCEPT_ENCODING, "identity");
        let mut response = request.send().await.map_err(|error| self.lost(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if status.is_redirection() {
            let to = text_of(response.headers(), LOCATION.as_str()).unwrap_or_default();
            let to = super::client::public(&to);
            return Err(self.garbage(&format!("{} sends elsewhere: {to}", self.shown)));
        }
        let headers = response.headers().clone();
        let retry_after = refusal::retry_after(|name| text_of(&headers, name), SystemClock.now());
        let is_final = text_of(&headers, "x-should-retry").as_deref() == Some("false");
        // Part of an error body is still an error.
        let body = self.read(&mut response, ERROR_BYTES).await.0;
        Err(ErrorAnswer {
            provider: self.client.provider(),
            status: Some(status.as_u16()),
            body: &String::from_utf8_lossy(&body),
            secrets: self.secrets,
            retry_after,
            is_final,
        }
        .failure())
    }

    /// Reads an answer. Once its first byte has arrived, a failure is reported as the end of the answer, not as an error.
    pub async fn listen(
        &self,
        mut response: Response,
        dialect: Dialect,
        mut decoder: Box<dyn StreamDecoder>,
        listener: Listener<'_>,
        stop: &turn::Stop,
    ) -> Result<Received, FailedAttempt> {
        let content_type = text_of(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
        let media = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        if media == "text/html" || media == "application/xhtml+xml" {
            let head = self.read(&mut response, HEAD_BYTES).await.0;
            return Err(self.not_an_answer("a web page", &head));
        }
        let options = self.client.options();
        let (mut head, mut deltas) = (Vec::new(), Vec::new());
        let (mut total, mut line) = (0, 0);
        let (mut too_long, mut silent) = (None, false);
        // The client's own timeout is not enough: bytes without content must not restart it.
        let mut silence = std::pin::pin!(tokio::time::sleep(options.read_timeout));
        while !decoder.is_done() {
            let next = tokio::select! {
                biased;
                next = response.chunk() => next,
                // The turn was stopped: keep what has arrived.
                () = stop.asked() => break,
                () = &mut silence => {
                    silent = true;
                    break;
                }
            };
            let said_before = decoder.events_with_content();
            let bytes = match next {
                Ok(None) => break,
                Ok(Some(bytes)) if bytes.is_empty() => continue,
                Ok(Some(bytes)) => bytes,
                Err(error) if total == 0 => return Err(self.lost(error)),
                Err(error) => {
                    let why = self.lost(error).error;
                    tracing::warn!(provider = self.client.provider(), %why, "the answer was cut off");
                    break;
                }
            };
            total += bytes.len();
            if head.len() < HEAD_BYTES {
                head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES - head.len())]);
            }
            line = match bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                Some(at) => bytes.len() - at - 1,
                None => line + bytes.len(),
            };
            decoder.feed(&bytes, &mut deltas);
            deltas.drain(..).for_each(|delta| listener(SendProgress::Delta(delta)));
            if line > options.longest_line {
                too_long = Some(format!("a line of more than {} bytes", options.longest_line));
            } else if total - line > options.longest_answer.saturating_add(decoder.repeated()) {
                too_long = Some(format!("more than {} bytes", options.longest_answer));
            }
            if too_long.is_some() {
                break;
            }
            if said_before != decoder.events_with_content() {
                silence.as_mut().reset(tokio::time::Instant::now() + options.read_timeout);
            } else if silence.is_elapsed() {
                silent = true;
                break;
            }
            // Check here, too: a stream that always has more bytes ready would otherwise prevent a stop.
            if stop.is_stopped() && !decoder.is_done() {
                break;
            }
        }
        if total == 0 {
            return Err(if silent { self.silent(true) } else { FailedAttempt::last(ProviderError::Empty) });
        }
        let mut received = decoder.finish();
        if silent && received.message.is_none() {
            return Err(self.silent(false));
        }
        if let Some(why) = too_long {
            received.end = End::Garbage(why);
        } else if received.message.is_none() && received.end == End::Cut && !is_begun(&head, dialect) {
            received.end = End::Garbage(String::from("no stream"));
        }
        self.judge(received, &head)
    }

    /// Turns a failed answer without content into an error. For other failures, removes secrets from the reason.
    fn judge(&self, mut received: Received, head: &[u8]) -> Result<Received, FailedAttempt> {
        match &mut received.end {
            End::Failed(fault) => {
                if received.message.is_none() {
                    return Err(self.in_stream(fault.kind.as_deref(), &fault.message));
                }
                let clean = |text: &str, characters| harmless(&redact(text, self.secrets), characters);
                fault.message = clean(&fault.message, MESSAGE_CHARACTERS);
                fault.kind = fault.kind.as_deref().map(|kind| clean(kind, KIND_CHARACTERS));
            }
            End::Garbage(why) => {
                if received.message.is_none() {
                    let why = why.clone();
                    return Err(self.not_an_answer(&why, head));
                }
                *why = harmless(&redact(why, self.secrets), EXCERPT_CHARACTERS);
            }
            End::Complete(_) | End::Cut => {}
        }
        Ok(received)
    }

    /// An error that came in a stream before any content.
    fn in_stream(&self, kind: Option<&str>, message: &str) -> FailedAttempt {
        let body = Object::new().text_if("type", kind).text("message", message).finish();
        ErrorAnswer {
            provider: self.client.provider(),
            status: None,
            body: &body,
            secrets: self.secrets,
            retry_after: None,
            // Part of an answer has arrived, so the request is not repeated, whatever the error.
            is_final: true,
        }
        .failure()
    }

    /// The error for a body that is not an answer, with the beginning of that body.
    pub fn not_an_answer(&self, why: &str, head: &[u8]) -> FailedAttempt {
        let head = String::from_utf8_lossy(&head[..head.len().min(HEAD_BYTES)]);
        self.garbage(&format!("{why}, beginning with: {head}"))
    }

    fn garbage(&self, why: &str) -> FailedAttempt {
        let why = harmless(&redact(why, self.secrets), 2 * EXCERPT_CHARACTERS);
        FailedAttempt::last(ProviderError::Garbage(why))
    }

    /// The error for a provider that was silent for too long. The request is repeated only if no byte arrived.
    fn silent(&self, again: bool) -> FailedAttempt {
        let after = self.client.options().read_timeout;
        let error = ProviderError::TimedOut { provider: self.client.provider().to_owned(), after };
        FailedAttempt { error, again }
    }

    fn lost(&self, error: reqwest::Error) -> FailedAttempt {
        self.client.failure(error, self.shown, self.client.options().read_timeout)
    }

    /// Reads a body that is not streamed, up to a limit, and returns whether its end was reached. It must arrive completely within
    /// the time that a provider may be silent.
    async fn read(&self, response: &mut Response, limit: usize) -> (Vec<u8>, Result<bool, FailedAttempt>) {
        let mut out = Vec::new();
        let deadline = tokio::time::Instant::now() + self.client.options().read_timeout;
        loop {
            match tokio::time::timeout_at(deadline, response.chunk()).await {
                Err(_) => return (out, Err(self.silent(true))),
                Ok(Ok(None)) => return (out, Ok(true)),
                Ok(Err(error)) => return (out, Err(self.lost(error))),
                Ok(Ok(Some(bytes))) => {
                    let room = limit - out.len();
                    out.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if bytes.len() > room {
                        return (out, Ok(false));
                    }
                }
            }
        }
    }

    /// Sends a request, and returns its body, which is not streamed and is limited in size.
    pub async fn fetch(&self, request: RequestBuilder, limit: usize) -> Result<String, FailedAttempt> {
        let mut response = self.begin(request).await?;
        let (bytes, ended) = self.read(&mut response, limit).await;
        match ended {
            Err(failure) => Err(failure),
            Ok(false) => Err(self.garbage(&format!("more than {limit} bytes"))),
            Ok(true) => {
                String::from_utf8(bytes).map_err(|error| self.not_an_answer("no text", error.as_bytes()))
            }
        }
    }
}

/// Whether these bytes may be the beginning of a stream, even if they are few.
fn is_begun(head: &[u8], dialect: Dialect) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if dialect.wire().streams_lines {
        return head.starts_with(b"{");
    }
    [&b"data"[..], b"event", b"id", b"retry", b":"]
        .iter()
        .any(|word| head.starts_with(word) || word.starts_with(head))
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Decides whether to try again, and waits for the next attempt.
pub struct Patience {
    waits: backon::ExponentialBackoff,
    longest: Duration,
    attempt: u32,
}

impl Patience {
    /// A policy with the waits of the client's options.
    pub fn new(client: &Client) -> Self {
        use backon::BackoffBuilder as _;
        let options = client.options();
        let waits = backon::ExponentialBuilder::new()
            .with_min_delay(options.first_wait)
            .with_factor(2.0)
            .with_max_delay(options.longest_wait)
            .with_max_times(usize::try_from(options.retries).unwrap_or(usize::MAX))
            .build();
        Self { waits, longest: options.longest_retry_after, attempt: 1 }
    }

    /// Waits for the next attempt and reports it.
    ///
    /// # Errors
    /// The failure itself, if there is no further attempt.
    pub async fn wait(
        &mut self,
        failure: FailedAttempt,
        listener: Listener<'_>,
    ) -> Result<(), ProviderError> {
        let FailedAttempt { error, again } = failure;
        let Some(backoff) = self.waits.next().filter(|_| again) else { return Err(error) };
        let wait = match error.retry_after() {
            // An attempt before that time would be refused again.
            Some(asked) if asked > self.longest => return Err(error),
            Some(asked) if !asked.is_zero() => asked,
            _ => backoff,
        };
        self.attempt += 1;
        let why = error.to_string();
        tracing::info!(attempt = self.attempt, ?wait, why, "trying again");
        listener(SendProgress::Retrying { attempt: self.attempt, wait, why });
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
