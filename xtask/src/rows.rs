//! Maps rows to tests: which test proves which behaviour in docs/requirements.md. A test quotes the ids of its rows in the comment
//! above it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Result, ensure};

use crate::run::files;

/// Rows that hold, each with a test that proves it. Rows that hold only in part are not listed: the end of docs/requirements.md
/// says what is missing.
const PROMISED: &str = "
    S0-02..S0-04 S0-06..S0-14 S0-16..S0-52 S0-54..S0-55 S0-57 S0-59..S0-60
    S1-02..S1-04 S1-07..S1-11 S1-13..S1-31 S1-33..S1-34 S1-36
    S2-02..S2-39 S2-41..S2-43 S2-45 S2-47..S2-50
    S3-02..S3-05 S3-07..S3-63 S3-66..S3-69
    S4-05..S4-07 S4-12..S4-15 S4-18 S4-21 S4-23..S4-25 S4-27 S4-29
    B1..B13 B15..B20 B22..B30 B32..B45 B48..B51
";

#[derive(Clone, Copy, PartialEq)]
pub enum Listing {
    /// Every row with its tests, then those without.
    All,
    /// The rows without a test.
    Missing,
    /// Only their number.
    Count,
}

pub fn rows(listing: Listing) -> Result<()> {
    let all = requirements()?;
    let proofs = proofs()?;
    let unknown: Vec<_> = proofs.keys().filter(|id| !all.contains(id)).collect();
    ensure!(unknown.is_empty(), "tests quote rows that docs/requirements.md does not have: {unknown:?}");
    if listing == Listing::All {
        for id in &all {
            if let Some(tests) = proofs.get(id) {
                println!("{id:<6} {}", tests.join(", "));
            }
        }
    }
    let missing: Vec<&String> = all.iter().filter(|id| !proofs.contains_key(*id)).collect();
    let partial = partial()?;
    let in_part = partial.iter().filter(|id| proofs.contains_key(*id)).count();
    println!(
        "{} of {} rows have a test, {in_part} of them for a part only",
        all.len() - missing.len(),
        all.len()
    );
    if listing != Listing::Count {
        println!("without one: {}", missing.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(" "));
    }
    let promised = ids(PROMISED);
    let broken: Vec<&String> = promised.iter().filter(|id| !proofs.contains_key(*id)).collect();
    ensure!(broken.is_empty(), "promised rows without a test: {broken:?}");
    let both: Vec<&String> = promised.iter().filter(|id| partial.contains(id)).collect();
    ensure!(
        both.is_empty(),
        "promised, though docs/requirements.md says that something is missing: {both:?}"
    );
    let page = fs::read_to_string("docs/requirements.md")?;
    let told = ids(page.split("\nNo test names these rows: ").nth(1).unwrap_or_default());
    ensure!(
        missing.iter().all(|id| told.contains(id)) && told.iter().all(|id| missing.contains(&id)),
        "docs/requirements.md names other rows without a test than there are: {missing:?}"
    );
    Ok(())
}

/// The rows for which the page lists something as missing.
fn partial() -> Result<Vec<String>> {
    let page = fs::read_to_string("docs/requirements.md")?;
    let missing = page.split("\n## What is missing\n").nth(1).unwrap_or_default();
    let rows = missing.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(':'));
    Ok(rows.map(|(id, _)| id.to_owned()).filter(|id| is_id(id)).collect())
}

/// The ids in the order of the page.
fn requirements() -> Result<Vec<String>> {
    let page = fs::read_to_string("docs/requirements.md")?;
    Ok(page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(' '))
        .map(|(id, _)| id.to_owned())
        .filter(|id| is_id(id))
        .collect())
}

fn is_id(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('-') {
        Some((group, number)) => {
            group.len() == 2 && group.starts_with('S') && digits(&group[1..]) && digits(number)
        }
        None => word.strip_prefix('B').is_some_and(digits),
    }
}

/// The ids quoted above tests, with the tests' names.
fn proofs() -> Result<BTreeMap<String, Vec<String>>> {
    let mut proofs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(Path::new("crates"), ".rs")? {
        let text = fs::read_to_string(&file)?;
        let (mut quoted, mut is_test) = (Vec::new(), false);
        for line in text.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix("//") {
                quoted.extend(ids(comment));
            } else if line.starts_with("#[test]") {
                is_test = true;
            } else if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
                if is_test {
                    let test = format!("{}::{name}", file.file_stem().unwrap_or_default().to_string_lossy());
                    for id in quoted.drain(..) {
                        proofs.entry(id).or_default().push(test.clone());
                    }
                }
                (quoted, is_test) = (Vec::new(), false);
            } else if !line.starts_with("#[") && !line.is_empty() {
                quoted.clear();
            }
        }
    }
    Ok(proofs)
}

/// The ids in a text: single ones, and ranges such as `S2-26..S2-31`.
fn ids(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')) {
        let word = word.trim_matches('.');
        match word.split_once("..") {
            Some((first, last)) if is_id(first) && is_id(last) => {
                let number = |id: &str| {
                    id.trim_start_matches(|c: char| !c.is_ascii_digit()).rsplit('-').next().map(str::to_owned)
                };
                let prefix = &first[..first.len() - number(first).unwrap_or_default().len()];
                let parse = |id: &str| number(id).and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
                let width = number(first).unwrap_or_default().len();
                found.extend((parse(first)..=parse(last)).map(|number| format!("{prefix}{number:0width$}")));
            }
            _ if is_id(word) => found.push(word.to_owned()),
            _ => {}
        }
    }
    found
}
