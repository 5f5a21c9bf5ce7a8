//! `rejoin doctor`: every session of every agent on this machine, checked. Nothing is changed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use indicatif::{ProgressBar, ProgressStyle};
use rejoin::{Finding, Policy, Rule, Session, record::json::write, repair};

use crate::{
    args::DoctorArguments,
    commands::installation,
    desk::Flags,
    failure::{FAILED, Failure, UNREADABLE},
    output::{self, harmless, paint},
    places::{self, AGENTS, Agent, Candidate},
};

/// How many broken sessions are listed, unless all are asked for.
const LISTED: usize = 20;

/// What was found in one file.
struct Examined {
    path: PathBuf,
    agent: &'static str,
    state: State,
}

enum State {
    /// Conversations, each with what is wrong with it.
    Sessions(Vec<Checked>),
    /// A session of an agent that nothing can be read from.
    Unreadable(String),
    /// A file that is no session at all.
    Other,
}

struct Checked {
    id: String,
    title: String,
    messages: usize,
    problems: BTreeMap<Rule, usize>,
}

impl Checked {
    fn is_broken(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// Looks at everything and tells.
pub fn run(arguments: &DoctorArguments, flags: &Flags) -> Result<u8, Failure> {
    if arguments.this_installation {
        return installation::tell(arguments.json, flags);
    }
    let (candidates, missing) = places::candidates(AGENTS, &arguments.paths);
    for path in &missing {
        output::talk(&format!("{} is not there", harmless(&path.to_string_lossy())));
    }
    let examined = examine_all(&candidates);
    let code = verdict(&examined, !missing.is_empty() && candidates.is_empty());
    if arguments.json {
        output::raw_data(&as_json(&examined))?;
    } else {
        for_people(&examined, arguments.all)?;
    }
    Ok(code)
}

fn verdict(examined: &[Examined], nothing: bool) -> u8 {
    let found = examined.iter().any(|file| match &file.state {
        State::Sessions(sessions) => sessions.iter().any(Checked::is_broken),
        State::Unreadable(_) => true,
        State::Other => false,
    });
    match (found, nothing) {
        (_, true) => UNREADABLE,
        (true, _) => FAILED,
        _ => 0,
    }
}

/// Checks every file, on all cores.
fn examine_all(candidates: &[Candidate]) -> Vec<Examined> {
    let bar = ProgressBar::new(candidates.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} sessions") {
        bar.set_style(style);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from).min(candidates.len().max(1));
    let next = AtomicUsize::new(0);
    let mut examined: Vec<(usize, Examined)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(candidate) = candidates.get(number) else { return mine };
                        mine.push((number, examine(candidate)));
                        bar.inc(1);
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("BUG: a check panicked")).collect()
    });
    bar.finish_and_clear();
    examined.sort_by_key(|(number, _)| *number);
    examined.into_iter().map(|(_, examined)| examined).collect()
}

fn examine(candidate: &Candidate) -> Examined {
    let (agent, state) = match candidate.read(None) {
        Ok(sessions) => {
            let format = sessions.first().map_or("", |session| session.format);
            let agent = AGENTS.iter().find(|agent| agent.format == format).map_or(format, |agent| agent.name);
            (agent, State::Sessions(sessions.iter().map(check).collect()))
        }
        Err(failure) => match candidate.agent {
            Some(agent) => (agent.name, State::Unreadable(failure.to_string())),
            None if candidate.named => ("", State::Unreadable(failure.to_string())),
            None => ("", State::Other),
        },
    };
    Examined { path: candidate.path.clone(), agent, state }
}

fn check(session: &Session) -> Checked {
    let repaired = repair(&session.history(), Policy::Keep);
    let mut problems: BTreeMap<Rule, usize> = BTreeMap::new();
    for finding in
        session.findings.iter().chain(&repaired.findings).filter(|finding| Finding::is_problem(finding))
    {
        *problems.entry(finding.rule).or_default() += 1;
    }
    Checked {
        id: session.id.to_string(),
        title: harmless(&session.headline()),
        messages: session.messages.len(),
        problems,
    }
}

/// Counts of one agent's sessions.
#[derive(Default)]
struct Counts {
    sessions: usize,
    broken: usize,
    unreadable: usize,
}

fn counts(examined: &[Examined]) -> BTreeMap<&str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for file in examined {
        match &file.state {
            State::Sessions(sessions) => {
                let counts = all.entry(file.agent).or_default();
                counts.sessions += sessions.len();
                counts.broken += sessions.iter().filter(|session| session.is_broken()).count();
            }
            State::Unreadable(_) => {
                let counts = all.entry(file.agent).or_default();
                counts.sessions += 1;
                counts.unreadable += 1;
            }
            State::Other => {}
        }
    }
    all
}

fn for_people(examined: &[Examined], all: bool) -> Result<(), Failure> {
    let counts = counts(examined);
    let total: usize = counts.values().map(|counts| counts.sessions).sum();
    if total == 0 {
        output::data("No sessions found. Looked in:")?;
        for folder in AGENTS.iter().flat_map(Agent::folders) {
            output::data(&format!("  {}", harmless(&folder.to_string_lossy())))?;
        }
        output::data("Give files or folders to look at: `rejoin doctor PATH…`.")?;
        return Ok(());
    }
    let width = counts.keys().map(|agent| agent.len()).max().unwrap_or(0).max("agent".len());
    output::data(&paint(
        &format!("{:width$}  {:>8}  {:>6}  {:>10}", "agent", "sessions", "broken", "unreadable"),
        output::DIM,
    ))?;
    for (agent, counts) in &counts {
        let row = format!(
            "{agent:width$}  {:>8}  {:>6}  {:>10}",
            counts.sessions, counts.broken, counts.unreadable
        );
        output::data(&row)?;
    }
    let broken = list(examined, if all { usize::MAX } else { LISTED })?;
    output::data("")?;
    if broken == 0 {
        return output::data(&format!("{} all {total} can be resumed.", paint("sound:", output::GOOD)));
    }
    output::data(&format!(
        "{} {broken} of {total} could not be resumed. Nothing was changed:",
        paint("broken:", output::ERROR)
    ))?;
    output::data("  rejoin check PATH                               says what is wrong and where")?;
    if counts.values().all(|counts| counts.broken == 0) {
        return Ok(());
    }
    output::data(
        "  rejoin convert PATH --to codex > mended.jsonl   writes a mended copy (or `--to claude-code`)",
    )
}

/// Lists what is broken, and gives how many there are.
fn list(examined: &[Examined], most: usize) -> Result<usize, Failure> {
    let mut broken = 0;
    for file in examined {
        let path = harmless(&file.path.to_string_lossy());
        match &file.state {
            State::Sessions(sessions) => {
                for session in sessions.iter().filter(|session| session.is_broken()) {
                    broken += 1;
                    if broken <= most {
                        let why: Vec<String> =
                            session.problems.iter().map(|(rule, count)| reason(*rule, *count)).collect();
                        let title = paint(&session.title, output::DIM);
                        output::data(&format!("\n{path}\n  {} {title}", why.join(", ")))?;
                    }
                }
            }
            State::Unreadable(why) => {
                broken += 1;
                if broken <= most {
                    output::data(&format!("\n{path}\n  {}", harmless(why)))?;
                }
            }
            State::Other => {}
        }
    }
    if broken > most {
        output::data(&format!("\n… and {} more; `--all` lists them, `--json` too.", broken - most))?;
    }
    Ok(broken)
}

/// `3 × unanswered-call`
fn reason(rule: Rule, count: usize) -> String {
    let name = paint(rule.name(), output::ERROR);
    if count == 1 { name } else { format!("{count} × {name}") }
}

fn as_json(examined: &[Examined]) -> String {
    let counts = counts(examined);
    let mut out = String::from("{");
    let sums: [(&str, usize); 3] = [
        ("sessions", counts.values().map(|counts| counts.sessions).sum()),
        ("broken", counts.values().map(|counts| counts.broken).sum()),
        ("unreadable", counts.values().map(|counts| counts.unreadable).sum()),
    ];
    number_fields(&mut out, &sums);
    write::key(&mut out, "agents");
    out.push('[');
    for (agent, counts) in &counts {
        out.push_str(if out.ends_with('[') { "{" } else { ",{" });
        write::key(&mut out, "agent");
        write::string(&mut out, agent);
        let row =
            [("sessions", counts.sessions), ("broken", counts.broken), ("unreadable", counts.unreadable)];
        number_fields(&mut out, &row);
        out.push('}');
    }
    out.push(']');
    write::key(&mut out, "found");
    out.push('[');
    for file in examined {
        match &file.state {
            State::Sessions(sessions) => {
                for session in sessions {
                    out.push_str(if out.ends_with('[') { "{" } else { ",{" });
                    session_json(&mut out, &file.path, file.agent, session);
                }
            }
            State::Unreadable(why) => {
                out.push_str(if out.ends_with('[') { "{" } else { ",{" });
                text_fields(
                    &mut out,
                    &[("path", &file.path.to_string_lossy()), ("agent", file.agent), ("error", why)],
                );
                write::key(&mut out, "resumable");
                out.push_str("false}");
            }
            State::Other => {}
        }
    }
    out.push_str("]}");
    out
}

fn session_json(out: &mut String, path: &Path, agent: &str, session: &Checked) {
    let path = path.to_string_lossy();
    text_fields(out, &[("path", &path), ("agent", agent), ("id", &session.id), ("title", &session.title)]);
    number_fields(out, &[("messages", session.messages)]);
    write::key(out, "resumable");
    out.push_str(if session.is_broken() { "false" } else { "true" });
    write::key(out, "problems");
    out.push('{');
    for (rule, count) in &session.problems {
        number_fields(out, &[(rule.name(), *count)]);
    }
    out.push_str("}}");
}

fn text_fields(out: &mut String, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        write::key(out, name);
        write::string(out, value);
    }
}

fn number_fields(out: &mut String, fields: &[(&str, usize)]) {
    for (name, value) in fields {
        write::key(out, name);
        out.push_str(&value.to_string());
    }
}
