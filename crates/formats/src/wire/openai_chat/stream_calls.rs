//! The calls of a response. In a stream, each call should have a number, its first piece an id and a name, the others arguments.
//! Some services leave the number out, send whole calls, number every call 0, or repeat id and name in every piece.

use std::collections::HashMap;

use rejoin_record::hash::short_name;

use crate::wire::prelude::*;

/// The calls of one response, in the order in which they began.
#[derive(Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    legacy: Option<usize>,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: Streamed,
    /// Whether it is called with free text.
    custom: bool,
    /// Other fields, such as a signature of another API.
    more: GrowingObject,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a piece of a call, or a whole one.
    pub(super) fn add(&mut self, piece: Value<'_>, out: &mut Vec<Delta>) {
        if piece.kind() != ValueKind::Object {
            return;
        }
        let custom = piece.given("custom");
        let function = custom.or_else(|| piece.given("function"));
        let id = piece.word("id");
        let name = function.and_then(|function| function.given("name")?.as_str()).unwrap_or_default();
        let place = self.place(piece.given("index").and_then(Value::as_u64), &id, &name);
        let call = &mut self.list[place];
        if call.id.is_empty() {
            call.id = id.into_owned();
        }
        call.custom |= custom.is_some();
        call.name(&name, out);
        if let Some(function) = function {
            call.arguments(function.given(if custom.is_some() { "input" } else { "arguments" }));
        }
        for (key, value) in piece.fields() {
            let field = key.as_str().unwrap_or_default();
            if !matches!(&*field, "index" | "id" | "type" | "function" | "custom") && !value.is_null() {
                call.more.put(&field, value.raw());
            }
        }
    }

    /// Adds a piece of a legacy function call, which has no id.
    pub(super) fn add_legacy(&mut self, piece: Value<'_>, out: &mut Vec<Delta>) {
        let place = *self.legacy.get_or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push(Call::default());
        }
        let call = &mut self.list[place];
        call.name(&piece.word("name"), out);
        call.arguments(piece.given("arguments"));
    }

    /// The call that a piece belongs to, which may be a new one.
    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let known = match index {
            Some(index) => self.by_index.get(&index).copied().filter(|place| {
                let own = &self.list[*place].id;
                // A new id and a name under a known number is another call; a new id alone is a quirk of the server.
                id.is_empty() || own.is_empty() || own == id || name.is_empty()
            }),
            None if !id.is_empty() => self.by_id.get(id).copied(),
            None if name.is_empty() => self.list.len().checked_sub(1),
            None => None,
        };
        let place = known.unwrap_or(self.list.len());
        if place == self.list.len() {
            self.list.push(Call::default());
        }
        if let Some(index) = index {
            self.by_index.insert(index, place);
        }
        if !id.is_empty() {
            self.by_id.entry(id.to_owned()).or_insert(place);
        }
        place
    }

    pub(super) fn end(&mut self) {
        self.list.iter_mut().for_each(|call| call.arguments.end());
    }

    /// The calls as the API would have sent them without streaming. A call without an id gets one, so that results can name it.
    pub(super) fn json(&self, seed: &str) -> Vec<String> {
        let calls = self.list.iter().enumerate().map(|(place, call)| {
            let id = match &*call.id {
                "" => format!("call_{}", short_name(&format!("{place} {seed}"), 16)),
                id => id.to_owned(),
            };
            let (kind, input) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
            let function = Object::new().text("name", &call.name).text(input, call.arguments.as_str());
            let json = Object::new().text("id", id).text("type", kind).object(kind, function);
            call.more.add_to(json).finish()
        });
        calls.collect()
    }
}

impl Call {
    /// Takes a name, which is whole, repeated, or (rarely) in pieces.
    fn name(&mut self, name: &str, out: &mut Vec<Delta>) {
        if self.name.is_empty() {
            show(name.to_owned(), Delta::Call, out);
        }
        if name.starts_with(&self.name) {
            self.name = name.to_owned();
        } else {
            self.name.push_str(name);
        }
    }

    fn arguments(&mut self, value: Option<Value<'_>>) {
        match value {
            Some(text) if text.kind() == ValueKind::String => {
                self.arguments.push(text);
            }
            // Some servers send arguments as JSON instead of text.
            Some(value) if matches!(value.kind(), ValueKind::Object | ValueKind::Array) => {
                self.arguments.push_str(value.raw());
            }
            _ => {}
        }
    }
}
