//! What an encoder gives.

use rejoin_record::Text;
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
    /// A hash of everything that an answer to the body stands on: reasoning in it is bound to that. Known if it is known who
    /// answers.
    pub prefix: Option<Text>,
}

/// The provider takes nothing this large. No law covers size: someone must choose what to leave out.
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
