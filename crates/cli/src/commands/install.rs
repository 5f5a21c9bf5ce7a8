//! `rejoin convert --install` and `rejoin move`: put a session where its agent finds it, and print the command that resumes it.

use rejoin::{
    ConvertError, OnBroken, Session,
    engine::{Clock as _, SystemClock},
    places::{AGENTS, AgentCopy, AgentPlace, InstallError, InstallOptions, NewSession, SessionPlacement},
    sessions::{FileContent, RowsError, Written},
    shape::InstalledSession,
};

use crate::{
    args::Destination,
    failure::Failure,
    home,
    output::{self, harmless},
};

/// Makes a session for an agent, under an id that the agent does not use yet.
pub fn make(
    session: &Session,
    to: Destination,
    model: Option<&str>,
    on_broken: OnBroken,
) -> Result<Result<(AgentCopy, Written), ConvertError>, Failure> {
    let name = match to {
        Destination::Format(format) => format.name,
        Destination::Dialect(dialect) => dialect.name(),
    };
    let takes_none = || {
        let installed = AGENTS.iter().filter(|agent| agent.installs.is_some());
        let formats: Vec<String> = installed.map(|agent| format!("`--to {}`", agent.format)).collect();
        Failure::usage(
            format!("--install cannot add sessions to {name}"),
            format!("use one of {}", formats.join(", ")),
        )
    };
    let agent = AgentPlace::of(name).ok_or_else(takes_none)?;
    let (directory, machine) = (std::env::current_dir().unwrap_or_default(), home::machine());
    let (now, directory) = (SystemClock.now(), directory.as_path());
    let options = InstallOptions { model, on_broken, now, directory, machine: &machine };
    match AgentCopy::make(session, agent, &options) {
        Ok(made) => Ok(Ok(made)),
        Err(InstallError::Convert(error)) => Ok(Err(error)),
        Err(InstallError::TakesNone(_)) => Err(takes_none()),
        Err(error) => Err(Failure::Usage { what: error.to_string(), hint: None }),
    }
}

/// Writes the session and prints the command that resumes it.
pub fn put(copy: &AgentCopy, content: &FileContent, json: bool) -> Result<(), Failure> {
    let AgentCopy { agent, home, new, installed: SessionPlacement { path, command } } = copy;
    if !home.exists() {
        let home = home.display();
        output::talk(&format!("{} was not used here before: creating {home}", agent.name));
    }
    copy.put(content).map_err(|error| match error {
        InstallError::Write(why) => Failure::unwritable(path.display(), &why),
        error => {
            let hint = hint(agent, &error);
            Failure::failed(format!("nothing was added to {}: {error}", output::shown(path)), hint)
        }
    })?;
    let done = if matches!(content, FileContent::Text(_)) { "wrote" } else { "added to" };
    output::talk(&format!("{done} {}", output::shown(path)));
    if !json {
        return output::data(&harmless(command));
    }
    let NewSession { id, directory, .. } = new;
    let installed =
        InstalledSession { agent: agent.name, format: agent.format, id, path, directory, command };
    output::json_data(&installed.to_json())
}

/// The advice if the database of an agent does not accept a session.
fn hint(agent: &AgentPlace, error: &InstallError) -> String {
    let name = agent.name;
    let elsewhere = format!("`rejoin convert PATH --to {} -o FILE` writes a new database", agent.format);
    match error {
        InstallError::Rows(RowsError::OlderSchema { .. }) => {
            format!("start {name} once, so that it updates its database, and try again")
        }
        InstallError::Rows(RowsError::NewerSchema { .. }) => {
            format!("this release of rejoin does not know the database of this {name}; {elsewhere}")
        }
        InstallError::Rows(RowsError::Locked) => format!("close {name}, or try again when it is done"),
        _ => format!("{elsewhere} instead"),
    }
}
