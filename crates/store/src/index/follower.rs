//! Updates data derived from the entries, such as the index, a moment after an append, so that no caller waits for it.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{error::StoreError, lock::guard};

type CatchUp = dyn Fn() -> Result<(), StoreError> + Send + Sync;

/// How long after the last append the update starts. The appends of one turn follow each other more quickly.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(Default)]
struct State {
    appends: u64,
    /// The number of appends that the last update covered.
    followed: u64,
    /// Whether the thread waits for an append. Otherwise an append need not wake it.
    is_idle: bool,
    ends: bool,
}

/// The timing of the updates, apart from the pause after the last append.
#[derive(Clone, Copy)]
pub(crate) struct Rhythm {
    /// The next pause is at least this many times as long as the last update; 0 for the usual pause.
    pub(crate) rest: u32,
    /// The longest time without an update while appends keep coming.
    pub(crate) longest: Duration,
}

/// A thread that updates data derived from the entries. It starts with the first append. It ends with the store, after a last
/// update.
pub(crate) struct Follower {
    catch_up: Arc<CatchUp>,
    rhythm: Rhythm,
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Follower {
    pub(crate) fn new(catch_up: Arc<CatchUp>, rhythm: Rhythm) -> Self {
        Self { catch_up, rhythm, shared: Arc::default(), thread: Mutex::new(None) }
    }

    /// Reports an append to the thread.
    pub(crate) fn follow(&self) {
        let (state, changed) = &*self.shared;
        let was_idle = {
            let mut now = guard(state);
            now.appends += 1;
            std::mem::take(&mut now.is_idle)
        };
        let mut thread = guard(&self.thread);
        if thread.is_none() {
            let (catch_up, shared, rhythm) =
                (Arc::clone(&self.catch_up), Arc::clone(&self.shared), self.rhythm);
            let begun = std::thread::Builder::new().name(String::from("index"));
            *thread = begun.spawn(move || run(&*catch_up, &shared, rhythm)).ok();
        }
        if was_idle {
            changed.notify_all();
        }
    }
}

fn run(catch_up: &CatchUp, (state, changed): &(Mutex<State>, Condvar), rhythm: Rhythm) {
    let mut pause = PAUSE;
    let mut now = guard(state);
    loop {
        if now.followed == now.appends {
            if now.ends {
                return;
            }
            now.is_idle = true;
            let waited = changed.wait_while(now, |state| state.is_idle && !state.ends);
            now = waited.unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let begun = Instant::now();
        loop {
            let before = now.appends;
            // Closing the store waits for this thread, so it skips the pause then.
            let waited = changed.wait_timeout_while(now, pause, |state| !state.ends);
            (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if now.ends || now.appends == before || begun.elapsed() >= rhythm.longest {
                break;
            }
        }
        let appends = now.appends;
        drop(now);
        let begun = Instant::now();
        // The next list or search tries again and reports the error.
        if let Err(why) = catch_up() {
            tracing::debug!("the index does not follow: {why}");
        }
        pause = PAUSE.max(begun.elapsed() * rhythm.rest);
        now = guard(state);
        now.followed = appends;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn appends_without_a_pause_are_followed_in_the_end() {
        let updates = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&updates);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let follower = Follower::new(Arc::new(count), Rhythm { rest: 0, longest: PAUSE });
        let begun = Instant::now();
        while updates.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < PAUSE * 100, "nothing is updated while appends go on");
            follower.follow();
            std::thread::yield_now();
        }
        follower.follow();
        drop(follower);
        assert!(updates.load(Ordering::Relaxed) >= 2, "what was appended last is updated before the end");
    }
}
