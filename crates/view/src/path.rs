//! The path: from the entries of a conversation to the history that a view is made of.
//!
//! Follows the tree from the root to the head, takes the messages, and applies what `closed` and `turn` entries say of
//! their calls. Every other kind is skipped here.

use std::{collections::HashMap, sync::Arc};

use rejoin_record::{
    Content, EntryId, Tree,
    content::{Decision, TurnState},
};

use crate::{
    finding::{Action, Finding, Position},
    history::{Fate, History, KnownCall},
    rules::Rule,
};

/// The history that leads to the head of the tree, and what was found on the way.
#[must_use]
pub fn path(tree: &Tree<'_>) -> (History, Vec<Finding>) {
    let (entries, broken) = tree.path();
    // In the order of the path.
    let mut broken = broken.into_iter().peekable();
    let mut findings = Vec::new();
    let mut messages = Vec::with_capacity(entries.len());
    let mut calls = Calls::default();
    let mut sent = Vec::new();
    for entry in entries {
        if let Some(link) = broken.next_if(|link| link.entry == entry.id()) {
            let finding = Finding::new(Rule::BrokenChain, Position::message(messages.len()), Action::Kept);
            findings.push(finding.about(link.parent.to_string()));
        }
        match Content::of(entry) {
            Content::Message(message) => {
                calls.places.insert(entry.id(), messages.len());
                messages.push(Arc::new(message));
            }
            Content::Closed(closed) => {
                for call in closed.calls {
                    let fate = match call.decision {
                        Decision::LeftOut => Fate::ClosedLeftOut,
                        Decision::Interrupted => Fate::ClosedInterrupted,
                        Decision::Rerun => Fate::Unknown,
                    };
                    calls.set(call.entry, call.block, fate);
                }
            }
            Content::Turn(turn) => match (turn.state, turn.call) {
                (TurnState::Started, _) => sent.push(messages.len()),
                (TurnState::CallRunning, Some(call)) => {
                    calls.set(call.entry, call.block, Fate::Started);
                }
                (TurnState::CallAwaitingApproval, Some(call)) => {
                    calls.set(call.entry, call.block, Fate::AwaitingApproval);
                }
                _ => {}
            },
            Content::Unreadable(_) => {
                findings.push(
                    Finding::new(Rule::DamagedEntry, Position::message(messages.len()), Action::SetAside)
                        .about(entry.id().to_string()),
                );
            }
            _ => {}
        }
    }
    (History::with(messages, calls.into_fates(), sent), findings)
}

/// What the entries say of calls.
#[derive(Default)]
struct Calls {
    /// Where the message of an entry stands.
    places: HashMap<EntryId, usize>,
    fates: HashMap<(usize, usize), Fate>,
}

impl Calls {
    fn set(&mut self, entry: EntryId, block: u64, fate: Fate) {
        let (Some(&message), Ok(block)) = (self.places.get(&entry), usize::try_from(block)) else { return };
        let known = self.fates.entry((message, block)).or_insert(fate);
        // What was sent to a model stays decided, unless it is run again.
        if !known.is_closed() || fate.is_closed() || fate == Fate::Unknown {
            *known = fate;
        }
    }

    fn into_fates(self) -> Vec<KnownCall> {
        self.fates.into_iter().map(|((message, block), fate)| KnownCall { message, block, fate }).collect()
    }
}
