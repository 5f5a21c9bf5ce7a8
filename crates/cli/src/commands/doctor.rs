//! `rejoin doctor`: every session of every agent on this machine, checked. Nothing is changed.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use rejoin::{
    Rule,
    doctor::{Diagnosis, ExaminedSession, FileState, Health},
    places::{self, AgentPlace, Candidate, Candidates, FolderFiles, Machine, PlacesToSearch},
    source::Unread,
};

use crate::{
    args::DoctorArguments,
    commands::{installation, prelude::*},
    home::{self, Home},
    settings::Settings,
    source, stream,
};

/// How many broken sessions are listed by default.
const LISTED: usize = 20;

pub fn run(arguments: &DoctorArguments, flags: &Flags) -> Result<u8, Failure> {
    if arguments.this_installation {
        return installation::tell(arguments.json, flags);
    }
    let wanted = arguments.agents.wanted(&Settings::load(&Home::from_environment()?.config)?);
    let (paths, machine): (Vec<PathBuf>, _) =
        (arguments.paths.iter().map(PathBuf::from).collect(), home::machine());
    let Candidates { files: candidates, missing, .. } =
        places::candidates(&wanted, &paths, FolderFiles::ByName, &machine);
    for path in &missing {
        output::talk(&format!("{} does not exist", output::shown(path)));
    }
    let bar = output::progress(candidates.len(), "{bar:40} {pos}/{len} sessions");
    let explain = |path: &Path, unread: &Unread| source::failure(unread, path, None).to_string();
    let examine = |candidate: &Candidate| candidate.examine(&wanted, stream::open, explain);
    let diagnosis = Diagnosis::of(&candidates, examine, || bar.inc(1));
    bar.finish_and_clear();
    if arguments.json {
        output::json_data(&diagnosis.to_json())?;
    } else {
        for_people(&diagnosis, &wanted, &machine, arguments.all)?;
    }
    Ok(match (diagnosis.is_sound(), !missing.is_empty() && candidates.is_empty()) {
        (_, true) => UNREADABLE,
        (false, _) => FAILED,
        _ => 0,
    })
}

/// The words for a state.
fn words(health: Health) -> &'static str {
    match health {
        Health::Sound => "sound",
        Health::MendedByItsAgent => "mended by its own agent before sending",
        Health::Broken => "broken; rejoin does not know whether its agent mends it",
        Health::Refused => "refused by the provider",
        Health::CannotBeOpened => "cannot be opened by its agent",
    }
}

fn for_people(
    diagnosis: &Diagnosis,
    wanted: &PlacesToSearch,
    machine: &Machine,
    all: bool,
) -> Result<(), Failure> {
    let (counts, total) = (diagnosis.counts(), diagnosis.total());
    if total.sessions == 0 {
        let since = wanted.since.map_or_else(String::new, |since| {
            format!(" that changed since {}", since.strftime("%Y-%m-%dT%H:%M:%SZ"))
        });
        output::data(&format!("No sessions found{since}. Looked in:"))?;
        for agent in &wanted.agents {
            let places = agent.looked_at(machine);
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
        let agents = counts.iter().filter(|(_, counts)| counts.of(Health::Broken) > 0);
        let agents = agents.map(|(agent, _)| *agent).collect::<Vec<_>>().join(", ");
        let more = if dead > 0 { " more" } else { "" };
        let are = agreeing(unclear as u64, "is", "are");
        output::data(&format!(
            "{broken} {unclear}{more} of {sessions} {are} broken, and rejoin cannot tell what their own agents do about \
             that (in the table: unclear; {agents}). Resume one in its agent and see, or move it."
        ))?;
        if agents.split(", ").any(|agent| agent == "Cursor") {
            output::data(
                "Cursor writes no results of calls to its transcripts, so every session in which it called a tool is among \
                 them.",
            )?;
        }
    }
    output::data("  rejoin check PATH                                says what is wrong and where")?;
    // Suggest a command only if there is a file to use it on.
    let formats: BTreeSet<&str> = diagnosis.files.iter().filter_map(first_dead).collect();
    let is_written = |format: &str| AgentPlace::of(format).is_some_and(|agent| agent.installs.is_some());
    let (written, others): (Vec<&str>, Vec<&str>) =
        formats.into_iter().partition(|format| is_written(format));
    if !others.is_empty() {
        output::data(
            "  rejoin move PATH --to codex                      puts a mended copy where another agent finds it",
        )?;
    }
    for format in written {
        let command = format!("rejoin convert PATH --to {format} --install");
        output::data(&format!("  {command:<49}puts a mended copy where its agent finds it"))?;
    }
    Ok(())
}

/// The format of the first session in a file that cannot be resumed.
fn first_dead(file: &FileState) -> Option<&'static str> {
    let dead =
        file.sessions.as_ref().ok()?.iter().find(|session| session.health.is_resumable() != Some(true))?;
    Some(dead.format)
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

fn described(session: &ExaminedSession) -> String {
    let problems = session.problems.iter().map(|(rule, count)| reason(*rule, *count));
    let why: Vec<String> = [words(session.health).to_owned()].into_iter().chain(problems).collect();
    let title = paint(&harmless(&session.title), output::DIM);
    let answer =
        session.answer.as_ref().map(|answer| format!("\n  {}", harmless(answer))).unwrap_or_default();
    format!("  {title}\n  {}{answer}", why.join(", "))
}

/// Formats a rule and its count: `3 × unanswered-call`.
fn reason(rule: Rule, count: usize) -> String {
    let name = paint(rule.name(), output::ERROR);
    if count == 1 { name } else { format!("{count} × {name}") }
}
