//! Limits the messages of a server. A message that is too large or nested too deeply, or far too many messages in a second, end the
//! connection.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::io::{AsyncRead, ReadBuf};

/// Largest message, in bytes. A result may hold a large image; a text is cut later, when it is recorded.
pub(super) const LARGEST_MESSAGE: usize = 64 << 20;

/// Deepest nesting of a message. The library parses up to 128 levels and ignores any message that it cannot parse, so a call would
/// wait in vain for its answer.
const DEEPEST_MESSAGE: usize = 120;

/// Most messages per second. Progress reports in many small steps stay far below.
const MOST_MESSAGES: u32 = 10_000;

/// The reason why a connection with a larger message was ended.
pub(super) fn too_large() -> String {
    format!("it sent a message of more than {LARGEST_MESSAGE} bytes")
}

/// A stream of lines that fails when the server exceeds a limit.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    stream: R,
    /// Why the stream failed, for a later report.
    reason: Arc<OnceLock<String>>,
    /// The bytes of the line so far.
    line: usize,
    /// The nesting depth at this point of the line, whether it is inside a string, and whether a backslash came just before.
    depth: usize,
    string: Option<bool>,
    /// When the current second began, and the number of lines in it.
    second: (Instant, u32),
}

impl<R> Bounded<R> {
    /// The stream sets `reason` when it fails.
    pub fn new(stream: R, reason: Arc<OnceLock<String>>) -> Self {
        Self { stream, reason, line: 0, depth: 0, string: None, second: (Instant::now(), 0) }
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.second.0.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), 0);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line += part.len();
            if self.line > LARGEST_MESSAGE {
                return Err(too_large());
            }
            if part.iter().any(|byte| self.nest(*byte) > DEEPEST_MESSAGE) {
                return Err(format!(
                    "it sent a message that is nested more than {DEEPEST_MESSAGE} levels deep"
                ));
            }
            if part.ends_with(b"\n") {
                (self.line, self.depth, self.string) = (0, 0, None);
                self.second.1 += 1;
            }
        }
        match self.second.1 > MOST_MESSAGES {
            true => Err(format!("it sent more than {MOST_MESSAGES} messages in a second")),
            false => Ok(()),
        }
    }
}

impl<R> Bounded<R> {
    /// Updates the nesting depth for the next byte, and returns it.
    fn nest(&mut self, byte: u8) -> usize {
        match (self.string, byte) {
            (None, b'"') => self.string = Some(false),
            (None, b'{' | b'[') => self.depth += 1,
            (None, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            (Some(false), b'"') => self.string = None,
            (Some(false), b'\\') => self.string = Some(true),
            (Some(true), _) => self.string = Some(false),
            _ => {}
        }
        self.depth
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        Poll::Ready(this.count(&buffer.filled()[before..]).map_err(|why| {
            let _ = this.reason.set(why.clone());
            io::Error::other(why)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_end() {
        let mut stream = Bounded::new((), Arc::default());
        assert!(stream.count(b"{}\n{}\n").is_ok());
        let lines = b"\n".repeat(MOST_MESSAGES as usize);
        assert!(stream.count(&lines).unwrap_err().contains("messages in a second"));
        let deep = "[".repeat(DEEPEST_MESSAGE);
        let mut stream = Bounded::new((), Arc::default());
        assert!(stream.count(format!("{deep}\n{deep}\n\"\\\"[[").as_bytes()).is_ok());
        assert!(stream.count(format!("{deep}[\n").as_bytes()).is_ok(), "in a string");
        assert!(stream.count(format!("{deep}[").as_bytes()).unwrap_err().contains("levels deep"));
        let mut stream = Bounded::new((), Arc::default());
        let mebibyte = vec![b'x'; 1 << 20];
        let fails = (0..100).find_map(|_| stream.count(&mebibyte).err()).unwrap();
        assert!(fails.contains("more than 67108864 bytes"));
    }
}
