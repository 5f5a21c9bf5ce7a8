//! Limits for everything that could otherwise grow without bound.

/// One line of a session file, or one request body. A conversation of a million tokens is about 5 MiB; with images
/// it may be tens of times that. Larger input is refused before it is read into memory.
pub const BODY_BYTES: usize = 256 * 1024 * 1024;

/// One answer of a provider, in received bytes. The longest text of a model is about 1 MiB; with a few images, an answer may be
/// tens of MiB. Reading stops here; by then, the answer takes about four times as much memory.
pub const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Nesting in arguments and unknown fields. Providers' parsers stop at about a hundred levels, so anything deeper is kept as
/// raw text and never sent as JSON.
pub const NESTING: usize = 128;

/// Words of a search. Each one is looked up in the index and searched for in every hit.
pub const QUERY_WORDS: usize = 256;

/// A title: one line of a terminal list.
pub const TITLE_CHARS: usize = 60;

/// Entries of one conversation. A sequence number is written as JSON and must stay exact in readers that use doubles.
pub const ENTRIES: u64 = 1 << 53;
