//! The JSON of a store's content: conversations, calls, hits, and the outcomes of creating, importing, copying, verifying and
//! removing.

use std::time::Duration;

use rejoin_engine::{CallErrorKind, CallRecord, Copied, Imported, New, Removal, Sharer};
use rejoin_record::{
    ConversationId,
    json::{Object, quoted},
};
use rejoin_store::{
    EnableOutcome, Hit, Location, Problem, Size, StoragePlace, StoreOption, Summary, Verified,
};

/// A conversation in a list.
#[must_use]
pub fn conversation(summary: &Summary, active: bool) -> String {
    let scope = summary.scope.to_raw();
    Object::new()
        .text("id", summary.id)
        .text_or_null("title", summary.title.as_deref())
        .text("state", summary.shown_state().word())
        .text_or_null("provider", summary.about.provider.as_deref())
        .text_or_null("model", summary.about.model.as_deref())
        .text_or_null("directory", summary.about.directory.as_deref())
        .text_or_null("format", summary.about.format.as_deref())
        .text_or_null("forked_from", summary.forked_from.as_deref())
        .raw("scope", if summary.scope.is_empty() { "null" } else { scope.as_str() })
        .number("messages", summary.messages)
        .text("created_at", summary.created)
        .text("updated_at", summary.updated)
        .flag("active", active)
        .finish()
}

/// A conversation with its messages in the shape of OpenAI Chat. `count` is the total number of its messages.
#[must_use]
pub fn whole_conversation(
    id: &str,
    title: &str,
    model: Option<&str>,
    count: usize,
    messages: impl Iterator<Item = String>,
) -> String {
    Object::new()
        .text("id", id)
        .text_or_null("title", Some(title).filter(|title| !title.is_empty()))
        .text_or_null("model", model)
        .count("message_count", count)
        .list("messages", messages)
        .finish()
}

/// A tool call, for an auditor. Arguments and outcome are included only if `full`, because they may contain secrets.
#[must_use]
pub fn call(call: &CallRecord, full: bool) -> String {
    let took = call.times.latency_ms().map(|took| took.to_string());
    let object = Object::new()
        .text("request_id", call.request)
        .text("call_id", &call.call_id)
        .text("tool", &call.tool)
        .text("status", call.status.name())
        .text_or_null("error_kind", call.error_kind.map(CallErrorKind::name))
        .text_or_null("started_at", call.times.started)
        .text_or_null("ended_at", call.times.ended)
        .raw("latency_ms", took.as_deref().unwrap_or("null"))
        .text("args_sha256", &call.args_sha256);
    if !full {
        return object.finish();
    }
    object
        .text("arguments", &call.arguments)
        .text_or_null("error", call.error.as_deref())
        .text_or_null("outcome", call.outcome.as_deref())
        .finish()
}

/// A search hit, with the number of its message; `None` for a hit without one.
#[must_use]
pub fn hit(hit: &Hit, number: Option<usize>) -> String {
    let plain: String = hit.excerpt.pieces.iter().map(|(piece, _)| piece.as_str()).collect();
    let hits = hit.excerpt.pieces.iter().filter(|(_, hit)| *hit);
    // JSON has no infinity.
    let score = if hit.score.is_finite() { hit.score.to_string() } else { String::from("null") };
    Object::new()
        .text("conversation", hit.conversation)
        .text_or_null("title", hit.title.as_deref())
        .text("entry", hit.entry)
        .number("seq", hit.seq)
        .number_or_null("message", number)
        .text("time", hit.time)
        .text("role", &hit.role)
        .text("excerpt", plain)
        .list("hits", hits.map(|(piece, _)| quoted(piece)))
        .raw("score", &score)
        .finish()
}

/// A new conversation.
#[must_use]
pub fn created(id: ConversationId, new: &New) -> String {
    Object::new()
        .text("id", id)
        .text_or_null("title", new.title.as_deref())
        .text_or_null("provider", new.provider.as_deref())
        .text_or_null("model", new.model.as_deref())
        .finish()
}

/// A fork, and the conversation that it comes from.
#[must_use]
pub fn forked(id: ConversationId, from: ConversationId) -> String {
    Object::new().text("id", id).text("from", from).finish()
}

/// The outcome of importing a session from a file.
#[must_use]
pub fn imported(imported: &Imported, path: &str, format: &str) -> String {
    Object::new()
        .text("id", imported.id)
        .text("path", path)
        .text("format", format)
        .flag("new", imported.new)
        .number("added", imported.added)
        .number("messages", imported.messages)
        .finish()
}

/// The number of files that were not imported, by reason.
#[must_use]
pub fn skipped<'r>(reasons: impl Iterator<Item = (&'r str, u64)>) -> String {
    let (mut total, mut counts) = (0, Object::new());
    for (reason, count) in reasons {
        total += count;
        counts = counts.number(reason, count);
    }
    Object::new().number("skipped", total).object("reasons", counts).finish()
}

/// The outcome of copying a conversation.
#[must_use]
pub fn copied(id: ConversationId, copied: &Copied) -> String {
    Object::new().text("id", id).number("added", copied.added).number("entries", copied.total).finish()
}

/// The content that deleting or erasing removes, and the conversations that keep the same content. `action` is the name of the
/// command.
#[must_use]
pub fn removal(action: &str, id: ConversationId, removal: &Removal, dry_run: bool) -> String {
    let sharer = |sharer: &Sharer| {
        Object::new()
            .text("id", sharer.id)
            .text_or_null("title", sharer.title.as_deref())
            .number("entries", sharer.entries)
            .flag("fork", sharer.is_fork)
            .finish()
    };
    Object::new()
        .text("action", action)
        .flag("dry_run", dry_run)
        .text("id", id)
        .number("messages", removal.messages)
        .number("entries", removal.entries)
        .number("bytes", removal.bytes)
        .list("files", removal.files.iter().map(|file| quoted(&file.to_string_lossy())))
        .list("held_by", removal.sharers.iter().map(sharer))
        .list("unread", removal.unread.iter().map(|id| quoted(&id.to_string())))
        .finish()
}

/// The outcome of verifying a store. It is sound if nothing is damaged; a torn tail was never acknowledged and does not count.
#[must_use]
pub fn verified(location: &Location, verified: Verified, problems: &[Problem]) -> String {
    Object::new()
        .text("store", location)
        .number("conversations", verified.conversations)
        .number("entries", verified.entries)
        .list("problems", problems.iter().map(problem))
        .flag("sound", problems.iter().all(|problem| problem.torn))
        .finish()
}

/// The facts that `rejoin store` shows about an existing store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFacts {
    /// The number of conversations.
    pub conversations: u64,
    /// Its size on disk.
    pub size: Size,
    /// The version of its schema; `None` if it has none.
    pub schema: Option<i64>,
    /// Its options.
    pub options: Vec<StoreOption>,
}

/// A store, with its facts if it exists.
#[must_use]
pub fn store(location: &Location, facts: Option<&StoreFacts>) -> String {
    let object = Object::new().text("store", location).flag("there", facts.is_some());
    let Some(facts) = facts else { return object.finish() };
    let option = |option: &StoreOption| {
        Object::new()
            .text("name", option.name)
            .flag("enabled", option.enabled)
            .text("about", option.about)
            .finish()
    };
    object
        .number("conversations", facts.conversations)
        .number("record_bytes", facts.size.record)
        .number("index_bytes", facts.size.index)
        .raw("schema", &facts.schema.map_or_else(|| String::from("null"), |schema| schema.to_string()))
        .list("options", facts.options.iter().map(option))
        .finish()
}

/// The outcome of enabling an option, and the time it took.
#[must_use]
pub fn enabled(option: &str, enabled: EnableOutcome, time: Duration) -> String {
    Object::new()
        .text("option", option)
        .flag("enabled", true)
        .flag("changed", enabled == EnableOutcome::Enabled)
        .number("milliseconds", u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        .finish()
}

fn problem(problem: &Problem) -> String {
    let object = Object::new().text_or_null("conversation", problem.conversation);
    let object = match problem.place {
        StoragePlace::Line(line) => object.number("line", line),
        StoragePlace::Row(row) => object.number("row", row),
        StoragePlace::Store => object,
    };
    object.text("what", &problem.what).flag("torn", problem.torn).finish()
}
