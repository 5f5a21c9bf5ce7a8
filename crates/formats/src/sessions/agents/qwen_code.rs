//! Qwen Code: `chats/<session>.jsonl`, a tree by `uuid` and `parentUuid`, with Gemini's contents in `message`.
//!
//! The last line is the end of the conversation. Several lines with one `uuid` are pieces of one message, unless they are
//! the same line. A line of the kind `chat_compression` holds the contents that replace everything before it.

use super::entries::{Entries, Entry, Link, path};
use crate::{sessions::prelude::*, wire::gemini::read::ContentReader};

pub(crate) const FORMAT: &str = "qwen-code";

/// Fields of a line that hold no words of the conversation, or the same words for display.
pub(crate) const KNOWN: &[Known] = &[
    // The result of a tool and the words of a person, as the program displays them.
    Known::fields("toolCallResult systemPayload.displayText"),
    Known::fields("cwd gitBranch"),
    Known::fields("message.parts.thoughtSignature"),
];

/// Whether a text is a chat of Qwen Code.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_own = |root: Value<'_>| {
        let message = root.get("message").filter(|message| message.get("parts").is_some());
        message.is_some() && root.holds("sessionId", ValueKind::String) && root.get("uuid").is_some()
    };
    Claim::sure(sample.any_line(LOOK_AT, is_own), "lines with a `uuid` and `message.parts`")
}

/// Reads a chat, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut entries = Entries::read(&mut stream)?;
    let link = |entry: &Entry| {
        entry.look(|root| {
            let named = root.holds("uuid", ValueKind::String) && root.holds("type", ValueKind::String);
            named.then(|| Link::of(root, "uuid", "parentUuid"))
        })
    };
    let links: Vec<Option<Link>> = entries.all.iter().map(link).collect();
    entries.report_doubled(|index| links[index].as_ref()?.id.as_deref());
    let on_path = path(&mut entries, &links, None);
    let is_compression = |index: &usize| {
        on_path[*index]
            && !entries.all[*index].doubled
            && entries.all[*index].text.contains("compressedHistory")
            && entries.all[*index].look(|root| compressed(root).map(|_| ())).is_some()
    };
    let compression = (0..entries.all.len()).rev().find(is_compression);
    let mut builder = SessionBuilder::new(FORMAT);
    builder.findings = std::mem::take(&mut entries.findings);
    let mut chat = Chat { builder, reader: ContentReader::new(None), model: None, session: None };
    // A compression hides the lines before it on the path, so lines of other branches are added after it.
    let mut branches = Vec::new();
    for (index, entry) in entries.all.iter().enumerate() {
        let before = compression.is_some_and(|at| index < at);
        if before && !on_path[index] {
            branches.push(entry);
            continue;
        }
        chat.line(entry, before || !on_path[index], on_path[index]);
        if compression == Some(index) {
            chat.compress(entry);
            branches.drain(..).for_each(|entry| chat.line(entry, true, false));
        }
    }
    if chat.session.is_none() {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    let context = Context::of_model(Dialect::Gemini, chat.model.as_deref());
    Ok(vec![chat.builder.finish(stream.name, chat.session.as_deref(), context)])
}

/// The contents with which a line replaces everything before it; `None` if the line is not a compression.
fn compressed(root: Value<'_>) -> Option<Value<'_>> {
    let own = root.says("type", "system") && root.says("subtype", "chat_compression");
    let list = root.given("systemPayload").filter(|_| own)?.get("compressedHistory");
    list.filter(|list| list.kind() == ValueKind::Array)
}

struct Chat {
    builder: SessionBuilder,
    reader: ContentReader,
    model: Option<String>,
    session: Option<String>,
}

impl Chat {
    fn line(&mut self, entry: &Entry, hidden: bool, on_path: bool) {
        let doc = Doc::of(&entry.text).shared_as(&entry.text);
        let raw = || Text::new(Arc::clone(&entry.text));
        let readable = !entry.damaged && !entry.doubled;
        let Some(root) = doc.root().filter(|root| root.kind() == ValueKind::Object && readable) else {
            return self.builder.aside(entry.place, Aside::Raw(raw()));
        };
        let Some(message) = self.message(root, entry) else {
            let is_system = root.says("type", "system") && root.holds("uuid", ValueKind::String);
            self.builder
                .aside(entry.place, if is_system { Aside::Raw(raw()) } else { Aside::Unknown(raw()) });
            let payload = root.given("systemPayload").filter(|_| on_path && is_system);
            if let Some(title) = payload.and_then(|payload| text_of(payload, "customTitle")) {
                self.builder.aside(entry.place, Aside::Title(title));
            }
            return;
        };
        if self.session.is_none() {
            let session = root.given("sessionId").and_then(Value::as_str);
            self.session = Some(session.map(std::borrow::Cow::into_owned).unwrap_or_default());
        }
        let id = root.given("uuid").and_then(Value::as_str);
        let id = id.map_or_else(|| format!("line {}", entry.place.index), std::borrow::Cow::into_owned);
        let detail = Detail::of(id, root.given("timestamp").map(time_of));
        if hidden {
            return self.builder.hide(message, entry.place, detail);
        }
        let model = root.given("model").and_then(Value::as_str).filter(|model| !model.is_empty());
        self.model = model.map(std::borrow::Cow::into_owned).or(self.model.take());
        self.builder.say(message, entry.place, detail);
    }

    /// The message of a line.
    fn message(&self, root: Value<'_>, entry: &Entry) -> Option<Message> {
        let parts = root.given("message")?.given("parts")?;
        let role = match &*root.word("type") {
            "user" | "tool_result" => Role::User,
            "assistant" => Role::Assistant,
            _ => return None,
        };
        let blocks = self.reader.parts(parts, &role, &entry.text, 0);
        let answers = role == Role::User && blocks.iter().any(|block| block.as_result().is_some());
        let role = if answers { Role::Tool } else { role };
        Some(item(FORMAT, role, blocks, Raw::new(Arc::clone(&entry.text))))
    }

    /// Adds the contents with which a compression replaces everything before it.
    fn compress(&mut self, entry: &Entry) {
        self.builder.aside(entry.place, Aside::Compacted { summary: Text::new("") });
        let doc = Doc::of(&entry.text).shared_as(&entry.text);
        let Some((root, list)) = doc.root().and_then(|root| Some((root, compressed(root)?))) else { return };
        let line = root.word("uuid");
        let from = self.builder.messages.len();
        for (number, content) in list.items().enumerate() {
            let Some(parts) = content.given("parts") else { continue };
            let role = if content.says("role", "model") { Role::Assistant } else { Role::User };
            let text: Arc<str> = Arc::from(content.raw());
            let blocks = self.reader.parts(parts, &role, &entry.text, content.start());
            let answers = role == Role::User && blocks.iter().any(|block| block.as_result().is_some());
            let role = if answers { Role::Tool } else { role };
            let time = root.given("timestamp").map(time_of);
            let detail = Detail::of(format!("{line} {number}"), time);
            let place = SourcePlace { offset: entry.place.offset + content.start(), ..entry.place };
            self.builder.say(item(FORMAT, role, blocks, Raw::new(text)), place, detail);
        }
        // The summary is the first of them.
        self.builder.came_with_compaction(from, Some(from));
    }
}
