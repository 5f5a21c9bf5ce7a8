//! The parser behind [`Doc`](super::Doc): one pass, an explicit stack, no recursion.

use super::{Layout, Node, ValueKind, literal};

/// A fault that strict JSON refuses and this parser accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An escape such as `\ud83d` without its other half.
    LoneSurrogate,
    /// A raw control character inside a string.
    RawControl,
    /// A backslash before a character that has no escape.
    BadEscape,
    /// `NaN`, `Infinity` or `-Infinity`.
    NotANumber,
}

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} at byte {offset}", self.reason())]
pub struct SyntaxError {
    /// The offset in bytes.
    pub offset: usize,
    /// The fault at that offset.
    pub kind: SyntaxErrorKind,
}

impl SyntaxError {
    /// The fault as words to display, without its place.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.kind.as_str()
    }
}

/// What makes a text no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// The text is too long for a document.
    TooLong,
    /// Something other than white space follows the value: there may be several values.
    AfterEnd,
    /// The text ends inside an object or a list, after a whole item.
    CutOff,
    /// The text ends where a value should begin.
    NoValue,
    /// A string without its closing quotation mark.
    OpenString,
    /// A field of an object is followed by neither a comma nor the object's end.
    AfterField,
    /// An item of a list is followed by neither a comma nor the list's end.
    AfterItem,
    /// Not a value.
    Value,
    /// A number with a leading zero or without digits.
    Number,
    /// A key that is not a string.
    Key,
    /// A key without a colon.
    Colon,
}

impl SyntaxErrorKind {
    /// The words to display.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "a text of 4 GiB or more",
            Self::AfterEnd => "text after the end of the value",
            Self::CutOff => "the text ends in the middle",
            Self::NoValue => "the text ends before a value",
            Self::OpenString => "a string that never ends",
            Self::AfterField => "expected `,` or `}`",
            Self::AfterItem => "expected `,` or `]`",
            Self::Value => "not a JSON value",
            Self::Number => "not a JSON number",
            Self::Key => "expected a key in quotes",
            Self::Colon => "expected `:`",
        }
    }
}

/// What the parser expects next.
enum Expect {
    Value,
    FirstItemOrEnd,
    FirstKeyOrEnd,
    Key,
    CommaOrEnd,
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Literals that are known to be clean, in order.
    known: &'a [(usize, usize)],
    nodes: Vec<Node>,
    open: Vec<usize>,
    faults: Vec<(u32, Fault)>,
    max_depth: usize,
}

pub(super) fn run(text: &str, known: &[(usize, usize)]) -> (Layout, Option<SyntaxError>) {
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        known,
        // A guess that avoids most reallocations, and costs little if only the beginning is parsed.
        nodes: Vec::with_capacity((text.len() / 64 + 4).min(1 << 12)),
        open: Vec::new(),
        faults: Vec::new(),
        max_depth: 0,
    };
    let error = match u32::try_from(text.len()) {
        Ok(_) => parser.parse().err(),
        Err(_) => Some(SyntaxError { offset: 0, kind: SyntaxErrorKind::TooLong }),
    };
    let end = parser.at.min(text.len());
    for &index in &parser.open {
        let next = parser.nodes.len() as u32;
        let node = &mut parser.nodes[index];
        node.end = end as u32;
        node.next = next;
        node.cut = true;
    }
    // Escapes are examined when their string ends, so faults are ordered within a string, and strings are in order.
    let Parser { nodes, faults, max_depth, .. } = parser;
    (Layout { nodes, faults, max_depth, length: text.len() }, error)
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<(), SyntaxError> {
        let mut expect = Expect::Value;
        loop {
            self.skip_space();
            match expect {
                Expect::FirstItemOrEnd if self.peek() == Some(b']') => expect = self.close(),
                Expect::FirstKeyOrEnd if self.peek() == Some(b'}') => expect = self.close(),
                Expect::Value | Expect::FirstItemOrEnd => expect = self.value()?,
                Expect::Key | Expect::FirstKeyOrEnd => expect = self.key()?,
                Expect::CommaOrEnd => {
                    let Some(&container) = self.open.last() else {
                        return match self.peek() {
                            None => Ok(()),
                            Some(_) => Err(self.error(SyntaxErrorKind::AfterEnd)),
                        };
                    };
                    let object = self.nodes[container].kind == ValueKind::Object;
                    match (self.peek(), object) {
                        (Some(b','), _) => {
                            self.at += 1;
                            expect = if object { Expect::Key } else { Expect::Value };
                        }
                        (Some(b'}'), true) | (Some(b']'), false) => expect = self.close(),
                        (None, _) => return Err(self.error(SyntaxErrorKind::CutOff)),
                        (Some(_), true) => return Err(self.error(SyntaxErrorKind::AfterField)),
                        (Some(_), false) => return Err(self.error(SyntaxErrorKind::AfterItem)),
                    }
                }
            }
        }
    }

    fn error(&self, kind: SyntaxErrorKind) -> SyntaxError {
        SyntaxError { offset: self.at, kind }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn push(&mut self, start: usize, kind: ValueKind) {
        let next = self.nodes.len() as u32 + 1;
        let (start, end) = (start as u32, self.at as u32);
        self.nodes.push(Node { start, end, next, kind, cut: false, escaped: false });
    }

    /// Ends the innermost object or list.
    fn close(&mut self) -> Expect {
        self.at += 1;
        let next = self.nodes.len() as u32;
        if let Some(index) = self.open.pop() {
            self.nodes[index].end = self.at as u32;
            self.nodes[index].next = next;
        }
        Expect::CommaOrEnd
    }

    fn begin(&mut self, kind: ValueKind) {
        let index = self.nodes.len();
        self.push(self.at, kind);
        self.at += 1;
        self.open.push(index);
        self.max_depth = self.max_depth.max(self.open.len());
    }

    fn value(&mut self) -> Result<Expect, SyntaxError> {
        let start = self.at;
        match self.peek() {
            None => return Err(self.error(SyntaxErrorKind::NoValue)),
            Some(b'{') => {
                self.begin(ValueKind::Object);
                return Ok(Expect::FirstKeyOrEnd);
            }
            Some(b'[') => {
                self.begin(ValueKind::Array);
                return Ok(Expect::FirstItemOrEnd);
            }
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9' | b'I' | b'N') => self.number()?,
            Some(b't') => self.word("true", ValueKind::Bool, start)?,
            Some(b'f') => self.word("false", ValueKind::Bool, start)?,
            Some(b'n') => self.word("null", ValueKind::Null, start)?,
            Some(_) => return Err(self.error(SyntaxErrorKind::Value)),
        }
        Ok(Expect::CommaOrEnd)
    }

    fn key(&mut self) -> Result<Expect, SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(self.error(SyntaxErrorKind::Key));
        }
        let (start, key) = (self.at, self.nodes.len());
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            // A key without a value does not count as complete.
            self.nodes.truncate(key);
            let error = self.error(SyntaxErrorKind::Colon);
            self.at = start;
            return Err(error);
        }
        self.at += 1;
        self.skip_space();
        let before = self.nodes.len();
        match self.value() {
            Ok(expect) => Ok(expect),
            Err(error) => {
                if self.nodes.len() == before {
                    self.nodes.truncate(key);
                }
                Err(error)
            }
        }
    }

    fn word(&mut self, word: &str, kind: ValueKind, start: usize) -> Result<(), SyntaxError> {
        if !self.text[start..].starts_with(word) {
            return Err(self.error(SyntaxErrorKind::Value));
        }
        self.at += word.len();
        self.push(start, kind);
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        for word in ["NaN", "Infinity", "-Infinity"] {
            if self.text[start..].starts_with(word) {
                self.at += word.len();
                self.faults.push((start as u32, Fault::NotANumber));
                self.push(start, ValueKind::NotANumber);
                return Ok(());
            }
        }
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (leading_zero && digits > 1) {
            return Err(SyntaxError { offset: start, kind: SyntaxErrorKind::Number });
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(SyntaxError { offset: start, kind: SyntaxErrorKind::Number });
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(SyntaxError { offset: start, kind: SyntaxErrorKind::Number });
            }
        }
        self.push(start, ValueKind::Number);
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let known = self.known.split_first().filter(|((at, _), _)| *at == start);
        if let Some(((_, end), rest)) = known {
            self.known = rest;
            return self.end_string(start, *end, true);
        }
        let mut at = start + 1;
        let (mut escaped, mut suspicious) = (false, false);
        let end = loop {
            at = literal::skip_plain(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => break at,
                Some(b'\\') => {
                    let next = self.bytes.get(at + 1);
                    escaped = true;
                    // Escapes other than the common ones are examined closely once the end of the string is known.
                    suspicious |= next.is_none_or(|next| literal::simple(*next).is_none());
                    at += 2;
                }
                Some(_) => {
                    suspicious = true;
                    at += 1;
                }
                None => {
                    self.at = start;
                    return Err(SyntaxError { offset: start, kind: SyntaxErrorKind::OpenString });
                }
            }
        };
        if suspicious {
            self.string_faults(start + 1, end);
        }
        self.end_string(start, end + 1, escaped)
    }

    fn end_string(&mut self, start: usize, end: usize, escaped: bool) -> Result<(), SyntaxError> {
        self.at = end;
        self.push(start, ValueKind::String);
        self.nodes.last_mut().into_iter().for_each(|node| node.escaped = escaped);
        Ok(())
    }

    /// Records the faults in the string body `start..end`.
    fn string_faults(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end {
            at = literal::skip_plain(self.bytes, at);
            if at >= end {
                return;
            }
            if self.bytes[at] != b'\\' {
                self.faults.push((at as u32, Fault::RawControl));
                at += 1;
                continue;
            }
            match literal::unit(&self.bytes[at..end]) {
                Some(literal::Unit::Simple(_)) => at += 2,
                Some(literal::Unit::Code(_)) => at += 6,
                Some(literal::Unit::Pair(_)) => at += 12,
                Some(literal::Unit::Lone) => {
                    self.faults.push((at as u32, Fault::LoneSurrogate));
                    at += 6;
                }
                None => {
                    self.faults.push((at as u32, Fault::BadEscape));
                    // Examine the following byte on its own: it may be a control character.
                    at += 1;
                }
            }
        }
    }
}
