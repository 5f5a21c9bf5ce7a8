//! Reading one content: its role, its parts, and whether it may be sent again unchanged.

use std::collections::BTreeSet;

use rejoin_record::{Native, Role, hash::short_name};
use rejoin_view::Severity;

use super::{
    FORMAT,
    call_ids::CallIds,
    fields::{CamelFields, Signature},
    parts::{self, PartReader},
};
use crate::{
    messages::{
        DEEPEST, ReadMessage, Style,
        blocks::BlockReader,
        list::{ReadItem, items},
        roles,
    },
    wire::prelude::*,
};

/// Reads the contents of one list, in order.
pub struct ContentReader {
    model: Option<Text>,
    ids: CallIds,
}

impl ContentReader {
    pub fn new(model: Option<Text>) -> Self {
        Self { model, ids: CallIds::new(String::new()) }
    }

    /// A reader of one response, whose calls get ids that no other response has.
    pub fn of_response(model: Option<Text>, response: &str) -> Self {
        Self { model, ids: CallIds::new(short_name(response, 24)) }
    }

    /// Reads a model's answer, which may leave the role out.
    pub fn answer(&mut self, content: Value<'_>, buffer: &Arc<str>) -> Option<Message> {
        self.content(content, buffer, 0, Some(Role::Assistant)).map(|read| read.message)
    }

    /// Reads a list of parts, or a single one, that is a piece of a larger native item: places count from `base`. The calls and
    /// results keep the ids that they have.
    pub fn parts(&self, parts: Value<'_>, role: &Role, buffer: &Arc<str>, base: usize) -> Vec<Block> {
        let blocks = BlockReader { style: Style::ToolCalls, buffer, base, model: self.model.as_ref() };
        let reader = PartReader(blocks);
        let mut blocks = Vec::new();
        items(parts).for_each(|part| reader.part(part, role, &mut blocks));
        blocks.iter_mut().for_each(|block| block.span = None);
        blocks
    }

    fn content(
        &mut self,
        item: Value<'_>,
        buffer: &Arc<str>,
        index: usize,
        unnamed: Option<Role>,
    ) -> Option<ReadMessage> {
        let raw = Raw::slice(buffer, item.start(), item.end())?;
        let model = self.model.clone();
        let base = item.start();
        let reader = PartReader(BlockReader { style: Style::ToolCalls, buffer, base, model: model.as_ref() });
        let mut findings = Vec::new();
        let fields = CamelFields::of(item);
        let named = fields.given("role").and_then(Value::as_str).filter(|role| !role.is_empty());
        // Some programs use another name for it.
        let parts = fields.given("parts").or_else(|| fields.given("content"));
        let single = item.kind() != ValueKind::Object || (parts.is_none() && is_part(&fields));
        if !single && parts.is_none() && named.is_none() && !fields.has("parts") && unnamed.is_none() {
            return None;
        }
        let holds = |name: &str| match (single, parts) {
            (true, _) => fields.given(name).is_some(),
            (false, Some(parts)) => items(parts).any(|part| CamelFields::of(part).given(name).is_some()),
            (false, None) => false,
        };
        let responds = holds("functionResponse");
        let elsewhere = if unnamed.is_none() { roles::by_another_field(item) } else { None };
        let role = match named.as_deref() {
            Some(name) => roles::named(name),
            None if let Some((role, field)) = elsewhere => {
                if !matches!(role, Role::Other(_)) {
                    let at = Position::message(index);
                    let finding = Finding::new(Rule::UnknownRole, at, Action::Replaced);
                    let finding = finding.because(format!("`{field}` says that it is {role}"));
                    findings.push(Finding { severity: Severity::Note, ..finding });
                }
                role
            }
            None => {
                let guess = unnamed.unwrap_or_else(|| match (responds, holds("functionCall")) {
                    (true, _) => Role::Tool,
                    (false, true) => Role::Assistant,
                    (false, false) => Role::User,
                });
                findings.push(no_role(index, &guess, single));
                guess
            }
        };
        let role = if role == Role::User && responds { Role::Tool } else { role };
        let mut blocks: Vec<Block> = Vec::new();
        let held = parts.filter(|_| !single).into_iter().flat_map(items).chain(single.then_some(item));
        for part in held {
            if Signature::of(&CamelFields::of(part)) == Signature::Corrupt {
                let at = Position::block(index, blocks.len());
                let finding = Finding::new(Rule::ForeignReasoning, at, Action::LeftOut);
                findings.push(finding.because("its signature cannot be read"));
            }
            reader.part(part, &role, &mut blocks);
        }
        if single {
            blocks.iter_mut().for_each(|block| block.span = None);
        }
        self.ids.assign(&mut blocks, index);
        // A call under the role `user` is moved later, so it does not begin a turn.
        if role == Role::User && blocks.iter().all(|block| block.as_call().is_none()) {
            self.ids.turn += 1;
        }
        let role_written = match &role {
            Role::User | Role::Tool => named.as_deref() == Some("user"),
            Role::Assistant => named.as_deref() == Some("model"),
            _ => false,
        };
        // Calls have to be the model's, and results must be alone.
        let in_place = blocks.iter().all(|block| match &block.kind {
            BlockKind::ToolCall(_) => role == Role::Assistant,
            kind => matches!(kind, BlockKind::ToolResult(_)) == (role == Role::Tool),
        });
        let regular = role_written
            && in_place
            && !single
            && !blocks.is_empty()
            && parts.is_some_and(|parts| parts.kind() == ValueKind::Array)
            && blocks.iter().all(|block| block.span.is_some())
            && fields.are_among(&["role", "parts"])
            && item.is_clean()
            && !item.is_deeper_than(DEEPEST);
        let mut native = Native::one(FORMAT, raw, regular);
        native.more = !more_fields(item).is_empty();
        let form = if parts.is_some() || single { Form::Parts } else { Form::Absent };
        let message = Message { role, blocks, form, native: Some(native) };
        Some(ReadMessage { message, findings })
    }
}

fn no_role(index: usize, guess: &Role, single: bool) -> Finding {
    let what = if single { "it is a bare part" } else { "it names none" };
    let finding = Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced);
    let finding = finding.because(format!("{what} and is taken for {guess}"));
    // The API lets a single user content leave the role out. Anywhere else it is a guess.
    let documented = *guess == Role::User && !single && index == 0;
    Finding { severity: if documented { Severity::Note } else { finding.severity }, ..finding }
}

impl ReadItem for ContentReader {
    fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, index: usize) -> Option<ReadMessage> {
        match item.kind() {
            ValueKind::Object | ValueKind::String => self.content(item, buffer, index, None),
            _ => None,
        }
    }
}

/// Whether an object is a part in place of a content.
fn is_part(fields: &CamelFields<'_>) -> bool {
    fields.given("role").is_none()
        && ["text", "inlineData", "fileData", "functionCall", "functionResponse"]
            .iter()
            .any(|name| fields.given(name).is_some())
}

/// Lists the fields of a content that its role and blocks do not hold: unknown fields, signatures of parts other than reasoning,
/// and other fields of parts. Each name occurs once.
pub fn more_fields(item: Value<'_>) -> Vec<String> {
    named_fields(item, |part| {
        let thought = part.given("thought").and_then(Value::as_bool) == Some(true);
        let signed = !thought && Signature::of(part) == Signature::Bound;
        let about = ["videoMetadata", "mediaResolution", "partMetadata"].into_iter();
        about.filter(|name| part.given(name).is_some()).chain(signed.then_some("thoughtSignature")).collect()
    })
}

/// Lists the unknown fields of a content and of its parts, each name once.
pub fn unknown_fields(item: Value<'_>) -> Vec<String> {
    named_fields(item, |_| Vec::new())
}

/// Lists the unknown fields of a content, and the fields that `in_part` selects from its parts.
fn named_fields(item: Value<'_>, in_part: impl Fn(&CamelFields<'_>) -> Vec<&'static str>) -> Vec<String> {
    let fields = CamelFields::of(item);
    // The fields of a bare part are read elsewhere.
    let Some(parts) = fields.given("parts") else { return Vec::new() };
    let own = fields.all().map(|(name, _)| name).filter(|name| !matches!(*name, "role" | "parts"));
    let mut names: BTreeSet<String> = own.map(str::to_owned).collect();
    for part in items(parts) {
        let part = CamelFields::of(part);
        let unknown = parts::unknown_fields(&part).count();
        // A part without any known field is kept as a whole.
        if unknown > 0 && unknown < part.all().count() {
            names.extend(parts::unknown_fields(&part).map(str::to_owned));
        }
        names.extend(in_part(&part).into_iter().map(str::to_owned));
    }
    names.into_iter().collect()
}
