//! The tool calls of a conversation for an audit: status, times, and a keyed hash in place of the arguments.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use rejoin_record::{
    Arguments, ArgumentsClass, Block, BlockKind, Content, Entry, EntryId, Kind, Message, ToolCall,
    ToolResult, Tree,
    content::{CallAt, ChangeState, Decision, Turn, TurnState},
    json::{self, Doc, Value, write},
};
use rejoin_view::{MatchKind, Pairing, path::Walk};
use sha2::Sha256;

use crate::{digest::time_of, reading::Recorded};

/// The secret key for hashing arguments. Without a key, short arguments could be guessed from their hashes.
#[derive(Clone)]
pub struct CallKey(pub [u8; 32]);

/// The status of a call, as far as the record shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// The model asked for it, but it did not begin to run.
    Requested,
    /// It began to run and has no result yet. The process that ran it may be gone.
    Running,
    /// Its result is no error.
    Completed,
    /// Its result is an error.
    Failed,
    /// It began to run and was stopped, or a later request recorded that it has no result.
    Interrupted,
}

impl CallStatus {
    /// The name of the status, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why a call failed or was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorKind {
    /// A person, a rule or the mode did not allow it.
    Denied,
    /// No tool of that name was offered to the model.
    UnknownTool,
    /// Its arguments are not a JSON object.
    InvalidArguments,
    /// It did not begin to run for another reason: the turn was stopped before, or the tool refused the arguments.
    NotRun,
    /// The turn was stopped while it ran.
    Stopped,
    /// It began to run, and its result was never recorded.
    NoResult,
    /// The tool reported an error. For a call that another program ran, nothing more is known.
    ToolError,
}

impl CallErrorKind {
    /// The name of the kind, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::UnknownTool => "unknown-tool",
            Self::InvalidArguments => "invalid-arguments",
            Self::NotRun => "not-run",
            Self::Stopped => "stopped",
            Self::NoResult => "no-result",
            Self::ToolError => "tool-error",
        }
    }
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The entry of the message that contains the call. `call_id` may repeat in a conversation; both together identify a call.
    pub request: EntryId,
    /// The call's id.
    pub call_id: String,
    /// How far the call got.
    pub status: CallStatus,
    /// Why it failed or was interrupted; `None` if it did not fail.
    pub error_kind: Option<CallErrorKind>,
    /// When it ran.
    pub times: CallTimes,
    /// The tool's name.
    pub tool: String,
    /// The keyed hash of the arguments in canonical form, in hexadecimal: see [`CallKey::hash`]. An audit shows it in place of the
    /// arguments.
    pub args_sha256: String,
    /// The arguments as they were sent.
    pub arguments: String,
    /// The text of the result of a call that failed or was stopped.
    pub error: Option<String>,
    /// The text of the result of a call that was completed.
    pub outcome: Option<String>,
}

impl CallRecord {
    /// Whether it has a result.
    pub fn is_answered(&self) -> bool {
        self.error.is_some() || self.outcome.is_some()
    }

    /// Takes in a result. The first result counts, except that a success replaces an earlier error.
    fn answer(&mut self, result: &ToolResult, at: Option<Timestamp>) {
        let text = || {
            let texts = result.content.iter().filter_map(Block::as_text);
            texts.map(|text| text.as_str()).collect::<Vec<_>>().join("\n")
        };
        match (self.status, result.is_error) {
            (CallStatus::Requested, true) => {
                self.status = CallStatus::Failed;
                self.error = Some(text());
            }
            (CallStatus::Requested | CallStatus::Failed, false) => {
                self.status = CallStatus::Completed;
                self.error = None;
                self.outcome = Some(text());
            }
            _ => return,
        }
        self.times.ended = at;
    }
}

/// When a call ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// When the call began to run, if that is recorded; else when the model asked for it. `None` if the source of an imported
    /// conversation has no times.
    pub started: Option<Timestamp>,
    /// When the result arrived.
    pub ended: Option<Timestamp>,
}

impl CallTimes {
    /// The time from start to end, in milliseconds.
    pub fn latency_ms(self) -> Option<i64> {
        Some((self.ended?.as_millisecond() - self.started?.as_millisecond()).max(0))
    }
}

impl CallKey {
    /// HMAC-SHA-256 of arguments in canonical form: object keys sorted, no white space between values, only necessary escapes in
    /// strings, numbers as they were written. Arguments that are not JSON are hashed unchanged.
    pub fn hash(&self, arguments: &Arguments) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("BUG: any key will do");
        mac.update(canonical(arguments).as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn canonical(arguments: &Arguments) -> String {
    let text = arguments.text().as_str();
    if matches!(arguments.class(), ArgumentsClass::Malformed | ArgumentsClass::Blank) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    if let Some(root) = Doc::parse(text).as_ref().ok().and_then(Doc::root) {
        canonical_value(&mut out, root);
    }
    out
}

/// The recursion is bounded: arguments nested beyond the record's limit do not count as JSON.
fn canonical_value(out: &mut String, value: Value<'_>) {
    match value.kind() {
        json::ValueKind::Object => {
            let mut fields: Vec<_> = value.fields().map(|(key, value)| (key.as_str(), value)).collect();
            // The sort is stable: fields with the same name keep their order.
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (key, value) in fields {
                write::key(out, key.as_deref().unwrap_or_default());
                canonical_value(out, value);
            }
            out.push('}');
        }
        json::ValueKind::Array => {
            json::write::list(out, value.items(), canonical_value);
        }
        json::ValueKind::String if !value.has_lone_surrogate() => {
            write::string(out, &value.as_str().unwrap_or_default());
        }
        _ => out.push_str(value.raw()),
    }
}

/// The calls of a conversation, on all branches, in order. Two calls in one message are two records, even if they share an id.
/// [`Pairing`] decides which result answers which call, along the path of the result.
pub fn calls(recorded: &Recorded, key: &CallKey) -> Vec<CallRecord> {
    paired_calls(&recorded.entries, key).calls
}

/// The calls of entries, and the call of each result.
pub(crate) struct PairedCalls {
    /// The calls, in order.
    pub calls: Vec<CallRecord>,
    /// The call of each result, as an index into `calls`, by the result's entry and block. If branches disagree, the path to the
    /// head decides.
    pub calls_of: HashMap<(EntryId, usize), usize>,
    /// Whether some result answers no call before it. If `entries` are only the end of a conversation, its call may be in an
    /// earlier entry.
    pub lacks_calls: bool,
}

/// Does what [`calls`] does for a list of entries, and also returns the call of each result.
pub(crate) fn paired_calls(entries: &[Entry], key: &CallKey) -> PairedCalls {
    let tree = Tree::new(entries);
    let mut audit = Audit::default();
    for entry in tree.in_order() {
        match Content::of(entry) {
            Content::Message(message) => audit.message(&tree, entry, Arc::new(message), key),
            Content::Turn(turn) => {
                audit.new.insert(entry.id());
                audit.turn(&tree, entry, &turn);
            }
            Content::Closed(closed) => {
                audit.new.insert(entry.id());
                for call in &closed.calls {
                    if let Some(&place) = audit.places.get(&(call.entry, call.block)) {
                        audit.facts[place].decide(call.decision);
                    }
                }
            }
            Content::Compacted(_) => {
                audit.new.insert(entry.id());
            }
            Content::Change(change) if change.state == ChangeState::Denied => {
                if let Some(facts) = audit.facts_of(&change.call) {
                    facts.denied = true;
                }
            }
            Content::Context(context) => {
                let tools = context.tools.as_ref().map(|tools| names(tools.as_str()));
                audit.offered = Some(tools.unwrap_or_default());
            }
            _ => {}
        }
    }
    for end in ends(&tree) {
        audit.answer_along(&tree, end);
    }
    audit.finish()
}

/// The ends of the paths that together show every entry, the head first: entries that nothing follows, and those directly before a
/// compaction, which hides everything before it.
fn ends<'e>(tree: &Tree<'e>) -> Vec<&'e Entry> {
    let followed: HashSet<EntryId> = tree
        .in_order()
        .filter(|entry| entry.envelope().kind != Kind::Compacted)
        .filter_map(|entry| entry.envelope().parent)
        .collect();
    let mut ends: Vec<&Entry> = tree.in_order().filter(|entry| !followed.contains(&entry.id())).collect();
    ends.reverse();
    ends
}

/// The names in a list of tools.
fn names(tools: &str) -> HashSet<String> {
    let doc = Doc::parse(tools);
    let tools = doc.as_ref().ok().and_then(Doc::root).into_iter().flat_map(|root| root.items());
    tools.filter_map(|tool| Some(tool.given("name")?.as_str()?.into_owned())).collect()
}

/// The facts in the record about a call, besides its results.
#[derive(Default)]
struct Facts {
    /// Whether a turn of rejoin asked for it. For other calls the record does not show when they began.
    in_turn: bool,
    /// Whether it began to run.
    has_begun: bool,
    /// Whether the record names it as stopped.
    stopped: bool,
    /// Whether the turn was stopped after it began.
    cut: bool,
    /// Whether a later request recorded that it has no result, or left it out.
    closed: bool,
    denied: bool,
    unknown_tool: bool,
    no_object: bool,
}

impl Facts {
    fn decide(&mut self, decision: Decision) {
        match decision {
            Decision::LeftOut | Decision::Interrupted => self.closed = true,
            Decision::Rerun => {
                *self = Self {
                    stopped: false,
                    cut: false,
                    closed: false,
                    has_begun: false,
                    ..std::mem::take(self)
                };
            }
        }
    }

    /// Sets the final status of a call after its results were taken in.
    fn judge(&self, call: &mut CallRecord) {
        let (status, kind) = match call.status {
            CallStatus::Failed if self.stopped => (CallStatus::Interrupted, Some(CallErrorKind::Stopped)),
            CallStatus::Failed => (CallStatus::Failed, Some(self.failure())),
            CallStatus::Requested if self.stopped || (self.has_begun && self.cut) => {
                (CallStatus::Interrupted, Some(CallErrorKind::Stopped))
            }
            CallStatus::Requested if self.has_begun && self.closed => {
                (CallStatus::Interrupted, Some(CallErrorKind::NoResult))
            }
            CallStatus::Requested if self.has_begun => (CallStatus::Running, None),
            status => (status, None),
        };
        call.status = status;
        call.error_kind = kind;
    }

    fn failure(&self) -> CallErrorKind {
        if self.denied {
            CallErrorKind::Denied
        } else if self.has_begun || !self.in_turn {
            CallErrorKind::ToolError
        } else if self.unknown_tool {
            CallErrorKind::UnknownTool
        } else if self.no_object {
            CallErrorKind::InvalidArguments
        } else {
            CallErrorKind::NotRun
        }
    }
}

/// Whether a message directly follows the entry that records that a request was sent.
fn is_of_turn(tree: &Tree<'_>, message: &Entry) -> bool {
    let mut parent = message.envelope().parent;
    while let Some(entry) = parent.and_then(|id| tree.get(id)) {
        match &entry.envelope().kind {
            Kind::Message => return false,
            Kind::Turn if matches!(Content::of(entry), Content::Turn(turn) if turn.state == TurnState::Started) =>
            {
                return true;
            }
            _ => parent = entry.envelope().parent,
        }
    }
    false
}

/// The message that holds a result, and its time.
type TimedResult = (Arc<Message>, Option<Timestamp>);

#[derive(Default)]
struct Audit {
    calls: Vec<CallRecord>,
    /// The facts about each call, by its index in `calls`.
    facts: Vec<Facts>,
    /// The entries that record that a call began, with their `seq` and the call's index.
    begun: HashMap<EntryId, (u64, usize)>,
    /// The names of the tools that the newest context offers.
    offered: Option<HashSet<String>>,
    /// The index of each call, by the entry of its message and its block.
    places: HashMap<(EntryId, u64), usize>,
    messages: HashMap<EntryId, Arc<Message>>,
    /// Entries that may change the pairing and that no path has shown yet: calls, results, requests and decisions.
    new: HashSet<EntryId>,
    /// The results of each call, in order. The key is the call's index; false for a result that answers it, true for one that came
    /// too early or after an answer; the `seq` of the result's entry; and its block.
    results: BTreeMap<(usize, bool, u64, usize), TimedResult>,
    /// [`PairedCalls::calls_of`].
    calls_of: HashMap<(EntryId, usize), usize>,
    /// [`PairedCalls::lacks_calls`].
    lacks_calls: bool,
}

impl Audit {
    fn message(&mut self, tree: &Tree<'_>, entry: &Entry, message: Arc<Message>, key: &CallKey) {
        for (block, content) in message.blocks.iter().enumerate() {
            let BlockKind::ToolCall(call) = &content.kind else { continue };
            self.places.insert((entry.id(), block as u64), self.calls.len());
            self.facts.push(Facts {
                in_turn: is_of_turn(tree, entry),
                unknown_tool: self.lacks(call),
                no_object: call.arguments.are_no_object(),
                ..Facts::default()
            });
            self.calls.push(CallRecord {
                request: entry.id(),
                call_id: call.id.to_string(),
                tool: call.name.to_string(),
                status: CallStatus::Requested,
                error_kind: None,
                times: CallTimes { started: time_of(entry), ended: None },
                args_sha256: key.hash(&call.arguments),
                arguments: call.arguments.text().to_string(),
                error: None,
                outcome: None,
            });
        }
        if message.blocks.iter().any(|block| block.as_call().is_some() || block.as_result().is_some()) {
            self.new.insert(entry.id());
        }
        self.messages.insert(entry.id(), message);
    }

    fn lacks(&self, call: &ToolCall) -> bool {
        self.offered.as_ref().is_some_and(|offered| !offered.contains(call.name.as_str()))
    }

    fn facts_of(&mut self, call: &CallAt) -> Option<&mut Facts> {
        self.places.get(&(call.entry, call.block)).map(|place| &mut self.facts[*place])
    }

    fn turn(&mut self, tree: &Tree<'_>, entry: &Entry, turn: &Turn) {
        match (turn.state, &turn.call) {
            (TurnState::CallRunning, Some(call)) => {
                if let Some(&place) = self.places.get(&(call.entry, call.block)) {
                    self.calls[place].times.started = time_of(entry);
                    self.facts[place].has_begun = true;
                    self.begun.insert(entry.id(), (entry.envelope().seq, place));
                }
            }
            (TurnState::Interrupted, Some(call)) => {
                if let Some(facts) = self.facts_of(call) {
                    facts.stopped = true;
                }
            }
            (TurnState::Interrupted, None) => {
                // Calls on other branches are not affected.
                let first = self.begun.values().map(|(seq, _)| *seq).min();
                let mut next = Some(entry);
                while let Some(entry) =
                    next.filter(|entry| first.is_some_and(|first| entry.envelope().seq >= first))
                {
                    if let Some((_, place)) = self.begun.remove(&entry.id()) {
                        self.facts[place].cut = !self.facts[place].closed;
                    }
                    next = entry.envelope().parent.and_then(|parent| tree.get(parent));
                }
            }
            _ => {}
        }
    }

    /// Pairs the results on the path to an entry, unless other paths already showed everything on it that matters.
    fn answer_along(&mut self, tree: &Tree<'_>, end: &Entry) {
        let path = tree.path_to(end).0;
        if !path.iter().any(|entry| self.new.contains(&entry.id())) {
            return;
        }
        let mut walk = Walk::begin(tree, &path);
        // A decision on this path closes a call. On a path without that decision, the call may still get its result.
        let mut decided: HashSet<EntryId> = HashSet::new();
        for entry in &path {
            if let Some(message) = self.messages.get(&entry.id()) {
                walk.message(entry.id(), Arc::clone(message));
                continue;
            }
            let content = Content::of(entry);
            if let Content::Closed(closed) = &content {
                decided.extend(closed.calls.iter().map(|call| call.entry));
            }
            walk.add(entry, content);
        }
        // The entries that a compaction hides are visited on the path that ends before it.
        if !walk.is_compacted() {
            let seen = path.iter().map(|entry| entry.id()).filter(|entry| !decided.contains(entry));
            seen.for_each(|entry| _ = self.new.remove(&entry));
        }
        let (history, entries) = walk.into_history();
        for result in Pairing::of(&history).paired() {
            self.lacks_calls |= !matches!(result.kind, MatchKind::Answer | MatchKind::NoId);
            let call =
                result.call.and_then(|call| self.places.get(&(entries[call.message], call.block as u64)));
            let entry = tree.get(entries[result.at.message]);
            // The history has a tombstone in place of a pruned result; take the result itself from the record.
            let message = self.messages.get(&entries[result.at.message]);
            if let (Some(&call), Some(entry), Some(message)) = (call, entry, message) {
                let key = (call, result.kind != MatchKind::Answer, entry.envelope().seq, result.at.block);
                self.results.insert(key, (Arc::clone(message), time_of(entry)));
                self.calls_of.entry((entry.id(), result.at.block)).or_insert(call);
            }
        }
    }

    fn finish(self) -> PairedCalls {
        let mut calls = self.calls;
        for ((call, _, _, block), (message, time)) in self.results {
            if let Some(result) = message.blocks[block].as_result() {
                calls[call].answer(result, time);
            }
        }
        for (call, facts) in calls.iter_mut().zip(&self.facts) {
            facts.judge(call);
        }
        PairedCalls { calls, calls_of: self.calls_of, lacks_calls: self.lacks_calls }
    }
}
