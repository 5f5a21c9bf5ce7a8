//! Replays the log: finds the messages that remain, and what became of the others.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Text,
    json::{Value, ValueKind},
};
use rejoin_view::Finding;

use crate::{
    session::{Aside, SourcePlace},
    sessions::lines::{Line, LineReader, text_of},
};

/// A line, or a message inside one, in the order of the file.
pub(super) struct Item {
    pub place: SourcePlace,
    pub what: ItemContent,
}

pub(super) enum ItemContent {
    /// A message; its text is one JSON object.
    Message(Arc<str>),
    /// Anything else.
    Aside(Aside),
}

/// The state of a log.
#[derive(Default)]
pub(super) struct Replay {
    pub items: Vec<Item>,
    pub findings: Vec<Finding>,
    /// The messages that remain so far, by their numbers in `items`.
    pub current: Vec<usize>,
    /// The ids of these messages.
    names: Vec<Option<Box<str>>>,
    /// The places in `current` of messages with ids.
    by_id: HashMap<Box<str>, usize>,
    /// The number of items when a line last replaced the list with one that lacks some of the messages, as a compaction does.
    pub compacted: Option<usize>,
    /// The number of items before those that the last compaction added.
    pub compacted_from: usize,
    pub session: Option<String>,
    pub is_known: bool,
}

impl Replay {
    pub(super) fn aside(&mut self, place: SourcePlace, what: Aside) {
        self.items.push(Item { place, what: ItemContent::Aside(what) });
    }

    /// Adds a message, or replaces the one with its id.
    pub(super) fn message(&mut self, place: SourcePlace, root: Value<'_>, text: &Arc<str>) {
        self.is_known = true;
        let number = self.items.len();
        self.items.push(Item { place, what: ItemContent::Message(Arc::clone(text)) });
        let Some(id) = root.given("id").and_then(Value::as_str) else {
            return self.keep(number, None);
        };
        match self.by_id.get(&*id) {
            Some(&at) => {
                let before = std::mem::replace(&mut self.current[at], number);
                // If the bytes are the same, it is the same message, so the old one is not shown as a replaced message.
                if let ItemContent::Message(old) = &self.items[before].what
                    && old == text
                {
                    self.items[before].what = ItemContent::Aside(Aside::Raw(Text::new(Arc::clone(old))));
                }
            }
            None => self.keep(number, Some(&id)),
        }
    }

    /// Appends a message to those that remain.
    fn keep(&mut self, number: usize, id: Option<&str>) {
        if let Some(id) = id {
            self.by_id.insert(Box::from(id), self.current.len());
        }
        self.names.push(id.map(Box::from));
        self.current.push(number);
    }

    /// Removes the message with this id and all after it. If no message has the id, all are removed.
    fn rewind(&mut self, id: &str) {
        let left = self.by_id.get(id).copied().unwrap_or(0);
        self.current.truncate(left);
        for id in self.names.drain(left..).flatten() {
            self.by_id.remove(&id);
        }
    }

    /// Replaces the whole list of messages.
    fn restate(&mut self, line: &Line, messages: Value<'_>) {
        let before = std::mem::take(&mut self.current);
        let known: HashMap<Box<str>, usize> = std::mem::take(&mut self.by_id)
            .into_iter()
            .filter_map(|(id, at)| Some((id, *before.get(at)?)))
            .collect();
        self.names.clear();
        let (mut restated, mut stays) = (HashSet::new(), HashSet::new());
        let from = self.items.len();
        for message in messages.items() {
            let id = message.given("id").and_then(Value::as_str);
            let old = id.as_deref().and_then(|id| known.get(id)).copied();
            restated.extend(old);
            let same = old.filter(
                |old| matches!(&self.items[*old].what, ItemContent::Message(text) if **text == *message.raw()),
            );
            if let Some(old) = same.filter(|old| stays.insert(*old)) {
                self.keep(old, id.as_deref());
                continue;
            }
            let place = SourcePlace { offset: line.place.offset + message.start(), ..line.place };
            self.message(place, message, &Arc::from(message.raw()));
        }
        if before.iter().any(|old| !restated.contains(old)) {
            (self.compacted_from, self.compacted) = (from, Some(self.items.len()));
        }
    }

    /// Applies a change of the session, `$set`.
    fn set(&mut self, line: &Line, set: Value<'_>) {
        self.is_known = true;
        if let Some(session) = set.given("sessionId").and_then(Value::as_str) {
            self.session.get_or_insert_with(|| session.into_owned());
        }
        let messages = set.get("messages").filter(|list| list.kind() == ValueKind::Array);
        if let Some(messages) = messages {
            self.restate(line, messages);
        }
        self.header(line.place, set);
    }

    /// Reads the fields of a session other than its messages.
    pub(super) fn header(&mut self, place: SourcePlace, root: Value<'_>) {
        if let Some(session) = root.given("sessionId").and_then(Value::as_str) {
            self.is_known = true;
            self.session.get_or_insert_with(|| session.into_owned());
        }
        if let Some(title) = text_of(root, "summary").filter(|title| !title.is_blank()) {
            self.aside(place, Aside::Title(title));
        }
    }
}

impl LineReader for Replay {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let raw = || Aside::Raw(Text::new(Arc::clone(&line.text)));
        if let Some(id) = root.given("$rewindTo").and_then(Value::as_str) {
            self.is_known = true;
            self.rewind(&id);
            return self.aside(line.place, raw());
        }
        // The program gives every message an id. A line without one is still a message if it has the type and the content
        // of a message.
        let speaks = || matches!(&*root.word("type"), "user" | "gemini") && root.given("content").is_some();
        if (root.holds("id", ValueKind::String) && root.holds("type", ValueKind::String)) || speaks() {
            return self.message(line.place, root, &line.text);
        }
        if let Some(set) = root.given("$set").filter(|set| set.kind() == ValueKind::Object) {
            self.aside(line.place, raw());
            return self.set(line, set);
        }
        if root.holds("sessionId", ValueKind::String) {
            self.aside(line.place, raw());
            return self.header(line.place, root);
        }
        self.aside(line.place, Aside::Unknown(Text::new(Arc::clone(&line.text))));
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.aside(line.place, Aside::Raw(Text::new(Arc::clone(&line.text))));
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}
