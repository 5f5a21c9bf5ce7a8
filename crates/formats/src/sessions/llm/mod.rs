//! `llm`: the database of the command-line tool `llm`, `logs.db`, in both of its forms.
//!
//! Since 0.32 a conversation is a thread: a chain of messages that are named by their hashes, each with parts. Older conversations
//! are rows of `responses`, each with a prompt, an answer, the results that the prompt carried and the calls that the answer made.
//! `read.rs` reads both; `write.rs` writes threads, and `canonical.rs` names their messages.

mod blake2b;
mod canonical;
mod read;
mod write;

use crate::accounting::Known;

pub(crate) use read::DATABASE;
pub(crate) use write::write;

/// The name of the format.
pub const FORMAT: &str = "llm";

/// What a provider said beside the text, and the pieces of a text that is put together from fragments.
pub(crate) const KNOWN: &[Known] =
    &[Known::fields("parts.provider_metadata parts.text_ref provider_metadata")];
