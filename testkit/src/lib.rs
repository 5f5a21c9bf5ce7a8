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
