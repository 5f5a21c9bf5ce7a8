//! String literals: from what is written between quotes to the text it means.
//!
//! A Rust string cannot hold half of a surrogate pair, a JSON literal can. Decoding therefore may lose something,
//! and says so; the literal itself is kept by whoever needs every byte.

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

/// Reads the escape at the start of `bytes`, which begins with a backslash.
pub(super) fn unit(bytes: &[u8]) -> Option<Unit> {
    Some(match bytes.get(1)? {
        b'"' => Unit::Simple('"'),
        b'\\' => Unit::Simple('\\'),
        b'/' => Unit::Simple('/'),
        b'b' => Unit::Simple('\u{8}'),
        b'f' => Unit::Simple('\u{c}'),
        b'n' => Unit::Simple('\n'),
        b'r' => Unit::Simple('\r'),
        b't' => Unit::Simple('\t'),
        b'u' => {
            let high = hex(bytes.get(2..6)?)?;
            if let Some(plain) = char::from_u32(high) {
                return Some(Unit::Code(plain));
            }
            let low =
                bytes.get(6..12).filter(|rest| rest.starts_with(b"\\u")).and_then(|rest| hex(&rest[2..]));
            match low {
                Some(low @ 0xdc00..=0xdfff) if high < 0xdc00 => {
                    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    char::from_u32(code).map_or(Unit::Lone, Unit::Pair)
                }
                _ => Unit::Lone,
            }
        }
        _ => return None,
    })
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |sum, &digit| Some(sum * 16 + char::from(digit).to_digit(16)?))
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The first byte from `at` on that ends a plain stretch of a string: a quote, a backslash or a control character. Eight
/// bytes at a time: a byte is found by borrowing from it, which is exact for the lowest one that matches.
pub(super) fn skip_plain(bytes: &[u8], mut at: usize) -> usize {
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = below(word, 0x20) | quote | backslash;
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
fn next_escape(bytes: &[u8], mut at: usize) -> usize {
    loop {
        at = skip_plain(bytes, at);
        match bytes.get(at) {
            None | Some(b'\\') => return at,
            Some(_) => at += 1,
        }
    }
}

/// Where the literal that begins at `start` ends: the byte behind its closing quote. Nothing if it never ends.
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

/// Decodes a literal with its quotes. The flag says whether something was lost (a lone surrogate, now U+FFFD).
#[must_use]
pub fn decode(literal: &str) -> (Cow<'_, str>, bool) {
    let body = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("");
    let bytes = body.as_bytes();
    let mut at = next_escape(bytes, 0);
    if at == bytes.len() {
        return (Cow::Borrowed(body), false);
    }
    let mut text = String::with_capacity(body.len());
    let (mut copied, mut lossy) = (0, false);
    while at < bytes.len() {
        text.push_str(&body[copied..at]);
        let (plain, length) = match unit(&bytes[at..]) {
            Some(Unit::Simple(plain)) => (plain, 2),
            Some(Unit::Code(plain)) => (plain, 6),
            Some(Unit::Pair(plain)) => (plain, 12),
            Some(Unit::Lone) => {
                lossy = true;
                (char::REPLACEMENT_CHARACTER, 6)
            }
            // No such escape: the backslash stands for itself.
            None => ('\\', 1),
        };
        text.push(plain);
        copied = at + length;
        at = next_escape(bytes, copied);
    }
    text.push_str(&body[copied..]);
    (Cow::Owned(text), lossy)
}

/// Whether a literal with its quotes means `expected`.
#[must_use]
pub fn equals(literal: &str, expected: &str) -> bool {
    let body = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("");
    body == expected || (body.contains('\\') && decode(literal).0 == expected)
}
