//! A message: a role and ordered blocks, with the source's own item beside them.

use std::fmt;

use crate::{
    block::{Block, ToolCall, ToolResult},
    ids::CallId,
    text::{Raw, Span, Text},
};

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Instructions from whoever set the conversation up.
    System,
    /// The same, under the name that some models use for it.
    Developer,
    /// A person, or the program that speaks for one.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// A role that nobody here knows, verbatim.
    Other(Text),
}

impl Role {
    /// The role's name, as it is stored.
    #[must_use]
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

    /// The role of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" => Self::Tool,
            other => Self::Other(other.into()),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the source wrote a content: the difference matters to whoever gets it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One string.
    Text,
    /// A list of parts.
    Parts,
    /// `null`.
    Null,
    /// Not there at all.
    Absent,
}

impl Form {
    /// The form's name, as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Parts => "parts",
            Self::Null => "null",
            Self::Absent => "absent",
        }
    }

    /// The form of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Text, Self::Parts, Self::Null, Self::Absent].into_iter().find(|form| form.as_str() == name)
    }
}

/// The source's own item for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Native {
    /// The name of the format it is written in.
    pub format: Text,
    /// Its exact bytes.
    pub raw: Raw,
    /// Whether the item is regular in its format: a codec of the same dialect may send it again as it is.
    pub regular: bool,
    /// Whether it has fields that say something and that blocks and role do not hold.
    pub more: bool,
    /// Where the source makes several items of one message: each of them, in order. `raw` then holds them with a comma
    /// between any two.
    pub items: Vec<NativeItem>,
}

impl Native {
    /// The item of a source that makes one item of a message.
    #[must_use]
    pub fn one(format: impl Into<Text>, raw: Raw, regular: bool) -> Self {
        Self { format: format.into(), raw, regular, more: false, items: Vec::new() }
    }
}

/// One of several items that make up a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeItem {
    /// Where it stands in the native bytes.
    pub span: Span,
    /// How many of the message's blocks it holds.
    pub blocks: u32,
    /// Whether it is regular in its format, as [`Native::regular`] says of a whole.
    pub regular: bool,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub blocks: Vec<Block>,
    /// How the source wrote the content.
    pub form: Form,
    /// The source's own item.
    pub native: Option<Native>,
}

impl Message {
    /// A message of these blocks.
    #[must_use]
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Self { role, blocks, form: Form::Parts, native: None }
    }

    fn plain(role: Role, text: impl Into<Text>) -> Self {
        Self { role, blocks: vec![Block::text(text)], form: Form::Text, native: None }
    }

    /// What a person said.
    #[must_use]
    pub fn user(text: impl Into<Text>) -> Self {
        Self::plain(Role::User, text)
    }

    /// What a model said.
    #[must_use]
    pub fn assistant(text: impl Into<Text>) -> Self {
        Self::plain(Role::Assistant, text)
    }

    /// Instructions.
    #[must_use]
    pub fn system(text: impl Into<Text>) -> Self {
        Self::plain(Role::System, text)
    }

    /// The result of the call `call_id`.
    #[must_use]
    pub fn tool(call_id: impl Into<CallId>, text: impl Into<Text>) -> Self {
        let result = ToolResult::new(call_id, text);
        Self { role: Role::Tool, blocks: vec![Block::result(result)], form: Form::Text, native: None }
    }

    /// A model's message that only calls tools.
    #[must_use]
    pub fn assistant_with_tools(calls: Vec<ToolCall>) -> Self {
        let blocks = calls.into_iter().map(Block::call).collect();
        Self { role: Role::Assistant, blocks, form: Form::Null, native: None }
    }

    /// The calls in it, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(Block::as_call)
    }

    /// The results in it, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks.iter().filter_map(Block::as_result)
    }

    /// The call that the first result in it answers.
    #[must_use]
    pub fn tool_call_id(&self) -> Option<&CallId> {
        self.tool_results().next().and_then(|result| result.call_id.as_ref())
    }

    /// The tool that the first result in it names.
    #[must_use]
    pub fn tool_name(&self) -> Option<&Text> {
        self.tool_results().next().and_then(|result| result.name.as_ref())
    }

    /// Its text: what is said in it, or the text of its results; `None` where there is none at all.
    #[must_use]
    pub fn content(&self) -> Option<String> {
        let mut texts = Vec::new();
        for block in &self.blocks {
            texts.extend(block.as_text().map(Text::as_str));
            texts.extend(
                block
                    .as_result()
                    .into_iter()
                    .flat_map(|result| &result.content)
                    .filter_map(|b| Some(b.as_text()?.as_str())),
            );
        }
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// The bytes of a block's own item, if it has one.
    #[must_use]
    pub fn native_block(&self, block: &Block) -> Option<&str> {
        block.span?.of(self.native.as_ref()?.raw.as_str())
    }
}

impl ToolResult {
    /// The message that carries it.
    #[must_use]
    pub fn to_message(&self) -> Message {
        let block = Block::result(self.clone());
        Message { role: Role::Tool, blocks: vec![block], form: self.form, native: None }
    }
}
