//! A plain prompt on a terminal: a line is a turn. Ctrl-C stops the turn, twice leaves; Ctrl-D leaves.

use std::{
    io::{self, BufRead as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rejoin::{
    engine::turn::{Input, Stop},
    record::{Content, Text, content::Command},
};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{Saving, Talking, block_on};
use crate::{
    failure::{FAILED, Failure, INTERRUPTED},
    output,
};

const HELP: &str = "A line is a message. /help: this. /exit (or Ctrl-D): leave. Ctrl-C stops a turn, twice leaves.
An empty line goes on with a turn that was interrupted. Everything is saved; `rejoin resume` comes back to it.";

impl Talking {
    /// Prompts until somebody leaves.
    pub fn prompt(mut self) -> Result<u8, Failure> {
        let code = block_on(self.lines())?;
        match self.settle() {
            // It was said when it happened.
            Err(_) => code.map(|code| code.max(FAILED)),
            Ok(()) => code,
        }
    }

    async fn lines(&mut self) -> Result<u8, Failure> {
        output::talk(&format!(
            "{} · {} · {} · /help",
            self.worker.conversation().id(),
            output::harmless(self.provider_name()),
            output::harmless(self.model_name())
        ));
        let mut lines = read_lines();
        let (stop, leave) = (Stop::new(), Arc::new(AtomicBool::new(false)));
        let _signals = stop_on_signals(stop.clone(), Arc::clone(&leave));
        // Whoever presses Ctrl-C at the prompt may have meant the turn before.
        let mut asked_once = false;
        loop {
            let _ = write!(anstream::stderr().lock(), "{} ", output::paint("›", output::STRONG));
            let _ = io::stderr().flush();
            let line = tokio::select! {
                line = lines.recv() => line,
                () = stop.asked() => {
                    output::talk("");
                    if asked_once || leave.load(Ordering::Relaxed) {
                        return Ok(INTERRUPTED);
                    }
                    output::talk("Ctrl-C again leaves; so does Ctrl-D.");
                    asked_once = true;
                    stop.reset();
                    continue;
                }
            };
            asked_once = false;
            let Some(line) = line else {
                output::talk("");
                return Ok(0);
            };
            let input = match line.trim() {
                "" if self.unfinished => Input::GoOn,
                "" => continue,
                command @ ("/exit" | "/quit") => {
                    self.keep_command(command, "");
                    return Ok(0);
                }
                "/help" => {
                    output::talk(HELP);
                    self.keep_command("/help", HELP);
                    continue;
                }
                // A path is something to talk about; a single word is a command that nobody knows.
                command if command.starts_with('/') && !command[1..].contains(['/', ' ']) => {
                    output::talk(&format!(
                        "There is no command {}; /help lists them.",
                        output::harmless(command)
                    ));
                    continue;
                }
                _ => Input::from(line),
            };
            match self.turn(input, &stop, Saving::AtOnce).await {
                // Whoever reads our output is gone.
                Err(failure @ Failure::ClosedPipe) => return Err(failure),
                Err(failure) => failure.say(),
                Ok(_) => {}
            }
            if leave.load(Ordering::Relaxed) {
                return Ok(INTERRUPTED);
            }
            stop.reset();
        }
    }

    /// Records a command that somebody ran, and what it printed. No model sees it.
    fn keep_command(&mut self, command: &str, output: &str) {
        // A conversation in which nothing was said yet is not made of commands.
        if self.keeps_commands && !self.worker.conversation().messages().is_empty() {
            let command = Command { command: Text::new(command), output: Text::new(output), failed: false };
            self.worker.conversation_mut().append(&Content::Command(command));
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

/// Stops the turn at the first Ctrl-C, or when the system asks; leaves at the second. `leave` says that it is not the person
/// who asks: the terminal is gone, or the system ends what runs.
pub fn stop_on_signals(stop: Stop, leave: Arc<AtomicBool>) -> JoinHandle<()> {
    // A file that grows beyond its limit is a full disk like any other, and no reason to die.
    #[cfg(unix)]
    let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ));
    // They are listened to from here on, before anybody is told that they may press a key.
    let mut signals = Signals::new();
    tokio::spawn(async move {
        loop {
            let by_person = signals.next().await;
            leave.fetch_or(!by_person, Ordering::Relaxed);
            if stop.is_stopped() {
                // What was acknowledged is stored; what is not was never said to be.
                std::process::exit(i32::from(INTERRUPTED));
            }
            stop.stop();
        }
    })
}

/// The signal of a file that grows beyond its limit, on every Unix that we know.
#[cfg(unix)]
const SIGXFSZ: i32 = 25;

/// Whoever asks to stop.
#[cfg(unix)]
struct Signals {
    /// The person at the terminal first.
    all: Option<[tokio::signal::unix::Signal; 4]>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let [Ok(interrupt), Ok(terminate), Ok(hangup), Ok(quit)] = kinds.map(signal) else {
            return Self { all: None };
        };
        Self { all: Some([interrupt, terminate, hangup, quit]) }
    }

    /// Waits until somebody asks, and says whether it is the person at the terminal.
    async fn next(&mut self) -> bool {
        let Some([interrupt, terminate, hangup, quit]) = &mut self.all else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => false,
            _ = hangup.recv() => false,
            _ = quit.recv() => false,
        }
    }
}

/// Whoever asks to stop.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self
    }

    /// Waits until the person at the terminal asks.
    async fn next(&mut self) -> bool {
        match tokio::signal::ctrl_c().await {
            Ok(()) => true,
            Err(_) => std::future::pending().await,
        }
    }
}
