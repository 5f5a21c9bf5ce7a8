//! `jsonl`: our own record, one entry a line.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Content, ConversationId, Entry, EntryId, Message, Text, Tree,
    json::{Doc, Value},
    verify::{Discrepancy, verify},
};
use rejoin_view::{Action, Finding, Position, Rule, SoundView, path::path};

use super::{
    lines::{self, Line, LineReader, at},
    writing::{Writing, Written},
};
use crate::{
    context::{Context, surrounding_names},
    input::{Input, Stream},
    session::{Aside, Detail, Place, ReadError, Session, SetAside, derive_id},
    wire::{TooLarge, registry::Dialect},
};

/// The format's name.
pub const FORMAT: &str = "jsonl";

/// How many lines are looked at to tell the format.
const LOOK_AT: usize = 20;

/// Whether a text looks like our own record.
#[must_use]
pub fn sniff(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LOOK_AT);
    lines.into_iter().any(|line| {
        let (doc, _) = Doc::parse_prefix(line);
        doc.root().is_some_and(is_entry)
    })
}

fn is_entry(root: Value<'_>) -> bool {
    ["v", "id", "seq", "type", "inner", "hash"].iter().all(|name| root.get(name).is_some())
}

/// Reads the conversation of a file of entries.
///
/// # Errors
/// If there is none in it.
pub fn read(input: &Input) -> Result<Vec<Session>, ReadError> {
    lines::of_text(input, read_stream)
}

/// Reads the conversation of a file of entries, line by line.
///
/// # Errors
/// If there is none in it, or it cannot be read.
pub fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut record = Record::default();
    lines::read(&mut stream, &mut record)?;
    if record.entries.is_empty() {
        return Err(ReadError::NoConversation("no line of it is an entry"));
    }
    Ok(vec![record.finish(stream.name)])
}

#[derive(Default)]
struct Record {
    entries: Vec<Entry>,
    places: HashMap<EntryId, Place>,
    damaged: Vec<(Place, Text)>,
    findings: Vec<Finding>,
}

impl LineReader for Record {
    fn value(&mut self, line: &Line, _: Value<'_>) {
        match Entry::from_line(&line.text) {
            Ok(entry) => {
                self.places.entry(entry.id()).or_insert(line.place);
                self.entries.push(entry);
            }
            Err(error) => {
                let finding = Finding::new(Rule::DamagedEntry, at(line.place), Action::SetAside);
                self.damaged(line, finding.because(error.to_string()));
            }
        }
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.damaged.push((line.place, Text::new(line.text.clone())));
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

impl Record {
    /// Sets aside what is not what it was when it was appended, and says what else does not add up.
    fn verify(&mut self) {
        let damaged_before = !self.damaged.is_empty();
        let mut changed: HashSet<EntryId> = HashSet::new();
        for discrepancy in verify(&self.entries) {
            let about = match &discrepancy {
                Discrepancy::Changed(id) | Discrepancy::Repeated(id) | Discrepancy::Rootless(id) => Some(*id),
                Discrepancy::Sequence { id, .. } => Some(*id),
                // The path says so, where it matters.
                Discrepancy::NoParent { .. } => continue,
                Discrepancy::NoHeader => self.entries.first().map(Entry::id),
            };
            let place = about.and_then(|id| self.places.get(&id).copied());
            let place = place.unwrap_or(Place { index: 0, offset: 0, line: Some(1) });
            if let Discrepancy::Changed(id) = discrepancy {
                changed.insert(id);
                let finding = Finding::new(Rule::DamagedEntry, at(place), Action::SetAside);
                self.findings.push(finding.because(discrepancy.to_string()));
            } else if !damaged_before {
                // What was damaged breaks the chain behind it; that is said once, at the damage.
                let finding = Finding::new(Rule::BrokenChain, at(place), Action::Kept);
                self.findings.push(finding.because(discrepancy.to_string()));
            }
        }
        for entry in self.entries.extract_if(.., |entry| changed.contains(&entry.id())) {
            let place = self.places.get(&entry.id()).copied();
            let place = place.unwrap_or(Place { index: 0, offset: 0, line: Some(1) });
            self.damaged.push((place, Text::from(entry.to_line())));
        }
    }

    fn finish(mut self, name: &str) -> Session {
        self.verify();
        let tree = Tree::new(&self.entries);
        let walked = path(&tree);
        let place_of = |entry: &EntryId| {
            self.places.get(entry).copied().unwrap_or(Place { index: 0, offset: 0, line: Some(1) })
        };
        let places: Vec<Place> = walked.entries.iter().map(place_of).collect();
        let details = walked.entries.iter().map(|id| Detail {
            id: Some(Text::from(id.to_string())),
            time: tree.get(*id).and_then(|entry| entry.envelope().source_time.clone()),
            pieces: Vec::new(),
        });
        let on_path = |(finding, entry): (Finding, &EntryId)| Finding {
            at: Position { line: place_of(entry).line, ..Position::default() },
            ..finding
        };
        let (mut id, mut format, mut context) = (None, None, None);
        let mut set_aside = Vec::new();
        let shown: HashMap<EntryId, usize> =
            walked.entries.iter().enumerate().map(|(number, id)| (*id, number)).collect();
        let mut after = 0;
        for entry in &self.entries {
            let aside = match Content::of(entry) {
                Content::Header(metadata) => {
                    id = id.or(Some(metadata.conversation));
                    format = format.or(metadata.format);
                    Some(Aside::Raw(Text::from(entry.to_line())))
                }
                Content::Context(found) => {
                    context = Some(found);
                    Some(Aside::Raw(Text::from(entry.to_line())))
                }
                Content::Message(message) => match shown.get(&entry.id()) {
                    Some(number) => {
                        after = number + 1;
                        None
                    }
                    None => Some(Aside::Hidden(Arc::new(message), Detail::default())),
                },
                Content::Meta(meta) if meta.title.is_some() => meta.title.map(Aside::Title),
                _ => Some(Aside::Raw(Text::from(entry.to_line()))),
            };
            let place = place_of(&entry.id());
            set_aside.extend(aside.map(|what| SetAside { place, after, what }));
        }
        for (place, text) in &self.damaged {
            set_aside.push(SetAside { place: *place, after, what: Aside::Raw(text.clone()) });
        }
        let context = surroundings(context, format.as_deref(), walked.history.messages());
        let first = walked.history.messages().first().and_then(|message| message.native.as_ref());
        let id: ConversationId =
            id.unwrap_or_else(|| derive_id(FORMAT, None, name, first.map(|native| &native.raw)));
        let walked_findings = walked.findings.into_iter().zip(&walked.found_at).map(on_path);
        let findings = self.findings.iter().cloned().chain(walked_findings).collect();
        Session {
            format: FORMAT,
            id,
            context,
            messages: walked.history.messages().to_vec(),
            details: details.collect(),
            known: walked.history.known().to_vec(),
            sent: walked.history.sent().to_vec(),
            places,
            findings,
            set_aside,
        }
    }
}

/// What surrounds the messages: as it was imported, or as the last `context` entry has it.
fn surroundings(
    entry: Option<rejoin_record::content::Context>,
    format: Option<&str>,
    messages: &[Arc<Message>],
) -> Context {
    let imported = entry.as_ref().and_then(|entry| Context::from_json(entry.target.as_ref()?.as_str()));
    if let Some(context) = imported {
        return context;
    }
    let native = messages.iter().find_map(|message| message.native.as_ref());
    let format = format.or(native.map(|native| &*native.format)).unwrap_or_default();
    let dialect = match format {
        "codex" | "turns" => Some(Dialect::OpenAiResponses),
        "claude-code" => Some(Dialect::Anthropic),
        name => name.parse().ok(),
    };
    let mut context = Context { dialect, ..Context::default() };
    let Some(entry) = entry else { return context };
    let system = dialect.map_or(Some(&"system"), |dialect| surrounding_names(dialect).1.first());
    if let (Some(text), Some(name)) = (&entry.system, system) {
        context.put(name, &crate::wire::render::literal(text));
    }
    if let Some(tools) = &entry.tools {
        context.put("tools", tools.as_str());
    }
    context.before_messages = context.fields.len();
    context
}

/// Writes a session as a file of entries: everything, as it was. Views mend it whenever it is read.
///
/// # Errors
/// Never.
pub fn write(session: &Session, _: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let mut text = String::new();
    for entry in session.to_entries(writing.now) {
        text.push_str(&entry.to_line());
        text.push('\n');
    }
    Ok(Written { text, findings: Vec::new() })
}
