//! The fields around the messages of an OpenAI Chat body: tools and tool choice.

use super::write::Encoder;
use crate::wire::prelude::*;

impl Encoder {
    pub(super) fn around(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let declared = context.field_tools();
        let given = context.fields.iter().any(|field| &*field.name == "tools");
        let Declared { names, tools, .. } = tools::declared(&mut self.state, declaration);
        let offers = !context.offered.is_empty();
        if self.state.same && given && !offers && declared.is_empty() && is_empty_list(context.get("tools")) {
            let note = self.state.note_field(Rule::UnknownField, Action::LeftOut, "tools");
            note.because("an empty list is refused");
            around.leave_out("tools");
            if context.fields.iter().any(|field| &*field.name == "tool_choice") {
                let note = self.state.note_field(Rule::UnknownField, Action::LeftOut, "tool_choice");
                note.because("there are no tools");
                around.leave_out("tool_choice");
            }
        } else if !tools.is_empty() && (!self.state.same || offers || tools::has_illegal_name(&self.state)) {
            around.put("tools", render::list(tools));
        }
        tools::leave_out_nulls(&mut self.state, &mut around, &["tool_choice"]);
        tools::put_choice(&mut self.state, &mut around, &names, &ChoiceSyntax::CHAT);
        // DeepSeek refuses to think if calls in the history lack the reasoning behind them (DS-01).
        if self.calls_lack_reasoning {
            tools::turn_thinking_off(&mut self.state, &mut around);
        }
        if !self.state.same {
            let choice_sent = around.has("tool_choice");
            around.translated(context, choice_sent);
        }
        around
    }
}

fn declaration(name: &str, tool: &ToolDeclaration) -> String {
    let schema = tool.schema.as_ref().map(|schema| render::clean(schema.as_str()));
    let schema = if tool.kind == ToolKind::FreeText { Some(tools::schema(tool)) } else { schema };
    tools::function(name, tool, schema.as_deref())
}

fn is_empty_list(tools: Option<&Raw>) -> bool {
    tools.is_none_or(|raw| {
        let doc = Doc::of(raw.as_str());
        let root = doc.root();
        root.is_some_and(|root| root.kind() == ValueKind::Array && root.items().next().is_none())
    })
}
