//! A provider that answers from a script, and records the requests that it gets.
//!
//! Only the network is missing: requests are sound and, with a dialect, encoded; answers are streamed, and can be cut, fail, or
//! never end. Tests of agents need no other provider.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rejoin_formats::{
    Dialect,
    wire::stream::{Delta, End, Received, ReportedFault, StopReason, Usage},
};
use rejoin_record::{Block, BlockKind, Message, Role, ToolCall};

use super::{BoxFuture, Endpoint, Listener, Model, Provider, ProviderError, Request, SendProgress, Sending};

/// The names of the provider and its model.
pub const NAME: &str = "scripted";

/// The name that earlier agents used for it.
pub type MockProvider = ScriptedProvider;

/// What the provider does with one request.
#[derive(Debug, Clone)]
pub enum Step {
    /// It answers.
    Answer(ScriptedAnswer),
    /// It fails.
    Fail(ProviderError),
}

/// An answer: a message, the size of its pieces, and its end.
#[derive(Debug, Clone)]
pub struct ScriptedAnswer {
    /// The model's message; `None` if the answer is empty.
    pub message: Option<Message>,
    /// The number of characters per piece.
    pub piece: usize,
    /// How the answer ends; `None` if nothing more arrives until the request is dropped.
    pub end: Option<End>,
    /// The token counts that the provider reports.
    pub usage: Option<Usage>,
}

impl Step {
    /// The model answers with text.
    pub fn says(text: &str) -> Self {
        Self::answers(Message::assistant(text))
    }

    /// The model calls tools, without text.
    pub fn calls(calls: Vec<ToolCall>) -> Self {
        Self::answers(Message::assistant_with_tools(calls))
    }

    /// The model answers with text and calls tools.
    pub fn says_and_calls(text: &str, calls: Vec<ToolCall>) -> Self {
        let blocks = std::iter::once(Block::text(text)).chain(calls.into_iter().map(Block::call)).collect();
        Self::answers(Message::new(Role::Assistant, blocks))
    }

    /// The model's message.
    pub fn answers(message: Message) -> Self {
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        let end = Some(End::Complete(StopReason::Done));
        Self::Answer(ScriptedAnswer { message: Some(message), piece: usize::MAX, end, usage: Some(usage) })
    }

    /// The provider fails.
    pub fn fails(error: ProviderError) -> Self {
        Self::Fail(error)
    }

    /// Sends text and reasoning in pieces of this many characters.
    #[must_use]
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        if let Self::Answer(answer) = &mut self {
            answer.piece = characters.max(1);
        }
        self
    }

    /// Cuts the answer after the message.
    #[must_use]
    pub fn cut(self) -> Self {
        self.ending(Some(End::Cut))
    }

    /// Sends the message, and then nothing more until the request is dropped.
    #[must_use]
    pub fn then_hangs(self) -> Self {
        self.ending(None)
    }

    /// Sends the message, and then an error.
    #[must_use]
    pub fn then_fails(self, why: &str) -> Self {
        self.ending(Some(End::Failed(ReportedFault { kind: None, message: why.to_owned() })))
    }

    /// Sends the message, with this reason for stopping.
    #[must_use]
    pub fn then_stops(self, stop: StopReason) -> Self {
        self.ending(Some(End::Complete(stop)))
    }

    fn ending(mut self, end: Option<End>) -> Self {
        if let Self::Answer(answer) = &mut self {
            answer.end = end;
        }
        self
    }
}

impl From<&str> for Step {
    fn from(text: &str) -> Self {
        Self::says(text)
    }
}

impl From<Message> for Step {
    fn from(message: Message) -> Self {
        Self::answers(message)
    }
}

impl From<ProviderError> for Step {
    fn from(error: ProviderError) -> Self {
        Self::Fail(error)
    }
}

/// Makes the step for a request.
type Author = dyn Fn(&Request) -> Step + Send + Sync;

/// A provider with a script.
///
/// ```
/// # async fn example() -> Result<(), rejoin_engine::provider::ProviderError> {
/// use rejoin_engine::provider::{Provider, scripted::{ScriptedProvider, Step}};
/// use rejoin_record::Message;
///
/// let provider = ScriptedProvider::new([Step::says("Hello.").in_pieces_of(2)]);
/// let answer = provider.complete(&[Message::user("Hi."), Message::tool("gone", "an orphan")], &[]).await?;
/// assert_eq!(answer.message.content().as_deref(), Some("Hello."));
/// assert_eq!(provider.last_messages(), [Message::user("Hi.")]);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct ScriptedProvider {
    endpoint: Endpoint,
    script: Mutex<VecDeque<Step>>,
    /// Makes the steps after the end of the script.
    otherwise: Option<Arc<Author>>,
    requests: Mutex<Vec<Request>>,
}

impl std::fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let steps = lock(&self.script).len();
        write!(f, "ScriptedProvider({}, {steps} steps left)", self.endpoint.model)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ScriptedProvider {
    /// Performs these steps, one per request. Later requests fail.
    pub fn new(steps: impl IntoIterator<Item = impl Into<Step>>) -> Self {
        Self {
            endpoint: Endpoint { provider: NAME.into(), model: NAME.into(), ..Endpoint::default() },
            script: Mutex::new(steps.into_iter().map(Into::into).collect()),
            otherwise: None,
            requests: Mutex::default(),
        }
    }

    /// Answers "OK." to everything.
    pub fn new_default() -> Self {
        Self::answering(|_| Step::says("OK."))
    }

    /// Answers each request with the step that a function returns for it.
    pub fn answering(author: impl Fn(&Request) -> Step + Send + Sync + 'static) -> Self {
        Self { otherwise: Some(Arc::new(author)), ..Self::new(<[Step; 0]>::default()) }
    }

    /// Encodes requests in a dialect.
    #[must_use]
    pub fn speaking(mut self, dialect: Dialect) -> Self {
        self.endpoint.dialect = Some(dialect);
        self
    }

    /// Sets the names of the provider and its model.
    #[must_use]
    pub fn named(mut self, provider: &str, model: &str) -> Self {
        self.endpoint.provider = provider.to_owned();
        self.endpoint.model = model.to_owned();
        self
    }

    /// Adds a step to the script.
    pub fn then(&self, step: impl Into<Step>) {
        lock(&self.script).push_back(step.into());
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// The messages of the last request, with one message per result; empty if there was no request.
    pub fn last_messages(&self) -> Vec<Message> {
        lock(&self.requests).last().map(Request::messages).unwrap_or_default()
    }

    /// The body of the last request, if there was one and the provider has a dialect.
    pub fn last_body(&self) -> Option<String> {
        Some(lock(&self.requests).last()?.body.as_ref()?.to_string())
    }

    fn next(&self, request: &Request) -> Step {
        lock(&self.requests).push(request.clone());
        if let Some(step) = lock(&self.script).pop_front() {
            return step;
        }
        match &self.otherwise {
            Some(author) => author(request),
            None => Step::Fail(ProviderError::Other(String::from("the script is over"))),
        }
    }
}

impl Provider for ScriptedProvider {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn send<'a>(&'a self, request: &'a Request, listener: Listener<'a>) -> Sending<'a> {
        Box::pin(async move {
            let answer = match self.next(request) {
                Step::Fail(error) => return Err(error),
                Step::Answer(answer) => answer,
            };
            for block in answer.message.iter().flat_map(|message| &message.blocks) {
                let (text, delta): (&str, fn(String) -> Delta) = match &block.kind {
                    BlockKind::Text(text) => (text, Delta::Text),
                    BlockKind::Reasoning(reasoning) => (&reasoning.text, Delta::Reasoning),
                    BlockKind::ToolCall(call) => (&call.name, Delta::Call),
                    _ => continue,
                };
                // A call is not split into pieces.
                let size = if block.as_call().is_some() { usize::MAX } else { answer.piece };
                let mut rest = text;
                while !rest.is_empty() {
                    let end = rest.char_indices().nth(size).map_or(rest.len(), |(place, _)| place);
                    let (piece, after) = rest.split_at(end);
                    listener(SendProgress::Delta(delta(piece.to_owned())));
                    rest = after;
                    // Let other tasks run in between, as they do while a network is slow.
                    tokio::task::yield_now().await;
                }
            }
            let end = match answer.end {
                Some(end) => end,
                None => std::future::pending().await,
            };
            let model = Some(self.endpoint.model.clone());
            Ok(Received { message: answer.message, end, model, usage: answer.usage })
        })
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, ProviderError>> {
        let model = Model { id: self.endpoint.model.clone(), ..Model::default() };
        Box::pin(async { Ok(vec![model]) })
    }
}
