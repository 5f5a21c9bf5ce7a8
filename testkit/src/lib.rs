//! What rejoin's tests are made of: generators of conversations in every state of disrepair, with the truth about what
//! was put into them. Nothing here ships, and the generators use nothing of the code under test; `fuzz` and
//! `faults` are what runs it. `loopback` is a provider to talk to.

pub mod bodies;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "loopback")]
pub mod loopback;
pub mod scan;

/// Why the provider of a dialect would refuse a body whose model may still be missing; empty if it would accept it.
///
/// # Panics
/// If no dialect has that name.
#[must_use]
pub fn refusals(dialect: impl std::fmt::Display, body: &[u8]) -> Vec<rejoin_checkers::Violation> {
    let checker = rejoin_checkers::named(&dialect.to_string()).expect("BUG: a dialect without a checker");
    checker.check_draft(body).violations
}
