//! What goes around the contents of a Gemini body: system prompt, tools, tool choice.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::json::{Doc, Kind, Value, write};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::{body::Surroundings, registry::Dialect, render};
use super::{
    encode::{Encoder, gemini_name},
    pieces::text_part,
};
use crate::{
    chat::list::items,
    context::{Context, Field, ToolChoice, ToolDeclaration, ToolKind, surrounding_names},
    gemini::fields::{Fields, camel},
};

impl Encoder {
    pub(super) fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        self.system_field(&mut around);
        if self.same {
            self.renamed_tools(&mut around);
            self.offered_tools(&mut around);
        } else {
            let names = self.tools_field(&mut around);
            self.choice_field(&mut around, &names);
            let choice_sent = around.has("toolConfig");
            around.translated(&self.target.context, choice_sent);
        }
        around
    }

    fn system_field(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let own = context.system_field().filter(|_| self.same);
        let twice = own.and_then(|(name, _)| the_other(context, name));
        let taken = twice.is_none() && own.is_none_or(|(_, raw)| is_instruction(raw.as_str()));
        let instructions = context.own_instructions();
        if self.same && self.system.is_empty() && taken && instructions.is_none() {
            return;
        }
        if let Some((name, _)) = own.filter(|_| !taken) {
            let finding = Finding::new(Rule::IrregularContent, Position::default(), Action::Replaced);
            self.ledger.note(finding.about(name));
        }
        if !self.same && context.system_is_lossy() {
            self.ledger.change(Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced));
        }
        let mut pieces = context.system();
        if let Some((name, second)) = &twice {
            pieces.extend(second.system());
            around.leave_out(name);
        }
        let said = pieces.iter().filter(|piece| !piece.text.is_blank()).map(|piece| piece.text.as_str());
        let said = instructions.map(|text| text.as_str()).into_iter().chain(said);
        let parts: Vec<String> = said.chain(self.system.iter().map(String::as_str)).map(text_part).collect();
        let name = own.map_or("systemInstruction", |(name, _)| name);
        if parts.is_empty() {
            if self.same {
                around.leave_out(name);
            }
            return;
        }
        let mut out = String::from("{\"parts\":");
        render::array(&mut out, parts.iter().map(String::as_str));
        out.push('}');
        around.put(name, out);
    }

    /// Tools and their choice in this very dialect: as they are, unless a name must be spelled otherwise.
    fn renamed_tools(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = context.tools();
        let functions = declared.iter().filter(|tool| tool.kind != ToolKind::Provider);
        for tool in functions.filter(|tool| gemini_name(&tool.name) != *tool.name) {
            let finding = Finding::new(Rule::IllegalName, Position::default(), Action::Renamed);
            self.ledger.note(finding.about(tool.name.clone()));
        }
        let tools = context.tools_field().map(|field| (field, ["functionDeclarations", "name"]));
        let choice = context.choice_field();
        let choice = choice.map(|field| (field, ["functionCallingConfig", "allowedFunctionNames"]));
        for ((name, raw), path) in tools.into_iter().chain(choice) {
            let json = respelled(raw.as_str(), &path);
            if name == "tools" && raw.as_str().starts_with('{') {
                let finding = Finding::new(Rule::IrregularContent, Position::default(), Action::Replaced);
                self.ledger.note(finding.about(name).because("it is a list"));
                let mut list = String::from("[");
                write::clean_copy(&mut list, json.as_deref().unwrap_or(raw.as_str()));
                list.push(']');
                around.put(name, list);
            } else if let Some(json) = json {
                around.put(name, json);
            }
        }
    }

    /// The conversation's own tools, before those of the fields; none of these has a name that is taken.
    fn offered_tools(&mut self, around: &mut Surroundings) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let mut names: Vec<String> = Vec::new();
        let mut functions: Vec<String> = Vec::new();
        for tool in &context.offered {
            let name = gemini_name(&tool.name).into_owned();
            if self.ledger.declares(tool, &name, false) {
                functions.push(declaration(tool, &name));
                names.push(name);
            }
        }
        if functions.is_empty() {
            return;
        }
        let mut own = String::from("{\"functionDeclarations\":");
        render::array(&mut own, functions.iter().map(String::as_str));
        own.push('}');
        let mut list = vec![own];
        let written = around.value("tools").map(str::to_owned);
        let written = written.as_deref().or(context.get("tools").map(rejoin_record::Raw::as_str));
        let doc = written.and_then(|written| Doc::parse(written).ok());
        for element in doc.as_ref().and_then(Doc::root).into_iter().flat_map(items) {
            let (json, gone) = without_functions(element, &names);
            list.extend(json);
            for name in gone {
                let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about(format!("tool {name}")).because("it is declared twice"));
            }
        }
        let mut out = String::new();
        render::array(&mut out, list.iter().map(String::as_str));
        around.put("tools", out);
    }

    /// Declares the tools of another dialect, and gives their names.
    fn tools_field(&mut self, around: &mut Surroundings) -> Vec<String> {
        let mut names = Vec::new();
        let mut declared: HashSet<String> = HashSet::new();
        let mut functions: Vec<String> = Vec::new();
        for tool in &Arc::clone(&self.target).context.tools() {
            let name = gemini_name(&tool.name);
            if !self.ledger.declares(tool, &name, self.same) {
                continue;
            }
            if !declared.insert(name.to_string()) {
                let finding = Finding::new(Rule::UnknownField, Position::default(), Action::LeftOut);
                self.ledger.note(finding.about(format!("tool {name}")).because("it is declared twice"));
                continue;
            }
            functions.push(declaration(tool, &name));
            names.push(name.into_owned());
        }
        if !functions.is_empty() {
            let mut out = String::from("[{\"functionDeclarations\":");
            render::array(&mut out, functions.iter().map(String::as_str));
            out.push_str("}]");
            around.put("tools", out);
        }
        names
    }

    /// The tool choice of another dialect, left out where there is no such tool.
    fn choice_field(&mut self, around: &mut Surroundings, names: &[String]) {
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let Some(choice) = context.tool_choice() else { return };
        for field in context.tool_choice_more() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about(format!("{field} of tool_choice")));
        }
        let (mode, only) = match &choice {
            ToolChoice::Auto => ("AUTO", None),
            ToolChoice::Never => ("NONE", None),
            ToolChoice::Any => ("ANY", None),
            ToolChoice::Named(name) => ("ANY", Some(gemini_name(name))),
        };
        if only.as_ref().map_or(names.is_empty(), |only| !names.iter().any(|name| *name == **only)) {
            return;
        }
        let mut out = format!("{{\"functionCallingConfig\":{{\"mode\":\"{mode}\"");
        if let Some(only) = only {
            out.push_str(&format!(",\"allowedFunctionNames\":[{}]", render::literal(&only)));
        }
        out.push_str("}}");
        around.put("toolConfig", out);
    }
}

/// An element of the list of tools without the functions of these names, and their names; nothing if nothing is left of it.
fn without_functions(element: Value<'_>, names: &[String]) -> (Option<String>, Vec<String>) {
    let mut gone: Vec<String> = Vec::new();
    let mut out = String::from("{");
    for (key, value) in element.fields() {
        let key = key.as_str().unwrap_or_default();
        let mut json = String::new();
        if camel(&key) == "functionDeclarations" {
            let mut kept: Vec<String> = Vec::new();
            for function in items(value) {
                let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
                if names.iter().any(|taken| *taken == *gemini_name(&name)) {
                    gone.push(name.into_owned());
                } else {
                    let mut clean = String::new();
                    write::clean_copy(&mut clean, function.raw());
                    kept.push(clean);
                }
            }
            if kept.is_empty() && !gone.is_empty() {
                continue;
            }
            render::array(&mut json, kept.iter().map(String::as_str));
        } else {
            write::clean_copy(&mut json, value.raw());
        }
        write::key(&mut out, &key);
        out.push_str(&json);
    }
    out.push('}');
    if gone.is_empty() {
        out.clear();
        write::clean_copy(&mut out, element.raw());
    }
    ((out != "{}" || gone.is_empty()).then_some(out), gone)
}

/// The system prompt under the other one of its names, where both are given: the API takes one.
fn the_other(context: &Context, name: &str) -> Option<(&'static str, Context)> {
    let names = surrounding_names(Dialect::Gemini).1;
    let other = names.iter().find(|other| **other != name)?;
    let field = Field { name: (*other).into(), value: context.get(other)?.clone() };
    Some((other, Context { dialect: Some(Dialect::Gemini), fields: vec![field], ..Context::default() }))
}

/// Whether a system prompt is written as the API wants it: a content of texts.
fn is_instruction(raw: &str) -> bool {
    let doc = Doc::parse(raw);
    let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { return false };
    let fields = Fields::of(root);
    let text = |part: Value<'_>| {
        let fields = Fields::of(part);
        let text = fields.given("text").is_some_and(|text| text.kind() == Kind::String);
        text && fields.all().count() == 1
    };
    let parts = fields.given("parts").filter(|parts| parts.kind() == Kind::Array);
    fields.are_among(&["role", "parts"])
        && parts.is_some_and(|parts| parts.items().next().is_some() && parts.items().all(text))
}

fn declaration(tool: &ToolDeclaration, name: &str) -> String {
    let mut out = String::from("{\"name\":");
    write::string(&mut out, name);
    if let Some(description) = &tool.description {
        write::key(&mut out, "description");
        write::string(&mut out, description);
    }
    let schema = match tool.kind {
        ToolKind::FreeText => Some(render::FREE_TEXT_SCHEMA),
        _ => tool.schema.as_ref().map(rejoin_record::Raw::as_str),
    };
    if let Some(schema) = schema {
        // The field that takes any JSON schema; the other one knows a part of it only.
        write::key(&mut out, "parametersJsonSchema");
        write::clean_copy(&mut out, schema);
    }
    out.push('}');
    out
}

/// A value in which the names behind these two fields are spelled as the API wants them; everything else stays. Nothing if all
/// of them are. Either field may hold one thing or a list.
fn respelled(raw: &str, path: &[&str; 2]) -> Option<String> {
    let mut clean = String::new();
    write::clean_copy(&mut clean, raw);
    let doc = Doc::parse(&clean);
    let root = doc.as_ref().ok().and_then(Doc::root)?;
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

/// What stands behind a field, in either spelling of it.
fn behind<'d>(value: Value<'d>, name: &str) -> impl Iterator<Item = Value<'d>> {
    let matches = move |key: &Value<'d>| camel(&key.as_str().unwrap_or_default()) == name;
    value.fields().filter(move |(key, _)| matches(key)).flat_map(|(_, value)| items(value))
}
