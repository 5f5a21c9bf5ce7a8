//! Which faults the reader keeps, accepts and refuses.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Doc, Fault, ValueKind, write};

fn root_raw(text: &str) -> String {
    Doc::parse(text).unwrap().root().unwrap().raw().to_owned()
}

#[test]
fn every_value_is_given_back_as_written() {
    let text = r#"{"a" : 1e400, "b":[ 12345678901234567890.50, "x\u0041" ], "a":{} }"#;
    assert_eq!(root_raw(text), text);
    let doc = Doc::parse(text).unwrap();
    let root = doc.root().unwrap();
    let raws: Vec<_> = root.fields().map(|(key, value)| (key.raw(), value.raw())).collect();
    assert_eq!(
        raws,
        [("\"a\"", "1e400"), ("\"b\"", r#"[ 12345678901234567890.50, "x\u0041" ]"#), ("\"a\"", "{}")]
    );
    assert_eq!(
        root.get("a").unwrap().kind(),
        ValueKind::Object,
        "the last of duplicate keys is the one meant"
    );
    assert_eq!(root.get("b").unwrap().items().nth(1).unwrap().as_str().unwrap(), "xA");
}

#[test]
fn deep_nesting_needs_no_stack() {
    let text = "[".repeat(100_000) + &"]".repeat(100_000);
    assert_eq!(Doc::parse(&text).unwrap().max_depth(), 100_000);
    let doc = Doc::parse("[[[]],{\"a\":{}},[]]").unwrap();
    assert!(doc.root().unwrap().is_deeper_than(2) && !doc.root().unwrap().is_deeper_than(3));
    assert!(!doc.root().unwrap().items().nth(2).unwrap().is_deeper_than(1));
    let (doc, error) = Doc::parse_prefix(&text[..150_000]);
    assert!(error.is_some());
    assert!(doc.root().unwrap().is_cut());
}

#[test]
fn a_cut_text_gives_what_was_complete() {
    let text = r#"{"messages":[{"role":"user"},{"role":"assi"#;
    let (doc, error) = Doc::parse_prefix(text);
    assert!(error.is_some());
    let messages: Vec<_> = doc.root().unwrap().get("messages").unwrap().items().collect();
    assert_eq!(messages[0].raw(), r#"{"role":"user"}"#);
    assert!(!messages[0].is_cut());
    assert!(messages[1].is_cut());
    assert_eq!(messages[1].fields().count(), 0);
}

#[test]
fn what_strict_json_refuses_is_read_and_remembered() {
    for (text, fault) in [
        (r#""\ud83d""#, Fault::LoneSurrogate),
        (r#""\ude00\ud83d""#, Fault::LoneSurrogate),
        ("\"a\u{1}\"", Fault::RawControl),
        (r#""\x""#, Fault::BadEscape),
        ("NaN", Fault::NotANumber),
        ("[-Infinity]", Fault::NotANumber),
    ] {
        let doc = Doc::parse(text).unwrap();
        assert_eq!(doc.first_fault().unwrap().1, fault, "{text}");
        let mut clean = String::new();
        write::clean_copy(&mut clean, text);
        assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{text} became {clean}");
    }
}

/// The reader examines eight bytes at a time. It must find a special character at each of the eight positions.
#[test]
fn control_characters_are_found_everywhere() {
    for control in 0..0x20u8 {
        for before in 0..17 {
            let text =
                format!("\"{}{}{}\"", "a".repeat(before), char::from(control), "b".repeat(17 - before));
            let doc = Doc::parse(&text).unwrap();
            assert_eq!(
                doc.first_fault(),
                Some((before + 1, Fault::RawControl)),
                "{control:#x} behind {before}"
            );
        }
    }
}

/// Every ASCII character and some others, at each position in eight bytes: the written form is strict JSON and decodes to the same
/// text.
#[test]
fn every_character_is_written_as_json() {
    for c in (0..0x80u8).map(char::from).chain(['\u{80}', '\u{9f}', '\u{2028}', '\u{ffff}', '\u{10ffff}']) {
        for before in 0..17 {
            let text = format!("{}{c}{}", "a".repeat(before), "b".repeat(17 - before));
            let mut literal = String::new();
            write::string(&mut literal, &text);
            assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), text, "{literal}");
        }
    }
}

#[test]
fn escaped_pairs_are_one_character() {
    for c in ['\u{10000}', '\u{1f600}', '\u{10ffff}'] {
        let [high, low] = *c.encode_utf16(&mut [0; 2]) else { panic!("two halves") };
        let text = format!("\"<\\u{high:04x}\\u{low:04X}>\"");
        assert_eq!(Doc::parse(&text).unwrap().root().unwrap().as_str().unwrap(), format!("<{c}>"));
    }
}

#[test]
fn broken_texts_are_errors() {
    for text in
        ["", "{", "[1,]", "{\"a\"}", "{\"a\":}", "01", "1.", "-", "tru", "\"abc", "[1] 2", "{a:1}", "\"\\"]
    {
        assert!(Doc::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn agrees_with_serde_json_on_what_is_json(text in "[\\[\\]{}\",:0-9a-z\\\\ .eE+-]{0,24}") {
        let strict = serde_json::from_str::<serde_json::Value>(&text);
        match Doc::parse(&text) {
            Ok(doc) if doc.first_fault().is_none() => {
                // serde_json refuses numbers that do not fit a float; this reader keeps their spelling.
                if let Err(error) = strict { prop_assert!(error.to_string().contains("number out of range"), "{}", error); }
            }
            Ok(_) => prop_assert!(strict.is_err()),
            Err(_) => prop_assert!(strict.is_err(), "refused {text:?}"),
        }
    }

    #[test]
    fn strings_survive(text in any::<String>()) {
        let mut literal = String::new();
        write::string(&mut literal, &text);
        prop_assert_eq!(&serde_json::from_str::<String>(&literal).unwrap(), &text);
        let doc = Doc::parse(&literal).unwrap();
        prop_assert_eq!(doc.root().unwrap().as_str().unwrap(), text);
    }

    #[test]
    fn a_literal_is_rewritten_as_what_it_means(body in "[a \"\u{1}\u{7f}é\\\\/nrtbfu0-9dDcC]{0,40}") {
        let (mut rewritten, mut escaped) = (String::new(), String::new());
        write::rewritten(&mut rewritten, &body);
        let (decoded, lossy) = super::literal::decode_body(&body);
        write::escaped(&mut escaped, &decoded);
        prop_assert_eq!(rewritten, escaped);
        prop_assert_eq!(super::literal::measure(&body), (decoded.len(), lossy));
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let (doc, _) = Doc::parse_prefix(&text);
        let mut out = String::new();
        write::clean_copy(&mut out, &text);
        if let Some(root) = doc.root() { let _ = (root.raw().len(), root.fields().count(), root.items().count()); }
    }
}

/// A long string that is decoded on first use equals one that was decoded at once.
#[test]
fn texts_that_are_decoded_late_are_the_same() {
    let blank = " \\n".repeat(300);
    for body in [
        &format!("{}\\n\\u00e9 \\ud83d\\ude00 end", "word ".repeat(200)),
        &format!("{}\\ud83d and half a pair", "x".repeat(600)),
        &format!("{blank}late"),
        &blank,
        &format!("\\q {}", "no such escape ".repeat(60)),
        &String::from("short\\n"),
    ] {
        let text: Arc<str> = format!("[\"{body}\"]").into();
        let early = Doc::parse(&text).unwrap();
        let late = Doc::parse(&text).unwrap().shared_as(&text);
        let [early, late] =
            [&early, &late].map(|doc| doc.root().unwrap().items().next().unwrap().to_text(0).unwrap());
        assert_eq!(
            (early.is_blank(), early.is_lossy(), early.span()),
            (late.is_blank(), late.is_lossy(), late.span())
        );
        // Neither of these keeps the decoded text.
        assert_eq!(early.len(), late.len());
        assert_eq!(late.use_once(str::to_owned), early.as_str());
        assert_eq!(early, late);
    }
}

/// Literals that are known to be clean are not examined again; everything around them is.
#[test]
fn known_literals_are_stepped_over() {
    let text = "{\"a\":\"one \\n two\",\"b\":[\"three\\t\",\"fo\tur\"],\"c\":1}";
    let place = |literal: &str| text.find(literal).map(|start| (start, start + literal.len())).unwrap();
    let known = [place("\"one \\n two\""), place("\"three\\t\""), place("\"fo\tur\"")];
    let (plain, around) = (Doc::parse(text).unwrap(), Doc::parse_around(text, &known).unwrap());
    assert!(plain.strings().eq(around.strings()));
    assert_eq!(around.root().unwrap().get("c").unwrap().raw(), "1");
    assert!(
        plain.first_fault().is_some() && around.first_fault().is_none(),
        "the last one was not looked at"
    );
    assert!(Doc::parse_around(text, &known[..2]).unwrap().first_fault().is_some());
    let elsewhere = [(2, 4)];
    assert!(
        plain.strings().eq(Doc::parse_around(text, &elsewhere).unwrap().strings()),
        "no string begins there"
    );
}
