//! Runs the work of a tool on another thread, and ends it soon after its caller stops waiting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::ToolOutput;
use crate::provider::BoxFuture;

/// Tells work when to end: its call was cancelled, or its time is up.
#[derive(Debug, Clone)]
pub(super) struct WorkLimit {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl WorkLimit {
    /// A limit that is never reached.
    #[cfg(test)]
    pub(super) fn never() -> Self {
        Self { cancelled: Arc::default(), deadline: None }
    }

    /// This limit, and also at most this long from now.
    pub(super) fn within(&self, time: Duration) -> Self {
        Self { cancelled: Arc::clone(&self.cancelled), deadline: Instant::now().checked_add(time) }
    }

    /// Whether the work should end.
    pub(super) fn is_over(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether the caller has stopped waiting for the result.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Cancels the work when dropped.
struct Cancelling(Arc<AtomicBool>);

impl Drop for Cancelling {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work on another thread, so that a turn can be stopped while a disk does not answer. Dropping the future cancels the work.
pub(super) fn on_another_thread(
    work: impl FnOnce(&WorkLimit) -> Result<ToolOutput, String> + Send + 'static,
) -> BoxFuture<'static, ToolOutput> {
    Box::pin(async move {
        let cancelled = Arc::new(AtomicBool::new(false));
        let until = WorkLimit { cancelled: Arc::clone(&cancelled), deadline: None };
        let _cancelling = Cancelling(cancelled);
        let work = tokio::task::spawn_blocking(move || {
            if until.is_cancelled() {
                return Err(String::from("[not done: the call was cancelled before it began]"));
            }
            work(&until)
        });
        match work.await {
            Ok(done) => done.unwrap_or_else(ToolOutput::error),
            Err(why) => ToolOutput::error(format!("it was not done: {why}")),
        }
    })
}

/// A number with commas between thousands.
pub(super) fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The first characters of a line, at most `most`, with a note if there are more.
pub(super) fn cut(line: &str, most: usize) -> std::borrow::Cow<'_, str> {
    match line.char_indices().nth(most) {
        None => line.into(),
        Some((at, _)) => {
            format!("{} [line cut after {} characters]", &line[..at], grouped(most as u64)).into()
        }
    }
}

/// A name or path as a line of a list: quoted, if it contains control characters.
pub(super) fn shown(path: &str) -> std::borrow::Cow<'_, str> {
    if path.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        format!("{path:?}").into()
    } else {
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lines_and_names_are_shown_plainly() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number as u64), text);
        }
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äöü [line cut after 3 characters]");
        assert_eq!(shown("a b"), "a b");
        assert_eq!(shown("a\nb"), "\"a\\nb\"");
    }

    /// Dropping a call ends the work that it began.
    #[test]
    fn dropping_a_call_cancels_its_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (began, begins) = std::sync::mpsc::channel();
        let (ended, ends) = std::sync::mpsc::channel();
        runtime.block_on(async {
            let mut doing = on_another_thread(move |until| {
                began.send(()).unwrap();
                while !until.is_over() {
                    std::thread::yield_now();
                }
                ended.send(until.is_cancelled()).unwrap();
                Ok(ToolOutput::of(""))
            });
            let first = std::future::poll_fn(|context| std::task::Poll::Ready(doing.as_mut().poll(context)));
            assert!(first.await.is_pending());
            begins.recv().unwrap();
        });
        assert!(ends.recv().unwrap());
    }
}
