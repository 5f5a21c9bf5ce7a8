//! Contents with results: each holds the results of one content's calls, in call order, and nothing else.

use super::{
    WIRE,
    edit::{Signing, edited, id_in},
    write::{Call, Encoder, Parts, Speaker},
};
use crate::wire::prelude::*;

impl Encoder {
    /// Writes the results of a content's calls, then a user content with their pictures and documents.
    pub(super) fn results(&mut self, calls: &[Call<'_>]) {
        let mut parts = Vec::new();
        let mut media = Media::default();
        let mut source: Option<(usize, Arc<Message>)> = None;
        // How many blocks of the source are unchanged and in order; `None` as soon as one is not.
        let mut exact = Some(0);
        let ids_agree = self.ids_agree(calls);
        for call in calls {
            let before = self.state.ledger.findings.len();
            let (json, as_written) = self.result(call, ids_agree, &mut media);
            parts.push(json);
            let Some(result) = call.exchange.in_place() else {
                exact = None;
                continue;
            };
            let (index, block) = result.at();
            if WIRE.is_own(result.message())
                && !as_written
                && self.state.ledger.findings.len() == before
                && call.as_written
            {
                // It is rewritten, and no finding says why: its form was not the API's.
                let at = Position::block(index, block);
                self.state.ledger.irregular(at);
            }
            if source.as_ref().is_none_or(|(source, _)| *source != index) {
                if source.is_some() {
                    exact = None;
                    if WIRE.is_own(result.message()) {
                        let why = "results of one content go in one content";
                        self.state.ledger.role_order(Position::message(index), Action::Joined, why);
                    }
                }
                self.seen_source(result.message(), index);
                source = Some((index, Arc::clone(result.message())));
            }
            exact = exact.filter(|_| as_written).map(|count| count + 1);
        }
        let own =
            source.filter(|(_, message)| exact == Some(message.blocks.len()) && WIRE.is_regular(message));
        let parts = own.map_or(Parts::New(parts), |(_, message)| Parts::Own(message));
        self.begin(Speaker::User, parts, None, true);
        if let Some(index) = media.index {
            self.push(Speaker::User, Parts::New(media.parts), index);
        }
    }

    /// Reports the parts of a message with results that are left out. Text beside the results has its own item.
    fn seen_source(&mut self, message: &Message, index: usize) {
        if WIRE.is_own(message) {
            self.irregular(message, index);
        } else {
            self.state.ledger.left_out_fields(message, index);
        }
    }

    /// The only result of a call, and its own bytes.
    fn own_result<'i>(&self, call: &Call<'i>) -> Option<(ResultRef<'i>, &'i str)> {
        let only = call.exchange.only_result()?;
        Some((only, WIRE.own_bytes(only.message(), only.block())?))
    }

    /// Whether the ids in the results' own bytes may stay. Ids are optional on both sides, so they have to match their calls', or
    /// one side has none at all. An id that another call got meanwhile would answer that call.
    fn ids_agree(&self, calls: &[Call<'_>]) -> bool {
        let written = |call: &Call<'_>| match self.own_result(call) {
            Some((_, raw)) => id_in(raw),
            None => call.id.clone(),
        };
        let ids: Vec<Option<String>> = calls.iter().map(written).collect();
        calls.iter().zip(&ids).all(|(call, id)| call.id == *id)
            || ids.iter().all(Option::is_none)
            || (calls.iter().all(|call| call.id.is_none() && call.as_written)
                && !ids.iter().flatten().any(|id| self.derived_ids.contains(id)))
    }

    /// Writes the result of a call; also returns whether it is verbatim.
    fn result(&mut self, call: &Call<'_>, ids_agree: bool, media: &mut Media) -> (String, bool) {
        if let Some((result, raw)) = self.own_result(call) {
            return self.answer(result, raw, call, ids_agree);
        }
        let results: Vec<ResultRef<'_>> = call.exchange.results().collect();
        let failed = results.iter().all(|result| result.result().is_error);
        let field = if failed { "error" } else { "output" };
        let texts = match &results[..] {
            [] => vec![sound::NO_RESULT.to_owned()],
            results => self.texts(results, media),
        };
        let response = match &texts[..] {
            [] => Object::new().text(field, ""),
            [text] => Object::new().text(field, text),
            texts => Object::new().list(field, texts.iter().map(|text| render::quoted(text))),
        };
        let answer = Object::new().text_if("id", call.id.as_ref()).text("name", &call.name);
        (Object::new().object("functionResponse", answer.object("response", response)).finish(), false)
    }

    /// A result's own bytes, with the name of its call, and with its id if that changed.
    fn answer(
        &mut self,
        result: ResultRef<'_>,
        raw: &str,
        call: &Call<'_>,
        ids_agree: bool,
    ) -> (String, bool) {
        let named = result.result().name.as_deref() == Some(call.name.as_str());
        let fits = ids_agree || id_in(raw) == call.id;
        if named && fits {
            return (raw.to_owned(), true);
        }
        if !named && call.as_written {
            let at = render::position(result);
            let renamed = self.state.ledger.change(Rule::IrregularContent, at, Action::Renamed);
            renamed.of_tool(&result.result().name).because("it does not name the tool of its call");
        }
        let mut fields = vec![("name", Some(render::quoted(&call.name)))];
        if !fits {
            fields.push(("id", call.id.as_deref().map(render::quoted)));
        }
        (edited(raw, Signing::Kept, &fields), false)
    }

    /// The texts of results; pictures and documents go into `media`.
    fn texts(&mut self, results: &[ResultRef<'_>], media: &mut Media) -> Vec<String> {
        let mut texts = Vec::new();
        for result in results {
            let at = render::position(*result);
            for content in &result.result().content {
                match &content.kind {
                    BlockKind::Text(text) if text.is_empty() => {}
                    BlockKind::Text(text) => {
                        self.state.ledger.lossy(text, at);
                        texts.push(text.to_string());
                    }
                    BlockKind::Reasoning(_) => self.state.ledger.foreign_reasoning(at),
                    _ if render::is_media(content) && WIRE.media.keeps(content) => {
                        if let Some(piece) = self.piece(result.message(), content, at, false) {
                            self.state.ledger.change(Rule::MovedMedia, at, Action::Moved);
                            media.parts.push(piece.json.into_owned());
                            media.index = Some(result.at().0);
                        }
                    }
                    other => texts.push(self.state.ledger.as_text(other, at)),
                }
            }
        }
        texts
    }
}

/// Pictures and documents of results.
#[derive(Default)]
struct Media {
    parts: Vec<String>,
    /// The source message of the last one.
    index: Option<usize>,
}
