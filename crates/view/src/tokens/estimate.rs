//! Estimates tokens from the parts of a text: words, numbers, signs, and scripts.
//!
//! It imitates how tokenizers split text before they look up pieces, so prose, code, JSON and base64 each get their own density. It
//! rarely underestimates and seldom overestimates by much: an estimate that is too low overflows a window, while one that is too
//! high only compacts early. `tests.rs` pins the errors.

/// The tokens of a text, rounded up.
pub(super) fn tokens(text: &str) -> u64 {
    let mut hundredths = 0;
    let mut rest = text;
    let mut before = Part::Start;
    while let Some(first) = rest.chars().next() {
        let part = if first.is_ascii() { PARTS[first as usize] } else { Part::of(first) };
        let end = match part {
            Part::Upper => capitalised(rest),
            // Nearly all text is ASCII, which need not be decoded.
            _ if first.is_ascii() => {
                let is_other = |byte: &u8| PARTS[usize::from(*byte)] != part;
                rest.as_bytes().iter().position(is_other).unwrap_or(rest.len())
            }
            _ => rest.find(|next| Part::of(next) != part).unwrap_or(rest.len()),
        };
        let (run, after) = rest.split_at(end);
        hundredths += part.cost(run, before, after);
        (rest, before) = (after, if part == Part::Upper { Part::Lower } else { part });
    }
    hundredths.div_ceil(100)
}

/// The kind of each byte. Bytes of longer characters get none of the single-byte kinds.
const PARTS: [Part; 256] = {
    let mut parts = [Part::Rare; 256];
    let mut byte = 0;
    while byte < 128 {
        parts[byte] = Part::of(byte as u8 as char);
        byte += 1;
    }
    parts
};

/// Where a word with a capital first letter ends: all capitals, or one capital followed by small letters.
fn capitalised(text: &str) -> usize {
    let capitals = text.bytes().take_while(u8::is_ascii_uppercase).count();
    if capitals > 1 {
        return capitals;
    }
    1 + text.bytes().skip(1).take_while(u8::is_ascii_lowercase).count()
}

/// The kind of a run of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The beginning of the text.
    Start,
    Lower,
    Upper,
    Digit,
    Space,
    LineBreak,
    Sign,
    /// Latin with accents, Greek, Cyrillic, Armenian.
    Alphabet,
    /// Hebrew, Arabic and their neighbours.
    Semitic,
    /// Chinese, Japanese and Korean.
    Ideograph,
    /// Signs of three bytes, such as dashes, quotes and boxes.
    WideSign,
    /// Other scripts of three bytes.
    OtherScript,
    /// Pictures and rare scripts.
    Rare,
}

impl Part {
    const fn of(char: char) -> Self {
        match char {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            ' ' | '\t' => Self::Space,
            '\n' | '\r' => Self::LineBreak,
            '\0'..='\x7f' => Self::Sign,
            '\u{80}'..='\u{58f}' => Self::Alphabet,
            '\u{590}'..='\u{7ff}' => Self::Semitic,
            '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' => Self::Ideograph,
            '\u{2000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' => Self::WideSign,
            '\u{800}'..='\u{ffff}' => Self::OtherScript,
            _ => Self::Rare,
        }
    }

    /// The cost of a run, in hundredths of a token.
    fn cost(self, run: &str, before: Self, after: &str) -> u64 {
        let bytes = run.len() as u64;
        let chars = || run.chars().count() as u64;
        let long = |letters: u64| letters.saturating_sub(7).min(9) * 10 + letters.saturating_sub(16) * 52;
        // Letters right after digits or small letters are seldom words; they occur in base64.
        let glued = if matches!(before, Self::Lower | Self::Digit) { bytes.min(4) * 8 } else { 0 };
        match self {
            Self::Start => 0,
            // Common words are one token; a text longer than any common word is probably not one.
            Self::Lower => 100 + glued + long(bytes),
            Self::Upper => {
                let capitals = run.bytes().take_while(u8::is_ascii_uppercase).count() as u64;
                100 + glued + (capitals - 1) * 50 + long(bytes - capitals)
            }
            Self::Digit => bytes.div_ceil(3) * 100,
            // The last space belongs to the following word or sign, but not to a number.
            Self::Space if bytes == 1 && !after.starts_with(|next: char| next.is_ascii_digit()) => 5,
            Self::Space => 100 + bytes / 16 * 20,
            Self::LineBreak if before == Self::Sign => 40,
            Self::LineBreak => 100 + bytes.saturating_sub(1) * 8,
            Self::Sign => 100 + (bytes - 1) * 35,
            Self::Alphabet if before == Self::Lower => chars() * 70,
            Self::Alphabet => 50 + chars() * 45,
            Self::Semitic => 50 + chars() * 70,
            Self::Ideograph => chars() * 125,
            Self::WideSign => 60 + chars() * 60,
            Self::OtherScript => chars() * 140,
            Self::Rare => chars() * 280,
        }
    }
}
