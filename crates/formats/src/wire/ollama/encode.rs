//! Encoding for Ollama: one forward pass over the view. Every message is written anew, also what Ollama itself said: nothing in
//! its own items says more than the blocks do.
//!
//! A content is one string, so the texts of a message are joined with a blank line. Calls have no ids: results follow them
//! in call order, each with the name of its tool. Nothing is refused for its role, so a trailing assistant message stays.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::{BlockKind, Text, ToolCall, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, List, Position, ResultRef, Rule, SoundRole, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    TooLarge,
    body::{Surroundings, seen_before, write_around},
    calls,
    names::NameMap,
    outline::{Encode, Outline, Pass},
    registry::Dialect,
    render::{self, Ledger},
    said::{self, What},
    scroll::Scroll,
    tools,
};
use crate::{convert::Settings, media::Usable};

/// Stands before the text of a result that failed: the dialect has no mark for it.
const FAILED: &str = "[error]";

pub(super) fn encoder(settings: &Arc<Settings>, _: &SoundView) -> Box<dyn Encode> {
    let mut encoder = Encoder {
        target: Arc::clone(settings),
        list: Scroll::default(),
        ledger: Ledger::new(false, super::MEDIA),
        names: NameMap::default(),
    };
    encoder.instructions();
    Box::new(encoder)
}

#[derive(Clone)]
struct Encoder {
    target: Arc<Settings>,
    list: Scroll,
    ledger: Ledger,
    names: NameMap,
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
        self.names.settle();
    }

    fn end(mut self, _: &SoundView) -> Result<Outline, TooLarge> {
        if self.list.is_empty() {
            let finding = Finding::new(Rule::RoleOrder, Position::default(), Action::Inserted);
            self.ledger.change(finding.because("a request needs a message"));
            let opening = Content { texts: vec![render::OPENING.to_owned()], images: Vec::new() };
            self.push("user", &opening, Position::default());
        }
        let prefix = self.prefix();
        let around = self.surroundings();
        let mut findings = std::mem::take(&mut self.ledger.findings);
        let (head, tail) = write_around(&self.target, Dialect::Ollama, around, &mut findings);
        let names = self.names.renamed(&self.target.context.tools(), spell);
        let (list, ids) = (Some(self.list), List::default());
        Ok(Outline { head, list, tail, findings, ids, names, prefix, marked: false })
    }
}

/// A message as it is being put together.
#[derive(Default)]
struct Content {
    texts: Vec<String>,
    /// Base64, in strict spelling.
    images: Vec<String>,
}

impl Content {
    fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    /// The value of the content, and the field for the images behind it.
    fn json(&self) -> String {
        let mut out = render::literal(&self.texts.join("\n\n"));
        if !self.images.is_empty() {
            write::key(&mut out, "images");
            let images: Vec<String> = self.images.iter().map(|data| render::literal(data)).collect();
            render::array(&mut out, images.iter().map(String::as_str));
        }
        out
    }
}

impl Encoder {
    /// Instructions that stand outside the list come first: the conversation's own, then another dialect's.
    fn instructions(&mut self) {
        if let Some(text) = self.target.context.own_instructions().map(ToString::to_string) {
            let content = Content { texts: vec![text], images: Vec::new() };
            self.push("system", &content, Position::default());
        }
        let mut content = Content::default();
        for text in said::of_context(&Arc::clone(&self.target).context, &mut self.ledger) {
            content.text(&*text);
        }
        if !content.texts.is_empty() {
            self.push("system", &content, Position::default());
        }
    }

    fn system(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = Content::default();
        for piece in said::of_item(item, &mut self.ledger).into_iter().filter(|piece| !piece.is_blank()) {
            content.text(piece.into_text(&mut self.ledger));
        }
        if content.texts.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
        } else {
            self.push("system", &content, at);
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
                What::Text(text) => content.text(text),
                What::Media(kind) => match image_data(kind) {
                    Some(data) => content.images.push(data),
                    None => content.text(self.ledger.as_text(kind, piece.at)),
                },
            }
        }
        self.push("user", &content, at);
    }

    fn assistant(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = Content::default();
        let mut thoughts = Vec::new();
        let mut list = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            if let Some(thought) = said::thought(part, &self.target, Dialect::Ollama) {
                thoughts.push(thought);
                continue;
            }
            let PartRef::Exchange(exchange, call) = part else {
                for piece in said::of_part(part, item.index(), &mut self.ledger) {
                    content.text(piece.into_text(&mut self.ledger));
                }
                continue;
            };
            let (json, name) = self.call(exchange, call, Position::block(item.index(), exchange.block()));
            list.push(json);
            sent.push((exchange, name));
        }
        if content.texts.is_empty() && sent.is_empty() {
            self.ledger.change(Finding::new(Rule::EmptyMessage, at, Action::LeftOut));
            return;
        }
        self.joined(&content, at);
        let mut json = content.json();
        if !thoughts.is_empty() {
            write::key(&mut json, "thinking");
            write::string(&mut json, &thoughts.join("\n\n"));
        }
        if !list.is_empty() {
            write::key(&mut json, "tool_calls");
            render::array(&mut json, list.iter().map(String::as_str));
        }
        self.list.push(&format!("{{\"role\":\"assistant\",\"content\":{json}}}"));
        self.results(&sent);
    }

    /// A call as JSON, and the name of its tool.
    fn call(&mut self, exchange: ExchangeRef<'_>, call: &ToolCall, at: Position) -> (String, String) {
        let name = spell(&call.name).into_owned();
        if name != *call.name {
            self.ledger.change(Finding::new(Rule::IllegalName, at, Action::Renamed).about(call.name.clone()));
        }
        self.names.add(&call.name, &name);
        let mut json = String::from("{\"function\":{\"name\":");
        write::string(&mut json, &name);
        write::key(&mut json, "arguments");
        calls::write_object(&mut json, exchange, call, at, &mut self.ledger);
        json.push_str("}}");
        (json, name)
    }

    /// The results of a batch, one message each, then whatever images they hold.
    fn results(&mut self, sent: &[(ExchangeRef<'_>, String)]) {
        let mut shown = Content::default();
        let mut last = Position::default();
        for (exchange, name) in sent {
            let mut content = Content::default();
            if exchange.results().len() == 0 {
                content.text(sound::NO_RESULT);
            }
            for result in exchange.results() {
                last = Position::block(result.at().0, result.at().1);
                self.result(result, name, &mut content, &mut shown);
            }
            self.joined(&content, last);
            let mut json = String::from("{\"role\":\"tool\",\"tool_name\":");
            write::string(&mut json, name);
            write::key(&mut json, "content");
            json.push_str(&content.json());
            json.push('}');
            self.list.push(&json);
        }
        if !shown.images.is_empty() {
            // One line an image, in the order of the images.
            self.list.push(&format!("{{\"role\":\"user\",\"content\":{}}}", shown.json()));
        }
    }

    /// Adds a result to the content of its message; its images go into the user message behind the results.
    fn result(&mut self, result: ResultRef<'_>, name: &str, content: &mut Content, shown: &mut Content) {
        let mut texts = Vec::new();
        for piece in said::of_result(result, &mut self.ledger) {
            match piece.what {
                What::Text(text) if text.is_empty() => {}
                What::Text(text) => texts.push(text.into_owned()),
                What::Media(kind) => match image_data(kind) {
                    Some(data) => {
                        let finding = Finding::new(Rule::MovedMedia, piece.at, Action::Moved);
                        self.ledger.change(finding.about(name));
                        texts.push(render::shown_next(kind).to_owned());
                        shown.text(format!("[from the result of tool {name}]"));
                        shown.images.push(data);
                    }
                    None => texts.push(self.ledger.as_text(kind, piece.at)),
                },
            }
        }
        if result.result().is_error {
            let at = Position::block(result.at().0, result.at().1);
            let finding = Finding::new(Rule::ForeignField, at, Action::Replaced);
            self.ledger.change(finding.about("is_error").because(format!("its text begins with {FAILED}")));
            match texts.first_mut() {
                Some(first) => *first = format!("{FAILED} {first}"),
                None => texts.push(FAILED.to_owned()),
            }
        }
        content.texts.extend(texts);
    }

    fn push(&mut self, role: &str, content: &Content, at: Position) {
        self.joined(content, at);
        self.list.push(&format!("{{\"role\":\"{role}\",\"content\":{}}}", content.json()));
    }

    /// Notes that several texts became one.
    fn joined(&mut self, content: &Content, at: Position) {
        if content.texts.len() > 1 {
            let finding = Finding::new(Rule::IrregularContent, at, Action::Replaced);
            self.ledger.change(finding.because(format!("{} texts in one string", content.texts.len())));
        }
    }

    /// A hash of everything that what comes next stands on.
    fn prefix(&mut self) -> Text {
        let mut copy = Self { ledger: Ledger::new(true, super::MEDIA), ..self.clone() };
        let before = seen_before(&self.target, Dialect::Ollama, &copy.surroundings());
        self.list.prefix(&before, None)
    }

    /// Tools are declared as in Chat Completions; there is no such thing as a tool choice.
    fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.target);
        let context = &target.context;
        let declared = tools::declared(context, spell, &mut self.ledger);
        if let Some(list) = tools::functions(&declared) {
            around.put("tools", list);
        }
        around.translated(context, false);
        around
    }
}

/// Any name is legal that is one.
fn spell(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(if name.is_empty() { "unknown_tool" } else { name })
}

/// The bytes of an image, if they are here.
fn image_data(kind: &BlockKind) -> Option<String> {
    let BlockKind::Image(_) = kind else { return None };
    match super::MEDIA.judge(kind).ok()? {
        Usable::Bytes { data, .. } => Some(data.into_owned()),
        Usable::Address(_) | Usable::File(_) | Usable::Plain(_) => None,
    }
}
