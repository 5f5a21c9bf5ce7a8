//! A growing draft gives the same requests as the whole history at once, at the cost of only the new messages.

use std::sync::Arc;

use proptest::{prelude::*, sample::select};
use rejoin_formats::{
    Dialect, Draft, Session, Target,
    convert::CacheMarks,
    draft::{Body, issued},
};
use rejoin_record::{Message, Origin, ToolCall, ToolResult, block::BlockKind};
use rejoin_view::{History, KnownCall, OnBroken, Repairer, repair};
use testkit::{bodies, fuzz::fates, scan};

use super::support::*;

const POLICIES: [OnBroken; 2] = [OnBroken::Keep, OnBroken::Drop];

fn origin(dialect: Dialect) -> Origin {
    let text = |text: &str| Some(text.into());
    Origin { dialect: text(dialect.name()), provider: text("p"), model: text("m"), ..Origin::default() }
}

/// A session with everything that requests have around it.
fn dressed(mut session: Session, own: bool) -> Session {
    if own {
        session.context.instructions = Some(INSTRUCTIONS.into());
        session.context.offered = vec![tool("read"), tool("a.b")];
    }
    session
}

proptest! {
    #![proptest_config(testkit::law_cases(10))]

    /// Law `linear`, its second half, for bodies: whatever was sealed when, a draft's body is what the whole history gives with
    /// the same marks of what was sent, byte for byte, and so is what its answer stands on.
    #[test]
    fn a_draft_equals_a_whole_encoding(
        body in any_body(),
        cuts in proptest::collection::vec(0..4u8, 12),
        seed in any::<u8>(),
        (own, placed) in any::<(bool, bool)>(),
    ) {
        let Some(session) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let session = dressed(session, own);
        for to in Dialect::all() {
            for policy in POLICIES {
                let issuer = origin(to);
                let draft = || {
                    let draft = Draft::new(to, session.context.clone(), Some("m".into()), issuer.clone());
                    if placed { draft.with_cache_marks() } else { draft }
                };
                let marks = if placed { CacheMarks::Placed } else { CacheMarks::LeftOut };
                let target = Target { model: Some("m".into()), marks, issuer: Some(issuer.clone()), ..Target::of(&session.context) };
                let mut draft = draft();
                let mut running = Repairer::new(policy);
                let (mut messages, mut sent, mut known) = (Vec::new(), Vec::new(), Vec::new());
                let mut prefix = None;
                for (index, (message, cut)) in session.messages.iter().zip(cuts.iter().cycle()).enumerate() {
                    let mut message = Message::clone(message);
                    if message.role == rejoin_record::Role::Assistant && seed % 2 == 0 {
                        // As if this was the answer to the last request.
                        issued(&mut message, &Origin { prefix: prefix.clone(), ..issuer.clone() });
                    }
                    let message = Arc::new(message);
                    let fates = fates(&message, index, seed);
                    running.push(Arc::clone(&message), &fates);
                    known.extend(fates.into_iter().map(|(block, fate)| KnownCall { message: index, block, fate }));
                    messages.push(message);
                    if *cut == 3 { continue }
                    if *cut < 2 {
                        running.seal();
                        sent.push(messages.len());
                    }
                    let drafted = draft.request(&running.view().view).unwrap();
                    let fresh = repair(&History::with(messages.clone(), known.clone(), sent.clone()), policy);
                    let whole = to.wire().encode(&fresh.view, &target).unwrap();
                    prop_assert_eq!(&drafted.body.to_string(), &whole.body, "{} {:?}", to, policy);
                    prop_assert_eq!(drafted.body.len(), whole.body.len());
                    prop_assert_eq!(&drafted.respelled.names, &whole.respelled.names);
                    prop_assert!(drafted.prefix.is_some() && drafted.prefix == whole.prefix);
                    let violations = testkit::refusals(to, whole.body.as_bytes());
                    prop_assert!(violations.is_empty(), "{to} {policy:?}\n{}\n{:#?}", whole.body, violations);
                    prefix = drafted.prefix;
                }
            }
        }
    }

    /// Law `stable`, over drafts: what was sent is a prefix of what is sent later, cache marks aside.
    #[test]
    fn a_draft_is_stable(
        (body, tail) in select(bodies::Shape::ALL.to_vec())
            .prop_flat_map(|shape| (bodies::body(shape), bodies::continuation(shape))),
        seed in any::<u8>(),
        placed in any::<bool>(),
    ) {
        let Some(base) = session(&body.json, body.shape.name()) else { return Ok(()) };
        let base = dressed(base, seed % 2 == 0);
        let tail = format!("{{\"{}\":[{}]}}", body.shape.list(), tail.join(","));
        let appended = session(&tail, body.shape.name()).unwrap();
        for to in Dialect::all() {
            for policy in POLICIES {
                let draft = Draft::new(to, base.context.clone(), None, origin(to));
                let mut draft = if placed { draft.with_cache_marks() } else { draft };
                let mut running = Repairer::new(policy);
                for (index, message) in base.messages.iter().enumerate() {
                    running.push(Arc::clone(message), &fates(message, index, seed));
                }
                running.seal();
                let before = blocks(&mut draft, &running, to);
                appended.messages.iter().for_each(|message| running.push(Arc::clone(message), &[]));
                running.seal();
                let after = blocks(&mut draft, &running, to);
                prop_assert!(after.starts_with(&before), "{to} {policy:?}\nbefore {before:#?}\nafter {after:#?}");
            }
        }
    }
}

/// The blocks of a request, without cache marks and without what the codec puts at the end.
fn blocks(draft: &mut Draft, running: &Repairer, to: Dialect) -> Vec<(String, String)> {
    let drafted = draft.request(&running.view().view).unwrap();
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let mut body = scan::parse(&drafted.body.to_string().replace(mark, ""));
    let closing = |finding: &rejoin_view::Finding| {
        let detail = finding.detail.as_deref().unwrap_or_default();
        detail.contains("ends with") || detail.contains("needs a message")
    };
    if drafted.findings.iter().any(closing) {
        body[scan::list(to.name())].as_array_mut().unwrap().pop();
    }
    // A text with a mark is a block.
    scan::blocks(&body.to_string(), to.name())
}

/// A turn of tool work: a question, calls, their results, an answer.
fn turn(number: usize) -> Vec<Vec<Message>> {
    let call = |place: usize| ToolCall::new(format!("call_{number}_{place}"), "read", r#"{"path":"a"}"#);
    let result = |place: usize| {
        let mut message = Message::tool(format!("call_{number}_{place}"), format!("result {number} {place}"));
        if let BlockKind::ToolResult(ToolResult { name, .. }) = &mut message.blocks[0].kind {
            *name = Some("read".into());
        }
        message
    };
    let calls = Message::assistant_with_tools(vec![call(0), call(1)]);
    vec![
        vec![Message::user(format!("question {number}"))],
        vec![calls, result(0), result(1)],
        vec![Message::assistant(format!("answer {number}"))],
    ]
}

/// The draft of a new conversation, with instructions, tools and cache marks.
fn marking(dialect: Dialect) -> Draft {
    let context = dressed(session(r#"{"messages":[]}"#, "openai-chat").unwrap(), true).context;
    let context = rejoin_formats::Context { dialect: Some(dialect), ..context };
    Draft::new(dialect, context, Some("m".into()), origin(dialect)).with_cache_marks()
}

/// What a turn costs does not depend on how many came before: each item is encoded once, and pieces that were made once are
/// in every later body.
#[test]
fn a_turn_costs_its_new_entries() {
    for dialect in Dialect::all() {
        let (mut draft, mut running) = (marking(dialect), Repairer::new(OnBroken::Keep));
        let mut last: Option<Body> = None;
        let mut costs = Vec::new();
        for number in 0..300 {
            let before = draft.steps();
            for messages in turn(number) {
                let asks =
                    messages.last().is_some_and(|message| message.role != rejoin_record::Role::Assistant);
                messages.into_iter().for_each(|message| running.push(Arc::new(message), &[]));
                if !asks {
                    continue;
                }
                running.seal();
                let body = draft.request(&running.view().view).unwrap().body;
                let shared = last.as_ref().map_or(0, |last| {
                    let both = last.pieces().zip(body.pieces());
                    both.filter(|(old, new)| Arc::ptr_eq(old, new)).count()
                });
                // Not shared with the request before: the beginning and the end, new messages, and messages with a cache mark now
                // or then.
                let own = body.pieces().count() - shared;
                assert!(
                    shared + 9 >= 2 * number,
                    "{dialect}: {shared} pieces of request {number} are shared"
                );
                assert!(own <= 9, "{dialect}: {own} pieces of request {number} are new");
                last = Some(body);
            }
            costs.push(draft.steps() - before);
        }
        assert!(costs[1..].iter().all(|cost| *cost == 3), "{dialect}: {costs:?}");
    }
}

/// A long history is not one piece, even if it is not known where its requests were sent: a cache mark copies the piece that it is in,
/// which would be all of it.
#[test]
fn no_piece_is_as_large_as_a_conversation() {
    for dialect in Dialect::all() {
        let (mut draft, mut running) = (marking(dialect), Repairer::new(OnBroken::Keep));
        for message in (0..300).flat_map(turn).flatten() {
            running.push(Arc::new(message), &[]);
        }
        running.seal();
        let body = draft.request(&running.view().view).unwrap().body;
        let largest = body.pieces().map(|piece| piece.len()).max().unwrap();
        assert!(largest * 20 < body.len(), "{dialect}: a piece of {largest} bytes of {}", body.len());
    }
}

/// Law `stable` over 200 turns of tool work, in every dialect: what was sent is never written otherwise.
#[test]
fn long_work_is_stable() {
    for to in Dialect::all() {
        let context = dressed(session(r#"{"messages":[]}"#, "openai-chat").unwrap(), true).context;
        let context = rejoin_formats::Context { dialect: Some(to), ..context };
        let mut draft = Draft::new(to, context, Some("m".into()), origin(to)).with_cache_marks();
        let mut running = Repairer::new(OnBroken::Keep);
        let mut before = Vec::new();
        for number in 0..200 {
            for messages in turn(number) {
                messages.into_iter().for_each(|message| running.push(Arc::new(message), &[]));
                running.seal();
                if number % 20 == 19 {
                    let after = blocks(&mut draft, &running, to);
                    assert!(after.starts_with(&before), "{to}: turn {number}");
                    before = after;
                }
            }
        }
        assert!(before.len() >= 200 * 5, "{to}: {}", before.len());
    }
}

/// Another conversation, or the same one after a compaction, is written as a whole.
#[test]
fn a_draft_starts_over_by_itself() {
    let dialect = Dialect::Anthropic;
    let context = rejoin_formats::Context { dialect: Some(dialect), ..Default::default() };
    let mut draft = Draft::new(dialect, context.clone(), None, origin(dialect));
    let mut first = Repairer::new(OnBroken::Keep);
    for message in turn(1).into_iter().flatten() {
        first.push(Arc::new(message), &[]);
        first.seal();
    }
    let before = draft.request(&first.view().view).unwrap().body.to_string();
    let mut second = Repairer::new(OnBroken::Keep);
    for message in turn(2).into_iter().flatten() {
        second.push(Arc::new(message), &[]);
        second.seal();
        let issuer = origin(dialect);
        let target =
            Target { marks: CacheMarks::LeftOut, issuer: Some(issuer.clone()), ..Target::of(&context) };
        let whole = dialect.wire().encode(&second.view().view, &target).unwrap().body;
        assert_eq!(draft.request(&second.view().view).unwrap().body.to_string(), whole);
    }
    assert_eq!(draft.request(&first.view().view).unwrap().body.to_string(), before);
}

/// What is said about the surroundings is said once; what is said about messages, with the request that they are new in.
#[test]
fn findings_are_of_what_is_new() {
    let body = r#"{"model":"m","logit_bias":{"1":2},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null}]}"#;
    let base = session(body, "openai-chat").unwrap();
    let mut draft = Draft::new(Dialect::Anthropic, base.context.clone(), None, origin(Dialect::Anthropic));
    let mut running = Repairer::new(OnBroken::Keep);
    let mut rules = |running: &Repairer| -> Vec<&'static str> {
        let drafted = draft.request(&running.view().view).unwrap();
        drafted.findings.iter().map(|finding| finding.rule.name()).collect()
    };
    base.messages.iter().for_each(|message| running.push(Arc::clone(message), &[]));
    running.seal();
    assert_eq!(rules(&running), ["empty-message", "foreign-field", "foreign-field"]);
    running.push(Arc::new(Message::user("again")), &[]);
    running.seal();
    assert_eq!(rules(&running), [""; 0]);
}
