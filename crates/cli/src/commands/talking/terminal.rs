//! The terminal at the prompt and while a question is asked.
//!
//! At the prompt, the line editor uses it. If the editor cannot work, as with `TERM=dumb`, the terminal itself edits the line:
//! Ctrl-C then ends the typed line and is read as its last byte, so it is known whether the line was empty. While a turn runs,
//! Ctrl-C is a signal as usual. Answers to questions are always plain lines.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rejoin::engine::turn::Stop;
use tokio::sync::{Mutex, mpsc};

use super::editor::{self, EditOutcome, Editor};
use crate::output;

pub enum TerminalInput {
    /// A line that was ended with Enter.
    Line(String),
    /// Ctrl-C, and the unfinished line.
    Stopped(String),
}

/// The terminal on standard input. Dropping it restores its settings.
pub struct Terminal {
    /// The terminal and its original settings. Kept because standard input is replaced while the editor reads.
    #[cfg(unix)]
    before: Option<(std::os::fd::OwnedFd, rustix::termios::Termios)>,
    /// The thread that reads lines, once the first line was requested.
    reader: Mutex<Option<Reader>>,
    source: Mutex<LineSource>,
    /// Whether keys are currently not echoed.
    quiet: AtomicBool,
}

/// Turns the echo of keys off or on until it is dropped.
pub struct EchoGuard<'t> {
    terminal: &'t Terminal,
    before: bool,
}

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        self.terminal.set_quiet(self.before);
    }
}

/// What reads messages.
enum LineSource {
    /// The editor, started for the first message.
    Later(Box<editor::Setup>),
    Editor(Editor),
    /// The reader of plain lines.
    Plain,
}

/// A thread that reads one line per request. Between lines, an editor may use the terminal.
struct Reader {
    /// Receives the number of each request.
    wanted: mpsc::UnboundedSender<u64>,
    /// Lines, and `None` for each request that was cancelled.
    lines: mpsc::UnboundedReceiver<Option<TerminalInput>>,
    /// The numbers of the last request, and of the last cancelled one.
    asked: u64,
    given_up: Arc<AtomicU64>,
    /// Wakes the thread when a request is cancelled.
    #[cfg(unix)]
    wake: Option<std::os::unix::net::UnixStream>,
    /// Whether a line was requested and the caller stopped waiting, so that the next typed line answers that request.
    waiting: bool,
}

impl Terminal {
    pub fn new(setup: editor::Setup) -> Self {
        let source =
            if editor::is_possible() { LineSource::Later(Box::new(setup)) } else { LineSource::Plain };
        Self {
            #[cfg(unix)]
            before: settings().ok(),
            reader: Mutex::default(),
            source: Mutex::new(source),
            quiet: AtomicBool::new(false),
        }
    }

    /// Turns the echo of keys off for a while: keys would appear in the middle of the drawing. The next prompt shows them.
    pub fn without_echo(&self) -> EchoGuard<'_> {
        let drawn = output::can_redraw();
        EchoGuard { terminal: self, before: self.set_quiet(drawn) }
    }

    /// Turns the echo of keys on for a while.
    pub fn with_echo(&self) -> EchoGuard<'_> {
        EchoGuard { terminal: self, before: self.set_quiet(false) }
    }

    /// Returns the previous value.
    fn set_quiet(&self, quiet: bool) -> bool {
        let before = self.quiet.swap(quiet, Ordering::Relaxed);
        #[cfg(unix)]
        if let Some((terminal, settings)) = self.before.as_ref().filter(|_| before != quiet) {
            use rustix::termios::{LocalModes, OptionalActions, tcsetattr};
            let mut settings = settings.clone();
            if quiet {
                settings.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
            }
            let _ = tcsetattr(terminal, OptionalActions::Now, &settings);
        }
        before
    }

    /// Prompts for a message; `None` if the person leaves. If another task sets `stop`, the line is given up, as with Ctrl-C.
    pub async fn message(&self, stop: &Stop) -> Option<TerminalInput> {
        let mut source = self.source.lock().await;
        if let LineSource::Later(_) | LineSource::Editor(_) = &*source {
            // A cancelled question must not receive the line that is typed now.
            if let Some(reader) = &mut *self.reader.lock().await
                && let Some(typed) = reader.give_up().await
            {
                return Some(typed);
            }
            let editor = match std::mem::replace(&mut *source, LineSource::Plain) {
                LineSource::Later(setup) => Editor::start(*setup),
                LineSource::Editor(editor) => editor,
                LineSource::Plain => return self.plain_message(stop).await,
            };
            *source = LineSource::Editor(editor);
        }
        if let LineSource::Editor(editor) = &mut *source {
            let edited = tokio::select! {
                edited = editor.next() => edited,
                () = stop.asked() => {
                    editor.stop().await;
                    EditOutcome::Input(TerminalInput::Stopped(String::new()))
                }
            };
            match edited {
                EditOutcome::Input(typed) => return Some(typed),
                EditOutcome::Left => return None,
                EditOutcome::Failed(why) => {
                    tracing::debug!("line editing is not available here: {why}");
                    *source = LineSource::Plain;
                    self.in_a_turn();
                }
            }
        }
        self.plain_message(stop).await
    }

    /// Prompts for a message with a line that the terminal edits.
    async fn plain_message(&self, stop: &Stop) -> Option<TerminalInput> {
        output::prompt(&format!("{} ", output::paint("›", output::STRONG)));
        self.at_the_prompt();
        let typed = tokio::select! {
            typed = self.next() => typed,
            () = stop.asked() => Some(TerminalInput::Stopped(String::new())),
        };
        self.in_a_turn();
        if !matches!(typed, Some(TerminalInput::Line(_))) {
            output::talk("");
        }
        typed
    }

    /// The byte that Ctrl-C sends, if it can be read as input.
    fn stop_byte(&self) -> Option<u8> {
        #[cfg(unix)]
        {
            use rustix::termios::SpecialCodeIndex;
            let byte = self.before.as_ref()?.1.special_codes[SpecialCodeIndex::VINTR];
            (byte != DISABLED).then_some(byte)
        }
        #[cfg(not(unix))]
        None
    }

    /// Makes Ctrl-C end the line.
    fn at_the_prompt(&self) {
        #[cfg(unix)]
        if let (Some((terminal, before)), Some(byte)) = (&self.before, self.stop_byte()) {
            use rustix::termios::{OptionalActions, SpecialCodeIndex, tcsetattr};
            let mut at_the_prompt = before.clone();
            at_the_prompt.special_codes[SpecialCodeIndex::VINTR] = DISABLED;
            at_the_prompt.special_codes[SpecialCodeIndex::VEOL] = byte;
            let _ = tcsetattr(terminal, OptionalActions::Now, &at_the_prompt);
        }
    }

    /// Makes Ctrl-C a signal again.
    fn in_a_turn(&self) {
        #[cfg(unix)]
        if let Some((terminal, before)) = &self.before {
            let _ = rustix::termios::tcsetattr(terminal, rustix::termios::OptionalActions::Now, before);
        }
    }

    /// Waits for the next line; `None` at the end of the input. If the wait is dropped, the next call gets the line.
    pub async fn next(&self) -> Option<TerminalInput> {
        let mut reader = self.reader.lock().await;
        let reader = reader.get_or_insert_with(|| Reader::start(self.stop_byte()));
        if !std::mem::replace(&mut reader.waiting, true) {
            reader.asked += 1;
            let _ = reader.wanted.send(reader.asked);
        }
        let typed = reader.lines.recv().await;
        reader.waiting = false;
        typed.flatten()
    }

    /// Discards keys that were typed before a question was shown, because they are no answer to it.
    pub fn forget_typed(&self) {
        #[cfg(unix)]
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }
}

impl Reader {
    /// Starts the thread, which is needed because waiting for a line cannot be cancelled.
    fn start(stop: Option<u8>) -> Self {
        let (wanted, mut wants) = mpsc::unbounded_channel();
        let (typed, lines) = mpsc::unbounded_channel();
        let given_up = Arc::new(AtomicU64::new(0));
        #[cfg(unix)]
        let (wake, woken) = std::os::unix::net::UnixStream::pair().ok().unzip();
        #[cfg(unix)]
        let unwanted = Arc::clone(&given_up);
        std::thread::spawn(move || {
            while let Some(number) = wants.blocking_recv() {
                #[cfg(not(unix))]
                let _ = number;
                #[cfg(unix)]
                if woken
                    .as_ref()
                    .is_some_and(|woken| is_given_up(woken, || unwanted.load(Ordering::SeqCst) >= number))
                {
                    if typed.send(None).is_err() {
                        return;
                    }
                    continue;
                }
                let Ok(Some(line)) = next(&mut io::stdin().lock(), stop) else { return };
                if typed.send(Some(line)).is_err() {
                    return;
                }
            }
        });
        Self {
            wanted,
            lines,
            asked: 0,
            given_up,
            #[cfg(unix)]
            wake,
            waiting: false,
        }
    }

    /// Makes the thread release the terminal. If a line arrived first, returns it.
    async fn give_up(&mut self) -> Option<TerminalInput> {
        #[cfg(unix)]
        if self.waiting
            && let Some(wake) = &mut self.wake
        {
            self.given_up.store(self.asked, Ordering::SeqCst);
            if io::Write::write_all(wake, b".").is_ok() {
                self.waiting = false;
                return self.lines.recv().await.flatten();
            }
        }
        None
    }
}

/// Waits until a line can be read. Returns true if the request was cancelled. A wake-up may belong to an earlier request.
#[cfg(unix)]
fn is_given_up(woken: &std::os::unix::net::UnixStream, is_unwanted: impl Fn() -> bool) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdin = io::stdin();
    loop {
        let mut watched = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        if let Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {
            continue;
        }
        let [readable, told] = watched.map(|watched| !watched.revents().is_empty());
        if readable || !told {
            return false;
        }
        let _ = io::Read::read(&mut &*woken, &mut [0]);
        if is_unwanted() {
            return true;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.in_a_turn();
    }
}

/// The terminal on standard input, and its settings.
#[cfg(unix)]
fn settings() -> io::Result<(std::os::fd::OwnedFd, rustix::termios::Termios)> {
    use std::os::fd::AsFd as _;
    let terminal = io::stdin().as_fd().try_clone_to_owned()?;
    let settings = rustix::termios::tcgetattr(&terminal)?;
    Ok((terminal, settings))
}

/// The value that disables a control character of a terminal.
#[cfg(all(unix, any(target_os = "linux", target_os = "android")))]
const DISABLED: u8 = 0;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const DISABLED: u8 = 0xff;

/// Reads the next line or Ctrl-C; `None` at the end of the input.
fn next(input: &mut impl io::BufRead, stop: Option<u8>) -> io::Result<Option<TerminalInput>> {
    let mut line = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        // Invalid UTF-8 becomes a replacement character.
        let text = |line: &[u8]| output::typed(&String::from_utf8_lossy(line));
        if bytes.is_empty() {
            return Ok((!line.is_empty()).then(|| TerminalInput::Line(text(&line))));
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
                return Ok(Some(TerminalInput::Line(text(&line))));
            }
            Some(_) => return Ok(Some(TerminalInput::Stopped(text(&line)))),
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
                TerminalInput::Line(line) => line,
                TerminalInput::Stopped(line) => format!("^C {line}"),
            });
        }
        assert_eq!(typed, ["one", "^C two", "^C ", "three", "four"]);
    }
}
