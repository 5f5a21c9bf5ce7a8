//! String literals: decodes the text between the quotes.
//!
//! A Rust string cannot hold half of a surrogate pair, but a JSON literal can. Decoding may therefore lose something, and reports
//! it; callers that need every byte keep the literal.

use std::borrow::Cow;

/// One escape sequence.
pub(super) enum Unit {
    /// `\n` and its like.
    Simple(char),
    /// `\u0041`
    Code(char),
    /// Two escapes that make one character.
    Pair(char),
    /// Half of a pair.
    Lone,
}

/// The character that a two-character escape means, given the character after the backslash.
pub(super) fn simple(next: u8) -> Option<char> {
    Some(match next {
        b'n' => '\n',
        b'"' | b'\\' | b'/' => char::from(next),
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        _ => return None,
    })
}

/// Reads the escape at the start of `bytes`, which begins with a backslash.
pub(super) fn unit(bytes: &[u8]) -> Option<Unit> {
    let next = *bytes.get(1)?;
    if next != b'u' {
        return simple(next).map(Unit::Simple);
    }
    let high = hex(bytes.get(2..6)?)?;
    if let Some(plain) = char::from_u32(high) {
        return Some(Unit::Code(plain));
    }
    let low = bytes.get(6..12).filter(|rest| rest.starts_with(b"\\u")).and_then(|rest| hex(&rest[2..]));
    Some(match low {
        Some(low @ 0xdc00..=0xdfff) if high < 0xdc00 => {
            let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            char::from_u32(code).map_or(Unit::Lone, Unit::Pair)
        }
        _ => Unit::Lone,
    })
}

/// The character for the escape at the start of `bytes`, and the length of the escape.
pub(super) fn escape(bytes: &[u8]) -> (char, usize) {
    meaning(unit(bytes))
}

fn meaning(unit: Option<Unit>) -> (char, usize) {
    match unit {
        Some(Unit::Simple(plain)) => (plain, 2),
        Some(Unit::Code(plain)) => (plain, 6),
        Some(Unit::Pair(plain)) => (plain, 12),
        Some(Unit::Lone) => (char::REPLACEMENT_CHARACTER, 6),
        // There is no such escape, so the backslash is text.
        None => ('\\', 1),
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |sum, &digit| Some(sum * 16 + char::from(digit).to_digit(16)?))
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Finds the first byte from `at` on that ends a plain stretch of a string: a quote, a backslash or a control character.
///
/// Examines eight bytes at a time. Subtracting a limit from a byte below that limit borrows, which sets the byte's highest bit;
/// bytes that already have that bit are not ASCII and not sought. The borrow continues into the bytes above, so only the lowest
/// match is exact, and that is the one needed.
#[inline]
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20);
        let quote = (word ^ (ONES * u64::from(b'"'))).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
        let found = (control | quote | backslash) & !word & HIGHS;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
        at += 1;
    }
    at
}

/// The first backslash from `at` on, or the end.
#[inline]
fn next_escape(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = skip_plain(bytes, at);
        match bytes.get(at) {
            None | Some(b'\\') => return at,
            Some(_) => at += 1,
        }
    }
}

/// Where the literal that begins at `start` ends: the byte after its closing quote. `None` if it never ends.
#[must_use]
pub fn end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at = skip_plain(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Decodes a literal with its quotes. The flag reports whether something was lost (a lone surrogate, replaced by U+FFFD).
#[must_use]
pub fn decode(literal: &str) -> (Cow<'_, str>, bool) {
    decode_body(within(literal))
}

/// Decodes the text between the quotes, as [`decode`] does.
pub(crate) fn decode_body(body: &str) -> (Cow<'_, str>, bool) {
    if next_escape(body.as_bytes(), 0) == body.len() {
        return (Cow::Borrowed(body), false);
    }
    let mut text = String::new();
    let lossy = decode_into(&mut text, body);
    (Cow::Owned(text), lossy)
}

/// Decodes the text between quotes and appends the result. Returns whether something was lost.
pub(super) fn decode_into(text: &mut String, body: &str) -> bool {
    let bytes = body.as_bytes();
    text.reserve(body.len());
    let (mut copied, mut lossy) = (0, false);
    let mut at = next_escape(bytes, 0);
    while at < bytes.len() {
        text.push_str(&body[copied..at]);
        if let Some(b'"' | b'\\' | b'/') = bytes.get(at + 1) {
            // The escaped character stands for itself, so it is copied with the following text.
            copied = at + 1;
            at = next_escape(bytes, at + 2);
            continue;
        }
        let unit = unit(&bytes[at..]);
        lossy |= matches!(unit, Some(Unit::Lone));
        let (plain, length) = meaning(unit);
        text.push(plain);
        copied = at + length;
        at = next_escape(bytes, copied);
    }
    text.push_str(&body[copied..]);
    lossy
}

/// The length in bytes of the decoded text between quotes, and whether decoding would lose something. Nothing is decoded.
pub(crate) fn measure(body: &str) -> (usize, bool) {
    let bytes = body.as_bytes();
    let (mut length, mut lossy) = (bytes.len(), false);
    let mut at = next_escape(bytes, 0);
    while at < bytes.len() {
        let unit = unit(&bytes[at..]);
        lossy |= matches!(unit, Some(Unit::Lone));
        let (plain, escape) = meaning(unit);
        length = length + plain.len_utf8() - escape;
        at = next_escape(bytes, at + escape);
    }
    (length, lossy)
}

/// The part between the quotes of a literal.
pub(super) fn within(literal: &str) -> &str {
    literal.get(1..literal.len().saturating_sub(1)).unwrap_or("")
}

/// Whether a literal with its quotes decodes to `expected`.
#[must_use]
pub fn equals(literal: &str, expected: &str) -> bool {
    let body = within(literal);
    body == expected || (body.contains('\\') && decode(literal).0 == expected)
}
