//! JSON on a terminal: escapes for characters that would control it, and indentation for people.

use std::borrow::Cow;

use crate::output::steers;

/// The same JSON for a terminal: characters that would control it are written as escapes. Outside strings, JSON has only line
/// breaks, tabs and carriage returns of that kind; a carriage return alone becomes a space there.
pub fn steady(text: &str) -> Cow<'_, str> {
    let passes = |c: char| matches!(c, '\n' | '\t');
    if !text.contains(|c| steers(c) && !passes(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => out.push(c),
            '\r' => out.push(' '),
            c if steers(c) && !passes(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Puts each value on its own line. Tokens are not changed.
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let mut characters = json.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        // Deeper indentation would add its depth to every line, and is not readable anyway.
        out.extend(std::iter::repeat_n("  ", depth.min(DEEPEST)));
    };
    while let Some(c) = characters.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                quoted = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

const DEEPEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_a_terminal_means_the_same() {
        let text = "{\r\n\t\"a\u{9b}\u{7f}\": \"\u{202e}\u{61c}\u{2028}👩\u{200d}💻\"}\r";
        let shown = steady(text);
        assert_eq!(shown, "{\r\n\t\"a\\u009b\\u007f\": \"\\u202e\\u061c\\u2028👩\u{200d}💻\"} ");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(text));
    }

    #[test]
    fn indentation_changes_no_value() {
        for text in [
            r#"{"a":[1,{"b":"x\"]},: y\\"}],"c":{},"d":[ ],"e":-1.50}"#,
            r#"[ "\\", "\u0022" , null ]"#,
            "17",
            "{}",
        ] {
            let indented = indented(text);
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&indented), value(text), "{indented}");
        }
        assert_eq!(indented(r#"{"a":[1,2]}"#), "{\n  \"a\": [\n    1,\n    2\n  ]\n}");
    }
}
