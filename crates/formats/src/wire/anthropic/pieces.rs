//! Content blocks: the source's own bytes without surplus cache marks, or new ones.

use super::{
    WIRE,
    marks::{MARK, marks_on, without_marks},
    write::{Encoder, is_transcript},
};
use crate::wire::prelude::*;

pub(super) struct Piece<'i> {
    pub(super) json: Json<'i>,
    /// Whether these are the source's own bytes, or would be if the source had written a block.
    pub(super) exact: bool,
}

/// The content of a block. A text is escaped only when it is written, straight into the body.
pub(super) enum Json<'i> {
    Block(Cow<'i, str>),
    Text(Cow<'i, str>),
    /// A text of the record, which need not be decoded to be written.
    SourceText(&'i Text),
}

impl<'i> Json<'i> {
    pub(super) fn text(text: impl Into<Cow<'i, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn write(&self, out: &mut String) {
        if matches!(self, Self::Block(_)) {
            return self.write_bare(out);
        }
        Object::append(out, |block| block.str("type", "text").with("text", |out| self.write_bare(out)));
    }

    /// Writes a text as a string rather than a block.
    pub(super) fn write_bare(&self, out: &mut String) {
        match self {
            Self::Block(json) => out.push_str(json),
            Self::Text(text) => write::string(out, text),
            Self::SourceText(text) => text.write_literal(out),
        }
    }

    pub(super) fn into_block(self) -> String {
        if let Self::Block(json) = self {
            return json.into_owned();
        }
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

pub(super) fn write_list<'j>(out: &mut String, blocks: impl IntoIterator<Item = Json<'j>>) {
    write::list(out, blocks, |out, block| block.write(out));
}

impl Encoder {
    /// A block of a user message or of a result; `None` if it is left out.
    pub(super) fn content_piece<'i>(
        &mut self,
        message: &'i Message,
        block: &'i Block,
        at: Position,
    ) -> Option<Piece<'i>> {
        let own = WIRE.own_bytes(message, block);
        let json = match (&block.kind, own) {
            // In other dialects, an empty text means no text.
            (BlockKind::Text(text), _) if text.is_empty() && !WIRE.is_own(message) => return None,
            (BlockKind::Text(text), _) if text.is_blank() => {
                // Of a transcript, the agent did not send it either: nothing changes for the model.
                if is_transcript(message) {
                    self.state.ledger.note(Rule::EmptyMessage, at, Action::LeftOut);
                } else {
                    self.state.ledger.nothing_left(at);
                }
                return None;
            }
            (BlockKind::Reasoning(_), _) => {
                self.state.ledger.foreign_reasoning(at);
                return None;
            }
            (_, Some(raw)) => return Some(self.marked(raw, at)),
            (BlockKind::Text(text), None) => {
                self.state.ledger.lossy(text, at);
                // A content that is a string stays a string: see `push_pieces`.
                return Some(Piece { json: Json::SourceText(text), exact: !text.is_lossy() });
            }
            (kind, None) => match media_block(kind, WIRE.is_own(message)) {
                Some(block) => Json::Block(block.into()),
                None => Json::text(self.state.ledger.as_text(kind, at)),
            },
        };
        Some(Piece { json, exact: false })
    }

    /// A block's own bytes without surplus cache marks.
    pub(super) fn marked<'i>(&mut self, raw: &'i str, at: Position) -> Piece<'i> {
        let as_it_is = Piece { json: Json::Block(raw.into()), exact: true };
        if self.surplus_marks == 0 || !raw.contains(MARK) {
            return as_it_is;
        }
        let doc = Doc::of(raw);
        let Some(block) = doc.root() else { return as_it_is };
        let gone = marks_on(block).min(self.surplus_marks);
        if gone == 0 {
            return as_it_is;
        }
        if self.state.target.marks == CacheMarks::AsWritten {
            self.surplus_marks -= gone;
        }
        let why = match self.state.target.marks {
            CacheMarks::AsWritten => "more marks than the provider takes",
            CacheMarks::LeftOut | CacheMarks::Placed => "every request gets its own marks",
        };
        self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about("cache_control").because(why);
        Piece { json: Json::Block(without_marks(block, gone).into()), exact: false }
    }
}

/// An image or document as a block; `None` if the API cannot take it.
fn media_block(kind: &BlockKind, own: bool) -> Option<String> {
    let (name, title) = match kind {
        BlockKind::Document(media) => ("document", media.name.as_ref()),
        _ => ("image", None),
    };
    let source = |kind| Object::new().text("type", kind);
    let source = match WIRE.media.judge(kind).ok()? {
        UsableMedia::Bytes { media_type, data } => {
            source("base64").text("media_type", media_type).text("data", data)
        }
        UsableMedia::Address(url) => source("url").text("url", url),
        UsableMedia::Plain(text) if name == "document" => {
            source("text").text("media_type", "text/plain").text("data", text)
        }
        UsableMedia::File(id) if own => source("file").text("file_id", id),
        UsableMedia::Plain(_) | UsableMedia::File(_) => return None,
    };
    Some(Object::new().text("type", name).object("source", source).text_if("title", title).finish())
}
