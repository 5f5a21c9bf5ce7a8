//! Signals: Ctrl-C, and those with which the system asks a process to end.
//!
//! They stop a turn ([`stop_on_signals`]). Code that waits for keys or for a line outside a turn holds a [`SignalWatch`]: once any
//! part of a process has listened to a signal, that signal no longer ends the process by default.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use rejoin::engine::turn::Stop;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{commands::block_on, failure::INTERRUPTED, output};

/// Listens to signals in a separate thread until it is dropped.
pub struct SignalWatch {
    _open: oneshot::Sender<()>,
}

impl SignalWatch {
    /// Calls `then` at the first signal. Listening has begun when this returns.
    pub fn start(then: impl FnOnce() + Send + 'static) -> Self {
        Self::start_twice(then, || {})
    }

    /// Sets the flag at the first signal, so that work which is done piece by piece stops after a piece. A second signal ends the
    /// process at once.
    pub fn stops_work(what: &'static str) -> (Self, Arc<AtomicBool>) {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let first = move || {
            stop.store(true, Ordering::Relaxed);
            output::talk(what);
        };
        (Self::start_twice(first, || std::process::exit(i32::from(INTERRUPTED))), stopped)
    }

    fn start_twice(first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) -> Self {
        let (open, mut closed) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel::<()>();
        thread::spawn(move || {
            let _ = block_on(async move {
                let mut signals = signals();
                drop(ready);
                tokio::select! {
                    _ = next(&mut signals) => first(),
                    _ = &mut closed => return,
                }
                tokio::select! {
                    _ = next(&mut signals) => second(),
                    _ = closed => {}
                }
            });
        });
        let _ = is_ready.recv();
        Self { _open: open }
    }

    /// Ends the process at the first signal. The terminal must be in its original state.
    pub fn ends_the_process() -> Self {
        Self::start(|| {
            output::talk("");
            std::process::exit(i32::from(INTERRUPTED));
        })
    }
}

/// Waits for the first signal.
pub async fn first() {
    next(&mut signals()).await;
}

/// The effect of a second Ctrl-C while a turn is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondInterrupt {
    /// It ends the process at once, as a kill would.
    EndsProcess,
    /// None: at a prompt, only Ctrl-C on an empty line leaves.
    IsIgnored,
}

/// Stops the turn at the first Ctrl-C, or when the system asks the process to end. `leave` is set if the request does not come from
/// the person: the terminal is gone, or the system shuts down. If the system asks twice, the process ends at once.
pub fn stop_on_signals(stop: Stop, leave: Arc<AtomicBool>, second: SecondInterrupt) -> JoinHandle<()> {
    // Signals are handled from here on, before the user is told to press a key.
    let mut signals = signals();
    tokio::spawn(async move {
        loop {
            let by_person = next(&mut signals).await;
            leave.fetch_or(!by_person, Ordering::Relaxed);
            if stop.is_stopped() && (second == SecondInterrupt::EndsProcess || !by_person) {
                // Everything that was reported as saved is stored, so leaving now loses nothing.
                std::process::exit(i32::from(INTERRUPTED));
            }
            stop.stop();
        }
    })
}

/// From now on, a file that grows beyond its limit gives an error like a full disk, instead of ending the process.
pub fn survive_full_files() {
    /// The signal's number on every Unix that we know.
    #[cfg(unix)]
    const SIGXFSZ: i32 = 25;
    #[cfg(unix)]
    let _ = block_on(async {
        let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ));
    });
}

/// Ctrl-C, and the signals with which the system asks a process to end. `None` if listening to them failed.
#[cfg(unix)]
type Signals = Option<[tokio::signal::unix::Signal; 4]>;

#[cfg(unix)]
fn signals() -> Signals {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    match kinds.map(signal) {
        [Ok(interrupt), Ok(terminate), Ok(hangup), Ok(quit)] => Some([interrupt, terminate, hangup, quit]),
        _ => None,
    }
}

/// Waits for a signal, and returns whether it is Ctrl-C.
#[cfg(unix)]
async fn next(signals: &mut Signals) -> bool {
    let Some([interrupt, terminate, hangup, quit]) = signals else { return std::future::pending().await };
    tokio::select! {
        _ = interrupt.recv() => true,
        _ = terminate.recv() => false,
        _ = hangup.recv() => false,
        _ = quit.recv() => false,
    }
}

#[cfg(not(unix))]
fn signals() {}

/// Waits for Ctrl-C.
#[cfg(not(unix))]
async fn next((): &mut ()) -> bool {
    match tokio::signal::ctrl_c().await {
        Ok(()) => true,
        Err(_) => std::future::pending().await,
    }
}
