//! The conversations of a store, newest first, a page at a time. No content is loaded.
//!
//! ```
//! use std::{ops::ControlFlow, sync::Arc};
//! use rejoin::{Access, Conversation, New, Store, list, open_store};
//!
//! let store: Arc<dyn Store> = open_store(&"memory:".parse()?, Access::Write)?.into();
//! Conversation::create(store.clone(), &New { title: Some("Sums".into()), ..New::default() }, "example");
//! let mut titles = Vec::new();
//! let listed = list::list(&*store, &Default::default(), usize::MAX, |summary| {
//!     titles.extend(summary.title.clone());
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!((titles, listed.total), (vec![String::from("Sums")], 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::ControlFlow;

use rejoin_store::{Filter, Query, Store, StoreError, Summary};

/// How many conversations are requested at a time. In a folder of files, each request lists the whole folder.
const AT_A_TIME: usize = 5000;

/// The counts of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// The number of conversations that were returned.
    pub shown: u64,
    /// The number of conversations that the filter accepts.
    pub total: u64,
}

impl ListCounts {
    /// The number of conversations that were not returned because of the limit.
    #[must_use]
    pub fn hidden(&self) -> u64 {
        self.total.saturating_sub(self.shown)
    }
}

/// Passes the newest conversations that the filter accepts, at most `limit`, to `each`, and counts all of them. Stops early if
/// `each` breaks.
///
/// # Errors
/// If the store cannot be read.
pub fn list(
    store: &dyn Store,
    filter: &Filter,
    limit: usize,
    mut each: impl FnMut(&Summary) -> ControlFlow<()>,
) -> Result<ListCounts, StoreError> {
    let mut counts = ListCounts::default();
    // Conversations that the filter accepts may be anywhere in the list.
    let mut left = if filter.is_open() { limit } else { usize::MAX };
    let mut query = Query { limit: Some(left.min(AT_A_TIME)), ..Query::default() };
    loop {
        let page = rejoin_engine::list(store, &query)?;
        let fitting: Vec<_> = page.conversations.iter().filter(|summary| filter.shows(summary)).collect();
        counts.total = if filter.is_open() { page.total } else { counts.total + fitting.len() as u64 };
        let room = limit.saturating_sub(usize::try_from(counts.shown).unwrap_or(usize::MAX));
        for summary in fitting.into_iter().take(room) {
            counts.shown += 1;
            if each(summary).is_break() {
                return Ok(counts);
            }
        }
        left = left.saturating_sub(page.conversations.len());
        match page.next {
            Some(next) if left > 0 && !page.conversations.is_empty() => {
                query = Query { limit: Some(left.min(AT_A_TIME)), after: Some(next), ..Query::default() };
            }
            _ => return Ok(counts),
        }
    }
}
