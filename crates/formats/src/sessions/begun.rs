//! What a log says has begun, until it says that it ended.

use std::{collections::HashMap, sync::Arc};

use crate::session::SourcePlace;

/// Lines about things that began and have not ended, by the ids of the things.
#[derive(Default)]
pub(crate) struct UnendedLines {
    /// With the number of each, because several events on one line have the same place.
    lines: HashMap<String, (usize, SourcePlace, Arc<str>)>,
    count: usize,
}

impl UnendedLines {
    /// Notes the newest line about something that began.
    pub(crate) fn insert(&mut self, id: String, place: SourcePlace, line: Arc<str>) {
        self.count += 1;
        self.lines.insert(id, (self.count, place, line));
    }

    /// Forgets something, because it ended. Returns the newest line about it.
    pub(crate) fn remove(&mut self, id: &str) -> Option<(SourcePlace, Arc<str>)> {
        self.lines.remove(id).map(|(_, place, line)| (place, line))
    }

    /// The ids of what has not ended, in the order of their lines.
    pub(crate) fn in_order(&self) -> Vec<String> {
        let mut ids: Vec<(usize, &String)> =
            self.lines.iter().map(|(id, (number, ..))| (*number, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id.clone()).collect()
    }
}
