//! How the arguments of a call go out: as JSON, or as a string that holds JSON. An object is never respelled.

use rejoin_record::{ToolCall, json::write};
use rejoin_view::{Action, ArgumentsUse, ExchangeRef, Finding, Position, Rule, sound::wrapped_arguments};

use super::{names::Spelled, render::Ledger};

/// Appends the arguments as an object. Half of a surrogate pair is refused there, so it is replaced.
pub fn write_object(
    out: &mut String,
    exchange: ExchangeRef<'_>,
    call: &ToolCall,
    at: Position,
    ledger: &mut Ledger,
) {
    match exchange.arguments() {
        ArgumentsUse::AsWritten => {
            if call.arguments.text().is_lossy() || call.arguments.has_lone_surrogate() {
                ledger.change(Finding::new(Rule::LoneSurrogate, at, Action::Replaced));
                write::clean_copy(out, call.arguments.text().trim());
            } else {
                // It was parsed when it was read: an object, and nothing in it that JSON refuses.
                out.push_str(call.arguments.text().trim());
            }
        }
        ArgumentsUse::Empty => {
            ledger.change(Finding::new(Rule::BlankArguments, at, Action::Replaced));
            out.push_str("{}");
        }
        ArgumentsUse::Wrapped => out.push_str(&wrapped_arguments(&call.arguments)),
    }
}

/// Appends the arguments as a string that holds JSON.
pub fn write_string(
    out: &mut String,
    exchange: ExchangeRef<'_>,
    call: &ToolCall,
    at: Position,
    ledger: &mut Ledger,
) {
    match exchange.arguments() {
        ArgumentsUse::AsWritten => {
            ledger.lossy(call.arguments.text(), at);
            write::string(out, call.arguments.text());
        }
        ArgumentsUse::Empty => {
            ledger.change(Finding::new(Rule::BlankArguments, at, Action::Replaced));
            out.push_str("\"{}\"");
        }
        ArgumentsUse::Wrapped => write::string(out, &wrapped_arguments(&call.arguments)),
    }
}

/// A call as Chat Completions writes it: its arguments are a string.
#[must_use]
pub fn function_call(
    spelled: &Spelled,
    exchange: ExchangeRef<'_>,
    call: &ToolCall,
    at: Position,
    ledger: &mut Ledger,
) -> String {
    let mut out = String::from("{\"id\":");
    write::string(&mut out, &spelled.id);
    out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
    write::string(&mut out, &spelled.name);
    write::key(&mut out, "arguments");
    write_string(&mut out, exchange, call, at, ledger);
    out.push_str("}}");
    out
}
