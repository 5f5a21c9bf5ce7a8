//! A provider that says what a test wrote down for it, and remembers what it was asked.
//!
//! It is real in everything but the network: requests are sound and, if it is given a dialect, encoded; answers are streamed,
//! can be cut, fail, or never come. No test of an agent needs more.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rejoin_formats::{
    Dialect,
    wire::stream::{Delta, End, Fault, Received, Stop, Usage},
};
use rejoin_record::{Block, BlockKind, Message, Role, ToolCall};

use super::{Doing, Endpoint, Listener, Model, Provider, ProviderError, Request, SendProgress, Sending};

/// The provider's name, and that of its model.
pub const NAME: &str = "scripted";

/// The name that others know it by.
pub type MockProvider = ScriptedProvider;

/// What it does with one request.
#[derive(Debug, Clone)]
pub enum Step {
    /// It answers.
    Answer(ScriptedAnswer),
    /// It does not, and says why.
    Fail(ProviderError),
}

/// An answer: what is said, in which pieces, and how it ends.
#[derive(Debug, Clone)]
pub struct ScriptedAnswer {
    /// What the model says; none if it says nothing.
    pub message: Option<Message>,
    /// How many characters come at a time.
    pub piece: usize,
    /// How it ends.
    pub end: Finish,
    /// Tokens.
    pub usage: Option<Usage>,
}

/// How an answer ends.
#[derive(Debug, Clone)]
pub enum Finish {
    /// As the stream says.
    End(End),
    /// Not at all: nothing more arrives until the request is given up.
    Never,
}

impl Step {
    /// The model says something and asks for nothing.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self::answers(Message::assistant(text))
    }

    /// The model calls tools and says nothing.
    #[must_use]
    pub fn calls(calls: Vec<ToolCall>) -> Self {
        Self::answers(Message::assistant_with_tools(calls))
    }

    /// The model says something and calls tools.
    #[must_use]
    pub fn says_and_calls(text: &str, calls: Vec<ToolCall>) -> Self {
        let blocks = std::iter::once(Block::text(text)).chain(calls.into_iter().map(Block::call)).collect();
        Self::answers(Message::new(Role::Assistant, blocks))
    }

    /// The model's message.
    #[must_use]
    pub fn answers(message: Message) -> Self {
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        let end = Finish::End(End::Complete(Stop::Done));
        Self::Answer(ScriptedAnswer { message: Some(message), piece: usize::MAX, end, usage: Some(usage) })
    }

    /// There is no answer.
    #[must_use]
    pub fn fails(error: ProviderError) -> Self {
        Self::Fail(error)
    }

    /// Text and reasoning come so many characters at a time.
    #[must_use]
    pub fn in_pieces_of(mut self, characters: usize) -> Self {
        if let Self::Answer(answer) = &mut self {
            answer.piece = characters.max(1);
        }
        self
    }

    /// Then it is cut: what was said so far is all that comes.
    #[must_use]
    pub fn cut(self) -> Self {
        self.ending(Finish::End(End::Cut))
    }

    /// Then nothing more arrives until the request is given up.
    #[must_use]
    pub fn then_hangs(self) -> Self {
        self.ending(Finish::Never)
    }

    /// Then the provider says that something failed.
    #[must_use]
    pub fn then_fails(self, why: &str) -> Self {
        self.ending(Finish::End(End::Failed(Fault { kind: None, message: why.to_owned() })))
    }

    /// Then the model stops, for that reason.
    #[must_use]
    pub fn then_stops(self, stop: Stop) -> Self {
        self.ending(Finish::End(End::Complete(stop)))
    }

    fn ending(mut self, end: Finish) -> Self {
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

/// Writes the step to a request.
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
    /// What it does when the script has come to its end.
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
    /// One that does these things, one for each request, and has nothing to say after that.
    #[must_use]
    pub fn new(steps: impl IntoIterator<Item = impl Into<Step>>) -> Self {
        Self {
            endpoint: Endpoint { provider: NAME.into(), model: NAME.into(), ..Endpoint::default() },
            script: Mutex::new(steps.into_iter().map(Into::into).collect()),
            otherwise: None,
            requests: Mutex::default(),
        }
    }

    /// One that answers "OK." to everything.
    #[must_use]
    pub fn new_default() -> Self {
        Self::answering(|_| Step::says("OK."))
    }

    /// One whose answers depend on what it is asked.
    #[must_use]
    pub fn answering(author: impl Fn(&Request) -> Step + Send + Sync + 'static) -> Self {
        Self { otherwise: Some(Arc::new(author)), ..Self::new(<[Step; 0]>::default()) }
    }

    /// The same, with requests written in a dialect.
    #[must_use]
    pub fn speaking(mut self, dialect: Dialect) -> Self {
        self.endpoint.dialect = Some(dialect);
        self
    }

    /// The same, under another name and with another model.
    #[must_use]
    pub fn named(mut self, provider: &str, model: &str) -> Self {
        self.endpoint.provider = provider.to_owned();
        self.endpoint.model = model.to_owned();
        self
    }

    /// Adds to the script.
    pub fn then(&self, step: impl Into<Step>) {
        lock(&self.script).push_back(step.into());
    }

    /// Everything it was asked, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// The messages of the last request, each result a message of its own; none if there was no request.
    #[must_use]
    pub fn last_messages(&self) -> Vec<Message> {
        lock(&self.requests).last().map(Request::messages).unwrap_or_default()
    }

    /// The body of the last request, if it has a dialect and was asked.
    #[must_use]
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
            None => Step::Fail(ProviderError::Other(String::from("the script has come to its end"))),
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
                // The name of a tool comes whole.
                let size = if block.as_call().is_some() { usize::MAX } else { answer.piece };
                let mut rest = text;
                while !rest.is_empty() {
                    let end = rest.char_indices().nth(size).map_or(rest.len(), |(place, _)| place);
                    let (piece, behind) = rest.split_at(end);
                    listener(SendProgress::Delta(delta(piece.to_owned())));
                    rest = behind;
                    // As from a network: others get their turn in between.
                    tokio::task::yield_now().await;
                }
            }
            let end = match answer.end {
                Finish::End(end) => end,
                Finish::Never => std::future::pending().await,
            };
            let model = Some(self.endpoint.model.clone());
            Ok(Received { message: answer.message, end, model, usage: answer.usage })
        })
    }

    fn models(&self) -> Doing<'_, Result<Vec<Model>, ProviderError>> {
        let model = Model { id: self.endpoint.model.clone(), ..Model::default() };
        Box::pin(async { Ok(vec![model]) })
    }
}
