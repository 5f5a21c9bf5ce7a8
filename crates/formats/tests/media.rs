//! Images and documents that a provider could not read become text, in every dialect; sound ones are left alone.

#![allow(clippy::unwrap_used, reason = "a test may")]

use rejoin_formats::{Converted, Dialect, Input, Session, convert, sessions};
use rejoin_view::OnBroken;
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgo=";

fn session(body: &Value, format: &str) -> Session {
    let input = Input::new("body.json", body.to_string().as_bytes()).unwrap();
    sessions::read(&input, sessions::named(format)).unwrap().remove(0)
}

fn converted(body: &Value, format: &str, to: Dialect) -> Converted {
    let out = convert(&session(body, format), to, None, OnBroken::Keep).unwrap();
    let violations = testkit::refusals(to, out.body.as_bytes());
    assert!(violations.is_empty(), "{to}: {violations:#?}\n{}", out.body);
    out
}

fn unusable(out: &Converted) -> usize {
    out.findings.iter().filter(|finding| finding.rule.name() == "unusable-media").count()
}

/// A block of Anthropic's, where a person shows it and where a tool gives it back.
fn shown(block: &Value) -> Value {
    json!({"model":"m","max_tokens":1,"messages":[
        {"role":"user","content":[{"type":"text","text":"look"},block]},
        {"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"shot","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[block]}]}],
        "tools":[{"name":"shot","input_schema":{"type":"object"}}]})
}

#[test]
fn damaged_media_become_text_in_every_dialect() {
    let image = |kind: &str, data: &str| json!({"type":"image","source":{"type":"base64","media_type":kind,"data":data}});
    let paper = |kind: &str, data: &str| json!({"type":"document","title":"a.pdf","source":{"type":"base64","media_type":kind,"data":data}});
    let linked = |url: &str| json!({"type":"image","source":{"type":"url","url":url}});
    for (block, label) in [
        (image("image/png", ""), "[image unavailable: the data is empty]"),
        (image("image/png", "%%%"), "[image unavailable: the data is not valid base64]"),
        (
            image("image/png", "[the blob is missing]"),
            "[image unavailable: the data is not valid base64: [the blob is missing]]",
        ),
        (
            image("image/png", "/9j/4AA="),
            "[image unavailable: it is named image/png, but the data is image/jpeg]",
        ),
        (
            image("image/webp", "aGVsbG8="),
            "[image unavailable: it is named image/webp, but the data is something else]",
        ),
        (linked(""), "[image unavailable: the address is empty]"),
        (linked("./a.png"), "[image unavailable: the provider cannot open the address ./a.png]"),
        (
            paper("application/pdf", "aGVsbG8="),
            "[document unavailable: it is named application/pdf, but the data is something else (a.pdf)]",
        ),
        (paper("application/pdf", ""), "[document unavailable: the data is empty (a.pdf)]"),
    ] {
        for to in Dialect::all() {
            let out = converted(&shown(&block), "anthropic", to);
            let label = json!(label).to_string();
            let inside = &label[1..label.len() - 1];
            assert_eq!(out.body.matches(inside).count(), 2, "{to} {inside}\n{}", out.body);
            assert_eq!(unusable(&out), 2, "{to} {:?}", out.findings);
        }
    }
}

#[test]
fn every_shape_is_judged() {
    let bodies = [
        (
            "openai-chat",
            json!([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,/9j/4AA="}},
            {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,"}}]}]),
        ),
        (
            "openai-responses",
            json!({"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/gif;base64,%%"},
            {"type":"input_file","file_url":"a.pdf"}]}]}),
        ),
        (
            "gemini",
            json!({"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"/9j/4AA="}},
            {"fileData":{"mimeType":"application/pdf","fileUri":"a.pdf"}}]}]}),
        ),
    ];
    for (format, body) in bodies {
        for to in Dialect::all() {
            let out = converted(&body, format, to);
            assert!(out.body.contains("[image unavailable: "), "{format} {to} {}", out.body);
            assert!(out.body.contains("[document unavailable: "), "{format} {to} {}", out.body);
            assert_eq!(unusable(&out), 2, "{format} {to}");
        }
    }
}

#[test]
fn sound_media_come_back_byte_for_byte() {
    let inner = json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":PNG}});
    for block in [
        inner.clone(),
        json!({"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}),
        json!({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}),
        json!({"type":"document","source":{"type":"content","content":[{"type":"text","text":"see"},inner]}}),
    ] {
        let body = shown(&block);
        let out = converted(&body, "anthropic", Dialect::Anthropic);
        assert_eq!(out.body, body.to_string());
        assert!(out.findings.is_empty(), "{:?}", out.findings);
    }
}

#[test]
fn another_spelling_is_put_right_and_the_image_stays() {
    for (kind, data, strict) in [
        ("image/jpg", "/9j/4AA=", "/9j/4AA="),
        ("image/png", "iVBO\nRw0KGgo", PNG),
        ("IMAGE/PNG", PNG, PNG),
        ("application/octet-stream", PNG, PNG),
    ] {
        let block = json!({"type":"image","source":{"type":"base64","media_type":kind,"data":data}});
        for to in Dialect::all() {
            let out = converted(&shown(&block), "anthropic", to);
            assert!(out.body.contains(strict), "{to} {kind} {}", out.body);
            assert_eq!(unusable(&out), 0, "{to} {kind}");
        }
    }
}

/// A message imported by a version that did not judge media is marked as one that may be sent again unchanged.
#[test]
fn a_stored_message_with_a_damaged_image_is_judged_again() {
    let body = shown(&json!({"type":"image","source":{"type":"base64","media_type":"image/png","data":PNG}}));
    let mut stored = session(&body, "anthropic");
    for message in &mut stored.messages {
        let message = std::sync::Arc::make_mut(message);
        for block in &mut message.blocks {
            let inner = match &mut block.kind {
                rejoin_record::BlockKind::ToolResult(result) => &mut result.content[..],
                _ => std::slice::from_mut(block),
            };
            for block in inner {
                if let rejoin_record::BlockKind::Image(media) = &mut block.kind {
                    media.source = rejoin_record::MediaSource::Base64("%%%".into());
                }
            }
        }
    }
    for to in Dialect::all() {
        let out = convert(&stored, to, None, OnBroken::Keep).unwrap();
        assert_eq!(unusable(&out), 2, "{to} {}", out.body);
    }
}
