//! `rejoin convert`: a request body on stdout, what was done on stderr and, if asked, in a report.

use rejoin::{
    ConvertError, Finding, Input, OnBroken, Session, convert,
    sessions::{self, Writing},
};

use super::report;
use crate::{
    args::{ConvertArguments, Destination},
    clock,
    failure::Failure,
    output::{self, harmless},
    source,
};

/// Environment variables that turn repairing off.
const REFUSE_VARIABLES: &[&str] = &["DISABLE_MESSAGE_SANITIZATION", "REJOIN_DISABLE_REPAIR"];

/// Converts one conversation.
pub fn run(arguments: &ConvertArguments) -> Result<u8, Failure> {
    let (input, sessions) = source::read(&arguments.path, arguments.from.as_deref())?;
    let session = choose(&arguments.path, &sessions, arguments.session)?;
    let on_broken = arguments.on_broken.map_or_else(default_policy, OnBroken::from);
    let name = arguments.path.clone();
    let model = arguments.model.as_deref();
    let converted = match arguments.to {
        Destination::Dialect(dialect) => convert(session, dialect, model, on_broken),
        Destination::Format(format) => {
            let directory = std::env::current_dir().unwrap_or_default();
            let directory = directory.to_string_lossy();
            let writing = Writing { model, now: clock::now(), directory: &directory };
            sessions::write(session, format, on_broken, &writing)
        }
    };
    match converted {
        Ok(converted) => {
            // The report first: once the body is printed, the work is done.
            tell(&input, session, converted.findings, arguments, Finding::deed)?;
            output::raw_data(converted.body.trim_end_matches('\n'))?;
            Ok(0)
        }
        Err(ConvertError::Refused(findings)) => {
            tell(&input, session, findings, arguments, |_| "nothing is sent")?;
            Err(Failure::Refused { name })
        }
        Err(ConvertError::TooLarge(error)) => {
            let place =
                error.at.message.map_or_else(String::new, |message| format!(", in message {message}"));
            Err(Failure::TooLarge { name, why: format!("{error}{place}") })
        }
    }
}

fn default_policy() -> OnBroken {
    let off = |name: &&str| {
        std::env::var(name).is_ok_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    };
    if REFUSE_VARIABLES.iter().any(off) { OnBroken::Refuse } else { OnBroken::Keep }
}

fn choose<'s>(path: &str, sessions: &'s [Session], wanted: Option<usize>) -> Result<&'s Session, Failure> {
    match (sessions, wanted) {
        ([only], None) => Ok(only),
        (all, Some(wanted)) => wanted
            .checked_sub(1)
            .and_then(|place| all.get(place))
            .ok_or_else(|| Failure::NoSuch { name: path.to_owned(), wanted, count: all.len() }),
        (all, None) => {
            for (number, session) in all.iter().enumerate() {
                let title = harmless(&session.headline());
                output::talk(&format!("{:>4}  {} messages  {title}", number + 1, session.messages.len()));
            }
            Err(Failure::Many { name: path.to_owned(), count: all.len() })
        }
    }
}

fn tell(
    input: &Input,
    session: &Session,
    findings: Vec<Finding>,
    arguments: &ConvertArguments,
    deed: impl Fn(&Finding) -> &'static str,
) -> Result<(), Failure> {
    let findings = report::with_lines(input, session, findings);
    if let Some(path) = &arguments.report {
        let text = format!("{}\n", report::json_list(&findings));
        std::fs::write(path, text)
            .map_err(|why| Failure::Unwritable { path: path.display().to_string(), why })?;
    }
    for finding in &findings {
        output::talk(&format!("{} — {}", report::line(finding), deed(finding)));
    }
    Ok(())
}
