//! `rejoin convert`: a request body on stdout, what was done on stderr and, if asked, in a report.

use std::fmt::Display;

use rejoin::{
    Choice, ConvertError, Converted, Finding, OnBroken, Session,
    check::Subject,
    checkers, convert_with,
    engine::{Clock as _, Mode, SystemClock},
    record::Entry,
    sessions::{self, Writing},
    shape,
};

use super::{install::AgentCopy, report};
use crate::{
    args::{ConvertArguments, Destination},
    desk::Flags,
    failure::Failure,
    home::Home,
    outfile,
    output::{self, harmless},
    settings::Settings,
    subject::{self, ReadOptions},
};

/// Environment variables that turn repairing off.
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
    if arguments.place.install {
        return install(&subject, session, to, arguments, on_broken);
    }
    if let Some(entries) = subject.record.as_deref().filter(|_| is_own(to)) {
        tell(&subject, session, session.findings.clone(), arguments, Finding::deed)?;
        outfile::put(&arguments.output, to, &verbatim(entries), &written(session))?;
        return Ok(0);
    }
    let choice = Choice { model: arguments.model.as_deref(), max_tokens: arguments.max_tokens };
    match make(session, to, choice, on_broken) {
        Ok(converted) => {
            say_what_is_refused(to, &converted.body);
            // The report first: once the body is written, the work is done.
            tell(&subject, session, converted.findings, arguments, Finding::deed)?;
            outfile::put(&arguments.output, to, &converted.body, &written(session))?;
            Ok(0)
        }
        Err(error) => Err(refused(&subject, session, arguments, &error)?),
    }
}

fn written(session: &Session) -> String {
    output::plural(session.messages.len(), "message")
}

fn install(
    subject: &Subject,
    session: &Session,
    to: Destination,
    arguments: &ConvertArguments,
    on_broken: OnBroken,
) -> Result<u8, Failure> {
    match AgentCopy::make(session, to, arguments.model.as_deref(), on_broken)? {
        Ok(made) => {
            tell(subject, session, made.converted.findings.clone(), arguments, Finding::deed)?;
            made.put(arguments.place.json)?;
            Ok(0)
        }
        Err(error) => Err(refused(subject, session, arguments, &error)?),
    }
}

/// Shows the findings of a refused conversation, and makes the error.
fn refused(
    subject: &Subject,
    session: &Session,
    arguments: &ConvertArguments,
    error: &ConvertError,
) -> Result<Failure, Failure> {
    if let ConvertError::Refused(findings) = error {
        tell(subject, session, findings.clone(), arguments, |_| "nothing is sent")?;
    }
    Ok(failure(&subject.name, error))
}

pub fn make(
    session: &Session,
    to: Destination,
    choice: Choice<'_>,
    on_broken: OnBroken,
) -> Result<Converted, ConvertError> {
    match to {
        Destination::Dialect(dialect) => convert_with(session, dialect, choice, on_broken),
        Destination::Format(format) => {
            let directory = std::env::current_dir().unwrap_or_default();
            let directory = directory.to_string_lossy();
            let writing = Writing { model: choice.model, now: SystemClock.now(), directory: &directory };
            let mut written = sessions::write(session, format, on_broken, &writing)?;
            if !to.is_json() {
                // It is made to be looked at, also on a terminal.
                written.body = output::harmless_lines(&written.body);
            }
            Ok(written)
        }
    }
}

/// Says what the provider would still refuse in a request: settings that only its caller can choose, or that the source
/// brought with it. The messages themselves are mended.
pub fn say_what_is_refused(to: Destination, body: &str) {
    let Destination::Dialect(dialect) = to else { return };
    let checker = checkers::named(dialect.name()).expect("BUG: a dialect without a checker");
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

/// Whether it is rejoin's own format, in which entries are written as they are stored.
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
            Failure::too_large(name, format!("{error}{place}"))
        }
    }
}

/// The default policy for broken states: the variables that turn repair off decide, else the setting.
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

fn tell(
    subject: &Subject,
    session: &Session,
    findings: Vec<Finding>,
    arguments: &ConvertArguments,
    deed: impl Fn(&Finding) -> &'static str,
) -> Result<(), Failure> {
    let findings = subject.with_lines(session, findings);
    if let Some(path) = &arguments.report {
        outfile::put_report(path, &shape::findings(&findings))?;
    }
    report::summary(&findings, arguments.place.verbose, deed).iter().for_each(|line| output::talk(line));
    Ok(())
}
