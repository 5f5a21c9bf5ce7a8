//! Every fault has its effect.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{
    super::{FAULTS, Fault, Loopback, Service},
    APIS, Client, KEY, ask, first, headers, path, server,
};

fn streamed(server: &Loopback) -> super::Got {
    ask(server, Service::OpenAi, "chat", &first(Service::OpenAi, "chat", "hello", true))
}

#[test]
fn answers_break_off_where_they_are_told_to() {
    let server = server();
    let whole = streamed(&server).body;
    for bytes in [0, 1, 100, whole.len() - 1, whole.len()] {
        for (fault, end) in [
            (Fault::CutAfter(bytes), "closed"),
            (Fault::ResetAfter(bytes), "reset"),
            (Fault::EndAfter(bytes), "whole"),
        ] {
            server.fault(fault.clone());
            let got = streamed(&server);
            assert_eq!((got.status, got.end), (200, end), "{fault:?}");
            // Bytes sent shortly before a reset may be lost on the way.
            if end != "reset" {
                assert_eq!(got.body.len(), bytes, "{fault:?}");
            }
        }
    }
    let heard = server.requests();
    assert_eq!((heard[4].sent, heard[4].whole), (1, false));
    server.fault(Fault::HangUp);
    let got = streamed(&server);
    assert_eq!((got.status, got.end), (0, "closed"));
    // An answer that comes at once breaks off as well.
    server.fault(Fault::CutAfter(10));
    let got = ask(&server, Service::OpenAi, "chat", &first(Service::OpenAi, "chat", "hello", false));
    assert_eq!((got.body.len(), got.end), (10, "closed"));
    assert_eq!(streamed(&server).end, "whole");
}

#[test]
fn answers_take_their_time() {
    let server = server();
    let started = Instant::now();
    server.fault(Fault::Stall { after: 50, time: Some(Duration::from_millis(60)) });
    assert_eq!(streamed(&server).end, "whole");
    assert!(started.elapsed() >= Duration::from_millis(60));
    let started = Instant::now();
    server.fault(Fault::Late(Duration::from_millis(60)));
    assert_eq!(streamed(&server).end, "whole");
    assert!(started.elapsed() >= Duration::from_millis(60));
    let started = Instant::now();
    server.fault(Fault::Slow(Duration::from_millis(10)));
    let got = streamed(&server);
    assert!(started.elapsed() >= Duration::from_millis(10) * u32::try_from(got.chunks - 1).unwrap());
    server.fault(Fault::Drip(Duration::from_micros(1)));
    let got = streamed(&server);
    assert_eq!((got.chunks, got.end), (got.body.len(), "whole"));
}

#[test]
fn a_stall_that_lasts_ends_with_the_server() {
    let mut server = server();
    server.fault(Fault::Stall { after: 40, time: None });
    let (mut client, path) = (Client::to(&server), path(Service::OpenAi, "chat", true));
    client.stream.set_read_timeout(Some(Duration::from_millis(80))).unwrap();
    let body = first(Service::OpenAi, "chat", "hello", true).to_string();
    let got = client.post(&path, &headers(Service::OpenAi), body.as_bytes());
    assert_eq!((got.body.len(), got.end), (40, "stalled"));
    server.stop();
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(client.receive().end, "closed");
    server.restart().unwrap();
    assert_eq!(streamed(&server).status, 200);
}

#[test]
fn what_is_no_answer_comes_as_one() {
    let server = server();
    server.fault(Fault::Garbage);
    let got = streamed(&server);
    assert!(got.status == 200 && std::str::from_utf8(&got.body).is_err());
    server.fault(Fault::HtmlPage(502));
    let got = streamed(&server);
    assert!(got.status == 502 && got.text().starts_with("<!DOCTYPE html>"));
    server.fault(Fault::Nothing);
    let got = streamed(&server);
    assert_eq!((got.status, got.body.len()), (200, 0));
    server.fault(Fault::LongLine(100_000));
    let got = streamed(&server);
    assert!(got.text().lines().any(|line| line.len() == 100_000) && got.text().ends_with("[DONE]\n\n"));
    server.faults(vec![Fault::EndlessLine, Fault::CutAfter(10_000_000)]);
    let got = streamed(&server);
    assert_eq!((got.body.len(), got.text().contains('\n')), (10_000_000, false));
    // It really has no end but the client's patience.
    server.fault(Fault::EndlessLine);
    let mut client = Client::to(&server);
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = first(Service::OpenAi, "chat", "hello", true).to_string();
    use std::io::{Read as _, Write as _};
    let head = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.stream.write_all((head + &body).as_bytes()).unwrap();
    let mut taken = Vec::new();
    client.stream.try_clone().unwrap().take(5_000_000).read_to_end(&mut taken).unwrap();
    assert_eq!(taken.len(), 5_000_000);
}

#[test]
fn every_status_has_each_services_own_shape() {
    let server = server();
    for (service, api) in APIS {
        for status in [400, 401, 403, 404, 429, 500, 503, 529] {
            server.fault(Fault::Status { status, retry_after: (status == 429).then_some(7) });
            let got = ask(&server, service, api, &first(service, api, "hello", true));
            assert_eq!(got.status, status, "{service}");
            assert_eq!(got.header("retry-after"), (status == 429).then_some("7"));
            let body = got.json();
            let message = ["/error/message", "/message", "/error"]
                .iter()
                .find_map(|place| body.pointer(place)?.as_str());
            assert!(!message.unwrap().is_empty(), "{service} {status}");
        }
        server.fault(Fault::ContextLength);
        let got = ask(&server, service, api, &first(service, api, "hello", true));
        let words = match (service, api) {
            (Service::Anthropic, _) => "prompt is too long",
            (Service::Gemini, _) => "exceeds the maximum number of tokens allowed",
            (Service::Ollama, _) => "exceeds the context length",
            (Service::Mistral, _) => "maximum context length",
            (_, "responses") => "exceeds the context window",
            _ => "maximum context length",
        };
        assert!(got.status == 400 && got.text().contains(words), "{service}: {}", got.text());
        server.fault(Fault::EchoKey);
        let got = ask(&server, service, api, &first(service, api, "hello", true));
        assert!([400, 401].contains(&got.status), "{service}");
        assert_eq!(got.text().contains(KEY), service != Service::Ollama, "{service}");
        server.fault(Fault::ErrorAfter(2));
        let got = ask(&server, service, api, &first(service, api, "hello", true));
        let last: Value = got.events().last().unwrap().clone();
        assert!(got.status == 200 && last.to_string().contains("error"), "{service}: {last}");
    }
    server.fault(Fault::status(529));
    let got = ask(&server, Service::Anthropic, "", &first(Service::Anthropic, "", "hello", true));
    assert_eq!(got.json()["error"]["type"], "overloaded_error");
    // However an answer goes wrong, the request is judged.
    server.fault(Fault::status(500));
    let got = ask(&server, Service::Anthropic, "", &serde_json::json!({"messages": []}));
    assert_eq!(got.status, 500);
    assert!(server.violations().iter().any(|violation| violation.rule == "ANT-12"));
}

#[test]
fn faults_come_when_they_are_due() {
    let server = server();
    server.schedule(|number| if number % 2 == 1 { vec![Fault::status(503)] } else { Vec::new() });
    let statuses: Vec<u16> = (0..4).map(|_| streamed(&server).status).collect();
    assert_eq!(statuses, [200, 503, 200, 503]);
    server.clear_faults();
    server.always(Fault::status(500));
    assert_eq!((streamed(&server).status, streamed(&server).status), (500, 500));
    server.clear_faults();
    server.fault(Fault::status(500));
    server.fault(Fault::status(503));
    assert_eq!([(); 3].map(|()| streamed(&server).status), [500, 503, 200]);
}

#[test]
fn faults_have_names() {
    for name in FAULTS.split_whitespace() {
        let written =
            name.replace(['[', ']'], "").replace("BYTES", "5").replace("RETRY-AFTER", "7").replace("MS", "9");
        let written = written.replace("STATUS", "502").replace("CODE", "429").replace("EVENTS", "2");
        assert!(written.parse::<Fault>().is_ok(), "{written}");
    }
    assert_eq!("status:429:7".parse(), Ok(Fault::Status { status: 429, retry_after: Some(7) }));
    assert_eq!("stall:5".parse(), Ok(Fault::Stall { after: 5, time: None }));
    for wrong in ["cut", "cut:x", "status:99999999", "no"] {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
}
