//! `recall`: reads what is no longer in the window.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{Plan, RunningCall, Tool, ToolArguments, ToolOutput};
use crate::provider::BoxFuture;

const SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"words to look for in the whole conversation, also in results and in what was summarized"},"message":{"type":"integer","minimum":0,"description":"the number of a message to read in full"}},"additionalProperties":false}"#;

/// Reads earlier messages of the same conversation that a view no longer shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recall;

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The messages with these words.
    Query(String),
    /// The message with this number.
    Message(usize),
}

impl Tool for Recall {
    fn declaration(&self) -> ToolDeclaration {
        let about = "Reads earlier parts of this conversation that are no longer shown: finds messages by words, or returns one in full \
                     by its number. Nothing is ever lost: use it before you ask again or repeat work.";
        ToolDeclaration::function("recall", about, Raw::new(SCHEMA))
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Box::pin(std::future::ready(wanted(arguments).map(|_| Plan::Recalls)))
    }

    fn run<'a>(&'a self, _: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(std::future::ready(ToolOutput::error("there is something to recall only inside of a turn")))
    }
}

/// What a call asks for: one of the two.
pub(crate) fn wanted(arguments: &str) -> Result<Wanted, ToolOutput> {
    let arguments = ToolArguments::parse(arguments)?;
    let query = arguments.get("query").and_then(serde_json::Value::as_str).map(str::trim);
    let number = arguments.get("message").filter(|number| !number.is_null());
    match (query.filter(|query| !query.is_empty()), number) {
        (_, Some(number)) => {
            let number = number.as_u64().and_then(|number| usize::try_from(number).ok());
            let wrong = "`message` must be the number of a message, from 0";
            number.map(Wanted::Message).ok_or_else(|| ToolOutput::error(wrong))
        }
        (Some(query), None) => Ok(Wanted::Query(query.to_owned())),
        (None, None) => Err(ToolOutput::error(
            "say what to look for: `query` with a few words, or `message` with a number",
        )),
    }
}
