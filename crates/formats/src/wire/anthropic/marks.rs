//! Cache marks: counting them and removing them. The API accepts four per request.

use std::collections::HashSet;

use rejoin_record::json::list;

use super::WIRE;
use crate::wire::prelude::*;

/// Counts the cache marks of the whole request.
pub(super) fn count_marks(view: &SoundView, target: &Target) -> usize {
    let same = target.context.dialect == Some(WIRE.dialect);
    let around: usize = ["system", "tools"]
        .iter()
        .filter_map(|name| target.context.get(name).filter(|_| same))
        .map(|raw| marks_of(raw.as_str(), None))
        .sum();
    let top = target.context.get("cache_control").map_or(0, |_| usize::from(same));
    // Items of one source message share its bytes, so each message is counted once.
    let mut seen: HashSet<usize> = HashSet::new();
    let mut messages = 0;
    for item in view.items() {
        let results = item.exchanges().flat_map(ExchangeRef::results);
        let sources = std::iter::once((item.index(), item.message()))
            .chain(results.map(|result| (result.at().0, result.message())));
        for (index, message) in sources {
            // This comes before the search of its bytes, since a message with many results occurs once per result.
            if !seen.insert(index) {
                continue;
            }
            let raw = message.native_text();
            if WIRE.is_own(message) && raw.contains(MARK) {
                messages += marks_of(raw, Some("content"));
            }
        }
    }
    around + top + messages
}

/// The text of a mark's field; a block without it needs no parsing.
pub(super) const MARK: &str = "\"cache_control\"";

/// Counts the marks on the blocks of a list (a field of the value, or the value itself) and inside its results.
fn marks_of(raw: &str, field: Option<&str>) -> usize {
    let doc = Doc::of(raw);
    let Some(root) = doc.root() else { return 0 };
    let list = field.map_or(Some(root), |field| root.get(field));
    list.into_iter().flat_map(Value::items).map(marks_on).sum()
}

pub(super) fn marks_on(block: Value<'_>) -> usize {
    let own = usize::from(block.given("cache_control").is_some());
    let result = block.says("type", "tool_result");
    let inner = block.get("content").filter(|_| result).into_iter().flat_map(Value::items);
    own + inner.filter(|block| block.given("cache_control").is_some()).count()
}

/// Removes the first `count` cache marks from a block, starting with those inside a result.
pub(super) fn without_marks(block: Value<'_>, count: usize) -> String {
    let mut left = count;
    let result = block.says("type", "tool_result");
    let inner = block.get("content").filter(|content| result && content.kind() == ValueKind::Array);
    let inner = inner.map(|content| {
        list(content.items().map(|block| {
            let marked = left > 0 && block.given("cache_control").is_some();
            left -= usize::from(marked);
            if marked { copy(block, true, None) } else { block.raw().to_owned() }
        }))
    });
    copy(block, left > 0, inner.as_deref())
}

/// Copies a block. If `content` is given, it replaces the content of the block. If `unmarked`, the cache mark is left out.
fn copy(block: Value<'_>, unmarked: bool, content: Option<&str>) -> String {
    let fields = block.fields().filter(|(key, _)| !unmarked || !key.is_str("cache_control"));
    let copy = fields.fold(Object::with_room(block.raw().len()), |copy, (key, value)| {
        copy.field(key, content.filter(|_| key.is_str("content")).unwrap_or(value.raw()))
    });
    copy.finish()
}
