//! Collects all lines of a session file, and finds the path through the tree that they form.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use rejoin_record::json::{Doc, Value};
use rejoin_view::{Action, Finding, Rule};

use crate::{
    input::Stream,
    session::{ReadError, SourcePlace},
    sessions::lines::{self, Line, LineReader, at, doubled},
};

/// One line.
pub(super) struct Entry {
    pub text: Arc<str>,
    pub place: SourcePlace,
    /// Whether it cannot be read.
    pub damaged: bool,
    /// Whether it repeats an earlier line, with the same id and the same bytes.
    pub doubled: bool,
}

impl Entry {
    /// Passes the value of the line to `look`. `None` if the line is damaged.
    pub(super) fn look<T>(&self, look: impl FnOnce(Value<'_>) -> Option<T>) -> Option<T> {
        let doc = Doc::of(&self.text).shared_as(&self.text);
        look(doc.root().filter(|_| !self.damaged)?)
    }
}

/// All lines of a file.
#[derive(Default)]
pub(super) struct Entries {
    pub all: Vec<Entry>,
    pub findings: Vec<Finding>,
}

impl Entries {
    pub(super) fn read(stream: &mut Stream<'_>) -> Result<Self, ReadError> {
        let mut entries = Self::default();
        lines::read(stream, &mut entries)?;
        Ok(entries)
    }

    /// Marks and reports lines that repeat an earlier line with the same id, byte for byte. A line with the same id and other
    /// bytes is not marked.
    pub(super) fn report_doubled<'i>(&mut self, id: impl Fn(usize) -> Option<&'i str>) {
        // Several lines with one id may be pieces of one message.
        let mut seen: HashSet<(&str, Arc<str>)> = HashSet::new();
        for (index, entry) in self.all.iter_mut().enumerate() {
            let Some(id) = id(index) else { continue };
            if !seen.insert((id, Arc::clone(&entry.text))) {
                entry.doubled = true;
                self.findings.push(doubled(entry.place, Action::SetAside, id));
            }
        }
    }

    fn keep(&mut self, line: &Line, damaged: bool) {
        self.all.push(Entry { text: Arc::clone(&line.text), place: line.place, damaged, doubled: false });
    }
}

impl LineReader for Entries {
    fn value(&mut self, line: &Line, _: Value<'_>) {
        self.keep(line, false);
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.keep(line, true);
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}

/// The parent of an entry, as the entry names it.
pub(super) enum Parent {
    /// The entry names none, so it follows the one before it.
    Unnamed,
    /// The entry begins a conversation.
    Root,
    Named(Box<str>),
}

/// The place of an entry in the tree.
pub(super) struct Link {
    pub id: Option<Box<str>>,
    pub parent: Parent,
}

impl Link {
    /// Reads the link of a line from two of its fields.
    pub(super) fn of(root: Value<'_>, id: &str, parent: &str) -> Self {
        let text = |name| root.given(name).and_then(Value::as_str).map(|text| Box::from(&*text));
        let parent = match (root.get(parent), text(parent)) {
            (_, Some(parent)) => Parent::Named(parent),
            (Some(_), None) => Parent::Root,
            (None, None) => Parent::Unnamed,
        };
        Self { id: text(id), parent }
    }
}

/// Returns for each entry whether it is on the path that ends with the last entry. Entries with the same id are one step of the
/// path. An entry whose parent is missing is reported, and follows the entry before it.
pub(super) fn path(entries: &mut Entries, links: &[Option<Link>], root: Option<&str>) -> Vec<bool> {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, link) in links.iter().enumerate() {
        if let Some(id) = link.as_ref().and_then(|link| link.id.as_deref()) {
            by_id.entry(id).or_default().push(index);
        }
    }
    let mut on_path = vec![false; links.len()];
    let mut here = links.iter().rposition(Option::is_some);
    while let Some(index) = here.filter(|index| !on_path[*index]) {
        let Some(link) = &links[index] else { break };
        on_path[index] = true;
        for same in link.id.as_deref().and_then(|id| by_id.get(id)).into_iter().flatten() {
            on_path[*same] = true;
        }
        let before = || links[..index].iter().rposition(Option::is_some);
        here = match &link.parent {
            Parent::Root => None,
            Parent::Named(parent) if root == Some(&**parent) => None,
            Parent::Named(parent) => {
                by_id.get(&**parent).and_then(|found| found.first().copied()).or_else(|| {
                    let finding = Finding::new(Rule::BrokenChain, at(entries.all[index].place), Action::Kept);
                    entries.findings.push(finding.about(&**parent));
                    before()
                })
            }
            Parent::Unnamed => before(),
        };
    }
    on_path
}
