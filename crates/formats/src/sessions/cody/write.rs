//! Writes a file that cody resumes: what it says of the conversation, then one line a turn.

use std::collections::HashSet;

use rejoin_record::{
    EntryId,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::SoundView;

use super::FORMAT;
use crate::{
    session::Session,
    sessions::{
        turns::InTurns,
        writing::{Writing, Written},
    },
    wire::openai_responses::read::Call,
    wire::{TooLarge, registry::Dialect, render},
};

/// The version of cody that every file names.
const VERSION: &str = "0.0.1";

/// The names that cody has for the dialects that it speaks: provider and API. The first is for all other dialects.
const APIS: [(Dialect, &str, &str); 3] = [
    (Dialect::OpenAiResponses, "openai", "responses"),
    (Dialect::OpenAiChat, "openai", "chat"),
    (Dialect::Anthropic, "anthropic", "messages"),
];

/// Writes the view of a session.
pub(in crate::sessions) fn write(
    session: &Session,
    view: &SoundView,
    writing: &Writing<'_>,
) -> Result<Written, TooLarge> {
    let InTurns { turns, model, now, findings } = InTurns::of(session, view, writing)?;
    let time = format!("{now:.3}");
    let known = session.context.dialect.and_then(|dialect| APIS.iter().find(|api| api.0 == dialect));
    let (_, provider, api) = known.unwrap_or(&APIS[0]);
    let line = |kind: &str, data: Object| {
        let item = Object::new().text("type", kind).object("data", data);
        Object::new().text("timestamp", &time).object("item", item).finish() + "\n"
    };
    let meta = Object::new()
        // The source can stay, because the copy has another id, which is always the same.
        .text("id", EntryId::derive(&session.id, "written", FORMAT))
        .text("timestamp", &time)
        .text("cwd", session.directory().as_deref().unwrap_or(writing.directory))
        .text("cliVersion", VERSION)
        .text("source", "cli")
        .text("modelProvider", provider)
        .text_if("model", model.as_deref())
        .text("modelProviderApi", api);
    let mut text = line("session_meta", meta);
    let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
    // A request cannot say that a tool failed, but this file can.
    let results = session.messages.iter().flat_map(|message| message.tool_results());
    let failed = results.filter(|result| result.is_error).filter_map(|result| result.call_id.as_ref());
    let failed: HashSet<&str> = failed.map(|id| id.as_str()).collect();
    for items in turns {
        let items = items.iter().map(|item| stored(item, &failed));
        let metadata = Object::new().text("provider", provider).text_if("model", model.as_deref());
        let turn = Object::new().number("timestamp", millis).list("items", items);
        text.push_str(&line("turn", turn.object("metadata", metadata)));
    }
    Ok(Written::text(text, findings))
}

/// An item as cody stores it: the output of a tool is an object.
fn stored(item: &str, failed: &HashSet<&str>) -> String {
    let doc = Doc::of(item);
    let succeeded = doc.root().is_none_or(|item| !failed.contains(&*item.word("call_id")));
    let is_output = |item: Value<'_>| Call::answered_by(item).is_some_and(|call| call.tool.is_none());
    let output = doc.root().filter(|item| is_output(*item)).and_then(|item| item.get("output"));
    let payload = match output {
        Some(text) if text.kind() == ValueKind::String => Object::new().raw("content", text.raw()),
        Some(parts) if parts.kind() == ValueKind::Array => {
            let texts: Vec<_> = parts.items().filter_map(|part| part.get("text")?.as_str()).collect();
            Object::new().text("content", texts.join("\n")).raw("content_items", parts.raw())
        }
        _ => return item.to_owned(),
    };
    let payload = if succeeded { payload } else { payload.flag("success", false) };
    render::with_field(item, "output", &payload.finish())
}
