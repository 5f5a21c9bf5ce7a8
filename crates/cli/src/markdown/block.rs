//! Draws one block of Markdown as rows of a terminal.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{
    code::Highlighter,
    table::{self, Cells},
    wrap::{StyledSpan, painted, spans_width, wrapped},
};
use crate::output::{self, harmless_lines};

const CODE: Style = AnsiColor::Cyan.on_default();
const QUOTE: &str = "│ ";

/// The greatest drawn depth of quotes and lists. Deeper ones are drawn like this, to leave room for text.
const DEEPEST: usize = 6;

/// The widest separator line, in columns.
const RULE: usize = 60;

/// The rows of a block, at most `width` columns wide; `taken` columns of the first row are in use already.
pub fn rows(source: &str, width: usize, taken: usize) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut drawing = Drawing { width, taken, ..Drawing::default() };
    for event in Parser::new_ext(source, options) {
        drawing.event(event);
    }
    drawing.end_text();
    if drawing.rows.iter().all(String::is_empty) && !source.trim().is_empty() {
        // Markdown does not show some text, such as the definition of a link. Here, all text is shown.
        return plain(source, width, taken);
    }
    drawing.rows
}

/// The rows of a text without markup.
pub fn plain(text: &str, width: usize, taken: usize) -> Vec<String> {
    wrapped(&[StyledSpan::plain(text.trim_end_matches('\n'))], width, taken)
        .iter()
        .map(|row| painted(row))
        .collect()
}

/// The text before the rows of a container.
#[derive(Debug, Clone)]
struct RowPrefix {
    /// Before the first row, once.
    first: Option<StyledSpan>,
    /// Before every other row.
    then: StyledSpan,
}

#[derive(Default)]
struct Drawing {
    width: usize,
    taken: usize,
    rows: Vec<String>,
    before: Vec<RowPrefix>,
    /// The number of open containers that are too deep to be drawn.
    too_deep: usize,
    spans: Vec<StyledSpan>,
    styles: Vec<Style>,
    links: Vec<(String, usize)>,
    /// The next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    table: Option<Table>,
    code: Option<(Highlighter, String)>,
}

#[derive(Default)]
struct Table {
    head: Cells,
    body: Vec<Cells>,
    row: Cells,
}

impl Drawing {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text, Style::new()),
            },
            Event::Code(text) => self.text(&text, CODE),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text, Style::new()),
            Event::SoftBreak => self.text(" ", Style::new()),
            Event::HardBreak => self.text("\n", Style::new()),
            Event::Rule => {
                let room = self.room();
                self.row(vec![StyledSpan::new(output::DIM, "─".repeat(room.min(RULE)))]);
            }
            Event::TaskListMarker(done) => self.text(if done { "☑ " } else { "☐ " }, Style::new()),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text, Style::new());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            // Paragraphs of a quote are separated by an empty line; elsewhere, an empty line has ended the block.
            Tag::Paragraph if !self.rows.is_empty() && !self.before.is_empty() => self.row(Vec::new()),
            Tag::Heading { level, .. } => {
                let style =
                    if level == HeadingLevel::H1 { output::STRONG.underline() } else { output::STRONG };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.end_text();
                self.open(RowPrefix { first: None, then: StyledSpan::new(output::DIM, QUOTE) });
            }
            Tag::CodeBlock(kind) => {
                self.end_text();
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => &**language,
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((Highlighter::new(language), String::new()));
            }
            Tag::List(first) => {
                self.end_text();
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_text();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => String::from("• "),
                };
                let then = StyledSpan::plain(" ".repeat(mark.chars().count()));
                self.open(RowPrefix { first: Some(StyledSpan::plain(mark)), then });
            }
            Tag::Table(_) => {
                self.end_text();
                self.table = Some(Table::default());
            }
            Tag::Emphasis => self.styles.push(Style::new().italic()),
            Tag::Strong => self.styles.push(output::STRONG),
            Tag::Strikethrough => self.styles.push(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.spans.len()));
                self.styles.push(Style::new().underline());
            }
            Tag::Image { dest_url, .. } => {
                self.text("[image: ", Style::new());
                self.links.push((dest_url.into_string(), self.spans.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_text(),
            TagEnd::Heading(_) => {
                self.end_text();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_text();
                // Draw an empty item, too.
                if self.too_deep == 0 && self.before.last().is_some_and(|before| before.first.is_some()) {
                    self.row(Vec::new());
                }
                self.close();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => {
                let Some((mut highlighter, code)) = self.code.take() else { return };
                for line in code.lines() {
                    let line = harmless_lines(line).replace('\t', "    ");
                    let room = self.room();
                    let spans = highlighter.line(&line);
                    for row in cut(&spans, room) {
                        self.row(row);
                    }
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.row.push(cell);
                }
            }
            TagEnd::TableHead => {
                if let Some(table) = &mut self.table {
                    table.head = std::mem::take(&mut table.row);
                }
            }
            TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.body.push(std::mem::take(&mut table.row));
                }
            }
            TagEnd::Table => {
                let Some(table) = self.table.take() else { return };
                let room = self.room();
                for row in table::rows(&table.head, &table.body, room) {
                    self.row(row);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link("");
            }
            TagEnd::Image => self.end_link("]"),
            _ => {}
        }
    }

    /// Shows the target of a link, unless the link's text is the same.
    fn end_link(&mut self, close: &str) {
        let Some((url, from)) = self.links.pop() else { return };
        let shown: String = self.spans.iter().skip(from).map(|span| span.text.as_str()).collect();
        if !close.is_empty() {
            self.text(close, Style::new());
        }
        if url != shown && url.strip_prefix("mailto:") != Some(&shown) {
            self.text(&format!(" ({url})"), output::DIM);
        }
    }

    /// Adds text in a style, combined with the open styles. Markdown can encode any character, so the text is made safe to print.
    fn text(&mut self, text: &str, style: Style) {
        let text = if text.contains(char::is_control) { harmless_lines(text) } else { text.to_owned() };
        let text = text.replace('\t', "    ");
        let style = self.styles.iter().fold(style, |style, open| merged(style, *open));
        // The text of a link begins a new span, so that it can be compared with the address.
        let joins = self.links.last().is_none_or(|(_, from)| *from < self.spans.len());
        match self.spans.last_mut() {
            Some(last) if joins && last.style == style => last.text.push_str(&text),
            _ => self.spans.push(StyledSpan::new(style, text)),
        }
    }

    fn open(&mut self, before: RowPrefix) {
        if self.before.len() < DEEPEST {
            self.before.push(before);
        } else {
            self.too_deep += 1;
        }
    }

    fn close(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else {
            self.before.pop();
        }
    }

    /// The number of columns left for text.
    fn room(&self) -> usize {
        let taken: usize =
            self.before.iter().map(|before| spans_width(std::slice::from_ref(&before.then))).sum();
        self.width.saturating_sub(taken).max(8)
    }

    fn end_text(&mut self) {
        let mut spans = std::mem::take(&mut self.spans);
        if spans.iter().all(|span| span.text.trim().is_empty()) {
            return;
        }
        let taken = if self.rows.is_empty() { self.taken } else { 0 };
        if taken > 0 {
            spans.insert(0, StyledSpan::plain(" "));
        }
        for row in wrapped(&spans, self.room(), taken) {
            self.row(row);
        }
    }

    fn row(&mut self, spans: Vec<StyledSpan>) {
        let mut row: Vec<StyledSpan> = Vec::new();
        for before in &mut self.before {
            row.push(before.first.take().unwrap_or_else(|| before.then.clone()));
        }
        row.extend(spans);
        self.rows.push(painted(&row).trim_end_matches(' ').to_owned());
    }
}

/// Splits code into rows of at most `width` columns, without regard to words.
pub fn cut(spans: &[StyledSpan], width: usize) -> Vec<Vec<StyledSpan>> {
    let mut rows = vec![Vec::new()];
    let mut used = 0;
    for span in spans {
        let mut text = String::new();
        for c in span.text.chars() {
            let columns = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            if used + columns > width && used > 0 {
                rows.last_mut()
                    .expect("BUG: there is a row")
                    .push(StyledSpan::new(span.style, std::mem::take(&mut text)));
                rows.push(Vec::new());
                used = 0;
            }
            text.push(c);
            used += columns;
        }
        if !text.is_empty() {
            rows.last_mut().expect("BUG: there is a row").push(StyledSpan::new(span.style, text));
        }
    }
    rows
}

/// Two styles at once.
fn merged(inner: Style, outer: Style) -> Style {
    let style = inner.effects(inner.get_effects() | outer.get_effects());
    style.fg_color(inner.get_fg_color().or(outer.get_fg_color()))
}
