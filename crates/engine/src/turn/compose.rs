//! Builds the next request from the record: walks the path, repairs new messages, and extends the body.
//!
//! The cost depends on the number of new entries. If they do not simply follow the old ones (after a compaction, a branch, or
//! entries of another process), everything is read again.

use std::sync::Arc;

use rejoin_formats::{Context, Draft, draft::DraftedBody, wire::names::SpellingMap};
use rejoin_record::{
    Block, BlockKind, Content, ConversationId, EntryId, Kind, Message,
    content::{CallAt, ClosedCall, Decision},
};
use rejoin_view::{
    Fate, Finding, KnownCall, OnBroken, Repaired, Repairer, SoundRole,
    excerpt::without_middle,
    path::{self, Walk},
};

use super::Stop;
use crate::{
    conversation::Conversation,
    provider::{Endpoint, Provider, ProviderError, Request, draft_for},
};

/// Keeps the state needed to write the next request of a conversation.
pub(super) struct Composer {
    policy: OnBroken,
    /// The most bytes of one result that a model sees.
    tool_output: usize,
    walk: Walk,
    /// The number of entries that were walked, and the last of them.
    walked: usize,
    last: Option<EntryId>,
    repairer: Repairer,
    /// The number of messages that the repairer has, and the number of sent requests that it knows about.
    pushed: usize,
    seals: usize,
    /// The number of prunes that the repairer knows about.
    prunes: usize,
    /// How often the list of messages was rebuilt.
    lists: usize,
    /// The conversation, if it was just read from its beginning. Its repair is then logged.
    recovering: Option<ConversationId>,
    draft: Option<(Endpoint, Arc<Context>, Draft)>,
}

/// A request that is ready to send.
pub(super) struct Composed {
    pub(super) request: Request,
    /// The findings about messages that were not sent before.
    pub(super) findings: Vec<Finding>,
    pub(super) basis: Basis,
}

/// The facts about a request that are needed to record its answer.
#[derive(Default)]
pub(super) struct Basis {
    /// The hash that reasoning in the answer is bound to.
    pub(super) prefix: Option<rejoin_record::Text>,
    /// The names and ids that were spelled differently for the provider.
    pub(super) respelled: SpellingMap,
}

impl Composer {
    pub(super) fn new(policy: OnBroken, tool_output: usize) -> Self {
        Self {
            policy,
            tool_output,
            walk: Walk::default(),
            walked: 0,
            last: None,
            repairer: Repairer::new(policy),
            pushed: 0,
            seals: 0,
            prunes: 0,
            lists: 0,
            recovering: None,
            draft: None,
        }
    }

    /// Reads the new entries of the conversation.
    pub(super) fn read(&mut self, conversation: &Conversation) {
        self.read_with(conversation, None);
    }

    /// Reads the new entries as [`Composer::read`] does. If the content of one of them is known, a long entry need not be parsed.
    pub(super) fn read_with(&mut self, conversation: &Conversation, mut known: Option<(EntryId, Content)>) {
        let entries = conversation.entries();
        let continues = entries.len() >= self.walked
            && self.walked.checked_sub(1).map(|last| entries[last].id()) == self.last
            && self.last.is_some()
            && entries[self.walked..]
                .iter()
                .zip(&entries[self.walked.saturating_sub(1)..])
                .all(|(entry, before)| entry.envelope().parent == Some(before.id()));
        if !continues {
            self.read_all(conversation);
        }
        for entry in &entries[self.walked..] {
            let content = known.take_if(|(id, _)| *id == entry.id());
            self.walk.add(entry, content.map_or_else(|| Content::of(entry), |(_, content)| content));
        }
        self.walked = entries.len();
        self.last = entries.last().map(rejoin_record::Entry::id);
        if self.walk.is_stale() {
            self.read_all(conversation);
        }
        if self.walk.prunes() != self.prunes {
            self.prunes = self.walk.prunes();
            self.start_over();
        }
    }

    /// Reads the whole path again.
    fn read_all(&mut self, conversation: &Conversation) {
        let tree = conversation.tree();
        let path = tree.path().0;
        self.walk = Walk::begin(&tree, &path);
        let read = conversation.messages_read();
        let changed = path::changed(&path);
        for entry in path {
            self.walk.cross(&tree, entry.id());
            // Parse an entry again if a view shows it differently, and a compaction, because the entry itself is not a message.
            let is_as_read = entry.envelope().kind == Kind::Message && !changed.contains(&entry.id());
            match read.get(&entry.id()).filter(|_| is_as_read) {
                Some(message) => self.walk.message(entry.id(), Arc::clone(message)),
                None => self.walk.add(entry, Content::of(entry)),
            }
        }
        self.has_walked_all(conversation);
    }

    /// Takes over the path that was walked when the conversation was opened.
    pub(super) fn take(&mut self, conversation: &mut Conversation) {
        if let Some(walk) = conversation.take_walk() {
            self.walk = walk;
            self.has_walked_all(conversation);
        }
    }

    fn has_walked_all(&mut self, conversation: &Conversation) {
        self.walked = conversation.entries().len();
        self.last = conversation.entries().last().map(rejoin_record::Entry::id);
        self.prunes = self.walk.prunes();
        self.recovering = Some(conversation.id()).filter(|_| !self.walk.messages().is_empty());
        self.start_over();
    }

    /// Forgets the repaired messages and the body, because more is known about a call than when its message was repaired.
    pub(super) fn start_over(&mut self) {
        self.lists += 1;
        self.repairer = Repairer::new(self.policy);
        (self.pushed, self.seals) = (0, 0);
        self.draft = None;
    }

    /// Passes new messages to the repairer, with the facts about their calls.
    fn push(&mut self) {
        let messages = self.walk.messages();
        self.repairer.reserve(messages.len().saturating_sub(self.pushed));
        loop {
            while self.walk.sent().get(self.seals).is_some_and(|sent| *sent <= self.pushed) {
                self.repairer.seal();
                self.seals += 1;
            }
            let Some(message) = messages.get(self.pushed) else { break };
            let message = shortened(message, self.tool_output, self.walk.numbers()[self.pushed]);
            self.repairer.push(message, &self.walk.fates(self.pushed));
            self.pushed += 1;
        }
        if let Some(id) = self.recovering.take() {
            self.repairer.log_recovery(&id.to_string());
        }
    }

    /// The view, and the findings about new messages. The repairer computes it only once.
    fn view(&mut self) -> Repaired {
        self.push();
        self.repairer.view()
    }

    /// The calls without a result, with the decision that a request sent now would record about them.
    pub(super) fn unanswered(&mut self) -> Vec<ClosedCall> {
        self.undecided(|fate| fate != Fate::ClosedWithBatch)
    }

    /// The calls that the next request would show changed: those without a result and, if they are left out, the other calls of
    /// their batch.
    pub(super) fn decisions(&mut self) -> Vec<ClosedCall> {
        self.undecided(|_| true)
    }

    fn undecided(&mut self, wanted: impl Fn(Fate) -> bool) -> Vec<ClosedCall> {
        self.push();
        let entries = self.walk.entries();
        let closed = |call: KnownCall| ClosedCall {
            entry: entries[call.message],
            block: call.block as u64,
            decision: match call.fate {
                Fate::ClosedInterrupted => Decision::Interrupted,
                _ => Decision::LeftOut,
            },
        };
        self.repairer.undecided().into_iter().filter(|call| wanted(call.fate)).map(closed).collect()
    }

    /// The calls that wait for approval, and those after them that did not start for that reason.
    pub(super) fn awaiting_approval(&mut self) -> Vec<CallAt> {
        // Return early: a turn that prunes results would otherwise repair all messages twice, here and after pruning.
        if !self.walk.has_asked() {
            return Vec::new();
        }
        let open = self.unanswered();
        let fate = |call: &ClosedCall| self.walk.fate(call.entry, usize::try_from(call.block).ok()?);
        let asked: Vec<EntryId> = open
            .iter()
            .filter(|call| fate(call) == Some(Fate::AwaitingApproval))
            .map(|call| call.entry)
            .collect();
        open.iter()
            .filter(|call| asked.contains(&call.entry))
            .filter(|call| matches!(fate(call), Some(Fate::AwaitingApproval | Fate::NotStarted)))
            .map(|call| CallAt { entry: call.entry, block: call.block })
            .collect()
    }

    /// All messages in the form that the record shows, and the entry of each.
    pub(super) fn messages(&self) -> (&[Arc<Message>], &[EntryId]) {
        (self.walk.messages(), self.walk.entries())
    }

    /// The message of an entry.
    pub(super) fn message(&self, entry: EntryId) -> Option<&Arc<Message>> {
        self.walk.message_of(entry)
    }

    /// Whether the view ends with a message of the model. A message with calls is always followed by results, synthesized ones if
    /// needed.
    pub(super) fn ends_with_assistant(&mut self) -> bool {
        self.view()
            .view
            .last()
            .is_some_and(|item| item.role() == SoundRole::Assistant && item.exchanges().next().is_none())
    }

    /// The findings about messages that were not sent yet.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        self.push();
        let sent = self.walk.sent()[..self.seals].last();
        if sent.is_some_and(|sent| *sent >= self.pushed) { Vec::new() } else { self.view().findings }
    }

    /// All findings.
    pub(super) fn all_findings(&mut self) -> Vec<Finding> {
        self.push();
        self.repairer.all_findings()
    }

    /// How often the list of messages was rebuilt.
    pub(super) fn lists(&self) -> usize {
        self.lists
    }

    /// The path, as far as it was read.
    pub(super) fn walk(&self) -> &Walk {
        &self.walk
    }

    /// The first `count` messages in the form that a model sees.
    pub(super) fn shown(&self, count: usize) -> Vec<Arc<Message>> {
        let messages = self.walk.messages().iter().zip(self.walk.numbers()).take(count);
        messages.map(|(message, number)| shortened(message, self.tool_output, *number)).collect()
    }

    /// Whether there is no message to show a model.
    pub(super) fn is_empty(&self) -> bool {
        self.walk.messages().is_empty()
    }

    /// Builds the request. The `turn` entry that records it was appended before.
    pub(super) fn request(
        &mut self,
        provider: &dyn Provider,
        context: &Arc<Context>,
        stop: &Stop,
    ) -> Result<Composed, ProviderError> {
        let repaired = self.view();
        let mut composed = Composed {
            request: Request {
                view: repaired.view,
                retold: self.walk.summary().into_iter().collect(),
                context: Arc::clone(context),
                body: None,
                stop: stop.clone(),
            },
            findings: repaired.findings,
            basis: Basis::default(),
        };
        let endpoint = provider.endpoint();
        let Some(dialect) = endpoint.dialect else { return Ok(composed) };
        let fits = |draft: &&mut (Endpoint, Arc<Context>, Draft)| {
            draft.0 == *endpoint && Arc::ptr_eq(&draft.1, context)
        };
        let draft = match self.draft.as_mut().filter(fits) {
            Some((_, _, draft)) => draft,
            None => {
                let draft = draft_for(provider, dialect, context);
                &mut self.draft.insert((endpoint.clone(), Arc::clone(context), draft)).2
            }
        };
        let DraftedBody { body, findings, prefix, respelled, .. } = draft.request(&composed.request.view)?;
        composed.findings.extend(findings);
        composed.basis = Basis { prefix, respelled };
        composed.request.body = Some(body);
        Ok(composed)
    }
}

/// The message in the form that a model sees: very long results lose their middle. The record keeps all of it.
fn shortened(message: &Arc<Message>, limit: usize, number: usize) -> Arc<Message> {
    let long = |block: &Block| block.as_text().is_some_and(|text| text.len() > limit);
    let results = message.blocks.iter().filter_map(Block::as_result);
    if !results.flat_map(|result| &result.content).any(long) {
        return Arc::clone(message);
    }
    let mut shorter = Message { native: None, ..Message::clone(message) };
    for block in &mut shorter.blocks {
        block.span = None;
        let BlockKind::ToolResult(result) = &mut block.kind else { continue };
        for block in &mut result.content {
            block.span = None;
            if let BlockKind::Text(text) = &mut block.kind
                && text.len() > limit
            {
                *text = without_middle(text, limit, number).into();
            }
        }
    }
    Arc::new(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_result_keeps_its_ends() {
        let text = format!("begin{}end", "\u{e9}".repeat(1000));
        let message = Arc::new(Message::tool("c", text.as_str()));
        assert!(Arc::ptr_eq(&message, &shortened(&message, text.len(), 3)));
        let shorter = shortened(&message, 101, 3).content().unwrap();
        assert!(shorter.starts_with("begin") && shorter.ends_with("end"), "{shorter}");
        assert!(shorter.len() < 500 && shorter.contains("bytes in the middle are not shown"));
        assert!(shorter.contains(r#"recall with {"message": 3, "from": 49}"#), "{shorter}");
    }
}
