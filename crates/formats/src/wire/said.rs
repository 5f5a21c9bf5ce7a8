//! What a message of a view says, for a dialect that is written from scratch: texts and media, in order. Reasoning is left out unless
//! its own dialect asks for it; a block that no dialect shares becomes a labelled text.

use std::borrow::Cow;

use rejoin_record::{Block, BlockKind, Role, Text};
use rejoin_view::{Action, Finding, ItemRef, Position, ResultRef, Rule, sound::PartRef};

use super::{
    registry::Dialect,
    render::{self, Ledger},
};
use crate::{
    context::Context,
    convert::{Bond, Target},
};

/// A piece of what is said, and where it stands in the source.
pub struct Said<'i> {
    /// Its place.
    pub at: Position,
    /// What it is.
    pub what: What<'i>,
}

/// Kinds of pieces.
pub enum What<'i> {
    /// A text, blank ones included.
    Text(Cow<'i, str>),
    /// An image or a document of a kind that the dialect takes.
    Media(&'i BlockKind),
}

impl Said<'_> {
    /// Whether it is a text with nothing to read in it.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        matches!(&self.what, What::Text(text) if rejoin_record::text::is_blank(text))
    }

    /// The piece as text; a medium becomes a label.
    #[must_use]
    pub fn into_text(self, ledger: &mut Ledger) -> String {
        match self.what {
            What::Text(text) => text.into_owned(),
            What::Media(kind) => ledger.as_text(kind, self.at),
        }
    }
}

/// The instructions that another dialect keeps outside the list of messages.
#[must_use]
pub fn of_context(context: &Context, ledger: &mut Ledger) -> Vec<Text> {
    if context.system_is_lossy() {
        ledger.change(Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced));
    }
    context.system().into_iter().map(|piece| piece.text).filter(|text| !text.is_blank()).collect()
}

/// What a model thought in a part, if that is no secret and goes back to who said it.
#[must_use]
pub fn thought<'i>(part: PartRef<'i>, target: &Target, dialect: Dialect) -> Option<&'i str> {
    let PartRef::Block(_, block) = part else { return None };
    let BlockKind::Reasoning(reasoning) = &block.kind else { return None };
    let spoken_here = reasoning.origin.dialect.as_deref() == Some(dialect.name());
    let goes = matches!(target.bond(reasoning, dialect), Bond::Issuer | Bond::Source) && spoken_here;
    (goes && !reasoning.sealed && !reasoning.text.is_empty()).then_some(&*reasoning.text)
}

/// What an item says beside its calls.
#[must_use]
pub fn of_item<'i>(item: ItemRef<'i>, ledger: &mut Ledger) -> Vec<Said<'i>> {
    item.parts().flat_map(|part| of_part(part, item.index(), ledger)).collect()
}

/// What a part of the item at `index` says; a call says nothing here.
#[must_use]
pub fn of_part<'i>(part: PartRef<'i>, index: usize, ledger: &mut Ledger) -> Vec<Said<'i>> {
    match part {
        PartRef::Block(block, content) => {
            of_block(content, Position::block(index, block), ledger).into_iter().collect()
        }
        PartRef::Orphan(block, result) => {
            let at = Position::block(index, block);
            result.content.iter().filter_map(Block::as_text).for_each(|text| ledger.lossy(text, at));
            let label = Said { at, what: What::Text(render::orphan_text(result).into()) };
            let media = result.content.iter().filter(|block| is_media(block));
            let media = media.filter_map(|block| of_block(block, at, ledger));
            std::iter::once(label).chain(media).collect()
        }
        PartRef::Exchange(..) => Vec::new(),
    }
}

/// What a result says.
#[must_use]
pub fn of_result<'i>(result: ResultRef<'i>, ledger: &mut Ledger) -> Vec<Said<'i>> {
    let at = Position::block(result.at().0, result.at().1);
    ledger.left_out_fields(result.message(), result.at().0);
    result.result().content.iter().filter_map(|block| of_block(block, at, ledger)).collect()
}

fn of_block<'i>(block: &'i Block, at: Position, ledger: &mut Ledger) -> Option<Said<'i>> {
    let what = match &block.kind {
        BlockKind::Text(text) => {
            ledger.lossy(text, at);
            What::Text(Cow::Borrowed(text))
        }
        BlockKind::Image(_) | BlockKind::Document(_) if ledger.media.keeps(block) => What::Media(&block.kind),
        BlockKind::Image(_) | BlockKind::Document(_) => What::Text(ledger.as_text(&block.kind, at).into()),
        BlockKind::Reasoning(_) => {
            ledger.foreign_reasoning(at);
            return None;
        }
        BlockKind::Opaque(_) => What::Text(ledger.as_text(&block.kind, at).into()),
        // Calls carry their results in a view; neither is a block of it.
        BlockKind::ToolCall(_) | BlockKind::ToolResult(_) => return None,
    };
    Some(Said { at, what })
}

/// The pieces where a dialect refuses blank text. An empty one is another dialect's way to say that there is none.
#[must_use]
pub fn without_blanks<'i>(said: Vec<Said<'i>>, ledger: &mut Ledger) -> Vec<Said<'i>> {
    let (blank, rest): (Vec<_>, Vec<_>) = said.into_iter().partition(Said::is_blank);
    for piece in blank {
        if !matches!(&piece.what, What::Text(text) if text.is_empty()) {
            ledger.nothing_left(piece.at);
        }
    }
    rest
}

/// Whether a user's item is no message at all: there is nothing in it, and nobody knows its role; or it is what stood
/// beside results, and there is nothing to read in it.
#[must_use]
pub fn is_nothing(item: ItemRef<'_>, said: &[Said<'_>]) -> bool {
    let message = item.message();
    let beside_results = message.tool_results().next().is_some() && said.iter().all(Said::is_blank);
    beside_results || (said.is_empty() && matches!(message.role, Role::Other(_)))
}

/// Whether a block is an image or a document.
#[must_use]
pub fn is_media(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Image(_) | BlockKind::Document(_))
}
