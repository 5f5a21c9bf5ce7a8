//! The content of the picker, and the effects of its keys, independent of any terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    pattern::{CaseMatching, Normalization, Pattern},
};
use rejoin::{
    ConversationId,
    record::Timestamp,
    store::{Filter, Summary},
};

use crate::output::{self, harmless, local_time};

/// Narrower terminals, in columns, get shorter dates and no folders.
const WIDE: usize = 70;

/// The rows of the preview, if the terminal is high enough.
const PREVIEW: usize = 10;

/// A conversation in the list.
pub struct PickerRow {
    pub id: ConversationId,
    /// The `seq` of the conversation's newest entry.
    pub newest: u64,
    title: String,
    updated: Timestamp,
    folder: String,
    /// Whether it belongs to this folder.
    here: bool,
    /// The text that a search matches.
    searched: String,
}

impl PickerRow {
    pub fn new(summary: &Summary, here: &Filter) -> Self {
        let untitled = if summary.damaged { "(title unreadable)" } else { "(untitled)" };
        let title = harmless(summary.title.as_deref().unwrap_or(untitled));
        let folder = harmless(summary.about.directory.as_deref().unwrap_or_default());
        let from =
            [&summary.about.format, &summary.about.provider, &summary.about.model].into_iter().flatten();
        let about: Vec<&str> = from.map(String::as_str).collect();
        Self {
            id: summary.id,
            newest: summary.tail.as_ref().map_or(0, |tail| tail.seq),
            searched: format!("{title} {folder} {} {}", about.join(" "), summary.id),
            updated: summary.updated,
            here: here.shows(summary),
            title,
            folder,
        }
    }

    /// The conversation in one row.
    pub fn row(&self, columns: usize) -> String {
        let known = self.updated != Timestamp::UNIX_EPOCH;
        let time = if known { local_time(self.updated) } else { String::new() };
        let time = if columns >= WIDE { time.get(..16) } else { time.get(5..10) };
        let mut row = format!("{}  {}", time.unwrap_or("unknown"), self.title);
        if columns >= WIDE && !self.folder.is_empty() {
            row += &format!("  ({})", self.folder);
        }
        row
    }
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum PickerOutcome {
    Open,
    Chosen(ConversationId),
    Left,
}

/// The list, the typed search, and the selected conversation.
pub struct PickerState {
    all: Vec<PickerRow>,
    /// The scores and indexes of the conversations that match, best first.
    fitting: Vec<(u32, usize)>,
    query: String,
    only_here: bool,
    /// The position of the selected one among the matches.
    marked: usize,
    matcher: Matcher,
    pub is_loading: bool,
}

impl PickerState {
    pub fn new() -> Self {
        Self {
            all: Vec::new(),
            fitting: Vec::new(),
            query: String::new(),
            only_here: false,
            marked: 0,
            matcher: Matcher::new(Config::DEFAULT),
            is_loading: true,
        }
    }

    pub fn add(&mut self, listed: Vec<PickerRow>) {
        let from = self.all.len();
        self.all.extend(listed);
        self.search(from);
    }

    pub fn marked(&self) -> Option<&PickerRow> {
        self.fitting.get(self.marked).and_then(|(_, place)| self.all.get(*place))
    }

    /// Finds the matches among the conversations from index `from` on.
    fn search(&mut self, from: usize) {
        if from == 0 {
            self.fitting.clear();
        }
        let pattern = Pattern::parse(&self.query, CaseMatching::Ignore, Normalization::Smart);
        let mut letters = Vec::new();
        for (place, listed) in self.all.iter().enumerate().skip(from) {
            if self.only_here && !listed.here {
                continue;
            }
            let score = if self.query.is_empty() {
                Some(0)
            } else {
                pattern.score(Utf32Str::new(&listed.searched, &mut letters), &mut self.matcher)
            };
            self.fitting.extend(score.map(|score| (score, place)));
        }
        // Of equally good matches, the newest comes first.
        self.fitting.sort_by_key(|(score, place)| (std::cmp::Reverse(*score), *place));
    }

    fn typed(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        self.marked = 0;
        self.search(0);
    }

    /// Handles a key. A page has `rows` rows.
    pub fn key(&mut self, key: KeyEvent, page: usize) -> PickerOutcome {
        let last = self.fitting.len().saturating_sub(1);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return PickerOutcome::Left,
            KeyCode::Char('c' | 'd') if control => return PickerOutcome::Left,
            KeyCode::Enter => {
                return self.marked().map_or(PickerOutcome::Open, |marked| PickerOutcome::Chosen(marked.id));
            }
            KeyCode::Char('j') if control => {
                return self.marked().map_or(PickerOutcome::Open, |marked| PickerOutcome::Chosen(marked.id));
            }
            KeyCode::Up => self.marked = self.marked.saturating_sub(1),
            KeyCode::Char('p') if control => self.marked = self.marked.saturating_sub(1),
            KeyCode::Down => self.marked = (self.marked + 1).min(last),
            KeyCode::Char('n') if control => self.marked = (self.marked + 1).min(last),
            KeyCode::PageUp => self.marked = self.marked.saturating_sub(page),
            KeyCode::PageDown => self.marked = (self.marked + page).min(last),
            KeyCode::Home => self.marked = 0,
            KeyCode::End => self.marked = last,
            KeyCode::Tab => self.typed(|choice| choice.only_here = !choice.only_here),
            KeyCode::Backspace => {
                self.typed(|choice| {
                    choice.query.pop();
                });
            }
            KeyCode::Char('u' | 'w') if control => self.typed(|choice| choice.query.clear()),
            KeyCode::Char(c) if !control => self.typed(|choice| choice.query.push(c)),
            _ => {}
        }
        PickerOutcome::Open
    }

    /// Adds pasted text to the search.
    pub fn paste(&mut self, text: &str) {
        let line: String = output::typed(text).lines().next().unwrap_or_default().to_owned();
        self.typed(|choice| choice.query.push_str(&line));
    }

    /// The number of rows of the list.
    pub fn page(rows: usize) -> usize {
        rows.saturating_sub(3 + Self::preview_rows(rows)).max(1)
    }

    fn preview_rows(rows: usize) -> usize {
        if rows < 12 { 0 } else { PREVIEW.min(rows / 3) }
    }

    /// The whole screen, row by row.
    pub fn screen(&self, (columns, rows): (usize, usize), preview: &[String]) -> Vec<String> {
        let fit = |row: &str| fitting(row, columns - 1);
        let more = if self.is_loading { "…" } else { "" };
        let count = |count: usize| crate::amounts::count(count as u64);
        let place = if self.only_here { ", this folder only" } else { "" };
        let counts = format!("{} of {}{more}{place}", count(self.fitting.len()), count(self.all.len()));
        let mut screen = vec![
            fit(&format!("{} {}▏", output::paint("Resume:", output::STRONG), harmless(&self.query))),
            output::paint(&fit(&counts), output::DIM),
        ];
        let page = Self::page(rows);
        let from = (self.marked / page) * page;
        for number in from..from + page {
            let listed = self.fitting.get(number).and_then(|(_, place)| self.all.get(*place));
            screen.push(match listed {
                Some(listed) if number == self.marked => {
                    output::paint(&fit(&format!("› {}", listed.row(columns))), output::STRONG)
                }
                Some(listed) => fit(&format!("  {}", listed.row(columns))),
                None if number == 0 && !self.is_loading => {
                    output::paint(&fit("  Nothing fits. Ctrl-U clears the search."), output::DIM)
                }
                None => String::new(),
            });
        }
        let room = Self::preview_rows(rows);
        if room > 0 {
            screen.push(output::paint(&"─".repeat(columns - 1), output::DIM));
            let last = preview.len().saturating_sub(room - 1);
            let shown = preview[last..].iter().map(String::as_str).chain(std::iter::repeat(""));
            screen.extend(shown.take(room - 1).map(|line| output::paint(&fit(line), output::DIM)));
        }
        let keys = if columns < WIDE {
            "Enter resumes · Tab: folder · Esc"
        } else {
            "↑ ↓ choose · Enter resumes · Tab shows this folder only · Esc leaves"
        };
        screen.push(output::paint(&fit(keys), output::DIM));
        screen
    }
}

/// The first `columns` columns of a row. Styles take no columns.
fn fitting(row: &str, columns: usize) -> String {
    let plain = anstream::adapter::strip_str(row).to_string();
    if unicode_width::UnicodeWidthStr::width(plain.as_str()) <= columns {
        return row.to_owned();
    }
    output::cut(&plain, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn choice(count: u64) -> PickerState {
        let here = Filter { folders: vec!["/here".into()], ..Filter::default() };
        let mut choice = PickerState::new();
        choice.add(
            (0..count)
                .map(|number| {
                    let mut summary = Summary::new(ConversationId::from_random(number));
                    summary.title = Some(format!("talk {number} about \u{1b}[31m日本"));
                    summary.about.directory =
                        Some(String::from(if number % 2 == 0 { "/here" } else { "/there" }));
                    PickerRow::new(&summary, &here)
                })
                .collect(),
        );
        choice.is_loading = false;
        choice
    }

    #[test]
    fn keys_search_and_choose() {
        let mut choice = choice(100);
        assert_eq!(choice.key(key(KeyCode::Down), 5), PickerOutcome::Open);
        assert_eq!(choice.marked().unwrap().id, ConversationId::from_random(1));
        for c in "tk 42".chars() {
            choice.key(key(KeyCode::Char(c)), 5);
        }
        assert_eq!(
            choice.key(key(KeyCode::Enter), 5),
            PickerOutcome::Chosen(ConversationId::from_random(42))
        );
        choice.paste("\u{1b}[31m nothing fits this\nor this");
        assert_eq!(choice.key(key(KeyCode::Enter), 5), PickerOutcome::Open);
        assert!(choice.screen((80, 24), &[])[2].contains("Nothing fits."));
        choice.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL), 5);
        choice.key(key(KeyCode::Tab), 5);
        assert_eq!(choice.fitting.len(), 50, "of this folder");
        choice.key(key(KeyCode::End), 5);
        assert_eq!(choice.marked().unwrap().id, ConversationId::from_random(98));
        assert_eq!(choice.key(key(KeyCode::Esc), 5), PickerOutcome::Left);
    }

    #[test]
    fn every_screen_fits() {
        let choice = choice(100);
        let preview: Vec<String> =
            (0..30).map(|number| format!("line {number} {}", "x".repeat(200))).collect();
        for size in [(20, 5), (40, 12), (80, 24), (200, 60)] {
            let screen = choice.screen(size, &preview);
            assert!(screen.len() <= size.1, "{size:?}: {} rows", screen.len());
            for row in screen {
                let plain = anstream::adapter::strip_str(&row).to_string();
                assert!(unicode_width::UnicodeWidthStr::width(plain.as_str()) < size.0, "{size:?}: {row:?}");
                assert!(!plain.contains('\u{1b}'));
            }
        }
    }
}
