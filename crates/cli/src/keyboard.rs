//! Passes keys from the terminal to their readers: the line editor and the picker.
//!
//! The library that reads keys drops bytes that are not UTF-8, and the key after them. So it reads from a pseudo-terminal of ours,
//! on which all input is UTF-8: invalid bytes become replacement characters. Outside pastes, a line feed becomes a carriage return,
//! because a line that was typed while a turn ran ends with a line feed, and Enter is a carriage return.
//!
//! While a [`Keyboard`] exists, standard input is that pseudo-terminal, and the real one is in raw mode. If none can be made, the
//! library reads the real one.

/// Owns the keyboard while keys are read. Dropping it restores standard input.
pub struct Keyboard {
    #[cfg(unix)]
    _taken: Option<unix::KeyForwarding>,
}

impl Keyboard {
    pub fn take() -> Self {
        Self {
            #[cfg(unix)]
            _taken: unix::take(),
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::File,
        io::{self, Read as _, Write as _},
        os::{
            fd::{AsFd as _, OwnedFd},
            unix::net::UnixStream,
        },
        sync::{Mutex, OnceLock, PoisonError},
        thread::JoinHandle,
    };

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        fs::{Mode, OFlags},
        pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
    };

    use super::Stream;

    /// How long to wait for the rest of a character.
    const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

    /// How many bytes may wait to be read. The rest stays in the terminal.
    const WAITING: usize = 64 * 1024;

    /// The input to send when the terminal is gone: Ctrl-C for the line, and Ctrl-D.
    const GONE: &[u8] = b"\x03\x04";

    static LINE: OnceLock<Option<Line>> = OnceLock::new();

    /// The real terminal, and both ends of the pseudo-terminal.
    struct Line {
        real: File,
        master: File,
        slave: OwnedFd,
        stream: Mutex<Stream>,
    }

    impl Line {
        fn new() -> io::Result<Self> {
            let real = File::from(io::stdin().as_fd().try_clone_to_owned()?);
            tcgetattr(&real)?;
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
            grantpt(&master)?;
            unlockpt(&master)?;
            let name = ptsname(&master, Vec::new())?;
            let slave =
                rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
            let mut raw = tcgetattr(&slave)?;
            raw.make_raw();
            tcsetattr(&slave, OptionalActions::Now, &raw)?;
            let flags = rustix::fs::fcntl_getfl(&master)?;
            rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
            Ok(Self { real, master: File::from(master), slave, stream: Mutex::default() })
        }
    }

    /// Both terminals, while keys are passed on. Dropping it stops that.
    pub(super) struct KeyForwarding {
        line: &'static Line,
        before: Termios,
        /// Closing it ends the thread.
        open: Option<UnixStream>,
        thread: Option<JoinHandle<()>>,
    }

    pub(super) fn take() -> Option<KeyForwarding> {
        let line = LINE.get_or_init(|| {
            Line::new().inspect_err(|why| tracing::debug!("keys are read as they come: {why}")).ok()
        });
        line.as_ref().and_then(|line| KeyForwarding::new(line).ok())
    }

    impl KeyForwarding {
        fn new(line: &'static Line) -> io::Result<Self> {
            let before = tcgetattr(&line.real)?;
            let (open, closed) = UnixStream::pair()?;
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(&line.real, OptionalActions::Now, &raw)?;
            rustix::stdio::dup2_stdin(&line.slave)?;
            let thread = std::thread::spawn(move || pass_on(line, &closed));
            Ok(Self { line, before, open: Some(open), thread: Some(thread) })
        }
    }

    impl Drop for KeyForwarding {
        fn drop(&mut self) {
            drop(self.open.take());
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
            let _ = rustix::stdio::dup2_stdin(&self.line.real);
            let _ = tcsetattr(&self.line.real, OptionalActions::Now, &self.before);
        }
    }

    /// Passes keys on until the other end of `closed` is closed. Remaining keys wait for the next reader.
    fn pass_on(line: &Line, closed: &UnixStream) {
        let mut stream = line.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut piece = vec![0; 16 * 1024];
        let mut is_gone = false;
        loop {
            let reads = !is_gone && stream.ready.len() < WAITING;
            let wanted = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
            let mut watched = [
                PollFd::new(closed, PollFlags::IN),
                PollFd::new(&line.real, wanted(reads, PollFlags::IN)),
                PollFd::new(&line.master, wanted(!stream.ready.is_empty(), PollFlags::OUT)),
            ];
            let patience = stream.is_incomplete().then_some(PATIENCE);
            match poll(&mut watched, patience.as_ref()) {
                Ok(0) => stream.give_up(),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let [closed, real, master] = watched.map(|watched| watched.revents());
            if !closed.is_empty() {
                return;
            }
            if reads && !real.is_empty() {
                match (&line.real).read(&mut piece) {
                    Ok(count @ 1..) => stream.take(&piece[..count]),
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                    Ok(_) | Err(_) => {
                        is_gone = true;
                        stream.ready.extend_from_slice(GONE);
                    }
                }
            }
            if master.contains(PollFlags::OUT)
                && let Ok(count) = (&line.master).write(&stream.ready)
            {
                stream.ready.drain(..count);
            }
        }
    }
}

/// Converts bytes to keys.
#[cfg(unix)]
#[derive(Debug, Default)]
struct Stream {
    /// The bytes that can be read.
    ready: Vec<u8>,
    /// The beginning of a character whose rest has not arrived.
    begun: Vec<u8>,
    /// Whether it is in a paste.
    in_paste: bool,
    /// How many bytes of a paste mark were seen.
    mark: usize,
}

/// The beginning of the marks around a paste, without the last digit and the tilde.
#[cfg(unix)]
const MARK: &[u8] = b"\x1b[20";

#[cfg(unix)]
impl Stream {
    fn take(&mut self, bytes: &[u8]) {
        let begun = std::mem::take(&mut self.begun);
        let all = [begun.as_slice(), bytes].concat();
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.pass(text),
                Err(why) => {
                    let (good, bad) = rest.split_at(why.valid_up_to());
                    self.pass(&String::from_utf8_lossy(good));
                    let Some(length) = why.error_len() else {
                        self.begun = bad.to_vec();
                        return;
                    };
                    self.pass("\u{fffd}");
                    rest = &bad[length..];
                }
            }
        }
    }

    fn is_incomplete(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Gives up waiting for the rest of a character.
    fn give_up(&mut self) {
        if !std::mem::take(&mut self.begun).is_empty() {
            self.pass("\u{fffd}");
        }
    }

    fn pass(&mut self, text: &str) {
        for byte in text.bytes() {
            self.mark = match (self.mark, byte) {
                (seen, byte) if MARK.get(seen) == Some(&byte) => seen + 1,
                (4, b'0' | b'1') => 5 + usize::from(byte - b'0'),
                (seen @ (5 | 6), b'~') => {
                    self.in_paste = seen == 5;
                    0
                }
                (_, 0x1b) => 1,
                _ => 0,
            };
            let is_enter = byte == b'\n' && !self.in_paste;
            self.ready.push(if is_enter { b'\r' } else { byte });
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_keys() {
        let bytes = b"a\xe9b \xc3\xa9\n\x1b[200~x\ny\xff\x1b[201~\n\x1b[2\x1b[200~\n\xf0\x9f";
        let keys = "a\u{fffd}b é\r\u{1b}[200~x\ny\u{fffd}\u{1b}[201~\r\u{1b}[2\u{1b}[200~\n\u{fffd}";
        for piece in [1, 2, 3, 100] {
            let mut stream = Stream::default();
            bytes.chunks(piece).for_each(|bytes| stream.take(bytes));
            assert!(stream.is_incomplete());
            stream.give_up();
            assert_eq!(String::from_utf8(stream.ready).unwrap(), keys, "in pieces of {piece}");
        }
    }
}
