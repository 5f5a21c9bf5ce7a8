//! A model provider on this machine: speaks enough of the Responses and Messages APIs to answer one turn, and keeps what
//! it was sent.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// What it says, whatever it is asked.
pub const REPLY: &str = "The loopback provider has read it all.";

/// The longest body that is taken: far above anything that is sent here.
const BODY_BYTES: usize = 64 * 1024 * 1024;

/// The server. It runs until the program ends.
pub struct Loopback {
    address: SocketAddr,
    requests: Receiver<Request>,
}

/// A request, as it came.
pub struct Request {
    pub method: String,
    pub path: String,
    pub body: String,
}

impl Loopback {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on 127.0.0.1")?;
        let address = listener.local_addr()?;
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                // A connection that stays silent must not keep others waiting.
                std::thread::spawn(move || serve(stream, &sender));
            }
        });
        Ok(Self { address, requests })
    }

    /// Where a client finds it.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where a client finds it, with the usual path.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.origin())
    }

    /// The turns that were asked for since the last time. What it answered was kept before it answered.
    pub fn turns(&self) -> Vec<Request> {
        self.requests.try_iter().filter(|request| api(request).is_some()).collect()
    }
}

/// One request a connection: the answer says so.
fn serve(stream: TcpStream, sender: &Sender<Request>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let Ok(mut out) = stream.try_clone() else { return };
    let answer = match read(&mut BufReader::new(stream)) {
        Ok(request) => {
            let answer = answer(&request);
            if sender.send(request).is_err() {
                return;
            }
            answer
        }
        Err(error) => plain("400 Bad Request", &format!("{error:#}")),
    };
    let _ = out.write_all(answer.as_bytes());
}

fn read(stream: &mut impl BufRead) -> Result<Request> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().context("no method")?, words.next().context("no path")?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        ensure!(stream.read_line(&mut header)? > 0, "the headers end too early");
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').context("a header without a colon")?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse()?,
            "content-encoding" | "transfer-encoding" => {
                anyhow::bail!("{} is not understood here", header)
            }
            _ => {}
        }
    }
    ensure!(length <= BODY_BYTES, "a body of {length} bytes");
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Request { method, path, body: String::from_utf8(body)? })
}

/// How a turn is answered.
enum Api {
    Responses,
    Messages,
}

/// The interface that a turn was asked for in; `None` if it is something else.
fn api(request: &Request) -> Option<Api> {
    let path = request.path.split('?').next().unwrap_or_default();
    match path.rsplit('/').next() {
        _ if request.method != "POST" => None,
        Some("responses") => Some(Api::Responses),
        Some("messages") => Some(Api::Messages),
        _ => None,
    }
}

fn answer(request: &Request) -> String {
    if request.method == "GET" && request.path.ends_with("/responses") {
        // A client that would rather speak over a WebSocket falls back at once when told so.
        return plain("426 Upgrade Required", "");
    }
    let events = match api(request) {
        Some(Api::Responses) => responses_events(),
        Some(Api::Messages) => messages_events(),
        None => return plain("404 Not Found", ""),
    };
    let mut text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    for event in events {
        text.push_str(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()));
    }
    text
}

fn responses_events() -> Vec<Value> {
    let message = json!({
        "type": "message", "id": "msg_loopback", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": REPLY, "annotations": []}],
    });
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    });
    vec![
        json!({"type": "response.created", "response": {"id": "resp_loopback"}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
        json!({"type": "response.completed", "response": {"id": "resp_loopback", "usage": usage}}),
    ]
}

fn messages_events() -> Vec<Value> {
    let message = json!({
        "id": "msg_loopback", "type": "message", "role": "assistant", "model": "loopback", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": REPLY}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
}

fn plain(status: &str, text: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn ask(server: &Loopback, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_turn_is_answered_and_kept() {
        let server = Loopback::start().unwrap();
        let answer = ask(&server, "POST /v1/responses HTTP/1.1\r\nContent-Length: 11\r\n\r\n{\"input\":1}");
        assert!(answer.contains("event: response.completed\n"), "{answer}");
        assert!(answer.contains(REPLY), "{answer}");
        assert!(ask(&server, "GET /v1/responses HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 426 "));
        assert!(ask(&server, "GET /v1/models HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let answer = ask(&server, "POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
        assert!(answer.contains("event: message_stop\n") && answer.contains(REPLY), "{answer}");
        let turns = server.turns();
        assert_eq!(turns.len(), 2, "a look around is no turn");
        assert_eq!(turns[0].body, "{\"input\":1}");
        assert!(server.turns().is_empty(), "each turn is told once");
    }

    #[test]
    fn what_it_cannot_read_it_refuses() {
        let server = Loopback::start().unwrap();
        let request = "POST /v1/responses HTTP/1.1\r\nContent-Encoding: zstd\r\nContent-Length: 0\r\n\r\n";
        assert!(ask(&server, request).starts_with("HTTP/1.1 400 "));
        assert!(server.turns().is_empty());
    }
}
