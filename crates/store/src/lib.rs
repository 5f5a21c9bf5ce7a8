//! Storage of conversations.
//!
//! A [`Store`] keeps entries and gives them back byte for byte. Entries are appended after an expected tail and are durable when
//! `append` returns. A store knows envelopes, hashes and order, and does not interpret content: titles, states and search words
//! come from a [`Digester`] that the caller provides.
//!
//! `sqlite/`, `jsonl/`, `postgres/` and `memory` implement the trait and pass one suite of tests. To add a store, add a folder and a line in
//! `open.rs`.

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
pub use spool::{LeftUnsaved, Spool, Spooled, has_unsaved};
pub use store::{
    Cursor, Damage, Each, EachPiece, EachProblem, Enabled, Erasure, Excerpt, Hit, Page, PartRead, Problem,
    Progress, ProgressHook, Query, Search, Selected, Size, StoragePlace, Store, StoreOption, StoredItem,
    Verified,
};
pub use summary::{About, Filter, OWN_AGENT, SessionState, Summary};
