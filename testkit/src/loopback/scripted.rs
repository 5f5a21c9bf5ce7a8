//! A server that gives scripted answers to any request, and records the requests.
//!
//! The loopback provider understands requests and answers soundly. This server is for answers that no sound provider gives.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    Framing,
    faults::{Hangup, Manner},
    http::{Body, Reply, Request, Sent},
    listen::{Answered, Handler, Listening},
    locked,
};

/// A request to the server.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path.
    pub line: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// When the first bytes of the request came.
    pub began: Instant,
}

impl From<Request> for Asked {
    fn from(request: Request) -> Self {
        Self {
            line: format!("{} {}", request.method, request.target),
            headers: request.headers,
            body: String::from_utf8_lossy(&request.body).into_owned(),
            began: request.began,
        }
    }
}

impl Asked {
    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ending {
    /// As it should.
    Whole,
    /// The connection goes before the announced end.
    Cut,
    /// Nothing more comes, and the connection stays.
    Stall,
    /// The last bytes come again and again.
    Endless,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(Cow<'static, str>, String)>,
    body: Vec<u8>,
    ending: Ending,
}

impl Answer {
    /// A status and a body of JSON.
    pub fn json(status: u16, body: &str) -> Self {
        Self::of(status, "application/json", body)
    }

    /// A stream that says this.
    pub fn stream(body: &str) -> Self {
        Self::of(200, "text/event-stream", body)
    }

    /// Anything.
    pub fn of(status: u16, content_type: &str, body: &str) -> Self {
        let headers = vec![("content-type".into(), content_type.to_owned())];
        Self { status, headers, body: body.as_bytes().to_vec(), ending: Ending::Whole }
    }

    /// With another header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned().into(), value.to_owned()));
        self
    }

    /// That ends like this.
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Nothing but a status and a body.
    pub fn bare(status: u16, body: &[u8]) -> Self {
        Self { status, headers: Vec::new(), body: body.to_vec(), ending: Ending::Whole }
    }

    fn into_reply(self) -> (Reply, Manner) {
        let (length, mut manner) = (self.body.len(), Manner::default());
        let body = match self.ending {
            Ending::Whole => Body::Whole(self.body),
            Ending::Cut => {
                manner.cut = Some((length, Hangup::Close));
                Body::Pieces(vec![self.body])
            }
            // The byte that would come next never does.
            Ending::Stall => {
                manner.stall = Some((length, None));
                Body::Pieces(vec![self.body, vec![b' ']])
            }
            Ending::Endless => Body::Endless(self.body.clone(), self.body),
        };
        (Reply { status: self.status, headers: self.headers, body }, manner)
    }
}

/// The answers of a server, and the requests to it.
struct Script<A> {
    answer: A,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl<A: Fn(&Asked) -> Answer + Send + Sync + 'static> Handler for Script<A> {
    fn framing(&self) -> Framing {
        Framing::Chunked
    }

    fn answer(&self, request: Request) -> Answered {
        let asked = Asked::from(request);
        let number = {
            let mut all = locked(&self.asked);
            all.push(asked.clone());
            all.len() - 1
        };
        let (reply, manner) = (self.answer)(&asked).into_reply();
        Answered { number, reply, manner }
    }

    fn note(&self, _: usize, _: Sent) {}

    fn end(&self, _: usize) {}
}

/// A server on this machine. Its answers come in order, the last one again and again. It ends when it is dropped.
pub struct Server {
    /// The address of the server.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _listening: Listening,
}

impl Server {
    /// One that answers like this.
    ///
    /// # Panics
    /// If there is no answer, or no free port.
    pub fn new(answers: Vec<Answer>) -> Self {
        let count = Mutex::new(0);
        Self::answering(move |_| {
            let mut count = locked(&count);
            *count += 1;
            answers[(*count - 1).min(answers.len() - 1)].clone()
        })
    }

    /// A server whose answers depend on the request.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn answering(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let script = Script { answer, asked: Arc::clone(&asked) };
        let listening = Listening::start(0, Arc::new(script)).expect("a free port");
        Self { url: format!("http://{}", listening.address), asked, _listening: listening }
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }
}
