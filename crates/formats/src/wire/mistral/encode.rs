//! Encoding for Mistral: one forward pass over the view. Every message is written anew, also what Mistral itself said: nothing
//! in its own items says more than the blocks do.
//!
//! A user may not speak directly after a tool: a short assistant message goes between. It is written with the user's
//! message and not with the results, so that results at the end of a history stay what they were.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::{BlockKind, Text, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, Rule, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    TooLarge,
    body::{Surroundings, seen_before, write_around},
    calls,
    names::{Spelled, Spelling, wire_name},
    outline::{Encode, Outline, Pass},
    registry::Dialect,
    render::{self, Content, Ledger},
    said::{self, What},
    scroll::Scroll,
    tools,
};
use crate::{context::ToolChoice, convert::Settings};

/// Stands between results and a user message.
const BRIDGE: &str = "Understood.";

/// An id has exactly this many letters and digits.
const ID_LENGTH: usize = 9;
const NAME_LENGTH: usize = 64;

pub(super) fn encoder(settings: &Arc<Settings>, _: &SoundView) -> Box<dyn Encode> {
    let mut encoder = Encoder {
        target: Arc::clone(settings),
        list: Scroll::default(),
        ledger: Ledger::new(false, super::MEDIA),
        spelling: Spelling::new(legal_id, NAME_LENGTH).with_id_length(ID_LENGTH),
        leading: 0,
        last: Last::Instructions,
    };
    encoder.instructions();
    Box::new(encoder)
}

#[derive(Clone)]
struct Encoder {
    target: Arc<Settings>,
    list: Scroll,
    ledger: Ledger,
    spelling: Spelling,
    /// How many messages at the beginning are instructions.
    leading: usize,
    last: Last,
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
        match self.last {
            Last::Instructions => {
                let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
                self.ledger.change(finding.because("a request needs a message"));
                self.push_user(&render::literal(render::OPENING), Position::default());
            }
            Last::Assistant(index) if self.target.closes => {
                let at = Position::message(index);
                let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
                self.ledger.note(finding.because("a conversation ends with a user message"));
                self.push_user(&render::literal(render::CLOSING), at);
            }
            Last::Assistant(_) | Last::User | Last::Tool => {}
        }
        let prefix = self.prefix();
        let around = self.surroundings();
        let mut findings = std::mem::take(&mut self.ledger.findings);
        let (head, tail) = write_around(&self.target, Dialect::Mistral, around, &mut findings);
        let (ids, names) = self.spelling.renamed();
        let (ids, names) = (ids.clone(), names.renamed(&self.target.context.tools(), spell));
        Ok(Outline { head, list: Some(self.list), tail, findings, ids, names, prefix, marked: false })
    }
}

/// Who spoke last.
#[derive(Clone, Copy)]
enum Last {
    /// Nobody, or only whoever set the conversation up.
    Instructions,
    User,
    /// The model, in this message of the source.
    Assistant(usize),
    Tool,
}

/// A call that went out, and how its result names it.
struct Sent<'i> {
    exchange: ExchangeRef<'i>,
    id: String,
    name: String,
}

impl Encoder {
    /// Instructions that stand outside the list come first: the conversation's own, then another dialect's.
    fn instructions(&mut self) {
        if let Some(text) = self.target.context.own_instructions().map(|text| render::literal(text)) {
            self.push("system", &text);
        }
        let mut content = Content::default();
        for text in said::of_context(&Arc::clone(&self.target).context, &mut self.ledger) {
            content.text(&text);
        }
        if let Some(json) = content.json() {
            self.push("system", &json);
        }
    }

    /// Leading instructions stay what they are, later ones stay in their place as user text.
    fn system(&mut self, item: ItemRef<'_>) {
        // Leading means that nothing but instructions stood before, shown or not: none is moved past a message.
        let leading = item.index() == self.leading && matches!(self.last, Last::Instructions);
        self.leading += usize::from(leading);
        let at = Position::message(item.index());
        let mut content = Content::default();
        for piece in said::of_item(item, &mut self.ledger).into_iter().filter(|piece| !piece.is_blank()) {
            let text = piece.into_text(&mut self.ledger);
            content.text(&if leading { text } else { format!("<system>{text}</system>") });
        }
        match content.json() {
            None => self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut)),
            Some(json) if leading => self.push("system", &json),
            Some(json) => {
                self.ledger.change(Finding::new(Rule::LateSystem, at, Action::Replaced));
                self.push_user(&json, at);
            }
        }
    }

    fn user(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let said = said::of_item(item, &mut self.ledger);
        if said::is_nothing(item, &said) {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
            return;
        }
        if said.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::Replaced));
        }
        let mut content = Content::default();
        for piece in said {
            match piece.what {
                What::Text(text) if text.is_empty() => {}
                What::Text(text) => content.text(&text),
                What::Media(kind) => match media_chunk(kind) {
                    Some(chunk) => content.part(chunk),
                    None => content.text(&self.ledger.as_text(kind, piece.at)),
                },
            }
        }
        self.push_user(&content.json().unwrap_or_else(|| render::literal("")), at);
    }

    fn assistant(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = Content::default();
        let mut list = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            if let Some(thought) = said::thought(part, &self.target, Dialect::Mistral) {
                let text = render::text_block(thought);
                content.part(format!("{{\"type\":\"thinking\",\"thinking\":[{text}]}}"));
                continue;
            }
            let PartRef::Exchange(exchange, call) = part else {
                for piece in said::of_part(part, item.index(), &mut self.ledger) {
                    let text = piece.into_text(&mut self.ledger);
                    if !text.is_empty() {
                        content.text(&text);
                    }
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let Spelled { id, name, .. } = self.spelling.of(exchange, call, at, &mut self.ledger);
            list.push(calls::function_call(&id, &name, exchange, call, at, &mut self.ledger));
            sent.push(Sent { exchange, id, name });
        }
        let mut json = match content.json() {
            None if sent.is_empty() => {
                self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
                return;
            }
            said => said.unwrap_or_else(|| render::literal("")),
        };
        if !sent.is_empty() {
            write::key(&mut json, "tool_calls");
            render::array(&mut json, list.iter().map(String::as_str));
        }
        if matches!(self.last, Last::Instructions) {
            let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
            self.ledger.change(finding.because("a conversation begins with a user message"));
            self.push_user(&render::literal(render::OPENING), at);
        }
        self.push("assistant", &json);
        self.last = Last::Assistant(item.index());
        self.results(&sent, at);
    }

    /// The results of a batch, one message each, then whatever media they hold.
    fn results(&mut self, sent: &[Sent<'_>], at: Position) {
        let mut media = Content::default();
        for Sent { exchange, id, name } in sent {
            let mut content = Content::default();
            if exchange.results().len() == 0 {
                content.text(sound::NO_RESULT);
            }
            for result in exchange.results() {
                let said = said::of_result(result, &mut self.ledger);
                if result.result().is_error {
                    let at = Position::block(result.at().0, result.at().1);
                    let finding = Finding::new(Rule::ForeignField, at, Action::LeftOut);
                    self.ledger.note(finding.about("is_error"));
                }
                for piece in said {
                    match piece.what {
                        What::Text(text) if text.is_empty() => {}
                        What::Text(text) => content.text(&text),
                        What::Media(kind) => match media_chunk(kind) {
                            Some(chunk) => {
                                let finding = Finding::new(Rule::MovedMedia, piece.at, Action::Moved);
                                self.ledger.change(finding.about(id.as_str()));
                                content.text(render::shown_next(kind));
                                media.text(&format!("[from the result of call {id}]"));
                                media.part(chunk);
                            }
                            None => content.text(&self.ledger.as_text(kind, piece.at)),
                        },
                    }
                }
            }
            // The hosted API takes one text for a result.
            let texts: Vec<&str> = content.parts.iter().filter_map(|(_, text)| text.as_deref()).collect();
            if texts.len() > 1 {
                let finding = Finding::new(Rule::IrregularContent, at, Action::Joined);
                self.ledger.note(finding.about(id.as_str()));
            }
            let mut json = render::literal(&texts.join("\n\n"));
            write::key(&mut json, "tool_call_id");
            write::string(&mut json, id);
            write::key(&mut json, "name");
            write::string(&mut json, name);
            self.push("tool", &json);
            self.last = Last::Tool;
        }
        if let Some(json) = media.json() {
            self.push_user(&json, at);
        }
    }

    /// A user message, behind a bridge where it needs one.
    fn push_user(&mut self, content: &str, at: Position) {
        if let Last::Tool = self.last {
            let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
            self.ledger.change(finding.because("a user may not speak directly after a tool"));
            self.push("assistant", &render::literal(BRIDGE));
        }
        self.push("user", content);
        self.last = Last::User;
    }

    /// A message; `content` is its content and may be followed by more fields.
    fn push(&mut self, role: &str, content: &str) {
        self.list.push(&format!("{{\"role\":\"{role}\",\"content\":{content}}}"));
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let mut copy = Self { ledger: Ledger::new(true, super::MEDIA), ..self.clone() };
        let before = seen_before(&self.target, Dialect::Mistral, &copy.surroundings());
        self.list.prefix(&before, None)
    }

    fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = tools::declared(context, spell, &mut self.ledger);
        if let Some(list) = tools::functions(&declared) {
            around.put("tools", list);
        }
        let names: Vec<String> = declared.into_iter().map(|(name, _)| name).collect();
        let choice = tools::choice(context, &names, spell, &mut self.ledger);
        if let Some(choice) = &choice {
            around.put("tool_choice", tool_choice(choice));
        }
        around.translated(context, choice.is_some());
        around
    }
}

fn legal_id(id: &str) -> bool {
    id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn spell(name: &str) -> Cow<'_, str> {
    wire_name(name, NAME_LENGTH)
}

fn tool_choice(choice: &ToolChoice) -> String {
    match choice {
        ToolChoice::Auto => String::from("\"auto\""),
        ToolChoice::Never => String::from("\"none\""),
        ToolChoice::Any => String::from("\"any\""),
        ToolChoice::Named(name) => {
            format!("{{\"type\":\"function\",\"function\":{{\"name\":{}}}}}", render::literal(name))
        }
    }
}

/// An image or a document as a chunk of a user message, if there is one for it.
fn media_chunk(kind: &BlockKind) -> Option<String> {
    let url = render::literal(&render::image_url(&super::MEDIA.judge(kind).ok()?)?);
    let BlockKind::Document(media) = kind else {
        return Some(format!("{{\"type\":\"image_url\",\"image_url\":{url}}}"));
    };
    let mut out = format!("{{\"type\":\"document_url\",\"document_url\":{url}");
    if let Some(name) = &media.name {
        write::key(&mut out, "document_name");
        write::string(&mut out, name);
    }
    out.push('}');
    Some(out)
}
