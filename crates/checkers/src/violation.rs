//! One reason for a refusal.

use std::fmt;

/// One reason why a provider would refuse a request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule as the rulebook names it, such as `ANT-01`, `OAC-02` or `SAN-02`; `ANT-schema` and
    /// `OAC-schema` cover what the API's types refuse and no other rule names.
    pub rule: &'static str,
    /// The position of the fault, such as `messages.3.content.0`; `body` for the request as a whole.
    pub path: String,
    /// The provider's own words, with ids and indexes filled in.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(rule: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Violation { rule, path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.rule, self.path, self.message)
    }
}

#[test]
fn a_violation_reads_rule_place_words() {
    let violation = Violation::new("ANT-01", "messages.3", "no result");
    assert_eq!(violation.to_string(), "ANT-01 at messages.3: no result");
}
