//! Writes JSON: our own strings, and foreign values copied unchanged.

use std::fmt::{self, Display, Write as _};

use super::{Doc, literal};

/// Appends `text` as a string literal.
#[inline]
pub fn string(out: &mut String, text: &str) {
    // One more byte for the colon or comma that follows.
    out.reserve(text.len() + 3);
    out.push('"');
    let plain = literal::skip_plain(text.as_bytes(), 0);
    out.push_str(&text[..plain]);
    if plain < text.len() {
        escaped(out, &text[plain..]);
    }
    out.push('"');
}

/// Appends the `Display` form of a value as a string literal.
pub fn shown(out: &mut String, value: impl Display) {
    struct Escaping<'o>(&'o mut String);
    impl fmt::Write for Escaping<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            escaped(self.0, text);
            Ok(())
        }
    }
    out.push('"');
    // Writing to a string cannot fail.
    write!(Escaping(out), "{value}").unwrap_or_default();
    out.push('"');
}

/// Appends `text` escaped for a string literal, without the quotes.
pub fn escaped(out: &mut String, text: &str) {
    let bytes = text.as_bytes();
    let (mut copied, mut from) = (0, 0);
    loop {
        let at = literal::skip_plain(bytes, from);
        out.push_str(&text[copied..at]);
        let Some(&byte) = bytes.get(at) else { return };
        (copied, from) = (at + 1, at + 1);
        match byte {
            b'"' | b'\\' => {
                // The character itself is copied with the following text.
                out.push('\\');
                copied = at;
            }
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            // Writing to a string cannot fail.
            _ => write!(out, "\\u{byte:04x}").unwrap_or_default(),
        }
    }
}

/// Appends the text between the quotes of a literal in the spelling of [`escaped`].
pub(crate) fn rewritten(out: &mut String, body: &str) {
    let bytes = body.as_bytes();
    let (mut copied, mut from) = (0, 0);
    loop {
        let at = literal::skip_plain(bytes, from);
        let Some(&byte) = bytes.get(at) else {
            out.push_str(&body[copied..]);
            return;
        };
        // Most escapes are spelled the same way.
        if let (b'\\', Some(b'n' | b'"' | b'\\' | b't' | b'r' | b'b' | b'f')) = (byte, bytes.get(at + 1)) {
            from = at + 2;
            continue;
        }
        out.push_str(&body[copied..at]);
        let (plain, length) = match byte {
            b'\\' => literal::escape(&bytes[at..]),
            _ => (char::from(byte), 1),
        };
        escaped(out, plain.encode_utf8(&mut [0; 4]));
        (copied, from) = (at + length, at + length);
    }
}

/// Appends a comma unless an object or a list has just begun.
#[inline]
pub(super) fn comma(out: &mut String) {
    if !matches!(out.as_bytes().last(), Some(b'{' | b'[')) {
        out.push(',');
    }
}

/// Appends a field name and its colon, after a comma if one is needed.
#[inline]
pub fn key(out: &mut String, name: &str) {
    comma(out);
    // The compiler decides this for a constant, and most names are.
    if name.len() <= 32 && name.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.reserve(name.len() + 3);
        out.push('"');
        out.push_str(name);
        out.push('"');
    } else {
        string(out, name);
    }
    out.push(':');
}

/// Appends a list. `item` appends each of its items.
pub fn list<T>(out: &mut String, items: impl IntoIterator<Item = T>, item: impl Fn(&mut String, T)) {
    out.push('[');
    for (place, each) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        item(out, each);
    }
    out.push(']');
}

/// Copies a JSON value and replaces everything that strict JSON refuses: a lone surrogate becomes `\ufffd`, a raw control character
/// its escape, a stray backslash two, `NaN` and the infinities `null`. All else stays unchanged.
pub fn clean_copy(out: &mut String, raw: &str) {
    let Ok(doc) = Doc::parse(raw) else {
        // It is not JSON: writing its text as a string loses nothing.
        string(out, raw);
        return;
    };
    if doc.first_fault().is_none() {
        out.push_str(raw);
        return;
    }
    let mut copied = 0;
    for &(at, fault) in &doc.layout.faults {
        let at = at as usize;
        out.push_str(&raw[copied..at]);
        copied = match fault {
            super::Fault::LoneSurrogate => {
                out.push_str("\\ufffd");
                at + 6
            }
            super::Fault::RawControl => {
                escaped(out, &raw[at..=at]);
                at + 1
            }
            super::Fault::BadEscape => {
                out.push_str("\\\\");
                at + 1
            }
            super::Fault::NotANumber => {
                out.push_str("null");
                let length =
                    ["NaN", "Infinity", "-Infinity"].iter().find(|word| raw[at..].starts_with(**word));
                at + length.map_or(0, |word| word.len())
            }
        };
    }
    out.push_str(&raw[copied..]);
}
