//! The list of messages of a body, as it grows: what is settled is shared by every body that has it.
//!
//! It is text: messages one after the other, with a comma between any two. A message may stay open, for dialects that put
//! neighbours of one role together: then its end is written when the next one begins.

use std::{ops::Range, sync::Arc};

use rejoin_record::Text;
use rejoin_view::List;

/// A list of messages.
#[derive(Debug, Clone)]
pub struct Scroll {
    /// What is settled, piece by piece.
    settled: List<Arc<str>>,
    /// What was written since.
    fresh: String,
    /// Bytes in all.
    length: usize,
    /// The message of the source that the next message is written for; none for one that rejoin adds.
    pub source: Option<usize>,
    /// The same of each message that was written.
    sources: List<Option<usize>>,
    /// What ends the message that is open, and whether it has a part.
    open: Option<(&'static str, bool)>,
    /// Of everything settled, and of what is fresh up to `hashed`.
    hash: blake3::Hasher,
    hashed: usize,
    /// Where the last two messages of a user's stand.
    by_user: [Option<Stretch>; 2],
}

/// Where a message stands: in which piece, and where in that.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The piece; one after the last is what is fresh.
    pub piece: usize,
    /// Its bytes.
    pub bytes: Range<usize>,
}

impl Default for Scroll {
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
            hashed: 0,
            by_user: [None, None],
        }
    }
}

impl Scroll {
    /// How many messages there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The message of the source that each message was written for.
    #[must_use]
    pub fn sources(&self) -> &List<Option<usize>> {
        &self.sources
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds a message.
    pub fn push(&mut self, json: &str) {
        self.push_with(|out| out.push_str(json));
    }

    /// Adds a message that is written here, and gives its bytes in what is fresh.
    pub fn push_with(&mut self, write: impl FnOnce(&mut String)) -> Range<usize> {
        self.next();
        let start = self.fresh.len();
        write(&mut self.fresh);
        self.length += self.fresh.len() - start;
        start..self.fresh.len()
    }

    /// Adds a message of a user's that is written here.
    pub fn push_by_user(&mut self, write: impl FnOnce(&mut String)) {
        let bytes = self.push_with(write);
        self.by_user.swap(0, 1);
        self.by_user[1] = Some(Stretch { piece: self.settled.len(), bytes });
    }

    /// Begins a message that stays open: what it begins with, and what it will end with.
    pub fn open(&mut self, head: &str, end: &'static str) {
        self.next();
        self.write(head);
        self.open = Some((end, false));
    }

    /// Adds a part to the open message.
    pub fn part(&mut self, json: &str) {
        if let Some((_, some)) = &mut self.open
            && std::mem::replace(some, true)
        {
            self.write(",");
        }
        self.write(json);
    }

    /// Ends the open message.
    pub fn close(&mut self) {
        if let Some((end, _)) = self.open.take() {
            self.write(end);
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

    /// What was written so far stays as it is: it becomes a piece that copies share.
    pub fn settle(&mut self) {
        if !self.fresh.is_empty() {
            self.absorb();
            self.settled.push(Arc::from(std::mem::take(&mut self.fresh)));
            self.hashed = 0;
        }
    }

    fn absorb(&mut self) {
        self.hash.update(&self.fresh.as_bytes()[self.hashed..]);
        self.hashed = self.fresh.len();
    }

    /// A hash of everything that stands here and of what stands before it, as if this message followed that is not written
    /// yet, and all were ended.
    #[must_use]
    pub fn prefix(&mut self, before: &str, next: Option<&str>) -> Text {
        self.absorb();
        let mut hash = self.hash.clone();
        if let Some((end, _)) = self.open {
            hash.update(end.as_bytes());
        }
        if let Some(next) = next {
            hash.update(if self.is_empty() { b"" } else { b"," });
            hash.update(next.as_bytes());
        }
        // No message is like it, so nothing that stands here can be taken for what stands before.
        hash.update(b"]\n");
        hash.update(before.as_bytes());
        Text::from(hash.finalize().to_hex().to_string())
    }

    /// Whether nothing is settled yet.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.settled.is_empty()
    }

    /// The pieces that are settled, and what was written since.
    #[must_use]
    pub fn into_parts(self) -> (List<Arc<str>>, String) {
        (self.settled, self.fresh)
    }

    /// Where the last two messages of a user's stand, in order.
    pub fn by_user(&self) -> impl Iterator<Item = &Stretch> {
        self.by_user.iter().flatten()
    }

    /// The text of a stretch.
    #[must_use]
    pub fn text(&self, stretch: &Stretch) -> &str {
        let piece = self.settled.get(stretch.piece).map_or(self.fresh.as_str(), |piece| piece);
        &piece[stretch.bytes.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(scroll: &Scroll) -> String {
        let (settled, fresh) = scroll.clone().into_parts();
        settled.iter().map(|piece| &**piece).chain([fresh.as_str()]).collect()
    }

    #[test]
    fn what_is_written_does_not_depend_on_when_it_is_settled() {
        let mut whole = Scroll::default();
        let mut settled = Scroll::default();
        for scroll in [&mut whole, &mut settled] {
            scroll.push("1");
        }
        settled.settle();
        for scroll in [&mut whole, &mut settled] {
            scroll.open("[", "]");
            scroll.part("2");
        }
        settled.settle();
        assert_eq!(whole.prefix("x", Some("4")), settled.prefix("x", Some("4")));
        for scroll in [&mut whole, &mut settled] {
            scroll.part("3");
            scroll.push_by_user(|out| out.push('4'));
        }
        assert_eq!((text(&whole).as_str(), text(&settled)), ("1,[2,3],4", text(&whole)));
        assert_eq!(settled.clone().into_parts().0.len(), 2);
        assert_eq!(whole.prefix("x", None), settled.prefix("x", None));
        assert_eq!((settled.length(), settled.count()), (9, 3));
        let last = settled.by_user().last().unwrap();
        assert_eq!(settled.text(last), "4");
    }

    #[test]
    fn prefixes_tell_everything_apart() {
        let mut one = Scroll::default();
        one.open("[", "]");
        one.part("1");
        let mut closed = Scroll::default();
        closed.push("[1]");
        assert_eq!(one.prefix("", None), closed.prefix("", None), "only what goes out counts");
        assert_eq!(Scroll::default().prefix("", Some("[1]")), closed.prefix("", None));
        assert_ne!(one.prefix("", None), one.prefix("1", None));
        let before = one.prefix("", None);
        one.part("2");
        assert_ne!(one.prefix("", None), before);
    }
}
