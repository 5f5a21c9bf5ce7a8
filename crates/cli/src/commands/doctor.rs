//! `rejoin doctor`: every session of every agent on this machine, checked. Nothing is changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use indicatif::{ProgressBar, ProgressStyle};
use rejoin::{Finding, Rule, Session, check, checkers};

use crate::{
    args::DoctorArguments,
    commands::installation,
    desk::Flags,
    failure::{FAILED, Failure, UNREADABLE},
    json::Object,
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
    format: &'static str,
    messages: usize,
    health: Health,
    problems: BTreeMap<Rule, usize>,
    /// The provider's words, where it would refuse the next request.
    answer: Option<String>,
}

/// What becomes of a session when its own agent resumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    /// There is nothing to mend.
    Sound,
    /// It is broken, and its agent mends it before it sends it.
    MendedByItsAgent,
    /// The provider refuses the next request.
    Refused,
    /// The agent does not open it.
    CannotBeOpened,
}

impl Health {
    const ALL: [Self; 4] = [Self::Sound, Self::MendedByItsAgent, Self::Refused, Self::CannotBeOpened];

    /// Its name in JSON.
    fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::MendedByItsAgent => "mended_by_its_agent",
            Self::Refused => "refused",
            Self::CannotBeOpened => "cannot_be_opened",
        }
    }

    /// What it means, for a person.
    fn words(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::MendedByItsAgent => "mended by its own agent before sending",
            Self::Refused => "refused by the provider",
            Self::CannotBeOpened => "cannot be opened by its agent",
        }
    }

    /// Whether the agent can go on with it.
    fn is_resumable(self) -> bool {
        self <= Self::MendedByItsAgent
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
        output::json_data(&as_json(&examined))?;
    } else {
        for_people(&examined, arguments.all)?;
    }
    Ok(code)
}

fn verdict(examined: &[Examined], nothing: bool) -> u8 {
    let found = examined.iter().any(|file| match &file.state {
        State::Sessions(sessions) => sessions.iter().any(|session| session.health != Health::Sound),
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
    let checked = check::history(session, None);
    let mut problems: BTreeMap<Rule, usize> = BTreeMap::new();
    for finding in checked.findings.iter().filter(|finding| Finding::is_problem(finding)) {
        *problems.entry(finding.rule).or_default() += 1;
    }
    let resumed = check::resumed(session);
    let refusal = resumed.as_ref().and_then(|judged| judged.refusals.first());
    let health = if problems.contains_key(&Rule::CannotBeOpened) {
        Health::CannotBeOpened
    } else if refusal.is_some() || (resumed.is_none() && !problems.is_empty()) {
        Health::Refused
    } else if problems.is_empty() {
        Health::Sound
    } else {
        Health::MendedByItsAgent
    };
    let provider = resumed.as_ref().and_then(|judged| checkers::named(judged.dialect.name()));
    let answer = refusal.filter(|_| health == Health::Refused).map(|refusal| {
        let provider = provider.map_or("The provider", |checker| checker.provider);
        format!("{provider} would answer 400: {}", refusal.violation.message)
    });
    Checked {
        id: session.id.to_string(),
        title: harmless(&session.headline()),
        format: session.format,
        messages: session.messages.len(),
        health,
        problems,
        answer,
    }
}

impl Checked {
    fn json(&self, about: Object) -> String {
        let problems = self.problems.iter();
        let problems =
            problems.fold(Object::new(), |object, (rule, count)| object.count(rule.name(), *count));
        about
            .text("id", &self.id)
            .text("title", &self.title)
            .count("messages", self.messages)
            .flag("resumable", self.health.is_resumable())
            .text("state", self.health.name())
            .text_if("answer", self.answer.as_ref())
            .object("problems", problems)
            .finish()
    }
}

/// Counts of one agent's sessions, by what becomes of them.
#[derive(Default)]
struct Counts {
    sessions: usize,
    by_health: BTreeMap<Health, usize>,
    /// Files that nothing can be read from.
    unreadable: usize,
}

impl Counts {
    fn of(&self, health: Health) -> usize {
        self.by_health.get(&health).copied().unwrap_or_default()
    }

    fn add(&mut self, other: &Counts) {
        self.sessions += other.sessions;
        self.unreadable += other.unreadable;
        other
            .by_health
            .iter()
            .for_each(|(health, count)| *self.by_health.entry(*health).or_default() += count);
    }
}

fn counts(examined: &[Examined]) -> BTreeMap<&str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for file in examined {
        let counts = match &file.state {
            State::Other => continue,
            State::Unreadable(_) => Counts { sessions: 1, unreadable: 1, ..Counts::default() },
            State::Sessions(sessions) => {
                let mut counts = Counts { sessions: sessions.len(), ..Counts::default() };
                sessions.iter().for_each(|s| *counts.by_health.entry(s.health).or_default() += 1);
                counts
            }
        };
        all.entry(file.agent).or_default().add(&counts);
    }
    all
}

fn total(counts: &BTreeMap<&str, Counts>) -> Counts {
    let mut total = Counts::default();
    counts.values().for_each(|counts| total.add(counts));
    total
}

fn for_people(examined: &[Examined], all: bool) -> Result<(), Failure> {
    let counts = counts(examined);
    let total = total(&counts);
    if total.sessions == 0 {
        output::data("No sessions found. Looked in:")?;
        for folder in AGENTS.iter().flat_map(Agent::folders) {
            output::data(&format!("  {}", harmless(&folder.to_string_lossy())))?;
        }
        output::data("Give files or folders to look at: `rejoin doctor PATH…`.")?;
        return Ok(());
    }
    let width = counts.keys().map(|agent| agent.len()).max().unwrap_or(0).max("agent".len());
    output::data(&paint(
        &format!(
            "{:width$}  {:>8}  {:>6}  {:>11}  {:>7}  {:>10}  {:>10}",
            "agent", "sessions", "sound", "self-mended", "refused", "won't open", "unreadable"
        ),
        output::DIM,
    ))?;
    for (agent, counts) in &counts {
        let [sound, mended, refused, unopened] = Health::ALL.map(|health| counts.of(health));
        output::data(&format!(
            "{agent:width$}  {:>8}  {sound:>6}  {mended:>11}  {refused:>7}  {unopened:>10}  {:>10}",
            counts.sessions, counts.unreadable
        ))?;
    }
    list(examined, if all { usize::MAX } else { LISTED })?;
    output::data("")?;
    let dead = total.of(Health::Refused) + total.of(Health::CannotBeOpened) + total.unreadable;
    let (sessions, mended) = (total.sessions, total.of(Health::MendedByItsAgent));
    if dead == 0 {
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
    let mut why = Vec::new();
    for (count, words) in [
        (total.of(Health::Refused), "refused by the provider"),
        (total.of(Health::CannotBeOpened), "that their agent cannot open"),
        (total.unreadable, "unreadable"),
    ] {
        if count > 0 {
            why.push(format!("{count} {words}"));
        }
    }
    output::data(&format!(
        "{} {dead} of {sessions} cannot be resumed: {}. Nothing was changed.",
        paint("broken:", output::ERROR),
        why.join(", ")
    ))?;
    output::data("  rejoin check PATH                                says what is wrong and where")?;
    // The command is for a file that it can be used on.
    let formats: BTreeSet<&str> = examined.iter().filter_map(first_dead).collect();
    for format in formats {
        let command = format!("rejoin convert PATH --to {format} --install");
        output::data(&format!("  {command:<49}puts a mended copy where its agent finds it"))?;
    }
    Ok(())
}

/// The format of the first session of a file that its agent cannot go on with.
fn first_dead(file: &Examined) -> Option<&'static str> {
    let State::Sessions(sessions) = &file.state else { return None };
    let dead = sessions.iter().find(|session| !session.health.is_resumable())?;
    AGENTS.iter().any(|agent| agent.format == dead.format).then_some(dead.format)
}

/// Lists what its agent cannot go on with.
fn list(examined: &[Examined], most: usize) -> Result<(), Failure> {
    let mut listed = 0;
    for file in examined {
        let path = harmless(&file.path.to_string_lossy());
        match &file.state {
            State::Sessions(sessions) => {
                for session in sessions.iter().filter(|session| !session.health.is_resumable()) {
                    listed += 1;
                    if listed <= most {
                        let problems = session.problems.iter().map(|(rule, count)| reason(*rule, *count));
                        let why: Vec<String> =
                            [session.health.words().to_owned()].into_iter().chain(problems).collect();
                        let title = paint(&session.title, output::DIM);
                        output::data(&format!("\n{path}\n  {title}\n  {}", why.join(", ")))?;
                        if let Some(answer) = &session.answer {
                            output::data(&format!("  {}", harmless(answer)))?;
                        }
                    }
                }
            }
            State::Unreadable(why) => {
                listed += 1;
                if listed <= most {
                    output::data(&format!("\n{path}\n  {}", harmless(why)))?;
                }
            }
            State::Other => {}
        }
    }
    if listed > most {
        output::data(&format!("\n… and {} more; `--all` lists them, `--json` too.", listed - most))?;
    }
    Ok(())
}

/// `3 × unanswered-call`
fn reason(rule: Rule, count: usize) -> String {
    let name = paint(rule.name(), output::ERROR);
    if count == 1 { name } else { format!("{count} × {name}") }
}

fn as_json(examined: &[Examined]) -> String {
    let counts = counts(examined);
    let agents =
        counts.iter().map(|(agent, counts)| sums(Object::new().text("agent", agent), counts).finish());
    let found = examined.iter().flat_map(|file| {
        let about = Object::new().text("path", file.path.display()).text("agent", file.agent);
        match &file.state {
            State::Sessions(sessions) => sessions.iter().map(|session| session.json(about.clone())).collect(),
            State::Unreadable(why) => vec![about.text("error", why).flag("resumable", false).finish()],
            State::Other => Vec::new(),
        }
    });
    sums(Object::new(), &total(&counts)).list("agents", agents).list("found", found).finish()
}

fn sums(object: Object, counts: &Counts) -> Object {
    let broken = counts.sessions - counts.unreadable - counts.of(Health::Sound);
    let object = object.count("sessions", counts.sessions).count("broken", broken);
    let object = object.count("unreadable", counts.unreadable);
    Health::ALL.into_iter().fold(object, |object, health| object.count(health.name(), counts.of(health)))
}
