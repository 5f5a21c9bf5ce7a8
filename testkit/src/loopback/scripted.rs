//! A server that answers as it is told, whatever it is asked, and notes what it was asked.
//!
//! The loopback provider next door understands what it is asked and answers soundly. This one is for answers that no sound
//! provider gives.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use super::{http, locked};

/// What the server was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path.
    pub line: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl From<http::Request> for Asked {
    fn from(request: http::Request) -> Self {
        Self {
            line: format!("{} {}", request.method, request.target),
            headers: request.headers,
            body: String::from_utf8_lossy(&request.body).into_owned(),
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
    headers: Vec<(String, String)>,
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
        let headers = vec![(String::from("content-type"), content_type.to_owned())];
        Self { status, headers, body: body.as_bytes().to_vec(), ending: Ending::Whole }
    }

    /// With another header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// That ends like this.
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Whatever\r\nconnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // A cut shows only if the length was announced.
        let more = if self.ending == Ending::Whole { 0 } else { 1 << 40 };
        head.push_str(&format!("content-length: {}\r\n\r\n", self.body.len() + more));
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.body)?;
        match self.ending {
            Ending::Whole | Ending::Cut => {}
            Ending::Stall => {
                let _ = stream.read(&mut [0; 16])?;
            }
            Ending::Endless => loop {
                stream.write_all(&self.body)?;
            },
        }
        Ok(())
    }
}

/// A server on this machine. Its answers come in order, the last one again and again.
pub struct Server {
    /// Where it is.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
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

    /// One that looks at what it is asked.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn answering(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound socket has an address"));
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        // It ends with the process: a server that stalls waits for its client.
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || {
                    let Ok(copy) = stream.try_clone() else { return };
                    let Ok(Some(request)) = http::read(&mut BufReader::new(copy), &mut stream) else {
                        return;
                    };
                    let asked = Asked::from(request);
                    locked(&seen).push(asked.clone());
                    let _ = answer(&asked).send(&mut stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Self { url, asked }
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        locked(&self.asked).clone()
    }
}
