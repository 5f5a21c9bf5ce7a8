//! How the arguments of a call go out: as JSON, or as a string that holds JSON. An object is never spelled anew.

use rejoin_record::{ToolCall, json::write};
use rejoin_view::{Action, ArgumentsUse, ExchangeRef, Finding, Position, Rule, sound::wrapped_arguments};

use super::render::Ledger;

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
            ledger.lossy(call.arguments.text(), at);
            if call.arguments.has_lone_surrogate() {
                ledger.change(Finding::new(Rule::LoneSurrogate, at, Action::Replaced));
            }
            write::clean_copy(out, call.arguments.text().trim());
        }
        ArgumentsUse::Empty => {
            ledger.change(Finding::new(Rule::BlankArguments, at, Action::Replaced));
            out.push_str("{}");
        }
        ArgumentsUse::Wrapped => out.push_str(&wrapped_arguments(&call.arguments)),
    }
}

/// A call as Chat Completions writes it: its arguments are a string.
#[must_use]
pub fn function_call(
    id: &str,
    name: &str,
    exchange: ExchangeRef<'_>,
    call: &ToolCall,
    at: Position,
    ledger: &mut Ledger,
) -> String {
    let mut out = String::from("{\"id\":");
    write::string(&mut out, id);
    out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
    write::string(&mut out, name);
    write::key(&mut out, "arguments");
    match exchange.arguments() {
        ArgumentsUse::AsWritten => {
            ledger.lossy(call.arguments.text(), at);
            write::string(&mut out, call.arguments.text());
        }
        ArgumentsUse::Empty => {
            ledger.change(Finding::new(Rule::BlankArguments, at, Action::Replaced));
            out.push_str("\"{}\"");
        }
        ArgumentsUse::Wrapped => write::string(&mut out, &wrapped_arguments(&call.arguments)),
    }
    out.push_str("}}");
    out
}
