//! One request of a turn, and its answer.

use std::{sync::Arc, time::Duration};

use rejoin_formats::{
    draft::issued,
    wire::stream::{Delta, End, Received, StopReason},
};
use rejoin_record::{
    Content, EntryId, Message, Origin, Text,
    content::{Branch, Turn, TurnState},
};

use super::{Ending, Event, Limit, TurnError, TurnInProgress, Worker, compose::Basis};
use crate::{
    draft::{AnswerDraft, cut_message},
    provider::{ProviderError, SendProgress},
};

/// What follows an answer.
pub(super) enum Answer {
    /// The model calls tools.
    Calls {
        entry: EntryId,
        message: Arc<Message>,
        /// Whether the answer was cut, so that the last call may be incomplete.
        cut: bool,
    },
    /// The model paused, and is asked again with what it said.
    Paused,
    /// The turn is over.
    Done(Ending),
    /// The turn was stopped. That is recorded.
    Stopped,
}

impl Worker {
    /// Sends what is recorded, and records what comes back.
    pub(super) async fn ask(&mut self, running: &mut TurnInProgress<'_>) -> Result<Answer, TurnError> {
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
        self.note_request();
        let bytes = composed.request.body.as_ref().map_or(0, rejoin_formats::draft::Body::len);
        running.tell(Event::Asking { request: running.requests, bytes });
        for finding in &composed.findings {
            tracing::debug!("for {}: {finding}", endpoint.provider);
        }
        // What arrives is kept here as well, unless the provider does: a request that is given up in the middle has said
        // something. A draft keeps it for the case that the whole process is given up.
        let draft = self.conversation.begin_draft(endpoint.origin());
        let mut partial = PartialAnswer {
            draft,
            elsewhere: provider.gives_back_what_arrived(),
            ..PartialAnswer::default()
        };
        let answer = {
            let (sink, stop) = (&mut running.sink, running.stop.clone());
            let mut listener = |progress: SendProgress| {
                if let Some(event) = partial.progress(progress) {
                    sink(event);
                }
            };
            tokio::select! {
                // An answer that is complete when the turn is stopped stays complete.
                biased;
                answer = provider.send(&composed.request, &mut listener) => Some(answer),
                () = async {
                    stop.asked().await;
                    tokio::time::sleep(GRACE).await;
                } => None,
            }
        };
        running.draft = partial.draft.take();
        let asked = self.answered(running, answer, partial, composed.basis);
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
        partial: PartialAnswer,
        basis: Basis,
    ) -> Result<Answer, TurnError> {
        let endpoint = self.provider.endpoint().clone();
        let stopped = running.stop.is_stopped();
        let whole = matches!(&answer, Some(Ok(received)) if matches!(received.end, End::Complete(_)));
        match answer {
            // What arrived is kept: as the provider's own item, half a call included, or as the words that were partial.
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
                // A provider that fails should have said nothing. What it said all the same is kept.
                if let Some(message) = partial.message(&endpoint) {
                    self.answer(running, message, None);
                }
                Err(self.failed(error))
            }
            Some(Ok(received)) => {
                // The provider gave back all of it: a second copy of a large answer is not worth its memory.
                drop(partial);
                self.received(running, received, basis)
            }
        }
    }

    /// Takes back a message that is too large to be sent, which would block everything after it: it stays on its own branch, and the
    /// conversation continues from before it.
    fn take_back(&mut self, running: &mut TurnInProgress<'_>, error: &ProviderError) {
        let too_large = matches!(error, ProviderError::TooLarge(_)) && running.requests == 0;
        let Some(before) = running.before.take().filter(|_| too_large) else { return };
        self.conversation.move_head(before);
        let reason = Some(Text::new("too large to be sent"));
        let appended = self.conversation.append(&Content::Branch(Branch { reason }));
        self.saved(running, appended.saved);
    }

    /// The error of a request without an answer, with the findings that may explain it.
    fn failed(&mut self, error: ProviderError) -> TurnError {
        let refused = matches!(error, ProviderError::Refused(_) | ProviderError::ContextLength(_));
        let explanation = if refused { self.composer.all_findings() } else { Vec::new() };
        TurnError::Provider { error, explanation }
    }

    /// Records a message of the model, with its origin and with names and ids spelled as before the request.
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

    /// Appends the message of a model, in the place of its draft, and the state of the turn `then`.
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
        // A whole answer without calls is the last: then the end of the turn is stored with it.
        let is_whole = matches!(&end, End::Complete(stop) if *stop != StopReason::Paused);
        let is_last = |message: &Message| is_whole && message.tool_calls().next().is_none();
        let ended = message.as_ref().is_some_and(is_last);
        if let Some(message) = message {
            let id = self.record(running, message, basis, ended.then_some(TurnState::Ended));
            entry = Some(id);
            running.tell(Event::Answered { entry: id, usage });
        }
        // What arrived is recorded, and that it is not all.
        let stop = ProviderError::unless_complete(end, &self.provider.endpoint().provider)?;
        let message = entry.and(running.messages.last().cloned());
        match (entry, message, stop) {
            (Some(entry), Some(message), stop) if message.tool_calls().next().is_some() => {
                let cut = matches!(stop, StopReason::Length | StopReason::Refused);
                Ok(Answer::Calls { entry, message, cut })
            }
            // One that paused without a word would be asked the same again, and again.
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

/// How long a provider may take to give back what arrived after it was stopped.
const GRACE: Duration = Duration::from_millis(250);

/// What arrived of an answer, for the case that the turn is stopped before the answer is complete.
#[derive(Default)]
struct PartialAnswer {
    text: String,
    reasoning: String,
    /// Whether the provider keeps it itself, and gives it back when it is stopped.
    elsewhere: bool,
    /// Where it is written before it is shown.
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

    /// The text and reasoning of an incomplete answer. Its calls never ran, and their arguments are not known.
    fn message(self, endpoint: &crate::provider::Endpoint) -> Option<Message> {
        cut_message(endpoint.origin(), &self.reasoning, &self.text)
    }
}
