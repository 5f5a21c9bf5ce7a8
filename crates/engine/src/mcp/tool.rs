//! A server's tool as an ordinary tool of the engine.

use std::sync::Arc;

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::Raw;
use serde_json::Value;

use super::server::{FoundTool, Server};
use crate::{
    auth::redact::harmless,
    provider::BoxFuture,
    tools::{Plan, PlannedChange, RunningCall, Tool, ToolArguments, ToolOutput},
};

/// A tool of a server.
pub(super) struct McpTool {
    pub server: Arc<Server>,
    pub found: FoundTool,
}

impl McpTool {
    fn planned(&self, arguments: &str) -> Result<Plan, ToolOutput> {
        let arguments = ToolArguments::parse(arguments)?;
        if self.server.entry.trust_hints && self.found.says_it_reads {
            return Ok(Plan::Reads);
        }
        let server = harmless(&self.server.entry.name, 80);
        let shown = serde_json::to_string_pretty(arguments.value()).unwrap_or_default();
        let preview = format!("{} of the MCP server {server}\n{shown}", harmless(&self.found.given, 120));
        Ok(Plan::Changes(PlannedChange { reach: self.server.reach(), ..PlannedChange::new(preview) }))
    }
}

impl Tool for McpTool {
    fn declaration(&self) -> ToolDeclaration {
        let FoundTool { name, description, schema, .. } = &self.found;
        ToolDeclaration::function(name.as_str(), description.as_str(), Raw::new(schema.as_str()))
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        Box::pin(std::future::ready(self.planned(arguments)))
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let arguments = match ToolArguments::parse(call.arguments).map(|given| given.value().clone()) {
                Ok(Value::Object(arguments)) => arguments,
                Ok(_) => {
                    return ToolOutput::error("the arguments are not a JSON object; the tool was not run");
                }
                Err(why) => {
                    return ToolOutput::error(format!(
                        "the arguments cannot be read: {why}; the tool was not run"
                    ));
                }
            };
            self.server.call(&self.found.given, arguments, call.stop).await
        })
    }
}
