//! Encoding for Mistral: one forward pass over the view. Every message is written from scratch, even Mistral's own, since its
//! items hold no more than the blocks.
//!
//! A user message must not follow a tool message directly, so a short assistant message goes between. It is written together
//! with the user message, so that results at the end of a history do not change.

use super::WIRE;
use crate::wire::{prelude::*, render::ChatContent};

/// The assistant message between results and a user message.
const BRIDGE: &str = "Understood.";

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    pass::begun(Encoder {
        state: EncoderState::new(&WIRE, settings),
        last: LastRole::NoMessage,
        after_tool: false,
    })
}

#[derive(Clone)]
struct Encoder {
    state: EncoderState,
    last: LastRole,
    /// Whether the last message is a tool's.
    after_tool: bool,
}

const CHOICE: ChoiceSyntax = ChoiceSyntax { any: "\"any\"", ..ChoiceSyntax::CHAT };

impl Pass for Encoder {
    with_state!();

    fn last(&self) -> LastRole {
        self.last
    }

    fn say(&mut self, text: &str, index: usize) {
        self.push_user(&render::quoted(text), Position::message(index));
    }

    fn instruct(&mut self, texts: Vec<String>) {
        let content = ChatContent::of(&texts).into_json();
        self.push("system", &content.unwrap_or_default());
    }

    fn late_system(&mut self, texts: Vec<String>, index: usize) {
        let content = ChatContent::of(&texts).into_json();
        self.push_user(&content.unwrap_or_default(), Position::message(index));
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let Some(fragments) = self.state.user_fragments(item) else { return };
        let mut content = ChatContent::default();
        for piece in fragments {
            match piece.kind {
                FragmentKind::Text(text) if text.is_empty() => {}
                FragmentKind::Text(text) => content.text(&text),
                FragmentKind::Media(kind) => match media_chunk(kind) {
                    Some(chunk) => content.part(chunk),
                    None => content.text(&self.state.ledger.as_text(kind, piece.at)),
                },
            }
        }
        self.push_user(&content.into_json().unwrap_or_else(|| render::quoted("")), at);
    }

    fn assistant(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = ChatContent::default();
        let mut list = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            if let Some(thought) = fragments::thought(part, &self.state.target, WIRE.dialect) {
                let text = render::text_block(thought);
                content.part(Object::new().text("type", "thinking").list("thinking", [text]).finish());
                continue;
            }
            let PartRef::Exchange(exchange) = part else {
                for piece in fragments::of_part(part, item.index(), &mut self.state.ledger) {
                    let text = piece.into_text(&mut self.state.ledger);
                    if !text.is_empty() {
                        content.text(&text);
                    }
                }
                continue;
            };
            let at = Position::block(item.index(), exchange.block());
            let spelled = self.state.spell(item, exchange);
            list.push(calls::function_call(&spelled, exchange, at, &mut self.state.ledger));
            sent.push((exchange, spelled));
        }
        let content = content.into_json();
        if content.is_none() && sent.is_empty() {
            self.state.ledger.nothing_left(at);
            return;
        }
        let content = content.unwrap_or_else(|| render::quoted(""));
        let mut message = Object::new().text("role", "assistant").raw("content", &content);
        if !sent.is_empty() {
            message = message.list("tool_calls", list);
        }
        if self.last == LastRole::NoMessage {
            self.open(at, "a conversation begins with a user message");
        }
        self.state.push(&message.finish());
        (self.last, self.after_tool) = (LastRole::Model(Some(item.index())), false);
        self.results(&sent, at);
    }

    fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let Declared { names, tools, .. } = tools::declared(&mut self.state, tools::function_with_schema);
        if !tools.is_empty() {
            around.put("tools", render::list(tools));
        }
        let choice = tools::choice(&mut self.state, &names);
        if let Some(choice) = &choice {
            around.put("tool_choice", CHOICE.write(choice));
        }
        around.translated(context, choice.is_some());
        around
    }
}

impl Encoder {
    /// Writes the results of a batch, one message each, then a user message with their media.
    fn results(&mut self, sent: &[(ExchangeRef<'_>, CallSpelling)], at: Position) {
        let mut media = ChatContent::default();
        for (exchange, CallSpelling { id, name, .. }) in sent {
            // The hosted API accepts a single text as a result.
            let mut texts: Vec<Cow<'_, str>> = Vec::new();
            if exchange.results().len() == 0 {
                texts.push(sound::NO_RESULT.into());
            }
            for result in exchange.results() {
                let said = fragments::of_result(result, &mut self.state.ledger);
                if result.result().is_error {
                    self.state.ledger.error_flag(render::position(result));
                }
                for piece in said {
                    match piece.kind {
                        FragmentKind::Text(text) if text.is_empty() => {}
                        FragmentKind::Text(text) => texts.push(text),
                        FragmentKind::Media(kind) => match media_chunk(kind) {
                            Some(chunk) => {
                                let ledger = &mut self.state.ledger;
                                ledger.change(Rule::MovedMedia, piece.at, Action::Moved).about(id.as_str());
                                texts.push(render::shown_next(kind).into());
                                media.text(&format!("[from the result of call {id}]"));
                                media.part(chunk);
                            }
                            None => texts.push(self.state.ledger.as_text(kind, piece.at).into()),
                        },
                    }
                }
            }
            if texts.len() > 1 {
                self.state.ledger.note(Rule::IrregularContent, at, Action::Joined).about(id.as_str());
            }
            let message = Object::new().text("role", "tool").text("content", texts.join("\n\n"));
            self.state.push(&message.text("tool_call_id", id).text("name", name).finish());
            (self.last, self.after_tool) = (LastRole::User, true);
        }
        if let Some(json) = media.into_json() {
            self.push_user(&json, at);
        }
    }

    /// Writes a user message, after a bridge where it needs one.
    fn push_user(&mut self, content: &str, at: Position) {
        if self.after_tool {
            let why = "a user may not speak directly after a tool";
            self.state.ledger.role_order(at, Action::Inserted, why);
            self.push("assistant", &render::quoted(BRIDGE));
        }
        self.push("user", content);
        (self.last, self.after_tool) = (LastRole::User, false);
    }

    fn push(&mut self, role: &str, content: &str) {
        self.state.push(&render::message(role, content));
    }
}

/// An image or document as a chunk of a user message; `None` if the API cannot take it.
fn media_chunk(kind: &BlockKind) -> Option<String> {
    let url = render::image_url(&WIRE.media.judge(kind).ok()?)?;
    let BlockKind::Document(media) = kind else {
        return Some(Object::new().text("type", "image_url").text("image_url", url).finish());
    };
    let chunk = Object::new().text("type", "document_url").text("document_url", url);
    Some(chunk.text_if("document_name", media.name.as_ref()).finish())
}
