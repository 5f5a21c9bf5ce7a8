//! A text whose format is to be detected. It is parsed once for all formats and for the reader.

use std::cell::OnceCell;

use rejoin_record::json::{Doc, SyntaxError, Value};

/// How much of a text counts as its beginning.
const BEGINNING: usize = 1024 * 1024;

/// A text as JSON, as far as it can be read, and why no further.
pub(crate) type Parsed<'t> = (Doc<'t>, Option<SyntaxError>);

/// A text to look at. What was parsed of it is kept.
pub struct Sample<'t> {
    text: &'t str,
    /// Whether it has no line break, except around it.
    one_line: OnceCell<bool>,
    whole: OnceCell<Parsed<'t>>,
    beginning: OnceCell<Parsed<'t>>,
}

impl<'t> Sample<'t> {
    /// Looks at a text. Nothing is parsed yet.
    pub fn new(text: &'t str) -> Self {
        Self { text, one_line: OnceCell::new(), whole: OnceCell::new(), beginning: OnceCell::new() }
    }

    /// The text.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    pub(crate) fn whole(&self) -> &Parsed<'t> {
        self.whole.get_or_init(|| Doc::parse_prefix(self.text))
    }

    /// All of the text as JSON, for the reader of the format.
    pub(crate) fn into_whole(self) -> Parsed<'t> {
        self.whole.into_inner().unwrap_or_else(|| Doc::parse_prefix(self.text))
    }

    /// The beginning of the text: enough to tell most formats.
    pub(crate) fn beginning_text(&self) -> &'t str {
        &self.text[..self.text.floor_char_boundary(BEGINNING)]
    }

    pub(crate) fn beginning(&self) -> &Parsed<'t> {
        if self.beginning_text().len() == self.text.len() {
            return self.whole();
        }
        self.beginning.get_or_init(|| Doc::parse_prefix(self.beginning_text()))
    }

    pub(crate) fn any_line(&self, most: usize, tells: impl Fn(Value<'_>) -> bool) -> bool {
        self.any_of(self.text, most, Self::whole, tells)
    }

    pub(crate) fn any_line_of_beginning(&self, tells: impl Fn(Value<'_>) -> bool) -> bool {
        self.any_of(self.beginning_text(), usize::MAX, Self::beginning, tells)
    }

    fn any_of(
        &self,
        text: &str,
        most: usize,
        as_one: fn(&Self) -> &Parsed<'t>,
        tells: impl Fn(Value<'_>) -> bool,
    ) -> bool {
        if self.is_one_line() {
            return as_one(self).0.root().is_some_and(tells);
        }
        let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(most);
        lines.any(|line| Doc::parse_prefix(line).0.root().is_some_and(&tells))
    }

    fn is_one_line(&self) -> bool {
        // A stretch at a time, without a branch inside: the whole text is looked at.
        let breaks = |stretch: &[u8]| stretch.iter().fold(false, |found, byte| found | (*byte == b'\n'));
        *self.one_line.get_or_init(|| !self.text.trim().as_bytes().chunks(256).any(breaks))
    }

    /// Whether it is a single value over several lines. Some of these may look like those of a file of lines.
    pub(crate) fn is_one_value(&self) -> bool {
        let first = self.text.trim().lines().next().unwrap_or_default();
        !self.is_one_line() && Doc::parse(first).is_err() && self.whole().1.is_none()
    }
}
