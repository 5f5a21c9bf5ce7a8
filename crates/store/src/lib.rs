//! Where conversations are kept, for good.
//!
//! A [`Store`] keeps entries and gives them back byte for byte: appended after an expected tail, durable when `append`
//! returns. It knows envelopes, hashes and order. What an entry *says* it does not interpret: for titles, states and search
//! it is given a [`Digester`].
//!
//! `sqlite/`, `jsonl/` and `memory` stand behind the one trait, and pass the one suite in `tests/`. To add a home, add a
//! folder and a line to `open.rs`.

mod aside;
pub mod digest;
mod drafts;
mod error;
pub mod files;
#[cfg(feature = "sqlite")]
mod index;
pub mod jsonl;
mod location;
pub mod lock;
pub mod memory;
mod open;
mod probe;
mod scan;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
pub mod summary;

pub use digest::{Digest, Digester, Speaker, Step, Title, Words};
pub use drafts::{DraftFile, Drafts};
pub use error::StoreError;
pub use location::{Location, LocationError, hidden};
pub use lock::{Holder, Lock};
pub use open::{Access, Options, open};
pub use probe::try_writing;
pub use store::{
    Cursor, Damage, Each, Excerpt, Hit, Item, Page, Place, Problem, Progress, ProgressHook, Query, Search,
    Size, Store, Verified,
};
pub use summary::{Filter, OWN_AGENT, State, Summary};
