//! Instructions that an agent gave its model, in a session that is written for another agent: they are left out, each with
//! a finding. What is left is a session like any other.

use std::borrow::Cow;

use rejoin_record::{Message, Role};
use rejoin_view::{Action, Finding, Position, Rule};

use crate::session::Session;

/// A session without the instructions of another agent than the one it is written for, and what was left out.
pub(super) fn without_those_of_others<'s>(
    session: &'s Session,
    writes: &str,
    agents: &[&str],
) -> (Cow<'s, Session>, Vec<Finding>) {
    let native = |message: &Message| message.native.as_ref().map(|native| native.format.clone());
    let first = session.messages.iter().find_map(|message| native(message));
    let is_agent = |name: &str| agents.contains(&name);
    // What came out of a store has the messages of the agent that wrote them.
    let source = first.as_deref().filter(|name| is_agent(name)).unwrap_or(session.format);
    if !is_agent(source) || !is_agent(writes) || source == writes {
        return (Cow::Borrowed(session), Vec::new());
    }
    let is_theirs = |message: &Message| {
        matches!(message.role, Role::System | Role::Developer) && native(message).as_deref() == Some(source)
    };
    let mut findings = Vec::new();
    let mut kept = session.clone();
    let told = kept.context.system().into_iter().any(|piece| !piece.text.is_blank());
    let field = kept.context.system_field().map(|(name, _)| name);
    if let Some(place) = kept.context.fields.iter().position(|own| told && Some(&*own.name) == field) {
        kept.context.fields.remove(place);
        kept.context.before_messages -= usize::from(place < kept.context.before_messages);
        let finding = Finding::new(Rule::ForeignInstructions, Position::default(), Action::LeftOut);
        findings.push(finding.about(source));
    }
    let stays: Vec<bool> = session.messages.iter().map(|message| !is_theirs(message)).collect();
    for (message, _) in stays.iter().enumerate().filter(|(_, stays)| !**stays) {
        let finding = Finding::new(Rule::ForeignInstructions, Position::message(message), Action::LeftOut);
        findings.push(session.place(finding.about(source)));
    }
    if findings.is_empty() {
        return (Cow::Borrowed(session), findings);
    }
    // Where each message is found afterwards.
    let moved: Vec<usize> = stays
        .iter()
        .scan(0, |count, stays| {
            let here = *count;
            *count += usize::from(*stays);
            Some(here)
        })
        .collect();
    let left = stays.iter().filter(|stays| **stays).count();
    let now = |message: usize| moved.get(message).copied().unwrap_or(left);
    retain(&mut kept.messages, &stays);
    retain(&mut kept.places, &stays);
    retain(&mut kept.details, &stays);
    kept.known.retain(|call| stays.get(call.message).copied().unwrap_or(true));
    kept.known.iter_mut().for_each(|call| call.message = now(call.message));
    kept.sent.iter_mut().for_each(|message| *message = now(*message));
    kept.set_aside.iter_mut().for_each(|item| item.after = now(item.after));
    (Cow::Owned(kept), findings)
}

fn retain<T>(list: &mut Vec<T>, stays: &[bool]) {
    let mut marks = stays.iter();
    list.retain(|_| marks.next().is_none_or(|stays| *stays));
}
