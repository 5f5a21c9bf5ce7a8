//! The report rows that are derived from entries: messages in the form that bots use, and the audit of calls.

use std::collections::HashMap;

use rejoin_formats::sessions::function_columns;
use rejoin_record::{
    Content, Entry, EntryId, Message, ToolCall,
    json::{Object, list},
};
use rejoin_store::{AnsweredCall, CallRow, FunctionColumns, MessageRow, ReportRows};

use crate::{
    calls::{CallKey, PairedCalls, paired_calls},
    compat::ConversationMessage,
    digest::time_of,
};

/// The rows of entries, which are a whole conversation or the end of one.
pub(crate) fn of(entries: &[Entry], key: &CallKey) -> ReportRows {
    let paired = paired_calls(entries, key);
    let mut report = ReportRows { lacks_calls: paired.lacks_calls, ..ReportRows::default() };
    let seqs: HashMap<EntryId, u64> =
        entries.iter().map(|entry| (entry.id(), entry.envelope().seq)).collect();
    for entry in entries {
        let Content::Message(message) = Content::of(entry) else { continue };
        report.messages.extend(rows(entry, &message, &paired));
    }
    let mut numbers: HashMap<EntryId, u32> = HashMap::new();
    for call in paired.calls {
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

/// The rows of a message: first those of its results, then that of its own text and calls.
fn rows(entry: &Entry, message: &Message, paired: &PairedCalls) -> Vec<MessageRow> {
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
            functions: FunctionColumns::default(),
            answers: said.tool_call_id.map(|id| AnsweredCall { id, tool: said.tool_name }),
            at,
        }
    };
    let tool_of = |block| {
        let call = paired.calls_of.get(&(entry.id(), block))?;
        Some(paired.calls[*call].tool.clone())
    };
    let mut rows: Vec<MessageRow> =
        (0..).zip(ConversationMessage::of(message, None, tool_of)).map(row).collect();
    // The row of the message's own text and calls comes last.
    if let Some(row) = rows.last_mut().filter(|row| row.answers.is_none()) {
        let [calls, results] = function_columns(message).map(|json| json.map(|json| json.to_string()));
        row.functions = FunctionColumns { calls, results };
    }
    rows
}

/// A call in the form of OpenAI's API.
fn called(call: &ToolCall) -> String {
    let function = Object::new().text("name", &call.name).text("arguments", call.arguments.text());
    Object::new().text("id", &call.id).text("type", "function").object("function", function).finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rejoin_store::{Access, Location, Query, Store};

    use super::*;
    use crate::{compat::DatabaseService, open_store};

    /// Two calls with one id: each result names the tool of its own call, both in the rows and in the bot's history.
    #[test]
    fn a_result_has_the_tool_of_its_own_call_if_an_id_is_used_again() {
        let store: Arc<dyn Store> = Arc::from(open_store(&Location::Memory, Access::Write).unwrap());
        let call = |name: &str| ConversationMessage::calls(vec![ToolCall::new("same", name, "{}")]);
        let result = |text: &str| ConversationMessage::tool("same", text);
        let both = vec![ToolCall::new("same", "third", "{}"), ToolCall::new("same", "fourth", "{}")];
        let messages = [
            ConversationMessage::user("go"),
            call("first"),
            call("second"),
            result("of the second"),
            result("of the first"),
            ConversationMessage::calls(both),
            result("of the third"),
            result("of the fourth"),
        ];
        let service = DatabaseService::new(Arc::clone(&store));
        service.save_messages("ann", "general", &messages).unwrap();
        let id = store.list(&Query::default()).unwrap().conversations[0].id;
        let mut entries = Vec::new();
        store.each_entry(id, |entry| entries.push(entry)).unwrap();
        let rows = of(&entries, &CallKey([0; 32]));
        assert!(!rows.lacks_calls);
        let of_rows = rows.messages.into_iter().filter_map(|row| Some((row.answers?.tool?, row.content?)));
        let named = |tool: &str| (tool.to_owned(), format!("of the {tool}"));
        assert_eq!(of_rows.collect::<Vec<_>>(), ["second", "first", "third", "fourth"].map(named));

        let history = service.get_conversation_history("ann", "general", 50).unwrap();
        let of_bot = history.into_iter().filter_map(|message| Some((message.tool_name?, message.content?)));
        assert_eq!(of_bot.collect::<Vec<_>>(), ["first", "second", "third", "fourth"].map(named));

        // The last entries alone do not show which call the result answers.
        assert!(of(&entries[4..], &CallKey([0; 32])).lacks_calls);
    }
}
