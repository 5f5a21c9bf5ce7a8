//! The rows of a dump, whatever its form.

use std::{borrow::Cow, sync::Arc};

use rejoin_record::{
    Raw, Scope, Text,
    json::{Doc, Object, Value, ValueKind},
};
use rejoin_view::{Action, Finding, Position, Rule};

use super::{has_columns, is_list_or_text, read::RowContent};
use crate::{
    input::{Input, Stream},
    session::{Aside, ReadError, SourcePlace, unreadable_rest},
    sessions::{
        lines::{self, Line, LineReader, at},
        sample::Sample,
    },
    wire::render,
};

/// A row, as a JSON object, and what it says. It is read while the dump around it is parsed.
pub(super) struct Row {
    pub raw: Raw,
    pub place: SourcePlace,
    /// What tells its conversation from others.
    pub own_id: String,
    pub scope: Scope,
    pub what: RowContent,
}

/// The rows of a dump, and what else is in it.
#[derive(Default)]
pub(super) struct Rows {
    pub rows: Vec<Row>,
    pub beside: Vec<(SourcePlace, Aside)>,
    pub findings: Vec<Finding>,
}

/// Whether a value is a row of one of the tables.
pub(super) fn is_row(value: Value<'_>) -> bool {
    value.kind() == ValueKind::Object
        && has_columns(|name| value.get(name).is_some())
        && value.get("conversation_history").is_none_or(is_list_or_text)
}

impl Rows {
    /// Adds a row with these columns; an empty one has no value.
    pub fn add(&mut self, columns: &[String], values: &[Option<String>], place: SourcePlace) {
        let given = columns.iter().zip(values).filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let row = given.fold(Object::new(), |row, (name, value)| row.text(name, value)).finish();
        let row = Arc::from(row);
        let doc = Doc::of(&row).shared_as(&row);
        self.rows.extend(doc.root().map(|root| Row::read(root, Raw::new(Arc::clone(&row)), place)));
    }

    /// Sets a piece of the dump aside that cannot be read.
    pub fn damaged(&mut self, text: &str, place: SourcePlace, rule: Rule, why: &str) {
        self.beside.push((place, Aside::Raw(Text::new(text))));
        self.findings.push(Finding::new(rule, at(place), Action::SetAside).because(why));
    }

    /// Adds the rows in a value of the text in `buffer`.
    fn value(
        &mut self,
        value: Value<'_>,
        buffer: &Arc<str>,
        place: impl Fn(usize, Value<'_>) -> SourcePlace,
    ) {
        // A row, a list of rows, or an object with a list of rows for each table.
        let list = |list: &Value<'_>| list.kind() == ValueKind::Array && list.items().any(is_row);
        let mut around = None;
        let lists: Vec<Value<'_>> = match value.kind() {
            ValueKind::Object if !is_row(value) => {
                let mut rest = Object::new();
                let mut lists = Vec::new();
                for (key, field) in value.fields() {
                    let is_list = list(&field);
                    lists.extend(Some(field).filter(|_| is_list));
                    let kept =
                        if is_list { Cow::Borrowed("[]") } else { Cow::Owned(render::clean(field.raw())) };
                    rest = rest.raw(&key.as_str().unwrap_or_default(), &kept);
                }
                around = Some(rest.finish()).filter(|_| value.fields().count() > lists.len());
                lists
            }
            ValueKind::Array => vec![value],
            _ => Vec::new(),
        };
        let single = lists.is_empty().then_some(value);
        if let Some(around) = around.filter(|_| single.is_none()) {
            self.beside.push((place(self.rows.len(), value), Aside::Unknown(Text::from(around))));
        }
        for row in single.into_iter().chain(lists.into_iter().flat_map(Value::items)) {
            let place = place(self.rows.len() + self.beside.len(), row);
            match is_row(row) && !row.is_cut() {
                true => {
                    let raw = Raw::slice(buffer, row.start(), row.end());
                    self.rows.push(Row::read(row, raw.unwrap_or_else(|| Raw::new(row.raw())), place));
                }
                false if row.is_cut() => {}
                false => self.beside.push((place, Aside::Unknown(Text::new(row.raw())))),
            }
        }
    }
}

/// The rows of a dump in JSON: one value, or one a line.
pub(super) fn of_json(input: &Input, sample: Sample<'_>) -> Result<Rows, ReadError> {
    let mut rows = Rows::default();
    let (doc, error) = sample.into_whole();
    let doc = doc.shared_as(&input.text);
    let root = doc.root().filter(|root| error.is_none() || root.is_cut());
    let Some(root) = root else {
        let mut source = input.text.as_bytes();
        let mut stream = Stream { name: &input.name, source: &mut source, companions: None };
        lines::read(&mut stream, &mut rows)?;
        return Ok(rows);
    };
    rows.value(root, &input.text, |index, value| SourcePlace { index, offset: value.start(), line: None });
    if let Some(error) = error {
        // What follows the last whole row.
        let last = rows.rows.last().map(|row| row.place.offset + row.raw.as_str().len());
        let from = last.unwrap_or(0);
        let index = rows.rows.len() + rows.beside.len();
        let place = SourcePlace { index, offset: from, line: None };
        rows.beside
            .push((place, Aside::Raw(Text::new(input.text[from..].trim_start_matches([',', ' ', '\n'])))));
        let at = Position { message: Some(index), ..Position::default() };
        rows.findings.push(Finding { at, ..unreadable_rest(input, error, index) });
    }
    Ok(rows)
}

impl LineReader for Rows {
    fn value(&mut self, line: &Line, root: Value<'_>) {
        let place = line.place;
        Rows::value(self, root, &line.text, |_, value| SourcePlace {
            offset: place.offset + value.start(),
            ..place
        });
    }

    fn damaged(&mut self, line: &Line, finding: Finding) {
        self.beside.push((line.place, Aside::Raw(Text::new(line.text.clone()))));
        self.findings.push(finding);
    }

    fn found(&mut self, finding: Finding) {
        self.findings.push(finding);
    }
}
