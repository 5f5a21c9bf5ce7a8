//! Who answers: the trait of every provider, and what goes in and out of it.
//!
//! A provider gets a [`Request`], which only a sound view can become, and streams the answer. It never appends anything,
//! never runs a tool and never repeats a request whose answer has begun.

#[cfg(feature = "network")]
pub mod catalogue;
#[cfg(feature = "network")]
pub mod choose;
#[cfg(feature = "network")]
pub(crate) mod connect;
#[cfg(feature = "network")]
pub mod decide;
mod error;
#[cfg(feature = "network")]
pub mod http;
pub mod offline;
#[cfg(feature = "network")]
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
    wire::stream::{Delta, Stop, Usage},
};
use rejoin_record::{Message, block::Origin};
use rejoin_view::{History, OnBroken, SoundView, repair};

use crate::turn;

/// Something that is being done.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a provider is and where it is: what reasoning is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// The provider's name, such as `anthropic`.
    pub provider: String,
    /// The provider's model; empty if none was chosen.
    pub model: String,
    /// The dialect that requests are written in; none for a provider that reads the view itself.
    pub dialect: Option<Dialect>,
    /// The address that requests go to, without secrets; none without a network. Reasoning is bound to it, so it is recorded with
    /// each answer.
    pub url: Option<String>,
    /// The provider's address, if it was given and is not the usual one. It is recorded, so that the next turn finds the
    /// provider again.
    pub base_url: Option<String>,
    /// A hash of the account, if there is one.
    pub account: Option<String>,
}

impl Endpoint {
    /// What is noted in reasoning that comes from here.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let text = |text: &Option<String>| text.as_deref().map(Into::into);
        Origin {
            dialect: self.dialect.map(|dialect| dialect.name().into()),
            provider: Some(self.provider.as_str().into()),
            endpoint: text(&self.url),
            account: text(&self.account),
            model: Some(self.model.as_str().into()),
            prefix: None,
            incomplete: false,
        }
    }
}

/// A request: what the model is to see.
#[derive(Debug, Clone)]
pub struct Request {
    /// The messages, sound.
    pub view: SoundView,
    /// Instructions and tools.
    pub context: Arc<Context>,
    /// The body in the provider's dialect; none if it has none.
    pub body: Option<Body>,
    /// Is set when the turn was stopped. A provider that watches it gives back what arrived, half a call included; one that does
    /// not is dropped a moment later.
    pub stop: turn::Stop,
}

impl Request {
    /// The messages, one after the other.
    #[must_use]
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

/// What is told while a request is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendProgress {
    /// A piece of the answer.
    Delta(Delta),
    /// It did not work, and is tried again.
    Retrying {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How long it waits before that.
        wait: std::time::Duration,
        /// What went wrong.
        why: String,
    },
}

/// A request that is being sent: what arrives of its answer.
pub type Sending<'a> = Doing<'a, Result<Received, ProviderError>>;

/// Takes what is told while a request is under way.
pub type Listener<'a> = &'a mut (dyn FnMut(SendProgress) + Send);

/// Who answers.
pub trait Provider: Send + Sync {
    /// What it is and where it is.
    fn endpoint(&self) -> &Endpoint;

    /// Fields that its requests have beside messages, instructions, tools and model, such as how long an answer may be. They
    /// are part of the context, in the provider's dialect.
    fn fields(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Whether reasoning of its own may be sent back to it. Some services refuse the fields that they issue themselves.
    fn replays_reasoning(&self) -> bool {
        true
    }

    /// Whether [`send`](Self::send), when the request's `stop` is set in the middle of an answer, gives back everything that it
    /// told so far. Then the turn keeps no copy of the answer, which may be large.
    fn gives_back_what_arrived(&self) -> bool {
        false
    }

    /// Sends a request and listens to the answer. If the future is dropped, the request is given up.
    ///
    /// An answer that was cut is no error here: what arrived is in it, and its end says so. An error means that nothing
    /// arrived.
    fn send<'a>(&'a self, request: &'a Request, listener: Listener<'a>) -> Sending<'a>;

    /// The models that it offers.
    fn models(&self) -> Doing<'_, Result<Vec<Model>, ProviderError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Asks once: any messages in, a whole answer out. Calls without results, and results without calls, do not go out.
    fn complete<'a>(
        &'a self,
        messages: &'a [Message],
        tools: &'a [ToolDeclaration],
    ) -> Doing<'a, Result<CompletionResponse, ProviderError>> {
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
            let mut response = CompletionResponse::of(received)?;
            respelled.unwrap_or_default().restore(&mut response.message);
            Ok(response)
        })
    }
}

/// A draft of a provider's requests.
pub(crate) fn draft_for<P: Provider + ?Sized>(provider: &P, dialect: Dialect, context: &Context) -> Draft {
    let endpoint = provider.endpoint();
    let model = Some(endpoint.model.clone()).filter(|_| dialect.wire().body_names_model);
    // Providers with a cache are told what to keep in it.
    let draft = Draft::new(dialect, context.clone(), model, endpoint.origin()).with_cache_marks();
    if provider.replays_reasoning() { draft } else { draft.without_reasoning() }
}

/// What surrounds the messages of a provider's requests.
#[must_use]
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

/// A whole answer.
#[derive(Debug, Clone)]
pub struct CompletionResponse {
    /// What the model said.
    pub message: Message,
    /// Tokens, where they were counted.
    pub token_usage: Option<Usage>,
    /// Why it stopped.
    pub stop: Stop,
}

impl CompletionResponse {
    /// A whole answer, or why it is none.
    ///
    /// # Errors
    /// If it was cut, or the provider failed in the middle of it.
    pub fn of(received: Received) -> Result<Self, ProviderError> {
        use rejoin_formats::wire::stream::End;
        let stop = match received.end {
            End::Complete(stop) => stop,
            End::Cut => return Err(ProviderError::Cut),
            End::Failed(fault) => return Err(ProviderError::from_fault(fault)),
            End::Garbage(why) => return Err(ProviderError::Garbage(why)),
        };
        let message = received.message.ok_or(ProviderError::Empty)?;
        Ok(Self { message, token_usage: received.usage, stop })
    }
}
