//! Encoding for Ollama: one forward pass over the view. Every message is written from scratch, even Ollama's own, since its items
//! hold no more than the blocks.
//!
//! A content is one string, so the texts of a message are joined with a blank line. Calls have no ids: results follow them in
//! call order, each with the name of its tool. A trailing assistant message is accepted.

use super::WIRE;
use crate::wire::prelude::*;

/// Precedes the text of a failed result, since the dialect has no error flag.
const FAILED: &str = "[error]";

pub(super) fn encoder(settings: &Arc<Target>, _: &SoundView) -> Box<dyn Encode> {
    pass::begun(Encoder { state: EncoderState::new(&WIRE, settings) })
}

#[derive(Clone)]
struct Encoder {
    state: EncoderState,
}

impl Pass for Encoder {
    with_state!();

    fn say(&mut self, text: &str, index: usize) {
        self.push("user", &Content::of(text), Position::message(index));
    }

    fn instruct(&mut self, texts: Vec<String>) {
        self.push("system", &Content { texts, images: Vec::new() }, Position::default());
    }

    fn system(&mut self, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let content = Content { texts: self.state.instructions(item), images: Vec::new() };
        if content.texts.is_empty() {
            self.state.ledger.nothing_left(at);
        } else {
            self.push("system", &content, at);
        }
    }

    fn user(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let Some(fragments) = self.state.user_fragments(item) else { return };
        let mut content = Content::default();
        for piece in fragments {
            match piece.kind {
                FragmentKind::Text(text) => content.text(text),
                FragmentKind::Media(kind) => match image_data(kind) {
                    Some(data) => content.images.push(data),
                    None => content.text(self.state.ledger.as_text(kind, piece.at)),
                },
            }
        }
        self.push("user", &content, at);
    }

    fn assistant(&mut self, _: usize, item: ItemRef<'_>) {
        let at = Position::message(item.index());
        let mut content = Content::default();
        let mut thoughts = Vec::new();
        let mut list = Vec::new();
        let mut sent = Vec::new();
        for part in item.parts() {
            if let Some(thought) = fragments::thought(part, &self.state.target, WIRE.dialect) {
                thoughts.push(thought);
                continue;
            }
            let PartRef::Exchange(exchange) = part else {
                for piece in fragments::of_part(part, item.index(), &mut self.state.ledger) {
                    content.text(piece.into_text(&mut self.state.ledger));
                }
                continue;
            };
            let (json, name) = self.call(exchange, Position::block(item.index(), exchange.block()));
            list.push(json);
            sent.push((exchange, name));
        }
        if content.texts.is_empty() && sent.is_empty() {
            self.state.ledger.nothing_left(at);
            return;
        }
        self.joined(&content, at);
        let mut message = content.add_to(Object::new().text("role", "assistant"));
        if !thoughts.is_empty() {
            message = message.text("thinking", thoughts.join("\n\n"));
        }
        if !list.is_empty() {
            message = message.list("tool_calls", list);
        }
        self.state.push(&message.finish());
        self.results(&sent);
    }

    /// Tools are declared as in Chat Completions; there is no tool choice.
    fn surroundings(&mut self) -> Surroundings {
        let mut around = Surroundings::default();
        let target = Arc::clone(&self.state.target);
        let context = &target.context;
        let tools = tools::declared(&mut self.state, tools::function_with_schema).tools;
        if !tools.is_empty() {
            around.put("tools", render::list(tools));
        }
        around.translated(context, false);
        around
    }
}

/// The content of a message under construction.
#[derive(Default)]
struct Content {
    texts: Vec<String>,
    /// Base64 in the strict spelling.
    images: Vec<String>,
}

impl Content {
    fn of(text: &str) -> Self {
        Self { texts: vec![text.to_owned()], images: Vec::new() }
    }

    fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    /// Adds the content and the images to a message.
    fn add_to(&self, message: Object) -> Object {
        let message = message.text("content", self.texts.join("\n\n"));
        match &self.images[..] {
            [] => message,
            images => message.list("images", images.iter().map(|data| render::quoted(data))),
        }
    }
}

impl Encoder {
    /// Writes a call; also returns the name of its tool.
    fn call(&mut self, exchange: ExchangeRef<'_>, at: Position) -> (String, String) {
        let (name, _) = self.state.spelling.tool(exchange.call(), None, at, &mut self.state.ledger);
        let arguments = calls::object(exchange, at, &mut self.state.ledger);
        let function = Object::new().text("name", &name).raw("arguments", &arguments);
        (Object::new().object("function", function).finish(), name)
    }

    /// Writes the results of a batch, one message each, then a user message with their images.
    fn results(&mut self, sent: &[(ExchangeRef<'_>, String)]) {
        let mut shown = Content::default();
        let mut last = Position::default();
        for (exchange, name) in sent {
            let mut content = Content::default();
            if exchange.results().len() == 0 {
                content.text(sound::NO_RESULT);
            }
            for result in exchange.results() {
                last = render::position(result);
                self.result(result, name, &mut content, &mut shown);
            }
            self.joined(&content, last);
            let message = Object::new().text("role", "tool").text("tool_name", name);
            self.state.push(&content.add_to(message).finish());
        }
        if !shown.images.is_empty() {
            // One line per image, in the order of the images.
            self.state.push(&shown.add_to(Object::new().text("role", "user")).finish());
        }
    }

    /// Adds a result to the content of its message; its images go into the user message after the results.
    fn result(&mut self, result: ResultRef<'_>, name: &str, content: &mut Content, shown: &mut Content) {
        let mut texts = Vec::new();
        for piece in fragments::of_result(result, &mut self.state.ledger) {
            match piece.kind {
                FragmentKind::Text(text) if text.is_empty() => {}
                FragmentKind::Text(text) => texts.push(text.into_owned()),
                FragmentKind::Media(kind) => match image_data(kind) {
                    Some(data) => {
                        self.state.ledger.change(Rule::MovedMedia, piece.at, Action::Moved).about(name);
                        texts.push(render::shown_next(kind).to_owned());
                        shown.text(format!("[from the result of tool {name}]"));
                        shown.images.push(data);
                    }
                    None => texts.push(self.state.ledger.as_text(kind, piece.at)),
                },
            }
        }
        if result.result().is_error {
            let at = render::position(result);
            let replaced = self.state.ledger.change(Rule::ForeignField, at, Action::Replaced);
            replaced.about("is_error").because(format!("its text begins with {FAILED}"));
            match texts.first_mut() {
                Some(first) => *first = format!("{FAILED} {first}"),
                None => texts.push(FAILED.to_owned()),
            }
        }
        content.texts.extend(texts);
    }

    fn push(&mut self, role: &str, content: &Content, at: Position) {
        self.joined(content, at);
        self.state.push(&content.add_to(Object::new().text("role", role)).finish());
    }

    /// Reports that several texts were joined.
    fn joined(&mut self, content: &Content, at: Position) {
        if content.texts.len() > 1 {
            let joined = self.state.ledger.change(Rule::IrregularContent, at, Action::Replaced);
            joined.because(format!("{} texts in one string", content.texts.len()));
        }
    }
}

/// The bytes of an image, if the source has them.
fn image_data(kind: &BlockKind) -> Option<String> {
    let BlockKind::Image(_) = kind else { return None };
    match WIRE.media.judge(kind).ok()? {
        UsableMedia::Bytes { data, .. } => Some(data.into_owned()),
        UsableMedia::Address(_) | UsableMedia::File(_) | UsableMedia::Plain(_) => None,
    }
}
