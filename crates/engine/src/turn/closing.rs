//! Closed before sent: what is decided about calls without results, and how it is recorded.

use rejoin_formats::{Context, context::ToolDeclaration};
use rejoin_record::{
    Content, Kind, Message, Native, Raw, Text,
    content::{self, Closed, ClosedCall, Decision, TurnState},
    json::{self, Object},
};

use rejoin_view::OnBroken;

use super::{Event, TurnInProgress, Worker};
use crate::{
    conversation::{Appended, Saved},
    provider::context_of,
};

/// The message that the engine adds when the model spoke last and has to continue.
const GO_ON: &str = "Continue.";
/// The format of messages that the engine adds.
pub const SYNTHETIC: &str = "synthetic";

/// Whether the engine added a message, rather than a person or a model.
#[must_use]
pub fn is_synthetic(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| &*native.format == SYNTHETIC)
}

impl Worker {
    /// Makes sure that the request that leaves next can be read from the record for ever after: decisions about calls, a last
    /// word that is not the model's, and that it was sent.
    pub(super) fn close(&mut self, running: &mut TurnInProgress<'_>) {
        self.composer.read(&self.conversation);
        let findings = self.composer.findings();
        let broken = findings.iter().any(rejoin_view::Finding::is_problem);
        // Once in a turn: a server that uses ids twice breaks every request alike.
        if broken && !std::mem::replace(&mut running.has_reported_mending, true) {
            running.tell(Event::Mended(findings));
        }
        let calls = self.composer.decisions();
        if !calls.is_empty() {
            self.decide(running, calls);
        }
        if self.composer.ends_with_assistant() {
            let raw = Object::new().text("role", "user").text("content", GO_ON);
            let native = Some(Native::one(SYNTHETIC, Raw::new(raw.finish()), false));
            self.say(running, Message { native, ..Message::user(GO_ON) });
        }
        self.turn_entry(running, TurnState::Started, None);
        self.composer.read(&self.conversation);
    }

    fn decide(&mut self, running: &mut TurnInProgress<'_>, calls: Vec<ClosedCall>) {
        let count = |decision| calls.iter().filter(|call| call.decision == decision).count();
        running.tell(Event::Closed {
            interrupted: count(Decision::Interrupted),
            left_out: count(Decision::LeftOut),
            rerun: count(Decision::Rerun),
        });
        let Appended { saved, .. } = self.conversation.append(&Content::Closed(Closed { calls }));
        self.saved(running, saved);
        self.composer.read(&self.conversation);
    }

    /// Switches to [`OnBroken::Drop`] and records at once that the calls without a result are left out of every later request,
    /// together with the other calls of their messages. Gives their number, and whether the decision was saved.
    ///
    /// A turn records the same before its first request. A person who decides and says nothing wants it recorded now: the next
    /// turn may be another process with other settings.
    pub fn leave_out_unanswered(&mut self) -> (usize, Saved) {
        self.set_on_broken(OnBroken::Drop);
        self.conversation.take_in_draft();
        self.composer.read(&self.conversation);
        let calls = self.composer.decisions();
        if calls.is_empty() {
            return (0, self.conversation.saved().clone());
        }
        let count = calls.len();
        let Appended { saved, .. } = self.conversation.append(&Content::Closed(Closed { calls }));
        self.composer.read(&self.conversation);
        // The messages of these calls are repaired again, with what is decided of them by now.
        self.composer.start_over();
        (count, saved)
    }

    /// Runs calls without results again, if that is what is wanted. A call that a request was sent about is decided for good.
    pub(super) async fn rerun(&mut self, running: &mut TurnInProgress<'_>) {
        if self.settings.on_broken != OnBroken::Rerun {
            return;
        }
        // Once is enough: what has no result after that is kept as interrupted.
        self.settings.on_broken = OnBroken::Keep;
        self.composer.read(&self.conversation);
        let open = self.composer.unanswered();
        let can_run = |call: &ClosedCall| {
            let message = self.composer.message(call.entry)?;
            let called = message.blocks.get(usize::try_from(call.block).ok()?)?.as_call()?;
            (!called.arguments.are_no_object()).then(|| called.clone())
        };
        let again: Vec<_> =
            open.into_iter().filter_map(|call| Some((call.entry, call.block, can_run(&call)?))).collect();
        if again.is_empty() {
            return;
        }
        let closed = again.iter().map(|(entry, block, _)| ClosedCall {
            entry: *entry,
            block: *block,
            decision: Decision::Rerun,
        });
        self.decide(running, closed.collect());
        // They are read again: whatever was known of them before, from now on they have begun.
        self.composer.start_over();
        self.run(running, again).await;
    }

    /// Records instructions, tools and target where they are not what was recorded last.
    pub(super) fn record_context(&mut self) {
        if self.context.is_some() {
            return;
        }
        let endpoint = self.provider.endpoint();
        let offered = self.tools.declarations();
        let target = Object::new()
            .text("provider", &endpoint.provider)
            .text_if("dialect", endpoint.dialect)
            .text("model", &endpoint.model)
            .text_if("url", endpoint.url.as_deref())
            .text_if("base_url", endpoint.base_url.as_deref());
        let context = content::Context {
            system: self.settings.system.as_deref().map(Text::new),
            tools: (!offered.is_empty()).then(|| Raw::new(tools_json(&offered))),
            target: Some(Raw::new(target.finish())),
        };
        let recorded =
            self.conversation.entries().iter().rev().find_map(|entry| match entry.envelope().kind {
                Kind::Context => Some(Content::of(entry)),
                _ => None,
            });
        let context = Content::Context(context);
        if recorded.as_ref() != Some(&context) {
            self.conversation.append(&context);
        }
        let system = self.settings.system.as_deref();
        let context: Context =
            context_of(self.provider.fields(), self.provider.endpoint().dialect, system, offered);
        self.context = Some(context.into());
    }
}

/// Tools as they are recorded.
fn tools_json(tools: &[ToolDeclaration]) -> String {
    json::list(tools.iter().map(|tool| {
        let schema = tool.schema.as_ref().map_or("{\"type\":\"object\"}", Raw::as_str);
        let named = Object::new().text("name", &tool.name).text_if("description", tool.description.as_ref());
        named.raw("input_schema", schema).finish()
    }))
}
