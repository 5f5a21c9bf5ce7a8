//! A running command: its output while it runs, its end, and the guarantee that it ends.
//!
//! One thread per command waits for it, so that any runtime can use it and dropping a command never blocks.

use std::{io::Read as _, thread};

use tokio::sync::{mpsc, oneshot};

use super::{SandboxError, system};

/// The size of the largest chunk of output.
const CHUNK_BYTES: usize = 64 * 1024;

/// How many chunks are read ahead of the caller. After that the command waits in its next write.
const CHUNKS_AHEAD: usize = 4;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandExit {
    /// The shell ended with this code.
    Code(i32),
    /// A signal with this number ended the shell.
    Signal(i32),
    /// The command was killed at its time limit.
    TimedOut,
    /// The command was killed because it had too many processes.
    TooManyProcesses,
    /// The caller had the command killed.
    Killed,
}

/// A command that runs, or has run. Dropping it kills the command and all its children.
#[derive(Debug)]
pub struct ConfinedCommand {
    output: mpsc::Receiver<Vec<u8>>,
    exit: oneshot::Receiver<Result<CommandExit, SandboxError>>,
    control: system::Control,
}

impl ConfinedCommand {
    pub(super) async fn start(start: system::Start) -> Result<Self, SandboxError> {
        let (started, starting) = oneshot::channel();
        thread::Builder::new()
            .name(String::from("rejoin-command"))
            .spawn(move || attend(start, started))
            .map_err(SandboxError::Start)?;
        starting.await.unwrap_or(Err(SandboxError::Lost))
    }

    /// The next piece of output, of both streams in the order in which they were written; `None` after the last. The command blocks
    /// while its output is not read.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.output.recv().await
    }

    /// Waits for the end of the command and everything it started. Unread output is discarded.
    ///
    /// # Errors
    /// [`SandboxError::Lost`] if the supervising process was killed, [`SandboxError::Confine`] if there was no shell to run.
    pub async fn finish(mut self) -> Result<CommandExit, SandboxError> {
        while self.output.recv().await.is_some() {}
        (&mut self.exit).await.unwrap_or(Err(SandboxError::Lost))
    }

    /// Kills the command and all its children. Output that it has written can still be taken.
    pub fn kill(&self) {
        self.control.close();
    }
}

impl Drop for ConfinedCommand {
    fn drop(&mut self) {
        self.control.close();
    }
}

/// Starts a command, passes on its output, and waits for its end.
fn attend(start: system::Start, started: oneshot::Sender<Result<ConfinedCommand, SandboxError>>) {
    let mut running = match start.begin() {
        Ok(running) => running,
        Err(why) => return drop(started.send(Err(why))),
    };
    let (chunks, output) = mpsc::channel(CHUNKS_AHEAD);
    let (ended, exit) = oneshot::channel();
    let command = ConfinedCommand { output, exit, control: running.control() };
    // If the caller is gone, this drops the command, which kills it.
    let _ = started.send(Ok(command));
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = running.output().read(&mut buffer) {
        if chunks.blocking_send(buffer[..count].to_vec()).is_err() {
            break;
        }
    }
    drop(chunks);
    let _ = ended.send(running.finish());
}
