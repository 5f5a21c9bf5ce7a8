//! Brings the index up to date a moment after an append, so that no caller waits for it.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use crate::{error::StoreError, lock::guard};

/// What is done a moment after an append.
type CatchUp = dyn Fn() -> Result<(), StoreError> + Send + Sync;

/// How long after the last append: appends of one turn follow each other more quickly.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Default)]
struct State {
    /// How many appends there were.
    appends: u64,
    /// How many of them are in the index.
    followed: u64,
    ends: bool,
}

/// A thread that follows. It begins with the first append and ends with the store.
pub(crate) struct Follower {
    catch_up: Arc<CatchUp>,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    pub(crate) fn new(catch_up: Arc<CatchUp>) -> Self {
        Self { catch_up, shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// Something was appended.
    pub(crate) fn follow(&self) {
        let (state, changed) = &*self.shared;
        guard(state).appends += 1;
        let mut thread = guard(&self.thread);
        if thread.is_none() {
            let (catch_up, shared) = (Arc::clone(&self.catch_up), Arc::clone(&self.shared));
            let begun = std::thread::Builder::new().name(String::from("index"));
            *thread = begun.spawn(move || run(&*catch_up, &shared)).ok();
            changed.notify_all();
        }
    }
}

fn run(catch_up: &CatchUp, (state, changed): &(Mutex<State>, Condvar)) {
    let mut now = guard(state);
    loop {
        let before = now.appends;
        // Closing the store waits for this thread, so it does not wait itself.
        if !now.ends {
            (now, _) = changed.wait_timeout(now, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
        let quiet = now.appends == before;
        if (quiet || now.ends) && now.followed < now.appends {
            let appends = now.appends;
            drop(now);
            // The next list or search tries again, and reports what is wrong.
            if let Err(why) = catch_up() {
                tracing::debug!("the index does not follow: {why}");
            }
            now = guard(state);
            now.followed = appends;
        } else if now.ends {
            return;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let (state, changed) = &*self.shared;
        guard(state).ends = true;
        changed.notify_all();
        let thread = guard(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
