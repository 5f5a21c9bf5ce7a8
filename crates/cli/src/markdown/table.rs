//! Draws tables: columns as wide as the terminal allows. If they would be too narrow to read, each row becomes a small list.

use anstyle::Style;

use super::wrap::{StyledSpan, spans_width, wrapped};
use crate::output;

/// The narrowest column that is easy to read.
const NARROWEST: usize = 6;

const BETWEEN: &str = " │ ";

/// One row of a table: the spans of each cell.
pub type Cells = Vec<Vec<StyledSpan>>;

/// A table with its head, in rows of at most `width` columns.
pub fn rows(head: &Cells, body: &[Cells], width: usize) -> Vec<Vec<StyledSpan>> {
    let count = head.len().max(body.iter().map(Vec::len).max().unwrap_or(0)).max(1);
    let wanted: Vec<usize> = (0..count)
        .map(|column| {
            let cells = std::iter::once(head).chain(body).filter_map(|row| row.get(column));
            cells.map(|cell| spans_width(cell)).max().unwrap_or(0).max(1)
        })
        .collect();
    let room = width.saturating_sub(BETWEEN.chars().count() * (count - 1));
    match shared(&wanted, room) {
        Some(widths) => drawn(head, body, &widths),
        None => listed(head, body, width),
    }
}

/// Divides the room among columns: narrow columns get what they need, the others share the rest. `None` if that is too little.
fn shared(wanted: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = wanted.to_vec();
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|column| wanted[*column]);
    let mut left = room;
    for (place, column) in order.iter().enumerate() {
        let share = left / (wanted.len() - place);
        widths[*column] = wanted[*column].min(share);
        if widths[*column] < wanted[*column].min(NARROWEST) {
            return None;
        }
        left -= widths[*column];
    }
    Some(widths)
}

fn drawn(head: &Cells, body: &[Cells], widths: &[usize]) -> Vec<Vec<StyledSpan>> {
    let mut rows = Vec::new();
    let line = |cells: &Cells, rows: &mut Vec<Vec<StyledSpan>>| {
        let columns: Vec<Vec<Vec<StyledSpan>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| wrapped(cells.get(column).map_or(&[][..], Vec::as_slice), *width, 0))
            .collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(1);
        for number in 0..height {
            let mut row = Vec::new();
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    row.push(StyledSpan::new(output::DIM, BETWEEN));
                }
                let cell = columns[column].get(number).map_or(&[][..], Vec::as_slice);
                row.extend_from_slice(cell);
                if column + 1 < widths.len() {
                    row.push(StyledSpan::plain(" ".repeat(width.saturating_sub(spans_width(cell)))));
                }
            }
            rows.push(row);
        }
    };
    line(&in_style(head, output::STRONG), &mut rows);
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    rows.push(vec![StyledSpan::new(output::DIM, rule.join("─┼─"))]);
    for cells in body {
        line(cells, &mut rows);
    }
    rows
}

/// Each row as a list of column heads and cells.
fn listed(head: &Cells, body: &[Cells], width: usize) -> Vec<Vec<StyledSpan>> {
    let mut rows = Vec::new();
    let titles = in_style(head, output::STRONG);
    if body.is_empty() {
        rows.extend(titles.iter().flat_map(|title| wrapped(title, width, 0)));
    }
    for (number, cells) in body.iter().enumerate() {
        if number > 0 {
            rows.push(vec![StyledSpan::new(output::DIM, "─".repeat(width.min(8)))]);
        }
        for (column, cell) in cells.iter().enumerate() {
            let mut spans = titles.get(column).cloned().unwrap_or_default();
            spans.push(StyledSpan::plain(": "));
            spans.extend_from_slice(cell);
            rows.extend(wrapped(&spans, width, 0));
        }
    }
    rows
}

fn in_style(cells: &Cells, style: Style) -> Cells {
    let bold = |spans: &Vec<StyledSpan>| {
        spans.iter().map(|span| StyledSpan::new(style, span.text.clone())).collect()
    };
    cells.iter().map(bold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(texts: &[&str]) -> Cells {
        texts.iter().map(|text| vec![StyledSpan::plain(*text)]).collect()
    }

    fn shown(head: &[&str], body: &[&[&str]], width: usize) -> Vec<String> {
        let body: Vec<Cells> = body.iter().map(|row| cells(row)).collect();
        let text = |row: &Vec<StyledSpan>| row.iter().map(|span| span.text.as_str()).collect::<String>();
        rows(&cells(head), &body, width).iter().map(text).collect()
    }

    #[test]
    fn columns_fit_or_become_a_list() {
        let body: &[&[&str]] = &[&["a", "short"], &["日本", "a longer text that wraps"]];
        assert_eq!(
            shown(&["k", "what"], body, 24),
            [
                "k    │ what",
                "─────┼──────────────────",
                "a    │ short",
                "日本 │ a longer text",
                "     │ that wraps"
            ]
            .map(str::to_owned)
            .to_vec()
        );
        let narrow = shown(&["name", "value", "more"], &[&["a name", "a value", "something"]], 16);
        assert_eq!(narrow, ["name: a name", "value: a value", "more: something"]);
        assert_eq!(shown(&["a"], &[&[], &["x", "y"]], 40).len(), 4, "rows may have any length");
    }
}
