//! The growing list of messages in a body. Settled messages are shared by every body that has them.
//!
//! The list is text: messages separated by commas. For dialects that join neighbours of one role, a message can stay open; its
//! end is then written when the next one begins.

use std::{ops::Range, sync::Arc};

use rejoin_record::{Text, json::write};
use rejoin_view::List;

/// The end of an open message.
const END: &str = "]}";

/// The most bytes of room that is kept for the next piece of text.
const KEPT: usize = 1 << 16;

/// How many bytes wait to be hashed together: many at once are hashed several times as fast.
const BATCH: usize = 1 << 15;

/// The text of a list of messages, without its brackets.
#[derive(Debug, Clone)]
pub struct ListText {
    settled: List<Arc<str>>,
    /// The text since the last settled piece.
    fresh: String,
    length: usize,
    /// The message of the source that the next message is written for; none for one that rejoin adds.
    pub source: Option<usize>,
    /// The same of each message that was written.
    sources: List<Option<usize>>,
    /// Whether the open message has a part yet.
    open: Option<bool>,
    /// The hash of all settled text and of the fresh text up to `absorbed`, without the end of it that waits to be hashed.
    hash: blake3::Hasher,
    waiting: String,
    absorbed: usize,
    /// The places of the last two user messages.
    by_user: [Option<Stretch>; 2],
}

/// The place of a message in the list.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The number of its piece; the number after the last piece means the fresh text.
    pub piece: usize,
    /// The message's bytes in the piece.
    pub bytes: Range<usize>,
}

impl Default for ListText {
    fn default() -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(b"rejoin prefix 1");
        Self {
            settled: List::default(),
            fresh: String::new(),
            length: 0,
            source: None,
            sources: List::default(),
            open: None,
            hash,
            waiting: String::new(),
            absorbed: 0,
            by_user: [None, None],
        }
    }
}

impl ListText {
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The message of the source that each message was written for.
    pub fn sources(&self) -> &List<Option<usize>> {
        &self.sources
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    pub fn length(&self) -> usize {
        self.length
    }

    pub fn push(&mut self, json: &str) {
        self.push_with(|out| out.push_str(json));
    }

    /// Adds a message that `write` appends, and returns its place in the fresh text.
    pub fn push_with(&mut self, write: impl FnOnce(&mut String)) -> Range<usize> {
        self.next();
        let start = self.fresh.len();
        write(&mut self.fresh);
        self.length += self.fresh.len() - start;
        start..self.fresh.len()
    }

    /// Adds a user message that `write` appends.
    pub fn push_by_user(&mut self, write: impl FnOnce(&mut String)) {
        let bytes = self.push_with(write);
        self.by_user.swap(0, 1);
        self.by_user[1] = Some(Stretch { piece: self.settled.len(), bytes });
    }

    /// Begins a message with a role that stays open. Its parts go in the list `parts`, its last field.
    pub fn open(&mut self, role: &str, parts: &str) {
        self.push_with(|out| {
            out.push('{');
            write::key(out, "role");
            write::string(out, role);
            write::key(out, parts);
            out.push('[');
        });
        self.open = Some(false);
    }

    pub fn part(&mut self, json: &str) {
        if let Some(some) = &mut self.open
            && std::mem::replace(some, true)
        {
            self.write(",");
        }
        self.write(json);
    }

    pub fn close(&mut self) {
        if self.open.take().is_some() {
            self.write(END);
        }
    }

    fn next(&mut self) {
        self.close();
        if !self.is_empty() {
            self.write(",");
        }
        self.sources.push(self.source);
    }

    fn write(&mut self, text: &str) {
        self.fresh.push_str(text);
        self.length += text.len();
    }

    /// Turns everything written so far into a piece that copies share.
    pub fn settle(&mut self) {
        if !self.fresh.is_empty() {
            self.absorb();
            self.settled.push(Arc::from(self.fresh.as_str()));
            // The next piece is about as long, so its text need not grow again.
            self.fresh.clear();
            self.fresh.shrink_to(KEPT);
            self.absorbed = 0;
        }
    }

    /// Adds to the hash the part of the fresh text that is not in it yet.
    fn absorb(&mut self) {
        let new = &self.fresh[self.absorbed..];
        self.absorbed = self.fresh.len();
        if self.waiting.len() + new.len() < BATCH {
            self.waiting.push_str(new);
        } else {
            self.hash.update(self.waiting.as_bytes()).update(new.as_bytes());
            self.waiting.clear();
        }
    }

    /// A hash of the list, of the text `before` it, and of the `next` message if one is held back; as if all were complete.
    pub fn prefix(&mut self, before: &str, next: Option<&str>) -> Text {
        self.absorb();
        self.hash.update(self.waiting.as_bytes());
        self.waiting.clear();
        let mut hash = self.hash.clone();
        if self.open.is_some() {
            hash.update(END.as_bytes());
        }
        if let Some(next) = next {
            hash.update(if self.is_empty() { b"" } else { b"," });
            hash.update(next.as_bytes());
        }
        // No message contains this separator, so messages cannot be mistaken for the text before them.
        hash.update(b"]\n");
        hash.update(before.as_bytes());
        Text::from(hash.finalize().to_hex().to_string())
    }

    pub fn is_fresh(&self) -> bool {
        self.settled.is_empty()
    }

    /// Returns the settled pieces and the fresh text.
    pub fn into_parts(self) -> (List<Arc<str>>, String) {
        (self.settled, self.fresh)
    }

    /// The places of the last two user messages, in order.
    pub fn by_user(&self) -> impl Iterator<Item = &Stretch> {
        self.by_user.iter().flatten()
    }

    pub fn text(&self, stretch: &Stretch) -> &str {
        let piece = self.settled.get(stretch.piece).map_or(self.fresh.as_str(), |piece| piece);
        &piece[stretch.bytes.clone()]
    }
}

#[cfg(test)]
mod tests;
