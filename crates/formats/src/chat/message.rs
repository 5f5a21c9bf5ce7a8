//! Reading one message object, and pairing the calls and results of shapes that have no ids.

use std::{collections::VecDeque, sync::Arc};

use rejoin_record::{
    Block, BlockKind, CallId, Form, Message, Native, Origin, Raw, Reasoning, Role, Span, Text, ToolCall,
    ToolResult,
    hash::short_name,
    json::{Kind, Value},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{
    Style,
    blocks::{BlockReader, Under},
};

/// Reads the messages of one list, in order.
pub struct MessageReader {
    style: Style,
    model: Option<Text>,
    /// Calls without an id that still wait for a result without an id: their assigned id and their name.
    waiting: VecDeque<(CallId, Text)>,
}

/// A message, and what was found in it.
pub struct ReadMessage {
    /// The message.
    pub message: Message,
    /// What the reader had to guess.
    pub findings: Vec<Finding>,
}

/// Fields of an OpenAI-style assistant message that hold reasoning: its name, and whether it is sealed.
pub const REASONING_FIELDS: &[(&str, bool)] =
    &[("reasoning_content", false), ("reasoning", false), ("reasoning_details", true)];

impl MessageReader {
    /// A reader of one list.
    #[must_use]
    pub fn new(style: Style, model: Option<Text>) -> Self {
        Self { style, model, waiting: VecDeque::new() }
    }

    /// Reads the `index`-th message of its list, an item of the text in `buffer`. `None` if it is no message at all.
    pub fn read(&mut self, item: Value<'_>, buffer: &Arc<str>, index: usize) -> Option<ReadMessage> {
        let model = self.model.clone();
        let blocks = BlockReader { style: self.style, buffer, base: item.start(), model: model.as_ref() };
        let mut findings = Vec::new();
        let raw = Raw::slice(buffer, item.start(), item.end())?;
        if let Some(text) = blocks.text(item) {
            // A bare string among messages: somebody said it, we do not know who.
            findings.push(
                Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced)
                    .because("it is a bare text"),
            );
            let native = Native { format: Text::new(self.style.format()), raw, regular: false };
            let message = Message { native: Some(native), ..Message::user(text) };
            return Some(ReadMessage { message, findings });
        }
        if item.kind() != Kind::Object {
            return None;
        }
        let (role, known_role) = self.role(item, index, &mut findings)?;
        let mut message = match role {
            Role::Tool => self.tool_message(item, &blocks),
            _ => self.plain_message(item, role, &blocks),
        };
        let legacy = item.get("function_call").is_some();
        self.assign_ids(&mut message, index, legacy);
        if let Some(native) = &mut message.native {
            native.raw = raw;
            native.regular &= known_role && item.is_clean();
        }
        Some(ReadMessage { message, findings })
    }

    /// The role, and whether the source wrote it the way its dialect does.
    fn role(&self, item: Value<'_>, index: usize, findings: &mut Vec<Finding>) -> Option<(Role, bool)> {
        let given = item.get("role").and_then(Value::as_str);
        if let Some(name) = given.as_deref().filter(|name| !name.is_empty()) {
            return Some(match name {
                "function" => (Role::Tool, false),
                "human" => (Role::User, false),
                "ai" | "model" | "bot" => (Role::Assistant, false),
                "user" | "assistant" => (Role::named(name), true),
                known => (Role::named(known), self.style == Style::OpenAi),
            });
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
        let finding = Finding::new(Rule::UnknownRole, Position::message(index), Action::Replaced);
        findings.push(finding.because(format!("it names none and is taken for {guess}")));
        Some((guess, false))
    }

    fn tool_message(&mut self, item: Value<'_>, blocks: &BlockReader<'_>) -> Message {
        let content = blocks.content(item.get("content"), Under::Result);
        let given = item.get("tool_call_id").or_else(|| item.get("tool_use_id")).or_else(|| item.get("id"));
        let name = ["name", "tool_name"]
            .iter()
            .find_map(|field| item.given(field))
            .and_then(|name| blocks.text(name));
        // Some agents write Anthropic results under the role `tool`: then the blocks are the results.
        if given.is_none() {
            let own = blocks.content(item.get("content"), Under::Role(&Role::User));
            if own.blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult(_))) {
                let blocks = own.blocks.into_iter().map(|block| Block { span: None, ..block }).collect();
                return self.message(Role::Tool, blocks, own.form, false);
            }
        }
        let call_id = blocks.call_id(given).or_else(|| self.claim(name.as_ref()));
        let text_only = content.blocks.iter().all(|block| matches!(block.kind, BlockKind::Text(_)));
        let regular = content.regular
            && text_only
            && !content.blocks.is_empty()
            && item.get("tool_call_id").is_some_and(|id| id.kind() == Kind::String);
        let is_error = item.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let result = ToolResult { call_id, name, content: content.blocks, form: content.form, is_error };
        self.message(
            Role::Tool,
            vec![Block::result(result)],
            content.form,
            regular && self.style == Style::OpenAi,
        )
    }

    /// The call that a result without an id answers: by name, else by position.
    fn claim(&mut self, name: Option<&Text>) -> Option<CallId> {
        let place = match name.filter(|name| !name.is_blank()) {
            Some(name) => self.waiting.iter().position(|(_, waiting)| waiting == name)?,
            None => 0,
        };
        self.waiting.remove(place).map(|(id, _)| id)
    }

    fn plain_message(&self, item: Value<'_>, role: Role, blocks: &BlockReader<'_>) -> Message {
        let content = blocks.content(item.get("content"), Under::Role(&role));
        let mut regular = content.regular;
        let mut all = Vec::with_capacity(content.blocks.len() + 1);
        if role == Role::Assistant {
            self.reasoning(item, blocks, &mut all);
        }
        all.extend(content.blocks);
        if let Some(refusal) =
            item.given("refusal").and_then(|refusal| Some((refusal, blocks.text(refusal)?)))
        {
            let span = Span::verbatim(refusal.0.start() - item.start(), refusal.0.raw().len());
            all.push(Block::text(refusal.1).at(span));
        }
        let before_calls = all.len();
        if let Some(calls) = item.get("tool_calls") {
            for call in calls.items() {
                if call.kind() == Kind::Object {
                    let block = blocks.tool_call(call);
                    regular &= block.span.is_some();
                    all.push(block);
                } else {
                    regular = false;
                }
            }
            regular &= all.len() > before_calls && role == Role::Assistant;
        }
        if let Some(call) = item.get("function_call") {
            regular = false;
            if call.kind() == Kind::Object {
                all.push(Block { span: None, ..blocks.tool_call(call) });
            }
        }
        let called = all.len() > before_calls;
        regular &= match self.style {
            Style::OpenAi => match content.form {
                Form::Text => true,
                Form::Parts => content_is_filled(item),
                Form::Null | Form::Absent => {
                    role == Role::Assistant
                        && (called || item.given("audio").is_some() || item.given("refusal").is_some())
                }
            },
            Style::Anthropic => {
                matches!(content.form, Form::Text | Form::Parts)
                    && item.fields().all(|(key, _)| key.is_str("role") || key.is_str("content"))
            }
        };
        self.message(role, all, content.form, regular)
    }

    fn reasoning(&self, item: Value<'_>, blocks: &BlockReader<'_>, all: &mut Vec<Block>) {
        for &(field, sealed) in REASONING_FIELDS {
            let Some(value) = item.given(field) else { continue };
            let text = match value.kind() {
                Kind::String => blocks.text(value),
                Kind::Array if value.items().next().is_some() => Some(Text::new("")),
                _ => None,
            };
            // An empty field says nothing.
            if let Some(text) = text.filter(|text| sealed || !text.is_empty()) {
                let origin = Origin {
                    dialect: Some(Text::new(Style::OpenAi.format())),
                    model: self.model.clone(),
                    ..Origin::default()
                };
                let reasoning = Reasoning { text, sealed, origin };
                all.push(Block::new(BlockKind::Reasoning(Box::new(reasoning))));
            }
        }
    }

    fn message(&self, role: Role, blocks: Vec<Block>, form: Form, regular: bool) -> Message {
        let native = Native { format: Text::new(self.style.format()), raw: Raw::new(""), regular };
        Message { role, blocks, form, native: Some(native) }
    }

    /// Gives ids to calls that have none, and remembers them for results that have none either.
    fn assign_ids(&mut self, message: &mut Message, index: usize, legacy: bool) {
        if message.role == Role::Assistant {
            self.waiting.clear();
        }
        let mut assigned = 0;
        for block in &mut message.blocks {
            let BlockKind::ToolCall(call) = &mut block.kind else { continue };
            let call: &mut ToolCall = call;
            if !call.id_given {
                // Nobody else's id looks like this, and the same file gives the same one.
                let place = format!("{index} {assigned} {} {}", call.name, call.arguments.text());
                call.id = CallId::from(format!("call_{}", short_name(&place, 16)));
                // A legacy function call has no id by design; anything else lacks one.
                call.id_given = legacy;
                self.waiting.push_back((call.id.clone(), call.name.clone()));
                assigned += 1;
            }
        }
    }
}

fn content_is_filled(item: Value<'_>) -> bool {
    item.get("content").is_some_and(|content| content.items().next().is_some())
}
