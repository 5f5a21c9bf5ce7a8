//! Runs tools. A call is recorded as running before it starts, and its result is recorded as soon as it arrives.
//!
//! Calls that only read run in parallel. A call that changes something runs alone, after the calls before it and before the calls
//! after it, so that each call sees the effects of the earlier ones, in the model's order.

use std::{future::Future as _, pin::Pin, sync::Arc, task::Poll, time::Duration, time::Instant};

use rejoin_record::{
    Block, Content, EntryId, Form, Message, Role, Text, ToolCall, ToolResult,
    content::{CallAt, Change, ChangeState, Snapshot, TurnState},
};
use tokio::sync::mpsc;

use super::{Delegation, Event, Stop, TurnInProgress, Worker, approving::Permission};
use crate::{
    provider::BoxFuture,
    tools::{LiveOutput, Plan, PlannedChange, RunningCall, Tool, ToolOutput},
};

/// A call, by the entry of its message and its block.
pub(super) type CallInEntry = (EntryId, u64, ToolCall);

const STOPPED: &str =
    "[interrupted: the turn was stopped while this ran; it may have done a part of its work]";
pub(super) const NEVER_RAN: &str = "[not run: the turn was stopped before it began]";
const HALF: &str = "[not run: the answer ended before the arguments of this call came; call it again]";
const NO_OBJECT: &str =
    "[the arguments are not a JSON object: the tool was not run; call it again with an object]";

/// How long a call that changes something may still take to return its result so far, after the turn was stopped or the call's
/// time was up.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A reading call in progress.
struct Reading<'c> {
    called: &'c CallInEntry,
    began: Instant,
    doing: BoxFuture<'static, ToolOutput>,
}

impl Worker {
    /// Runs the calls of a message. If the message was cut, its last call may be incomplete; such a call is never run.
    pub(super) async fn run_calls(
        &mut self,
        running: &mut TurnInProgress<'_>,
        entry: EntryId,
        message: &Message,
        cut: bool,
    ) {
        let blocks = message.blocks.iter().enumerate();
        let calls =
            blocks.filter_map(|(block, content)| Some((entry, block as u64, content.as_call()?.clone())));
        let mut calls: Vec<CallInEntry> = calls.collect();
        // A call that was cut inside its arguments is refused anyway, but one that was cut before them looks like a call without
        // arguments.
        let is_half = |block: &Block| {
            block.as_call().is_some_and(|call| matches!(call.arguments.text().trim(), "" | "{}"))
        };
        if cut
            && message.blocks.last().is_some_and(is_half)
            && let Some((_, _, call)) = calls.pop()
        {
            self.result(running, &call, ToolOutput::error(HALF));
        }
        self.run(running, calls).await;
    }

    /// Runs calls in order. Results are recorded as they arrive; a view shows them in the order of the calls. If the turn is
    /// stopped, every call without a result gets a result that states so.
    pub(super) async fn run(&mut self, running: &mut TurnInProgress<'_>, calls: Vec<CallInEntry>) {
        let _pause = running.clock.pause();
        let mut reading: Vec<&CallInEntry> = Vec::new();
        for called in &calls {
            let (entry, block, call) = called;
            let planned = match running.stop.is_stopped() {
                true => Err(ToolOutput::error(NEVER_RAN)),
                // A plan may depend on the effects of an earlier call, but reading calls have none.
                false => self.plan(&running.stop.clone(), call).await,
            };
            let at = CallAt { entry: *entry, block: *block };
            match planned {
                Ok((_, Plan::Reads)) => reading.push(called),
                Ok((tool, plan)) => {
                    self.read(running, &std::mem::take(&mut reading)).await;
                    self.change(running, call, at, (tool, plan)).await;
                }
                Err(output) => {
                    self.read(running, &std::mem::take(&mut reading)).await;
                    self.refuse(running, call, output);
                }
            }
        }
        self.read(running, &reading).await;
    }

    /// Finds the tool and plans the call. An error is the call's result.
    pub(super) async fn plan(
        &self,
        stop: &Stop,
        call: &ToolCall,
    ) -> Result<(Arc<dyn Tool>, Plan), ToolOutput> {
        let Some(tool) = self.tools.get(&call.name) else {
            let known: Vec<String> =
                self.tools.declarations().iter().map(|tool| tool.name.to_string()).collect();
            let known = known.join(", ");
            return Err(ToolOutput::error(format!("there is no tool `{}`; there are: {known}", call.name)));
        };
        if call.arguments.are_no_object() {
            return Err(ToolOutput::error(NO_OBJECT));
        }
        let (text, tool) = (arguments(call.arguments.text()), Arc::clone(tool));
        let planned = tokio::select! {
            biased;
            planned = tokio::time::timeout(self.settings.limits.tool.time, tool.plan(&text)) => planned,
            () = stop.asked() => return Err(ToolOutput::error(NEVER_RAN)),
        };
        let plan = planned.map_err(|_| ToolOutput::error(too_long(self.settings.limits.tool.time)))??;
        Ok((tool, plan))
    }

    /// Records the result of a call that does not run.
    fn refuse(&mut self, running: &mut TurnInProgress<'_>, call: &ToolCall, output: ToolOutput) {
        running.tell(started(call, call.arguments.text()));
        self.finish(running, call, Instant::now(), output);
    }

    /// Runs calls that only read, all at the same time.
    async fn read(&mut self, running: &mut TurnInProgress<'_>, calls: &[&CallInEntry]) {
        if running.stop.is_stopped() {
            for (_, _, call) in calls {
                self.refuse(running, call, ToolOutput::error(NEVER_RAN));
            }
            return;
        }
        // Record every call as running before the first one starts.
        for (entry, block, _) in calls {
            let at = CallAt { entry: *entry, block: *block };
            self.turn_entry(running, TurnState::CallRunning, Some(at));
        }
        let (stop, time) = (running.stop.clone(), self.settings.limits.tool.time);
        let (events, mut shown) = mpsc::unbounded_channel();
        let mut doing: Vec<Option<Reading<'_>>> = Vec::new();
        for called in calls {
            let (_, _, call) = called;
            running.tell(started(call, call.arguments.text()));
            let Some(tool) = self.tools.get(&call.name).map(Arc::clone) else { continue };
            let (call_text, stop) = (arguments(call.arguments.text()), stop.clone());
            let live = LiveOutput::new(call.id.to_string(), events.clone());
            let work = async move {
                let call = RunningCall::with(&call_text, &live, &stop);
                match tokio::time::timeout(time, tool.run(call)).await {
                    Ok(output) => output,
                    Err(_) => ToolOutput::error(too_long(time)),
                }
            };
            doing.push(Some(Reading { called, began: Instant::now(), doing: Box::pin(work) }));
        }
        while doing.iter().any(Option::is_some) {
            let done = tokio::select! {
                biased;
                done = next(&mut doing) => Some(done),
                Some(event) = shown.recv() => {
                    running.tell(event);
                    continue;
                }
                () = stop.asked() => None,
            };
            match done {
                Some((call, began, output)) => self.finish(running, call, began, output),
                None => {
                    for slot in &mut doing {
                        if let Some(Reading { called: (entry, block, call), began, .. }) = slot.take() {
                            let at = CallAt { entry: *entry, block: *block };
                            self.turn_entry(running, TurnState::Interrupted, Some(at));
                            self.finish(running, call, began, ToolOutput::error(STOPPED));
                        }
                    }
                }
            }
        }
    }

    /// Runs a call that changes something, if it may.
    async fn change(
        &mut self,
        running: &mut TurnInProgress<'_>,
        call: &ToolCall,
        at: CallAt,
        (tool, plan): (Arc<dyn Tool>, Plan),
    ) {
        if running.stop.is_stopped() {
            return self.refuse(running, call, ToolOutput::error(NEVER_RAN));
        }
        let recalls = plan == Plan::Recalls;
        let (permission, delegation) = match plan {
            Plan::Reads | Plan::Recalls => (Permission::default(), None),
            Plan::Delegates => {
                let delegation = self.delegation(running, at.clone());
                let change = Change {
                    child: Some(delegation.child()),
                    ..Change::new(ChangeState::Approved, at.clone())
                };
                self.change_entry(running, change);
                (Permission::default(), Some(delegation))
            }
            Plan::Changes(planned) => match self.approve(running, call, &at, &*tool, planned).await {
                Ok(permission) => (permission, None),
                Err(output) => return self.refuse(running, call, output),
            },
        };
        self.turn_entry(running, TurnState::CallRunning, Some(at.clone()));
        let text = permission.arguments.clone().unwrap_or_else(|| arguments(call.arguments.text()));
        running.tell(started(call, &text));
        let began = Instant::now();
        let mut output = if recalls {
            self.recalled(&text)
        } else {
            self.run_alone(running, call, &*tool, &text, &permission, delegation).await
        };
        if output.is_error && running.stop.is_stopped() {
            self.turn_entry(running, TurnState::Interrupted, Some(at));
        } else if permission.planned.as_ref().is_some_and(|planned| planned.file.is_some())
            && !output.is_error
        {
            self.change_entry(running, Change::new(ChangeState::Applied, at));
        }
        if let Some(note) = &permission.note {
            output.text = format!("{}\n{note}", output.text);
        }
        self.finish(running, call, began, output);
    }

    /// Waits for one call. When the turn is stopped, the call has a moment to return its result so far.
    async fn run_alone(
        &mut self,
        running: &mut TurnInProgress<'_>,
        call: &ToolCall,
        tool: &dyn Tool,
        text: &str,
        permission: &Permission,
        delegation: Option<Delegation>,
    ) -> ToolOutput {
        let stop = running.stop.clone();
        let (events, mut shown) = mpsc::unbounded_channel();
        let live = LiveOutput::new(call.id.to_string(), events);
        let file = permission
            .planned
            .as_ref()
            .and_then(|planned: &PlannedChange| Some(&planned.file.as_ref()?.change));
        let mut work = tool.run(RunningCall {
            arguments: text,
            file,
            live: &live,
            stop: &stop,
            delegation: delegation.as_ref(),
        });
        // A delegated task has its own turn limits.
        let time = match delegation {
            Some(_) => Duration::MAX,
            None => self.settings.limits.tool.time.saturating_add(LAST_WORDS),
        };
        let mut timer = std::pin::pin!(async {
            tokio::select! {
                () = sleep(time) => too_long(self.settings.limits.tool.time),
                () = async {
                    stop.asked().await;
                    tokio::time::sleep(LAST_WORDS).await;
                } => STOPPED.to_owned(),
            }
        });
        loop {
            tokio::select! {
                biased;
                Some(event) = shown.recv() => {
                    live.shown(&event);
                    running.tell(event);
                }
                output = &mut work => {
                    while let Ok(event) = shown.try_recv() {
                        running.tell(event);
                    }
                    return output;
                }
                given_up = &mut timer => return ToolOutput::error(given_up),
            }
        }
    }

    fn finish(
        &mut self,
        running: &mut TurnInProgress<'_>,
        call: &ToolCall,
        began: Instant,
        output: ToolOutput,
    ) {
        let ToolOutput { text, is_error, .. } = output.clone();
        self.result(running, call, output);
        self.composer.read(&self.conversation);
        running.tell(Event::CallEnded {
            id: call.id.to_string(),
            name: call.name.to_string(),
            output: text,
            is_error,
            took: began.elapsed(),
            message: self.composer.walk().next_number().checked_sub(1),
        });
    }

    fn result(&mut self, running: &mut TurnInProgress<'_>, call: &ToolCall, output: ToolOutput) {
        let text = kept(output.text, self.settings.limits.tool.kept);
        let mut result = ToolResult {
            name: Some(call.name.clone()),
            is_error: output.is_error,
            ..ToolResult::new(call.id.clone(), text)
        };
        if !output.media.is_empty() {
            result.form = Form::Parts;
            result.content.extend(output.media);
        }
        let message = Message { form: Form::Text, ..Message::new(Role::Tool, vec![Block::result(result)]) };
        self.say(running, message);
        if let Some(data) = output.snapshot {
            let saved = self.conversation.append(&Content::Snapshot(Snapshot { data })).saved;
            self.saved(running, saved);
        }
    }
}

/// The arguments of a call; blank text becomes an empty object.
pub(super) fn arguments(text: &Text) -> String {
    if text.trim().is_empty() { String::from("{}") } else { text.to_string() }
}

fn started(call: &ToolCall, arguments: &str) -> Event {
    Event::CallStarted {
        id: call.id.to_string(),
        name: call.name.to_string(),
        arguments: arguments.to_owned(),
    }
}

fn too_long(time: Duration) -> String {
    format!(
        "[stopped after {} seconds, the longest that a tool may take; it may have done a part of its work]",
        time.as_secs_f32()
    )
}

/// Sleeps; for ever if the time is too long for a timer.
async fn sleep(time: Duration) {
    match tokio::time::Instant::now().checked_add(time) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// How far an output may exceed the limit, in bytes: a tool that observes the limit adds a note at the end about what it left out.
const LAST_NOTE: usize = 4 * 1024;

/// The text up to the limit, and the number of bytes beyond it.
fn kept(mut text: String, limit: usize) -> String {
    if text.len() > limit.saturating_add(LAST_NOTE) {
        let end = text.floor_char_boundary(limit);
        let more = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("\n[{more} more bytes were not kept]"));
    }
    text
}

/// Waits for the next call that finishes.
async fn next<'c>(doing: &mut [Option<Reading<'c>>]) -> (&'c ToolCall, Instant, ToolOutput) {
    std::future::poll_fn(|context| {
        for slot in doing.iter_mut() {
            let Some(reading) = slot else { continue };
            let (call, began) = (&reading.called.2, reading.began);
            if let Poll::Ready(output) = Pin::new(&mut reading.doing).poll(context) {
                *slot = None;
                return Poll::Ready((call, began, output));
            }
        }
        Poll::Pending
    })
    .await
}
