//! `recall`: reads messages that are no longer in the window.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;

use super::{Plan, RunningCall, Tool, ToolArguments, ToolOutput};
use crate::provider::BoxFuture;

const SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"words to look for in the whole conversation, also in results and in what was summarized"},"message":{"type":"integer","minimum":0,"description":"the number of a message to read in full"},"from":{"type":"integer","minimum":0,"description":"the byte of that message to begin at, to read on in a long one"}},"additionalProperties":false}"#;

/// Reads earlier messages of the same conversation that a view no longer shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recall;

/// The messages that a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecallRequest {
    /// All messages with these words.
    Query(String),
    /// The message with this number, from a byte on.
    Message { number: usize, from: usize },
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

/// Reads the arguments of a call, which must have exactly one of the two.
pub(crate) fn wanted(arguments: &str) -> Result<RecallRequest, ToolOutput> {
    let arguments = ToolArguments::parse(arguments)?;
    let query = arguments.get("query").and_then(serde_json::Value::as_str).map(str::trim);
    let number = arguments.get("message").filter(|number| !number.is_null());
    match (query.filter(|query| !query.is_empty()), number) {
        (_, Some(number)) => {
            let from = arguments.get("from").filter(|from| !from.is_null());
            let number = whole(number, "`message` must be the number of a message, from 0")?;
            let from = from.map_or(Ok(0), |from| whole(from, "`from` must be a number of bytes, from 0"))?;
            Ok(RecallRequest::Message { number, from })
        }
        (Some(query), None) => Ok(RecallRequest::Query(query.to_owned())),
        (None, None) => Err(ToolOutput::error(
            "say what to look for: `query` with a few words, or `message` with a number",
        )),
    }
}

fn whole(number: &serde_json::Value, wrong: &str) -> Result<usize, ToolOutput> {
    let whole = number.as_u64().and_then(|number| usize::try_from(number).ok());
    whole.ok_or_else(|| ToolOutput::error(wrong))
}
