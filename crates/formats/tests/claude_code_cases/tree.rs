//! The tree: which lines are one message, which path the conversation took, and what a compaction hides.

use rejoin_formats::{Dialect, Session, convert, session::Aside};
use rejoin_record::Timestamp;
use rejoin_view::{OnBroken, Severity};

use crate::transcript::{
    boundary, calls, hidden, problems, raw, read, result, rules, says, sketch, summary, user, written,
};

/// The results of parallel calls hang on different lines of one response; none is lost, and the response is one message.
#[test]
fn parallel_calls_on_branches() {
    // Each call follows the one before, and each result its own call.
    let chained = written(
        "user u - go; says a1 u m1 two; calls a2 a1 m1 c1; calls a3 a2 m1 c2; result r1 a2 c1 one; \
         result r2 a3 c2 two; says a4 r2 m2 done",
    );
    // Both calls follow the same line.
    let beside = written(
        "user u - go; says a1 u m1 two; calls a2 a1 m1 c1; calls a3 a1 m1 c2; result r1 a2 c1 one; \
         result r2 a3 c2 two; says a4 r1 m2 done",
    );
    // The second call was written when the first one's result was there already.
    let between = written(
        "user u - go; says a1 u m1 two; calls a2 a1 m1 c1; result r1 a2 c1 one; calls a3 r1 m1 c2; \
         result r2 a3 c2 two; says a4 r2 m2 done",
    );
    // There is no line before the calls.
    let bare = written(
        "user u - go; calls a2 u m1 c1; calls a3 u m1 c2; result r1 a2 c1 one; \
         result r2 a3 c2 two; says a4 r1 m2 done",
    );
    let session = read(&bare.concat());
    assert_eq!(sketch(&session), ["u:go", "a:!c1,!c2", "u:?c1=one", "u:?c2=two", "a:done"]);
    for lines in [chained, beside, between] {
        let session = read(&lines.concat());
        assert_eq!(sketch(&session), ["u:go", "a:two,!c1,!c2", "u:?c1=one", "u:?c2=two", "a:done"]);
        assert_eq!(problems(&session), []);
        assert_eq!(hidden(&session), [""; 0]);
    }
}

#[test]
fn a_response_of_several_lines_keeps_them_all() {
    let lines = [user("u", "-", "go"), says("a1", "u", "m1", "x"), calls("a2", "a1", "m1", "c1")];
    let session = read(&lines.concat());
    let message = &session.messages[1];
    let native = message.native.as_ref().unwrap();
    assert_eq!(&*native.format, "claude-code");
    assert!(!native.regular && !native.more);
    assert_eq!(native.raw.as_str(), format!("{},{}", lines[1].trim_end(), lines[2].trim_end()));
    let spans: Vec<_> =
        native.items.iter().map(|item| (item.span.of(native.raw.as_str()).unwrap(), item.blocks)).collect();
    assert_eq!(spans, [(lines[1].trim_end(), 1), (lines[2].trim_end(), 1)]);
    // Blocks and texts point at their own bytes, so that they can be sent again and stored once.
    assert_eq!(
        message.native_block(&message.blocks[1]),
        Some(r#"{"type":"tool_use","id":"c1","name":"Read","input":{"n": 1.50}}"#)
    );
    let text = message.blocks[0].as_text().unwrap();
    assert_eq!(text.span().unwrap().of(native.raw.as_str()), Some("\"x\""));
    let entries = session.to_entries(Timestamp::UNIX_EPOCH);
    let history = rejoin_view::path::path(&rejoin_record::Tree::new(&entries)).history;
    assert_eq!(*history.messages()[1], **message);
    // What is found in it is found on its own line.
    assert_eq!(session.places[1].line, Some(2));
    assert_eq!(session.places[1].offset, lines[0].len());
    assert_eq!(session.details[1].id.as_deref(), Some("a1"));
    assert_eq!(session.details[1].time.as_deref(), Some("2026-02-18T11:43:58.858Z"));
    assert_eq!(problems(&session), [("unanswered-call", Some(3))]);
    let out = convert(&session, Dialect::Anthropic, None, OnBroken::Keep).unwrap();
    assert!(out.body.contains(r#""input":{"n": 1.50}"#), "{}", out.body);
}

/// An id alone does not make one response: another request, or a person in between, makes two.
#[test]
fn responses_that_share_an_id_by_mistake() {
    let session = read(&written("user u - 1; says a u m 2; user v a 3; says b v m 4").concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3", "a:4"]);
    let request =
        |line: String, id: &str| line.replace("\"uuid\"", &format!("\"requestId\":\"{id}\",\"uuid\""));
    let session = read(
        &[
            user("u", "-", "1"),
            request(says("a", "u", "m", "2"), "r1"),
            request(says("b", "a", "m", "3"), "r2"),
        ]
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "a:2", "a:3"]);
}

#[test]
fn a_parent_that_was_never_written() {
    let session = read(
        &written("user u - 1; says a u m1 2; progress p lost hook_progress; user v p 3; says b v m2 4")
            .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3", "a:4"], "the order of the file continues");
    assert_eq!(rules(&session.findings), [("broken-chain", Some(3))]);
    assert_eq!(session.findings[0].severity, Severity::Error);
    assert_eq!(session.findings[0].subject.as_deref(), Some("lost"));
    assert_eq!(session.findings[0].at.message, None);
    // A file that begins in the middle guesses nothing.
    let session = read(&[user("u", "elsewhere", "1"), says("a", "u", "m1", "2")].concat());
    assert_eq!(sketch(&session), ["u:1", "a:2"]);
    assert_eq!(rules(&session.findings), [("broken-chain", Some(1))]);
    assert_eq!(session.findings[0].severity, Severity::Note);
}

/// A message that was hung on an earlier sub-agent's progress follows what was said before it.
#[test]
fn a_message_on_a_sub_agents_progress() {
    let session = read(
        &written(
            "user u - 1; calls a u m1 c1; progress p a agent_progress; result r a c1 one; \
             says b r m2 2; user v p 3",
        )
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "a:!c1", "u:?c1=one", "a:2", "u:3"]);
    assert_eq!(rules(&session.findings), [("broken-chain", Some(6))]);
    // If nothing was said since, it is where it belongs.
    let session =
        read(&written("user u - 1; calls a u m1 c1; progress p a agent_progress; user v p 3").concat());
    assert_eq!(session.findings, []);
    assert_eq!(problems(&session), [("unanswered-call", Some(2))]);
}

#[test]
fn a_rewound_conversation_takes_the_last_branch() {
    let session =
        read(&written("user u - 1; says a u m1 2; user v a wrong; says b v m2 way; user w a 3").concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3"]);
    assert_eq!(hidden(&session), ["u:wrong", "a:way"]);
    assert_eq!(session.findings, []);
    let after: Vec<usize> = session.set_aside.iter().map(|item| item.after).collect();
    assert_eq!(after, [2, 2], "each in its place");
}

#[test]
fn a_compaction_hides_what_it_replaced() {
    let lines = written(
        "user u - 1; says a u m1 2; boundary d a; summary e d in short; says b e m2 on; \
         boundary f b; summary g f shorter; user w g next",
    );
    let session = read(&lines.concat());
    assert_eq!(sketch(&session), ["u:shorter", "u:next"]);
    assert_eq!(hidden(&session), ["u:1", "a:2", "u:in short", "a:on"]);
    assert_eq!(session.findings, []);
    let order: Vec<&str> = session
        .set_aside
        .iter()
        .map(|item| match &item.what {
            Aside::Hidden(..) => "hidden",
            Aside::Raw(_) => "raw",
            Aside::Compacted { summary } if summary.is_empty() => "compacted",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        order,
        ["hidden", "hidden", "raw", "compacted", "hidden", "hidden", "raw", "compacted"],
        "in the order of the file"
    );
    assert!(session.set_aside.iter().all(|item| item.after == 0));
    // The first half of the file gave the same entries, under the same ids.
    let half = read(&lines[..5].concat());
    assert_eq!(sketch(&half), ["u:in short", "a:on"]);
    assert!(ids(&session).starts_with(&ids(&half)));
}

/// Only a boundary hides something: Claude Code sends a summary without one as a message like any other.
#[test]
fn a_summary_without_a_boundary() {
    let session = read(&written("user u - 1; says a u m1 2; summary e a in short; user w e next").concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:in short", "u:next"]);
    assert_eq!(hidden(&session), [""; 0]);
}

/// A compaction may keep the last messages as they were: they come before it in the file and after its summary for a model.
#[test]
fn a_compaction_that_keeps_messages() {
    let kept = ",\"compactMetadata\":{\"preservedSegment\":{\"headUuid\":\"v\",\"anchorUuid\":\"e\",\"tailUuid\":\"b\"}}";
    let before = written("user u - 1; says a u m1 2; user v a 3; says b v m2 4");
    // The next message follows the last of them, or the summary.
    for last in ["b", "e"] {
        let after = [boundary("d", "b", kept), summary("e", "d", "in short"), user("w", last, "5")];
        let session = read(&[before.concat(), after.concat()].concat());
        assert_eq!(sketch(&session), ["u:in short", "u:3", "a:4", "u:5"], "after {last}");
        assert_eq!(hidden(&session), ["u:1", "a:2"]);
        assert_eq!(session.findings, []);
        let compacted = session.set_aside.iter().find(|item| matches!(item.what, Aside::Compacted { .. }));
        assert_eq!(compacted.unwrap().after, 0);
    }
}

#[test]
fn sub_agents() {
    let side =
        |line: String| line.replace("\"isSidechain\":false", "\"isSidechain\":true,\"agentId\":\"x1\"");
    let lines = [
        user("u", "-", "go"),
        calls("a", "u", "m1", "c1"),
        side(user("s1", "-", "you are a helper")),
        side(says("s2", "s1", "m9", "helped")),
        result("r", "a", "c1", "helped"),
        side(says("s3", "s2", "m10", "still there")),
    ];
    let session = read(&lines.concat());
    assert_eq!(sketch(&session), ["u:go", "a:!c1", "u:?c1=helped"]);
    assert_eq!(hidden(&session), ["u:you are a helper", "a:helped", "a:still there"]);
    // In a separate file, they are a separate conversation.
    let own = read(&[&lines[2][..], &lines[3], &lines[5]].concat());
    assert_eq!(sketch(&own), ["u:you are a helper", "a:helped", "a:still there"]);
    assert_ne!(own.id, session.id);
    let other = read(&side(user("s1", "-", "x")).replace("x1", "x2"));
    assert_ne!(own.id, other.id);
    assert_eq!(session.id, rejoin_record::ConversationId::derive("claude-code", "S"));
    assert_eq!(own.id, rejoin_record::ConversationId::derive("claude-code", "S/x1"));
}

#[test]
fn the_same_id_twice() {
    let (first, second) = (user("u", "-", "1"), says("a", "u", "m1", "2"));
    let copied = first.replace("2.1.37", "2.1.40").replace("\"content\"", "\"new\":1,\"content\"");
    let other = user("u", "a", "something else");
    let text = [&first[..], &second, &first, &copied, &other, &user("v", "a", "3")].concat();
    let session = read(&text);
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3"]);
    assert_eq!(raw(&session), [first.trim_end(), copied.trim_end(), other.trim_end()]);
    assert_eq!(rules(&session.findings), [("broken-chain", Some(5))], "only what says something else");
    assert_eq!(session.findings[0].severity, Severity::Warning);
}

/// Files without any links, as other tools export them, are lists.
#[test]
fn a_file_without_a_tree() {
    let bare = |role: &str, content: &str| {
        format!(
            "{{\"type\":\"{role}\",\"sessionId\":\"S\",\"message\":{{\"role\":\"{role}\",\"content\":\"{content}\"}}}}\n"
        )
    };
    let session = read(&[bare("user", "1"), bare("assistant", "2"), bare("user", "3")].concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3"]);
    let session = read(&[user("u", "-", "1"), says("a", "-", "m1", "2"), user("v", "-", "3")].concat());
    assert_eq!(sketch(&session), ["u:1", "a:2", "u:3"], "all of them beginnings");
    // With links, a beginning is one.
    let session = read(&[user("u", "-", "1"), user("v", "-", "2"), says("a", "v", "m1", "3")].concat());
    assert_eq!(sketch(&session), ["u:2", "a:3"]);
    assert_eq!(hidden(&session), ["u:1"]);
}

#[test]
fn a_grown_file_keeps_its_ids() {
    let lines = written(
        "progress p0 - hook_progress; user u p0 1; says a u m1 2; progress p1 a hook_progress; \
         user v p1 3; says b v m2 4",
    );
    let whole = read(&lines.concat());
    for count in 2..lines.len() {
        let part = read(&lines[..count].concat());
        assert_eq!(part.id, whole.id);
        assert_eq!(ids(&part), ids(&whole)[..=count], "{count} lines and the header");
    }
}

/// The ids of what a session is in the record.
fn ids(session: &Session) -> Vec<rejoin_record::EntryId> {
    // The context of the messages is written after them: it may change as they grow.
    let entries = session.to_entries(Timestamp::UNIX_EPOCH);
    let grown = entries.iter().filter(|entry| entry.envelope().kind != rejoin_record::Kind::Context);
    grown.map(|entry| entry.id()).collect()
}

/// A result that arrives after the model has continued does not rewind the conversation.
#[test]
fn a_late_result() {
    let session = read(
        &written(
            "user u - go; calls a1 u m1 c1; calls a2 a1 m1 c2; result r1 a1 c1 one; says b r1 m2 on; \
             user v b and on; result r2 a2 c2 two",
        )
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:go", "a:!c1,!c2", "u:?c1=one", "u:?c2=two", "a:on", "u:and on"]);
    assert_eq!(problems(&session), []);
}

/// Links in a circle are cut somewhere, and nothing before them in the file is lost.
#[test]
fn circles() {
    let session = read(&[user("u", "-", "1"), user("v", "w", "2"), user("w", "v", "3")].concat());
    assert_eq!(sketch(&session), ["u:1", "u:2", "u:3"]);
    assert_eq!(rules(&session.findings), [("broken-chain", Some(2))]);
    let session = read(
        &written(
            "user u - 1; progress p q hook_progress; progress q p hook_progress; user v q 2; user w w 3",
        )
        .concat(),
    );
    assert_eq!(sketch(&session), ["u:1", "u:2", "u:3"]);
    assert_eq!(session.findings.len(), 2);
}
