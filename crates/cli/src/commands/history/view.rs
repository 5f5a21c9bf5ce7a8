//! `rejoin history show --view`: shows what a model would see, with the messages that were left out, moved or added. With a
//! dialect, it shows the messages in that dialect's form.

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

pub struct ConversationView<'v> {
    pub session: &'v Session,
    /// The numbered items of the conversation.
    pub shown: &'v [Shown<'v>],
    /// The lines of its messages in the file.
    pub lines: &'v MessageLines,
    /// The text above the view.
    pub head: &'v Head,
}

pub fn run(
    cli: &CliContext,
    viewed: &ConversationView<'_>,
    arguments: &ShowArguments,
) -> Result<(), Failure> {
    if let Some(dialect) = arguments.dialect {
        return encoded(cli, viewed, arguments, dialect);
    }
    let rows = view::rows(viewed.session, viewed.shown, policy(&cli.settings));
    let rows = view::last(&rows, arguments.limit);
    if arguments.json {
        return rows.iter().try_for_each(|row| output::json_data(&row.to_json()));
    }
    let mut text = viewed.head.for_people("messages of the view");
    rows.iter().for_each(|row| text.push_str(&for_people(row)));
    cli.show(&text)
}

fn for_people(row: &ViewRow) -> String {
    let number = row.number.map_or_else(|| String::from("+"), |number| number.to_string());
    let mut out = heading(&number, &row.role, row.remark);
    out.push_str(&row.message.as_ref().map_or_else(String::new, content_for_people));
    for finding in &row.findings {
        let arrow = paint("→", output::HINT);
        out.push_str(&format!("  {arrow} {}\n", report::line_with_action(finding)));
    }
    out
}

/// Shows the messages as a dialect encodes them, and the changes that were needed.
fn encoded(
    cli: &CliContext,
    viewed: &ConversationView<'_>,
    arguments: &ShowArguments,
    dialect: Dialect,
) -> Result<(), Failure> {
    let encoded = view::encoded(viewed.session, viewed.lines, dialect, policy(&cli.settings));
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
        text.push_str(&format!("  {}\n", report::line_with_action(finding)));
    }
    cli.show(&text)
}
