//! Tool declarations of another dialect, translated.

use rejoin_record::{
    Raw,
    json::{Doc, Value, write},
};

use crate::context::{ToolDeclaration, ToolKind};

/// What a tool takes that is called with free text: calls of it carry the text in this field.
const FREE_TEXT_SCHEMA: &str =
    r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}"#;

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
