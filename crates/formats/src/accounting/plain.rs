//! What a file looks like that is not JSON, for error messages. Nothing is read because of it.

use super::shape::is_chosen_by_a_program;
use crate::media;

/// The number of lines that are examined.
const LOOK_AT: usize = 20;

/// The number of columns or keys that are named.
const NAMED: usize = 6;

/// What the bytes at the beginning of a file that is not JSON look like, such as `comma-separated values with the columns id and
/// name`. `None` if they begin like JSON, or like nothing that is known.
#[must_use]
pub fn looks_like(bytes: &[u8]) -> Option<String> {
    if let Some(kind) = of_marks(bytes) {
        return Some(kind.to_owned());
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The end may be in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let text = valid.trim_start();
    if text.is_empty() || text.starts_with(['{', '[', '"']) {
        return None;
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LOOK_AT).collect();
    let found =
        of_markup(text).or_else(|| separated(&lines)).or_else(|| yaml(&lines)).or_else(|| settings(&lines));
    Some(found.unwrap_or_else(|| String::from("plain text")))
}

/// By the first bytes of files that are no text.
fn of_marks(bytes: &[u8]) -> Option<&'static str> {
    match (media::image_type(bytes), bytes) {
        (Some(_), _) => Some("an image"),
        (None, [b'%', b'P', b'D', b'F', b'-', ..]) => Some("a PDF document"),
        (None, [0x7f, b'E', b'L', b'F', ..] | [b'M', b'Z', ..]) => Some("a program"),
        _ => None,
    }
}

fn of_markup(text: &str) -> Option<String> {
    let beginning = text.get(..text.floor_char_boundary(16))?.to_ascii_lowercase();
    let marks = [
        ("<!doctype html", "HTML"),
        ("<html", "HTML"),
        ("<?xml", "XML"),
        ("# ", "Markdown"),
        ("## ", "Markdown"),
    ];
    marks.iter().find(|(mark, _)| beginning.starts_with(mark)).map(|(_, kind)| String::from(*kind))
}

/// Values in columns: every line has as many separators as the first.
fn separated(lines: &[&str]) -> Option<String> {
    let [header, rows @ ..] = lines else { return None };
    let kinds = [
        (',', "comma-separated values"),
        ('\t', "tab-separated values"),
        (';', "values with semicolons between them"),
    ];
    let (separator, kind) = kinds.into_iter().find(|(separator, _)| {
        let count = header.matches(*separator).count();
        // A cell may hold more of them in quotation marks, or a line break.
        count > 0
            && !rows.is_empty()
            && rows.iter().all(|row| row.matches(*separator).count() == count || row.contains('"'))
    })?;
    let columns = header.split(separator).map(|name| name.trim().trim_matches('"'));
    Some(with_names(kind, "column", columns))
}

/// YAML: each line that is not indented is a key or an element of a list.
fn yaml(lines: &[&str]) -> Option<String> {
    let outer =
        || lines.iter().filter(|line| !line.starts_with([' ', '\t', '#']) && !line.starts_with("---"));
    let is_element = |line: &str| line.starts_with("- ");
    let mut keys = Vec::new();
    for line in outer().filter(|line| !is_element(line)) {
        let (key, rest) = line.split_once(':')?;
        if !is_chosen_by_a_program(key) || !(rest.is_empty() || rest.starts_with(' ')) {
            return None;
        }
        keys.push(key);
    }
    // One line with a colon may be anything.
    let begins = lines.first().is_some_and(|line| line.starts_with("---"));
    let is_nested = lines.iter().any(|line| line.starts_with("  "));
    let is_yaml = keys.len() > 1 || (keys.len() == 1 && (begins || is_nested));
    is_yaml.then(|| with_names("YAML", "key", keys.into_iter()))
}

/// A file of settings: lines with a name, an equals sign and a value, and headings in brackets.
fn settings(lines: &[&str]) -> Option<String> {
    let is_setting = |line: &&&str| {
        line.starts_with(['#', ';', '['])
            || line.split_once('=').is_some_and(|(name, _)| is_chosen_by_a_program(name.trim()))
    };
    lines.iter().all(|line| is_setting(&line)).then(|| String::from("a file of settings"))
}

/// Adds names to a kind, unless one of them may be data.
fn with_names<'n>(kind: &str, what: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() || !names.iter().all(|name| is_chosen_by_a_program(name)) {
        return kind.to_owned();
    }
    match &names[..names.len().min(NAMED)] {
        [only] => format!("{kind} with the {what} {only}"),
        [others @ .., last] => format!("{kind} with the {what}s {} and {last}", others.join(", ")),
        [] => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_json_are_named_by_their_kind() {
        for (text, kind) in [
            ("%PDF-1.4\nx", "a PDF document"),
            ("<!DOCTYPE html><html></html>", "HTML"),
            ("# Title\n\nSome words.\n", "Markdown"),
            ("id,name,amount\n1,a,2\n2,b,3\n", "comma-separated values with the columns id, name and amount"),
            ("role\tcontent\nuser\thello, you\n", "tab-separated values with the columns role and content"),
            ("messages:\n  - role: user\n    content: hello\n", "YAML with the key messages"),
            ("---\na: 1\nb: 2\n", "YAML with the keys a and b"),
            ("key = \"value\"\n[table]\nx = 1\n", "a file of settings"),
            ("dear diary", "plain text"),
            ("  an indented\n  poem\n", "plain text"),
            ("Dear diary: today\nnothing happened.\n", "plain text"),
        ] {
            assert_eq!(looks_like(text.as_bytes()).as_deref(), Some(kind), "{text}");
        }
        assert_eq!(looks_like(b"\x89PNG\r\n\x1a\n0000").as_deref(), Some("an image"));
        for text in ["{\"broken\": ", "[1,", "\"a", " ", ""] {
            assert_eq!(looks_like(text.as_bytes()), None, "{text}");
        }
    }
}
