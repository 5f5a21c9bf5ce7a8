//! Results of calls: texts for the model, images and documents as parts, and everything else as text. Nothing is dropped.

use rejoin_record::{Block, BlockKind, Media, MediaSource, Text};
use serde_json::Value;

use crate::{auth::redact::harmless, tools::ToolOutput};

/// How many characters of a part's address or type the model sees.
const LABEL: usize = 200;

/// Turns a server's result into the output of a tool.
pub(super) fn output(result: &Value) -> ToolOutput {
    let mut texts = Vec::new();
    let mut media = Vec::new();
    for part in result["content"].as_array().into_iter().flatten() {
        add(part, &mut texts, &mut media);
    }
    // Servers repeat the structured content as text, as the protocol recommends. Such a copy is added only once.
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    let is_same = |value: &Value| {
        texts.iter().any(|text| serde_json::from_str::<Value>(text).is_ok_and(|said| said == *value))
    };
    if let Some(structured) = structured.filter(|value| !is_same(value)) {
        texts.push(structured.to_string());
    }
    if !result["content"].is_array() && structured.is_none() {
        texts.push(result.to_string());
    }
    let text = match texts.is_empty() {
        true => String::from("[the tool returned nothing]"),
        false => texts.join("\n"),
    };
    ToolOutput { media, is_error: result["isError"] == true, ..ToolOutput::of(text) }
}

fn add(part: &Value, texts: &mut Vec<String>, media: &mut Vec<Block>) {
    let text = |name: &str| part[name].as_str();
    match text("type") {
        Some("text") if part["text"].is_string() => texts.extend(text("text").map(str::to_owned)),
        Some(kind @ ("image" | "audio")) if part["data"].is_string() => {
            let data = text("data").unwrap_or_default();
            texts.push(keep(kind, data, text("mimeType"), None, media));
        }
        Some("resource") if part["resource"]["text"].is_string() => {
            let resource = &part["resource"];
            let address = harmless(resource["uri"].as_str().unwrap_or("no address"), LABEL);
            texts.push(format!("[resource {address}]\n{}", resource["text"].as_str().unwrap_or_default()));
        }
        Some("resource") if part["resource"]["blob"].is_string() => {
            let resource = &part["resource"];
            let (data, kind) = (resource["blob"].as_str().unwrap_or_default(), resource["mimeType"].as_str());
            texts.push(keep("resource", data, kind, resource["uri"].as_str(), media));
        }
        Some("resource_link") if part["uri"].is_string() => {
            let said = ["uri", "name", "title", "mimeType", "description"].into_iter().filter_map(text);
            let said: Vec<String> = said.map(|said| harmless(said, LABEL)).collect();
            texts.push(format!("[link to a resource: {}]", said.join(", ")));
        }
        _ => texts.push(part.to_string()),
    }
}

/// Keeps bytes as a part, and returns the text that refers to them.
fn keep(
    kind: &str,
    data: &str,
    media_type: Option<&str>,
    name: Option<&str>,
    media: &mut Vec<Block>,
) -> String {
    let part = Box::new(Media {
        media_type: media_type.map(|media_type| Text::from(harmless(media_type, LABEL))),
        source: MediaSource::Base64(Text::from(data.to_owned())),
        name: name.map(|name| Text::from(harmless(name, LABEL))),
    });
    let is_picture = kind == "image" || media_type.is_some_and(|media_type| media_type.starts_with("image/"));
    media.push(Block::new(if is_picture { BlockKind::Image(part) } else { BlockKind::Document(part) }));
    let media_type = harmless(media_type.unwrap_or("no type"), LABEL);
    let name = name.map(|name| format!(" {}", harmless(name, LABEL))).unwrap_or_default();
    format!("[{kind}{name}: {media_type}, {} bytes]", data.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_is_kept() {
        let result = json!({
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "data": "aaaa", "mimeType": "image/png"},
                {"type": "audio", "data": "bbbb", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "a:b", "text": "two"}},
                {"type": "resource", "resource": {"uri": "a:c", "blob": "cccc", "mimeType": "application/pdf"}},
                {"type": "resource_link", "uri": "a:\u{1b}d", "name": "three"},
                {"type": "hologram", "depth": 3},
                7,
            ],
            "structuredContent": {"four": 4},
        });
        let found = output(&result);
        for part in [
            "one\n[image: image/png, 3 bytes]\n[audio: audio/wav, 3 bytes]\n[resource a:b]\ntwo\n",
            "[resource a:c: application/pdf, 3 bytes]\n[link to a resource: a: d, three]\n",
            "{\"type\":\"hologram\",\"depth\":3}\n7\n{\"four\":4}",
        ] {
            assert!(found.text.contains(part), "{}", found.text);
        }
        let kinds: Vec<bool> =
            found.media.iter().map(|block| matches!(block.kind, BlockKind::Image(_))).collect();
        assert_eq!(kinds, [true, false, false]);
        assert!(!found.is_error);
    }

    #[test]
    fn what_is_said_twice_is_heard_once() {
        let twice =
            json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "structuredContent": {"a": 1}});
        assert_eq!(output(&twice).text, "{\"a\": 1}");
        assert!(output(&json!({"content": [], "isError": true})).is_error);
        assert_eq!(output(&json!({"odd": true})).text, "{\"odd\":true}");
        assert_eq!(output(&json!({"content": []})).text, "[the tool returned nothing]");
    }
}
