//! Parts to be sent: texts, media, and parts that only the API understands.

use super::{
    WIRE,
    edit::{Signing, edited},
    read::fields::Signature,
    write::Encoder,
};
use crate::wire::{prelude::*, render::Piece};

impl Encoder {
    /// A block other than a call, a result or reasoning; `None` if it is left out. Its signature stays only if everything before
    /// it is `intact`.
    pub(super) fn piece<'i>(
        &mut self,
        message: &'i Message,
        block: &'i Block,
        at: Position,
        intact: bool,
    ) -> Option<Piece<'i>> {
        let own = WIRE.own_bytes(message, block);
        let json = match (&block.kind, own) {
            (BlockKind::Reasoning(_), _) => {
                self.state.ledger.foreign_reasoning(at);
                return None;
            }
            (_, Some(raw)) if Signature::in_part(raw) == Signature::Bound && !intact => {
                self.state.ledger.foreign_reasoning(at);
                edited(raw, Signing::LeftOut, &[])
            }
            (_, Some(raw)) => return Some(Piece { json: raw.into(), exact: true }),
            // In other dialects, an empty text means no text.
            (BlockKind::Text(text), None) if text.is_empty() => return None,
            (BlockKind::Text(text), None) => {
                self.state.ledger.lossy(text, at);
                text_part(text)
            }
            (kind, None) => {
                media_part(kind).unwrap_or_else(|| text_part(&self.state.ledger.as_text(kind, at)))
            }
        };
        Some(Piece { json: json.into(), exact: false })
    }
}

/// `{"text":…}`
pub(super) fn text_part(text: &str) -> String {
    Object::with_room(text.len() + 16).str("text", text).finish()
}

/// A picture or document as a part; `None` if the API cannot take it.
fn media_part(kind: &BlockKind) -> Option<String> {
    let (field, data) = match WIRE.media.judge(kind).ok()? {
        UsableMedia::Bytes { media_type, data } => {
            ("inlineData", Object::new().text("mimeType", media_type).text("data", data))
        }
        UsableMedia::Address(url) => {
            let (BlockKind::Image(media) | BlockKind::Document(media)) = kind else { return None };
            let media_type = media.media_type.as_ref().filter(|kind| !kind.is_blank());
            ("fileData", Object::new().text_if("mimeType", media_type).text("fileUri", url))
        }
        UsableMedia::File(_) | UsableMedia::Plain(_) => return None,
    };
    Some(Object::new().object(field, data).finish())
}
