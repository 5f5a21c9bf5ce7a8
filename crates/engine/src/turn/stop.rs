//! A way to stop a turn from outside.

use std::sync::Arc;

use tokio::sync::watch;

/// Stops turns. Clones stop the same ones.
#[derive(Debug, Clone)]
pub struct Stop {
    stopped: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// One that nobody has asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self { stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Asks the turn to stop. What it has is recorded.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Whether it was asked to.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Makes it ready for another turn.
    pub fn reset(&self) {
        self.stopped.send_replace(false);
    }

    /// Waits until somebody asks.
    pub async fn asked(&self) {
        let mut receiver = self.stopped.subscribe();
        // The sender lives as long as this does.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}
