//! The texts and media of a message, in order, for dialects whose messages are written from scratch. Reasoning is left out
//! unless the dialect asks for its own; a block without a counterpart becomes a labelled text.

use std::borrow::Cow;

use rejoin_record::{Block, BlockKind, Role};
use rejoin_view::{ItemRef, Position, ResultRef, sound::PartRef};

use super::{
    registry::Dialect,
    render::{self, Ledger},
};
use crate::convert::{ReasoningBond, Target};

/// A text or medium of a message.
pub struct Fragment<'i> {
    pub at: Position,
    pub kind: FragmentKind<'i>,
}

pub enum FragmentKind<'i> {
    /// A text, which may be blank.
    Text(Cow<'i, str>),
    /// An image or document that the dialect accepts.
    Media(&'i BlockKind),
}

impl Fragment<'_> {
    /// Whether this is a text without anything to read in it.
    pub fn is_blank(&self) -> bool {
        matches!(&self.kind, FragmentKind::Text(text) if rejoin_record::text::is_blank(text))
    }

    /// Turns the fragment into text; a medium becomes a label.
    pub fn into_text(self, ledger: &mut Ledger) -> String {
        match self.kind {
            FragmentKind::Text(text) => text.into_owned(),
            FragmentKind::Media(kind) => ledger.as_text(kind, self.at),
        }
    }
}

/// The plain reasoning in a part, if it goes back to its issuer.
pub fn thought<'i>(part: PartRef<'i>, target: &Target, dialect: Dialect) -> Option<&'i str> {
    let PartRef::Block(_, block) = part else { return None };
    let BlockKind::Reasoning(reasoning) = &block.kind else { return None };
    let spoken_here = reasoning.origin.dialect.as_deref() == Some(dialect.name());
    let goes = matches!(target.bond(reasoning, dialect), ReasoningBond::Issuer | ReasoningBond::Source)
        && spoken_here;
    (goes && !reasoning.sealed && !reasoning.text.is_empty()).then_some(&*reasoning.text)
}

/// The fragments of an item, without its calls.
pub fn of_item<'i>(item: ItemRef<'i>, ledger: &mut Ledger) -> Vec<Fragment<'i>> {
    item.parts().flat_map(|part| of_part(part, item.index(), ledger)).collect()
}

/// The fragments of one part of the item at `index`; none for a call.
pub fn of_part<'i>(part: PartRef<'i>, index: usize, ledger: &mut Ledger) -> Vec<Fragment<'i>> {
    match part {
        PartRef::Block(block, content) => {
            of_block(content, Position::block(index, block), ledger).into_iter().collect()
        }
        PartRef::Orphan(block, result) => {
            let at = Position::block(index, block);
            result.content.iter().filter_map(Block::as_text).for_each(|text| ledger.lossy(text, at));
            let label = Fragment { at, kind: FragmentKind::Text(render::orphan_text(result).into()) };
            let media = result.content.iter().filter(|block| render::is_media(block));
            let media = media.filter_map(|block| of_block(block, at, ledger));
            std::iter::once(label).chain(media).collect()
        }
        PartRef::Exchange(..) => Vec::new(),
    }
}

pub fn of_result<'i>(result: ResultRef<'i>, ledger: &mut Ledger) -> Vec<Fragment<'i>> {
    let at = render::position(result);
    ledger.left_out_fields(result.message(), result.at().0);
    result.result().content.iter().filter_map(|block| of_block(block, at, ledger)).collect()
}

fn of_block<'i>(block: &'i Block, at: Position, ledger: &mut Ledger) -> Option<Fragment<'i>> {
    let kind = match &block.kind {
        BlockKind::Text(text) => {
            ledger.lossy(text, at);
            FragmentKind::Text(Cow::Borrowed(text))
        }
        BlockKind::Image(_) | BlockKind::Document(_) if ledger.media.keeps(block) => {
            FragmentKind::Media(&block.kind)
        }
        BlockKind::Image(_) | BlockKind::Document(_) => {
            FragmentKind::Text(ledger.as_text(&block.kind, at).into())
        }
        BlockKind::Reasoning(_) => {
            ledger.foreign_reasoning(at);
            return None;
        }
        BlockKind::Opaque(_) => FragmentKind::Text(ledger.as_text(&block.kind, at).into()),
        // In a view, calls and results are exchanges and not blocks.
        BlockKind::ToolCall(_) | BlockKind::ToolResult(_) => return None,
    };
    Some(Fragment { at, kind })
}

/// Leaves out blank texts, for dialects that refuse them. Empty texts are not reported: in other dialects they mean no text.
pub fn without_blanks<'i>(fragments: Vec<Fragment<'i>>, ledger: &mut Ledger) -> Vec<Fragment<'i>> {
    let (blank, rest): (Vec<_>, Vec<_>) = fragments.into_iter().partition(Fragment::is_blank);
    for piece in blank {
        if !matches!(&piece.kind, FragmentKind::Text(text) if text.is_empty()) {
            ledger.nothing_left(piece.at);
        }
    }
    rest
}

/// Whether a user item is no message at all: it is empty and of an unknown role, or it has nothing to read beside results.
pub fn is_nothing(item: ItemRef<'_>, fragments: &[Fragment<'_>]) -> bool {
    let message = item.message();
    let beside_results = message.tool_results().next().is_some() && fragments.iter().all(Fragment::is_blank);
    beside_results || (fragments.is_empty() && matches!(message.role, Role::Other(_)))
}
