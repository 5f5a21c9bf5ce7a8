//! What goes around the messages of an Anthropic body: system prompt, tools, tool choice, thinking.

use std::sync::Arc;

use rejoin_record::{
    Raw,
    json::{Doc, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::{body::Surroundings, names::wire_name, outline::with_mark, render, tools};
use super::{
    encode::{Encoder, NAME_LENGTH},
    marks::MARK,
};
use crate::{
    context::{Field, SystemPiece, ToolChoice, ToolDeclaration},
    convert::Marks,
};

impl Encoder {
    pub(super) fn surroundings(&mut self) -> Surroundings {
        self.around(self.target.marks)
    }

    /// The fields around the messages, with cache marks or without.
    pub(super) fn around(&mut self, marks: Marks) -> Surroundings {
        let mut around = Surroundings::default();
        self.system_field(&mut around);
        self.tools_field(&mut around);
        if self.same {
            self.thinking_field(&mut around);
            self.null_fields(&mut around);
        } else {
            let choice_sent = around.has("tool_choice");
            around.translated(&self.target.context, choice_sent);
        }
        if marks == Marks::Placed {
            self.mark(&mut around);
        }
        around
    }

    /// Puts a cache mark at the end of what stands before the messages: behind the system prompt, else behind the tools.
    fn mark(&self, around: &mut Surroundings) {
        for name in ["system", "tools"] {
            let written = self.target.context.get(name).filter(|_| self.same && !around.has(name));
            let value = around.value(name).or(written.map(Raw::as_str));
            if let Some(marked) = value.and_then(with_mark) {
                around.put(name, marked);
                return;
            }
        }
    }

    /// Settings that are `null` say nothing, and the API refuses them.
    fn null_fields(&mut self, around: &mut Surroundings) {
        for name in ["system", "tools", "tool_choice", "thinking"] {
            let null = |field: &Field| &*field.name == name && field.value.as_str() == "null";
            if self.target.context.fields.iter().any(null) && self.target.context.get(name).is_none() {
                let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about(name).because("it is null"));
                if !around.has(name) {
                    around.leave_out(name);
                }
            }
        }
    }

    fn system_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.target);
        let own = target.context.get("system").filter(|_| self.same);
        let pieces = self.target.context.system();
        let string = own.is_some_and(|own| own.as_str().starts_with('"'));
        let blank = |piece: &SystemPiece| piece.text.is_blank();
        // An empty string says nothing and is taken as it is.
        let list = own.is_none_or(|own| own.as_str().starts_with('['));
        let ours = self.same || pieces.is_empty();
        if !self.same && self.target.context.system_is_lossy() {
            self.ledger.change(Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced));
        }
        let taken = ours && (list && pieces.iter().all(|piece| piece.block.is_some() && !blank(piece)))
            || ours && (string && pieces.iter().all(|piece| !blank(piece) || piece.text.is_empty()));
        let strip = self.surplus_marks > 0 && own.is_some_and(|own| own.as_str().contains(MARK));
        let instructions = target.context.own_instructions();
        // Only a block can have a mark: where marks come and go, a text is always one.
        let unmarked = target.marks == Marks::AsWritten;
        if taken && self.system.is_empty() && !strip && instructions.is_none() && (unmarked || !string) {
            return;
        }
        if own.is_some() && !taken {
            let finding = Finding::new(Rule::IrregularContent, Position::default(), Action::Replaced);
            self.ledger.note(finding.about("system"));
        }
        let mut blocks: Vec<String> = instructions.into_iter().map(|text| render::text_block(text)).collect();
        for piece in pieces.iter().filter(|piece| !blank(piece)) {
            let block = piece.block.as_ref().map(Raw::as_str);
            blocks.push(match block {
                Some(raw) => self.marked(raw, Position::default()).json.into_owned(),
                None => render::text_block(&piece.text),
            });
        }
        blocks.extend(self.system.iter().map(|text| render::text_block(text)));
        match (&self.system[..], blocks.len()) {
            (_, 0) => around.leave_out("system"),
            (_, 1) if instructions.is_some() && unmarked => {
                around.put("system", render::literal(instructions.map_or("", |text| text)));
            }
            ([only], 1) if unmarked => around.put("system", render::literal(only)),
            ([], 1) if !self.same && unmarked => {
                let only = pieces.iter().find(|piece| !blank(piece));
                around.put("system", render::literal(only.map_or("", |piece| &piece.text)));
            }
            _ => {
                let mut out = String::new();
                render::array(&mut out, blocks.iter().map(String::as_str));
                around.put("system", out);
            }
        }
    }

    fn tools_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = context.field_tools();
        let legal = |tool: &ToolDeclaration| wire_name(&tool.name, NAME_LENGTH) == *tool.name;
        let marked = |raw: &Raw| raw.as_str().contains(MARK);
        let marks = self.same && self.surplus_marks > 0 && context.get("tools").is_some_and(marked);
        let rebuilt = !self.same || marks || !context.offered.is_empty() || !declared.iter().all(legal);
        let mut tools: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let own = context.offered.iter().map(|tool| (tool, false));
        let same = self.same;
        for (tool, written) in own.chain(declared.iter().map(|tool| (tool, same))) {
            let Some(json) = self.declaration(tool, written) else { continue };
            let json = if marks { self.marked(&json, Position::default()).json.into_owned() } else { json };
            tools.push(json);
            names.push(wire_name(&tool.name, NAME_LENGTH).into_owned());
        }
        if tools.is_empty() && !self.used_tools.is_empty() {
            let finding = Finding::new(Rule::StubTools, Position::default(), Action::Inserted);
            names = self.used_tools.iter().cloned().collect();
            self.ledger.note(finding.about(names.join(", ")));
            tools.extend(names.iter().map(|name| {
                format!("{{\"name\":{},\"input_schema\":{{\"type\":\"object\"}}}}", render::literal(name))
            }));
        } else if !rebuilt {
            tools.clear();
        }
        if !tools.is_empty() {
            let mut out = String::new();
            render::array(&mut out, tools.iter().map(String::as_str));
            around.put("tools", out);
        }
        self.choice_field(around, &names);
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
        let there = named.as_ref().map_or(!names.is_empty(), |name| names.contains(name));
        if self.same {
            if let (Some(wire), ToolChoice::Named(name)) = (&named, &choice)
                && **wire != **name
            {
                let raw = context.get("tool_choice").map_or("{}", Raw::as_str);
                around.put("tool_choice", render::with_field(raw, "name", &render::literal(wire)));
            }
            return;
        }
        for field in context.tool_choice_more() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about(format!("{field} of tool_choice")));
        }
        if there {
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
            return Some(render::with_field(tool.raw.as_str(), "name", &render::literal(&name)));
        }
        let mut out = String::from("{\"name\":");
        write::string(&mut out, &name);
        if let Some(description) = &tool.description {
            write::key(&mut out, "description");
            write::string(&mut out, description);
        }
        write::key(&mut out, "input_schema");
        out.push_str(&tools::schema(tool));
        out.push('}');
        Some(out)
    }

    /// Thinking cannot stay on where the history cannot carry it (ANT-18) or a tool is forced (ANT-23).
    fn thinking_field(&mut self, around: &mut Surroundings) {
        let Some(thinking) = self.target.context.get("thinking") else { return };
        let enabled = Doc::parse(thinking.as_str()).is_ok_and(|doc| {
            doc.root().and_then(|root| root.get("type")).is_some_and(|kind| kind.is_str("enabled"))
        });
        let forced =
            matches!(self.target.context.tool_choice(), Some(ToolChoice::Any | ToolChoice::Named(_)));
        if enabled && (self.tool_loop == Some(false) || forced) {
            self.ledger.note(Finding::new(Rule::ThinkingOff, Position::default(), Action::Replaced));
            around.put("thinking", String::from("{\"type\":\"disabled\"}"));
        }
    }
}

fn tool_choice(choice: &ToolChoice) -> String {
    match choice {
        ToolChoice::Auto => String::from("{\"type\":\"auto\"}"),
        ToolChoice::Never => String::from("{\"type\":\"none\"}"),
        ToolChoice::Any => String::from("{\"type\":\"any\"}"),
        ToolChoice::Named(name) => {
            format!("{{\"type\":\"tool\",\"name\":{}}}", render::literal(&wire_name(name, NAME_LENGTH)))
        }
    }
}
