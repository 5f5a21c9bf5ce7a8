//! Encoding for Anthropic: one forward pass over the view. Messages in this dialect are sent byte for byte where the API accepts
//! them.
//!
//! `results.rs` writes the messages with results, `around.rs` the fields around the messages; `pieces.rs` makes blocks,
//! `marks.rs` counts cache marks.

use std::collections::{HashMap, HashSet};

use super::{
    WIRE,
    marks::count_marks,
    pieces::{Json, Piece, write_list},
    results::Pending,
};
use crate::wire::prelude::*;

const CACHE_MARKS: usize = 4;
const FORMAT: &str = "anthropic";

pub(super) fn encoder(settings: &Arc<Target>, view: &SoundView) -> Box<dyn Encode> {
    let surplus_marks = match settings.marks {
        CacheMarks::AsWritten => count_marks(view, settings).saturating_sub(CACHE_MARKS),
        CacheMarks::LeftOut | CacheMarks::Placed => usize::MAX,
    };
    Box::new(Encoder {
        state: EncoderState::new(&WIRE, settings),
        pending: None,
        ends_with_assistant: None,
        tool_loop: None,
        user_spoke: false,
        surplus_marks,
        looked_at: None,
    })
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) state: EncoderState,
    /// The unwritten user message with the results of the last assistant message.
    pub(super) pending: Option<Pending>,
    /// The source index of the last message, if it is the assistant's.
    pub(super) ends_with_assistant: Option<usize>,
    /// Whether the first message of the last tool loop begins with thinking.
    pub(super) tool_loop: Option<bool>,
    /// Whether a user message followed, so that the next call begins another loop.
    pub(super) user_spoke: bool,
    /// The number of cache marks above the API's limit.
    pub(super) surplus_marks: usize,
    /// The last message whose native item was read.
    looked_at: Option<usize>,
}

impl Pass for Encoder {
    with_state!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    fn last(&self) -> LastRole {
        match self.ends_with_assistant {
            _ if self.state.list.is_empty() => LastRole::NoMessage,
            Some(index) => LastRole::Model(Some(index)),
            None => LastRole::User,
        }
    }

    fn close(&mut self) {
        self.flush();
    }

    fn say(&mut self, text: &str, _: usize) {
        self.push_text("user", Json::text(text));
    }

    fn late_system(&mut self, texts: Vec<String>, _: usize) {
        self.flush();
        self.push_new("user", texts.into_iter().map(Json::text));
        self.user_spoke = true;
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        // Text after results goes into their message; a result without a call gets its own.
        let orphan = item.parts().any(|part| matches!(part, PartRef::Orphan(..)));
        let joins = !orphan && self.pending.as_ref().is_some_and(|pending| pending.joins(item));
        if !joins {
            self.flush();
        }
        let pieces = self.user_pieces(item);
        self.user_spoke |= !pieces.is_empty();
        if joins {
            let all = item.parts().count() == pieces.len();
            if let Some(pending) = &mut self.pending {
                pending.add_rest(pieces, all);
            }
            self.flush();
            return;
        }
        let message = item.message();
        let whole = item.is_complete() && WIRE.is_regular(message);
        // Only a block can have a mark, so if marks may change, text is always sent as a block.
        let unmarked = self.state.target.marks == CacheMarks::AsWritten || message.form != Form::Text;
        if whole
            && unmarked
            && pieces.len() == message.blocks.len()
            && !pieces.is_empty()
            && pieces.iter().all(|p| p.exact)
        {
            self.push_raw("user", message);
            return;
        }
        if pieces.is_empty() {
            if self.stands_empty(item) {
                self.push_text("user", Json::text(render::EMPTY));
                self.user_spoke = true;
            }
            return;
        }
        if item.is_complete() {
            self.irregular(message, item.index());
        }
        self.push_pieces("user", message, pieces);
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        self.flush();
        let message = item.message();
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        let mut calls: Vec<(ExchangeRef<'_>, String)> = Vec::new();
        let mut begins_with_thinking = false;
        let paired = self.paired_server_tools(item);
        for (part_place, part) in item.parts().enumerate() {
            match part {
                PartRef::Block(block, content) => {
                    let at = Position::block(item.index(), block);
                    match &content.kind {
                        BlockKind::Reasoning(reasoning) => {
                            let own = WIRE.own_bytes(message, content);
                            // The message that is inserted before a leading assistant message is a change, too.
                            let intact =
                                self.state.ledger.is_intact(place, part_place) && !self.state.list.is_empty();
                            let as_it_was = pieces.len() == block && pieces.iter().all(|piece| piece.exact);
                            match own.filter(|_| self.replays(reasoning, intact, as_it_was)) {
                                Some(raw) => {
                                    begins_with_thinking |= pieces.is_empty();
                                    pieces.push(Piece { json: Json::Block(raw.into()), exact: true });
                                }
                                None => self.state.ledger.foreign_reasoning(at),
                            }
                        }
                        BlockKind::Text(_) => pieces.extend(self.content_piece(message, content, at)),
                        BlockKind::Opaque(_) if paired.contains(&block) => {
                            pieces.extend(self.content_piece(message, content, at));
                        }
                        kind => {
                            let text = self.state.ledger.as_text(kind, at);
                            pieces.push(Piece { json: Json::text(text), exact: false });
                        }
                    }
                }
                PartRef::Exchange(exchange) => {
                    let (piece, id) = self.call(item, exchange);
                    pieces.push(piece);
                    calls.push((exchange, id));
                }
                PartRef::Orphan(..) => {}
            }
        }
        if pieces.is_empty() {
            self.state.ledger.nothing_left(Position::message(item.index()));
            return;
        }
        if self.state.list.is_empty() {
            self.open(Position::message(item.index()), "a conversation begins with a user message");
        }
        let whole = item.is_complete() && WIRE.is_regular(message) && pieces.len() == message.blocks.len();
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
}

impl Encoder {
    /// Writes a new message; its content is a string if the source has only a string.
    fn push_pieces(&mut self, role: &str, message: &Message, pieces: Vec<Piece<'_>>) {
        match only_text(message).filter(|_| pieces.len() == 1 && pieces[0].exact) {
            Some(text) => self.push_text(role, Json::SourceText(text)),
            None => self.push_new(role, pieces.into_iter().map(|piece| piece.json)),
        }
    }

    /// Reports why a message in this very dialect is not sent verbatim, unless that was reported already.
    pub(super) fn irregular(&mut self, message: &Message, index: usize) {
        let Some(native) =
            message.native.as_ref().filter(|native| !native.regular && &*native.format == FORMAT)
        else {
            return;
        };
        // A message may be split over many items, but its native item is read once.
        let looked_at = self.looked_at.replace(index) == Some(index);
        let said = |finding: &Finding| finding.at.message == Some(index);
        if looked_at || self.state.ledger.findings.last().is_some_and(said) {
            return;
        }
        let extra = Doc::parse(native.raw.as_str()).ok().and_then(|doc| {
            let root = doc.root()?;
            let mut fields = root.fields().map(|(key, _)| key.as_str().unwrap_or_default().into_owned());
            fields.find(|name| name != "role" && name != "content")
        });
        let at = Position::message(index);
        match extra {
            Some(field) => {
                self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about(field);
            }
            None => self.state.ledger.irregular(at),
        }
    }

    fn user_pieces<'i>(&mut self, item: ItemRef<'i>) -> Vec<Piece<'i>> {
        let parts = item.parts().flat_map(|part| render::pieces(part, item.index()));
        let pieces = parts.filter_map(|(at, piece)| match piece {
            ItemPiece::Block(block) => self.content_piece(item.message(), block, at),
            ItemPiece::Label(text) => Some(Piece { json: Json::text(text), exact: false }),
        });
        pieces.collect()
    }

    /// The opaque blocks of an item that may stay: server tools with call and result, and anything that is no server tool.
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
                        && self.state.spelling.reserve(&id)
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

    fn call<'i>(&mut self, item: ItemRef<'i>, exchange: ExchangeRef<'i>) -> (Piece<'i>, String) {
        let at = Position::block(item.index(), exchange.block());
        let CallSpelling { id, name, as_written: spelled_so } = self.state.spell(item, exchange);
        let as_written = exchange.arguments() == ArgumentsUse::AsWritten
            && !exchange.call().arguments.has_lone_surrogate();
        let block = &item.message().blocks[exchange.block()];
        if let Some(raw) = WIRE.own_bytes(item.message(), block)
            && as_written
            && spelled_so
        {
            return (self.marked(raw, at), id);
        }
        let input = calls::object(exchange, at, &mut self.state.ledger);
        let block = Object::new().text("type", "tool_use").text("id", &id).text("name", &name);
        (Piece { json: Json::Block(block.raw("input", &input).finish().into()), exact: false }, id)
    }

    pub(super) fn push_raw(&mut self, role: &str, message: &Message) {
        self.push_json(role, |out| out.push_str(message.native_text()));
    }

    fn push_json(&mut self, role: &str, write: impl FnOnce(&mut String)) {
        match role {
            "user" => self.state.list.push_by_user(write),
            _ => {
                self.state.list.push_with(write);
            }
        }
        self.ends_with_assistant = None;
    }

    fn push_text(&mut self, role: &str, text: Json<'_>) {
        if role == "user" && self.state.target.marks != CacheMarks::AsWritten {
            return self.push_new(role, [text]);
        }
        self.push_content(role, |out| text.write_bare(out));
    }

    pub(super) fn push_new<'j>(&mut self, role: &str, blocks: impl IntoIterator<Item = Json<'j>>) {
        self.push_content(role, |out| write_list(out, blocks));
    }

    fn push_content(&mut self, role: &str, content: impl FnOnce(&mut String)) {
        self.push_json(role, |out| {
            Object::append(out, |message| message.str("role", role).with("content", content));
        });
    }
}

/// The text of a message whose content is a string.
fn only_text(message: &Message) -> Option<&Text> {
    match &message.blocks[..] {
        [block] => block.as_text().filter(|_| message.form == Form::Text),
        _ => None,
    }
}

/// Whether a message was read from an agent's transcript, which is not exactly what the agent sent.
pub(super) fn is_transcript(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| &*native.format != FORMAT)
}
