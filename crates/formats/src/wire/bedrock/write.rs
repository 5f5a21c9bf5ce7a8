//! Encoding for Bedrock's Converse: one forward pass over the view. The source is always another dialect, so every block is
//! written from scratch.
//!
//! User and assistant must speak in turn, so neighbours of one role become one message. Blocks are only ever appended to
//! it: what stands there stays. Results open their user message, since the assistant spoke right before. Images and
//! documents are in `media.rs`, with what one message may hold of them; the fields around the messages in `around.rs`.

use std::sync::Arc;

use rejoin_record::{BlockKind, Media, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, ResultRef, Rule, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    body::Surroundings,
    calls,
    names::Spelled,
    outline::Encode,
    pass::{self, Last, Pass, Sheet, on_sheet},
    render,
    said::{self, Said, What},
};
use super::{WIRE, media::Shelf};
use crate::convert::Target;

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    pass::begun(Encoder { sheet: Sheet::new(&WIRE, settings), turn: None, last: None })
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) sheet: Sheet,
    /// The message that was begun last.
    turn: Option<Turn>,
    /// The source message that went out last.
    last: Option<usize>,
}

/// A message as it is being put together; its blocks are written already.
#[derive(Clone)]
struct Turn {
    speaker: Speaker,
    /// Whether one of the blocks is a text.
    has_text: bool,
    media: Shelf,
}

#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    User,
    Assistant,
}

/// Blocks on their way into a message or a result.
#[derive(Default)]
struct Blocks<'i> {
    list: Vec<String>,
    /// Whether there is a text among them, or was one before.
    has_text: bool,
    /// The first document among them.
    document: Option<(&'i Media, Position)>,
}

impl Blocks<'_> {
    fn text(&mut self, text: &str) {
        self.list.push(text_block(text));
        self.has_text = true;
    }
}

/// A call that went out, and how its result names it.
struct Sent<'i> {
    exchange: ExchangeRef<'i>,
    id: String,
}

impl Pass for Encoder {
    on_sheet!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    fn last(&self) -> Last {
        match self.turn.as_ref().map(|turn| turn.speaker) {
            None => Last::Nobody,
            Some(Speaker::User) => Last::User,
            Some(Speaker::Assistant) => Last::Model(self.last),
        }
    }

    fn say(&mut self, text: &str, index: usize) {
        self.begin(Speaker::User, index);
        self.sheet.list.part(&text_block(text));
        self.last_turn().has_text = true;
    }

    /// The model is named by the address, not by the body.
    fn framed(&mut self, _: &SoundView) -> Surroundings {
        let around = self.around();
        if self.sheet.target.model.is_some() && self.sheet.target.context.get("model").is_none() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.sheet.ledger.note(finding.about("model").because("the address of the request names it"));
        }
        around
    }

    fn settings(&self) -> Arc<Target> {
        let target = &self.sheet.target;
        Arc::new(Target { closes: target.closes, ..Target::of(&target.context) })
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let said = said::of_item(item, &mut self.sheet.ledger);
        let said = said::without_blanks(said, &mut self.sheet.ledger);
        if said.is_empty() {
            let nothing = said::is_nothing(item, &said);
            let action = if nothing { Action::LeftOut } else { Action::Replaced };
            self.sheet.ledger.change(Finding::new(Rule::EmptyMessage, at, action));
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
            let PartRef::Exchange(exchange, call) = part else {
                let said = said::of_part(part, item.index(), &mut self.sheet.ledger);
                for piece in said::without_blanks(said, &mut self.sheet.ledger) {
                    blocks.push(text_block(&piece.into_text(&mut self.sheet.ledger)));
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let Spelled { id, name, .. } = self.sheet.spell(item, exchange, call);
            let mut json = String::from("{\"toolUse\":{\"toolUseId\":");
            write::string(&mut json, &id);
            write::key(&mut json, "name");
            write::string(&mut json, &name);
            write::key(&mut json, "input");
            calls::write_object(&mut json, exchange, call, at, &mut self.sheet.ledger);
            json.push_str("}}");
            blocks.push(json);
            sent.push(Sent { exchange, id });
        }
        if blocks.is_empty() {
            self.sheet.ledger.nothing_left(at);
            return;
        }
        if self.turn.is_none() {
            self.open(at, "a conversation begins with a user message");
        }
        self.begin(Speaker::Assistant, item.index());
        blocks.iter().for_each(|json| self.sheet.list.part(json));
        self.results(&sent, item.index());
    }
}

impl Encoder {
    /// Adds pieces to the last message.
    fn append(&mut self, said: Vec<Said<'_>>) {
        let mut blocks = Blocks { has_text: self.last_turn().has_text, ..Blocks::default() };
        said.into_iter().for_each(|piece| self.place(&mut blocks, piece));
        // Decided here, and not when the message is complete: what comes later must not change it.
        self.settle(&mut blocks);
        blocks.list.iter().for_each(|json| self.sheet.list.part(json));
        self.last_turn().has_text = blocks.has_text;
    }

    /// The results of a batch, in call order, at the beginning of their message.
    fn results(&mut self, sent: &[Sent<'_>], index: usize) {
        if !sent.is_empty() {
            self.begin(Speaker::User, index);
        }
        let mut after = Vec::new();
        for Sent { exchange, id } in sent {
            let results: Vec<ResultRef<'_>> = exchange.results().collect();
            let failed = results.iter().all(|result| result.result().is_error);
            let mut json = String::from("{\"toolResult\":{\"toolUseId\":");
            write::string(&mut json, id);
            write::key(&mut json, "content");
            let content = self.result_content(&results, failed, &mut after);
            render::array(&mut json, content.iter().map(String::as_str));
            if failed {
                json.push_str(",\"status\":\"error\"");
            }
            json.push_str("}}");
            self.sheet.list.part(&json);
            // What stood beside the results belongs to the same message.
            self.last = results.last().map(|result| result.at().0).or(self.last);
        }
        if !after.is_empty() {
            self.append(after);
        }
    }

    /// What results hold: never nothing. A failed one may hold text only, so its media go after all results.
    fn result_content<'i>(
        &mut self,
        results: &[ResultRef<'i>],
        failed: bool,
        after: &mut Vec<Said<'i>>,
    ) -> Vec<String> {
        let mut blocks = Blocks::default();
        for result in results {
            let said = said::of_result(*result, &mut self.sheet.ledger);
            for piece in said::without_blanks(said, &mut self.sheet.ledger) {
                if failed && matches!(piece.what, What::Media(_)) {
                    self.sheet.ledger.change(Finding::new(Rule::MovedMedia, piece.at, Action::Moved));
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
                let at = Position::block(first.at().0, first.at().1);
                self.sheet.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::Replaced));
                blocks.text(render::EMPTY);
            }
            Some(_) => {}
        }
        blocks.list
    }

    /// Adds a piece; a medium that cannot go out is a label.
    fn place<'i>(&mut self, blocks: &mut Blocks<'i>, piece: Said<'i>) {
        let What::Media(kind) = piece.what else {
            blocks.text(&piece.into_text(&mut self.sheet.ledger));
            return;
        };
        let shelf = &mut self.turn.as_mut().expect("BUG: a message was begun").media;
        match shelf.block(kind, piece.at, &mut self.sheet.ledger) {
            Ok(Some(json)) => {
                blocks.list.push(json);
                if let BlockKind::Document(media) = kind {
                    blocks.document.get_or_insert((media, piece.at));
                }
            }
            Ok(None) => blocks.text(&piece.into_text(&mut self.sheet.ledger)),
            Err(error) => {
                self.sheet.too_large.get_or_insert(error);
            }
        }
    }

    /// Adds the text that a document needs beside it.
    fn settle(&mut self, blocks: &mut Blocks<'_>) {
        let Some((media, at)) = blocks.document.filter(|_| !blocks.has_text) else { return };
        let finding = Finding::new(Rule::IrregularContent, at, Action::Inserted);
        self.sheet.ledger.change(finding.because("a document needs a text beside it"));
        match media.name.as_ref().filter(|name| !name.is_blank()) {
            Some(name) => blocks.text(&format!("[document {name}]")),
            None => blocks.text("[document]"),
        }
    }

    /// Begins the message that this speaker goes on with: the last one if it is theirs, else a new one.
    fn begin(&mut self, speaker: Speaker, index: usize) {
        let joins = self.turn.as_ref().is_some_and(|turn| turn.speaker == speaker);
        if joins && self.last != Some(index) {
            let finding = Finding::new(Rule::RoleOrder, Position::message(index), Action::Joined);
            self.sheet.ledger.change(finding.because("neighbours of one role go in one message"));
        }
        if !joins {
            let head = match speaker {
                Speaker::User => "{\"role\":\"user\",\"content\":[",
                Speaker::Assistant => "{\"role\":\"assistant\",\"content\":[",
            };
            self.sheet.list.open(head, "]}");
            self.turn = Some(Turn { speaker, has_text: false, media: Shelf::default() });
        }
        self.last = Some(index);
    }

    fn last_turn(&mut self) -> &mut Turn {
        self.turn.as_mut().expect("BUG: a message was begun before it is filled")
    }
}

pub(super) fn text_block(text: &str) -> String {
    format!("{{\"text\":{}}}", render::literal(text))
}
