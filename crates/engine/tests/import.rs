//! Imports other agents' sessions: once, repeatedly, grown, changed, and with entries that were appended here.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

mod support;

use std::sync::Arc;

use proptest::{prelude::*, test_runner::Config};
use rejoin_engine::{Conversation, EngineError, ImportMemory, ImportTrail, Mode, read};
use rejoin_formats::{
    Input, Session,
    sessions::{self, GrowingFile},
};
use rejoin_record::{
    Chain, Content, Entry, EntryId, Envelope, Hash, Kind, Message, Salt, Timestamp, Tree, chain::Stamp,
    content::Meta,
};
use rejoin_store::{Store, memory::Memory};
use rejoin_view::path::Walk;
use support::{Counting, Fragile, assert_verifies, lines, path_kinds, session, stored, writer};

fn memory() -> Memory {
    Memory::new(rejoin_engine::digest)
}

fn read_back(store: &dyn Store, session: &Session) -> Vec<String> {
    lines(&read(store, session.id, Mode::Recover).unwrap().session)
}

/// A transcript whose lines have their own ids, as `(uuid, parent, role, text)`.
fn transcript(lines: &[(&str, Option<&str>, &str, &str)]) -> Session {
    let mut text = String::new();
    for (number, (uuid, parent, role, said)) in lines.iter().enumerate() {
        let parent = parent.map_or(String::from("null"), |parent| format!("\"{parent}\""));
        let content = match *role {
            "assistant" => format!(
                r#"{{"id":"msg_{uuid}","type":"message","role":"assistant","model":"m","content":[{{"type":"text","text":"{said}"}}]}}"#
            ),
            _ => format!(r#"{{"role":"user","content":"{said}"}}"#),
        };
        text.push_str(&format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"sessionId":"s-1","type":"{role}","uuid":"{uuid}","timestamp":"2026-01-01T00:00:{number:02}.000Z","message":{content}}}"#
        ));
        text.push('\n');
    }
    session("s-1.jsonl", &text)
}

fn chat(messages: &[&str]) -> Session {
    let messages: Vec<String> = messages
        .iter()
        .enumerate()
        .map(|(number, said)| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{said}"}}"#)
        })
        .collect();
    session("chat.json", &format!(r#"{{"model":"m-1","messages":[{}]}}"#, messages.join(",")))
}

/// S4-24: what is imported twice is stored once.
#[test]
fn importing_twice_adds_nothing() {
    let (store, clock) = (memory(), Counting);
    for session in [
        chat(&["one", "two", "three"]),
        transcript(&[("a", None, "user", "one"), ("b", Some("a"), "assistant", "two")]),
    ] {
        let first = writer(&store, &clock).import(&session).unwrap();
        assert!(first.new && first.added > 0);
        assert_eq!(first.messages, session.messages.len() as u64);
        let again = writer(&store, &clock).import(&session).unwrap();
        assert!(!again.new);
        assert_eq!(again.added, 0);
        assert_verifies(&store, session.id);
        assert_eq!(read_back(&store, &session), lines(&session));
        let summary = store.summary(session.id).unwrap();
        assert_eq!(summary.title.as_deref(), Some("one"));
        assert_eq!(
            summary.about.model.as_deref(),
            if session.format == "openai-chat" { Some("m-1") } else { Some("m") }
        );
        assert_eq!(summary.about.format.as_deref(), Some(session.format));
    }
}

#[test]
fn a_grown_file_adds_only_what_is_new() {
    let (store, clock) = (memory(), Counting);
    let said = ["one", "two", "three", "four", "five"];
    for count in 1..=said.len() {
        let session = chat(&said[..count]);
        let imported = writer(&store, &clock).import(&session).unwrap();
        // Header and context come once.
        assert_eq!(imported.added, if count == 1 { 3 } else { 1 }, "after {count}");
        assert_eq!(read_back(&store, &session), lines(&session));
    }
    let entries = stored(&store, chat(&said).id);
    let path = path_kinds(&entries);
    assert_eq!(path, ["header", "message", "context", "message", "message", "message", "message"]);
    // Older states of the file add nothing either, and the head stays.
    for count in 1..=said.len() {
        assert_eq!(writer(&store, &clock).import(&chat(&said[..count])).unwrap().added, 0);
    }
    assert_eq!(read_back(&store, &chat(&said)), lines(&chat(&said)));
    assert_verifies(&store, chat(&said).id);
}

#[test]
fn a_context_that_changed_is_appended() {
    let (store, clock) = (memory(), Counting);
    let with = |model: &str, tail: &str| {
        session(
            "chat.json",
            &format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"a"}}{tail}]}}"#),
        )
    };
    let tail = r#",{"role":"assistant","content":"b"}"#;
    writer(&store, &clock).import(&with("m-1", "")).unwrap();
    assert_eq!(writer(&store, &clock).import(&with("m-2", "")).unwrap().added, 1);
    assert_eq!(writer(&store, &clock).import(&with("m-2", tail)).unwrap().added, 1);
    assert_eq!(writer(&store, &clock).import(&with("m-3", tail)).unwrap().added, 1);
    assert_eq!(writer(&store, &clock).import(&with("m-3", tail)).unwrap().added, 0);
    let id = with("m-3", "").id;
    assert_eq!(store.summary(id).unwrap().about.model.as_deref(), Some("m-3"));
    assert_eq!(read(&store, id, Mode::Recover).unwrap().session.context.model().as_deref(), Some("m-3"));
    assert_verifies(&store, id);
}

/// A changed message becomes a sibling, the messages after it are appended again, and the old ones are kept.
#[test]
fn a_changed_message_is_a_branch() {
    let (store, clock) = (memory(), Counting);
    let before = transcript(&[
        ("a", None, "user", "one"),
        ("b", Some("a"), "assistant", "two"),
        ("c", Some("b"), "user", "three"),
    ]);
    let after = transcript(&[
        ("a", None, "user", "one"),
        ("b", Some("a"), "assistant", "TWO"),
        ("c", Some("b"), "user", "three"),
        ("d", Some("c"), "assistant", "four"),
    ]);
    writer(&store, &clock).import(&before).unwrap();
    let kept = stored(&store, before.id);
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 4, "b, c behind it, d, and the context");
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 0);
    assert_eq!(read_back(&store, &after), lines(&after));
    assert_eq!(stored(&store, before.id)[..kept.len()], kept);
    assert_verifies(&store, before.id);
    // The old state of the file is still known.
    assert_eq!(writer(&store, &clock).import(&before).unwrap().added, 0);
}

/// An older copy of a file, which was never imported, adds nothing: neither a new head nor its last message, which was cut short.
#[test]
fn an_older_copy_adds_nothing() {
    let text = |count: usize| {
        let mut lines = vec![String::from(
            r#"{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"01999999-0000-7000-8000-000000000001","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","originator":"x","cli_version":"0.1","model_provider":"openai"}}"#,
        )];
        let mut item = |payload: String| {
            let second = lines.len();
            lines.push(format!(
                r#"{{"timestamp":"2026-01-01T00:00:{second:02}.000Z","type":"response_item","payload":{payload}}}"#
            ));
        };
        for turn in 0..4 {
            item(format!(
                r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"q{turn}"}}]}}"#
            ));
            item(format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"I look {turn}"}}]}}"#
            ));
            for call in 0..2 {
                item(format!(
                    r#"{{"type":"function_call","name":"ls","arguments":"{{}}","call_id":"c{turn}{call}"}}"#
                ));
            }
            for call in 0..2 {
                item(format!(r#"{{"type":"function_call_output","call_id":"c{turn}{call}","output":"x"}}"#));
            }
            item(format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"a{turn}"}}]}}"#
            ));
        }
        let mut text = lines[..count].join("\n");
        text.push('\n');
        text
    };
    let session = |count: usize| {
        let input = rejoin_formats::Input::new("rollout.jsonl", text(count).as_bytes()).unwrap();
        rejoin_formats::sessions::read(&input, rejoin_formats::sessions::named("codex")).unwrap().remove(0)
    };
    let whole = session(29);
    for count in 2..29 {
        let (store, clock) = (memory(), Counting);
        writer(&store, &clock).import(&whole).unwrap();
        let older = writer(&store, &clock).import(&session(count)).unwrap();
        assert_eq!(older.added, 0, "{count} lines");
        assert_eq!(read_back(&store, &whole), lines(&whole), "{count} lines");
    }
}

#[test]
fn the_head_stays_where_somebody_went_on() {
    let (store, clock) = (memory(), Counting);
    let (before, after) = (chat(&["one", "two"]), chat(&["one", "two", "three", "four"]));
    writer(&store, &clock).import(&before).unwrap();
    // A new title moves nothing.
    writer(&store, &clock).rename(before.id, "Mine").unwrap();
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 2);
    assert_eq!(read_back(&store, &after).len(), 4);
    assert_eq!(store.summary(before.id).unwrap().title.as_deref(), Some("Mine"));
    // Entries that are appended here do move the head.
    let tail = store.tail(before.id).unwrap().unwrap();
    let said = Content::Message(Message::user("something else"));
    let entry = Chain::at(Some(tail)).append(Kind::Message, &said, rejoin_engine::clock::stamp(&clock, None));
    store.append(before.id, Some(tail), &[entry]).unwrap();
    let grown = chat(&["one", "two", "three", "four", "five"]);
    assert_eq!(writer(&store, &clock).import(&grown).unwrap().added, 2, "the message, and the way back");
    assert_eq!(read_back(&store, &grown).last().unwrap(), "user: something else");
    assert_eq!(writer(&store, &clock).import(&grown).unwrap().added, 0);
    let grown = chat(&["one", "two", "three", "four", "five", "six"]);
    assert_eq!(writer(&store, &clock).import(&grown).unwrap().added, 2);
    assert_eq!(read_back(&store, &grown).last().unwrap(), "user: something else");
    assert_verifies(&store, before.id);
}

/// After an import of a grown source was taken back, a list counts the messages from before, and again those of a repeated import.
#[test]
fn a_list_counts_the_messages_on_the_path() {
    let (store, clock) = (memory(), Counting);
    let (short, long) = (chat(&["one", "two", "three"]), chat(&["one", "two", "three", "four", "five"]));
    let count = || store.summary(short.id).unwrap().messages;
    writer(&store, &clock).import(&short).unwrap();
    assert_eq!(count(), 3);
    let growth = writer(&store, &clock).import(&long).unwrap().growth.unwrap();
    assert_eq!(count(), 5);
    writer(&store, &clock).take_back(short.id, growth).unwrap();
    assert_eq!(count(), 3);
    writer(&store, &clock).import(&long).unwrap();
    assert_eq!(count(), 5);
}

/// Entries off the path do not move the head.
#[test]
fn what_is_said_beside_moves_no_head() {
    let (store, clock) = (memory(), Counting);
    let line = |uuid: &str, parent: &str, side: bool, role: &str| {
        format!(
            r#"{{"parentUuid":{parent},"isSidechain":{side},"sessionId":"s-3","type":"{role}","uuid":"{uuid}","timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"{role}","content":"{uuid} says"}}}}"#
        ) + "\n"
    };
    let text = line("a", "null", false, "user") + &line("b", "\"a\"", false, "user");
    let before = session("s-3.jsonl", &text);
    let after = session("s-3.jsonl", &(text + &line("c", "\"b\"", true, "user")));
    assert_eq!(lines(&before), lines(&after));
    writer(&store, &clock).import(&before).unwrap();
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 2, "the message, and the way back");
    assert_eq!(read_back(&store, &after), lines(&after));
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 0);
    let messages =
        stored(&store, before.id).iter().filter(|entry| entry.envelope().kind == Kind::Message).count();
    assert_eq!(messages, 3, "it is kept");
    assert_eq!(store.summary(before.id).unwrap().messages, 2, "a list counts those on the path");
    assert_verifies(&store, before.id);
}

#[test]
fn what_was_erased_does_not_come_back() {
    let (store, clock) = (memory(), Counting);
    let before = transcript(&[("a", None, "user", "one"), ("b", Some("a"), "assistant", "secret")]);
    writer(&store, &clock).import(&before).unwrap();
    let secret = stored(&store, before.id)
        .iter()
        .filter(|entry| entry.envelope().kind == Kind::Message)
        .nth(1)
        .unwrap()
        .id();
    writer(&store, &clock).erase(before.id, &[secret], Some("asked for")).unwrap();
    assert_eq!(writer(&store, &clock).import(&before).unwrap().added, 0);
    // Not even if something before it changed.
    let after = transcript(&[
        ("a", None, "user", "ONE"),
        ("b", Some("a"), "assistant", "secret"),
        ("c", Some("b"), "user", "three"),
    ]);
    writer(&store, &clock).import(&after).unwrap();
    let all: String = stored(&store, before.id).iter().map(rejoin_record::Entry::to_line).collect();
    assert!(all.contains("ONE") && all.contains("three") && !all.contains("secret"));
    assert_eq!(writer(&store, &clock).import(&after).unwrap().added, 0);
    assert_verifies(&store, before.id);
}

/// S2-33: an entry that is damaged in the store is imported from the source again.
#[test]
fn importing_again_mends_damage() {
    let (store, clock) = (Fragile::new(), Counting);
    let session = chat(&["one", "two", "three", "four"]);
    for damaged in 0..6 {
        let store = if damaged == 0 { store.clone() } else { Fragile::new() };
        writer(&*store, &clock).import(&session).unwrap();
        store.damage(damaged);
        writer(&*store, &clock).import(&session).unwrap();
        let recorded = read(&*store, session.id, Mode::Recover).unwrap();
        assert_eq!(lines(&recorded.session), lines(&session), "entry {damaged} is damaged");
        assert_eq!(writer(&*store, &clock).import(&session).unwrap().added, 0, "entry {damaged} is damaged");
        assert_verifies(&store.inner, session.id);
    }
}

#[test]
fn another_process_is_waited_for() {
    let (store, clock) = (memory(), Counting);
    let session = chat(&["one"]);
    let _lock = store
        .lock(session.id, &rejoin_store::Holder::this("chat", rejoin_record::Timestamp::UNIX_EPOCH))
        .unwrap();
    let refused = writer(&store, &clock).import(&session).unwrap_err();
    assert_eq!(refused.code(), "LOCKED");
    assert!(refused.to_string().contains("`chat`"), "{refused}");
}

/// A file of our own entries has hashes that count: it is copied, not taken in as another tool's.
#[test]
fn our_own_record_is_not_imported() {
    let (store, clock) = (memory(), Counting);
    let text: String = chat(&["one"])
        .to_entries(rejoin_record::Timestamp::UNIX_EPOCH)
        .iter()
        .map(|entry| entry.to_line() + "\n")
        .collect();
    let refused = writer(&store, &clock).import(&session("x.jsonl", &text)).unwrap_err();
    assert!(matches!(refused, EngineError::OwnRecord(_)));
}

#[test]
fn titles_of_the_source_are_taken_over() {
    let (store, clock) = (memory(), Counting);
    let text = concat!(
        r#"{"parentUuid":null,"isSidechain":false,"sessionId":"s-2","type":"user","uuid":"a","timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":"hello"}}"#,
        "\n",
        r#"{"type":"custom-title","customTitle":"A fine day","sessionId":"s-2"}"#,
        "\n",
    );
    let session = session("s-2.jsonl", text);
    writer(&store, &clock).import(&session).unwrap();
    let metas = stored(&store, session.id)
        .iter()
        .filter(|entry| matches!(Content::of(entry), Content::Meta(Meta { title: Some(_), .. })))
        .count();
    assert_eq!(metas, 1);
    let summary = store.summary(session.id).unwrap();
    assert_eq!(summary.title.as_deref(), Some("A fine day"));
    assert_eq!(summary.updated, "2026-01-01T00:00:00Z".parse().unwrap(), "the source's own time counts");
}

/// The lines of a rollout, in the order in which an agent writes them.
#[derive(Debug, Clone)]
enum Step {
    User(u8),
    Say(u8),
    Call(u8),
    Result(u8),
    Bookkeeping,
    Compact(u8),
    Rollback,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<u8>().prop_map(Step::User),
        3 => any::<u8>().prop_map(Step::Say),
        2 => (0..4u8).prop_map(Step::Call),
        2 => (0..4u8).prop_map(Step::Result),
        1 => Just(Step::Bookkeeping),
        1 => any::<u8>().prop_map(Step::Compact),
        1 => Just(Step::Rollback),
    ]
}

fn rollout_line(number: usize, step: &Step) -> String {
    let time = format!("2026-01-01T{:02}:{:02}:00.000Z", number / 60 % 24, number % 60);
    let item =
        |payload: String| format!(r#"{{"timestamp":"{time}","type":"response_item","payload":{payload}}}"#);
    let event =
        |payload: String| format!(r#"{{"timestamp":"{time}","type":"event_msg","payload":{payload}}}"#);
    match step {
        Step::User(text) => item(format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"u{text}"}}]}}"#
        )),
        Step::Say(text) => item(format!(
            r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"a{text}"}}]}}"#
        )),
        Step::Call(id) => {
            item(format!(r#"{{"type":"function_call","name":"run","arguments":"{{}}","call_id":"c{id}"}}"#))
        }
        Step::Result(id) => {
            item(format!(r#"{{"type":"function_call_output","call_id":"c{id}","output":"done"}}"#))
        }
        Step::Bookkeeping => event(String::from(r#"{"type":"token_count","info":null}"#)),
        Step::Compact(text) => {
            format!(r#"{{"timestamp":"{time}","type":"compacted","payload":{{"message":"summary {text}"}}}}"#)
        }
        Step::Rollback => event(String::from(r#"{"type":"thread_rolled_back","num_turns":1}"#)),
    }
}

fn rollout(steps: &[Step]) -> Session {
    session("rollout-0199-x.jsonl", &rollout_text(steps))
}

fn rollout_text(steps: &[Step]) -> String {
    let meta = r#"{"timestamp":"2026-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"0199-x","cwd":"/w","originator":"o","cli_version":"1"}}"#;
    let first = rollout_line(0, &Step::User(0));
    let rest: Vec<String> =
        steps.iter().enumerate().map(|(number, step)| rollout_line(number + 1, step)).collect();
    format!("{meta}\n{first}\n{}\n", rest.join("\n"))
}

/// A transcript in which each line follows any of the lines before it: people go back and take another way.
fn forked(parents: &[(usize, u8)]) -> Session {
    let names: Vec<String> = (0..=parents.len()).map(|number| format!("u{number}")).collect();
    let texts: Vec<String> = parents.iter().map(|(_, text)| format!("t{text}")).collect();
    let mut lines = vec![("u0", None, "user", "start")];
    for (number, (parent, text)) in parents.iter().enumerate() {
        let parent = parent % (number + 1);
        let role = if text % 2 == 0 { "user" } else { "assistant" };
        lines.push((names[number + 1].as_str(), Some(names[parent].as_str()), role, texts[number].as_str()));
    }
    transcript(&lines)
}

/// A line of a transcript, as it is written while the agent works.
#[derive(Debug, Clone)]
enum TranscriptStep {
    User(u8),
    /// A piece of a response; pieces with the same number are one message.
    Say(u8),
    Call(u8, u8),
    Result(u8),
    /// A result that names no call.
    ResultOfNone,
    Title(u8),
    Tip,
    Note,
    Compact,
    /// The next line follows one that is so many lines before.
    Back(u8),
}

fn transcript_step() -> impl Strategy<Value = TranscriptStep> {
    use TranscriptStep::{Back, Call, Compact, Note, Result, ResultOfNone, Say, Tip, Title, User};
    prop_oneof![
        4 => any::<u8>().prop_map(User),
        4 => (0..6u8).prop_map(Say),
        4 => (0..6u8, 0..6u8).prop_map(|(message, id)| Call(message, id)),
        5 => (0..6u8).prop_map(Result),
        1 => Just(ResultOfNone),
        1 => any::<u8>().prop_map(Title),
        1 => Just(Tip),
        1 => Just(Note),
        1 => Just(Compact),
        2 => (1..6u8).prop_map(Back),
    ]
}

fn transcript_text(steps: &[TranscriptStep]) -> String {
    let mut text = String::new();
    let mut ids: Vec<String> = Vec::new();
    let mut parent: Option<usize> = None;
    for (number, step) in steps.iter().enumerate() {
        let uuid = format!("u{number}");
        let above = parent.map_or(String::from("null"), |parent| format!("\"{}\"", ids[parent]));
        let line = |kind: &str, message: &str| {
            format!(
                r#"{{"parentUuid":{above},"isSidechain":false,"sessionId":"s-1","type":"{kind}","uuid":"{uuid}","timestamp":"2026-01-01T00:{:02}:{:02}.000Z",{message}}}"#,
                number / 60,
                number % 60
            )
        };
        let said = |message: u8, block: String| {
            let answer = format!(
                r#""message":{{"id":"msg_{message}","type":"message","role":"assistant","model":"m","content":[{block}]}}"#
            );
            line("assistant", &answer)
        };
        let result = |block: &str| {
            line(
                "user",
                &format!(r#""message":{{"role":"user","content":[{{"type":"tool_result",{block}}}]}}"#),
            )
        };
        let (line, follows) = match step {
            TranscriptStep::User(text) => {
                (line("user", &format!(r#""message":{{"role":"user","content":"words {text}"}}"#)), true)
            }
            TranscriptStep::Say(message) => {
                (said(*message, format!(r#"{{"type":"text","text":"piece {number}"}}"#)), true)
            }
            TranscriptStep::Call(message, id) => {
                let call =
                    format!(r#"{{"type":"tool_use","id":"toolu_{id}","name":"Bash","input":{{"n":{id}}}}}"#);
                (said(*message, call), true)
            }
            TranscriptStep::Result(id) => (
                result(&format!(
                    r#""tool_use_id":"toolu_{id}","content":"Full output saved to: /p/tool-results/{id}.txt""#
                )),
                true,
            ),
            TranscriptStep::ResultOfNone => (result(r#""content":"files""#), true),
            TranscriptStep::Title(text) => (
                format!(r#"{{"type":"custom-title","customTitle":"title {text}","sessionId":"s-1"}}"#),
                false,
            ),
            TranscriptStep::Tip => {
                let tip = parent.map_or("", |parent| ids[parent].as_str());
                (
                    format!(
                        r#"{{"type":"last-prompt","lastPrompt":"x","leafUuid":"{tip}","sessionId":"s-1"}}"#
                    ),
                    false,
                )
            }
            TranscriptStep::Note => {
                (line("system", r#""subtype":"note","content":"a note","isMeta":false"#), true)
            }
            TranscriptStep::Compact => (
                line(
                    "system",
                    r#""subtype":"compact_boundary","content":"Conversation compacted","logicalParentUuid":null"#,
                ),
                true,
            ),
            TranscriptStep::Back(lines) => {
                parent = ids.len().checked_sub(1 + usize::from(*lines));
                continue;
            }
        };
        if follows {
            ids.push(uuid);
            parent = Some(ids.len() - 1);
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Reads a file on after each piece of it was written, and imports what it holds then. Compares with reading and importing the
/// whole file each time.
fn reads_on(format: &str, name: &str, text: &str, cuts: &[usize]) -> Result<(), TestCaseError> {
    let format = sessions::named(format).unwrap();
    let (on, whole, clock) = (memory(), memory(), Counting);
    let (mut known, mut trail) = (ImportMemory::default(), ImportTrail::default());
    let mut file = GrowingFile::new(format).unwrap();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).chain([text.len()]).collect();
    cuts.sort_unstable();
    for end in cuts {
        let written = &text.as_bytes()[..end];
        let lines = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let start = usize::try_from(file.remembered()).unwrap();
        let read = file.read_on(name, None, &mut &written[start..lines], &mut &written[lines..]);
        let input = Input::new(name, written);
        let expected = input.map_err(Into::into).and_then(|input| sessions::read(&input, Some(format)));
        let (Ok(read), Ok(expected)) = (&read, &expected) else {
            prop_assert_eq!(read.is_err(), expected.is_err(), "{:?} {:?}", read, expected);
            file = GrowingFile::new(format).unwrap();
            trail = ImportTrail::default();
            continue;
        };
        prop_assert_eq!(format!("{:?}", read.findings), format!("{:?}", expected[0].findings));
        prop_assert_eq!(format!("{:?}", read.messages), format!("{:?}", expected[0].messages));
        prop_assert_eq!(format!("{:?}", read.set_aside), format!("{:?}", expected[0].set_aside));
        prop_assert_eq!(format!("{:?}", read.details), format!("{:?}", expected[0].details));
        prop_assert_eq!(&read.places, &expected[0].places);
        prop_assert_eq!(read.id, expected[0].id);
        let grown = writer(&on, &clock).import_grown(read, &mut known, &mut trail).unwrap();
        let added = writer(&whole, &clock).import(&expected[0]).unwrap().added;
        prop_assert_eq!((grown.added, grown.messages), (added, expected[0].messages.len() as u64));
        prop_assert_eq!(envelopes(&on, read), envelopes(&whole, read));
        prop_assert_eq!(places(&on, read), places(&whole, read));
        if !file.is_lasting() {
            file = GrowingFile::new(format).unwrap();
        }
    }
    Ok(())
}

/// What was read of a file before need not be looked at again when a turn is added to it.
#[test]
fn a_file_that_is_read_on_has_its_beginning_in_common() {
    let turn = [Step::User(1), Step::Say(2), Step::Call(1), Step::Result(1), Step::Bookkeeping, Step::Say(3)];
    let turns: Vec<Step> = turn.iter().cycle().take(60).cloned().collect();
    let said = |number: u8| TranscriptStep::Say(number);
    let talk =
        [TranscriptStep::User(1), said(1), TranscriptStep::Call(1, 1), TranscriptStep::Result(1), said(2)];
    let talk: Vec<TranscriptStep> = talk.iter().cycle().take(60).cloned().collect();
    for (format, before, after) in [
        ("codex", rollout_text(&turns[..54]), rollout_text(&turns)),
        ("claude-code", transcript_text(&talk[..55]), transcript_text(&talk)),
    ] {
        let mut file = GrowingFile::new(sessions::named(format).unwrap()).unwrap();
        let mut read = |text: &str| file.read_on("x", None, &mut text.as_bytes(), &mut &b""[..]).unwrap();
        let earlier = read(&before);
        let later = read(after.strip_prefix(before.as_str()).unwrap());
        let (all, common) = (
            earlier.to_entries("2026-01-01T00:00:00Z".parse().unwrap()).len(),
            later.entries_in_common(&earlier),
        );
        assert!(common + 3 >= all && common > 40, "{format}: {common} of {all}");
    }
}

/// The number, the kind and the source's time of each entry of a conversation.
fn envelopes(store: &dyn Store, session: &Session) -> Vec<(u64, Kind, Option<String>)> {
    let envelope = |entry: &Entry| {
        let Envelope { seq, kind, source_time, .. } = entry.envelope().clone();
        (seq, kind, source_time.map(|time| time.to_string()))
    };
    stored(store, session.id).iter().map(envelope).collect()
}

/// The entries of a conversation in order: the id, the content and the parent of each.
fn places(store: &dyn Store, session: &Session) -> Vec<(EntryId, Hash, Option<EntryId>)> {
    let place = |entry: &Entry| (entry.id(), entry.inner(), entry.envelope().parent);
    stored(store, session.id).iter().map(place).collect()
}

/// A growing source is compared with the stored entries only once. If the conversation was changed otherwise, it is read again.
#[test]
fn a_conversation_that_is_watched_is_not_read_again() {
    let (store, clock, mut known) = (memory(), Counting, ImportMemory::default());
    let steps: Vec<Step> = (0..20).map(Step::User).collect();
    let mut import =
        |count: usize| writer(&store, &clock).import_again(&rollout(&steps[..count]), &mut known).unwrap();
    assert_eq!((import(10).compared, import(10).compared), (0, 0));
    let grown = import(12);
    assert_eq!((grown.compared, grown.added), (0, 2), "two more");
    let grown = import(13);
    assert_eq!((grown.compared, grown.added), (0, 1), "one more");
    let id = grown.id;
    let stored = store.tail(id).unwrap().unwrap().seq + 1;
    assert_eq!(writer(&store, &clock).import(&rollout(&steps[..13])).unwrap().compared, stored);
    // A title was given here.
    writer(&store, &clock).rename(id, "another").unwrap();
    let grown = import(14);
    assert_eq!((grown.compared, grown.added), (stored + 1, 1));
    assert_eq!(import(15).compared, 0);
    assert_verifies(&store, id);
}

/// Takes in every state of a growing file, and compares with the last one taken in alone.
fn grows(states: &[Session]) -> Result<(), TestCaseError> {
    let (grown, clock) = (memory(), Counting);
    let (watched, mut known) = (memory(), ImportMemory::default());
    for state in states {
        writer(&watched, &clock).import_again(state, &mut known).unwrap();
        let before = grown.tail(state.id).unwrap().map_or(0, |tail| tail.seq + 1);
        let imported = writer(&grown, &clock).import(state).unwrap();
        prop_assert_eq!(imported.added, grown.tail(state.id).unwrap().unwrap().seq + 1 - before);
        prop_assert_eq!(read_back(&grown, state), lines(state));
        prop_assert_eq!(writer(&grown, &clock).import(state).unwrap().added, 0);
        prop_assert_eq!(places(&watched, state), places(&grown, state), "with a memory and without");
    }
    let last = states.last().unwrap();
    let whole = memory();
    writer(&whole, &clock).import(last).unwrap();
    prop_assert_eq!(read_back(&grown, last), read_back(&whole, last));
    assert_verifies(&grown, last.id);
    assert_verifies(&whole, last.id);
    // Every message of every state is stored.
    for state in states {
        prop_assert_eq!(writer(&grown, &clock).import(state).unwrap().added, 0);
    }
    prop_assert_eq!(read_back(&grown, last), lines(last), "older states leave the head where it is");
    // The same if the older states were never imported: their entries are kept, off the path.
    for state in states {
        writer(&whole, &clock).import(state).unwrap();
        prop_assert_eq!(read_back(&whole, last), lines(last), "older states that were never seen");
    }
    let again = writer(&whole, &clock).import(last).unwrap().added;
    prop_assert_eq!((again, read_back(&whole, last)), (0, lines(last)));
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    /// Importing every state of a growing rollout, one after another, gives the same as importing the last one.
    #[test]
    fn a_growing_rollout(steps in proptest::collection::vec(step(), 0..14)) {
        let states: Vec<Session> = (0..=steps.len()).map(|count| rollout(&steps[..count])).collect();
        grows(&states)?;
    }

    /// The same for lines with their own ids and parents, in which users go back and forth.
    #[test]
    fn a_growing_transcript(parents in proptest::collection::vec((0..20usize, any::<u8>()), 0..10)) {
        let states: Vec<Session> = (0..=parents.len()).map(|count| forked(&parents[..count])).collect();
        grows(&states)?;
    }

    /// A rollout that is read on after each piece of it, however it is divided, is imported as if it were read whole each time.
    #[test]
    fn a_rollout_that_is_read_on(
        steps in proptest::collection::vec(step(), 0..40),
        cuts in proptest::collection::vec(any::<usize>(), 1..20),
    ) {
        reads_on("codex", "rollout-0199-x.jsonl", &rollout_text(&steps), &cuts)?;
    }

    /// The same for a transcript with branches, compactions, late results, and messages of several lines.
    #[test]
    fn a_transcript_that_is_read_on(
        steps in proptest::collection::vec(transcript_step(), 1..40),
        cuts in proptest::collection::vec(any::<usize>(), 1..20),
    ) {
        reads_on("claude-code", "s-1.jsonl", &transcript_text(&steps), &cuts)?;
    }

    /// The same for a list whose messages change meanwhile.
    #[test]
    fn a_changing_chat(states in proptest::collection::vec(proptest::collection::vec(0..3u8, 0..6), 1..6)) {
        let states: Vec<Session> = states.iter().map(|said| {
            let mut texts = vec![String::from("start")];
            texts.extend(said.iter().map(|text| format!("t{text}")));
            chat(&texts.iter().map(String::as_str).collect::<Vec<_>>())
        }).collect();
        let (store, clock) = (memory(), Counting);
        for state in &states {
            let known = writer(&store, &clock).import(state).unwrap().added == 0;
            prop_assert!(known || read_back(&store, state) == lines(state));
            prop_assert_eq!(writer(&store, &clock).import(state).unwrap().added, 0);
        }
        assert_verifies(&store, states[0].id);
    }
}

/// The texts that a model sees.
fn seen(conversation: &Conversation) -> Vec<String> {
    conversation.messages().iter().map(|message| message.content().unwrap_or_default()).collect()
}

/// A conversation that was imported from a session file with this text.
fn imported(name: &str, text: &str) -> Conversation {
    let store: Arc<dyn Store> = Arc::new(memory());
    let id = writer(&*store, &Counting).import(&session(name, text)).unwrap().id;
    Conversation::open(store, id, "test").unwrap()
}

/// A rollout: a question, an answer, and two compactions, each followed by a question. The second one repeats what the first
/// repeated.
fn compacted_rollout() -> String {
    let line = |kind: &str, payload: &str| {
        format!(r#"{{"timestamp":"2026-11-15T12:00:00.000Z","type":"{kind}","payload":{payload}}}"#) + "\n"
    };
    let item = |role: &str, text: &str| {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}"#)
    };
    let compaction = |summary: &str, said: &[&str]| {
        let mut items: Vec<String> = said.iter().map(|text| item("user", text)).collect();
        items.push(item("user", &format!("Another model wrote:\\n{summary}")));
        let list = items.join(",");
        line("compacted", &format!(r#"{{"message":"{summary}","replacement_history":[{list}]}}"#))
    };
    let meta = r#"{"id":"0199","timestamp":"2026-11-15T12:00:00.000Z","cwd":"/w","originator":"codex","cli_version":"1"}"#;
    line("session_meta", meta)
        + &line("response_item", &item("user", "one"))
        + &line("response_item", &item("assistant", "first answer"))
        + &compaction("plums", &["one"])
        + &line("response_item", &item("user", "two"))
        + &line("response_item", &item("assistant", "second answer"))
        + &compaction("pears", &["one", "two"])
        + &line("response_item", &item("user", "three"))
}

/// A compaction of another agent that is undone leaves nothing behind: not its summary, and not the messages that it repeats.
#[test]
fn after_an_imported_compaction_is_undone_the_view_is_as_if_it_had_never_happened() {
    let mut conversation = imported("rollout.jsonl", &compacted_rollout());
    let summary = |of: &str| format!("Another model wrote:\n{of}");
    assert_eq!(seen(&conversation), ["one", "two", &summary("pears"), "three"]);
    assert!(conversation.uncompact().is_some());
    assert_eq!(
        seen(&conversation),
        ["one", &summary("plums"), "two", "second answer", "three"],
        "the first compaction is in force again"
    );
    assert!(conversation.uncompact().is_some());
    let all = ["one", "first answer", "two", "second answer", "three"];
    assert_eq!(seen(&conversation), all);
    assert!(conversation.uncompact().is_none());
    conversation.say(Message::user("four"));
    assert_eq!(seen(&conversation)[..5], all);
    let tree = conversation.entries();
    let walk = Walk::entry_by_entry(&Tree::new(tree));
    assert_eq!(walk.messages().len(), 6, "a running conversation sees the same");
}

/// The summary of a Claude Code transcript goes, the messages that its compaction kept stay, and what was on another branch before it
/// stays hidden.
#[test]
fn an_undone_compaction_of_a_transcript_brings_back_its_branch_only() {
    let line = |uuid: &str, parent: &str, role: &str, text: &str, more: &str| {
        let parent = if parent.is_empty() { String::from("null") } else { format!("\"{parent}\"") };
        format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"sessionId":"s-9","type":"{role}","uuid":"{uuid}"{more},"message":{{"role":"{role}","content":"{text}"}}}}"#
        ) + "\n"
    };
    let boundary = r#"{"parentUuid":null,"logicalParentUuid":"d","isSidechain":false,"sessionId":"s-9","type":"system","subtype":"compact_boundary","uuid":"e","content":"Conversation compacted","compactMetadata":{"trigger":"auto"}}"#;
    let text = line("a", "", "user", "one", "")
        + &line("b", "a", "assistant", "an answer that was taken back", "")
        + &line("c", "a", "assistant", "first answer", "")
        + &line("d", "c", "user", "two", "")
        + boundary
        + "\n"
        + &line("f", "e", "user", "They talked about plums.", r#","isCompactSummary":true"#)
        + &line("g", "f", "assistant", "second answer", "");
    let mut conversation = imported("s-9.jsonl", &text);
    assert_eq!(seen(&conversation), ["They talked about plums.", "second answer"]);
    assert!(conversation.uncompact().is_some());
    assert_eq!(seen(&conversation), ["one", "first answer", "two", "second answer"]);
}

/// A message that was written here never counts as one that came with an imported compaction, even if it follows that directly.
#[test]
fn an_undone_compaction_hides_no_message_that_was_written_here() {
    let mut conversation = imported("rollout.jsonl", &compacted_rollout());
    let compaction = conversation.entries().iter().rfind(|entry| entry.envelope().kind == Kind::Compacted);
    let compaction = compaction.map(|entry| (entry.id(), entry.hash())).unwrap();
    let kept = conversation.entries().to_vec();
    let id = conversation.id();
    let store: Arc<dyn Store> = Arc::new(memory());
    let tail = store.append(id, None, &kept).unwrap();
    let branch = Content::Branch(rejoin_record::content::Branch { reason: None });
    let stamp = Stamp {
        id: EntryId::new(1, [1; 10]),
        timestamp: Timestamp::UNIX_EPOCH,
        salt: Salt([1; 16]),
        source_time: None,
    };
    let entry = Chain::at(Some(tail)).append_under(Some(compaction), Kind::Branch, &branch, stamp);
    store.append(id, Some(tail), &[entry]).unwrap();
    conversation = Conversation::open(store, id, "test").unwrap();
    conversation.say(Message::user("mine"));
    assert_eq!(seen(&conversation), ["mine"]);
    assert!(conversation.uncompact().is_some());
    assert!(seen(&conversation).contains(&String::from("mine")), "{:?}", seen(&conversation));
}
