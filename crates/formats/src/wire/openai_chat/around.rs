//! What goes around the messages of an OpenAI Chat body: tools and tool choice.

use std::sync::Arc;

use rejoin_record::{
    Raw,
    json::{Doc, Kind, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::{body::Surroundings, names::wire_name, render, tools};
use super::encode::{Encoder, NAME_LENGTH};
use crate::context::{ToolChoice, ToolDeclaration, ToolKind};

impl Encoder {
    pub(super) fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = context.field_tools();
        let given = context.fields.iter().any(|field| &*field.name == "tools");
        let legal = |tool: &ToolDeclaration| wire_name(&tool.name, NAME_LENGTH) == *tool.name;
        let mut tools: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let own = context.offered.iter().map(|tool| (tool, false));
        let same = self.same;
        for (tool, written) in own.chain(declared.iter().map(|tool| (tool, same))) {
            if let Some(json) = self.declaration(tool, written) {
                tools.push(json);
                names.push(wire_name(&tool.name, NAME_LENGTH).into_owned());
            }
        }
        let offers = !context.offered.is_empty();
        if self.same && given && !offers && declared.is_empty() && is_empty_list(context.get("tools")) {
            let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about("tools").because("an empty list is refused"));
            around.leave_out("tools");
            if context.fields.iter().any(|field| &*field.name == "tool_choice") {
                let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about("tool_choice").because("there are no tools"));
                around.leave_out("tool_choice");
            }
        } else if !tools.is_empty() && (!self.same || offers || !declared.iter().all(legal)) {
            let mut out = String::new();
            render::array(&mut out, tools.iter().map(String::as_str));
            around.put("tools", out);
        }
        self.choice_field(&mut around, &names);
        self.thinking_field(&mut around);
        if !self.same {
            let choice_sent = around.has("tool_choice");
            around.translated(context, choice_sent);
        }
        around
    }

    /// Where thinking is a field (DeepSeek), it cannot stay on if calls lack the reasoning that led to them (DS-01).
    fn thinking_field(&mut self, around: &mut Surroundings) {
        let Some(thinking) = self.target.context.get("thinking").filter(|_| self.same) else { return };
        let enabled = Doc::parse(thinking.as_str()).is_ok_and(|doc| {
            doc.root().and_then(|root| root.get("type")).is_some_and(|kind| kind.is_str("enabled"))
        });
        if enabled && self.calls_lack_reasoning {
            self.ledger.note(Finding::new(Rule::ThinkingOff, Position::default(), Action::Replaced));
            around.put("thinking", String::from("{\"type\":\"disabled\"}"));
        }
    }

    /// The tool choice: translated, and left out where there is no such tool.
    fn choice_field(&mut self, around: &mut Surroundings, names: &[String]) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let raw =
            context.fields.iter().rev().find(|field| &*field.name == "tool_choice").map(|field| &field.value);
        let Some(choice) = context.tool_choice() else {
            if self.same && raw.is_some_and(|raw| raw.as_str() == "null") {
                let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about("tool_choice").because("it is null"));
                around.leave_out("tool_choice");
            }
            return;
        };
        let named = match &choice {
            ToolChoice::Named(name) => Some(wire_name(name, NAME_LENGTH).into_owned()),
            _ => None,
        };
        if self.same {
            if let (Some(wire), ToolChoice::Named(name), Some(raw)) = (&named, &choice, raw)
                && **wire != **name
            {
                around.put("tool_choice", renamed(raw.as_str(), wire));
            }
            return;
        }
        for field in context.tool_choice_more() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about(format!("{field} of tool_choice")));
        }
        if named.as_ref().map_or(!names.is_empty(), |name| names.contains(name)) {
            around.put("tool_choice", tool_choice(&choice));
        }
    }

    /// A tool as it is declared; one that is `written` in this dialect goes out as it is.
    fn declaration(&mut self, tool: &ToolDeclaration, written: bool) -> Option<String> {
        let name = wire_name(&tool.name, NAME_LENGTH);
        if !self.ledger.declares(tool, &name, written) {
            return None;
        }
        if written {
            return Some(renamed(tool.raw.as_str(), &name));
        }
        let schema = tool.schema.as_ref().map(|schema| {
            let mut clean = String::new();
            write::clean_copy(&mut clean, schema.as_str());
            clean
        });
        let schema = if tool.kind == ToolKind::FreeText { Some(tools::schema(tool)) } else { schema };
        Some(tools::function(&name, tool, schema.as_deref()))
    }
}

/// A declaration or a choice with another name for its tool; every other field stays.
fn renamed(raw: &str, name: &str) -> String {
    let name = render::literal(name);
    let doc = Doc::parse(raw);
    let root = doc.as_ref().ok().and_then(Doc::root);
    let holder = ["function", "custom"].into_iter().find_map(|field| Some((field, root?.given(field)?)));
    match holder {
        Some((field, inner)) => {
            render::with_field(raw, field, &render::with_field(inner.raw(), "name", &name))
        }
        None => render::with_field(raw, "name", &name),
    }
}

fn tool_choice(choice: &ToolChoice) -> String {
    match choice {
        ToolChoice::Auto => String::from("\"auto\""),
        ToolChoice::Never => String::from("\"none\""),
        ToolChoice::Any => String::from("\"required\""),
        ToolChoice::Named(name) => {
            let name = render::literal(&wire_name(name, NAME_LENGTH));
            format!("{{\"type\":\"function\",\"function\":{{\"name\":{name}}}}}")
        }
    }
}

fn is_empty_list(tools: Option<&Raw>) -> bool {
    tools.is_none_or(|raw| {
        let doc = Doc::parse(raw.as_str());
        let root = doc.as_ref().ok().and_then(Doc::root);
        root.is_some_and(|root| root.kind() == Kind::Array && root.items().next().is_none())
    })
}
