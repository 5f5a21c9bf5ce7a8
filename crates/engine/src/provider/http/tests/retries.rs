//! When a request is sent again, and when it never is.

use std::time::{Duration, Instant};

use rejoin_formats::wire::stream::End;

use super::{super::HttpOptions, shared::*};
use crate::provider::{ProviderError, SendProgress};

fn busy() -> Answer {
    Answer::json(503, r#"{"error":{"message":"busy"}}"#)
}

fn waits(told: &[SendProgress]) -> Vec<Duration> {
    let wait = |progress: &SendProgress| match progress {
        SendProgress::Retrying { wait, .. } => Some(*wait),
        SendProgress::Delta(_) => None,
    };
    told.iter().filter_map(wait).collect()
}

/// A request is repeated until it succeeds. Each attempt is reported, with its number and its wait.
#[test]
fn a_busy_provider_is_asked_again() {
    let limited = Answer::json(429, r#"{"error":{"message":"slow"}}"#);
    let server = Server::new(vec![busy(), limited, Answer::stream(&said(&["done"]))]);
    let (answer, told) = ask(&provider_at("custom", &server));
    assert_eq!(text(&answer.unwrap()), "done");
    assert_eq!(server.asked().len(), 3);
    assert_eq!(server.asked()[0].body, server.asked()[2].body);
    let attempts: Vec<u32> = told
        .iter()
        .filter_map(|progress| match progress {
            SendProgress::Retrying { attempt, why, .. } => {
                assert!(why.contains("answered"), "{why}");
                Some(*attempt)
            }
            SendProgress::Delta(_) => None,
        })
        .collect();
    assert_eq!(attempts, [2, 3]);
}

/// S3-24, S3-34: the waits double up to the longest, and their number is a setting. By default the first is 250 ms and the longest 4 s.
#[test]
fn waits_double_and_end() {
    let server = Server::new(vec![busy()]);
    let options = HttpOptions { retries: 5, first_wait: Duration::from_millis(2), ..quick() };
    let options = HttpOptions { longest_wait: Duration::from_millis(8), ..options };
    let (answer, told) = ask(&provider_with("custom", &server.url, options));
    assert_eq!(answer.unwrap_err().code(), "UNAVAILABLE");
    let expected: Vec<Duration> = [2, 4, 8, 8, 8].map(Duration::from_millis).to_vec();
    assert_eq!(waits(&told), expected);
    assert_eq!(server.asked().len(), 6);
    let usual = HttpOptions::default();
    assert_eq!((usual.first_wait, usual.longest_wait), (Duration::from_millis(250), Duration::from_secs(4)));
    assert!((3..=6).contains(&usual.retries));
}

/// The wait that the provider asks for is kept. If it is longer than the setting allows, the error comes at once.
#[test]
fn the_provider_says_when_to_come_back() {
    let cases = [
        ("retry-after-ms", "30", Some(30)),
        ("retry-after", "0.04", Some(40)),
        ("retry-after", "0", Some(4)),
        ("retry-after", "nonsense", Some(4)),
        ("retry-after", "-5", Some(4)),
        ("retry-after", "3600", None),
        ("retry-after", "1e300", None),
    ];
    for (name, value, expected) in cases {
        let server = Server::new(vec![busy().with(name, value), Answer::stream(&said(&["x"]))]);
        let before = Instant::now();
        let (answer, told) = ask(&provider_at("custom", &server));
        match expected {
            Some(millis) => {
                assert_eq!(waits(&told), [Duration::from_millis(millis)], "{name}: {value}");
                assert!(before.elapsed() >= Duration::from_millis(millis));
                assert_eq!(text(&answer.unwrap()), "x");
            }
            None if value == "3600" => {
                assert_eq!(answer.unwrap_err().retry_after(), Some(Duration::from_secs(3600)));
                assert_eq!(server.asked().len(), 1);
            }
            // A value that is not a time is ignored.
            None => assert_eq!(waits(&told), [Duration::from_millis(4)], "{value}"),
        }
    }
}

/// A date is compared with the server's own clock, because the local clock may be wrong.
#[test]
fn a_date_says_when_to_come_back() {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let read = |pairs: &[(&str, &str)]| {
        let header =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        super::super::refusal::retry_after(header, now)
    };
    let later = "Thu, 01 Jan 2026 00:00:30 GMT";
    assert_eq!(read(&[("retry-after", later)]), Some(Duration::from_secs(30)));
    assert_eq!(
        read(&[("retry-after", later), ("date", "Thu, 01 Jan 2026 00:00:20 GMT")]),
        Some(Duration::from_secs(10))
    );
    assert_eq!(read(&[("retry-after", "Wed, 31 Dec 2025 00:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(read(&[("retry-after", "tomorrow")]), None);
    assert_eq!(read(&[]), None);
}

/// Gemini gives the wait in the body.
#[test]
fn gemini_says_in_the_body_when_to_come_back() {
    let body = r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"t","retryDelay":"0.03s"}]}}"#;
    let server = Server::new(vec![Answer::json(429, body), Answer::stream(&said(&["x"]))]);
    let (_, told) = ask(&provider_at("gemini", &server));
    assert_eq!(waits(&told), [Duration::from_millis(30)]);
}

/// A request with a lasting error is sent only once.
#[test]
fn what_stays_wrong_is_not_repeated() {
    let quota = r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let cases = [
        Answer::json(400, "{}"),
        Answer::json(401, "{}"),
        Answer::json(404, "{}"),
        Answer::json(413, "{}"),
        Answer::json(422, "{}"),
        Answer::json(429, quota),
        busy().with("x-should-retry", "false"),
    ];
    for answer in cases {
        let server = Server::new(vec![answer.clone()]);
        let (error, told) = ask(&provider_at("custom", &server));
        assert!(error.is_err());
        assert!(told.is_empty(), "{answer:?}");
        assert_eq!(server.asked().len(), 1, "{answer:?}");
    }
}

/// Once the first byte has arrived, a request is never sent again; what arrived is the answer.
#[test]
fn never_after_the_first_byte() {
    let first = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    for ending in [Ending::Cut, Ending::Stall] {
        let server =
            Server::new(vec![Answer::stream(first).ending(ending), Answer::stream(&said(&["again"]))]);
        let (answer, told) = ask(&provider_with("custom", &server.url, impatient()));
        let answer = answer.unwrap();
        assert_eq!(text(&answer), "half");
        assert_eq!(answer.end, End::Cut);
        assert_eq!(server.asked().len(), 1);
        assert_eq!(told.len(), 1, "{told:?}");
    }
    // A comment that keeps the connection open also counts as a byte.
    let server = Server::new(vec![Answer::stream(": wait\n\n").ending(Ending::Stall)]);
    let (answer, _) = ask(&provider_with("custom", &server.url, impatient()));
    assert_eq!(answer.unwrap().end, End::Cut);
    assert_eq!(server.asked().len(), 1);
}

/// Before the first byte it is sent again: no text can appear twice.
#[test]
fn before_the_first_byte_it_is_sent_again() {
    for (ending, code) in [(Ending::Stall, "TIMED_OUT"), (Ending::Cut, "UNREACHABLE")] {
        let server = Server::new(vec![Answer::stream("").ending(ending), Answer::stream(&said(&["again"]))]);
        let (answer, told) = ask(&provider_with("custom", &server.url, impatient()));
        assert_eq!(text(&answer.unwrap()), "again");
        assert_eq!(waits(&told).len(), 1, "{told:?}");
        let silent = Server::new(vec![Answer::stream("").ending(ending)]);
        let options = HttpOptions { retries: 1, ..impatient() };
        let error = error_of(&provider_with("custom", &silent.url, options));
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(silent.asked().len(), 2);
    }
}

/// A redirect is not followed: the request, with its key, would go to another address.
#[test]
fn a_redirect_is_not_followed() {
    let other = Server::new(vec![Answer::stream(&said(&["x"]))]);
    for status in [301, 307, 308] {
        let server = Server::new(vec![Answer::json(status, "").with("location", &other.url)]);
        assert!(matches!(error_of(&provider_at("openai", &server)), ProviderError::Garbage(_)));
        assert_eq!(server.asked().len(), 1);
    }
    assert!(other.asked().is_empty());
}
