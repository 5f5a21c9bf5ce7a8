//! A request that grows with its conversation: what was sent once is encoded once, and shared by every later request.

use std::sync::Arc;

use rejoin_record::{Block, BlockKind, Message, Text, block::Origin};
use rejoin_view::{Chunk, Finding, List, SoundView};

use crate::{
    context::Context,
    convert::{Marks, Settings, Target},
    wire::gemini,
    wire::{TooLarge, names::Respelled, outline::Encode, registry::Dialect},
};

/// A request body as pieces of JSON that make up the whole when they are put one after the other.
#[derive(Debug, Clone, Default)]
pub struct Body {
    stretches: Vec<Stretch>,
    length: usize,
}

/// Some pieces of a body.
#[derive(Debug, Clone)]
enum Stretch {
    /// One that no other body has.
    Own(Arc<str>),
    /// From one place to another in a list that bodies share.
    Shared(List<Arc<str>>, usize, usize),
}

impl Body {
    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.stretches.iter().flat_map(|stretch| {
            let (own, shared) = match stretch {
                Stretch::Own(piece) => (Some(piece), None),
                Stretch::Shared(list, from, to) => (None, Some(list.range(*from, *to))),
            };
            own.into_iter().chain(shared.into_iter().flatten())
        })
    }

    /// How many bytes they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing in it.
    #[must_use]
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
    /// Adds a piece that no other body has.
    pub(crate) fn own(&mut self, piece: String) {
        if !piece.is_empty() {
            self.length += piece.len();
            self.stretches.push(Stretch::Own(Arc::from(piece)));
        }
    }

    /// Adds pieces of a list that bodies share. Their bytes are counted apart: nobody looks at all of them.
    pub(crate) fn shared(&mut self, list: &List<Arc<str>>, from: usize, to: usize) {
        if from < to {
            self.stretches.push(Stretch::Shared(list.clone(), from, to));
        }
    }

    /// Counts bytes of shared pieces.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.length += bytes;
    }
}

/// Notes in an answer who issued it, and on what prefix: reasoning in it is bound to that.
///
/// A provider may sign calls and texts, too. Where no reasoning stands in the message that could name the issuer, a block
/// without words is put after the rest that does.
pub fn issued(message: &mut Message, issuer: &Origin) {
    let mut named = false;
    for block in &mut message.blocks {
        if let BlockKind::Reasoning(reasoning) = &mut block.kind {
            let incomplete = reasoning.origin.incomplete;
            reasoning.origin = Origin { incomplete, ..issuer.clone() };
            named = true;
        }
    }
    if !named && gemini::read::is_signed(message) {
        message.blocks.push(Block::reasoning("", true, issuer.clone()));
    }
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// The body.
    pub body: Body,
    /// What had to be changed for the dialect, of what is new since the request before.
    pub findings: Vec<Finding>,
    /// What got another spelling, so that an answer can be had in ours.
    pub respelled: Respelled,
    /// A hash of everything that the answer stands on: reasoning in it is bound to that.
    pub prefix: Option<Text>,
}

/// What is needed to write the next request.
pub struct Draft {
    dialect: Dialect,
    settings: Arc<Settings>,
    /// What was sealed so far, encoded; none before the first request.
    sealed: Option<Sealed>,
    /// What was found around the messages, which is said once.
    around: Vec<Finding>,
    /// How many items were encoded, each as often as it was.
    steps: usize,
}

/// How many items are in one piece at most.
const PIECE: usize = 16;

/// Chunks that are encoded.
struct Sealed {
    encoder: Box<dyn Encode>,
    /// How many chunks, and the last of them.
    chunks: usize,
    last: Option<Arc<Chunk>>,
    /// How many items.
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
    /// A conversation of which nothing was sent yet. `issuer` says who answers: reasoning from elsewhere does not go there.
    #[must_use]
    pub fn new(dialect: Dialect, context: Context, model: Option<String>, issuer: Origin) -> Self {
        let target = Target {
            model: model.as_deref(),
            marks: Marks::LeftOut,
            issuer: Some(&issuer),
            ..Target::of(&context)
        };
        Self { dialect, settings: Settings::of(&target), sealed: None, around: Vec::new(), steps: 0 }
    }

    /// The same with cache marks, where the dialect has them.
    #[must_use]
    pub fn with_cache_marks(mut self) -> Self {
        Arc::make_mut(&mut self.settings).marks = Marks::Placed;
        self.sealed = None;
        self
    }

    /// How many items were encoded for all requests so far, each as often as it was.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The same, with no reasoning in it: for services that refuse what they issue themselves.
    #[must_use]
    pub fn without_reasoning(mut self) -> Self {
        Arc::make_mut(&mut self.settings).replays_reasoning = false;
        self.sealed = None;
        self
    }

    /// The request of a view. What was sealed in it and encoded before is not encoded again; a view that does not begin
    /// with that is encoded as a whole.
    ///
    /// # Errors
    /// If the provider takes nothing this large.
    pub fn request(&mut self, view: &SoundView) -> Result<Drafted, TooLarge> {
        let goes_on = |sealed: &Sealed| match (&sealed.last, sealed.chunks.checked_sub(1)) {
            (Some(last), Some(place)) => {
                view.sealed().get(place).is_some_and(|chunk| Arc::ptr_eq(chunk, last))
            }
            _ => true,
        };
        let wire = self.dialect.wire();
        let settings = &self.settings;
        let begin = || Sealed { encoder: wire.encoder(settings, view), chunks: 0, last: None, items: 0 };
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
        let said = std::mem::replace(&mut self.around, rest.findings);
        findings.extend(self.around.iter().filter(|finding| !said.contains(finding)).cloned());
        Ok(Drafted { body, findings, respelled: rest.respelled, prefix: rest.prefix })
    }
}

impl Sealed {
    /// Encodes the chunks that are new, and says how many items there were in them.
    fn take(&mut self, chunks: &List<Arc<Chunk>>) -> usize {
        let before = self.items;
        for chunk in chunks.range(self.chunks, chunks.len()) {
            for (place, item) in chunk.items().enumerate() {
                // A piece with a cache mark in it is copied: none may be as large as a whole conversation.
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
