//! A shortened request gets the same verdict as the whole one.

use std::{fs, path::Path};

use super::*;
use crate::{Dialect, Input, sessions};

/// Makes every text long, and keeps blank ones blank.
fn lengthen(value: &mut Value, is_text: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| lengthen(item, is_text)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, field)| lengthen(field, TEXTS.contains(&name.as_str())))
        }
        Value::String(text) if is_text && !text.is_empty() => {
            let more = if is_blank(text) { " " } else { " and so on" };
            text.push_str(&more.repeat(CUT.start));
        }
        _ => {}
    }
}

#[test]
fn the_end_of_a_literal_is_judged_as_it_reads() {
    for literal in
        [r#""a ""#, r#""a\n""#, r#""a\t""#, r#""a\\\n""#, r#""a\u0020""#, r#""a\\\u00a0""#, "\"a\u{3000}\""]
    {
        assert!(ends_blank(literal), "{literal}");
    }
    for literal in [
        r#""a""#,
        r#""a\\n""#,
        r#""a\\u0020""#,
        r#""a\"""#,
        r#""a\\""#,
        r#""a\u0041""#,
        r#""é😀""#,
        r#""\ud83d\ude00""#,
    ] {
        assert!(!ends_blank(literal), "{literal}");
    }
}

/// No rule looks past the beginning of a text: every fixture of every checker, with all texts made long.
#[test]
fn a_shortened_request_gets_the_same_verdict() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../checkers/fixtures");
    let mut shorter = 0;
    for dialect in Dialect::all() {
        for file in fs::read_dir(fixtures.join(dialect.name())).unwrap() {
            let path = file.unwrap().path();
            let Ok(mut body) = serde_json::from_str::<Value>(&fs::read_to_string(&path).unwrap()) else {
                continue;
            };
            lengthen(&mut body, false);
            let list = body[dialect.wire().fields.messages].to_string();
            let message = Message::user("");
            let source = Source { place: 0, text: &list, message: &message, clean: false };
            let Some(cut) = source.shortened(|list| Some(list)).map(|cut| cut.to_string()) else { continue };
            let verdict = |list: &str| -> Vec<_> {
                let refusals = testkit::refusals(dialect, list.as_bytes());
                refusals.into_iter().map(|violation| (violation.rule, violation.path)).collect()
            };
            assert_eq!(verdict(&cut), verdict(&list), "{}", path.display());
            shorter += usize::from(cut.len() < list.len());
        }
    }
    assert!(shorter > 50, "only {shorter} were shortened");
}

#[test]
fn long_texts_that_were_read_are_not_read_again() {
    let line = |payload: String| {
        format!(r#"{{"timestamp":"2026-11-15T12:00:00.000Z","type":"response_item","payload":{payload}}}"#)
    };
    let output = |id: &str, end: &str| {
        let text = format!(r"{}\n\u00e9 {end}", "word ".repeat(300));
        line(format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"{text}"}}"#))
    };
    let text = [output("a", "end"), output("b", "a raw\tcontrol"), output("c", "\\\"end\\\"")].join("\n");
    let input = Input::new("rollout.jsonl", text.as_bytes()).unwrap();
    let session = sessions::read(&input, sessions::named("codex")).unwrap().remove(0);
    let sources = session.messages.iter().enumerate().flat_map(sources_of);
    let seen: Vec<(bool, bool)> = sources
        .map(|source| {
            let again = Source { clean: false, ..source };
            assert_eq!(source.shortened(|item| Some(item)), again.shortened(|item| Some(item)));
            assert_eq!(source.known_literals().len(), 1, "the text is a slice of its line");
            (source.clean, again.shortened(|item| Some(item)).is_some())
        })
        .collect();
    assert_eq!(seen, [(true, true), (false, false), (true, true)], "what is not strict JSON is left out");
}
