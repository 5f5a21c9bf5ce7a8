//! A plain prompt on a terminal: a line is a turn. Ctrl-C stops the turn, twice leaves; Ctrl-D leaves.

use std::io::{self, BufRead as _, Write as _};

use rejoin::engine::turn::{Input, Stop};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{Talking, block_on};
use crate::{
    failure::{Failure, INTERRUPTED},
    output,
};

const HELP: &str = "A line is a message. /help: this. /exit (or Ctrl-D): leave. Ctrl-C stops a turn, twice leaves.
An empty line goes on with a turn that was interrupted. Everything is saved; `rejoin resume` comes back to it.";

impl Talking {
    /// Prompts until somebody leaves.
    pub fn prompt(mut self) -> Result<u8, Failure> {
        let code = block_on(self.lines())?;
        self.settle();
        code
    }

    async fn lines(&mut self) -> Result<u8, Failure> {
        output::talk(&format!(
            "{} · {} · {} · /help",
            self.worker.conversation().id(),
            output::harmless(self.provider_name()),
            output::harmless(self.model_name())
        ));
        let mut lines = read_lines();
        let stop = Stop::new();
        let _signals = stop_on_signals(stop.clone());
        loop {
            let _ = write!(anstream::stderr().lock(), "{} ", output::paint("›", output::STRONG));
            let _ = io::stderr().flush();
            let line = tokio::select! {
                line = lines.recv() => line,
                () = stop.asked() => {
                    output::talk("");
                    return Ok(INTERRUPTED);
                }
            };
            let Some(line) = line else {
                output::talk("");
                return Ok(0);
            };
            let input = match line.trim() {
                "" if self.unfinished => Input::GoOn,
                "" => continue,
                "/exit" | "/quit" => return Ok(0),
                "/help" => {
                    output::talk(HELP);
                    continue;
                }
                _ => Input::from(line),
            };
            match self.turn(input, &stop).await {
                // Whoever reads our output is gone.
                Err(failure @ Failure::ClosedPipe) => return Err(failure),
                Err(failure) => failure.say(),
                Ok(_) => {}
            }
            stop.reset();
        }
    }
}

/// Lines of the terminal, read by a thread of its own: a line that is awaited cannot be given up.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Stops the turn at the first Ctrl-C, or when the system asks; leaves at the second.
pub fn stop_on_signals(stop: Stop) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            asked_to_stop().await;
            if stop.is_stopped() {
                // What was acknowledged is stored; what is not was never said to be.
                std::process::exit(i32::from(INTERRUPTED));
            }
            stop.stop();
        }
    })
}

#[cfg(unix)]
async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn asked_to_stop() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
