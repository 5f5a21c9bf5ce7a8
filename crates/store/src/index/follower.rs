//! Updates what follows from the entries, such as the index, a moment after an append, so that no caller waits for it.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{error::StoreError, lock::guard};

type CatchUp = dyn Fn() -> Result<(), StoreError> + Send + Sync;

/// The time between the last append and the update. The appends of one turn follow each other more quickly.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Default)]
struct State {
    appends: u64,
    /// The number of appends that are in the index.
    followed: u64,
    ends: bool,
}

/// A thread that updates what follows from the entries. It starts with the first append and ends with the store, up to date.
pub(crate) struct Follower {
    catch_up: Arc<CatchUp>,
    rest: u32,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    /// `rest`: the next pause is at least so many times as long as the last update; 0 for the usual pause.
    pub(crate) fn new(catch_up: Arc<CatchUp>, rest: u32) -> Self {
        Self { catch_up, rest, shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// Tells the thread about an append.
    pub(crate) fn follow(&self) {
        let (state, changed) = &*self.shared;
        guard(state).appends += 1;
        let mut thread = guard(&self.thread);
        if thread.is_none() {
            let (catch_up, shared, rest) = (Arc::clone(&self.catch_up), Arc::clone(&self.shared), self.rest);
            let begun = std::thread::Builder::new().name(String::from("index"));
            *thread = begun.spawn(move || run(&*catch_up, &shared, rest)).ok();
        }
        changed.notify_all();
    }
}

fn run(catch_up: &CatchUp, (state, changed): &(Mutex<State>, Condvar), rest: u32) {
    let mut pause = PAUSE;
    let mut now = guard(state);
    loop {
        let before = now.appends;
        // Closing the store waits for this thread, so there is no pause.
        if !now.ends && now.followed < now.appends {
            (now, _) = changed.wait_timeout(now, pause).unwrap_or_else(PoisonError::into_inner);
        } else if !now.ends {
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        let quiet = now.appends == before;
        if (quiet || now.ends) && now.followed < now.appends {
            let appends = now.appends;
            drop(now);
            let begun = Instant::now();
            // The next list or search tries again, and reports the error.
            if let Err(why) = catch_up() {
                tracing::debug!("the index does not follow: {why}");
            }
            pause = PAUSE.max(begun.elapsed() * rest);
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
