//! Finds the places in a file that resemble a text which the file does not contain.
//!
//! Lines vote: each line of the text that also occurs in the file, apart from white space, votes for the place where the text would
//! begin. If no line occurs, the longest line of the text is compared with every line of the file by trigrams. The cost grows with
//! the size of the file and is bounded.

use std::collections::{HashMap, HashSet};

use crate::tools::work::{cut, grouped};

/// The most bytes of a file that are compared.
const COMPARED: usize = 4 * 1024 * 1024;
/// How many lines of a text vote, and for how many places one line votes: `}` occurs everywhere.
const VOTERS: usize = 200;
const VOTES: usize = 50;
/// How many places are shown, and how many lines of each.
const PLACES: usize = 3;
const LINES: usize = 12;
/// How many characters of a line are shown and compared.
const LINE: usize = 200;
/// The share of trigrams, from 0 to 1, that two similar lines have in common.
const ALIKE: f64 = 0.4;

/// The places that resemble a text most, with line numbers, and the reason why the text does not match there, if it is clear.
pub(super) fn places(text: &str, old: &str) -> String {
    let end = (0..=COMPARED.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let lines: Vec<&str> = text[..end].lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    // Empty first lines do not help to find the place.
    let skipped = wanted.iter().take_while(|line| line.trim().is_empty()).count();
    let wanted = &wanted[skipped..];
    let wanted =
        &wanted[..wanted.len() - wanted.iter().rev().take_while(|line| line.trim().is_empty()).count()];
    if wanted.is_empty() {
        return String::from("It is only white space: copy the lines around it from the file as well");
    }
    let starts = best(&lines, wanted);
    if starts.is_empty() {
        return String::from(
            "Nothing in the file resembles it: read the file again and copy the text from it",
        );
    }
    let squeezed = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let differs_in_space = starts.iter().any(|start| {
        let there = lines[*start..].iter().take(wanted.len()).map(squeezed);
        there.eq(wanted.iter().map(squeezed))
    });
    let mut said = String::from(if differs_in_space {
        "It differs from the file only in white space. Copy it exactly, without line numbers. Near it are"
    } else {
        "The nearest places, with line numbers, which are not part of the text, are"
    });
    for start in starts {
        let count = wanted.len().min(LINES);
        for (number, line) in lines.iter().enumerate().skip(start).take(count) {
            said.push_str(&format!("\n{:>5}  {}", number + 1, cut(line, LINE)));
        }
        if wanted.len() > LINES {
            said.push_str(&format!("\n       [and {} more lines]", grouped((wanted.len() - LINES) as u64)));
        }
        said.push_str("\n  --");
    }
    said.truncate(said.len() - "\n  --".len());
    said
}

/// The lines at which the best places begin, best first.
fn best(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    let mut at: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        let same = at.entry(line.trim()).or_default();
        if same.len() < VOTES {
            same.push(number);
        }
    }
    let mut votes: HashMap<usize, f64> = HashMap::new();
    for (place, line) in wanted.iter().enumerate().take(VOTERS) {
        let line = line.trim();
        for number in at.get(line).into_iter().flatten() {
            // A long line is better evidence than a brace, and a frequent line is poor evidence.
            let weight = (line.len().min(LINE) as f64).sqrt() / at[line].len() as f64;
            *votes.entry(number.saturating_sub(place)).or_default() += weight;
        }
    }
    let (longest, line) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(place, line)| (line.trim().len(), usize::MAX - place))
        .unwrap_or((0, &""));
    let pattern = trigrams(line);
    for (number, line) in lines.iter().enumerate() {
        let found = trigrams(line);
        let common = found.intersection(&pattern).count() as f64;
        let alike = 2.0 * common / (found.len() + pattern.len()).max(1) as f64;
        if alike >= ALIKE {
            *votes.entry(number.saturating_sub(longest)).or_default() += alike * 10.0;
        }
    }
    let mut ranked: Vec<(usize, f64)> = votes.into_iter().filter(|(_, vote)| *vote >= 1.0).collect();
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    let Some((_, top)) = ranked.first().copied() else { return Vec::new() };
    let mut starts: Vec<usize> = Vec::new();
    for (start, vote) in ranked {
        let apart = starts.iter().all(|other| other.abs_diff(start) >= wanted.len().clamp(1, LINES));
        if vote >= top / 4.0 && apart {
            starts.push(start);
        }
        if starts.len() == PLACES {
            break;
        }
    }
    starts
}

/// All triples of consecutive letters in a line, without white space at its ends and regardless of case.
fn trigrams(line: &str) -> HashSet<[char; 3]> {
    let letters: Vec<char> = line.trim().chars().take(LINE).flat_map(char::to_lowercase).collect();
    match letters[..] {
        [] => HashSet::new(),
        [one] => HashSet::from([[one, '\0', '\0']]),
        [one, two] => HashSet::from([[one, two, '\0']]),
        _ => letters.windows(3).map(|three| [three[0], three[1], three[2]]).collect(),
    }
}
