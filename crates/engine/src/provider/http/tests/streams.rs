//! Streamed answers: whole, cut, stalled, garbled, endless.

use std::time::{Duration, Instant};

use rejoin_formats::wire::stream::{Delta, End, StopReason};

use super::{super::HttpOptions, shared::*};
use crate::provider::{Provider as _, SendProgress};

fn words_of(told: &[SendProgress]) -> Vec<&str> {
    let word = |progress: &'_ SendProgress| match progress {
        SendProgress::Delta(Delta::Text(word)) => Some(word.clone()),
        _ => None,
    };
    told.iter().filter_map(word).map(|word| &*word.leak()).collect()
}

#[test]
fn deltas_come_in_order_and_the_end_is_the_end() {
    let server = Server::new(vec![Answer::stream(&said(&["a", "b", "c"]))]);
    let (answer, told) = ask(&provider_at("custom", &server));
    let answer = answer.unwrap();
    assert_eq!(words_of(&told), ["a", "b", "c"]);
    assert_eq!(answer.end, End::Complete(StopReason::Done));
}

/// Reading stops at the end of the answer, even if the connection stays open.
#[test]
fn the_end_does_not_wait_for_the_connection() {
    let server = Server::new(vec![Answer::stream(&said(&["done"])).ending(Ending::Stall)]);
    let options = HttpOptions { read_timeout: Duration::from_secs(60), ..quick() };
    let before = Instant::now();
    let (answer, _) = ask(&provider_with("custom", &server.url, options));
    assert_eq!(answer.unwrap().end, End::Complete(StopReason::Done));
    assert!(before.elapsed() < Duration::from_secs(30));
}

/// If a provider fails in the middle of an answer, the text before the failure is kept.
#[test]
fn a_failure_in_the_middle_keeps_what_was_said() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n\
                data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n";
    let server = Server::new(vec![Answer::stream(body)]);
    let (answer, _) = ask(&provider_at("custom", &server));
    let answer = answer.unwrap();
    assert_eq!(text(&answer), "so");
    assert!(matches!(&answer.end, End::Failed(fault) if fault.message == "busy"), "{:?}", answer.end);
    assert_eq!(server.asked().len(), 1);
}

/// The provider's reason goes to a terminal: it is as short and safe as any other error, and contains no key.
#[test]
fn a_failure_in_the_middle_steers_no_terminal() {
    let message = format!("{SECRET} \\u001b]0;mine\\u0007{}", "x".repeat(5000));
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"so\"}}}}]}}\n\n\
         data: {{\"error\":{{\"type\":\"bad\\u001b[2J\",\"message\":\"{message}\"}}}}\n\n"
    );
    let server = Server::new(vec![Answer::stream(&body)]);
    let End::Failed(fault) = ask(&provider_at("custom", &server)).0.unwrap().end else { panic!() };
    let said = format!("{} {}", fault.kind.unwrap(), fault.message);
    assert!(!said.contains(char::is_control) && !said.contains(SECRET), "{said:?}");
    assert!(said.chars().count() < 1000, "{}", said.len());
}

/// Reading stops in an endless line. If text came before it, the answer is kept; otherwise it is garbage.
#[test]
fn a_line_without_end_is_not_read_for_ever() {
    let noise = "x".repeat(1 << 16);
    let server = Server::new(vec![Answer::stream(&noise).ending(Ending::Endless)]);
    let error = error_of(&provider_at("custom", &server));
    assert_eq!(error.code(), "GARBAGE", "{error}");
    assert!(error.to_string().contains("a line of more than 1048576 bytes"), "{error}");
    assert!(error.to_string().len() < 400, "{error}");

    let begun = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"so\"}}}}]}}\n\n{noise}");
    let server = Server::new(vec![Answer::stream(&begun.replace('\n', "\r\n")).ending(Ending::Stall)]);
    let options = HttpOptions { longest_line: 1 << 15, ..quick() };
    let (answer, _) = ask(&provider_with("custom", &server.url, options));
    let answer = answer.unwrap();
    assert_eq!(text(&answer), "so");
    assert!(matches!(&answer.end, End::Garbage(why) if why.contains("a line")), "{:?}", answer.end);
}

/// An endless answer is cut off, too, however short its lines are.
#[test]
fn an_answer_without_end_is_not_read_for_ever() {
    let line = ": still thinking\n".repeat(4096);
    let server = Server::new(vec![Answer::stream(&line).ending(Ending::Endless)]);
    let options = HttpOptions { longest_answer: 1 << 20, ..quick() };
    let error = error_of(&provider_with("custom", &server.url, options));
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
}

/// An answer in one piece is parsed as one value, so the limit of a line applies to it.
#[test]
fn an_answer_in_one_piece_without_end_is_not_read_for_ever() {
    let body = format!("[{}", "0,".repeat(1 << 15));
    let server = Server::new(vec![Answer::json(200, &body).ending(Ending::Endless)]);
    let error = error_of(&provider_at("custom", &server));
    assert_eq!(error.code(), "GARBAGE", "{error}");
    assert!(error.to_string().len() < 400, "{error}");
}

/// Endless headers, error pages and lists of models take no memory either.
#[test]
fn nothing_else_is_read_for_ever() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1 << 16]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
                // The loop ends when the client gives up and closes the connection.
                while stream.write_all(&[b"x-more: ", &[b'x'; 4096][..], b"\r\n"].concat()).is_ok() {}
            });
        }
    });
    let options = HttpOptions { retries: 0, ..quick() };
    let error = error_of(&provider_with("custom", &url, options.clone()));
    assert_eq!(error.code(), "UNREACHABLE", "{error}");

    let page = "y".repeat(1 << 16);
    let server = Server::new(vec![Answer::of(500, "text/plain", &page).ending(Ending::Endless)]);
    let error = error_of(&provider_with("custom", &server.url, options.clone()));
    assert!(error.to_string().len() < 1000, "{error}");

    let list = format!("{{\"data\":[{}", "{\"id\":\"m\"},".repeat(1 << 12));
    let server = Server::new(vec![Answer::json(200, &list).ending(Ending::Endless)]);
    let error = run(provider_with("custom", &server.url, options).models()).unwrap_err();
    assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
}

#[test]
fn an_empty_answer_is_said_to_be_one() {
    for answer in [Answer::stream(""), Answer::json(200, "")] {
        let server = Server::new(vec![answer]);
        assert_eq!(error_of(&provider_at("custom", &server)).code(), "EMPTY_ANSWER");
        assert_eq!(server.asked().len(), 1);
    }
}

/// A service that does not stream sends its answer in one piece, which is understood.
#[test]
fn an_answer_in_one_piece_is_an_answer() {
    let body = r#"{"id":"c","object":"chat.completion","model":"m-1","choices":[{"index":0,"finish_reason":"length","message":{"role":"assistant","content":"all at once"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let server = Server::new(vec![Answer::json(200, body)]);
    let (answer, told) = ask(&provider_at("custom", &server));
    let answer = answer.unwrap();
    assert_eq!(text(&answer), "all at once");
    assert_eq!(words_of(&told), ["all at once"]);
    assert_eq!(answer.end, End::Complete(StopReason::Length));
    assert_eq!(answer.model.as_deref(), Some("m-1"));
    assert_eq!(answer.usage.map(|usage| (usage.input, usage.output)), Some((3, 4)));
}

/// The content type does not matter: a stream that is labelled as JSON is a stream, and JSON that is labelled as a stream is an
/// answer in one piece. Blanks may precede either.
#[test]
fn an_answer_is_what_it_is_and_not_what_it_is_called() {
    let stream = format!("\n\n  \n{}", said(&["a", "b"]));
    let whole = r#" {"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"ab"}}]}"#;
    for answer in [Answer::json(200, &stream), Answer::stream(whole), Answer::of(200, "", whole)] {
        let server = Server::new(vec![answer.clone()]);
        let (received, _) = ask(&provider_at("custom", &server));
        let received = received.unwrap_or_else(|error| panic!("{answer:?}: {error}"));
        assert_eq!(
            (text(&received).as_str(), &received.end),
            ("ab", &End::Complete(StopReason::Done)),
            "{answer:?}"
        );
    }
    // Cut after its last bracket, it is a whole answer; cut in the middle, it is not an answer.
    let server = Server::new(vec![Answer::json(200, whole).ending(Ending::Cut)]);
    assert_eq!(ask(&provider_at("custom", &server)).0.unwrap().end, End::Complete(StopReason::Done));
    let half = &whole[..whole.len() - 9];
    let server = Server::new(vec![Answer::json(200, half).ending(Ending::Cut)]);
    assert_eq!(error_of(&provider_at("custom", &server)).code(), "GARBAGE");
}

/// Dropping the future cancels the request: the connection closes, and the server notices.
#[test]
fn a_dropped_request_is_given_up() {
    let server = Server::new(vec![Answer::stream("data: {\"choices\":[]}\n\n").ending(Ending::Stall)]);
    let options = HttpOptions { read_timeout: Duration::from_secs(60), ..quick() };
    let provider = provider_with("custom", &server.url, options);
    let request = request(&provider, &[rejoin_record::Message::user("hello")]);
    let before = Instant::now();
    run(async {
        let mut nobody = |_| {};
        let sending = provider.send(&request, &mut nobody);
        assert!(tokio::time::timeout(Duration::from_millis(100), sending).await.is_err());
    });
    assert!(before.elapsed() < Duration::from_secs(30));
}
