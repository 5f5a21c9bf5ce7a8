//! The line editor at the prompt: keys, history, completion, hints, messages of several lines, and pastes of any size.
//!
//! `reedline` reads the keys and draws the line. It blocks, so it runs in a separate thread, and lines are requested through a
//! channel. Between two lines it leaves the terminal in its normal state, for questions and tools.

mod completing;
mod keys;
mod look;
mod past;
mod pastes;

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reedline::{
    ColumnarMenu, EditCommand, FileBackedHistory, MenuBuilder as _, Reedline, ReedlineMenu, Signal,
};
use tokio::sync::mpsc;

use super::terminal::TerminalInput;
use crate::{keyboard::Keyboard, output};
pub use completing::Offers;
use keys::EditingKeys;
use look::{Hints, LineContinuation, Look};
use past::FolderHistory;
use pastes::Pastes;

/// How often the editor checks whether it must stop, while no key is pressed. A key is handled at once.
const LOOK: Duration = Duration::from_millis(250);

/// How long a stopped editor may take to leave. If its terminal is gone, it never leaves.
const PATIENCE: Duration = Duration::from_secs(1);

/// The parameters of an editor.
pub struct Setup {
    /// The folder that rejoin keeps its data in.
    pub data: PathBuf,
    /// The folder to which its history belongs.
    pub folder: PathBuf,
    pub offers: Offers,
}

/// Whether the terminal supports what the editor needs: moving the cursor and reporting its position. The query goes to standard
/// output, so it must not be sent to a pipe or a file.
pub fn is_possible() -> bool {
    output::is_capable()
        && io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && io::stderr().is_terminal()
}

/// The outcome of requesting a line.
pub enum EditOutcome {
    Input(TerminalInput),
    /// Ctrl-D on an empty line.
    Left,
    /// Editing does not work on this terminal.
    Failed(io::Error),
}

/// The thread with the editor.
pub struct Editor {
    wanted: mpsc::UnboundedSender<()>,
    edited: mpsc::UnboundedReceiver<EditOutcome>,
    stop: Arc<AtomicBool>,
    /// Whether a line was requested and the caller stopped waiting for it.
    waiting: bool,
}

impl Editor {
    pub fn start(setup: Setup) -> Self {
        let (wanted, mut wants) = mpsc::unbounded_channel();
        let (send, edited) = mpsc::unbounded_channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut line = Line::new(setup, stopped);
            while wants.blocking_recv().is_some() && send.send(line.next()).is_ok() {}
        });
        Self { wanted, edited, stop, waiting: false }
    }

    /// Waits for the next line. If the wait is dropped, the next call gets the line.
    pub async fn next(&mut self) -> EditOutcome {
        if !std::mem::replace(&mut self.waiting, true) {
            self.stop.store(false, Ordering::Relaxed);
            let _ = self.wanted.send(());
        }
        let edited = self.edited.recv().await;
        self.waiting = false;
        edited.unwrap_or_else(|| EditOutcome::Failed(io::Error::other("the editor has ended")))
    }

    /// Makes the editor release the terminal. The text typed so far is discarded, as with Ctrl-C.
    pub async fn stop(&mut self) {
        if self.waiting {
            self.stop.store(true, Ordering::Relaxed);
            if tokio::time::timeout(PATIENCE, self.edited.recv()).await.is_ok() {
                self.waiting = false;
            }
        }
    }
}

/// The editor itself, in its thread.
struct Line {
    reedline: Reedline,
    look: Look,
    pastes: Pastes,
    keys: Arc<keys::LineState>,
    continued: LineContinuation,
}

impl Line {
    fn new(setup: Setup, stop: Arc<AtomicBool>) -> Self {
        let coloured = output::talk_has_colour();
        let (pastes, continued, seen) =
            (Pastes::default(), LineContinuation::default(), Arc::new(keys::LineState::default()));
        let past = FolderHistory::open(&setup.data, &setup.folder, pastes.clone());
        let menu = ColumnarMenu::default().with_name(keys::MENU).with_columns(1);
        let commands = setup.offers.commands.iter().map(|(name, _)| name.clone()).collect();
        let mut reedline = Reedline::create()
            .use_bracketed_paste(true)
            .with_ansi_colors(coloured)
            .with_edit_mode(Box::new(EditingKeys::new(pastes.clone(), Arc::clone(&seen))))
            .with_validator(Box::new(continued.clone()))
            .with_highlighter(Box::new(look::TextWatcher(Arc::clone(&seen))))
            .with_completer(Box::new(setup.offers))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_break_signal(stop)
            .with_poll_interval(LOOK);
        reedline = match past {
            Ok(past) => reedline.with_history(Box::new(past)),
            Err(why) => {
                tracing::debug!("there is no history at the prompt: {why}");
                reedline.with_history(Box::new(FileBackedHistory::default()))
            }
        };
        // Without colours, a hint would look like typed text.
        if coloured {
            reedline = reedline.with_hinter(Box::new(Hints::new(commands)));
        }
        Self { reedline, look: Look, pastes, keys: seen, continued }
    }

    fn next(&mut self) -> EditOutcome {
        let keyboard = Keyboard::take();
        let read = self.reedline.read_line(&self.look);
        drop(keyboard);
        let edited = match read {
            Ok(Signal::Success(text)) => {
                let text = self.pastes.put_back(&self.continued.joined(&text));
                EditOutcome::Input(TerminalInput::Line(text))
            }
            Ok(Signal::CtrlD) => EditOutcome::Left,
            Ok(Signal::CtrlC) => {
                let had_text = self.keys.had_text();
                EditOutcome::Input(TerminalInput::Stopped(if had_text {
                    String::from("…")
                } else {
                    String::new()
                }))
            }
            Ok(Signal::ExternalBreak(text)) => EditOutcome::Input(TerminalInput::Stopped(text)),
            Ok(_) => EditOutcome::Input(TerminalInput::Stopped(String::new())),
            Err(why) => EditOutcome::Failed(why),
        };
        self.reedline.run_edit_commands(&[EditCommand::Clear]);
        self.continued.clear();
        self.keys.clear();
        self.pastes.forget_old();
        edited
    }
}
