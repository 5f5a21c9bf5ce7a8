//! Encoding for OpenAI Responses: one forward pass over the view. Items in this dialect are sent byte for byte where the API
//! accepts them. `pieces.rs` makes pieces of items; `around.rs` writes the fields around the items.

use std::{collections::HashSet, ops::Range};

use rejoin_record::{Native, Opaque};

use super::{
    WIRE,
    pieces::{
        answer_item, failed_shell, has_id, media_part, message_item, only_words, part, streams, without_field,
    },
    read::{Call, Hosted, Side},
};
use crate::wire::prelude::*;

/// A private field of Codex in the items of its rollouts.
const PRIVATE: &str = "internal_chat_message_metadata_passthrough";

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    let state = EncoderState::new(&WIRE, settings);
    let mut encoder = Encoder { state, instructions: None, approvals: HashSet::new() };
    if !encoder.state.same {
        encoder.foreign_system();
    }
    Box::new(encoder)
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) state: EncoderState,
    /// Another dialect's system prompt, if it is a single text.
    pub(super) instructions: Option<String>,
    /// The ids of the provider's requests for approval.
    approvals: HashSet<String>,
}

impl Pass for Encoder {
    with_state!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    /// Keeps an input that is a single string.
    fn framed(&mut self, view: &SoundView) -> Surroundings {
        let mut around = self.around();
        let mut alone = view.items();
        if let (Some(only), None, true) = (alone.next(), alone.next(), self.state.same)
            && let Some(native) = &only.message().native
            && native.raw.as_str().starts_with('"')
            && Doc::parse(native.raw.as_str()).is_ok_and(|doc| doc.root().is_some_and(Value::is_clean))
            && only.is_complete()
            && self.state.target.context.whole_body
        {
            around.list = Some(native.raw.as_str().to_owned());
            // Its message is not rewritten after all. A finding about a field around it stays.
            let stays =
                |finding: &Finding| finding.rule != Rule::IrregularContent || finding.at.message.is_none();
            self.state.ledger.findings.retain(stays);
        }
        around
    }

    fn say(&mut self, text: &str, _: usize) {
        self.push_content("user", &render::quoted(text));
    }

    fn system(&mut self, item: ItemRef<'_>) {
        self.speaker(if item.role() == SoundRole::System { "system" } else { "developer" }, item);
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        self.speaker("user", item);
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        let message: &Message = item.message();
        let own = WIRE.is_own(message);
        let native = message.native.as_ref().filter(|_| own);
        let items = native.map_or(&[][..], |native| &native.items);
        let ranges = block_ranges(items.iter().map(|item| item.blocks as usize));
        let native_of = |block: usize| {
            let number = ranges.partition_point(|range| range.end <= block);
            (number < ranges.len()).then_some(number)
        };
        let mut pieces: Vec<Piece> = Vec::new();
        let mut sent: Vec<SentCall<'_>> = Vec::new();
        for (part_place, part_ref) in item.parts().enumerate() {
            match part_ref {
                PartRef::Block(block, content) => {
                    let at = Position::block(item.index(), block);
                    let native = native_of(block);
                    let regular = native.is_some_and(|native| items[native].regular);
                    match &content.kind {
                        BlockKind::Reasoning(reasoning) => {
                            let intact = self.state.ledger.is_intact(place, part_place);
                            let as_it_was = pieces.len() == block && pieces.iter().all(|piece| piece.exact);
                            if regular && self.replays(reasoning, intact, as_it_was) {
                                let json = String::new();
                                pieces.push(Piece { native, block, json, exact: true, reasoning: true });
                            } else {
                                self.state.ledger.foreign_reasoning(at);
                            }
                        }
                        BlockKind::Text(text) => {
                            self.state.ledger.lossy(text, at);
                            let json = answer_item(text);
                            let exact = regular && !text.is_lossy();
                            if own && !regular {
                                self.state.ledger.irregular(at);
                            }
                            pieces.push(Piece { native, block, json, exact, reasoning: false });
                        }
                        BlockKind::Opaque(opaque) if own && opaque.fits && (regular || !needs_id(opaque)) => {
                            // An id that the API would refuse is left out.
                            let json = if regular { String::new() } else { self.unnamed(opaque, at) };
                            pieces.push(Piece { native, block, json, exact: regular, reasoning: false });
                        }
                        other => {
                            let json = answer_item(&self.state.ledger.as_text(other, at));
                            pieces.push(Piece { native, block, json, exact: false, reasoning: false });
                        }
                    }
                }
                PartRef::Exchange(exchange) => {
                    let native = native_of(exchange.block());
                    let regular = native.is_some_and(|native| items[native].regular);
                    let (json, exact, waiting) = self.call(item, exchange, regular);
                    let block = exchange.block();
                    pieces.push(Piece { native, block, json, exact, reasoning: false });
                    sent.push(waiting);
                }
                PartRef::Orphan(..) => {}
            }
        }
        self.drop_dangling(item, &mut pieces, &ranges);
        if pieces.is_empty() {
            self.state.ledger.nothing_left(Position::message(item.index()));
            return;
        }
        // Empty items are reported.
        for empty in ranges.iter().filter(|range| range.is_empty()) {
            self.state.ledger.nothing_left(Position::block(item.index(), empty.start));
        }
        self.push_answer(item, native, &pieces, &ranges);
        for waiting in &sent {
            self.result(waiting);
        }
    }
}

/// A piece of a model's answer, ready to be sent.
struct Piece {
    /// The number of the native item that holds it.
    native: Option<usize>,
    block: usize,
    /// A new item, for a piece that is not sent verbatim.
    json: String,
    /// Whether the source's item can be sent verbatim.
    exact: bool,
    /// Whether it is reasoning, which is sent only with the item after it.
    reasoning: bool,
}

/// A call that was sent and whose result follows.
struct SentCall<'i> {
    exchange: ExchangeRef<'i>,
    id: String,
    kind: Call,
}

impl Encoder {
    /// Takes another dialect's system prompt: a single text goes into a field, several become a message.
    fn foreign_system(&mut self) {
        let system = self.state.target.context.system();
        let texts: Vec<&str> =
            system.iter().filter(|piece| !piece.text.is_blank()).map(|piece| &*piece.text).collect();
        self.state.ledger.lossy_system(&self.state.target.context);
        match texts[..] {
            [] => {}
            [only] => self.instructions = Some(only.to_owned()),
            _ => {
                let parts: Vec<String> = texts.iter().map(|text| part("input_text", text)).collect();
                self.push_content("system", &render::list(parts));
            }
        }
    }

    fn speaker(&mut self, role: &'static str, item: ItemRef<'_>) {
        let message = item.message();
        if let Some(json) = self.unnamed_item(item) {
            return self.push(&json);
        }
        if item.is_complete()
            && WIRE.is_own(message)
            && is_regular_item(message)
            && self.is_asked_for(message)
        {
            return message.native.iter().for_each(|native| self.push(item_text(native, 0)));
        }
        let mut parts: Vec<String> = Vec::new();
        let mut only_text: Option<String> = None;
        for (at, piece) in item.parts().flat_map(|part| render::pieces(part, item.index())) {
            let (json, text) = match piece {
                ItemPiece::Block(Block { kind: BlockKind::Reasoning(_), .. }) => {
                    self.state.ledger.foreign_reasoning(at);
                    continue;
                }
                ItemPiece::Block(block) => {
                    (self.part(message, block, at), block.as_text().map(ToString::to_string))
                }
                ItemPiece::Label(text) => (part("input_text", &text), Some(text)),
            };
            only_text = text.filter(|_| parts.is_empty());
            parts.push(json);
        }
        if parts.is_empty() {
            if !self.stands_empty(item) {
                return;
            }
            only_text = Some(String::new());
        }
        if item.is_complete() && WIRE.is_own(message) {
            self.state.ledger.irregular(Position::message(item.index()));
        }
        match only_text.filter(|_| parts.len() <= 1) {
            Some(text) => self.push_content(role, &render::quoted(&text)),
            None => self.push_content(role, &render::list(parts)),
        }
    }

    /// A block of a user message, of instructions, or of a result.
    fn part(&mut self, message: &Message, block: &Block, at: Position) -> String {
        let own = WIRE.own_bytes(message, block);
        match (&block.kind, own.filter(|raw| raw.starts_with('{'))) {
            // Items that only the API understands cannot be parts.
            (kind @ BlockKind::Opaque(_), _) => part("input_text", &self.state.ledger.as_text(kind, at)),
            (_, Some(raw)) => raw.to_owned(),
            (BlockKind::Text(text), None) => {
                self.state.ledger.lossy(text, at);
                part("input_text", text)
            }
            (kind, None) => media_part(kind, WIRE.is_own(message))
                .unwrap_or_else(|| part("input_text", &self.state.ledger.as_text(kind, at))),
        }
    }

    /// A client's item without its id, if the API would refuse that.
    fn unnamed_item(&mut self, item: ItemRef<'_>) -> Option<String> {
        let message = item.message();
        let [Block { kind: BlockKind::Opaque(opaque), .. }] = &message.blocks[..] else { return None };
        let known = Hosted::of(&opaque.kind).filter(|known| !known.needs_id && opaque.fits)?;
        let own = item.is_complete() && WIRE.is_own(message);
        let goes = own && !is_regular_item(message) && known.side != Side::Provider;
        (goes && self.is_asked_for(message)).then(|| self.unnamed(opaque, Position::message(item.index())))
    }

    /// Whether a message is no approval, or approves a request that precedes it.
    fn is_asked_for(&self, message: &Message) -> bool {
        let [Block { kind: BlockKind::Opaque(opaque), .. }] = &message.blocks[..] else { return true };
        let doc = Doc::parse(opaque.raw.as_str());
        let asked = doc.as_ref().ok().and_then(|doc| doc.root()?.get("approval_request_id")?.as_str());
        &*opaque.kind != "mcp_approval_response" || asked.is_some_and(|id| self.approvals.contains(&*id))
    }

    /// Removes the id of an item that only the API understands.
    fn unnamed(&mut self, opaque: &Opaque, at: Position) -> String {
        self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about("id");
        without_field(opaque.raw.as_str(), "id")
    }

    /// Removes reasoning whose next item is not sent: the API refuses it.
    fn drop_dangling(&mut self, item: ItemRef<'_>, pieces: &mut Vec<Piece>, ranges: &[Range<usize>]) {
        for index in (0..pieces.len()).rev() {
            if !pieces[index].reasoning {
                continue;
            }
            let successor = pieces[index].native.and_then(|native| ranges.get(native + 1));
            let follows = pieces
                .get(index + 1)
                .is_some_and(|next| successor.is_some_and(|range| range.contains(&next.block)) && next.exact);
            if !follows {
                self.state.ledger.foreign_reasoning(Position::block(item.index(), pieces[index].block));
                pieces.remove(index);
            }
        }
    }

    /// Writes the pieces of an answer. A native item whose blocks are all here is sent verbatim.
    fn push_answer(
        &mut self,
        item: ItemRef<'_>,
        native: Option<&Native>,
        pieces: &[Piece],
        ranges: &[Range<usize>],
    ) {
        let bare = without_reasoning(item.message(), pieces);
        let mut index = 0;
        while index < pieces.len() {
            let piece = &pieces[index];
            // Each native item is handled once.
            let run = pieces[index..].iter().take_while(|next| next.native == piece.native);
            let shown: Vec<&Piece> = run.collect();
            let whole = piece.native.zip(native).and_then(|(number, native)| {
                let range = &ranges[number];
                let all = shown.iter().map(|piece| piece.block).eq(range.clone());
                (all && shown.iter().all(|piece| piece.exact)).then(|| item_text(native, number))
            });
            match whole {
                Some(raw) => {
                    let at = Position::block(item.index(), piece.block);
                    let hosted = match &item.message().blocks[piece.block].kind {
                        BlockKind::Opaque(opaque) => Hosted::of(&opaque.kind),
                        _ => None,
                    };
                    // The API expects reasoning before an item with its own id; without the reasoning, the id is left out.
                    let named = bare[piece.block] && has_id(raw);
                    if named && hosted.is_some_and(|hosted| hosted.needs_id) {
                        let text = self.state.ledger.as_text(&item.message().blocks[piece.block].kind, at);
                        self.push(&answer_item(&text));
                    } else if named {
                        self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about("id");
                        self.push(&without_field(raw, "id"));
                    } else {
                        self.approvals.extend(hosted.and_then(|_| approval_asked(raw)));
                        self.push(raw);
                    }
                }
                // The item was split, or the API would refuse it.
                None => shown.iter().for_each(|piece| self.push(&piece.json)),
            }
            index += shown.len();
        }
    }

    /// Writes a call: its new item, whether it is sent verbatim instead, and what its result needs.
    fn call<'i>(
        &mut self,
        item: ItemRef<'i>,
        exchange: ExchangeRef<'i>,
        regular: bool,
    ) -> (String, bool, SentCall<'i>) {
        let at = Position::block(item.index(), exchange.block());
        let block = &item.message().blocks[exchange.block()];
        let own = if WIRE.is_own(item.message()) { item.message().native_block(block) } else { None };
        let mut kind = own.and_then(Call::of_item).unwrap_or(Call::FUNCTION);
        // The results of these tools cannot be made up; without them, the call becomes a function call.
        let given = || exchange.only_result().and_then(|result| self.own_result(result, kind));
        let made_up = !matches!(kind.tool, Some("computer" | "tool_search"));
        let own = own.filter(|_| made_up || given().is_some());
        if own.is_none() {
            kind = Call::FUNCTION;
        }
        let CallSpelling { id, name, as_written: spelled_so } = self.state.spell(item, exchange);
        let as_written = exchange.arguments() == ArgumentsUse::AsWritten;
        if regular && own.is_some() && as_written && spelled_so {
            return (String::new(), true, SentCall { exchange, id, kind });
        }
        if WIRE.is_own(item.message()) && !regular && spelled_so {
            self.state.ledger.irregular(at);
        }
        if let Some(raw) = own.filter(|_| kind != Call::FUNCTION && as_written) {
            // Only ids and names change.
            let mut json = render::with_field(&without_field(raw, "id"), "call_id", &render::quoted(&id));
            if kind.tool.is_none() {
                json = render::with_field(&json, "name", &render::quoted(&name));
            }
            return (json, false, SentCall { exchange, id, kind });
        }
        let arguments = calls::literal(exchange, at, &mut self.state.ledger);
        let json =
            Object::with_room(id.len() + name.len() + arguments.len() + 64).str("type", "function_call");
        let json = json.str("call_id", &id).str("name", &name).raw("arguments", &arguments).finish();
        (json, false, SentCall { exchange, id, kind: Call::FUNCTION })
    }

    fn result(&mut self, SentCall { exchange, id, kind }: &SentCall<'_>) {
        let results: Vec<ResultRef<'_>> = exchange.results().collect();
        self.state.list.source = results.last().map(|result| result.at().0);
        if let Some(result) = exchange.only_result() {
            let message = result.message();
            if !WIRE.is_own(message) {
                self.state.ledger.left_out_fields(message, result.at().0);
            }
            if let Some(raw) = self.own_result(result, *kind) {
                // Its position does not matter; only the id may change.
                let same_id = id == exchange.call().id.as_str();
                let json =
                    if same_id { raw } else { render::with_field(&raw, "call_id", &render::quoted(id)) };
                self.push(&json);
                return;
            }
            if WIRE.is_own(message) && is_regular_item(message) {
                // It answers a call of another kind.
                self.state.ledger.irregular(Position::message(result.at().0));
            }
        }
        let mut parts: Vec<String> = Vec::new();
        let mut only_text = None;
        if results.is_empty() {
            parts.push(part("input_text", sound::NO_RESULT));
            only_text = Some(sound::NO_RESULT.to_owned());
        }
        for result in &results {
            let at = render::position(*result);
            if result.result().is_error && !WIRE.is_own(result.message()) {
                self.state.ledger.error_flag(at);
            }
            for block in &result.result().content {
                only_text = block.as_text().map(|text| text.to_string()).filter(|_| parts.is_empty());
                parts.push(self.part(result.message(), block, at));
            }
            let message = result.message();
            if WIRE.is_own(message) && !is_regular_item(message) {
                self.state.ledger.irregular(Position::message(result.at().0));
            }
        }
        let output = match only_text.filter(|_| parts.len() == 1) {
            Some(text) => render::quoted(&text),
            None if parts.is_empty() => String::from("\"\""),
            None => render::list(parts),
        };
        let json = Object::new().text("type", kind.output).text("call_id", id);
        let json = match kind.tool {
            Some("shell") => json.raw("output", &streams(&results).unwrap_or_else(|| failed_shell(&results))),
            Some("apply_patch") => json.text("output", only_words(&results)).text("status", "failed"),
            Some(_) => json.text("output", only_words(&results)),
            None => json.raw("output", &output),
        };
        self.push(&json.finish());
    }

    /// A result's own item, if it answers this kind of call.
    fn own_result(&self, result: ResultRef<'_>, kind: Call) -> Option<String> {
        let message = result.message();
        let whole = is_regular_item(message) && WIRE.is_own(message) && message.blocks.len() == 1;
        let raw = message.native_block(result.block()).filter(|_| whole)?;
        Doc::of(raw).root()?.says("type", kind.output).then(|| raw.to_owned())
    }

    fn push(&mut self, json: &str) {
        // The API does not know Codex's private field.
        if json.contains(PRIVATE) {
            let json = without_field(json, PRIVATE);
            return self.state.push(&json);
        }
        self.state.push(json);
    }

    fn push_content(&mut self, role: &str, content: &str) {
        self.push(&message_item(role, content));
    }
}

/// Whether the reasoning before a block was left out, for each block of an answer.
fn without_reasoning(message: &Message, pieces: &[Piece]) -> Vec<bool> {
    let kept: HashSet<usize> =
        pieces.iter().filter(|piece| piece.reasoning).map(|piece| piece.block).collect();
    let mut bare = false;
    let blocks = message.blocks.iter().enumerate();
    blocks
        .map(|(index, block)| {
            if matches!(block.kind, BlockKind::Reasoning(_)) {
                bare = !kept.contains(&index);
            }
            bare
        })
        .collect()
}

/// Whether the API demands the id of an item that only it understands.
fn needs_id(opaque: &Opaque) -> bool {
    Hosted::of(&opaque.kind).is_none_or(|known| known.needs_id)
}

/// The id of an item that is a request for approval.
fn approval_asked(raw: &str) -> Option<String> {
    let doc = Doc::of(raw);
    let item = doc.root().filter(|item| item.says("type", "mcp_approval_request"))?;
    Some(item.get("id")?.as_str()?.into_owned())
}

/// The range of blocks of each native item.
fn block_ranges(counts: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    counts
        .scan(0, |next, count| {
            let start = *next;
            *next += count;
            Some(start..*next)
        })
        .collect()
}

/// The bytes of one of a message's items.
fn item_text(native: &Native, number: usize) -> &str {
    native.items[number].span.of(native.raw.as_str()).unwrap_or("{}")
}

/// Whether a message has a single item that may be sent again.
fn is_regular_item(message: &Message) -> bool {
    let items = message.native.as_ref().map_or(&[][..], |native| &native.items);
    matches!(items, [item] if item.regular) && message.blocks.iter().all(|block| WIRE.media.keeps(block))
}
