//! Providers' bodies and other tools' session files: from bytes to messages and back.
//!
//! `wire/` has one folder for each provider's dialect: reading, writing and streams. `messages/` reads the lists of messages
//! that several dialects share. `sessions/` lists the formats that conversations are read from. Nothing here opens a file or a socket, other than the databases of other programs: bytes
//! come in, bytes go out.
//!
//! To add a dialect, add a folder under `wire/` and a line to `wire/registry.rs`; to add a session format, a line to
//! `sessions/registry.rs`.

pub mod accounting;
pub mod context;
pub mod convert;
pub mod draft;
pub mod input;
mod media;
mod messages;
mod parallel;
pub mod session;
pub mod sessions;
mod unused_ids;
pub mod wire;

pub use context::Context;
pub use convert::{Choice, ConvertError, Converted, Target, convert, convert_with};
pub use draft::Draft;
pub use input::Input;
pub use media::image_type;
pub use session::{ReadError, Session};
pub use wire::registry::Dialect;
