//! Cline and Roo Code: `api_conversation_history.json`, Anthropic's messages with a time each, alone or in the folder of a task.
//!
//! Both hide messages without removing them. Roo Code marks messages that a summary replaces with the summary's id, and messages
//! that it left out to save room with the id of a marker. Cline records the range that it left out in its display log,
//! `ui_messages.json`. That log shows the same conversation to people and is kept beside the messages. If the history is missing,
//! `displayed.rs` reads the display log instead.

use std::{collections::HashSet, sync::Arc};

use rejoin_record::{
    Block, BlockKind, Message, Native, Origin, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{displayed, parts::around};
use crate::{
    accounting::Known,
    context::Context,
    input::{Files, Input},
    messages::{MessageReader, Style},
    session::{Aside, Detail, ReadError, Session, SourcePlace, replaced_bytes, unreadable_rest},
    sessions::{
        building::SessionBuilder,
        lines::{text_of, time_of},
        registry::FilesReading,
        sample::{Claim, Sample},
    },
    wire::registry::Dialect,
};

pub(crate) const CLINE: &str = "cline";
pub(crate) const ROO: &str = "roo-code";

const LOOK_AT: usize = 200;

const HISTORY: &str = "api_conversation_history.json";
const DISPLAYED: &str = "ui_messages.json";

/// Files of a task that are kept beside its messages.
const BESIDE: &[&str] = &[DISPLAYED, "task_metadata.json", "history_item.json", "context_history.json"];

/// Files of a task that are not kept: the settings, which name the chosen model, and copies of the user's files.
const NOT_KEPT: &[&str] = &["settings.json", "checkpoints/"];

/// Fields of a message that hold no words of the conversation.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields("content.citations content.content.citations content.context content.content.context"),
    // The model and its counts, and reasoning that only its provider can read.
    Known::fields("modelInfo metrics encrypted_content"),
    // An item of a display log often holds JSON in a string. Only a part of that JSON is read.
    Known::beside("say", "text"),
    Known::beside("ask", "text"),
];

/// Whether a text is a history of Cline.
pub(crate) fn sniff_cline(sample: &Sample<'_>) -> Option<Claim> {
    let root = sample.beginning().0.root()?;
    match kind_of(root) {
        Some(Kin::Cline) => Claim::sure(true, "messages with `ts` and `modelInfo`"),
        Some(Kin::Roo | Kin::Either) => None,
        None => sniff_displayed(root, CLINE),
    }
}

/// Whether a text is a history of Roo Code.
pub(crate) fn sniff_roo(sample: &Sample<'_>) -> Option<Claim> {
    let root = sample.beginning().0.root()?;
    match kind_of(root) {
        Some(Kin::Cline) => None,
        Some(Kin::Roo) => Claim::sure(true, "messages with `ts` and the marks of a summary"),
        Some(Kin::Either) => Claim::likely(true, "a list of messages with `ts`"),
        None => sniff_displayed(root, ROO),
    }
}

fn sniff_displayed(root: Value<'_>, format: &str) -> Option<Claim> {
    let (kind, is_sure) = displayed::kind_of(root).filter(|(kind, _)| *kind == format)?;
    let certainty = if is_sure { Claim::SURE } else { Claim::LIKELY };
    Claim::new(certainty, kind == format, "items with `ts` of the types `say` and `ask`")
}

/// The program that wrote a history, as far as the history shows it.
#[derive(Clone, Copy, PartialEq)]
enum Kin {
    Cline,
    Roo,
    Either,
}

/// A time in milliseconds. Every history is newer.
const YEAR_2001: u64 = 1_000_000_000_000;

fn kind_of(root: Value<'_>) -> Option<Kin> {
    let of_session = root.holds("messages", ValueKind::Array) && root.get("sessionId").is_some();
    let list =
        if root.kind() == ValueKind::Array { root } else { root.get("messages").filter(|_| of_session)? };
    let items = || list.items().take(LOOK_AT);
    let is_timed =
        |item: Value<'_>| item.holds("role", ValueKind::String) && item.holds("ts", ValueKind::Number);
    let has = |names: &[&str]| items().any(|item| names.iter().any(|name| item.get(name).is_some()));
    if !items().any(is_timed) {
        return None;
    }
    Some(match () {
        () if of_session || has(&["modelInfo", "metrics"]) => Kin::Cline,
        () if has(&[
            "isSummary",
            "condenseParent",
            "condenseId",
            "truncationParent",
            "isTruncationMarker",
        ]) =>
        {
            Kin::Roo
        }
        // Without a mark, every message must have a time in milliseconds, because other programs may have a field `ts`, too.
        () if items().all(|item| item.get("ts").and_then(Value::as_u64).is_some_and(|ts| ts > YEAR_2001)) => {
            Kin::Either
        }
        () => return None,
    })
}

/// Reads a history of Cline.
pub(crate) fn read_cline(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    read(CLINE, input, sample, None)
}

/// Reads a history of Roo Code.
pub(crate) fn read_roo(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    read(ROO, input, sample, None)
}

/// The facts about a task that its history does not hold.
struct Task<'t> {
    id: &'t str,
    /// The first and the last message of the range that Cline left out, by number.
    left_out: Option<(usize, usize)>,
}

fn read(
    format: &'static str,
    input: &Input,
    sample: Sample<'_>,
    task: Option<&Task<'_>>,
) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    if doc.root().is_some_and(|root| displayed::kind_of(root).is_some()) {
        return displayed::read(format, input, (doc, error), task.map(|task| task.id));
    }
    let nothing = || match error {
        Some(error) => ReadError::not_json(input, error),
        None => ReadError::NoConversation("it has no list of messages"),
    };
    let root = doc.root().ok_or_else(nothing)?;
    let list = if root.kind() == ValueKind::Array { Some(root) } else { root.get("messages") };
    let list = list.filter(|list| list.kind() == ValueKind::Array).ok_or_else(nothing)?;
    let mut builder = SessionBuilder::new(format);
    builder.findings.extend(replaced_bytes(input));
    let items: Vec<Value<'_>> = list.items().collect();
    let fates = fates(&items, task.and_then(|task| task.left_out));
    let mut history =
        History { format, builder, reader: MessageReader::new(Style::Blocks, None), model: None };
    // The messages that a summary replaces come before it on the path.
    let summary =
        items.iter().zip(&fates).position(|(item, fate)| is_true(*item, "isSummary") && *fate == Fate::Sent);
    let summarized =
        |index: usize| summary.is_some_and(|summary| index < summary) && fates[index] == Fate::Summarized;
    for (index, item) in items.iter().enumerate().filter(|(index, _)| summarized(*index)) {
        history.add(*item, index, input, true);
    }
    if let Some(summary) = summary {
        let place = SourcePlace { index: summary, offset: items[summary].start(), line: None };
        history.builder.aside(place, Aside::Compacted { summary: Text::new("") });
    }
    for (index, item) in items.iter().enumerate().filter(|(index, _)| !summarized(*index)) {
        let from = history.builder.messages.len();
        history.add(*item, index, input, fates[index] != Fate::Sent);
        if summary == Some(index) {
            history.builder.came_with_compaction(from, Some(from));
        }
    }
    let History { mut builder, model, .. } = history;
    let nothing_said = builder.messages.is_empty()
        && builder.set_aside.iter().all(|item| !matches!(item.what, Aside::Hidden(..)));
    if nothing_said {
        return Err(nothing());
    }
    let mut context = Context::of_model(Dialect::Anthropic, model.as_deref());
    let place = SourcePlace { index: items.len(), offset: root.start(), line: None };
    if let Some(text) = around(input, list) {
        builder.aside(place, Aside::Raw(text));
    }
    builder.findings.extend(error.map(|error| unreadable_rest(input, error, items.len())));
    let system =
        root.given("system_prompt").filter(|system| system.kind() == ValueKind::String && !system.is_cut());
    if let Some(system) = system {
        context.put("system", system.raw());
        context.before_messages = context.fields.len();
    }
    let own = text_of(root, "sessionId");
    let own = task.map(|task| task.id).or(own.as_deref());
    Ok(vec![builder.finish(&input.name, own, context)])
}

/// What the program does with a message when it resumes the task.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Sent,
    /// It is not sent, because a summary replaces it.
    Summarized,
    /// It is not sent, to save room.
    LeftOut,
}

fn is_true(item: Value<'_>, name: &str) -> bool {
    item.get(name).and_then(Value::as_bool) == Some(true)
}

/// Decides for each message what the program would do with it when it resumes the task.
fn fates(items: &[Value<'_>], left_out: Option<(usize, usize)>) -> Vec<Fate> {
    let ids = |mark: &str, name: &str| -> HashSet<String> {
        let marked = items.iter().filter(|item| is_true(**item, mark));
        marked.filter_map(|item| Some(text_of(*item, name)?.to_string())).collect()
    };
    let (summaries, markers) = (ids("isSummary", "condenseId"), ids("isTruncationMarker", "truncationId"));
    let last = items.iter().rposition(|item| is_true(*item, "isSummary"));
    // If the model itself wrote the summary, the summary follows the first question, which stays.
    let first_stays = last.is_some_and(|last| !items[last].says("role", "user"));
    let fate = |(index, item): (usize, &Value<'_>)| {
        let named = |name, known: &HashSet<String>| {
            text_of(*item, name).is_some_and(|id| known.contains(id.as_str()))
        };
        let before = last.is_some_and(|last| index < last) && !(first_stays && index == 0);
        if named("condenseParent", &summaries) || before {
            Fate::Summarized
        } else if named("truncationParent", &markers)
            || left_out.is_some_and(|(first, last)| (first..=last).contains(&index))
        {
            Fate::LeftOut
        } else {
            Fate::Sent
        }
    };
    items.iter().enumerate().map(fate).collect()
}

struct History {
    format: &'static str,
    builder: SessionBuilder,
    reader: MessageReader,
    model: Option<Text>,
}

impl History {
    fn add(&mut self, item: Value<'_>, index: usize, input: &Input, hidden: bool) {
        let place = SourcePlace { index, offset: item.start(), line: None };
        if item.is_cut() {
            return self.builder.aside(place, Aside::Raw(Text::new(&input.text[item.start()..])));
        }
        let Some(message) = self.message(item, index, &input.text) else {
            self.builder.aside(place, Aside::Unknown(Text::new(item.raw())));
            let finding = Finding::new(Rule::DamagedEntry, Position::message(index), Action::SetAside);
            return self.builder.findings.push(finding.because("it is not a message"));
        };
        let id = text_of(item, "id").map_or_else(|| format!("message {index}"), |id| id.to_string());
        let detail = Detail::of(id, item.given("ts").map(time_of));
        if hidden {
            return self.builder.hide(message, place, detail);
        }
        let model =
            item.given("modelInfo").and_then(|info| text_of(info, "id").or_else(|| text_of(info, "modelId")));
        self.model = model.or(self.model.take());
        self.builder.push(message, place, detail);
    }

    fn message(&mut self, item: Value<'_>, index: usize, text: &Arc<str>) -> Option<Message> {
        let raw = Raw::slice(text, item.start(), item.end())?;
        if item.says("type", "reasoning") {
            // The item is reasoning that the provider encrypted. Only its summary can be read.
            let parts = item.given("summary").into_iter().flat_map(Value::items);
            let told: Vec<String> =
                parts.filter_map(|part| Some(part.get("text")?.as_str()?.into_owned())).collect();
            let thought = Block::reasoning(told.join("\n\n"), true, Origin::default());
            return Some(crate::sessions::building::item(self.format, Role::Assistant, vec![thought], raw));
        }
        let read = self.reader.read(item, text, index)?;
        self.builder.findings.extend(read.findings);
        let mut message = read.message;
        for block in &mut message.blocks {
            let thought = match &block.kind {
                BlockKind::Opaque(opaque) if &*opaque.kind == "reasoning" => thought_of(opaque.raw.as_str()),
                _ => None,
            };
            thought.into_iter().for_each(|thought| *block = thought);
        }
        // The message has a time and counts, which its provider does not accept. So the item is not sent again, but its
        // blocks may be.
        message.native = Some(Native::one(Text::new(self.format), raw, false));
        Some(message)
    }
}

/// Reasoning that the provider returned as plain text.
fn thought_of(raw: &str) -> Option<Block> {
    let doc = Doc::of(raw);
    let text = doc.root()?.given("text")?.as_str().map(|text| Text::new(&*text))?;
    Some(Block::reasoning(text, false, Origin::default()))
}

/// The folders of Cline's tasks.
pub(crate) const CLINE_TASKS: FilesReading =
    FilesReading { root: task_of, owns, sniff: sniff_cline_files, read: read_cline_files };

/// The folders of Roo Code's tasks.
pub(crate) const ROO_TASKS: FilesReading =
    FilesReading { root: task_of, owns, sniff: sniff_roo_files, read: read_roo_files };

/// The folder of a task, from the path of its history or its display log. `None` for any other path.
fn task_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix(HISTORY).or_else(|| path.strip_suffix(DISPLAYED))?;
    (folder.is_empty() || folder.ends_with('/')).then_some(folder)
}

/// Whether a file of a task's folder belongs to the task.
fn owns(path: &str) -> bool {
    path == HISTORY || BESIDE.contains(&path) || NOT_KEPT.iter().any(|name| path.starts_with(name))
}

/// Whether a folder has tasks of Cline.
fn sniff_cline_files(files: &dyn Files) -> Option<Claim> {
    Claim::sure(kind_of_files(files)? == CLINE, "a history of Cline")
}

/// Whether a folder has tasks of Roo Code.
fn sniff_roo_files(files: &dyn Files) -> Option<Claim> {
    Claim::sure(kind_of_files(files)? == ROO, "a history of Roo Code")
}

/// The histories in a folder, and the display logs of tasks without one.
fn histories(files: &dyn Files) -> Vec<&str> {
    let paths: HashSet<&str> = files.paths().iter().map(String::as_str).collect();
    let own = |path: &&str| match path.rsplit('/').next() {
        Some(HISTORY) => true,
        Some(DISPLAYED) => {
            let folder = path.strip_suffix(DISPLAYED).unwrap_or_default();
            !paths.contains(format!("{folder}{HISTORY}").as_str())
        }
        _ => false,
    };
    files.paths().iter().map(String::as_str).filter(own).collect()
}

/// The program that wrote the tasks in a folder. The path of a history may contain the name of the program; otherwise, the
/// content of the history decides.
fn kind_of_files(files: &dyn Files) -> Option<&'static str> {
    let all = histories(files);
    let named = |path: &&&str| path.ends_with(HISTORY);
    let first = all.iter().find(named).or_else(|| all.first())?;
    let path = format!("{}/{first}", files.name()).to_ascii_lowercase();
    if path.contains("roo-cline") || path.contains("roo-code") || path.contains("roocode") {
        return Some(ROO);
    }
    if path.contains("claude-dev") || path.contains(".cline") {
        return Some(CLINE);
    }
    let text = String::from_utf8_lossy(&files.read(first)?).into_owned();
    let (doc, _) = Doc::parse_prefix(&text);
    if !named(&first) {
        return doc.root().and_then(displayed::kind_of).map(|(kind, _)| kind);
    }
    let kin = doc.root().and_then(kind_of);
    // Cline's older histories have no times.
    Some(if matches!(kin, Some(Kin::Roo | Kin::Either)) { ROO } else { CLINE })
}

/// Reads the tasks of Cline in a folder.
fn read_cline_files(files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    read_files(CLINE, files)
}

/// Reads the tasks of Roo Code in a folder.
fn read_roo_files(files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    read_files(ROO, files)
}

fn read_files(format: &'static str, files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    let mut sessions = Vec::new();
    for path in histories(files) {
        let folder = path.strip_suffix(HISTORY).or_else(|| path.strip_suffix(DISPLAYED)).unwrap_or_default();
        // The folder of a task is named after the task's id.
        let whole = format!("{}/{folder}", files.name());
        let id = whole.trim_end_matches('/').rsplit(['/', '\\']).next().unwrap_or_default();
        let Some(bytes) = files.read(path) else { continue };
        let beside = |name: &str| {
            let bytes = files.read(&format!("{folder}{name}"))?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let left_out = beside(DISPLAYED).as_deref().and_then(left_out_range).filter(|_| format == CLINE);
        let input = Input::new(format!("{}/{path}", files.name()), &bytes)?;
        let read = read(format, &input, Sample::new(&input.text), Some(&Task { id, left_out }));
        // A task that cannot be read is skipped, so that the others are still read.
        let Ok(read) = read else { continue };
        for mut session in read {
            let after = session.messages.len();
            for text in BESIDE.iter().filter(|name| !path.ends_with(*name)).filter_map(|name| beside(name)) {
                let place = SourcePlace {
                    index: session.places.len() + session.set_aside.len(),
                    offset: 0,
                    line: None,
                };
                let what = Aside::Raw(Text::from(text));
                session.set_aside.push(crate::session::SetAside { place, after, what });
            }
            sessions.push(session);
        }
    }
    if sessions.is_empty() {
        Err(ReadError::NoConversation("no task in it can be read"))
    } else {
        Ok(sessions)
    }
}

/// The range of messages that Cline left out, from the last item of its display log that names one.
fn left_out_range(displayed: &str) -> Option<(usize, usize)> {
    let doc = Doc::parse(displayed).ok()?;
    let ranges = doc.root()?.items().filter_map(|item| {
        let mut ends = item.given("conversationHistoryDeletedRange")?.items().filter_map(Value::as_u64);
        Some((usize::try_from(ends.next()?).ok()?, usize::try_from(ends.next()?).ok()?))
    });
    ranges.last()
}
