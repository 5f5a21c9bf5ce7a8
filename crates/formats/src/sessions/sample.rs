//! A text whose format is to be detected. It is parsed once for all formats and for the reader.

use std::cell::{Cell, OnceCell, RefCell};

use rejoin_record::json::{Doc, SyntaxError, Value};

/// How much of a text counts as its beginning.
const BEGINNING: usize = 1024 * 1024;

/// The readable prefix of a text as JSON, and the error that ends it.
pub(crate) type Parsed<'t> = (Doc<'t>, Option<SyntaxError>);

/// How many lines are looked at first. They identify nearly every line-based file, and few parses are wasted.
const FIRST_LINES: usize = 16;

/// Why a format claims a text as its own, and how certain the claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// From 0 to 100. The highest claim wins; two equal ones are an error.
    pub certainty: u8,
    /// The evidence, phrased to follow "it has": `lines with a uuid and a parentUuid`.
    pub reason: &'static str,
}

impl Claim {
    /// The certainty of a mark that only one program writes.
    pub(crate) const SURE: u8 = 90;

    /// The certainty of a shape that is typical for one program.
    pub(crate) const LIKELY: u8 = 70;

    /// The certainty of the shape of a request, which many programs share.
    pub(crate) const SHARED: u8 = 50;

    /// Claims a text by a mark that only this program writes.
    pub(crate) fn sure(is_so: bool, reason: &'static str) -> Option<Self> {
        Self::new(Self::SURE, is_so, reason)
    }

    /// Claims a text by a shape that is typical for this program.
    pub(crate) fn likely(is_so: bool, reason: &'static str) -> Option<Self> {
        Self::new(Self::LIKELY, is_so, reason)
    }

    /// Claims a text with some other certainty.
    pub(crate) fn new(certainty: u8, is_so: bool, reason: &'static str) -> Option<Self> {
        is_so.then_some(Self { certainty, reason })
    }
}

/// A text to look at. What was parsed of it is kept.
pub struct Sample<'t> {
    text: &'t str,
    /// The lines of the text that were parsed so far, each with its length and without blank ones, and the rest of the text.
    lines: RefCell<(Vec<(Doc<'t>, usize)>, &'t str)>,
    /// The number of lines that formats may look at.
    deepest: Cell<usize>,
    /// Whether it has no line break, except around it.
    one_line: OnceCell<bool>,
    whole: OnceCell<Parsed<'t>>,
    beginning: OnceCell<Parsed<'t>>,
}

impl<'t> Sample<'t> {
    /// Looks at a text. Nothing is parsed yet.
    pub fn new(text: &'t str) -> Self {
        Self {
            text,
            lines: RefCell::new((Vec::new(), text)),
            deepest: Cell::new(usize::MAX),
            one_line: OnceCell::new(),
            whole: OnceCell::new(),
            beginning: OnceCell::new(),
        }
    }

    /// Asks about the first lines, and if they are inconclusive, about the rest as well.
    pub(crate) fn ask<T>(&self, ask: impl Fn() -> T, is_sure: impl Fn(&T) -> bool) -> T {
        self.deepest.set(FIRST_LINES);
        let told = ask();
        self.deepest.set(usize::MAX);
        if is_sure(&told) || self.is_one_line() { told } else { ask() }
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

    /// Whether any of the first lines identifies the format. A text of one line is looked at as a whole.
    pub(crate) fn any_line(&self, most: usize, tells: impl Fn(Value<'_>) -> bool) -> bool {
        self.any_of(most, usize::MAX, Self::whole, tells)
    }

    /// Whether any line of the beginning identifies the format.
    pub(crate) fn any_line_of_beginning(&self, tells: impl Fn(Value<'_>) -> bool) -> bool {
        self.any_of(usize::MAX, BEGINNING, Self::beginning, tells)
    }

    fn any_of(
        &self,
        most: usize,
        bytes: usize,
        as_one: fn(&Self) -> &Parsed<'t>,
        tells: impl Fn(Value<'_>) -> bool,
    ) -> bool {
        if self.is_one_line() {
            return as_one(self).0.root().is_some_and(tells);
        }
        let most = most.min(self.deepest.get());
        let mut lines = self.lines.borrow_mut();
        let (parsed, rest) = &mut *lines;
        let mut end = 0;
        for number in 0..most {
            while parsed.len() <= number && !rest.is_empty() {
                let (line, after) = rest.split_at(rest.find('\n').map_or(rest.len(), |end| end + 1));
                *rest = after;
                if !line.trim().is_empty() {
                    parsed.push((Doc::parse_prefix(line.trim_end()).0, line.len()));
                }
            }
            let Some((doc, length)) = parsed.get(number) else { return false };
            if end >= bytes {
                return false;
            }
            end += length;
            if doc.root().is_some_and(&tells) {
                return true;
            }
        }
        false
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
