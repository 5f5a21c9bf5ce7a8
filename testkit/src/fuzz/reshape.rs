//! Gives a conversation another shape: keys get other names, values move deeper or higher, lists become maps. The texts stay the
//! same, so a reader of the result must still account for every word.

use serde_json::{Map, Value, map::Entry};

use super::random::Random;

/// The names that programs use for the parts of a conversation.
const NAMES: &[&str] = &[
    "role",
    "content",
    "text",
    "parts",
    "author",
    "sender",
    "from",
    "value",
    "speaker",
    "message",
    "messages",
    "body",
    "msg",
    "utterance",
    "type",
    "kind",
    "data",
    "payload",
    "input",
    "output",
    "answer",
    "history",
    "items",
    "name",
    "id",
    "title",
    "summary",
    "note",
    "user",
    "assistant",
    "model",
    "response",
    "prompt",
    "event",
    "delta",
    "blocks",
    "who",
    "conversation",
    "contents",
    "tool_calls",
    "arguments",
    "thinking",
    "result",
    "metadata",
    "uuid",
    "x1",
    "x2",
    "x3",
];

/// Fields that contain texts.
const SPOKEN: &[&str] =
    &["content", "text", "output", "thinking", "refusal", "message", "reasoning_content", "summary"];

/// Gives a JSON text, or a file of JSON lines, another shape. The same seed gives the same shape.
#[must_use]
pub fn reshape(text: &str, seed: u64) -> String {
    let mut random = Random::new(seed, "reshape");
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        change(&mut value, &mut random);
        return value.to_string();
    }
    // Treat all lines together, so that each gets the same change.
    let lines: Vec<Result<Value, &str>> =
        text.lines().map(|line| serde_json::from_str(line).map_err(|_| line)).collect();
    let mut whole = Value::Array(lines.iter().filter_map(|line| line.as_ref().ok().cloned()).collect());
    change_inside(&mut whole, &mut random);
    let mut changed = whole.as_array().cloned().unwrap_or_default().into_iter();
    let out = lines.iter().map(|line| match line {
        Ok(_) => changed.next().map(|value| value.to_string()).unwrap_or_default(),
        Err(line) => (*line).to_owned(),
    });
    out.collect::<Vec<_>>().join("\n")
}

fn change(value: &mut Value, random: &mut Random) {
    lengthen(value);
    for _ in 0..=random.below(4) {
        step(value, random);
    }
}

/// The same, and the outermost list stays a list.
fn change_inside(lines: &mut Value, random: &mut Random) {
    lengthen(lines);
    for _ in 0..=random.below(4) {
        let before = lines.clone();
        step(lines, random);
        let same = |after: &Value| after.as_array().map(Vec::len) == before.as_array().map(Vec::len);
        if !same(lines) {
            *lines = before;
        }
    }
}

/// Makes texts long enough to be subject to the law.
fn lengthen(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(lengthen),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if SPOKEN.contains(&&**name) && !text.trim().is_empty() => {
                        text.push_str(" and then some more");
                    }
                    value => lengthen(value),
                }
            }
        }
        _ => {}
    }
}

/// One change: at one place, or wherever a key has that name.
fn step(value: &mut Value, random: &mut Random) {
    let mut keys = Vec::new();
    names(value, &mut keys);
    if keys.is_empty() {
        return;
    }
    let name = random.pick(&keys).clone();
    let other = (*random.pick(NAMES)).to_owned();
    let how = random.below(9);
    let mut left = if random.once_in(2) { usize::MAX } else { 1 + random.below(3) };
    objects(value, &mut |fields| {
        if left == 0 || !fields.contains_key(&name) {
            return;
        }
        left -= 1;
        alter(fields, &name, &other, how);
    });
}

fn alter(fields: &mut Map<String, Value>, name: &str, other: &str, how: usize) {
    match how {
        // Another name.
        0..=3 => {
            let renamed = std::mem::take(fields)
                .into_iter()
                .map(|(key, value)| if key == name { (other.to_owned(), value) } else { (key, value) });
            *fields = renamed.collect();
        }
        // One level deeper.
        4 => {
            if let Some(value) = fields.get_mut(name) {
                *value = Value::Object(Map::from_iter([(other.to_owned(), value.take())]));
            }
        }
        5 => {
            if let Some(value) = fields.get_mut(name) {
                *value = Value::Array(vec![value.take()]);
            }
        }
        // One level higher.
        6 => {
            if let Some(Value::Object(inner)) = fields.get(name).cloned() {
                fields.remove(name);
                for (key, value) in inner {
                    if let Entry::Vacant(free) = fields.entry(key) {
                        free.insert(value);
                    }
                }
            }
        }
        // A map instead of a list.
        7 => {
            if let Some(Value::Array(items)) = fields.get(name).cloned() {
                let map = items.into_iter().enumerate().map(|(place, item)| (place.to_string(), item));
                fields.insert(name.to_owned(), Value::Object(map.collect()));
            }
        }
        // Gone.
        _ => {
            fields.remove(name);
        }
    }
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                found.push(name.clone());
                names(value, found);
            }
        }
        _ => {}
    }
}

fn objects(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| objects(item, change)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| objects(value, change));
            change(fields);
        }
        _ => {}
    }
}
