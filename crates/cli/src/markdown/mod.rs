//! Draws a model's answer as Markdown on a terminal, while it arrives.
//!
//! Text is grouped into blocks line by line: a paragraph, an item of a list, a heading, a table, a quote. A complete block is drawn
//! only once; the open one is redrawn as it grows. Lines of code are drawn one by one. The open block is bounded in size and
//! height, so the work is linear in the length of any answer, and rows that have left the screen are never needed again.
//!
//! `block.rs` draws a block, with `wrap.rs`, `table.rs` and `code.rs`.

mod block;
mod code;
mod table;
mod wrap;

use code::Highlighter;
use wrap::{StyledSpan, painted, width};

use crate::output::{self, harmless_lines, paint};

/// The largest open block, in bytes. A longer paragraph continues as another block in the same row.
const OPEN_BYTES: usize = 2048;

/// The largest open table, in bytes.
const TABLE_BYTES: usize = 64 * 1024;

/// The smallest size, in columns and rows, that a terminal is assumed to have.
const LEAST: (usize, usize) = (12, 4);

/// An answer that is being drawn.
pub struct Markdown {
    /// Columns and rows of the terminal.
    size: (usize, usize),
    state: State,
    /// The source of the open block.
    open: String,
    /// The offset of its last line.
    line: usize,
    /// The rows of the open block as they are on the terminal. The cursor is at the end of the last one.
    drawn: Vec<String>,
    /// The columns before the open block in its first row, if the block continues a paragraph.
    taken: usize,
    /// Whether an empty line must precede the next block.
    blank: bool,
    /// Whether something was drawn.
    began: bool,
    /// Whether indented text belongs to an item of a list.
    in_list: bool,
    out: String,
}

enum State {
    Text,
    Code(Box<Fence>),
    /// A block that is too large for its own form, drawn as plain text until it ends.
    Plain {
        at_line_start: bool,
    },
}

/// An open block of code.
struct Fence {
    mark: char,
    length: usize,
    highlighter: Highlighter,
    /// The line so far, but at most as much as is ever highlighted.
    line: String,
    /// Whether a part of the line was drawn.
    begun: bool,
}

impl Markdown {
    pub fn new() -> Self {
        Self::of_size(output::terminal_size())
    }

    fn of_size((columns, rows): (usize, usize)) -> Self {
        Self {
            size: (columns.max(LEAST.0), rows.max(LEAST.1)),
            state: State::Text,
            open: String::new(),
            line: 0,
            drawn: Vec::new(),
            taken: 0,
            blank: false,
            began: false,
            in_list: false,
            out: String::new(),
        }
    }

    /// Takes the next piece of the answer, and returns the text to write to the terminal.
    pub fn push(&mut self, text: &str) -> String {
        self.resize(output::terminal_size());
        self.take(text)
    }

    fn take(&mut self, text: &str) -> String {
        for piece in harmless_lines(text).split_inclusive('\n') {
            match self.state {
                State::Text => self.text(piece),
                State::Code(_) => self.code(piece),
                State::Plain { .. } => self.plain(piece),
            }
        }
        if matches!(self.state, State::Text) {
            self.draw();
        }
        std::mem::take(&mut self.out)
    }

    /// Ends the answer, or its part before other output. The cursor is then at the beginning of a line.
    pub fn finish(&mut self) -> String {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => self.commit(),
            State::Code(fence) => {
                if fence.begun {
                    self.out.push('\n');
                }
            }
            State::Plain { at_line_start } => {
                if !at_line_start {
                    self.out.push('\n');
                }
            }
        }
        (self.blank, self.began, self.in_list) = (false, false, false);
        std::mem::take(&mut self.out)
    }

    /// Continues after the terminal's size changed. Lines that were already drawn stay, because the terminal may have moved them.
    fn resize(&mut self, (columns, rows): (usize, usize)) {
        let size = (columns.max(LEAST.0), rows.max(LEAST.1));
        if size != std::mem::replace(&mut self.size, size) && !self.drawn.is_empty() {
            let rest = self.open.len();
            self.continue_at(rest);
            self.taken = 0;
            self.out.push('\n');
        }
    }

    /// The columns for text. The last one stays empty, because terminals behave differently when it is filled.
    fn width(&self) -> usize {
        self.size.0 - 1
    }

    fn text(&mut self, piece: &str) {
        self.open.push_str(piece);
        if piece.ends_with('\n') {
            self.end_line();
        }
        let most = if is_table(&self.open) { TABLE_BYTES } else { OPEN_BYTES };
        if matches!(self.state, State::Text) && self.open.len() > most {
            self.split();
        }
    }

    /// Applies a complete line to the open block.
    fn end_line(&mut self) {
        let from = self.line;
        let line = self.open[from..].trim_end().to_owned();
        let begins = line.trim_start();
        if begins.is_empty() {
            self.open.truncate(from);
            self.commit();
            self.blank = self.began;
        } else if let Some((mark, length)) = fence(begins) {
            self.open.truncate(from);
            if from == 0 {
                self.erase();
            }
            self.commit();
            self.space();
            let language = begins.trim_start_matches(mark).trim().to_ascii_lowercase();
            self.out.push_str(&paint(&line, output::DIM));
            self.out.push('\n');
            let highlighter = Highlighter::new(&language);
            self.state =
                State::Code(Box::new(Fence { mark, length, highlighter, line: String::new(), begun: false }));
        } else if is_heading(begins) || is_item(begins) {
            if from > 0 {
                self.open.truncate(from);
                self.commit();
                self.open = format!("{line}\n");
            }
            self.line = self.open.len();
            if is_heading(begins) {
                self.commit();
            }
        } else {
            self.line = self.open.len();
        }
    }

    /// Draws the open block in its current state.
    fn draw(&mut self) {
        if self.open.trim().is_empty() {
            return;
        }
        let rows = self.rows(false);
        if rows.len() + 1 < self.size.1 {
            self.redraw(rows);
        } else {
            self.split();
            if matches!(self.state, State::Text) && !self.open.trim().is_empty() {
                let rows = self.rows(false);
                self.redraw(rows);
            }
        }
    }

    /// Ends the open block.
    fn commit(&mut self) {
        if !self.open.trim().is_empty() {
            let rows = self.rows(true);
            self.redraw(rows);
        }
        if !self.drawn.is_empty() || self.taken > 0 {
            self.out.push('\n');
        }
        self.list_after_open();
        self.open.clear();
        self.drawn.clear();
        (self.line, self.taken) = (0, 0);
    }

    /// Determines whether text after the open block may belong to a list.
    fn list_after_open(&mut self) {
        let first = self.open.lines().next().unwrap_or_default();
        if !first.trim().is_empty() {
            self.in_list = is_item(first.trim_start()) || (self.in_list && first.starts_with([' ', '\t']));
        }
    }

    /// Shortens an open block that is too large: a paragraph continues after its last space; any other block becomes plain from
    /// here on.
    fn split(&mut self) {
        let is_paragraph = !self.open.trim_start().starts_with(['>', '|']) && !is_table(&self.open);
        // Do not split where the rest would look like the beginning of another block.
        let half = self.open.len() / 2;
        let begins_word = |at: &usize| self.open[at + 1..].chars().next().is_none_or(char::is_alphabetic);
        let spaces = self.open.rmatch_indices([' ', '\n']).map(|(at, _)| at);
        let space = spaces.take_while(|at| *at > half).find(begins_word);
        match space.filter(|_| is_paragraph) {
            Some(at) => {
                let rest = self.open.split_off(at);
                let rows = self.rows(true);
                self.redraw(rows);
                self.open.push_str(&rest);
                self.continue_at(at + 1);
            }
            None => {
                let rows = block::plain(&self.open, self.width(), self.taken);
                let at_line_start = self.open.ends_with('\n');
                self.redraw(rows);
                if at_line_start {
                    self.out.push('\n');
                }
                self.open.clear();
                self.drawn.clear();
                (self.line, self.taken) = (0, 0);
                self.state = State::Plain { at_line_start };
            }
        }
    }

    /// Keeps what is already drawn on the screen, and continues with the rest of the open block after it.
    fn continue_at(&mut self, at: usize) {
        self.list_after_open();
        let last = self.drawn.pop().unwrap_or_default();
        let before = if self.drawn.is_empty() { self.taken } else { 0 };
        self.taken = before + width(&anstream::adapter::strip_str(&last).to_string());
        self.drawn.clear();
        self.open.drain(..at.min(self.open.len()));
        self.line = self.open.rfind('\n').map_or(0, |at| at + 1);
    }

    /// The rows of the open block.
    fn rows(&self, is_complete: bool) -> Vec<String> {
        let first = self.open.lines().next().unwrap_or_default();
        let spaces = first.len() - first.trim_start().len();
        let indent = if self.taken > 0 { 0 } else { spaces.min(self.width() / 2) };
        let room = self.width() - indent;
        let margin = " ".repeat(indent);
        if is_table(&self.open) && !is_complete {
            let count = self.open.lines().count().saturating_sub(2);
            let about = format!("a table, {} so far", output::plural(count, "row"));
            return vec![format!("{margin}{}", paint(&about, output::DIM))];
        }
        let mut rows = if spaces >= 4 && !self.in_list && self.taken == 0 {
            let lines = self.open.lines().flat_map(|line| {
                let line = line.get(indent..).filter(|_| line[..indent.min(line.len())].trim().is_empty());
                block::cut(&[StyledSpan::plain(line.unwrap_or_default().replace('\t', "    "))], room)
            });
            lines.map(|row| painted(&row)).collect()
        } else {
            let source: Vec<&str> = self.open.lines().map(|line| without_indent(line, spaces)).collect();
            block::rows(&source.join("\n"), room, self.taken)
        };
        if rows.is_empty() {
            rows.push(String::new());
        }
        for row in rows.iter_mut().filter(|row| !row.is_empty()) {
            row.insert_str(0, &margin);
        }
        rows
    }

    /// Begins a block: after an empty line, if the source has one.
    fn space(&mut self) {
        if std::mem::take(&mut self.blank) {
            self.out.push('\n');
        }
        self.began = true;
    }

    /// Replaces the rows of the open block. Unchanged rows are not written again.
    fn redraw(&mut self, rows: Vec<String>) {
        if self.drawn.is_empty() {
            if self.taken == 0 {
                self.space();
            }
            self.out.push_str(&rows.join("\n"));
            self.drawn = rows;
            return;
        }
        let same = self.drawn.iter().zip(&rows).take_while(|(drawn, row)| drawn == row).count();
        let last = self.drawn.len() - 1;
        if same == self.drawn.len() {
            for row in &rows[same..] {
                self.out.push('\n');
                self.out.push_str(row);
            }
        } else if same == last && rows.len() > last && rows[last].starts_with(&self.drawn[last]) {
            self.out.push_str(&rows[last][self.drawn[last].len()..]);
            for row in &rows[last + 1..] {
                self.out.push('\n');
                self.out.push_str(row);
            }
        } else {
            let from = same.min(rows.len() - 1);
            if last > from {
                self.out.push_str(&format!("\u{1b}[{}A", last - from));
            }
            self.out.push('\r');
            if from == 0 && self.taken > 0 {
                self.out.push_str(&format!("\u{1b}[{}C", self.taken));
            }
            self.out.push_str("\u{1b}[J");
            self.out.push_str(&rows[from..].join("\n"));
        }
        self.drawn = rows;
    }

    /// Erases the open block from the terminal.
    fn erase(&mut self) {
        if let Some(last) = self.drawn.len().checked_sub(1) {
            if last > 0 {
                self.out.push_str(&format!("\u{1b}[{last}A"));
            }
            self.out.push_str("\r\u{1b}[J");
            self.drawn.clear();
        }
    }

    /// Takes a piece of a line of code. It is shown at once, and coloured when the line is complete.
    fn code(&mut self, piece: &str) {
        let (columns, height) = self.size;
        let State::Code(fence) = &mut self.state else { return };
        let (text, ends) = piece.strip_suffix('\n').map_or((piece, false), |text| (text, true));
        let text = text.replace('\t', "    ");
        let room = (code::LONGEST_LINE + 1).saturating_sub(fence.line.len());
        fence.line.extend(text.chars().take(room));
        if !ends {
            self.out.push_str(&text);
            fence.begun |= !text.is_empty();
            return;
        }
        let line = std::mem::take(&mut fence.line);
        let closing = line.trim();
        let closes = closing.chars().all(|c| c == fence.mark) && closing.len() >= fence.length;
        let is_long = line.len() > code::LONGEST_LINE;
        let spans = if closes {
            vec![StyledSpan::new(output::DIM, line.as_str())]
        } else {
            fence.highlighter.line(&line)
        };
        let begun = std::mem::take(&mut fence.begun);
        let rows = if begun { block::cut(&[StyledSpan::plain(line.as_str())], columns).len() } else { 1 };
        if is_long || rows >= height {
            // All but the last piece is already on the terminal.
            self.out.push_str(&text);
        } else {
            if begun {
                if rows > 1 {
                    self.out.push_str(&format!("\u{1b}[{}A", rows - 1));
                }
                self.out.push_str("\r\u{1b}[J");
            }
            self.out.push_str(&painted(&spans));
        }
        self.out.push('\n');
        if closes {
            self.state = State::Text;
        }
    }

    fn plain(&mut self, piece: &str) {
        let State::Plain { at_line_start } = &mut self.state else { return };
        if *at_line_start && piece.trim().is_empty() && piece.ends_with('\n') {
            self.state = State::Text;
            self.blank = true;
            return;
        }
        *at_line_start = piece.ends_with('\n');
        self.out.push_str(piece);
    }
}

/// The mark and the length of a fence, if the line opens a block of code.
fn fence(line: &str) -> Option<(char, usize)> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    (length >= 3 && !(mark == '`' && info.contains('`'))).then_some((mark, length))
}

fn is_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - text.len())) && (text.is_empty() || text.starts_with(' '))
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let rest = line.strip_prefix(['-', '*', '+']).or_else(|| {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        line[digits..].strip_prefix(['.', ')']).filter(|_| (1..=9).contains(&digits))
    });
    rest.is_some_and(|rest| rest.starts_with(' ') || rest.is_empty())
}

/// Whether the second line makes a table of the first one.
fn is_table(block: &str) -> bool {
    let mut lines = block.lines();
    let (head, rule) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default().trim());
    head.contains('|') && rule.contains('-') && rule.contains('|') && rule.chars().all(|c| "|-: ".contains(c))
}

/// A line without its indentation, at most that of the block's beginning.
fn without_indent(line: &str, most: usize) -> &str {
    let spaces = line.bytes().take(most).take_while(|byte| *byte == b' ' || *byte == b'\t').count();
    &line[spaces..]
}

#[cfg(test)]
mod tests;
