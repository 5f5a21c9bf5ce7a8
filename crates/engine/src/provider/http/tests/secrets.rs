//! A key is sent to its service and appears nowhere else.

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use super::shared::*;
use crate::provider::{Provider, ProviderError, registry};

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log that a run writes.
fn logged(run: impl FnOnce()) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// S0-23: if a provider repeats the key in its error, the key is in no error, log or progress report. A refusal is logged as an
/// error.
#[test]
fn a_key_is_in_no_error_and_in_no_log() {
    for service in registry::all() {
        let echo = |asked: &Asked| {
            let seen = |name| asked.header(name).unwrap_or_default().to_owned();
            let names = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
            let headers = names.map(seen).join(" ");
            // Once unchanged, once with an escape in it, and once where the message is cut.
            let message = match asked.line.starts_with("POST") {
                true => format!("{headers} {}", SECRET.replace('-', "\\u002d")),
                false => format!("{}{SECRET}", "x".repeat(590)),
            };
            Answer::json(400, &format!(r#"{{"error":{{"type":"{SECRET}","message":"{message}"}}}}"#))
        };
        let server = Server::answering(echo);
        let options = super::super::HttpOptions { retries: 1, ..quick_at(&server) };
        let provider = provider_with(service.name, &server.url, options);
        let mut shown = String::new();
        let log = logged(|| {
            let (answer, told) = ask(&provider);
            let error = answer.unwrap_err();
            let models = run(provider.models()).unwrap_err();
            shown = format!("{error} {error:?} {:?} {told:?} {models} {models:?} {provider:?}", error.hint());
        });
        let sent =
            server.asked().iter().any(|asked| asked.headers.iter().any(|(_, value)| value.contains(SECRET)));
        assert!(sent, "{}: the key was sent", service.name);
        for text in [&shown, &log] {
            assert!(!text.contains(SECRET), "{}: {text}", service.name);
            assert!(!text.contains("0123456789"), "{}: {text}", service.name);
            assert!(!text.contains("sk-test"), "{}: {text}", service.name);
        }
        assert!(service.name == "copilot" || log.contains("ERROR"), "{}: {log}", service.name);
        assert!(shown.contains("[key]"), "{}: {shown}", service.name);
    }
}

/// The same for an answer that is not one, and for a failure in the middle of an answer.
#[test]
fn a_key_is_in_no_excerpt() {
    let fail = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"so\"}}}}]}}\n\ndata: {{\"error\":{{\"message\":\"{SECRET}\"}}}}\n\n"
    );
    let answers = [
        Answer::of(200, "text/html", &format!("<p>{SECRET}")),
        Answer::of(200, "text/plain", &format!("{SECRET}\n")),
        Answer::json(200, &format!("{{\"odd\":\"{SECRET}\"}}")),
        Answer::of(307, "text/plain", "").with("location", &format!("https://x.example/{SECRET}")),
        Answer::stream(&fail),
    ];
    for answer in answers {
        let server = Server::new(vec![answer.clone()]);
        let provider = provider_at("custom", &server);
        let mut shown = String::new();
        let log = logged(|| shown = format!("{:?}", ask(&provider)));
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(!log.contains(SECRET), "{log}");
    }
}

/// A key with a line break is not sent, and the error names its origin.
#[test]
fn a_key_that_cannot_be_sent_is_named_by_its_place() {
    let keys = crate::auth::Keys::in_variables(|_| Some(String::from("sk-line\nbreak-0123456789")));
    let choice = crate::ProviderChoice { provider: Some(String::from("openai")), ..Default::default() };
    let error = registry::connect(&choice, &keys, &quick()).map(|_| ()).unwrap_err();
    assert!(matches!(&error, ProviderError::NoKey { .. }));
    let shown = format!("{error} {error:?} {:?}", error.hint());
    assert!(shown.contains("OPENAI_API_KEY") && !shown.contains("break"), "{shown}");
}
