//! A minimal HTTP client in one file, with only what the tests need.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;

use super::super::Loopback;

/// A response.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// How it ended: `whole`, `closed`, `reset` or `stalled`.
    pub end: &'static str,
    /// How many pieces the body came in, where it came in chunks.
    pub chunks: usize,
}

impl Got {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The JSON of each event or line, without `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        lines.filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A connection.
pub struct Client {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn to(server: &Loopback) -> Self {
        let stream = TcpStream::connect(server.url().trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    pub fn post(&mut self, path: &str, headers: &[(&str, String)], body: &[u8]) -> Got {
        let mut head =
            format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        self.stream.write_all(head.as_bytes()).unwrap();
        self.stream.write_all(body).unwrap();
        self.receive()
    }

    pub fn get(&mut self, path: &str, headers: &[(&str, String)]) -> Got {
        let mut head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        self.receive()
    }

    pub fn receive(&mut self) -> Got {
        let mut got = Got { status: 0, headers: Vec::new(), body: Vec::new(), end: "whole", chunks: 0 };
        if let Err(why) = self.read(&mut got) {
            got.end = match why.kind() {
                ErrorKind::ConnectionReset => "reset",
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "stalled",
                _ => "closed",
            };
        }
        got
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn read(&mut self, got: &mut Got) -> std::io::Result<()> {
        loop {
            let status = self.line()?;
            got.status = status.split(' ').nth(1).unwrap().parse().unwrap();
            got.headers.clear();
            loop {
                let line = self.line()?;
                let Some((name, value)) = line.split_once(": ") else { break };
                got.headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
            if got.status != 100 {
                break;
            }
        }
        if let Some(length) = got.header("content-length").map(|length| length.parse().unwrap()) {
            self.some(got, length)?;
        } else if got.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).unwrap();
                self.some(got, size)?;
                self.line()?;
                if size == 0 {
                    break;
                }
                got.chunks += 1;
            }
        } else {
            self.reader.read_to_end(&mut got.body)?;
        }
        Ok(())
    }

    /// Bytes that arrived before a failure are kept.
    fn some(&mut self, got: &mut Got, length: usize) -> std::io::Result<()> {
        let mut left = length;
        let mut buffer = [0; 4096];
        while left > 0 {
            let most = left.min(buffer.len());
            let read = self.reader.read(&mut buffer[..most])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            got.body.extend_from_slice(&buffer[..read]);
            left -= read;
        }
        Ok(())
    }
}
