//! The blocks of a message: text, reasoning, tool calls, tool results, media, and provider-specific items.
//!
//! A block remembers the span of its item inside the message's native JSON, so that a codec of the same dialect can send
//! it again byte for byte.

use crate::{
    arguments::Arguments,
    ids::CallId,
    message::Form,
    text::{Raw, Span, Text},
};

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The kind, with its content.
    pub kind: BlockKind,
    /// The span of its item in the message's native JSON.
    pub span: Option<Span>,
}

impl Block {
    /// A block without a native item.
    pub fn new(kind: BlockKind) -> Self {
        Self { kind, span: None }
    }

    /// A text block.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::new(BlockKind::Text(text.into()))
    }

    /// A tool call.
    pub fn call(call: ToolCall) -> Self {
        Self::new(BlockKind::ToolCall(call))
    }

    /// A tool result.
    pub fn result(result: ToolResult) -> Self {
        Self::new(BlockKind::ToolResult(result))
    }

    /// Reasoning.
    pub fn reasoning(text: impl Into<Text>, sealed: bool, origin: Origin) -> Self {
        Self::new(BlockKind::Reasoning(Box::new(Reasoning { text: text.into(), sealed, origin })))
    }

    /// A provider-specific block. `fits` says whether it is well formed in its own dialect.
    pub fn opaque(kind: impl Into<Text>, raw: Raw, fits: bool) -> Self {
        Self::new(BlockKind::Opaque(Box::new(Opaque { kind: kind.into(), raw, fits })))
    }

    /// Sets the span in the native item if `fits`, that is, if those bytes may be sent again.
    #[must_use]
    pub fn at_if(self, fits: bool, span: Span) -> Self {
        if fits { self.at(span) } else { self }
    }

    /// Sets the span in the native item.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// The text of a text block; `None` for other kinds.
    pub fn as_text(&self) -> Option<&Text> {
        if let BlockKind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// The call of a call block; `None` for other kinds.
    pub fn as_call(&self) -> Option<&ToolCall> {
        if let BlockKind::ToolCall(call) = &self.kind { Some(call) } else { None }
    }

    /// The result of a result block; `None` for other kinds.
    pub fn as_result(&self) -> Option<&ToolResult> {
        if let BlockKind::ToolResult(result) = &self.kind { Some(result) } else { None }
    }
}

/// The kinds of block. Calls and results are stored inline because every pass reads them; rare kinds are boxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text(Text),
    /// A model's reasoning before its answer.
    Reasoning(Box<Reasoning>),
    /// A model's call of a tool.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResult(ToolResult),
    /// An image.
    Image(Box<Media>),
    /// A document.
    Document(Box<Media>),
    /// A block of any other kind, kept verbatim.
    Opaque(Box<Opaque>),
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that its result refers to.
    pub id: CallId,
    /// Whether the source gave the id; otherwise the reader assigned it.
    pub id_given: bool,
    /// The tool's name; may be empty in a broken source.
    pub name: Text,
    /// The arguments.
    pub arguments: Arguments,
}

impl ToolCall {
    /// A call read from a source, which may lack its id or its name.
    pub fn read(id: Option<CallId>, name: Option<Text>, arguments: Arguments) -> Self {
        Self {
            id_given: id.is_some(),
            id: id.unwrap_or_else(|| CallId::from("")),
            name: name.unwrap_or_else(|| Text::new("")),
            arguments,
        }
    }

    /// A complete call.
    pub fn new(id: impl Into<CallId>, name: impl Into<Text>, arguments: impl Into<Text>) -> Self {
        Self { id: id.into(), id_given: true, name: name.into(), arguments: Arguments::new(arguments) }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call that it answers; `None` if the source does not name it.
    pub call_id: Option<CallId>,
    /// The tool's name; `None` if the source does not give it.
    pub name: Option<Text>,
    /// The content: text, images, documents and opaque blocks.
    pub content: Vec<Block>,
    /// Whether the source wrote the content as a string, as parts, or not at all.
    pub form: Form,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// A result with one text.
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

/// A model's reasoning, with everything needed to send it back to its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasoning {
    /// The readable part; may be empty.
    pub text: Text,
    /// Whether the provider signed or encrypted it, which binds it to all messages before it.
    pub sealed: bool,
    /// Its issuer.
    pub origin: Origin,
}

/// The issuer of a piece of reasoning. It is replayed only to the same issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The name of the dialect in which it was written, as an answer or in a request body. `None` if the source does not say.
    pub dialect: Option<Text>,
    /// The name of the provider that answered. Services that speak one dialect do not accept each other's reasoning, so rejoin's
    /// own records always have it; other sources rarely do.
    pub provider: Option<Text>,
    /// The address of the request, if rejoin sent it.
    pub endpoint: Option<Text>,
    /// A hash that distinguishes accounts without naming them: one account cannot send reasoning that was encrypted for another.
    pub account: Option<Text>,
    /// The model that wrote it.
    pub model: Option<Text>,
    /// A hash of everything that was sent before it. If that has changed since, sealed reasoning is left out, because its signature
    /// covers the preceding messages.
    pub prefix: Option<Text>,
    /// Whether the stream ended before the reasoning was complete. Such reasoning is kept but never sent back.
    pub incomplete: bool,
}

impl Origin {
    /// The origin of reasoning in a dialect, by a model if it is known.
    pub fn of(dialect: &str, model: Option<Text>) -> Self {
        Self { dialect: Some(Text::new(dialect)), model, ..Self::default() }
    }
}

/// An image or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Its media type, such as `image/png`, if the source gives one. It may be wrong: encoders look at the bytes.
    pub media_type: Option<Text>,
    /// The location of the bytes.
    pub source: MediaSource,
    /// A file name or title, if the source gives one.
    pub name: Option<Text>,
}

/// The location of the bytes of an image or document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// Inline, as base64.
    Base64(Text),
    /// At a URL.
    Url(Text),
    /// Uploaded to the provider, under an id that no other provider knows.
    ProviderFile(Text),
    /// Plain text: a document that needs no decoding.
    Plain(Text),
    /// Missing or unreadable.
    Unusable,
}

/// A provider-specific block, kept verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// The source's name for its kind; empty if it has none.
    pub kind: Text,
    /// The exact bytes.
    pub raw: Raw,
    /// Whether it is well formed in its own dialect, as far as the reader can tell.
    pub fits: bool,
}
