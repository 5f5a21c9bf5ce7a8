//! From the record to the next request: the path is walked on, new messages are repaired, and the body grows.
//!
//! Each step costs what is new. If the record does not simply continue (a compaction, a branch, entries of another
//! process), everything is read again.

use std::sync::Arc;

use rejoin_formats::{Context, Draft, draft::Drafted, wire::names::Respelled};
use rejoin_record::{
    Block, BlockKind, Content, ConversationId, EntryId, Kind, Message, Tree,
    content::{ClosedCall, Decision},
};
use rejoin_view::{Fate, Finding, KnownCall, OnBroken, Repaired, Repairer, SoundRole, path::Walk};

use super::Stop;
use crate::{
    conversation::Conversation,
    provider::{Endpoint, Provider, ProviderError, Request, draft_for},
};

/// Keeps what is needed to write the next request of a conversation.
pub(super) struct Composer {
    policy: OnBroken,
    /// How much of one result a model sees.
    tool_output: usize,
    walk: Walk,
    /// How many entries were walked, and the last of them.
    walked: usize,
    last: Option<EntryId>,
    repairer: Repairer,
    /// How many messages the repairer has, and how many of the places where requests were sent it knows.
    pushed: usize,
    seals: usize,
    compactions: usize,
    /// The conversation, if it was just read from its beginning: what its repair came to is logged.
    recovering: Option<ConversationId>,
    draft: Option<(Endpoint, Arc<Context>, Draft)>,
}

/// A request that is ready to be sent.
pub(super) struct Composed {
    pub(super) request: Request,
    /// What was found in what is new.
    pub(super) findings: Vec<Finding>,
    /// What reasoning in the answer is bound to.
    pub(super) prefix: Option<rejoin_record::Text>,
    /// What got another spelling for the provider.
    pub(super) respelled: Respelled,
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
            compactions: 0,
            recovering: None,
            draft: None,
        }
    }

    /// Takes in what the conversation has that was not seen yet.
    pub(super) fn read(&mut self, conversation: &Conversation) {
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
            self.walk.add(entry.id(), Content::of(entry));
        }
        self.walked = entries.len();
        self.last = entries.last().map(rejoin_record::Entry::id);
        if self.walk.compactions() != self.compactions {
            self.compactions = self.walk.compactions();
            self.start_over();
        }
    }

    /// Walks the whole path.
    fn read_all(&mut self, conversation: &Conversation) {
        let entries = conversation.entries();
        self.walk = Walk::default();
        let tree = Tree::new(entries);
        let read = conversation.messages_read();
        for entry in tree.path().0 {
            // A compaction is not a message, though it shows one.
            match read.get(&entry.id()).filter(|_| entry.envelope().kind == Kind::Message) {
                Some(message) => self.walk.message(entry.id(), Arc::clone(message)),
                None => self.walk.add(entry.id(), Content::of(entry)),
            }
        }
        self.walked = entries.len();
        self.compactions = self.walk.compactions();
        self.recovering = Some(conversation.id()).filter(|_| !self.walk.messages().is_empty());
        self.start_over();
    }

    /// Forgets what was made of the path. For when more is known of a call than when its message was pushed.
    pub(super) fn start_over(&mut self) {
        self.repairer = Repairer::new(self.policy);
        (self.pushed, self.seals) = (0, 0);
        self.draft = None;
    }

    /// Hands new messages to the repairer, with what is known of their calls by now.
    fn push(&mut self) {
        let messages = self.walk.messages();
        loop {
            while self.walk.sent().get(self.seals).is_some_and(|sent| *sent <= self.pushed) {
                self.repairer.seal();
                self.seals += 1;
            }
            let Some(message) = messages.get(self.pushed) else { break };
            let message = shortened(message, self.tool_output);
            self.repairer.push(message, &self.walk.fates(self.pushed));
            self.pushed += 1;
        }
        if let Some(id) = self.recovering.take() {
            self.repairer.log_recovery(&id.to_string());
        }
    }

    /// The view of what was read, with what was found in what is new. The repairer makes it once, however often it is asked for.
    fn view(&mut self) -> Repaired {
        self.push();
        self.repairer.view()
    }

    /// The calls that have no result, with what a request that left now would say of them.
    pub(super) fn unanswered(&mut self) -> Vec<ClosedCall> {
        self.undecided(|fate| fate != Fate::ClosedWithBatch)
    }

    /// Every call that a request that left now would not show as it stands: those without a result and, where they are left out,
    /// the other calls of their messages.
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

    /// The message of an entry.
    pub(super) fn message(&self, entry: EntryId) -> Option<&Arc<Message>> {
        self.walk.message_of(entry)
    }

    /// Whether the model would see its own words last. If the last message calls tools, results follow it: real ones, or such
    /// as say that there is none.
    pub(super) fn ends_with_assistant(&mut self) -> bool {
        self.view()
            .view
            .last()
            .is_some_and(|item| item.role() == SoundRole::Assistant && item.exchanges().next().is_none())
    }

    /// What was found in what no request was sent with yet.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        self.push();
        let sent = self.walk.sent()[..self.seals].last();
        if sent.is_some_and(|sent| *sent >= self.pushed) { Vec::new() } else { self.view().findings }
    }

    /// Everything that was found.
    pub(super) fn all_findings(&mut self) -> Vec<Finding> {
        self.push();
        self.repairer.all_findings()
    }

    /// Whether there is nothing to show a model.
    pub(super) fn is_empty(&self) -> bool {
        self.walk.messages().is_empty()
    }

    /// The request of what was read. A `turn` entry that says so was appended before.
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
                context: Arc::clone(context),
                body: None,
                stop: stop.clone(),
            },
            findings: repaired.findings,
            prefix: None,
            respelled: Respelled::default(),
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
        let Drafted { body, findings, prefix, respelled } = draft.request(&composed.request.view)?;
        composed.findings.extend(findings);
        composed.prefix = prefix;
        composed.respelled = respelled;
        composed.request.body = Some(body);
        Ok(composed)
    }
}

/// A message as a model sees it: the middle of very long results is left out. The record has all of it.
fn shortened(message: &Arc<Message>, limit: usize) -> Arc<Message> {
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
                *text = middle_left_out(text, limit).into();
            }
        }
    }
    Arc::new(shorter)
}

/// The beginning and the end of a text.
fn middle_left_out(text: &str, limit: usize) -> String {
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    let left_out = tail - head;
    format!("{}\n[{left_out} bytes in the middle are not shown]\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_result_keeps_its_ends() {
        let text = format!("begin{}end", "\u{e9}".repeat(1000));
        let message = Arc::new(Message::tool("c", text.as_str()));
        assert!(Arc::ptr_eq(&message, &shortened(&message, text.len())));
        let shorter = shortened(&message, 101).content().unwrap();
        assert!(shorter.starts_with("begin") && shorter.ends_with("end"), "{shorter}");
        assert!(shorter.len() < 200 && shorter.contains("bytes in the middle are not shown"));
    }
}
