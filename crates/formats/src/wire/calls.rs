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

/// The arguments as a string literal that holds JSON. A long text is not decoded for it.
pub fn literal(exchange: ExchangeRef<'_>, at: Position, ledger: &mut Ledger) -> String {
    let mut literal = String::new();
    if exchange.arguments() == ArgumentsUse::AsWritten {
        let arguments = exchange.call().arguments.text();
        ledger.lossy(arguments, at);
        arguments.write_literal(&mut literal);
    } else {
        write::string(&mut literal, &object(exchange, at, ledger));
    }
    literal
}

/// A call in the form of Chat Completions, where arguments are a string.
pub fn function_call(
    spelled: &CallSpelling,
    exchange: ExchangeRef<'_>,
    at: Position,
    ledger: &mut Ledger,
) -> String {
    let arguments = literal(exchange, at, ledger);
    let room = spelled.name.len() + arguments.len() + 32;
    let function = Object::with_room(room).str("name", &spelled.name).raw("arguments", &arguments);
    let call = Object::with_room(room + spelled.id.len() + 48);
    call.str("id", &spelled.id).str("type", "function").object("function", function).finish()
}
