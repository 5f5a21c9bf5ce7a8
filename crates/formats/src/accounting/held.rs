//! Finds what the blocks of a message hold: the stretches of the native item that they cover, and their texts.
//!
//! An opaque block holds all of its JSON, unless that contains a message: a message inside another one is not read.

use std::borrow::Cow;

use hashbrown::HashSet;
use rejoin_record::{
    Block, BlockKind, Media, MediaSource, Message, Native, Raw, Text,
    json::{Doc, literal},
};

use super::UnheldString;
use crate::messages::holds_speech;

/// A text or value that a block holds.
enum Piece<'m> {
    Text(&'m Text),
    /// The name or id of a result, which may come from its call in another item.
    Name(&'m Text),
    /// JSON that is kept verbatim.
    Json(&'m Raw),
}

/// Visits all texts and values that the blocks of a message hold.
fn pieces<'m>(message: &'m Message, mut visit: impl FnMut(Piece<'m>)) {
    let mut blocks: Vec<&'m Block> = message.blocks.iter().collect();
    let mut results: Vec<&'m Block> = Vec::new();
    while let Some((block, in_result)) =
        blocks.pop().map(|block| (block, false)).or_else(|| results.pop().map(|block| (block, true)))
    {
        match &block.kind {
            BlockKind::Text(text) => visit(Piece::Text(text)),
            BlockKind::Reasoning(reasoning) => visit(Piece::Text(&reasoning.text)),
            BlockKind::ToolCall(call) => {
                visit(Piece::Text(call.id.text()));
                visit(Piece::Text(&call.name));
                visit(Piece::Text(call.arguments.text()));
            }
            BlockKind::ToolResult(result) => {
                result.name.iter().for_each(|name| visit(Piece::Name(name)));
                result.call_id.iter().for_each(|id| visit(Piece::Name(id.text())));
                results.extend(&result.content);
            }
            BlockKind::Image(media) | BlockKind::Document(media) => {
                let Media { source, name, .. } = &**media;
                name.iter().for_each(|name| visit(Piece::Text(name)));
                match source {
                    MediaSource::Base64(text)
                    | MediaSource::Url(text)
                    | MediaSource::ProviderFile(text)
                    | MediaSource::Plain(text) => visit(Piece::Text(text)),
                    MediaSource::Unusable => {}
                }
            }
            // A tool may return anything, including messages of other conversations.
            BlockKind::Opaque(opaque) if in_result || !is_spoken(&opaque.raw) => {
                visit(Piece::Json(&opaque.raw))
            }
            BlockKind::Opaque(_) => {}
        }
    }
}

fn is_spoken(raw: &Raw) -> bool {
    Doc::parse(raw.as_str()).is_ok_and(|doc| doc.root().is_some_and(holds_speech))
}

/// The stretches of the native item that the blocks hold, sorted.
pub(super) fn stretches(message: &Message, native: &Native) -> Vec<(usize, usize)> {
    let mut found = Vec::with_capacity(message.blocks.len());
    let stretch = |text: &Text| {
        let span = text.span()?;
        let start = span.start as usize;
        Some((start, start + span.len as usize))
    };
    pieces(message, |piece| match piece {
        Piece::Text(text) => found.extend(stretch(text)),
        Piece::Name(text) => found.extend(stretch(text).filter(|(start, end)| {
            native.raw.as_str().get(*start..*end).is_some_and(|own| literal::decode(own).0 == text.as_str())
        })),
        Piece::Json(raw) => found.extend(stretch_of(raw, &native.raw)),
    });
    found.sort_unstable();
    found
}

/// The stretch of an item that a value covers, if both are slices of the same text.
fn stretch_of(inner: &Raw, outer: &Raw) -> Option<(usize, usize)> {
    let (inner, outer) = (inner.as_str(), outer.as_str());
    let start = (inner.as_ptr() as usize).checked_sub(outer.as_ptr() as usize)?;
    (start + inner.len() <= outer.len()).then_some((start, start + inner.len()))
}

/// The texts of a message that are not a stretch of its item, because the reader composed or wrapped them; also the parts that
/// they may have been made from.
pub(super) fn composed(message: &Message) -> HashSet<Cow<'_, str>> {
    let mut texts = HashSet::new();
    pieces(message, |piece| match piece {
        Piece::Text(text) | Piece::Name(text) if text.span().is_some() => {}
        Piece::Text(text) | Piece::Name(text) => {
            texts.insert(Cow::Borrowed(text.as_str()));
            // The reader may have joined several parts of reasoning into one text, or wrapped input that is not JSON in an
            // object.
            texts.extend(text.split("\n\n").map(Cow::Borrowed));
            if text.starts_with('{') {
                add_strings(text, &mut texts);
            }
        }
        Piece::Json(raw) => add_strings(raw.as_str(), &mut texts),
    });
    texts
}

/// Whether the message holds exactly this text outside its item. This check is cheap, because it collects no set of all texts.
pub(super) fn is_whole_text(message: &Message, left: &UnheldString<'_>) -> bool {
    let mut found = false;
    pieces(message, |piece| match piece {
        Piece::Text(own) | Piece::Name(own) => found |= own.span().is_none() && left.is(own),
        Piece::Json(_) => {}
    });
    found
}

/// Whether the message holds exactly this text.
pub(super) fn is_text_of(message: &Message, left: &UnheldString<'_>) -> bool {
    let mut found = false;
    pieces(message, |piece| match piece {
        Piece::Text(own) | Piece::Name(own) => found |= left.is(own),
        Piece::Json(_) => {}
    });
    found
}

fn add_strings(json: &str, texts: &mut HashSet<Cow<'_, str>>) {
    if let Ok(doc) = Doc::parse(json) {
        texts.extend(doc.strings().map(|text| Cow::Owned(text.into_owned())));
    }
}

/// Visits every text that the blocks hold.
pub(super) fn texts(message: &Message, mut visit: impl FnMut(&str)) {
    pieces(message, |piece| match piece {
        Piece::Text(text) | Piece::Name(text) => visit(text),
        Piece::Json(_) => {}
    });
    composed(message).iter().for_each(|text| visit(text));
}

/// Whether the set contains this text, or each of its paragraphs.
pub(super) fn holds(texts: &HashSet<Cow<'_, str>>, text: &str) -> bool {
    texts.contains(text) || (text.contains("\n\n") && text.split("\n\n").all(|part| texts.contains(part)))
}

/// The number of characters that the blocks of a message hold.
pub(super) fn size(message: &Message) -> usize {
    let mut size = 0;
    pieces(message, |piece| {
        size += match piece {
            Piece::Text(text) | Piece::Name(text) => text.chars().count(),
            Piece::Json(raw) => raw.as_str().chars().count(),
        };
    });
    size
}
