//! The page on REST names exactly the events and the error codes of the code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    page::{quoted, table},
    read,
    shell::ShellHome,
};

const PAGE: &str = "docs/reference/rest.md";

/// Codes that the design has and that may not be there yet.
const DESIGNED: &[&str] = &["NO_MODEL"];

/// The strings in a piece of source that look like one thing.
fn strings(source: &str, is: impl Fn(&str) -> bool) -> BTreeSet<String> {
    source.split('"').skip(1).step_by(2).filter(|text| is(text)).map(str::to_owned).collect()
}

fn is_code(text: &str) -> bool {
    text.len() > 2 && text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// The body of `fn code`, up to the end of the function.
fn codes_of(path: &str) -> BTreeSet<String> {
    let source = read(path);
    let (_, body) = source.split_once("pub fn code(&self)").unwrap_or_else(|| panic!("{path} has no codes"));
    let body = body.split("\n    }\n").next().unwrap();
    let found = strings(body, is_code);
    assert!(found.len() > 1, "{path}: {found:?}");
    found
}

fn first_words(rows: &[Vec<String>]) -> BTreeSet<String> {
    rows.iter().map(|row| quoted(&row[0])[0].to_owned()).collect()
}

/// S3-01: the codes of the designed API are those of the engine and the stores, each with an HTTP status.
#[test]
fn the_codes_are_those_of_the_code() {
    let mut code = BTreeSet::new();
    for path in [
        "crates/engine/src/error.rs",
        "crates/engine/src/provider/error.rs",
        "crates/engine/src/turn/mod.rs",
        "crates/store/src/error.rs",
    ] {
        code.extend(codes_of(path));
    }
    assert!(code.len() >= 25, "{code:?}");
    let page = read(PAGE);
    let rows = table(&page, "### Codes");
    for row in &rows {
        let status: u16 = row[1].split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{row:?}"));
        assert!((400..600).contains(&status), "{row:?}");
    }
    let named = first_words(&rows);
    assert_eq!(named.len(), rows.len(), "each stands once");
    let missing: Vec<_> = code.difference(&named).collect();
    assert!(missing.is_empty(), "the page does not name {missing:?}");
    let own = first_words(&table(&page, "### Codes of the server itself"));
    assert!(own.is_disjoint(&code), "the server's own codes are its own");
    let unknown: Vec<_> = named.difference(&code).filter(|name| !DESIGNED.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "the code does not know {unknown:?}");
}

/// The events of the page: name, fields.
fn events() -> BTreeMap<String, BTreeSet<String>> {
    let rows = table(&read(PAGE), "### Events");
    let of = |row: &Vec<String>| {
        let fields = quoted(&row[1]).into_iter().map(str::to_owned).collect();
        (quoted(&row[0])[0].to_owned(), fields)
    };
    rows.iter().map(of).collect()
}

/// S3-01: the events of the designed API are those that `chat --json` prints.
#[test]
fn the_events_are_those_of_the_code() {
    let source = read("crates/rejoin/src/shape/turns.rs");
    let (_, drawing) = source.split_once("fn event(").unwrap();
    let mut code: BTreeSet<String> =
        drawing.split("object(\"").skip(1).map(|piece| piece.split('"').next().unwrap().to_owned()).collect();
    // The last event of a failed turn is drawn elsewhere.
    assert!(source.contains(".text(\"type\", \"error\")"));
    code.insert(String::from("error"));
    let page: BTreeSet<String> = events().into_keys().collect();
    assert_eq!(page, code);
    // Each event of the engine has a name: a new one without a name would never be sent.
    let enumeration = read("crates/engine/src/turn/event.rs");
    let (_, variants) = enumeration.split_once("pub enum Event {").unwrap();
    let variants = variants.split("\n}\n").next().unwrap().lines();
    let variants: Vec<&str> = variants
        .filter(|line| line.starts_with("    ") && !line.starts_with("     "))
        .map(|line| line.trim().split(['(', ' ', ',']).next().unwrap())
        .filter(|word| word.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .collect();
    assert!(variants.len() >= 13, "{variants:?}");
    for variant in variants {
        let mut name = String::new();
        for letter in variant.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        // An error that is returned itself has the name `error`.
        let name = if name == "failed" { String::from("error") } else { name };
        assert!(page.contains(&name), "{variant} is not on the page");
    }
}

/// The events of a turn have the fields that the page names.
#[test]
fn the_fields_are_those_that_are_printed() {
    let documented = events();
    let cli = ShellHome::new();
    let mut seen = BTreeSet::new();
    for line in [
        "rejoin chat --new --json 'What is 6*7?'",
        // An imported conversation with a call that was never answered.
        "rejoin resume @2 --json 'go on'",
        "rejoin chat --json --model no-such-model 'hello'",
    ] {
        let ran = cli.run(line);
        assert!(!ran.out.is_empty(), "{line}: {}", ran.err);
        for event in ran.out.lines() {
            let event: Value = serde_json::from_str(event).unwrap();
            let mut fields: BTreeSet<String> = event.as_object().unwrap().keys().cloned().collect();
            assert!(fields.remove("type"));
            let name = event["type"].as_str().unwrap().to_owned();
            let wanted = documented.get(&name).unwrap_or_else(|| panic!("{name} is not on the page"));
            assert_eq!(&fields, wanted, "{name}");
            seen.insert(name);
        }
    }
    let wanted = [
        "answered",
        "asking",
        "call_ended",
        "call_started",
        "closed",
        "ended",
        "error",
        "mended",
        "started",
        "text",
    ];
    assert!(wanted.iter().all(|name| seen.contains(*name)), "{seen:?}");
}
