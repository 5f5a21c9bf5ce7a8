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

fn closed_or(error: &io::Error) -> Failure {
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

/// Text of a model, a tool or a file, made harmless for a terminal: control characters become visible, and the marks that
/// turn the direction of writing go.
pub fn harmless(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}'))
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
