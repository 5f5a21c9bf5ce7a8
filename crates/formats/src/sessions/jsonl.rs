//! `jsonl`: our own record, one entry per line.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::{
    Content, ConversationId, Entry, EntryId, Kind, Message, Text, Tree,
    content::Meta,
    json::{Doc, Value},
    verify::{Discrepancy, verify, verify_order},
};
use rejoin_view::{
    Action, Finding, Rule, SoundView,
    path::{self, path},
};

use super::{
    lines::{self, Line, LineReader, at},
    sample::{Claim, Sample},
    writing::{Writing, Written},
};
use crate::{
    context::{Context, offered},
    input::Stream,
    session::{Aside, Detail, ReadError, Session, SetAside, SourcePlace, derive_id},
    wire::{TooLarge, registry::Dialect},
};

/// The name of the format.
pub const FORMAT: &str = "jsonl";

/// The number of lines that are examined to detect the format.
const LOOK_AT: usize = 20;

/// Whether a text looks like our own record.
pub fn sniff(sample: &Sample<'_>) -> Option<Claim> {
    Claim::sure(sample.any_line(LOOK_AT, is_entry), "entries with `seq`, `inner` and `hash`")
}

fn is_entry(root: Value<'_>) -> bool {
    ["v", "id", "seq", "type", "inner", "hash"].iter().all(|name| root.get(name).is_some())
}

/// Reads the conversation in a file of entries, line by line.
///
/// # Errors
/// If the file has no conversation, or cannot be read.
pub fn read_stream(mut stream: Stream<'_>) -> Result<Vec<Session>, ReadError> {
    let mut record = Record::default();
    lines::read(&mut stream, &mut record)?;
    if record.entries.is_empty() {
        return Err(ReadError::NoConversation("no line of it is an entry"));
    }
    Ok(vec![record.finish(stream.name)])
}

/// Something in a store that is not an entry.
#[derive(Debug, Clone)]
pub struct Damaged {
    /// Its place in the order of storage, from 1; in a file of entries, its line.
    pub line: Option<usize>,
    /// The damage, in words.
    pub why: String,
    /// Its text, as far as it can be decoded.
    pub text: Text,
    /// Whether it is left over from a write that was never acknowledged.
    pub torn: bool,
}

/// Builds the session of a stored conversation, the same that reading its file of entries would give. Each entry comes with its
/// place in the order of storage, from 1.
///
/// The store knows the id even if the header is damaged.
pub fn session_of(
    id: ConversationId,
    entries: impl IntoIterator<Item = (Entry, usize)>,
    damaged: Vec<Damaged>,
) -> Session {
    let place = |line: Option<usize>| SourcePlace { index: line.map_or(0, |line| line - 1), offset: 0, line };
    let mut record = Record { verified: true, ..Record::default() };
    for (entry, line) in entries {
        record.places.entry(entry.id()).or_insert(place(Some(line.max(1))));
        record.entries.push(entry);
    }
    for damage in damaged {
        let place = place(damage.line.filter(|line| *line > 0));
        let rule = if damage.torn { Rule::TornTail } else { Rule::DamagedEntry };
        record.findings.push(Finding::new(rule, at(place), Action::SetAside).because(damage.why));
        // A torn write was never part of the chain, so it does not explain a break in it.
        record.excused |= !damage.torn;
        record.damaged.push((place, damage.text));
    }
    Session { id, ..record.finish("") }
}

#[derive(Default)]
struct Record {
    entries: Vec<Entry>,
    places: HashMap<EntryId, SourcePlace>,
    damaged: Vec<(SourcePlace, Text)>,
    findings: Vec<Finding>,
    /// Whether damage explains a break in the chain after it.
    excused: bool,
    /// Whether a store verified the entries when it read them.
    verified: bool,
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
        self.excused = true;
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

impl Record {
    /// Sets aside entries that were changed, and reports other contradictions.
    fn verify(&mut self) {
        let mut changed: HashSet<EntryId> = HashSet::new();
        let found = if self.verified { verify_order(&self.entries) } else { verify(&self.entries) };
        for discrepancy in found {
            let about = match discrepancy {
                Discrepancy::Changed(id) | Discrepancy::Repeated(id) | Discrepancy::Rootless(id) => id,
                Discrepancy::Sequence { id, .. } => id,
                // The path reports it if it matters.
                Discrepancy::NoParent { .. } => continue,
                Discrepancy::NoHeader => self.entries[0].id(),
            };
            let (rule, action) = match discrepancy {
                Discrepancy::Changed(_) => {
                    changed.insert(about);
                    (Rule::DamagedEntry, Action::SetAside)
                }
                // Damage breaks the chain after it, and that is reported once, at the damage.
                _ if self.excused => continue,
                _ => (Rule::BrokenChain, Action::Kept),
            };
            let finding = Finding::new(rule, at(self.place_of(about)), action);
            self.findings.push(finding.because(discrepancy.to_string()));
        }
        let entries: Vec<Entry> =
            self.entries.extract_if(.., |entry| changed.contains(&entry.id())).collect();
        for entry in entries {
            self.damaged.push((self.place_of(entry.id()), Text::from(entry.to_line())));
        }
    }

    fn place_of(&self, entry: EntryId) -> SourcePlace {
        self.places.get(&entry).copied().unwrap_or(SourcePlace { index: 0, offset: 0, line: Some(1) })
    }

    /// The session. Its id is in the header, or else derived from the file's name.
    fn finish(mut self, name: &str) -> Session {
        self.verify();
        let tree = Tree::new(&self.entries);
        let walked = path(&tree);
        let places: Vec<SourcePlace> = walked.entries.iter().map(|id| self.place_of(*id)).collect();
        let details = walked.entries.iter().map(|id| Detail {
            id: Some(Text::from(id.to_string())),
            time: tree.get(*id).and_then(|entry| entry.envelope().source_time.clone()),
            ..Detail::default()
        });
        let on_path =
            |(entry, finding): (EntryId, Finding)| Finding { at: at(self.place_of(entry)), ..finding };
        let (mut id, mut format, mut context) = (None, None, None);
        let mut set_aside = Vec::new();
        let shown: HashMap<EntryId, usize> =
            walked.entries.iter().enumerate().map(|(number, id)| (*id, number)).collect();
        let changed = path::changed(&tree.path().0);
        let mut after = 0;
        for entry in &self.entries {
            // The tree knows the first entry of an id. Another one under the same id is kept as text, unless it is a copy.
            if let Some(first) = tree.get(entry.id()).filter(|first| !std::ptr::eq(*first, entry)) {
                if first != entry {
                    let what = Aside::Raw(Text::from(entry.to_line()));
                    set_aside.push(SetAside { place: self.place_of(entry.id()), after, what });
                }
                continue;
            }
            // The path has already read it.
            if let Some(number) = shown.get(&entry.id()).filter(|_| entry.envelope().kind == Kind::Message) {
                after = number + 1;
                // What the path shows differently, pruned or shortened, is kept as it was said.
                if changed.contains(&entry.id())
                    && let Content::Message(message) = Content::of(entry)
                {
                    let what = Aside::Hidden(Arc::new(message), Detail::default());
                    set_aside.push(SetAside { place: self.place_of(entry.id()), after, what });
                }
                continue;
            }
            let what = match Content::of(entry) {
                Content::Message(message) => Aside::Hidden(Arc::new(message), Detail::default()),
                Content::Meta(Meta { title: Some(title), .. }) => Aside::Title(title),
                content => {
                    match content {
                        Content::Header(metadata) => {
                            id = id.or(Some(metadata.conversation));
                            format = format.or(metadata.format);
                        }
                        Content::Context(found) => context = Some(found),
                        _ => {}
                    }
                    Aside::Raw(Text::from(entry.to_line()))
                }
            };
            set_aside.push(SetAside { place: self.place_of(entry.id()), after, what });
        }
        for (place, text) in &self.damaged {
            set_aside.push(SetAside { place: *place, after, what: Aside::Raw(text.clone()) });
        }
        let context = surroundings(context, format.as_deref(), walked.history.messages());
        let first = walked.history.messages().first().and_then(|message| message.native.as_ref());
        let id = id.unwrap_or_else(|| derive_id(FORMAT, None, name, first.map(|native| &native.raw)));
        let findings =
            self.findings.iter().cloned().chain(walked.findings.into_iter().map(on_path)).collect();
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

/// The context around the messages: the imported one, or that of the last `context` entry.
fn surroundings(
    entry: Option<rejoin_record::content::RecordedContext>,
    format: Option<&str>,
    messages: &[Arc<Message>],
) -> Context {
    let imported = entry.as_ref().and_then(|entry| Context::from_json(entry.target.as_ref()?.as_str()));
    if let Some(context) = imported {
        return context;
    }
    if let Some(context) = entry.as_ref().and_then(of_turns) {
        return context;
    }
    let native = messages.iter().find_map(|message| message.native.as_ref());
    let format = format.or(native.map(|native| &*native.format)).unwrap_or_default();
    let dialect = Dialect::of_format(format);
    let mut context = Context { dialect, ..Context::default() };
    let Some(entry) = entry else { return context };
    let system = dialect.map_or(Some(&"system"), |dialect| dialect.wire().fields.system.first());
    if let (Some(text), Some(name)) = (&entry.system, system) {
        context.put(name, &crate::wire::render::quoted(text));
    }
    if let Some(tools) = &entry.tools {
        context.put("tools", tools.as_str());
    }
    context.before_messages = context.fields.len();
    context
}

/// The context of requests that rejoin sent: the entry names the provider.
fn of_turns(entry: &rejoin_record::content::RecordedContext) -> Option<Context> {
    let doc = Doc::parse(entry.target.as_ref()?.as_str()).ok()?;
    let target = doc.root()?;
    target.get("provider")?.as_str()?;
    let dialect = target.get("dialect").and_then(Value::as_str).and_then(|name| name.parse().ok());
    let tools = entry.tools.as_ref().and_then(|tools| Doc::parse(tools.as_str()).ok());
    let mut context = Context {
        dialect,
        whole_body: true,
        instructions: entry.system.clone(),
        offered: tools.as_ref().and_then(Doc::root).map(offered).unwrap_or_default(),
        ..Context::default()
    };
    if let Some(model) = target.get("model").and_then(Value::as_str) {
        context.put("model", &crate::wire::render::quoted(&model));
    }
    context.before_messages = context.fields.len();
    Some(context)
}

/// Writes all of a session as a file of entries, without repairs: views repair it whenever it is read.
///
/// # Errors
/// Never.
pub fn write(session: &Session, _: &SoundView, writing: &Writing<'_>) -> Result<Written, TooLarge> {
    let mut text = String::new();
    for entry in session.to_entries(writing.now) {
        text.push_str(&entry.to_line());
        text.push('\n');
    }
    Ok(Written::text(text, Vec::new()))
}
