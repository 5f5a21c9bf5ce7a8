//! Ids for calls and results that need none.
//!
//! A result without an id gets one by the name of its tool; one that names no tool of the newest content with calls gets one by
//! position. The API asks for unique ids within a turn only: an id that comes up again in a later turn is another one in the
//! record.

use std::collections::HashMap;

use rejoin_record::{Block, BlockKind, CallId, hash::short_name};

use crate::unused_ids::UnusedIds;

/// What was called so far.
pub(super) struct CallIds {
    /// Makes the ids of one list, or of one response, differ from those of another.
    seed: String,
    /// User contents so far that are more than results: each begins a turn.
    turn: usize,
    /// Ids of the source: the turn of their newest call, and the id that it has in the record.
    ids: HashMap<String, (usize, CallId)>,
    /// Those of the newest content that has calls.
    unused: UnusedIds,
}

impl CallIds {
    pub(super) fn new(seed: String) -> Self {
        Self { seed, turn: 0, ids: HashMap::new(), unused: UnusedIds::default() }
    }

    /// A person speaks: what was called before belongs to another turn.
    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Gives the calls and results of the `index`-th content their ids.
    pub(super) fn assign(&mut self, blocks: &mut [Block], index: usize) {
        if blocks.iter().any(|block| block.as_call().is_some()) {
            self.unused = UnusedIds::default();
            self.calls(blocks, index);
        }
        // Ids first, then names, then places: so a result that names nobody takes no other one's id.
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
                // An id that nobody has stands for a call that has none.
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
            self.unused.add(&call.name, &call.id, given);
        }
    }
}
