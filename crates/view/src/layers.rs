//! A map in two layers: settled entries, which copies share, and new ones.

use std::{borrow::Borrow, hash::Hash, sync::Arc};

use hashbrown::HashMap;

/// A growing map. Copying it copies only the entries that are not settled yet.
#[derive(Debug, Clone)]
pub struct Layers<K, V = ()> {
    settled: Arc<HashMap<K, V>>,
    new: HashMap<K, V>,
}

impl<K, V> Default for Layers<K, V> {
    fn default() -> Self {
        Self { settled: Arc::default(), new: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Layers<K, V> {
    /// The value of a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.new.get(key).or_else(|| self.settled.get(key))
    }

    /// Whether a key has a value.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Sets the value of a key. Returns true if the key had none.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        let first = !self.contains(&key);
        self.new.insert(key, value);
        first
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.settled.is_empty()
    }

    /// Moves the new entries to the settled ones. It takes time only in their number, unless a copy still shares the settled ones.
    pub fn settle(&mut self) {
        if !self.new.is_empty() {
            Arc::make_mut(&mut self.settled).extend(self.new.drain());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_covers_what_is_settled() {
        let mut layers: Layers<&str, u32> = Layers::default();
        assert!(layers.is_empty() && layers.insert("a", 1) && !layers.insert("a", 2));
        layers.settle();
        let copy = layers.clone();
        assert!(!layers.insert("a", 3) && layers.insert("b", 1));
        assert_eq!((layers.get("a"), copy.get("a"), copy.get("b")), (Some(&3), Some(&2), None));
        layers.settle();
        assert_eq!((layers.get("a"), copy.get("a")), (Some(&3), Some(&2)));
    }
}
