//! Tool declarations and tool choices of another dialect, translated.

use std::borrow::Cow;

use rejoin_record::{
    Raw,
    json::{Doc, Value, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::render::{self, Ledger};
use crate::context::{Context, ToolChoice, ToolDeclaration, ToolKind};

/// What a tool takes that is called with free text: calls of it carry the text in this field.
const FREE_TEXT_SCHEMA: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

/// The tools of another dialect that can be declared, each with its name as `spell` has it.
#[must_use]
pub fn declared(
    context: &Context,
    spell: fn(&str) -> Cow<'_, str>,
    ledger: &mut Ledger,
) -> Vec<(String, ToolDeclaration)> {
    let named = context.tools().into_iter().map(|tool| (spell(&tool.name).into_owned(), tool));
    named.filter(|(name, tool)| ledger.declares(tool, name, false)).collect()
}

/// The tool choice of another dialect, if it can go out: only a tool that is declared can be chosen. A tool has its name as
/// `spell` has it.
#[must_use]
pub fn choice(
    context: &Context,
    names: &[String],
    spell: fn(&str) -> Cow<'_, str>,
    ledger: &mut Ledger,
) -> Option<ToolChoice> {
    let choice = match context.tool_choice()? {
        ToolChoice::Named(name) => ToolChoice::Named(spell(&name).into_owned().into()),
        other => other,
    };
    for field in context.tool_choice_more() {
        let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
        ledger.note(finding.about(format!("{field} of tool_choice")));
    }
    let there = match &choice {
        ToolChoice::Named(name) => names.iter().any(|known| **known == **name),
        _ => !names.is_empty(),
    };
    there.then_some(choice)
}

/// A declaration as Chat Completions writes it.
#[must_use]
pub fn function(name: &str, tool: &ToolDeclaration, parameters: Option<&str>) -> String {
    let mut out = String::from("{\"type\":\"function\",\"function\":{\"name\":");
    write::string(&mut out, name);
    if let Some(description) = &tool.description {
        write::key(&mut out, "description");
        write::string(&mut out, description);
    }
    if let Some(parameters) = parameters {
        write::key(&mut out, "parameters");
        out.push_str(parameters);
    }
    out.push_str("}}");
    out
}

/// Declarations as Chat Completions writes them, each with a schema; `None` if there are none.
#[must_use]
pub fn functions(declared: &[(String, ToolDeclaration)]) -> Option<String> {
    let list: Vec<String> =
        declared.iter().map(|(name, tool)| function(name, tool, Some(&schema(tool)))).collect();
    let mut out = String::new();
    render::array(&mut out, list.iter().map(String::as_str));
    (!list.is_empty()).then_some(out)
}

/// What a tool takes, where a dialect demands a schema: always that of an object.
#[must_use]
pub fn schema(tool: &ToolDeclaration) -> String {
    match tool.kind {
        ToolKind::FreeText => FREE_TEXT_SCHEMA.to_owned(),
        _ => object_schema(tool.schema.as_ref()),
    }
}

/// A schema that says it is an object, as such dialects demand.
fn object_schema(schema: Option<&Raw>) -> String {
    let Some(schema) = schema else { return String::from("{\"type\":\"object\"}") };
    let doc = Doc::parse(schema.as_str());
    let root = doc.as_ref().ok().and_then(Doc::root);
    let typed = root.is_some_and(|root| root.get("type").is_some_and(|kind| kind.is_str("object")));
    let mut out = String::new();
    if typed {
        write::clean_copy(&mut out, schema.as_str());
    } else {
        out.push_str("{\"type\":\"object\"");
        for (key, value) in root.into_iter().flat_map(Value::fields).filter(|(key, _)| !key.is_str("type")) {
            write::key(&mut out, &key.as_str().unwrap_or_default());
            write::clean_copy(&mut out, value.raw());
        }
        out.push('}');
    }
    out
}
