//! Reads stored conversations, sound and damaged, and finds them by what a person types.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::{Arc, atomic::Ordering};

use proptest::{prelude::*, test_runner::Config};
use rejoin_engine::{Conversation, EngineError, Mode, New, Saved, names_exactly, read, resolve, resolve_id};
use rejoin_formats::{Dialect, Input, convert, sessions, sessions::jsonl};
use rejoin_record::{
    Block, BlockKind, Chain, Content, ConversationId, Form, Kind, Message, Origin, Raw, Reasoning, Role,
    ToolCall, ToolResult, content,
};
use rejoin_store::{StoragePlace, Store, memory::Memory};
use rejoin_view::{OnBroken, Rule};
use support::{Counting, Fragile, clock, lines, stored, writer};

/// A conversation with these messages, in a store that can be damaged.
fn with(messages: &[Message]) -> (Arc<Fragile>, ConversationId) {
    let store = Fragile::new();
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    for message in messages {
        assert_eq!(conversation.say(message.clone()).saved.warning(), None);
    }
    (store, conversation.id())
}

fn talk() -> Vec<Message> {
    vec![Message::user("one"), Message::assistant("two"), Message::user("three")]
}

/// A stored conversation gives the same session as the file of its entries.
#[test]
fn a_store_gives_what_the_file_gives() {
    let (store, id) = with(&[
        Message::system("be kind"),
        Message::user("go"),
        Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{\"a\":1}")]),
        Message::tool("c1", "done"),
        Message::tool("c9", "nobody asked"),
    ]);
    let entries = stored(&*store, id);
    let text: String = entries.iter().map(|entry| entry.to_line() + "\n").collect();
    let input = Input::new("x.jsonl", text.as_bytes()).unwrap();
    let from_file = sessions::read(&input, sessions::named("jsonl")).unwrap().remove(0);
    let numbered = entries.iter().cloned().zip(1..);
    let from_store = jsonl::session_of(id, numbered, Vec::new());
    let strip = |session: &rejoin_formats::Session| {
        let places: Vec<_> = session.places.iter().map(|place| (place.index, place.line)).collect();
        let aside: Vec<_> =
            session.set_aside.iter().map(|item| (item.after, format!("{:?}", item.what))).collect();
        (
            session.id,
            session.messages.clone(),
            session.details.clone(),
            session.findings.clone(),
            places,
            aside,
        )
    };
    assert_eq!(strip(&from_file), strip(&from_store));
    for to in Dialect::all() {
        let both =
            [&from_file, &from_store].map(|session| convert(session, to, None, OnBroken::Keep).unwrap().body);
        assert_eq!(both[0], both[1]);
    }
}

/// S2-10, S2-33: a damaged last message is skipped with a finding, and the conversation continues.
#[test]
fn a_damaged_last_message() {
    let (store, id) = with(&talk());
    store.damage(3);
    let recorded = read(&*store, id, Mode::Recover).unwrap();
    assert_eq!(lines(&recorded.session), ["user: one", "assistant: two"]);
    assert_eq!(recorded.damage.len(), 1);
    let finding = &recorded.session.findings[0];
    assert_eq!((finding.rule, finding.is_problem()), (Rule::DamagedEntry, true));
    assert_eq!(finding.subject.as_deref(), Some("row 3"));
    let mut conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert_eq!(conversation.findings().len(), 1);
    assert_eq!(conversation.say(Message::user("four")).saved.warning(), None);
    drop(conversation);
    let recorded = read(&*store, id, Mode::Recover).unwrap();
    assert_eq!(lines(&recorded.session), ["user: one", "assistant: two", "user: four"]);
}

/// S2-37, B29: with everything damaged the conversation is empty and usable, and nothing that is stored is overwritten.
#[test]
fn everything_is_damaged() {
    let (store, id) = with(&talk());
    let before = stored(&store.inner, id);
    (0..4).for_each(|seq| store.damage(seq));
    let mut conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
    assert!(conversation.messages().is_empty());
    assert_eq!(conversation.session().id, id, "also without a header");
    assert_eq!(conversation.damage().len(), 4);
    assert_eq!(conversation.say(Message::user("are you there?")).saved.warning(), None);
    for to in Dialect::all() {
        let body = conversation.request(to, None, OnBroken::Keep).unwrap().body;
        assert_eq!(testkit::refusals(to, body.as_bytes()), [], "{to}");
    }
    assert_eq!(stored(&store.inner, id)[..before.len()], before);
}

/// S2-11, S2-35: an empty conversation, one with instructions only, and one that was stopped while the model was thinking
/// can all be gone on with.
#[test]
fn beginnings() {
    let thinking = Reasoning { text: "hmm".into(), sealed: false, origin: Origin::default() };
    let thinking = Message::new(Role::Assistant, vec![Block::new(BlockKind::Reasoning(Box::new(thinking)))]);
    for (messages, read_back) in
        [(vec![], 0), (vec![Message::system("be kind")], 1), (vec![Message::user("go"), thinking.clone()], 2)]
    {
        let (store, id) = with(&messages);
        let recorded = read(&*store, id, Mode::Recover).unwrap();
        assert_eq!(recorded.session.messages.len(), read_back);
        assert_eq!(recorded.session.findings, []);
        for to in Dialect::all() {
            let body = convert(&recorded.session, to, None, OnBroken::Keep).unwrap().body;
            assert_eq!(testkit::refusals(to, body.as_bytes()), [], "{to}");
        }
        if read_back == 2 {
            assert_eq!(*recorded.session.messages[1], thinking, "the thinking is kept");
        }
    }
}

/// S3-14, S3-15: in strict mode, damage is an error with its place, an empty conversation is an error, too, and each has its code.
#[test]
fn strictly() {
    let (store, id) = with(&talk());
    assert!(read(&*store, id, Mode::Strict).is_ok());
    store.damage(2);
    let damaged = read(&*store, id, Mode::Strict).unwrap_err();
    assert!(matches!(damaged, EngineError::Corrupted { place: StoragePlace::Row(2), .. }), "{damaged}");
    assert_eq!(damaged.code(), "CORRUPTED_ROLLOUT");
    assert_eq!(
        damaged.to_string(),
        format!("Conversation {id} is damaged at row 2: the body is not what it was")
    );
    // The first place counts.
    store.damage(1);
    assert!(matches!(
        read(&*store, id, Mode::Strict),
        Err(EngineError::Corrupted { place: StoragePlace::Row(1), .. })
    ));
    // Data that was never acknowledged is not damage.
    store.damaged.lock().unwrap().clear();
    store.damaged.lock().unwrap().insert(3, true);
    let recorded = read(&*store, id, Mode::Strict).unwrap();
    let rules: Vec<Rule> = recorded.session.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::TornTail]);

    let (store, id) = with(&[]);
    let empty = read(&*store, id, Mode::Strict).unwrap_err();
    assert_eq!(empty.to_string(), format!("Conversation {id} has no turns"));
    assert_eq!(empty.code(), "EMPTY_ROLLOUT");
    let unknown = ConversationId::from_random(7);
    let missing = read(&*store, unknown, Mode::Strict).unwrap_err();
    assert_eq!(missing.code(), "CONVERSATION_NOT_FOUND");
}

/// S0-18, S0-19, B29: missing and unreadable conversations are different errors, and neither is an empty list.
#[test]
fn not_there_and_not_readable() {
    let (store, id) = with(&talk());
    let unknown = ConversationId::from_random(7);
    let missing = read(&*store, unknown, Mode::Recover).unwrap_err();
    assert_eq!(missing.to_string(), format!("Conversation not found: id={unknown}"));
    store.unreadable.store(true, Ordering::Relaxed);
    let broken = read(&*store, id, Mode::Recover).unwrap_err();
    assert_eq!(
        broken.to_string(),
        "Failed to load conversation: reading entries: database disk image is malformed"
    );
    assert!(Conversation::open_with_clock(store.clone(), clock(), id, "test").is_err());
    store.unreadable.store(false, Ordering::Relaxed);
    assert_eq!(read(&*store, id, Mode::Recover).unwrap().session.messages.len(), 3);
}

/// S1-29, S2-42: entries of older and newer minor versions, with fields missing or unknown, are read as they are.
#[test]
fn other_versions() {
    let store = Memory::new(rejoin_engine::digest);
    let clock = Counting;
    let id = writer(&store, &clock).create(&New::default()).unwrap();
    let mut tail = store.tail(id).unwrap();
    for (kind, body) in [
        (Kind::Message, r#"{"role":"user","form":"text","blocks":[{"text":"hi"}],"mood":"new"}"#),
        (Kind::named("mood"), r#"{"mood":"good"}"#),
        (Kind::Meta, r#"{"title":"T","colour":"red"}"#),
    ] {
        let entry = Chain::at(tail).append_body(
            tail.map(|tail| (tail.id, tail.hash)),
            kind,
            Raw::new(body),
            rejoin_engine::clock::stamp(&clock, None),
        );
        tail = Some(store.append(id, tail, &[entry]).unwrap());
    }
    let recorded = read(&store, id, Mode::Strict).unwrap();
    assert_eq!(lines(&recorded.session), ["user: hi"]);
    assert_eq!(store.summary(id).unwrap().title.as_deref(), Some("T"));
}

/// S1-29: an entry from before a field existed is read, and the field has its default. Only the identifying fields are required.
#[test]
fn a_field_that_is_missing_has_its_default() {
    let header = format!(r#"{{"conversation":"{}"}}"#, ConversationId::from_random(5));
    let entry = |kind: Kind, body: &str| {
        let stamp = rejoin_engine::clock::stamp(&Counting, None);
        Chain::empty().append_body(None, kind, Raw::new(body), stamp)
    };
    match Content::of(&entry(Kind::Header, &header)) {
        Content::Header(header) => {
            assert_eq!(
                (header.provider, header.model, header.directory, header.format),
                (None, None, None, None)
            );
        }
        other => panic!("{other:?}"),
    }
    match Content::of(&entry(Kind::Command, r#"{"command":"/help","output":"…"}"#)) {
        Content::Command(command) => assert!(!command.failed),
        other => panic!("{other:?}"),
    }
    match Content::of(&entry(Kind::Meta, "{}")) {
        Content::Meta(meta) => assert_eq!((meta.title, meta.tags, meta.scope), (None, None, None)),
        other => panic!("{other:?}"),
    }
    let result =
        r#"{"role":"tool","form":"text","blocks":[{"result":{"form":"text","content":[{"text":"4"}]}}]}"#;
    match Content::of(&entry(Kind::Message, result)) {
        Content::Message(message) => {
            assert_eq!((message.tool_call_id(), message.native.is_none()), (None, true));
            let BlockKind::ToolResult(result) = &message.blocks[0].kind else { panic!("{message:?}") };
            assert_eq!(
                (result.call_id.is_none(), result.name.is_none(), result.is_error),
                (true, true, false)
            );
        }
        other => panic!("{other:?}"),
    }
    // Without the conversation's id it is not a header; it is kept and shown unchanged.
    assert!(matches!(Content::of(&entry(Kind::Header, "{}")), Content::Unreadable(_)));
}

#[test]
fn conversations_by_what_people_type() {
    let store = Memory::new(rejoin_engine::digest);
    let clock = Counting;
    let ids: Vec<ConversationId> =
        (0..3).map(|_| writer(&store, &clock).create(&New::default()).unwrap()).collect();
    let find = |given: &str| resolve(&store, given, Some(ids[1]));
    for id in &ids {
        let text = id.to_string();
        assert_eq!(find(&text).unwrap(), *id);
        assert_eq!(find(&text[..12]).unwrap(), *id);
        assert_eq!(find(&text[5..12]).unwrap(), *id);
    }
    assert_eq!(find("@").unwrap(), ids[1]);
    assert_eq!((find("@1").unwrap(), find("@3").unwrap()), (ids[2], ids[0]));
    assert!(matches!(resolve(&store, "@", None), Err(EngineError::NoActive)));
    for unknown in ["", "@0", "@4", "@x", "conv_777777777777", "../etc", "conv_%"] {
        let error = find(unknown).unwrap_err();
        assert_eq!(error.to_string(), format!("Conversation not found: id={unknown}"));
    }
    match find("conv_").unwrap_err() {
        EngineError::Ambiguous { found, .. } => assert_eq!(found.len(), 3),
        other => panic!("{other}"),
    }
}

/// A title is found whole, by its beginning or by a part, in this order; programs that ask by id never get one.
#[test]
fn conversations_by_title() {
    let store = Memory::new(rejoin_engine::digest);
    let clock = Counting;
    let create = |title: &str| {
        let new = New { title: Some(title.to_owned()), ..New::default() };
        writer(&store, &clock).create(&new).unwrap()
    };
    let (plan, planet, explanation) = (create("Plan"), create("Planet X"), create("An explanation"));
    let find = |given: &str| resolve(&store, given, None);
    for (given, wanted) in [
        ("plan", plan),
        (" PLAN ", plan),
        ("plane", planet),
        ("planet  x", planet),
        ("expl", explanation),
        ("an expl", explanation),
    ] {
        assert_eq!(find(given).unwrap(), wanted, "{given}");
    }
    match find("pla").unwrap_err() {
        EngineError::Ambiguous { given, found } => {
            assert_eq!(given, "pla");
            // Titles that begin with the text come before those that only contain it.
            let titles: Vec<_> = found.iter().map(|named| named.title.as_deref().unwrap()).collect();
            assert_eq!(titles, ["Planet X", "Plan"]);
        }
        other => panic!("{other}"),
    }
    for unknown in ["pl", "planets", "conv_plan", "x y z"] {
        // Ids are random: one of them may begin with two letters.
        if [plan, planet, explanation].iter().any(|id| id.has_prefix(unknown)) {
            continue;
        }
        assert!(matches!(find(unknown), Err(EngineError::Unknown(_))), "{unknown}");
    }
    assert!(matches!(resolve_id(&store, "plan", None), Err(EngineError::Unknown(_))));
    let whole = planet.to_string();
    for (given, exact) in [
        (whole.as_str(), true),
        (&whole[5..], true),
        ("@", true),
        (&whole[..16], false),
        (&whole[5..16], false),
        ("@1", false),
        ("Planet X", false),
        ("plane", false),
    ] {
        assert_eq!(names_exactly(given, planet), exact, "{given}");
    }
    // A title that an id happens to begin with is not passed over.
    let letters = &plan.to_string()[5..10];
    let twin = create(letters);
    match find(letters).unwrap_err() {
        EngineError::Ambiguous { found, .. } => {
            assert_eq!(found.iter().map(|named| named.id).collect::<Vec<_>>(), [plan, twin]);
        }
        other => panic!("{other}"),
    }
}

/// One message of any kind, out of a number.
fn message(kind: u8, id: u8) -> Message {
    let id = format!("c{}", id % 3);
    match kind % 6 {
        0 => Message::user("word"),
        1 => Message::assistant("answer"),
        2 => Message::assistant_with_tools(vec![
            ToolCall::new(id.as_str(), "run", "{}"),
            ToolCall::new("other", "run", "{\"a\""),
        ]),
        3 => Message::tool(id.as_str(), "result"),
        4 => Message::system("rules"),
        _ => Message::new(
            Role::User,
            vec![Block::result(ToolResult {
                call_id: None,
                name: None,
                content: vec![],
                form: Form::Null,
                is_error: true,
            })],
        ),
    }
}

proptest! {
    #![proptest_config(Config { cases: 150, failure_persistence: None, ..Config::default() })]

    /// S2-36: with any damage, the conversation can be read, its remainder is sound for every dialect, and every readable entry is
    /// read.
    #[test]
    fn any_damage_is_survived(
        said in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..12),
        damaged in proptest::collection::vec(0..13u64, 0..6),
        turns in proptest::collection::vec(0..12usize, 0..3),
    ) {
        let store = Fragile::new();
        let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
        for (number, (kind, id)) in said.iter().enumerate() {
            conversation.say(message(*kind, *id));
            if turns.contains(&number) {
                let turn = content::Turn::new(content::TurnState::Started, None);
                conversation.append(&Content::Turn(turn));
            }
        }
        let id = conversation.id();
        drop(conversation);
        let kinds = stored(&store.inner, id);
        let damaged: Vec<u64> = damaged.into_iter().filter(|seq| *seq < kinds.len() as u64).collect();
        damaged.iter().for_each(|seq| store.damage(*seq));
        let left = kinds.iter().filter(|entry| entry.envelope().kind == Kind::Message && !damaged.contains(&entry.envelope().seq));
        let recorded = read(&*store, id, Mode::Recover).unwrap();
        prop_assert_eq!(recorded.session.messages.len(), left.count(), "a damaged entry costs itself and nothing else");
        prop_assert_eq!(recorded.session.id, id);
        let mut conversation = Conversation::open_with_clock(store.clone(), clock(), id, "test").unwrap();
        prop_assert_eq!(conversation.say(Message::user("go on")).saved, Saved::Durable);
        for session in [&recorded.session, conversation.session()] {
            for to in Dialect::all() {
                for policy in [OnBroken::Keep, OnBroken::Drop] {
                    let body = convert(session, to, None, policy).unwrap().body;
                    let violations = testkit::refusals(to, body.as_bytes());
                    prop_assert!(violations.is_empty(), "{to} {policy:?}\n{body}\n{violations:#?}");
                }
            }
        }
        let strict = read(&*store, id, Mode::Strict);
        let hurt = !damaged.is_empty();
        prop_assert_eq!(matches!(strict, Err(EngineError::Corrupted { .. })), hurt, "{:?}", strict);
    }
}
