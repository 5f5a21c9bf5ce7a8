//! Running tools. A call is recorded as running before it starts, and its result as soon as it arrives.

use std::{future::Future as _, pin::Pin, sync::Arc, task::Poll, time::Instant};

use rejoin_record::{
    Block, EntryId, Form, Message, Role, ToolCall, ToolResult,
    content::{CallAt, TurnState},
};

use super::{Event, TurnInProgress, Worker};
use crate::{
    provider::Doing,
    tools::{ToolOutput, Tools},
};

/// A call, by the entry of its message and its block.
type Called = (EntryId, u64, ToolCall);

const STOPPED: &str =
    "[interrupted: the turn was stopped while this ran; it may have done a part of its work]";
const NEVER_RAN: &str = "[not run: the turn was stopped before it began]";
const HALF: &str = "[not run: the answer ended before the arguments of this call came; call it again]";

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
        let mut calls: Vec<Called> = calls.collect();
        // A call that was cut inside its arguments is refused anyway. One that was cut before them looks like a call without any.
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

    /// Runs calls at the same time. Results are recorded as they arrive; a view has them in the order of the calls. If the turn is
    /// stopped, every call that has no result yet gets one that says so.
    pub(super) async fn run(&mut self, running: &mut TurnInProgress<'_>, calls: Vec<Called>) {
        if running.stop.is_stopped() {
            for (_, _, call) in &calls {
                self.result(running, call, ToolOutput::error(NEVER_RAN));
            }
            return;
        }
        // Record every call as running before the first one starts.
        for (entry, block, call) in &calls {
            if refusal(&self.tools, call).is_none() {
                let at = CallAt { entry: *entry, block: *block };
                self.turn_entry(running, TurnState::CallRunning, Some(at));
            }
        }
        let time = self.settings.limits.tool_time;
        let _pause = running.clock.pause();
        let mut doing: Vec<Option<(Instant, Doing<'static, ToolOutput>)>> = Vec::new();
        for (_, _, call) in &calls {
            running.tell(Event::CallStarted {
                id: call.id.to_string(),
                name: call.name.to_string(),
                arguments: call.arguments.text().to_string(),
            });
            doing.push(Some((Instant::now(), run(&self.tools, call.clone(), time))));
        }
        let stop = running.stop.clone();
        while doing.iter().any(Option::is_some) {
            let done = tokio::select! {
                biased;
                done = next(&mut doing) => Some(done),
                () = stop.asked() => None,
            };
            match done {
                Some((place, began, output)) => self.finish(running, &calls[place].2, began, output),
                None => {
                    for (place, slot) in doing.iter_mut().enumerate() {
                        if let Some((began, _)) = slot.take() {
                            self.finish(running, &calls[place].2, began, ToolOutput::error(STOPPED));
                        }
                    }
                }
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
        let (text, is_error) = (output.text.clone(), output.is_error);
        self.result(running, call, output);
        running.tell(Event::CallEnded {
            id: call.id.to_string(),
            name: call.name.to_string(),
            output: text,
            is_error,
            took: began.elapsed(),
        });
    }

    fn result(&mut self, running: &mut TurnInProgress<'_>, call: &ToolCall, output: ToolOutput) {
        let mut result = ToolResult {
            name: Some(call.name.clone()),
            is_error: output.is_error,
            ..ToolResult::new(call.id.clone(), output.text)
        };
        if !output.media.is_empty() {
            result.form = Form::Parts;
            result.content.extend(output.media);
        }
        let message = Message { form: Form::Text, ..Message::new(Role::Tool, vec![Block::result(result)]) };
        self.say(running, message);
    }
}

/// Why a call is not run, if it is not.
fn refusal(tools: &Tools, call: &ToolCall) -> Option<String> {
    if tools.get(&call.name).is_none() {
        let known: Vec<String> = tools.declarations().iter().map(|tool| tool.name.to_string()).collect();
        return Some(format!("there is no tool `{}`; there are: {}", call.name, known.join(", ")));
    }
    call.arguments.are_no_object().then(|| {
        String::from(
            "[the arguments are not a JSON object: the tool was not run; call it again with an object]",
        )
    })
}

/// Runs a call, for at most this long.
fn run(tools: &Tools, call: ToolCall, time: std::time::Duration) -> Doing<'static, ToolOutput> {
    if let Some(why) = refusal(tools, &call) {
        return Box::pin(async { ToolOutput::error(why) });
    }
    let Some(tool) = tools.get(&call.name).map(Arc::clone) else {
        return Box::pin(async { ToolOutput::error("there is no such tool") });
    };
    Box::pin(async move {
        let text = call.arguments.text().to_string();
        // No arguments are an empty object.
        let arguments = if text.trim().is_empty() { "{}" } else { text.as_str() };
        match tokio::time::timeout(time, tool.run(arguments)).await {
            Ok(output) => output,
            Err(_) => ToolOutput::error(format!(
                "[stopped after {} seconds, the longest that a tool may take; it may have done a part of its work]",
                time.as_secs_f32()
            )),
        }
    })
}

/// Waits for the next call that is done, and returns its place.
async fn next(doing: &mut [Option<(Instant, Doing<'static, ToolOutput>)>]) -> (usize, Instant, ToolOutput) {
    std::future::poll_fn(|context| {
        for (place, slot) in doing.iter_mut().enumerate() {
            let Some((began, future)) = slot else { continue };
            let began = *began;
            if let Poll::Ready(output) = Pin::new(future).poll(context) {
                *slot = None;
                return Poll::Ready((place, began, output));
            }
        }
        Poll::Pending
    })
    .await
}
