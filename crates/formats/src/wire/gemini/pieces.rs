//! Parts on their way out: text, media, and what only the API itself understands.

use std::borrow::Cow;

use rejoin_record::{Block, BlockKind, Media, MediaSource, Message, json::write};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::render::{self, Piece};
use super::{
    edit::{Signing, edited},
    encode::{Encoder, is_own},
};
use crate::gemini::fields::{Signature, is_bytes};

/// What a document is where nobody says.
const PDF: &str = "application/pdf";

impl Encoder {
    /// The source's own bytes of a block, if they may be sent again.
    pub(super) fn own_bytes<'i>(message: &'i Message, block: &'i Block) -> Option<&'i str> {
        let native = message.native.as_ref().filter(|_| is_own(message))?;
        block.span?.of(native.raw.as_str())
    }

    /// A block that is no call, no result and no reasoning of a model's. `None` if nothing of it goes out. Its signature
    /// stays only while everything before it is `intact`.
    pub(super) fn piece<'i>(
        &mut self,
        message: &'i Message,
        block: &'i Block,
        at: Position,
        intact: bool,
    ) -> Option<Piece<'i>> {
        let own = Self::own_bytes(message, block);
        let json = match (&block.kind, own) {
            (BlockKind::Reasoning(_), _) => {
                self.ledger.change(foreign_reasoning(at));
                return None;
            }
            (_, Some(raw)) if Signature::in_part(raw) == Signature::Bound && !intact => {
                self.ledger.change(foreign_reasoning(at));
                edited(raw, Signing::LeftOut, &[])
            }
            (_, Some(raw)) => return Some(Piece { json: raw.into(), exact: true }),
            // Another dialect's way to say that there is no text.
            (BlockKind::Text(text), None) if text.is_empty() => return None,
            (BlockKind::Text(text), None) => {
                self.ledger.lossy(text, at);
                text_part(text)
            }
            (BlockKind::Image(media) | BlockKind::Document(media), None) => media_part(&block.kind, media)
                .unwrap_or_else(|| text_part(&self.ledger.as_text(&block.kind, at))),
            (other, None) => text_part(&self.ledger.as_text(other, at)),
        };
        Some(Piece { json: json.into(), exact: false })
    }
}

pub(super) fn foreign_reasoning(at: Position) -> Finding {
    Finding::new(Rule::ForeignReasoning, at, Action::LeftOut)
}

/// `{"text":…}`
pub(super) fn text_part(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str("{\"text\":");
    write::string(&mut out, text);
    out.push('}');
    out
}

/// A picture or a document as the API takes it; `None` where there are no bytes that it could read.
fn media_part(kind: &BlockKind, media: &Media) -> Option<String> {
    let mut out = String::from("{");
    match &media.source {
        MediaSource::Base64(data) => {
            // Elsewhere lines of base64 may be broken.
            let data: Cow<'_, str> = match data.contains(['\n', '\r']) {
                true => data.replace(['\n', '\r'], "").into(),
                false => data.as_str().into(),
            };
            if !is_bytes(&data) {
                return None;
            }
            let media_type = match kind {
                BlockKind::Image(_) => render::image_type(media, &data),
                _ => media.media_type.as_deref().filter(|kind| !kind.trim().is_empty()).unwrap_or(PDF),
            };
            out.push_str("\"inlineData\":{\"mimeType\":");
            write::string(&mut out, media_type);
            write::key(&mut out, "data");
            write::string(&mut out, &data);
        }
        MediaSource::Url(url) => {
            out.push_str("\"fileData\":{");
            if let Some(media_type) = media.media_type.as_ref().filter(|kind| !kind.is_blank()) {
                write::key(&mut out, "mimeType");
                write::string(&mut out, media_type);
            }
            write::key(&mut out, "fileUri");
            write::string(&mut out, url);
        }
        MediaSource::ProviderFile(_) | MediaSource::Plain(_) | MediaSource::Unusable => return None,
    }
    out.push_str("}}");
    Some(out)
}
