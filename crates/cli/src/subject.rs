//! Finds the subject of `check` and `convert`: a file, standard input, or a conversation of the store.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rejoin::{
    ConversationId, Dialect, Rule,
    check::Subject,
    engine::{EngineError, Mode},
    source::OpenedSource,
};

use crate::{
    context::{self, CliContext, Flags},
    failure::Failure,
    outfile::ProtectedSource,
    source,
};

pub struct ReadOptions<'r> {
    /// The format of a file, if the user named one.
    pub from: Option<&'r str>,
    /// Whether damage is an error.
    pub mode: Mode,
    pub flags: &'r Flags,
    /// Whether a JSON object is accepted for a named dialect even if it contains no conversation.
    pub bodies: bool,
}

/// Reads a subject, and returns what must not be overwritten. An existing path is a file; all else that could be one is a
/// conversation of the store.
pub fn read(given: &str, options: &ReadOptions<'_>) -> Result<(Subject, ProtectedSource), Failure> {
    let file = given == "-" || options.from.is_some() || Path::new(given).exists();
    if file || looks_like_path(given) {
        return of_file(given, options);
    }
    match of_store(given, options) {
        // It looks neither like an id nor like a title, so perhaps a file was meant.
        Err(Failure::Engine(error)) if !is_surely_id(given) => match *error {
            EngineError::Ambiguous { .. } => Err(Failure::Engine(error)),
            EngineError::Unknown(_) => {
                let why = "there is no such file, and no such conversation in the store";
                Err(Failure::unreadable(
                    given,
                    why,
                    Some("check the path; `rejoin list` lists conversations"),
                ))
            }
            _ => of_file(given, options),
        },
        read => read,
    }
}

fn of_file(path: &str, options: &ReadOptions<'_>) -> Result<(Subject, ProtectedSource), Failure> {
    let OpenedSource { input, sessions } = source::read_input(path, options.from)?;
    let text = Arc::clone(&input.text);
    let named = options.from.and_then(|from| from.parse().ok());
    let subject = match sessions {
        Ok(sessions) => Ok(Subject::of_file(path, input, sessions, named)),
        Err(error) if options.bodies => Subject::of_request(path, input, error, named),
        Err(error) => Err(error),
    };
    let subject = subject.map_err(|error| source::unreadable(path, error, options.from, &text))?;
    // A dialect names a request body. If the file is something else, the flag must not be ignored.
    if let Some(session) = subject.sessions.first()
        && let Some(dialect) = named.filter(|dialect: &Dialect| session.format != dialect.name())
        && options.bodies
        && subject.body().is_none()
    {
        let why =
            format!("it is not a request for {dialect}, but a session in the format `{}`", session.format);
        return Err(Failure::unreadable(path, &why, Some("leave out `--from`")));
    }
    if options.mode == Mode::Strict {
        let mut findings = subject.sessions.iter().flat_map(|session| &session.findings);
        if let Some(finding) = findings.find(|finding| finding.rule == Rule::DamagedEntry) {
            return Err(Failure::Damaged {
                name: path.to_owned(),
                line: finding.at.line.unwrap_or(1),
                why: finding.detail.as_ref().map_or_else(|| finding.to_string(), ToString::to_string),
            });
        }
    }
    Ok((subject, ProtectedSource::File(PathBuf::from(path))))
}

fn of_store(given: &str, options: &ReadOptions<'_>) -> Result<(Subject, ProtectedSource), Failure> {
    let cli = CliContext::new(options.flags)?;
    let (store, id) = cli.find(given)?;
    let recorded = context::read(&*store, id, options.mode)?;
    Ok((Subject::of_record(recorded), ProtectedSource::Store(cli.location.clone())))
}

/// Whether a text is spelled like a path, so that the store need not be searched: it has a separator, or is one word with an
/// extension.
fn looks_like_path(given: &str) -> bool {
    let ending = Path::new(given).extension().is_some() && !given.contains(char::is_whitespace);
    given.is_empty() || given.contains(std::path::is_separator) || ending
}

/// Whether a text looks like an id.
fn is_surely_id(given: &str) -> bool {
    given.starts_with(ConversationId::PREFIX) || given.starts_with('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_ids_are_told_apart() {
        for id in ["@", "@1", "conv_abc", "abc", "A title", "Fix main.rs, please", "ABC"] {
            assert!(!looks_like_path(id), "{id}");
        }
        for file in ["a.json", "/abc", "./abc", "some folder/a file", ""] {
            assert!(looks_like_path(file), "{file}");
        }
    }
}
