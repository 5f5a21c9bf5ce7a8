//! Tests of the fuzzer itself: it is repeatable, its mutations stay in bounds, and each of its laws can be broken.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::time::Duration;

use rejoin_formats::Context;
use rejoin_record::{Message, ToolCall, json::Doc};

use super::{
    Target, conversation,
    explore::{Limits, explore},
    hash, json,
    minimise::minimise,
    mutate::{MOST_BYTES, Material, mutate, stretched, values, with_comma},
    random::Random,
    seeds, sketch, targets, watched,
};

fn inputs_of(seed: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    let limits = Limits { time: None, runs: Some(300), probes: false };
    let first = vec![b"{\"a\":[1,\"x\"]}".to_vec(), b"[]".to_vec()];
    let _ = explore(&Target::Json, first, seed, limits, |input| seen.push(hash(input)));
    seen
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    assert_eq!(inputs_of(7), inputs_of(7));
    assert_ne!(inputs_of(7), inputs_of(8));
}

#[test]
fn what_shows_something_new_is_kept() {
    let limits = Limits { time: None, runs: Some(500), probes: false };
    let outcome = explore(&Target::Json, vec![b"{\"a\":[1,\"x\"]}".to_vec()], 1, limits, |_| {});
    assert!(outcome.pool > 5 && outcome.signs > 5 && outcome.failures.is_empty(), "{outcome:?}");
}

#[test]
fn any_input_can_be_mutated() {
    let mut random = Random::new(1, "test");
    let pool: Vec<Vec<u8>> =
        [&b""[..], b"\"", b"{", b"\n", b"\xff", b"[1,2]\n{\"a\":\"\\\"}\n", b"12"].map(<[u8]>::to_vec).into();
    let words = seeds::words();
    for round in 0..20_000 {
        let pool = &pool[..round % (pool.len() + 1)];
        let material = Material { pool, words: &words[..words.len() * (round % 2)] };
        let base = pool.get(random.below(pool.len())).cloned().unwrap_or_default();
        assert!(mutate(&mut random, &base, &material).len() <= MOST_BYTES);
        assert!(stretched(&mut random, &base, 300).len() < 700);
    }
}

#[test]
fn values_are_found_by_their_brackets_and_quotes() {
    let text = br#" {"a\"b":[1.5e3,true],"c":"x"} ] "open"#;
    let found: Vec<_> =
        values(text).into_iter().map(|range| std::str::from_utf8(&text[range]).unwrap()).collect();
    let whole = r#"{"a\"b":[1.5e3,true],"c":"x"}"#;
    assert_eq!(found, [r#""a\"b""#, "1.5e3", "true", "[1.5e3,true]", "\"c\"", "\"x\"", whole, "\"open"]);
    let list = b"[1 , 2,3]";
    assert_eq!((with_comma(list, 1..2), with_comma(list, 7..8)), (1..4, 6..8));
    assert_eq!(with_comma(b"[1]", 1..2), 1..2);
}

#[test]
fn a_failing_input_becomes_small() {
    let input =
        br#"{"model":"x","messages":[{"role":"user","content":"long and boring"},{"bad":[1,{"y":"z"}]}]}"#;
    let fails = |input: &[u8]| {
        Doc::parse(&String::from_utf8_lossy(input))
            .is_ok_and(|doc| doc.root().is_some_and(|root| root.raw().contains("\"bad\"")))
    };
    let small = minimise(input, Duration::from_secs(20), fails);
    assert_eq!(String::from_utf8_lossy(&small), r#"{"":[{"bad":[]}]}"#);
}

#[test]
fn a_panic_is_named_by_its_place() {
    let broken = watched(|| panic!("no {}", 7)).unwrap_err();
    assert!(broken.law.starts_with("panic at testkit/src/fuzz/tests.rs:"), "{broken:?}");
    assert_eq!(broken.detail, "no 7");
    assert_eq!(watched(|| 5), Ok(5));
}

#[test]
fn a_sketch_is_a_list_of_messages() {
    let drawn = sketch::draw(b"u.1a.2(1rx!2|t)1x");
    let roles: Vec<_> = drawn.messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!((roles, drawn.sent, drawn.known.len()), (vec!["user", "assistant", "tool"], vec![2], 1));
    assert_eq!(drawn.messages[1].tool_calls().count(), 1);
    assert_eq!(drawn.messages[2].tool_call_id().unwrap().as_str(), "c1");
}

#[test]
fn what_breaks_the_pairing_law_is_seen() {
    let call = |id: &str| Message::assistant_with_tools(vec![ToolCall::new(id, "ls", "{}")]);
    let check = |messages: &[Message], words: Option<&str>| {
        let found = conversation::unpaired(messages);
        assert_eq!(found.is_some(), words.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(words.unwrap_or_default()));
    };
    let result = |id: &str| Message::tool(id, "r");
    check(&[Message::user("u"), call("a"), result("a"), call("b"), result("b")], None);
    check(&[call("a")], Some("no result"));
    check(&[call("a"), Message::user("u"), result("a")], Some("between"));
    check(&[result("a")], Some("wrong place"));
    check(&[call("a"), result("b")], Some("wrong place"));
    check(&[call("a"), result("a"), call("a"), result("a")], Some("used twice"));
    let both =
        Message::assistant_with_tools(vec![ToolCall::new("a", "ls", "{}"), ToolCall::new("b", "ls", "{}")]);
    check(&[both.clone(), result("a"), result("b")], None);
    check(&[both, result("b"), result("a")], Some("wrong place"));
    let odd = Message::assistant_with_tools(vec![ToolCall::new("a", "ls", "[1]")]);
    check(&[odd, result("a")], Some("no object"));
}

#[test]
fn what_is_missing_in_a_body_is_seen() {
    let session = targets::session(sketch::draw(b"u.1a(1rxt)1A"), Context::default());
    let missing = |body: &str, policy| conversation::missing(&session, body, policy);
    let (keep, drop) = (rejoin_view::OnBroken::Keep, rejoin_view::OnBroken::Drop);
    let whole = r#"{"messages":["words\u002049"," words 65 "]}"#;
    assert_eq!(missing(whole, keep), None);
    assert_eq!(missing(r#"["words 49"]"#, keep).as_deref(), Some("words 65"));
    assert_eq!(missing(r#"["words 49"]"#, drop), None);
    assert_eq!(missing(r#"["words","49"]"#, drop).as_deref(), Some("words 49"));
}

#[test]
fn what_two_parsers_read_differently_is_seen() {
    let differs = |text: &str, other: &str| {
        let doc = Doc::parse(text).unwrap();
        json::same(doc.root().unwrap(), &serde_json::from_str(other).unwrap()).is_err()
    };
    for text in ["null", "[1,2.5,\"x\"]", r#"{"a":1,"b":{"c":[]}}"#, r#"{"a":1,"a":2}"#, "1e300"] {
        assert!(!differs(text, text), "{text}");
    }
    for (text, other) in [
        ("1", "2"),
        ("-1", "1"),
        ("1.5", "1.25"),
        ("[1]", "[1,2]"),
        ("\"a\"", "\"b\""),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        (r#"{"a":2,"a":1}"#, r#"{"a":2}"#),
        ("true", "false"),
        ("[]", "{}"),
        ("null", "0"),
    ] {
        assert!(differs(text, other), "{text} {other}");
    }
}
