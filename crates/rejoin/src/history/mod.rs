//! A stored conversation in the form for people and programs: messages under stable numbers, in shapes that the command line and a
//! server share. `shape.rs` has the JSON, `view.rs` the view of a model, `tokens.rs` how much of its window that takes.
//!
//! Numbers count from 0 along the path to the head, including commands and summaries. An erased message keeps its number, so no
//! other message ever gets it.
//!
//! ```
//! # #[cfg(feature = "store")] {
//! use std::sync::Arc;
//! use rejoin::{Conversation, Message, New, SystemClock, history};
//!
//! let mut conversation = Conversation::in_memory(Arc::new(SystemClock), &New::default());
//! conversation.say(Message::user("Hello."));
//! let shown = history::shown(conversation.entries());
//! assert!(shown[0].to_json(0).contains(r#""role":"user","content":"Hello.""#));
//! # }
//! ```

pub mod branches;
mod shape;
#[cfg(feature = "agent")]
pub mod tokens;
pub mod view;

use std::collections::HashMap;

use rejoin_formats::Session;
use rejoin_record::{
    Content, Entry, EntryId, Kind, Message, Role, Tree,
    content::{self, TurnState},
};
use rejoin_view::{Finding, path::is_numbered};
pub use shape::text_of;
pub(crate) use shape::with_message;

/// A numbered item of a conversation.
#[derive(Debug)]
pub struct Shown<'e> {
    /// The entry in which it is stored.
    pub entry: &'e Entry,
    /// The content that can be shown.
    pub what: ShownContent,
    /// Whether the turn was interrupted right after it, so that it may be only a part of an answer.
    pub interrupted: bool,
}

/// The content of a numbered item.
#[derive(Debug)]
pub enum ShownContent {
    /// A message.
    Message(Message),
    /// A command that a person ran.
    Command(content::Command),
    /// A summary that replaces earlier messages.
    Summary(content::Compacted),
    /// A message whose content was erased.
    Erased,
    /// A message that this version cannot read.
    Unreadable,
}

/// Every numbered item of a conversation, in order.
#[must_use]
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
                    matches!(&said.what, ShownContent::Message(message) if message.role == Role::Assistant);
                said.interrupted = by_model;
            }
        }
    }
    shown
}

fn what(entry: &Entry) -> Option<ShownContent> {
    // Most entries are of other kinds and need not be parsed.
    if !matches!(entry.envelope().kind, Kind::Message | Kind::Command | Kind::Compacted) {
        return None;
    }
    let content = Content::of(entry);
    if !is_numbered(entry, &content) {
        return None;
    }
    Some(match content {
        Content::Message(message) => ShownContent::Message(message),
        Content::Command(command) => ShownContent::Command(command),
        Content::Compacted(compacted) => ShownContent::Summary(compacted),
        Content::Gone => ShownContent::Erased,
        _ => ShownContent::Unreadable,
    })
}

fn numbers(shown: &[Shown<'_>]) -> HashMap<EntryId, usize> {
    shown.iter().enumerate().map(|(number, shown)| (shown.entry.id(), number)).collect()
}

/// The line of each message in its file, by the message's number.
#[derive(Debug, Default)]
pub struct MessageLines(HashMap<usize, usize>);

impl MessageLines {
    /// Adds the lines of the messages to findings.
    #[must_use]
    pub fn fill(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        for finding in findings.iter_mut().filter(|finding| finding.at.line.is_none()) {
            finding.at.line = finding.at.message.and_then(|message| self.0.get(&message).copied());
        }
        findings
    }
}

/// Numbers the messages of a session as [`shown`] does, so that findings and lists use the same numbers. Returns the lines that the
/// messages had.
pub fn renumber(entries: &[Entry], session: &mut Session) -> MessageLines {
    let numbers = numbers(&shown(entries));
    let mut lines = HashMap::new();
    for (place, detail) in session.places.iter_mut().zip(&session.details) {
        let entry: Option<EntryId> = detail.id.as_ref().and_then(|id| id.parse().ok());
        let Some(number) = entry.and_then(|entry| numbers.get(&entry)) else { continue };
        lines.extend(place.line.map(|line| (*number, line)));
        place.index = *number;
        place.line = None;
    }
    MessageLines(lines)
}

/// The message numbers of search hits; `None` for a hit on another branch or in a title.
#[cfg(feature = "store")]
#[must_use]
pub fn numbers_of(store: &dyn rejoin_store::Store, hits: &[rejoin_store::Hit]) -> HashMap<EntryId, usize> {
    let mut found = HashMap::new();
    for conversation in hits.iter().map(|hit| hit.conversation).collect::<std::collections::HashSet<_>>() {
        match store.entries(conversation) {
            Ok(entries) => found.extend(numbers(&shown(&entries))),
            // The search found it a moment ago. A command that opens the conversation will report the reason.
            Err(why) => tracing::debug!("{conversation} has no message numbers: {why}"),
        }
    }
    found.retain(|entry, _| hits.iter().any(|hit| hit.entry == *entry));
    found
}
