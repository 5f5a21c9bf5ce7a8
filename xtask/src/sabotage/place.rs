//! Finds the place of a break, in any item with a given name, regardless of line breaks.
//!
//! A break names the function (or constant) that contains it, and a few words of it. So lines around it may change, and a formatter
//! may wrap them differently.

use std::ops::Range;

/// Finds a text in the items with that name; white space in it matches any white space. If it does not occur exactly once, the
/// error has the number.
pub fn find(source: &str, within: &str, text: &str) -> Result<Range<usize>, usize> {
    let mut places: Vec<Range<usize>> = Vec::new();
    for item in items(source, within) {
        // An item with this name may be inside another one.
        places.extend(
            in_words(&source[item.clone()], text).map(|at| at.start + item.start..at.end + item.start),
        );
    }
    places.sort_by_key(|place| place.start);
    places.dedup();
    match &places[..] {
        [place] => Ok(place.clone()),
        places => Err(places.len()),
    }
}

/// The items with a name: from the declaring line to the line that ends the item.
fn items<'s>(source: &'s str, name: &'s str) -> impl Iterator<Item = Range<usize>> + 's {
    let lines: Vec<(usize, &str)> = source
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line.trim_end()))
        })
        .collect();
    let begin: Vec<usize> = (0..lines.len()).filter(|line| declares(lines[*line].1, name)).collect();
    begin.into_iter().map(move |first| {
        let (start, line) = lines[first];
        let indent = line.len() - line.trim_start().len();
        let ends_here = line.ends_with(';') || (line.ends_with('}') && line.contains('{'));
        let last = (first + 1..lines.len()).find(|other| {
            let text = lines[*other].1;
            let is_end = text.len() > indent
                && text[..indent].trim().is_empty()
                && text[indent..].starts_with(['}', ']', ')', '"']);
            is_end && text.ends_with(['}', ';'])
        });
        let last = if ends_here { first } else { last.unwrap_or(lines.len() - 1) };
        start..lines[last].0 + lines[last].1.len()
    })
}

fn declares(line: &str, name: &str) -> bool {
    let mut words = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '!'));
    let mut before = "";
    words.by_ref().any(|word| {
        let declares = word == name
            && matches!(before, "fn" | "const" | "static" | "enum" | "struct" | "trait" | "macro_rules!");
        if !word.is_empty() {
            before = word;
        }
        declares
    })
}

/// Where a text occurs in another one; white space in it matches any white space.
fn in_words<'s>(source: &'s str, text: &'s str) -> impl Iterator<Item = Range<usize>> + 's {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    source.match_indices(first).filter_map(move |(start, _)| {
        let mut end = start + first.len();
        for word in text.split_whitespace().skip(1) {
            let rest = &source[end..];
            let blank = rest.len() - rest.trim_start().len();
            let next = rest[blank..].strip_prefix(word)?;
            if blank == 0 {
                return None;
            }
            end = source.len() - next.len();
        }
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
fn one() {
    if a
        && b
    {
        done();
    }
}

const WORDS: &[&str] = &[
    \"a\",
];

impl Two {
    fn one(&self) -> bool { a && c }
}
";

    #[test]
    fn a_place_is_found_by_its_item_and_its_words() {
        let text = |within, text| find(SOURCE, within, text).map(|place| &SOURCE[place]);
        assert_eq!(text("one", "a && b"), Ok("a\n        && b"));
        assert_eq!(text("one", "a && c"), Ok("a && c"), "any item of the name");
        assert_eq!(text("WORDS", "\"a\""), Ok("\"a\""));
        assert_eq!(text("one", "a &&"), Err(2));
        assert_eq!(text("one", "nothing"), Err(0));
        assert_eq!(text("two", "a"), Err(0), "no such item");
    }
}
