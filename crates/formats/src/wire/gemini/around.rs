//! The fields around the contents of a Gemini body: system prompt, tools, tool choice.

use super::{
    WIRE,
    pieces::text_part,
    read::fields::{CamelFields, camel},
    write::Encoder,
};
use crate::{
    context::{Context, Field},
    messages::list::items,
    wire::{names::spelled_name, prelude::*},
};

impl Encoder {
    pub(super) fn around(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        self.system_field(&mut around);
        if self.state.same {
            self.renamed_tools(&mut around);
            self.offered_tools(&mut around);
        } else {
            let Declared { names, tools: functions, .. } = tools::declared(&mut self.state, declaration);
            if !functions.is_empty() {
                let tool = Object::new().list("functionDeclarations", functions).finish();
                around.put("tools", format!("[{tool}]"));
            }
            if let Some(choice) = tools::choice(&mut self.state, &names) {
                around.put("toolConfig", tool_config(&choice));
            }
            let choice_sent = around.has("toolConfig");
            around.translated(&self.state.target.context, choice_sent);
        }
        around
    }

    fn system_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let own = context.system_field().filter(|_| self.state.same);
        let twice = own.and_then(|(name, _)| the_other(context, name));
        let taken = twice.is_none() && own.is_none_or(|(_, raw)| is_instruction(raw.as_str()));
        let instructions = context.own_instructions();
        if self.state.same && self.state.system.is_empty() && taken && instructions.is_none() {
            return;
        }
        if let Some((name, _)) = own.filter(|_| !taken) {
            self.state.note_field(Rule::IrregularContent, Action::Replaced, name);
        }
        if !self.state.same {
            self.state.ledger.lossy_system(context);
        }
        let mut pieces = context.system();
        if let Some((name, second)) = &twice {
            pieces.extend(second.system());
            around.leave_out(name);
        }
        let said = pieces.iter().filter(|piece| !piece.text.is_blank()).map(|piece| piece.text.as_str());
        let said = instructions.map(|text| text.as_str()).into_iter().chain(said);
        let parts: Vec<String> =
            said.chain(self.state.system.iter().map(String::as_str)).map(text_part).collect();
        let name = own.map_or("systemInstruction", |(name, _)| name);
        if parts.is_empty() {
            if self.state.same {
                around.leave_out(name);
            }
            return;
        }
        around.put(name, Object::new().list("parts", parts).finish());
    }

    /// Keeps tools and tool choice of this very dialect verbatim, apart from illegal names.
    fn renamed_tools(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let declared = context.tools();
        let functions = declared.iter().filter(|tool| tool.kind != ToolKind::Provider);
        for tool in functions.filter(|tool| gemini_name(&tool.name) != *tool.name) {
            self.state.note_field(Rule::IllegalName, Action::Renamed, tool.name.clone());
        }
        let tools = context.tools_field().map(|field| (field, ["functionDeclarations", "name"]));
        let choice = context.choice_field();
        let choice = choice.map(|field| (field, ["functionCallingConfig", "allowedFunctionNames"]));
        for ((name, raw), path) in tools.into_iter().chain(choice) {
            let json = respelled(raw.as_str(), &path);
            if name == "tools" && raw.as_str().starts_with('{') {
                let note = self.state.note_field(Rule::IrregularContent, Action::Replaced, name);
                note.because("it is a list");
                let tool = render::clean(json.as_deref().unwrap_or(raw.as_str()));
                around.put(name, format!("[{tool}]"));
            } else if let Some(json) = json {
                around.put(name, json);
            }
        }
    }

    /// Adds the conversation's own tools before those of the fields, which lose tools of the same names.
    fn offered_tools(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let mut names: Vec<String> = Vec::new();
        let mut functions: Vec<String> = Vec::new();
        for tool in &context.offered {
            let name = gemini_name(&tool.name).into_owned();
            if self.state.ledger.declares(tool, &name, false) {
                functions.push(declaration(&name, tool));
                names.push(name);
            }
        }
        if functions.is_empty() {
            return;
        }
        let mut list = vec![Object::new().list("functionDeclarations", functions).finish()];
        let written = around.value("tools").map(str::to_owned);
        let written = written.as_deref().or(context.get("tools").map(Raw::as_str));
        let doc = written.and_then(|written| Doc::parse(written).ok());
        for element in doc.as_ref().and_then(Doc::root).into_iter().flat_map(items) {
            let (json, gone) = without_functions(element, &names);
            list.extend(json);
            for name in gone {
                let tool = format!("tool {name}");
                let note = self.state.note_field(Rule::ForeignField, Action::LeftOut, tool);
                note.because("it is declared twice");
            }
        }
        around.put("tools", render::list(list));
    }
}

fn tool_config(choice: &ToolChoice) -> String {
    let (mode, only) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::Never => ("NONE", None),
        ToolChoice::Any => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some(name)),
    };
    let config = Object::new().text("mode", mode);
    let config = match only {
        Some(only) => config.list("allowedFunctionNames", [render::quoted(only)]),
        None => config,
    };
    Object::new().object("functionCallingConfig", config).finish()
}

pub(super) fn gemini_name(name: &str) -> Cow<'_, str> {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    spelled_name(name, 64, begins, legal)
}

/// The tools in one element of `tools`: its functions, and the provider's own.
pub(super) fn tools_in(value: Value<'_>) -> Vec<ToolDeclaration> {
    let list = value.given("functionDeclarations").or_else(|| value.given("function_declarations"));
    let functions = list.into_iter().flat_map(Value::items);
    let mut tools: Vec<_> =
        functions.filter_map(|function| ToolDeclaration::read(function, Some(&WIRE))).collect();
    let own = ["functionDeclarations", "function_declarations"];
    for (key, _) in value.fields().filter(|(key, _)| !own.iter().any(|name| key.is_str(name))) {
        let name = key.as_str().unwrap_or_default();
        tools.push(ToolDeclaration {
            name: Text::new(&*name),
            description: None,
            schema: None,
            raw: Raw::new(value.raw()),
            kind: ToolKind::Provider,
            more: Vec::new(),
        });
    }
    tools
}

pub(super) fn choice_in(root: Value<'_>) -> Option<ToolChoice> {
    let config = root.given("functionCallingConfig").or_else(|| root.given("function_calling_config"))?;
    let mut allowed = config
        .given("allowedFunctionNames")
        .or_else(|| config.given("allowed_function_names"))
        .into_iter()
        .flat_map(Value::items);
    match (&*config.get("mode")?.as_str()?.to_ascii_uppercase(), allowed.next(), allowed.next()) {
        ("AUTO", ..) => Some(ToolChoice::Auto),
        ("NONE", ..) => Some(ToolChoice::Never),
        ("ANY", Some(only), None) => Some(ToolChoice::Named(Text::new(&*only.as_str()?))),
        ("ANY", ..) => Some(ToolChoice::Any),
        _ => None,
    }
}

/// Removes the functions of these names from an element of `tools`, and returns their names. The element is `None` if nothing is
/// left of it.
fn without_functions(element: Value<'_>, names: &[String]) -> (Option<String>, Vec<String>) {
    let mut gone: Vec<String> = Vec::new();
    let mut out = String::from("{");
    for (key, value) in element.fields() {
        let key = key.as_str().unwrap_or_default();
        let json = if camel(&key) == "functionDeclarations" {
            let mut kept: Vec<String> = Vec::new();
            for function in items(value) {
                let name = function.word("name");
                if names.iter().any(|taken| *taken == *gemini_name(&name)) {
                    gone.push(name.into_owned());
                } else {
                    kept.push(render::clean(function.raw()));
                }
            }
            if kept.is_empty() && !gone.is_empty() {
                continue;
            }
            render::list(kept)
        } else {
            render::clean(value.raw())
        };
        write::key(&mut out, &key);
        out.push_str(&json);
    }
    out.push('}');
    if gone.is_empty() {
        out = render::clean(element.raw());
    }
    ((out != "{}" || gone.is_empty()).then_some(out), gone)
}

/// The system prompt under its other name, if both are given: the API accepts only one.
fn the_other(context: &Context, name: &str) -> Option<(&'static str, Context)> {
    let names = WIRE.fields.system;
    let other = names.iter().find(|other| **other != name)?;
    let field = Field { name: (*other).into(), value: context.get(other)?.clone() };
    Some((other, Context { dialect: Some(WIRE.dialect), fields: vec![field], ..Context::default() }))
}

/// Whether a system prompt has the form that the API demands: a content of texts.
fn is_instruction(raw: &str) -> bool {
    let doc = Doc::of(raw);
    let Some(root) = doc.root() else { return false };
    let fields = CamelFields::of(root);
    let text = |part: Value<'_>| {
        let fields = CamelFields::of(part);
        let text = fields.given("text").is_some_and(|text| text.kind() == ValueKind::String);
        text && fields.all().count() == 1
    };
    let parts = fields.given("parts").filter(|parts| parts.kind() == ValueKind::Array);
    fields.are_among(&["role", "parts"])
        && parts.is_some_and(|parts| parts.items().next().is_some() && parts.items().all(text))
}

fn declaration(name: &str, tool: &ToolDeclaration) -> String {
    let schema = match tool.kind {
        ToolKind::FreeText => Some(tools::FREE_TEXT_SCHEMA),
        _ => tool.schema.as_ref().map(Raw::as_str),
    };
    let schema = schema.map(render::clean);
    // This field takes any JSON schema; `parameters` takes only a part of it.
    let tool = tools::described(name, tool.description.as_deref());
    tool.raw_if("parametersJsonSchema", schema.as_deref()).finish()
}

/// Respells the names at a path of two fields, each of which may hold one value or a list; `None` if all names are legal.
/// Everything else stays.
fn respelled(raw: &str, path: &[&str; 2]) -> Option<String> {
    let clean = render::clean(raw);
    let doc = Doc::of(&clean);
    let root = doc.root()?;
    let mut out = String::with_capacity(clean.len());
    let mut copied = 0;
    let holders = items(root).flat_map(|value| behind(value, path[0]));
    for name in holders.flat_map(|holder| behind(holder, path[1])) {
        let Some(text) = name.as_str() else { continue };
        let wire = gemini_name(&text);
        if *wire != *text {
            out.push_str(&clean[copied..name.start()]);
            write::string(&mut out, &wire);
            copied = name.end();
        }
    }
    out.push_str(&clean[copied..]);
    (copied > 0).then_some(out)
}

/// The values of a field, in either spelling.
fn behind<'d>(value: Value<'d>, name: &str) -> impl Iterator<Item = Value<'d>> {
    let matches = move |key: &Value<'d>| camel(&key.as_str().unwrap_or_default()) == name;
    value.fields().filter(move |(key, _)| matches(key)).flat_map(|(_, value)| items(value))
}
