//! Makes foreign text safe: names, paths, and the words of models, tools and files, before a terminal, a log or a model gets them.
//!
//! Nothing here changes what is recorded of a model or a tool. `cli` prints through these functions.

use std::{borrow::Cow, path::Path};

/// Whether a character changes the direction of writing.
pub fn turns(c: char) -> bool {
    matches!(
        c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}'
    )
}

/// Whether a character controls a terminal or misleads its reader: control characters, line and paragraph separators, and marks for
/// the direction of writing. Line breaks and tabs count, too; functions for text of several lines let them pass.
pub fn steers(c: char) -> bool {
    c.is_control() || turns(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether a character is invisible, so that two different names can look the same. The selectors between two shapes of an emoji do
/// not count: they are common and hide nothing.
fn hides(c: char) -> bool {
    "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{3164}\u{feff}\u{ffa0}".contains(c)
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}')
        || matches!(c, '\u{206a}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Makes a name (a title, a tool, a model, a path) or a line of foreign text safe to print: control characters and invisible
/// characters become escapes such as `\u{1b}`, so two different names also look different.
pub fn harmless(text: &str) -> String {
    escaped(text, |c| steers(c) || hides(c)).into_owned()
}

/// A path, made safe to print as a name.
pub fn shown(path: &Path) -> String {
    harmless(&path.display().to_string())
}

/// Makes errors and hints of several lines safe to print, as [`harmless`] does. Line breaks and tabs stay.
pub fn harmless_message(text: &str) -> String {
    escaped(text, |c| (steers(c) || hides(c)) && !matches!(c, '\n' | '\t')).into_owned()
}

/// Makes text of a model or a tool safe to print: line breaks and tabs stay, whole control sequences and marks for the direction of
/// writing are removed, and other control characters become visible. Invisible characters stay, because emoji and several scripts
/// need them.
pub fn harmless_lines(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n");
    let shown = |c: char| match c {
        '\n' | '\t' => c,
        c if steers(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().filter(|c| !turns(*c)).map(shown).collect()
}

/// Typed or pasted text, in the form in which it is sent and recorded: without control sequences, and without control characters
/// other than line breaks and tabs. Terminals send these for keys; they are never part of a message.
pub fn typed(text: &str) -> String {
    let steered = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(steered) {
        return text.to_owned();
    }
    let text = anstream::adapter::strip_str(text).to_string().replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !steered(*c)).collect()
}

/// A text with an escape for each character that a function chooses.
pub fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_cannot_steer_a_terminal() {
        let text =
            "red \u{1b}[31mrose\u{1b}[0m\r\n\ttab\u{7}bell \u{1b}]0;title\u{7}x \u{202e}back\u{9b}2J\rover";
        let shown = harmless_lines(text);
        assert!(shown.starts_with("red rose\n\ttab"), "{shown:?}");
        assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{shown:?}");
        assert!(!shown.contains('\u{202e}'));
        assert_eq!(harmless_lines("a\n\tb\n"), "a\n\tb\n");
        // A stream may be cut anywhere, and the second piece must not complete a sequence of the first.
        for (at, _) in text.char_indices() {
            let (one, other) = text.split_at(at);
            let shown = harmless_lines(one) + &harmless_lines(other);
            assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{at}: {shown:?}");
        }
    }

    #[test]
    fn names_show_what_cannot_be_seen() {
        for (name, shown) in [
            ("plain ❤\u{fe0f}", "plain ❤\u{fe0f}"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{61c}b\u{feff}", "a\\u{61c}b\\u{feff}"),
            ("x\u{1b}[31m\n", "x\\u{1b}[31m\\n"),
            ("\u{9b}2J\u{202e}", "\\u{9b}2J\\u{202e}"),
        ] {
            assert_eq!(harmless(name), shown);
        }
        assert_eq!(harmless_message("one\n\ttwo\u{200d}\u{7}"), "one\n\ttwo\\u{200d}\\u{7}");
        assert_eq!(harmless_lines("👩\u{200d}💻"), "👩\u{200d}💻", "text keeps its joiners");
    }
}
