//! A response of Mistral's API as a message. It has the shape of Chat Completions, but for what its models think.

use std::sync::Arc;

use rejoin_record::{
    Block, BlockKind, Message, Origin, Text,
    json::{Doc, Value},
};

use crate::wire::{
    arriving::{Assembly, Item, Seen},
    openai_chat::stream::ChatAssembly,
    stream::Delta,
};

/// A response, as far as it came.
#[derive(Default)]
pub(super) struct MistralAssembly(ChatAssembly);

impl Assembly for MistralAssembly {
    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Seen, out: &mut Vec<Delta>) -> bool {
        self.0.event(name, event, seen, out)
    }

    fn item(self, seen: &Seen, complete: bool) -> Option<Item> {
        self.0.item(seen, complete)
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Seen) -> Option<Message> {
        let mut message = ChatAssembly::read(item, buffer, seen)?;
        name_thoughts(&mut message, seen.model_text());
        Some(message)
    }
}

/// Thoughts stand among the parts of the content; elsewhere they are reasoning.
fn name_thoughts(message: &mut Message, model: Option<Text>) {
    for block in &mut message.blocks {
        if let Some(text) = thought(block) {
            *block = Block::reasoning(text, false, Origin::of("mistral", model.clone()));
        }
    }
}

/// The text of a chunk that holds thoughts: they are a list of texts of their own.
fn thought(block: &Block) -> Option<String> {
    let BlockKind::Opaque(opaque) = &block.kind else { return None };
    let doc = Doc::parse(opaque.raw.as_str()).ok()?;
    let list = doc.root()?.given("thinking").filter(|_| &*opaque.kind == "thinking")?;
    let texts = list.items().filter_map(|item| item.get("text").and_then(Value::as_str));
    Some(texts.collect::<Vec<_>>().concat())
}
