//! A table `messages` with a row for each, as Crush and goose have it: each row becomes a JSON object, which is read as a line of a file
//! would be. How the rows are found and sorted is in `database.rs`.

use std::{borrow::Cow, ops::Range, sync::Arc};

use rejoin_record::{
    Text,
    json::{Doc, Value, ValueKind, write},
};
use rusqlite::Row;

use super::{
    building::{self, SessionBuilder},
    database::{Database, Item, parse_each},
};
use crate::session::{ReadError, SourcePlace};

/// Writes the columns of a row as one JSON object.
pub(crate) struct RowObject<'t> {
    text: &'t mut String,
    /// The place in `text` of the column that [`RowObject::content`] copied into it verbatim.
    column: Range<usize>,
}

impl<'t> RowObject<'t> {
    fn begin(text: &'t mut String) -> Self {
        text.clear();
        text.push('{');
        Self { text, column: 0..0 }
    }

    /// Writes a text. `NULL` has no field.
    pub(crate) fn text(self, name: &str, value: Option<Cow<'_, str>>) -> Self {
        if let Some(value) = value {
            write::key(self.text, name);
            write::string(self.text, &value);
        }
        self
    }

    /// Writes a number, or nothing if the column holds none.
    pub(crate) fn number(self, name: &str, value: Option<Cow<'_, str>>) -> Self {
        self.verbatim(name, value.filter(|value| value.parse::<f64>().is_ok()))
    }

    /// Writes a column that holds JSON, or nothing if it does not.
    pub(crate) fn json(self, name: &str, value: Option<Cow<'_, str>>) -> Self {
        self.verbatim(name, value.filter(|value| Doc::parse(value).is_ok()))
    }

    fn verbatim(self, name: &str, value: Option<Cow<'_, str>>) -> Self {
        if let Some(value) = value {
            write::key(self.text, name);
            self.text.push_str(&value);
        }
        self
    }

    /// Copies the column that holds the words of the message verbatim.
    pub(crate) fn content(mut self, name: &str, value: Option<Cow<'_, str>>) -> Self {
        write::key(self.text, name);
        let start = self.text.len();
        self.text.push_str(&value.unwrap_or_default());
        self.column = start..self.text.len();
        self
    }
}

/// How the rows of the table are read.
pub(crate) struct MessageRows<'q> {
    /// The columns that are read: the session, two that its rows are sorted by, and others.
    pub(crate) columns: &'q str,
    /// The field of the object that [`RowObject::content`] writes, a list.
    pub(crate) content: &'static str,
    /// All columns that the reader knows.
    pub(crate) known: &'static [&'static str],
    /// Writes the columns of a row.
    pub(crate) write: for<'t> fn(&Row<'_>, RowObject<'t>) -> rusqlite::Result<RowObject<'t>>,
}

/// A session that is put together from rows.
pub(crate) trait FromRows {
    /// Takes a message: the object, its text, and its place.
    fn take(&mut self, root: Value<'_>, text: &Arc<str>, place: SourcePlace);
    /// What sets aside a row that cannot be read.
    fn builder(&mut self) -> &mut SessionBuilder;
}

impl MessageRows<'_> {
    /// Gives each session its rows, in order. A row whose content is no JSON list is damaged.
    pub(crate) fn read<S: FromRows>(
        &self,
        database: &Database,
        ids: &[String],
        sessions: &mut [S],
    ) -> Result<(), ReadError> {
        let others = database.others("messages", self.known);
        let sql = format!("SELECT {}{} FROM messages", self.columns, others.sql());
        let first = self.columns.split(',').count();
        let mut text = String::new();
        let items = database.by_session(&sql, ids, |row| {
            let RowObject { text, column } = (self.write)(row, RowObject::begin(&mut text))?;
            others.write(row, first, text)?;
            text.push('}');
            Ok(Item::new(text, column))
        })?;
        let is_list = |item: &Item, root: &Value<'_>| {
            root.holds(self.content, ValueKind::Array) && item.is_whole(root.get(self.content))
        };
        parse_each(
            items,
            |(_, _, item)| &item.text,
            |(session, number, item), root| {
                let (session, place) = (&mut sessions[session], building::nth(number));
                match root.filter(|root| is_list(&item, root)) {
                    Some(root) => session.take(root, &item.text, place),
                    None => {
                        let why = "the content of the message is no JSON list";
                        session.builder().damaged(place, Text::new(item.column()), why);
                    }
                }
            },
        );
        Ok(())
    }
}
