//! Removes secrets from text, and makes foreign text safe to print and short.

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
    // A secret may contain another one. The longest is removed first, so that no part of it stays.
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

/// How keys of well-known services begin.
const KEY_BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xox",
    "xapp-",
    "AIza",
    "AKIA",
    "ASIA",
    "ya29.",
    "hf_",
    "gsk_",
    "xai-",
    "r8_",
    "pplx-",
    "tvly-",
    "npm_",
    "pypi-",
    "dop_v1_",
    "eyJ",
];

/// The fewest characters of a word that begins like a key and is taken for one.
const SHORTEST_KEY: usize = 12;

/// The fewest characters of a word that looks random and is taken for a key.
const SHORTEST_RANDOM: usize = 32;

/// Names before a value, as in `password=…`, that make the value a secret whatever it looks like.
const SECRET_NAMES: &[&str] = &["key", "token", "secret", "password", "passwd", "authorization", "bearer"];

/// Removes everything that looks like a key, a token or a password from a text. It also removes some harmless words; that is the
/// lesser harm, because prompts are kept for good.
pub fn without_keys(text: &str) -> String {
    let text = &without_key_blocks(text);
    let is_in_word = |c: char| c.is_ascii_alphanumeric() || "-_./+~".contains(c);
    let mut secrets: Vec<SecretString> = Vec::new();
    // The preceding word if it names a secret, and the position where it ends.
    let mut named: Option<(&str, usize)> = None;
    let mut from = 0;
    for piece in text.split(|c: char| !is_in_word(c)) {
        let at = from + text[from..].find(piece).unwrap_or(0);
        from = at + piece.len();
        let word = piece.trim_matches(['.', '/']);
        if word.is_empty() {
            continue;
        }
        // `my password is …`: an ordinary word follows more often than a secret.
        if word == "is" && named.is_some() {
            continue;
        }
        let names = SECRET_NAMES.iter().any(|name| word.to_ascii_lowercase().ends_with(name));
        let follows = named.is_some_and(|(name, end)| {
            let between = &text[end..at];
            let has_digit = word.contains(|c: char| c.is_ascii_digit());
            let assigns = between.contains(['=', ':']) || (between.trim() == "is" && has_digit);
            assigns || name.starts_with('-') || name.eq_ignore_ascii_case("bearer")
        });
        if (follows && !names && word.len() >= SHORTEST_SECRET) || looks_like_key(word) {
            secrets.push(SecretString::from(word));
        }
        named = names.then_some((word, from));
    }
    redact(text, &secrets.iter().collect::<Vec<_>>())
}

/// Removes keys in the form `-----BEGIN … KEY-----`, to their end or to that of the text.
fn without_key_blocks(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("-----BEGIN ") {
        let end = rest[at..].find("-----END ").map_or(rest.len(), |end| {
            let end = at + end + "-----END ".len();
            rest[end..].find("-----").map_or(rest.len(), |dashes| end + dashes + 5)
        });
        if rest[at..end].lines().next().is_some_and(|first| first.contains("KEY")) {
            out.push_str(&rest[..at]);
            out.push_str(REDACTED);
        } else {
            out.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Whether a word looks like a key: it begins like one, or it is long and no word of a language.
fn looks_like_key(word: &str) -> bool {
    let begins = KEY_BEGINNINGS.iter().any(|beginning| word.starts_with(beginning));
    let has = |is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    let digits = has(char::is_ascii_digit);
    if begins && word.len() >= SHORTEST_KEY && (digits || word.len() >= SHORTEST_RANDOM) {
        return true;
    }
    // Paths and names with dots are long, too. Hashes have no upper case, and are no secrets.
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    word.len() >= SHORTEST_RANDOM
        && plain
        && digits
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}

/// Whether a text seems to contain a key, a token or a password. It is a guess, for data that is kept only for convenience, where
/// leaving out too much does no harm.
pub fn may_hold_secret(text: &str) -> bool {
    text.contains("-----BEGIN") || without_keys(text) != text
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
    fn what_looks_like_a_key_goes() {
        for (text, left) in [
            ("/provider openai sk-proj-abc123def456ghi", "/provider openai [key]"),
            ("/auth login ghp_16C7e42F292c6912E7710c838347Ae178B4a", "/auth login [key]"),
            ("curl -H 'Authorization: Bearer hunter2hunter2'", "curl -H 'Authorization: Bearer [key]'"),
            ("export API_KEY=hunter2xy", "export API_KEY=[key]"),
            ("--password hunter2 --user me", "--password [key] --user me"),
            ("Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MEFCQ0RFRg", "[key]"),
            ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nb", "a\n[key]\nb"),
            ("-----BEGIN PRIVATE KEY-----\nMII", "[key]"),
            ("-----BEGIN CERTIFICATE-----\nMII", "-----BEGIN CERTIFICATE-----\nMII"),
            ("/show 12", "/show 12"),
            ("/model gpt-5-mini-2026-01-01", "/model gpt-5-mini-2026-01-01"),
            (
                "git show 3f786850e387550fdab836ed7e6dc881de23001b",
                "git show 3f786850e387550fdab836ed7e6dc881de23001b",
            ),
            ("/resume conv_abcdefghijkl", "/resume conv_abcdefghijkl"),
            ("cat src/commands/talking/slash/table.rs", "cat src/commands/talking/slash/table.rs"),
            ("/search token budget", "/search token budget"),
        ] {
            assert_eq!(without_keys(text), left);
        }
    }

    #[test]
    fn short_words_are_no_secrets() {
        assert_eq!(redact("a key", &[&secret("a"), &secret("")]), "a key");
    }

    #[test]
    fn what_looks_like_a_key_is_noticed() {
        for text in [
            "sk-ant-api03-abcdefghijklmnop",
            "export OPENAI_API_KEY=sk-proj-0123456789abcdef",
            "use ghp_0123456789abcdefghij please",
            "curl -H 'Authorization: Bearer abcdef0123'",
            "my password is hunter2xyz",
            "password: \"correcthorse\"",
            "token=abc123def",
            "AKIAIOSFODNN7EXAMPLE",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
            "Zm9vYmFy1x2y3z4a5b6c7d8e9f0g1h2i",
        ] {
            assert!(may_hold_secret(text), "{text}");
        }
        for text in [
            "",
            "What's my name?",
            "how many tokens does it take",
            "explain the key idea of the secret sharing scheme",
            "read crates/engine/src/provider/http/tests/totality.rs, please",
            "task-list and sk- are words",
            "the token is the unit that a model counts in",
            "/resume conv_01k2v3w4x5",
            "antidisestablishmentarianism_and_supercalifragilistic",
        ] {
            assert!(!may_hold_secret(text), "{text}");
        }
    }

    #[test]
    fn what_steers_a_terminal_is_blank_and_long_text_is_short() {
        assert_eq!(harmless("a\x1b[31m\n\n b\u{202e}c", 40), "a [31m b c");
        assert_eq!(harmless(&"x".repeat(1000), 4), "xxxx…");
        assert_eq!(harmless("  ", 4), "");
        assert_eq!(harmless("four", 4), "four");
    }
}
