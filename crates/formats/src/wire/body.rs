//! Writes the fields around the messages: the source's fields in their order, with the messages in their place.

use std::collections::{HashMap, HashSet};

use rejoin_record::{
    Raw,
    json::{quoted, write},
};
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
    pub fn put(&mut self, name: &'static str, value: String) {
        self.set.push((name, Some(value)));
    }

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

    pub fn value(&self, name: &str) -> Option<&str> {
        self.set.iter().rev().find(|(set, _)| *set == name)?.1.as_deref()
    }

    /// Whether a field was set or left out.
    pub fn has(&self, name: &str) -> bool {
        self.set.iter().any(|(set, _)| *set == name)
    }
}

/// Writes the text before and after the messages. From the same dialect, all fields are kept in order; from another, only those
/// that were translated.
pub fn write_around<'t>(
    target: &'t Target,
    wire: &Wire,
    mut around: Surroundings,
    findings: &mut Vec<Finding>,
) -> (String, String) {
    if let Some(model) = &target.model {
        around.put("model", quoted(model));
    }
    let context = &target.context;
    let same = context.dialect == Some(wire.dialect);
    limit(target, wire, same, &mut around);
    let set = around.set.iter().map(|(name, _)| *name);
    let (before, after): (Vec<&str>, Vec<&str>) = if same {
        let (before, after) = context.fields.split_at(context.before_messages);
        let names = |field: &'t Field| &*field.name;
        (before.iter().map(names).collect(), after.iter().map(names).chain(set).collect())
    } else {
        let first = |name: &&str| *name == "model" || wire.fields.system.contains(name);
        (set.clone().filter(first).collect(), set.collect())
    };
    let foreign = context.fields.iter().filter(|field| !same && field.value.as_str() != "null");
    for field in foreign.filter(|field| !around.has(&field.name)) {
        let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
        findings.push(finding.about(field.name.clone()));
    }
    // Of fields with one name, the last one counts.
    let last: HashMap<&str, &Field> = context.fields.iter().map(|field| (&*field.name, field)).collect();
    let mut written: HashSet<&str> = HashSet::new();
    let mut write_field = |out: &mut String, name: &'t str| {
        if !written.insert(name) {
            return;
        }
        if around.has(name) {
            if let Some(value) = around.value(name) {
                write::key(out, name);
                out.push_str(value);
            }
        } else if let Some(field) = last.get(name) {
            write::key(out, name);
            let before = out.len();
            write::clean_copy(out, field.value.as_str());
            if out[before..] != *field.value.as_str() {
                let finding = Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced);
                findings.push(finding.about(field.name.clone()));
            }
        }
    };
    let mut head = String::from("{");
    before.into_iter().for_each(|name| write_field(&mut head, name));
    write::key(&mut head, wire.fields.messages);
    head.push_str(around.list.as_deref().unwrap_or("["));
    // `write::key` puts a comma after anything but an opening brace, so the text must not be empty.
    let mut tail = String::from("]");
    after.into_iter().for_each(|name| write_field(&mut tail, name));
    tail.push('}');
    if around.list.is_some() {
        tail.remove(0);
    }
    (head, tail)
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
            let other = "max_completion_tokens";
            let given = same && target.context.get(other).is_some();
            around.put(if given { other } else { name }, limit.to_string());
        }
        (name, Some(inner)) => {
            let written = target.context.get(name).filter(|_| same).map(Raw::as_str);
            let value = around.value(name).or(written).unwrap_or("{}");
            around.put(name, with_field(value, inner, &limit.to_string()));
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
