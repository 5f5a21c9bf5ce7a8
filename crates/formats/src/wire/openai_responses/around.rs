//! What goes around the items of a Responses body: instructions, tools and tool choice.

use std::sync::Arc;

use rejoin_record::{
    Raw,
    json::{Doc, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::{body::Surroundings, names::wire_name, render, tools};
use super::encode::{Encoder, NAME_LENGTH};
use crate::context::{ToolChoice, ToolDeclaration};

impl Encoder {
    pub(super) fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let own = context.own_instructions().map(|text| text.as_str());
        if own.is_some() || self.instructions.is_some() {
            let texts: Vec<&str> = own.into_iter().chain(self.instructions.as_deref()).collect();
            around.put("instructions", render::literal(&texts.join("\n\n")));
        }
        if self.same
            && let Some((name, raw)) = context.system_field()
            && (own.is_some() || !raw.as_str().starts_with('"'))
        {
            if !raw.as_str().starts_with('"') {
                let finding = Finding::new(Rule::IrregularContent, Position::default(), Action::Replaced);
                self.ledger.note(finding.about(name));
            }
            let system = context.system();
            let texts = own.into_iter().chain(system.iter().map(|piece| &*piece.text));
            let texts: Vec<&str> = texts.filter(|text| own.is_none() || !text.is_empty()).collect();
            around.put(name, render::literal(&texts.join("\n\n")));
        }
        self.null_fields(&mut around);
        let declared = context.field_tools();
        let legal = |tool: &ToolDeclaration| wire_name(&tool.name, NAME_LENGTH) == *tool.name;
        let mut tools: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for tool in &context.offered {
            if let Some(json) = self.declaration(tool, false) {
                tools.push(json);
                names.push(wire_name(&tool.name, NAME_LENGTH).into_owned());
            }
        }
        let offered = names.len();
        for tool in &declared {
            if let Some(json) = self.declaration(tool, self.same) {
                tools.push(json);
                names.push(wire_name(&tool.name, NAME_LENGTH).into_owned());
            }
        }
        let renamed = !declared.iter().all(legal);
        if self.same && (renamed || !context.offered.is_empty()) {
            tools.truncate(offered);
            around.put("tools", self.written_tools(tools, &names[..offered]));
        } else if !self.same && !tools.is_empty() {
            let mut out = String::new();
            render::array(&mut out, tools.iter().map(String::as_str));
            around.put("tools", out);
        }
        self.choice_field(&mut around, &names);
        if !self.same {
            let choice_sent = around.has("tool_choice");
            around.translated(context, choice_sent);
        }
        around
    }

    /// Settings of the dialect's own that are `null` say nothing.
    fn null_fields(&mut self, around: &mut Surroundings) {
        for name in ["tools", "tool_choice"] {
            let null = self
                .target
                .context
                .fields
                .iter()
                .any(|field| &*field.name == name && field.value.as_str() == "null");
            if self.same && null && self.target.context.get(name).is_none() {
                let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about(name).because("it is null"));
                around.leave_out(name);
            }
        }
    }

    /// These declarations, and the source's own behind them: those with a name that is refused under another one, none with a
    /// name that is taken.
    fn written_tools(&mut self, mut out: Vec<String>, taken: &[String]) -> String {
        let raw = self.target.context.get("tools").map_or("[]", Raw::as_str);
        let doc = Doc::parse(raw);
        for tool in doc.as_ref().ok().and_then(Doc::root).into_iter().flat_map(|root| root.items()) {
            let name = tool.get("name").and_then(|name| name.as_str());
            let wire = name.as_deref().map(|name| wire_name(name, NAME_LENGTH));
            if wire.is_some_and(|wire| taken.iter().any(|taken| *taken == *wire)) {
                continue;
            }
            let mut json = String::new();
            match name.as_deref().map(|name| (name, wire_name(name, NAME_LENGTH))) {
                Some((name, wire)) if name != wire => {
                    json.push_str(&render::with_field(tool.raw(), "name", &render::literal(&wire)));
                }
                _ => write::clean_copy(&mut json, tool.raw()),
            }
            out.push(json);
        }
        let mut list = String::new();
        render::array(&mut list, out.iter().map(String::as_str));
        list
    }

    /// The tool choice: translated, and left out where there is no such tool.
    fn choice_field(&mut self, around: &mut Surroundings, names: &[String]) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let Some(choice) = context.tool_choice() else { return };
        let named = match &choice {
            ToolChoice::Named(name) => Some(wire_name(name, NAME_LENGTH).into_owned()),
            _ => None,
        };
        if self.same {
            if let (Some(wire), ToolChoice::Named(name), Some((_, raw))) =
                (&named, &choice, context.choice_field())
                && **wire != **name
            {
                around.put("tool_choice", render::with_field(raw.as_str(), "name", &render::literal(wire)));
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

    fn declaration(&mut self, tool: &ToolDeclaration, written: bool) -> Option<String> {
        let name = wire_name(&tool.name, NAME_LENGTH);
        if !self.ledger.declares(tool, &name, written) {
            return None;
        }
        let mut out = String::from("{\"type\":\"function\",\"name\":");
        write::string(&mut out, &name);
        if let Some(description) = &tool.description {
            write::key(&mut out, "description");
            write::string(&mut out, description);
        }
        write::key(&mut out, "parameters");
        out.push_str(&tools::schema(tool));
        // Strict is what this API takes for granted, and what no other does.
        out.push_str(",\"strict\":false}");
        Some(out)
    }
}

fn tool_choice(choice: &ToolChoice) -> String {
    match choice {
        ToolChoice::Auto => String::from("\"auto\""),
        ToolChoice::Never => String::from("\"none\""),
        ToolChoice::Any => String::from("\"required\""),
        ToolChoice::Named(name) => {
            let name = render::literal(&wire_name(name, NAME_LENGTH));
            format!("{{\"type\":\"function\",\"name\":{name}}}")
        }
    }
}
