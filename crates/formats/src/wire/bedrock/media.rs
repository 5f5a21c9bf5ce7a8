//! Images and documents in a Bedrock message, with their limits in number and size, and the names of documents.

use std::collections::HashSet;

use rejoin_record::{Media, text::is_blank};

use super::WIRE;
use crate::wire::{TooLarge, base64, prelude::*};

const IMAGES: usize = 20;
const DOCUMENTS: usize = 5;
const IMAGE_BYTES: usize = 3_750_000;
const DOCUMENT_BYTES: usize = 4_500_000;
/// Characters of a document's name, leaving room for a number that makes it unique.
const NAME_LENGTH: usize = 180;

/// The images and documents of one message.
#[derive(Clone, Default)]
pub(super) struct Shelf {
    images: usize,
    documents: HashSet<String>,
}

impl Shelf {
    /// Writes an image or document as a content block; `None` if the message cannot take it.
    ///
    /// # Errors
    /// If it exceeds the provider's size limit.
    pub(super) fn block(
        &mut self,
        kind: &BlockKind,
        at: Position,
        ledger: &mut Ledger,
    ) -> Result<Option<String>, TooLarge> {
        match kind {
            BlockKind::Image(_) => self.image(kind, at),
            BlockKind::Document(media) => self.document(kind, media, at, ledger),
            _ => Ok(None),
        }
    }

    fn image(&mut self, kind: &BlockKind, at: Position) -> Result<Option<String>, TooLarge> {
        let Ok(UsableMedia::Bytes { media_type, data }) = WIRE.media.judge(kind) else { return Ok(None) };
        let Some(format) = media_type.strip_prefix("image/").filter(|_| self.images < IMAGES) else {
            return Ok(None);
        };
        fits(&data, "an image in bytes", IMAGE_BYTES, at)?;
        self.images += 1;
        Ok(Some(block("image", Object::new().text("format", format), &data)))
    }

    fn document(
        &mut self,
        kind: &BlockKind,
        media: &Media,
        at: Position,
        ledger: &mut Ledger,
    ) -> Result<Option<String>, TooLarge> {
        if self.documents.len() >= DOCUMENTS {
            return Ok(None);
        }
        let (format, data) = match WIRE.media.judge(kind) {
            Ok(UsableMedia::Bytes { media_type, data }) => match media::ending(&media_type) {
                Some(format) => (format, data.into_owned()),
                None => return Ok(None),
            },
            Ok(UsableMedia::Plain(text)) => ("txt", base64::encode(text.as_bytes())),
            _ => return Ok(None),
        };
        fits(&data, "a document in bytes", DOCUMENT_BYTES, at)?;
        let given = media.name.as_deref().filter(|name| !is_blank(name));
        let name = self.name(given.unwrap_or("document"));
        if given.is_some_and(|given| given != name) {
            let renamed = ledger.change(Rule::IrregularContent, at, Action::Renamed);
            renamed.about(given.unwrap_or_default()).because("the name of a document");
        }
        Ok(Some(block("document", Object::new().text("format", format).text("name", name), &data)))
    }

    /// A legal name (letters, digits, single spaces, hyphens and brackets) that is unique in the message.
    fn name(&mut self, given: &str) -> String {
        let mut name = String::new();
        for letter in given.trim().chars().take(NAME_LENGTH) {
            match letter {
                _ if letter.is_whitespace() => {
                    if !name.ends_with(' ') {
                        name.push(' ');
                    }
                }
                'a'..='z' | 'A'..='Z' | '0'..='9' | '(' | ')' | '[' | ']' => name.push(letter),
                _ => name.push('-'),
            }
        }
        let name = name.trim_end();
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let mut free = std::iter::once(name.to_owned()).chain(numbered);
        let free = free.find(|name| !self.documents.contains(name)).unwrap_or_default();
        self.documents.insert(free.clone());
        free
    }
}

fn block(kind: &str, medium: Object, data: &str) -> String {
    let source = Object::new().text("bytes", data);
    Object::new().object(kind, medium.object("source", source)).finish()
}

fn fits(data: &str, what: &'static str, limit: usize, at: Position) -> Result<(), TooLarge> {
    let size = base64::decoded_len(data);
    if size > limit { Err(TooLarge { rule: "BED-11", what, size, limit, at }) } else { Ok(()) }
}
