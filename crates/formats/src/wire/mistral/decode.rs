//! A whole response of Mistral's API as a message. It has the shape of Chat Completions, but for its errors and for what
//! its models think.

use rejoin_record::{
    Block, BlockKind, Message, Origin, Reasoning, Text,
    json::{Doc, Value},
};

use super::super::{DecodeError, Decoded, openai_chat};

pub(crate) fn decode(response: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoded =
        openai_chat::decode::decode(response).map_err(|error| provider_error(response).unwrap_or(error))?;
    name_thoughts(&mut decoded.message, decoded.model.as_deref());
    Ok(decoded)
}

/// Thoughts stand among the parts of the content; elsewhere they are reasoning.
pub(crate) fn name_thoughts(message: &mut Message, model: Option<&str>) {
    let model = model.map(Text::new);
    for block in &mut message.blocks {
        if let Some(text) = thought(block) {
            let origin =
                Origin { dialect: Some("mistral".into()), model: model.clone(), ..Origin::default() };
            let reasoning = Reasoning { text: text.into(), sealed: false, origin };
            *block = Block::new(BlockKind::Reasoning(Box::new(reasoning)));
        }
    }
}

/// What went wrong, in the words of the API: it puts them at the top, or in a list of details.
fn provider_error(response: &[u8]) -> Option<DecodeError> {
    let text = String::from_utf8_lossy(response);
    let doc = Doc::parse(&text).ok()?;
    let root = doc.root()?;
    let words = ["message", "detail"].iter().find_map(|name| root.given(name))?;
    let words = words.as_str().unwrap_or_else(|| words.raw().into());
    Some(DecodeError::Provider(words.into_owned()))
}

/// The text of a chunk that holds thoughts: they are a list of texts of their own.
fn thought(block: &Block) -> Option<String> {
    let BlockKind::Opaque(opaque) = &block.kind else { return None };
    let doc = Doc::parse(opaque.raw.as_str()).ok()?;
    let list = doc.root()?.given("thinking").filter(|_| &*opaque.kind == "thinking")?;
    let texts = list.items().filter_map(|item| item.get("text").and_then(Value::as_str));
    Some(texts.collect::<Vec<_>>().concat())
}
