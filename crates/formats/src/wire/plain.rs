//! Calls and results as a dialect writes them, without any repair, with a word in place of each text. The encoders of dialects only
//! write what is sound, and here the question is what a provider says to what is not. How a dialect writes them is in the `plain.rs`
//! of its folder.

use serde_json::{Value, json};

/// A message, as far as calls and results are concerned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    /// The message of the session that it comes from; none for what an agent adds.
    pub place: Option<usize>,
    /// Whether the model said it.
    pub by_model: bool,
    /// Whether there is anything in it besides calls and results.
    pub says: bool,
    pub calls: Vec<Pair>,
    pub results: Vec<Pair>,
}

impl Turn {
    pub(crate) fn is_empty(&self) -> bool {
        !self.says && self.calls.is_empty() && self.results.is_empty()
    }
}

/// A call or a result. The two halves of a pair are equal.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub id: String,
    pub name: String,
}

impl Pair {
    pub(crate) fn new(id: &str, name: &str) -> Self {
        // Only results may be without a name, and dialects that want one there do not compare it with other names.
        Self { id: id.to_owned(), name: if name.is_empty() { WORD.to_owned() } else { name.to_owned() } }
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Stands for the text of a message, whose words do not matter here.
pub(crate) const WORD: &str = "text";

/// The messages of a request.
#[derive(Debug, Default)]
pub(crate) struct PlainList {
    /// The messages, in the dialect.
    pub items: Vec<Value>,
    /// The message of the session that each of them comes from; none for what an agent adds.
    pub places: Vec<Option<usize>>,
}

impl PlainList {
    pub(crate) fn push(&mut self, item: Value, place: Option<usize>) {
        self.items.push(item);
        self.places.push(place);
    }

    /// Adds blocks to the message before if the same side said it: some providers read messages of one side in a row as one. `roles`
    /// are the words for the user and the model, `field` holds the blocks.
    pub(crate) fn join(&mut self, turn: &Turn, roles: [&str; 2], field: &str, blocks: Vec<Value>) {
        let role = roles[usize::from(turn.by_model)];
        let before = self.items.last_mut().filter(|last| last["role"] == role);
        match before.and_then(|last| last[field].as_array_mut()) {
            Some(before) => before.extend(blocks),
            None => self.push(json!({"role": role, field: blocks}), turn.place),
        }
    }
}
