//! Encoding for Mistral: one forward pass over the view. Every message is written from scratch, also what Mistral itself said: nothing
//! in its own items says more than the blocks do.
//!
//! A user may not speak directly after a tool: a short assistant message goes between. It is written with the user's
//! message and not with the results, so that results at the end of a history stay what they were.

use std::sync::Arc;

use rejoin_record::{BlockKind, json::write};
use rejoin_view::{
    Action, ExchangeRef, Finding, ItemRef, Position, Rule, SoundView,
    sound::{self, PartRef},
};

use super::super::{
    body::Surroundings,
    calls,
    names::Spelled,
    outline::Encode,
    pass::{self, Last, Pass, Sheet, on_sheet},
    render::{self, Content},
    said::{self, What},
    tools::{self, ChoiceSyntax, Declared},
};
use super::WIRE;
use crate::convert::Target;

/// Stands between results and a user message.
const BRIDGE: &str = "Understood.";

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    pass::begun(Encoder { sheet: Sheet::new(&WIRE, settings), last: Last::Nobody, after_tool: false })
}

#[derive(Clone)]
struct Encoder {
    sheet: Sheet,
    last: Last,
    /// Whether a tool spoke last.
    after_tool: bool,
}

const CHOICE: ChoiceSyntax = ChoiceSyntax { any: "\"any\"", ..ChoiceSyntax::CHAT };

impl Pass for Encoder {
    on_sheet!();

    fn last(&self) -> Last {
        self.last
    }

    fn say(&mut self, text: &str, index: usize) {
        self.push_user(&render::literal(text), Position::message(index));
    }

    fn instruct(&mut self, texts: Vec<String>) {
        let content = Content::of(&texts).json();
        self.push("system", &content.unwrap_or_default());
    }

    fn late_system(&mut self, texts: Vec<String>, index: usize) {
        let content = Content::of(&texts).json();
        self.push_user(&content.unwrap_or_default(), Position::message(index));
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let Some(said) = self.sheet.said_by_user(item) else { return };
        let mut content = Content::default();
        for piece in said {
            match piece.what {
                What::Text(text) if text.is_empty() => {}
                What::Text(text) => content.text(&text),
                What::Media(kind) => match media_chunk(kind) {
                    Some(chunk) => content.part(chunk),
                    None => content.text(&self.sheet.ledger.as_text(kind, piece.at)),
                },
            }
        }
        self.push_user(&content.json().unwrap_or_else(|| render::literal("")), at);
    }

    fn assistant(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = Content::default();
        let mut list = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            if let Some(thought) = said::thought(part, &self.sheet.target, WIRE.dialect) {
                let text = render::text_block(thought);
                content.part(format!("{{\"type\":\"thinking\",\"thinking\":[{text}]}}"));
                continue;
            }
            let PartRef::Exchange(exchange, call) = part else {
                for piece in said::of_part(part, item.index(), &mut self.sheet.ledger) {
                    let text = piece.into_text(&mut self.sheet.ledger);
                    if !text.is_empty() {
                        content.text(&text);
                    }
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let spelled = self.sheet.spell(item, exchange, call);
            list.push(calls::function_call(&spelled, exchange, call, at, &mut self.sheet.ledger));
            sent.push((exchange, spelled));
        }
        let mut json = match content.json() {
            None if sent.is_empty() => {
                self.sheet.ledger.nothing_left(at);
                return;
            }
            said => said.unwrap_or_else(|| render::literal("")),
        };
        if !sent.is_empty() {
            write::key(&mut json, "tool_calls");
            render::array(&mut json, list.iter().map(String::as_str));
        }
        if self.last == Last::Nobody {
            self.open(at, "a conversation begins with a user message");
        }
        self.push("assistant", &json);
        (self.last, self.after_tool) = (Last::Model(Some(item.index())), false);
        self.results(&sent, at);
    }

    fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.sheet.target);
        let context = &target.context;
        let Declared { names, tools, .. } = tools::declared(&mut self.sheet, tools::function_with_schema);
        if !tools.is_empty() {
            around.put("tools", render::list(&tools));
        }
        let choice = tools::choice(&mut self.sheet, &names);
        if let Some(choice) = &choice {
            around.put("tool_choice", CHOICE.write(choice));
        }
        around.translated(context, choice.is_some());
        around
    }
}

impl Encoder {
    /// The results of a batch, one message each, then whatever media they hold.
    fn results(&mut self, sent: &[(ExchangeRef<'_>, Spelled)], at: Position) {
        let mut media = Content::default();
        for (exchange, Spelled { id, name, .. }) in sent {
            let mut content = Content::default();
            if exchange.results().len() == 0 {
                content.text(sound::NO_RESULT);
            }
            for result in exchange.results() {
                let said = said::of_result(result, &mut self.sheet.ledger);
                if result.result().is_error {
                    let at = Position::block(result.at().0, result.at().1);
                    let finding = Finding::new(Rule::ForeignField, at, Action::LeftOut);
                    self.sheet.ledger.note(finding.about("is_error"));
                }
                for piece in said {
                    match piece.what {
                        What::Text(text) if text.is_empty() => {}
                        What::Text(text) => content.text(&text),
                        What::Media(kind) => match media_chunk(kind) {
                            Some(chunk) => {
                                let finding = Finding::new(Rule::MovedMedia, piece.at, Action::Moved);
                                self.sheet.ledger.change(finding.about(id.as_str()));
                                content.text(render::shown_next(kind));
                                media.text(&format!("[from the result of call {id}]"));
                                media.part(chunk);
                            }
                            None => content.text(&self.sheet.ledger.as_text(kind, piece.at)),
                        },
                    }
                }
            }
            // The hosted API takes one text for a result.
            let texts: Vec<&str> = content.parts.iter().filter_map(|(_, text)| text.as_deref()).collect();
            if texts.len() > 1 {
                let finding = Finding::new(Rule::IrregularContent, at, Action::Joined);
                self.sheet.ledger.note(finding.about(id.as_str()));
            }
            let mut json = render::literal(&texts.join("\n\n"));
            write::key(&mut json, "tool_call_id");
            write::string(&mut json, id);
            write::key(&mut json, "name");
            write::string(&mut json, name);
            self.push("tool", &json);
            (self.last, self.after_tool) = (Last::User, true);
        }
        if let Some(json) = media.json() {
            self.push_user(&json, at);
        }
    }

    /// A user message, after a bridge where it needs one.
    fn push_user(&mut self, content: &str, at: Position) {
        if self.after_tool {
            let finding = Finding::new(Rule::RoleOrder, at, Action::Inserted);
            self.sheet.ledger.change(finding.because("a user may not speak directly after a tool"));
            self.push("assistant", &render::literal(BRIDGE));
        }
        self.push("user", content);
        (self.last, self.after_tool) = (Last::User, false);
    }

    /// A message; `content` is its content and may be followed by more fields.
    fn push(&mut self, role: &str, content: &str) {
        self.sheet.push(&format!("{{\"role\":\"{role}\",\"content\":{content}}}"));
    }
}

/// An image or a document as a chunk of a user message, if there is one for it.
fn media_chunk(kind: &BlockKind) -> Option<String> {
    let url = render::literal(&render::image_url(&WIRE.media.judge(kind).ok()?)?);
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
