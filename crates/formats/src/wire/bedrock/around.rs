//! What goes around the messages of a Bedrock body: system prompt, tools, tool choice.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::{json::write, text::is_blank};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::{body::Surroundings, names::wire_name, registry::Dialect, render, tools};
use super::encode::{Encoder, NAME_LENGTH};
use crate::context::ToolChoice;

impl Encoder {
    pub(super) fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        if !self.system.is_empty() {
            let mut out = String::new();
            render::array(&mut out, self.system.iter().map(String::as_str));
            around.put("system", out);
        }
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = tools::declared(context, spell, &mut self.ledger);
        let mut specs: Vec<String> = declared
            .iter()
            .map(|(name, tool)| {
                let description = tool.description.as_deref().filter(|text| !is_blank(text));
                tool_spec(name, description, &tools::schema(tool))
            })
            .collect();
        let mut names: Vec<String> = declared.into_iter().map(|(name, _)| name).collect();
        if specs.is_empty() && !self.used_tools.is_empty() {
            let finding = Finding::new(Rule::StubTools, Position::default(), Action::Inserted);
            names = self.used_tools.iter().cloned().collect();
            self.ledger.note(finding.about(names.join(", ")));
            specs.extend(names.iter().map(|name| tool_spec(name, None, "{\"type\":\"object\"}")));
        }
        let choice = tools::choice(context, &names, spell, &mut self.ledger);
        let choice = choice.as_ref().and_then(tool_choice);
        if !specs.is_empty() {
            let mut out = String::from("{\"tools\":");
            render::array(&mut out, specs.iter().map(String::as_str));
            if let Some(choice) = &choice {
                write::key(&mut out, "toolChoice");
                out.push_str(choice);
            }
            out.push('}');
            around.put("toolConfig", out);
        }
        around.translated(context, choice.is_some());
        if context.dialect == Some(Dialect::Bedrock) {
            // The address of a request names it.
            around.leave_out("model");
        }
        around
    }
}

fn tool_spec(name: &str, description: Option<&str>, schema: &str) -> String {
    let mut out = String::from("{\"toolSpec\":{\"name\":");
    write::string(&mut out, name);
    if let Some(description) = description {
        write::key(&mut out, "description");
        write::string(&mut out, description);
    }
    write::key(&mut out, "inputSchema");
    out.push_str("{\"json\":");
    out.push_str(schema);
    out.push_str("}}}");
    out
}

/// There is no way to forbid tools: such a choice is left out.
fn tool_choice(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto => Some(String::from("{\"auto\":{}}")),
        ToolChoice::Any => Some(String::from("{\"any\":{}}")),
        ToolChoice::Never => None,
        ToolChoice::Named(name) => Some(format!("{{\"tool\":{{\"name\":{}}}}}", render::literal(name))),
    }
}

fn spell(name: &str) -> Cow<'_, str> {
    wire_name(name, NAME_LENGTH)
}
