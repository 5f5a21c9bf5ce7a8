//! Encoding for OpenAI Chat: one forward pass over the view. What the dialect takes goes out byte for byte. The fields around
//! the messages are in `around.rs`.

use std::sync::Arc;

use rejoin_record::{
    Block, BlockKind, Form, Message, Reasoning, Role, Text, ToolCall,
    json::{Doc, Kind, Value, write},
    limits,
};
use rejoin_view::{
    Action, ArgumentsUse, ExchangeRef, Finding, ItemRef, Position, ResultRef, Rule, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    TooLarge,
    body::{seen_before, write_around},
    calls,
    names::{Spelled, Spelling, wire_name},
    outline::{Encode, Outline, Pass},
    registry::Dialect,
    render::{self, Content, Ledger},
    scroll::Scroll,
};
use crate::{
    chat::REASONING_FIELDS,
    convert::{Bond, Settings},
    media::Usable,
};

const ID_LENGTH: usize = 40;
pub(super) const NAME_LENGTH: usize = 64;
const CALLS: usize = 128;
const TOOLS: usize = 128;
const TEXT_CHARS: usize = 10_485_760;
const FORMAT: &str = "openai-chat";

pub(super) fn encoder(settings: &Arc<Settings>, _: &SoundView) -> Box<dyn Encode> {
    let keeps_reasoning = settings.keeps_reasoning_of(Dialect::OpenAiChat);
    let mut encoder = Encoder {
        target: Arc::clone(settings),
        same: settings.context.dialect == Some(Dialect::OpenAiChat),
        keeps_reasoning,
        list: Scroll::default(),
        ledger: Ledger::new(keeps_reasoning, super::MEDIA),
        spelling: Spelling::new(|id| !id.is_empty() && id.chars().count() <= ID_LENGTH, NAME_LENGTH),
        fields_of: None,
        voice: None,
        too_large: None,
        current: 0,
        before: None,
        calls_lack_reasoning: false,
    };
    encoder.instructions();
    Box::new(encoder)
}

#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) target: Arc<Settings>,
    pub(super) same: bool,
    keeps_reasoning: bool,
    list: Scroll,
    pub(super) ledger: Ledger,
    spelling: Spelling,
    /// The message whose other fields went out last.
    fields_of: Option<usize>,
    /// What the message that was seen last says outside its content.
    voice: Option<(usize, Voice)>,
    /// The first text that is longer than the provider takes.
    too_large: Option<TooLarge>,
    /// The source message that is being written.
    current: usize,
    /// What a model sees before every message, once that is decided.
    before: Option<Arc<str>>,
    /// Some message with calls goes out without the reasoning that led to them.
    pub(super) calls_lack_reasoning: bool,
}

impl Pass for Encoder {
    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn take(&mut self, place: usize, item: ItemRef<'_>) {
        if !is_own(item.message()) {
            self.ledger.left_out_fields(item.message(), item.index());
        }
        self.current = item.index();
        match item.role() {
            SoundRole::System => self.speaker("system", item),
            SoundRole::Developer => self.speaker("developer", item),
            SoundRole::User => self.speaker("user", item),
            SoundRole::Assistant => self.assistant(place, item),
        }
    }

    fn share(&mut self) {
        self.list.settle();
        self.spelling.settle();
    }

    fn end(mut self, _: &SoundView) -> Result<Outline, TooLarge> {
        if self.list.is_empty() {
            let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
            self.ledger.change(finding.because("a request needs a message"));
            let opening = render::literal(render::OPENING);
            self.push(&format!("{{\"role\":\"user\",\"content\":{opening}}}"));
        }
        let tools = self.target.context.tools();
        let (what, limit) = ("the number of tools", TOOLS);
        let too_many = TooLarge { rule: "OAC-11", what, size: tools.len(), limit, at: Position::default() };
        if let Some(error) = self.too_large.take().or((tools.len() > TOOLS).then_some(too_many)) {
            return Err(error);
        }
        let prefix = self.prefix();
        let around = self.surroundings();
        let mut findings = std::mem::take(&mut self.ledger.findings);
        let (head, tail) = write_around(&self.target, Dialect::OpenAiChat, around, &mut findings);
        let (ids, names) = self.spelling.renamed();
        let (ids, names) = (ids.clone(), names.renamed(&tools, |name| wire_name(name, NAME_LENGTH)));
        Ok(Outline { head, list: Some(self.list), tail, findings, ids, names, prefix, marked: false })
    }
}

/// A call that is ready to go out.
struct Call<'i> {
    exchange: ExchangeRef<'i>,
    call: &'i ToolCall,
    id: String,
    json: String,
    exact: bool,
}

impl Encoder {
    /// Instructions that stand outside the list come first: the conversation's own, then another dialect's.
    fn instructions(&mut self) {
        if let Some(text) = self.target.context.own_instructions().map(|text| render::literal(text)) {
            self.push(&format!("{{\"role\":\"system\",\"content\":{text}}}"));
        }
        if self.same {
            return;
        }
        let mut content = Content::default();
        for piece in self.target.context.system().iter().filter(|piece| !piece.text.is_blank()) {
            content.text(&piece.text);
        }
        if self.target.context.system_is_lossy() {
            self.ledger.change(Finding::new(Rule::LoneSurrogate, Position::default(), Action::Replaced));
        }
        if let Some(json) = content.json() {
            self.push(&format!("{{\"role\":\"system\",\"content\":{json}}}"));
        }
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let before = self.before.take().unwrap_or_else(|| {
            let mut copy = Self { ledger: Ledger::new(true, super::MEDIA), ..self.clone() };
            let around = copy.surroundings();
            seen_before(&self.target, Dialect::OpenAiChat, &around).into()
        });
        self.list.prefix(self.before.insert(before), None)
    }

    /// Whether reasoning goes out with its message.
    fn replays(&mut self, reasoning: &Reasoning, intact: bool) -> bool {
        let ours = reasoning.origin.dialect.as_deref() == Some(FORMAT);
        match self.target.bond(reasoning, Dialect::OpenAiChat) {
            Bond::Elsewhere => false,
            Bond::Issuer => true,
            Bond::Source => ours && self.keeps_reasoning && (intact || !reasoning.sealed),
            Bond::Prefix(prefix) => self.prefix() == prefix,
        }
    }

    fn speaker(&mut self, role: &'static str, item: ItemRef<'_>) {
        let message = item.message();
        if item.is_complete() && self.is_regular(message) {
            self.push_raw(message);
            return;
        }
        let mut content = Content::default();
        for part in item.parts() {
            match part {
                PartRef::Block(block, kind) => {
                    let at = Position::block(item.index(), block);
                    self.part(&mut content, message, kind, role, at);
                }
                PartRef::Orphan(block, result) => {
                    content.text(&render::orphan_text(result));
                    let at = Position::block(item.index(), block);
                    for kind in result.content.iter().filter(|block| is_media(block)) {
                        self.part(&mut content, message, kind, role, at);
                    }
                }
                PartRef::Exchange(..) => {}
            }
        }
        if content.parts.is_empty() && matches!(message.role, Role::Other(_)) {
            // Under a role that nobody knows, and nothing in it: nothing was said.
            let finding = Finding::new(Rule::EmptyMessage, Position::message(item.index()), Action::LeftOut);
            self.ledger.change(finding);
            return;
        }
        let json = content.json().unwrap_or_else(|| {
            let finding = Finding::new(Rule::EmptyMessage, Position::message(item.index()), Action::Replaced);
            self.ledger.change(finding);
            String::from("\"\"")
        });
        if item.is_complete() && is_own(message) && !content.parts.is_empty() {
            let finding =
                Finding::new(Rule::IrregularContent, Position::message(item.index()), Action::Replaced);
            self.ledger.note(finding);
        }
        let role_json = render::literal(role);
        // Other fields of the source's own message stay, unless the message was taken apart.
        let whole = item.is_complete() && is_own(message);
        let fields = [
            ("role", Some(role_json)),
            ("content", Some(json)),
            ("tool_calls", None),
            ("function_call", None),
        ];
        self.push_fields(whole.then_some(message), &fields);
    }

    /// Adds a block to the content of a message that is not the model's.
    fn part(&mut self, content: &mut Content, message: &Message, block: &Block, role: &str, at: Position) {
        let user = role == "user";
        match &block.kind {
            BlockKind::Text(text) => {
                self.ledger.lossy(text, at);
                match self.own_bytes(message, block).filter(|raw| raw.starts_with('{')) {
                    Some(raw) => content.parts.push((raw.to_owned(), Some(text.to_string()))),
                    None => content.text(text),
                }
            }
            BlockKind::Reasoning(_) => {
                self.ledger.change(Finding::new(Rule::ForeignReasoning, at, Action::LeftOut));
            }
            kind @ (BlockKind::Image(_) | BlockKind::Document(_)) if user => {
                let own = self.own_bytes(message, block).map(str::to_owned);
                match own.or_else(|| media_part(kind, is_own(message))) {
                    Some(part) => content.part(part),
                    None => content.text(&self.ledger.as_text(kind, at)),
                }
            }
            BlockKind::Opaque(_) if user => match self.own_bytes(message, block).map(str::to_owned) {
                Some(raw) => content.part(raw),
                None => content.text(&self.ledger.as_text(&block.kind, at)),
            },
            kind => content.text(&self.ledger.as_text(kind, at)),
        }
    }

    fn assistant(&mut self, place: usize, item: ItemRef<'_>) {
        let message: &Message = item.message();
        let own = is_own(message);
        let mut content = Content::default();
        let mut calls: Vec<Call<'_>> = Vec::new();
        // Which reasoning of the message goes out with this item: sealed, or plain.
        let mut kept_reasoning = [false; 2];
        let mut left_out_reasoning = false;
        // A message may be shown in many pieces; its own item is looked at once.
        let voice = match self.voice {
            Some((index, voice)) if index == item.index() => voice,
            _ => voice_of(message),
        };
        self.voice = Some((item.index(), voice));
        let mut speaks_otherwise = own && voice.speaks;
        for (part_place, part) in item.parts().enumerate() {
            match part {
                PartRef::Block(block, kind) => {
                    let at = Position::block(item.index(), block);
                    match &kind.kind {
                        BlockKind::Reasoning(reasoning) => {
                            let intact = self.ledger.is_intact(place, part_place);
                            if own && self.replays(reasoning, intact) {
                                kept_reasoning[usize::from(reasoning.sealed)] = true;
                            } else {
                                left_out_reasoning = true;
                                self.ledger.change(Finding::new(Rule::ForeignReasoning, at, Action::LeftOut));
                            }
                        }
                        // A refusal beside the content stays where it is.
                        BlockKind::Text(_)
                            if self.own_bytes(message, kind).is_some_and(|raw| raw.starts_with('"')) =>
                        {
                            speaks_otherwise = true;
                        }
                        BlockKind::Text(_) => self.part(&mut content, message, kind, "assistant", at),
                        other => content.text(&self.ledger.as_text(other, at)),
                    }
                }
                PartRef::Exchange(exchange, call) => calls.push(self.call(item, exchange, call)),
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
        let content_json = content.json();
        if content_json.is_none() && calls.is_empty() && !speaks_otherwise {
            let finding = Finding::new(Rule::EmptyMessage, Position::message(item.index()), Action::LeftOut);
            self.ledger.change(finding);
            return;
        }
        if item.is_complete() && own && !self.is_regular(message) {
            let finding =
                Finding::new(Rule::IrregularContent, Position::message(item.index()), Action::Replaced);
            self.ledger.note(finding);
        }
        if calls.len() > CALLS {
            let finding = Finding::new(Rule::SplitBatch, Position::message(item.index()), Action::Replaced);
            self.ledger.change(finding.because(format!("{} calls", calls.len())));
        }
        let mut fields: Vec<(&str, Option<String>)> = vec![("role", Some(String::from("\"assistant\"")))];
        fields.push(("content", Some(content_json.unwrap_or_else(|| String::from("null")))));
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
        // Other fields go once, with the first piece of their message, and only under its own role.
        let first = self.fields_of.replace(item.index()) != Some(item.index());
        let mut source = (own && first && message.role == Role::Assistant).then_some(message);
        if calls.is_empty() {
            fields.push(("tool_calls", None));
            self.push_fields(source, &fields);
            return;
        }
        while !calls.is_empty() {
            let rest = calls.split_off(calls.len().min(CALLS));
            let mut list = String::new();
            render::array(&mut list, calls.iter().map(|call| call.json.as_str()));
            fields.retain(|(name, _)| *name != "tool_calls");
            fields.push(("tool_calls", Some(list)));
            self.push_fields(source.take(), &fields);
            self.results(&calls);
            // What was said is said once; the next message holds calls only.
            fields =
                vec![("role", Some(String::from("\"assistant\""))), ("content", Some(String::from("null")))];
            calls = rest;
        }
    }

    fn call<'i>(&mut self, item: ItemRef<'i>, exchange: ExchangeRef<'i>, call: &'i ToolCall) -> Call<'i> {
        let at = Position::block(item.index(), exchange.block());
        let Spelled { id, name, as_written: spelled_so, .. } =
            self.spelling.of(exchange, call, at, &mut self.ledger);
        let block = &item.message().blocks[exchange.block()];
        let as_written = exchange.arguments() == ArgumentsUse::AsWritten;
        if let Some(raw) = self.own_bytes(item.message(), block)
            && as_written
            && spelled_so
        {
            return Call { exchange, call, id, json: raw.to_owned(), exact: true };
        }
        let json = calls::function_call(&id, &name, exchange, call, at, &mut self.ledger);
        Call { exchange, call, id, json, exact: false }
    }

    /// The results of a batch, one message each, then whatever media they hold.
    fn results(&mut self, calls: &[Call<'_>]) {
        let mut media = Content::default();
        for Call { exchange, call, id, .. } in calls {
            let results: Vec<ResultRef<'_>> = exchange.results().collect();
            if let Some(result) = exchange.in_place() {
                let message = result.message();
                if !is_own(message) {
                    self.ledger.left_out_fields(message, result.at().0);
                }
                if message.blocks.len() == 1 && self.is_regular(message) && id == call.id.as_str() {
                    self.push_raw(message);
                    continue;
                }
            }
            let mut content = Content::default();
            if results.is_empty() {
                content.text(sound::NO_RESULT);
            }
            for result in &results {
                let at = Position::block(result.at().0, result.at().1);
                if result.result().is_error && !is_own(result.message()) {
                    let finding = Finding::new(Rule::ForeignField, at, Action::LeftOut);
                    self.ledger.note(finding.about("is_error"));
                }
                for block in &result.result().content {
                    if is_media(block) {
                        let Some(part) = media_part(&block.kind, is_own(result.message())) else {
                            content.text(&self.ledger.as_text(&block.kind, at));
                            continue;
                        };
                        self.ledger
                            .change(Finding::new(Rule::MovedMedia, at, Action::Moved).about(id.as_str()));
                        content.text("[shown in the next user message]");
                        media.text(&format!("[from the result of call {id}]"));
                        media.part(part);
                    } else {
                        self.part(&mut content, result.message(), block, "tool", at);
                    }
                }
            }
            let json = content.json().unwrap_or_else(|| String::from("\"\""));
            let fields = [
                ("role", Some(String::from("\"tool\""))),
                ("tool_call_id", Some(render::literal(id))),
                ("content", Some(json)),
                ("tool_calls", None),
                ("function_call", None),
            ];
            let source = match &results[..] {
                [only] if only.message().blocks.len() == 1 && is_own(only.message()) => Some(only.message()),
                _ => None,
            };
            if source.is_some_and(|message| !self.is_regular(message)) {
                let at = Position::message(results[0].at().0);
                self.ledger.note(Finding::new(Rule::IrregularContent, at, Action::Replaced));
            }
            self.push_fields(source.map(|message| &**message), &fields);
        }
        if let Some(json) = media.json() {
            self.push(&format!("{{\"role\":\"user\",\"content\":{json}}}"));
        }
    }

    fn is_regular(&self, message: &Message) -> bool {
        is_own(message)
            && message.native.as_ref().is_some_and(|native| native.regular)
            && message.blocks.iter().all(|block| super::MEDIA.keeps(block))
            && !(self.is_stored() && has_own_fields(message))
    }

    /// Whether the messages come from a file that some program stored. What that program keeps beside a message is no part of a
    /// request; in a request, the fields of a message are the caller's.
    fn is_stored(&self) -> bool {
        let context = &self.target.context;
        context.dialect == Some(Dialect::OpenAiChat) && !context.whole_body && !context.bare_list
    }

    /// The source's own bytes of a block, if they may be sent again.
    fn own_bytes<'i>(&self, message: &'i Message, block: &'i Block) -> Option<&'i str> {
        if is_own(message) && super::MEDIA.keeps(block) { message.native_block(block) } else { None }
    }

    fn push(&mut self, json: &str) {
        if let Some(size) = longest_text(json).filter(|size| *size > TEXT_CHARS) {
            let (what, limit) = ("a text in characters", TEXT_CHARS);
            let at = Position::message(self.current);
            self.too_large.get_or_insert(TooLarge { rule: "OAC-12", what, size, limit, at });
        }
        self.list.push(json);
    }

    fn push_raw(&mut self, message: &Message) {
        self.push(message.native.as_ref().map_or("", |native| native.raw.as_str()));
    }

    /// A message with these fields; every other field of the source's own message stays.
    fn push_fields(&mut self, source: Option<&Message>, fields: &[(&str, Option<String>)]) {
        let mut out = String::from("{");
        let mut written: Vec<&str> = Vec::new();
        let native = source.and_then(|message| message.native.as_ref()).map(|native| native.raw.as_str());
        let doc = native.and_then(|raw| Doc::parse(raw).ok());
        for (key, value) in doc.as_ref().and_then(Doc::root).into_iter().flat_map(Value::fields) {
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
                    let finding =
                        Finding::new(Rule::UnknownField, Position::message(self.current), Action::LeftOut);
                    self.ledger.note(finding.about(&*name).because("it is nested too deep"));
                }
                None if self.is_stored() && is_own_field(&name) => {
                    let at = Position::message(self.current);
                    self.ledger.note(Finding::new(Rule::UnknownField, at, Action::LeftOut).about(&*name));
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
        self.push(&out);
    }
}

/// Whether a message was said in this dialect.
fn is_own(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| &*native.format == FORMAT)
}

fn is_media(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Image(_) | BlockKind::Document(_))
}

/// What the source's own message says outside its content.
#[derive(Clone, Copy, Default)]
struct Voice {
    /// Something.
    speaks: bool,
    /// A refusal or a sound of a form that is refused.
    refusal: bool,
    audio: bool,
}

fn voice_of(message: &Message) -> Voice {
    let Some(native) = &message.native else { return Voice::default() };
    let doc = Doc::parse(native.raw.as_str());
    let root = doc.as_ref().ok().and_then(Doc::root);
    let field = |name| root.and_then(|root| root.given(name)).map(Value::kind);
    let (refusal, audio) = (field("refusal"), field("audio"));
    Voice {
        speaks: message.form != Form::Text && (audio == Some(Kind::Object) || refusal == Some(Kind::String)),
        refusal: refusal.is_some_and(|kind| kind != Kind::String),
        audio: audio.is_some_and(|kind| kind != Kind::Object),
    }
}

/// An image or a document as a part of a user message; `None` if the API cannot have it.
fn media_part(kind: &BlockKind, own: bool) -> Option<String> {
    let usable = super::MEDIA.judge(kind).ok()?;
    let BlockKind::Document(media) = kind else {
        let url = render::image_url(&usable)?;
        return Some(format!(
            "{{\"type\":\"image_url\",\"image_url\":{{\"url\":{}}}}}",
            render::literal(&url)
        ));
    };
    let mut out = String::from("{\"type\":\"file\",\"file\":{");
    match usable {
        Usable::Bytes { media_type, data } => {
            write::key(&mut out, "filename");
            write::string(&mut out, media.name.as_deref().unwrap_or("document.pdf"));
            write::key(&mut out, "file_data");
            write::string(&mut out, &format!("data:{media_type};base64,{data}"));
        }
        Usable::File(id) if own => {
            write::key(&mut out, "file_id");
            write::string(&mut out, id);
        }
        Usable::Address(_) | Usable::File(_) | Usable::Plain(_) => return None,
    }
    out.push_str("}}");
    Some(out)
}

/// The longest string of a message that is itself longer than any string may be.
fn longest_text(message: &str) -> Option<usize> {
    if message.len() <= TEXT_CHARS {
        return None;
    }
    let doc = Doc::parse(message).ok()?;
    // What stands in an address is not text.
    doc.strings().filter(|text| !text.starts_with("data:")).map(|text| text.chars().count()).max()
}

/// Whether a field of a message is neither the API's nor one that servers of this dialect take back.
fn is_own_field(name: &str) -> bool {
    const TAKEN: &[&str] = &[
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "annotations",
        "prefix",
        "cache_control",
    ];
    !TAKEN.contains(&name) && !REASONING_FIELDS.iter().any(|(field, _)| *field == name)
}

/// Whether a message has such a field.
fn has_own_fields(message: &Message) -> bool {
    let native = message.native.as_ref().filter(|native| native.more);
    let doc = native.and_then(|native| Doc::parse(native.raw.as_str()).ok());
    let root = doc.as_ref().and_then(Doc::root);
    root.is_some_and(|root| root.fields().any(|(key, _)| is_own_field(&key.as_str().unwrap_or_default())))
}
