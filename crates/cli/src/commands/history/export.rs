//! `rejoin history export`: a conversation as a file. As `jsonl`, every entry byte for byte.

use rejoin::{Choice, engine::Mode, history, sessions::FileContent};

use crate::{
    args::ExportArguments,
    commands::{convert, report},
    context::{self, CliContext, Flags},
    failure::Failure,
    outfile::{self, Untouched},
    output::{self, plural},
};

pub fn run(arguments: &ExportArguments, flags: &Flags) -> Result<u8, Failure> {
    let desk = CliContext::new(flags)?;
    outfile::check(&arguments.output, &Untouched::Store(desk.location.clone()))?;
    let to = outfile::destination(arguments.to, &arguments.output, Some("jsonl"))?;
    let (store, id) = desk.find(arguments.which.given())?;
    let mut recorded = context::read(&*store, id, Mode::Recover)?;
    let (content, findings) = if convert::is_own(to) {
        (FileContent::Text(convert::verbatim(&recorded.entries)), recorded.session.findings.clone())
    } else {
        let lines = history::renumber(&recorded.entries, &mut recorded.session);
        let on_broken = convert::policy(&desk.settings);
        let made = convert::make(&recorded.session, to, Choice::default(), on_broken);
        let made = made.map_err(|error| convert::failure(id, &error))?;
        (made.content, lines.fill(made.findings))
    };
    outfile::check_content(&arguments.output, &content)?;
    findings.iter().for_each(|finding| output::talk(&report::line_with_deed(finding)));
    let messages = plural(recorded.session.messages.len(), "message");
    outfile::put(&arguments.output, to, &content, &format!("{id}: {messages}"))?;
    Ok(0)
}
