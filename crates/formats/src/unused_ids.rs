//! Ids for results that have none: each gets the next unused id of the calls before it.
//!
//! Formats without call ids (Gemini, Ollama, legacy functions) tie a result to its call by name or position. A reader only turns
//! that into ids; `rejoin_view::Pairing` decides from the ids which result answers which call.

use std::collections::{HashMap, VecDeque};

use rejoin_record::CallId;

#[derive(Clone)]
struct CallSlot {
    id: CallId,
    /// Whether the source gave the id.
    given: bool,
    used: bool,
}

/// The ids of the calls of one message.
#[derive(Default, Clone)]
pub(crate) struct UnusedIds {
    slots: Vec<CallSlot>,
    /// Slots by name; used ones are removed from the front.
    by_name: HashMap<String, VecDeque<usize>>,
    by_id: HashMap<CallId, VecDeque<usize>>,
    /// The last used id, by name.
    last: HashMap<String, CallId>,
    next: usize,
}

impl UnusedIds {
    pub(crate) fn add(&mut self, name: &str, id: &CallId, given: bool) {
        let place = self.slots.len();
        self.by_name.entry(name.to_owned()).or_default().push_back(place);
        self.by_id.entry(id.clone()).or_default().push_back(place);
        self.slots.push(CallSlot { id: id.clone(), given, used: false });
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Marks an id as used, since a result names it.
    pub(crate) fn use_id(&mut self, id: &CallId) {
        if let Some(place) = self.by_id.get_mut(id).and_then(VecDeque::pop_front) {
            self.slots[place].used = true;
        }
    }

    /// The next id of the calls of a name. With `unless_given`, none if the source gave that id, since the result names another.
    pub(crate) fn next_named(&mut self, name: &str, unless_given: bool) -> Option<CallId> {
        let queue = self.by_name.get_mut(name)?;
        while let Some(done) = queue.pop_front_if(|place| self.slots[*place].used) {
            self.last.insert(name.to_owned(), self.slots[done].id.clone());
        }
        let place = queue.pop_front_if(|place| !(unless_given && self.slots[*place].given))?;
        let slot = &mut self.slots[place];
        slot.used = true;
        self.last.insert(name.to_owned(), slot.id.clone());
        Some(slot.id.clone())
    }

    /// The last used id of a name, if all of its ids are used: for a second result.
    pub(crate) fn last_named(&self, name: &str) -> Option<CallId> {
        self.last.get(name).filter(|_| self.by_name.get(name).is_some_and(VecDeque::is_empty)).cloned()
    }

    /// The next id of all calls.
    pub(crate) fn next(&mut self) -> Option<CallId> {
        let place = (self.next..self.slots.len()).find(|place| !self.slots[*place].used)?;
        self.next = place + 1;
        let slot = &mut self.slots[place];
        slot.used = true;
        Some(slot.id.clone())
    }
}
