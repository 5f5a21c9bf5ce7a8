//! The user message with results: first the results of a batch in call order, then the rest of their message.

use super::{
    WIRE,
    pieces::{Json, Piece, write_list},
    write::{Encoder, is_transcript},
};
use crate::wire::prelude::*;

/// A message with results under construction.
#[derive(Clone)]
pub(in super::super) struct Pending {
    pieces: Vec<String>,
    /// The source message of the last result.
    source: Option<(usize, Arc<Message>)>,
    /// How many blocks from the start of that message are unchanged; `None` as soon as one is not.
    exact: Option<usize>,
    /// The message with the last result, in its place or elsewhere.
    last: Option<usize>,
}

impl Pending {
    /// Whether an item is the rest of the source message of the results.
    pub(super) fn joins(&self, item: ItemRef<'_>) -> bool {
        self.source.as_ref().is_some_and(|(index, _)| *index == item.index())
    }

    /// Adds the blocks after the results.
    pub(super) fn add_rest(&mut self, pieces: Vec<Piece<'_>>, all: bool) {
        let exact = all && pieces.iter().all(|piece| piece.exact);
        self.exact = self.exact.filter(|_| exact).map(|count| count + pieces.len());
        self.pieces.extend(pieces.into_iter().map(|piece| piece.json.into_block()));
    }
}

impl Encoder {
    /// Takes the results of an assistant message's calls, in call order.
    pub(super) fn results(&mut self, calls: &[(ExchangeRef<'_>, String)]) {
        let last = calls.iter().flat_map(|(exchange, _)| exchange.results()).last();
        let last = last.map(|result| result.at().0);
        let mut pending = Pending { pieces: Vec::new(), source: None, exact: Some(0), last };
        let mut media = Vec::new();
        for (exchange, id) in calls {
            let before = self.state.ledger.findings.len();
            let (json, exact) = self.result(*exchange, id, &mut media);
            if let Some(result) = exchange.in_place().filter(|result| WIRE.is_own(result.message()) && !exact)
            {
                // It is rewritten; if no finding says why, its form was not the API's.
                if self.state.ledger.findings.len() == before
                    && exchange.renamed().is_none()
                    && id == exchange.call().id.as_str()
                {
                    let at = render::position(result);
                    self.state.ledger.irregular(at);
                }
            }
            pending.pieces.push(json);
            let place = match exchange.in_place() {
                Some(result) => {
                    let (index, block) = result.at();
                    let moved_on = pending.source.as_ref().is_some_and(|(source, _)| *source != index);
                    if moved_on {
                        // A transcript has one line per result; the agent joins them before it sends them.
                        if WIRE.is_own(result.message()) && !is_transcript(result.message()) {
                            let why = "results of one batch go in one message";
                            self.state.ledger.role_order(Position::message(index), Action::Joined, why);
                        }
                        pending.exact = None;
                    }
                    if pending.source.as_ref().is_none_or(|(source, _)| *source != index) {
                        self.seen_source(result.message(), index);
                    }
                    pending.source = Some((index, Arc::clone(result.message())));
                    Some(block)
                }
                None => None,
            };
            // Exact as long as all blocks of one message are sent in order and unchanged.
            pending.exact =
                pending.exact.filter(|count| exact && place == Some(*count)).map(|count| count + 1);
        }
        if !media.is_empty() {
            // Content beside results ends a tool loop, as a user message does.
            self.user_spoke = true;
            pending.exact = None;
            pending.pieces.extend(media);
        }
        self.pending = Some(pending);
    }

    /// Reports the parts of a message with results that are left out. Text beside the results has its own item.
    fn seen_source(&mut self, message: &Message, index: usize) {
        if WIRE.is_own(message) {
            self.irregular(message, index);
        } else {
            self.state.ledger.left_out_fields(message, index);
        }
    }

    fn result(&mut self, exchange: ExchangeRef<'_>, id: &str, media: &mut Vec<String>) -> (String, bool) {
        let results: Vec<ResultRef<'_>> = exchange.results().collect();
        let own = exchange
            .in_place()
            .and_then(|result| Some((result.at(), self.own_result(result, exchange.call(), id)?)));
        if let Some(((message, block), raw)) = own {
            let piece = self.marked(raw, Position::block(message, block));
            return (piece.json.into_block(), piece.exact);
        }
        let block = Object::new().str("type", "tool_result").str("tool_use_id", id);
        if results.is_empty() {
            let block = block.text("content", sound::NO_RESULT).flag("is_error", true);
            return (block.finish(), false);
        }
        let is_error = results.iter().all(|result| result.result().is_error);
        let mut pieces = Vec::new();
        for result in &results {
            let at = render::position(*result);
            for block in &result.result().content {
                let Some(piece) = self.content_piece(result.message(), block, at) else { continue };
                // A failed result must hold only text (ANT-24).
                let is_text =
                    block.as_text().is_some() || matches!(piece.json, Json::Text(_) | Json::SourceText(_));
                if is_text || !is_error {
                    pieces.push(piece.json);
                } else if render::is_media(block) {
                    self.state.ledger.change(Rule::MovedMedia, at, Action::Moved);
                    media.push(piece.json.into_block());
                } else {
                    pieces.push(Json::text(self.state.ledger.as_text(&block.kind, at)));
                }
            }
        }
        let form = results[0].result().form;
        let only = match &results[0].result().content[..] {
            [block] if results.len() == 1 && form == Form::Text && pieces.len() == 1 => Some(block),
            _ => None,
        };
        let block = match only.and_then(|block| block.as_text()) {
            Some(text) => block.with("content", |out| text.write_literal(out)),
            None if pieces.is_empty() => block,
            None => block.with("content", |out| write_list(out, pieces)),
        };
        let block = if is_error { block.flag("is_error", true) } else { block };
        (block.finish(), false)
    }

    /// A result's own bytes, if its id is unchanged and the API accepts it.
    fn own_result<'r>(&self, result: ResultRef<'r>, call: &ToolCall, id: &str) -> Option<&'r str> {
        let raw = WIRE.own_bytes(result.message(), result.block())?;
        let content = &result.result().content;
        let blank = content.iter().any(|block| block.as_text().is_some_and(rejoin_record::Text::is_blank));
        let only_text = content.iter().all(|block| block.as_text().is_some());
        let empty_list = content.is_empty() && result.result().form == Form::Parts;
        let refused = blank || empty_list || (!only_text && result.result().is_error);
        (!refused && id == call.id.as_str()).then_some(raw)
    }

    /// Writes the message with results, if one is open.
    pub(super) fn flush(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let source = std::mem::replace(&mut self.state.list.source, pending.last);
        if let Some((_, message)) = pending
            .source
            .as_ref()
            .filter(|(_, message)| pending.exact == Some(message.blocks.len()) && WIRE.is_regular(message))
        {
            self.push_raw("user", message);
        } else {
            self.push_new("user", pending.pieces.into_iter().map(|json| Json::Block(json.into())));
        }
        self.state.list.source = source;
    }
}
