//! `prometheus`: dumps of the tables in which the Discord bot of Prometheus Protocol keeps its conversations, as JSON, CSV or SQL.
//!
//! `conversation_history` has a row for each message, `chat_threads` one for each thread. `rows.rs` finds the rows in a dump, with
//! `csv.rs` and `sql.rs`; `read.rs` makes conversations of them. A row of CSV or SQL is kept as a JSON object of its columns.

mod csv;
mod read;
mod rows;
mod sql;

use std::sync::Arc;

use rejoin_record::json::{Doc, Value, ValueKind};

use super::sample::{Claim, Sample};
use crate::{
    accounting::Known,
    input::{Input, Stream},
    session::{ReadError, Session},
};

/// The name of the format.
pub(super) const FORMAT: &str = "prometheus";

/// Calls are JSON inside a string. What cannot be read of it is reported.
pub(super) const KNOWN: &[Known] = &[Known::fields("tool_calls function_calls function_results")];

/// The number of rows or lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// Whether a text looks like a dump of the tables.
pub(super) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    if is_json(sample.text()) {
        let holds_rows = |root: Value<'_>| {
            let lists = root.fields().map(|(_, value)| value);
            rows::is_row(root)
                || [root].into_iter().chain(lists).any(|list| list.items().take(LOOK_AT).any(rows::is_row))
        };
        let is_so =
            sample.any_line(LOOK_AT, holds_rows) || sample.beginning().0.root().is_some_and(holds_rows);
        return Claim::sure(is_so, "rows of `conversation_history` or `chat_threads`");
    }
    Claim::sure(csv::is_dump(sample.text()), "the columns of `conversation_history` or `chat_threads`")
        .or_else(|| {
            Claim::sure(
                sql::is_dump(sample.text()),
                "statements that fill `conversation_history` or `chat_threads`",
            )
        })
}

/// Whether a text is JSON rather than CSV or SQL.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// The tables.
const TABLES: [&str; 2] = ["conversation_history", "chat_threads"];

/// Whether a row with these columns is one of the tables.
fn has_columns(has: impl Fn(&str) -> bool) -> bool {
    let message = ["message_type", "channel_id", "user_id"];
    let thread = ["thread_id", "conversation_history"];
    message.into_iter().all(&has) || thread.into_iter().all(&has)
}

/// Reads every conversation in a dump.
pub(super) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let found = if is_json(&input.text) {
        rows::of_json(input, sample)?
    } else if csv::is_dump(&input.text) {
        csv::rows(&input.text)
    } else {
        sql::rows(&input.text)
    };
    read::conversations(input, found)
}

/// Reads every conversation in a dump that comes as a stream.
pub(super) fn read_stream(stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let input = stream.into_input()?;
    let text = Arc::clone(&input.text);
    read(&input, Sample::new(&text))
}

/// The columns `function_calls` and `function_results` of a row that was kept beside a message, as JSON.
pub(super) fn function_columns(row: &str) -> [Option<Arc<str>>; 2] {
    Doc::of(row).root().map_or([None, None], read::function_columns)
}

/// Whether a value is of this kind or, in a dump of another form, a text.
fn is_list_or_text(value: Value<'_>) -> bool {
    matches!(value.kind(), ValueKind::Array | ValueKind::String)
}
