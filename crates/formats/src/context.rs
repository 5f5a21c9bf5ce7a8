//! What surrounds the messages of a request body: its other top-level fields, verbatim and in order.

use rejoin_record::{
    Raw, Text,
    json::{Doc, Kind, Value, write},
    limits,
};

use crate::wire::{
    registry::{Dialect, Fields, Wire},
    render::opaque_label,
};

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
    /// Whether the source was one list of messages with nothing around it.
    pub bare_list: bool,
    /// The other fields, in order.
    pub fields: Vec<Field>,
    /// How many of them stood before the messages.
    pub before_messages: usize,
    /// Instructions of the conversation's own, of no dialect: they stand before everything else, where the dialect has them.
    pub instructions: Option<Text>,
    /// Tools of the conversation's own, of no dialect: declared before those of the fields.
    pub offered: Vec<ToolDeclaration>,
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

impl ToolDeclaration {
    /// A tool that takes a JSON object.
    #[must_use]
    pub fn function(name: impl Into<Text>, description: impl Into<Text>, schema: Raw) -> Self {
        Self {
            name: name.into(),
            description: Some(description.into()),
            schema: Some(schema),
            raw: Raw::new("{}"),
            kind: ToolKind::Function,
            more: Vec::new(),
        }
    }

    /// Reads a declaration, of a dialect or of none; nothing if it has no name.
    #[must_use]
    pub fn read(value: Value<'_>, wire: Option<&Wire>) -> Option<Self> {
        let custom_is_free_text = wire.is_some_and(|wire| wire.tools.custom_is_free_text);
        let body = value.given("function").or_else(|| value.given("custom")).unwrap_or(value);
        let text = |name| body.given(name).and_then(Value::as_str).map(|text| Text::new(&*text));
        let schema = ["input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema"]
            .iter()
            .find_map(|name| body.given(name));
        // Nesting that no dialect is sure to take does not go out.
        let deep = schema.is_some_and(|schema| schema.is_deeper_than(limits::NESTING));
        let schema = schema.filter(|_| !deep);
        let kind = match value.given("type").and_then(Value::as_str).as_deref() {
            None | Some("function") => ToolKind::Function,
            // OpenAI means free text by it, Anthropic an ordinary tool.
            Some("custom") if value.given("custom").is_some() || custom_is_free_text => ToolKind::FreeText,
            Some("custom") => ToolKind::Function,
            Some(_) => ToolKind::Provider,
        };
        let held = [
            "type",
            "function",
            "custom",
            "name",
            "description",
            "input_schema",
            "parameters",
            "parametersJsonSchema",
            "parameters_json_schema",
        ];
        let outer = value.fields().map(|(key, _)| key);
        let inner =
            if body.start() == value.start() { None } else { Some(body.fields().map(|(key, _)| key)) };
        let more =
            outer.chain(inner.into_iter().flatten()).filter_map(|key| Some(key.as_str()?.into_owned()));
        let mut more: Vec<String> = more.filter(|name| !held.contains(&name.as_str())).collect();
        if deep {
            more.push(String::from("schema"));
        }
        Some(Self {
            kind,
            more,
            // What the provider runs may have no name but its type.
            name: text("name").or_else(|| {
                let own = kind == ToolKind::Provider && custom_is_free_text;
                value.given("type").filter(|_| own)?.as_str().map(|text| Text::new(&*text))
            })?,
            description: text("description"),
            schema: schema.filter(|schema| schema.kind() == Kind::Object).map(|schema| {
                match wire.and_then(|wire| wire.tools.schema) {
                    Some(read) => Raw::new(read(schema)),
                    None => Raw::new(schema.raw()),
                }
            }),
            raw: Raw::new(value.raw()),
        })
    }
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

    /// Adds a field.
    pub fn put(&mut self, name: &str, value: &str) {
        self.fields.push(Field { name: Text::new(name), value: Raw::new(value) });
    }

    /// Everything of it as JSON, so that it can be had back: see [`Context::from_json`].
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        if let Some(dialect) = self.dialect {
            write::key(&mut out, "dialect");
            write::string(&mut out, dialect.name());
        }
        if self.whole_body {
            write::key(&mut out, "whole_body");
            out.push_str("true");
        }
        write::key(&mut out, "before_messages");
        out.push_str(&self.before_messages.to_string());
        write::key(&mut out, "fields");
        out.push('[');
        for (index, field) in self.fields.iter().enumerate() {
            out.push_str(if index > 0 { ",{" } else { "{" });
            write::key(&mut out, "name");
            write::string(&mut out, &field.name);
            write::key(&mut out, "value");
            // An entry is one line. What is not JSON could not be had back as it is: it becomes JSON.
            write::clean_copy(&mut out, &field.value.as_str().replace(['\n', '\r'], " "));
            out.push('}');
        }
        out.push(']');
        if let Some(instructions) = &self.instructions {
            write::key(&mut out, "instructions");
            write::string(&mut out, instructions);
        }
        if !self.offered.is_empty() {
            write::key(&mut out, "offered");
            out.push_str(&offered_json(&self.offered));
        }
        out.push('}');
        out
    }

    /// Reads what [`Context::to_json`] wrote.
    #[must_use]
    pub fn from_json(json: &str) -> Option<Self> {
        let doc = Doc::parse(json).ok()?;
        let root = doc.root()?;
        let field = |field: Value<'_>| {
            let name = Text::new(&*field.get("name")?.as_str()?);
            Some(Field { name, value: Raw::new(field.get("value")?.raw()) })
        };
        let fields: Vec<Field> = root.get("fields")?.items().filter_map(field).collect();
        let before = root.get("before_messages").and_then(Value::as_u64).unwrap_or(0);
        Some(Self {
            dialect: root.get("dialect").and_then(Value::as_str).and_then(|name| name.parse().ok()),
            whole_body: root.get("whole_body").and_then(Value::as_bool).unwrap_or(false),
            bare_list: false,
            before_messages: usize::try_from(before).unwrap_or(0).min(fields.len()),
            fields,
            instructions: root.get("instructions").and_then(Value::as_str).map(|text| Text::new(&*text)),
            offered: root.get("offered").map(offered).unwrap_or_default(),
        })
    }

    /// The most tokens that the body allows an answer to have.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        let (field, inner) = self.dialect?.wire().fields.max_tokens;
        let given = self.get(field).or_else(|| self.get("max_completion_tokens"))?;
        let doc = Doc::parse(given.as_str()).ok()?;
        let value = match inner {
            Some(inner) => doc.root()?.given(inner)?,
            None => doc.root()?,
        };
        value.as_u64().filter(|limit| *limit > 0)
    }

    /// The model that the body names.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        let doc = Doc::parse(self.get("model")?.as_str()).ok()?;
        doc.root()?.as_str().map(std::borrow::Cow::into_owned)
    }

    /// What the dialect calls its fields.
    fn fields(&self) -> &'static Fields {
        self.dialect.map_or(&Fields::COMMON, |dialect| &dialect.wire().fields)
    }

    /// The first of these fields that says something.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &Raw)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// The system prompt as it was written, and the name of its field.
    #[must_use]
    pub fn system_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(self.dialect.map_or(&["system"], |dialect| dialect.wire().fields.system))
    }

    /// The tool declarations as they were written, and the name of their field.
    #[must_use]
    pub fn tools_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(&["tools"])
    }

    /// The tool choice as it was written, and the name of its field.
    #[must_use]
    pub fn choice_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(self.fields().choice)
    }

    /// The system prompt, piece by piece. What is no text is kept as a labelled one.
    #[must_use]
    pub fn system(&self) -> Vec<SystemPiece> {
        let Some((_, raw)) = self.system_field() else { return Vec::new() };
        let doc = Doc::parse(raw.as_str());
        let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { return Vec::new() };
        let root = self.fields().system_parts.and_then(|name| root.get(name)).unwrap_or(root);
        match root.kind() {
            Kind::Array => root.items().map(system_piece).collect(),
            Kind::Object if root.fields().next().is_none() => Vec::new(),
            _ => vec![system_piece(root)],
        }
    }

    /// Whether the system prompt holds half of a surrogate pair.
    #[must_use]
    pub fn system_is_lossy(&self) -> bool {
        let raw = self.system_field().map_or("", |(_, raw)| raw.as_str());
        Doc::parse(raw).is_ok_and(|doc| doc.root().is_some_and(Value::has_lone_surrogate))
    }

    /// Instructions of the conversation's own, if they say anything.
    #[must_use]
    pub fn own_instructions(&self) -> Option<&Text> {
        self.instructions.as_ref().filter(|text| !text.is_blank())
    }

    /// The declared tools: the conversation's own, then those of the fields.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolDeclaration> {
        self.offered.iter().cloned().chain(self.field_tools()).collect()
    }

    /// The tools that the fields declare, whatever their dialect. Those that cannot be understood are left out.
    #[must_use]
    pub fn field_tools(&self) -> Vec<ToolDeclaration> {
        let Some(raw) = self.get("tools") else { return Vec::new() };
        let Ok(doc) = Doc::parse(raw.as_str()) else { return Vec::new() };
        let Some(root) = doc.root() else { return Vec::new() };
        let wire = self.dialect.map(Dialect::wire);
        match wire.and_then(|wire| wire.tools.several) {
            Some(several) => root.items().flat_map(several).collect(),
            None => root.items().filter_map(|value| ToolDeclaration::read(value, wire)).collect(),
        }
    }

    /// Fields of the tool choice that other dialects do not have.
    #[must_use]
    pub fn tool_choice_more(&self) -> Vec<String> {
        let Some((_, raw)) = self.choice_field() else { return Vec::new() };
        let doc = Doc::parse(raw.as_str());
        let fields = doc.as_ref().ok().and_then(Doc::root).into_iter().flat_map(Value::fields);
        let names = fields.filter_map(|(key, _)| Some(key.as_str()?.into_owned()));
        let held = ["type", "name", "function", "custom", "functionCallingConfig", "function_calling_config"];
        names.filter(|name| !held.contains(&name.as_str())).collect()
    }

    /// The tool choice, whatever dialect it is written in.
    #[must_use]
    pub fn tool_choice(&self) -> Option<ToolChoice> {
        let doc = Doc::parse(self.choice_field()?.1.as_str()).ok()?;
        let root = doc.root()?;
        if let Some(choice) = self.dialect.and_then(|dialect| dialect.wire().tools.choice) {
            return choice(root);
        }
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

/// Tools of a conversation's own, as they are kept: see [`offered`].
#[must_use]
pub fn offered_json(tools: &[ToolDeclaration]) -> String {
    let mut out = String::from("[");
    for (index, tool) in tools.iter().enumerate() {
        out.push_str(if index > 0 { ",{" } else { "{" });
        write::key(&mut out, "name");
        write::string(&mut out, &tool.name);
        if let Some(description) = &tool.description {
            write::key(&mut out, "description");
            write::string(&mut out, description);
        }
        if let Some(schema) = &tool.schema {
            write::key(&mut out, "input_schema");
            // An entry is one line.
            write::clean_copy(&mut out, &schema.as_str().replace(['\n', '\r'], " "));
        }
        out.push('}');
    }
    out.push(']');
    out
}

/// Tools of a conversation's own, read from a list of `{"name", "description", "input_schema"}`.
#[must_use]
pub fn offered(list: Value<'_>) -> Vec<ToolDeclaration> {
    list.items().filter_map(|value| ToolDeclaration::read(value, None)).collect()
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
