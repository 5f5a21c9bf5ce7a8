//! Everything that decides which calls are answered agrees with the pairing in `view`: the list, the audit of calls, resuming and
//! `check`, on both stores, at every step of any history.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use std::{collections::BTreeSet, io::Write as _, sync::Arc};

use proptest::prelude::*;
use rejoin::{
    Access, Block, Conversation, ConversationId, Input, Location, Message, Mode, OnBroken, Role, Rule,
    ScriptedProvider, Store, SystemClock, Timestamp, ToolCall, ToolResult, Tools, TurnSettings, Worker,
    Writer, check,
    engine::{CallKey, CallStatus, calls::calls, provider::Endpoint, read},
    history, open_store,
    record::{
        Chain, Content, Entry, EntryId, Kind, Salt, Tail, Tree,
        chain::Stamp,
        content::{
            Branch, CallAt, Closed, ClosedCall, Compacted, Decision, Erased, KeptMessage, Meta, Metadata,
            Prune, ShortenedResult, Turn, TurnState, Uncompacted,
        },
        verify::verify,
    },
    resume::Resumption,
    sessions::{self, FORMATS, FileContent, Format, Writing},
    store::{
        Query,
        SessionState::{Interrupted, WaitingForApproval, WaitingForTools},
    },
    view::{
        Finding, Pairing,
        path::{Walk, path},
    },
};

/// A call: the entry of its message, and its block.
type Called = (EntryId, u64);

/// The next entries to append. Numbers are taken modulo the number of choices, so that every list of steps makes sense.
#[derive(Debug, Clone)]
enum Step {
    User,
    Instructions,
    Answer,
    /// Calls with these ids in one message.
    Calls(Vec<u8>),
    /// Results in one message; `None` is a result without an id.
    Results(Vec<Option<u8>>),
    /// A result, and after it a call with the same id in one message.
    Both(u8),
    /// A decision about a call, answered or not.
    Closed(usize, Decision),
    Turn(TurnState, usize),
    /// The head moves to an earlier entry.
    Branch(usize),
    /// A compaction, from an entry on, with older ones that stay.
    Compacted(Option<usize>, Vec<usize>),
    /// A compaction is undone.
    Uncompacted(usize),
    /// A message's results become tombstones.
    Prune(Vec<usize>),
    Pinned(Vec<usize>),
    /// An entry's content is erased.
    Erased(usize),
    /// A format's version of it is imported as another conversation, which then continues.
    Imported(usize),
    /// The process ends in the middle of a write.
    Crashed(usize),
}

/// Few ids, so that they are used again and again.
fn id() -> impl Strategy<Value = u8> {
    0..3_u8
}

fn step() -> impl Strategy<Value = Step> {
    let decision = prop_oneof![Just(Decision::LeftOut), Just(Decision::Interrupted), Just(Decision::Rerun)];
    let turn = prop_oneof![
        Just(TurnState::Started),
        Just(TurnState::CallRunning),
        Just(TurnState::CallAwaitingApproval),
        Just(TurnState::Interrupted),
        Just(TurnState::Ended),
    ];
    prop_oneof![
        2 => Just(Step::User),
        1 => Just(Step::Instructions),
        2 => Just(Step::Answer),
        6 => prop::collection::vec(id(), 1..4).prop_map(Step::Calls),
        6 => prop::collection::vec(prop::option::weighted(0.9, id()), 1..3).prop_map(Step::Results),
        1 => id().prop_map(Step::Both),
        2 => (any::<usize>(), decision).prop_map(|(call, decision)| Step::Closed(call, decision)),
        3 => (turn, any::<usize>()).prop_map(|(state, call)| Step::Turn(state, call)),
        2 => any::<usize>().prop_map(Step::Branch),
        1 => (prop::option::of(any::<usize>()), prop::collection::vec(any::<usize>(), 0..3))
            .prop_map(|(from, kept)| Step::Compacted(from, kept)),
        1 => any::<usize>().prop_map(Step::Uncompacted),
        1 => prop::collection::vec(any::<usize>(), 1..3).prop_map(Step::Prune),
        1 => prop::collection::vec(any::<usize>(), 0..3).prop_map(Step::Pinned),
        2 => any::<usize>().prop_map(Step::Erased),
        1 => any::<usize>().prop_map(Step::Imported),
        1 => any::<usize>().prop_map(Step::Crashed),
    ]
}

fn call(id: u8) -> ToolCall {
    ToolCall::new(format!("call_{id}"), "run", "{}")
}

fn result(id: Option<u8>) -> Block {
    let call_id = id.map(|id| format!("call_{id}").into());
    Block::result(ToolResult { call_id, ..ToolResult::new("", "done") })
}

/// A history in the making.
struct Talk {
    id: ConversationId,
    entries: Vec<Entry>,
    /// How many entries there are in the store.
    stored: usize,
    /// How many entries there ever were: no id is used twice.
    made: u64,
}

impl Talk {
    fn new() -> Self {
        let id = ConversationId::from_random(1);
        let mut talk = Self { id, entries: Vec::new(), stored: 0, made: 0 };
        let metadata =
            Metadata { conversation: id, provider: None, model: None, directory: None, format: None };
        talk.append(None, Kind::Header, &Content::Header(metadata));
        talk
    }

    fn append(&mut self, under: Option<usize>, kind: Kind, content: &Content) {
        let entry = self.next(under, kind, content);
        self.entries.push(entry);
    }

    fn next(&mut self, under: Option<usize>, kind: Kind, content: &Content) -> Entry {
        self.made += 1;
        let number = self.made;
        let mut random = [0; 10];
        random[..8].copy_from_slice(&number.to_be_bytes());
        let stamp = Stamp {
            id: EntryId::new(number, random),
            timestamp: Timestamp::from_second(1_800_000_000 + number as i64).unwrap(),
            salt: Salt([1; 16]),
            source_time: None,
        };
        let mut chain = Chain::at(self.entries.last().map(Tail::of));
        match under.map(|under| &self.entries[under]) {
            Some(under) => chain.append_under(Some((under.id(), under.hash())), kind, content, stamp),
            None => chain.append(kind, content, stamp),
        }
    }

    /// The calls that were not erased, in order.
    fn calls(&self) -> Vec<Called> {
        let calls = |entry: &Entry| match Content::of(entry) {
            Content::Message(message) => {
                let blocks = message.blocks.iter().enumerate().filter(|(_, block)| block.as_call().is_some());
                blocks.map(|(block, _)| (entry.id(), block as u64)).collect()
            }
            _ => Vec::new(),
        };
        self.entries.iter().flat_map(calls).collect()
    }

    fn say(&mut self, role: Role, blocks: Vec<Block>) {
        self.append(None, Kind::Message, &Content::Message(Message::new(role, blocks)));
    }

    fn take(&mut self, step: Step, place: &mut Place) {
        let calls = self.calls();
        let any_call = |number: usize| (!calls.is_empty()).then(|| calls[number % calls.len()]);
        match step {
            Step::User => self.say(Role::User, vec![Block::text("go")]),
            Step::Instructions => self.say(Role::System, vec![Block::text("be kind")]),
            Step::Answer => self.say(Role::Assistant, vec![Block::text("so")]),
            Step::Calls(ids) => {
                self.say(Role::Assistant, ids.into_iter().map(|id| Block::call(call(id))).collect());
            }
            Step::Results(ids) => self.say(Role::Tool, ids.into_iter().map(result).collect()),
            Step::Both(id) => self.say(Role::Assistant, vec![result(Some(id)), Block::call(call(id))]),
            Step::Closed(number, decision) => {
                let Some((entry, block)) = any_call(number) else { return };
                let closed = Closed { calls: vec![ClosedCall { entry, block, decision }] };
                self.append(None, Kind::Closed, &Content::Closed(closed));
            }
            Step::Turn(state, number) => {
                let call = any_call(number).map(|(entry, block)| CallAt { entry, block });
                self.append(None, Kind::Turn, &Content::Turn(Turn::new(state, call)));
            }
            Step::Branch(to) => {
                let to = to % self.entries.len();
                self.append(Some(to), Kind::Branch, &Content::Branch(Branch { reason: None }));
            }
            Step::Compacted(keep, kept) => {
                let keep_from = keep.map(|keep| self.any(keep));
                let kept = kept.into_iter().map(|kept| {
                    let text = (kept % 2 == 1).then(|| "shorter".into());
                    KeptMessage { entry: self.any(kept), text }
                });
                let kept = Some(kept.collect::<Vec<_>>()).filter(|kept| !kept.is_empty());
                let compacted = Compacted { kept, ..Compacted::new("before", keep_from) };
                self.append(None, Kind::Compacted, &Content::Compacted(compacted));
            }
            Step::Uncompacted(which) => {
                let compactions =
                    self.entries.iter().filter(|entry| entry.envelope().kind == Kind::Compacted);
                let compactions: Vec<EntryId> = compactions.map(Entry::id).collect();
                let Some(compaction) = compactions.get(which % compactions.len().max(1)) else { return };
                let undone = Uncompacted { compaction: *compaction };
                self.append(None, Kind::Uncompacted, &Content::Uncompacted(undone));
            }
            Step::Prune(which) => {
                let shortened = which.iter().filter(|which| which.is_multiple_of(2)).map(|which| {
                    let entry = self.any(*which / 2);
                    ShortenedResult { entry, block: 0, shown: (which % 20) as u64 }
                });
                let shortened = Some(shortened.collect::<Vec<_>>()).filter(|shortened| !shortened.is_empty());
                let results = which.iter().map(|which| CallAt { entry: self.any(*which), block: 0 });
                let prune = Prune { results: results.collect(), shortened };
                self.append(None, Kind::Prune, &Content::Prune(prune));
            }
            Step::Pinned(which) => {
                let pinned = Some(which.into_iter().map(|which| self.any(which)).collect());
                self.append(None, Kind::Meta, &Content::Meta(Meta { pinned, ..Meta::default() }));
            }
            Step::Erased(which) => self.erase(which, place),
            Step::Imported(which) => self.export_and_import(which, place),
            Step::Crashed(left) => place.crash(self, left),
        }
    }

    /// Stores the new entries.
    fn save(&mut self, place: &mut Place) {
        let tail = place.store().tail(self.id).unwrap();
        place.store().append(self.id, tail, &self.entries[self.stored..]).unwrap();
        self.stored = self.entries.len();
    }

    /// Erases an entry that is stored.
    fn erase(&mut self, which: usize, place: &mut Place) {
        let which = which % self.stored;
        let entry = self.entries[which].id();
        let note = Content::Erased(Erased { entry, reason: None });
        let note = self.next(None, Kind::Erased, &note);
        let tail = place.store().tail(self.id).unwrap().unwrap();
        place.store().erase(self.id, tail, entry, &note).unwrap();
        self.entries[which] = self.entries[which].erased();
        self.entries.push(note);
        self.stored = self.entries.len();
    }

    /// Writes the conversation in a format and imports the result. Does nothing if there is nothing to import.
    fn export_and_import(&mut self, which: usize, place: &mut Place) {
        let is_foreign =
            |format: &&Format| format.read.as_ref().is_some_and(|read| !read.own) && format.write.is_some();
        let formats: Vec<&'static Format> = FORMATS.iter().filter(is_foreign).collect();
        let format = formats[which % formats.len()];
        let store = place.store();
        let session = read(&**store, self.id, Mode::Recover).unwrap().session;
        let writing = Writing { model: Some("m"), now: Timestamp::UNIX_EPOCH, directory: "/" };
        let written = sessions::write(&session, format, OnBroken::Keep, &writing).unwrap();
        self.made += 1;
        let name = format!("exported {}", self.made);
        let found = match &written.content {
            FileContent::Text(text) => {
                sessions::read(&Input::new(name, text.as_bytes()).unwrap(), Some(format))
            }
            FileContent::Rows(rows) => {
                sessions::read_database(&rows.to_database(&name).unwrap(), Some(format))
            }
        };
        let Some(session) = found.ok().and_then(|mut found| found.pop()) else { return };
        let writer = Writer { store: &**store, clock: &SystemClock, command: "test" };
        writer.import(&session).unwrap();
        assert_eq!(writer.import(&session).unwrap().added, 0, "importing twice adds nothing");
        self.id = session.id;
        self.entries = read(&**store, self.id, Mode::Recover).unwrap().entries;
        self.stored = self.entries.len();
    }

    fn any(&self, number: usize) -> EntryId {
        self.entries[number % self.entries.len()].id()
    }

    /// Following the path entry by entry, and starting again if necessary, gives the same messages.
    fn follow(&self) {
        let tree = Tree::new(&self.entries);
        let whole = rejoin::view::path::path(&tree);
        let walk = Walk::entry_by_entry(&tree);
        assert!(!walk.is_stale());
        assert_eq!(walk.messages(), whole.history.messages());
        assert_eq!(walk.entries(), whole.entries);
        let fates = |history: &rejoin::History| history.known().to_vec();
        let (history, _) = walk.into_history();
        assert_eq!(fates(&history), fates(&whole.history));
        assert_eq!(history.sent(), whole.history.sent());
    }

    /// The pairing of `view` for the path to an entry: the open calls, and those with a result.
    fn paired(&self, head: Option<&Entry>) -> (Vec<Called>, BTreeSet<Called>) {
        let on_path: Vec<&Entry> = {
            let tree = Tree::new(&self.entries);
            tree.path_to(head.or(tree.head()).unwrap()).0
        };
        let path = path(&Tree::new(on_path));
        let pairing = Pairing::of(&path.history);
        let place = |at: rejoin::view::BlockAt| (path.entries[at.message], at.block as u64);
        let answered = pairing.paired().filter_map(|result| result.call).map(place).collect();
        (pairing.open_calls().map(place).collect(), answered)
    }

    /// The calls that have a result on any path: to an entry that nothing follows, or that a compaction hides.
    fn answered_anywhere(&self) -> BTreeSet<(EntryId, u64)> {
        let is_end = |end: &&Entry| {
            let mut followers = self.entries.iter().filter(|entry| entry.envelope().parent == Some(end.id()));
            followers.all(|entry| entry.envelope().kind == Kind::Compacted)
        };
        self.entries.iter().filter(is_end).flat_map(|end| self.paired(Some(end)).1).collect()
    }

    /// Whether a stop is the last thing that happened on the path.
    fn was_stopped(&self) -> bool {
        let tree = Tree::new(&self.entries);
        let last = tree.path().0.into_iter().rev().find_map(|entry| match Content::of(entry) {
            Content::Turn(turn) => Some(turn.state == TurnState::Interrupted),
            Content::Message(_) | Content::Closed(_) | Content::Compacted(_) => Some(false),
            _ => None,
        });
        let said = |entry: &&Entry| matches!(Content::of(entry), Content::Message(message) if message.role != Role::System);
        last == Some(true) && tree.path().0.iter().any(said)
    }

    fn check(&self, store: &Arc<dyn Store>) {
        let (open, _) = self.paired(None);
        let name = store.location().to_string();

        // The list.
        let listed = store.list(&Query::default()).unwrap().conversations;
        let listed = listed.into_iter().find(|listed| listed.id == self.id).unwrap().state;
        let waits = matches!(listed, Interrupted | WaitingForTools | WaitingForApproval);
        assert_eq!(waits, !open.is_empty() || self.was_stopped(), "{name} lists {listed}: {open:?}");

        // The audit.
        let recorded = read(&**store, self.id, Mode::Recover).unwrap();
        let audited = calls(&recorded, &CallKey([7; 32]));
        let calls = self.calls();
        assert_eq!(audited.len(), calls.len(), "{name}");
        let answered = self.answered_anywhere();
        for (call, place) in audited.iter().zip(&calls) {
            let is_answered = call.is_answered();
            assert_eq!((call.request, is_answered), (place.0, answered.contains(place)), "{name}: {place:?}");
            let has_ended = matches!(call.status, CallStatus::Completed | CallStatus::Failed);
            assert!(is_answered || !has_ended, "{name}: {call:?}");
            assert!(!is_answered || has_ended || call.status == CallStatus::Interrupted, "{name}: {call:?}");
        }

        // Resuming.
        let conversation =
            Conversation::open_read_only(Arc::clone(store), Arc::new(SystemClock), self.id).unwrap();
        let provider = Arc::new(ScriptedProvider::new([rejoin::Step::says("so")]));
        let mut worker = Worker::new(conversation, provider, Tools::default(), TurnSettings::default());
        let unanswered: Vec<_> = worker.unanswered().iter().map(|at| (at.entry, at.block)).collect();
        assert_eq!(unanswered, open, "{name}");
        let resumed = Resumption::of(&mut worker, Some(&**store));
        let json = resumed.to_json(&Endpoint::default());
        let count = format!("\"unanswered_calls\":{},", open.len());
        assert!(json.contains(&count), "{name}: {json}");
        assert_eq!((resumed.calls.len(), resumed.state), (open.len(), listed), "{name}");

        // The check, call by call.
        let mut session = recorded.session.clone();
        history::renumber(&recorded.entries, &mut session);
        let shown = history::shown(&recorded.entries);
        let found = check::history(&session, None).findings;
        let found = found.iter().filter(|finding| match finding.rule {
            Rule::UnansweredCall => finding.is_problem(),
            rule => rule == Rule::AwaitingApproval,
        });
        let called = |finding: &Finding| -> Called {
            (shown[finding.at.message.unwrap()].entry.id(), finding.at.block.unwrap() as u64)
        };
        let mut found: Vec<Called> = found.map(called).collect();
        let in_order = |call: &Called| self.calls().iter().position(|other| other == call);
        found.sort_by_key(in_order);
        let mut expected = open.clone();
        expected.sort_by_key(in_order);
        assert_eq!(found, expected, "{name}");
    }
}

/// A store that can be opened again.
struct Place {
    location: Location,
    store: Option<Arc<dyn Store>>,
}

impl Place {
    fn store(&mut self) -> &Arc<dyn Store> {
        let location = &self.location;
        self.store.get_or_insert_with(|| Arc::from(open_store(location, Access::Write).unwrap()))
    }

    /// Ends without closing anything. In a file of lines, a part of an entry is left that was never acknowledged.
    fn crash(&mut self, talk: &mut Talk, left: usize) {
        self.store = None;
        let Location::Jsonl(folder) = &self.location else { return };
        let torn = talk.next(None, Kind::Message, &Content::Message(Message::user("torn"))).to_line();
        for file in std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path()) {
            if file.file_name().is_some_and(|name| *name == *format!("{}.jsonl", talk.id)) {
                let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
                file.write_all(&torn.as_bytes()[..1 + left % (torn.len() - 1)]).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testkit::law_cases(40).cases, ..ProptestConfig::default() })]

    #[test]
    fn everything_agrees_on_who_answers_whom(steps in prop::collection::vec(step(), 1..14)) {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        for location in
            [Location::Sqlite(folder.path().join("rejoin.db")), Location::Jsonl(folder.path().join("chats"))]
        {
            let mut place = Place { location, store: None };
            let mut talk = Talk::new();
            talk.save(&mut place);
            for step in steps.clone() {
                talk.take(step, &mut place);
                talk.save(&mut place);
                talk.follow();
                talk.check(place.store());
                let recorded = read(&**place.store(), talk.id, Mode::Recover).unwrap();
                assert_eq!(recorded.entries, talk.entries);
                assert_eq!(verify(&recorded.entries), []);
            }
        }
    }
}
