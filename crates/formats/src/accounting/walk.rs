//! Finds the unread strings of an item in one pass over its bytes, without building a document.
//!
//! It skips the stretches that were read, so a message whose text was understood costs little more than its punctuation.

use std::borrow::Cow;

use rejoin_record::json::literal;

/// An object or array around a value.
struct Frame<'r> {
    object: bool,
    /// The literal of the last key, in an object.
    key: Option<&'r str>,
    /// Whether the next string is a key.
    at_key: bool,
}

/// The keys that lead to a value, outermost first, without places in arrays.
pub(super) struct Path<'p, 'r>(&'p [Frame<'r>]);

impl<'r> Path<'_, 'r> {
    pub(super) fn keys(&self) -> impl Iterator<Item = Cow<'r, str>> {
        self.0.iter().filter_map(|frame| frame.key).map(|key| literal::decode(key).0)
    }

    /// The key of the value, or of the array that it is in. None for a key.
    pub(super) fn last(&self) -> Option<Cow<'r, str>> {
        let object = self.0.iter().rev().find(|frame| frame.object)?;
        Some(literal::decode(object.key?).0)
    }
}

/// Calls `found` with every string of a native item, including keys, that is in none of the stretches that were read. The
/// stretches are sorted; the item may be several values separated by commas.
pub(super) fn unread_strings<'r>(
    raw: &'r str,
    read: &[(usize, usize)],
    mut found: impl FnMut(&Path<'_, 'r>, &'r str),
) {
    let bytes = raw.as_bytes();
    let mut stack: Vec<Frame<'r>> = Vec::new();
    let mut read = read.iter().copied().peekable();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begins = matches!(byte, b'"' | b'{' | b'[');
        let is_key = byte == b'"' && stack.last().is_some_and(|frame| frame.at_key);
        if begins && !is_key {
            while read.next_if(|(start, _)| *start < at).is_some() {}
            if let Some((_, end)) = read.next_if(|(start, end)| *start == at && *end > at) {
                at = end;
                continue;
            }
        }
        match byte {
            b'"' => {
                let end = literal::end(bytes, at).unwrap_or(bytes.len());
                let string = raw.get(at..end).unwrap_or_default();
                if is_key && let Some(frame) = stack.last_mut() {
                    frame.key = None;
                    frame.at_key = false;
                }
                found(&Path(&stack), string);
                if is_key && let Some(frame) = stack.last_mut() {
                    frame.key = Some(string);
                }
                at = end;
                continue;
            }
            b'{' => stack.push(Frame { object: true, key: None, at_key: true }),
            b'[' => stack.push(Frame { object: false, key: None, at_key: false }),
            b'}' | b']' => {
                stack.pop();
            }
            b',' => {
                if let Some(frame) = stack.last_mut() {
                    frame.at_key = frame.object;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether a text has at least four words. In scripts without spaces between words, two characters count as one word. A text
/// without a letter or a digit, such as a line of dashes, has no words.
#[must_use]
pub fn has_words(text: &str) -> bool {
    const FEWEST: usize = 4;
    let spaced = text.split_whitespace().nth(FEWEST - 1).is_some();
    let unspaced = || text.chars().filter(|c| is_unspaced(*c)).take(2 * FEWEST).count() == 2 * FEWEST;
    (spaced || (!text.is_ascii() && unspaced())) && has_letters(text)
}

/// Whether a text has a letter or a digit.
pub(super) fn has_letters(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

/// How many bytes of a long literal are decoded first, to see whether they have four words already.
const BEGINNING: usize = 256;

/// Whether a string literal, with its quotes, has at least four words. Most literals are names and ids, which need no
/// decoding, and the beginning of a long text usually tells.
pub(super) fn literal_has_words(string: &str) -> bool {
    let bytes = string.as_bytes();
    let shortest = "\"a b c d\"".len();
    // Without a space, an escape or a non-ASCII letter it is one word. Chunks without a branch inside are faster.
    let gap = |byte: &u8| *byte <= b' ' || *byte == b'\\' || !byte.is_ascii();
    let gaps = |stretch: &[u8]| stretch.iter().fold(false, |found, byte| found | gap(byte));
    // No escape contains a space, so the beginning up to a space decodes to the same text as within the whole literal.
    let beginning = || {
        let end = bytes.get(..BEGINNING)?.iter().rposition(|byte| *byte == b' ')?;
        string.get(..=end)
    };
    bytes.len() >= shortest
        && bytes.chunks(64).any(gaps)
        && (beginning().is_some_and(|beginning| has_words(&literal::decode(beginning).0))
            || has_words(&literal::decode(string).0))
}

/// Han, kana, Thai, Lao, Burmese and Khmer are written without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(raw: &str, read: &[(usize, usize)]) -> Vec<(String, String)> {
        let mut out = Vec::new();
        unread_strings(raw, read, |path, string| {
            if literal_has_words(string) {
                out.push((path.keys().collect::<Vec<_>>().join("."), literal::decode(string).0.into_owned()));
            }
        });
        out
    }

    #[test]
    fn strings_are_found_with_their_paths() {
        let raw = r#"{"a":"one two three four","b":[{"c\u0064":"five six\nseven eight"},"x y z"],"nine ten eleven twelve":1},{"e":["a b c d"]}"#;
        assert_eq!(
            all(raw, &[]),
            [
                ("a".into(), "one two three four".into()),
                ("b.cd".into(), "five six\nseven eight".into()),
                (String::new(), "nine ten eleven twelve".into()),
                ("e".into(), "a b c d".into()),
            ]
        );
        let second = raw.find('[').unwrap();
        let end = raw.find(']').unwrap() + 1;
        assert_eq!(all(raw, &[(5, 25), (second, end)]).len(), 2, "what was read is skipped");
        for cut in 0..raw.len() {
            all(&raw[..cut], &[(5, 25)]);
        }
    }

    #[test]
    fn four_words_in_any_script() {
        for text in ["a b c d", "one\ntwo\tthree four five", "こんにちは世界です", "请列出这个文件夹"]
        {
            assert!(has_words(text), "{text}");
        }
        for text in [
            "",
            "a b c",
            "/a/path/with/many/steps",
            "c2tpcF90aG91Z2h0X3NpZ25hdHVyZQ==",
            "你好世界",
            "- - - - -",
            "{\n: [ {",
            "\0 \0 \0 \0",
        ] {
            assert!(!has_words(text), "{text}");
        }
    }
}
