//! Provider dialects: one folder each, listed in `registry.rs`.
//!
//! A folder holds the descriptor (`mod.rs`), `write.rs` (a sound view becomes a request body), `stream.rs` (a response becomes a
//! message), `settings.rs` (limits and reasoning), `answers.txt` (the provider's refusals, by rule), and `read/` for requests that are not lists of messages; those
//! are read in `messages/`. What a provider refuses is judged in `crates/checkers`, which shares nothing with the codecs.
//!
//! One decoder serves streamed and complete responses: `stream.rs` rebuilds the item that the provider would have sent without
//! streaming, and reads that. `arriving.rs` does what all of them need: it splits bytes into events (`sse.rs`, `documents.rs`)
//! and decides how a response ended. `gathered.rs` joins what arrives in pieces, `usage.rs` counts tokens.
//!
//! Shared by the encoders: `pass.rs` (the walk over a view), `render.rs` (labels, findings), `fragments.rs` (texts and media,
//! for dialects that are written from scratch), `names.rs`, `calls.rs`, `tools.rs`, `base64.rs`; `list_text.rs` (the growing list of
//! messages), `body.rs` (the fields around it) and `outline.rs` (both together).

pub mod anthropic;
pub(crate) mod arriving;
pub mod base64;
pub mod bedrock;
pub(crate) mod body;
pub(crate) mod calls;
pub(crate) mod documents;
pub mod encoded;
pub(crate) mod fragments;
pub(crate) mod gathered;
pub mod gemini;
pub(crate) mod list_text;
pub mod mistral;
pub mod names;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub mod outline;
pub(crate) mod pass;
pub(crate) mod plain;
pub mod registry;
pub(crate) mod render;
pub mod settings;
pub(crate) mod sse;
pub mod stream;
pub(crate) mod tools;
pub(crate) mod usage;

/// What the codecs of all dialects use.
pub(crate) mod prelude {
    pub(crate) use std::{borrow::Cow, sync::Arc};

    pub(crate) use rejoin_record::{
        Block, BlockKind, Form, Message, Origin, Raw, Text, ToolCall,
        json::{Doc, Object, Value, ValueKind, write},
    };
    pub(crate) use rejoin_view::{
        Action, ArgumentsUse, ExchangeRef, Finding, ItemRef, Position, ResultRef, Rule, SoundRole, SoundView,
        sound::{self, PartRef},
    };

    pub(crate) use super::{
        arriving::{Assembly, Decoder, Facts, Item, show, word},
        body::Surroundings,
        calls,
        fragments::{self, Fragment, FragmentKind},
        gathered::{GrowingObject, Streamed},
        names::CallSpelling,
        openai_chat::CHAT,
        outline::Encode,
        pass::{self, EncoderState, LastRole, Pass, with_state},
        registry::{Dialect, Fields, RequestLimits, ToolSyntax, Wire},
        render::{self, ItemPiece, Ledger},
        stream::{Delta, StopReason, StopWords},
        tools::{self, ChoiceSyntax, Declared},
        usage::UsageFields,
    };
    pub(crate) use crate::{
        context::{ToolChoice, ToolDeclaration, ToolKind},
        convert::{CacheMarks, ReasoningBond, Target},
        media::{self, AcceptedMedia, UsableMedia},
    };
}

pub use encoded::{Encoded, TooLarge};
