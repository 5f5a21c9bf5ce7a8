//! Bytes: any way to cut them gives the same, an end anywhere loses nothing that came, and what is no response never panics
//! or grows without bound.

use proptest::{prelude::*, test_runner::Config};
use rejoin_formats::{
    Context, Dialect, Target,
    wire::stream::{Delta, End, Received},
};
use rejoin_record::{BlockKind, Message};
use rejoin_view::{History, OnBroken, repair};

use crate::{STREAMS, calls, chat, decoded, received, shown, text, thoughts};

fn same(left: &(Vec<Delta>, Received), right: &(Vec<Delta>, Received)) -> bool {
    left.0 == right.0
        && left.1.message == right.1.message
        && left.1.end == right.1.end
        && left.1.model == right.1.model
        && left.1.usage == right.1.usage
}

/// Streams of every dialect, the same with other line ends, and whole bodies.
fn any_stream() -> impl Strategy<Value = (Dialect, Vec<u8>)> {
    let carriage = |bytes: &str, end: &str| format!("\u{feff}{}", bytes.replace('\n', end)).into_bytes();
    let mut all: Vec<(Dialect, Vec<u8>)> = Vec::new();
    for (dialect, bytes) in STREAMS {
        all.push((*dialect, bytes.as_bytes().to_vec()));
        all.push((*dialect, carriage(bytes, "\r\n")));
        all.push((*dialect, carriage(bytes, "\r")));
    }
    all.push((
        Dialect::OpenAiChat,
        chat(&[r#"{"content":"ü\ud83d"}"#, r#"{"content":"\ude00"}"#], "stop").into(),
    ));
    all.push((
        Dialect::Anthropic,
        br#" {"type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}"#.to_vec(),
    ));
    proptest::sample::select(all)
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    /// How the bytes were cut never shows.
    #[test]
    fn any_pieces_give_the_same((dialect, bytes) in any_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let whole = decoded(dialect, [&bytes[..]]);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let cut = decoded(dialect, pieces);
        prop_assert!(same(&whole, &cut), "{whole:?}\n{cut:?}");
    }

    /// Arbitrary bytes, and streams with arbitrary bytes in them.
    #[test]
    fn anything_may_come((dialect, mut bytes) in any_stream(), noise in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        for other in Dialect::all() {
            let _ = received(other, &noise);
            let _ = received(other, &bytes);
        }
        let at = at.index(bytes.len());
        bytes.splice(at..at, noise);
        let got = received(dialect, &bytes);
        prop_assert!(got.message.is_none_or(|message| is_sound(dialect, message)));
    }
}

/// Whether a history that ends with a message, and one that goes on after it, can be sent to everybody.
fn is_sound(from: Dialect, message: Message) -> bool {
    let mut context = Context { dialect: Some(from), ..Context::default() };
    context.put("model", "\"m\"");
    let mut results: Vec<Message> = Vec::new();
    for call in message.tool_calls() {
        results.push(Message::tool(call.id.clone(), "done"));
    }
    let begin = [Message::user("go on"), message];
    let histories = [
        begin.to_vec(),
        [&begin[..], &[Message::user("and?")]].concat(),
        [&begin[..], &results[..]].concat(),
    ];
    histories.into_iter().all(|history| {
        [OnBroken::Keep, OnBroken::Drop].into_iter().all(|policy| {
            let view = repair(&history.iter().cloned().collect::<History>(), policy).view;
            Dialect::all().all(|to| {
                let encoded = to.wire().encode(&view, &Target::of(&context)).unwrap();
                let violations = testkit::refusals(to, encoded.body.as_bytes());
                if !violations.is_empty() {
                    println!("{from} to {to}: {violations:?}\n{}", encoded.body);
                }
                violations.is_empty()
            })
        })
    })
}

/// Cut at every byte: a cut response says so, keeps what came, and can be sent again to everybody.
#[test]
fn a_response_may_end_anywhere() {
    for (dialect, bytes) in STREAMS {
        let whole = received(*dialect, bytes).message.unwrap();
        let mut kept = 0;
        let mut last_sound = None;
        for end in 0..bytes.len() {
            let (deltas, got) = decoded(*dialect, [&bytes.as_bytes()[..end]]);
            let complete = matches!(got.end, End::Complete(_));
            assert!(complete || got.end == End::Cut, "{dialect} at {end}: {:?}", got.end);
            let Some(message) = got.message else {
                assert!(deltas.is_empty(), "{dialect} at {end}: what was shown is not kept");
                continue;
            };
            assert!(text(&whole).starts_with(&text(&message)), "{dialect} at {end}");
            assert!(thoughts(&whole).starts_with(&thoughts(&message)), "{dialect} at {end}");
            assert!(text(&message).starts_with(&shown(&deltas).0), "{dialect} at {end}");
            for (half, call) in calls(&message).iter().zip(calls(&whole)) {
                assert_eq!(half.1, call.1);
                assert!(call.2.starts_with(&half.2), "{dialect} at {end}: {half:?}");
            }
            if !complete {
                assert!(message.native.is_none() && message.blocks.iter().all(|block| block.span.is_none()));
                // Nothing points into an item that is not there.
                let spans = message.blocks.iter().filter_map(|block| match &block.kind {
                    BlockKind::Text(text) => text.span(),
                    BlockKind::Reasoning(held) => held.text.span(),
                    BlockKind::ToolCall(call) => call.arguments.text().span().or(call.name.span()),
                    _ => None,
                });
                assert_eq!(spans.count(), 0);
                kept += 1;
            }
            // Most ends differ from the one before by nothing.
            if last_sound.as_ref() != Some(&message) {
                assert!(is_sound(*dialect, message.clone()), "{dialect} at {end}");
                last_sound = Some(message);
            }
        }
        assert!(kept > 100, "{dialect}: what is cut is kept");
    }
}

/// SAN-05: reasoning that was cut is marked, and reasoning before what was cut is not.
#[test]
fn reasoning_that_was_cut_is_incomplete() {
    let marks = |message: &Message| -> Vec<bool> {
        let marks = message.blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::Reasoning(held) => Some(held.origin.incomplete),
            _ => None,
        });
        marks.collect()
    };
    for (number, (dialect, bytes)) in STREAMS.iter().enumerate().skip(1) {
        let until = |what: &str| received(*dialect, &bytes[..bytes.find(what).unwrap()]).message.unwrap();
        let (in_it, behind) = [
            ("reasoning.encrypted", "read"),
            ("Looking\"", "now."),
            ("encrypted_content\":\"gAAAAwhole", "at a.rs."),
            ("signature_delta", "content_block_stop\",\"index\":2"),
            ("I \"", "functionCall"),
            ("Grüße", "tool_calls"),
        ][number - 1];
        assert!(marks(&until(in_it)).iter().all(|mark| *mark), "{dialect}: {:?}", until(in_it));
        let behind = until(behind);
        assert!(!text(&behind).is_empty());
        assert!(marks(&behind).iter().all(|mark| !*mark), "{dialect}: {behind:?}");
    }
}

/// A line or a document that never ends, and a stream that never ends, are given up; nothing is kept of them for ever.
#[test]
fn what_has_no_end_is_given_up() {
    for dialect in Dialect::all() {
        // What cuts bytes into events is the same for all.
        let begins = ["data: ", "{\"a\":\"", "event: x\ndata: {\"a\":[", ": ", "x"];
        let tried = if dialect == Dialect::OpenAiChat { begins.len() } else { 1 };
        for begin in &begins[..tried] {
            let mut decoder = dialect.wire().decoder();
            let mut deltas = Vec::new();
            decoder.feed(begin.as_bytes(), &mut deltas);
            let piece = [b'1'; 1 << 20];
            let fed = (0..100).take_while(|_| {
                decoder.feed(&piece, &mut deltas);
                !decoder.is_done()
            });
            assert!(fed.count() < 40, "{dialect} {begin}");
            let End::Garbage(why) = decoder.finish().end else { panic!("{dialect} {begin} is no response") };
            assert!(why.contains("MiB"), "{why}");
        }
    }
}

#[test]
fn what_is_no_response_says_so() {
    for dialect in Dialect::all() {
        for (bytes, word) in [
            ("<html>\n<body>Bad gateway</body>", "<html>"),
            ("404 page not found", "404"),
            ("data: hello\n\n", "hello"),
            ("data: [1]\n\n", "[1]"),
            ("{\"ok\":true}", "ok"),
            ("{\"a\":1} and more", "more"),
            ("[true]", "something else"),
        ] {
            let got = received(dialect, bytes);
            let End::Garbage(why) = &got.end else { panic!("{dialect} {bytes}: {got:?}") };
            assert!(why.contains(word) || why.contains("no response"), "{dialect} {bytes}: {why}");
            assert!(got.message.is_none());
        }
        for bytes in ["", "\n\n", ": wait\n\n", "\u{feff}", "da", "data: {\"a\"", "{\"a\":"] {
            assert_eq!(received(dialect, bytes).end, End::Cut, "{dialect} {bytes:?}");
        }
    }
}

/// A mark of the byte order, and line ends of any kind, change nothing.
#[test]
fn line_ends_do_not_matter() {
    for (dialect, bytes) in STREAMS {
        let plain = decoded(*dialect, [bytes.as_bytes()]);
        for end in ["\n", "\r\n", "\r"] {
            let other = format!("\u{feff}{}", bytes.replace('\n', end));
            let other = decoded(*dialect, [other.as_bytes()]);
            assert!(same(&plain, &other), "{dialect} {end:?}: {other:?}");
        }
    }
}

/// What came before something that is no event stays.
#[test]
fn garbage_in_the_middle_loses_nothing() {
    for (dialect, bytes) in STREAMS.iter().filter(|(dialect, _)| *dialect != Dialect::Ollama) {
        let middle = bytes.match_indices("\n\n").nth(bytes.matches("\n\n").count() / 2).unwrap().0;
        let bytes = format!("{}\n\ndata: oops\n\n{}", &bytes[..middle], &bytes[middle..]);
        let got = received(*dialect, bytes);
        assert!(matches!(got.end, End::Garbage(_)), "{dialect}: {:?}", got.end);
        let message = got.message.unwrap();
        assert!(!(text(&message) + &thoughts(&message)).is_empty());
    }
}
