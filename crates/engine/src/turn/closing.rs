//! Decides what becomes of calls without results before a request is sent, and records the decisions.

use rejoin_formats::{Context, context::ToolDeclaration};
use rejoin_record::{
    Content, Kind, Message, Native, Raw, Text,
    content::{self, Closed, ClosedCall, Decision, TurnState},
    json::{self, Object},
};

use rejoin_view::{OnBroken, window::SYNTHETIC};

use super::{Event, TurnInProgress, Worker};
use crate::{conversation::Saved, provider::context_of};

/// The user message that the engine adds if the model spoke last and must continue.
const GO_ON: &str = "Continue.";

/// Whether the engine added a message, rather than a person or a model.
pub fn is_synthetic(message: &Message) -> bool {
    message.native.as_ref().is_some_and(|native| &*native.format == SYNTHETIC)
}

impl Worker {
    /// Records everything that the next request depends on: decisions about calls, a user message if the model spoke last, and that
    /// the request is sent.
    pub(super) fn close(&mut self, running: &mut TurnInProgress<'_>) {
        self.composer.read(&self.conversation);
        let findings = self.composer.findings();
        let broken = findings.iter().any(rejoin_view::Finding::is_problem);
        // Report repairs once per turn: a server that reuses ids breaks every request in the same way.
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
        let saved = self.conversation.append(&Content::Closed(Closed { calls })).saved;
        self.saved(running, saved);
        self.composer.read(&self.conversation);
    }

    /// Switches to [`OnBroken::Drop`] and records at once that the calls without a result are left out of every later request,
    /// together with the other calls of their messages. Returns the number of calls, and whether the decision was saved.
    ///
    /// A turn would record the same before its first request, but the next turn may run in another process with other settings.
    pub fn leave_out_unanswered(&mut self) -> (usize, Saved) {
        self.set_on_broken(OnBroken::Drop);
        self.conversation.take_in_draft();
        self.composer.read(&self.conversation);
        let calls = self.composer.decisions();
        let count = calls.len();
        if count == 0 {
            return (0, self.conversation.saved().clone());
        }
        let saved = self.conversation.append(&Content::Closed(Closed { calls })).saved;
        self.composer.read(&self.conversation);
        // Repair the messages of these calls again, now that the decision is recorded.
        self.composer.start_over();
        (count, saved)
    }

    /// Runs calls without results again, if the setting asks for it. A call that an earlier request closed stays closed.
    pub(super) async fn rerun(&mut self, running: &mut TurnInProgress<'_>) {
        if self.settings.on_broken != OnBroken::Rerun {
            return;
        }
        // Only once: calls that still have no result afterwards are kept as interrupted.
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
        // Read them again: from now on they count as started.
        self.composer.start_over();
        self.run(running, again).await;
    }

    /// Records instructions, tools and target if they differ from the newest recorded ones.
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
            .text_if("url", endpoint.address.url.as_deref())
            .text_if("base_url", endpoint.address.base_url.as_deref());
        let context = content::RecordedContext {
            system: self.settings.system.as_deref().map(Text::new),
            tools: (!offered.is_empty()).then(|| Raw::new(tools_json(&offered))),
            target: Some(Raw::new(target.finish())),
            own_instructions: self.settings.system_parts.own.as_deref().map(Text::new),
            project_instructions: self.settings.system_parts.project.as_deref().map(Text::new),
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
        self.counter();
        self.fit.context = self.count_context();
    }
}

/// The JSON form in which tools are recorded.
fn tools_json(tools: &[ToolDeclaration]) -> String {
    json::list(tools.iter().map(|tool| {
        let schema = tool.schema.as_ref().map_or("{\"type\":\"object\"}", Raw::as_str);
        let named = Object::new().text("name", &tool.name).text_if("description", tool.description.as_ref());
        named.raw("input_schema", schema).finish()
    }))
}
