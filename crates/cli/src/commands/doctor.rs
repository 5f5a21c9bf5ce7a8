//! `rejoin doctor`: every session of every agent on this machine, checked. Nothing is changed.

use std::collections::BTreeSet;

use rejoin::{
    Rule,
    doctor::{Diagnosis, Examined, FileState, Health},
};

use crate::{
    args::DoctorArguments,
    commands::{installation, prelude::*},
    home::Home,
    places::{self, AgentPlace, Candidate, Candidates, FolderFiles, LookFor},
    settings::Settings,
};

/// How many broken sessions are listed, unless all are asked for.
const LISTED: usize = 20;

pub fn run(arguments: &DoctorArguments, flags: &Flags) -> Result<u8, Failure> {
    if arguments.this_installation {
        return installation::tell(arguments.json, flags);
    }
    let wanted = arguments.agents.wanted(&Settings::load(&Home::from_environment()?.config)?);
    let Candidates { files: candidates, missing, .. } =
        places::candidates(&wanted, &arguments.paths, FolderFiles::ByName);
    for path in &missing {
        output::talk(&format!("{} does not exist", output::shown(path)));
    }
    let bar = output::progress(candidates.len(), "{bar:40} {pos}/{len} sessions");
    let diagnosis = Diagnosis::of(&candidates, |candidate| examine(candidate, &wanted), || bar.inc(1));
    bar.finish_and_clear();
    if arguments.json {
        output::json_data(&diagnosis.to_json())?;
    } else {
        for_people(&diagnosis, &wanted, arguments.all)?;
    }
    Ok(match (diagnosis.is_sound(), !missing.is_empty() && candidates.is_empty()) {
        (_, true) => UNREADABLE,
        (false, _) => FAILED,
        _ => 0,
    })
}

/// Reads and examines a file. One that was not named and that no agent wrote need not be a session.
fn examine(candidate: &Candidate, wanted: &LookFor) -> Option<FileState> {
    let mut read = candidate.try_read(None);
    if let Ok(sessions) = &mut read {
        sessions.retain(|session| wanted.wants(session));
    }
    let agent = match &read {
        Ok(sessions) => {
            let format = sessions.first()?.format;
            AgentPlace::of(format).map_or(format, |agent| agent.name)
        }
        Err(_) => match candidate.agent {
            Some(agent) => agent.name,
            None if candidate.named => "",
            None => return None,
        },
    };
    let read = read.map_err(|unread| unread.failure(&candidate.path, None));
    FileState::of(candidate.path.clone(), agent, read)
}

/// Describes a state for people.
fn words(health: Health) -> &'static str {
    match health {
        Health::Sound => "sound",
        Health::MendedByItsAgent => "mended by its own agent before sending",
        Health::Broken => "broken; what its agent does about that is not known",
        Health::Refused => "refused by the provider",
        Health::CannotBeOpened => "cannot be opened by its agent",
    }
}

fn for_people(diagnosis: &Diagnosis, wanted: &LookFor, all: bool) -> Result<(), Failure> {
    let (counts, total) = (diagnosis.counts(), diagnosis.total());
    if total.sessions == 0 {
        output::data("No sessions found. Looked in:")?;
        for agent in &wanted.agents {
            let places = agent.looked_at();
            let more =
                if places.len() > 1 { format!(" and {} more", places.len() - 1) } else { String::new() };
            let first = places.first().map(|place| output::shown(place)).unwrap_or_default();
            output::data(&format!("  {}: {first}{more}", agent.name))?;
        }
        output::data("Give files or folders to look at: `rejoin doctor PATH…`.")?;
        return Ok(());
    }
    let width = counts.keys().map(|agent| agent.len()).max().unwrap_or(0).max("agent".len());
    output::data(&paint(
        &format!(
            "{:width$}  {:>8}  {:>6}  {:>11}  {:>7}  {:>7}  {:>10}  {:>10}",
            "agent", "sessions", "sound", "self-mended", "unclear", "refused", "won't open", "unreadable"
        ),
        output::DIM,
    ))?;
    for (agent, counts) in &counts {
        let [sound, mended, unclear, refused, unopened] = Health::ALL.map(|health| counts.of(health));
        output::data(&format!(
            "{agent:width$}  {:>8}  {sound:>6}  {mended:>11}  {unclear:>7}  {refused:>7}  {unopened:>10}  {:>10}",
            counts.sessions, counts.unreadable
        ))?;
    }
    list(&diagnosis.files, if all { usize::MAX } else { LISTED })?;
    output::data("")?;
    let dead = total.of(Health::Refused) + total.of(Health::CannotBeOpened) + total.unreadable;
    let (sessions, mended) = (total.sessions, total.of(Health::MendedByItsAgent));
    let unclear = total.of(Health::Broken);
    if dead + unclear == 0 {
        let mends = match mended {
            0 => String::new(),
            1 => String::from(" One of them is broken, and its own agent mends it."),
            _ => format!(" {mended} of them are broken, and their own agents mend them."),
        };
        return output::data(&format!(
            "{} all {sessions} can be resumed.{mends}",
            paint("good:", output::GOOD)
        ));
    }
    let why = [
        (total.of(Health::Refused), "refused by the provider"),
        (total.of(Health::CannotBeOpened), "that their agent cannot open"),
        (total.unreadable, "unreadable"),
    ];
    let why =
        why.into_iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
    let broken = paint("broken:", output::ERROR);
    if dead > 0 {
        let why = why.collect::<Vec<_>>().join(", ");
        output::data(&format!(
            "{broken} {dead} of {sessions} cannot be resumed: {why}. Nothing was changed."
        ))?;
    }
    if unclear > 0 {
        let unknown = "what their own agents do about that is not known (in the table: unclear).";
        let more = if dead > 0 { " more" } else { "" };
        output::data(&format!("{broken} {unclear}{more} of {sessions} are broken, and {unknown}"))?;
    }
    output::data("  rejoin check PATH                                says what is wrong and where")?;
    // The command is for a file that it can be used on.
    let formats: BTreeSet<&str> = diagnosis.files.iter().filter_map(first_dead).collect();
    for format in formats {
        let command = format!("rejoin convert PATH --to {format} --install");
        output::data(&format!("  {command:<49}puts a mended copy where its agent finds it"))?;
    }
    Ok(())
}

/// The format of the first session in a file that cannot be resumed.
fn first_dead(file: &FileState) -> Option<&'static str> {
    let dead =
        file.sessions.as_ref().ok()?.iter().find(|session| session.health.is_resumable() != Some(true))?;
    AgentPlace::of(dead.format).filter(|agent| agent.installs.is_some()).map(|agent| agent.format)
}

/// Lists the sessions that cannot be resumed.
fn list(files: &[FileState], most: usize) -> Result<(), Failure> {
    let mut listed = 0;
    let mut add = |file: &FileState, lines: String| {
        listed += 1;
        let path = output::shown(&file.path);
        if listed <= most { output::data(&format!("\n{path}\n{lines}")) } else { Ok(()) }
    };
    for file in files {
        match &file.sessions {
            Ok(sessions) => {
                let mut dead = sessions.iter().filter(|session| session.health.is_resumable() != Some(true));
                dead.try_for_each(|session| add(file, described(session)))?;
            }
            Err(why) => add(file, format!("  {}", harmless(why)))?,
        }
    }
    if listed > most {
        output::data(&format!("\n… and {} more; `--all` lists them, `--json` too.", listed - most))?;
    }
    Ok(())
}

fn described(session: &Examined) -> String {
    let problems = session.problems.iter().map(|(rule, count)| reason(*rule, *count));
    let why: Vec<String> = [words(session.health).to_owned()].into_iter().chain(problems).collect();
    let title = paint(&harmless(&session.title), output::DIM);
    let answer =
        session.answer.as_ref().map(|answer| format!("\n  {}", harmless(answer))).unwrap_or_default();
    format!("  {title}\n  {}{answer}", why.join(", "))
}

/// `3 × unanswered-call`
fn reason(rule: Rule, count: usize) -> String {
    let name = paint(rule.name(), output::ERROR);
    if count == 1 { name } else { format!("{count} × {name}") }
}
