//! The key bindings, and the handling of pastes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crossterm::event::Event;
use reedline::{
    EditCommand, EditMode, Emacs, KeyCode, KeyModifiers, PromptEditMode, ReedlineEvent, ReedlineRawEvent,
    default_emacs_keybindings,
};

use super::pastes::Pastes;

/// The name of the completion menu.
pub const MENU: &str = "completions";

/// The state of the line as seen from outside the editor, which does not tell it when Ctrl-C is pressed.
#[derive(Debug, Default)]
pub struct LineState {
    /// Whether the line had text when it was last drawn.
    drawn: AtomicBool,
    /// Whether something was typed since then.
    typed: AtomicBool,
}

impl LineState {
    pub fn drew(&self, line: &str) {
        self.drawn.store(!line.is_empty(), Ordering::Relaxed);
        self.typed.store(false, Ordering::Relaxed);
    }

    pub fn had_text(&self) -> bool {
        self.drawn.load(Ordering::Relaxed) || self.typed.load(Ordering::Relaxed)
    }

    pub fn clear(&self) {
        self.drew("");
    }
}

/// The keys of Emacs, as in most shells, with a few additions.
pub struct EditingKeys {
    emacs: Emacs,
    pastes: Pastes,
    seen: Arc<LineState>,
}

impl EditingKeys {
    pub fn new(pastes: Pastes, seen: Arc<LineState>) -> Self {
        let mut keys = default_emacs_keybindings();
        let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline());
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline());
        keys.add_binding(KeyModifiers::CONTROL | KeyModifiers::ALT, KeyCode::Char('j'), newline());
        // A line that was typed while a turn ran ends with this key.
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), ReedlineEvent::Enter);
        let complete = [ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete.into()));
        keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
        // This key would start a program in the middle of a line.
        keys.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('o'));
        Self { emacs: Emacs::new(keys), pastes, seen }
    }
}

impl EditMode for EditingKeys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = match event.into() {
            Event::Paste(text) => {
                self.seen.typed.store(true, Ordering::Relaxed);
                let shown = self.pastes.take_in(&text);
                return ReedlineEvent::Edit(vec![EditCommand::InsertString(shown)]);
            }
            event => event,
        };
        let Ok(event) = ReedlineRawEvent::try_from(event) else { return ReedlineEvent::None };
        let event = self.emacs.parse_event(event);
        if matches!(event, ReedlineEvent::Edit(_)) {
            self.seen.typed.store(true, Ordering::Relaxed);
        }
        event
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}
