//! A switch that stops a turn.

use std::sync::Arc;

use tokio::sync::watch;

/// A switch with which any task can stop a turn. Clones share it.
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
    /// A switch that is not set.
    pub fn new() -> Self {
        Self { stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Stops the turn. Everything that has arrived is recorded.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Whether the switch is set.
    pub fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Clears the switch, for the next turn.
    pub fn reset(&self) {
        self.stopped.send_replace(false);
    }

    /// Waits until the switch is set.
    pub async fn asked(&self) {
        let mut receiver = self.stopped.subscribe();
        // This cannot fail: the sender lives as long as the switch.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}
