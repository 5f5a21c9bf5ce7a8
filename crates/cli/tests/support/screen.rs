//! A real pseudo-terminal with a screen that tests can read. It answers queries for the cursor position, as a terminal does.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::Command,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use ptyprocess::{PtyProcess, Signal, WaitStatus};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The question where the cursor is.
const WHERE: &[u8] = b"\x1b[6n";

/// A program on a new pseudo-terminal.
pub struct Screen {
    process: PtyProcess,
    keys: Arc<Mutex<File>>,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    /// How much of the text was expected already.
    seen: usize,
}

struct Shown {
    terminal: vt100::Parser,
    /// Everything that was written to the terminal.
    written: Vec<u8>,
    ended: bool,
}

impl Screen {
    /// Starts a program on a terminal of a size.
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        // Rows and columns of the developer's own terminal are not those of this one.
        command.env_remove("COLUMNS").env_remove("LINES");
        let mut process = PtyProcess::spawn(command).unwrap();
        process.set_window_size(columns, rows).unwrap();
        let mut output = process.get_raw_handle().unwrap();
        let keys = Arc::new(Mutex::new(process.get_raw_handle().unwrap()));
        let shown = Shown {
            terminal: vt100::Parser::new(size(rows), size(columns), 10_000),
            written: Vec::new(),
            ended: false,
        };
        let shown = Arc::new((Mutex::new(shown), Condvar::new()));
        let (into, answers) = (Arc::clone(&shown), Arc::clone(&keys));
        std::thread::spawn(move || {
            let mut waiting = Vec::new();
            let mut piece = vec![0; 64 * 1024];
            loop {
                let count = output.read(&mut piece).unwrap_or(0);
                waiting.extend_from_slice(&piece[..count]);
                let mut asked = Vec::new();
                {
                    let Ok(mut shown) = into.0.lock() else { return };
                    while let Some(at) = waiting.windows(WHERE.len()).position(|window| window == WHERE) {
                        shown.take_in(&waiting[..at]);
                        waiting.drain(..at + WHERE.len());
                        let (row, column) = shown.terminal.screen().cursor_position();
                        asked.push(format!("\x1b[{};{}R", row + 1, column + 1));
                    }
                    // A question may come in two pieces.
                    let whole =
                        (1..WHERE.len()).rev().find(|part| waiting.ends_with(&WHERE[..*part])).unwrap_or(0);
                    let whole = if count == 0 { 0 } else { whole };
                    let ready = waiting.len() - whole;
                    shown.take_in(&waiting[..ready]);
                    waiting.drain(..ready);
                    shown.ended = count == 0;
                }
                into.1.notify_all();
                for answer in asked {
                    let _ = answers.lock().unwrap().write_all(answer.as_bytes());
                }
                if count == 0 {
                    return;
                }
            }
        });
        Self { process, keys, shown, seen: 0 }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.0.lock().unwrap()
    }

    /// Waits until something holds, and gives the screen.
    #[track_caller]
    fn wait(&self, what: &str, mut holds: impl FnMut(&mut Shown) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        let mut shown = self.shown();
        loop {
            if holds(&mut shown) {
                return shown.screen();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero() && !shown.ended,
                "waited for {what}; {}, the screen:\n{}\nthe end of what was written: {:?}",
                if shown.ended { "the program ended" } else { "it did not come" },
                shown.screen(),
                shown
                    .text()
                    .chars()
                    .rev()
                    .take(2000)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect::<String>(),
            );
            shown = self.shown.1.wait_timeout(shown, left).unwrap().0;
        }
    }

    /// Types keys, as the terminal sends them.
    pub fn send(&self, keys: impl AsRef<[u8]>) {
        self.keys.lock().unwrap().write_all(keys.as_ref()).unwrap();
    }

    /// Types a short line, waits until it appears, and presses Enter.
    #[track_caller]
    pub fn say(&self, line: &str) {
        self.send(line);
        let typed = format!("› {line}");
        self.wait(&format!("the typed line {line:?}"), |shown| shown.last_row() == typed);
        self.send("\r");
    }

    /// Pastes a text, as a terminal does.
    pub fn paste(&self, text: impl AsRef<[u8]>) {
        self.send([b"\x1b[200~", text.as_ref(), b"\x1b[201~"].concat());
    }

    /// Waits for a text on the screen, and gives the whole screen.
    #[track_caller]
    pub fn until(&self, text: &str) -> String {
        self.wait(&format!("{text:?} on the screen"), |shown| shown.screen().contains(text))
    }

    /// Types keys, and waits for a text on the screen.
    #[track_caller]
    pub fn shows(&self, keys: impl AsRef<[u8]>, text: &str) {
        self.send(keys);
        self.until(text);
    }

    /// Types keys that end a line, and waits for the next prompt.
    #[track_caller]
    pub fn enter(&self, keys: impl AsRef<[u8]>) {
        self.send(keys);
        self.prompt();
    }

    /// Says a line, and waits for a text of the answer.
    #[track_caller]
    pub fn answers(&self, line: &str, text: &str) {
        self.say(line);
        self.until(text);
    }

    /// Waits for a screen that fits.
    #[track_caller]
    pub fn until_it(&self, fits: impl Fn(&str) -> bool) -> String {
        self.wait("a screen that fits", |shown| fits(&shown.screen()))
    }

    /// Waits for an empty prompt, and gives the screen.
    #[track_caller]
    pub fn prompt(&self) -> String {
        self.wait("an empty prompt", |shown| shown.last_row() == "›")
    }

    /// Waits for a text in the output after the last expected one, anywhere on the screen.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let seen = self.seen;
        let mut found = 0;
        self.wait(&format!("{text:?}"), |shown| match shown.text()[seen..].find(text) {
            Some(at) => {
                found = seen + at + text.len();
                true
            }
            None => false,
        });
        self.seen = found;
    }

    /// Waits for the end of the program, and gives its exit code.
    #[track_caller]
    pub fn end(&self) -> i32 {
        let end = Instant::now() + PATIENCE;
        let mut shown = self.shown();
        while !shown.ended {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not end; the screen:\n{}", shown.screen());
            shown = self.shown.1.wait_timeout(shown, left).unwrap().0;
        }
        match self.process.wait().unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }

    pub fn resize(&mut self, (columns, rows): (u16, u16)) {
        self.shown().terminal.screen_mut().set_size(size(rows), size(columns));
        self.process.set_window_size(columns, rows).unwrap();
        self.process.signal(Signal::SIGWINCH).unwrap();
    }

    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// The id of the program.
    pub fn pid(&self) -> i32 {
        self.process.pid().as_raw()
    }

    /// The screen now, without spaces at the ends of lines and without empty lines at the end.
    pub fn now(&self) -> String {
        self.shown().screen()
    }

    /// The lines that scrolled off the top, and the screen.
    pub fn all(&self) -> String {
        self.shown().all()
    }

    /// Everything that was written, with control sequences.
    pub fn written(&self) -> Vec<u8> {
        self.shown().written.clone()
    }

    /// Whether the program asked for pastes to be marked.
    pub fn marks_pastes(&self) -> bool {
        self.shown().terminal.screen().bracketed_paste()
    }

    /// Whether the terminal is as a program finds it: it edits lines itself and shows its usual screen.
    pub fn is_given_back(&self) -> bool {
        use rustix::termios::{LocalModes, tcgetattr};
        let modes = tcgetattr(self.process.get_raw_handle().unwrap()).unwrap().local_modes;
        let edits = modes.contains(LocalModes::ICANON | LocalModes::ISIG);
        edits && !self.marks_pastes() && !self.shown().terminal.screen().alternate_screen()
    }

    /// The cells of the screen in a style.
    pub fn styled(&self, is: impl Fn(&vt100::Cell) -> bool) -> String {
        let shown = self.shown();
        let screen = shown.terminal.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows.get())
            .flat_map(|row| (0..columns.get()).filter_map(move |column| screen.cell(row, column)));
        cells.filter(|cell| is(cell)).map(|cell| cell.contents().to_owned()).collect()
    }
}

fn size(of: u16) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(of).unwrap()
}

impl Shown {
    fn take_in(&mut self, bytes: &[u8]) {
        self.terminal.process(bytes);
        self.written.extend_from_slice(bytes);
    }

    /// Everything that was written, without control sequences.
    fn text(&self) -> String {
        stripped(&String::from_utf8_lossy(&self.written))
    }

    fn screen(&self) -> String {
        let contents = self.terminal.screen().contents();
        let lines: Vec<&str> = contents.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    }

    fn all(&mut self) -> String {
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        let (mut lines, above) = (Vec::new(), screen.scrollback());
        let columns = screen.size().1.get();
        for from in (0..=above).rev() {
            screen.set_scrollback(from);
            let rows: Vec<String> = screen.rows(0, columns).collect();
            if from == 0 {
                lines.extend(rows);
            } else {
                lines.extend(rows.into_iter().next());
            }
        }
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        lines.join("\n").trim_end().to_owned()
    }

    fn last_row(&self) -> String {
        self.screen().lines().last().unwrap_or_default().to_owned()
    }
}

/// A text without control sequences.
fn stripped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\u{1b}', Some('[')) => {
                rest.next();
                while rest.next_if(|c| !('\u{40}'..='\u{7e}').contains(c)).is_some() {}
                rest.next();
            }
            ('\u{1b}', Some(_)) => {
                rest.next();
            }
            ('\r', _) => {}
            (c, _) => out.push(c),
        }
    }
    out
}
