//! Providers: the trait that each implements, and what it takes and returns.
//!
//! A provider gets a [`Request`], which is always made from a sound view, and streams the answer. It never appends entries, runs a
//! tool, or repeats a request whose answer has begun.

pub mod catalogue;
pub mod choose;
pub(crate) mod connect;
pub mod decide;
mod error;
pub mod http;
pub mod offline;
pub mod registry;
#[cfg(feature = "testing")]
pub mod scripted;

use std::{future::Future, pin::Pin, sync::Arc};

pub use error::{ProviderError, ProviderFault, UntrustedAddress};
pub use rejoin_formats::wire::stream::Received;
use rejoin_formats::{
    Context, Dialect, Draft,
    context::ToolDeclaration,
    draft::Body,
    wire::stream::{Delta, StopReason, Usage},
};
use rejoin_record::{Message, block::Origin};
use rejoin_view::{History, OnBroken, SoundView, repair};

use crate::turn;

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The provider, model and address that a [`ProviderChoice`](crate::ProviderChoice) resolved to. Reasoning is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// The provider's name, such as `anthropic`.
    pub provider: String,
    /// The provider's model; empty if none was chosen.
    pub model: String,
    /// The dialect of requests; `None` for a provider that reads the view itself.
    pub dialect: Option<Dialect>,
    /// The addresses of requests.
    pub address: ServiceAddress,
    /// A hash of the account, if there is one.
    pub account: Option<String>,
}

impl Endpoint {
    /// The origin that is recorded with reasoning from here.
    pub fn origin(&self) -> Origin {
        let text = |text: &Option<String>| text.as_deref().map(Into::into);
        Origin {
            dialect: self.dialect.map(|dialect| dialect.name().into()),
            provider: Some(self.provider.as_str().into()),
            endpoint: text(&self.address.url),
            account: text(&self.account),
            model: Some(self.model.as_str().into()),
            prefix: None,
            incomplete: false,
        }
    }
}

/// The addresses of a provider, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceAddress {
    /// The address of requests; `None` without a network. It is recorded with each answer, because reasoning is bound to it.
    pub url: Option<String>,
    /// The base address if the caller gave one that differs from the default. It is recorded, so that the next turn finds the
    /// provider again.
    pub base_url: Option<String>,
}

/// A request: everything that the model sees.
#[derive(Debug, Clone)]
pub struct Request {
    /// The messages, as a sound view.
    pub view: SoundView,
    /// The indexes of messages that retell others: a summary of hidden messages, or a transcript. Nobody said them.
    pub retold: Vec<usize>,
    /// Instructions and tools.
    pub context: Arc<Context>,
    /// The body in the provider's dialect; `None` if the provider has no dialect.
    pub body: Option<Body>,
    /// Set when the turn is stopped. A provider that watches it returns the part of the answer that arrived, including an
    /// incomplete call. If a provider ignores it, its future is dropped a moment later.
    pub stop: turn::Stop,
}

impl Request {
    /// The messages as a list.
    pub fn messages(&self) -> Vec<Message> {
        self.view.to_messages()
    }
}

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// The model's name in requests.
    pub id: String,
    /// The model's name for people, if it differs.
    pub name: Option<String>,
    /// The size of the model's window in tokens, as the provider states it. Some providers subtract the room for the answer.
    pub window: Option<u64>,
    /// The most tokens of an answer; `None` if the provider does not say.
    pub max_output: Option<u64>,
}

/// The progress of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendProgress {
    /// A piece of the answer.
    Delta(Delta),
    /// An attempt failed, and another one follows.
    Retrying {
        /// The number of the next attempt, from 2.
        attempt: u32,
        /// The time until then.
        wait: std::time::Duration,
        /// Why the last attempt failed, in words for a person.
        why: String,
    },
}

/// A request in progress, which resolves to the part of the answer that arrived.
pub type Sending<'a> = BoxFuture<'a, Result<Received, ProviderError>>;

/// Receives the progress of a request.
pub type Listener<'a> = &'a mut (dyn FnMut(SendProgress) + Send);

/// A service with models, or a substitute for one.
pub trait Provider: Send + Sync {
    /// The provider's name, model and address.
    fn endpoint(&self) -> &Endpoint;

    /// The request fields other than messages, instructions, tools and model, such as the longest answer, in the provider's
    /// dialect.
    fn fields(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The size of the model's window in tokens, if the provider knows it without a request. It takes precedence over the
    /// [`catalogue`].
    fn window(&self) -> Option<u64> {
        None
    }

    /// Whether the provider accepts the reasoning that it issued. Some services refuse their own fields.
    fn replays_reasoning(&self) -> bool {
        true
    }

    /// Whether [`send`](Self::send) returns everything that it has reported if the request's `stop` is set in the middle of an
    /// answer. Then the turn keeps no copy of the answer, which may be large.
    fn returns_partial_answer(&self) -> bool {
        false
    }

    /// Begins what the first request would otherwise wait for, such as reading the system's certificates, and returns at once.
    fn prepare(&self) {}

    /// Sends a request and reads the answer. Dropping the future cancels the request.
    ///
    /// An answer that was cut is not an error: it holds the part that arrived, and its end is marked as cut. An error means that
    /// nothing arrived.
    fn send<'a>(&'a self, request: &'a Request, listener: Listener<'a>) -> Sending<'a>;

    /// Lists the models that it offers.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Model>, ProviderError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Sends messages once and returns the complete answer. Calls without results, and results without calls, are left out.
    fn complete<'a>(
        &'a self,
        messages: &'a [Message],
        tools: &'a [ToolDeclaration],
    ) -> BoxFuture<'a, Result<CompletionResponse, ProviderError>> {
        Box::pin(async move {
            let history: History = messages.iter().cloned().collect();
            let view = repair(&history, OnBroken::Drop).view;
            let endpoint = self.endpoint();
            let context = context_of(self.fields(), endpoint.dialect, None, tools.to_vec());
            let drafted = match endpoint.dialect {
                None => None,
                Some(dialect) => Some(draft_for(self, dialect, &context).request(&view)?),
            };
            let (body, respelled) = drafted.map(|drafted| (drafted.body, drafted.respelled)).unzip();
            let (retold, context) = (Vec::new(), Arc::new(context));
            let request = Request { view, retold, context, body, stop: turn::Stop::new() };
            let received = self.send(&request, &mut |_| {}).await?;
            let stop = ProviderError::unless_complete(received.end, &endpoint.provider)?;
            let mut message = received.message.ok_or(ProviderError::Empty)?;
            respelled.unwrap_or_default().restore(&mut message);
            Ok(CompletionResponse { message, token_usage: received.usage, stop })
        })
    }
}

pub(crate) fn draft_for<P: Provider + ?Sized>(provider: &P, dialect: Dialect, context: &Context) -> Draft {
    let endpoint = provider.endpoint();
    let model = Some(endpoint.model.clone()).filter(|_| dialect.wire().body_names_model);
    // Mark which messages a provider with a cache should keep in it.
    let draft = Draft::new(dialect, context.clone(), model, endpoint.origin()).with_cache_marks();
    if provider.replays_reasoning() { draft } else { draft.without_reasoning() }
}

/// The fields around the messages of a provider's requests.
pub fn context_of(
    fields: Vec<(&'static str, String)>,
    dialect: Option<Dialect>,
    instructions: Option<&str>,
    offered: Vec<ToolDeclaration>,
) -> Context {
    let given = instructions.is_some_and(|text| !text.trim().is_empty());
    let instructions = instructions.map(Into::into);
    let mut context = Context { dialect, whole_body: true, instructions, offered, ..Context::default() };
    // Instructions among the fields are only a default.
    for (name, value) in fields.into_iter().filter(|(name, _)| *name != "instructions" || !given) {
        context.put(name, &value);
    }
    context.before_messages = context.fields.len();
    context
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct CompletionResponse {
    /// The model's message.
    pub message: Message,
    /// The tokens of the request and the answer, if the provider counted them.
    pub token_usage: Option<Usage>,
    /// Why the model stopped.
    pub stop: StopReason,
}
