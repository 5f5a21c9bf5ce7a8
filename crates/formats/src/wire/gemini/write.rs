//! Encoding for Gemini: one forward pass over the view. Contents in this dialect are sent byte for byte where the API accepts
//! them.
//!
//! Roles must alternate, so neighbours of one role share a content; their parts stay separate. Results have their own content
//! (`results.rs`). `pieces.rs` makes parts, `edit.rs` changes them; `around.rs` writes the fields around the contents.

use std::collections::HashSet;

use rejoin_record::Reasoning;

use super::{
    WIRE,
    edit::{Signing, edited, id_in},
    pieces::text_part,
    read::{
        FORMAT,
        fields::{SENTINEL, Signature},
        unknown_fields,
    },
};
use crate::wire::{prelude::*, render::Piece};

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    Box::new(Encoder {
        state: EncoderState::new(&WIRE, settings),
        content: None,
        begun: false,
        derived_ids: HashSet::new(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Model,
}

pub(super) enum Parts {
    /// Those of the source's content, verbatim.
    Own(Arc<Message>),
    New(Vec<String>),
}

#[derive(Clone)]
struct Content {
    speaker: Speaker,
    /// The source's content, which is written only when nothing joins it.
    own: Option<Arc<Message>>,
    /// Whether it holds results, so that nothing may be added.
    results: bool,
    /// The index of the source message of its last part.
    index: Option<usize>,
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) state: EncoderState,
    content: Option<Content>,
    /// Whether there is a content by a user or a tool.
    begun: bool,
    /// The ids that the repair gave to calls instead of their own.
    pub(super) derived_ids: HashSet<String>,
}

pub(super) struct Call<'i> {
    pub(super) exchange: ExchangeRef<'i>,
    /// The tool's name in the dialect's spelling.
    pub(super) name: String,
    /// The id to send, if the source has one.
    pub(super) id: Option<String>,
    /// Whether it is verbatim, apart from the sentinel.
    pub(super) as_written: bool,
}

impl Pass for Encoder {
    with_state!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    fn last(&self) -> LastRole {
        match &self.content {
            None => LastRole::NoMessage,
            Some(content) if content.speaker == Speaker::Model => LastRole::Model(content.index),
            Some(_) => LastRole::User,
        }
    }

    fn close(&mut self) {
        self.write_own();
        self.state.list.close();
    }

    fn unwritten(&self) -> Option<Arc<Message>> {
        self.content.as_ref()?.own.clone()
    }

    /// Writes a separate content that is not in the source.
    fn say(&mut self, text: &str, _: usize) {
        self.begin(Speaker::User, Parts::New(vec![text_part(text)]), None, false);
    }

    fn late_system(&mut self, texts: Vec<String>, index: usize) {
        let parts = texts.iter().map(|text| text_part(text)).collect();
        self.push(Speaker::User, Parts::New(parts), index);
    }

    fn user(&mut self, place: usize, item: ItemRef<'_>) {
        let message = item.message();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (part_place, part) in item.parts().enumerate() {
            let intact = self.is_intact(Speaker::User, place, part_place);
            for (at, piece) in render::pieces(part, item.index()) {
                match piece {
                    ItemPiece::Block(block) => pieces.extend(self.piece(message, block, at, intact)),
                    ItemPiece::Label(text) => {
                        pieces.push(Piece { json: text_part(&text).into(), exact: false });
                    }
                }
            }
        }
        if pieces.is_empty() {
            if self.stands_empty(item) {
                self.push(Speaker::User, Parts::New(vec![text_part(render::EMPTY)]), item.index());
            }
            return;
        }
        self.push_pieces(Speaker::User, item, pieces);
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        let message = item.message();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        let mut calls: Vec<Call<'_>> = Vec::new();
        // The content that is inserted before the model's is a change, too.
        let follows = item.exchanges().next().is_none() || self.begun;
        let stand = self.signatures_stand(message);
        // Whether the message so far is sent verbatim; the sentinel does not count.
        let mut as_it_was = true;
        for (part_place, part) in item.parts().enumerate() {
            as_it_was &= pieces.len() == part_place && is_in_place(part, part_place);
            let intact = match stand {
                Some(stand) => stand && as_it_was,
                None => follows && self.is_intact(Speaker::Model, place, part_place),
            };
            match part {
                PartRef::Block(block, content) => {
                    let at = Position::block(item.index(), block);
                    match &content.kind {
                        BlockKind::Reasoning(reasoning) if names_issuer(content, reasoning) => {
                            if stand != Some(true) {
                                self.state.ledger.foreign_reasoning(at);
                            }
                        }
                        BlockKind::Reasoning(reasoning) => {
                            let goes = match self.state.target.bond(reasoning, WIRE.dialect) {
                                ReasoningBond::Elsewhere => false,
                                ReasoningBond::Issuer => true,
                                ReasoningBond::Prefix(_) => intact,
                                ReasoningBond::Source => {
                                    self.state.keeps_reasoning && (intact || !reasoning.sealed)
                                }
                            };
                            match WIRE.own_bytes(message, content).filter(|_| goes) {
                                Some(raw) => pieces.push(Piece { json: raw.into(), exact: true }),
                                None => self.state.ledger.foreign_reasoning(at),
                            }
                        }
                        _ => {
                            let piece = self.piece(message, content, at, intact);
                            as_it_was &= piece.as_ref().is_some_and(|piece| piece.exact);
                            pieces.extend(piece);
                        }
                    }
                }
                PartRef::Exchange(exchange) => {
                    let (piece, call) = self.call(item, exchange, calls.is_empty(), intact);
                    as_it_was &= call.as_written;
                    pieces.push(piece);
                    calls.push(call);
                }
                PartRef::Orphan(..) => {}
            }
        }
        if pieces.is_empty() {
            self.state.ledger.nothing_left(Position::message(item.index()));
            return;
        }
        // A model may speak first as long as it calls nothing, so the first content never changes later.
        if !calls.is_empty() && !self.begun {
            self.open(Position::message(item.index()), "calls follow a user message");
        }
        self.push_pieces(Speaker::Model, item, pieces);
        if !calls.is_empty() {
            self.results(&calls);
        }
    }
}

impl Encoder {
    /// Whether the signatures of a message are still valid, if nothing before them in the message was changed. `None` if their
    /// issuer is unknown, so that they are bound to their source.
    fn signatures_stand(&mut self, message: &Message) -> Option<bool> {
        let issued = message.blocks.iter().find_map(|block| match &block.kind {
            BlockKind::Reasoning(reasoning) if reasoning.origin.prefix.is_some() => Some(&**reasoning),
            _ => None,
        });
        let sealed = Reasoning { sealed: true, ..issued?.clone() };
        match self.state.target.bond(&sealed, WIRE.dialect) {
            ReasoningBond::Prefix(prefix) => Some(self.prefix() == prefix),
            _ => Some(false),
        }
    }

    /// Whether the model saw everything before a part unchanged. Joining the previous content is a change.
    fn is_intact(&self, speaker: Speaker, place: usize, part: usize) -> bool {
        self.state.ledger.is_intact(place, part) && !self.joins(speaker)
    }

    fn call<'i>(
        &mut self,
        item: ItemRef<'i>,
        exchange: ExchangeRef<'i>,
        first: bool,
        intact: bool,
    ) -> (Piece<'i>, Call<'i>) {
        let at = Position::block(item.index(), exchange.block());
        let own = WIRE.own_bytes(item.message(), &item.message().blocks[exchange.block()]);
        let (name, named) = self.state.spelling.tool(exchange.call(), own, at, &mut self.state.ledger);
        let own_id = own.and_then(id_in);
        // Without an id in the source there is none to rename.
        let renamed = exchange.renamed().filter(|_| own_id.is_some()).map(ToString::to_string);
        self.derived_ids.extend(renamed.clone());
        let as_named = renamed.is_none() && named;
        let id = renamed.or(own_id);
        let written = exchange.arguments() == ArgumentsUse::AsWritten
            && !exchange.call().arguments.has_lone_surrogate();
        let as_written = written && own.is_some() && as_named;
        let signature = own.map_or(Signature::Absent, Signature::in_part);
        let foreign = signature == Signature::Bound && !(intact && as_written);
        if foreign {
            self.state.ledger.foreign_reasoning(at);
        }
        let signing = match (foreign, first && (foreign || signature == Signature::Absent)) {
            (_, true) => Signing::Sentinel,
            (true, false) => Signing::LeftOut,
            (false, false) => Signing::Kept,
        };
        let wire = Call { exchange, name, id, as_written };
        let (json, exact): (Cow<'i, str>, bool) = match own.filter(|_| written) {
            Some(raw) if as_written && signing == Signing::Kept => (raw.into(), true),
            Some(raw) if as_written => {
                if signing == Signing::Sentinel && !foreign {
                    let note = self.state.ledger.note(Rule::IrregularContent, at, Action::Inserted);
                    note.because("the first call of a content carries a signature");
                }
                (edited(raw, signing, &[]).into(), false)
            }
            Some(raw) => {
                let mut fields = vec![("name", Some(render::quoted(&wire.name)))];
                if wire.id.is_some() {
                    fields.push(("id", wire.id.as_deref().map(render::quoted)));
                }
                (edited(raw, signing, &fields).into(), false)
            }
            None => (self.new_call(&wire, first, at).into(), false),
        };
        (Piece { json, exact }, wire)
    }

    /// Writes a call, with the sentinel if it is the first of its content.
    fn new_call(&mut self, wire: &Call<'_>, first: bool, at: Position) -> String {
        let args = calls::object(wire.exchange, at, &mut self.state.ledger);
        let call = Object::new().text_if("id", wire.id.as_ref()).text("name", &wire.name);
        let part = Object::new().object("functionCall", call.raw("args", &args));
        part.text_if("thoughtSignature", first.then_some(SENTINEL)).finish()
    }

    /// Reports why a message in this very dialect is not sent verbatim, unless that was reported already.
    pub(super) fn irregular(&mut self, message: &Message, index: usize) {
        let Some(native) =
            message.native.as_ref().filter(|native| !native.regular && &*native.format == FORMAT)
        else {
            return;
        };
        if self.state.ledger.findings.last().is_some_and(|finding| finding.at.message == Some(index)) {
            return;
        }
        let doc = Doc::of(native.raw.as_str());
        let unknown = doc.root().map_or_else(Vec::new, unknown_fields);
        let at = Position::message(index);
        if unknown.is_empty() {
            self.state.ledger.irregular(at);
        } else {
            self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about(unknown.join(", "));
        }
    }

    /// Writes a content of these pieces, which is the source's own if nothing changed.
    fn push_pieces(&mut self, speaker: Speaker, item: ItemRef<'_>, pieces: Vec<Piece<'_>>) {
        let message = item.message();
        let issuers = message.blocks.iter().filter(|block| match &block.kind {
            BlockKind::Reasoning(reasoning) => names_issuer(block, reasoning),
            _ => false,
        });
        let blocks = message.blocks.len() - issuers.count();
        let whole = item.is_complete() && WIRE.is_regular(message) && pieces.len() == blocks;
        let parts = if whole && pieces.iter().all(|piece| piece.exact) {
            Parts::Own(Arc::clone(message))
        } else {
            if item.is_complete() {
                self.irregular(message, item.index());
            }
            Parts::New(pieces.into_iter().map(|piece| piece.json.into_owned()).collect())
        };
        self.push(speaker, parts, item.index());
    }

    /// Whether the next parts of this author go into the last content.
    fn joins(&self, speaker: Speaker) -> bool {
        self.content.as_ref().is_some_and(|last| last.speaker == speaker && !last.results)
    }

    /// Adds parts to the last content if it has the same author, else begins a new one.
    pub(super) fn push(&mut self, speaker: Speaker, parts: Parts, index: usize) {
        if self.joins(speaker)
            && let Some(last) = &mut self.content
        {
            // Parts of one message belong together anyway.
            if last.index.replace(index) != Some(index) {
                let at = Position::message(index);
                self.state.ledger.role_order(at, Action::Joined, "roles alternate");
            }
            if let Some(own) = last.own.take() {
                self.open_content(speaker);
                Parts::Own(own).into_list().iter().for_each(|part| self.state.list.part(part));
            }
            parts.into_list().iter().for_each(|part| self.state.list.part(part));
            return;
        }
        self.begin(speaker, parts, Some(index), false);
    }

    /// Begins a content; nothing joins one with `results`.
    pub(super) fn begin(&mut self, speaker: Speaker, parts: Parts, index: Option<usize>, results: bool) {
        self.write_own();
        self.begun |= speaker == Speaker::User;
        let own = match parts {
            Parts::Own(message) => Some(message),
            Parts::New(parts) => {
                self.open_content(speaker);
                parts.iter().for_each(|part| self.state.list.part(part));
                None
            }
        };
        self.content = Some(Content { speaker, own, results, index });
    }

    /// Begins a content, up to its parts.
    fn open_content(&mut self, speaker: Speaker) {
        let role = match speaker {
            Speaker::User => "user",
            Speaker::Model => "model",
        };
        self.state.list.open(role, "parts");
    }

    /// Writes the last content, if it was held back.
    fn write_own(&mut self) {
        if let Some(own) = self.content.as_mut().and_then(|last| last.own.take()) {
            self.state.list.push(own.native_text());
        }
    }
}

/// Whether a block is empty and only names the issuer of its message's signatures.
fn names_issuer(block: &Block, reasoning: &Reasoning) -> bool {
    block.span.is_none() && reasoning.text.is_empty() && reasoning.sealed && reasoning.origin.prefix.is_some()
}

/// Whether a part has the same position in its message.
fn is_in_place(part: PartRef<'_>, place: usize) -> bool {
    match part {
        PartRef::Block(block, _) | PartRef::Orphan(block, _) => block == place,
        PartRef::Exchange(exchange) => exchange.block() == place,
    }
}

impl Parts {
    fn into_list(self) -> Vec<String> {
        match self {
            Self::New(list) => list,
            Self::Own(message) => {
                let own = |block| message.native_block(block).map(str::to_owned);
                message.blocks.iter().filter_map(own).collect()
            }
        }
    }
}
