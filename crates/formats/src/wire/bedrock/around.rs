//! The fields around the messages of a Bedrock body: system prompt, tools, tool choice.

use rejoin_record::text::is_blank;

use super::{
    WIRE,
    write::{Encoder, text_block},
};
use crate::wire::prelude::*;

impl Encoder {
    pub(super) fn around(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        if !self.state.system.is_empty() {
            around.put("system", render::list(self.state.system.iter().map(|text| text_block(text))));
        }
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let Declared { mut names, tools: mut specs, .. } = tools::declared(&mut self.state, |name, tool| {
            let description = tool.description.as_deref().filter(|text| !is_blank(text));
            tool_spec(name, description, &tools::schema(tool))
        });
        if specs.is_empty() {
            let stub = |name: &str| tool_spec(name, None, tools::ANY_OBJECT);
            specs = tools::stubs(&mut self.state, &mut names, stub);
        }
        let choice = tools::choice(&mut self.state, &names);
        let choice = choice.as_ref().and_then(tool_choice);
        if !specs.is_empty() {
            let config = Object::new().list("tools", specs).raw_if("toolChoice", choice.as_deref());
            around.put("toolConfig", config.finish());
        }
        around.translated(context, choice.is_some());
        if context.dialect == Some(WIRE.dialect) {
            // The address of the request names the model.
            around.leave_out("model");
        }
        around
    }
}

fn tool_spec(name: &str, description: Option<&str>, schema: &str) -> String {
    let spec = tools::described(name, description).object("inputSchema", Object::new().raw("json", schema));
    Object::new().object("toolSpec", spec).finish()
}

/// Writes a tool choice. The API cannot forbid tools, so that choice is left out.
fn tool_choice(choice: &ToolChoice) -> Option<String> {
    match choice {
        ToolChoice::Auto => Some(String::from("{\"auto\":{}}")),
        ToolChoice::Any => Some(String::from("{\"any\":{}}")),
        ToolChoice::Never => None,
        ToolChoice::Named(name) => {
            Some(Object::new().object("tool", Object::new().text("name", name)).finish())
        }
    }
}
