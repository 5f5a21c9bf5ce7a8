//! The record: what survives a round trip, what `verify` finds, how the tree is walked.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use proptest::prelude::*;
use rejoin_record::{
    Block, BlockKind, CallId, Chain, Content, ConversationId, Entry, EntryId, Form, Hash, Kind, Media,
    MediaSource, Message, Native, NativeItem, Opaque, Origin, Raw, Reasoning, Role, Salt, Span, Tail, Text,
    Timestamp, ToolCall, ToolResult, Tree,
    chain::Stamp,
    content::{Branch, Meta, Metadata},
    entry::EntryError,
    json::{Doc, write},
    verify::{Discrepancy, verify},
};

fn stamp(number: u64) -> Stamp {
    Stamp {
        id: EntryId::new(number, [number as u8; 10]),
        timestamp: Timestamp::from_microsecond(number as i64).unwrap(),
        salt: Salt([number as u8; 16]),
        source_time: Some(Text::new("yesterday, 5 o'clock")),
    }
}

fn meta(title: &str) -> Content {
    Content::Meta(Meta { title: Some(Text::new(title)), ..Meta::default() })
}

fn header() -> Content {
    Content::Header(Metadata {
        conversation: ConversationId::from_random(1),
        provider: None,
        model: None,
        directory: None,
        format: None,
    })
}

/// A header and `count` entries after it.
fn conversation(count: u64) -> Vec<Entry> {
    let mut chain = Chain::empty();
    let mut entries = vec![chain.append(Kind::Header, &header(), stamp(0))];
    entries.extend(
        (1..=count).map(|number| chain.append(Kind::Meta, &meta(&format!("{number}")), stamp(number))),
    );
    entries
}

/// A literal of any text, with half of a surrogate pair and a NUL in it sometimes.
fn literal() -> impl Strategy<Value = String> {
    (any::<String>(), prop::sample::select(vec!["", "\\ud83d", "\\u0000", "\\u001b[2J", "\\/", "\\u00e9"]))
        .prop_map(|(text, odd)| {
            let mut out = String::new();
            write::string(&mut out, &text);
            out.insert_str(out.len() - 1, odd);
            out
        })
}

fn raw_object() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "{}",
        r#"{"a":1,"a":2}"#,
        r#"{ "big" : 123456789012345678901234567890.000001e9999 }"#,
        r#"{"deep":[[[[{"x":null}]]]],"lone":"\udfff"}"#,
        r#"{"a":"#,
        "not json",
    ])
    .prop_map(str::to_owned)
}

/// A message whose texts are in a native item, or in none.
fn message() -> impl Strategy<Value = Message> {
    let located = (literal(), raw_object(), literal()).prop_map(|(text, object, id)| {
        let object = if Doc::parse(&object).is_ok() { object } else { "{}".into() };
        let gap = if text.len() % 2 == 0 { "\n" } else { "" };
        let raw = format!(r#"{{"t": {text},{gap} "o": {object}, "id":{id}, "unknown":[1, 2]}}"#);
        let doc = Doc::parse(&raw).unwrap();
        let root = doc.root().unwrap();
        let (t, o, i) = (root.get("t").unwrap(), root.get("o").unwrap(), root.get("id").unwrap());
        let call_id = CallId::new(i.to_text(0).unwrap());
        let blocks = vec![
            Block::text(t.to_text(0).unwrap()).at(Span::verbatim(t.start(), t.raw().len())),
            Block::call(ToolCall {
                id: call_id.clone(),
                id_given: false,
                name: t.to_text(0).unwrap(),
                arguments: rejoin_record::Arguments::new(o.to_raw_text(0)),
            }),
            Block::result(ToolResult {
                call_id: Some(call_id),
                name: None,
                content: vec![Block::text(t.to_text(0).unwrap())],
                form: Form::Parts,
                is_error: true,
            }),
            Block::new(BlockKind::Opaque(Box::new(Opaque {
                kind: Text::new("odd"),
                raw: Raw::new(o.raw()),
                fits: true,
            })))
            .at(Span::verbatim(o.start(), o.raw().len())),
            Block::new(BlockKind::Opaque(Box::new(Opaque {
                kind: Text::new("apart"),
                raw: Raw::new("{\n  \"x\": 1 }"),
                fits: false,
            }))),
        ];
        Message {
            role: Role::Other(Text::new("näive")),
            blocks,
            form: Form::Null,
            native: Some(Native {
                format: Text::new("some-format"),
                raw: Raw::new(raw.clone()),
                regular: true,
                more: true,
                // Some sources make an item of every message, some make several.
                items: if raw.len() % 2 == 0 {
                    Vec::new()
                } else {
                    [true, false]
                        .map(|regular| NativeItem { span: Span::verbatim(0, raw.len()), blocks: 3, regular })
                        .to_vec()
                },
            }),
        }
    });
    let plain = (any::<String>(), raw_object(), any::<bool>()).prop_map(|(text, object, flag)| {
        let media = Media {
            media_type: Some(Text::new("image/png")),
            source: if flag { MediaSource::Base64(Text::new("aGk=")) } else { MediaSource::Unusable },
            name: Some(Text::new(text.clone())),
        };
        let file =
            Media { media_type: None, source: MediaSource::ProviderFile(Text::new("file_1")), name: None };
        let page = Media { media_type: None, source: MediaSource::Url(Text::new(text.clone())), name: None };
        let note =
            Media { media_type: None, source: MediaSource::Plain(Text::new(text.clone())), name: None };
        let some = |name: &str| Some(Text::new(name));
        let origin = Origin {
            dialect: some("d"),
            provider: some("p"),
            endpoint: some("e"),
            account: if flag { some("a") } else { None },
            model: some("m"),
            prefix: some("x"),
            incomplete: flag,
        };
        let reasoning = Reasoning { text: Text::new(text.clone()), sealed: flag, origin };
        Message::new(
            Role::Assistant,
            vec![
                Block::text(text.clone()),
                Block::new(BlockKind::Reasoning(Box::new(reasoning))),
                Block::new(BlockKind::Image(Box::new(media))),
                Block::new(BlockKind::Document(Box::new(file))),
                Block::new(BlockKind::Document(Box::new(page))),
                Block::new(BlockKind::Document(Box::new(note))),
                Block::call(ToolCall::new(text.clone(), "x", object)),
                Block::result(ToolResult {
                    call_id: None,
                    name: Some(Text::new(text)),
                    ..ToolResult::new("x", "y")
                }),
            ],
        )
    });
    prop_oneof![located, plain]
}

proptest! {
    /// Any content of a message survives: unknown fields, NUL, lone surrogates, control sequences, big numbers, duplicates.
    #[test]
    fn messages_survive(message in message()) {
        let entry = Chain::empty().append(Kind::Message, &Content::Message(message.clone()), stamp(1));
        prop_assert!(!entry.to_line().contains(['\n', '\r']), "an entry is one line");
        let read = Entry::from_line(&entry.to_line()).unwrap();
        prop_assert!(read.verifies(None));
        let Content::Message(back) = Content::of(&read) else { panic!("not a message") };
        prop_assert_eq!(&back, &message);
        let body = entry.body().unwrap();
        prop_assert_eq!(&Content::Message(back.clone()).to_body(), body);
        // The same if the body itself is not kept.
        prop_assert_eq!(Message::from_body(body.as_str()).unwrap(), back.clone());
        for (a, b) in message.blocks.iter().zip(&back.blocks) {
            if let (Some(a), Some(b)) = (a.as_text(), b.as_text()) {
                prop_assert_eq!(a.is_lossy(), b.is_lossy());
            }
        }
    }

    /// A message is stored once: texts in its native item are referred to, not copied.
    #[test]
    fn nothing_is_stored_twice(text in "[a-z]{200,400}") {
        let raw = format!(r#"{{"content":"{text}"}}"#);
        let located = Text::located(text.as_str(), Span::literal(11, text.len() + 2), false);
        let native = Native { format: Text::new("f"), raw: Raw::new(raw), regular: true, more: true, items: Vec::new() };
        let message = Message { native: Some(native), ..Message::user(located) };
        let body = Content::Message(message).to_body();
        prop_assert_eq!(body.as_str().matches(&text).count(), 1);
    }

    /// A changed byte is found, wherever it is, or it makes the line unreadable.
    #[test]
    fn a_changed_byte_is_found(place in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let entries = conversation(2);
        let mut bytes = entries[2].to_line().into_bytes();
        let at = place.index(bytes.len());
        bytes[at] ^= flip;
        let Ok(line) = String::from_utf8(bytes) else { return Ok(()) };
        match Entry::from_line(&line) {
            Err(_) => {}
            Ok(changed) => {
                let found = verify([&entries[0], &entries[1], &changed]);
                // Another spelling of the same entry is still the same entry.
                if changed.to_line() != entries[2].to_line() {
                    prop_assert!(!found.is_empty(), "{line}");
                }
            }
        }
    }

    /// Reading a line never panics.
    #[test]
    fn lines_of_anything(line in any::<String>()) {
        let _ = Entry::from_line(&line);
    }
}

#[test]
fn a_sound_conversation_verifies() {
    assert_eq!(verify(&conversation(5)), []);
    assert_eq!(verify(&[]), []);
}

#[test]
fn erased_entries_and_their_children_verify() {
    let mut entries = conversation(3);
    entries[1] = entries[1].erased();
    assert_eq!(Entry::from_line(&entries[1].to_line()).unwrap(), entries[1]);
    assert!(!entries[1].to_line().contains("salt") && !entries[1].to_line().contains("body"));
    assert_eq!(Content::of(&entries[1]), Content::Gone);
    assert_eq!(Content::Gone.to_body().as_str(), "{}");
    assert_eq!(verify(&entries), []);
}

#[test]
fn what_verify_finds() {
    let entries = conversation(3);
    let id = |number: usize| entries[number].id();
    let without = |gone: usize| -> Vec<&Entry> {
        entries.iter().enumerate().filter(|(number, _)| *number != gone).map(|(_, entry)| entry).collect()
    };
    assert_eq!(
        verify(without(1)),
        [
            Discrepancy::Sequence { id: id(2), found: 2, expected: 1 },
            Discrepancy::NoParent { id: id(2), parent: id(1) }
        ]
    );
    assert!(verify(without(0)).contains(&Discrepancy::NoHeader));
    assert!(verify([&entries[0], &entries[1], &entries[1]]).contains(&Discrepancy::Repeated(id(1))));
    let mut other = Chain::empty();
    let stranger = other.append(Kind::Header, &header(), stamp(9));
    assert!(verify([&entries[0], &stranger]).contains(&Discrepancy::Rootless(stranger.id())));
    let line = entries[1].to_line().replace("\"title\":\"1\"", "\"title\":\"2\"");
    let forged = Entry::from_line(&line).unwrap();
    assert_eq!(verify([&entries[0], &forged]), [Discrepancy::Changed(id(1))]);
    assert!(verify([&forged]).contains(&Discrepancy::Changed(id(1))), "even if its parent is missing");
    for discrepancy in verify(without(1)) {
        assert!(discrepancy.to_string().contains("entry"));
    }
}

#[test]
fn lines_that_are_no_entries() {
    let line = conversation(1)[1].to_line();
    for (bad, expected) in [
        ("{".to_owned(), None),
        ("[]".into(), Some(EntryError::Field("v"))),
        (line.replace("\"v\":\"1.0\"", "\"v\":\"01.0\""), Some(EntryError::Field("v"))),
        (
            line.replace("\"v\":\"1.0\"", "\"v\":\"2.0\""),
            Some(EntryError::NewerMajor("2.0".parse().unwrap())),
        ),
        (line.replace("\"seq\":1", "\"seq\":-1"), Some(EntryError::Field("seq"))),
        (line.replace("\"parent\":\"", "\"parent\":\"x"), Some(EntryError::Field("parent"))),
        (line.replace("\"inner\":", "\"outer\":"), Some(EntryError::Field("inner"))),
        (line.replace("\"body\":", "\"bodies\":"), Some(EntryError::Field("body"))),
        (line.replace("\"body\":{", "\"body\":[{").replace("}}", "}]}"), Some(EntryError::Field("body"))),
        (line.replace("}}", "},\"more\":1}"), Some(EntryError::Field("end of entry"))),
    ] {
        let error = Entry::from_line(&bad).expect_err(&bad);
        assert!(expected.is_none_or(|expected| expected == error), "{bad}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn bodies_that_do_not_fit_are_shown_not_refused() {
    for (kind, body) in [
        (Kind::Message, r#"{"role":"user"}"#),
        (Kind::Message, r#"{"role":"user","form":"text","blocks":[{"text":[0,5]}]}"#),
        (Kind::Message, r#"{"role":"user","form":"text","blocks":[{"text":"x"},{"future":1}]}"#),
        (
            Kind::Message,
            r#"{"role":"tool","form":"parts","blocks":[{"result":{"form":"text","content":[{"result":{"form":"text","content":[]}}]}}]}"#,
        ),
        (Kind::Closed, r#"{"calls":[{"entry":"?"}]}"#),
        (Kind::Turn, r#"{"state":"dancing"}"#),
    ] {
        let raw = Content::Unreadable(Raw::new(body));
        let entry = Chain::empty().append(kind, &raw, stamp(1));
        assert_eq!(Content::of(&Entry::from_line(&entry.to_line()).unwrap()), raw);
    }
}

#[test]
fn the_path_leads_from_the_root_to_the_head() {
    let entries = conversation(4);
    let tree = Tree::new(&entries);
    let (path, broken) = tree.path();
    assert_eq!(path.iter().map(|entry| entry.envelope().seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(broken.is_empty());
    assert_eq!(Tree::new(&[]).path().0.len(), 0);
}

#[test]
fn a_branch_moves_the_head() {
    let mut entries = conversation(3);
    let mut chain = Chain::at(Some(Tail::of(&entries[3])));
    let target = Some((entries[1].id(), entries[1].hash()));
    entries.push(chain.append_under(
        target,
        Kind::Branch,
        &Content::Branch(Branch { reason: None }),
        stamp(4),
    ));
    entries.push(chain.append(Kind::Meta, &meta("on the branch"), stamp(5)));
    assert_eq!(verify(&entries), []);
    let tree = Tree::new(&entries);
    let path: Vec<u64> = tree.path().0.iter().map(|entry| entry.envelope().seq).collect();
    assert_eq!(path, [0, 1, 4, 5]);
    let other: Vec<u64> = tree.path_to(&entries[3]).0.iter().map(|entry| entry.envelope().seq).collect();
    assert_eq!(other, [0, 1, 2, 3]);
}

#[test]
fn a_damaged_entry_costs_itself() {
    let entries = conversation(4);
    let readable: Vec<&Entry> = entries.iter().filter(|entry| entry.envelope().seq != 2).collect();
    let tree = Tree::new(readable);
    let (path, broken) = tree.path();
    assert_eq!(path.iter().map(|entry| entry.envelope().seq).collect::<Vec<_>>(), [0, 1, 3, 4]);
    assert_eq!(broken.len(), 1);
    assert_eq!(tree.get(entries[2].id()), None);
}

/// If two entries have one id, the first counts, wherever the second one is.
#[test]
fn an_id_stands_for_one_entry() {
    let mut entries = conversation(2);
    let mut chain = Chain::at(Some(Tail::of(&entries[2])));
    entries.push(chain.append(Kind::Meta, &meta("the id of another"), stamp(1)));
    let tree = Tree::new(entries.iter().rev());
    assert_eq!(tree.in_order().map(|entry| entry.envelope().seq).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(tree.get(entries[1].id()).unwrap().envelope().seq, 1);
    assert_eq!(tree.head().unwrap().id(), entries[2].id());
}

#[test]
fn hashes_cover_the_parent() {
    let a = conversation(1);
    let mut chain = Chain::empty();
    chain.append(Kind::Header, &meta("another header"), stamp(0));
    let b = chain.append(Kind::Meta, &meta("1"), stamp(1));
    let hash: Hash = a[1].hash();
    assert_ne!(hash, b.hash());
}

#[test]
fn a_plain_text_is_the_json_that_it_would_be_written_as() {
    let source: std::sync::Arc<str> = "before\n\"said\"\tand\u{1}\nafter".into();
    let said = || Raw::slice(&source, 7, source.len() - 6).unwrap();
    let literal = r#""\"said\"\tand\u0001""#;
    let (bare, named) = (Raw::plain(said(), None), Raw::plain(said(), Some("markdown")));
    assert_eq!((bare.plain_field(), named.plain_field()), (Some(""), Some("markdown")));
    assert_eq!(bare.as_str(), literal);
    assert_eq!(named, Raw::new(format!("{{\"markdown\":{literal}}}")));
    assert_eq!(named.sub(12, 12 + literal.len()), Some(bare.clone()));
    assert_eq!(bare.sub(0, literal.len() + 1), None);
    assert_eq!(said().plain_field(), None);
    let item = |raw| Message {
        native: Some(Native::one(Text::new("notes"), raw, false)),
        ..Message::new(Role::User, vec![Block::text("said")])
    };
    let stored = |raw| Content::Message(item(raw)).to_body().as_str().to_owned();
    assert_eq!(stored(named.clone()), stored(Raw::new(named.as_str())));
}
