//! Encoding for Bedrock's Converse: one forward pass over the view. The source is always another dialect, so every block is
//! written from scratch.
//!
//! Roles must alternate, so neighbours of one role become one message, to which blocks are only ever appended. Results come
//! first in their user message, since the assistant's message precedes it. `media.rs` handles images and documents with their
//! limits per message; `around.rs` the fields around the messages.

use rejoin_record::Media;

use super::{WIRE, media::Shelf};
use crate::wire::prelude::*;

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    pass::begun(Encoder { state: EncoderState::new(&WIRE, settings), turn: None, last: None })
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) state: EncoderState,
    turn: Option<Turn>,
    /// The index of the last source message.
    last: Option<usize>,
}

/// The state of the last message, whose blocks are already written.
#[derive(Clone)]
struct Turn {
    speaker: Speaker,
    has_text: bool,
    media: Shelf,
}

#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    User,
    Assistant,
}

#[derive(Default)]
struct Blocks<'i> {
    list: Vec<String>,
    /// Whether they or earlier blocks include a text.
    has_text: bool,
    document: Option<(&'i Media, Position)>,
}

impl Blocks<'_> {
    fn text(&mut self, text: &str) {
        self.list.push(text_block(text));
        self.has_text = true;
    }
}

impl Pass for Encoder {
    with_state!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    fn last(&self) -> LastRole {
        match self.turn.as_ref().map(|turn| turn.speaker) {
            None => LastRole::NoMessage,
            Some(Speaker::User) => LastRole::User,
            Some(Speaker::Assistant) => LastRole::Model(self.last),
        }
    }

    fn say(&mut self, text: &str, index: usize) {
        self.begin(Speaker::User, index);
        self.state.list.part(&text_block(text));
        self.last_turn().has_text = true;
    }

    /// The address of the request names the model, so the body must not.
    fn framed(&mut self, _: &SoundView) -> Surroundings {
        let around = self.around();
        if self.state.target.model.is_some() && self.state.target.context.get("model").is_none() {
            let note = self.state.note_field(Rule::ForeignField, Action::LeftOut, "model");
            note.because("the address of the request names it");
        }
        around
    }

    fn settings(&self) -> Arc<Target> {
        let target = &self.state.target;
        Arc::new(Target { closes: target.closes, ..Target::of(&target.context) })
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let said = fragments::of_item(item, &mut self.state.ledger);
        let said = fragments::without_blanks(said, &mut self.state.ledger);
        if said.is_empty() {
            let nothing = fragments::is_nothing(item, &said);
            let action = if nothing { Action::LeftOut } else { Action::Replaced };
            self.state.ledger.change(Rule::EmptyMessage, at, action);
            if !nothing {
                self.say(render::EMPTY, item.index());
            }
            return;
        }
        self.begin(Speaker::User, item.index());
        self.append(said);
    }

    fn assistant(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut blocks = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            let PartRef::Exchange(exchange) = part else {
                let said = fragments::of_part(part, item.index(), &mut self.state.ledger);
                for piece in fragments::without_blanks(said, &mut self.state.ledger) {
                    blocks.push(text_block(&piece.into_text(&mut self.state.ledger)));
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let CallSpelling { id, name, .. } = self.state.spell(item, exchange);
            let input = calls::object(exchange, at, &mut self.state.ledger);
            let call = Object::new().text("toolUseId", &id).text("name", &name).raw("input", &input);
            blocks.push(Object::new().object("toolUse", call).finish());
            sent.push((exchange, id));
        }
        if blocks.is_empty() {
            self.state.ledger.nothing_left(at);
            return;
        }
        if self.turn.is_none() {
            self.open(at, "a conversation begins with a user message");
        }
        self.begin(Speaker::Assistant, item.index());
        blocks.iter().for_each(|json| self.state.list.part(json));
        self.results(&sent, item.index());
    }
}

impl Encoder {
    fn append(&mut self, said: Vec<Fragment<'_>>) {
        let mut blocks = Blocks { has_text: self.last_turn().has_text, ..Blocks::default() };
        said.into_iter().for_each(|piece| self.place(&mut blocks, piece));
        // This is decided now and not when the message is complete, since later blocks must not change it.
        self.settle(&mut blocks);
        blocks.list.iter().for_each(|json| self.state.list.part(json));
        self.last_turn().has_text = blocks.has_text;
    }

    /// Writes the results of a batch in call order, at the start of their message.
    fn results(&mut self, sent: &[(ExchangeRef<'_>, String)], index: usize) {
        if !sent.is_empty() {
            self.begin(Speaker::User, index);
        }
        let mut after = Vec::new();
        for (exchange, id) in sent {
            let results: Vec<ResultRef<'_>> = exchange.results().collect();
            let failed = results.iter().all(|result| result.result().is_error);
            let content = self.result_content(&results, failed, &mut after);
            let result = Object::new().text("toolUseId", id).list("content", content);
            let result = result.text_if("status", failed.then_some("error"));
            self.state.list.part(&Object::new().object("toolResult", result).finish());
            // Text beside the results belongs to the same message.
            self.last = results.last().map(|result| result.at().0).or(self.last);
        }
        if !after.is_empty() {
            self.append(after);
        }
    }

    /// The content of results, which is never empty. Failed results must hold only text, so their media go after all results.
    fn result_content<'i>(
        &mut self,
        results: &[ResultRef<'i>],
        failed: bool,
        after: &mut Vec<Fragment<'i>>,
    ) -> Vec<String> {
        let mut blocks = Blocks::default();
        for result in results {
            let said = fragments::of_result(*result, &mut self.state.ledger);
            for piece in fragments::without_blanks(said, &mut self.state.ledger) {
                if failed && matches!(piece.kind, FragmentKind::Media(_)) {
                    self.state.ledger.change(Rule::MovedMedia, piece.at, Action::Moved);
                    after.push(piece);
                } else {
                    self.place(&mut blocks, piece);
                }
            }
        }
        self.settle(&mut blocks);
        match results.first() {
            None => blocks.text(sound::NO_RESULT),
            Some(first) if blocks.list.is_empty() => {
                let at = render::position(*first);
                self.state.ledger.change(Rule::EmptyMessage, at, Action::Replaced);
                blocks.text(render::EMPTY);
            }
            Some(_) => {}
        }
        blocks.list
    }

    /// Adds a fragment; a medium that cannot be sent becomes a label.
    fn place<'i>(&mut self, blocks: &mut Blocks<'i>, piece: Fragment<'i>) {
        let FragmentKind::Media(kind) = piece.kind else {
            blocks.text(&piece.into_text(&mut self.state.ledger));
            return;
        };
        let shelf = &mut self.turn.as_mut().expect("BUG: a message was begun").media;
        match shelf.block(kind, piece.at, &mut self.state.ledger) {
            Ok(Some(json)) => {
                blocks.list.push(json);
                if let BlockKind::Document(media) = kind {
                    blocks.document.get_or_insert((media, piece.at));
                }
            }
            Ok(None) => blocks.text(&piece.into_text(&mut self.state.ledger)),
            Err(error) => {
                self.state.too_large.get_or_insert(error);
            }
        }
    }

    /// Adds the text that the API demands beside a document.
    fn settle(&mut self, blocks: &mut Blocks<'_>) {
        let Some((media, at)) = blocks.document.filter(|_| !blocks.has_text) else { return };
        let inserted = self.state.ledger.change(Rule::IrregularContent, at, Action::Inserted);
        inserted.because("a document needs a text beside it");
        match media.name.as_ref().filter(|name| !name.is_blank()) {
            Some(name) => blocks.text(&format!("[document {name}]")),
            None => blocks.text("[document]"),
        }
    }

    /// Continues the last message if it has this author, else begins a new one.
    fn begin(&mut self, speaker: Speaker, index: usize) {
        let joins = self.turn.as_ref().is_some_and(|turn| turn.speaker == speaker);
        if joins && self.last != Some(index) {
            let why = "neighbours of one role go in one message";
            self.state.ledger.role_order(Position::message(index), Action::Joined, why);
        }
        if !joins {
            let role = match speaker {
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            };
            self.state.list.open(role, "content");
            self.turn = Some(Turn { speaker, has_text: false, media: Shelf::default() });
        }
        self.last = Some(index);
    }

    fn last_turn(&mut self) -> &mut Turn {
        self.turn.as_mut().expect("BUG: a message was begun before it is filled")
    }
}

pub(super) fn text_block(text: &str) -> String {
    Object::new().text("text", text).finish()
}
