//! The repair pass: any history in, a [`SoundView`] and findings out.
//!
//! Total, linear, without recursion, and it copies no text: a view shares the messages it was made from. `pairing.rs`
//! decides who answers whom, `emit.rs` what each state becomes. A running conversation keeps its [`Repairer`]: what was
//! sent is sealed, and a new turn costs its new messages.

mod emit;
mod pairing;

use std::sync::Arc;

use rejoin_record::Message;

use crate::{
    finding::Finding,
    history::{Fate, History, Step},
    sound::{Chunk, FirstChange, SoundView},
};

/// What becomes of broken states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Policy {
    /// Nothing that was said or that ran is forgotten.
    #[default]
    Keep,
    /// What is incomplete is left out.
    Drop,
}

/// The setting `on_broken`, as far as a view is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum OnBroken {
    /// Repair, forgetting nothing.
    #[default]
    Keep,
    /// Repair, leaving out what is incomplete.
    Drop,
    /// Send nothing that is not sound as it stands.
    Refuse,
}

/// What the repair pass gives.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// What a model may see.
    pub view: SoundView,
    /// What was found on the way, in source order.
    pub findings: Vec<Finding>,
}

/// The history is not sound, and nothing may be repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub findings: Vec<Finding>,
}

/// Makes a sound view of any history.
#[must_use]
pub fn repair(history: &History, policy: Policy) -> Repaired {
    let mut repairer = Repairer::new(policy);
    repairer.pending.reserve(history.steps.len());
    repairer.pairing.reserve(history.steps.len());
    for step in &history.steps {
        match step {
            Step::Message(message, fates) => repairer.push(Arc::clone(message), fates),
            Step::Sent => repairer.seal(),
        }
    }
    repairer.finish()
}

/// Makes a sound view, or refuses because the history is not sound as it stands.
///
/// # Errors
/// With [`OnBroken::Refuse`], the findings, if one of them is a warning or an error.
pub fn repair_or_refuse(history: &History, on_broken: OnBroken) -> Result<Repaired, Refused> {
    let policy = if on_broken == OnBroken::Drop { Policy::Drop } else { Policy::Keep };
    let repaired = repair(history, policy);
    if on_broken == OnBroken::Refuse && repaired.findings.iter().any(Finding::is_problem) {
        return Err(Refused { findings: repaired.findings });
    }
    Ok(repaired)
}

/// Repairs a conversation as it grows.
#[derive(Debug)]
pub struct Repairer {
    policy: Policy,
    pairing: pairing::Pairing,
    /// Messages after the last seal, and how many stand before them.
    pending: Vec<Arc<Message>>,
    base: usize,
    sealed: Vec<Arc<Chunk>>,
    sealed_items: usize,
    findings: Vec<Finding>,
    state: emit::State,
    first_change: Option<FirstChange>,
}

impl Repairer {
    /// A conversation without messages.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            pairing: pairing::Pairing::default(),
            pending: Vec::new(),
            base: 0,
            sealed: Vec::new(),
            sealed_items: 0,
            findings: Vec::new(),
            state: emit::State::default(),
            first_change: None,
        }
    }

    /// Adds a message, with what is known of the calls in it.
    pub fn push(&mut self, message: Arc<Message>, fates: &[(usize, Fate)]) {
        self.pairing.add(self.base + self.pending.len(), &message, fates);
        self.pending.push(message);
    }

    /// A request is sent from here: what stands before will never look different. Calls that are still open are closed
    /// as the policy says.
    pub fn seal(&mut self) {
        self.pairing.close_open(self.policy);
        self.emit_pending();
        self.pairing.next_epoch();
    }

    /// The view as it is now. Costs what was added since the last seal.
    #[must_use]
    pub fn view(&self) -> Repaired {
        let mut emitter = emit::Emitter::new(self.policy, &self.pairing, &self.pending, self.base);
        emitter.state = self.state.clone();
        let (items, findings) = emitter.run();
        let first_change = self.first_change.or(emit::shift(emitter.first_change, self.sealed_items));
        let mut chunks = self.sealed.clone();
        if !items.is_empty() {
            chunks.push(Arc::new(Chunk { messages: self.pending.clone(), base: self.base as u32, items }));
        }
        let findings = self.findings.iter().cloned().chain(findings).collect();
        Repaired { view: SoundView { chunks, first_change }, findings }
    }

    fn finish(mut self) -> Repaired {
        self.emit_pending();
        Repaired {
            view: SoundView { chunks: self.sealed, first_change: self.first_change },
            findings: self.findings,
        }
    }

    /// Turns what is pending into a chunk that does not change any more.
    fn emit_pending(&mut self) {
        let mut emitter = emit::Emitter::new(self.policy, &self.pairing, &self.pending, self.base);
        emitter.state = std::mem::take(&mut self.state);
        let (items, findings) = emitter.run();
        let first_change = emit::shift(emitter.first_change, self.sealed_items);
        self.state = emitter.state;
        self.first_change = self.first_change.or(first_change);
        self.findings.extend(findings);
        self.sealed_items += items.len();
        let messages = std::mem::take(&mut self.pending);
        let base = self.base as u32;
        self.base += messages.len();
        if !items.is_empty() {
            self.sealed.push(Arc::new(Chunk { messages, base, items }));
        }
    }
}

#[cfg(test)]
mod tests;
