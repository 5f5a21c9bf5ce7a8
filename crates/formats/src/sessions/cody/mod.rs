//! `cody`: one line an item, `{timestamp, item: {type, data}}`, in `~/.cody/conversations/<id>.jsonl`.
//!
//! A `turn` line is a stretch of the history, with the user's words and the reasoning, which stand nowhere else; it is written
//! when the turn has ended. `event` lines are written as things happen: they hold the whole output of tools, which turns cut, and
//! they are all that is left of a turn that never ended.

mod overlap;
mod read;
mod retold;
mod write;

pub(super) use read::read_stream;
use rejoin_record::json::{Value, ValueKind};
pub(super) use write::write;

use super::sample::{Claim, Sample};

/// The name of the format.
pub(super) const FORMAT: &str = "cody";

/// The number of lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// The types of lines.
const KINDS: &str = "session_meta event turn compacted message response";

/// Whether a text looks like a conversation of cody.
pub(super) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_line = |root: Value<'_>| {
        root.get("timestamp").is_some()
            && root.get("item").is_some_and(|item| {
                item.holds("data", ValueKind::Object) && KINDS.split(' ').any(|kind| item.says("type", kind))
            })
    };
    Claim::sure(sample.any_line(LOOK_AT, is_line), "lines with an `item` that has a `type` and `data`")
}
