//! The look of the line: the mark before it, hints after it, and whether Enter ends it.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use nu_ansi_term::Style;
use reedline::{
    DefaultHinter, Highlighter, Hinter, History, Prompt, PromptEditMode, PromptHistorySearch,
    PromptHistorySearchStatus, StyledText, ValidationResult, Validator,
};

use super::keys::LineState;

/// The marks before the first line of a message, and before its other lines.
const MARK: &str = "› ";
const FURTHER: &str = "· ";

/// How many characters of a search Ctrl-R shows.
const SEARCHED: usize = 30;

pub struct Look;

impl Prompt for Look {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed(MARK)
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(FURTHER)
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing found: ",
        };
        let term: String = search.term.chars().take(SEARCHED).collect();
        Cow::Owned(format!("search ({failing}{term}) › "))
    }
}

/// Records whether the line has text. It draws the line unchanged.
pub struct TextWatcher(pub Arc<LineState>);

impl Highlighter for TextWatcher {
    fn highlight(&self, line: &str, _: usize) -> StyledText {
        self.0.drew(line);
        let mut text = StyledText::new();
        text.push((Style::new(), line.to_owned()));
        text
    }
}

/// Decides whether Enter ends the message. It does not after a backslash, which is removed, or in an open code fence.
#[derive(Clone, Default)]
pub struct LineContinuation(Arc<Mutex<Vec<String>>>);

impl LineContinuation {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message without the backslashes that only continued it. Others, such as those in a pasted script, stay.
    pub fn joined(&self, text: &str) -> String {
        let continued = self.lines();
        if continued.is_empty() {
            return text.to_owned();
        }
        let lines = text.split('\n').map(|line| match line.strip_suffix('\\') {
            Some(without) if continued.iter().any(|known| known == line) => without,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    pub fn clear(&self) {
        self.lines().clear();
    }
}

impl Validator for LineContinuation {
    fn validate(&self, text: &str) -> ValidationResult {
        let last = text.rsplit('\n').next().unwrap_or(text);
        let backslashes = last.len() - last.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            self.lines().push(last.to_owned());
            return ValidationResult::Incomplete;
        }
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
        if fences % 2 == 1 { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// Hints: the rest of the first command, or else of the newest message, that begins with the line.
pub struct Hints {
    past: DefaultHinter,
    commands: Vec<String>,
    /// The rest of the hinted command, if there is one.
    command: Option<String>,
}

impl Hints {
    pub fn new(commands: Vec<String>) -> Self {
        let past = DefaultHinter::default().with_style(Style::new().dimmed());
        Self { past, commands, command: None }
    }
}

impl Hinter for Hints {
    fn handle(&mut self, line: &str, pos: usize, past: &dyn History, coloured: bool, cwd: &str) -> String {
        let typed = Some(line).filter(|line| line.len() > 1 && line.starts_with('/'));
        self.command = typed.and_then(|typed| {
            let rests = self.commands.iter().filter_map(|name| name.strip_prefix(typed));
            rests.min_by_key(|rest| rest.len()).filter(|rest| !rest.is_empty()).map(str::to_owned)
        });
        match &self.command {
            Some(rest) => Style::new().dimmed().paint(rest).to_string(),
            None => self.past.handle(line, pos, past, coloured, cwd),
        }
    }

    fn complete_hint(&self) -> String {
        self.command.clone().unwrap_or_else(|| self.past.complete_hint())
    }

    fn next_hint_token(&self) -> String {
        self.command.clone().unwrap_or_else(|| self.past.next_hint_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(continued: &LineContinuation, text: &str) -> bool {
        matches!(continued.validate(text), ValidationResult::Complete)
    }

    #[test]
    fn a_backslash_continues_a_message_and_goes() {
        let continued = LineContinuation::default();
        assert!(!is_complete(&continued, "one\\"));
        assert!(is_complete(&continued, "one\\\ntwo"));
        assert_eq!(continued.joined("one\\\ntwo"), "one\ntwo");
        assert_eq!(continued.joined("one\\\ncurl \\\n-v"), "one\ncurl \\\n-v", "a pasted one stays");
        assert!(is_complete(&continued, "a \\\\"), "two backslashes are one");
    }

    #[test]
    fn an_open_fence_continues_a_message() {
        let continued = LineContinuation::default();
        assert!(!is_complete(&continued, "look:\n```rust\nfn main() {}"));
        assert!(is_complete(&continued, "look:\n```rust\nfn main() {}\n```"));
        assert!(is_complete(&continued, "a ``` in a line"));
    }
}
