//! The rows for reports that follow from entries: messages as bots know them, and the audit of calls.

use std::collections::HashMap;

use rejoin_record::{
    CallId, Content, Entry, EntryId, Message, Text, ToolCall,
    json::{Object, list},
};
use rejoin_store::{AnsweredCall, CallRow, MessageRow, ReportRows};

use crate::{
    calls::{CallKey, calls_in},
    compat::ConversationMessage,
    digest::time_of,
};

/// The rows of entries, which are a whole conversation or its end.
pub(crate) fn of(entries: &[Entry], key: &CallKey) -> ReportRows {
    let mut report = ReportRows::default();
    let mut names: HashMap<CallId, Text> = HashMap::new();
    let seqs: HashMap<EntryId, u64> =
        entries.iter().map(|entry| (entry.id(), entry.envelope().seq)).collect();
    for entry in entries {
        let Content::Message(message) = Content::of(entry) else { continue };
        names.extend(message.tool_calls().map(|call| (call.id.clone(), call.name.clone())));
        let mut answered = message.tool_results().filter_map(|result| result.call_id.as_ref());
        report.lacks_calls |= answered.any(|id| !names.contains_key(id));
        report.messages.extend(rows(entry, &message, &names));
    }
    let mut numbers: HashMap<EntryId, u32> = HashMap::new();
    for call in calls_in(entries, key) {
        let number = numbers.entry(call.request).or_default();
        report.calls.push(CallRow {
            request: call.request,
            number: *number,
            seq: seqs.get(&call.request).copied().unwrap_or_default(),
            call_id: call.call_id,
            tool: call.tool,
            status: call.status.name(),
            started: call.times.started,
            ended: call.times.ended,
            error_kind: call.error_kind.map(|kind| kind.name()),
            args_sha256: call.args_sha256,
            arguments: call.arguments,
            error: call.error,
            outcome: call.outcome,
        });
        *number += 1;
    }
    report
}

/// The rows of a message: its results first, then what it says itself.
fn rows(entry: &Entry, message: &Message, names: &HashMap<CallId, Text>) -> Vec<MessageRow> {
    let envelope = entry.envelope();
    let at = time_of(entry).unwrap_or(envelope.timestamp);
    let row = |(part, said): (u32, ConversationMessage)| {
        let calls: Vec<String> = said.tool_calls.iter().map(called).collect();
        MessageRow {
            seq: envelope.seq,
            part,
            role: said.role,
            content: said.content,
            tool_calls: (!calls.is_empty()).then(|| list(&calls)),
            answers: said.tool_call_id.map(|id| AnsweredCall { id, tool: said.tool_name }),
            at,
        }
    };
    (0..).zip(ConversationMessage::of(message, None, names)).map(row).collect()
}

/// A call in the form of OpenAI's API.
fn called(call: &ToolCall) -> String {
    let function = Object::new().text("name", &call.name).text("arguments", call.arguments.text());
    Object::new().text("id", &call.id).text("type", "function").object("function", function).finish()
}
