//! From entries to a history: the effects of `closed` and `turn` entries on calls, and of damage.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use rejoin_record::{
    Chain, Content, ConversationId, Entry, EntryId, Kind, Message, Raw, Salt, Timestamp, ToolCall, Tree,
    chain::Stamp,
    content::{
        CallAt, Closed, ClosedCall, Compacted, Decision, Meta, Metadata, Prune, ShortenedResult, Turn,
        TurnState,
    },
};
use rejoin_view::{
    LastWord, OnBroken, PathState, Rule,
    path::{Path, Walk, path},
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
        self.append(Kind::Turn, Content::Turn(Turn::new(state, call)));
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
    // It was approved and began to run, so it is not known how far it got.
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

/// A result answers the newest of two calls with one id. If the older one was left out, a later result is a second result of the newer
/// one, and not one of the call that was left out.
#[test]
fn a_call_that_was_left_out_takes_no_result_of_another() {
    let mut writer = Writer::new();
    writer.message(Message::user("go"));
    let older = writer.message(call());
    writer.message(call());
    writer.message(Message::tool("c1", "deployed"));
    writer.close(older, Decision::LeftOut);
    writer.message(Message::tool("c1", "and tested"));
    let history = path(&Tree::new(&writer.entries)).history;
    let shown = repair(&history, OnBroken::Keep).view.to_messages();
    let results = shown.iter().flat_map(Message::tool_results).flat_map(|result| &result.content);
    let results: Vec<String> = results.filter_map(|block| Some(block.as_text()?.to_string())).collect();
    assert_eq!(results.concat(), "deployedand tested", "{shown:?}");
}

/// A tombstone names the tool of the call that the result answers, also if another call has the same id.
#[test]
fn a_tombstone_names_the_tool_that_was_called() {
    let named = |tool: &str| Message::assistant_with_tools(vec![ToolCall::new("c1", tool, "{}")]);
    let mut writer = Writer::new();
    writer.message(named("first"));
    let result = writer.message(Message::tool("c1", "one"));
    writer.message(named("second"));
    let results = vec![CallAt { entry: result, block: 0 }];
    writer.append(Kind::Prune, Content::Prune(Prune { results, shortened: None }));
    let history = path(&Tree::new(&writer.entries)).history;
    let shown =
        history.messages()[1].tool_results().next().unwrap().content[0].as_text().unwrap().to_string();
    assert!(shown.starts_with("[The result of first "), "{shown}");
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
    let rules: Vec<Rule> = findings.iter().map(|(_, finding)| finding.rule).collect();
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

/// B32: a compaction hides the messages that it replaced, and no others; the summary comes before the messages that stay. The fates
/// of calls follow their messages.
#[test]
fn a_compaction_hides_what_it_replaced() {
    let call = |id| Message::assistant_with_tools(vec![ToolCall::new(id, "read", "{}")]);
    let compacted = |summary: &str, keep_from| Content::Compacted(Compacted::new(summary, keep_from));
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
    // The call is closed, so a later result with its id has no call.
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

/// Results that share a message become tombstones in any order, each once, and the others stay.
#[test]
fn each_named_result_becomes_a_tombstone() {
    let mut writer = Writer::new();
    writer.message(calling(["a", "b", "c", "d"].map(String::from)));
    let mut three = Message::tool("a", "of a");
    for (id, text) in [("b", "of b"), ("c", "of c")] {
        three.blocks.extend(Message::tool(id, text).blocks);
    }
    let three = writer.message(three);
    let one = writer.message(Message::tool("d", "of d"));
    let named = [(three, 0), (one, 0), (three, 2), (three, 0), (three, 7)];
    let results = named.map(|(entry, block)| CallAt { entry, block }).to_vec();
    writer.append(Kind::Prune, Content::Prune(Prune { results, shortened: None }));
    let history = path(&Tree::new(&writer.entries)).history;
    let shown: Vec<String> = history
        .messages()
        .iter()
        .flat_map(|message| message.tool_results())
        .map(|result| result.content[0].as_text().unwrap().to_string())
        .collect();
    let tombstone = |text: &String| text.starts_with("[The result of") && text.contains("(4 bytes)");
    assert!([0, 2, 3].iter().all(|place| tombstone(&shown[*place])), "{shown:?}");
    assert_eq!(shown[1], "of b");
}

/// A result loses its middle, and may lose more of it later. A pinned one is shown whole, and a tombstone stays one. A running
/// conversation shows the same as one that is read from its beginning.
#[test]
fn each_shortened_result_keeps_its_ends() {
    let long = format!("begin{}end", "x".repeat(10_000));
    let shorten = |writer: &mut Writer, entry, shown| {
        let shortened = Some(vec![ShortenedResult { entry, block: 0, shown }]);
        writer.append(Kind::Prune, Content::Prune(Prune { results: Vec::new(), shortened }));
    };
    let shown = |writer: &Writer| {
        let tree = Tree::new(&writer.entries);
        let (walk, running) = (Walk::along(&tree), Walk::entry_by_entry(&tree));
        assert!(walk.agrees_with(&running));
        let result = walk.messages().iter().find_map(|message| message.tool_results().next()).unwrap();
        result.content[0].as_text().unwrap().to_string()
    };
    let mut writer = Writer::new();
    writer.message(Message::user("go"));
    writer.message(calling([String::from("a")]));
    let result = writer.message(Message::tool("a", long.as_str()));
    shorten(&mut writer, result, 2_000);
    let first = shown(&writer);
    assert!(first.starts_with("beginx") && first.ends_with("xend") && first.len() < 2_500, "{first}");
    assert!(first.contains(
        r#"8008 bytes in the middle are not shown; call recall with {"message": 2, "from": 1000}"#
    ));
    shorten(&mut writer, result, 100);
    let second = shown(&writer);
    assert!(second.len() < 500 && second.contains("9908 bytes in the middle"), "{second}");
    let pin = |pinned| Content::Meta(Meta { pinned: Some(pinned), ..Meta::default() });
    writer.append(Kind::Meta, pin(vec![result]));
    assert_eq!(shown(&writer), long);
    writer.append(Kind::Meta, pin(Vec::new()));
    assert_eq!(shown(&writer), second);
    let results = vec![CallAt { entry: result, block: 0 }];
    writer.append(Kind::Prune, Content::Prune(Prune { results, shortened: None }));
    assert!(shown(&writer).contains("(10008 bytes)"), "{}", shown(&writer));
    shorten(&mut writer, result, 100);
    assert!(shown(&writer).contains("(10008 bytes)"));
}

fn texts(writer: &Writer) -> Vec<String> {
    let path = path(&Tree::new(&writer.entries));
    path.history.messages().iter().map(|message| message.content().unwrap_or_default()).collect()
}

fn calling(ids: impl IntoIterator<Item = String>) -> Message {
    Message::assistant_with_tools(ids.into_iter().map(|id| ToolCall::new(id, "run", "{}")).collect())
}

/// Takes entries one by one, going on from the text of the state before each.
fn follow(entries: &[Entry]) -> PathState {
    let mut state = PathState::default();
    for entry in entries {
        state = PathState::from_text(&state.to_text());
        state.add(entry, &Content::of(entry));
    }
    state
}

/// The ids of the calls that nothing answers.
fn pending(state: &PathState) -> Vec<&str> {
    assert!(!state.is_lost());
    state.pending_calls().map(|call| call.id.as_str()).collect()
}

/// A state continues from its saved text, entry by entry, with any ids.
#[test]
fn a_state_goes_on_from_its_text() {
    let mut writer = Writer::new();
    assert_eq!(follow(&writer.entries).last_word(), None);
    writer.message(Message::system("be kind"));
    assert_eq!(follow(&writer.entries).last_word(), None, "instructions are not the last word of anyone");
    writer.message(Message::user("go"));
    assert_eq!(follow(&writer.entries).last_word(), Some(LastWord::Other));
    let odd = ["a", "\"b\"", "c\nd e", "a"];
    let asking = writer.message(calling(odd.map(String::from)));
    assert_eq!(pending(&follow(&writer.entries)), odd);
    writer.message(Message::tool("c\nd e", "done"));
    writer.message(Message::tool("a", "done"));
    assert_eq!(pending(&follow(&writer.entries)), ["\"b\"", "a"], "the first of two is answered first");
    writer.append(
        Kind::Turn,
        Content::Turn(Turn::new(TurnState::CallAwaitingApproval, Some(CallAt { entry: asking, block: 3 }))),
    );
    let state = follow(&writer.entries);
    assert_eq!(state.pending_calls().map(|call| call.awaits_approval).collect::<Vec<_>>(), [false, true]);
    assert!(state.pending_calls().all(|call| state.waits_for(call)));
    writer.message(Message::user("never mind"));
    let state = follow(&writer.entries);
    assert!(state.pending_calls().all(|call| !state.waits_for(call)));
    writer.turn(TurnState::Started, None);
    assert_eq!(pending(&follow(&writer.entries)), [""; 0], "a request was sent");
    writer.message(Message::assistant("so"));
    writer.turn(TurnState::Interrupted, None);
    let state = follow(&writer.entries);
    assert_eq!((state.last_word(), state.is_interrupted()), (Some(LastWord::Answer), true));
    assert_eq!(state.to_text(), PathState::of(&Tree::new(&writer.entries)).to_text());
}

/// If the open calls are not enough, the state says that it is lost, and can be computed from all entries.
#[test]
fn a_state_that_is_lost_says_so() {
    type Change = dyn Fn(&mut Writer, EntryId);
    let ambiguous: [&Change; 4] = [
        &|writer, asking| writer.close(asking, Decision::Rerun),
        &|writer, _| {
            writer.message(calling([String::from("stray")]));
        },
        &|writer, asking| {
            let compacted = Compacted::new("s", Some(asking));
            writer.append(Kind::Compacted, Content::Compacted(compacted));
        },
        &|writer, _| writer.entries.push(Writer::new().entries.remove(0)),
    ];
    for change in ambiguous {
        let mut writer = Writer::new();
        let asking = writer.message(calling([String::from("a")]));
        writer.message(Message::tool("a", "done"));
        writer.message(Message::tool("stray", "who asked?"));
        assert!(!follow(&writer.entries).is_lost());
        change(&mut writer, asking);
        let state = follow(&writer.entries);
        assert!(state.is_lost() && state.to_text().is_empty());
        assert!(!PathState::of(&Tree::new(&writer.entries)).is_lost());
    }
    for text in ["", "no", "[]", "[1,2,3,4,5,6]", "{}"] {
        assert!(PathState::from_text(text).is_lost(), "{text}");
    }
}

/// 100,000 calls of one message are answered one by one. Looking at every open call for each result would take minutes.
#[test]
fn results_find_their_calls_without_looking_at_the_others() {
    let began = std::time::Instant::now();
    let mut writer = Writer::new();
    writer.message(calling((0..100_000).map(|number| format!("call_{number}"))));
    for number in 0..99_999 {
        writer.message(Message::tool(format!("call_{number}"), "done"));
    }
    let mut state = PathState::default();
    writer.entries.iter().for_each(|entry| state.add(entry, &Content::of(entry)));
    assert_eq!(pending(&state), ["call_99999"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}
