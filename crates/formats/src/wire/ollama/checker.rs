//! What the provider refuses in a request body.

use super::super::Violation;

/// Every reason why the provider would refuse the body.
pub fn check(_: &[u8]) -> Vec<Violation> {
    Vec::new()
}
