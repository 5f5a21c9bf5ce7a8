//! Wraps styled text into rows of a terminal, at spaces, by the real width of characters.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::paint;

/// Text in a style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledSpan {
    pub style: Style,
    pub text: String,
}

impl StyledSpan {
    pub fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(Style::new(), text)
    }
}

/// The columns that a text takes. Tabs must have been replaced before.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The columns of spans.
pub fn spans_width(spans: &[StyledSpan]) -> usize {
    spans.iter().map(|span| width(&span.text)).sum()
}

/// A row as text for a terminal.
pub fn painted(row: &[StyledSpan]) -> String {
    let mut out = String::new();
    for span in row {
        if span.style == Style::new() {
            out.push_str(&span.text);
        } else {
            out.push_str(&paint(&span.text, span.style));
        }
    }
    out
}

/// Wraps spans into rows of at most `width` columns; the first row has `taken` fewer. A line break in a text starts a new row.
pub fn wrapped(spans: &[StyledSpan], width: usize, taken: usize) -> Vec<Vec<StyledSpan>> {
    let mut wrapping = Wrapping {
        width: width.max(2),
        rows: Vec::new(),
        row: Vec::new(),
        used: taken,
        word: Vec::new(),
        word_width: 0,
        space: None,
    };
    for span in spans {
        for c in span.text.chars() {
            match c {
                '\n' => {
                    wrapping.end_word();
                    wrapping.end_row();
                }
                ' ' => {
                    wrapping.end_word();
                    wrapping.space = Some(span.style);
                }
                c => wrapping.add(span.style, c),
            }
        }
    }
    wrapping.end_word();
    wrapping.rows.push(std::mem::take(&mut wrapping.row));
    wrapping.rows
}

/// Text that is being wrapped.
struct Wrapping {
    width: usize,
    rows: Vec<Vec<StyledSpan>>,
    row: Vec<StyledSpan>,
    /// The columns of the row that are in use.
    used: usize,
    word: Vec<StyledSpan>,
    word_width: usize,
    /// The style of the space between the row and the word; `None` if there is no space.
    space: Option<Style>,
}

impl Wrapping {
    fn add(&mut self, style: Style, c: char) {
        let columns = c.width().unwrap_or(0);
        if self.word_width + columns > self.width {
            self.end_word();
        }
        push(&mut self.word, style, c);
        self.word_width += columns;
        // Scripts with wide characters use no spaces: a row may end after any such character.
        if columns == 2 {
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let space = self.space.take().filter(|_| self.used > 0);
        if self.used > 0 && self.used + usize::from(space.is_some()) + self.word_width > self.width {
            self.end_row();
        } else if let Some(style) = space {
            push(&mut self.row, style, ' ');
            self.used += 1;
        }
        for span in self.word.drain(..) {
            match self.row.last_mut() {
                Some(last) if last.style == span.style => last.text.push_str(&span.text),
                _ => self.row.push(span),
            }
        }
        self.used += self.word_width;
        self.word_width = 0;
    }

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
        self.used = 0;
        self.space = None;
    }
}

fn push(spans: &mut Vec<StyledSpan>, style: Style, c: char) {
    match spans.last_mut() {
        Some(last) if last.style == style => last.text.push(c),
        _ => spans.push(StyledSpan::new(style, c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize, taken: usize) -> Vec<String> {
        wrapped(&[StyledSpan::plain(text)], width, taken).iter().map(|row| painted(row)).collect()
    }

    #[test]
    fn rows_end_at_spaces_and_never_are_too_wide() {
        assert_eq!(rows("one two  three", 8, 0), ["one two", "three"]);
        assert_eq!(rows("one two", 8, 6), ["", "one two"]);
        assert_eq!(rows("abcdefghij kl", 4, 0), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(rows("日本語のテキスト ok", 6, 0), ["日本語", "のテキ", "スト", "ok"]);
        assert_eq!(rows("a\n\nb", 8, 0), ["a", "", "b"]);
        assert_eq!(rows("", 8, 0), [""]);
        assert_eq!(rows("e\u{301}e\u{301}e\u{301}", 2, 0), ["e\u{301}e\u{301}", "e\u{301}"]);
    }
}
