//! Pieces of items: texts, media, results, and items without one of their fields.

use super::WIRE;
use crate::wire::prelude::*;

/// Joins the output chunks of several shell results.
pub(super) fn streams(results: &[ResultRef<'_>]) -> Option<String> {
    let mut chunks: Vec<String> = Vec::new();
    for result in results {
        let [block] = &result.result().content[..] else { return None };
        let doc = Doc::parse(block.as_text()?).ok()?;
        let list = doc.root().filter(|root| root.kind() == ValueKind::Array && root.is_clean())?;
        if list.items().any(|chunk| chunk.get("outcome").is_none()) {
            return None;
        }
        chunks.extend(list.items().map(|chunk| chunk.raw().to_owned()));
    }
    (!chunks.is_empty()).then(|| render::list(chunks))
}

/// Results as the output of a shell command that failed.
pub(super) fn failed_shell(results: &[ResultRef<'_>]) -> String {
    let exit = Object::new().text("type", "exit").number("exit_code", 1);
    let chunk = Object::new().text("stdout", only_words(results)).text("stderr", "").object("outcome", exit);
    render::list([chunk.finish()])
}

/// The texts of results as one text, for tools whose results have a special form.
pub(super) fn only_words(results: &[ResultRef<'_>]) -> String {
    if results.is_empty() {
        return sound::NO_RESULT.to_owned();
    }
    let texts = results.iter().flat_map(|result| &result.result().content);
    let words: Vec<String> = texts
        .map(|block| match &block.kind {
            BlockKind::Text(text) => text.to_string(),
            BlockKind::Image(_) | BlockKind::Document(_) => render::media_label(&block.kind),
            BlockKind::Opaque(opaque) => render::opaque_label(&opaque.kind, opaque.raw.as_str()),
            _ => String::new(),
        })
        .collect();
    words.join("\n")
}

/// `{"type":kind,"text":text}`
pub(super) fn part(kind: &str, text: &str) -> String {
    Object::with_room(text.len() + 40).str("type", kind).str("text", text).finish()
}

pub(super) fn answer_item(text: &str) -> String {
    message_item("assistant", &render::quoted(text))
}

/// A message with a role and a content, which is JSON.
pub(super) fn message_item(role: &str, content: &str) -> String {
    let item = Object::with_room(content.len() + 60).str("type", "message");
    item.str("role", role).raw("content", content).finish()
}

pub(super) fn has_id(raw: &str) -> bool {
    Doc::parse(raw).is_ok_and(|doc| doc.root().is_some_and(|root| root.given("id").is_some()))
}

pub(super) fn without_field(raw: &str, name: &str) -> String {
    let doc = Doc::of(raw);
    let fields = doc.root().into_iter().flat_map(Value::fields).filter(|(key, _)| !key.is_str(name));
    fields.fold(Object::with_room(raw.len()), render::cleaned_field).finish()
}

/// An image or document as a part; `None` if the API cannot take it.
pub(super) fn media_part(kind: &BlockKind, own: bool) -> Option<String> {
    let usable = WIRE.media.judge(kind).ok()?;
    let BlockKind::Document(media) = kind else {
        let (field, value) = match &usable {
            UsableMedia::File(id) if own => ("file_id", (*id).to_owned()),
            image => ("image_url", render::image_url(image)?),
        };
        let image = Object::new().text("type", "input_image").text("detail", "auto");
        return Some(image.text(field, value).finish());
    };
    let file = render::file_fields(Object::new().text("type", "input_file"), media, &usable, own)?;
    Some(file.finish())
}
