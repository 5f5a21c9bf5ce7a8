//! Deliberate faults: answers that break off, stall, never end, or are no answers at all.

use std::{collections::VecDeque, str::FromStr, time::Duration};

use rejoin_formats::Dialect;
use serde_json::json;

use super::{
    Service,
    http::{Body, Reply},
    refuse::{Cause, Refusal},
};

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// In good order (FIN).
    Close,
    /// Torn down (RST).
    Reset,
}

/// Something that goes wrong with an answer. Bytes are those of the body, without what HTTP puts around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed after this many bytes.
    CutAfter(usize),
    /// The connection is reset after this many bytes.
    ResetAfter(usize),
    /// The answer ends after this many bytes, as HTTP wants it, and nothing says that there should be more.
    EndAfter(usize),
    /// The connection is closed without a word.
    HangUp,
    /// Nothing comes for a while after this many bytes; without a time, for ever.
    Stall {
        /// After how many bytes.
        after: usize,
        /// For how long.
        time: Option<Duration>,
    },
    /// It takes this long until an answer begins.
    Late(Duration),
    /// Every byte is sent alone, this long after the previous one.
    Drip(Duration),
    /// It takes this long from each event to the next.
    Slow(Duration),
    /// Bytes that mean nothing, with status 200.
    Garbage,
    /// A line that never ends, with status 200.
    EndlessLine,
    /// The first half of the answer, then the last event of that half again and again.
    EndlessAnswer,
    /// This many events of the answer, then nothing but signs of life, again and again. [`Fault::Slow`] says how often.
    KeepAlive(usize),
    /// A line of this many bytes that says nothing, and then the answer.
    LongLine(usize),
    /// A web page with this status, as a proxy sends it.
    HtmlPage(u16),
    /// An empty body with status 200.
    Nothing,
    /// This status in the provider's own shape.
    Status {
        /// 400, 401, 403, 404, 429, 500, 503, 529 or another.
        status: u16,
        /// Seconds to wait, as the header says.
        retry_after: Option<u64>,
    },
    /// The conversation is too long for the model, in the provider's words.
    ContextLength,
    /// The key is refused, and the message repeats it.
    EchoKey,
    /// The provider says that it failed, after this many events of the answer.
    ErrorAfter(usize),
}

impl Fault {
    /// A status without a time to wait.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None }
    }
}

/// In what manner bytes are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manner {
    pub cut: Option<(usize, Hangup)>,
    pub end: Option<usize>,
    pub stall: Option<(usize, Option<Duration>)>,
    pub delay: Option<Duration>,
    pub drip: Option<Duration>,
    pub pace: Option<Duration>,
    /// Nothing is sent at all.
    pub silent: bool,
}

impl Manner {
    /// Adds a fault that concerns bytes, not their meaning.
    pub fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::CutAfter(bytes) => self.cut = Some((*bytes, Hangup::Close)),
            Fault::ResetAfter(bytes) => self.cut = Some((*bytes, Hangup::Reset)),
            Fault::EndAfter(bytes) => self.end = Some(*bytes),
            Fault::HangUp => self.silent = true,
            Fault::Stall { after, time } => self.stall = Some((*after, *time)),
            Fault::Late(time) => self.delay = Some(*time),
            Fault::Drip(time) => self.drip = Some(*time),
            Fault::Slow(time) => self.pace = Some(*time),
            _ => {}
        }
    }
}

/// Whose answer goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered<'a> {
    pub service: Service,
    /// The dialect, if a model was asked.
    pub dialect: Option<Dialect>,
    /// The key that came with the request.
    pub key: Option<&'a str>,
}

/// The reply in place of an answer, if the fault replaces it.
pub(super) fn instead(fault: &Fault, of: &Answered<'_>, reply: &Reply) -> Option<Reply> {
    let Answered { service, dialect, key } = *of;
    let lines = service == Service::Ollama;
    let streamed = |body: Vec<u8>| {
        let kind = if lines { "application/x-ndjson" } else { "text/event-stream" };
        Reply {
            status: 200,
            headers: vec![("content-type".into(), kind.into())],
            body: Body::Pieces(vec![body]),
        }
    };
    Some(match fault {
        Fault::Garbage => {
            let bytes: Vec<u8> = (0..4096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            streamed(bytes)
        }
        Fault::EndlessLine => {
            let head = if lines { "{\"model\":\"" } else { "data: {\"x\":\"" };
            Reply { body: Body::Endless(head.into(), vec![b'0'; 64 * 1024]), ..streamed(Vec::new()) }
        }
        Fault::EndlessAnswer => match &reply.body {
            Body::Pieces(pieces) if reply.status == 200 => {
                let half = &pieces[..pieces.len().div_ceil(2)];
                let again = half.last().cloned().unwrap_or_default();
                Reply { body: Body::Endless(half.concat(), again), ..reply.clone() }
            }
            _ => return None,
        },
        Fault::KeepAlive(events) => match &reply.body {
            Body::Pieces(pieces) if reply.status == 200 => {
                let said = pieces[..pieces.len().min(*events)].concat();
                Reply { body: Body::Endless(said, sign_of_life(service).to_vec()), ..reply.clone() }
            }
            _ => return None,
        },
        Fault::LongLine(length) => {
            let mut line = vec![if lines { b' ' } else { b':' }; *length];
            line.push(b'\n');
            if !lines {
                line.push(b'\n');
            }
            match &reply.body {
                Body::Pieces(pieces) if reply.status == 200 => {
                    let pieces = std::iter::once(line).chain(pieces.iter().cloned()).collect();
                    Reply { body: Body::Pieces(pieces), ..reply.clone() }
                }
                _ => return None,
            }
        }
        Fault::HtmlPage(status) => {
            let page = format!(
                "<!DOCTYPE html>\n<html><head><title>{status}</title></head>\n<body><center><h1>{status}</h1></center>\
                 <hr><center>loopback</center></body></html>\n"
            );
            Reply::text(*status, "text/html; charset=UTF-8", page)
        }
        Fault::Nothing => Reply::text(200, "application/json", ""),
        Fault::Status { status, retry_after } => {
            let mut reply = Refusal::of(Cause::Status(*status)).reply(service);
            if let Some(seconds) = retry_after {
                reply.headers.push(("retry-after".into(), seconds.to_string()));
            }
            reply
        }
        Fault::ContextLength if dialect == Some(Dialect::OpenAiResponses) => {
            let words = "Your input exceeds the context window of this model. Please adjust your input and try again.";
            Refusal::of(Cause::ContextLength).saying(words).about("input").reply(service)
        }
        Fault::ContextLength => Refusal::of(Cause::ContextLength).about("messages").reply(service),
        Fault::EchoKey => {
            let words = format!("Incorrect API key provided: {}.", key.unwrap_or_default());
            Refusal::of(Cause::WrongKey).saying(words).reply(service)
        }
        Fault::ErrorAfter(events) => match &reply.body {
            Body::Pieces(pieces) => {
                let mut pieces: Vec<Vec<u8>> = pieces.iter().take(*events).cloned().collect();
                pieces.push(failure(service, dialect));
                Reply { body: Body::Pieces(pieces), ..reply.clone() }
            }
            _ => Refusal::of(Cause::Status(500)).reply(service),
        },
        _ => return None,
    })
}

/// The bytes that a service sends to keep a connection open.
fn sign_of_life(service: Service) -> &'static [u8] {
    match service {
        Service::Ollama => b"\n",
        Service::Anthropic => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        Service::OpenRouter => b": OPENROUTER PROCESSING\n\n",
        _ => b": keep-alive\n\n",
    }
}

/// How a service says in the middle of an answer that it failed.
fn failure(service: Service, dialect: Option<Dialect>) -> Vec<u8> {
    let overloaded = "Overloaded";
    match service {
        Service::Ollama => b"{\"error\":\"an error was encountered while running the model\"}\n".to_vec(),
        Service::Anthropic => {
            let error =
                json!({"type": "error", "error": {"type": "overloaded_error", "message": overloaded}});
            format!("event: error\ndata: {error}\n\n").into_bytes()
        }
        Service::Gemini => {
            let error = json!({"error": {"code": 503, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE"}});
            format!("data: {error}\r\n\r\n").into_bytes()
        }
        _ if dialect == Some(Dialect::OpenAiResponses) => {
            let error = json!({"type": "error", "sequence_number": 99, "code": "server_error", "message": "The server had an error while processing your request.", "param": null});
            format!("event: error\ndata: {error}\n\n").into_bytes()
        }
        _ => {
            let error = json!({"error": {"message": "The server had an error while processing your request. Sorry about that!", "type": "server_error", "param": null, "code": null}});
            format!("data: {error}\n\n").into_bytes()
        }
    }
}

/// Which faults come when.
#[derive(Default)]
pub(super) struct Plan {
    next: VecDeque<Vec<Fault>>,
    always: Vec<Fault>,
    schedule: Option<Box<dyn Fn(usize) -> Vec<Fault> + Send>>,
    /// How many answers there were.
    count: usize,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("next", &self.next).field("always", &self.always).finish_non_exhaustive()
    }
}

impl Plan {
    pub fn push(&mut self, faults: Vec<Fault>) {
        self.next.push_back(faults);
    }

    pub fn always(&mut self, fault: Fault) {
        self.always.push(fault);
    }

    pub fn schedule(&mut self, schedule: Box<dyn Fn(usize) -> Vec<Fault> + Send>) {
        self.schedule = Some(schedule);
    }

    pub fn clear(&mut self) {
        *self = Self { count: self.count, ..Self::default() };
    }

    /// The faults of the next answer.
    pub fn take(&mut self) -> Vec<Fault> {
        let mut faults = self.always.clone();
        faults.extend(self.next.pop_front().unwrap_or_default());
        if let Some(schedule) = &self.schedule {
            faults.extend(schedule(self.count));
        }
        self.count += 1;
        faults
    }
}

/// The names of the faults, as they are written on a command line.
pub const FAULTS: &str = "cut:BYTES reset:BYTES end:BYTES hangup stall:BYTES[:MS] late:MS drip:MS slow:MS garbage \
                          endless endless-answer keep-alive:EVENTS long:BYTES html:STATUS nothing status:CODE[:RETRY-AFTER] context echo-key error:EVENTS";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|_| format!("`{text}`: what follows `:` is no number"))?;
        let first =
            || numbers.first().copied().ok_or_else(|| format!("`{name}` takes a number: `{name}:100`"));
        let bytes = || first().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let time = || first().map(Duration::from_millis);
        let status = || first().and_then(|number| u16::try_from(number).map_err(|why| why.to_string()));
        Ok(match name {
            "cut" => Self::CutAfter(bytes()?),
            "reset" => Self::ResetAfter(bytes()?),
            "end" => Self::EndAfter(bytes()?),
            "hangup" => Self::HangUp,
            "stall" => {
                Self::Stall { after: bytes()?, time: numbers.get(1).copied().map(Duration::from_millis) }
            }
            "late" => Self::Late(time()?),
            "drip" => Self::Drip(time()?),
            "slow" => Self::Slow(time()?),
            "garbage" => Self::Garbage,
            "endless" => Self::EndlessLine,
            "endless-answer" => Self::EndlessAnswer,
            "keep-alive" => Self::KeepAlive(bytes()?),
            "long" => Self::LongLine(bytes()?),
            "html" => Self::HtmlPage(status()?),
            "nothing" => Self::Nothing,
            "status" => Self::Status { status: status()?, retry_after: numbers.get(1).copied() },
            "context" => Self::ContextLength,
            "echo-key" => Self::EchoKey,
            "error" => Self::ErrorAfter(bytes()?),
            _ => return Err(format!("no fault `{name}`; there are: {FAULTS}")),
        })
    }
}
