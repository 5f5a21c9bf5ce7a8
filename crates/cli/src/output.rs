//! Prints data to stdout and everything else to stderr, with colours if wanted. Foreign text is made safe by `rejoin::harmless`.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashSet,
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use rejoin::{harmless::escaped, places::quoted};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::{args::Colour, failure::Failure, json};

pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub const NOTE: Style = AnsiColor::Cyan.on_default();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const HINT: Style = AnsiColor::Blue.on_default().bold();
/// The words that a search found.
pub const HIT: Style = AnsiColor::Red.on_default().bold();
/// A line that a diff adds.
pub const ADDED: Style = AnsiColor::Green.on_default();
/// A line that a diff removes.
pub const REMOVED: Style = AnsiColor::Red.on_default();
pub const STRONG: Style = Style::new().bold();
/// Secondary text.
pub const DIM: Style = Style::new().dimmed();

/// Sets whether colours are used. By default they are used on a terminal that is not dumb, unless NO_COLOR is set.
pub fn set_colour(colour: Colour) {
    let choice = match colour {
        // `anstream` would use colours on a dumb terminal if `CI` is set.
        Colour::Auto if std::env::var_os("TERM").is_some_and(|term| term == "dumb") => {
            anstream::ColorChoice::Never
        }
        Colour::Auto => return,
        Colour::Always => anstream::ColorChoice::Always,
        Colour::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

pub fn has_colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Whether stderr has colours.
pub fn talk_has_colour() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Whether TERM names a terminal that can move its cursor.
pub fn is_capable() -> bool {
    match std::env::var("TERM") {
        Ok(term) => !term.is_empty() && term != "dumb",
        Err(_) => cfg!(windows),
    }
}

/// Whether output on stdout may have styles and be redrawn.
pub fn can_redraw() -> bool {
    io::stdout().is_terminal() && is_capable() && has_colour()
}

/// Whether the last line on the terminal can be replaced by another.
pub fn can_replace_lines() -> bool {
    io::stderr().is_terminal() && is_capable()
}

/// Erases the last printed line, which must not have wrapped.
pub fn erase_line_above() {
    let mut err = io::stderr().lock();
    let _ = err.write_all(b"\x1b[1A\r\x1b[2K").and_then(|()| err.flush());
}

/// The beginning of a line that fits the terminal's width with `spare` columns left free.
pub fn fitting(line: &str, spare: usize) -> String {
    cut(line, terminal_size().0.saturating_sub(spare + 1).max(8))
}

/// The first `most` columns of a line.
pub fn cut(line: &str, most: usize) -> String {
    if line.width() <= most {
        return line.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in line.chars() {
        used += c.width().unwrap_or(0);
        if used > most {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// The columns and rows of the terminal; the usual size if there is no terminal.
pub fn terminal_size() -> (usize, usize) {
    #[cfg(unix)]
    let size = rustix::termios::tcgetwinsize(io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()))
        .ok()
        .map(|size| (size.ws_col, size.ws_row));
    #[cfg(not(unix))]
    let size = crossterm::terminal::size().ok();
    match size {
        Some((columns, rows)) if columns > 0 && rows > 0 => (usize::from(columns), usize::from(rows)),
        _ => (80, 24),
    }
}

/// A text in a style. The stream removes the style if styles are not wanted.
pub fn paint(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// A line of a diff, safe to print and in its colour.
pub fn diff_line(line: &str) -> String {
    let style = match line.as_bytes().first() {
        Some(b'+') => ADDED,
        Some(b'-') => REMOVED,
        Some(b'@') => NOTE,
        _ => Style::new(),
    };
    paint(&harmless(line), style)
}

thread_local! {
    /// A copy of this thread's output, while one is being made.
    static COPY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The most bytes of a copy. Further output is only printed.
const COPY_BYTES: usize = 64 * 1024;

/// Starts a copy of this thread's output, until [`take_copy`].
pub fn start_copy() {
    COPY.with_borrow_mut(|copy| *copy = Some(String::new()));
}

/// The output since [`start_copy`], without styles.
pub fn take_copy() -> String {
    COPY.with_borrow_mut(Option::take).unwrap_or_default()
}

/// Adds lines to the copy, if one is being made.
pub fn copy(text: &str) {
    COPY.with_borrow_mut(|copy| {
        if let Some(copy) = copy.as_mut().filter(|copy| copy.len() < COPY_BYTES) {
            let text = anstream::adapter::strip_str(text).to_string();
            copy.push_str(&text[..text.floor_char_boundary(COPY_BYTES)]);
            copy.push('\n');
        }
    });
}

/// Clears the screen, if the terminal supports it. Earlier output can still be scrolled to.
pub fn clear_screen() {
    let mut err = io::stderr().lock();
    if err.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb") {
        let _ = err.write_all(b"\x1b[2J\x1b[H").and_then(|()| err.flush());
    }
}

/// Prints a line of data for people. Styles pass; all other control characters become visible escapes.
pub fn data(line: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let line = guarded(line);
    copy(&line);
    write_line(&mut out, &line)
}

/// Prints text without styles, then a newline: the exact bytes in a pipe or a file, visible escapes on a terminal.
pub fn raw_data(text: &str) -> Result<(), Failure> {
    print_exactly(text, false)
}

/// Prints JSON, then a newline: the exact bytes in a pipe or a file. On a terminal, control characters are written as JSON escapes,
/// so the JSON stays equivalent.
pub fn json_data(text: &str) -> Result<(), Failure> {
    print_exactly(text, true)
}

/// Writes bytes that are not text, such as a database. The caller makes sure that they do not go to a terminal.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| closed_or(&error))
}

/// Data in the form for a terminal: JSON stays equivalent JSON, other text gets visible escapes.
pub fn for_terminal(text: &str, is_json: bool) -> Cow<'_, str> {
    if is_json { json::steady(text) } else { escaped_lines(text) }
}

fn print_exactly(text: &str, is_json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { for_terminal(text, is_json) } else { Cow::Borrowed(text) };
    copy(&text);
    write_line(&mut out, &text)
}

fn write_line(out: &mut impl io::Write, line: &str) -> Result<(), Failure> {
    let written =
        out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    written.map_err(|error| closed_or(&error))
}

/// The error for a failed write to standard output; a silent one if its reader has closed it.
pub fn closed_or(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::ClosedPipe
    } else {
        Failure::unwritable("standard output", &io::Error::from(error.kind()))
    }
}

/// Prints a line on stderr. If stderr is closed, the command continues.
pub fn talk(line: &str) {
    let line = guarded(line);
    copy(&line);
    let _ = writeln!(anstream::stderr().lock(), "{}", in_rows(&line));
}

/// The global flags of this command, to be repeated in recommended commands.
static REPEATED: OnceLock<String> = OnceLock::new();

/// The commands that read the store.
const LOOK_INTO_THE_STORE: &[&str] = &[
    "chat",
    "check",
    "compact",
    "convert",
    "copy",
    "history",
    "import",
    "list",
    "new",
    "prune",
    "resume",
    "run",
    "search",
    "stats",
    "uncompact",
    "undo",
    "verify",
];

/// Sets the flags that recommended commands need to reach the same conversations. By default, no flags are repeated.
pub fn repeat_flags(flags: &[(&str, String)]) {
    let flags = flags.iter().map(|(name, value)| format!(" {name} {}", quoted(value))).collect::<String>();
    let _ = REPEATED.set(flags);
}

/// Prints a line on stderr that recommends commands: ``run `rejoin list` ``, or `Run: rejoin list`.
pub fn advice(line: &str) {
    talk(&with_flags(line, REPEATED.get().map_or("", String::as_str)));
}

/// A line whose recommended commands get these flags appended.
fn with_flags(line: &str, flags: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = rest.find("rejoin ").filter(|_| !flags.is_empty()) {
        let (before, after) = rest.split_at(place);
        let end = match before.ends_with('`') {
            true => after.find('`'),
            false if before.ends_with(": ") => Some(after.find('\n').unwrap_or(after.len())),
            false => None,
        };
        let (command, later) = after.split_at(end.unwrap_or("rejoin ".len()));
        let verb = command.split(' ').nth(1).unwrap_or_default();
        out.push_str(before);
        out.push_str(command);
        if end.is_some() && LOOK_INTO_THE_STORE.contains(&verb) && !command.contains(" --store ") {
            out.push_str(flags);
        }
        rest = later;
    }
    out + rest
}

/// Prints a question on stderr, without a newline, so that the answer is typed after it.
pub fn question(text: &str) {
    prompt(&in_rows(text));
}

/// A text whose lines are broken between words if they are wider than the terminal, which would break them anywhere. Without a
/// terminal they stay unchanged.
pub fn in_rows(text: &str) -> Cow<'_, str> {
    if io::stderr().is_terminal() { broken(text, terminal_size().0) } else { Cow::Borrowed(text) }
}

/// Breaks the lines of data for people, which goes to stdout, in the same way.
pub fn data_in_rows(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() { broken(text, terminal_size().0) } else { Cow::Borrowed(text) }
}

fn broken(text: &str, columns: usize) -> Cow<'_, str> {
    let width = |text: &str| anstream::adapter::strip_str(text).to_string().width();
    if text.lines().all(|line| width(line) <= columns) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let indent = if indent > columns / 2 { 0 } else { indent };
        let (mut out, mut used) = (String::new(), 0);
        for (number, word) in line.split(' ').enumerate() {
            let (wide, space) = (width(word), usize::from(number > 0));
            if used > indent && used + space + wide > columns {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                used = indent;
            } else {
                out.push_str(&" ".repeat(space));
                used += space;
            }
            out.push_str(word);
            used += wide;
        }
        out
    };
    Cow::Owned(text.split('\n').map(line).collect::<Vec<_>>().join("\n"))
}

pub fn note(text: impl Display) {
    advice(&format!("{} {text}", paint("note:", NOTE)));
}

pub fn warning(text: impl Display) {
    advice(&format!("{} {text}", paint("warning:", WARNING)));
}

pub fn error(text: impl Display) {
    talk(&format!("{} {text}", paint("error:", ERROR)));
}

pub fn hint(text: impl Display) {
    advice(&format!("{} {text}", paint("hint:", HINT)));
}

pub fn done(text: impl Display) {
    talk(&format!("{} {text}", paint("✓", GOOD)));
}

/// A progress bar, on a terminal only.
pub fn progress(length: usize, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length as u64);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A spinner for work that takes a while, on a terminal only.
pub fn spinner(what: &'static str) -> ProgressBar {
    let spinner = progress(0, "{spinner} {msg}, {elapsed}").with_message(what);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// Prints a part of a line on stderr, without a newline.
pub fn prompt(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{}", guarded(text)).and_then(|()| err.flush());
}

/// Standard error for log lines, which may quote foreign text.
#[derive(Debug)]
pub struct LogLines {
    /// The lines logged so far, if each line is shown only once.
    pub shown: Option<Arc<Mutex<HashSet<String>>>>,
}

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let is_new = |shown: &Arc<Mutex<HashSet<String>>>| {
            shown.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_string())
        };
        if !self.shown.as_ref().is_none_or(is_new) {
            return Ok(bytes.len());
        }
        io::stderr().lock().write_all(escaped_lines(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// Text of several lines with an escape for each control character. A carriage return before a line break does no harm and stays.
fn escaped_lines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        let lines: Vec<Cow<'_, str>> = text.split("\r\n").map(escaped_lines).collect();
        return Cow::Owned(lines.join("\r\n"));
    }
    escaped(text, |c| steers(c) && !matches!(c, '\n' | '\t'))
}

/// The last guard before a terminal: it escapes everything that a command forgot to make safe. Only line breaks, tabs and styles
/// (`ESC [ … m`) pass.
pub fn guarded(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| steers(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&escaped_lines(&rest[..at]));
        let style = style_length(&rest[at..]);
        if style == 0 {
            out.push_str("\\u{1b}");
        } else {
            out.push_str(&rest[at..at + style]);
        }
        rest = &rest[at + style.max(1)..];
    }
    out.push_str(&escaped_lines(rest));
    Cow::Owned(out)
}

/// The length in bytes of the style at the beginning of a text that begins with ESC; 0 if it is not a style.
fn style_length(text: &str) -> usize {
    let Some(inner) = text.strip_prefix("\u{1b}[") else { return 0 };
    let length = inner.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if inner.as_bytes().get(length) == Some(&b'm') { length + 3 } else { 0 }
}

pub fn local_time(time: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

pub use rejoin::{
    harmless::{harmless, harmless_lines, harmless_message, shown, steers, typed},
    record::text::{agreeing, plural},
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that are too wide are broken between words, and keep their indentation and their styles.
    #[test]
    fn wide_lines_are_broken_between_words() {
        assert_eq!(broken("  one two three", 80), "  one two three");
        assert_eq!(broken("  one two three\nx", 10), "  one two\n  three\nx");
        assert_eq!(broken("one  two", 5), "one \ntwo");
        assert_eq!(broken("日本 語", 5), "日本\n語");
        assert_eq!(broken("abcdefghij kl", 5), "abcdefghij\nkl");
        assert_eq!(broken("\u{1b}[1mone two\u{1b}[0m", 7), "\u{1b}[1mone two\u{1b}[0m");
        assert_eq!(broken("\u{1b}[1mone two\u{1b}[0m", 6), "\u{1b}[1mone\ntwo\u{1b}[0m");
    }

    #[test]
    fn only_styles_pass_the_guard() {
        let styled = paint("good", GOOD);
        assert_eq!(guarded(&styled), styled);
        for (text, shown) in [
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}[2J\u{1b}[31mred", "\\u{1b}[2J\u{1b}[31mred"),
            ("\u{1b}[31", "\\u{1b}[31"),
            ("a\n\tb\r\nc\rd", "a\n\tb\r\nc\\rd"),
            ("\u{9b}31m\u{2066}\u{2028}", "\\u{9b}31m\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(guarded(text), shown);
        }
    }

    /// Recommended commands reach the conversations of the command that recommends them.
    #[test]
    fn recommended_commands_get_the_flags_of_this_one() {
        let flags = " --store jsonl:x --scope user=bob";
        for (line, shown) in [
            ("`rejoin check @` lists them", "`rejoin check @ --store jsonl:x --scope user=bob` lists them"),
            ("Run: rejoin list", "Run: rejoin list --store jsonl:x --scope user=bob"),
            (
                "`rejoin config list` and `rejoin list` help",
                "`rejoin config list` and `rejoin list --store jsonl:x --scope user=bob` help",
            ),
            ("`rejoin verify --store sqlite:PATH`", "`rejoin verify --store sqlite:PATH`"),
            ("what rejoin list says", "what rejoin list says"),
        ] {
            assert_eq!(with_flags(line, flags), shown);
            assert_eq!(with_flags(line, ""), line);
        }
    }
}
