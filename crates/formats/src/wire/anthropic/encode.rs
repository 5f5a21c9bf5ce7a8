//! Encoding for Anthropic: one forward pass over the view. What the dialect takes goes out byte for byte.
//!
//! Results and what else stood in their message are put together in `results.rs`, the fields around the messages in
//! `around.rs`; `pieces.rs` makes blocks, `marks.rs` counts cache marks.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    BlockKind, Form, Message, Reasoning, Text, ToolCall,
    json::{Doc, write},
};
use rejoin_view::{
    Action, ArgumentsUse, ExchangeRef, Finding, ItemRef, List, Position, Rule, SoundRole, SoundView,
    sound::PartRef,
};

use super::super::{
    TooLarge,
    body::{seen_before, write_around},
    calls,
    names::{Spelled, Spelling, wire_name},
    outline::{Encode, Outline, Pass},
    registry::Dialect,
    render::{self, Ledger, Piece},
    scroll::Scroll,
};
use super::{marks::count_marks, results::Pending};
use crate::convert::{Bond, Marks, Settings};

pub(super) const NAME_LENGTH: usize = 128;
const BODY_BYTES: usize = 32_000_000;
const MESSAGES: usize = 100_000;
const CACHE_MARKS: usize = 4;
const FORMAT: &str = "anthropic";

pub(super) fn encoder(settings: &Arc<Settings>, view: &SoundView) -> Box<dyn Encode> {
    Box::new(Encoder::new(view, settings))
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) target: Arc<Settings>,
    pub(super) same: bool,
    pub(super) list: Scroll,
    pub(super) ledger: Ledger,
    spelling: Spelling,
    /// Tools of the history, in order.
    pub(super) used_tools: List<String>,
    pub(super) system: Vec<String>,
    /// How many messages at the beginning are instructions.
    leading: usize,
    /// The user message that holds the results of the last assistant message.
    pub(super) pending: Option<Pending>,
    /// The place of the assistant message that the list ends with, if it does.
    pub(super) ends_with_assistant: Option<usize>,
    /// In the last tool loop: whether its first message begins with thinking.
    pub(super) tool_loop: Option<bool>,
    /// A user spoke since: the next call begins another loop.
    pub(super) user_spoke: bool,
    /// Cache marks beyond what the API takes.
    pub(super) surplus_marks: usize,
    /// The message whose own item was looked at last.
    looked_at: Option<usize>,
    /// What a model sees before every message, once that is decided.
    before: Option<Arc<str>>,
}

impl Pass for Encoder {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn take(&mut self, place: usize, item: ItemRef<'_>) {
        if !is_own(item.message()) {
            self.ledger.left_out_fields(item.message(), item.index());
        }
        match item.role() {
            SoundRole::System | SoundRole::Developer => self.system(item),
            SoundRole::User => self.user(item),
            SoundRole::Assistant => self.assistant(place, item),
        }
    }

    fn share(&mut self) {
        self.list.settle();
        self.spelling.settle();
    }

    fn end(mut self, _: &SoundView) -> Result<Outline, TooLarge> {
        self.flush();
        if self.list.is_empty() {
            let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
            self.ledger.change(finding.because("a request needs a message"));
            self.push_text("user", render::OPENING);
        } else if let Some(last) = self.ends_with_assistant.filter(|_| self.target.closes) {
            let finding = Finding::new(Rule::RoleOrder, Position::message(last), Action::Inserted);
            self.ledger.note(finding.because("a conversation ends with a user message"));
            self.push_text("user", render::CLOSING);
        }
        let prefix = self.prefix();
        let around = self.surroundings();
        let mut findings = std::mem::take(&mut self.ledger.findings);
        let (head, tail) = write_around(&self.target, Dialect::Anthropic, around, &mut findings);
        let (ids, names) = self.spelling.renamed();
        let names = names.renamed(&self.target.context.tools(), |name| wire_name(name, NAME_LENGTH));
        let marked = self.target.marks == Marks::Placed;
        let ids = ids.clone();
        let outline = Outline { head, list: Some(self.list), tail, findings, ids, names, prefix, marked };
        let too_large =
            |what, size, limit| Err(TooLarge { rule: "ANT-28", what, size, limit, at: Position::default() });
        match (outline.list.as_ref().map_or(0, Scroll::count), outline.length()) {
            (count, _) if count > MESSAGES => too_large("the number of messages", count, MESSAGES),
            (_, length) if length > BODY_BYTES => too_large("the body in bytes", length, BODY_BYTES),
            _ => Ok(outline),
        }
    }
}

impl Encoder {
    fn new(view: &SoundView, target: &Arc<Settings>) -> Self {
        let same = target.context.dialect == Some(Dialect::Anthropic);
        // Tools stand before every message. That stubs may be declared later changes nothing that was said.
        let declared = target.context.field_tools();
        let renamed = declared.iter().any(|tool| wire_name(&tool.name, NAME_LENGTH) != *tool.name);
        let intact = target.keeps_reasoning_of(Dialect::Anthropic) && !renamed;
        let surplus_marks = match target.marks {
            Marks::AsWritten => count_marks(view, target).saturating_sub(CACHE_MARKS),
            Marks::LeftOut | Marks::Placed => usize::MAX,
        };
        Self {
            target: Arc::clone(target),
            same,
            list: Scroll::default(),
            ledger: Ledger::new(intact, super::MEDIA),
            spelling: Spelling::new(legal_id, NAME_LENGTH),
            used_tools: List::default(),
            system: Vec::new(),
            leading: 0,
            pending: None,
            ends_with_assistant: None,
            tool_loop: None,
            user_spoke: false,
            surplus_marks,
            looked_at: None,
            before: None,
        }
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let before = self.before.take().unwrap_or_else(|| {
            // Stubs are declared for what comes later, too: they are no part of it.
            let mut copy =
                Self { used_tools: List::default(), ledger: Ledger::new(true, super::MEDIA), ..self.clone() };
            let around = copy.around(Marks::LeftOut);
            seen_before(&self.target, Dialect::Anthropic, &around).into()
        });
        self.list.prefix(self.before.insert(before), None)
    }

    /// Whether reasoning goes out, before which so much of its message does as it is.
    fn replays(&mut self, reasoning: &Reasoning, intact: bool, as_it_was: bool) -> bool {
        match self.target.bond(reasoning, Dialect::Anthropic) {
            Bond::Elsewhere => false,
            Bond::Issuer => true,
            Bond::Source => intact,
            Bond::Prefix(prefix) => as_it_was && self.prefix() == prefix,
        }
    }

    /// Leading instructions go to the `system` field, later ones stay in their place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        // Leading means that nothing but instructions stood before, shown or not: none is moved past a message.
        let leading = item.index() == self.leading && self.list.is_empty() && self.pending.is_none();
        self.leading += usize::from(leading);
        let at = Position::message(item.index());
        let mut texts = Vec::new();
        for part in item.parts() {
            let PartRef::Block(block, content) = part else { continue };
            match &content.kind {
                BlockKind::Text(text) if text.is_blank() => {}
                BlockKind::Text(text) => {
                    self.ledger.lossy(text, Position::block(item.index(), block));
                    texts.push(text.to_string());
                }
                BlockKind::Reasoning(_) => {
                    self.ledger.change(foreign_reasoning(item, block));
                }
                other => texts.push(self.ledger.as_text(other, Position::block(item.index(), block))),
            }
        }
        if texts.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
        } else if leading {
            if is_own(item.message()) {
                self.ledger.change(Finding::new(Rule::LateSystem, at, Action::Moved));
            }
            self.system.extend(texts);
        } else {
            self.ledger.change(Finding::new(Rule::LateSystem, at, Action::Replaced));
            let pieces =
                texts.iter().map(|text| render::text_block(&format!("<system>{text}</system>"))).collect();
            self.flush();
            self.push_new("user", pieces);
            self.user_spoke = true;
        }
    }

    fn user(&mut self, item: ItemRef<'_>) {
        // What stood behind the results goes with them; an orphan is a message of its own.
        let orphan = item.parts().any(|part| matches!(part, PartRef::Orphan(..)));
        let joins = !orphan && self.pending.as_ref().is_some_and(|pending| pending.joins(item));
        if !joins {
            self.flush();
        }
        let pieces = self.user_pieces(item);
        if joins {
            if !pieces.is_empty() {
                self.user_spoke = true;
            }
            let all = item.parts().count() == pieces.len();
            if let Some(pending) = &mut self.pending {
                pending.add_rest(&pieces, all);
            }
            self.flush();
            return;
        }
        let message = item.message();
        let whole = item.is_complete() && Self::is_regular(message);
        // Only a block can have a mark: where marks come and go, a text is always one.
        let unmarked = self.target.marks == Marks::AsWritten || message.form != Form::Text;
        if whole
            && unmarked
            && pieces.len() == message.blocks.len()
            && !pieces.is_empty()
            && pieces.iter().all(|p| p.exact)
        {
            self.push_raw("user", message);
            self.user_spoke = true;
            return;
        }
        if pieces.is_empty() {
            // Under a role that nobody knows, with nothing in it, nothing was said.
            let nothing = matches!(message.role, rejoin_record::Role::Other(_));
            let action = if nothing { Action::LeftOut } else { Action::Replaced };
            self.ledger.change(Finding::new(Rule::EmptyMessage, Position::message(item.index()), action));
            if !nothing {
                self.push_text("user", render::EMPTY);
                self.user_spoke = true;
            }
            return;
        }
        self.user_spoke = true;
        if item.is_complete() {
            self.irregular(message, item.index());
        }
        self.push_pieces("user", message, pieces);
    }

    /// A new message of these pieces: a string if the source had nothing but one.
    fn push_pieces(&mut self, role: &str, message: &Message, pieces: Vec<Piece<'_>>) {
        match only_text(message).filter(|_| pieces.len() == 1 && pieces[0].exact) {
            Some(text) => self.push_text(role, text),
            None => self.push_new(role, pieces.into_iter().map(|piece| piece.json.into_owned()).collect()),
        }
    }

    /// Notes why a message of this very dialect does not go out as it was, unless that was said already.
    pub(super) fn irregular(&mut self, message: &Message, index: usize) {
        let Some(native) =
            message.native.as_ref().filter(|native| !native.regular && &*native.format == FORMAT)
        else {
            return;
        };
        // A message may be shown in many pieces; its own item is looked at once.
        let looked_at = self.looked_at.replace(index) == Some(index);
        let said = |finding: &Finding| finding.at.message == Some(index);
        if looked_at || self.ledger.findings.last().is_some_and(said) {
            return;
        }
        let extra = Doc::parse(native.raw.as_str()).ok().and_then(|doc| {
            let root = doc.root()?;
            let mut fields = root.fields().map(|(key, _)| key.as_str().unwrap_or_default().into_owned());
            fields.find(|name| name != "role" && name != "content")
        });
        self.ledger.note(match extra {
            Some(field) => {
                Finding::new(Rule::UnknownField, Position::message(index), Action::LeftOut).about(field)
            }
            None => Finding::new(Rule::IrregularContent, Position::message(index), Action::Replaced),
        });
    }

    fn user_pieces<'i>(&mut self, item: ItemRef<'i>) -> Vec<Piece<'i>> {
        let mut pieces = Vec::new();
        for part in item.parts() {
            match part {
                PartRef::Block(block, content) => {
                    let at = Position::block(item.index(), block);
                    pieces.extend(self.content_piece(item.message(), content, at));
                }
                PartRef::Orphan(block, result) => {
                    let text = render::orphan_text(result);
                    pieces.push(Piece { json: render::text_block(&text).into(), exact: false });
                    for content in &result.content {
                        if let BlockKind::Image(_) | BlockKind::Document(_) = content.kind {
                            let at = Position::block(item.index(), block);
                            pieces.extend(self.content_piece(item.message(), content, at));
                        }
                    }
                }
                PartRef::Exchange(..) => {}
            }
        }
        pieces
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        self.flush();
        let message = item.message();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        let mut calls: Vec<(ExchangeRef<'_>, &ToolCall, String)> = Vec::new();
        let mut begins_with_thinking = false;
        let paired = self.paired_server_tools(item);
        for (part_place, part) in item.parts().enumerate() {
            match part {
                PartRef::Block(block, content) => {
                    let at = Position::block(item.index(), block);
                    match &content.kind {
                        BlockKind::Reasoning(reasoning) => {
                            let own = Self::own_bytes(message, content);
                            // What is put before a leading assistant message is a change, too.
                            let intact = self.ledger.is_intact(place, part_place) && !self.list.is_empty();
                            let as_it_was = pieces.len() == block && pieces.iter().all(|piece| piece.exact);
                            match own.filter(|_| self.replays(reasoning, intact, as_it_was)) {
                                Some(raw) => {
                                    begins_with_thinking |= pieces.is_empty();
                                    pieces.push(Piece { json: raw.into(), exact: true });
                                }
                                None => self.ledger.change(foreign_reasoning(item, block)),
                            }
                        }
                        BlockKind::Image(_) | BlockKind::Document(_) => {
                            let text = self.ledger.as_text(&content.kind, at);
                            pieces.push(Piece { json: render::text_block(&text).into(), exact: false });
                        }
                        BlockKind::Opaque(_) if !paired.contains(&block) => {
                            let text = self.ledger.as_text(&content.kind, at);
                            pieces.push(Piece { json: render::text_block(&text).into(), exact: false });
                        }
                        _ => pieces.extend(self.content_piece(message, content, at)),
                    }
                }
                PartRef::Exchange(exchange, call) => {
                    let (piece, id) = self.call(item, exchange, call);
                    pieces.push(piece);
                    calls.push((exchange, call, id));
                }
                PartRef::Orphan(..) => {}
            }
        }
        if pieces.is_empty() {
            let finding = Finding::new(Rule::EmptyMessage, Position::message(item.index()), Action::LeftOut);
            self.ledger.change(finding);
            return;
        }
        if self.list.is_empty() {
            let finding = Finding::new(Rule::RoleOrder, Position::message(item.index()), Action::Inserted);
            self.ledger.change(finding.because("a conversation begins with a user message"));
            self.push_text("user", render::OPENING);
        }
        let whole = item.is_complete() && Self::is_regular(message) && pieces.len() == message.blocks.len();
        if whole && pieces.iter().all(|piece| piece.exact) {
            self.push_raw("assistant", message);
        } else {
            if item.is_complete() {
                self.irregular(message, item.index());
            }
            self.push_pieces("assistant", message, pieces);
        }
        self.ends_with_assistant = Some(item.index());
        if calls.is_empty() {
            self.tool_loop = None;
        } else {
            if std::mem::take(&mut self.user_spoke) {
                self.tool_loop = None;
            }
            self.tool_loop.get_or_insert(begins_with_thinking);
            self.results(&calls);
        }
    }

    /// The opaque blocks of an item that may stay: server tools with both halves, and whatever is not a server tool.
    fn paired_server_tools(&mut self, item: ItemRef<'_>) -> HashSet<usize> {
        let mut open: HashMap<(String, bool), usize> = HashMap::new();
        let mut stay = HashSet::new();
        for part in item.parts() {
            let PartRef::Block(block, content) = part else { continue };
            let BlockKind::Opaque(opaque) = &content.kind else { continue };
            if !opaque.fits {
                continue;
            }
            let doc = Doc::parse(opaque.raw.as_str());
            let field = |name| doc.as_ref().ok()?.root()?.get(name)?.as_str().map(Cow::into_owned);
            let mcp = opaque.kind.starts_with("mcp_");
            let (call, result) = (opaque.kind.ends_with("tool_use"), opaque.kind.ends_with("tool_result"));
            match (field("id"), field("tool_use_id")) {
                (Some(id), _) if call => {
                    open.entry((id, mcp)).or_insert(block);
                }
                (_, Some(id)) if result => {
                    if let Some(call) = open.remove(&(id.clone(), mcp))
                        && self.spelling.reserve(&id)
                    {
                        stay.extend([call, block]);
                    }
                }
                _ if call || result => {}
                _ => {
                    stay.insert(block);
                }
            }
        }
        stay
    }

    fn call<'i>(
        &mut self,
        item: ItemRef<'i>,
        exchange: ExchangeRef<'i>,
        call: &'i ToolCall,
    ) -> (Piece<'i>, String) {
        let at = Position::block(item.index(), exchange.block());
        let Spelled { id, name, as_written: spelled_so, first_use } =
            self.spelling.of(exchange, call, at, &mut self.ledger);
        if first_use {
            self.used_tools.push(name.clone());
        }
        let as_written =
            exchange.arguments() == ArgumentsUse::AsWritten && !call.arguments.has_lone_surrogate();
        let block = &item.message().blocks[exchange.block()];
        if let Some(raw) = Self::own_bytes(item.message(), block)
            && as_written
            && spelled_so
        {
            return (self.marked(raw, at), id);
        }
        let mut out = String::from("{\"type\":\"tool_use\",\"id\":");
        write::string(&mut out, &id);
        write::key(&mut out, "name");
        write::string(&mut out, &name);
        write::key(&mut out, "input");
        calls::write_object(&mut out, exchange, call, at, &mut self.ledger);
        out.push('}');
        (Piece { json: out.into(), exact: false }, id)
    }

    pub(super) fn is_regular(message: &Message) -> bool {
        message.native.as_ref().is_some_and(|native| native.regular && &*native.format == FORMAT)
            && message.blocks.iter().all(|block| super::MEDIA.keeps(block))
    }

    pub(super) fn push_raw(&mut self, role: &str, message: &Message) {
        self.push_json(role, message.native.as_ref().map_or("", |native| native.raw.as_str()));
    }

    fn push_json(&mut self, role: &str, json: &str) {
        match role {
            "user" => self.list.push_by_user(json),
            _ => self.list.push(json),
        }
        self.ends_with_assistant = None;
    }

    /// A new message of one text.
    fn push_text(&mut self, role: &str, text: &str) {
        if role == "user" && self.target.marks != Marks::AsWritten {
            return self.push_new(role, vec![render::text_block(text)]);
        }
        self.push_content(role, &render::literal(text));
    }

    /// A new message of these blocks.
    pub(super) fn push_new(&mut self, role: &str, blocks: Vec<String>) {
        let mut content =
            String::with_capacity(blocks.iter().map(|block| block.len() + 1).sum::<usize>() + 2);
        render::array(&mut content, blocks.iter().map(String::as_str));
        self.push_content(role, &content);
    }

    fn push_content(&mut self, role: &str, content: &str) {
        self.push_json(role, &format!("{{\"role\":\"{role}\",\"content\":{content}}}"));
    }
}

/// Whether a message was said in this dialect, or to an agent that speaks it.
pub(super) fn is_own(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| render::speaks(&native.format, FORMAT))
}

pub(super) fn foreign_reasoning(item: ItemRef<'_>, block: usize) -> Finding {
    Finding::new(Rule::ForeignReasoning, Position::block(item.index(), block), Action::LeftOut)
}

fn legal_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// The text of a string content, if the message is nothing but that.
fn only_text(message: &Message) -> Option<&Text> {
    match &message.blocks[..] {
        [block] => block.as_text().filter(|_| message.form == Form::Text),
        _ => None,
    }
}

/// Whether a message was read from an agent's transcript, which is not what the agent sent, line for line.
pub(super) fn is_transcript(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| &*native.format != FORMAT)
}
