//! Encoding for OpenAI Chat: one forward pass over the view. Messages in this dialect are sent byte for byte where the API
//! accepts them. The fields around the messages are in `around.rs`.

use std::borrow::Cow;

use rejoin_record::{Role, limits};

use super::WIRE;
use crate::{
    messages::{REASONING_FIELDS, roles::is_among},
    wire::{prelude::*, render::ChatContent},
};

const CALLS: usize = 128;

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    let mut state = EncoderState::new(&WIRE, settings);
    // In this dialect, reasoning does not depend on the names of tools.
    state.ledger = Ledger::new(state.keeps_reasoning, WIRE.media);
    pass::begun(Encoder { state, fields_of: None, voice: None, calls_lack_reasoning: false })
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) state: EncoderState,
    /// The last message whose other fields were written.
    fields_of: Option<usize>,
    /// The fields beside the content of the last message.
    voice: Option<(usize, Voice)>,
    /// Whether some message with calls is sent without the reasoning behind them.
    pub(super) calls_lack_reasoning: bool,
}

impl Pass for Encoder {
    with_state!();

    fn surroundings(&mut self) -> Surroundings {
        self.around()
    }

    fn say(&mut self, text: &str, _: usize) {
        self.state.push(&render::message("user", &render::quoted(text)));
    }

    fn system(&mut self, item: ItemRef<'_>) {
        self.speaker(if item.role() == SoundRole::System { "system" } else { "developer" }, item);
    }

    fn instruct(&mut self, texts: Vec<String>) {
        let content = ChatContent::of(&texts).into_json().unwrap_or_default();
        self.state.push(&render::message("system", &content));
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        self.speaker("user", item);
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        let message: &Message = item.message();
        let own = WIRE.is_own(message);
        let mut content = ChatContent::default();
        let mut calls: Vec<Call<'_>> = Vec::new();
        // Whether plain and sealed reasoning of the message is sent with this item.
        let mut kept_reasoning = [false; 2];
        let mut left_out_reasoning = false;
        // A message may be split over many items, but its native item is read once.
        let voice = match self.voice {
            Some((index, voice)) if index == item.index() => voice,
            _ if own => voice_of(message),
            _ => Voice::default(),
        };
        self.voice = Some((item.index(), voice));
        let mut speaks_otherwise = own && voice.speaks;
        for (part_place, part) in item.parts().enumerate() {
            match part {
                PartRef::Block(block, kind) => {
                    let at = Position::block(item.index(), block);
                    match &kind.kind {
                        BlockKind::Reasoning(reasoning) => {
                            let intact = self.state.ledger.is_intact(place, part_place);
                            let ours = reasoning.origin.dialect.as_deref() == Some(WIRE.name);
                            let keeps = ours && self.state.keeps_reasoning;
                            let intact = keeps && (intact || !reasoning.sealed);
                            if own && self.replays(reasoning, intact, true) {
                                kept_reasoning[usize::from(reasoning.sealed)] = true;
                            } else {
                                left_out_reasoning = true;
                                self.state.ledger.foreign_reasoning(at);
                            }
                        }
                        // A refusal beside the content stays there.
                        BlockKind::Text(_)
                            if WIRE.own_bytes(message, kind).is_some_and(|raw| raw.starts_with('"')) =>
                        {
                            speaks_otherwise = true;
                        }
                        BlockKind::Text(_) => self.part(&mut content, message, kind, "assistant", at),
                        other => content.text(&self.state.ledger.as_text(other, at)),
                    }
                }
                PartRef::Exchange(exchange) => calls.push(self.call(item, exchange)),
                PartRef::Orphan(..) => {}
            }
        }
        self.calls_lack_reasoning |= !calls.is_empty() && kept_reasoning == [false; 2];
        let exact = calls.iter().all(|call| call.exact) && !left_out_reasoning && calls.len() <= CALLS;
        if item.is_complete() && self.is_regular(message) && exact {
            self.push_raw(message);
            self.results(&calls);
            return;
        }
        let content_json = content.into_json();
        if content_json.is_none() && calls.is_empty() && !speaks_otherwise {
            self.state.ledger.nothing_left(Position::message(item.index()));
            return;
        }
        if item.is_complete() && own && !self.is_regular(message) {
            self.state.ledger.irregular(Position::message(item.index()));
        }
        if calls.len() > CALLS {
            let at = Position::message(item.index());
            let split = self.state.ledger.change(Rule::SplitBatch, at, Action::Replaced);
            split.because(format!("{} calls", calls.len()));
        }
        let mut fields: Vec<Field<'_>> = vec![("role", Some("\"assistant\"".into()))];
        fields.push(("content", Some(content_json.map_or(Cow::Borrowed("null"), Cow::Owned))));
        for block in message.blocks.iter().filter(|_| own) {
            if let BlockKind::Reasoning(reasoning) = &block.kind
                && !kept_reasoning[usize::from(reasoning.sealed)]
            {
                let gone = REASONING_FIELDS.iter().filter(|(_, sealed)| *sealed == reasoning.sealed);
                fields.extend(gone.map(|(name, _)| (*name, None)));
            }
        }
        fields.push(("function_call", None));
        fields.extend(voice.refusal.then_some(("refusal", None)));
        fields.extend(voice.audio.then_some(("audio", None)));
        // Other fields are sent once, with the first item of their message, and only under its own role.
        let first = self.fields_of.replace(item.index()) != Some(item.index());
        let mut source = (own && first && message.role == Role::Assistant).then_some(message);
        if calls.is_empty() {
            fields.push(("tool_calls", None));
            self.push_fields(source, &fields);
            return;
        }
        while !calls.is_empty() {
            let rest = calls.split_off(calls.len().min(CALLS));
            fields.retain(|(name, _)| *name != "tool_calls");
            fields.push(("tool_calls", Some(render::list(calls.iter().map(|call| &call.json)).into())));
            self.push_fields(source.take(), &fields);
            self.results(&calls);
            // The text is sent once; the next message holds only calls.
            fields = vec![("role", Some("\"assistant\"".into())), ("content", Some("null".into()))];
            calls = rest;
        }
    }
}

/// A field of a message and its JSON; without JSON, the source's field of this name is left out.
type Field<'f> = (&'f str, Option<Cow<'f, str>>);

/// A call that is ready to be sent.
struct Call<'i> {
    exchange: ExchangeRef<'i>,
    id: String,
    json: String,
    exact: bool,
}

impl Encoder {
    fn speaker(&mut self, role: &'static str, item: ItemRef<'_>) {
        let message = item.message();
        if item.is_complete() && self.is_regular(message) {
            self.push_raw(message);
            return;
        }
        let mut content = ChatContent::default();
        for (at, piece) in item.parts().flat_map(|part| render::pieces(part, item.index())) {
            match piece {
                ItemPiece::Block(block) => self.part(&mut content, message, block, role, at),
                ItemPiece::Label(text) => content.text(&text),
            }
        }
        let is_empty = content.is_empty();
        if is_empty && !self.stands_empty(item) {
            return;
        }
        let json = content.into_json().unwrap_or_else(|| String::from("\"\""));
        if item.is_complete() && WIRE.is_own(message) && !is_empty {
            self.state.ledger.irregular(Position::message(item.index()));
        }
        // Other fields of the source's message stay, unless it was split.
        let whole = item.is_complete() && WIRE.is_own(message);
        let mut fields = vec![
            ("role", Some(render::quoted(role).into())),
            ("content", Some(json.into())),
            ("tool_calls", None),
            ("function_call", None),
        ];
        // Only the model refuses: under another role, the text of the field is part of the content now.
        let refuses = whole
            && Doc::of(message.native_text())
                .root()
                .is_some_and(|root| root.holds("refusal", ValueKind::String));
        fields.extend(refuses.then_some(("refusal", None)));
        self.push_fields(whole.then_some(message), &fields);
    }

    /// Adds a block to the content of a message.
    fn part(
        &mut self,
        content: &mut ChatContent,
        message: &Message,
        block: &Block,
        role: &str,
        at: Position,
    ) {
        let user = role == "user";
        match &block.kind {
            BlockKind::Text(text) => {
                self.state.ledger.lossy(text, at);
                let own = WIRE.own_bytes(message, block).filter(|raw| raw.starts_with('{'));
                content.source_text(text, own);
            }
            BlockKind::Reasoning(_) => {
                self.state.ledger.foreign_reasoning(at);
            }
            kind @ (BlockKind::Image(_) | BlockKind::Document(_)) if user => {
                let own = WIRE.own_bytes(message, block).map(str::to_owned);
                match own.or_else(|| media_part(kind, WIRE.is_own(message))) {
                    Some(part) => content.part(part),
                    None => content.text(&self.state.ledger.as_text(kind, at)),
                }
            }
            BlockKind::Opaque(_) if user => match WIRE.own_bytes(message, block).map(str::to_owned) {
                Some(raw) => content.part(raw),
                None => content.text(&self.state.ledger.as_text(&block.kind, at)),
            },
            kind => content.text(&self.state.ledger.as_text(kind, at)),
        }
    }

    fn call<'i>(&mut self, item: ItemRef<'i>, exchange: ExchangeRef<'i>) -> Call<'i> {
        let at = Position::block(item.index(), exchange.block());
        let spelled = self.state.spell(item, exchange);
        let block = &item.message().blocks[exchange.block()];
        let as_written = spelled.as_written && exchange.arguments() == ArgumentsUse::AsWritten;
        let own = WIRE.own_bytes(item.message(), block).filter(|_| as_written);
        let json = match own {
            Some(raw) => raw.to_owned(),
            None => calls::function_call(&spelled, exchange, at, &mut self.state.ledger),
        };
        Call { exchange, id: spelled.id, json, exact: own.is_some() }
    }

    /// Writes the results of a batch, one message each, then a user message with their media.
    fn results(&mut self, calls: &[Call<'_>]) {
        let mut media = ChatContent::default();
        for Call { exchange, id, .. } in calls {
            let results: Vec<ResultRef<'_>> = exchange.results().collect();
            if let Some(result) = exchange.in_place() {
                let message = result.message();
                if !WIRE.is_own(message) {
                    self.state.ledger.left_out_fields(message, result.at().0);
                }
                if message.blocks.len() == 1 && self.is_regular(message) && id == exchange.call().id.as_str()
                {
                    self.push_raw(message);
                    continue;
                }
            }
            let mut content = ChatContent::default();
            if results.is_empty() {
                content.text(sound::NO_RESULT);
            }
            for result in &results {
                let at = render::position(*result);
                if result.result().is_error && !WIRE.is_own(result.message()) {
                    self.state.ledger.error_flag(at);
                }
                for block in &result.result().content {
                    if render::is_media(block) {
                        let Some(part) = media_part(&block.kind, WIRE.is_own(result.message())) else {
                            content.text(&self.state.ledger.as_text(&block.kind, at));
                            continue;
                        };
                        self.state.ledger.change(Rule::MovedMedia, at, Action::Moved).about(id.as_str());
                        content.text("[shown in the next user message]");
                        media.text(&format!("[from the result of call {id}]"));
                        media.part(part);
                    } else {
                        self.part(&mut content, result.message(), block, "tool", at);
                    }
                }
            }
            let json = content.into_json().map_or(Cow::Borrowed("\"\""), Cow::Owned);
            let fields = [
                ("role", Some("\"tool\"".into())),
                ("tool_call_id", Some(render::quoted(id).into())),
                ("content", Some(json)),
                ("tool_calls", None),
                ("function_call", None),
            ];
            let source = match &results[..] {
                [only] if only.message().blocks.len() == 1 => Some(only.message()),
                _ => None,
            };
            let source = source.filter(|message| WIRE.is_own(message));
            if source.is_some_and(|message| !self.is_regular(message)) {
                self.state.ledger.irregular(Position::message(results[0].at().0));
            }
            self.push_fields(source.map(|message| &**message), &fields);
        }
        if let Some(json) = media.into_json() {
            self.state.push(&render::message("user", &json));
        }
    }

    fn is_regular(&self, message: &Message) -> bool {
        WIRE.is_regular(message) && !(self.is_stored() && has_own_fields(message))
    }

    /// Whether the messages come from a file that a program stored. That program's own fields are not part of a request; in a
    /// request body, all fields are the caller's.
    fn is_stored(&self) -> bool {
        let context = &self.state.target.context;
        context.dialect == Some(WIRE.dialect) && !context.whole_body && !context.bare_list
    }

    fn push_raw(&mut self, message: &Message) {
        self.state.push(message.native_text());
    }

    /// Writes a message with these fields; every other field of the source's message stays.
    fn push_fields(&mut self, source: Option<&Message>, fields: &[Field<'_>]) {
        let length = |(name, json): &Field<'_>| {
            json.as_ref().map_or(0, |json| name.len() + json.len() + r#","":"#.len())
        };
        let mut out = String::with_capacity(fields.iter().map(length).sum::<usize>() + 2);
        out.push('{');
        let mut written: Vec<&str> = Vec::new();
        let doc = source.map(|message| Doc::of(message.native_text()));
        for (key, value) in doc.iter().filter_map(Doc::root).flat_map(Value::fields) {
            let name = key.as_str().unwrap_or_default();
            match fields.iter().find(|(field, _)| *field == name) {
                Some((field, _)) if written.contains(field) => {}
                Some((field, Some(json))) => {
                    written.push(field);
                    write::key(&mut out, &name);
                    out.push_str(json);
                }
                Some((_, None)) => {}
                None if name == "tool_use_id"
                    || (name == "id" && source.is_some_and(|m| m.role == Role::Tool)) => {}
                None if value.is_deeper_than(limits::NESTING) => {
                    let at = Position::message(self.state.current);
                    let note = self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut);
                    note.about(&*name).because("it is nested too deep");
                }
                None if self.is_stored() && is_own_field(&name) => {
                    let at = Position::message(self.state.current);
                    self.state.ledger.note(Rule::UnknownField, at, Action::LeftOut).about(&*name);
                }
                None => {
                    write::key(&mut out, &name);
                    write::clean_copy(&mut out, value.raw());
                }
            }
        }
        for (field, json) in fields {
            if let Some(json) = json.as_ref().filter(|_| !written.contains(field)) {
                write::key(&mut out, field);
                out.push_str(json);
            }
        }
        out.push('}');
        self.state.push(&out);
    }
}

/// The fields beside the content of a message in this dialect.
#[derive(Clone, Copy, Default)]
struct Voice {
    /// Whether they hold a refusal or audio in place of the content.
    speaks: bool,
    /// Whether a refusal or audio has a form that the API refuses.
    refusal: bool,
    audio: bool,
}

fn voice_of(message: &Message) -> Voice {
    let doc = Doc::of(message.native_text());
    let root = doc.root();
    let field = |name| root.and_then(|root| root.given(name)).map(Value::kind);
    let (refusal, audio) = (field("refusal"), field("audio"));
    Voice {
        speaks: message.form != Form::Text
            && (audio == Some(ValueKind::Object) || refusal == Some(ValueKind::String)),
        refusal: refusal.is_some_and(|kind| kind != ValueKind::String),
        audio: audio.is_some_and(|kind| kind != ValueKind::Object),
    }
}

/// An image or document as a part of a user message; `None` if the API cannot take it.
fn media_part(kind: &BlockKind, own: bool) -> Option<String> {
    let usable = WIRE.media.judge(kind).ok()?;
    let BlockKind::Document(media) = kind else {
        let url = render::image_url(&usable)?;
        let image = Object::new().text("type", "image_url");
        return Some(image.object("image_url", Object::new().text("url", url)).finish());
    };
    if matches!(usable, UsableMedia::Address(_)) {
        return None;
    }
    let file = render::file_fields(Object::new(), media, &usable, own)?;
    Some(Object::new().text("type", "file").object("file", file).finish())
}

/// Whether a field of a message is neither the API's nor accepted by servers of this dialect.
fn is_own_field(name: &str) -> bool {
    const TAKEN: &str = "role content name tool_calls tool_call_id function_call refusal audio annotations prefix \
                         cache_control";
    !is_among(name, TAKEN) && !REASONING_FIELDS.iter().any(|(field, _)| *field == name)
}

/// Whether a message has a field of the program that stored it.
fn has_own_fields(message: &Message) -> bool {
    let doc = Doc::of(
        message.native.as_ref().filter(|native| native.more).map_or("", |native| native.raw.as_str()),
    );
    let mut fields = doc.root().into_iter().flat_map(Value::fields);
    fields.any(|(key, _)| is_own_field(&key.as_str().unwrap_or_default()))
}
