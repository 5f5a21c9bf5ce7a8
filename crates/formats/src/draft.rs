//! Requests that grow with their conversation: each message is encoded once and shared by every later request.

use std::sync::Arc;

use rejoin_record::{Block, BlockKind, Message, block::Origin};
use rejoin_view::{Chunk, Finding, List, SoundView};

use crate::{
    context::Context,
    convert::{CacheMarks, Target},
    wire::{Encoded, TooLarge, outline::Encode, registry::Dialect},
};

/// A request body in pieces; joined in order, they are the JSON.
#[derive(Debug, Clone, Default)]
pub struct Body {
    stretches: Vec<Stretch>,
    length: usize,
}

#[derive(Debug, Clone)]
enum Stretch {
    /// One piece that only this body has.
    Own(Arc<str>),
    /// A range of a list that several bodies share.
    Shared(List<Arc<str>>, usize, usize),
}

impl Body {
    /// Returns the pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.stretches.iter().flat_map(|stretch| {
            let (own, shared) = match stretch {
                Stretch::Own(piece) => (Some(piece), None),
                Stretch::Shared(list, from, to) => (None, Some(list.range(*from, *to))),
            };
            own.into_iter().chain(shared.into_iter().flatten())
        })
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pieces().try_for_each(|piece| f.write_str(piece))
    }
}

impl Body {
    /// Adds a piece that only this body has.
    pub(crate) fn own(&mut self, piece: String) {
        if !piece.is_empty() {
            self.length += piece.len();
            self.stretches.push(Stretch::Own(Arc::from(piece)));
        }
    }

    /// Adds a range of a shared list. [`Body::count`] adds its bytes, so that no piece has to be looked at.
    pub(crate) fn shared(&mut self, list: &List<Arc<str>>, from: usize, to: usize) {
        if from < to {
            self.stretches.push(Stretch::Shared(list.clone(), from, to));
        }
    }

    /// Adds the bytes of shared pieces to the length.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.length += bytes;
    }
}

/// Records in an answer its issuer and the prefix that its reasoning is bound to.
///
/// A provider may sign calls and texts as well. If the message has no reasoning that could name the issuer, an empty block of
/// reasoning is added at its end.
pub fn issued(message: &mut Message, issuer: &Origin) {
    let mut named = false;
    for block in &mut message.blocks {
        if let BlockKind::Reasoning(reasoning) = &mut block.kind {
            let incomplete = reasoning.origin.incomplete;
            reasoning.origin = Origin { incomplete, ..issuer.clone() };
            named = true;
        }
    }
    let dialect = message.native.as_ref().and_then(|native| Dialect::of_format(&native.format));
    if !named && dialect.is_some_and(|dialect| (dialect.wire().is_signed)(message)) {
        message.blocks.push(Block::reasoning("", true, issuer.clone()));
    }
}

/// A request that is ready to be sent. Its findings are those that the previous request did not have.
pub type DraftedBody = Encoded<Body>;

/// A conversation on its way to a provider, request by request.
pub struct Draft {
    dialect: Dialect,
    target: Arc<Target>,
    /// The encoded chunks; `None` before the first request.
    sealed: Option<SealedChunks>,
    /// Findings in the fields around the messages, each of which is reported once.
    around: Vec<Finding>,
    /// How many items were encoded, counting repetitions.
    steps: usize,
}

/// The largest number of items in one piece.
const PIECE: usize = 16;

/// The chunks of a view that are sealed and encoded.
struct SealedChunks {
    encoder: Box<dyn Encode>,
    /// The number of chunks, and the last one.
    chunks: usize,
    last: Option<Arc<Chunk>>,
    items: usize,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let encoded = self.sealed.as_ref().map_or(0, |sealed| sealed.items);
        f.debug_struct("Draft")
            .field("dialect", &self.dialect)
            .field("encoded", &encoded)
            .finish_non_exhaustive()
    }
}

impl Draft {
    /// A conversation of which nothing was sent yet. Reasoning from anywhere but `issuer` is left out.
    pub fn new(dialect: Dialect, context: Context, model: Option<String>, issuer: Origin) -> Self {
        let issuer = Some(issuer);
        let target = Target { model, marks: CacheMarks::LeftOut, issuer, ..Target::of(&context) };
        Self { dialect, target: Arc::new(target), sealed: None, around: Vec::new(), steps: 0 }
    }

    /// Adds cache marks, where the dialect has them.
    #[must_use]
    pub fn with_cache_marks(mut self) -> Self {
        Arc::make_mut(&mut self.target).marks = CacheMarks::Placed;
        self.sealed = None;
        self
    }

    /// How many items were encoded for all requests so far, counting repetitions.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Leaves out all reasoning, for services that refuse what they issue themselves.
    #[must_use]
    pub fn without_reasoning(mut self) -> Self {
        Arc::make_mut(&mut self.target).replays_reasoning = false;
        self.sealed = None;
        self
    }

    /// Writes the request of a view. Sealed items that were encoded before are not encoded again, unless the view no longer
    /// begins with them.
    ///
    /// # Errors
    /// If a size limit of the provider is exceeded.
    pub fn request(&mut self, view: &SoundView) -> Result<DraftedBody, TooLarge> {
        let goes_on = |sealed: &SealedChunks| match (&sealed.last, sealed.chunks.checked_sub(1)) {
            (Some(last), Some(place)) => {
                view.sealed().get(place).is_some_and(|chunk| Arc::ptr_eq(chunk, last))
            }
            _ => true,
        };
        let begin = || {
            let encoder = (self.dialect.wire().encoder)(&self.target, view);
            SealedChunks { encoder, chunks: 0, last: None, items: 0 }
        };
        let sealed = self.sealed.take().filter(goes_on);
        let sealed = self.sealed.insert(sealed.unwrap_or_else(begin));
        sealed.encoder.changed_from(view.first_change());
        self.steps += sealed.take(view.sealed());
        let mut findings = sealed.encoder.take_findings();
        let mut encoder = sealed.encoder.copy();
        let open = view.open().into_iter().flat_map(|chunk| chunk.items());
        for (place, item) in open.enumerate() {
            encoder.item(sealed.items + place, item);
            self.steps += 1;
        }
        findings.extend(encoder.take_findings());
        let (body, rest) = encoder.finish(view)?.into_body();
        let reported = std::mem::replace(&mut self.around, rest.findings.clone());
        findings.extend(rest.findings.iter().filter(|finding| !reported.contains(finding)).cloned());
        Ok(Encoded { findings, ..rest.with(body) })
    }
}

impl SealedChunks {
    /// Encodes the new chunks and returns the number of items in them.
    fn take(&mut self, chunks: &List<Arc<Chunk>>) -> usize {
        let before = self.items;
        for chunk in chunks.range(self.chunks, chunks.len()) {
            for (place, item) in chunk.items().enumerate() {
                // A piece that gets a cache mark is copied, so no piece may be as large as a whole conversation.
                if place % PIECE == 0 {
                    self.encoder.settle();
                }
                self.encoder.item(self.items, item);
                self.items += 1;
            }
        }
        self.chunks = chunks.len();
        self.last = chunks.last().cloned();
        self.encoder.settle();
        self.items - before
    }
}
