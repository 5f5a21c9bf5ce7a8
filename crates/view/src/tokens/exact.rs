//! Exact counts by OpenAI's tokenizers, in linear time for any text.
//!
//! The tokenizer takes more than linear time for a long text without a place to split it, such as a megabyte of one letter. So it
//! gets pieces. They end at a place where the tokenizer splits anyway, if there is one; otherwise a cut adds at most one token per
//! piece.

/// One of OpenAI's tokenizers, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encoding(&'static str);

impl Encoding {
    /// The tokenizer of a model, if it is one of OpenAI's.
    pub(super) fn of(model: &str) -> Option<Self> {
        super::tokenizer(model).map(Self)
    }

    /// Counts the tokens of a text. Control tokens in the text count as ordinary text. The first call loads the vocabulary.
    pub(super) fn count(self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        let vocabulary = tiktoken::get_encoding(self.0).expect("BUG: the vocabulary is built in");
        pieces(text).map(|piece| vocabulary.count(piece) as u64).sum()
    }
}

/// The longest piece, in bytes. Of the sizes that were measured, it is the fastest for the worst texts.
pub(super) const PIECE: usize = 4 * 1024;

/// Cuts a text into pieces of at most [`PIECE`] bytes.
pub(super) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(cut(text));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The end of the first piece. Only the second half of the longest possible piece is searched, so every piece except the last has
/// at least half that length, and finding its end takes no longer than counting it.
fn cut(text: &str) -> usize {
    if text.len() <= PIECE {
        return text.len();
    }
    let longest = text.floor_char_boundary(PIECE);
    let bytes = text.as_bytes();
    let found = (PIECE / 2..longest).rev().find(|at| splits(&bytes[at - 1..at + 2]));
    found.unwrap_or(longest)
}

/// Whether both tokenizers split between the first two of these bytes: before a space between two words, and between a line break
/// and a word.
fn splits(around: &[u8]) -> bool {
    match around {
        [before, b' ', after] => before.is_ascii_alphabetic() && after.is_ascii_alphabetic(),
        [b'\n', word, _] => word.is_ascii_alphabetic(),
        _ => false,
    }
}
