//! Tests of the generators: their output is JSON, their truth is true, and every kind of fault does occur. Faults are looked for in
//! the JSON, not in the plan.

mod gemini;
mod responses;

use proptest::{
    strategy::{Strategy, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::Value;

use super::{Body, Shape, body, continuation};
use crate::scan;

const SAMPLES: usize = 2_000;

/// The same values every time.
fn samples<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..SAMPLES).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Parses what no strict parser takes: half of a surrogate pair becomes U+FFFD, which no plan has.
fn parse(json: &str) -> Value {
    scan::parse(&json.replace("\\ud83d", "\\ufffd"))
}

/// The items of a body, or a single one without a list.
fn items(body: &Value, shape: Shape) -> &[Value] {
    let list = if body.is_array() { body } else { &body[shape.list()] };
    list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice)
}

/// Every token in a text, in order.
fn tokens(text: &str) -> Vec<String> {
    text.split('⟦').skip(1).map(|rest| format!("⟦{}⟧", rest.split_once('⟧').unwrap().0)).collect()
}

#[test]
fn what_is_said_of_a_body_is_true() {
    for shape in Shape::ALL {
        for Body { json, truth, .. } in samples(body(shape)) {
            parse(&json);
            let all = tokens(&json);
            let of = |letters: &str| -> Vec<String> {
                all.iter().filter(|token| letters.contains(token.chars().nth(1).unwrap())).cloned().collect()
            };
            // The system prompt comes first, wherever its field is.
            let mut said = of("uas");
            if let Some(at) =
                truth.said.first().and_then(|first| said.iter().position(|token| token == first))
            {
                said[..=at].rotate_right(1);
            }
            assert_eq!(said, truth.said, "{json}");
            assert_eq!(of("r"), truth.results, "{json}");
            let mut each = all.clone();
            each.sort();
            each.dedup();
            assert_eq!(each.len(), all.len(), "a token occurs twice: {json}");
            let calls = of("k");
            for (token, id, _) in &truth.calls {
                assert!(calls.contains(token) && truth.call_ids.contains(id), "{token} {id}: {json}");
            }
            for (token, id, _) in &truth.answers {
                assert!(
                    truth.results.contains(token) && json.contains(&format!("\"{id}\"")),
                    "{token}: {json}"
                );
            }
        }
    }
}

#[test]
fn places_are_the_items_they_name() {
    for shape in [Shape::Responses, Shape::Gemini] {
        for Body { json, truth, .. } in samples(body(shape)) {
            let value = parse(&json);
            let list = items(&value, shape);
            for (token, id, at) in truth.calls.iter().chain(&truth.answers) {
                let item = list[*at].to_string();
                assert!(
                    item.contains(token.as_str()) && item.contains(id.as_str()),
                    "{token} is not at {at}: {json}"
                );
            }
        }
    }
}

#[test]
fn what_goes_on_begins_with_a_user() {
    for shape in Shape::ALL {
        for items in samples(continuation(shape)) {
            let first = parse(&items[0]);
            assert_eq!(first["role"], "user", "{items:?}");
            let text = items.join(",");
            assert_eq!(text.matches("⟦r").count(), text.matches("⟦k").count(), "{text}");
            assert!(items.len() >= 2, "{items:?}");
        }
    }
}

/// How many bodies of a shape are so.
struct Counts {
    bodies: Vec<(String, Value)>,
    shape: Shape,
    absent: Vec<String>,
}

impl Counts {
    fn of(shape: Shape) -> Self {
        let bodies = samples(body(shape)).into_iter().map(|body| (parse(&body.json), body.json));
        Self { bodies: bodies.map(|(value, json)| (json, value)).collect(), shape, absent: Vec::new() }
    }

    fn note(&mut self, what: &str, count: usize) {
        if count < 3 {
            self.absent.push(format!("{what}: {count}"));
        }
    }

    /// Bodies whose text is so.
    fn text(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let count = self.bodies.iter().filter(|(json, _)| is_so(json)).count();
        self.note(what, count);
    }

    /// Bodies that are so.
    fn body(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let count = self.bodies.iter().filter(|(_, body)| is_so(body)).count();
        self.note(what, count);
    }

    /// Bodies whose list is so.
    fn list(&mut self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let shape = self.shape;
        self.body(what, |body| is_so(items(body, shape)));
    }

    /// Bodies with an item that is so.
    fn item(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.list(what, |items| items.iter().any(&is_so));
    }

    /// # Panics
    /// If something hardly occurs.
    fn done(self) {
        assert!(self.absent.is_empty(), "of {SAMPLES} bodies: {:#?}", self.absent);
    }
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}
