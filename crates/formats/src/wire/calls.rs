//! Writing the arguments of a call: as JSON, or as a string that holds JSON. The text of an object is never changed.

use std::borrow::Cow;

use rejoin_record::json::{Object, write};
use rejoin_view::{Action, ArgumentsUse, ExchangeRef, Position, Rule, sound::wrapped_arguments};

use super::{names::CallSpelling, render::Ledger};

/// The arguments as a JSON object. Half of a surrogate pair is refused there, so it is replaced.
pub fn object<'c>(exchange: ExchangeRef<'c>, at: Position, ledger: &mut Ledger) -> Cow<'c, str> {
    let arguments = &exchange.call().arguments;
    match exchange.arguments() {
        ArgumentsUse::AsWritten if arguments.text().is_lossy() || arguments.has_lone_surrogate() => {
            ledger.change(Rule::LoneSurrogate, at, Action::Replaced);
            let mut clean = String::new();
            write::clean_copy(&mut clean, arguments.text().trim());
            clean.into()
        }
        // The reader has parsed them: they are an object, and legal JSON.
        ArgumentsUse::AsWritten => arguments.text().trim().into(),
        ArgumentsUse::Empty => {
            ledger.change(Rule::BlankArguments, at, Action::Replaced);
            "{}".into()
        }
        ArgumentsUse::Wrapped => wrapped_arguments(arguments).into(),
    }
}

/// The arguments as a text that holds JSON.
pub fn text<'c>(exchange: ExchangeRef<'c>, at: Position, ledger: &mut Ledger) -> Cow<'c, str> {
    if exchange.arguments() == ArgumentsUse::AsWritten {
        let arguments = exchange.call().arguments.text();
        ledger.lossy(arguments, at);
        return arguments.as_str().into();
    }
    object(exchange, at, ledger)
}

/// A call in the form of Chat Completions, where arguments are a string.
pub fn function_call(
    spelled: &CallSpelling,
    exchange: ExchangeRef<'_>,
    at: Position,
    ledger: &mut Ledger,
) -> String {
    let arguments = text(exchange, at, ledger);
    // Each quotation mark in the arguments gets a backslash.
    let room = spelled.name.len() + arguments.len() * 5 / 4 + 32;
    let function = Object::with_room(room).text("name", &spelled.name).text("arguments", arguments);
    let call = Object::with_room(room + spelled.id.len() + 48);
    call.text("id", &spelled.id).text("type", "function").object("function", function).finish()
}
