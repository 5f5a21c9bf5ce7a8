//! Turns the lines of a session into its messages.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Block, BlockKind, CallId, Media, MediaSource, Origin, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Rule};

use super::FORMAT;
use crate::{
    context::Context,
    input::Stream,
    session::{Aside, Detail, ReadError, Session},
    sessions::{
        agents::entries::{Entries, Entry, Link, path},
        building::{SessionBuilder, beside, item, result, text_in},
        lines::{at, text_of, time_of},
    },
    wire::registry::Dialect,
};

/// The types of lines that are not part of the conversation.
const BOOKKEEPING: &str =
    "session context_edit model_change thinking_level_change custom label session_info usage";

/// Reads a session, line by line.
pub(crate) fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut entries = Entries::read(&mut stream)?;
    let header =
        |entry: &Entry| entry.look(|root| text_of(root, "id").filter(|_| root.says("type", "session")));
    let own_id = entries.all.iter().find_map(header);
    let link = |entry: &Entry| {
        entry.look(|root| {
            let inside = root.holds("type", ValueKind::String) && !root.says("type", "session");
            inside.then(|| Link::of(root, "id", "parentId"))
        })
    };
    let links: Vec<Option<Link>> = entries.all.iter().map(link).collect();
    // pi looks entries up by their ids, so a line that occurs twice is one entry.
    entries.report_doubled(|index| links[index].as_ref()?.id.as_deref());
    let on_path = path(&mut entries, &links, own_id.as_deref());
    let hidden_by = Compaction::last(&entries, &links, &on_path);
    let mut builder = SessionBuilder::new(FORMAT);
    builder.findings = std::mem::take(&mut entries.findings);
    let dialect = Dialect::Anthropic;
    let edits = edits(&entries, &on_path);
    // Lines outside the tree belong to no branch, so they are not hidden with one.
    let told: Vec<bool> =
        links.iter().zip(&on_path).map(|(link, on_path)| *on_path || link.is_none()).collect();
    let prompt = Prompt::of(&entries, &told, hidden_by.as_ref(), &edits);
    let mut telling = Telling { builder, model: None, dialect, known: own_id.is_some(), edits, prompt };
    if let Some(compaction) = &hidden_by {
        telling.compact(&entries, &told, compaction);
    }
    for (index, entry) in entries.all.iter().enumerate() {
        match &hidden_by {
            Some(compaction) if index <= compaction.at => {
                // The lines on the path and outside the tree were added together with the compaction.
                if !on_path[index] && links[index].is_some() {
                    telling.tell(entry, true);
                }
            }
            _ => telling.tell(entry, !on_path[index]),
        }
    }
    if !telling.known {
        return Err(ReadError::NoConversation("no line of it is a message"));
    }
    let context = Context::of_model(telling.dialect, telling.model.as_deref());
    Ok(vec![telling.builder.finish(stream.name, own_id.as_deref(), context)])
}

/// The last compaction on the path.
struct Compaction {
    /// The index of its line.
    at: usize,
    /// The index of the first line before it that the model still sees.
    first_kept: usize,
}

impl Compaction {
    fn last(entries: &Entries, links: &[Option<Link>], on_path: &[bool]) -> Option<Self> {
        let is_one = |index: &usize| {
            on_path[*index]
                && entries.all[*index].text.contains("\"compaction\"")
                && entries.all[*index].look(|root| root.says("type", "compaction").then_some(())).is_some()
        };
        let at = (0..entries.all.len()).rev().find(is_one)?;
        let id = entries.all[at].look(|root| text_of(root, "firstKeptEntryId"));
        let named = |id: &Text| {
            let is_it =
                |link: &Option<Link>| link.as_ref().and_then(|link| link.id.as_deref()) == Some(id.as_str());
            links[..at].iter().position(is_it).filter(|index| on_path[*index])
        };
        // The first version stored an index instead of an id. It counts the readable lines from the first one of the file.
        let counted = || {
            let number = entries.all[at].look(|root| root.given("firstKeptEntryIndex")?.as_u64())?;
            let mut readable = (0..at).filter(|index| !entries.all[*index].damaged);
            readable.nth(usize::try_from(number).ok()?)
        };
        let first_kept = id.as_ref().and_then(named).or_else(counted).unwrap_or(at);
        Some(Self { at, first_kept })
    }
}

/// A change that a line on the path makes to an earlier message: it removes the message, or replaces its content.
#[derive(Clone)]
enum Edit {
    Omitted,
    /// The new content is in the line with this text.
    Replaced(Arc<str>),
}

/// The last edit of each message, by the message's id.
fn edits(entries: &Entries, on_path: &[bool]) -> HashMap<String, Edit> {
    let edit = |entry: &Entry| {
        entry.look(|root| {
            let target = text_of(root, "targetId").filter(|_| root.says("type", "context_edit"))?;
            let edit = match root.given("replacement").and_then(|own| own.given("content")) {
                Some(_) => Edit::Replaced(Arc::clone(&entry.text)),
                None if root.given("replacement").is_none() => Edit::Omitted,
                None => return None,
            };
            Some((target.to_string(), edit))
        })
    };
    let with_edits = entries
        .all
        .iter()
        .zip(on_path)
        .filter(|(entry, on_path)| **on_path && entry.text.contains("context_edit"));
    with_edits.filter_map(|(entry, _)| edit(entry)).collect()
}

/// The instructions that several system messages form together. pi joins their contents, and lets a section replace an earlier
/// one of the same name. It sends the result as one message at the beginning, except to models that accept system messages in any
/// place.
#[derive(Default)]
struct Prompt {
    /// The offsets of the messages. The instructions take the place of the first one.
    messages: HashSet<usize>,
    first: Option<usize>,
    content: Vec<Block>,
    /// The sections by name, in the order of their first occurrence.
    sections: Vec<(Text, Block)>,
}

impl Prompt {
    /// Collects the system messages. `None` if there are fewer than two, because a single one is added like any other message.
    fn of(
        entries: &Entries,
        told: &[bool],
        compaction: Option<&Compaction>,
        edits: &HashMap<String, Edit>,
    ) -> Option<Self> {
        let mut prompt = Self::default();
        // The instructions that a compaction repeats replace all earlier ones, including those in messages that stay.
        let again = compaction.and_then(|compaction| {
            let line = &entries.all[compaction.at];
            line.look(|root| prompt.add(line, repeated(root)?).then_some(compaction.at))
        });
        let from = compaction.map_or(0, |compaction| compaction.first_kept);
        for index in (from..entries.all.len()).filter(|index| told[*index]) {
            let entry = &entries.all[index];
            if entry.doubled || !entry.text.contains("\"system\"") {
                continue;
            }
            entry.look(|root| {
                let is_edited = text_of(root, "id").is_some_and(|id| edits.contains_key(id.as_str()));
                let own = root.given("message").filter(|_| root.says("type", "message") && !is_edited)?;
                let own = own.says("role", "system").then_some(own)?;
                if again.is_some_and(|at| index < at) {
                    prompt.messages.insert(entry.place.offset);
                } else {
                    prompt.add(entry, own);
                }
                Some(())
            });
        }
        (prompt.messages.len() > 1).then_some(prompt)
    }

    /// Adds a message. Returns whether there is one.
    fn add(&mut self, entry: &Entry, own: Value<'_>) -> bool {
        self.messages.insert(entry.place.offset);
        self.first.get_or_insert(entry.place.offset);
        if own.get("replace").and_then(Value::as_bool) == Some(true) {
            self.content.clear();
            self.sections.clear();
        }
        self.content
            .extend(own.given("content").map(|given| content(given, entry, None)).unwrap_or_default());
        for (name, text) in own.given("sections").into_iter().flat_map(Value::fields) {
            let name = Text::new(&*name.as_str().unwrap_or_default());
            let known = self.sections.iter().position(|(known, _)| *known == name);
            match (text.to_text(0).map(Block::text), known) {
                (Some(text), Some(known)) => self.sections[known].1 = text,
                (Some(text), None) => self.sections.push((name, text)),
                (None, Some(known)) => _ = self.sections.remove(known),
                (None, None) => {}
            }
        }
        true
    }

    /// The blocks of the instructions. Their texts come from several lines, which are kept beside the messages.
    fn blocks(&self) -> Vec<Block> {
        let blocks = self.content.iter().chain(self.sections.iter().map(|(_, block)| block));
        copies(blocks)
    }
}

/// The instructions that a compaction repeats.
fn repeated(root: Value<'_>) -> Option<Value<'_>> {
    root.given("systemMessage").filter(|own| own.kind() == ValueKind::Object)
}

/// The texts of blocks, without their places in a line.
fn copies<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Vec<Block> {
    let texts = blocks.into_iter().filter_map(Block::as_text).filter(|text| !text.is_blank());
    texts.map(|text| Block::text(text.as_str())).collect()
}

struct Telling {
    builder: SessionBuilder,
    model: Option<String>,
    dialect: Dialect,
    known: bool,
    edits: HashMap<String, Edit>,
    prompt: Option<Prompt>,
}

impl Telling {
    /// Adds everything up to a compaction: the messages that it hides, the summary, and the messages that it keeps.
    fn compact(&mut self, entries: &Entries, told: &[bool], compaction: &Compaction) {
        let before = |range: std::ops::Range<usize>| range.filter(|index| told[*index]);
        for index in before(0..compaction.first_kept) {
            self.tell(&entries.all[index], true);
        }
        let line = &entries.all[compaction.at];
        self.builder.aside(line.place, Aside::Compacted { summary: Text::new("") });
        let first = self.builder.messages.len();
        self.instruct_again(line);
        let summary = self.builder.messages.len();
        self.tell(line, false);
        self.builder.came_with_compaction(first, Some(summary));
        for index in before(compaction.first_kept..compaction.at) {
            self.tell(&entries.all[index], false);
        }
    }

    /// Adds the instructions that a compaction repeats, because it hides those before it.
    fn instruct_again(&mut self, line: &Entry) {
        if !self.instruct(line) {
            let blocks = line.look(|root| Some(copies(&instructions(repeated(root)?, line))));
            if let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) {
                self.builder.say(beside(Role::System, blocks), line.place, Detail::default());
            }
        }
    }

    /// Adds the joined instructions if a line is the first of their messages. Returns whether it is one of their messages.
    fn instruct(&mut self, line: &Entry) -> bool {
        let Some(prompt) = self.prompt.as_ref().filter(|it| it.messages.contains(&line.place.offset)) else {
            return false;
        };
        let blocks = if prompt.first == Some(line.place.offset) { prompt.blocks() } else { Vec::new() };
        if !blocks.is_empty() {
            self.builder.say(beside(Role::System, blocks), line.place, Detail::default());
        }
        true
    }

    /// Adds the message of a line, or sets the line aside if it has none.
    fn tell(&mut self, entry: &Entry, hidden: bool) {
        if entry.doubled {
            let line = Text::new(Arc::clone(&entry.text));
            return self.builder.aside(entry.place, Aside::Raw(line));
        }
        let doc = Doc::of(&entry.text).shared_as(&entry.text);
        let raw = || Text::new(Arc::clone(&entry.text));
        let Some(root) = doc.root().filter(|root| root.kind() == ValueKind::Object && !entry.damaged) else {
            return self.builder.aside(entry.place, Aside::Raw(raw()));
        };
        let kind = root.word("type");
        let Some((role, blocks, sent)) = self.role_and_blocks(root, &kind, entry) else {
            let is_known = BOOKKEEPING.split(' ').any(|known| known == kind);
            self.builder.aside(entry.place, if is_known { Aside::Raw(raw()) } else { Aside::Unknown(raw()) });
            let title = text_of(root, "name").filter(|_| kind == "session_info" && !hidden);
            if let Some(title) = title.filter(|title| !title.is_blank()) {
                self.builder.aside(entry.place, Aside::Title(title));
            }
            if kind == "model_change" && !hidden {
                self.model = text_of(root, "modelId").map(|model| model.to_string()).or(self.model.take());
            }
            return;
        };
        self.known = true;
        if let Role::Other(name) = &role {
            let finding = Finding::new(Rule::UnknownRole, at(entry.place), Action::Kept);
            self.builder.findings.push(finding.about(name.clone()));
        }
        let id = text_of(root, "id").map(|id| id.to_string());
        let edit =
            id.as_ref().and_then(|id| self.edits.get(id)).filter(|_| !hidden && kind == "message").cloned();
        let id = id.unwrap_or_else(|| format!("line {}", entry.place.index));
        let detail = Detail::of(id, root.given("timestamp").map(time_of));
        let message = item(FORMAT, role.clone(), blocks, Raw::new(Arc::clone(&entry.text)));
        let is_joined = !hidden && role == Role::System && self.instruct(entry);
        if hidden || !sent || edit.is_some() || is_joined {
            self.builder.hide(message, entry.place, detail);
            if let Some(Edit::Replaced(line)) = edit.filter(|_| sent) {
                self.replaced(root, entry, role, &line);
            }
            return;
        }
        if let Some(own) = root.given("message").filter(|own| own.says("role", "assistant")) {
            self.model = text_of(own, "model").map(|model| model.to_string()).or(self.model.take());
            self.dialect = dialect_of(&own.word("api")).unwrap_or(self.dialect);
        }
        self.builder.say(message, entry.place, detail);
    }

    /// Adds a message whose content a later line replaces. The item of the message is that line, which holds the new content.
    fn replaced(&mut self, root: Value<'_>, entry: &Entry, role: Role, line: &Arc<str>) {
        let edit = Entry { text: Arc::clone(line), place: entry.place, damaged: false, doubled: false };
        let doc = Doc::of(line).shared_as(line);
        let Some(given) = doc.root().and_then(|root| root.given("replacement")?.given("content")) else {
            return;
        };
        let said = content(given, &edit, None);
        let blocks = match role {
            Role::Tool => {
                let own = root.given("message");
                let field = |name| own.and_then(|own| text_of(own, name)).filter(|text| !text.is_empty());
                let failed = own.and_then(|own| own.get("isError")?.as_bool()).unwrap_or(false);
                vec![result(field("toolCallId").as_deref(), field("toolName").as_deref(), said, failed)]
            }
            _ => said,
        };
        let detail = Detail { time: root.given("timestamp").map(time_of), ..Detail::default() };
        self.builder.say(item(FORMAT, role, blocks, Raw::new(Arc::clone(line))), entry.place, detail);
    }

    /// The role and the blocks of a line, and whether the program sends it to a model. `None` if it is not part of the
    /// conversation.
    fn role_and_blocks(
        &self,
        root: Value<'_>,
        kind: &str,
        entry: &Entry,
    ) -> Option<(Role, Vec<Block>, bool)> {
        let summary = |root: Value<'_>| Some(vec![Block::text(text_in(root, "summary")?)]);
        match kind {
            "compaction" | "branch_summary" => Some((Role::User, summary(root)?, true)),
            "custom_message" => Some((Role::User, content(root.given("content")?, entry, None), true)),
            "message" => {
                let own = root.given("message").filter(|own| own.kind() == ValueKind::Object)?;
                let origin = || {
                    let model = text_of(own, "model");
                    let dialect = dialect_of(&own.word("api"))?;
                    Some(Origin::of(dialect.name(), model))
                };
                let said = || own.given("content").map(|given| content(given, entry, origin()));
                let role = own.word("role");
                Some(match &*role {
                    "user" | "custom" => (Role::User, said()?, true),
                    "assistant" => {
                        // The program does not send answers that were cut off.
                        let whole = !matches!(&*own.word("stopReason"), "aborted" | "error");
                        (Role::Assistant, said().unwrap_or_default(), whole)
                    }
                    "toolResult" => {
                        let id = text_of(own, "toolCallId").filter(|id| !id.is_empty());
                        let failed = own.get("isError").and_then(Value::as_bool).unwrap_or(false);
                        let name = text_of(own, "toolName");
                        let told = said().unwrap_or_default();
                        let result = result(id.as_deref(), name.as_deref(), told, failed);
                        (Role::Tool, vec![result], true)
                    }
                    "system" => (Role::System, instructions(own, entry), true),
                    "bashExecution" => {
                        let texts = ["command", "output"].iter().filter_map(|name| text_in(own, name));
                        let shown = own.get("excludeFromContext").and_then(Value::as_bool) != Some(true);
                        (Role::User, texts.filter(|text| !text.is_empty()).map(Block::text).collect(), shown)
                    }
                    "branchSummary" | "compactionSummary" => (Role::User, summary(own)?, true),
                    other => (Role::Other(other.into()), said()?, true),
                })
            }
            _ => None,
        }
    }
}

/// The dialect of an API by pi's name for it.
fn dialect_of(api: &str) -> Option<Dialect> {
    Some(match api {
        "anthropic-messages" => Dialect::Anthropic,
        "openai-completions" => Dialect::OpenAiChat,
        api if api.starts_with("openai") && api.ends_with("responses") => Dialect::OpenAiResponses,
        api if api.starts_with("google") => Dialect::Gemini,
        "bedrock-converse-stream" => Dialect::Bedrock,
        _ => return None,
    })
}

/// Instructions: a content, and named sections beside it.
fn instructions(own: Value<'_>, entry: &Entry) -> Vec<Block> {
    let mut blocks = own.given("content").map(|given| content(given, entry, None)).unwrap_or_default();
    let sections = own.given("sections").into_iter().flat_map(Value::fields);
    let texts = sections.filter_map(|(_, text)| text.to_text(0)).filter(|text| !text.is_blank());
    blocks.extend(texts.map(Block::text));
    blocks
}

/// The blocks of a content: a text, or a list of blocks.
fn content(given: Value<'_>, entry: &Entry, origin: Option<Origin>) -> Vec<Block> {
    if let Some(text) = given.to_text(0) {
        return if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
    }
    given.items().map(|own| block(own, entry, origin.as_ref())).collect()
}

fn block(own: Value<'_>, entry: &Entry, origin: Option<&Origin>) -> Block {
    let kind = own.word("type");
    let opaque = || {
        let raw = Raw::slice(&entry.text, own.start(), own.end()).unwrap_or_else(|| Raw::new(own.raw()));
        Block::opaque(&*kind, raw, false)
    };
    let read = || {
        Some(match &*kind {
            "text" => Block::text(text_in(own, "text")?),
            "thinking" => {
                let signature = text_of(own, "thinkingSignature").filter(|signature| !signature.is_blank());
                let origin = origin.cloned().unwrap_or_default();
                Block::reasoning(text_in(own, "thinking")?, signature.is_some(), origin)
            }
            "toolCall" => {
                let id = text_of(own, "id").filter(|id| !id.is_empty()).map(CallId::new);
                let arguments = match own.given("arguments") {
                    None => rejoin_record::Arguments::absent(),
                    Some(given) => rejoin_record::Arguments::new(
                        given.to_text(0).unwrap_or_else(|| given.to_raw_text(0)),
                    ),
                };
                Block::call(rejoin_record::ToolCall::read(id, text_in(own, "name"), arguments))
            }
            "image" => {
                let source = MediaSource::Base64(text_in(own, "data")?);
                let media = Media { media_type: text_in(own, "mimeType"), source, name: None };
                Block::new(BlockKind::Image(Box::new(media)))
            }
            _ => return None,
        })
    };
    read().unwrap_or_else(opaque)
}
