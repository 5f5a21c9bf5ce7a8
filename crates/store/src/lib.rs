//! Storage of conversations.
//!
//! A [`Store`] keeps entries and returns them byte for byte. Entries are appended after an expected tail and are durable when
//! `append` returns. A store knows envelopes, hashes and order, but does not interpret content: titles, states and search words
//! come from a [`Digester`] that the caller provides.
//!
//! `sqlite/`, `jsonl/`, `postgres/` and `memory` implement the trait and pass one shared test suite. To add a store, add a folder
//! and a line in `open.rs`.

mod aside;
mod backend;
pub mod digest;
mod drafts;
mod error;
pub mod files;
mod index;
pub mod jsonl;
mod location;
pub mod lock;
pub mod memory;
mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
mod probe;
mod report;
mod row;
mod scan;
mod scope;
mod scoped;
mod spool;
mod sql;
pub mod sqlite;
mod store;
pub mod summary;

pub use digest::{Digest, Digester, Summarize, Title, Words};
pub use drafts::{DraftFile, Drafts};
pub use error::{StoreError, StoreResult};
pub use location::{Address, Location, LocationError, hidden};
pub use lock::{Holder, Lock};
pub use open::{Access, Options, each_history, open};
pub use probe::try_writing;
pub use report::{AnsweredCall, CallRow, FunctionColumns, MessageRow, ReportRows};
pub use scope::{ScopeError, ScopeFilter};
pub use scoped::Scoped;
pub use spool::{Spool, Spooled, UnsavedEntries, has_unsaved};
pub use store::{
    Cursor, Damage, EachProblem, EnableOutcome, Erasure, Excerpt, Hit, OnItem, OnPiece, Page, PartRead,
    Problem, Progress, ProgressHook, Query, Search, Selection, Size, StoragePlace, Store, StoreOption,
    StoredItem, Verified,
};
pub use summary::{About, Filter, OWN_AGENT, SessionState, Summary};
