//! The JSON of a turn: its events, the error that ends it, and the keys that it needs.

use rejoin_engine::{
    auth::Status,
    provider::catalogue::Dollars,
    turn::{Ending, Event, TurnError},
};
use rejoin_record::{
    content::TokenUsage,
    json::{Object, quoted},
};

use super::findings;

/// An event of a turn, with its type; `None` for events that programs need not see.
#[must_use]
pub fn event(event: &Event) -> Option<String> {
    let object = |kind: &str| Object::new().text("type", kind);
    Some(
        match event {
            Event::Started { conversation, provider, model } => object("started")
                .text("conversation", conversation)
                .text("provider", provider)
                .text("model", model),
            Event::Damaged(found) => object("damaged").raw("findings", &findings(found)),
            Event::Mended(found) => object("mended").raw("findings", &findings(found)),
            Event::Closed { interrupted, left_out, rerun } => object("closed")
                .count("interrupted", *interrupted)
                .count("left_out", *left_out)
                .count("rerun", *rerun),
            Event::WaitingForServers { names } => {
                object("waiting_for_servers").list("names", names.iter().map(|name| quoted(name)))
            }
            Event::Asking { request, bytes } => {
                object("asking").number("request", u64::from(*request)).count("bytes", *bytes)
            }
            Event::Retrying { attempt, wait, why } => object("retrying")
                .number("attempt", u64::from(*attempt))
                .number("wait_ms", u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
                .text("why", why),
            Event::Text(text) => object("text").text("text", text),
            Event::Reasoning(text) => object("reasoning").text("text", text),
            Event::Answered { entry, usage } => {
                let usage = usage.map(|usage| tokens(&usage));
                object("answered").text("entry", entry).raw_if("usage", usage.as_deref())
            }
            Event::CallStarted { id, name, arguments } => {
                object("call_started").text("id", id).text("name", name).text("arguments", arguments)
            }
            Event::ApprovalWanted(request) => object("approval_wanted")
                .text("call_id", &request.call.id)
                .text("tool", &request.call.name)
                .text("arguments", request.call.arguments.text())
                .text("preview", &request.preview)
                .text("why", &request.why)
                .text_or_null("rule", request.rule.as_deref()),
            Event::Warning(text) => object("warning").text("text", text),
            Event::CallOutput { id, text } => object("call_output").text("id", id).text("text", text),
            Event::CallEnded { id, name, output, is_error, took, .. } => object("call_ended")
                .text("id", id)
                .text("name", name)
                .text("output", output)
                .flag("is_error", *is_error)
                .number("took_ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            Event::Pruned { results, tokens } => {
                object("pruned").count("results", *results).number("tokens", *tokens)
            }
            Event::Compacting { tokens, window } => {
                object("compacting").number("tokens", *tokens).number("window", *window)
            }
            Event::Compacted { before, after } => {
                object("compacted").number("tokens_before", *before).number("tokens_after", *after)
            }
            Event::NotSaved(warning) => object("not_saved").text("warning", warning),
            Event::Saved => object("saved"),
            Event::Ended { ending, usage, cost } => {
                let (name, why) = match ending {
                    Ending::Done => ("done", None),
                    Ending::Interrupted => ("interrupted", None),
                    Ending::Limit(limit) => ("limit", Some(limit.to_string())),
                    Ending::Failed => ("failed", None),
                };
                object("ended")
                    .text("ending", name)
                    .text_or_null("why", why.as_deref())
                    .raw("usage", &tokens(usage))
                    .raw("cost_usd", &dollars(*cost))
            }
            _ => return None,
        }
        .finish(),
    )
}

/// Token counts, by kind.
#[must_use]
pub fn tokens(usage: &TokenUsage) -> String {
    Object::new()
        .number("input_tokens", usage.input)
        .number("output_tokens", usage.output)
        .number("cached_tokens", usage.cached)
        .number("reasoning_tokens", usage.reasoning)
        .finish()
}

/// An amount as a number; `null` if it is not known.
#[must_use]
pub fn dollars(amount: Option<Dollars>) -> String {
    amount.map_or_else(|| String::from("null"), |amount| amount.amount().to_string())
}

/// The error that ended a turn, with the findings that may explain it.
#[must_use]
pub fn turn_error(error: &TurnError) -> String {
    Object::new()
        .text("type", "error")
        .text("code", error.code())
        .text("message", error)
        .text_or_null("hint", error.hint())
        .raw("findings", &findings(error.findings()))
        .finish()
}

/// The state of a provider's key, without the key itself.
#[must_use]
pub fn key(status: &Status) -> String {
    let key = status.key.as_ref();
    Object::new()
        .text("provider", status.provider)
        .flag("has_key", key.is_some_and(|key| !key.expiry.is_past()))
        .flag("needs_key", status.needs_key)
        .text_or_null("kind", key.map(|key| key.kind.name()))
        .text_or_null("from", key.map(|key| &key.origin))
        .text_or_null("ending", key.and_then(|key| key.ending.as_deref()))
        .text_or_null("expires", key.and_then(|key| key.expiry.time()))
        .finish()
}
