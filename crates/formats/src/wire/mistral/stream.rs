//! Decoding for Mistral. Responses have the form of Chat Completions, apart from reasoning.

use crate::wire::{openai_chat::stream::ChatAssembly, prelude::*};

/// The part of a response that was received.
#[derive(Default)]
pub(super) struct MistralAssembly(ChatAssembly);

impl Assembly for MistralAssembly {
    fn event(&mut self, name: &str, event: Value<'_>, seen: &mut Facts, out: &mut Vec<Delta>) -> bool {
        self.0.event(name, event, seen, out)
    }

    fn item(self, seen: &Facts, complete: bool) -> Option<Item> {
        self.0.item(seen, complete)
    }

    fn read(item: Value<'_>, buffer: &Arc<str>, seen: &Facts) -> Option<Message> {
        let mut message = ChatAssembly::read(item, buffer, seen)?;
        for block in &mut message.blocks {
            if let Some(text) = thought(block) {
                *block = Block::reasoning(text, false, Origin::of("mistral", seen.model_text()));
            }
        }
        Some(message)
    }
}

/// The text of a part that holds thoughts as a list of texts.
fn thought(block: &Block) -> Option<String> {
    let BlockKind::Opaque(opaque) = &block.kind else { return None };
    let doc = Doc::parse(opaque.raw.as_str()).ok()?;
    let list = doc.root()?.given("thinking").filter(|_| &*opaque.kind == "thinking")?;
    let texts = list.items().filter_map(|item| item.get("text").and_then(Value::as_str));
    Some(texts.collect::<Vec<_>>().concat())
}
