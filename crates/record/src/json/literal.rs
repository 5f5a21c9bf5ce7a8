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

/// Decodes a literal with its quotes. The flag says whether something was lost (a lone surrogate, now U+FFFD).
#[must_use]
pub fn decode(literal: &str) -> (Cow<'_, str>, bool) {
    let body = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("");
    let Some(first) = memchr::memchr(b'\\', body.as_bytes()) else {
        return (Cow::Borrowed(body), false);
    };
    let bytes = body.as_bytes();
    let mut text = String::with_capacity(body.len());
    let (mut copied, mut at, mut lossy) = (0, first, false);
    loop {
        text.push_str(&body[copied..at]);
        let length = match unit(&bytes[at..]) {
            Some(Unit::Simple(plain)) => {
                text.push(plain);
                2
            }
            Some(Unit::Code(plain)) => {
                text.push(plain);
                6
            }
            Some(Unit::Pair(plain)) => {
                text.push(plain);
                12
            }
            Some(Unit::Lone) => {
                text.push(char::REPLACEMENT_CHARACTER);
                lossy = true;
                6
            }
            // No such escape: the backslash stands for itself.
            None => {
                text.push('\\');
                1
            }
        };
        copied = at + length;
        match memchr::memchr(b'\\', &bytes[copied..]) {
            Some(next) => at = copied + next,
            None => {
                text.push_str(&body[copied..]);
                return (Cow::Owned(text), lossy);
            }
        }
    }
}

/// Whether a literal with its quotes means `expected`.
#[must_use]
pub fn equals(literal: &str, expected: &str) -> bool {
    let body = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("");
    if memchr::memchr(b'\\', body.as_bytes()).is_none() {
        body == expected
    } else {
        decode(literal).0 == expected
    }
}
