//! Works with conversations: reads, writes, imports, forks, copies and erases them, and runs turns with a model.
//!
//! Only this crate uses clock and randomness; the crates below it do not. It does not print, read the environment or look for the
//! home folder: the caller passes such places in.

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod approval;
#[cfg(feature = "agent")]
pub mod auth;
pub mod calls;
#[cfg(feature = "agent")]
pub mod changes;
pub mod clock;
pub mod compat;
pub mod conversation;
mod copy;
mod digest;
mod draft;
mod error;
mod import;
#[cfg(feature = "agent")]
pub mod manager;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "agent")]
pub mod provider;
#[cfg(feature = "agent")]
mod provider_choice;
pub mod reading;
mod removal;
mod report;
pub mod resolve;
#[cfg(feature = "agent")]
pub mod sandbox;
mod state;
mod tool_messages;
#[cfg(feature = "agent")]
pub mod tools;
#[cfg(feature = "agent")]
pub mod turn;
mod unsaved;
mod writer;

#[cfg(feature = "agent")]
pub use agent::Agent;
pub use calls::{CallErrorKind, CallKey, CallRecord, CallStatus, CallTimes};
pub use clock::{Clock, SystemClock};
#[cfg(feature = "agent")]
pub use conversation::LockTiming;
pub use conversation::{Appended, Conversation, Pinning, PruneReport, Saved, TurnsPruned, Window};
pub use digest::{digest, time_of};
pub use draft::{list, summary};
pub use error::EngineError;
pub use import::{ImportMemory, ImportTrail};
#[cfg(feature = "agent")]
pub use manager::{ConversationManager, ManagerError, RunningConversation};
#[cfg(feature = "agent")]
pub use provider_choice::{AnswerSettings, Effort, ProviderChoice};
pub use reading::{Mode, Recorded, read};
pub use rejoin_store::SessionState;
pub use removal::{Removal, Sharer, removal};
pub use resolve::{NamedConversation, names_exactly, resolve, resolve_id};
pub use writer::{Copied, Growth, Imported, New, TakeBackOutcome, Writer};

#[cfg(feature = "agent")]
pub use rejoin_formats::context;
use rejoin_store::{Access, Location, Options, Store, StoreError};
/// Re-exported because tools receive their arguments as JSON values.
#[cfg(feature = "agent")]
pub use serde_json;

/// Opens a store of rejoin's conversations.
///
/// # Errors
/// [`StoreError::Missing`] if it is opened for reading and does not exist; otherwise the reason why it cannot be opened.
pub fn open_store(location: &Location, access: Access) -> Result<Box<dyn Store>, StoreError> {
    let open = |access| rejoin_store::open(location, Options { access, digester: digest });
    let store = match open(access) {
        // The tables may be missing because all entries so far are waiting on this machine. Delivering them creates the tables.
        Err(missing @ StoreError::Missing(_)) if rejoin_store::has_unsaved(location) => {
            let delivered = open(Access::Write).map(|store| unsaved::deliver(&*store));
            delivered.map_err(|_| missing)?;
            return open(access);
        }
        opened => opened?,
    };
    if store.spool().is_some_and(|spool| !spool.conversations().is_empty()) {
        match access {
            Access::Write => unsaved::deliver(&*store),
            // Deliver first, so that a list shows entries that an earlier process could not save.
            Access::Read => {
                let _ = open(Access::Write).map(|store| unsaved::deliver(&*store));
            }
        }
    }
    Ok(store)
}
