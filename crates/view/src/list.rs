//! An append-only list that its copies share.
//!
//! Copying it is cheap at any length: a copy shares the slots and has its own length. Pushed values never move or change, so one
//! thread can read its copy while another pushes to its own copy.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// The number of values in the first segment. Each later segment holds twice as many as the previous one.
const FIRST: usize = 8;
/// Enough for any list that fits into memory.
const SEGMENTS: usize = 40;

type Segment<T> = Box<[OnceLock<T>]>;

/// An append-only list that its copies share.
pub struct List<T> {
    segments: Arc<[OnceLock<Segment<T>>; SEGMENTS]>,
    len: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { segments: Arc::new([const { OnceLock::new() }; SEGMENTS]), len: 0 }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { segments: Arc::clone(&self.segments), len: self.len }
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The segment that holds an index, and the position in that segment.
fn place(index: usize) -> (usize, usize) {
    let segment = (index / FIRST + 1).ilog2() as usize;
    (segment, index - FIRST * ((1 << segment) - 1))
}

impl<T> List<T> {
    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at an index.
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        let (segment, slot) = place(index);
        self.segments[segment].get()?[slot].get()
    }

    /// The last value.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// The values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.range(0, self.len)
    }

    /// The values from one index up to another, in order.
    pub fn range(&self, from: usize, to: usize) -> impl DoubleEndedIterator<Item = &T> {
        (from..to.min(self.len)).filter_map(|index| self.get(index))
    }
}

impl<T: Clone> List<T> {
    /// Adds a value at the end. Other copies do not see it.
    ///
    /// Takes constant time while only one copy grows. If another copy grew first, this one copies all its values.
    pub fn push(&mut self, value: T) {
        let (segment, slot) = place(self.len);
        let slots = self.segments[segment]
            .get_or_init(|| std::iter::repeat_with(OnceLock::new).take(FIRST << segment).collect());
        if let Err(value) = slots[slot].set(value) {
            let mut own = Self::default();
            self.iter().for_each(|value| own.push(value.clone()));
            own.push(value);
            *self = own;
        } else {
            self.len += 1;
        }
    }
}

impl<T: Clone> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn copies_share_what_they_have_in_common() {
        let mut list = List::default();
        list.extend((0..100).map(Arc::new));
        let copy = list.clone();
        list.push(Arc::new(100));
        assert_eq!((list.len(), copy.len(), copy.get(100)), (101, 100, None));
        assert!(Arc::ptr_eq(list.get(99).unwrap(), copy.get(99).unwrap()));
        assert!(Arc::ptr_eq(&list.segments, &copy.segments));
        // The other copy took the slot, so this one copies its values to new slots.
        let mut other = copy.clone();
        other.push(Arc::new(-1));
        assert_eq!((**other.last().unwrap(), **list.last().unwrap()), (-1, 100));
        assert_eq!(other.iter().rev().take(2).map(|value| **value).collect::<Vec<_>>(), [-1, 99]);
        assert_eq!(list.range(98, 500).map(|value| **value).collect::<Vec<_>>(), [98, 99, 100]);
    }
}
