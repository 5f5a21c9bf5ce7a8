//! Shared by these tests: the decoder, and functions that send requests to a scripted server.

use std::{sync::Arc, time::Duration};

use rejoin_formats::{
    Dialect, Draft,
    wire::stream::{Received, StreamDecoder},
};
use rejoin_record::Message;
use rejoin_view::{History, OnBroken, repair};

pub use testkit::loopback::scripted::{Answer, Asked, Ending, Server};

use super::super::{Addresses, HttpOptions, HttpProvider};
use crate::{
    ProviderChoice,
    auth::Keys,
    provider::{Provider, ProviderError, Request, SendProgress, connect::wire, context_of},
};

/// A key that must appear in no output.
pub const SECRET: &str = "sk-test-0123456789-DO-NOT-SHOW";

/// A text answer in the shape of Chat.
pub fn said(words: &[&str]) -> String {
    let mut out = String::new();
    for word in words {
        out.push_str(&format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{word}\"}}}}]}}\n\n"));
    }
    out + "data: [DONE]\n\n"
}

/// The decoder of the tests for any dialect: their servers all speak Chat Completions.
pub fn words(_: Dialect) -> Box<dyn StreamDecoder> {
    Dialect::OpenAiChat.wire().decoder()
}

/// Options for tests, with short waits.
pub fn quick() -> HttpOptions {
    HttpOptions {
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(20),
        retries: 3,
        first_wait: Duration::from_millis(4),
        longest_wait: Duration::from_millis(10),
        longest_retry_after: Duration::from_secs(2),
        longest_line: 1 << 20,
        proxy: false,
        ..HttpOptions::default()
    }
}

/// Options for servers that stall: long enough for a slow machine to send all it has.
pub fn impatient() -> HttpOptions {
    HttpOptions { read_timeout: Duration::from_millis(2500), ..quick() }
}

/// Options that send all logins to a server.
pub fn quick_at(server: &Server) -> HttpOptions {
    let url = || server.url.clone();
    let addresses = Addresses { chatgpt: url(), claude: url(), github: url(), github_api: url() };
    HttpOptions { addresses, ..quick() }
}

/// A provider at a server, with the key in each variable.
pub fn provider_at(name: &str, server: &Server) -> HttpProvider {
    provider_with(name, &server.url, quick())
}

/// A provider at an address.
pub fn provider_with(name: &str, url: &str, options: HttpOptions) -> HttpProvider {
    let model = Some(String::from("some-model"));
    let choice = ProviderChoice {
        provider: Some(name.to_owned()),
        model,
        base_url: Some(url.to_owned()),
        ..ProviderChoice::default()
    };
    let keys = Keys::in_variables(|_| Some(String::from(SECRET)));
    wire(&choice, &keys, &options).unwrap().reading_with(words)
}

/// A request to a provider.
pub fn request(provider: &dyn Provider, messages: &[Message]) -> Request {
    let history: History = messages.iter().cloned().collect();
    let view = repair(&history, OnBroken::Keep).view;
    let endpoint = provider.endpoint();
    let dialect = endpoint.dialect.unwrap();
    let context = context_of(provider.fields(), Some(dialect), Some("Be brief."), Vec::new());
    let mut draft = Draft::new(dialect, context.clone(), Some(endpoint.model.clone()), endpoint.origin());
    let body = draft.request(&view).unwrap().body;
    Request {
        view,
        retold: Vec::new(),
        context: Arc::new(context),
        body: Some(body),
        stop: crate::turn::Stop::new(),
    }
}

/// Runs a future to its end, which must come within a minute.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await }).expect("it ends")
}

/// Sends a request, and collects its progress.
pub fn ask(provider: &dyn Provider) -> (Result<Received, ProviderError>, Vec<SendProgress>) {
    ask_with(provider, &[Message::user("hello")])
}

/// Sends a request with these messages.
pub fn ask_with(
    provider: &dyn Provider,
    messages: &[Message],
) -> (Result<Received, ProviderError>, Vec<SendProgress>) {
    let request = request(provider, messages);
    let mut told = Vec::new();
    let answer = run(async { provider.send(&request, &mut |progress| told.push(progress)).await });
    (answer, told)
}

/// The error of a request.
pub fn error_of(provider: &dyn Provider) -> ProviderError {
    ask(provider).0.unwrap_err()
}

/// The text of an answer.
pub fn text(received: &Received) -> String {
    received.message.as_ref().and_then(Message::content).unwrap_or_default()
}
