//! What surrounds the messages of a request body: its other top-level fields, verbatim and in order.

use rejoin_record::{
    Raw, Text,
    json::{Doc, Kind, Value},
};

use crate::wire::{registry::Dialect, render::opaque_label};

/// One top-level field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: Text,
    /// Its value, as it was written.
    pub value: Raw,
}

/// The surroundings of a list of messages.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The dialect that the body was written in, if it was a body.
    pub dialect: Option<Dialect>,
    /// Whether there was a whole body, or just the list.
    pub whole_body: bool,
    /// The other fields, in order.
    pub fields: Vec<Field>,
    /// How many of them stood before the messages.
    pub before_messages: usize,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// Its name.
    pub name: Text,
    /// What it is for.
    pub description: Option<Text>,
    /// The JSON schema of its arguments.
    pub schema: Option<Raw>,
    /// The declaration as it was written.
    pub raw: Raw,
    /// Who runs it, and what it takes.
    pub kind: ToolKind,
    /// Fields that have no counterpart in other dialects.
    pub more: Vec<String>,
}

/// Kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Called with a JSON object, run by whoever sent the request.
    Function,
    /// Called with free text.
    FreeText,
    /// Run by the provider itself, or something else that no other dialect has.
    Provider,
}

/// A piece of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPiece {
    /// What it says.
    pub text: Text,
    /// Its own block, if it is one that Anthropic takes.
    pub block: Option<Raw>,
}

/// Which tool a model must call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any or none, as it likes.
    Auto,
    /// None.
    Never,
    /// Some tool.
    Any,
    /// This one.
    Named(Text),
}

impl Context {
    /// A field's value; of duplicates the last one. A `null` counts as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Raw> {
        self.fields
            .iter()
            .rev()
            .find(|field| &*field.name == name)
            .map(|f| &f.value)
            .filter(|v| v.as_str() != "null")
    }

    /// The model that the body names.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        let doc = Doc::parse(self.get("model")?.as_str()).ok()?;
        doc.root()?.as_str().map(std::borrow::Cow::into_owned)
    }

    /// The system prompt, piece by piece. What is no text is kept as a labelled one.
    #[must_use]
    pub fn system(&self) -> Vec<SystemPiece> {
        let Some(raw) = self.get("system") else { return Vec::new() };
        let doc = Doc::parse(raw.as_str());
        let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { return Vec::new() };
        match root.kind() {
            Kind::Array => root.items().map(system_piece).collect(),
            _ => vec![system_piece(root)],
        }
    }

    /// The declared tools, whatever dialect declares them. Those that cannot be understood are left out.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolDeclaration> {
        let Some(raw) = self.get("tools") else { return Vec::new() };
        let Ok(doc) = Doc::parse(raw.as_str()) else { return Vec::new() };
        let Some(root) = doc.root() else { return Vec::new() };
        root.items().filter_map(declaration).collect()
    }

    /// Fields of the tool choice that other dialects do not have.
    #[must_use]
    pub fn tool_choice_more(&self) -> Vec<String> {
        let Some(raw) = self.get("tool_choice") else { return Vec::new() };
        let doc = Doc::parse(raw.as_str());
        let fields = doc.as_ref().ok().and_then(Doc::root).into_iter().flat_map(Value::fields);
        let names = fields.filter_map(|(key, _)| Some(key.as_str()?.into_owned()));
        names.filter(|name| !["type", "name", "function", "custom"].contains(&name.as_str())).collect()
    }

    /// The tool choice, whatever dialect it is written in.
    #[must_use]
    pub fn tool_choice(&self) -> Option<ToolChoice> {
        let doc = Doc::parse(self.get("tool_choice")?.as_str()).ok()?;
        let root = doc.root()?;
        let word = root.as_str().or_else(|| root.get("type")?.as_str())?;
        let name = || {
            let holder = root.get("function").or_else(|| root.get("custom")).unwrap_or(root);
            holder.get("name").and_then(|name| Some(Text::new(&*name.as_str()?)))
        };
        match &*word {
            "auto" => Some(ToolChoice::Auto),
            "none" => Some(ToolChoice::Never),
            "any" | "required" => Some(ToolChoice::Any),
            "tool" | "function" | "custom" => name().map(ToolChoice::Named),
            _ => None,
        }
    }
}

fn system_piece(value: Value<'_>) -> SystemPiece {
    let text = |value: Value<'_>| value.as_str().map(|text| Text::new(&*text));
    if let Some(text) = text(value) {
        return SystemPiece { text, block: None };
    }
    match value.get("text").and_then(text) {
        Some(text) => {
            let typed = value.get("type").is_some_and(|kind| kind.is_str("text"));
            SystemPiece { text, block: (typed && value.is_clean()).then(|| Raw::new(value.raw())) }
        }
        None => SystemPiece { text: Text::from(opaque_label("", value.raw())), block: None },
    }
}

fn declaration(value: Value<'_>) -> Option<ToolDeclaration> {
    let body = value.given("function").or_else(|| value.given("custom")).unwrap_or(value);
    let text = |name| body.given(name).and_then(Value::as_str).map(|text| Text::new(&*text));
    let schema = body.given("input_schema").or_else(|| body.given("parameters"));
    let kind = match value.given("type").and_then(Value::as_str).as_deref() {
        None | Some("function") => ToolKind::Function,
        // OpenAI means free text by it, Anthropic an ordinary tool.
        Some("custom") if value.given("custom").is_some() => ToolKind::FreeText,
        Some("custom") => ToolKind::Function,
        Some(_) => ToolKind::Provider,
    };
    let held = ["type", "function", "custom", "name", "description", "input_schema", "parameters"];
    let outer = value.fields().map(|(key, _)| key);
    let inner = if body.start() == value.start() { None } else { Some(body.fields().map(|(key, _)| key)) };
    let more = outer.chain(inner.into_iter().flatten()).filter_map(|key| Some(key.as_str()?.into_owned()));
    let more = more.filter(|name| !held.contains(&name.as_str())).collect();
    Some(ToolDeclaration {
        kind,
        more,
        name: text("name")?,
        description: text("description"),
        schema: schema.filter(|schema| schema.kind() == Kind::Object).map(|schema| Raw::new(schema.raw())),
        raw: Raw::new(value.raw()),
    })
}
