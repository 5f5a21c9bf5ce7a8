//! The branches of a conversation: every message without a following message, and where its path departs from the others.

use std::collections::HashMap;

use rejoin_record::{Content, Entry, EntryId, Kind, Message, Timestamp};
use rejoin_view::path::is_numbered;

/// A branch: the path from the root to a message that no other message follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageBranch {
    /// The entry from which to continue the branch.
    pub tip: EntryId,
    /// The number of messages on the path, including summaries.
    pub messages: usize,
    /// The index of the branch from which it departs; `None` for the first branch.
    pub parts_from: Option<usize>,
    /// The number of messages that it shares with that branch.
    pub shared: usize,
    /// The text of the first message that only this branch has.
    pub begins: String,
    /// When its last message was recorded.
    pub updated: Timestamp,
    /// Whether the next message follows its last one.
    pub is_current: bool,
}

/// A message and its position in the tree.
struct Place<'e> {
    entry: &'e Entry,
    /// The message before it.
    before: Option<EntryId>,
    /// The number of messages on the path up to and including this one.
    depth: usize,
    /// The branch that it is on, given by the message that begins the branch. The oldest answer to a message stays on its branch,
    /// and each later one begins another branch. So a branch keeps its place in the list when messages are added to it or to
    /// others.
    branch: EntryId,
    /// The newest entry after it, with no other message in between.
    tip: EntryId,
    is_followed: bool,
}

/// The branches of a conversation, the oldest first. Commands alone do not make a branch.
#[must_use]
pub fn branches(entries: &[Entry]) -> Vec<MessageBranch> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.envelope().seq);
    // The message that each entry is or follows.
    let mut said: HashMap<EntryId, Option<EntryId>> = HashMap::new();
    let mut places: HashMap<EntryId, Place<'_>> = HashMap::new();
    let mut begun: Vec<EntryId> = Vec::new();
    let mut last = None;
    for entry in sorted {
        let before = entry.envelope().parent.and_then(|parent| said.get(&parent).copied().flatten());
        let is_said = matches!(entry.envelope().kind, Kind::Message | Kind::Compacted)
            && is_numbered(entry, &Content::of(entry));
        let now = if is_said { Some(entry.id()) } else { before };
        if is_said {
            let parent = before.and_then(|before| places.get_mut(&before));
            let (depth, branch) = match parent {
                Some(parent) => {
                    let stays = !std::mem::replace(&mut parent.is_followed, true);
                    (parent.depth + 1, if stays { parent.branch } else { entry.id() })
                }
                None => (1, entry.id()),
            };
            if branch == entry.id() {
                begun.push(branch);
            }
            let place = Place { entry, before, depth, branch, tip: entry.id(), is_followed: false };
            places.insert(entry.id(), place);
        } else if let Some(place) = now.and_then(|now| places.get_mut(&now)) {
            place.tip = entry.id();
        }
        said.insert(entry.id(), now);
        last = now;
    }
    let leaves: HashMap<EntryId, &Place<'_>> =
        places.values().filter(|place| !place.is_followed).map(|place| (place.branch, place)).collect();
    let number: HashMap<EntryId, usize> =
        begun.iter().enumerate().map(|(number, id)| (*id, number)).collect();
    let branch = |id: &EntryId| {
        let (first, leaf) = (places.get(id)?, leaves.get(id)?);
        let parent = first.before.and_then(|before| places.get(&before));
        Some(MessageBranch {
            tip: leaf.tip,
            messages: leaf.depth,
            parts_from: parent.and_then(|parent| number.get(&parent.branch).copied()),
            shared: first.depth - 1,
            begins: text(first.entry),
            updated: leaf.entry.envelope().timestamp,
            is_current: last == Some(leaf.entry.id()),
        })
    };
    begun.iter().filter_map(branch).collect()
}

/// The text of a message or of a summary; empty if it was erased.
fn text(entry: &Entry) -> String {
    match Content::of(entry) {
        Content::Message(message) => message_text(&message),
        Content::Compacted(compacted) => compacted.summary.to_string(),
        _ => String::new(),
    }
}

fn message_text(message: &Message) -> String {
    super::text_of(message).unwrap_or_default()
}

/// The entry from which to continue after a message: the last one before the next message on its path, so that entries about the
/// message (the end of its turn, a title) stay with it.
#[must_use]
pub fn end_of_message(entries: &[Entry], message: EntryId) -> Option<EntryId> {
    let tree = rejoin_record::Tree::new(entries);
    let (path, _) = tree.path();
    let at = path.iter().position(|entry| entry.id() == message)?;
    let next = path[at + 1..].iter().position(|entry| is_numbered(entry, &Content::of(entry)));
    let end = next.map_or(path.len() - 1, |next| at + next);
    // The request after it belongs to the next message, and so do that request's context and its decisions about calls.
    let kept = path[at..=end]
        .iter()
        .rposition(|entry| !matches!(entry.envelope().kind, Kind::Context | Kind::Closed));
    Some(path[at + kept.unwrap_or(0)].id())
}

#[cfg(all(test, feature = "agent"))]
mod tests {
    use std::sync::Arc;

    use rejoin_engine::{Conversation, New, SystemClock};

    use super::*;

    fn texts(conversation: &Conversation) -> Vec<(usize, usize, String, bool)> {
        let branches = branches(conversation.entries());
        branches.into_iter().map(|b| (b.messages, b.shared, b.begins, b.is_current)).collect()
    }

    #[test]
    fn one_line_is_one_branch() {
        let mut conversation = Conversation::in_memory(Arc::new(SystemClock), &New::default());
        assert_eq!(texts(&conversation), []);
        conversation.say(Message::user("one"));
        conversation.say(Message::assistant("two"));
        assert_eq!(texts(&conversation), [(2, 0, String::from("one"), true)]);
    }
}
