//! Providers: the trait that each implements, and what it takes and returns.
//!
//! A provider gets a [`Request`], which only a sound view can become, and streams the answer. It never appends anything,
//! never runs a tool and never repeats a request whose answer has begun.

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

/// The provider, model and address that a [`ProviderChoice`](crate::ProviderChoice) came to. Reasoning is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// The provider's name, such as `anthropic`.
    pub provider: String,
    /// The provider's model; empty if none was chosen.
    pub model: String,
    /// The dialect that requests are written in; none for a provider that reads the view itself.
    pub dialect: Option<Dialect>,
    /// Where requests go.
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

/// The address of a provider, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceAddress {
    /// The address that requests go to; none without a network. Reasoning is bound to it, so it is recorded with each answer.
    pub url: Option<String>,
    /// The provider's base address, if it was given and is not the usual one. It is recorded, so that the next turn finds the
    /// provider again.
    pub base_url: Option<String>,
}

/// A request: what the model sees.
#[derive(Debug, Clone)]
pub struct Request {
    /// The messages, sound.
    pub view: SoundView,
    /// Instructions and tools.
    pub context: Arc<Context>,
    /// The body in the provider's dialect; none if it has none.
    pub body: Option<Body>,
    /// Is set when the turn is stopped. A provider that watches it returns what arrived, including an incomplete call. The future of
    /// a provider that ignores it is dropped a moment later.
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
    /// The size of the model's window in tokens, as the provider gives it. Some providers leave the room for the
    /// answer out of it.
    pub window: Option<u64>,
    /// The number of tokens that an answer may have; none if the provider does not say.
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
        /// Why the last attempt failed.
        why: String,
    },
}

/// A request that is being sent; the result is what arrives of its answer.
pub type Sending<'a> = BoxFuture<'a, Result<Received, ProviderError>>;

/// Receives the progress of a request.
pub type Listener<'a> = &'a mut (dyn FnMut(SendProgress) + Send);

/// A service that answers, or something that stands in for one.
pub trait Provider: Send + Sync {
    /// The provider's name, model and address.
    fn endpoint(&self) -> &Endpoint;

    /// The request fields other than messages, instructions, tools and model, such as the longest answer, in the provider's
    /// dialect.
    fn fields(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The size of the model's window in tokens, if the provider tells it without being asked. It takes precedence over the
    /// [`catalogue`].
    fn window(&self) -> Option<u64> {
        None
    }

    /// Whether it accepts the reasoning that it issued. Some services refuse their own fields.
    fn replays_reasoning(&self) -> bool {
        true
    }

    /// Whether [`send`](Self::send) returns everything that it reported so far when the request's `stop` is set in the middle of an
    /// answer. Then the turn keeps no copy of the answer, which may be large.
    fn gives_back_what_arrived(&self) -> bool {
        false
    }

    /// Sends a request and reads the answer. Dropping the future cancels the request.
    ///
    /// An answer that was cut is no error: it holds what arrived, and its end says that it was cut. An error means that nothing
    /// arrived.
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
            let request = Request { view, context: Arc::new(context), body, stop: turn::Stop::new() };
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
    // Tell providers that have a cache what to keep in it.
    let draft = Draft::new(dialect, context.clone(), model, endpoint.origin()).with_cache_marks();
    if provider.replays_reasoning() { draft } else { draft.without_reasoning() }
}

/// What surrounds the messages of a provider's requests.
pub fn context_of(
    fields: Vec<(&'static str, String)>,
    dialect: Option<Dialect>,
    instructions: Option<&str>,
    offered: Vec<ToolDeclaration>,
) -> Context {
    let given = instructions.is_some_and(|text| !text.trim().is_empty());
    let instructions = instructions.map(Into::into);
    let mut context = Context { dialect, whole_body: true, instructions, offered, ..Context::default() };
    // Instructions among the fields are a default.
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
