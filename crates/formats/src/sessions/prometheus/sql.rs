//! The two statements with which a dump of Postgres fills a table: `COPY … FROM stdin` with its lines, and `INSERT INTO`.

use rejoin_record::Text;
use rejoin_view::Rule;

use super::{TABLES, rows::Rows};
use crate::session::{Aside, SourcePlace};

/// The columns of the tables, for an `INSERT` that does not name them.
const COLUMNS: [&str; 2] = [
    "id user_id channel_id message_type content function_calls function_results created_at updated_at tool_call_id \
     tool_calls tool_name",
    "id thread_id channel_id user_id conversation_history is_active created_at last_activity",
];

/// Whether a text has statements that fill one of the tables.
pub(super) fn is_dump(text: &str) -> bool {
    // Markdown need not be searched.
    if text.trim_start().starts_with(['#', '<', '>']) {
        return false;
    }
    // Few texts have many underscores, and those are found faster than names.
    let named = text.match_indices('_').flat_map(|(at, _)| {
        TABLES.iter().filter_map(move |table| {
            let (head, tail) = table.split_at(table.find('_')?);
            (text[..at].ends_with(head) && text[at..].starts_with(tail)).then(|| at - head.len())
        })
    });
    named.into_iter().any(|at| {
        let before = &text[text.floor_char_boundary(at.saturating_sub(BEFORE))..at];
        let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
        let begins = |word: &str| line.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
        begins("COPY ") || begins("INSERT ")
    })
}

/// How far before the name of its table a statement begins, at most.
const BEFORE: usize = 64;

/// How many signs that look like the beginning of a quoted body may have no end before no more are looked for.
const UNCLOSED: usize = 16;

/// The rows of a dump. Statements about anything else are kept as they are.
pub(super) fn rows(text: &str) -> Rows {
    let mut dump = Dump { text, at: 0, line: 1, counted: 0, unclosed: 0, rows: Rows::default() };
    let mut kept_from = 0;
    while dump.at < text.len() {
        dump.skip_blanks();
        let start = dump.at;
        if dump.statement() {
            dump.keep(kept_from, start);
            kept_from = dump.at;
        }
    }
    dump.keep(kept_from, text.len());
    dump.rows
}

struct Dump<'t> {
    text: &'t str,
    at: usize,
    /// The line of the byte `counted`.
    line: usize,
    counted: usize,
    /// The number of quoted bodies whose end was looked for in vain.
    unclosed: usize,
    rows: Rows,
}

impl<'t> Dump<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The place of a byte, which never goes back.
    fn place(&mut self, offset: usize) -> SourcePlace {
        let passed = &self.text.as_bytes()[self.counted.min(offset)..offset];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.counted = self.counted.max(offset);
        SourcePlace { index: self.rows.rows.len() + self.rows.beside.len(), offset, line: Some(self.line) }
    }

    fn keep(&mut self, from: usize, to: usize) {
        let text = self.text[from..to].trim();
        if !text.is_empty() {
            let index = self.rows.rows.len() + self.rows.beside.len();
            let place = SourcePlace { index, offset: from, line: None };
            self.rows.beside.push((place, Aside::Raw(Text::new(text))));
        }
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.at = self.text.len() - self.rest().trim_start().len();
            if self.rest().starts_with("--") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                self.at += self.rest().find("*/").map_or(self.rest().len(), |end| end + 2);
            } else {
                return;
            }
        }
    }

    /// Reads a word if it is the next one, in upper or lower case.
    fn word(&mut self, word: &str) -> bool {
        let found = self.rest().get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word));
        if found {
            self.at += word.len();
            self.skip_blanks();
        }
        found
    }

    /// Reads a name, perhaps in quotes and with its schema, of which the last part counts.
    fn name(&mut self) -> &'t str {
        let mut name = "";
        loop {
            if let Some(quoted) = self.rest().strip_prefix('"') {
                let end = quoted.find('"').unwrap_or(quoted.len());
                name = &quoted[..end];
                self.at += (end + 2).min(self.rest().len());
            } else {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let end = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
                name = if end == 0 { name } else { &self.rest()[..end] };
                self.at += end;
            }
            if !self.rest().starts_with('.') {
                break;
            }
            self.at += 1;
        }
        self.skip_blanks();
        name
    }

    /// Reads the names of columns in brackets, if there are any.
    fn columns(&mut self) -> Vec<String> {
        let mut columns = Vec::new();
        if !self.rest().starts_with('(') {
            return columns;
        }
        self.at += 1;
        self.skip_blanks();
        while !self.rest().is_empty() {
            columns.push(self.name().to_owned());
            let next = self.rest().chars().next();
            self.at += next.map_or(0, char::len_utf8);
            self.skip_blanks();
            if next != Some(',') {
                break;
            }
        }
        columns
    }

    /// Reads a statement. True if it fills one of the tables; anything else is skipped.
    fn statement(&mut self) -> bool {
        let copies = self.word("COPY ");
        let inserts = !copies && self.word("INSERT ") && self.word("INTO ");
        if !copies && !inserts {
            self.skip();
            return false;
        }
        let name = self.name();
        let table = TABLES.iter().position(|table| *table == name);
        let mut columns = self.columns();
        if let Some(table) = table.filter(|_| columns.is_empty()) {
            columns = COLUMNS[table].split(' ').map(str::to_owned).collect();
        }
        if copies {
            let told = self.rest().find('\n').map(|end| &self.rest()[..end]).unwrap_or_default();
            if !told.to_ascii_lowercase().contains("stdin") {
                self.skip();
                return false;
            }
            self.at += told.len() + 1;
            self.lines(table.map(|_| &columns[..]));
            return table.is_some();
        }
        if table.is_none() || !self.word("VALUES") {
            self.skip();
            return false;
        }
        self.tuples(&columns);
        true
    }

    /// The lines after a `COPY`, until the one that ends them; without columns, they are passed over.
    fn lines(&mut self, columns: Option<&[String]>) {
        while self.at < self.text.len() {
            let start = self.at;
            let line = self.rest().split('\n').next().unwrap_or_default();
            self.at = (start + line.len() + 1).min(self.text.len());
            let whole = start + line.len() < self.text.len();
            let line = line.trim_end_matches('\r');
            if line == "\\." {
                return;
            }
            let Some(columns) = columns else { continue };
            let place = self.place(start);
            let values: Vec<Option<String>> =
                line.split('\t').map(|value| (value != "\\N").then(|| unescaped(value))).collect();
            if values.len() == columns.len() && whole {
                self.rows.add(columns, &values, place);
            } else {
                let rule = if whole { Rule::DamagedEntry } else { Rule::TornTail };
                let why = format!("it has {} values for {} columns", values.len(), columns.len());
                self.rows.damaged(line, place, rule, &why);
            }
        }
    }

    /// The rows after `VALUES`.
    fn tuples(&mut self, columns: &[String]) {
        while self.rest().starts_with('(') {
            let start = self.at;
            let place = self.place(start);
            let (values, closed) = self.tuple();
            let text = &self.text[start..self.at];
            if !closed {
                self.rows.damaged(text, place, Rule::TornTail, "the statement is not closed");
                return;
            }
            if values.len() == columns.len() {
                self.rows.add(columns, &values, place);
            } else {
                let why = format!("it has {} values for {} columns", values.len(), columns.len());
                self.rows.damaged(text, place, Rule::DamagedEntry, &why);
            }
            self.skip_blanks();
            if !self.rest().starts_with(',') {
                break;
            }
            self.at += 1;
            self.skip_blanks();
        }
        self.skip();
    }

    /// The values between brackets, and whether the closing bracket was found.
    fn tuple(&mut self) -> (Vec<Option<String>>, bool) {
        let mut values = Vec::new();
        self.at += 1;
        loop {
            self.skip_blanks();
            let start = self.at;
            let mut text = None;
            // A text, or an expression, which may have brackets and a type after it.
            let mut depth = 0_usize;
            let next = loop {
                let Some(next) = self.rest().chars().next() else { return (values, false) };
                match next {
                    '\'' => {
                        let escapes = self.at > start && self.text[start..self.at].eq_ignore_ascii_case("e");
                        let Some(found) = self.literal(escapes) else { return (values, false) };
                        text.get_or_insert(found);
                        continue;
                    }
                    '(' | '[' => depth += 1,
                    ')' | ']' if depth > 0 => depth -= 1,
                    ',' | ')' if depth == 0 => break next,
                    _ => {}
                }
                self.at += next.len_utf8();
            };
            let word = self.text[start..self.at].trim();
            let none =
                text.is_none() && (word.eq_ignore_ascii_case("null") || word.eq_ignore_ascii_case("default"));
            values.push(if none { None } else { Some(text.unwrap_or_else(|| word.to_owned())) });
            self.at += 1;
            if next == ')' {
                return (values, true);
            }
        }
    }

    /// A text in single quotes; a quote inside is doubled.
    fn literal(&mut self, escapes: bool) -> Option<String> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let end = self.rest().find(|c| c == '\'' || (escapes && c == '\\'))?;
            out.push_str(&self.rest()[..end]);
            self.at += end;
            if self.rest().starts_with('\\') {
                let after = self.rest().chars().nth(1)?;
                let length = 1 + after.len_utf8();
                out.push_str(&unescaped(&self.rest()[..length]));
                self.at += length;
            } else if self.rest().starts_with("''") {
                out.push('\'');
                self.at += 2;
            } else {
                self.at += 1;
                return Some(out);
            }
        }
    }

    /// Skips the rest of a statement.
    fn skip(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            self.at += match next {
                '\'' => {
                    if self.literal(false).is_none() {
                        self.at = self.text.len();
                    }
                    continue;
                }
                '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
                '$' if self.unclosed < UNCLOSED => self.quoted_body(),
                '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
                next => next.len_utf8(),
            };
            if next == ';' {
                return;
            }
        }
    }

    /// The length of a text between two equal tags, such as the body of a function, or of the sign that begins none.
    fn quoted_body(&mut self) -> usize {
        let rest = self.rest();
        let end = rest[1..].find(|c: char| !c.is_alphanumeric() && c != '_').map(|end| end + 1);
        let Some(tag) = end.filter(|end| rest[*end..].starts_with('$')).map(|end| &rest[..=end]) else {
            return 1;
        };
        let end = rest[tag.len()..].find(tag);
        self.unclosed += usize::from(end.is_none());
        end.map_or(1, |end| end + 2 * tag.len())
    }
}

/// A value with the escapes of Postgres: `\n` and its like, a byte in octal or hexadecimal digits, or the character itself.
fn unescaped(value: &str) -> String {
    if !value.contains('\\') {
        return value.to_owned();
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let (b'\\', Some((&escape, after))) = (byte, rest.split_first()) else {
            bytes.push(byte);
            continue;
        };
        let digits = |radix: u32, from: &[u8], most: usize| {
            let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
            let digits: String =
                from.iter().take(most).take_while(is_digit).map(|byte| char::from(*byte)).collect();
            Some((u32::from_str_radix(&digits, radix).ok()? as u8, digits.len()))
        };
        rest = after;
        match escape {
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'v' => bytes.push(11),
            b'x' if let Some((byte, length)) = digits(16, after, 2) => {
                bytes.push(byte);
                rest = &after[length..];
            }
            b'0'..=b'7'
                if let Some((byte, length)) =
                    digits(8, &value.as_bytes()[value.len() - after.len() - 1..], 3) =>
            {
                bytes.push(byte);
                rest = &after[length - 1..];
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<String> {
        rows(sql).rows.iter().map(|row| row.raw.as_str().to_owned()).collect()
    }

    #[test]
    fn escapes_of_postgres() {
        assert_eq!(unescaped(r"a\tb\\n\nc\101\x41\q"), "a\tb\\n\ncAAq");
        assert_eq!(unescaped("ends with \\"), "ends with \\");
    }

    #[test]
    fn values_of_every_kind() {
        let sql = "INSERT INTO public.\"chat_threads\" (id, \"thread_id\", x) VALUES\n ('it''s; (so)', E'a\\n\\'b', NULL), \
                   (now(), '[1]'::jsonb, -- why\n ARRAY['p', 'q'])\nON CONFLICT DO NOTHING;";
        assert_eq!(
            texts(sql),
            [r#"{"id":"it's; (so)","thread_id":"a\n'b"}"#, r#"{"id":"now()","thread_id":"[1]","x":"p"}"#]
        );
    }

    #[test]
    fn other_statements_are_kept() {
        let sql = "-- a dump\nSET x = 'COPY conversation_history';\nCREATE FUNCTION f() AS $b$ ';ü' $b$ -- ü\n, $ü;\nCOPY other (a) FROM stdin;\n\
                   1\n\\.\nCOPY conversation_history (id, content) FROM stdin;\n1\ta\\tb\n2\t\\N\n\\.\nSELECT 1;";
        assert_eq!(texts(sql), [r#"{"id":"1","content":"a\tb"}"#, r#"{"id":"2"}"#]);
        let kept = rows(sql).beside;
        assert_eq!(kept.len(), 2);
        assert!(matches!(&kept[1].1, Aside::Raw(text) if text.as_str() == "SELECT 1;"));
    }
}
