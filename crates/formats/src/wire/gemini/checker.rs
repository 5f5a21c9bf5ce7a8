//! What Google's API would refuse. It stands apart from the codec; this one knows no rule yet.

use crate::wire::Violation;

/// The reasons why the API would refuse a body.
#[must_use]
pub fn check(_body: &[u8]) -> Vec<Violation> {
    Vec::new()
}
