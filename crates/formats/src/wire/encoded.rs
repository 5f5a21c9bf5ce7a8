//! What goes in and out of a codec.

use rejoin_record::{Message, Text, json::Value};
use rejoin_view::{Finding, Position};

/// A request body, and what was done to get it.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The body, JSON.
    pub body: String,
    /// What had to be changed for this dialect, at the positions of the view's messages.
    pub findings: Vec<Finding>,
    /// Call ids that got another spelling: ours, theirs.
    pub ids: Vec<(String, String)>,
    /// Tool names that got another spelling: ours, theirs.
    pub names: Vec<(String, String)>,
    /// A hash of everything that an answer to the body stands on: reasoning in it is bound to that.
    pub prefix: Text,
}

/// The provider takes nothing this large. No law covers size: somebody must choose what to leave out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {size}, the provider takes at most {limit} ({rule})")]
pub struct TooLarge {
    /// The provider's rule.
    pub rule: &'static str,
    /// What is too large.
    pub what: &'static str,
    /// How large it is.
    pub size: usize,
    /// What the provider takes.
    pub limit: usize,
    /// Where it is.
    pub at: Position,
}

/// A whole response as a message.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// What the model said.
    pub message: Message,
    /// The model that the response names.
    pub model: Option<String>,
    /// Why it stopped, in the provider's word.
    pub stop_reason: Option<String>,
    /// Tokens of the request and of the answer, where the response counts them.
    pub usage: Option<(u64, u64)>,
}

/// Why bytes are not a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, not even at the beginning.
    #[error("the response is not JSON: {0}")]
    NotJson(#[from] rejoin_record::json::SyntaxError),
    /// JSON that is no response.
    #[error("the response has no {0}")]
    Missing(&'static str),
    /// The provider says that it failed.
    #[error("the provider answered: {0}")]
    Provider(String),
}

impl DecodeError {
    /// What a response says that failed, in its field `error`: a text, or an object with a message.
    pub(crate) fn said_by(response: Value<'_>) -> Option<Self> {
        let error = response.given("error")?;
        let words = error.as_str().or_else(|| error.get("message")?.as_str());
        Some(Self::Provider(words.unwrap_or_else(|| error.raw().into()).into_owned()))
    }
}
