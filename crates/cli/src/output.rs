//! Printing: data to stdout, everything else to stderr, colours where they are wanted, and text of others made harmless.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashSet,
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use rejoin::places::quoted;
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

/// Sets whether colours are used. By default they are, on a terminal without NO_COLOR that is not dumb.
pub fn set_colour(colour: Colour) {
    let choice = match colour {
        // `anstream` would colour a dumb terminal if `CI` is set.
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

/// The same for what is said on stderr.
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

/// Whether what is on stdout may have styles and be drawn again.
pub fn can_redraw() -> bool {
    io::stdout().is_terminal() && is_capable() && has_colour()
}

/// Whether a line that was said last can be replaced by another.
pub fn can_replace_lines() -> bool {
    io::stderr().is_terminal() && is_capable()
}

/// Erases the line that was printed last. It must not have wrapped.
pub fn erase_line_above() {
    let mut err = io::stderr().lock();
    let _ = err.write_all(b"\x1b[1A\r\x1b[2K").and_then(|()| err.flush());
}

/// The beginning of a line that fits a row of the terminal and leaves `spare` columns free.
pub fn fitting(line: &str, spare: usize) -> String {
    cut(line, terminal_size().0.saturating_sub(spare + 1).max(8))
}

/// The first `columns` columns of a line.
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

/// The columns and rows of the terminal; what is usual if there is none.
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

/// A text in a style; the stream takes the style out where it is not wanted.
pub fn paint(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// A line of a diff, harmless and in its colour.
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
    /// A copy of what this thread prints, while one is wanted.
    static COPY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The most bytes of a copy. The rest is printed only.
const COPY_BYTES: usize = 64 * 1024;

/// From now on, keeps a copy of what this thread prints, until [`take_copy`].
pub fn start_copy() {
    COPY.with_borrow_mut(|copy| *copy = Some(String::new()));
}

/// What was printed since [`start_copy`], without styles.
pub fn take_copy() -> String {
    COPY.with_borrow_mut(Option::take).unwrap_or_default()
}

/// Adds lines to the copy, if one is wanted.
pub fn copy(text: &str) {
    COPY.with_borrow_mut(|copy| {
        if let Some(copy) = copy.as_mut().filter(|copy| copy.len() < COPY_BYTES) {
            let text = anstream::adapter::strip_str(text).to_string();
            copy.push_str(&text[..text.floor_char_boundary(COPY_BYTES)]);
            copy.push('\n');
        }
    });
}

/// Clears the screen of the terminal, if there is one that can. What was printed can still be scrolled to.
pub fn clear_screen() {
    let mut err = io::stderr().lock();
    if err.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb") {
        let _ = err.write_all(b"\x1b[2J\x1b[H").and_then(|()| err.flush());
    }
}

/// Prints a line of data for people. Styles pass; anything else that steers a terminal becomes a visible escape.
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

/// Prints JSON, then a newline: the exact bytes in a pipe or a file. On a terminal, characters that steer it are written as
/// JSON escapes, so it is the same JSON.
pub fn json_data(text: &str) -> Result<(), Failure> {
    print_exactly(text, true)
}

/// Writes bytes that are no text, such as a database. The caller makes sure that no terminal gets them.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| closed_or(&error))
}

/// Data as a terminal gets it: JSON stays the same JSON, other text gets visible escapes.
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

/// The error for standard output that cannot be written: a quiet one if its reader has closed it.
pub fn closed_or(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::ClosedPipe
    } else {
        Failure::unwritable("standard output", &io::Error::from(error.kind()))
    }
}

/// Prints a line on stderr. If it is closed, the command continues.
pub fn talk(line: &str) {
    let line = guarded(line);
    copy(&line);
    let _ = writeln!(anstream::stderr().lock(), "{}", in_rows(&line));
}

/// The global flags of this command, as they have to be repeated in the commands that it recommends.
static REPEATED: OnceLock<String> = OnceLock::new();

/// The commands that look into the store.
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

/// Sets the flags that recommended commands need, so that they reach the same conversations. Without any, nothing is repeated.
pub fn repeat_flags(flags: &[(&str, String)]) {
    let flags = flags.iter().map(|(name, value)| format!(" {name} {}", quoted(value))).collect::<String>();
    let _ = REPEATED.set(flags);
}

/// Prints a line on stderr that recommends commands: ``run `rejoin list` ``, or `Run: rejoin list`.
pub fn advice(line: &str) {
    talk(&with_flags(line, REPEATED.get().map_or("", String::as_str)));
}

/// A line in which the recommended commands end with these flags.
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

/// Asks on stderr. The answer is typed behind the question.
pub fn question(text: &str) {
    prompt(&in_rows(text));
}

/// A text whose lines are broken between words where they are wider than the terminal, which would break them anywhere. Without a
/// terminal they stay as they are.
pub fn in_rows(text: &str) -> Cow<'_, str> {
    if io::stderr().is_terminal() { broken(text, terminal_size().0) } else { Cow::Borrowed(text) }
}

/// The same for data that people read, which goes to stdout.
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

/// Standard error for log lines, which may quote the text of others.
#[derive(Debug)]
pub struct LogLines {
    /// The lines logged so far, if each is shown only once.
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

/// Whether a character changes the direction of writing.
pub fn turns(c: char) -> bool {
    matches!(
        c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}'
    )
}

/// Whether a character steers a terminal, or what a reader sees there: control characters, line and paragraph separators,
/// and marks for the direction of writing. Line breaks and tabs count as well; text of several lines lets them pass.
pub fn steers(c: char) -> bool {
    c.is_control() || turns(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether a character takes no room, so that two different names can look the same. The selectors that choose between
/// two shapes of an emoji are left out: they are common and hide nothing.
fn hides(c: char) -> bool {
    "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{3164}\u{feff}\u{ffa0}".contains(c)
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}')
        || matches!(c, '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// A name (a title, a tool, a model, a path) or a line of someone else's words, made harmless: what steers a terminal and
/// what cannot be seen becomes an escape such as `\u{1b}`, so two names that differ also look different.
pub fn harmless(text: &str) -> String {
    escaped(text, |c| steers(c) || hides(c)).into_owned()
}

/// A path as a name, made harmless.
pub fn shown(path: &Path) -> String {
    harmless(&path.display().to_string())
}

/// The same for errors and hints of several lines: line breaks and tabs stay.
pub fn harmless_message(text: &str) -> String {
    escaped(text, |c| (steers(c) || hides(c)) && !matches!(c, '\n' | '\t')).into_owned()
}

/// Running text of a model or a tool, made harmless: line breaks and tabs stay, whole control sequences and marks for the
/// direction of writing go, and other control characters become visible. Characters that take no room stay, because
/// emoji and several scripts need them.
pub fn harmless_lines(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n");
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c if steers(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().filter(|c| !turns(*c)).map(shown).collect()
}

/// What a person typed or pasted, as it is sent and recorded: without control sequences, and without control characters other
/// than line breaks and tabs. Terminals send them for keys; they are never part of a message.
pub fn typed(text: &str) -> String {
    let steered = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steered) {
        return text.to_owned();
    }
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !steered(*c)).collect()
}

/// Text of several lines with an escape for each character that steers a terminal. A carriage return before a line break
/// does no harm and stays.
fn escaped_lines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        let lines: Vec<Cow<'_, str>> = text.split("\r\n").map(escaped_lines).collect();
        return Cow::Owned(lines.join("\r\n"));
    }
    escaped(text, |c| steers(c) && !matches!(c, '\n' | '\t'))
}

/// The last guard before a terminal: whatever a command forgot to make harmless is escaped here. Only line breaks, tabs and
/// styles (`ESC [ … m`) pass.
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

/// How many bytes of a text that begins with ESC are a style; 0 if they are something else.
fn style_length(text: &str) -> usize {
    let Some(inner) = text.strip_prefix("\u{1b}[") else { return 0 };
    let length = inner.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    if inner.as_bytes().get(length) == Some(&b'm') { length + 3 } else { 0 }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

pub fn local_time(time: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

pub use rejoin::record::text::{agreeing, plural};

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that are too wide are broken between words, and keep their indent and their styles.
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
    fn what_is_stored_cannot_steer_a_terminal() {
        let text =
            "red \u{1b}[31mrose\u{1b}[0m\r\n\ttab\u{7}bell \u{1b}]0;title\u{7}x \u{202e}back\u{9b}2J\rover";
        let shown = harmless_lines(text);
        assert!(shown.starts_with("red rose\n\ttab"), "{shown:?}");
        assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{shown:?}");
        assert!(!shown.contains('\u{202e}'));
        assert_eq!(harmless_lines("a\n\tb\n"), "a\n\tb\n");
        // A stream may be cut anywhere: what one piece begins, the next cannot end.
        for (at, _) in text.char_indices() {
            let (one, other) = text.split_at(at);
            let shown = harmless_lines(one) + &harmless_lines(other);
            assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{at}: {shown:?}");
        }
    }
    #[test]
    fn names_show_what_cannot_be_seen() {
        for (name, shown) in [
            ("plain ❤\u{fe0f}", "plain ❤\u{fe0f}"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{61c}b\u{feff}", "a\\u{61c}b\\u{feff}"),
            ("x\u{1b}[31m\n", "x\\u{1b}[31m\\n"),
            ("\u{9b}2J\u{202e}", "\\u{9b}2J\\u{202e}"),
        ] {
            assert_eq!(harmless(name), shown);
        }
        assert_eq!(harmless_message("one\n\ttwo\u{200d}\u{7}"), "one\n\ttwo\\u{200d}\\u{7}");
        assert_eq!(harmless_lines("👩\u{200d}💻"), "👩\u{200d}💻", "text keeps its joiners");
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

    /// What is recommended reaches the conversations that the command was about.
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
