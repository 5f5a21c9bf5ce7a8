//! What every checker is put through, whatever its dialect: the fixtures with their verdicts, and damaged input of every kind.
//! Checkers share nothing with each other or with a codec; only the way of trying them is one.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};

use crate::Violation;

/// A checker.
type Check = fn(&[u8]) -> Vec<Violation>;

/// The rules that are broken, a body that keeps them, and one that does not.
pub type Case = (Vec<&'static str>, Value, Value);

/// Of each pair of bodies, one is accepted and the other breaks just these rules; together the pairs, and those rules that are
/// judged elsewhere, are all the rules that the checker knows.
pub fn each_rule_refuses_one_body_and_accepts_its_neighbour(
    check: Check,
    cases: Vec<Case>,
    elsewhere: &[&'static str],
    rules: &str,
) {
    let mut judged: BTreeSet<&str> = elsewhere.iter().copied().collect();
    for (expected, accepted, refused) in cases {
        assert_eq!(check(accepted.to_string().as_bytes()), [], "{expected:?}: {accepted}");
        let violations = check(refused.to_string().as_bytes());
        let broken: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(broken, expected, "{refused}\n{violations:#?}");
        judged.extend(expected);
    }
    assert_eq!(judged, rules.split_whitespace().collect());
}

/// The folder of the fixtures.
fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Every fixture of a dialect is judged as the table says, and each of these has one.
pub fn fixtures_have_their_verdicts(dialect: &str, check: Check, numbers: impl IntoIterator<Item = usize>) {
    let verdicts = fs::read_to_string(fixtures().join("verdicts.tsv")).unwrap();
    let mut judged = BTreeSet::new();
    for line in verdicts.lines().skip(1) {
        let [fixture, of, verdict] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if of != dialect {
            continue;
        }
        let file = format!("{fixture}.json");
        let violations = check(&fs::read(fixtures().join(dialect).join(&file)).unwrap());
        if verdict == "ok" {
            assert_eq!(violations, [], "{fixture}");
        } else {
            let refused = violations.iter().any(|violation| violation.rule == verdict);
            assert!(refused, "{fixture} does not break {verdict}: {violations:#?}");
        }
        judged.insert(file);
    }
    let files = fs::read_dir(fixtures().join(dialect)).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, judged);
    assert_eq!(judged, numbers.into_iter().map(|number| format!("F{number:02}.json")).collect());
}

/// Noise, soups of tokens (`list` is the name of the list of messages, as JSON), and fixtures that were cut or bent: a checker
/// answers, and refuses what was cut.
pub fn no_bytes_make_it_panic(dialect: &str, check: Check, list: &str) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..2000 {
        let noise: Vec<u8> = (0..random(64)).map(|_| random(256) as u8).collect();
        check(&noise);
        let tokens = [r#"{"#, "}", "[", "]", ",", ":", list, r#""\ud83d""#, "1e999", "null", "\"", " "];
        let soup: String = (0..random(32)).map(|_| tokens[random(tokens.len())]).collect();
        check(soup.as_bytes());
    }
    for file in fs::read_dir(fixtures().join(dialect)).unwrap() {
        let whole = fs::read(file.unwrap().path()).unwrap();
        let whole = whole.trim_ascii_end();
        for end in (0..whole.len()).step_by(1 + whole.len() / 300) {
            assert_ne!(check(&whole[..end]), [], "a body cut at {end}");
            let mut bent = whole.to_vec();
            bent[end] = random(256) as u8;
            check(&bent);
        }
    }
}

/// Any type of value in any place of these bodies: a checker answers. Large bodies are left out; they have the same places.
pub fn no_type_in_any_place_makes_it_panic(check: Check, bodies: impl IntoIterator<Item = Value>) {
    let deep = "[".repeat(900) + &"]".repeat(900);
    let strange =
        [json!(null), json!(true), json!(7), json!(""), json!([]), json!([[]]), json!({}), json!("DEEP")];
    for body in bodies.into_iter().filter(|body| places(body).len() < 100) {
        for place in places(&body) {
            for value in &strange {
                let mut bent = body.clone();
                *bent.pointer_mut(&place).unwrap() = value.clone();
                check(bent.to_string().replace(r#""DEEP""#, &deep).as_bytes());
            }
        }
    }
}

/// The JSON pointer of each value in a body.
fn places(body: &Value) -> Vec<String> {
    let mut places = vec![(String::new(), body)];
    let mut next = 0;
    while let Some((place, value)) = places.get(next).cloned() {
        next += 1;
        match value {
            Value::Object(fields) => {
                places.extend(fields.iter().map(|(key, v)| (format!("{place}/{key}"), v)));
            }
            Value::Array(items) => {
                places.extend(items.iter().enumerate().map(|(k, v)| (format!("{place}/{k}"), v)));
            }
            _ => {}
        }
    }
    places.into_iter().map(|(place, _)| place).collect()
}

/// The trials that every checker is put through, as tests: its module says what is particular to its dialect.
macro_rules! trials {
    (
        dialect: $dialect:literal,
        list: $list:literal,
        fixtures: $fixtures:expr,
        rules: $rules:literal,
        elsewhere: [$($elsewhere:literal),*],
        cases: [$($cases:ident),*],
    ) => {
        /// What is refused in a body whose model may still be missing.
        fn check(body: &[u8]) -> Vec<Violation> {
            super::check(body, Scope::Draft).violations
        }

        fn check_value(body: &Value) -> Vec<Violation> {
            check(body.to_string().as_bytes())
        }

        fn rules(body: &[u8]) -> Vec<&'static str> {
            check(body).iter().map(|violation| violation.rule).collect()
        }

        fn cases() -> Vec<Case> {
            [$($cases()),*].concat()
        }

        #[test]
        fn each_rule_refuses_one_body_and_accepts_its_neighbour() {
            let elsewhere = [$($elsewhere),*];
            crate::trials::each_rule_refuses_one_body_and_accepts_its_neighbour(check, cases(), &elsewhere, $rules);
        }

        #[test]
        fn every_fixture_has_its_verdict() {
            crate::trials::fixtures_have_their_verdicts($dialect, check, $fixtures);
        }

        #[test]
        fn no_bytes_make_it_panic() {
            crate::trials::no_bytes_make_it_panic($dialect, check, $list);
        }

        #[test]
        fn no_type_in_any_place_makes_it_panic() {
            let bodies = cases().into_iter().flat_map(|(_, accepted, refused)| [accepted, refused]);
            crate::trials::no_type_in_any_place_makes_it_panic(check, bodies);
        }
    };
}

pub(crate) use trials;
