//! The numbers that a person knows messages by: from 0, along the way to the head, commands and summaries included. What was
//! erased keeps its number, so nothing else gets another one.

use std::collections::HashMap;

use rejoin::{
    Finding, Message, Session,
    record::{
        Content, Entry, EntryId, Kind, Role, Tree,
        content::{self, TurnState},
    },
};

/// Something that `history show` shows under a number.
pub struct Shown<'e> {
    /// Its entry.
    pub entry: &'e Entry,
    /// What it is.
    pub what: What,
    /// Whether the turn was interrupted right behind it: what stands there may not be all.
    pub interrupted: bool,
}

/// What is shown.
pub enum What {
    /// Something that was said.
    Message(Message),
    /// A command that a person ran.
    Command(content::Command),
    /// A summary that stands for what was said before.
    Summary(content::Compacted),
    /// A message whose content was erased.
    Erased,
    /// A message that this version cannot read.
    Unreadable,
}

/// Everything that has a number, in order.
pub fn shown(entries: &[Entry]) -> Vec<Shown<'_>> {
    let tree = Tree::new(entries);
    let (path, _) = tree.path();
    let mut shown: Vec<Shown<'_>> = Vec::new();
    let mut last = None;
    for entry in path {
        if let Some(what) = what(entry) {
            shown.push(Shown { entry, what, interrupted: false });
            last = Some(shown.len() - 1);
        } else if let Content::Turn(turn) = Content::of(entry) {
            let said = last.take().and_then(|place| shown.get_mut(place));
            if let Some(said) = said.filter(|_| turn.state == TurnState::Interrupted) {
                let by_model =
                    matches!(&said.what, What::Message(message) if message.role == Role::Assistant);
                said.interrupted = by_model;
            }
        }
    }
    shown
}

fn what(entry: &Entry) -> Option<What> {
    let kind = &entry.envelope().kind;
    if !matches!(kind, Kind::Message | Kind::Command | Kind::Compacted) {
        return None;
    }
    Some(match Content::of(entry) {
        Content::Message(message) => What::Message(message),
        Content::Command(command) => What::Command(command),
        // Without a summary, what follows is the summary.
        Content::Compacted(compacted) if compacted.summary.is_blank() => return None,
        Content::Compacted(compacted) => What::Summary(compacted),
        Content::Gone => What::Erased,
        _ => What::Unreadable,
    })
}

/// The lines that messages stand at, by the numbers that they are shown under.
#[derive(Debug, Default)]
pub struct Lines(HashMap<usize, usize>);

impl Lines {
    /// Gives findings the lines of their messages.
    pub fn fill(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        for finding in findings.iter_mut().filter(|finding| finding.at.line.is_none()) {
            finding.at.line = finding.at.message.and_then(|message| self.0.get(&message).copied());
        }
        findings
    }
}

/// Puts the messages of a session at the places that `history show` shows them at, so that both speak of the same ones.
pub fn as_shown(entries: &[Entry], session: &mut Session) -> Lines {
    let numbers: HashMap<EntryId, usize> =
        shown(entries).iter().enumerate().map(|(number, shown)| (shown.entry.id(), number)).collect();
    let mut lines = HashMap::new();
    for (place, detail) in session.places.iter_mut().zip(&session.details) {
        let entry: Option<EntryId> = detail.id.as_ref().and_then(|id| id.parse().ok());
        let Some(number) = entry.and_then(|entry| numbers.get(&entry)) else { continue };
        lines.extend(place.line.map(|line| (*number, line)));
        place.index = *number;
        place.line = None;
    }
    Lines(lines)
}
