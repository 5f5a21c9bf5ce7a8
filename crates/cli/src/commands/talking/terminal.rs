//! The terminal at the prompt, and when a question is asked.
//!
//! At the prompt, the line editor has it. Where that cannot work, such as with `TERM=dumb`, the terminal itself edits the line: then
//! Ctrl-C ends the line that is being typed and is read as its last byte, so it is known whether the line was empty. While a turn
//! runs, Ctrl-C is a signal as everywhere else. Answers to questions are always plain lines.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rejoin::engine::turn::Stop;
use tokio::sync::{Mutex, mpsc};

use super::editor::{self, Edited, Editor};
use crate::output;

pub enum Typed {
    /// A line that was ended with Enter.
    Line(String),
    /// Ctrl-C, and the unfinished line.
    Stopped(String),
}

/// The terminal on standard input. Dropping it restores its settings.
pub struct Terminal {
    /// The terminal and its settings. While the editor reads, standard input is something else.
    #[cfg(unix)]
    before: Option<(std::os::fd::OwnedFd, rustix::termios::Termios)>,
    /// The thread that reads lines, once one was wanted.
    reader: Mutex<Option<Reader>>,
    editing: Mutex<Editing>,
    /// Whether keys are not shown just now.
    quiet: AtomicBool,
}

/// A terminal that keeps quiet, or speaks again, until this is dropped.
pub struct EchoGuard<'t> {
    terminal: &'t Terminal,
    before: bool,
}

impl Drop for EchoGuard<'_> {
    fn drop(&mut self) {
        self.terminal.set_quiet(self.before);
    }
}

/// Who reads messages.
enum Editing {
    /// The editor, once a message is wanted.
    Later(Box<editor::Setup>),
    Editor(Editor),
    /// The reader of plain lines.
    Plain,
}

/// A thread that reads one line each time one is wanted. Between lines, an editor may have the terminal.
struct Reader {
    /// Takes the number of each request.
    wanted: mpsc::UnboundedSender<u64>,
    /// Lines, and nothing for each that is no longer wanted.
    lines: mpsc::UnboundedReceiver<Option<Typed>>,
    /// The number of the last request, and of the last one that was given up.
    asked: u64,
    given_up: Arc<AtomicU64>,
    /// Wakes the thread when a line is no longer wanted.
    #[cfg(unix)]
    wake: Option<std::os::unix::net::UnixStream>,
    /// Whether a line was asked for and its caller stopped waiting, so that the next one typed answers that request.
    waiting: bool,
}

impl Terminal {
    pub fn new(setup: editor::Setup) -> Self {
        let editing = if editor::is_possible() { Editing::Later(Box::new(setup)) } else { Editing::Plain };
        Self {
            #[cfg(unix)]
            before: settings().ok(),
            reader: Mutex::default(),
            editing: Mutex::new(editing),
            quiet: AtomicBool::new(false),
        }
    }

    /// Does not show keys for a while: they would end up in the middle of what is being drawn. The next prompt shows them.
    pub fn without_echo(&self) -> EchoGuard<'_> {
        let drawn = output::can_redraw();
        EchoGuard { terminal: self, before: self.set_quiet(drawn) }
    }

    /// Shows keys for a while.
    pub fn with_echo(&self) -> EchoGuard<'_> {
        EchoGuard { terminal: self, before: self.set_quiet(false) }
    }

    /// Returns what it was before.
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

    /// Prompts for a message; none if the person leaves. What others ask to stop is given up as with Ctrl-C.
    pub async fn message(&self, stop: &Stop) -> Option<Typed> {
        let mut editing = self.editing.lock().await;
        if let Editing::Later(_) | Editing::Editor(_) = &*editing {
            // A question that was given up must not take what is typed now.
            if let Some(reader) = &mut *self.reader.lock().await
                && let Some(typed) = reader.give_up().await
            {
                return Some(typed);
            }
            let editor = match std::mem::replace(&mut *editing, Editing::Plain) {
                Editing::Later(setup) => Editor::start(*setup),
                Editing::Editor(editor) => editor,
                Editing::Plain => return self.plain_message(stop).await,
            };
            *editing = Editing::Editor(editor);
        }
        if let Editing::Editor(editor) = &mut *editing {
            let edited = tokio::select! {
                edited = editor.next() => edited,
                () = stop.asked() => {
                    editor.stop().await;
                    Edited::Typed(Typed::Stopped(String::new()))
                }
            };
            match edited {
                Edited::Typed(typed) => return Some(typed),
                Edited::Left => return None,
                Edited::Failed(why) => {
                    tracing::debug!("lines cannot be edited here: {why}");
                    *editing = Editing::Plain;
                    self.in_a_turn();
                }
            }
        }
        self.plain_message(stop).await
    }

    /// The same, with a line that the terminal edits.
    async fn plain_message(&self, stop: &Stop) -> Option<Typed> {
        output::prompt(&format!("{} ", output::paint("›", output::STRONG)));
        self.at_the_prompt();
        let typed = tokio::select! {
            typed = self.next() => typed,
            () = stop.asked() => Some(Typed::Stopped(String::new())),
        };
        self.in_a_turn();
        if !matches!(typed, Some(Typed::Line(_))) {
            output::talk("");
        }
        typed
    }

    /// The byte that Ctrl-C sends, if it can be read as one.
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

    /// Waits for the next line; none at the end. If the wait is given up, the next one gets the line.
    pub async fn next(&self) -> Option<Typed> {
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

    /// Makes the thread leave the terminal alone. If a line came first, that is what was typed.
    async fn give_up(&mut self) -> Option<Typed> {
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

/// Waits until a line can be read; true if it is no longer wanted. A wake-up may be about an earlier line.
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

/// Reads the next line or Ctrl-C; none at the end.
fn next(input: &mut impl io::BufRead, stop: Option<u8>) -> io::Result<Option<Typed>> {
    let mut line = Vec::new();
    loop {
        let bytes = input.fill_buf()?;
        // What is not UTF-8 becomes a mark that shows where it was.
        let text = |line: &[u8]| output::typed(&String::from_utf8_lossy(line));
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
