//! CSV with a line of column names: values between commas, in quotes where they need it.

use rejoin_view::Rule;

use super::{has_columns, rows::Rows};
use crate::session::SourcePlace;

/// Whether the first line names the columns of one of the tables.
pub(super) fn is_dump(text: &str) -> bool {
    let names = text.lines().next().unwrap_or_default().split(',').map(|name| name.trim().trim_matches('"'));
    let names: Vec<&str> = names.collect();
    // The first line of an SQL dump can name the same columns: `COPY conversation_history (id, user_id, …`.
    let is_name = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    names.iter().all(is_name) && has_columns(|name| names.contains(&name))
}

/// The rows of a dump.
pub(super) fn rows(text: &str) -> Rows {
    let mut rows = Rows::default();
    let mut records = Records { text, at: 0, line: 1 };
    let columns = records.next().map(|record| record.values).unwrap_or_default();
    let columns: Vec<String> = columns.iter().map(|name| name.trim().to_owned()).collect();
    for (index, record) in records.enumerate() {
        let Record { values, start, end, line, closed } = record;
        let place = SourcePlace { index, offset: start, line: Some(line) };
        if !closed || values.len() != columns.len() {
            let torn = end == text.len() && !text.ends_with('\n');
            let rule = if torn { Rule::TornTail } else { Rule::DamagedEntry };
            let why = format!("it has {} values for {} columns", values.len(), columns.len());
            rows.damaged(
                text[start..end].trim_end(),
                place,
                rule,
                if closed { &why } else { "a quote is not closed" },
            );
            continue;
        }
        // An empty value is none: the dump does not tell them apart.
        let values: Vec<Option<String>> =
            values.into_iter().map(|value| Some(value).filter(|value| !value.is_empty())).collect();
        rows.add(&columns, &values, place);
    }
    rows
}

struct Record {
    values: Vec<String>,
    start: usize,
    end: usize,
    line: usize,
    /// Whether every quote is closed.
    closed: bool,
}

struct Records<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        // Blank lines are no records.
        while let Some(rest) = self.text[self.at..].strip_prefix(['\n', '\r']) {
            self.line += usize::from(self.text.as_bytes()[self.at] == b'\n');
            self.at = self.text.len() - rest.len();
        }
        if self.at == self.text.len() {
            return None;
        }
        let (start, line) = (self.at, self.line);
        let mut values = vec![String::new()];
        let (mut quoted, mut ended) = (false, false);
        let mut chars = self.text[start..].char_indices().peekable();
        let mut end = self.text.len();
        while let Some((place, c)) = chars.next() {
            self.line += usize::from(c == '\n');
            let value = values.last_mut()?;
            match c {
                '"' if quoted && chars.next_if(|(_, next)| *next == '"').is_some() => value.push('"'),
                '"' if quoted => quoted = false,
                '"' if value.is_empty() => quoted = true,
                ',' if !quoted => values.push(String::new()),
                '\n' if !quoted => {
                    end = start + place + 1;
                    ended = true;
                }
                '\r' if !quoted && chars.peek().is_some_and(|(_, next)| *next == '\n') => {}
                c => value.push(c),
            }
            if ended {
                break;
            }
        }
        self.at = end;
        Some(Record { values, start, end, line, closed: !quoted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas_and_line_breaks() {
        let text = "a,b\r\n\"x, \"\"y\"\"\n z\",1\r\n\nlast,\"open";
        let records: Vec<Record> = Records { text, at: 0, line: 1 }.collect();
        let values: Vec<_> = records.iter().map(|record| record.values.clone()).collect();
        assert_eq!(values, [vec!["a", "b"], vec!["x, \"y\"\n z", "1"], vec!["last", "open"]]);
        let places: Vec<_> = records.iter().map(|record| (record.line, record.closed)).collect();
        assert_eq!(places, [(1, true), (2, true), (5, false)]);
    }
}
