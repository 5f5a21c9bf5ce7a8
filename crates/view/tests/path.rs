//! From entries to a history: what `closed` and `turn` entries say of calls, and what damage costs.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Raw, Salt, Timestamp, ToolCall, Tree,
    chain::Stamp,
    content::{CallAt, Closed, ClosedCall, Compacted, Decision, Metadata, Turn, TurnState},
};
use rejoin_view::{
    OnBroken, Rule,
    path::{Path, path},
    repair,
};

struct Writer {
    chain: Chain,
    entries: Vec<Entry>,
}

impl Writer {
    fn new() -> Self {
        let mut writer = Self { chain: Chain::empty(), entries: Vec::new() };
        let header = Metadata {
            conversation: ConversationId::from_random(1),
            provider: None,
            model: None,
            directory: None,
            format: None,
        };
        writer.append(Kind::Header, Content::Header(header));
        writer
    }

    fn append(&mut self, kind: Kind, content: Content) -> EntryId {
        let number = self.entries.len() as u64;
        let id = EntryId::new(number, [0; 10]);
        let stamp = Stamp {
            id,
            timestamp: Timestamp::from_second(0).unwrap(),
            salt: Salt([0; 16]),
            source_time: None,
        };
        self.entries.push(self.chain.append(kind, &content, stamp));
        id
    }

    fn message(&mut self, message: Message) -> EntryId {
        self.append(Kind::Message, Content::Message(message))
    }

    fn turn(&mut self, state: TurnState, call: Option<EntryId>) {
        let call = call.map(|entry| CallAt { entry, block: 0 });
        self.append(Kind::Turn, Content::Turn(Turn { state, call }));
    }

    fn close(&mut self, entry: EntryId, decision: Decision) {
        self.append(
            Kind::Closed,
            Content::Closed(Closed { calls: vec![ClosedCall { entry, block: 0, decision }] }),
        );
    }

    fn seen(&self) -> Vec<String> {
        let history = path(&Tree::new(&self.entries)).history;
        let messages = repair(&history, OnBroken::Keep).view.to_messages();
        messages
            .iter()
            .map(|message| format!("{} {}", message.role, message.content().unwrap_or_default()))
            .collect()
    }
}

fn call() -> Message {
    Message::assistant_with_tools(vec![ToolCall::new("c1", "deploy", "{}")])
}

#[test]
fn a_call_that_waits_for_approval_is_not_shown() {
    let mut writer = Writer::new();
    writer.message(Message::user("go"));
    let entry = writer.message(call());
    writer.turn(TurnState::CallAwaitingApproval, Some(entry));
    assert_eq!(writer.seen(), ["user go"]);
    // It was approved and began to run: now nobody knows how far it got.
    writer.turn(TurnState::CallRunning, Some(entry));
    assert_eq!(writer.seen().len(), 3);
}

#[test]
fn what_was_decided_before_a_request_left_holds() {
    let mut writer = Writer::new();
    writer.message(Message::user("go"));
    let entry = writer.message(call());
    writer.close(entry, Decision::LeftOut);
    writer.turn(TurnState::CallRunning, Some(entry));
    writer.turn(TurnState::Started, None);
    assert_eq!(writer.seen(), ["user go"]);
    writer.message(Message::tool("c1", "deployed"));
    let seen = writer.seen();
    assert!(
        seen[1].contains(
            "whose call is not in this conversation]
deployed"
        ),
        "{seen:?}"
    );
    // Closed as rerun, it is open for one result again.
    let mut writer = Writer::new();
    writer.message(Message::user("go"));
    let entry = writer.message(call());
    writer.close(entry, Decision::Rerun);
    writer.message(Message::tool("c1", "deployed"));
    assert_eq!(writer.seen(), ["user go", "assistant ", "tool deployed"]);
    let mut writer = Writer::new();
    let entry = writer.message(call());
    writer.close(entry, Decision::Interrupted);
    writer.turn(TurnState::Ended, None);
    assert!(writer.seen()[1].contains("no result was recorded"));
}

#[test]
fn damage_costs_itself_and_is_said() {
    let mut writer = Writer::new();
    writer.message(Message::user("one"));
    writer.append(Kind::Message, Content::Unreadable(Raw::new("{}")));
    writer.message(Message::user("two"));
    writer.message(Message::user("three"));
    let readable: Vec<&Entry> =
        writer.entries.iter().enumerate().filter(|(n, _)| *n != 3).map(|(_, e)| e).collect();
    let Path { history, findings, .. } = path(&Tree::new(readable));
    assert_eq!(history.messages().len(), 2);
    let rules: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::DamagedEntry, Rule::BrokenChain]);
}

#[test]
fn decisions_about_what_is_not_there_are_ignored() {
    let mut writer = Writer::new();
    let entry = writer.message(call());
    writer.close(EntryId::new(77, [1; 10]), Decision::LeftOut);
    let far = ClosedCall { entry, block: 99, decision: Decision::LeftOut };
    writer.append(Kind::Closed, Content::Closed(Closed { calls: vec![far] }));
    assert_eq!(writer.seen().len(), 2);
}

/// B32: a compaction hides what it replaced, and only that; the summary stands before what stays. The fates of calls follow
/// their messages.
#[test]
fn a_compaction_hides_what_it_replaced() {
    let call = |id| Message::assistant_with_tools(vec![ToolCall::new(id, "read", "{}")]);
    let compacted = |summary: &str, keep_from| {
        Content::Compacted(Compacted { summary: summary.into(), truncated_count: 0, keep_from })
    };
    let mut writer = Writer::new();
    writer.message(Message::user("old"));
    writer.message(call("hidden"));
    writer.append(Kind::Compacted, compacted("what was said", None));
    writer.message(Message::user("new"));
    let kept = writer.message(call("c1"));
    assert_eq!(texts(&writer), ["what was said", "new", ""]);
    writer.close(kept, Decision::Interrupted);
    writer.append(Kind::Compacted, compacted("again", Some(kept)));
    writer.message(Message::tool("c1", "too late"));
    let path = path(&Tree::new(&writer.entries));
    assert_eq!(texts(&writer), ["again", "", "too late"]);
    assert_eq!(path.entries.len(), 3);
    // The call is closed: what comes later with its id has no call.
    let repaired = repair(&path.history, OnBroken::Keep);
    assert!(
        repaired.findings.iter().any(|finding| finding.rule == Rule::OrphanResult),
        "{:?}",
        repaired.findings
    );
    // Nothing in place of a summary: then it hides, and that is all.
    writer.append(Kind::Compacted, compacted("", None));
    assert_eq!(texts(&writer), [""; 0]);
}

fn texts(writer: &Writer) -> Vec<String> {
    let path = path(&Tree::new(&writer.entries));
    path.history.messages().iter().map(|message| message.content().unwrap_or_default()).collect()
}
