//! Who answers whom where calls and results need no ids.
//!
//! Ids, where both sides have them, pair as everywhere. A result without one answers the first open call of its name in
//! the newest content with calls; one that names no tool of that content answers by position. The API asks for unique ids
//! within a turn only: an id that comes up again in a later turn is another one in the record.

use std::collections::{HashMap, VecDeque};

use rejoin_record::{Block, BlockKind, CallId, hash::short_name};

/// A call of the newest content that has calls.
struct Open {
    id: CallId,
    /// Whether the source gave the id.
    given: bool,
    answered: bool,
}

/// What was called so far.
pub(super) struct Pairing {
    /// Makes the ids of one list, or of one response, differ from those of another.
    seed: String,
    /// User contents so far that are more than results: each begins a turn.
    turn: usize,
    /// Ids of the source: the turn of their newest call, and the id that it has in the record.
    ids: HashMap<String, (usize, CallId)>,
    batch: Vec<Open>,
    /// Places of the batch's calls by name; `answered` ones leave the front.
    by_name: HashMap<String, VecDeque<usize>>,
    /// The last call of each name that was answered.
    last: HashMap<String, CallId>,
    /// Places of the batch's calls that have ids of the source.
    by_id: HashMap<CallId, VecDeque<usize>>,
    next_open: usize,
}

impl Pairing {
    pub(super) fn new(seed: String) -> Self {
        Self {
            seed,
            turn: 0,
            ids: HashMap::new(),
            batch: Vec::new(),
            by_name: HashMap::new(),
            last: HashMap::new(),
            by_id: HashMap::new(),
            next_open: 0,
        }
    }

    /// A person speaks: what was called before belongs to another turn.
    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Gives the calls and results of the `index`-th content their ids.
    pub(super) fn assign(&mut self, blocks: &mut [Block], index: usize) {
        if blocks.iter().any(|block| block.as_call().is_some()) {
            self.batch.clear();
            self.by_name.clear();
            self.last.clear();
            self.by_id.clear();
            self.next_open = 0;
            self.calls(blocks, index);
        }
        // Ids first, then names, then places: so a result that names nobody takes no other one's call.
        let mut named: Vec<usize> = Vec::new();
        let mut nameless: Vec<usize> = Vec::new();
        for (place, block) in blocks.iter_mut().enumerate() {
            let BlockKind::ToolResult(result) = &mut block.kind else { continue };
            match result.call_id.as_ref().and_then(|id| self.ids.get(id.as_str())) {
                Some((_, id)) => {
                    let id = id.clone();
                    self.answer_id(&id);
                    result.call_id = Some(id);
                }
                None => named.push(place),
            }
        }
        for place in named {
            let BlockKind::ToolResult(result) = &mut blocks[place].kind else { continue };
            let name = result.name.as_deref().unwrap_or_default();
            if self.by_name.contains_key(name) {
                let unknown = result.call_id.is_some();
                if let Some(id) = self.answer_name(name, unknown) {
                    result.call_id = Some(id);
                }
            } else if result.call_id.is_none() {
                nameless.push(place);
            }
        }
        for place in nameless {
            if let BlockKind::ToolResult(result) = &mut blocks[place].kind {
                result.call_id = self.answer_next();
            }
        }
    }

    fn calls(&mut self, blocks: &mut [Block], index: usize) {
        let mut assigned = 0;
        for block in blocks {
            let BlockKind::ToolCall(call) = &mut block.kind else { continue };
            let given = call.id_given;
            let own = |what: &str| {
                CallId::from(format!("call_{}", short_name(&format!("{} {index} {what}", self.seed), 16)))
            };
            if given {
                let turn = self.turn;
                let id = match self.ids.get(call.id.as_str()) {
                    None => call.id.clone(),
                    // Within one turn it is the same id twice, and that is not for a reader to mend.
                    Some((used, id)) if *used == turn => id.clone(),
                    Some(_) => own(call.id.as_str()),
                };
                let written = std::mem::replace(&mut call.id, id.clone());
                self.ids.insert(written.to_string(), (turn, id));
            } else {
                // Nobody else's id looks like this, and the same file gives the same one. It lacks nothing: ids are optional.
                call.id = own(&format!("{assigned} {} {}", call.name, call.arguments.text()));
                call.id_given = true;
                assigned += 1;
            }
            let place = self.batch.len();
            self.by_name.entry(call.name.to_string()).or_default().push_back(place);
            self.by_id.entry(call.id.clone()).or_default().push_back(place);
            self.batch.push(Open { id: call.id.clone(), given, answered: false });
        }
    }

    fn answer_id(&mut self, id: &CallId) {
        if let Some(place) = self.by_id.get_mut(id).and_then(VecDeque::pop_front) {
            self.batch[place].answered = true;
        }
    }

    /// The first open call of a name; if all are answered, the last of them: then it is a second result. A result with an id
    /// that nobody has answers only a call that has none.
    fn answer_name(&mut self, name: &str, unknown_id: bool) -> Option<CallId> {
        let queue = self.by_name.get_mut(name)?;
        while queue.front().is_some_and(|place| self.batch[*place].answered) {
            let done = queue.pop_front()?;
            self.last.insert(name.to_owned(), self.batch[done].id.clone());
        }
        match queue.front().copied() {
            Some(place) if unknown_id && self.batch[place].given => None,
            Some(place) => {
                queue.pop_front();
                let open = &mut self.batch[place];
                open.answered = true;
                self.last.insert(name.to_owned(), open.id.clone());
                Some(open.id.clone())
            }
            None if unknown_id => None,
            None => self.last.get(name).cloned(),
        }
    }

    fn answer_next(&mut self) -> Option<CallId> {
        let place = (self.next_open..self.batch.len()).find(|place| !self.batch[*place].answered)?;
        self.next_open = place + 1;
        self.batch[place].answered = true;
        Some(self.batch[place].id.clone())
    }
}
