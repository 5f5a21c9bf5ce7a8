//! One request of a turn, and its answer.

use std::{sync::Arc, time::Duration};

use rejoin_formats::{
    draft::issued,
    wire::{
        names::Respelled,
        stream::{Delta, End, Received, Stop as StopReason, Usage},
    },
};
use rejoin_record::{
    Content, EntryId, Message, Text,
    content::{Branch, TurnState},
};

use super::{Ending, Event, Limit, Stop, TurnError, TurnInProgress, Worker};
use crate::{
    draft::{AnswerDraft, cut_message},
    provider::{ProviderError, SendProgress},
};

/// What came of asking.
pub(super) enum Asked {
    /// The model answered.
    Answered(Answer),
    /// A person stopped it. That is recorded.
    Stopped,
}

/// What is needed of a request to record its answer.
struct StandsOn {
    /// What reasoning in the answer is bound to.
    prefix: Option<Text>,
    /// What got another spelling for the provider.
    respelled: Respelled,
}

/// What the model wants.
pub(super) enum Answer {
    /// Tools are to be run.
    Calls {
        /// The entry of its message.
        entry: EntryId,
        /// The message.
        message: Arc<Message>,
        /// Whether its last call may be half of one.
        cut: bool,
    },
    /// To be asked again, with what it said.
    Paused,
    /// Nothing more.
    Done(Ending),
}

impl Worker {
    /// Sends what is recorded, and records what comes back.
    pub(super) async fn ask(&mut self, running: &mut TurnInProgress<'_>) -> Result<Asked, TurnError> {
        self.close(running);
        let Some(context) = self.context.clone() else { return Err(TurnError::Nothing) };
        let provider = Arc::clone(&self.provider);
        let endpoint = provider.endpoint().clone();
        let composed = match self.composer.request(&*provider, &context, &running.stop) {
            Ok(composed) => composed,
            Err(error) => {
                self.take_back(running, &error);
                return Err(self.failed(error));
            }
        };
        running.requests += 1;
        let bytes = composed.request.body.as_ref().map_or(0, rejoin_formats::draft::Body::len);
        running.tell(Event::Asking { request: running.requests, bytes });
        for finding in &composed.findings {
            tracing::debug!("for {}: {finding}", endpoint.provider);
        }
        // What arrives is kept here as well, unless the provider does: a request that is given up in the middle has said
        // something. A draft keeps it for the case that the whole process is given up.
        let draft = self.conversation.begin_draft(endpoint.origin());
        let mut heard = Heard { draft, elsewhere: provider.gives_back_what_arrived(), ..Heard::default() };
        let answer = {
            let (sink, stop) = (&mut running.sink, running.stop.clone());
            let mut listener = |progress: SendProgress| {
                let event = heard.progress(progress);
                if let Some(event) = event {
                    sink(event);
                }
            };
            tokio::select! {
                // An answer that is whole when someone stops it is kept whole.
                biased;
                answer = provider.send(&composed.request, &mut listener) => Some(answer),
                () = given_up(&stop) => None,
            }
        };
        running.draft = heard.draft.take();
        let stands_on = StandsOn { prefix: composed.prefix, respelled: composed.respelled };
        let asked = self.answered(running, answer, heard, stands_on);
        // Without a message there is nothing to keep.
        if let Some(draft) = running.draft.take() {
            draft.remove();
        }
        asked
    }

    /// Records what came back, whole or not.
    fn answered(
        &mut self,
        running: &mut TurnInProgress<'_>,
        answer: Option<Result<Received, ProviderError>>,
        heard: Heard,
        stands_on: StandsOn,
    ) -> Result<Asked, TurnError> {
        let endpoint = self.provider.endpoint().clone();
        let stopped = running.stop.is_stopped();
        let whole = matches!(&answer, Some(Ok(received)) if matches!(received.end, End::Complete(_)));
        match answer {
            // What arrived is kept: as the provider's own item, half a call included, or as the words that were heard.
            answer if stopped && !whole => {
                let arrived = answer.and_then(Result::ok);
                add(&mut running.usage, arrived.as_ref().and_then(|received| received.usage));
                match arrived.and_then(|received| received.message) {
                    Some(message) => {
                        drop(heard);
                        self.record(running, message, stands_on);
                    }
                    None => {
                        if let Some(message) = heard.message(&endpoint) {
                            self.answer(running, message);
                        }
                    }
                }
                self.turn_entry(running, TurnState::Interrupted, None);
                Ok(Asked::Stopped)
            }
            None => Ok(Asked::Stopped),
            Some(Err(error)) => {
                // Who fails has said nothing, as it is agreed; what was said all the same is kept.
                if let Some(message) = heard.message(&endpoint) {
                    self.answer(running, message);
                }
                Err(self.failed(error))
            }
            Some(Ok(received)) => {
                // The provider gave back all of it: a second copy of a large answer is not worth its memory.
                drop(heard);
                self.received(running, received, stands_on).map(Asked::Answered)
            }
        }
    }

    /// What is too large to be sent would stand in the way of everything after it. It is kept, on a branch of its own, and the
    /// conversation goes on from before it.
    fn take_back(&mut self, running: &mut TurnInProgress<'_>, error: &ProviderError) {
        let too_large = matches!(error, ProviderError::TooLarge(_)) && running.requests == 0;
        let Some(before) = running.before.take().filter(|_| too_large) else { return };
        self.conversation.move_head(before);
        let reason = Some(Text::new("too large to be sent"));
        let appended = self.conversation.append(&Content::Branch(Branch { reason }));
        self.saved(running, appended.saved);
    }

    /// Why there is no answer, with what in the conversation may explain it.
    fn failed(&mut self, error: ProviderError) -> TurnError {
        let refused = matches!(error, ProviderError::Refused(_) | ProviderError::ContextLength(_));
        let explanation = if refused { self.composer.all_findings() } else { Vec::new() };
        TurnError::Provider { error, explanation }
    }

    /// Records what a model said, with who issued it, in our own spelling.
    fn record(
        &mut self,
        running: &mut TurnInProgress<'_>,
        mut message: Message,
        stands_on: StandsOn,
    ) -> EntryId {
        let mut origin = self.provider.endpoint().origin();
        origin.prefix = stands_on.prefix;
        stands_on.respelled.restore(&mut message);
        issued(&mut message, &origin);
        self.answer(running, message)
    }

    /// Appends the message of a model, in the place of its draft.
    fn answer(&mut self, running: &mut TurnInProgress<'_>, message: Message) -> EntryId {
        let draft = running.draft.take();
        let entry = self.append_message(running, message, |conversation, content| match draft {
            Some(draft) => conversation.append_drafted(content, draft),
            None => conversation.append(content),
        });
        running.answer = running.messages.last().cloned();
        entry
    }

    /// Records an answer, whole or not.
    fn received(
        &mut self,
        running: &mut TurnInProgress<'_>,
        received: Received,
        stands_on: StandsOn,
    ) -> Result<Answer, TurnError> {
        let Received { message, end, usage, .. } = received;
        add(&mut running.usage, usage);
        let mut entry = None;
        if let Some(message) = message {
            let id = self.record(running, message, stands_on);
            entry = Some(id);
            running.tell(Event::Answered { entry: id, usage });
        }
        let stop = match end {
            End::Complete(stop) => stop,
            other => {
                // What arrived is recorded, and that it is not all.
                let provider = self.provider.endpoint().provider.clone();
                let error = match other {
                    End::Failed(fault) => ProviderError::from_fault(fault).by(&provider),
                    End::Garbage(why) => ProviderError::Garbage(why),
                    End::Cut | End::Complete(_) => ProviderError::Cut,
                };
                return Err(TurnError::Provider { error, explanation: Vec::new() });
            }
        };
        let message = entry.and(running.messages.last().cloned());
        match (entry, message, stop) {
            (Some(entry), Some(message), stop) if message.tool_calls().next().is_some() => {
                let cut = matches!(stop, StopReason::Length | StopReason::Refused);
                Ok(Answer::Calls { entry, message, cut })
            }
            // One that paused without a word would be asked the same again, and again.
            (Some(_), _, StopReason::Paused) => Ok(Answer::Paused),
            (_, _, StopReason::Length) => Ok(Answer::Done(Ending::Limit(Limit::AnswerLength))),
            (None, ..) => Err(TurnError::Provider { error: ProviderError::Empty, explanation: Vec::new() }),
            _ => Ok(Answer::Done(Ending::Done)),
        }
    }
}

/// How long a provider has to give back what arrived, once someone stopped it.
const GRACE: Duration = Duration::from_millis(250);

/// Waits until someone stops the turn and the provider had its moment.
async fn given_up(stop: &Stop) {
    stop.asked().await;
    tokio::time::sleep(GRACE).await;
}

fn add(total: &mut Usage, usage: Option<Usage>) {
    let Some(usage) = usage else { return };
    // A provider may count as it likes.
    total.input = total.input.saturating_add(usage.input);
    total.output = total.output.saturating_add(usage.output);
    total.cached = total.cached.saturating_add(usage.cached);
    total.reasoning = total.reasoning.saturating_add(usage.reasoning);
}

/// What was heard of an answer that nobody waits for any more.
#[derive(Default)]
struct Heard {
    text: String,
    reasoning: String,
    /// The provider keeps it, and gives it back when it is stopped.
    elsewhere: bool,
    /// Where it is written before it is shown.
    draft: Option<AnswerDraft>,
}

impl Heard {
    fn progress(&mut self, progress: SendProgress) -> Option<Event> {
        Some(match progress {
            SendProgress::Delta(Delta::Text(text)) => {
                if !self.elsewhere {
                    self.text.push_str(&text);
                }
                if let Some(draft) = &mut self.draft {
                    draft.text(&text);
                }
                Event::Text(text)
            }
            SendProgress::Delta(Delta::Reasoning(text)) => {
                if !self.elsewhere {
                    self.reasoning.push_str(&text);
                }
                if let Some(draft) = &mut self.draft {
                    draft.reasoning(&text);
                }
                Event::Reasoning(text)
            }
            SendProgress::Delta(Delta::Call(_)) => return None,
            SendProgress::Retrying { attempt, wait, why } => Event::Retrying { attempt, wait, why },
        })
    }

    /// The words of an answer that was given up. Calls in it never ran, and nobody knows all of their arguments.
    fn message(self, endpoint: &crate::provider::Endpoint) -> Option<Message> {
        cut_message(endpoint.origin(), &self.reasoning, &self.text)
    }
}
