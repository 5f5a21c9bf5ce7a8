//! One request of a turn, and its answer.

use std::{sync::Arc, time::Duration};

use rejoin_formats::{
    draft::issued,
    wire::stream::{Delta, End, Received, StopReason},
};
use rejoin_record::{
    Content, EntryId, Hash, Message, Origin, Text,
    content::{Branch, Turn, TurnState},
};

use rejoin_view::Finding;

use super::{Ending, Event, Limit, TurnError, TurnInProgress, Worker, compose::Basis};
use crate::{
    draft::{AnswerDraft, cut_message},
    provider::{ProviderError, SendProgress},
};

/// The step of the turn that follows an answer.
pub(super) enum Answer {
    /// The model calls tools.
    Calls {
        entry: EntryId,
        message: Arc<Message>,
        /// Whether the answer was cut, so that the last call may be incomplete.
        cut: bool,
    },
    /// The model paused. It is asked again, with its answer so far.
    Paused,
    /// The turn has ended.
    Done(Ending),
    /// The turn was stopped, which is recorded.
    Stopped,
}

impl Worker {
    /// Sends the recorded conversation, and records the answer.
    pub(super) async fn ask(&mut self, running: &mut TurnInProgress<'_>) -> Result<Answer, TurnError> {
        self.close(running);
        let Some(context) = self.context.clone() else { return Err(TurnError::Nothing) };
        let provider = Arc::clone(&self.provider);
        let endpoint = provider.endpoint().clone();
        let composed = match self.composer.request(&*provider, &context, &running.stop) {
            Ok(composed) => composed,
            Err(error) => {
                let taken_back = self.take_back(running, &error);
                return Err(TurnError::Provider { explanation: self.explanation(&error), error, taken_back });
            }
        };
        running.requests += 1;
        let bytes = composed.request.body.as_ref().map_or(0, rejoin_formats::draft::Body::len);
        running.tell(Event::Asking { request: running.requests, bytes });
        for finding in &composed.findings {
            tracing::debug!("for {}: {finding}", endpoint.provider);
        }
        // Keep a copy of the arriving text, unless the provider keeps one: a request that is dropped in the middle has already
        // shown text. A draft keeps it in case the whole process is killed.
        let draft = self.conversation.begin_draft(endpoint.origin());
        let mut partial =
            PartialAnswer { draft, elsewhere: provider.returns_partial_answer(), ..PartialAnswer::default() };
        let answer = {
            let (sink, stop) = (&mut running.sink, running.stop.clone());
            let mut listener = |progress: SendProgress| {
                if let Some(event) = partial.progress(progress) {
                    sink(event);
                }
            };
            tokio::select! {
                // Check the answer first: an answer that is complete when the turn is stopped stays complete.
                biased;
                answer = provider.send(&composed.request, &mut listener) => Some(answer),
                () = async {
                    stop.asked().await;
                    tokio::time::sleep(GRACE).await;
                } => None,
            }
        };
        running.draft = partial.draft.take();
        // Count the request only now, while the messages are still those that it had: no answer has to wait for it.
        self.note_request();
        let asked = self.answered(running, answer, partial, composed.basis);
        // No message was recorded, so the draft is not needed.
        if let Some(draft) = running.draft.take() {
            draft.remove();
        }
        asked
    }

    /// Records the answer, whole or not.
    fn answered(
        &mut self,
        running: &mut TurnInProgress<'_>,
        answer: Option<Result<Received, ProviderError>>,
        partial: PartialAnswer,
        basis: Basis,
    ) -> Result<Answer, TurnError> {
        let endpoint = self.provider.endpoint().clone();
        let stopped = running.stop.is_stopped();
        let whole = matches!(&answer, Some(Ok(received)) if matches!(received.end, End::Complete(_)));
        match answer {
            // Keep the part that arrived: as the provider's own item, including half a call, or else as the text that was shown.
            answer if stopped && !whole => {
                let arrived = answer.and_then(Result::ok);
                running.count(arrived.as_ref().and_then(|received| received.usage));
                match arrived.and_then(|received| received.message) {
                    Some(message) => {
                        drop(partial);
                        self.record(running, message, basis, None);
                    }
                    None => {
                        if let Some(message) = partial.message(&endpoint) {
                            self.answer(running, message, None);
                        }
                    }
                }
                self.turn_entry(running, TurnState::Interrupted, None);
                Ok(Answer::Stopped)
            }
            None => Ok(Answer::Stopped),
            Some(Err(error)) => {
                // A provider that fails should not have sent text before. If it did, keep that text.
                if let Some(message) = partial.message(&endpoint) {
                    self.answer(running, message, None);
                }
                Err(self.failed(error))
            }
            Some(Ok(received)) => {
                // The provider returned everything, so free the second copy, which may be large.
                drop(partial);
                self.received(running, received, basis)
            }
        }
    }

    /// Takes back a message that is too large to send, because it would block everything after it. It stays in the record, on a
    /// branch, and the conversation continues from the entry before it.
    fn take_back(&mut self, running: &mut TurnInProgress<'_>, error: &ProviderError) -> bool {
        let too_large = matches!(error, ProviderError::TooLarge(_)) && running.requests == 0;
        let Some(before) = running.before.take().filter(|_| too_large) else { return false };
        self.go_back(running, before, "too large to be sent");
        true
    }

    /// Takes the turn's message back after its request was refused as too long, because otherwise every later request would be
    /// refused, too. Does so only if the model has not answered anything yet and the request is much shorter without the message.
    /// Earlier messages without an answer are taken back with it if they alone do not fit.
    pub(super) fn take_back_too_long(
        &mut self,
        running: &mut TurnInProgress<'_>,
        mut error: TurnError,
    ) -> TurnError {
        let no_answer = running.answer.is_none();
        if let Some(newest) = running.before.take().filter(|_| no_answer)
            && let Some(before) = self.before_too_long(newest)
            && let TurnError::Provider { taken_back, .. } = &mut error
        {
            *taken_back = true;
            self.go_back(running, before, "too long for the model's window");
        }
        error
    }

    fn go_back(
        &mut self,
        running: &mut TurnInProgress<'_>,
        before: Option<(EntryId, Hash)>,
        reason: &'static str,
    ) {
        self.conversation.move_head(before);
        let reason = Some(Text::new(reason));
        let appended = self.conversation.append(&Content::Branch(Branch { reason }));
        self.saved(running, appended.saved);
    }

    /// The error of a request without an answer, with findings that may explain it.
    fn failed(&mut self, error: ProviderError) -> TurnError {
        TurnError::Provider { explanation: self.explanation(&error), error, taken_back: false }
    }

    fn explanation(&mut self, error: &ProviderError) -> Vec<Finding> {
        let refused = matches!(error, ProviderError::Refused(_) | ProviderError::ContextLength(_));
        if refused { self.composer.all_findings() } else { Vec::new() }
    }

    /// Records a message of the model, with its origin. Names and ids get back the spelling that they had before the request.
    fn record(
        &mut self,
        running: &mut TurnInProgress<'_>,
        mut message: Message,
        basis: Basis,
        then: Option<TurnState>,
    ) -> EntryId {
        let origin = Origin { prefix: basis.prefix, ..self.provider.endpoint().origin() };
        basis.respelled.restore(&mut message);
        issued(&mut message, &origin);
        self.answer(running, message, then)
    }

    /// Appends the model's message in place of its draft, and an entry with the state `then`.
    fn answer(
        &mut self,
        running: &mut TurnInProgress<'_>,
        message: Message,
        then: Option<TurnState>,
    ) -> EntryId {
        let draft = running.draft.take();
        let then = then
            .map(|state| Content::Turn(Turn { usage: running.unrecorded.take(), ..Turn::new(state, None) }));
        let entry = self.append_message(running, message, |conversation, content| {
            conversation.append_answer(content, draft, then.as_ref())
        });
        running.answer = running.messages.last().cloned();
        entry
    }

    /// Records an answer, whole or not.
    fn received(
        &mut self,
        running: &mut TurnInProgress<'_>,
        received: Received,
        basis: Basis,
    ) -> Result<Answer, TurnError> {
        let Received { message, end, usage, .. } = received;
        running.count(usage);
        self.learn_from(usage.map_or(0, |usage| usage.input));
        let mut entry = None;
        // A whole answer without calls is the last one, so the end of the turn is stored together with it.
        let is_whole = matches!(&end, End::Complete(stop) if *stop != StopReason::Paused);
        let is_last = |message: &Message| is_whole && message.tool_calls().next().is_none();
        let ended = message.as_ref().is_some_and(is_last);
        if let Some(message) = message {
            let id = self.record(running, message, basis, ended.then_some(TurnState::Ended));
            entry = Some(id);
            running.tell(Event::Answered { entry: id, usage });
        }
        // The part that arrived is recorded, and so is the fact that it is incomplete.
        let stop = ProviderError::unless_complete(end, &self.provider.endpoint().provider)?;
        let message = entry.and(running.messages.last().cloned());
        match (entry, message, stop) {
            (Some(entry), Some(message), stop) if message.tool_calls().next().is_some() => {
                let cut = matches!(stop, StopReason::Length | StopReason::Refused);
                Ok(Answer::Calls { entry, message, cut })
            }
            // Without any text, the model would get the same request again and again.
            (Some(_), _, StopReason::Paused) => Ok(Answer::Paused),
            (_, _, StopReason::Length) => {
                if !ended {
                    self.turn_entry(running, TurnState::Ended, None);
                }
                Ok(Answer::Done(Ending::Limit(Limit::AnswerLength)))
            }
            (None, ..) => Err(ProviderError::Empty.into()),
            _ => Ok(Answer::Done(Ending::Done)),
        }
    }
}

/// How long a provider may take to return the arrived part after it was stopped.
const GRACE: Duration = Duration::from_millis(250);

/// The part of an answer that has arrived, in case the turn is stopped before the answer is complete.
#[derive(Default)]
struct PartialAnswer {
    text: String,
    reasoning: String,
    /// Whether the provider keeps this part itself and returns it when it is stopped.
    elsewhere: bool,
    /// The draft, which is written before text is shown.
    draft: Option<AnswerDraft>,
}

impl PartialAnswer {
    fn progress(&mut self, progress: SendProgress) -> Option<Event> {
        let (whole, name, piece, event): (_, _, _, fn(String) -> Event) = match progress {
            SendProgress::Delta(Delta::Text(text)) => (&mut self.text, "text", text, Event::Text),
            SendProgress::Delta(Delta::Reasoning(text)) => {
                (&mut self.reasoning, "reasoning", text, Event::Reasoning)
            }
            SendProgress::Delta(Delta::Call(_)) => return None,
            SendProgress::Retrying { attempt, wait, why } => {
                return Some(Event::Retrying { attempt, wait, why });
            }
        };
        if !self.elsewhere {
            whole.push_str(&piece);
        }
        if let Some(draft) = &mut self.draft {
            draft.keep(name, &piece);
        }
        Some(event(piece))
    }

    /// The text and reasoning of an incomplete answer. Its calls never ran, and their arguments are unknown.
    fn message(self, endpoint: &crate::provider::Endpoint) -> Option<Message> {
        cut_message(endpoint.origin(), &self.reasoning, &self.text)
    }
}
