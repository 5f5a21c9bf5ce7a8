//! Printing: data to stdout, talk to stderr, colours where they are wanted, and text of others made harmless.

use std::io::{self, Write as _};

use anstyle::{AnsiColor, Style};

use crate::{args::Colour, failure::Failure};

/// For errors.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// For warnings.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// For notes.
pub const NOTE: Style = AnsiColor::Cyan.on_default();
/// For good news.
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// For hints.
pub const HINT: Style = AnsiColor::Blue.on_default().bold();
/// For what was searched for.
pub const HIT: Style = AnsiColor::Red.on_default().bold();
/// For names and headings.
pub const STRONG: Style = Style::new().bold();
/// For what is beside the point.
pub const DIM: Style = Style::new().dimmed();

/// Sets whether colours are used; without a wish, a terminal without NO_COLOR has them.
pub fn set_colour(colour: Colour) {
    let choice = match colour {
        Colour::Auto => return,
        Colour::Always => anstream::ColorChoice::Always,
        Colour::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Whether colours are shown on stdout.
pub fn has_colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// A text in a style; the stream takes the style out where it is not wanted.
pub fn paint(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line of data.
pub fn data(line: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let written =
        out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    written.map_err(|error| closed_or(&error))
}

/// Prints bytes of data as they are, then a newline.
pub fn raw_data(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    written.map_err(|error| closed_or(&error))
}

/// What to say if standard output cannot be written: nothing, if nobody reads it.
pub fn closed_or(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::ClosedPipe
    } else {
        Failure::Unwritable { path: String::from("standard output"), why: io::Error::from(error.kind()) }
    }
}

/// Prints a line of talk. If nobody listens, the work goes on.
pub fn talk(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Whether a character turns the direction of writing.
pub fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Text of a model, a tool or a file, made harmless for a terminal: control characters become visible, and the marks that
/// turn the direction of writing go.
pub fn harmless(text: &str) -> String {
    text.chars().filter(|c| !turns(*c)).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The same for a text of several lines: line breaks and tabs stay, and whole control sequences go.
pub fn harmless_lines(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n");
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for (place, piece) in line.split('\t').enumerate() {
            if place > 0 {
                out.push('\t');
            }
            out.push_str(&harmless(piece));
        }
    }
    out
}

/// A moment as a person's clock shows it.
pub fn local_time(time: jiff::Timestamp) -> String {
    let zone = jiff::tz::TimeZone::system();
    time.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// `1 message`, `2 messages`
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
