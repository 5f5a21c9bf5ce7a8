//! Bringing the index up to date a moment after an append, without anybody waiting for it.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::{Index, Source};

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
    source: Arc<dyn Source>,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// Something was appended.
    pub(crate) fn follow(&self) {
        let (state, changed) = &*self.shared;
        state.lock().unwrap_or_else(PoisonError::into_inner).appends += 1;
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (source, shared) = (Arc::clone(&self.source), Arc::clone(&self.shared));
            let begun = std::thread::Builder::new().name(String::from("index"));
            *thread = begun.spawn(move || run(&*source, &shared)).ok();
            changed.notify_all();
        }
    }
}

fn run(source: &dyn Source, (state, changed): &(Mutex<State>, Condvar)) {
    let mut now = state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let before = now.appends;
        // Whoever closes the store waits for this thread, so it does not wait itself.
        if !now.ends {
            (now, _) = changed.wait_timeout(now, PAUSE).unwrap_or_else(PoisonError::into_inner);
        }
        let quiet = now.appends == before;
        if (quiet || now.ends) && now.followed < now.appends {
            let appends = now.appends;
            drop(now);
            // Whoever lists or searches tries again, and says what is wrong.
            if let Err(why) = Index::catch_up(source) {
                tracing::debug!("the index does not follow: {why}");
            }
            now = state.lock().unwrap_or_else(PoisonError::into_inner);
            now.followed = appends;
        } else if now.ends {
            return;
        } else if now.followed == now.appends {
            // Nothing to do until something is appended or the store closes; a glance now and then is enough.
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let (state, changed) = &*self.shared;
        state.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
