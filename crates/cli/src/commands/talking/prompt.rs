//! The prompt on a terminal: a message is a turn. Ctrl-C stops a turn or clears the line, and leaves when it is pressed twice on
//! an empty line; Ctrl-D leaves.
//!
//! A prompt that waits for a line holds no lock. When a line is entered, it takes the lock, and first shows the entries that other
//! processes added.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rejoin::{
    engine::{
        EngineError,
        provider::Endpoint,
        turn::{Stop, TurnInput},
    },
    history,
    record::{Entry, EntryId},
    store::StoreError,
};

use super::{OpenConversation, SaveWarning, block_on, slash::LineOutcome, terminal::TerminalInput};
use crate::{
    commands::numbered,
    failure::{FAILED, Failure, INTERRUPTED},
    output,
    signals::{SecondInterrupt, stop_on_signals},
};

/// A second Ctrl-C within this time leaves the prompt.
const AGAIN: Duration = Duration::from_secs(2);

/// How often a prompt with a message to send checks whether the other process has finished.
const LOOK: Duration = Duration::from_millis(100);

impl OpenConversation {
    /// Prompts until the user leaves.
    pub fn prompt(mut self) -> Result<u8, Failure> {
        let code = block_on(self.lines())?;
        match self.settle() {
            // The failure was already reported.
            Err(_) => code.map(|code| code.max(FAILED)),
            Ok(()) => code,
        }
    }

    async fn lines(&mut self) -> Result<u8, Failure> {
        let Endpoint { provider, model, .. } = self.endpoint();
        let about = output::harmless(&format!("{provider} · {model}"));
        output::talk(&format!("{} · {about} · /help", self.worker.conversation().id()));
        self.tell_instructions();
        let terminal = Arc::clone(&self.terminal);
        let (stop, leave) = (Stop::new(), Arc::new(AtomicBool::new(false)));
        let _signals = stop_on_signals(stop.clone(), Arc::clone(&leave), SecondInterrupt::IsIgnored);
        // The time at which Ctrl-C was pressed on an empty line, if no key was pressed since.
        let mut pressed: Option<Instant> = None;
        if self.go_on_first && self.reclaim(&stop).await? {
            self.turn_at_prompt(TurnInput::GoOn, &stop).await?;
            stop.reset();
        }
        loop {
            // Other processes may write while this prompt waits.
            self.worker.release();
            let typed = match leave.load(Ordering::Relaxed) {
                true => None,
                false => terminal.message(&stop).await,
            };
            stop.reset();
            if leave.load(Ordering::Relaxed) {
                return Ok(INTERRUPTED);
            }
            let line = match typed {
                None => return Ok(0),
                Some(TerminalInput::Stopped(line)) => {
                    let empty = line.trim().is_empty();
                    if empty && pressed.is_some_and(|pressed| pressed.elapsed() < AGAIN) {
                        return Ok(INTERRUPTED);
                    }
                    pressed = empty.then(Instant::now);
                    if empty {
                        output::talk("Press Ctrl-C again to leave.");
                    }
                    continue;
                }
                Some(TerminalInput::Line(line)) => line,
            };
            pressed = None;
            let input = match self.understand(&line, &stop).await? {
                LineOutcome::Turn(input) => input,
                LineOutcome::Leave => return Ok(0),
                LineOutcome::Done => {
                    stop.reset();
                    continue;
                }
            };
            if !self.reclaim(&stop).await? {
                stop.reset();
                continue;
            }
            self.turn_at_prompt(input, &stop).await?;
            stop.reset();
        }
    }

    /// Runs a turn and reports why it failed. It fails itself only if the reader of our output is gone.
    async fn turn_at_prompt(&mut self, input: TurnInput, stop: &Stop) -> Result<(), Failure> {
        let terminal = Arc::clone(&self.terminal);
        let _quiet = terminal.without_echo();
        match self.turn(input, stop, SaveWarning::AtOnce).await {
            Err(failure @ Failure::ClosedPipe) => return Err(failure),
            Err(failure) => failure.say(),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Takes the conversation's lock and shows the entries that other processes added. While another process is answering, it
    /// waits. Returns false if the user stopped waiting.
    pub(super) async fn reclaim(&mut self, stop: &Stop) -> Result<bool, Failure> {
        let mut told = false;
        loop {
            match self.worker.reclaim() {
                Ok(added) => {
                    self.show(&added);
                    return Ok(true);
                }
                Err(EngineError::Store(StoreError::Locked(holder))) => {
                    if !std::mem::replace(&mut told, true) {
                        let holder = output::harmless(&holder.to_string());
                        output::talk(&format!("Waiting for {holder} to finish. Ctrl-C gives up."));
                    }
                }
                Err(EngineError::Store(StoreError::NotFound(id))) => {
                    return Err(EngineError::Unknown(id.to_string()).into());
                }
                // The server became unreachable while the entries were read. The prompt continues, and the line can be sent again.
                Err(EngineError::Store(why)) if why.is_unwritable() => {
                    Failure::from(EngineError::Store(why)).say();
                    output::talk("Nothing was sent.");
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = stop.asked() => {
                    output::talk("Nothing was sent.");
                    return Ok(false);
                }
            }
        }
    }

    /// Tries to take the conversation's lock, and shows the entries that other processes added. Returns whether it was taken.
    pub fn reclaim_now(&mut self) -> bool {
        self.worker.reclaim().map(|added| self.show(&added)).is_ok()
    }

    /// Shows entries that other processes added.
    fn show(&self, added: &[Entry]) {
        if added.is_empty() {
            return;
        }
        let new: HashSet<EntryId> = added.iter().map(Entry::id).collect();
        let conversation = self.worker.conversation();
        let entries = conversation.all_entries().unwrap_or(Cow::Borrowed(conversation.entries()));
        let shown = history::shown(&entries);
        let shown = shown.iter().enumerate().filter(|(_, shown)| new.contains(&shown.entry.id()));
        let text: String = shown.map(|(number, shown)| numbered(shown, number)).collect();
        if !text.is_empty() {
            output::talk(&format!("Added by another process in the meantime:\n{text}"));
        }
    }
}
