//! A message: a role and ordered blocks, with the source's item from which they were read.

use std::fmt;

use crate::{
    block::{Block, BlockKind, ToolCall, ToolResult},
    ids::CallId,
    message_body,
    text::{Raw, Span, Text},
};

/// The speaker of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The author of instructions.
    System,
    /// The author of instructions, under the name that some models use.
    Developer,
    /// A person, or a program acting for one.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// An unknown role, verbatim.
    Other(Text),
}

impl Role {
    /// The stored name of the role.
    pub fn as_str(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other(name) => name,
        }
    }

    /// The role with this name.
    pub fn named(name: &str) -> Self {
        let mut known = [Self::System, Self::Developer, Self::User, Self::Assistant, Self::Tool].into_iter();
        known.find(|role| role.as_str() == name).unwrap_or_else(|| Self::Other(name.into()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The form in which the source wrote a content, so that it can be written the same way again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One string.
    Text,
    /// A list of parts.
    Parts,
    /// `null`.
    Null,
    /// The field was missing.
    Absent,
}

impl Form {
    /// The stored name of the form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Parts => "parts",
            Self::Null => "null",
            Self::Absent => "absent",
        }
    }

    /// The form with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Text, Self::Parts, Self::Null, Self::Absent].into_iter().find(|form| form.as_str() == name)
    }
}

/// The source's item for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Native {
    /// The name of the format in which it is written.
    pub format: Text,
    /// Its exact bytes.
    pub raw: Raw,
    /// Whether a codec of the same dialect may send the item again unchanged.
    pub regular: bool,
    /// Whether it has meaningful fields that neither the blocks nor the role represent.
    pub more: bool,
    /// The items in order, if the source has several for this message. `raw` then contains them, separated by commas.
    pub items: Vec<NativeItem>,
}

impl Native {
    /// A message that is a single item in its source.
    pub fn one(format: impl Into<Text>, raw: Raw, regular: bool) -> Self {
        Self { format: format.into(), raw, regular, more: false, items: Vec::new() }
    }
}

/// One of several items that form a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeItem {
    /// Its span in the native bytes.
    pub span: Span,
    /// How many of the message's blocks it contains.
    pub blocks: u32,
    /// Whether this item may be sent again unchanged; see [`Native::regular`].
    pub regular: bool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The speaker.
    pub role: Role,
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// How the source wrote the content.
    pub form: Form,
    /// The source's item; `None` if the message was not read from a source.
    pub native: Option<Native>,
}

impl Message {
    /// A message of these blocks.
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self { role, blocks, form: Form::Parts, native: None }
    }

    fn plain(role: Role, text: impl Into<Text>) -> Self {
        Self { role, blocks: vec![Block::text(text)], form: Form::Text, native: None }
    }

    /// A person's message.
    pub fn user(text: impl Into<Text>) -> Self {
        Self::plain(Role::User, text)
    }

    /// A model's message.
    pub fn assistant(text: impl Into<Text>) -> Self {
        Self::plain(Role::Assistant, text)
    }

    /// Instructions.
    pub fn system(text: impl Into<Text>) -> Self {
        Self::plain(Role::System, text)
    }

    /// The result of the call `call_id`.
    pub fn tool(call_id: impl Into<CallId>, text: impl Into<Text>) -> Self {
        let result = ToolResult::new(call_id, text);
        Self { role: Role::Tool, blocks: vec![Block::result(result)], form: Form::Text, native: None }
    }

    /// A model's message that only calls tools.
    pub fn assistant_with_tools(calls: Vec<ToolCall>) -> Self {
        let blocks = calls.into_iter().map(Block::call).collect();
        Self { role: Role::Assistant, blocks, form: Form::Null, native: None }
    }

    /// Reads the body of a message entry that the caller does not keep: only the source's item is copied. `None` if it is not a
    /// message.
    pub fn from_body(body: &str) -> Option<Self> {
        message_body::read(message_body::Buffer::Passing(body))
    }

    /// Sets the places of the block's texts in the message's native item, if they were read with places in the document around the
    /// item, or in one of several items. A text that is not found there loses its place.
    pub fn find_places(&mut self) {
        let Self { blocks, native, .. } = self;
        let item = || native.as_ref().map_or("", |native| native.raw.as_str());
        let before = native.as_ref().map_or(0, |native| 0_usize.wrapping_sub(native.raw.start()));
        let items = native.as_ref().map_or(&[][..], |native| &native.items);
        let starts =
            items.iter().flat_map(|item| std::iter::repeat_n(item.span.start as usize, item.blocks as usize));
        for (block, start) in blocks.iter_mut().zip(starts.chain(std::iter::repeat(0))) {
            let mut find = |text: &mut Text| text.move_place(item, [start, 0, before]);
            match &mut block.kind {
                BlockKind::ToolResult(result) => {
                    result.content.iter_mut().for_each(|block| find_place(block, &mut find));
                }
                _ => find_place(block, &mut find),
            }
        }
    }

    /// The calls in the message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(Block::as_call)
    }

    /// The results in the message, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(Block::as_result)
    }

    /// The call that the first result in the message answers.
    pub fn tool_call_id(&self) -> Option<&CallId> {
        self.tool_results().next().and_then(|result| result.call_id.as_ref())
    }

    /// The tool that the first result in the message names.
    pub fn tool_name(&self) -> Option<&Text> {
        self.tool_results().next().and_then(|result| result.name.as_ref())
    }

    /// The text of its text blocks and results, joined by line breaks; `None` if it has none.
    pub fn content(&self) -> Option<String> {
        let mut texts = Vec::new();
        for block in &self.blocks {
            texts.extend(block.as_text().map(Text::as_str));
            let inside = block.as_result().into_iter().flat_map(|result| &result.content);
            texts.extend(inside.filter_map(Block::as_text).map(Text::as_str));
        }
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// The bytes of its native item; empty if it has none.
    pub fn native_text(&self) -> &str {
        self.native.as_ref().map_or("", |native| native.raw.as_str())
    }

    /// The bytes of a block's native item, if it has one.
    pub fn native_block(&self, block: &Block) -> Option<&str> {
        block.span?.of(self.native.as_ref()?.raw.as_str())
    }
}

impl ToolResult {
    /// A tool message with only this result.
    pub fn to_message(&self) -> Message {
        let block = Block::result(self.clone());
        Message { role: Role::Tool, blocks: vec![block], form: self.form, native: None }
    }
}

/// Finds the places of the texts in a block that may be long. Ids and names are short enough to be compared.
fn find_place(block: &mut Block, find: &mut impl FnMut(&mut Text)) {
    match &mut block.kind {
        BlockKind::Text(text) => find(text),
        BlockKind::Reasoning(reasoning) => find(&mut reasoning.text),
        BlockKind::ToolCall(call) => find(call.arguments.text_mut()),
        BlockKind::ToolResult(_) | BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Opaque(_) => {}
    }
}
