//! The fields around the items of a Responses body: instructions, tools and tool choice.

use super::{WIRE, write::Encoder};
use crate::wire::prelude::*;

const CHOICE: ChoiceSyntax = ChoiceSyntax {
    named: |name| Object::new().text("type", "function").text("name", name),
    ..ChoiceSyntax::CHAT
};

impl Encoder {
    pub(super) fn around(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let own = context.own_instructions().map(|text| text.as_str());
        if own.is_some() || self.instructions.is_some() {
            let texts: Vec<&str> = own.into_iter().chain(self.instructions.as_deref()).collect();
            around.put("instructions", render::quoted(&texts.join("\n\n")));
        }
        if self.state.same
            && let Some((name, raw)) = context.system_field()
            && (own.is_some() || !raw.as_str().starts_with('"'))
        {
            if !raw.as_str().starts_with('"') {
                self.state.note_field(Rule::IrregularContent, Action::Replaced, name);
            }
            let system = context.system();
            let texts = own.into_iter().chain(system.iter().map(|piece| &*piece.text));
            let texts: Vec<&str> = texts.filter(|text| own.is_none() || !text.is_empty()).collect();
            around.put(name, render::quoted(&texts.join("\n\n")));
        }
        tools::leave_out_nulls(&mut self.state, &mut around, &["tools", "tool_choice"]);
        let Declared { names, mut tools, offered } = tools::declared(&mut self.state, declaration);
        if self.state.same && (tools::has_illegal_name(&self.state) || !context.offered.is_empty()) {
            tools.truncate(offered);
            around.put("tools", self.written_tools(tools, &names[..offered]));
        } else if !self.state.same && !tools.is_empty() {
            around.put("tools", render::list(tools));
        }
        tools::put_choice(&mut self.state, &mut around, &names, &CHOICE);
        if !self.state.same {
            let choice_sent = around.has("tool_choice");
            around.translated(context, choice_sent);
        }
        around
    }

    /// These declarations, then the source's own: illegal names are respelled, and tools with a taken name are left out.
    fn written_tools(&mut self, mut out: Vec<String>, taken: &[String]) -> String {
        let raw = self.state.target.context.get("tools").map_or("[]", Raw::as_str);
        let doc = Doc::of(raw);
        for tool in doc.root().into_iter().flat_map(|root| root.items()) {
            let name = tool.get("name").and_then(|name| name.as_str());
            let wire = name.as_deref().map(|name| WIRE.spell(name));
            if wire.as_deref().is_some_and(|wire| taken.iter().any(|taken| taken == wire)) {
                continue;
            }
            out.push(match name.as_deref().zip(wire) {
                Some((name, wire)) if name != wire => {
                    render::with_field(tool.raw(), "name", &render::quoted(&wire))
                }
                _ => render::clean(tool.raw()),
            });
        }
        render::list(out)
    }
}

fn declaration(name: &str, tool: &ToolDeclaration) -> String {
    let out = Object::new().text("type", "function").text("name", name);
    let out = out.text_if("description", tool.description.as_ref()).raw("parameters", &tools::schema(tool));
    // Unlike every other API, this one is strict by default.
    out.flag("strict", false).finish()
}
