//! The HTTP client for MCP servers. It takes the same precautions as the client for providers, and limits the size of every answer,
//! which the library's own client does not.

#![expect(
    clippy::mutable_key_type,
    reason = "the library wants maps of header names, and names never change"
)]

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream, stream::BoxStream};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    service::ClientInitializeError,
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
        StreamableHttpPostResponse,
    },
};
use secrecy::{ExposeSecret as _, SecretString};
use sse_stream::{Sse, SseStream};

use super::flood::{LARGEST_MESSAGE, too_large};
use crate::{
    auth::redact::harmless,
    provider::http::{Client, HttpOptions, public},
};

/// How many bytes of an answer that is not a message are read for the error text.
const REFUSAL: usize = 64 * 1024;

/// The header by which a server recognises its session.
const SESSION: &str = "mcp-session-id";

type Headers = HashMap<HeaderName, HeaderValue>;
type HttpError = StreamableHttpError<reqwest::Error>;

/// A client for an address, and its configuration.
pub(super) fn client(
    url: &str,
    headers: &[(String, SecretString)],
) -> Result<(BoundedClient, StreamableHttpClientTransportConfig), String> {
    // The stream of the server's own messages may be silent for a long time.
    let options = HttpOptions { read_timeout: Duration::from_secs(24 * 3600), ..HttpOptions::default() };
    let client = Client::new("the MCP server", url, &options);
    let client = BoundedClient(client.get().map_err(|why| why.to_string())?.clone());
    let mut fields = Headers::new();
    for (name, value) in headers {
        let odd = || format!("its header `{}` cannot be sent", harmless(name, 80));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| odd())?;
        let mut value = HeaderValue::from_str(value.expose_secret().trim()).map_err(|_| odd())?;
        value.set_sensitive(true);
        fields.insert(name, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(fields);
    config.max_sse_event_size = LARGEST_MESSAGE;
    Ok((client, config))
}

/// A client that reads no answer beyond [`LARGEST_MESSAGE`].
#[derive(Debug, Clone)]
pub(super) struct BoundedClient(reqwest::Client);

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut request = self.0.post(uri.as_ref()).header(ACCEPT, "text/event-stream, application/json");
        for (name, value) in custom_headers {
            request = request.header(name, value);
        }
        let in_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(SESSION, session.as_ref());
        }
        let body = serde_json::to_vec(&message)?;
        let response = request.header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = response.map_err(StreamableHttpError::Client)?;
        let status = response.status();
        let field = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let (kind, session) = (field("content-type").unwrap_or_default(), field(SESSION));
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if in_session => Err(StreamableHttpError::SessionExpired),
            _ if !status.is_success() => {
                let (bytes, _) = read(response, REFUSAL).await?;
                match serde_json::from_slice(&bytes) {
                    Ok(error @ ServerJsonRpcMessage::Error(_)) => {
                        Ok(StreamableHttpPostResponse::Json(error, session))
                    }
                    _ => {
                        let said = harmless(&String::from_utf8_lossy(&bytes), 200);
                        Err(unexpected(format!("HTTP {status}: {said}")))
                    }
                }
            }
            _ if kind.starts_with("text/event-stream") => {
                let events = SseStream::from_bytes_stream(bounded(response)).boxed();
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            _ => {
                let (bytes, is_cut) = read(response, LARGEST_MESSAGE).await?;
                match serde_json::from_slice(&bytes) {
                    _ if is_cut => Err(unexpected(too_large())),
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                    // A message without an id needs no answer, so whatever the server returned is ignored.
                    Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
                    Err(why) => {
                        let said = harmless(&String::from_utf8_lossy(&bytes), 200);
                        Err(unexpected(format!("it did not answer with a message: {why}: {said}")))
                    }
                }
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        // For event streams, the library itself limits the size of an event.
        let most = LARGEST_MESSAGE;
        let inner = &self.0;
        inner
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                most,
            )
            .await
    }
}

fn unexpected(why: String) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(Cow::Owned(why))
}

/// The body of an answer up to a limit, and whether it was longer.
async fn read(mut response: Response, most: usize) -> Result<(Vec<u8>, bool), HttpError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(StreamableHttpError::Client)? {
        let room = (most - bytes.len()).min(chunk.len());
        bytes.extend_from_slice(&chunk[..room]);
        if room < chunk.len() {
            return Ok((bytes, true));
        }
    }
    Ok((bytes, false))
}

/// The body of an answer as a stream that fails beyond the limit.
fn bounded(response: Response) -> BoxStream<'static, Result<Bytes, std::io::Error>> {
    let next = |(mut response, read): (Response, usize)| async move {
        let chunk = response.chunk().await.map_err(std::io::Error::other).transpose()?;
        let read = read + chunk.as_ref().map_or(0, Bytes::len);
        let chunk = if read > LARGEST_MESSAGE { Err(std::io::Error::other(too_large())) } else { chunk };
        Some((chunk, (response, read)))
    };
    stream::unfold((response, 0), next).boxed()
}

/// Why a connection could not be made, without any password in the address.
pub(super) fn failure(error: &ClientInitializeError) -> String {
    let error: &dyn std::error::Error = match error {
        // Only the inner error says something; the outer ones are names of types.
        ClientInitializeError::TransportError { error, .. } => &*error.error,
        other => other,
    };
    let (mut text, mut cause) = match error.downcast_ref::<HttpError>() {
        Some(StreamableHttpError::Client(why)) if why.is_connect() => {
            (String::from("it cannot be reached"), last_cause(why))
        }
        _ => (error.to_string(), error.source()),
    };
    while let Some(why) = cause {
        let why_text = why.to_string();
        if !text.contains(&why_text) {
            text = format!("{text}: {why_text}");
        }
        cause = why.source();
    }
    // Addresses may hold a password.
    let words: Vec<String> = text
        .split(' ')
        .map(
            |word| if word.contains("://") { public(word.trim_matches(['(', ')'])) } else { word.to_owned() },
        )
        .collect();
    harmless(&words.join(" "), 400)
}

/// The innermost cause of an error.
fn last_cause(error: &dyn std::error::Error) -> Option<&dyn std::error::Error> {
    std::iter::successors(error.source(), |cause| cause.source()).last()
}
