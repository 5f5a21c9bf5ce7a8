//! The laws, over arbitrary histories, both policies, all dialects. `REJOIN_LAW_CASES` sets how many; `cargo xtask laws`
//! runs more than a hundred thousand.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{collections::HashMap, sync::Arc};

use proptest::{prelude::*, test_runner::Config};
use rejoin_formats::{Converted, Dialect, Input, Session, Target, convert, sessions};
use rejoin_record::Message;
use rejoin_view::{Fate, Finding, History, KnownCall, OnBroken, Policy, Repairer, Rule, repair};
use testkit::{
    bodies::{self, Body, Shape},
    scan,
};

fn cases(share: u32) -> Config {
    let all = std::env::var("REJOIN_LAW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000u32);
    Config {
        cases: (all / share).max(50),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    }
}

fn dialect(shape: Shape) -> Dialect {
    shape.name().parse().unwrap()
}

fn session(json: &str, format: &str) -> Option<Session> {
    let input = Input::new("body.json", json.as_bytes()).unwrap();
    sessions::read(&input, sessions::registry::named(format)).ok()?.pop()
}

fn converted(session: &Session, to: Dialect, policy: OnBroken) -> Converted {
    convert(session, to, None, policy).unwrap()
}

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

proptest! {
    #![proptest_config(cases(1))]

    /// Law `sound`: every dialect's checker accepts the encoding of any history, under every policy.
    #[test]
    fn sound(body in bodies::any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for to in Dialect::all() {
            for policy in POLICIES {
                let out = converted(&session, to, policy);
                let violations = to.wire().check(out.body.as_bytes());
                prop_assert!(violations.is_empty(), "{to} {policy:?}\n{}\n{:#?}", out.body, violations);
            }
        }
    }

    /// Law `idempotent`: converting a converted body gives the same bytes.
    #[test]
    fn idempotent(body in bodies::any_body()) {
        let Some(first) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for to in Dialect::all() {
            for policy in POLICIES {
                let once = converted(&first, to, policy).body;
                let again = session(&once, to.name()).expect("a converted body can be read");
                for second_policy in POLICIES {
                    let twice = converted(&again, to, second_policy);
                    prop_assert_eq!(&once, &twice.body);
                    let problems: Vec<_> = twice.findings.iter().filter(|finding| finding.is_problem()).collect();
                    prop_assert!(problems.is_empty(), "{:?}", problems);
                }
            }
        }
    }

    /// Law `conserving`: every text and every result is in the body, in order, under its role.
    #[test]
    fn conserving(body in bodies::any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for to in Dialect::all() {
            for policy in POLICIES {
                let out = converted(&session, to, policy);
                if let Err(problem) = conserves(&body, &out.body, policy) {
                    prop_assert!(false, "{to} {policy:?}: {problem}\n{}", out.body);
                }
            }
        }
    }

    /// Law `identity`: what is in canonical sound form comes back byte for byte.
    #[test]
    fn identity(body in bodies::any_body()) {
        let own = dialect(body.shape);
        // Most arbitrary bodies are broken: what conversion made of them is canonical, in another dialect's spelling too.
        let Some(first) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let spaced = converted(&first, own, OnBroken::Keep).body.replace("\"role\":", "\"role\" :  ");
        for json in [body.json.clone(), spaced] {
            let Some(session) = session(&json, body.shape.name()) else { continue };
            let sound = repair(&session.history(), Policy::Keep).findings.is_empty() && session.findings.is_empty();
            if !sound || !own.wire().check(json.as_bytes()).is_empty() { continue }
            for policy in POLICIES {
                let out = converted(&session, own, policy);
                prop_assert_eq!(messages(&out.body), messages(&json));
                prop_assert!(out.findings.is_empty(), "{:?}", out.findings);
            }
        }
    }

    /// Law `stable`: what was sent is a prefix of what is sent later.
    #[test]
    fn stable(
        (body, tail) in prop_oneof![Just(Shape::OpenAi), Just(Shape::Anthropic)]
            .prop_flat_map(|shape| (bodies::body(shape), bodies::continuation(shape))),
        seed in any::<u8>(),
    ) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let appended = session(&format!("[{}]", tail.join(",")), body.shape.name()).unwrap();
        for to in Dialect::all() {
            for policy in [Policy::Keep, Policy::Drop] {
                let mut running = Repairer::new(policy);
                for (index, message) in base.messages.iter().enumerate() {
                    running.push(Arc::clone(message), &fates(message, index, seed));
                }
                running.seal();
                let before = encode_blocks(&running, to, &base);
                appended.messages.iter().for_each(|message| running.push(Arc::clone(message), &[]));
                let after = encode_blocks(&running, to, &base);
                prop_assert!(after.starts_with(&before), "{to} {policy:?}\nbefore {before:#?}\nafter {after:#?}");
            }
        }
    }

    /// Law `linear`, its second half: a running conversation gives the same view as a fresh one, and shares what was sent.
    #[test]
    fn running_equals_fresh(
        body in bodies::any_body(),
        cuts in proptest::collection::vec(any::<bool>(), 40),
        seed in any::<u8>(),
    ) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for policy in [Policy::Keep, Policy::Drop] {
            let mut running = Repairer::new(policy);
            let (mut messages, mut sent, mut known) = (Vec::new(), Vec::new(), Vec::new());
            let mut sealed = 0;
            for (index, (message, cut)) in base.messages.iter().zip(cuts.iter().cycle()).enumerate() {
                let fates = fates(message, index, seed);
                running.push(Arc::clone(message), &fates);
                known.extend(fates.into_iter().map(|(block, fate)| KnownCall { message: index, block, fate }));
                messages.push(Arc::clone(message));
                let before = running.view();
                if *cut {
                    running.seal();
                    sent.push(messages.len());
                    sealed = running.view().view.chunks().len();
                }
                let now = running.view();
                for (old, new) in before.view.chunks().iter().zip(now.view.chunks()).take(sealed.saturating_sub(1)) {
                    prop_assert!(Arc::ptr_eq(old, new), "what was sealed is shared");
                }
                let fresh = repair(&History::with(messages.clone(), known.clone(), sent.clone()), policy);
                prop_assert_eq!(format!("{:?}", now.view.items().collect::<Vec<_>>()), format!("{:?}", fresh.view.items().collect::<Vec<_>>()));
                prop_assert_eq!(now.findings, fresh.findings);
                prop_assert_eq!(now.view.first_change(), fresh.view.first_change());
            }
        }
    }

    /// The repair pass itself is idempotent: what it gives needs no repair.
    #[test]
    fn repairing_twice_is_repairing_once(body in bodies::any_body()) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        for policy in [Policy::Keep, Policy::Drop] {
            let once = repair(&base.history(), policy).view.to_messages();
            let again = repair(&once.iter().cloned().collect(), policy);
            prop_assert!(!again.findings.iter().any(|finding| finding.is_problem()), "{:?}", again.findings);
            prop_assert_eq!(shape(&again.view.to_messages()), shape(&once));
        }
    }

    /// Every change has a finding: without findings, nothing was changed.
    #[test]
    fn nothing_happens_in_silence(body in bodies::any_body()) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let own = dialect(body.shape);
        for policy in POLICIES {
            let out = converted(&session, own, policy);
            if out.findings.is_empty() {
                prop_assert_eq!(messages(&out.body), messages(&body.json));
            }
        }
    }
}

/// Something that may be known of the calls of a message: the same for the same seed.
fn fates(message: &Message, index: usize, seed: u8) -> Vec<(usize, Fate)> {
    let known = [
        Fate::Unknown,
        Fate::Unknown,
        Fate::Started,
        Fate::NotStarted,
        Fate::AwaitingApproval,
        Fate::ClosedLeftOut,
        Fate::ClosedInterrupted,
    ];
    let calls = message.blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some());
    calls
        .map(|(block, _)| (block, known[(index * 5 + block * 3 + usize::from(seed)) % known.len()]))
        .collect()
}

/// Roles and contents, without what only the source knows.
fn shape(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| format!("{} {:?}", message.role, message.content())).collect()
}

/// The exact bytes of each message of a body.
fn messages(json: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        messages: Vec<&'a serde_json::value::RawValue>,
    }
    let list = match serde_json::from_str::<Whole<'_>>(json) {
        Ok(whole) => whole.messages,
        Err(_) => serde_json::from_str(json).unwrap(),
    };
    list.iter().map(|raw| raw.get().to_owned()).collect()
}

/// The (role, block) pairs of the view's encoding, without cache marks and the codec's closing message.
fn encode_blocks(running: &Repairer, to: Dialect, base: &Session) -> Vec<(String, String)> {
    let target = Target::of(&base.context);
    let encoded = to.wire().encode(&running.view().view, &target).unwrap();
    let body = scan::parse(&encoded.body);
    let list = if to == Dialect::Gemini { &body["contents"] } else { &body["messages"] };
    let mut list = list.as_array().unwrap().clone();
    let closing = |f: &Finding| {
        f.rule == Rule::RoleOrder
            && f.detail
                .as_ref()
                .is_some_and(|detail| detail.contains("ends with") || detail.contains("needs a message"))
    };
    let closed = encoded.findings.iter().any(closing);
    if closed {
        list.pop();
    }
    let mut blocks = Vec::new();
    for message in list {
        let role = message["role"].as_str().unwrap().to_owned();
        let content = message.get("parts").unwrap_or(&message["content"]);
        match content {
            serde_json::Value::Array(parts) => {
                for part in parts {
                    let mut part = part.clone();
                    if let Some(fields) = part.as_object_mut() {
                        fields.shift_remove("cache_control");
                    }
                    blocks.push((role.clone(), part.to_string()));
                }
            }
            other => blocks.push((role.clone(), other.to_string())),
        }
        blocks.push((role, message["tool_calls"].to_string()));
    }
    blocks.retain(|(_, block)| block != "null");
    blocks
}

fn conserves(body: &Body, out: &str, policy: OnBroken) -> Result<(), String> {
    let found = scan::tokens(out);
    let mut said = Vec::new();
    for token in &found {
        match token.token.chars().nth(1) {
            Some('u' | 'a' | 's') => said.push(token.token.clone()),
            _ => continue,
        }
        let role_fits = match token.token.chars().nth(1) {
            Some('a') => token.role == "assistant",
            Some('u') => token.role == "user",
            _ => matches!(token.role.as_str(), "system" | "developer" | "user"),
        };
        if !role_fits {
            return Err(format!("{} went out as {}", token.token, token.role));
        }
    }
    if said != body.truth.said {
        return Err(format!("said {:?}, sent {said:?}", body.truth.said));
    }
    if policy != OnBroken::Keep {
        return Ok(());
    }
    let mut results: Vec<_> =
        found.iter().filter(|token| token.token.starts_with("⟦r")).map(|token| token.token.clone()).collect();
    let mut expected = body.truth.results.clone();
    results.sort();
    expected.sort();
    if results != expected {
        return Err(format!("results {expected:?}, sent {results:?}"));
    }
    // A call and a later result that share an id nobody else uses stay a pair.
    let mut uses: HashMap<&str, usize> = HashMap::new();
    body.truth.call_ids.iter().for_each(|id| *uses.entry(id).or_default() += 1);
    let place = |wanted: &str| found.iter().find(|token| token.token == wanted);
    for (call, id, call_at) in &body.truth.calls {
        for (result, result_id, result_at) in &body.truth.answers {
            if id == result_id && uses[id.as_str()] == 1 && result_at > call_at {
                let (call_at, result_at) = (place(call), place(result));
                let (Some(call_at), Some(result_at)) = (call_at, result_at) else {
                    return Err(format!("the pair {call} {result} is not there"));
                };
                if call_at.call_id != result_at.call_id || call_at.call_id.is_none() {
                    return Err(format!(
                        "{call} has id {:?}, {result} {:?}",
                        call_at.call_id, result_at.call_id
                    ));
                }
            }
        }
    }
    Ok(())
}
