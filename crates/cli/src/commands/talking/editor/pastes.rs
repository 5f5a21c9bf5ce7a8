//! Pasted text. A short paste becomes typed text. A long one is shown as a mark such as `[pasted 10 MB, 120,000 lines]`, which the
//! text replaces when the message is sent: drawing megabytes at each key press would freeze the prompt.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{amounts, output};

/// The longest paste that is shown in full, in bytes.
const SHOWN_BYTES: usize = 1000;
const SHOWN_LINES: usize = 10;

/// How many bytes of pasted text are kept for keys that restore a deleted mark.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// The pastes of this prompt, with their marks.
#[derive(Clone, Default)]
pub struct Pastes(Arc<Mutex<Vec<(String, String)>>>);

impl Pastes {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a paste, and returns its mark for the line.
    pub fn take_in(&self, text: &str) -> String {
        let text = output::typed(text);
        let lines = text.lines().count();
        // The editor does not know the width of a tab.
        if text.len() <= SHOWN_BYTES && lines <= SHOWN_LINES && !text.contains('\t') {
            return text;
        }
        let mut all = self.all();
        let what = format!("pasted {}, {}", size(text.len()), counted(lines));
        let marks = (1..).map(|number: usize| match number {
            1 => format!("[{what}]"),
            number => format!("[{what} #{number}]"),
        });
        let mark = marks
            .into_iter()
            .find(|mark| all.iter().all(|(known, _)| known != mark))
            .expect("BUG: there is always another number");
        all.push((mark.clone(), text));
        mark
    }

    /// Replaces every mark in the text by its paste.
    pub fn put_back(&self, line: &str) -> String {
        let all = self.all();
        let mut out = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find("[pasted ") {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (mark, text) = all
                .iter()
                .find(|(mark, _)| rest.starts_with(mark.as_str()))
                .map_or(("[", "["), |(mark, text)| (mark, text));
            out.push_str(text);
            rest = &rest[mark.len()..];
        }
        out.push_str(rest);
        out
    }

    /// Forgets the oldest pastes if they take too much memory.
    pub fn forget_old(&self) {
        let mut all = self.all();
        let mut kept = 0;
        let from = all.iter().rposition(|(_, text)| {
            kept += text.len();
            kept > KEPT_BYTES
        });
        all.drain(..from.map_or(0, |from| from + 1));
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => output::plural(bytes, "byte"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn counted(lines: usize) -> String {
    let noun = output::agreeing(lines as u64, "line", "lines");
    format!("{} {noun}", amounts::count(lines as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pastes_have_marks_and_come_back() {
        let pastes = Pastes::default();
        assert_eq!(pastes.take_in("short\r\ntext"), "short\ntext");
        let long = "a line of text\n".repeat(700_000);
        let mark = pastes.take_in(&long);
        assert_eq!(mark, "[pasted 10 MB, 700,000 lines]");
        let second = pastes.take_in(&long);
        assert_eq!(second, "[pasted 10 MB, 700,000 lines #2]");
        let line = format!("see {second} and {mark}, [pasted nothing]");
        assert_eq!(pastes.put_back(&line), format!("see {long} and {long}, [pasted nothing]"));
    }

    #[test]
    fn no_escape_sequence_is_pasted() {
        let pastes = Pastes::default();
        assert_eq!(pastes.take_in("red \u{1b}[31mrose\u{1b}[0m\u{7} \u{1b}]0;x\u{7}end"), "red rose end");
        let tabs = pastes.take_in("a\tb");
        assert_eq!(tabs, "[pasted 3 bytes, 1 line]");
        assert_eq!(pastes.put_back(&tabs), "a\tb");
    }

    #[test]
    fn old_pastes_are_forgotten() {
        let pastes = Pastes::default();
        let marks: Vec<String> =
            (0..5).map(|number| pastes.take_in(&number.to_string().repeat(20_000_000))).collect();
        pastes.forget_old();
        assert_eq!(pastes.put_back(&marks[0]), marks[0]);
        assert_eq!(pastes.put_back(&marks[4]).len(), 20_000_000);
    }
}
