//! Writing the fields around the messages: those of the source in their order, with the messages in their place.

use std::collections::{HashMap, HashSet};

use rejoin_record::{Raw, json::write};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{registry::Wire, render::with_field};
use crate::{
    context::{Context, Field},
    convert::Target,
};

/// The fields around the messages, as the dialect demands them.
#[derive(Default)]
pub struct Surroundings {
    /// New values of fields; `None` leaves a field out.
    pub set: Vec<(&'static str, Option<String>)>,
    /// A value that replaces the list of messages.
    pub list: Option<String>,
}

impl Surroundings {
    /// Sets a field.
    pub fn put(&mut self, name: &'static str, value: String) {
        self.set.push((name, Some(value)));
    }

    /// Leaves a field out.
    pub fn leave_out(&mut self, name: &'static str) {
        self.set.push((name, None));
    }

    /// Marks the other dialect's system prompt and tools as translated, and its tool choice if that was sent.
    pub fn translated(&mut self, context: &Context, choice_sent: bool) {
        let choice = context.choice_field().filter(|_| choice_sent);
        for (name, _) in [context.system_field(), context.tools_field(), choice].into_iter().flatten() {
            if !self.has(name) {
                self.leave_out(name);
            }
        }
    }

    /// The new value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.set.iter().rev().find(|(set, _)| *set == name)?.1.as_deref()
    }

    /// Whether a field was set or left out.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.set.iter().any(|(set, _)| *set == name)
    }
}

/// Writes the text before and after the messages. From the same dialect, all fields are kept in order; from another, only those
/// that were translated.
pub fn write_around(
    target: &Target,
    wire: &Wire,
    mut around: Surroundings,
    findings: &mut Vec<Finding>,
) -> (String, String) {
    if let Some(model) = &target.model {
        let mut value = String::new();
        write::string(&mut value, model);
        around.put("model", value);
    }
    let context = &target.context;
    let same = context.dialect == Some(wire.dialect);
    limit(target, wire, same, &mut around);
    let mut out = String::from("{");
    let mut written: HashSet<&str> = HashSet::new();
    let last: HashMap<&str, &Field> = context.fields.iter().map(|field| (&*field.name, field)).collect();
    if same {
        for field in &context.fields[..context.before_messages] {
            write_field(&mut out, &last, &field.name, &around, &mut written, findings);
        }
    } else {
        let first = |name: &str| name == "model" || wire.fields.system.contains(&name);
        for (name, _) in around.set.iter().filter(|(name, _)| first(name)) {
            write_field(&mut out, &last, name, &around, &mut written, findings);
        }
    }
    write::key(&mut out, wire.fields.messages);
    out.push_str(around.list.as_deref().unwrap_or("["));
    // `write::key` puts a comma after anything but an opening brace, so the text must not be empty.
    let head = std::mem::replace(&mut out, String::from("]"));
    if same {
        for field in &context.fields[context.before_messages..] {
            write_field(&mut out, &last, &field.name, &around, &mut written, findings);
        }
    } else {
        for field in &context.fields {
            let translated = around.set.iter().any(|(name, _)| *name == &*field.name);
            if !translated && field.value.as_str() != "null" {
                let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
                findings.push(finding.about(field.name.clone()));
            }
        }
    }
    for (name, _) in &around.set {
        write_field(&mut out, &last, name, &around, &mut written, findings);
    }
    out.push('}');
    if around.list.is_some() {
        out.remove(0);
    }
    (head, out)
}

/// Sets the limit on the answer's length: the caller's, or that of another dialect's body.
fn limit(target: &Target, wire: &Wire, same: bool, around: &mut Surroundings) {
    let carried = target.context.max_tokens().filter(|_| !same);
    let Some(limit) = target.max_tokens.or(carried) else { return };
    // The dialect refuses a limit this low.
    if target.max_tokens.is_none() && limit < wire.limits.least_answer {
        return;
    }
    let source = target.context.dialect.map(|dialect| dialect.wire().fields.max_tokens);
    if let Some((name, None)) = source.filter(|_| !same) {
        around.leave_out(name);
        around.leave_out("max_completion_tokens");
    }
    match wire.fields.max_tokens {
        (name, None) => {
            // OpenAI has two names for it and accepts only one at a time.
            let other =
                ("max_completion_tokens", same && target.context.get("max_completion_tokens").is_some());
            let name = if other.1 { other.0 } else { name };
            around.put(name, limit.to_string());
        }
        (name, Some(inner)) => {
            let written = target.context.get(name).filter(|_| same);
            let written =
                around.value(name).map(str::to_owned).or(written.map(|raw| raw.as_str().to_owned()));
            let written = written.unwrap_or_else(|| String::from("{}"));
            around.put(name, with_field(&written, inner, &limit.to_string()));
        }
    }
}

/// What the model sees before the messages: instructions and tools.
pub fn seen_before(target: &Target, wire: &Wire, around: &Surroundings) -> String {
    let mut out = String::from(wire.name);
    for name in wire.fields.system.iter().chain(&[wire.fields.tools]) {
        let written = target.context.dialect == Some(wire.dialect);
        let written = target.context.get(name).map(Raw::as_str).filter(|_| written && !around.has(name));
        if let Some(value) = around.value(name).or(written) {
            out.push('\n');
            write::key(&mut out, name);
            out.push_str(value);
        }
    }
    out
}

fn write_field<'n>(
    out: &mut String,
    last: &HashMap<&'n str, &'n Field>,
    name: &'n str,
    around: &Surroundings,
    written: &mut HashSet<&'n str>,
    findings: &mut Vec<Finding>,
) {
    if !written.insert(name) {
        return;
    }
    match around.set.iter().rev().find(|(set, _)| *set == name) {
        Some((_, None)) => {}
        Some((_, Some(value))) => {
            write::key(out, name);
            out.push_str(value);
        }
        None => {
            if let Some(field) = last.get(name) {
                write::key(out, name);
                let before = out.len();
                write::clean_copy(out, field.value.as_str());
                if out[before..] != *field.value.as_str() {
                    let finding = Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced);
                    findings.push(finding.about(field.name.clone()));
                }
            }
        }
    }
}
