//! What a message is made of: text, reasoning, tool calls, tool results, media, and what has no name here.
//!
//! A block remembers the span of its own item inside the message's native JSON, so that a codec of the same dialect
//! can send it again byte for byte.

use crate::{
    arguments::Arguments,
    ids::CallId,
    message::Form,
    text::{Raw, Span, Text},
};

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// Where its own item stands in the message's native JSON.
    pub span: Option<Span>,
}

impl Block {
    /// A block without a native item.
    #[must_use]
    pub fn new(kind: BlockKind) -> Self {
        Self { kind, span: None }
    }

    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<Text>) -> Self {
        Self::new(BlockKind::Text(text.into()))
    }

    /// A tool call.
    #[must_use]
    pub fn call(call: ToolCall) -> Self {
        Self::new(BlockKind::ToolCall(call))
    }

    /// A tool result.
    #[must_use]
    pub fn result(result: ToolResult) -> Self {
        Self::new(BlockKind::ToolResult(result))
    }

    /// Reasoning.
    #[must_use]
    pub fn reasoning(text: impl Into<Text>, sealed: bool, origin: Origin) -> Self {
        Self::new(BlockKind::Reasoning(Box::new(Reasoning { text: text.into(), sealed, origin })))
    }

    /// Something of a provider's own.
    #[must_use]
    pub fn opaque(kind: impl Into<Text>, raw: Raw, fits: bool) -> Self {
        Self::new(BlockKind::Opaque(Box::new(Opaque { kind: kind.into(), raw, fits })))
    }

    /// The same block, standing at `span` of the native item, if its bytes may be sent again.
    #[must_use]
    pub fn at_if(self, fits: bool, span: Span) -> Self {
        if fits { self.at(span) } else { self }
    }

    /// The same block, standing at `span` of the native item.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        if let BlockKind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// The call of a call block.
    #[must_use]
    pub fn as_call(&self) -> Option<&ToolCall> {
        if let BlockKind::ToolCall(call) = &self.kind { Some(call) } else { None }
    }

    /// The result of a result block.
    #[must_use]
    pub fn as_result(&self) -> Option<&ToolResult> {
        if let BlockKind::ToolResult(result) = &self.kind { Some(result) } else { None }
    }
}

/// The kinds of block. Calls and results stand in the block itself, since every pass looks at them; what is rare is boxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockKind {
    /// What was said.
    Text(Text),
    /// What a model thought before it answered.
    Reasoning(Box<Reasoning>),
    /// A tool that a model asked for.
    ToolCall(ToolCall),
    /// What came of it.
    ToolResult(ToolResult),
    /// A picture.
    Image(Box<Media>),
    /// A document.
    Document(Box<Media>),
    /// Something else, kept as it was.
    Opaque(Box<Opaque>),
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// What its result refers to.
    pub id: CallId,
    /// Whether the source gave the id, or a reader had to.
    pub id_given: bool,
    /// The tool's name; may be empty in a broken source.
    pub name: Text,
    /// What it was passed.
    pub arguments: Arguments,
}

impl ToolCall {
    /// A call as someone wrote it, who may have left out its id or its name.
    #[must_use]
    pub fn read(id: Option<CallId>, name: Option<Text>, arguments: Arguments) -> Self {
        Self {
            id_given: id.is_some(),
            id: id.unwrap_or_else(|| CallId::from("")),
            name: name.unwrap_or_else(|| Text::new("")),
            arguments,
        }
    }

    /// A call as a provider would give it.
    #[must_use]
    pub fn new(id: impl Into<CallId>, name: impl Into<Text>, arguments: impl Into<Text>) -> Self {
        Self { id: id.into(), id_given: true, name: name.into(), arguments: Arguments::new(arguments) }
    }
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call it answers, if the source says.
    pub call_id: Option<CallId>,
    /// The tool's name, if the source says.
    pub name: Option<Text>,
    /// Text, images, documents, opaque blocks.
    pub content: Vec<Block>,
    /// How the source wrote the content.
    pub form: Form,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// A result that is a plain text.
    #[must_use]
    pub fn new(call_id: impl Into<CallId>, text: impl Into<Text>) -> Self {
        Self {
            call_id: Some(call_id.into()),
            name: None,
            content: vec![Block::text(text)],
            form: Form::Text,
            is_error: false,
        }
    }
}

/// Reasoning of a model, with what is needed to send it back to where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// What can be read of it; may be empty.
    pub text: Text,
    /// Whether the provider signed or encrypted it: then it is bound to what stood before it.
    pub sealed: bool,
    /// Where it came from.
    pub origin: Origin,
}

/// Where a piece of reasoning was issued. It is replayed only where this matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The dialect it was spoken in.
    pub dialect: Option<Text>,
    /// The provider.
    pub provider: Option<Text>,
    /// The endpoint.
    pub endpoint: Option<Text>,
    /// A hash of the account.
    pub account: Option<Text>,
    /// The model.
    pub model: Option<Text>,
    /// A hash of everything that was sent before it.
    pub prefix: Option<Text>,
    /// Whether the stream ended before it was complete.
    pub incomplete: bool,
}

impl Origin {
    /// Reasoning of a dialect, by a model if that is known.
    #[must_use]
    pub fn of(dialect: &str, model: Option<Text>) -> Self {
        Self { dialect: Some(Text::new(dialect)), model, ..Self::default() }
    }
}

/// A picture or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Its media type, if known.
    pub media_type: Option<Text>,
    /// Where the bytes are.
    pub source: MediaSource,
    /// A file name or title, if known.
    pub name: Option<Text>,
}

/// Where the bytes of a medium are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// Here, as base64.
    Base64(Text),
    /// Behind an address.
    Url(Text),
    /// At the provider, under an id that no other provider knows.
    ProviderFile(Text),
    /// Plain text: a document that needs no decoding.
    Plain(Text),
    /// Missing or unreadable.
    Unusable,
}

/// A block with no place in the model, kept as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// The source's own name for its kind; empty where it has none.
    pub kind: Text,
    /// The exact bytes.
    pub raw: Raw,
    /// Whether it is well formed in its own dialect, as far as the reader can tell.
    pub fits: bool,
}
