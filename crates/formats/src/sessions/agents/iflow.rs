//! iFlow: Claude Code's lines, with sessions named `session-<uuid>` and results in which the output of a tool has Gemini's form.

use std::sync::Arc;

use rejoin_record::{
    Block, BlockKind, Text,
    json::{Doc, Value},
};

use crate::{
    accounting::{Known, likeness::is_iflow},
    input::Stream,
    session::{Aside, ReadError, Session},
    sessions::{
        building::as_text,
        claude_code,
        sample::{Claim, Sample},
    },
};

pub(crate) const FORMAT: &str = "iflow";

/// The known fields of Claude Code's lines, and the result of a tool for display.
pub(crate) const KNOWN: &[Known] = &{
    let mut all = [Known::fields("message.content.content.resultDisplay"); claude_code::KNOWN.len() + 1];
    let mut place = 0;
    while place < claude_code::KNOWN.len() {
        all[place] = claude_code::KNOWN[place];
        place += 1;
    }
    all
};

/// Whether a text is a session of iFlow.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::sure(
        sample.any_line_of_beginning(is_iflow),
        "lines with a `parentUuid` and a `sessionId` of iFlow's form",
    )
}

/// Reads a session, line by line.
pub(crate) fn read_stream(stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut sessions = claude_code::read_as(FORMAT, stream)?;
    for session in &mut sessions {
        let hidden = session.set_aside.iter_mut().filter_map(|item| match &mut item.what {
            Aside::Hidden(message, _) => Some(message),
            _ => None,
        });
        for message in session.messages.iter_mut().chain(hidden) {
            if message.tool_results().any(|result| result.content.iter().any(is_answer)) {
                let results = Arc::make_mut(message).blocks.iter_mut();
                results
                    .filter_map(|block| match &mut block.kind {
                        BlockKind::ToolResult(result) => Some(result),
                        _ => None,
                    })
                    .for_each(|result| {
                        let content = std::mem::take(&mut result.content);
                        result.content = content.into_iter().map(plain).collect();
                    });
            }
        }
    }
    Ok(sessions)
}

fn is_answer(block: &Block) -> bool {
    matches!(&block.kind, BlockKind::Opaque(opaque) if opaque.raw.as_str().contains("\"responseParts\""))
}

/// Replaces the object in a result with the text that the tool returned. The native item still holds the object.
fn plain(block: Block) -> Block {
    let BlockKind::Opaque(opaque) = &block.kind else { return block };
    let doc = Doc::of(opaque.raw.as_str());
    let answer = doc.root().and_then(|root| answer_of(root.given("responseParts")?));
    answer.map_or_else(|| block.clone(), Block::text)
}

fn answer_of(parts: Value<'_>) -> Option<Text> {
    let part = parts.items().next().unwrap_or(parts);
    let response = part.given("functionResponse")?.given("response")?;
    let told = response.given("output").or_else(|| response.given("error")).unwrap_or(response);
    // The text's place counts from the beginning of the object, but the item of the message is the whole line.
    Some(as_text(told).without_place())
}
