//! A hand-written HTTP/1.1 with what a provider needs: any byte of an answer can be withheld, which a library would not allow.
//!
//! Requests: keep-alive, `Content-Length` and chunked bodies, `Expect: 100-continue`. Answers: of known length, chunked, or
//! ended by closing.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::{Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::faults::{Hangup, Manner};

/// Longest line of a request's head.
const LINE: u64 = 64 * 1024;
/// Largest body, in bytes: slightly more than a store accepts.
const BODY: usize = 300 << 20;

/// A request as it came.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    /// The path without the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub client: Client,
    /// When its first line was there.
    pub began: Instant,
}

/// The abilities of a request's client. A client whose request is not understood has none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Client {
    /// Whether the client keeps the connection open.
    pub keeps_connection: bool,
    /// Whether it understands chunks.
    pub chunks: bool,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Whether the query has this field with this value.
    pub fn asks(&self, field: &str, value: &str) -> bool {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| pair.split_once('=') == Some((field, value)))
    }
}

/// The reply to a request.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub status: u16,
    pub headers: Vec<(Cow<'static, str>, String)>,
    pub body: Body,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Sent at once, with its length.
    Whole(Vec<u8>),
    /// Sent piece by piece.
    Pieces(Vec<Vec<u8>>),
    /// The first bytes once, then the others again and again.
    Endless(Vec<u8>, Vec<u8>),
}

impl Reply {
    /// A JSON document.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let headers = vec![("content-type".into(), String::from("application/json"))];
        Self { status, headers, body: Body::Whole(body.to_string().into_bytes()) }
    }

    /// Text of some type.
    pub fn text(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), kind.to_owned())],
            body: Body::Whole(body.into()),
        }
    }

    /// Everything that would be sent as the body; of an endless one, how it begins.
    pub fn bytes(&self) -> Vec<u8> {
        match &self.body {
            Body::Whole(bytes) | Body::Endless(bytes, _) => bytes.clone(),
            Body::Pieces(pieces) => pieces.concat(),
        }
    }
}

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// In chunks, and the connection stays open.
    #[default]
    Chunked,
    /// Until the connection is closed.
    UntilClose,
}

/// Tells every thread of a server to end.
#[derive(Debug, Default)]
pub(super) struct Halt {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Halt {
    /// From now on nothing waits.
    pub fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Whether the server has ended.
    pub fn ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, unless the server ends. Without a time: until it ends.
    pub fn wait(&self, time: Option<Duration>) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match time {
            Some(time) => drop(self.changed.wait_timeout_while(ended, time, |ended| !*ended)),
            None => drop(self.changed.wait_while(ended, |ended| !*ended)),
        }
    }
}

/// Reads the next request of a connection; `None` if the client has left.
///
/// # Errors
/// The fault in the request, in words.
pub(super) fn read(reader: &mut impl BufRead, writer: &mut TcpStream) -> Result<Option<Request>, String> {
    let first = loop {
        match line(reader)? {
            None => return Ok(None),
            // A line too many after a body is forgiven.
            Some(line) if line.is_empty() => {}
            Some(line) => break line,
        }
    };
    let began = Instant::now();
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("no request line: `{first}`"));
    };
    let mut headers = Vec::new();
    loop {
        let line = line(reader)?.ok_or("the head is cut off")?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no header: `{line}`"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        headers,
        body: Vec::new(),
        client: Client { keeps_connection: version == "HTTP/1.1", chunks: version == "HTTP/1.1" },
        began,
    };
    if request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
        request.client.keeps_connection = false;
    }
    if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(|why| why.to_string())?;
    }
    request.body = if request.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        chunked(reader)?
    } else {
        let length = request.header("content-length").map_or(Ok(0), str::parse::<usize>);
        exactly(reader, length.map_err(|_| "no length: `content-length`")?)?
    };
    Ok(Some(request))
}

fn line(reader: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    let read = reader.take(LINE).read_until(b'\n', &mut bytes).map_err(|why| why.to_string())?;
    if read == 0 {
        return Ok(None);
    }
    if bytes.pop() != Some(b'\n') {
        return Err(String::from("a line is cut off, or too long"));
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map(Some).map_err(|_| String::from("a line is no text"))
}

fn exactly(reader: &mut impl BufRead, length: usize) -> Result<Vec<u8>, String> {
    if length > BODY {
        return Err(format!("a body of {length} bytes is too large"));
    }
    let mut bytes = Vec::new();
    reader.take(length as u64).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    if bytes.len() < length { Err(String::from("the body is cut off")) } else { Ok(bytes) }
}

fn chunked(reader: &mut impl BufRead) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let head = line(reader)?.ok_or("the body is cut off")?;
        let size = head.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| format!("no size of a chunk: `{head}`"))?;
        if body.len().saturating_add(size) > BODY {
            return Err(String::from("the body is too large"));
        }
        if size == 0 {
            // Trailers end with an empty line and are ignored.
            while line(reader)?.is_some_and(|line| !line.is_empty()) {}
            return Ok(body);
        }
        body.extend(exactly(reader, size)?);
        if line(reader)?.is_none_or(|line| !line.is_empty()) {
            return Err(String::from("a chunk is longer than it says"));
        }
    }
}

/// The outcome of sending an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// Bytes of the body that went out.
    pub bytes: usize,
    /// Whether all of it went out.
    pub whole: bool,
    /// Whether the connection can be used again.
    pub reusable: bool,
}

/// In what way an answer is sent.
pub(super) struct Way<'a> {
    pub framing: Framing,
    pub manner: &'a Manner,
    pub halt: &'a Halt,
    /// Is called with the outcome before the client can know it.
    pub note: &'a dyn Fn(Sent),
}

/// Sends an answer.
pub(super) fn send(stream: &mut TcpStream, reply: &Reply, client: Client, way: &Way<'_>) -> Sent {
    let manner = way.manner;
    let whole = match &reply.body {
        Body::Whole(bytes) => Some(manner.end.map_or(bytes.len(), |end| end.min(bytes.len()))),
        _ => None,
    };
    let chunks = whole.is_none() && client.chunks && way.framing == Framing::Chunked;
    let reusable = client.keeps_connection && (whole.is_some() || chunks);
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status));
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match whole {
        Some(length) => head.push_str(&format!("content-length: {length}\r\n")),
        None if chunks => head.push_str("transfer-encoding: chunked\r\n"),
        None => {}
    }
    head.push_str(if reusable { "connection: keep-alive\r\n\r\n" } else { "connection: close\r\n\r\n" });
    let mut pipe = Pipe { stream, chunks, manner, halt: way.halt, note: way.note, sent: 0 };
    let done = pipe.all(head.as_bytes(), reply);
    let bytes = pipe.sent;
    let sent = match done {
        Ok(true) => Sent { bytes, whole: manner.end.is_none_or(|end| bytes < end), reusable },
        // A cut has closed the socket, and after an error the client is gone.
        Ok(false) | Err(_) => Sent { bytes, whole: false, reusable: false },
    };
    (way.note)(sent);
    sent
}

struct Pipe<'a> {
    stream: &'a mut TcpStream,
    chunks: bool,
    manner: &'a Manner,
    halt: &'a Halt,
    note: &'a dyn Fn(Sent),
    sent: usize,
}

impl Pipe<'_> {
    /// Whether everything went out that was to go out.
    fn all(&mut self, head: &[u8], reply: &Reply) -> io::Result<bool> {
        if self.manner.delay.is_some() {
            self.halt.wait(self.manner.delay);
        }
        if self.manner.silent {
            return self.cut(Hangup::Close);
        }
        self.stream.write_all(head)?;
        match &reply.body {
            Body::Whole(bytes) => {
                if self.manner.cut.is_none() {
                    let most = self.manner.end.unwrap_or(usize::MAX);
                    (self.note)(Sent {
                        bytes: bytes.len().min(most),
                        whole: bytes.len() < most,
                        reusable: true,
                    });
                }
                if !self.piece(bytes)? {
                    return Ok(false);
                }
            }
            Body::Pieces(pieces) => {
                for (number, piece) in pieces.iter().enumerate() {
                    if number > 0 && self.manner.pace.is_some() {
                        self.halt.wait(self.manner.pace);
                    }
                    if !self.piece(piece)? {
                        return Ok(false);
                    }
                }
            }
            Body::Endless(head, again) => {
                let mut next: &[u8] = head;
                while self.piece(next)? {
                    next = again;
                    if self.manner.pace.is_some() {
                        self.halt.wait(self.manner.pace);
                    }
                }
                return Ok(false);
            }
        }
        if self.chunks {
            let whole = self.manner.end.is_none_or(|end| self.sent < end);
            (self.note)(Sent { bytes: self.sent, whole, reusable: true });
            self.stream.write_all(b"0\r\n\r\n")?;
        }
        self.stream.flush()?;
        Ok(true)
    }

    /// Sends a part of the body, as far as the manner allows. Returns whether to continue.
    fn piece(&mut self, mut bytes: &[u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            if self.halt.ended() {
                return self.cut(Hangup::Close);
            }
            if let Some((at, how)) = self.manner.cut
                && at <= self.sent
            {
                return self.cut(how);
            }
            if let Some((at, time)) = self.manner.stall
                && at == self.sent
            {
                self.stream.flush()?;
                self.halt.wait(time);
                if self.halt.ended() {
                    return self.cut(Hangup::Close);
                }
            }
            // The next place where something happens.
            let places =
                [self.manner.cut.map(|(at, _)| at), self.manner.stall.map(|(at, _)| at), self.manner.end];
            let next = places.into_iter().flatten().filter(|at| *at > self.sent).min();
            let mut length = next.map_or(bytes.len(), |at| bytes.len().min(at - self.sent));
            if self.manner.end.is_some_and(|end| end <= self.sent) {
                return Ok(true);
            }
            if let Some(wait) = self.manner.drip {
                length = 1;
                self.halt.wait(Some(wait));
            }
            let (now, later) = bytes.split_at(length);
            if self.chunks {
                let mut chunk = format!("{:x}\r\n", now.len()).into_bytes();
                chunk.extend_from_slice(now);
                chunk.extend_from_slice(b"\r\n");
                self.stream.write_all(&chunk)?;
            } else {
                self.stream.write_all(now)?;
            }
            self.sent += length;
            bytes = later;
        }
        if let Some((at, how)) = self.manner.cut
            && at <= self.sent
        {
            return self.cut(how);
        }
        Ok(true)
    }

    fn cut(&mut self, how: Hangup) -> io::Result<bool> {
        (self.note)(Sent { bytes: self.sent, whole: false, reusable: false });
        self.stream.flush()?;
        match how {
            Hangup::Close => self.stream.shutdown(Shutdown::Both)?,
            // Closing a socket that must not linger sends a reset. The caller drops the last handle.
            Hangup::Reset => socket2::SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO))?,
        }
        Ok(false)
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Payload Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Status",
    }
}
