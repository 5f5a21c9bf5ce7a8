//! Results that are too long to send: a request has their beginning and their end, and a note between them says how to read the rest.
//!
//! The composer shortens by its limit, and the walk by what the record says (`Prune::shortened`). Both write the same text.

use rejoin_record::{Block, BlockKind, Text};

/// How a model can read less of an output to begin with.
const HOW_TO_READ_LESS: &str = "or ask for less at a time: read_file takes `from` and `lines`, grep a narrower pattern, and the output \
                                of a command can go to a file first";

/// The beginning and the end of a text, together about `bytes` long.
pub(crate) fn ends(text: &str, bytes: usize) -> (&str, &str) {
    let head = text.floor_char_boundary(bytes / 2);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(bytes / 2)).max(head);
    (&text[..head], &text[tail..])
}

/// A result's text without its middle. `number` is the number of its message.
#[must_use]
pub fn without_middle(text: &str, bytes: usize, number: usize) -> String {
    let (head, tail) = ends(text, bytes);
    let (from, left_out) = (head.len(), text.len() - head.len() - tail.len());
    format!(
        "{head}\n[{left_out} bytes in the middle are not shown; call recall with {{\"message\": {number}, \"from\": {from}}} to read \
         them, {HOW_TO_READ_LESS}]\n{tail}"
    )
}

/// The content of a result with at most about `bytes` of text. Each of its texts may take an equal part of them.
pub(crate) fn of_result(content: &[Block], bytes: usize, number: usize) -> Vec<Block> {
    let each = bytes / texts(content).count().max(1);
    let short = |block: &Block| match &block.kind {
        BlockKind::Text(text) if text.len() > each => Block::text(without_middle(text, each, number)),
        _ => Block { span: None, ..block.clone() },
    };
    content.iter().map(short).collect()
}

/// The texts of a result.
pub(crate) fn texts(content: &[Block]) -> impl Iterator<Item = &Text> {
    content.iter().filter_map(Block::as_text)
}
