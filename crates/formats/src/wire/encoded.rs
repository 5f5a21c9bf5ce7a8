//! The result of an encoder.

use rejoin_record::Text;
use rejoin_view::{Finding, List, Position};

use super::names::SpellingMap;

/// A request body, and what was done to get it.
#[derive(Debug, Clone)]
pub struct Encoded<B = String> {
    /// The body as JSON.
    pub body: B,
    /// What had to be changed for this dialect, at the positions of the view's messages.
    pub findings: Vec<Finding>,
    /// The ids and tool names that are spelled differently, needed to read the answer.
    pub respelled: SpellingMap,
    /// A hash of everything that the answer is based on: reasoning in the answer is bound to it. `None` if the issuer of the
    /// answer is not known.
    pub prefix: Option<Text>,
    /// The message of the view's source that each message of the body was written for; none for one that was added.
    pub sources: List<Option<usize>>,
}

impl Encoded<()> {
    pub(crate) fn with<B>(self, body: B) -> Encoded<B> {
        let Self { findings, respelled, prefix, sources, .. } = self;
        Encoded { body, findings, respelled, prefix, sources }
    }
}

/// A limit of the provider that a request exceeds. Only the user can decide what to leave out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {size}, the provider takes at most {limit} ({rule})")]
pub struct TooLarge {
    /// The provider's rule.
    pub rule: &'static str,
    /// What is too large, with its unit.
    pub what: &'static str,
    /// Its size.
    pub size: usize,
    /// The provider's limit.
    pub limit: usize,
    /// Where it is.
    pub at: Position,
}
