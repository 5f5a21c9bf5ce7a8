//! Session formats: other tools' files, read into conversations. The list is in `registry.rs`.

pub mod registry;

pub use registry::{FORMATS, Format, detect, read};
