//! How many tokens texts and messages take.

use rejoin_record::{Block, BlockKind, Message};

/// Counts tokens for one model.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenCounter {
    /// The bytes that make one token, on average.
    bytes_per_token: f64,
}

/// A message takes a few tokens besides its text.
const MESSAGE: u64 = 4;

/// What a picture or a document counts. Its size in pixels or pages is not known here.
const MEDIUM: u64 = 1_500;

impl TokenCounter {
    /// The counter for a model, by its name.
    #[must_use]
    pub fn for_model(_model: &str) -> Self {
        Self { bytes_per_token: 4.0 }
    }

    /// The tokens of a text.
    #[must_use]
    pub fn text(&self, text: &str) -> u64 {
        (text.len() as f64 / self.bytes_per_token).ceil() as u64
    }

    /// The tokens of a message.
    #[must_use]
    pub fn message(&self, message: &Message) -> u64 {
        MESSAGE + message.blocks.iter().map(|block| self.block(block)).sum::<u64>()
    }

    /// The tokens of a block.
    #[must_use]
    pub fn block(&self, block: &Block) -> u64 {
        match &block.kind {
            BlockKind::Text(text) => self.text(text),
            BlockKind::Reasoning(reasoning) => self.text(&reasoning.text),
            BlockKind::ToolCall(call) => MESSAGE + self.text(&call.name) + self.text(call.arguments.text()),
            BlockKind::ToolResult(result) => {
                MESSAGE + result.content.iter().map(|block| self.block(block)).sum::<u64>()
            }
            BlockKind::Image(_) | BlockKind::Document(_) => MEDIUM,
            BlockKind::Opaque(opaque) => self.text(opaque.raw.as_str()),
        }
    }
}
