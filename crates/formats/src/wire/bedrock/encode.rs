//! Encoding for Bedrock's Converse: one forward pass over the view. The source is always another dialect, so every block is
//! written anew.
//!
//! User and assistant must speak in turn, so neighbours of one role become one message. Blocks are only ever appended to
//! it: what stands there stays. Results open their user message, since the assistant spoke right before. Images and
//! documents are in `media.rs`, with what one message may hold of them; the fields around the messages in `around.rs`.

use rejoin_record::{BlockKind, Media, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, ResultRef, Rule, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    Encoded, TooLarge,
    body::write_body,
    calls,
    names::{Spelled, Spelling},
    registry::Dialect,
    render::{self, Ledger},
    said::{self, Said, What},
};
use super::media::Shelf;
use crate::convert::Target;

const ID_LENGTH: usize = 64;
pub(super) const NAME_LENGTH: usize = 64;

pub(super) fn encode(view: &SoundView, target: &Target<'_>) -> Result<Encoded, TooLarge> {
    let mut encoder = Encoder {
        target,
        messages: Vec::new(),
        ledger: Ledger::new(view, false),
        spelling: Spelling::new(legal_id, NAME_LENGTH),
        used_tools: Vec::new(),
        system: Vec::new(),
        leading: 0,
        last: None,
        too_large: None,
    };
    encoder.foreign_system();
    for item in view.items() {
        encoder.ledger.left_out_fields(item.message(), item.index());
        match item.role() {
            SoundRole::System | SoundRole::Developer => encoder.system(item),
            SoundRole::User => encoder.user(item),
            SoundRole::Assistant => encoder.assistant(item),
        }
    }
    encoder.finish()
}

pub(super) struct Encoder<'t> {
    pub(super) target: &'t Target<'t>,
    messages: Vec<Turn>,
    pub(super) ledger: Ledger,
    spelling: Spelling,
    /// Tools of the history, in order.
    pub(super) used_tools: Vec<String>,
    pub(super) system: Vec<String>,
    /// How many messages at the beginning are instructions.
    leading: usize,
    /// The source message that went out last.
    last: Option<usize>,
    /// The first thing that the provider takes no such amount of.
    too_large: Option<TooLarge>,
}

/// A message as it is being put together.
struct Turn {
    speaker: Speaker,
    blocks: Vec<String>,
    /// Whether one of the blocks is a text.
    has_text: bool,
    media: Shelf,
}

#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    User,
    Assistant,
}

impl Turn {
    fn text(&mut self, text: &str) {
        self.blocks.push(text_block(text));
        self.has_text = true;
    }
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

impl Encoder<'_> {
    /// Instructions that stand outside the list: the conversation's own, then another dialect's.
    fn foreign_system(&mut self) {
        let own = self.target.context.own_instructions();
        self.system.extend(own.map(|text| text_block(text)));
        let texts = said::of_context(self.target.context, &mut self.ledger);
        self.system.extend(texts.iter().map(|text| text_block(text)));
    }

    /// Leading instructions go to the `system` field, later ones stay in their place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        // Leading means that nothing but instructions stood before, shown or not: none is moved past a message.
        let leading = item.index() == self.leading && self.messages.is_empty();
        self.leading += usize::from(leading);
        let at = Position::message(item.index());
        let said = said::of_item(item, &mut self.ledger).into_iter().filter(|piece| !piece.is_blank());
        let texts: Vec<String> = said.map(|piece| piece.into_text(&mut self.ledger)).collect();
        if texts.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
        } else if leading {
            self.system.extend(texts.iter().map(|text| text_block(text)));
        } else {
            self.ledger.change(Finding::new(Rule::LateSystem, at, Action::Replaced));
            let turn = self.turn(Speaker::User, item.index());
            texts.iter().for_each(|text| turn.text(&format!("<system>{text}</system>")));
        }
    }

    fn user(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let said = said::of_item(item, &mut self.ledger);
        let said = said::without_blanks(said, &mut self.ledger);
        if said.is_empty() {
            let nothing = said::is_nothing(item, &said);
            let action = if nothing { Action::LeftOut } else { Action::Replaced };
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, action));
            if !nothing {
                self.turn(Speaker::User, item.index()).text(render::EMPTY);
            }
            return;
        }
        self.turn(Speaker::User, item.index());
        self.append(said);
    }

    /// Adds pieces to the last message.
    fn append(&mut self, said: Vec<Said<'_>>) {
        let mut blocks = Blocks { has_text: self.last_turn().has_text, ..Blocks::default() };
        said.into_iter().for_each(|piece| self.place(&mut blocks, piece));
        // Decided here, and not when the message is complete: what comes later must not change it.
        self.settle(&mut blocks);
        let turn = self.last_turn();
        turn.blocks.extend(blocks.list);
        turn.has_text = blocks.has_text;
    }

    fn assistant(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut blocks = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            let PartRef::Exchange(exchange, call) = part else {
                let said = said::of_part(part, item.index(), &mut self.ledger);
                for piece in said::without_blanks(said, &mut self.ledger) {
                    blocks.push(text_block(&piece.into_text(&mut self.ledger)));
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let Spelled { id, name, first_use, .. } = self.spelling.of(exchange, call, at, &mut self.ledger);
            let mut json = String::from("{\"toolUse\":{\"toolUseId\":");
            write::string(&mut json, &id);
            write::key(&mut json, "name");
            write::string(&mut json, &name);
            write::key(&mut json, "input");
            calls::write_object(&mut json, exchange, call, at, &mut self.ledger);
            json.push_str("}}");
            blocks.push(json);
            sent.push(Sent { exchange, id });
            if first_use {
                self.used_tools.push(name);
            }
        }
        if blocks.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
            return;
        }
        if self.messages.is_empty() {
            let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
            self.ledger.change(finding.because("a conversation begins with a user message"));
            self.turn(Speaker::User, item.index()).text(render::OPENING);
        }
        self.turn(Speaker::Assistant, item.index()).blocks.extend(blocks);
        self.results(&sent, item.index());
    }

    /// The results of a batch, in call order, at the beginning of their message.
    fn results(&mut self, sent: &[Sent<'_>], index: usize) {
        if !sent.is_empty() {
            self.turn(Speaker::User, index);
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
            self.last_turn().blocks.push(json);
            // What stood beside the results belongs to the same message.
            self.last = results.last().map(|result| result.at().0).or(self.last);
        }
        if !after.is_empty() {
            self.append(after);
        }
    }

    /// What results hold: never nothing. A failed one may hold text only, so its media go behind all results.
    fn result_content<'i>(
        &mut self,
        results: &[ResultRef<'i>],
        failed: bool,
        after: &mut Vec<Said<'i>>,
    ) -> Vec<String> {
        let mut blocks = Blocks::default();
        for result in results {
            let said = said::of_result(*result, &mut self.ledger);
            for piece in said::without_blanks(said, &mut self.ledger) {
                if failed && matches!(piece.what, What::Media(_)) {
                    self.ledger.change(Finding::new(Rule::MovedMedia, piece.at, Action::Moved));
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
                self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::Replaced));
                blocks.text(render::EMPTY);
            }
            Some(_) => {}
        }
        blocks.list
    }

    /// Adds a piece; a medium that cannot go out is a label.
    fn place<'i>(&mut self, blocks: &mut Blocks<'i>, piece: Said<'i>) {
        let What::Media(kind) = piece.what else {
            blocks.text(&piece.into_text(&mut self.ledger));
            return;
        };
        let shelf = &mut self.messages.last_mut().expect("BUG: a message was begun").media;
        match shelf.block(kind, piece.at, &mut self.ledger) {
            Ok(Some(json)) => {
                blocks.list.push(json);
                if let BlockKind::Document(media) = kind {
                    blocks.document.get_or_insert((media, piece.at));
                }
            }
            Ok(None) => blocks.text(&piece.into_text(&mut self.ledger)),
            Err(error) => {
                self.too_large.get_or_insert(error);
            }
        }
    }

    /// Adds the text that a document needs beside it.
    fn settle(&mut self, blocks: &mut Blocks<'_>) {
        let Some((media, at)) = blocks.document.filter(|_| !blocks.has_text) else { return };
        let finding = Finding::new(Rule::IrregularContent, at, Action::Inserted);
        self.ledger.change(finding.because("a document needs a text beside it"));
        match media.name.as_ref().filter(|name| !name.is_blank()) {
            Some(name) => blocks.text(&format!("[document {name}]")),
            None => blocks.text("[document]"),
        }
    }

    /// The message that this speaker goes on with: the last one if it is theirs, else a new one.
    fn turn(&mut self, speaker: Speaker, index: usize) -> &mut Turn {
        let joins = self.messages.last().is_some_and(|turn| turn.speaker == speaker);
        if joins && self.last != Some(index) {
            let finding = Finding::new(Rule::RoleOrder, Position::message(index), Action::Joined);
            self.ledger.change(finding.because("neighbours of one role go in one message"));
        }
        if !joins {
            self.messages.push(Turn {
                speaker,
                blocks: Vec::new(),
                has_text: false,
                media: Shelf::default(),
            });
        }
        self.last = Some(index);
        self.last_turn()
    }

    fn last_turn(&mut self) -> &mut Turn {
        self.messages.last_mut().expect("BUG: a message was begun before it is filled")
    }

    fn finish(mut self) -> Result<Encoded, TooLarge> {
        if let Some(error) = self.too_large {
            return Err(error);
        }
        match (self.messages.last().map(|turn| turn.speaker), self.last) {
            (None, _) => {
                let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
                self.ledger.change(finding.because("a request needs a message"));
                self.turn(Speaker::User, 0).text(render::OPENING);
            }
            (Some(Speaker::Assistant), Some(index)) if self.target.closes => {
                let finding = Finding::new(Rule::RoleOrder, Position::message(index), Action::Inserted);
                self.ledger.note(finding.because("a conversation ends with a user message"));
                self.turn(Speaker::User, index).text(render::CLOSING);
            }
            _ => {}
        }
        let around = self.surroundings();
        let messages: Vec<String> = self.messages.iter().map(Turn::json).collect();
        // The model is named by the address, not by the body.
        if self.target.model.is_some() && self.target.context.get("model").is_none() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about("model").because("the address of the request names it"));
        }
        let target = Target { model: None, ..*self.target };
        let body = write_body(&target, Dialect::Bedrock, &messages, around, &mut self.ledger.findings);
        let (ids, names) = self.spelling.into_renamed();
        Ok(Encoded { body, findings: self.ledger.findings, ids, names })
    }
}

impl Turn {
    fn json(&self) -> String {
        let role = match self.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let mut out = format!("{{\"role\":\"{role}\",\"content\":");
        render::array(&mut out, self.blocks.iter().map(String::as_str));
        out.push('}');
        out
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"text\":{}}}", render::literal(text))
}

fn legal_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    !id.is_empty() && id.len() <= ID_LENGTH && id.bytes().all(legal)
}
