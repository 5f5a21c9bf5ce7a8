//! A confined program that exchanges messages with rejoin: its stream, its errors, and its end.

use std::{io, os::fd::OwnedFd, os::unix::net::UnixStream as Socket, thread};

use tokio::{
    net::{UnixStream, unix::pipe},
    sync::oneshot,
};

use super::{CommandExit, SandboxError, system};

/// A program that runs until it ends, or until this value is dropped. Dropping it ends the program and all its children: on Linux,
/// it has a moment after the end of its input, and another one after SIGTERM. The caller does not wait for that.
#[derive(Debug)]
pub struct ConfinedPartner {
    /// The program's input and output; `None` once it was taken.
    pub stream: Option<UnixStream>,
    /// The program's standard error; `None` once it was taken.
    pub errors: Option<pipe::Receiver>,
    exit: oneshot::Receiver<Result<CommandExit, SandboxError>>,
    control: system::Control,
}

impl ConfinedPartner {
    pub(super) async fn start(start: system::Start) -> Result<Self, SandboxError> {
        let (ours, theirs) = Socket::pair().map_err(SandboxError::Start)?;
        let (errors, writer) = io::pipe().map_err(SandboxError::Start)?;
        let start = start.with_streams(theirs, writer);
        let (started, starting) = oneshot::channel();
        thread::Builder::new()
            .name(String::from("rejoin-partner"))
            .spawn(move || attend(start, started))
            .map_err(SandboxError::Start)?;
        let (control, exit) = starting.await.unwrap_or(Err(SandboxError::Lost))?;
        let streams = || {
            ours.set_nonblocking(true)?;
            Ok((UnixStream::from_std(ours)?, pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?))
        };
        let (stream, errors) = streams().map_err(SandboxError::Start)?;
        Ok(Self { stream: Some(stream), errors: Some(errors), exit, control })
    }

    /// Waits for the end of the program and everything it started.
    ///
    /// # Errors
    /// [`SandboxError::Lost`] if the supervising process was killed, [`SandboxError::Confine`] if there was no shell to run.
    pub async fn finish(mut self) -> Result<CommandExit, SandboxError> {
        drop(self.stream.take());
        (&mut self.exit).await.unwrap_or(Err(SandboxError::Lost))
    }
}

impl Drop for ConfinedPartner {
    fn drop(&mut self) {
        self.control.close();
    }
}

/// The parts of a started program that the caller needs.
type Started = (system::Control, oneshot::Receiver<Result<CommandExit, SandboxError>>);

/// Starts a program and waits for its end.
fn attend(start: system::Start, started: oneshot::Sender<Result<Started, SandboxError>>) {
    let running = match start.begin() {
        Ok(running) => running,
        Err(why) => return drop(started.send(Err(why))),
    };
    let (ended, exit) = oneshot::channel();
    if let Err(Ok((control, _))) = started.send(Ok((running.control(), exit))) {
        // The caller is gone.
        control.close();
    }
    let _ = ended.send(running.finish());
}
