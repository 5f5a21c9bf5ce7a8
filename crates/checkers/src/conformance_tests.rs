//! The suite that every checker must pass: a pair of bodies for each rule, the fixtures with their verdicts, and damaged
//! input of every kind. Each dialect's tests supply the bodies.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Value, json};

use crate::{Extent, Violation, named};

/// The rules that are broken, a body that keeps them, and one that breaks them.
pub type Case = (Vec<&'static str>, Value, Value);

/// The facts about a dialect that the suite needs.
pub struct Suite {
    /// Its name.
    pub dialect: &'static str,
    /// The field of a request that holds its messages.
    pub list: &'static str,
    /// The number of its fixtures.
    pub fixtures: usize,
    /// Every rule that its checker can report.
    pub rules: &'static str,
    /// The rules that no pair of bodies breaks; separate tests do.
    pub elsewhere: &'static [&'static str],
    /// A body with a position for any JSON, marked `@`.
    pub holder: &'static str,
    /// How many levels of arrays fit into that position before the whole is nested too deep.
    pub levels: usize,
}

impl Suite {
    /// Judges a body whose model may still be missing.
    pub fn check(&self, body: &[u8]) -> Vec<Violation> {
        (named(self.dialect).unwrap().judge)(body, Extent::Draft).violations
    }

    /// The rules that a body breaks.
    pub fn rules_broken(&self, body: &[u8]) -> Vec<&'static str> {
        self.check(body).iter().map(|violation| violation.rule).collect()
    }

    /// A body of the greatest allowed size breaks no rule; one that is larger by one breaks this rule.
    pub fn limits(&self, most: usize, rule: &str, body: impl Fn(usize) -> Value) {
        assert_eq!(self.rules_broken(body(most).to_string().as_bytes()), [""; 0]);
        assert_eq!(self.rules_broken(body(most + 1).to_string().as_bytes()), [rule]);
    }

    /// All reports, in their printed form.
    pub fn reported(&self, body: &Value) -> Vec<String> {
        self.check(body.to_string().as_bytes()).iter().map(Violation::to_string).collect()
    }

    /// A request with these messages.
    pub fn request(&self, messages: impl IntoIterator<Item = Value>) -> Value {
        let messages: Vec<Value> = messages.into_iter().collect();
        json!({ self.list: messages })
    }

    /// Of each pair of bodies, one is accepted and the other breaks exactly these rules. Together, the pairs and the rules with
    /// separate tests cover all rules of the checker.
    pub fn each_rule_refuses_one_body_and_accepts_its_neighbour(&self, cases: Vec<Case>) {
        let mut judged: BTreeSet<&str> = self.elsewhere.iter().copied().collect();
        for (expected, accepted, refused) in cases {
            assert_eq!(self.check(accepted.to_string().as_bytes()), [], "{expected:?}: {accepted}");
            let broken = self.rules_broken(refused.to_string().as_bytes());
            assert_eq!(broken, expected, "{refused}\n{:#?}", self.reported(&refused));
            judged.extend(expected);
        }
        assert_eq!(judged, self.rules.split_whitespace().collect());
    }

    /// Numbers of any size are JSON. Half of a surrogate pair, and what no server reads, is refused once.
    pub fn what_cannot_be_read_is_one_violation(&self) {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let schema = self.rules.split_whitespace().find(|rule| rule.ends_with("schema")).unwrap();
        for (json, expected) in [
            ("1e999", None),
            (r#""\ud83d\ude00""#, None),
            (r#""\ud83d""#, Some("SAN-02")),
            ("01", Some(schema)),
            ("NaN", Some(schema)),
            (&nested(self.levels), None),
            (&nested(self.levels + 1), Some("SAN-07")),
        ] {
            let broken = self.rules_broken(self.holder.replace('@', json).as_bytes());
            assert_eq!(broken, expected.into_iter().collect::<Vec<_>>(), "{json}");
        }
    }

    /// Every fixture gets the verdict in the table, and none is left out.
    pub fn every_fixture_has_its_verdict(&self) {
        let verdicts = fs::read_to_string(fixtures().join("verdicts.tsv")).unwrap();
        let mut judged = BTreeSet::new();
        for line in verdicts.lines().skip(1) {
            let [fixture, of, verdict] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            if of != self.dialect {
                continue;
            }
            let file = format!("{fixture}.json");
            let violations = self.check(&fs::read(fixtures().join(self.dialect).join(&file)).unwrap());
            if verdict == "ok" {
                assert_eq!(violations, [], "{fixture}");
            } else {
                let refused = violations.iter().any(|violation| violation.rule == verdict);
                assert!(refused, "{fixture} does not break {verdict}: {violations:#?}");
            }
            judged.insert(file);
        }
        let files = fs::read_dir(fixtures().join(self.dialect)).unwrap();
        let files: BTreeSet<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(files, judged);
        assert_eq!(files.len(), self.fixtures);
    }

    /// Noise, random tokens, and fixtures that were cut or altered: a checker returns a verdict, and refuses what was cut.
    pub fn no_bytes_make_it_panic(&self) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let list = format!("\"{}\"", self.list);
        for _ in 0..2000 {
            let noise: Vec<u8> = (0..random(64)).map(|_| random(256) as u8).collect();
            self.check(&noise);
            let tokens = [r#"{"#, "}", "[", "]", ",", ":", &list, r#""\ud83d""#, "1e999", "null", "\"", " "];
            let soup: String = (0..random(32)).map(|_| tokens[random(tokens.len())]).collect();
            self.check(soup.as_bytes());
        }
        for file in fs::read_dir(fixtures().join(self.dialect)).unwrap() {
            let whole = fs::read(file.unwrap().path()).unwrap();
            let whole = whole.trim_ascii_end();
            for end in (0..whole.len()).step_by(1 + whole.len() / 300) {
                assert_ne!(self.check(&whole[..end]), [], "a body cut at {end}");
                let mut bent = whole.to_vec();
                bent[end] = random(256) as u8;
                self.check(&bent);
            }
        }
    }

    /// Any type of value at any position of the bodies: a checker returns a verdict. Large bodies are left out, because they have
    /// the same positions.
    pub fn no_type_in_any_place_makes_it_panic(&self, cases: Vec<Case>) {
        let deep = "[".repeat(900) + &"]".repeat(900);
        let strange =
            [json!(null), json!(true), json!(7), json!(""), json!([]), json!([[]]), json!({}), json!("DEEP")];
        let bodies = cases.into_iter().flat_map(|(_, accepted, refused)| [accepted, refused]);
        for body in bodies.filter(|body| places(body).len() < 100) {
            for place in places(&body) {
                for value in &strange {
                    let mut bent = body.clone();
                    *bent.pointer_mut(&place).unwrap() = value.clone();
                    self.check(bent.to_string().replace(r#""DEEP""#, &deep).as_bytes());
                }
            }
        }
    }
}

/// The folder of the fixtures.
fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
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

/// An object with a field added or replaced.
pub fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

/// Runs the suite of a dialect with the pairs of bodies of these functions, a test for each part.
macro_rules! conformance {
    (tests of $suite:ident: $($part:ident($($cases:expr)?))*) => {
        $(#[test]
        fn $part() {
            $suite.$part($($cases)?);
        })*
    };
    ($suite:ident: $($family:ident)*) => {
        fn cases() -> Vec<Case> {
            [$($family()),*].concat()
        }

        conformance! { tests of $suite:
            each_rule_refuses_one_body_and_accepts_its_neighbour(cases())
            every_fixture_has_its_verdict()
            no_bytes_make_it_panic()
            no_type_in_any_place_makes_it_panic(cases())
            what_cannot_be_read_is_one_violation()
        }
    };
}

pub(crate) use conformance;
