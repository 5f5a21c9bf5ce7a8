//! Blocks on their way out: the source's own bytes, less cache marks that are too many, or new ones.

use std::borrow::Cow;

use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message,
    json::{Doc, write},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::super::render::{self, Piece};
use super::{
    encode::{Encoder, is_own, is_transcript},
    marks::{MARK, marks_on, without_marks},
};
use crate::{
    chat::{blocks::is_base64, is_image_type},
    convert::Marks,
};

/// The kind of document that goes out as bytes.
const PDF: &str = "application/pdf";

impl Encoder {
    /// A block of a user message or of a result. `None` if nothing of it goes out.
    pub(super) fn content_piece<'i>(
        &mut self,
        message: &'i Message,
        block: &'i Block,
        at: Position,
    ) -> Option<Piece<'i>> {
        let own = Self::own_bytes(message, block);
        let made = match (&block.kind, own) {
            // Another dialect's way to say that there is no text.
            (BlockKind::Text(text), _) if text.is_empty() && !is_own(message) => return None,
            (BlockKind::Text(text), _) if text.is_blank() => {
                let finding = Finding::new(Rule::EmptyMessage, at, Action::LeftOut);
                // The agent did not send it either: nothing changes for the model.
                if is_transcript(message) {
                    self.ledger.note(finding)
                } else {
                    self.ledger.change(finding)
                }
                return None;
            }
            (BlockKind::Reasoning(_), _) => {
                let finding = Finding::new(Rule::ForeignReasoning, at, Action::LeftOut);
                self.ledger.change(finding);
                return None;
            }
            (_, Some(raw)) => return Some(self.marked(raw, at)),
            (BlockKind::Text(text), None) => {
                self.ledger.lossy(text, at);
                // A content that is one string goes out as a string: see `push_new`.
                let exact = !text.is_lossy();
                return Some(Piece { json: render::text_block(text).into(), exact });
            }
            (BlockKind::Image(media), None) => self.image(media, is_own(message), at),
            (BlockKind::Document(media), None) => self.document(media, is_own(message), at),
            (other, None) => render::text_block(&self.ledger.as_text(other, at)),
        };
        Some(Piece { json: made.into(), exact: false })
    }

    /// The source's own bytes of a block, if they may be sent again.
    pub(super) fn own_bytes<'i>(message: &'i Message, block: &'i Block) -> Option<&'i str> {
        let native = message.native.as_ref().filter(|_| is_own(message))?;
        block.span?.of(native.raw.as_str())
    }

    /// A block's own bytes, less cache marks beyond what the API takes.
    pub(super) fn marked<'i>(&mut self, raw: &'i str, at: Position) -> Piece<'i> {
        let as_it_is = Piece { json: Cow::Borrowed(raw), exact: true };
        if self.surplus_marks == 0 || !raw.contains(MARK) {
            return as_it_is;
        }
        let doc = Doc::parse(raw);
        let Some(block) = doc.as_ref().ok().and_then(Doc::root) else { return as_it_is };
        let gone = marks_on(block).min(self.surplus_marks);
        if gone == 0 {
            return as_it_is;
        }
        if self.target.marks == Marks::AsWritten {
            self.surplus_marks -= gone;
        }
        let finding = Finding::new(Rule::UnknownField, at, Action::LeftOut);
        let why = match self.target.marks {
            Marks::AsWritten => "more marks than the provider takes",
            Marks::LeftOut | Marks::Placed => "marks are set for every request anew",
        };
        self.ledger.note(finding.about("cache_control").because(why));
        Piece { json: without_marks(block, gone).into(), exact: false }
    }

    fn image(&mut self, media: &Media, own: bool, at: Position) -> String {
        let mut out = String::from("{\"type\":\"image\",\"source\":");
        match &media.source {
            MediaSource::Base64(data)
                if is_base64(data) && is_image_type(render::image_type(media, data)) =>
            {
                out.push_str("{\"type\":\"base64\",\"media_type\":");
                write::string(&mut out, render::image_type(media, data));
                write::key(&mut out, "data");
                write::string(&mut out, data);
            }
            MediaSource::Url(url) => {
                out.push_str("{\"type\":\"url\",\"url\":");
                write::string(&mut out, url);
            }
            MediaSource::ProviderFile(id) if own => {
                out.push_str("{\"type\":\"file\",\"file_id\":");
                write::string(&mut out, id);
            }
            _ => {
                self.ledger.change(Finding::new(Rule::MovedMedia, at, Action::Replaced));
                return render::text_block(&render::media_label("image", media));
            }
        }
        out.push_str("}}");
        out
    }

    fn document(&mut self, media: &Media, own: bool, at: Position) -> String {
        let mut out = String::from("{\"type\":\"document\",\"source\":");
        match &media.source {
            MediaSource::Base64(data)
                if is_base64(data) && media.media_type.as_deref().is_none_or(|kind| kind == PDF) =>
            {
                out.push_str("{\"type\":\"base64\",\"media_type\":");
                write::string(&mut out, PDF);
                write::key(&mut out, "data");
                write::string(&mut out, data);
            }
            MediaSource::Url(url) => {
                out.push_str("{\"type\":\"url\",\"url\":");
                write::string(&mut out, url);
            }
            MediaSource::Plain(text) => {
                out.push_str("{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":");
                write::string(&mut out, text);
            }
            MediaSource::ProviderFile(id) if own => {
                out.push_str("{\"type\":\"file\",\"file_id\":");
                write::string(&mut out, id);
            }
            _ => {
                self.ledger.change(Finding::new(Rule::MovedMedia, at, Action::Replaced));
                return render::text_block(&render::media_label("document", media));
            }
        }
        out.push('}');
        if let Some(name) = &media.name {
            write::key(&mut out, "title");
            write::string(&mut out, name);
        }
        out.push('}');
        out
    }
}
