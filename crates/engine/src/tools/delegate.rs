//! `delegate`: hands a task to another conversation, and returns its final answer.

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;
use serde_json::Value;

use super::{Plan, RunningCall, Tool, ToolArguments, ToolOutput};
use crate::provider::BoxFuture;

/// The tool's name.
pub(crate) const NAME: &str = "delegate";

const SCHEMA: &str = r#"{"type":"object","properties":{"task":{"type":"string","description":"what to do, with everything that must be known: the other conversation sees nothing else"},"tools":{"type":"array","items":{"type":"string"},"description":"the names of the tools that may be used; all of yours if absent"}},"required":["task"],"additionalProperties":false}"#;

/// Hands a task to another conversation, with the same model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delegate;

impl Tool for Delegate {
    fn declaration(&self) -> ToolDeclaration {
        let about = "Hands a task to a new conversation with the same model, and returns its last words. Useful for a search or a \
                     change that can be described in a few sentences and whose details you do not need.";
        ToolDeclaration::function(NAME, about, Raw::new(SCHEMA))
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Box::pin(std::future::ready(given(arguments).map(|_| Plan::Delegates)))
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let (task, tools) = match given(call.arguments) {
                Ok(given) => given,
                Err(output) => return output,
            };
            match call.delegation {
                Some(delegation) => delegation.work(&task, tools.as_deref(), call.live, call.stop).await,
                None => ToolOutput::error("tasks can only be delegated inside of a turn"),
            }
        })
    }
}

/// The arguments of a call: the task, and the tools that it may use.
fn given(arguments: &str) -> Result<(String, Option<Vec<String>>), ToolOutput> {
    let arguments = ToolArguments::parse(arguments)?;
    let task = arguments.string("task")?.to_owned();
    if task.trim().is_empty() {
        return Err(ToolOutput::error("`task` is empty: say what to do"));
    }
    let tools = match arguments.get("tools") {
        None | Some(Value::Null) => None,
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            Some(names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect())
        }
        Some(_) => return Err(ToolOutput::error("`tools` must be a list of names of tools")),
    };
    Ok((task, tools))
}
