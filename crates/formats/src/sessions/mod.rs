//! Session formats: the files in which tools store conversations. `registry.rs` lists them.

mod agents;
mod begun;
pub(crate) mod building;
mod chats;
mod claude_code;
mod codex;
mod cody;
#[cfg(feature = "sqlite")]
mod crush;
#[cfg(feature = "sqlite")]
pub mod database;
mod goose;
mod growing;
mod inspect;
mod instructions;
pub mod jsonl;
mod lines;
#[cfg(feature = "sqlite")]
mod llm;
mod markdown;
#[cfg(feature = "sqlite")]
mod message_rows;
mod nearest;
mod notes;
#[cfg(feature = "sqlite")]
mod openai_agents;
mod opencode;
mod openhands;
mod opening;
mod orchestration;
mod ploke;
mod prelude;
mod prometheus;
pub mod registry;
pub mod resend;
#[cfg(feature = "sqlite")]
pub mod rows;
pub(crate) mod sample;
#[cfg(feature = "sqlite")]
mod spoken;
mod table;
mod trajectories;
pub mod turns;
mod writing;
mod xzatoma;

pub use growing::GrowingFile;
pub use nearest::{Likeness, Nearest};
pub use registry::{
    FORMATS, Format, Reading, Resend, claim_files, claims, detect, detect_lines, function_columns,
    is_storage, named, owns, read, read_detected, read_files, storages, write,
};
pub use resend::ResentMessages;
pub use sample::{Claim, Sample};
pub use writing::{FileContent, Writing, Written};
#[cfg(feature = "sqlite")]
pub use {
    database::Database,
    registry::read_database,
    rows::{Rows, RowsError},
};
