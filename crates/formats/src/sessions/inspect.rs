//! `inspect`: logs of Inspect, as JSON or as an `.eval` archive. Every sample is a conversation.
//!
//! Long strings are stored once, under `attachments` of the sample, and messages refer to them as `attachment://<hash>`. Events and
//! scores are kept as they are: what they say about the conversation, the messages say as well.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Block, Raw, Role, Text,
    json::{Doc, Value, ValueKind},
};

use super::{
    building::{self, SessionBuilder, as_text, call, item, medium, opaque, result, thought},
    lines::text_of,
    registry::FilesReading,
    sample::{Claim, Sample},
};
use crate::{
    accounting::Known,
    input::{Files, Input},
    session::{Aside, Detail, ReadError, Session, SetAside, SourcePlace, replaced_bytes},
    wire::render,
};

/// The name of the format.
pub const FORMAT: &str = "inspect";

/// How a call is shown to people, where an answer came from, and what a reasoning says in short.
pub(crate) const KNOWN: &[Known] = &[
    Known::fields(
        "metadata internal source tool_calls.view tool_calls.parse_error error content.internal content.summary \
         content.signature content.citations",
    ),
    Known::references(ATTACHMENT),
];

const ATTACHMENT: &str = "attachment://";

/// Whether a text is a log.
pub(crate) fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    let is_log = |root: Value<'_>| {
        root.given("eval").is_some_and(|eval| eval.get("task").is_some() || eval.get("eval_id").is_some())
            && root.get("samples").is_some()
    };
    Claim::sure(
        sample.whole().0.root().is_some_and(|root| is_log(root) || is_sample(root)),
        "`samples` of an `eval`",
    )
}

fn is_sample(root: Value<'_>) -> bool {
    root.holds("messages", ValueKind::Array)
        && ["epoch", "target", "output", "id"].iter().all(|name| root.get(name).is_some())
}

/// Reads every sample of a log.
///
/// # Errors
/// If it holds none, or is no JSON.
pub(crate) fn read(input: &Input, sample: Sample<'_>) -> Result<Vec<Session>, ReadError> {
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    if let Some(error) = error {
        return Err(ReadError::not_json(input, error));
    }
    let root = doc.root().ok_or(ReadError::NoConversation("the file is empty"))?;
    let run = root.given("eval").and_then(run_of);
    let model = root.given("eval").and_then(|eval| text_of(eval, "model"));
    let (mut found, mut left): (Vec<Session>, Vec<Text>) = (Vec::new(), Vec::new());
    let lists = || root.fields().filter(|(key, _)| key.is_str("samples")).map(|(_, list)| list);
    let samples =
        lists().flat_map(|list| list.items().chain((list.kind() != ValueKind::Array).then_some(list)));
    for sample in samples.chain(is_sample(root).then_some(root)) {
        let run = run.as_deref().unwrap_or_default();
        match of_sample(sample, &input.text, &input.name, run, model.as_deref()) {
            Some(session) => found.push(session),
            None => left.push(Text::new(sample.raw())),
        }
    }
    let Some(first) = found.first_mut() else {
        return Err(ReadError::NoConversation("no sample of it has messages"));
    };
    first.findings.splice(0..0, replaced_bytes(input));
    keep_left(first, left);
    if !is_sample(root) {
        let around = Aside::Raw(Text::from(render::with_field_of(root, "samples", "[]")));
        first.set_aside.insert(0, SetAside::around(0, around));
    }
    Ok(found)
}

/// What tells one run from another.
fn run_of(eval: Value<'_>) -> Option<String> {
    ["eval_id", "run_id", "created"].iter().find_map(|name| text_of(eval, name)).map(|id| id.to_string())
}

/// An `.eval` archive, packed or unpacked.
pub(crate) const ARCHIVE: FilesReading =
    FilesReading { root: folder_of, owns, sniff: sniff_files, read: read_files };

/// The folder that holds an unpacked archive, if a file is one of its samples.
fn folder_of(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_suffix(".json")?.rsplit_once('/')?;
    let root = folder.strip_suffix("samples")?;
    (root.is_empty() || root.ends_with('/')).then_some(root)
}

/// Whether a file of an unpacked archive belongs to it.
fn owns(path: &str) -> bool {
    const FILES: &[&str] = &["header.json", "summaries.json", "reductions.json", "samples/", "_journal/"];
    FILES.iter().any(|name| path.starts_with(name))
}

/// Whether files are those of an `.eval` archive.
fn sniff_files(files: &dyn Files) -> Option<Claim> {
    let has = |path: &str| files.paths().iter().any(|own| own == path);
    let samples = files.paths().iter().any(|path| path.starts_with("samples/") && path.ends_with(".json"));
    let is_so = samples && (has("header.json") || has("_journal/start.json"));
    Claim::sure(is_so, "`samples/*.json` beside a `header.json` or a journal")
}

/// Reads every sample of an archive.
///
/// # Errors
/// If it holds none.
fn read_files(files: &dyn Files) -> Result<Vec<Session>, ReadError> {
    let text_of_file =
        |path: &str| files.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let header = text_of_file("header.json").or_else(|| text_of_file("_journal/start.json"));
    let header = header.filter(|header| Doc::parse(header).is_ok());
    let doc = header.as_ref().map(|header| Doc::of(header));
    let eval = doc.as_ref().and_then(Doc::root).and_then(|root| root.given("eval"));
    let (run, model) =
        (eval.and_then(run_of).unwrap_or_default(), eval.and_then(|eval| text_of(eval, "model")));
    let (mut found, mut left): (Vec<Session>, Vec<Text>) = (Vec::new(), Vec::new());
    let mut damaged = Vec::new();
    let samples = files.paths().iter().filter(|path| path.starts_with("samples/") && path.ends_with(".json"));
    for (number, path) in samples.enumerate() {
        let text: Arc<str> = Arc::from(text_of_file(path).unwrap_or_default());
        match Doc::parse(&text) {
            Ok(doc) => {
                let doc = doc.shared_as(&text);
                let sample = doc.root();
                match sample.and_then(|root| of_sample(root, &text, files.name(), &run, model.as_deref())) {
                    Some(session) => found.push(session),
                    None => left.push(Text::new(text.clone())),
                }
            }
            Err(error) => damaged.push((building::nth(number), format!("{path}: {}", error.reason()))),
        }
    }
    let Some(first) = found.first_mut() else {
        return Err(ReadError::NoConversation("no sample of it has messages"));
    };
    keep_left(first, left);
    first.findings.extend(damaged.into_iter().map(|(place, why)| building::damage(place, why)));
    if let Some(header) = &header {
        let around = Aside::Raw(Text::new(header.as_str()));
        first.set_aside.insert(0, SetAside::around(0, around));
    }
    Ok(found)
}

/// Keeps samples without messages with the first conversation, after what was said in it.
fn keep_left(first: &mut Session, left: Vec<Text>) {
    let after = first.messages.len();
    let aside = |text| SetAside { place: building::nth(0), after, what: Aside::Unknown(text) };
    first.set_aside.extend(left.into_iter().map(aside));
}

/// The conversation of a sample; `None` if it has no messages.
fn of_sample(
    sample: Value<'_>,
    buffer: &Arc<str>,
    name: &str,
    run: &str,
    model: Option<&str>,
) -> Option<Session> {
    let list = sample.get("messages").filter(|list| list.kind() == ValueKind::Array)?;
    let attached = sample.given("attachments").into_iter().flat_map(Value::fields);
    let attached: HashMap<String, Text> =
        attached.filter_map(|(key, value)| Some((key.as_str()?.into_owned(), as_text(value)))).collect();
    let mut builder = SessionBuilder::new(FORMAT);
    let around = render::with_field_of(sample, "messages", "[]");
    builder.aside(building::nth(0), Aside::Raw(Text::from(around)));
    for (number, message) in list.items().enumerate() {
        let place = SourcePlace { offset: message.start(), ..building::nth(number) };
        if message.get("role").is_none() {
            builder.findings.push(building::damage(place, "it is not a message"));
            builder.aside(place, Aside::Unknown(Text::new(message.raw())));
            continue;
        }
        let raw =
            Raw::slice(buffer, message.start(), message.end()).unwrap_or_else(|| Raw::new(message.raw()));
        let reader = Reader { attached: &attached, model };
        let (role, blocks) = reader.message(message);
        let detail = Detail { id: text_of(message, "id"), ..Detail::default() };
        builder.say(item(FORMAT, role, blocks, raw), place, detail);
    }
    let id = sample.given("uuid").map(as_text).map(|id| id.to_string()).unwrap_or_else(|| {
        let part = |name| sample.given(name).map(as_text).unwrap_or_else(|| Text::new(""));
        format!("{run} {} {}", part("id"), part("epoch"))
    });
    Some(builder.finish(name, Some(&id), building::context(model)))
}

struct Reader<'r> {
    attached: &'r HashMap<String, Text>,
    model: Option<&'r str>,
}

impl Reader<'_> {
    /// A text, or the attachment that it names.
    fn text(&self, value: Value<'_>) -> Text {
        // The beginning tells, so that a long text need not be decoded.
        let names = value.beginning(64).is_some_and(|beginning| beginning.starts_with(ATTACHMENT));
        let named = value.as_str().filter(|_| names);
        let hash = named.as_deref().and_then(|text| text.strip_prefix(ATTACHMENT));
        hash.and_then(|hash| self.attached.get(hash)).cloned().unwrap_or_else(|| as_text(value))
    }

    fn message(&self, message: Value<'_>) -> (Role, Vec<Block>) {
        let role = Role::named(&message.word("role"));
        let mut blocks = Vec::new();
        match message.given("content") {
            Some(list) if list.kind() == ValueKind::Array => {
                blocks.extend(list.items().map(|part| self.block(part)))
            }
            Some(text) if !text.is_str("") => blocks.push(Block::text(self.text(text))),
            _ => {}
        }
        if role == Role::Tool {
            let error = message.given("error");
            if let Some(error) = error.filter(|_| blocks.is_empty()).and_then(|error| error.given("message"))
            {
                blocks.push(Block::text(self.text(error)));
            }
            let (id, name) = (text_of(message, "tool_call_id"), text_of(message, "function"));
            return (role, vec![result(id.as_deref(), name.as_deref(), blocks, error.is_some())]);
        }
        for called in message.given("tool_calls").into_iter().flat_map(Value::items) {
            let (id, name) = (text_of(called, "id"), text_of(called, "function"));
            // An argument that is long was stored elsewhere.
            let given = called.get("arguments");
            let resolved =
                given.filter(|given| given.raw().contains(ATTACHMENT)).map(|given| self.resolved(given));
            let doc = resolved.as_ref().map(|resolved| Doc::of(resolved));
            let arguments = if resolved.is_some() { doc.as_ref().and_then(Doc::root) } else { given };
            blocks.push(call(id.as_deref(), name.as_deref(), arguments));
        }
        (role, blocks)
    }

    /// Arguments with the attachments that they name.
    fn resolved(&self, arguments: Value<'_>) -> String {
        let mut text = arguments.raw().to_owned();
        for (hash, attached) in self.attached {
            let name = format!("\"{ATTACHMENT}{hash}\"");
            if text.contains(&name) {
                text = text.replace(&name, &render::quoted(attached));
            }
        }
        text
    }

    fn block(&self, part: Value<'_>) -> Block {
        let text = |name| part.given(name).map(|value| self.text(value));
        match &*part.word("type") {
            "text" => text("text").map_or_else(|| opaque("text", part), Block::text),
            "reasoning" => thought(text("reasoning").unwrap_or_else(|| Text::new("")), FORMAT, self.model),
            "image" => {
                text("image").map_or_else(|| opaque("image", part), |url| medium(&url, Some("image/*"), None))
            }
            "document" => {
                let (kind, name) = (text("mime_type"), text("filename"));
                match text("document") {
                    Some(url) => {
                        medium(&url, Some(kind.as_deref().unwrap_or("application/pdf")), name.as_deref())
                    }
                    None => opaque("document", part),
                }
            }
            kind => opaque(kind, part),
        }
    }
}
