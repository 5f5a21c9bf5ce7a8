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
    history::{Fate, History, Step},
    rules::Rule,
};

/// The history that leads to the head of the tree, and what was found on the way.
#[must_use]
pub fn path(tree: &Tree<'_>) -> (History, Vec<Finding>) {
    let (entries, broken) = tree.path();
    let mut findings = Vec::new();
    let mut steps: Vec<Step> = Vec::with_capacity(entries.len());
    // Where the message of an entry stands among the steps, and among the messages.
    let mut places: HashMap<EntryId, (usize, usize)> = HashMap::new();
    let mut messages = 0;
    for entry in entries {
        if let Some(link) = broken.iter().find(|link| link.entry == entry.id()) {
            let finding = Finding::new(Rule::BrokenChain, Position::message(messages), Action::Kept);
            findings.push(finding.about(link.parent.to_string()));
        }
        match Content::of(entry) {
            Content::Message(message) => {
                places.insert(entry.id(), (steps.len(), messages));
                steps.push(Step::Message(Arc::new(message), Vec::new()));
                messages += 1;
            }
            Content::Closed(closed) => {
                for call in closed.calls {
                    let fate = match call.decision {
                        Decision::LeftOut => Fate::ClosedLeftOut,
                        Decision::Interrupted => Fate::ClosedInterrupted,
                        Decision::Rerun => Fate::Unknown,
                    };
                    set_fate(&mut steps, &places, call.entry, call.block, fate);
                }
            }
            Content::Turn(turn) => match (turn.state, turn.call) {
                (TurnState::Started, _) => steps.push(Step::Sent),
                (TurnState::CallRunning, Some(call)) => {
                    set_fate(&mut steps, &places, call.entry, call.block, Fate::Started);
                }
                (TurnState::CallAwaitingApproval, Some(call)) => {
                    set_fate(&mut steps, &places, call.entry, call.block, Fate::AwaitingApproval);
                }
                _ => {}
            },
            Content::Unreadable(_) => {
                findings.push(
                    Finding::new(Rule::DamagedEntry, Position::message(messages), Action::SetAside)
                        .about(entry.id().to_string()),
                );
            }
            _ => {}
        }
    }
    (History { steps }, findings)
}

fn set_fate(
    steps: &mut [Step],
    places: &HashMap<EntryId, (usize, usize)>,
    entry: EntryId,
    block: u64,
    fate: Fate,
) {
    let Some(&(place, _)) = places.get(&entry) else { return };
    let Ok(block) = usize::try_from(block) else { return };
    if let Step::Message(_, fates) = &mut steps[place] {
        match fates.iter_mut().find(|(at, _)| *at == block) {
            // What was sent to a model stays decided, unless it is run again.
            Some((_, old)) if old.is_closed() && fate != Fate::Unknown && !fate.is_closed() => {}
            Some((_, old)) => *old = fate,
            None => fates.push((block, fate)),
        }
    }
}
