//! Functions that several readers of agents' session files share.

use std::{io::Read as _, sync::Arc};

use rejoin_record::{Block, BlockKind, Role, Text, json::Value, limits};

use crate::{
    input::{Input, Stream},
    messages::{
        Style,
        blocks::{BlockPlace, BlockReader},
    },
    session::{ReadError, Session},
    sessions::sample::Sample,
};

/// The blocks of a content in Anthropic's form, which many agents use. Places count from `base`.
pub(super) fn blocks(role: &Role, content: Option<Value<'_>>, buffer: &Arc<str>, base: usize) -> Vec<Block> {
    let reader = BlockReader { style: Style::Blocks, buffer, base, model: None };
    let mut blocks = reader.content(content, BlockPlace::Role(role)).blocks;
    blocks.iter_mut().for_each(|block| block.span = None);
    blocks
}

/// Removes the places of blocks. They come from another item than that of their message, so their places would be wrong there.
pub(super) fn unplaced(mut blocks: Vec<Block>) -> Vec<Block> {
    for block in &mut blocks {
        block.span = None;
        match &mut block.kind {
            BlockKind::Text(text) => *text = text.without_place(),
            BlockKind::ToolResult(result) => result.content = unplaced(std::mem::take(&mut result.content)),
            _ => {}
        }
    }
    blocks
}

/// Reads a stream that holds one document.
pub(crate) fn document_of(
    stream: Stream<'_>,
    read: fn(&Input, Sample<'_>) -> Result<Vec<Session>, ReadError>,
) -> Result<Vec<Session>, ReadError> {
    let mut bytes = Vec::new();
    stream.source.take(limits::BODY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(ReadError::io)?;
    let input = Input::new(stream.name, &bytes)?;
    read(&input, Sample::new(&input.text))
}

/// Everything in a document except the list of its messages, as text because the rest may not be valid JSON. `None` if there is
/// nothing else.
pub(super) fn around(input: &Input, list: Value<'_>) -> Option<Text> {
    let (before, after) = (&input.text[..list.start()], input.text.get(list.end()..).unwrap_or_default());
    let is_bare = before.trim().is_empty() && after.trim().is_empty();
    (!is_bare).then(|| Text::from(format!("{before}[]{after}")))
}
