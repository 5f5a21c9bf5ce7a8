//! `rejoin history export`: writes a conversation to a file. As `jsonl`, every entry is written byte for byte.

use rejoin::{Choice, engine::Mode, history, sessions::FileContent};

use crate::{
    args::ExportArguments,
    commands::{convert, report},
    context::{self, CliContext, Flags},
    failure::Failure,
    outfile::{self, ProtectedSource},
    output::{self, plural},
};

pub fn run(arguments: &ExportArguments, flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    outfile::check(&arguments.output, &ProtectedSource::Store(cli.location.clone()))?;
    let to = outfile::destination(arguments.to, &arguments.output, Some("jsonl"))?;
    let (store, id) = cli.find(arguments.which.given())?;
    let mut recorded = context::read(&*store, id, Mode::Recover)?;
    let (content, findings) = if convert::is_own(to) {
        (FileContent::Text(convert::verbatim(&recorded.entries)), recorded.session.findings.clone())
    } else {
        let lines = history::renumber(&recorded.entries, &mut recorded.session);
        let on_broken = convert::policy(&cli.settings);
        let made = convert::make(&recorded.session, to, Choice::default(), on_broken);
        let made = made.map_err(|error| convert::failure(id, &error))?;
        convert::say_what_is_hidden(&recorded.session, to);
        (made.content, lines.fill(made.findings))
    };
    outfile::check_content(&arguments.output, &content)?;
    findings.iter().for_each(|finding| output::talk(&report::line_with_action(finding)));
    let messages = plural(recorded.session.messages.len(), "message");
    outfile::put(&arguments.output, to, &content, &format!("{id}: {messages}"))?;
    Ok(0)
}
