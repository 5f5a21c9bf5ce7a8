//! A provider over HTTP: sends a request, retries while nothing has arrived, and reads the answer.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use rejoin_formats::{
    Dialect,
    wire::stream::{Received, StreamDecoder},
};
use rejoin_view::sound::SoundRole;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::SecretString;

use super::{
    Client, HttpOptions,
    attempt::{Attempt, Patience},
    body, client, models,
    refusal::FailedAttempt,
};
use crate::{
    auth::copilot,
    provider::{BoxFuture, Endpoint, Listener, Model, Provider, ProviderError, Request, Sending},
};

/// The longest list of models, in bytes. Some services list hundreds of models with a page of text each.
const MODELS_BYTES: usize = 16 * 1024 * 1024;

/// Makes the decoder of a dialect's answers.
type Decoders = fn(Dialect) -> Box<dyn StreamDecoder>;

/// Everything that requests to one provider need.
pub(crate) struct ServiceSettings {
    /// The provider, its model and its address.
    pub endpoint: Endpoint,
    /// The base address, which the addresses below begin with.
    pub base: String,
    /// The address of requests.
    pub url: String,
    /// The address of the list of models.
    pub models_url: String,
    /// The version of the API, such as `/v1`. A base address that the user gives may or may not end with it.
    pub version: Option<&'static str>,
    /// The headers of every request, including the key.
    pub headers: HeaderMap,
    /// Fields that every request has.
    pub fields: Vec<(&'static str, String)>,
    /// The key, which no error may contain.
    pub secret: Option<SecretString>,
    /// Exchanges the key for a token, for Copilot.
    pub copilot: Option<copilot::Session>,
    /// Whether reasoning may be sent back to the provider.
    pub replays_reasoning: bool,
}

/// A provider over HTTP.
pub struct HttpProvider {
    settings: ServiceSettings,
    client: Client,
    decoders: Decoders,
    /// Whether the given address turned out to lack the version.
    versioned: AtomicBool,
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("endpoint", &self.settings.endpoint).finish_non_exhaustive()
    }
}

impl HttpProvider {
    pub(crate) fn new(settings: ServiceSettings, options: &HttpOptions) -> Self {
        let client = Client::new(&settings.endpoint.provider, &settings.url, options);
        Self {
            settings,
            client,
            decoders: |dialect| dialect.wire().decoder(),
            versioned: AtomicBool::new(false),
        }
    }

    /// An address, with the version inserted if the given address lacks it.
    fn at(&self, url: &str) -> String {
        let base = &self.settings.base;
        match (self.settings.version, url.strip_prefix(base)) {
            (Some(version), Some(path)) if self.versioned.load(Ordering::Relaxed) => {
                format!("{base}{version}{path}")
            }
            _ => url.to_owned(),
        }
    }

    /// Whether to retry at the address with the version, because the one without it was not found.
    fn looks_elsewhere(&self, error: &ProviderError, looked: &mut Option<ProviderError>) -> bool {
        if !matches!(error, ProviderError::NotFound(_)) || self.settings.version.is_none() {
            return false;
        }
        let elsewhere = looked.is_none() && !self.versioned.load(Ordering::Relaxed);
        // If it is not found with the version either, go back to the first address.
        self.versioned.store(elsewhere, Ordering::Relaxed);
        if elsewhere {
            *looked = Some(error.clone());
        }
        elsewhere
    }

    /// Reads answers with other decoders.
    #[cfg(test)]
    pub(crate) fn reading_with(mut self, decoders: Decoders) -> Self {
        self.decoders = decoders;
        self
    }

    /// The better of the errors from two addresses: the one whose message contains the model's name.
    fn better(&self, first: Option<ProviderError>, second: ProviderError) -> ProviderError {
        let model = &self.settings.endpoint.model;
        let knows = |error: &ProviderError| matches!(error, ProviderError::NotFound(fault) if fault.message.contains(model));
        match first {
            Some(first) if knows(&first) || !knows(&second) => first,
            _ => second,
        }
    }

    /// The headers of the next request, its address, and its secrets.
    async fn ticket(&self, url: &str) -> Result<(HeaderMap, String, Vec<SecretString>), FailedAttempt> {
        let mut headers = self.settings.headers.clone();
        let mut secrets: Vec<SecretString> = self.settings.secret.iter().cloned().collect();
        let mut url = url.to_owned();
        if let Some(session) = &self.settings.copilot {
            let ticket = session.ticket().await?;
            headers.insert(AUTHORIZATION, ticket.header);
            secrets.push(ticket.secret);
            if let Some(base) = ticket.base {
                url = copilot::moved(&url, &base);
            }
        }
        Ok((headers, url, secrets))
    }

    async fn once(&self, request: &Request, listener: Listener<'_>) -> Result<Received, FailedAttempt> {
        let none =
            || ProviderError::Other(String::from("BUG: a request to a provider over HTTP has no body"));
        let body = request.body.as_ref().ok_or_else(|| FailedAttempt::last(none()))?;
        let dialect = self.settings.endpoint.dialect.ok_or_else(|| FailedAttempt::last(none()))?;
        let (mut headers, url, secrets) = self.ticket(&self.at(&self.settings.url)).await?;
        if self.settings.copilot.is_some() {
            copilot_headers(&mut headers, request);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        let secrets: Vec<&SecretString> = secrets.iter().collect();
        let shown = client::public(&url);
        let attempt = Attempt { client: &self.client, shown: &shown, secrets: &secrets };
        let post = self
            .client
            .get()
            .map_err(FailedAttempt::last)?
            .post(&url)
            .headers(headers)
            .body(body::shared(body));
        let response = attempt.begin(post).await?;
        attempt.listen(response, dialect, (self.decoders)(dialect), listener, &request.stop).await
    }

    async fn list_once(&self) -> Result<Vec<Model>, FailedAttempt> {
        let (headers, url, secrets) = self.ticket(&self.at(&self.settings.models_url)).await?;
        let secrets: Vec<&SecretString> = secrets.iter().collect();
        let shown = client::public(&url);
        let attempt = Attempt { client: &self.client, shown: &shown, secrets: &secrets };
        let get = self.client.get().map_err(FailedAttempt::last)?.get(&url).headers(headers);
        let text = attempt.fetch(get, MODELS_BYTES).await?;
        models::read(&text).ok_or_else(|| attempt.not_an_answer("no list of models", text.as_bytes()))
    }

    /// Waits for the next attempt after a failure.
    ///
    /// # Errors
    /// The error, if there is no further attempt.
    async fn after(
        &self,
        failure: FailedAttempt,
        patience: &mut Patience,
        renewed: &mut bool,
        listener: Listener<'_>,
    ) -> Result<(), ProviderError> {
        // A token may be revoked before it expires. It is then exchanged again, once.
        if let Some(session) = &self.settings.copilot
            && matches!(failure.error, ProviderError::Unauthorized(_))
            && !std::mem::replace(renewed, true)
            && session.forget().await
        {
            return Ok(());
        }
        if let ProviderError::Refused(fault) = &failure.error {
            tracing::error!(
                provider = fault.provider,
                status = fault.status,
                kind = fault.kind,
                "{}",
                fault.message
            );
        }
        patience.wait(failure, listener).await
    }
}

impl Provider for HttpProvider {
    fn endpoint(&self) -> &Endpoint {
        &self.settings.endpoint
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        self.settings.fields.clone()
    }

    fn replays_reasoning(&self) -> bool {
        self.settings.replays_reasoning
    }

    fn returns_partial_answer(&self) -> bool {
        true
    }

    fn prepare(&self) {
        self.client.prepare();
    }

    fn send<'a>(&'a self, request: &'a Request, listener: Listener<'a>) -> Sending<'a> {
        Box::pin(async move {
            if self.settings.endpoint.model.is_empty() {
                return Err(ProviderError::NoModel { provider: self.settings.endpoint.provider.clone() });
            }
            let (mut patience, mut renewed, mut looked) = (Patience::new(&self.client), false, None);
            loop {
                match self.once(request, listener).await {
                    Ok(received) => return Ok(received),
                    Err(failure) if self.looks_elsewhere(&failure.error, &mut looked) => {}
                    Err(failure) if matches!(failure.error, ProviderError::NotFound(_)) => {
                        return Err(self.better(looked, failure.error));
                    }
                    Err(failure) => self.after(failure, &mut patience, &mut renewed, listener).await?,
                }
            }
        })
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, ProviderError>> {
        Box::pin(async move {
            let (mut patience, mut renewed, mut looked) = (Patience::new(&self.client), false, None);
            loop {
                match self.list_once().await {
                    Ok(models) => return Ok(models),
                    Err(failure) if self.looks_elsewhere(&failure.error, &mut looked) => {}
                    Err(failure) if matches!(failure.error, ProviderError::NotFound(_)) => {
                        return Err(self.better(looked, failure.error));
                    }
                    Err(failure) => self.after(failure, &mut patience, &mut renewed, &mut |_| {}).await?,
                }
            }
        })
    }
}

/// Adds the headers that Copilot requires: the role of the last speaker, and whether there are images.
fn copilot_headers(headers: &mut HeaderMap, request: &Request) {
    let by_agent = request.view.last().is_some_and(|item| item.role() == SoundRole::Assistant);
    headers.insert("x-initiator", HeaderValue::from_static(if by_agent { "agent" } else { "user" }));
    if request.body.as_ref().is_some_and(|body| body::names(body, "image_url")) {
        headers.insert("copilot-vision-request", HeaderValue::from_static("true"));
    }
}
