//! `rejoin history show --view`: what a model would see of a conversation, and at each message what was left out, moved or
//! added. With a dialect: the messages as it gets them.

use rejoin::{
    Dialect, Session,
    history::{
        MessageLines, Shown,
        view::{self, ViewRow},
    },
};

use super::{
    shape::{content_for_people, heading},
    show::Head,
};
use crate::{
    args::ShowArguments,
    commands::{
        convert::{failure, policy},
        prelude::*,
        report,
    },
    json,
};

pub struct Viewed<'v> {
    pub session: &'v Session,
    /// Its items with numbers.
    pub shown: &'v [Shown<'v>],
    /// The lines of its messages in a file.
    pub lines: &'v MessageLines,
    /// What is shown above it.
    pub head: &'v Head,
}

pub fn run(desk: &CliContext, viewed: &Viewed<'_>, arguments: &ShowArguments) -> Result<(), Failure> {
    if let Some(dialect) = arguments.dialect {
        return encoded(desk, viewed, arguments, dialect);
    }
    let rows = view::rows(viewed.session, viewed.shown, policy(&desk.settings));
    let rows = view::last(&rows, arguments.limit);
    if arguments.json {
        return rows.iter().try_for_each(|row| output::json_data(&row.to_json()));
    }
    let mut text = viewed.head.for_people("messages of the view");
    rows.iter().for_each(|row| text.push_str(&for_people(row)));
    desk.show(&text)
}

fn for_people(row: &ViewRow) -> String {
    let number = row.number.map_or_else(|| String::from("+"), |number| number.to_string());
    let mut out = heading(&number, &row.role, row.remark);
    out.push_str(&row.message.as_ref().map_or_else(String::new, content_for_people));
    for finding in &row.findings {
        let arrow = paint("→", output::HINT);
        out.push_str(&format!("  {arrow} {}\n", report::line_with_deed(finding)));
    }
    out
}

/// Shows the messages as a dialect encodes them, and the changes that took.
fn encoded(
    desk: &CliContext,
    viewed: &Viewed<'_>,
    arguments: &ShowArguments,
    dialect: Dialect,
) -> Result<(), Failure> {
    let encoded = view::encoded(viewed.session, viewed.lines, dialect, policy(&desk.settings));
    let encoded = encoded.map_err(|error| failure(viewed.session.id, &error))?;
    if arguments.json {
        return output::json_data(&encoded.to_json());
    }
    let mut text = viewed.head.for_people(&format!("messages for {dialect}"));
    for (number, role, item) in encoded.last_items(arguments.limit) {
        text.push_str(&heading(&number.to_string(), &role, ""));
        text.push_str(&harmless_lines(&json::indented(&item)));
        text.push('\n');
    }
    if !encoded.findings.is_empty() {
        text.push_str(&format!("\nWhat was done for {}:\n", harmless(dialect.wire().provider)));
    }
    for finding in &encoded.findings {
        text.push_str(&format!("  {}\n", report::line_with_deed(finding)));
    }
    desk.show(&text)
}
