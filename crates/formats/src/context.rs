//! The other top-level fields of a request body, verbatim and in order.

use rejoin_record::{
    Raw, Text,
    json::{Doc, Object, Value, ValueKind, list, quoted},
    limits,
};

use crate::{
    messages::{list::items, roles::is_among},
    wire::{
        registry::{Dialect, Fields, Wire},
        render::{clean, opaque_label},
    },
};

/// One top-level field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: Text,
    /// The value, verbatim.
    pub value: Raw,
}

/// Everything around a list of messages.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The dialect of the body; `None` if there was no body.
    pub dialect: Option<Dialect>,
    /// Whether the source was a whole body and not just the list.
    pub whole_body: bool,
    /// Whether the source was a list of messages with nothing around it.
    pub bare_list: bool,
    /// The other fields, in order.
    pub fields: Vec<Field>,
    /// How many of the fields came before the messages.
    pub before_messages: usize,
    /// Instructions that belong to the conversation and to no dialect. They come first in every request.
    pub instructions: Option<Text>,
    /// Tools of the conversation itself, in no dialect. They are declared before the tools of the fields.
    pub offered: Vec<ToolDeclaration>,
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// The name in the source's spelling.
    pub name: Text,
    /// What the tool does, for the model.
    pub description: Option<Text>,
    /// The JSON schema of its arguments.
    pub schema: Option<Raw>,
    /// The declaration, verbatim.
    pub raw: Raw,
    /// Who runs the tool, and what it takes.
    pub kind: ToolKind,
    /// Fields that have no counterpart in other dialects.
    pub more: Vec<String>,
}

impl ToolDeclaration {
    /// What a model is shown of the tool: its name, its description and the schema of its arguments.
    pub fn shown(&self) -> [&str; 3] {
        let description = self.description.as_deref().map_or("", |text| text);
        [&self.name, description, self.schema.as_ref().map_or("", Raw::as_str)]
    }

    /// A tool that takes a JSON object.
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

    /// Reads a declaration; `None` if it has no name.
    pub fn read(value: Value<'_>, wire: Option<&Wire>) -> Option<Self> {
        let custom_is_free_text = wire.is_some_and(|wire| wire.tools.custom_is_free_text);
        let body = value.given("function").or_else(|| value.given("custom")).unwrap_or(value);
        let text = |name| body.given(name).and_then(Value::as_str).map(Text::new);
        let schema = ["input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema"]
            .iter()
            .find_map(|name| body.given(name));
        // A schema that is nested deeper than every dialect accepts is left out.
        let deep = schema.is_some_and(|schema| schema.is_deeper_than(limits::NESTING));
        let schema = schema.filter(|_| !deep);
        let kind = match value.given("type").and_then(Value::as_str).as_deref() {
            None | Some("function") => ToolKind::Function,
            // OpenAI means free text by it, Anthropic an ordinary tool.
            Some("custom") if value.given("custom").is_some() || custom_is_free_text => ToolKind::FreeText,
            Some("custom") => ToolKind::Function,
            Some(_) => ToolKind::Provider,
        };
        let held = "type function custom name description input_schema parameters parametersJsonSchema \
                    parameters_json_schema";
        let inner = Some(body).filter(|body| body.start() != value.start());
        let keys = value.fields().chain(inner.into_iter().flat_map(Value::fields));
        let names = keys.filter_map(|(key, _)| Some(key.as_str()?.into_owned()));
        let mut more: Vec<String> = names.filter(|name| !is_among(name, held)).collect();
        if deep {
            more.push(String::from("schema"));
        }
        Some(Self {
            kind,
            more,
            // The provider's own tools may have only a type for a name.
            name: text("name").or_else(|| {
                let own = kind == ToolKind::Provider && custom_is_free_text;
                value.given("type").filter(|_| own)?.as_str().map(Text::new)
            })?,
            description: text("description"),
            schema: schema.filter(|schema| schema.kind() == ValueKind::Object).map(|schema| {
                match wire.and_then(|wire| wire.tools.schema) {
                    Some(read) => Raw::new(read(schema)),
                    None => Raw::new(schema.raw()),
                }
            }),
            raw: Raw::new(value.raw()),
        })
    }
}

/// The kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Called with a JSON object, and run by the client.
    Function,
    /// Called with free text.
    FreeText,
    /// Run by the provider, or without a counterpart in other dialects.
    Provider,
}

/// A piece of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPiece {
    /// The text.
    pub text: Text,
    /// The block that holds it, if Anthropic accepts that.
    pub block: Option<Raw>,
}

/// Which tools the model may or must call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any tool, or none.
    Auto,
    /// No tool.
    Never,
    /// At least one tool.
    Any,
    /// This tool.
    Named(Text),
}

impl Context {
    /// A field's value; of duplicates the last one. A `null` counts as absent.
    pub fn get(&self, name: &str) -> Option<&Raw> {
        self.fields
            .iter()
            .rev()
            .find(|field| &*field.name == name)
            .map(|f| &f.value)
            .filter(|value| !is_null(value))
    }

    /// The context of a file that names nothing but the model that spoke.
    pub(crate) fn of_model(dialect: Dialect, model: Option<&str>) -> Self {
        let mut context = Self { dialect: Some(dialect), ..Self::default() };
        model.into_iter().for_each(|model| context.put("model", &quoted(model)));
        context.before_messages = context.fields.len();
        context
    }

    /// Adds a field.
    pub fn put(&mut self, name: &str, value: &str) {
        self.fields.push(Field { name: Text::new(name), value: Raw::new(value) });
    }

    /// Writes everything as JSON for [`Context::from_json`].
    pub fn to_json(&self) -> String {
        let mut out = Object::new().text_if("dialect", self.dialect);
        if self.whole_body {
            out = out.flag("whole_body", true);
        }
        let field = |field: &Field| {
            Object::new().text("name", &field.name).raw("value", &in_one_line(&field.value)).finish()
        };
        out =
            out.count("before_messages", self.before_messages).list("fields", self.fields.iter().map(field));
        out = out.text_if("instructions", self.instructions.as_ref());
        if !self.offered.is_empty() {
            out = out.raw("offered", &offered_json(&self.offered));
        }
        out.finish()
    }

    /// Reads what [`Context::to_json`] wrote.
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
            instructions: root.get("instructions").and_then(Value::as_str).map(Text::new),
            offered: root.get("offered").map(offered).unwrap_or_default(),
        })
    }

    /// The limit that the body sets on the length of an answer, in tokens.
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
    pub fn model(&self) -> Option<String> {
        let doc = Doc::parse(self.get("model")?.as_str()).ok()?;
        doc.root()?.as_str().map(std::borrow::Cow::into_owned)
    }

    fn fields(&self) -> &'static Fields {
        self.dialect.map_or(&Fields::COMMON, |dialect| &dialect.wire().fields)
    }

    /// The first of these fields that is given.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, &Raw)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// The name of the system prompt's field, and its value.
    pub fn system_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(self.dialect.map_or(&["system"], |dialect| dialect.wire().fields.system))
    }

    /// The name of the field with the tools, and its value.
    pub fn tools_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(&["tools"])
    }

    /// The name of the tool choice's field, and its value.
    pub fn choice_field(&self) -> Option<(&'static str, &Raw)> {
        self.first(self.fields().choice)
    }

    /// The system prompt in pieces. Anything but text becomes a labelled text.
    pub fn system(&self) -> Vec<SystemPiece> {
        let Some((_, raw)) = self.system_field() else { return Vec::new() };
        let doc = Doc::of(raw.as_str());
        let Some(root) = doc.root() else { return Vec::new() };
        let root = self.fields().system_parts.and_then(|name| root.get(name)).unwrap_or(root);
        match root.kind() {
            ValueKind::Array => root.items().map(system_piece).collect(),
            ValueKind::Object if root.fields().next().is_none() => Vec::new(),
            _ => vec![system_piece(root)],
        }
    }

    /// The conversation's own instructions, unless they are blank.
    pub fn own_instructions(&self) -> Option<&Text> {
        self.instructions.as_ref().filter(|text| !text.is_blank())
    }

    /// The declared tools: the conversation's own, then those of the fields.
    pub fn tools(&self) -> Vec<ToolDeclaration> {
        self.offered.iter().cloned().chain(self.field_tools()).collect()
    }

    /// The tools that the fields declare, in any dialect. Declarations that cannot be read are left out.
    pub fn field_tools(&self) -> Vec<ToolDeclaration> {
        let Some(raw) = self.get("tools") else { return Vec::new() };
        let Ok(doc) = Doc::parse(raw.as_str()) else { return Vec::new() };
        let Some(root) = doc.root() else { return Vec::new() };
        let wire = self.dialect.map(Dialect::wire);
        match wire.and_then(|wire| wire.tools.several) {
            // One element may be written without its list.
            Some(several) => items(root).flat_map(several).collect(),
            None => root.items().filter_map(|value| ToolDeclaration::read(value, wire)).collect(),
        }
    }

    /// Fields of the tool choice that have no counterpart in other dialects.
    pub fn tool_choice_more(&self) -> Vec<String> {
        let Some((_, raw)) = self.choice_field() else { return Vec::new() };
        let doc = Doc::of(raw.as_str());
        let fields = doc.root().into_iter().flat_map(Value::fields);
        let names = fields.filter_map(|(key, _)| Some(key.as_str()?.into_owned()));
        let held = "type name function custom functionCallingConfig function_calling_config";
        names.filter(|name| !is_among(name, held)).collect()
    }

    /// The tool choice, in any dialect.
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

/// Writes a conversation's own tools as JSON for [`offered`].
pub fn offered_json(tools: &[ToolDeclaration]) -> String {
    list(tools.iter().map(|tool| {
        let schema = tool.schema.as_ref().map(in_one_line);
        let tool = Object::new().text("name", &tool.name).text_if("description", tool.description.as_ref());
        tool.raw_if("input_schema", schema.as_deref()).finish()
    }))
}

/// A copy of JSON without line breaks, since an entry of the record is one line. What is not quite JSON becomes JSON, so that
/// it can be read again.
fn in_one_line(raw: &Raw) -> String {
    clean(&raw.as_str().replace(['\n', '\r'], " "))
}

/// Reads a conversation's own tools from a list of `{"name", "description", "input_schema"}`.
pub fn offered(list: Value<'_>) -> Vec<ToolDeclaration> {
    list.items().filter_map(|value| ToolDeclaration::read(value, None)).collect()
}

fn system_piece(value: Value<'_>) -> SystemPiece {
    let text = |value: Value<'_>| value.as_str().map(Text::new);
    if let Some(text) = text(value) {
        return SystemPiece { text, block: None };
    }
    match value.get("text").and_then(text) {
        Some(text) => {
            let typed = value.says("type", "text");
            SystemPiece { text, block: (typed && value.is_clean()).then(|| Raw::new(value.raw())) }
        }
        None => SystemPiece { text: Text::from(opaque_label("", value.raw())), block: None },
    }
}
/// Whether a value is `null`, or not a number, which is written as `null`.
pub(crate) fn is_null(value: &Raw) -> bool {
    matches!(value.as_str(), "null" | "NaN" | "Infinity" | "-Infinity")
}
