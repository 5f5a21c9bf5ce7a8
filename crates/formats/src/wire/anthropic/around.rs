//! The fields around the messages of an Anthropic body: system prompt, tools, tool choice, thinking.

use super::{marks::MARK, write::Encoder};
use crate::{
    context::SystemPiece,
    wire::{outline::with_mark, prelude::*},
};

const CHOICE: ChoiceSyntax = ChoiceSyntax {
    auto: "{\"type\":\"auto\"}",
    never: "{\"type\":\"none\"}",
    any: "{\"type\":\"any\"}",
    named: |name| Object::new().text("type", "tool").text("name", name),
};

impl Encoder {
    pub(super) fn around(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        self.system_field(&mut around);
        self.tools_field(&mut around);
        if self.state.same {
            // Thinking must be off if the history lacks it (ANT-18) or a tool is forced (ANT-23).
            let choice = self.state.target.context.tool_choice();
            let forced = matches!(choice, Some(ToolChoice::Any | ToolChoice::Named(_)));
            if self.tool_loop == Some(false) || forced {
                tools::turn_thinking_off(&mut self.state, &mut around);
            }
            let nulls = ["system", "tools", "tool_choice", "thinking"];
            tools::leave_out_nulls(&mut self.state, &mut around, &nulls);
        } else {
            let choice_sent = around.has("tool_choice");
            around.translated(&self.state.target.context, choice_sent);
        }
        if self.state.marks == CacheMarks::Placed {
            self.mark(&mut around);
        }
        around
    }

    /// Sets a cache mark before the messages: at the end of the system prompt, else at the end of the tools.
    fn mark(&self, around: &mut Surroundings) {
        for name in ["system", "tools"] {
            let written =
                self.state.target.context.get(name).filter(|_| self.state.same && !around.has(name));
            let value = around.value(name).or(written.map(Raw::as_str));
            if let Some(marked) = value.and_then(with_mark) {
                around.put(name, marked);
                return;
            }
        }
    }

    fn system_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.state.target);
        let own = target.context.get("system").filter(|_| self.state.same);
        let pieces = self.state.target.context.system();
        let string = own.is_some_and(|own| own.as_str().starts_with('"'));
        let blank = |piece: &SystemPiece| piece.text.is_blank();
        // The API accepts an empty string.
        let list = own.is_none_or(|own| own.as_str().starts_with('['));
        let ours = self.state.same || pieces.is_empty();
        if !self.state.same {
            self.state.ledger.lossy_system(&target.context);
        }
        let taken = ours && (list && pieces.iter().all(|piece| piece.block.is_some() && !blank(piece)))
            || ours && (string && pieces.iter().all(|piece| !blank(piece) || piece.text.is_empty()));
        let strip = self.surplus_marks > 0 && own.is_some_and(|own| own.as_str().contains(MARK));
        let instructions = target.context.own_instructions();
        // Only a block can have a mark, so if marks may change, text is always sent as a block.
        let unmarked = target.marks == CacheMarks::AsWritten;
        if taken && self.state.system.is_empty() && !strip && instructions.is_none() && (unmarked || !string)
        {
            return;
        }
        if own.is_some() && !taken {
            self.state.note_field(Rule::IrregularContent, Action::Replaced, "system");
        }
        let mut blocks: Vec<String> = instructions.into_iter().map(|text| render::text_block(text)).collect();
        for piece in pieces.iter().filter(|piece| !blank(piece)) {
            let block = piece.block.as_ref().map(Raw::as_str);
            blocks.push(match block {
                Some(raw) => self.marked(raw, Position::default()).json.into_block(),
                None => render::text_block(&piece.text),
            });
        }
        blocks.extend(self.state.system.iter().map(|text| render::text_block(text)));
        match (&self.state.system[..], blocks.len()) {
            (_, 0) => around.leave_out("system"),
            (_, 1) if instructions.is_some() && unmarked => {
                around.put("system", render::quoted(instructions.map_or("", |text| text)));
            }
            ([only], 1) if unmarked => around.put("system", render::quoted(only)),
            ([], 1) if !self.state.same && unmarked => {
                let only = pieces.iter().find(|piece| !blank(piece));
                around.put("system", render::quoted(only.map_or("", |piece| &piece.text)));
            }
            _ => {
                around.put("system", render::list(blocks));
            }
        }
    }

    fn tools_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let marked = |raw: &Raw| raw.as_str().contains(MARK);
        let marks = self.state.same && self.surplus_marks > 0 && context.get("tools").is_some_and(marked);
        let rebuilt =
            !self.state.same || marks || !context.offered.is_empty() || tools::has_illegal_name(&self.state);
        let Declared { mut names, mut tools, .. } = tools::declared(&mut self.state, declaration);
        if marks {
            for tool in &mut tools {
                *tool = self.marked(tool, Position::default()).json.into_block();
            }
        }
        if tools.is_empty() {
            let stub =
                |name: &str| Object::new().text("name", name).raw("input_schema", tools::ANY_OBJECT).finish();
            tools = tools::stubs(&mut self.state, &mut names, stub);
        } else if !rebuilt {
            tools.clear();
        }
        if !tools.is_empty() {
            around.put("tools", render::list(tools));
        }
        tools::put_choice(&mut self.state, around, &names, &CHOICE);
    }
}

fn declaration(name: &str, tool: &ToolDeclaration) -> String {
    tools::described(name, tool.description.as_deref()).raw("input_schema", &tools::schema(tool)).finish()
}
