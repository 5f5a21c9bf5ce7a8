//! The display log of Cline and Roo Code, `ui_messages.json`: what the extension showed, one item for each box on the screen. It is
//! read only if the history of the task is missing.
//!
//! It holds less than the history: calls in the form in which they were displayed, no ids, and results only if an item holds the
//! text of the request that carried them. Such a request answers the call before it. A finding says that something is missing.

use std::collections::HashSet;

use rejoin_record::{Arguments, CallId, ToolCall, json::Object};
use rejoin_view::{Fate, KnownCall};

use super::cline::{CLINE, ROO};
use crate::sessions::{building, prelude::*};

const LOOK_AT: usize = 200;

/// Kinds of items that only serve the display, and are set aside.
const SILENT: &str = "api_req_deleted api_req_failed api_req_finished api_req_retried api_req_retry_delayed \
    auto_approval_max_req_reached browser_session_status checkpoint_created checkpoint_saved \
    clineignore_error condense_context_error deleted_api_reqs diff_error error error_retry info \
    load_mcp_documentation mcp_notification mcp_server_request_started mistake_limit_reached report_bug \
    resume_completed_task resume_task rooignore_error shell_integration_warning \
    sliding_window_truncation task_progress too_many_tools_warning user_edit_todos";

/// The extension that wrote a display log, and whether a mark in the log proves it. `None` if it is not a display log. If there
/// are marks of neither extension, Roo Code is more likely, because Cline numbers its items.
pub(super) fn kind_of(root: Value<'_>) -> Option<(&'static str, bool)> {
    let items = || root.items().take(LOOK_AT);
    let is_shown = |item: Value<'_>| {
        let kind = item.word("type");
        item.holds("ts", ValueKind::Number)
            && matches!(&*kind, "say" | "ask")
            && item.holds(&kind, ValueKind::String)
            && item.get("role").is_none()
    };
    if root.kind() != ValueKind::Array
        || !items().any(is_shown)
        || !items().all(|item| item.is_cut() || is_shown(item))
    {
        return None;
    }
    let has = |names: &[&str]| items().any(|item| names.iter().any(|name| item.get(name).is_some()));
    let says = |names: &[&str]| {
        items().any(|item| names.iter().any(|name| item.says("say", name) || item.says("ask", name)))
    };
    let of_cline =
        has(&["conversationHistoryIndex", "conversationHistoryDeletedRange", "lastCheckpointHash"])
            || says(&["task", "checkpoint_created", "plan_mode_respond", "task_progress"]);
    let of_roo = has(&["contextCondense", "isProtected", "isAnswered", "progressStatus"])
        || says(&["condense_context", "checkpoint_saved", "subtask_result", "codebase_search_result"]);
    Some(match (of_cline, of_roo) {
        (true, false) => (CLINE, true),
        (_, of_roo) => (ROO, of_roo),
    })
}

/// Reads a display log.
///
/// # Errors
/// If nothing was said in it.
pub(super) fn read(
    format: &'static str,
    input: &Input,
    (doc, error): crate::sessions::sample::Parsed<'_>,
    id: Option<&str>,
) -> Result<Vec<Session>, ReadError> {
    let mut screen = Screen {
        format,
        builder: SessionBuilder::new(format),
        is_begun: false,
        is_answered: false,
        waiting: None,
        shown: Vec::new(),
        later: Vec::new(),
        has_spoken: false,
    };
    screen.builder.findings.extend(replaced_bytes(input));
    let items: Vec<Value<'_>> = doc.root().into_iter().flat_map(Value::items).collect();
    for (index, shown) in items.iter().enumerate() {
        let place = SourcePlace { index, offset: shown.start(), line: None };
        match shown.is_cut() {
            true => screen.builder.aside(place, Aside::Raw(Text::new(&input.text[shown.start()..]))),
            false => screen.item(*shown, place, input),
        }
    }
    screen.go_on();
    let mut builder = screen.builder;
    if builder.messages.is_empty() {
        return Err(ReadError::NoConversation("nothing was said in it"));
    }
    let rest = doc.root().and_then(|list| building::rest_after(list, &input.text));
    if let Some(rest) = rest.filter(|_| error.is_some()) {
        let place = SourcePlace { index: items.len(), offset: input.text.len() - rest.len(), line: None };
        builder.aside(place, Aside::Raw(Text::new(rest)));
    }
    builder.findings.extend(error.map(|error| unreadable_rest(input, error, items.len())));
    let finding = Finding::new(Rule::ForeignBlock, Position::default(), Action::Kept);
    builder.findings.push(finding.because(
        "a display log holds calls and results only as they were shown; the history of the task holds them all",
    ));
    let mut session = builder.finish(&input.name, id, Context::of_model(Dialect::Anthropic, None));
    session.known = not_shown(&session.messages);
    Ok(vec![session])
}

/// The calls whose results were not displayed. The history, from which the requests were made, may well have had these results.
/// So the calls count as closed, and the repair does not report them.
fn not_shown(messages: &[Arc<Message>]) -> Vec<KnownCall> {
    let results = messages.iter().flat_map(|message| message.tool_results());
    let shown: HashSet<&CallId> = results.filter_map(|result| result.call_id.as_ref()).collect();
    let blocks = messages.iter().enumerate().flat_map(|(index, message)| {
        message.blocks.iter().enumerate().map(move |(block, own)| (index, block, own))
    });
    let calls = blocks.filter(|(.., own)| own.as_call().is_some_and(|call| !shown.contains(&call.id)));
    calls.map(|(message, block, _)| KnownCall { message, block, fate: Fate::ClosedInterrupted }).collect()
}

struct Screen {
    format: &'static str,
    builder: SessionBuilder,
    /// Whether the message with the task has been read.
    is_begun: bool,
    /// Whether the model has answered. The first request repeats the task.
    is_answered: bool,
    /// The last call, if it has no result yet.
    waiting: Option<String>,
    /// The output of the waiting call so far. It becomes the result if no request holds the result.
    shown: Vec<(Text, Raw, SourcePlace, Detail)>,
    /// Messages of a person that came while a call waited. They are added after its result.
    later: Vec<(Message, SourcePlace, Detail)>,
    /// Whether a person has spoken since the last request.
    has_spoken: bool,
}

impl Screen {
    fn item(&mut self, shown: Value<'_>, place: SourcePlace, input: &Input) {
        let kind = shown.word(&shown.word("type"));
        let text = text_of(shown, "text").filter(|text| !text.is_blank());
        let Some(raw) = Raw::slice(&input.text, shown.start(), shown.end()) else { return };
        let detail = Detail { time: shown.given("ts").map(time_of), ..Detail::default() };
        let aside = |builder: &mut SessionBuilder| builder.aside(place, Aside::Raw(Text::new(shown.raw())));
        let images = shown.given("images").into_iter().flat_map(Value::items).filter_map(Value::as_str);
        let images = images.map(|url| medium(&url, None, None));
        let summary = shown.given("contextCondense").and_then(|condensed| text_of(condensed, "summary"));
        let inner = text.as_deref().map(Doc::of);
        let inner = inner.as_ref().and_then(Doc::root).filter(|root| root.kind() == ValueKind::Object);
        let is_task = &*kind == "task" || (&*kind == "text" && !self.is_begun);
        let told = |text: Text| Block::text(text);
        // The log has no ids of calls.
        let id = format!("shown_{}", place.index);
        let block = match (&*kind, text.clone()) {
            (_, text) if is_task || matches!(&*kind, "user_feedback" | "user_feedback_diff") => {
                let blocks: Vec<Block> = text.map(told).into_iter().chain(images).collect();
                if blocks.is_empty() {
                    return aside(&mut self.builder);
                }
                self.is_begun = true;
                self.has_spoken = true;
                let message = (item(self.format, Role::User, blocks, raw), place, detail);
                self.later.push(message);
                if self.waiting.is_none() {
                    self.go_on();
                }
                return;
            }
            ("condense_context", _) if summary.is_some() => {
                self.go_on();
                self.builder.replace(place);
                let blocks = summary.into_iter().map(told).collect();
                return self.builder.say(item(self.format, Role::User, blocks, raw), place, detail);
            }
            ("api_req_started", _) => {
                let request = inner.and_then(|inner| text_of(inner, "request"));
                return self.request(request.filter(|request| !request.is_blank()), (raw, place, detail));
            }
            (_, None) => return aside(&mut self.builder),
            ("reasoning", Some(text)) => Some(thought(text, self.format, None)),
            (
                "command_output"
                | "mcp_server_response"
                | "browser_action_result"
                | "subtask_result"
                | "codebase_search_result",
                Some(text),
            ) if self.waiting.is_some() => return self.shown.push((text, raw, place, detail)),
            // No call waits for this output, so it becomes a message.
            ("command_output" | "mcp_server_response" | "subtask_result", Some(text)) => {
                let message = item(self.format, Role::User, vec![told(text)], raw);
                return self.builder.say(message, place, detail);
            }
            (kind, _) if SILENT.split(' ').any(|silent| silent == kind) => return aside(&mut self.builder),
            (kind, Some(text)) => answered(kind, text, inner, &id),
        };
        let Some(block) = block else {
            return self.builder.aside(place, Aside::Unknown(Text::new(shown.raw())));
        };
        let is_call = block.as_call().is_some();
        self.go_on();
        (self.is_begun, self.is_answered) = (true, true);
        self.waiting = is_call.then_some(id);
        self.builder.say(item(self.format, Role::Assistant, vec![block], raw), place, detail);
    }

    /// Handles an item about a request to the model. The request has the result of the waiting call, or text of which there is no
    /// other item.
    fn request(&mut self, request: Option<Text>, (raw, place, detail): (Raw, SourcePlace, Detail)) {
        match (request, self.waiting.take()) {
            (Some(request), Some(id)) => {
                // The request repeats the output that was displayed.
                for (_, raw, place, _) in std::mem::take(&mut self.shown) {
                    self.builder.aside(place, Aside::Raw(Text::new(raw.as_str())));
                }
                self.answer(&id, vec![Block::text(request)], (raw, place, detail));
            }
            (Some(request), None) if self.is_answered && !self.has_spoken => {
                let message = item(self.format, Role::User, vec![Block::text(request)], raw);
                self.builder.say(message, place, detail);
            }
            (_, waiting) => {
                self.waiting = waiting;
                self.go_on();
                self.builder.aside(place, Aside::Raw(Text::new(raw.as_str())));
            }
        }
        self.go_on();
        self.has_spoken = false;
    }

    /// Adds everything that was held back: the output of the waiting call as its result, then the messages of a person.
    fn go_on(&mut self) {
        let mut shown = std::mem::take(&mut self.shown).into_iter();
        if let (Some(id), Some((text, raw, place, detail))) = (self.waiting.take(), shown.next()) {
            let mut content = vec![Block::text(text)];
            for (text, raw, place, _) in shown {
                content.push(Block::text(text));
                self.builder.aside(place, Aside::Raw(Text::new(raw.as_str())));
            }
            self.answer(&id, content, (raw, place, detail));
        }
        for (message, place, detail) in std::mem::take(&mut self.later) {
            self.builder.say(message, place, detail);
        }
    }

    fn answer(&mut self, id: &str, content: Vec<Block>, (raw, place, detail): (Raw, SourcePlace, Detail)) {
        let message = item(self.format, Role::Tool, vec![result(Some(id), None, content, false)], raw);
        self.builder.say(message, place, detail);
    }
}

/// The text or the call of the model in a displayed item. `None` if the kind of item is unknown.
fn answered(kind: &str, text: Text, inner: Option<Value<'_>>, id: &str) -> Option<Block> {
    let either = |one, other| inner.and_then(|inner| text_of(inner, one).or_else(|| text_of(inner, other)));
    let call = |name: &str, arguments| {
        let id = Some(CallId::from(id));
        Some(Block::call(ToolCall::read(id, Some(Text::new(name)), Arguments::new(arguments))))
    };
    match kind {
        "text" | "completion_result" => Some(Block::text(text)),
        "followup" | "plan_mode_respond" | "act_mode_respond" => {
            Some(Block::text(either("question", "response").unwrap_or(text)))
        }
        "tool" | "use_mcp_server" | "use_subagents" | "browser_action" => {
            let name = either("toolName", "tool");
            let arguments = inner.map_or_else(|| wrapped("text", &text), |_| text.to_string());
            call(name.as_deref().unwrap_or(kind), arguments)
        }
        "command" => call("execute_command", wrapped("command", &text)),
        "browser_action_launch" => call(kind, wrapped("url", &text)),
        "new_task" | "condense" | "summarize_task" => call(kind, wrapped("context", &text)),
        _ => None,
    }
}

fn wrapped(name: &str, text: &str) -> String {
    Object::new().text(name, text).finish()
}
