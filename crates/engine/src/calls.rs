//! The tool calls of a conversation as an auditor wants them: status, times, and a keyed hash in place of the arguments.

use std::collections::HashMap;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use rejoin_record::{
    Arguments, ArgumentsClass, Block, BlockKind, Content, Entry, EntryId, ToolCall, ToolResult,
    content::TurnState,
    json::{Doc, Kind, Value, write},
};
use sha2::Sha256;

use crate::{digest::time_of, reading::Recorded};

/// The secret that arguments are hashed with, so that small ones cannot be guessed.
#[derive(Clone)]
pub struct CallKey(pub [u8; 32]);

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    /// Asked for, and no result.
    Requested,
    /// Answered.
    Completed,
    /// Answered with an error.
    Failed,
}

impl CallStatus {
    /// Its name.
    #[must_use]
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
    /// The entry of the message that asks for it: together with `call_id`, what it is known by.
    pub request: EntryId,
    /// The call's id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// How it went.
    pub status: CallStatus,
    /// When it was asked for, or began to run where that is known.
    pub started: Option<Timestamp>,
    /// When its result came.
    pub ended: Option<Timestamp>,
    /// The keyed hash of the arguments in canonical form, in hexadecimal: see [`CallKey::hash`].
    pub args_sha256: String,
    /// The arguments.
    pub arguments: String,
    /// For a failed one, what the result says.
    pub error: Option<String>,
    /// What the result says, for a completed one.
    pub outcome: Option<String>,
}

impl CallRecord {
    /// How long it took, in milliseconds.
    #[must_use]
    pub fn latency_ms(&self) -> Option<i64> {
        Some((self.ended?.as_millisecond() - self.started?.as_millisecond()).max(0))
    }

    /// A result came. The first one counts, unless it failed and a later one did not.
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
    /// HMAC-SHA-256 of arguments in canonical form: object keys sorted, no white space between values, strings escaped only
    /// where they must be, numbers as they were written. Arguments that are no JSON are hashed as they are.
    #[must_use]
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
        Kind::Object => {
            let mut fields: Vec<_> = value.fields().map(|(key, value)| (key.as_str(), value)).collect();
            // Of two with the same name the order stays.
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            out.push('{');
            for (key, value) in fields {
                write::key(out, key.as_deref().unwrap_or_default());
                canonical_value(out, value);
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for (index, item) in value.items().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical_value(out, item);
            }
            out.push(']');
        }
        Kind::String if !value.has_lone_surrogate() => {
            write::string(out, &value.as_str().unwrap_or_default());
        }
        _ => out.push_str(value.raw()),
    }
}

/// How many calls of one id are looked at to find the one that a result answers. More than that on branches that a result
/// does not lie on, and it counts as nobody's.
const LOOK_AT: usize = 64;

/// The calls of a conversation, on all branches, in order. A call is known by the entry of its message and its id, so what
/// is said twice is listed once.
#[must_use]
pub fn calls(recorded: &Recorded, key: &CallKey) -> Vec<CallRecord> {
    let mut audit = Audit::new(&recorded.entries, key);
    for (number, entry) in recorded.entries.iter().enumerate() {
        match Content::of(entry) {
            Content::Message(message) => {
                for (block, call) in message.blocks.iter().enumerate() {
                    match &call.kind {
                        BlockKind::ToolCall(call) => audit.call(number, entry, block, call),
                        BlockKind::ToolResult(result) => audit.result(number, entry, result),
                        _ => {}
                    }
                }
            }
            Content::Turn(turn) if turn.state == TurnState::CallRunning => {
                let call = turn.call.and_then(|call| audit.by_block.get(&(call.entry, call.block)));
                if let Some(&place) = call {
                    audit.calls[place].record.started = time_of(entry);
                }
            }
            _ => {}
        }
    }
    audit.calls.into_iter().map(|call| call.record).collect()
}

struct Audited {
    record: CallRecord,
    /// The number of the entry that asks for it.
    asked: usize,
}

struct Audit<'k> {
    key: &'k CallKey,
    branches: Branches,
    calls: Vec<Audited>,
    by_block: HashMap<(EntryId, u64), usize>,
    known: HashMap<(EntryId, String), usize>,
    /// The calls of an id, and those of them that have no result yet; newest last.
    all: HashMap<String, Vec<usize>>,
    open: HashMap<String, Vec<usize>>,
}

impl<'k> Audit<'k> {
    fn new(entries: &[Entry], key: &'k CallKey) -> Self {
        Self {
            key,
            branches: Branches::of(entries),
            calls: Vec::new(),
            by_block: HashMap::new(),
            known: HashMap::new(),
            all: HashMap::new(),
            open: HashMap::new(),
        }
    }

    fn call(&mut self, number: usize, entry: &Entry, block: usize, call: &ToolCall) {
        let id = call.id.to_string();
        let place = *self.known.entry((entry.id(), id.clone())).or_insert(self.calls.len());
        self.by_block.insert((entry.id(), block as u64), place);
        if place < self.calls.len() {
            return;
        }
        self.all.entry(id.clone()).or_default().push(place);
        self.open.entry(id.clone()).or_default().push(place);
        let record = CallRecord {
            request: entry.id(),
            call_id: id,
            tool: call.name.to_string(),
            status: CallStatus::Requested,
            started: time_of(entry),
            ended: None,
            args_sha256: self.key.hash(&call.arguments),
            arguments: call.arguments.text().to_string(),
            error: None,
            outcome: None,
        };
        self.calls.push(Audited { record, asked: number });
    }

    /// A result answers the newest call of its id before it that has none yet, or else the newest one.
    fn result(&mut self, number: usize, entry: &Entry, result: &ToolResult) {
        let Some(id) = result.call_id.as_ref().map(ToString::to_string) else { return };
        let before = |places: &[usize]| {
            let mut newest = places.iter().enumerate().rev().take(LOOK_AT);
            newest
                .find(|(_, place)| self.branches.is_before(self.calls[**place].asked, number))
                .map(|(index, place)| (index, *place))
        };
        let open = self.open.get(&id).and_then(|open| before(open));
        let place = match open {
            Some((index, place)) => {
                self.open.get_mut(&id).map(|open| open.remove(index));
                Some(place)
            }
            None => self.all.get(&id).and_then(|all| before(all)).map(|(_, place)| place),
        };
        if let Some(place) = place {
            self.calls[place].record.answer(result, time_of(entry));
        }
    }
}

/// Which entries lie on the way to which, by when a walk over the tree enters and leaves them.
struct Branches {
    entered: Vec<usize>,
    left: Vec<usize>,
}

impl Branches {
    fn of(entries: &[Entry]) -> Self {
        let count = entries.len();
        let mut numbers: HashMap<EntryId, usize> = HashMap::with_capacity(count);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut roots = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            let parent = entry.envelope().parent.and_then(|parent| numbers.get(&parent).copied());
            // Where a parent cannot be read, it goes on from the one before.
            let parent = parent.or(number.checked_sub(1).filter(|_| entry.envelope().parent.is_some()));
            match parent {
                Some(parent) => children[parent].push(number),
                None => roots.push(number),
            }
            numbers.entry(entry.id()).or_insert(number);
        }
        let (mut entered, mut left) = (vec![0; count], vec![0; count]);
        let mut clock = 0;
        let mut stack: Vec<(usize, bool)> = roots.into_iter().map(|root| (root, false)).collect();
        while let Some((number, done)) = stack.pop() {
            clock += 1;
            if done {
                left[number] = clock;
                continue;
            }
            entered[number] = clock;
            stack.push((number, true));
            stack.extend(children[number].iter().map(|child| (*child, false)));
        }
        Self { entered, left }
    }

    /// Whether one entry lies on the way to another.
    fn is_before(&self, one: usize, other: usize) -> bool {
        self.entered[one] <= self.entered[other] && self.left[other] <= self.left[one]
    }
}
