//! Work on a long list in two threads.

use std::thread;

/// Shorter lists are done before a thread has started.
const LONG: usize = 1000;

/// Maps a list in its order, leaving out what gives nothing. A second thread takes half of a long one.
pub(crate) fn filter_map<'t, T: Sync, R: Send>(
    items: &'t [T],
    each: impl Fn(usize, &'t T) -> Option<R> + Sync,
) -> Vec<R> {
    filter_map_with(items, |(), index, item| each(index, item))
}

/// Maps a list in its order, as [`filter_map`] does. Each thread has a state that it hands from item to item, such as a buffer.
pub(crate) fn filter_map_with<'t, T: Sync, R: Send, S: Default>(
    items: &'t [T],
    each: impl Fn(&mut S, usize, &'t T) -> Option<R> + Sync,
) -> Vec<R> {
    let map = |from: usize, items: &'t [T]| -> Vec<R> {
        let mut state = S::default();
        items.iter().enumerate().filter_map(|(index, item)| each(&mut state, from + index, item)).collect()
    };
    if items.len() < LONG {
        return map(0, items);
    }
    let (first, second) = items.split_at(items.len() / 2);
    thread::scope(|scope| {
        // Some systems have no threads.
        let beside = thread::Builder::new().spawn_scoped(scope, || map(first.len(), second));
        let mut mapped = map(0, first);
        let rest = beside.ok().and_then(|beside| beside.join().ok());
        mapped.extend(rest.unwrap_or_else(|| map(first.len(), second)));
        mapped
    })
}
