//! Reading one message object, with ids for the calls and results of shapes that have none.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::{
    Block, BlockKind, CallId, Form, Message, Native, Origin, Raw, Role, Text, ToolResult,
    hash::short_name_of,
    json::{Value, ValueKind},
    limits,
};
use rejoin_view::{Action, Finding, Position, Rule, Severity};

use super::{
    Style,
    blocks::{BlockPlace, BlockReader},
    roles,
};
use crate::unused_ids::UnusedIds;

/// Reads the messages of one list, in order.
#[derive(Clone)]
pub struct MessageReader {
    style: Style,
    model: Option<Text>,
    /// Assigned ids, for results without an id.
    unused: UnusedIds,
    /// Ids that calls were given so far.
    called: hashbrown::HashSet<CallId>,
    /// Whether a result got its id from the calls before it.
    looked_back: bool,
}

/// A message, and what was found in it.
pub struct ReadMessage {
    pub message: Message,
    /// What the reader had to guess.
    pub findings: Vec<Finding>,
}

/// The deepest nesting of a message: the nesting of arguments plus the JSON around them.
pub(crate) const DEEPEST: usize = limits::NESTING + 8;

/// Fields of an OpenAI-style assistant message that hold reasoning: its name, and whether it is sealed.
pub const REASONING_FIELDS: &[(&str, bool)] = &[
    ("reasoning_content", false),
    ("reasoning", false),
    ("reasoning_details", true),
    // Copilot's names for it.
    ("reasoning_text", false),
    ("reasoning_opaque", true),
    // Ollama's.
    ("thinking", false),
];

impl MessageReader {
    pub fn new(style: Style, model: Option<Text>) -> Self {
        Self {
            style,
            model,
            unused: UnusedIds::default(),
            called: hashbrown::HashSet::new(),
            looked_back: false,
        }
    }

    /// Reads the `index`-th message of its list, an item of the text in `buffer`. `None` if it is no message at all.
    pub fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, index: usize) -> Option<ReadMessage> {
        self.read_within(item, buffer, index, item.start())
    }

    /// Reads a message inside a larger native item: spans count from `base` of the buffer, which wraps around if the native item
    /// begins before the buffer.
    pub fn read_within(
        &mut self,
        item: Value<'_>,
        buffer: &Arc<str>,
        index: usize,
        base: usize,
    ) -> Option<ReadMessage> {
        let model = self.model.clone();
        let blocks = BlockReader { style: self.style, buffer, base, model: model.as_ref() };
        let mut findings = Vec::new();
        let raw = Raw::slice(buffer, item.start(), item.end())?;
        if let Some(text) = blocks.text(item) {
            // The author of a bare string is unknown.
            findings.push(
                Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced)
                    .because("it is a bare text"),
            );
            let native = Native::one(self.style.format(), raw, false);
            let message = Message { native: Some(native), ..Message::user(text) };
            return Some(ReadMessage { message, findings });
        }
        if item.kind() != ValueKind::Object {
            return None;
        }
        if let Some((role, block)) = blocks.loose_block(item) {
            let finding = Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced);
            findings.push(finding.because(format!("it is a bare block and is taken for {role}")));
            let mut message = self.message(role, vec![block], Form::Parts, false);
            self.assign_ids(&mut message, index, false);
            message.native = message.native.map(|native| Native { raw, ..native });
            return Some(ReadMessage { message, findings });
        }
        let (role, known_role) = self.role(item, index, &mut findings)?;
        let mut message = match role {
            Role::Tool => self.tool_message(item, &blocks),
            _ => self.plain_message(item, role, &blocks),
        };
        let legacy = item.given("function_call").is_some();
        self.assign_ids(&mut message, index, legacy);
        if let Some(mut native) = message.native.take() {
            native.raw = raw;
            native.regular &= known_role && item.is_clean() && !item.is_deeper_than(DEEPEST);
            native.more = more_fields(item, self.style).next().is_some();
            message.native = Some(native);
        }
        Some(ReadMessage { message, findings })
    }

    /// A message of this role with a content.
    pub fn content(&self, role: Role, content: Value<'_>, buffer: &Arc<str>, base: usize) -> Message {
        let blocks = BlockReader { style: self.style, buffer, base, model: self.model.as_ref() };
        let content = blocks.content(Some(content), BlockPlace::Role(&role));
        self.message(role, content.blocks, content.form, false)
    }

    /// The role, and whether the source wrote it the way its dialect does.
    fn role(&self, item: Value<'_>, index: usize, findings: &mut Vec<Finding>) -> Option<(Role, bool)> {
        let given = item.get("role").and_then(Value::as_str);
        if let Some(name) = given.as_deref().filter(|name| !name.is_empty()) {
            return Some(match roles::named(name) {
                // Some programs spell it differently.
                role @ (Role::User | Role::Assistant) => (role.clone(), name == role.as_str()),
                role => (role.clone(), name == role.as_str() && self.style == Style::ToolCalls),
            });
        }
        let finding = Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced);
        let says = ["content", "tool_calls", "function_call", "tool_call_id"];
        let says = says.iter().any(|name| item.given(name).is_some());
        if let Some((role, field)) = roles::by_another_field(item).filter(|_| says) {
            // An unknown role is reported later.
            if !matches!(role, Role::Other(_)) {
                let finding = finding.because(format!("`{field}` says that it is {role}"));
                findings.push(Finding { severity: Severity::Note, ..finding });
            }
            return Some((role, false));
        }
        let has = |name| item.given(name).is_some();
        let guess = if has("tool_calls") || has("function_call") {
            Role::Assistant
        } else if has("tool_call_id") {
            Role::Tool
        } else if has("content") {
            Role::User
        } else {
            return None;
        };
        findings.push(finding.because(format!("it names none and is taken for {guess}")));
        Some((guess, false))
    }

    fn tool_message(&mut self, item: Value<'_>, blocks: &BlockReader<'_>) -> Message {
        let content = blocks.content(item.get("content"), BlockPlace::Result);
        let listed = || item.given("tool_call_ids")?.items().next();
        let mut given = item.given("tool_call_id").or_else(|| item.given("tool_use_id")).or_else(listed);
        if given.is_none() {
            self.looked_back = true;
            // Some programs call it `id`; in others, `id` is the id of the message.
            given = item.given("id").filter(|id| id.as_str().is_some_and(|id| self.called.contains(&*id)));
        }
        let name = ["name", "tool_name"]
            .iter()
            .find_map(|field| item.given(field))
            .and_then(|name| blocks.text(name));
        // Some agents write Anthropic's result blocks under the role `tool`.
        if item.given("tool_call_id").is_none() {
            let own = blocks.content(item.get("content"), BlockPlace::Role(&Role::User));
            if own.blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult(_))) {
                let blocks = own.blocks.into_iter().map(|block| Block { span: None, ..block }).collect();
                return self.message(Role::Tool, blocks, own.form, false);
            }
        }
        let own_id = blocks.call_id(given);
        let id_written = own_id.is_some() && item.holds("tool_call_id", ValueKind::String);
        let call_id = own_id.or_else(|| self.next_id(name.as_ref()));
        let text_only = content.blocks.iter().all(|block| matches!(block.kind, BlockKind::Text(_)));
        let regular = content.regular
            && text_only
            && !content.blocks.is_empty()
            && id_written
            && item.get("tool_calls").is_none()
            && item.get("function_call").is_none();
        let is_error = item.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let result = ToolResult { call_id, name, content: content.blocks, form: content.form, is_error };
        let mut all = vec![Block::result(result)];
        all.extend(self.calls(item, blocks));
        self.message(Role::Tool, all, content.form, regular && self.style == Style::ToolCalls)
    }

    /// Whether what was read depends on the messages before it, because a result names no call.
    pub fn has_looked_back(&self) -> bool {
        self.looked_back
    }

    /// The id for a result without one: by name, else by position.
    fn next_id(&mut self, name: Option<&Text>) -> Option<CallId> {
        self.looked_back = true;
        match name.filter(|name| !name.is_blank()) {
            Some(name) => self.unused.next_named(name, false),
            None => self.unused.next(),
        }
    }

    fn plain_message(&self, item: Value<'_>, role: Role, blocks: &BlockReader<'_>) -> Message {
        let content = blocks.content(item.get("content"), BlockPlace::Role(&role));
        let mut regular = content.regular;
        let mut all = Vec::with_capacity(content.blocks.len() + 1);
        if role == Role::Assistant {
            self.reasoning(item, blocks, &mut all);
        }
        all.extend(content.blocks);
        // Ollama keeps pictures beside the content.
        let images = item.given("images").into_iter().flat_map(Value::items);
        let images: Vec<Block> = images.filter_map(|image| blocks.bare_image(image)).collect();
        regular &= images.is_empty();
        all.extend(images);
        if let Some((refusal, text)) =
            item.given("refusal").and_then(|value| Some((value, blocks.text(value)?)))
        {
            let block = Block::text(text);
            let span = blocks.span(refusal);
            // Only assistant messages of this dialect have the field, where it stays.
            let own = self.style == Style::ToolCalls && role == Role::Assistant;
            all.push(if own { block.at(span) } else { block });
        }
        let refused = item.holds("refusal", ValueKind::String);
        let sounds = item.holds("audio", ValueKind::Object);
        regular &= refused || item.given("refusal").is_none();
        regular &= sounds || item.given("audio").is_none();
        let before_calls = all.len();
        let calls = self.calls(item, blocks);
        // Some agents write a call twice: as a content block, and beside the content.
        let beside: HashSet<&str> = calls.iter().filter_map(given_id).collect();
        let twice = |block: &Block| given_id(block).is_some_and(|id| beside.contains(id));
        if all.iter().any(twice) {
            regular = false;
            all.retain(|block| !twice(block));
        }
        if item.get("tool_calls").is_some() {
            regular &=
                !calls.is_empty() && role == Role::Assistant && calls.iter().all(|call| call.span.is_some());
            regular &= item.get("tool_calls").is_some_and(|list| list.items().count() == calls.len());
        }
        regular &= item.get("function_call").is_none();
        all.extend(calls);
        let called = all.len() > before_calls;
        regular &= match self.style {
            Style::ToolCalls => match content.form {
                Form::Text => true,
                Form::Parts => item.get("content").is_some_and(|content| content.items().next().is_some()),
                Form::Null | Form::Absent => role == Role::Assistant && (called || sounds || refused),
            },
            Style::Blocks => {
                matches!(content.form, Form::Text | Form::Parts)
                    && item.fields().all(|(key, _)| key.is_str("role") || key.is_str("content"))
            }
        };
        self.message(role, all, content.form, regular)
    }

    fn calls(&self, item: Value<'_>, blocks: &BlockReader<'_>) -> Vec<Block> {
        let listed = item.get("tool_calls").into_iter().flat_map(Value::items);
        let listed =
            listed.filter(|call| call.kind() == ValueKind::Object).map(|call| blocks.tool_call(call));
        let legacy = item.get("function_call").filter(|call| call.fields().next().is_some());
        let legacy = legacy.map(|call| Block { span: None, ..blocks.tool_call(call) });
        listed.chain(legacy).collect()
    }

    fn reasoning(&self, item: Value<'_>, blocks: &BlockReader<'_>, all: &mut Vec<Block>) {
        for &(field, sealed) in REASONING_FIELDS {
            let Some(value) = item.given(field) else { continue };
            let text = match value.kind() {
                // Sealed reasoning is not readable.
                ValueKind::String if sealed => Some(Text::new("")).filter(|_| !value.is_str("")),
                ValueKind::String => blocks.text(value),
                ValueKind::Array if value.items().next().is_some() => Some(Text::new("")),
                _ => None,
            };
            // An empty field holds no reasoning.
            if let Some(text) = text.filter(|text| sealed || !text.is_empty()) {
                let origin = Origin::of(Style::ToolCalls.format(), self.model.clone());
                all.push(Block::reasoning(text, sealed, origin));
            }
        }
    }

    fn message(&self, role: Role, blocks: Vec<Block>, form: Form, regular: bool) -> Message {
        let native = Native::one(self.style.format(), Raw::new(""), regular);
        Message { role, blocks, form, native: Some(native) }
    }

    /// Gives ids to calls that have none, and remembers them for results that have none either.
    pub(crate) fn assign_ids(&mut self, message: &mut Message, index: usize, legacy: bool) {
        if message.role == Role::Assistant {
            self.unused = UnusedIds::default();
        }
        let mut assigned = 0;
        for block in &mut message.blocks {
            match &mut block.kind {
                BlockKind::ToolCall(call) if call.id_given => {
                    self.called.insert(call.id.clone());
                }
                BlockKind::ToolCall(call) => {
                    // The same file always gives the same id.
                    let place = format!("{index} {assigned} {} ", call.name);
                    let name = short_name_of(&[&place, call.arguments.text()], 16);
                    call.id = CallId::from(format!("call_{name}"));
                    // A legacy function call has no id by design; anything else lacks one.
                    call.id_given = legacy;
                    self.unused.add(&call.name, &call.id, false);
                    assigned += 1;
                }
                BlockKind::ToolResult(result) if result.call_id.is_none() => {
                    result.call_id = self.next_id(result.name.clone().as_ref());
                    // Its own bytes do not name the call.
                    block.span = None;
                }
                _ => {}
            }
        }
    }
}

fn given_id(block: &Block) -> Option<&str> {
    block.as_call().filter(|call| call.id_given).map(|call| call.id.as_str())
}

/// Lists the fields of a message that its role and blocks do not hold.
pub fn more_fields<'d>(item: Value<'d>, style: Style) -> impl Iterator<Item = Value<'d>> {
    let held: &[&str] = match style {
        Style::ToolCalls => {
            &["role", "content", "tool_calls", "function_call", "tool_call_id", "refusal", "tool_name"]
        }
        Style::Blocks => &["role", "content"],
    };
    let tool = item.get("role").is_some_and(|role| role.is_str("tool") || role.is_str("function"));
    item.fields().filter_map(move |(key, value)| {
        let known = held.iter().any(|name| key.is_str(name))
            || (style == Style::ToolCalls && REASONING_FIELDS.iter().any(|(name, _)| key.is_str(name)))
            || (tool && key.is_str("name"));
        let empty_list = value.kind() == ValueKind::Array && value.items().next().is_none();
        let says = !value.is_null() && !empty_list;
        (!known && says).then_some(key)
    })
}
