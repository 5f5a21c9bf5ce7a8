//! The on-disk form, pinned byte for byte. If one of these fails, conversations that people have stored can no longer be
//! read or verified: add a version, do not change the bytes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use rejoin_record::{
    Block, Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Native, Raw, Role, Salt, Span,
    Text, Timestamp, ToolCall,
    chain::Stamp,
    content::{
        Branch, CallAt, Change, ChangeState, Closed, ClosedCall, Command, Compacted, Confidence, Decision,
        Erased, KeptMessage, Meta, Metadata, Prune, RawItem, RecordedContext, ShortenedResult, Snapshot,
        TokenUsage, Turn, TurnState, Uncompacted,
    },
    verify::verify,
};

fn stamp(number: u8) -> Stamp {
    Stamp {
        id: EntryId::new(1_700_000_000_000 + u64::from(number), [number; 10]),
        timestamp: Timestamp::from_microsecond(1_700_000_000_000_000 + i64::from(number)).unwrap(),
        salt: Salt([number; 16]),
        source_time: None,
    }
}

fn id(number: u8) -> EntryId {
    stamp(number).id
}

/// One entry of every kind, as one conversation.
fn conversation() -> Vec<Entry> {
    let text = |text: &str| Text::new(text);
    let native = r#"{"role":"user","content":"wörld \ud83d","x":1}"#;
    let message = Message {
        role: Role::User,
        blocks: vec![Block::text(Text::located("wörld \u{fffd}", Span::literal(25, 15), true))],
        form: rejoin_record::Form::Text,
        native: Some(Native {
            format: text("openai-chat"),
            raw: Raw::new(native),
            regular: false,
            more: true,
            items: Vec::new(),
        }),
    };
    let contents = [
        (
            Kind::Header,
            Content::Header(Metadata {
                conversation: ConversationId::from_random(7),
                provider: Some(text("openai")),
                model: Some(text("gpt-4")),
                directory: None,
                format: None,
            }),
        ),
        (Kind::Message, Content::Message(message)),
        (
            Kind::Message,
            Content::Message(Message::assistant_with_tools(vec![ToolCall::new(
                "c1",
                "read",
                r#"{"a": 1, "a": 2}"#,
            )])),
        ),
        (
            Kind::Command,
            Content::Command(Command { command: text("/help"), output: text("…"), failed: false }),
        ),
        (
            Kind::Context,
            Content::Context(RecordedContext {
                system: Some(text("be kind")),
                tools: Some(Raw::new("[]")),
                ..RecordedContext::default()
            }),
        ),
        (
            Kind::Closed,
            Content::Closed(Closed {
                calls: vec![ClosedCall { entry: id(2), block: 0, decision: Decision::Interrupted }],
            }),
        ),
        (
            Kind::Compacted,
            Content::Compacted(Compacted { truncated_count: 3, ..Compacted::new("so far", Some(id(2))) }),
        ),
        (
            Kind::Prune,
            Content::Prune(Prune { results: vec![CallAt { entry: id(2), block: 0 }], shortened: None }),
        ),
        (Kind::Snapshot, Content::Snapshot(Snapshot { data: Raw::new(r#"{"ghost":true}"#) })),
        (Kind::Branch, Content::Branch(Branch { reason: None })),
        (
            Kind::Meta,
            Content::Meta(Meta {
                title: Some(text("A title")),
                tags: Some(vec![text("x")]),
                ..Meta::default()
            }),
        ),
        (
            Kind::Turn,
            Content::Turn(Turn::new(TurnState::CallRunning, Some(CallAt { entry: id(2), block: 0 }))),
        ),
        (Kind::Erased, Content::Erased(Erased { entry: id(3), reason: Some(text("asked to")) })),
        (Kind::Raw, Content::Raw(RawItem { format: text("other"), text: text("{torn") })),
        (Kind::Unknown(text("vision")), Content::Unknown(Raw::new(r#"{"seen":"later"}"#))),
        (
            Kind::Change,
            Content::Change(Change {
                by: Some(text("person")),
                rule: Some(text("edit_file:src/*.rs")),
                reason: None,
                arguments: Some(text("{}")),
                path: Some(text("src/a.rs")),
                before: Some(text("fn a() {}\n")),
                before_base64: None,
                after: Some(text("00")),
                child: Some(ConversationId::from_random(8)),
                ..Change::new(ChangeState::Approved, CallAt { entry: id(2), block: 0 })
            }),
        ),
        (
            Kind::Compacted,
            Content::Compacted(Compacted {
                kept: Some(vec![
                    KeptMessage { entry: id(1), text: None },
                    KeptMessage { entry: id(2), text: Some(text("short")) },
                ]),
                model: Some(text("gpt-4")),
                tokens_before: Some(900),
                tokens_after: Some(90),
                usage: Some(TokenUsage { input: 7, output: 3, cached: 2, reasoning: 1 }),
                ..Compacted::new("so far", Some(id(2)))
            }),
        ),
        (Kind::Uncompacted, Content::Uncompacted(Uncompacted { compaction: id(16) })),
        (Kind::Meta, Content::Meta(Meta { pinned: Some(vec![id(1)]), ..Meta::default() })),
        (
            Kind::Turn,
            Content::Turn(Turn {
                usage: Some(TokenUsage { input: 7, output: 3, cached: 2, reasoning: 1 }),
                ..Turn::new(TurnState::Ended, None)
            }),
        ),
        (
            Kind::Change,
            Content::Change(Change {
                path: Some(text("src/a.rs")),
                after: Some(text("00")),
                commit: Some(text("1f7a7a472abf3dd9643fd615f6da379c4acb3e3a")),
                confidence: Confidence::new(0.85),
                ..Change::new(ChangeState::Proposed, CallAt { entry: id(2), block: 0 })
            }),
        ),
        (
            Kind::Context,
            Content::Context(RecordedContext {
                system: Some(text("be kind, be brief")),
                own_instructions: Some(text("be kind")),
                project_instructions: Some(text("be brief")),
                ..RecordedContext::default()
            }),
        ),
        (
            Kind::Prune,
            Content::Prune(Prune {
                results: Vec::new(),
                shortened: Some(vec![ShortenedResult { entry: id(2), block: 0, shown: 2048 }]),
            }),
        ),
        (
            Kind::Compacted,
            Content::Compacted(Compacted {
                came_with: Some(vec![0, 1]),
                summary_at: Some(1),
                list_at: Some(7),
                ..Compacted::new("", None)
            }),
        ),
    ];
    let mut chain = Chain::empty();
    contents
        .into_iter()
        .enumerate()
        .map(|(number, (kind, content))| chain.append(kind, &content, stamp(number as u8)))
        .collect()
}

#[test]
fn every_kind_has_its_bytes() {
    let lines: Vec<String> = conversation().iter().map(Entry::to_line).collect();
    let golden = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.jsonl")).unwrap();
    for (line, expected) in lines.iter().zip(golden.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(lines.len(), golden.lines().count());
}

#[test]
fn every_kind_is_read_back() {
    for entry in conversation() {
        let read = Entry::from_line(&entry.to_line()).unwrap();
        assert_eq!(read, entry);
        let content = Content::of(&read);
        assert!(!matches!(content, Content::Unreadable(_)), "{content:?}");
        assert_eq!(content.to_body(), *entry.body().unwrap());
    }
    assert_eq!(verify(&conversation()), []);
}

/// S1-34: a confidence is a number from 0 to 1, written in its shortest form and parsed back to the same number.
#[test]
fn a_confidence_is_a_number_from_0_to_1() {
    for (number, written) in
        [(0.0, Some("0")), (-0.0, Some("0")), (0.1 + 0.2, Some("0.30000000000000004")), (1.0, Some("1"))]
            .into_iter()
            .chain([-0.1, 1.1, f64::NAN, f64::INFINITY].map(|number| (number, None)))
    {
        let confidence = Confidence::new(number);
        assert_eq!(confidence.map(|confidence| confidence.to_string()).as_deref(), written);
        let change =
            Change { confidence, ..Change::new(ChangeState::Proposed, CallAt { entry: id(2), block: 0 }) };
        let content = Content::Change(change);
        let entry = Chain::empty().append(Kind::Change, &content, stamp(1));
        assert_eq!(Content::of(&Entry::from_line(&entry.to_line()).unwrap()), content);
    }
}

#[test]
fn what_ordinary_tools_see() {
    for (number, entry) in conversation().iter().enumerate() {
        // A lone surrogate is legal in the file and refused by this parser: look at the others.
        let Ok(line) = serde_json::from_str::<serde_json::Value>(&entry.to_line()) else {
            assert_eq!(number, 1);
            continue;
        };
        assert!(line["timestamp"].is_string() && line["type"].is_string());
        if number == 0 {
            assert_eq!(line["metadata"]["provider"], "openai");
            assert_eq!(line["metadata"]["model"], "gpt-4");
        }
    }
}

#[test]
fn fields_of_a_newer_minor_version_are_kept_and_hashed() {
    let entry = &conversation()[1];
    let line = entry
        .to_line()
        .replace(r#""v":"1.0""#, r#""v":"1.7""#)
        .replace(r#","inner":"#, r#","mood":"calm","inner":"#);
    let read = Entry::from_line(&line).unwrap();
    assert_eq!(read.to_line(), line, "nothing is lost");
    assert!(!read.verifies(Some(conversation()[0].hash())), "the hash covers fields that we do not know");
}
