//! Encoding for Bedrock's Converse: one forward pass over the view. The source is always another dialect, so every block is
//! written anew.
//!
//! User and assistant must speak in turn, so neighbours of one role become one message. Blocks are only ever appended to
//! it: what stands there stays. Results open their user message, since the assistant spoke right before. Images and
//! documents are in `media.rs`, with what one message may hold of them; the fields around the messages in `around.rs`.

use std::sync::Arc;

use rejoin_record::{BlockKind, Media, Text, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, List, Position, ResultRef, Rule, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    TooLarge,
    body::{seen_before, write_around},
    calls,
    names::{Spelled, Spelling, wire_name},
    outline::{Encode, Outline, Pass},
    registry::Dialect,
    render::{self, Ledger},
    said::{self, Said, What},
    scroll::Scroll,
};
use super::media::Shelf;
use crate::convert::{Settings, Target};

const ID_LENGTH: usize = 64;
pub(super) const NAME_LENGTH: usize = 64;

pub(super) fn encoder(settings: &Arc<Settings>, _: &SoundView) -> Box<dyn Encode> {
    let mut encoder = Encoder {
        target: Arc::clone(settings),
        list: Scroll::default(),
        turn: None,
        ledger: Ledger::new(false, super::MEDIA),
        spelling: Spelling::new(legal_id, NAME_LENGTH),
        used_tools: List::default(),
        system: Vec::new(),
        leading: 0,
        last: None,
        too_large: None,
    };
    encoder.instructions();
    Box::new(encoder)
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) target: Arc<Settings>,
    list: Scroll,
    /// The message that was begun last.
    turn: Option<Turn>,
    pub(super) ledger: Ledger,
    spelling: Spelling,
    /// Tools of the history, in order.
    pub(super) used_tools: List<String>,
    pub(super) system: Vec<String>,
    /// How many messages at the beginning are instructions.
    leading: usize,
    /// The source message that went out last.
    last: Option<usize>,
    /// The first thing that the provider takes no such amount of.
    too_large: Option<TooLarge>,
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
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn take(&mut self, _: usize, item: ItemRef<'_>) {
        self.ledger.left_out_fields(item.message(), item.index());
        match item.role() {
            SoundRole::System | SoundRole::Developer => self.system(item),
            SoundRole::User => self.user(item),
            SoundRole::Assistant => self.assistant(item),
        }
    }

    fn share(&mut self) {
        self.list.settle();
        self.spelling.settle();
    }

    fn end(mut self, _: &SoundView) -> Result<Outline, TooLarge> {
        if let Some(error) = self.too_large {
            return Err(error);
        }
        match (self.turn.as_ref().map(|turn| turn.speaker), self.last) {
            (None, _) => {
                let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
                self.ledger.change(finding.because("a request needs a message"));
                self.say(Speaker::User, 0, render::OPENING);
            }
            (Some(Speaker::Assistant), Some(index)) if self.target.closes => {
                let finding = Finding::new(Rule::RoleOrder, Position::message(index), Action::Inserted);
                self.ledger.note(finding.because("a conversation ends with a user message"));
                self.say(Speaker::User, index, render::CLOSING);
            }
            _ => {}
        }
        self.list.close();
        let prefix = self.prefix();
        let around = self.surroundings();
        // The model is named by the address, not by the body.
        if self.target.model.is_some() && self.target.context.get("model").is_none() {
            let finding = Finding::new(Rule::ForeignField, Position::default(), Action::LeftOut);
            self.ledger.note(finding.about("model").because("the address of the request names it"));
        }
        let mut findings = std::mem::take(&mut self.ledger.findings);
        let target = Target { closes: self.target.closes, ..Target::of(&self.target.context) };
        let (head, tail) = write_around(&Settings::of(&target), Dialect::Bedrock, around, &mut findings);
        let (ids, names) = self.spelling.renamed();
        let names = names.renamed(&self.target.context.tools(), |name| wire_name(name, NAME_LENGTH));
        let ids = ids.clone();
        Ok(Outline { head, list: Some(self.list), tail, findings, ids, names, prefix, marked: false })
    }
}

impl Encoder {
    /// Instructions that stand outside the list: the conversation's own, then another dialect's.
    fn instructions(&mut self) {
        let target = Arc::clone(&self.target);
        self.system.extend(target.context.own_instructions().map(|text| text_block(text)));
        let texts = said::of_context(&target.context, &mut self.ledger);
        self.system.extend(texts.iter().map(|text| text_block(text)));
    }

    /// Leading instructions go to the `system` field, later ones stay in their place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        // Leading means that nothing but instructions stood before, shown or not: none is moved past a message.
        let leading = item.index() == self.leading && self.turn.is_none();
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
            for text in texts {
                self.say(Speaker::User, item.index(), &format!("<system>{text}</system>"));
            }
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
                self.say(Speaker::User, item.index(), render::EMPTY);
            }
            return;
        }
        self.begin(Speaker::User, item.index());
        self.append(said);
    }

    /// Adds pieces to the last message.
    fn append(&mut self, said: Vec<Said<'_>>) {
        let mut blocks = Blocks { has_text: self.last_turn().has_text, ..Blocks::default() };
        said.into_iter().for_each(|piece| self.place(&mut blocks, piece));
        // Decided here, and not when the message is complete: what comes later must not change it.
        self.settle(&mut blocks);
        blocks.list.iter().for_each(|json| self.list.part(json));
        self.last_turn().has_text = blocks.has_text;
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
        if self.turn.is_none() {
            let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
            self.ledger.change(finding.because("a conversation begins with a user message"));
            self.say(Speaker::User, item.index(), render::OPENING);
        }
        self.begin(Speaker::Assistant, item.index());
        blocks.iter().for_each(|json| self.list.part(json));
        self.results(&sent, item.index());
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
            self.list.part(&json);
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
        let shelf = &mut self.turn.as_mut().expect("BUG: a message was begun").media;
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

    /// Begins the message that this speaker goes on with: the last one if it is theirs, else a new one.
    fn begin(&mut self, speaker: Speaker, index: usize) {
        let joins = self.turn.as_ref().is_some_and(|turn| turn.speaker == speaker);
        if joins && self.last != Some(index) {
            let finding = Finding::new(Rule::RoleOrder, Position::message(index), Action::Joined);
            self.ledger.change(finding.because("neighbours of one role go in one message"));
        }
        if !joins {
            let head = match speaker {
                Speaker::User => "{\"role\":\"user\",\"content\":[",
                Speaker::Assistant => "{\"role\":\"assistant\",\"content\":[",
            };
            self.list.open(head, "]}");
            self.turn = Some(Turn { speaker, has_text: false, media: Shelf::default() });
        }
        self.last = Some(index);
    }

    /// Adds a text to the message that this speaker goes on with.
    fn say(&mut self, speaker: Speaker, index: usize, text: &str) {
        self.begin(speaker, index);
        self.list.part(&text_block(text));
        self.last_turn().has_text = true;
    }

    fn last_turn(&mut self) -> &mut Turn {
        self.turn.as_mut().expect("BUG: a message was begun before it is filled")
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let mut copy =
            Self { used_tools: List::default(), ledger: Ledger::new(true, super::MEDIA), ..self.clone() };
        let before = seen_before(&self.target, Dialect::Bedrock, &copy.surroundings());
        self.list.prefix(&before, None)
    }
}

fn text_block(text: &str) -> String {
    format!("{{\"text\":{}}}", render::literal(text))
}

fn legal_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    !id.is_empty() && id.len() <= ID_LENGTH && id.bytes().all(legal)
}
