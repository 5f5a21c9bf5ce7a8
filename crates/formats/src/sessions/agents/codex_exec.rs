//! The output of `codex exec --json`: one event per line, `thread.started`, `turn.…`, and `item.…` with what the model did.
//!
//! It holds less than a rollout: the messages of a person are missing, and of the result of a command, only the output is there.

use rejoin_record::{Arguments, CallId, Origin, ToolCall, json::Object};

use super::parts::{blocks, unplaced};
use crate::sessions::{begun::UnendedLines, building::beside, prelude::*};

pub(crate) const FORMAT: &str = "codex-exec";

const LOOK_AT: usize = 20;

/// Fields of an event that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] =
    &[Known::fields("usage item.structured_content item.result.structured_content")];

/// Whether a text is the output of `codex exec --json`.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_own = |root: Value<'_>| match &*root.word("type") {
        "thread.started" => root.holds("thread_id", ValueKind::String),
        "item.started" | "item.updated" | "item.completed" => {
            root.get("item").is_some_and(|item| item.holds("id", ValueKind::String))
        }
        _ => false,
    };
    Claim::sure(sample.any_line(LOOK_AT, is_own), "events of the types `thread.…` and `item.…`")
}

/// Reads the events, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut events = Events {
        builder: SessionBuilder::new(FORMAT),
        begun: UnendedLines::default(),
        thread: None,
        known: false,
    };
    lines::read(&mut stream, &mut events)?;
    if !events.known {
        return Err(ReadError::NoConversation("no line of it is an event"));
    }
    // An item that began but did not end is a call without a result.
    for id in events.begun.in_order() {
        let Some((place, text)) = events.begun.remove(&id) else { continue };
        let doc = rejoin_record::json::Doc::of(&text);
        let own = doc.root().and_then(|root| root.given("item"));
        own.into_iter().for_each(|own| events.item(own, place, &text));
    }
    let finding = Finding::new(Rule::ForeignBlock, Position::default(), Action::LeftOut);
    events.builder.findings.push(finding.because("the program does not print what a person said"));
    let context = Context::of_model(Dialect::OpenAiResponses, None);
    Ok(vec![events.builder.finish(stream.name, events.thread.as_deref(), context)])
}

struct Events {
    builder: SessionBuilder,
    /// Items that began and have not ended, by their ids.
    begun: UnendedLines,
    thread: Option<String>,
    known: bool,
}

impl Events {
    /// Adds the message and the result that an item holds. An item without either is set aside.
    fn item(&mut self, own: Value<'_>, place: SourcePlace, text: &Arc<str>) {
        let kind = own.word("type");
        let id = own.word("id").into_owned();
        let (said, answer) = match &*kind {
            "agent_message" => (text_in(own, "text").map(Block::text), None),
            "reasoning" => {
                (text_in(own, "text").map(|text| Block::reasoning(text, false, Origin::default())), None)
            }
            "command_execution" => {
                let command = Object::new().text("command", own.word("command")).finish();
                let failed = own.given("exit_code").is_some_and(|code| code.raw() != "0");
                let output = own.given("aggregated_output").filter(|_| !own.says("status", "in_progress"));
                (
                    Some(called(&id, &kind, command)),
                    output.map(|output| (vec![Block::text(as_text(output))], failed)),
                )
            }
            "file_change" => {
                let changes = own.given("changes").map_or("[]", Value::raw);
                let done = text_of(own, "status").filter(|status| &**status != "in_progress");
                let answer = done.map(|status| (vec![Block::text(status.clone())], &*status == "failed"));
                (Some(called(&id, &kind, Object::new().raw("changes", changes).finish())), answer)
            }
            "mcp_tool_call" => {
                let name = own.word("tool");
                let arguments = own.given("arguments").filter(|given| given.kind() == ValueKind::Object);
                let arguments = arguments.map_or_else(|| String::from("{}"), |given| given.raw().to_owned());
                let failed = own.given("error");
                let content = own.given("result").and_then(|told| told.given("content"));
                let told = match (content, own.given("result").or(failed)) {
                    (Some(content), _) => Some(unplaced(blocks(&Role::Tool, Some(content), text, 0))),
                    (None, told) => told.map(|told| vec![Block::text(as_text(told))]),
                };
                let told = told.map(|told| (told, failed.is_some()));
                (Some(called(&id, &name, arguments)), told)
            }
            "todo_list" | "error" => (None, None),
            _ => return self.builder.aside(place, Aside::Unknown(Text::new(Arc::clone(text)))),
        };
        let Some(block) = said else {
            return self.builder.aside(place, Aside::Raw(Text::new(Arc::clone(text))));
        };
        let detail = Detail::of(&*id, None);
        let message = item(FORMAT, Role::Assistant, vec![block], Raw::new(Arc::clone(text)));
        self.builder.say(message, place, detail);
        if let Some((told, failed)) = answer {
            let told = result(Some(&id), None, told, failed);
            let detail = Detail::of(format!("{id} result"), None);
            self.builder.say(beside(Role::Tool, vec![told]), place, detail);
        }
    }
}

fn called(id: &str, name: &str, arguments: String) -> Block {
    let id = Some(id).filter(|id| !id.is_empty()).map(CallId::from);
    Block::call(ToolCall::read(id, Some(Text::new(name)), Arguments::new(arguments)))
}

impl LineReader for Events {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let raw = || Text::new(Arc::clone(&line.text));
        let kind = root.word("type");
        let own = root.given("item").filter(|own| own.kind() == ValueKind::Object);
        match (&*kind, own) {
            ("item.completed", Some(own)) => {
                self.known = true;
                self.begun.remove(&own.word("id"));
                self.item(own, line.place, &line.text);
            }
            ("item.started" | "item.updated", Some(own)) => {
                self.known = true;
                self.begun.insert(own.word("id").into_owned(), line.place, Arc::clone(&line.text));
                self.builder.aside(line.place, Aside::Raw(raw()));
            }
            (kind, _) if kind.starts_with("thread.") || kind.starts_with("turn.") || kind == "error" => {
                self.known |= kind != "error";
                self.thread = text_of(root, "thread_id").map(|id| id.to_string()).or(self.thread.take());
                self.builder.aside(line.place, Aside::Raw(raw()));
            }
            _ => self.builder.aside(line.place, Aside::Unknown(raw())),
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.builder.damaged_line(line, finding);
    }

    fn found(&mut self, finding: Finding) {
        self.builder.findings.push(finding);
    }
}
