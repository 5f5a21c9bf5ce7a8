//! Removes secrets from text, and makes text from elsewhere harmless and short.

use secrecy::{ExposeSecret, SecretString};

/// The replacement for a secret.
pub const REDACTED: &str = "[key]";

/// The shortest secret that is removed, in bytes. Shorter ones would match inside ordinary words.
const SHORTEST_SECRET: usize = 6;

/// Removes secrets from a text, in upper or lower case.
pub fn redact(text: &str, secrets: &[&SecretString]) -> String {
    let mut secrets: Vec<&str> = secrets
        .iter()
        .map(|secret| secret.expose_secret().trim())
        .filter(|secret| secret.len() >= SHORTEST_SECRET)
        .collect();
    // A secret may contain another one. The longer goes first, so that no part of it stays.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut text = text.to_owned();
    for secret in secrets {
        text = without(&text, secret);
    }
    text
}

fn without(text: &str, secret: &str) -> String {
    // ASCII lower case has the same length, so positions in it are positions in the text.
    let (lower, secret) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let (mut out, mut from) = (String::new(), 0);
    for (at, found) in lower.match_indices(&secret) {
        out.push_str(&text[from..at]);
        out.push_str(REDACTED);
        from = at + found.len();
    }
    out.push_str(&text[from..]);
    out
}

/// The text on one line, without control characters, and with at most this many characters.
pub fn harmless(text: &str, characters: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut blank = true;
    for character in text.chars() {
        let character = if steers(character) || character.is_whitespace() { ' ' } else { character };
        if character == ' ' && blank {
            continue;
        }
        if length == characters {
            out.truncate(out.trim_end().len());
            out.push('…');
            return out;
        }
        blank = character == ' ';
        out.push(character);
        length += 1;
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a character controls a terminal, changes the direction of writing, or is invisible.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{061c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text)
    }

    #[test]
    fn no_part_of_a_longer_secret_stays() {
        let (short, long) = (secret("sk-abcdef"), secret("sk-abcdef-ghijkl"));
        let text = redact("keys: sk-abcdef-ghijkl, sk-abcdef.", &[&short, &long]);
        assert_eq!(text, "keys: [key], [key].");
        assert_eq!(redact("é SK-ABCDEF é", &[&short]), "é [key] é");
    }

    #[test]
    fn short_words_are_no_secrets() {
        assert_eq!(redact("a key", &[&secret("a"), &secret("")]), "a key");
    }

    #[test]
    fn what_steers_a_terminal_is_blank_and_long_text_is_short() {
        assert_eq!(harmless("a\x1b[31m\n\n b\u{202e}c", 40), "a [31m b c");
        assert_eq!(harmless(&"x".repeat(1000), 4), "xxxx…");
        assert_eq!(harmless("  ", 4), "");
        assert_eq!(harmless("four", 4), "four");
    }
}
