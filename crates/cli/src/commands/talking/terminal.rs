//! The terminal at the prompt, and when a question is asked. At the prompt, Ctrl-C ends the line that is being typed and is read as
//! its last byte, so it is known whether the line was empty; while a turn runs, Ctrl-C is a signal as everywhere else. Editing the
//! line stays with the terminal.

use std::io;

use tokio::sync::{Mutex, mpsc};

pub enum Typed {
    /// A line that was ended with Enter.
    Line(String),
    /// Ctrl-C, and the unfinished line.
    Stopped(String),
}

/// The terminal on standard input. Dropping it restores its settings.
pub struct Terminal {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
    /// The thread that reads lines, once one was wanted.
    reader: Mutex<Option<Reader>>,
}

/// A thread that reads one line each time one is wanted. Between lines, an editor may have the terminal.
struct Reader {
    wanted: mpsc::UnboundedSender<()>,
    lines: mpsc::UnboundedReceiver<Typed>,
    /// Whether a line was asked for and its caller stopped waiting, so that the next one typed answers that request.
    waiting: bool,
}

impl Terminal {
    pub fn new() -> Self {
        Self {
            #[cfg(unix)]
            before: rustix::termios::tcgetattr(io::stdin()).ok(),
            reader: Mutex::default(),
        }
    }

    /// The byte that Ctrl-C sends, if it can be read as one.
    fn stop_byte(&self) -> Option<u8> {
        #[cfg(unix)]
        {
            use rustix::termios::SpecialCodeIndex;
            let byte = self.before.as_ref()?.special_codes[SpecialCodeIndex::VINTR];
            (byte != DISABLED).then_some(byte)
        }
        #[cfg(not(unix))]
        None
    }

    /// Makes Ctrl-C end the line.
    pub fn at_the_prompt(&self) {
        #[cfg(unix)]
        if let (Some(before), Some(byte)) = (&self.before, self.stop_byte()) {
            use rustix::termios::{OptionalActions, SpecialCodeIndex, tcsetattr};
            let mut at_the_prompt = before.clone();
            at_the_prompt.special_codes[SpecialCodeIndex::VINTR] = DISABLED;
            at_the_prompt.special_codes[SpecialCodeIndex::VEOL] = byte;
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &at_the_prompt);
        }
    }

    /// Makes Ctrl-C a signal again.
    pub fn in_a_turn(&self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
    }

    /// Waits for the next line; none at the end. If the wait is given up, the next one gets the line.
    pub async fn next(&self) -> Option<Typed> {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| Reader::start(self.stop_byte()));
        if !std::mem::replace(&mut reader.waiting, true) {
            let _ = reader.wanted.send(());
        }
        let typed = reader.lines.recv().await;
        reader.waiting = false;
        typed
    }

    /// Forgets what was typed before a question was shown: it is no answer.
    pub fn forget_typed(&self) {
        #[cfg(unix)]
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }
}

impl Reader {
    /// Starts the thread: waiting for a line cannot be cancelled.
    fn start(stop: Option<u8>) -> Self {
        let (wanted, mut wants) = mpsc::unbounded_channel();
        let (typed, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while wants.blocking_recv().is_some()
                && let Ok(Some(line)) = next(&mut io::stdin().lock(), stop)
                && typed.send(line).is_ok()
            {}
        });
        Self { wanted, lines, waiting: false }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.in_a_turn();
    }
}

/// The value that disables a control character of a terminal.
#[cfg(all(unix, any(target_os = "linux", target_os = "android")))]
const DISABLED: u8 = 0;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const DISABLED: u8 = 0xff;

/// Reads the next line or Ctrl-C; none at the end.
fn next(input: &mut impl io::BufRead, stop: Option<u8>) -> io::Result<Option<Typed>> {
    let mut line = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        if bytes.is_empty() {
            return Ok((!line.is_empty()).then(|| Typed::Line(text(&line))));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n' || Some(*byte) == stop);
        line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        let ended_by = end.map(|end| bytes[end]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        input.consume(used);
        match ended_by {
            Some(b'\n') => {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(Typed::Line(text(&line))));
            }
            Some(_) => return Ok(Some(Typed::Stopped(text(&line)))),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_enter_or_with_the_stop_byte() {
        let mut input: &[u8] = b"one\ntwo\x03\x03three\r\nfour";
        let mut typed = Vec::new();
        while let Some(next) = next(&mut input, Some(3)).unwrap() {
            typed.push(match next {
                Typed::Line(line) => line,
                Typed::Stopped(line) => format!("^C {line}"),
            });
        }
        assert_eq!(typed, ["one", "^C two", "^C ", "three", "four"]);
    }
}
