//! Tool declarations and tool choices, verbatim or translated.

use std::sync::Arc;

use rejoin_record::{
    Raw,
    json::{Doc, Object, Value},
};
use rejoin_view::{Action, Position, Rule};

use super::{body::Surroundings, pass::EncoderState, render};
use crate::context::{ToolChoice, ToolDeclaration, ToolKind, is_null};

/// The schema of a tool that takes free text, which its calls carry in the field `input`.
pub const FREE_TEXT_SCHEMA: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

/// The schema of a tool whose arguments are unknown.
pub const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// The declarations of a request: the conversation's own tools, then those of the fields.
#[derive(Default)]
pub struct Declared {
    /// The names in the dialect's spelling.
    pub names: Vec<String>,
    pub tools: Vec<String>,
    /// How many of them are the conversation's own.
    pub offered: usize,
}

/// Declares the tools. Declarations in this very dialect stay verbatim, apart from illegal names; `write` makes the others.
pub fn declared(state: &mut EncoderState, write: impl Fn(&str, &ToolDeclaration) -> String) -> Declared {
    let target = Arc::clone(&state.target);
    let own = state.same && !state.wire.repeats.is_empty();
    let declared = target.context.field_tools();
    let offered = target.context.offered.iter().map(|tool| (tool, false));
    let mut out = Declared::default();
    for (place, (tool, written)) in offered.chain(declared.iter().map(|tool| (tool, own))).enumerate() {
        let name = state.wire.spell(&tool.name).into_owned();
        if state.ledger.declares(tool, &name, written) {
            out.tools.push(if written { renamed(tool.raw.as_str(), &name) } else { write(&name, tool) });
            out.names.push(name);
            out.offered += usize::from(place < target.context.offered.len());
        }
    }
    out
}

/// Stubs for the tools of the history, where a dialect refuses calls of undeclared tools.
pub fn stubs(
    state: &mut EncoderState,
    names: &mut Vec<String>,
    write: impl Fn(&str) -> String,
) -> Vec<String> {
    names.extend(state.spelling.used_tools().iter().cloned());
    if !names.is_empty() {
        state.note_field(Rule::StubTools, Action::Inserted, names.join(", "));
    }
    names.iter().map(|name| write(name)).collect()
}

/// Whether the source declares a tool with an illegal name.
pub fn has_illegal_name(state: &EncoderState) -> bool {
    let tools = state.target.context.field_tools();
    tools.iter().any(|tool| state.wire.spell(&tool.name) != *tool.name)
}

/// The tool choice of another dialect; `None` if the chosen tool is not declared.
pub fn choice(state: &mut EncoderState, names: &[String]) -> Option<ToolChoice> {
    let target = Arc::clone(&state.target);
    let choice = match target.context.tool_choice()? {
        ToolChoice::Named(name) => ToolChoice::Named(state.wire.spell(&name).into_owned().into()),
        other => other,
    };
    for field in target.context.tool_choice_more() {
        state.note_field(Rule::ForeignField, Action::LeftOut, format!("{field} of tool_choice"));
    }
    let there = match &choice {
        ToolChoice::Named(name) => names.iter().any(|known| **known == **name),
        _ => !names.is_empty(),
    };
    there.then_some(choice)
}

/// How a dialect writes a tool choice, in JSON.
pub struct ChoiceSyntax {
    pub auto: &'static str,
    pub never: &'static str,
    pub any: &'static str,
    /// The object that chooses the tool of this name.
    pub named: fn(&str) -> Object,
}

impl ChoiceSyntax {
    pub const CHAT: Self = Self {
        auto: "\"auto\"",
        never: "\"none\"",
        any: "\"required\"",
        named: |name| {
            Object::new().text("type", "function").object("function", Object::new().text("name", name))
        },
    };

    pub fn write(&self, choice: &ToolChoice) -> String {
        match choice {
            ToolChoice::Auto => self.auto.to_owned(),
            ToolChoice::Never => self.never.to_owned(),
            ToolChoice::Any => self.any.to_owned(),
            ToolChoice::Named(name) => (self.named)(name).finish(),
        }
    }
}

/// Sets the tool choice: verbatim apart from an illegal name, or translated.
pub fn put_choice(
    state: &mut EncoderState,
    around: &mut Surroundings,
    names: &[String],
    syntax: &ChoiceSyntax,
) {
    let target = Arc::clone(&state.target);
    if !state.same {
        if let Some(choice) = choice(state, names) {
            around.put("tool_choice", syntax.write(&choice));
        }
    } else if let (Some(ToolChoice::Named(name)), Some((field, raw))) =
        (target.context.tool_choice(), target.context.choice_field())
    {
        let wire = state.wire.spell(&name);
        if *wire != *name {
            around.put(field, renamed(raw.as_str(), &wire));
        }
    }
}

/// Leaves out settings that are `null`: they have no effect, and some are refused.
pub fn leave_out_nulls(state: &mut EncoderState, around: &mut Surroundings, names: &[&'static str]) {
    let target = Arc::clone(&state.target);
    for name in names {
        // Of fields with one name, the last one counts.
        let own = target.context.fields.iter().rfind(|field| &*field.name == *name);
        if state.same && own.is_some_and(|field| is_null(&field.value)) {
            state.note_field(Rule::UnknownField, Action::LeftOut, *name).because("it is null");
            if !around.has(name) {
                around.leave_out(name);
            }
        }
    }
}

/// Turns thinking off where the history does not allow it.
pub fn turn_thinking_off(state: &mut EncoderState, around: &mut Surroundings) {
    let Some(thinking) = state.target.context.get("thinking").filter(|_| state.same) else { return };
    let doc = Doc::of(thinking.as_str());
    let kind = doc.root().and_then(|root| root.get("type"));
    if kind.is_some_and(|kind| kind.is_str("enabled")) {
        state.ledger.note(Rule::ThinkingOff, Position::default(), Action::Replaced);
        around.put("thinking", String::from("{\"type\":\"disabled\"}"));
    }
}

/// Renames the tool of a declaration or a choice; every other field stays.
fn renamed(raw: &str, name: &str) -> String {
    let name = render::quoted(name);
    let doc = Doc::of(raw);
    let root = doc.root();
    let holder = ["function", "custom"].into_iter().find_map(|field| Some((field, root?.given(field)?)));
    match holder {
        Some((field, inner)) => {
            render::with_field(raw, field, &render::with_field(inner.raw(), "name", &name))
        }
        None => render::with_field(raw, "name", &name),
    }
}

/// Begins a declaration with the tool's name and description.
pub fn described(name: &str, description: Option<&str>) -> Object {
    Object::new().text("name", name).text_if("description", description)
}

/// A declaration in the form of Chat Completions.
pub fn function(name: &str, tool: &ToolDeclaration, parameters: Option<&str>) -> String {
    let function = described(name, tool.description.as_deref()).raw_if("parameters", parameters);
    Object::new().text("type", "function").object("function", function).finish()
}

/// A declaration in the form of Chat Completions that always has a schema.
pub fn function_with_schema(name: &str, tool: &ToolDeclaration) -> String {
    function(name, tool, Some(&schema(tool)))
}

/// The schema of a tool, for dialects that demand the schema of an object.
pub fn schema(tool: &ToolDeclaration) -> String {
    match tool.kind {
        ToolKind::FreeText => FREE_TEXT_SCHEMA.to_owned(),
        _ => object_schema(tool.schema.as_ref()),
    }
}

fn object_schema(schema: Option<&Raw>) -> String {
    let Some(schema) = schema else { return ANY_OBJECT.to_owned() };
    let doc = Doc::of(schema.as_str());
    let root = doc.root();
    if root.is_some_and(|root| root.says("type", "object")) {
        return render::clean(schema.as_str());
    }
    let fields = root.into_iter().flat_map(Value::fields).filter(|(key, _)| !key.is_str("type"));
    fields.fold(Object::new().text("type", "object"), render::cleaned_field).finish()
}
