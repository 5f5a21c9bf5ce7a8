//! The clock of a turn, which is paused while tools run.
//!
//! The time limit covers requests and answers. Tools have their own limit, and a user may take a day to approve a call.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The clock of a turn. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct TurnClock {
    running: Arc<Mutex<Elapsed>>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Elapsed {
    before: Duration,
    /// When it was last started; `None` while it is paused.
    since: Option<Instant>,
}

impl TurnClock {
    /// Starts a clock.
    pub(super) fn start() -> Self {
        let elapsed = Elapsed { before: Duration::ZERO, since: Some(Instant::now()) };
        Self { running: Arc::new(Mutex::new(elapsed)), changed: Arc::default() }
    }

    /// Pauses the clock until the result is dropped.
    pub(super) fn pause(&self) -> Pause {
        let mut elapsed = self.elapsed();
        elapsed.before = elapsed.total();
        elapsed.since = None;
        self.changed.notify_waiters();
        Pause(self.clone())
    }

    /// Waits until the clock reaches a limit; without a limit, for ever.
    pub(super) async fn reaches(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // From here on, no change can be missed.
            changed.as_mut().enable();
            let (counted, is_paused) = {
                let elapsed = self.elapsed();
                (elapsed.total(), elapsed.since.is_none())
            };
            if counted >= limit {
                return;
            }
            if is_paused {
                changed.await;
                continue;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(limit - counted) => {}
            }
        }
    }

    fn elapsed(&self) -> MutexGuard<'_, Elapsed> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elapsed {
    fn total(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Keeps the clock paused until it is dropped.
#[derive(Debug)]
pub(super) struct Pause(TurnClock);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.elapsed().since = Some(Instant::now());
        self.0.changed.notify_waiters();
    }
}
