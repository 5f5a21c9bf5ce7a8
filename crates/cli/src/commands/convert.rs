//! `rejoin convert`: writes the request body to stdout, the changes to stderr and, if requested, to a report.

use std::fmt::Display;

use rejoin::{
    Choice, ConvertError, Finding, OnBroken, Session, check, convert_with,
    engine::{Clock as _, Mode, SystemClock},
    record::Entry,
    sessions::{self, FileContent, Writing, Written},
    shape,
};

use super::{install, report};
use crate::{
    args::{ConvertArguments, Destination, InstallArguments},
    context::Flags,
    failure::Failure,
    home::Home,
    outfile,
    output::{self, harmless},
    settings::Settings,
    subject::{self, ReadOptions},
};

/// Environment variables that switch repairing off.
const REFUSE_VARIABLES: &[&str] = &["DISABLE_MESSAGE_SANITIZATION", "REJOIN_DISABLE_REPAIR"];

pub fn run(arguments: &ConvertArguments, flags: &Flags) -> Result<u8, Failure> {
    let to = outfile::destination(arguments.to, &arguments.output, None)?;
    let reading = ReadOptions { from: arguments.from.as_deref(), mode: Mode::Recover, flags, bodies: false };
    let (subject, untouched) = subject::read(&arguments.subject, &reading)?;
    outfile::check(&arguments.output, &untouched)?;
    let session = choose(&subject.name, &subject.sessions, arguments.session)?;
    let on_broken = match arguments.on_broken {
        Some(given) => given,
        None => policy(&Settings::load(&Home::from_environment()?.config)?),
    };
    let tell = |findings: Vec<Finding>, action: fn(&Finding) -> &'static str| {
        let findings = subject.with_lines(session, findings);
        if let Some(path) = &arguments.report {
            outfile::put_report(path, &shape::findings(&findings))?;
        }
        let lines = report::summary(&findings, arguments.place.verbose, action);
        lines.iter().for_each(|line| output::talk(line));
        Ok::<(), Failure>(())
    };
    let put = |content: &FileContent| {
        let written = output::plural(session.messages.len(), "message");
        outfile::put(&arguments.output, to, content, &written)
    };
    let InstallArguments { install, json, .. } = arguments.place;
    if let Some(entries) = subject.record.as_deref().filter(|_| is_own(to) && !install) {
        tell(session.findings.clone(), Finding::action_text)?;
        return put(&FileContent::Text(verbatim(entries))).map(|()| 0);
    }
    let choice = Choice { model: arguments.model.as_deref(), max_tokens: arguments.max_tokens };
    let made = if install {
        install::make(session, to, choice.model, on_broken)?.map(|(copy, made)| (Some(copy), made))
    } else {
        make(session, to, choice, on_broken).map(|made| (None, made))
    };
    match made {
        Ok((copy, Written { content, findings })) => {
            if copy.is_none() {
                outfile::check_content(&arguments.output, &content)?;
            }
            warn_about_refusals(to, &content);
            say_what_is_hidden(session, to);
            // Write the report first: writing the body completes the work.
            tell(findings, Finding::action_text)?;
            match copy {
                Some(copy) => install::put(&copy, &content, json)?,
                None => put(&content)?,
            }
            Ok(0)
        }
        Err(error) => {
            if let ConvertError::Refused(findings) = &error {
                tell(findings.clone(), |_| "nothing is sent")?;
            }
            Err(failure(&subject.name, &error))
        }
    }
}

pub fn make(
    session: &Session,
    to: Destination,
    choice: Choice<'_>,
    on_broken: OnBroken,
) -> Result<Written, ConvertError> {
    match to {
        Destination::Dialect(dialect) => {
            let converted = convert_with(session, dialect, choice, on_broken)?;
            Ok(Written::text(converted.body, converted.findings))
        }
        Destination::Format(format) => {
            let directory = std::env::current_dir().unwrap_or_default();
            let directory = directory.to_string_lossy();
            let writing = Writing { model: choice.model, now: SystemClock.now(), directory: &directory };
            let mut written = sessions::write(session, format, on_broken, &writing)?;
            if let FileContent::Text(text) = &mut written.content
                && !to.is_json()
            {
                // This text is made for reading, also on a terminal, so make it safe to print.
                *text = output::harmless_lines(text);
            }
            Ok(written)
        }
    }
}

/// Lists what the provider would still refuse: settings that only its caller can choose, or that the source contained. The messages
/// themselves are mended.
pub fn warn_about_refusals(to: Destination, content: &FileContent) {
    let (Destination::Dialect(dialect), FileContent::Text(body)) = (to, content) else { return };
    let checker = check::checker(dialect);
    let verdict = checker.check(body.as_bytes());
    for violation in &verdict.violations {
        let words = harmless(&violation.message);
        output::warning(format!("{} would refuse this request: {words}", checker.provider));
    }
    let flags = report::missing_flags(&verdict);
    if !flags.is_empty() {
        output::hint(format!("add {}", flags.join(" and ")));
    }
}

/// Says how many messages are not written because the model no longer sees them. Only rejoin's own format keeps those.
pub fn say_what_is_hidden(session: &Session, to: Destination) {
    let hidden = session.hidden().count();
    if hidden == 0 || is_own(to) {
        return;
    }
    let messages = output::plural(hidden, "message");
    output::note(format!(
        "left out {messages} that the model no longer sees: summarized, pruned, or on another branch"
    ));
    output::hint("`--to jsonl` writes every message");
}

/// Whether it is rejoin's own format, in which entries are written exactly as stored.
pub fn is_own(to: Destination) -> bool {
    matches!(to, Destination::Format(format) if format.name == "jsonl")
}

pub fn verbatim(entries: &[Entry]) -> String {
    entries.iter().map(|entry| entry.to_line() + "\n").collect()
}

pub fn failure(name: impl Display, error: &ConvertError) -> Failure {
    match error {
        ConvertError::Refused(_) => Failure::refused(name),
        ConvertError::TooLarge(error) => {
            let place =
                error.at.message.map_or_else(String::new, |message| format!(", in message {message}"));
            let what = format!("{name} cannot be sent: {error}{place}");
            Failure::failed(what, "remove messages you no longer need, or split the conversation")
        }
    }
}

/// The default policy for broken states: from the variables that switch repair off, else from the setting.
pub fn policy(settings: &Settings) -> OnBroken {
    let off = |name: &&str| {
        std::env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    };
    if REFUSE_VARIABLES.iter().any(off) {
        return OnBroken::Refuse;
    }
    settings.value("on_broken").and_then(OnBroken::named).unwrap_or_default()
}

fn choose<'s>(path: &str, sessions: &'s [Session], wanted: Option<usize>) -> Result<&'s Session, Failure> {
    match (sessions, wanted) {
        ([only], None) => Ok(only),
        (all, Some(wanted)) => wanted.checked_sub(1).and_then(|place| all.get(place)).ok_or_else(|| {
            Failure::usage(
                format!("{path} has no conversation {wanted}, it holds {}", all.len()),
                "leave `--session` out to list them",
            )
        }),
        (all, None) => {
            for (number, session) in all.iter().enumerate() {
                let title = harmless(&session.headline());
                output::talk(&format!("{:>4}  {} messages  {title}", number + 1, session.messages.len()));
            }
            let what = format!("{path} holds {} conversations", all.len());
            Err(Failure::usage(what, "choose one with `--session N`"))
        }
    }
}
