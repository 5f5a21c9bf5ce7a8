//! Images and documents, sound and with every known damage, as parts of every shape.

use std::sync::LazyLock;

use super::Shape;

/// Types and data: sound, spelled in another way, and broken.
const DATA: &[(&str, &str)] = &[
    ("image/png", "iVBORw0KGgo="),
    ("image/jpeg", "/9j/4AA="),
    ("image/gif", "R0lGODlhAQ=="),
    ("image/webp", "UklGRgAAAABXRUJQ"),
    ("application/pdf", "JVBERi0xLjc="),
    ("application/pdf", "IAolUERGLTEuNw=="),
    ("text/plain", "aGVsbG8="),
    // Other spellings.
    ("image/jpg", "/9j/4AA="),
    ("IMAGE/PNG", "iVBORw0KGgo="),
    ("image/png; q=1", "iVBORw0KGgo="),
    ("application/octet-stream", "iVBORw0KGgo="),
    ("", "iVBORw0KGgo="),
    ("image/png", "iVBORw0KGgo"),
    ("image/png", "iVBO\\nRw0KGgo="),
    ("image/jpeg", "_9j_4AA="),
    ("image/jpeg", "/9j_4AA="),
    // Nothing.
    ("image/png", ""),
    ("image/png", " "),
    ("image/png", "=="),
    ("application/pdf", ""),
    // No base64.
    ("image/png", "%%%"),
    ("image/png", "iVBOR"),
    ("image/png", "iVBO=Rw0KGgo"),
    ("image/webp", "[the picture was lost: see the log]"),
    ("image/png", "data:image/png;base64,iVBORw0KGgo="),
    // Not of the type that is named.
    ("image/png", "/9j/4AA="),
    ("image/jpeg", "aGVsbG8="),
    ("image/heic", "iVBORw0KGgo="),
    ("application/pdf", "aGVsbG8="),
    ("text/plain", "JVBERi0xLjc="),
    ("text/plain", "/9j/4AA="),
    // Types that not everybody takes.
    ("image/bmp", "Qk0AAA=="),
    ("image/svg+xml", "PHN2Zy8+"),
    ("application/zip", "UEsDBA=="),
    ("application/octet-stream", "AAAAAA=="),
];

/// Addresses that lead somewhere, and others.
const ADDRESSES: &[&str] = &[
    "https://example.org/a.png",
    "http://example.org/a.png",
    "HTTPS://example.org/a.png",
    "gs://bucket/a.png",
    "",
    " ",
    "./a.png",
    "a.png",
    "/tmp/a.png",
    "file:///tmp/a.png",
    "https://",
    "https://a b/c.png",
    "data:image/png;base64,iVBORw0KGgo=",
    "data:image/png;base64,",
    "data:image/png,xyz",
    "data:;base64,iVBORw0KGgo=",
    "DATA:image/PNG;charset=x;BASE64,iVBORw0KGgo=",
];

const FILES: &[&str] = &["file-1", "", " "];

/// Every medium as a part of a body of this shape.
pub fn parts(shape: Shape) -> &'static [String] {
    static PARTS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| Shape::ALL.into_iter().map(all).collect());
    let place = Shape::ALL.iter().position(|known| *known == shape).unwrap_or_default();
    &PARTS[place]
}

/// How many there are for a shape, at least: an index below it fits every shape.
pub fn count() -> usize {
    Shape::ALL.into_iter().map(|shape| parts(shape).len()).min().unwrap_or_default()
}

fn all(shape: Shape) -> Vec<String> {
    let mut parts = Vec::new();
    for (kind, data) in DATA {
        parts.extend(bytes(shape, kind, data));
    }
    for url in ADDRESSES {
        parts.extend(address(shape, url));
    }
    for id in FILES {
        parts.extend(file(shape, id));
    }
    parts
}

fn bytes(shape: Shape, kind: &str, data: &str) -> Vec<String> {
    let url = format!("data:{kind};base64,{data}");
    match shape {
        Shape::OpenAi => vec![
            format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#),
            format!(r#"{{"type":"file","file":{{"filename":"a.pdf","file_data":"{url}"}}}}"#),
            format!(r#"{{"type":"file","file":{{"file_data":"{data}"}}}}"#),
            format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}"#),
        ],
        Shape::Anthropic => {
            let source = format!(r#"{{"type":"base64","media_type":"{kind}","data":"{data}"}}"#);
            let image = format!(r#"{{"type":"image","source":{source}}}"#);
            vec![
                format!(r#"{{"type":"document","title":"a","source":{source}}}"#),
                format!(
                    r#"{{"type":"document","source":{{"type":"content","content":[{{"type":"text","text":"words"}},{image}]}}}}"#
                ),
                format!(
                    r#"{{"type":"document","source":{{"type":"text","media_type":"{kind}","data":"{data}"}}}}"#
                ),
                image,
            ]
        }
        Shape::Responses => vec![
            format!(r#"{{"type":"input_image","image_url":"{url}","detail":"auto"}}"#),
            format!(r#"{{"type":"input_file","filename":"a.pdf","file_data":"{url}"}}"#),
            format!(r#"{{"type":"input_file","filename":"a.txt","file_data":"{data}"}}"#),
            format!(r#"{{"type":"input_image","image_url":"{url}","file_id":"file-1"}}"#),
        ],
        Shape::Gemini => vec![
            format!(r#"{{"inlineData":{{"mimeType":"{kind}","data":"{data}"}}}}"#),
            format!(r#"{{"inline_data":{{"mime_type":"{kind}","data":"{data}"}}}}"#),
            format!(r#"{{"inlineData":{{"data":"{data}"}}}}"#),
            format!(r#"{{"inlineData":{{"mimeType":"{kind}","data":"{data}","displayName":"a.pdf"}}}}"#),
        ],
    }
}

fn address(shape: Shape, url: &str) -> Vec<String> {
    match shape {
        Shape::OpenAi => vec![
            format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#),
            format!(r#"{{"type":"image_url","image_url":"{url}"}}"#),
        ],
        Shape::Anthropic => ["image", "document"]
            .map(|kind| format!(r#"{{"type":"{kind}","source":{{"type":"url","url":"{url}"}}}}"#))
            .into(),
        Shape::Responses => vec![
            format!(r#"{{"type":"input_image","image_url":"{url}"}}"#),
            format!(r#"{{"type":"input_file","file_url":"{url}"}}"#),
        ],
        Shape::Gemini => vec![
            format!(r#"{{"fileData":{{"mimeType":"image/png","fileUri":"{url}"}}}}"#),
            format!(r#"{{"fileData":{{"fileUri":"{url}"}}}}"#),
        ],
    }
}

fn file(shape: Shape, id: &str) -> Vec<String> {
    match shape {
        Shape::OpenAi => vec![
            format!(r#"{{"type":"file","file":{{"file_id":"{id}"}}}}"#),
            format!(r#"{{"type":"file","file":{{"file_id":"{id}","file_data":""}}}}"#),
        ],
        Shape::Anthropic => ["image", "document"]
            .map(|kind| format!(r#"{{"type":"{kind}","source":{{"type":"file","file_id":"{id}"}}}}"#))
            .into(),
        Shape::Responses => vec![
            format!(r#"{{"type":"input_image","file_id":"{id}","image_url":null}}"#),
            format!(r#"{{"type":"input_file","file_id":"{id}","file_url":"","filename":null}}"#),
        ],
        Shape::Gemini => vec![
            format!(
                r#"{{"fileData":{{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/{id}"}}}}"#
            ),
            r#"{"fileData":{}}"#.into(),
        ],
    }
}
