//! Assigning ids to calls and results that have none.
//!
//! A result without an id gets one by the name of its tool; if the newest content with calls has no such tool, by position. The
//! API demands unique ids only within a turn: an id that is reused in a later turn becomes another one in the record.

use std::collections::HashMap;

use rejoin_record::{Block, BlockKind, CallId, hash::short_name};

use crate::unused_ids::UnusedIds;

pub(super) struct CallIds {
    /// Makes the ids of one list, or of one response, differ from those of another.
    seed: String,
    /// The number of turns so far: each user content that is more than results begins one.
    pub(super) turn: usize,
    /// Ids of the source, with the turn of their newest call and its id in the record.
    ids: HashMap<String, (usize, CallId)>,
    /// The unused ids of the newest content with calls.
    unused: UnusedIds,
}

impl CallIds {
    pub(super) fn new(seed: String) -> Self {
        Self { seed, turn: 0, ids: HashMap::new(), unused: UnusedIds::default() }
    }

    /// Gives the calls and results of the `index`-th content their ids.
    pub(super) fn assign(&mut self, blocks: &mut [Block], index: usize) {
        if blocks.iter().any(|block| block.as_call().is_some()) {
            self.unused = UnusedIds::default();
            self.calls(blocks, index);
        }
        // Ids first, then names, then positions, so that a nameless result takes no id that another one needs.
        let mut named: Vec<usize> = Vec::new();
        let mut nameless: Vec<usize> = Vec::new();
        for (place, block) in blocks.iter_mut().enumerate() {
            let BlockKind::ToolResult(result) = &mut block.kind else { continue };
            match result.call_id.as_ref().and_then(|id| self.ids.get(id.as_str())) {
                Some((_, id)) => {
                    self.unused.use_id(id);
                    result.call_id = Some(id.clone());
                }
                None => named.push(place),
            }
        }
        for place in named {
            let BlockKind::ToolResult(result) = &mut blocks[place].kind else { continue };
            let name = result.name.as_deref().unwrap_or_default();
            if self.unused.has_name(name) {
                // An unknown id belongs to a call without one.
                let is_unknown = result.call_id.is_some();
                let next = self.unused.next_named(name, is_unknown);
                let id = next.or_else(|| self.unused.last_named(name).filter(|_| !is_unknown));
                result.call_id = id.or(result.call_id.take());
            } else if result.call_id.is_none() {
                nameless.push(place);
            }
        }
        for place in nameless {
            if let BlockKind::ToolResult(result) = &mut blocks[place].kind {
                result.call_id = self.unused.next();
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
                    // Within one turn, the id is used twice, which the reader does not repair.
                    Some((used, id)) if *used == turn => id.clone(),
                    Some(_) => own(call.id.as_str()),
                };
                let written = std::mem::replace(&mut call.id, id.clone());
                self.ids.insert(written.to_string(), (turn, id));
            } else {
                // The same file always gives the same id. Ids are optional, so nothing is missing.
                call.id = own(&format!("{assigned} {} {}", call.name, call.arguments.text()));
                call.id_given = true;
                assigned += 1;
            }
            self.unused.add(&call.name, &call.id, given);
        }
    }
}
