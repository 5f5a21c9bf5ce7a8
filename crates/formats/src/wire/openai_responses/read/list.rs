//! Finding the items in a text: a request body, or just its list.

use std::collections::HashSet;

use super::{Assembler, Call, FORMAT, Source};
use crate::{
    context::{Context, Field},
    input::{Input, Stream},
    session::{Aside, ReadError, Session, SourcePlace, replaced_bytes, unreadable_from, unreadable_rest},
    sessions::sample::Sample,
    wire::prelude::*,
};

/// How many items are examined to recognise the format.
const LOOK_AT: usize = 2_000;

/// Whether a text looks like a Responses body, or a list of its items.
pub fn sniff(sample: &Sample<'_>) -> bool {
    let Some(root) = sample.whole().0.root() else { return false };
    match root.kind() {
        ValueKind::Object => {
            let input = root.get("input").filter(|_| root.get("messages").is_none());
            input.is_some_and(|input| match input.kind() {
                ValueKind::Array => input.items().next().is_none() || input.items().any(looks_like_item),
                ValueKind::String => root.given("model").is_some() || root.given("instructions").is_some(),
                _ => false,
            })
        }
        ValueKind::Array => root.items().take(LOOK_AT).any(is_only_here),
        _ => false,
    }
}

fn looks_like_item(value: Value<'_>) -> bool {
    value.kind() == ValueKind::Object && (value.given("role").is_some() || value.given("type").is_some())
}

/// Whether only this dialect has such an item.
fn is_only_here(value: Value<'_>) -> bool {
    let kind = value.word("type");
    let parts = || value.get("content").into_iter().flat_map(Value::items);
    let own_part = |part: Value<'_>| {
        part.get("type")
            .and_then(Value::as_str)
            .is_some_and(|kind| matches!(&*kind, "input_text" | "output_text" | "input_image" | "input_file"))
    };
    match &*kind {
        "reasoning" | "item_reference" => true,
        "message" => value.given("role").is_some(),
        "" => parts().any(own_part),
        other => other.ends_with("_call") || other.ends_with("_call_output"),
    }
}

/// Reads the conversation in a text.
///
/// # Errors
/// If there is none: not JSON from the beginning, or nothing that looks like items.
pub fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let not_json = |error| ReadError::not_json(input, error);
    let nothing = || ReadError::NoConversation("it has no list of items");
    let Some(root) = doc.root() else {
        return Err(error.map_or(ReadError::NoConversation("the file is empty"), not_json));
    };
    let (body, list) = match root.kind() {
        ValueKind::Array => (None, root),
        ValueKind::Object => {
            let list =
                root.get("input").filter(|list| matches!(list.kind(), ValueKind::Array | ValueKind::String));
            (Some(root), list.ok_or_else(|| error.map_or_else(nothing, not_json))?)
        }
        _ => return Err(error.map_or_else(nothing, not_json)),
    };
    let items = || {
        let alone = (list.kind() == ValueKind::String).then_some(list);
        alone.into_iter().chain(list.items())
    };
    if let Some(error) = error.filter(|_| !items().any(|item| !item.is_cut())) {
        return Err(not_json(error));
    }
    if body.is_none()
        && items().next().is_some()
        && !items().any(|item| looks_like_item(item) || item.kind() == ValueKind::String)
    {
        return Err(nothing());
    }
    let mut context = Context {
        dialect: Some(Dialect::OpenAiResponses),
        whole_body: body.is_some(),
        bare_list: body.is_none(),
        ..Context::default()
    };
    let own_id = body.and_then(|body| fields(&mut context, body, &input.text));
    let mut assembler = Assembler::new(FORMAT);
    assembler.set_model(context.model().map(Text::from));
    assembler.session.findings.extend(replaced_bytes(input));
    // Of several lists with this name, the last one counts.
    let others = body.into_iter().flat_map(Value::fields);
    for (_, other) in others.filter(|(key, value)| key.is_str("input") && value.start() != list.start()) {
        let place = SourcePlace { index: 0, offset: other.start(), line: None };
        assembler.aside(place, Aside::Unknown(Text::new(other.raw())));
    }
    // A request that continues an earlier response may answer the calls of that response.
    let chained = ["previous_response_id", "conversation"].iter().any(|name| context.get(name).is_some());
    let called: HashSet<String> = items()
        .filter(|item| Call::of(*item).is_some())
        .filter_map(|item| Some(item.get("call_id")?.as_str()?.into_owned()))
        .collect();
    let mut count = 0;
    for (index, item) in items().enumerate() {
        count = index + 1;
        let place = SourcePlace { index, offset: item.start(), line: None };
        let source = Source::of(item, &input.text, place, None);
        if item.is_cut() {
            assembler.aside(place, Aside::Raw(Text::new(&input.text[item.start()..])));
        } else if list.kind() == ValueKind::String {
            // The input is a single text, the first message of a conversation.
            add_text(&mut assembler, item, &source);
        } else if chained && answers_elsewhere(item, &called) {
            assembler.add_as_it_is(item, &source);
        } else {
            assembler.add_or_report(item, &source, Position::message(index));
        }
    }
    if let Some(error) = error {
        let cut = items().last().is_some_and(Value::is_cut);
        let index = if cut { count - 1 } else { count };
        if !cut {
            let offset = unreadable_from(body, list, error);
            let place = SourcePlace { index, offset, line: None };
            assembler.aside(place, Aside::Raw(Text::new(&input.text[offset..])));
        }
        assembler.session.findings.push(unreadable_rest(input, error, index));
    }
    Ok(vec![assembler.into_session(&input.name, own_id.as_deref(), context)])
}

/// Refuses a file of lines, since a list of items is one JSON text.
///
/// # Errors
/// Always.
pub fn read_stream(_: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    Err(ReadError::NoConversation("a list of items is read as one text, and this is too large for one"))
}

/// Whether an item is the result of a call that is not in this list.
fn answers_elsewhere(item: Value<'_>, called: &HashSet<String>) -> bool {
    let output = item.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("_output"));
    let whole = item.holds("output", ValueKind::String) && item.is_clean();
    let id = item.get("call_id").and_then(Value::as_str);
    output && whole && id.is_some_and(|id| !id.is_empty() && id.len() <= 64 && !called.contains(&*id))
}

fn add_text(assembler: &mut Assembler, item: Value<'_>, source: &Source<'_>) {
    let Some(text) = item.to_text(item.start()) else { return };
    let raw = Raw::slice(source.buffer, item.start(), item.end()).unwrap_or_else(|| Raw::new(""));
    let native = rejoin_record::Native::one(FORMAT, raw, false);
    let message = rejoin_record::Message { native: Some(native), ..rejoin_record::Message::user(text) };
    assembler.push_message(message, source.place, None);
}

/// Reads the other fields of a body; returns the id of the conversation if one of them holds it.
fn fields(context: &mut Context, body: Value<'_>, text: &Arc<str>) -> Option<String> {
    let mut own_id = None;
    for (key, value) in body.fields() {
        let name = key.as_str().unwrap_or_default();
        if name == "input" {
            context.before_messages = context.fields.len();
            continue;
        }
        if matches!(&*name, "session_id" | "conversation_id") {
            own_id = value.as_str().map(std::borrow::Cow::into_owned);
        }
        if !value.is_cut() {
            let value = Raw::slice(text, value.start(), value.end());
            context.fields.extend(value.map(|value| Field { name: Text::new(&*name), value }));
        }
    }
    own_id
}
