//! Base64 in the strict spelling that providers demand: one alphabet, no line breaks, with padding.

use std::borrow::Cow;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

/// Turns any spelling into the strict one; `None` if the data is empty or not base64.
pub fn strict(data: &str) -> Option<Cow<'_, str>> {
    let bare = data.trim_end_matches(['=', '\n', '\r']);
    let as_it_is = bare.bytes().all(is_letter);
    let mut letters = Cow::Borrowed(bare);
    if !as_it_is {
        let mut out = String::with_capacity(bare.len());
        for byte in bare.bytes() {
            match byte {
                b'\n' | b'\r' => {}
                b'-' => out.push('+'),
                b'_' => out.push('/'),
                _ if is_letter(byte) => out.push(char::from(byte)),
                _ => return None,
            }
        }
        letters = Cow::Owned(out);
    }
    let padding = match letters.len() % 4 {
        _ if letters.is_empty() => return None,
        0 => "",
        2 => "==",
        3 => "=",
        _ => return None,
    };
    if as_it_is && data.len() == letters.len() + padding.len() && data.ends_with(padding) {
        return Some(Cow::Borrowed(data));
    }
    Some(Cow::Owned(format!("{letters}{padding}")))
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

/// Decodes the first `count` bytes of a strict spelling, and a few more.
pub fn head(data: &str, count: usize) -> Vec<u8> {
    let letters = data.as_bytes();
    let letters = &letters[..letters.len().min(count.div_ceil(3) * 4)];
    decode(letters).unwrap_or_default()
}

/// Decodes base64 in either alphabet, with or without padding and line breaks.
pub fn decode(letters: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for letter in letters.iter().filter(|letter| !matches!(letter, b'=' | b'\n' | b'\r')) {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// The number of bytes in a strict spelling.
pub fn decoded_len(data: &str) -> usize {
    data.len() / 4 * 3 - data.bytes().rev().take_while(|byte| *byte == b'=').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_base64() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("ÿ~", "w79+")]
        {
            assert_eq!(encode(text.as_bytes()), expected);
            assert_eq!(decoded_len(expected), text.len());
        }
    }

    #[test]
    fn other_spellings_become_strict() {
        for (data, expected) in [
            ("Zm8=", Some("Zm8=")),
            ("Zm8", Some("Zm8=")),
            ("Zg", Some("Zg==")),
            ("Zg==\n", Some("Zg==")),
            ("Zm\r\n9v", Some("Zm9v")),
            ("w79-", Some("w79+")),
            ("w7_-", Some("w7/+")),
            ("Zm9v====", Some("Zm9v")),
            ("Z", None),
            ("", None),
            ("==", None),
            ("Z m8", None),
        ] {
            assert_eq!(strict(data).as_deref(), expected, "{data:?}");
        }
    }
}
