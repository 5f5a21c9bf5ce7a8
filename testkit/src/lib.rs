//! What rejoin's tests are made of: generators of conversations in every state of disrepair, with the truth about what
//! was put into them. Nothing here ships, and nothing here uses the code under test.

pub mod bodies;
pub mod scan;
