//! The digest of entries, tested through lists and searches.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::Arc;

use rejoin_engine::{Conversation, New};
use rejoin_record::{
    Block, BlockKind, Chain, Content, Entry, EntryId, Kind, Message, Origin, Raw, Reasoning, Role, Salt,
    Text, Timestamp, ToolCall,
    chain::Stamp,
    content::{self, Closed, ClosedCall, Decision, Turn, TurnState},
};
use rejoin_store::{Digest, Search, SessionState, Store, Title, memory::Memory};
use support::clock;

fn entry(kind: Kind, content: &Content, id: EntryId, source_time: Option<&str>) -> Entry {
    let timestamp = Timestamp::from_second(1_800_000_000).unwrap();
    let stamp = Stamp { id, timestamp, salt: Salt([1; 16]), source_time: source_time.map(Text::from) };
    Chain::empty().append(kind, content, stamp)
}

/// The digest of an entry.
fn digest(entry: &Entry) -> Digest {
    rejoin_engine::digest(None).add(entry)
}

fn own(kind: Kind, content: &Content) -> Entry {
    entry(kind, content, EntryId::new(1, [1; 10]), None)
}

#[test]
fn titles_are_what_a_person_said_first() {
    let long = "x".repeat(70);
    for (text, title) in [
        ("  hello there \nand more", Some("hello there")),
        (long.as_str(), Some(&long[..60])),
        ("ünï", Some("ünï")),
        ("<environment_context>\nx", None),
        ("# AGENTS.md instructions for x", None),
        (" \n ", None),
    ] {
        let digest = digest(&own(Kind::Message, &Content::Message(Message::user(text))));
        assert_eq!(digest.title, title.map(|title| Title::FromMessage(title.to_owned())), "{text}");
    }
    let several = Message::new(Role::User, vec![Block::text("<system-reminder>x"), Block::text("mine")]);
    assert_eq!(
        digest(&own(Kind::Message, &Content::Message(several))).title,
        Some(Title::FromMessage("mine".into()))
    );
    assert_eq!(digest(&own(Kind::Message, &Content::Message(Message::assistant("no")))).title, None);
    let meta = content::Meta { title: Some(" a\n b ".into()), ..content::Meta::default() };
    assert_eq!(digest(&own(Kind::Meta, &Content::Meta(meta))).title, Some(Title::Given("a b".into())));
    let blank = content::Meta { title: Some(" ".into()), ..content::Meta::default() };
    assert_eq!(digest(&own(Kind::Meta, &Content::Meta(blank))).title, None);
}

#[test]
fn times_are_when_it_was_said() {
    let said = Content::Message(Message::user("x"));
    let derived = EntryId::derive(&rejoin_record::ConversationId::from_random(1), "a", "b");
    let time = |id, source| digest(&entry(Kind::Message, &said, id, source)).time;
    let appended = Timestamp::from_second(1_800_000_000).unwrap();
    assert_eq!(time(EntryId::new(1, [1; 10]), None), Some(appended));
    assert_eq!(time(derived, None), None, "when it was imported says nothing");
    assert_eq!(time(derived, Some("someday")), None);
    let second: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for source in ["2026-01-01T00:00:00Z", "1767225600", "1767225600000"] {
        assert_eq!(time(derived, Some(source)), Some(second));
    }
    // A new title and an erased text make a conversation no younger.
    let meta = content::Meta { title: Some("t".into()), ..content::Meta::default() };
    assert_eq!(digest(&own(Kind::Meta, &Content::Meta(meta))).time, None);
    let erased = content::Erased { entry: derived, reason: None };
    assert_eq!(digest(&own(Kind::Erased, &Content::Erased(erased))).time, None);
}

#[test]
fn targets_name_the_model() {
    for (target, provider, model) in [
        (r#"{"dialect":"anthropic","provider":"p","model":"m"}"#, Some("p"), Some("m")),
        (r#"{"before_messages":1,"fields":[{"name":"model","value":"m"}]}"#, None, Some("m")),
        (r#"{"model":""}"#, None, None),
        ("17", None, None),
    ] {
        let context = content::RecordedContext {
            target: Some(Raw::new(target)),
            ..content::RecordedContext::default()
        };
        let digest = digest(&own(Kind::Context, &Content::Context(context)));
        assert_eq!(
            (digest.about.provider.as_deref(), digest.about.model.as_deref()),
            (provider, model),
            "{target}"
        );
    }
}

#[test]
fn the_state_follows_what_happens() {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    let mut conversation = Conversation::create_with_clock(store.clone(), clock(), &New::default(), "test");
    let id = conversation.id();
    let state = || store.summary(id).unwrap().state;
    assert_eq!(state(), SessionState::Empty);
    conversation.say(Message::system("be kind"));
    assert_eq!(state(), SessionState::Empty);
    conversation.say(Message::user("go"));
    assert_eq!(state(), SessionState::WaitingForModel);
    let asked = conversation.say(Message::assistant_with_tools(vec![ToolCall::new("c1", "run", "{}")])).entry;
    assert_eq!(state(), SessionState::WaitingForTools);
    let call = content::CallAt { entry: asked.id(), block: 0 };
    conversation.append(&Content::Turn(Turn::new(TurnState::CallAwaitingApproval, Some(call))));
    assert_eq!(state(), SessionState::WaitingForApproval);
    let closed = |decision| Closed { calls: vec![ClosedCall { entry: asked.id(), block: 0, decision }] };
    conversation.append(&Content::Closed(closed(Decision::Rerun)));
    assert_eq!(
        state(),
        SessionState::WaitingForTools,
        "a call that is run again stays open and needs no approval"
    );
    conversation.append(&Content::Closed(closed(Decision::LeftOut)));
    assert_eq!(state(), SessionState::WaitingForModel);
    conversation.say(Message::assistant("done"));
    assert_eq!(state(), SessionState::Complete);
}

#[test]
fn everything_that_was_said_is_found() {
    let store = Arc::new(Memory::new(rejoin_engine::digest));
    let mut conversation = Conversation::create_with_clock(
        store.clone(),
        clock(),
        &New { title: Some("Zebra".into()), ..New::default() },
        "test",
    );
    let thought = Reasoning { text: "pondering".into(), sealed: false, origin: Origin::default() };
    conversation.say(Message::user("apples"));
    conversation.say(Message::new(
        Role::Assistant,
        vec![
            Block::new(BlockKind::Reasoning(Box::new(thought))),
            Block::call(ToolCall::new("c1", "fetch_pears", "{\"kind\":\"williams\"}")),
        ],
    ));
    conversation.say(Message::tool("c1", "plums instead"));
    conversation.append(&Content::Command(content::Command {
        command: "/models list".into(),
        output: "llama".into(),
        failed: false,
    }));
    conversation.append(&Content::Compacted(content::Compacted::new("fruit salad", None)));
    for (words, role) in [
        ("apples", "user"),
        ("pondering", "assistant"),
        ("fetch_pears", "assistant"),
        ("williams", "assistant"),
        ("plums", "tool"),
        ("models", "command"),
        ("llama", "command"),
        ("salad", "summary"),
        ("zebra", "title"),
    ] {
        let hits = store.search(&Search { words: words.to_owned(), limit: 5, ..Search::default() }).unwrap();
        assert_eq!(hits.iter().map(|hit| hit.role.as_str()).collect::<Vec<_>>(), [role], "{words}");
        assert_eq!(hits[0].title.as_deref(), Some("Zebra"));
    }
}
