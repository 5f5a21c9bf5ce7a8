//! The tool calls of a conversation for an audit: status, times, and a keyed hash in place of the arguments.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use rejoin_record::{
    Arguments, ArgumentsClass, Block, BlockKind, Content, Entry, EntryId, Kind, Message, ToolResult, Tree,
    content::TurnState,
    json::{self, Doc, Value, write},
};
use rejoin_view::{Pairing, Tie, path::Walk};
use sha2::Sha256;

use crate::{digest::time_of, reading::Recorded};

/// The secret key of the hashes of arguments. Without it, short arguments could be guessed.
#[derive(Clone)]
pub struct CallKey(pub [u8; 32]);

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// The model asked for it, and it has no result.
    Requested,
    /// Its result is no error.
    Completed,
    /// Its result is an error.
    Failed,
}

impl CallStatus {
    /// The name of the status, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The entry of the message that asks for the call. Ids of calls may repeat in a conversation; together with this one,
    /// `call_id` names a call.
    pub request: EntryId,
    /// The call's id.
    pub call_id: String,
    /// Whether it has a result, and of which kind.
    pub status: CallStatus,
    /// When the call began to run, where that is recorded; else when it was asked for. None if the source of an imported
    /// conversation has no times.
    pub started: Option<Timestamp>,
    /// When the result arrived.
    pub ended: Option<Timestamp>,
    /// The tool's name.
    pub tool: String,
    /// The keyed hash of the arguments in canonical form, in hexadecimal: see [`CallKey::hash`]. An audit shows it in the place
    /// of the arguments.
    pub args_sha256: String,
    /// The arguments as they were sent.
    pub arguments: String,
    /// The text of the result of a call that failed.
    pub error: Option<String>,
    /// The text of the result of a call that was completed.
    pub outcome: Option<String>,
}

impl CallRecord {
    /// The time from start to end, in milliseconds.
    pub fn latency_ms(&self) -> Option<i64> {
        Some((self.ended?.as_millisecond() - self.started?.as_millisecond()).max(0))
    }

    /// Takes in a result. The first one counts, unless it is an error and a later one is not.
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
        self.ended = at;
    }
}

impl CallKey {
    /// HMAC-SHA-256 of arguments in canonical form: object keys sorted, no white space between values, only necessary escapes in
    /// strings, numbers as they were written. Arguments that are no JSON are hashed as they are.
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

/// Arguments that count as JSON are not nested deeper than the limit, so the recursion ends soon.
fn canonical_value(out: &mut String, value: Value<'_>) {
    match value.kind() {
        json::Kind::Object => {
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
        json::Kind::Array => {
            json::write::list(out, value.items(), canonical_value);
        }
        json::Kind::String if !value.has_lone_surrogate() => {
            write::string(out, &value.as_str().unwrap_or_default());
        }
        _ => out.push_str(value.raw()),
    }
}

/// The calls of a conversation, on all branches, in order. A call that is asked for twice in one message is two calls, even
/// under one id. [`Pairing`] decides which result answers which call, along the path of the result.
pub fn calls(recorded: &Recorded, key: &CallKey) -> Vec<CallRecord> {
    let tree = Tree::new(&recorded.entries);
    let mut audit = Audit::default();
    for entry in tree.in_order() {
        match Content::of(entry) {
            Content::Message(message) => audit.message(entry, Arc::new(message), key),
            Content::Turn(turn) => {
                audit.new.insert(entry.id());
                let started = turn.call.filter(|_| turn.state == TurnState::CallRunning);
                if let Some(&place) = started.and_then(|call| audit.places.get(&(call.entry, call.block))) {
                    audit.calls[place].started = time_of(entry);
                }
            }
            Content::Closed(_) | Content::Compacted(_) => {
                audit.new.insert(entry.id());
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

/// The message that holds a result, and its time.
type TimedResult = (Arc<Message>, Option<Timestamp>);

#[derive(Default)]
struct Audit {
    calls: Vec<CallRecord>,
    /// The record of each call, by the entry of its message and its block.
    places: HashMap<(EntryId, u64), usize>,
    messages: HashMap<EntryId, Arc<Message>>,
    /// Entries that may change the pairing and were not on a path yet: calls, results, requests and decisions.
    new: HashSet<EntryId>,
    /// The results of each call, in order: those that answer it first, then those that came before it or after an answer. The
    /// key is the call's place, whether it is one of the others, the `seq` of the result's entry and its block.
    results: BTreeMap<(usize, bool, u64, usize), TimedResult>,
}

impl Audit {
    fn message(&mut self, entry: &Entry, message: Arc<Message>, key: &CallKey) {
        for (block, content) in message.blocks.iter().enumerate() {
            let BlockKind::ToolCall(call) = &content.kind else { continue };
            self.places.insert((entry.id(), block as u64), self.calls.len());
            self.calls.push(CallRecord {
                request: entry.id(),
                call_id: call.id.to_string(),
                tool: call.name.to_string(),
                status: CallStatus::Requested,
                started: time_of(entry),
                ended: None,
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

    /// Pairs the results on the path to an entry, unless other paths showed everything that matters on it.
    fn answer_along(&mut self, tree: &Tree<'_>, end: &Entry) {
        let path = tree.path_to(end).0;
        if !path.iter().any(|entry| self.new.contains(&entry.id())) {
            return;
        }
        let mut walk = Walk::begin(tree, &path);
        // A call that was decided about here may have its result on a path without the decision.
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
        // What a compaction hides is seen on the path that ends before it.
        if !walk.is_compacted() {
            let seen = path.iter().map(|entry| entry.id()).filter(|entry| !decided.contains(entry));
            seen.for_each(|entry| _ = self.new.remove(&entry));
        }
        let (history, entries) = walk.into_history();
        for result in Pairing::of(&history).paired() {
            let call =
                result.call.and_then(|call| self.places.get(&(entries[call.message], call.block as u64)));
            let entry = tree.get(entries[result.at.message]);
            // The history has a note in the place of a result that was pruned; the record has the result.
            let message = self.messages.get(&entries[result.at.message]);
            if let (Some(&call), Some(entry), Some(message)) = (call, entry, message) {
                let key = (call, result.tie != Tie::Answer, entry.envelope().seq, result.at.block);
                self.results.insert(key, (Arc::clone(message), time_of(entry)));
            }
        }
    }

    fn finish(self) -> Vec<CallRecord> {
        let mut calls = self.calls;
        for ((call, _, _, block), (message, time)) in self.results {
            if let Some(result) = message.blocks[block].as_result() {
                calls[call].answer(result, time);
            }
        }
        calls
    }
}
