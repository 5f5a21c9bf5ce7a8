//! Agents that resume sessions which rejoin put in their place. Each runs one turn with a provider on this machine, and its request
//! is compared with the session.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    Failure, Given, Verdict,
    conversations::{self, Conversation, ExpectedText, Speaker},
    provider::{Provider, REPLY},
    rejoin::{Installed, Rejoin},
};
use crate::run::patiently;

/// What an agent is asked after resuming.
pub const PROMPT: &str = "go on";

/// A turn takes half a second, but an agent that waits for something would wait for ever.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A program that resumes sessions.
pub trait Agent {
    /// The format of the agent's sessions.
    const FORMAT: &'static str;
    /// The variable that names the agent's folder.
    const VARIABLE: &'static str;
    /// The dialect of the agent's requests.
    const DIALECT: &'static str;
    /// The place of a hand-written session in the agent's folder, and the session's id.
    const BY_HAND: (&'static str, &'static str);

    /// The agent's name and version.
    fn name(&self) -> String;

    /// Hand-written sessions, and whether each is sound: the user says "hello", the model says "good bye".
    fn by_hand(&self) -> Vec<(bool, String)>;

    /// Resumes a session that is in a folder and requests one turn.
    fn resume(&self, home: &Path, session: &Installed, said: &[ExpectedText]) -> Result<Turn>;

    /// A further check of a session after it was resumed.
    fn afterwards(&self, _: &Path, _: &Installed, _: &Conversation) -> Result<Option<String>> {
        Ok(None)
    }

    /// A request without the fields that only this client sends.
    fn plain(&self, request: &str) -> Result<String>;
}

/// The outcome of resuming a session.
pub struct Turn {
    pub problems: Vec<String>,
    pub request: Option<String>,
    pub stderr: String,
}

impl Turn {
    /// A session that the agent did not even try.
    pub fn refused(problem: String) -> Self {
        Self { problems: vec![problem], request: None, stderr: String::new() }
    }

    /// Runs an agent for one turn. `problems` checks its request.
    pub fn run(
        name: &str,
        home: &Path,
        provider: &Provider,
        command: &mut Command,
        problems: impl Fn(&str) -> Vec<String>,
    ) -> Result<Self> {
        let (out, err) = (home.join("stdout.txt"), home.join("stderr.txt"));
        command
            .env("HOME", home)
            .env("NO_PROXY", "127.0.0.1")
            .env("no_proxy", "127.0.0.1")
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        let status = patiently(command, PATIENCE)?;
        let [stdout, stderr] =
            [fs::read(out)?, fs::read(err)?].map(|text| String::from_utf8_lossy(&text).into_owned());
        let mut found = Vec::new();
        match status {
            None => found.push(format!("{name} was not done after {} seconds", PATIENCE.as_secs())),
            Some(status) if !status.success() => {
                found.push(format!("{name} ended with {status}. {stderr}{stdout}"))
            }
            Some(_) if !stdout.contains(REPLY) => found.push(format!("{name} did not print the reply")),
            Some(_) => {}
        }
        let mut turns = provider.turns();
        if turns.len() != 1 {
            found.push(format!("{name} asked for {} turns instead of one", turns.len()));
        }
        let request = turns.pop();
        found.extend(request.as_deref().map(problems).unwrap_or_default());
        Ok(Self { problems: found, request, stderr })
    }
}

/// Makes an agent resume hand-written sessions, so that an agent that accepts everything is noticed, and then all of rejoin's.
pub fn ask(agent: &impl Agent, work: &Path, given: Option<&Given>) -> Result<Verdict> {
    let mut verdict =
        Verdict { peer: agent.name(), what: "conversations", by_hand: 0, given: 0, failures: Vec::new() };
    fs::create_dir_all(work)?;
    for (sound, text) in agent.by_hand() {
        verdict.by_hand += 1;
        let problems = resumed_by_hand(agent, work, &text)?;
        ensure!(
            problems.is_empty() == sound,
            "a session written by hand, sound: {sound}: {problems:?}\n{text}"
        );
    }
    let Some(given) = given else { return Ok(verdict) };
    for conversation in given.conversations()? {
        verdict.given += 1;
        let mut evidence = vec![("source.json", conversation.text.clone())];
        if let Err(reason) = resumed(agent, work, &given.rejoin, &conversation, &mut evidence)? {
            verdict.failures.push(Failure { name: conversation.name, reason, evidence });
        }
    }
    Ok(verdict)
}

fn resumed_by_hand<A: Agent>(agent: &A, work: &Path, text: &str) -> Result<Vec<String>> {
    let said = [(Speaker::User, "hello"), (Speaker::Assistant, "good bye")]
        .map(|(speaker, text)| ExpectedText { speaker, text: text.into() });
    let home = fresh_home(work)?;
    let (place, id) = A::BY_HAND;
    let place = home.join(place);
    fs::create_dir_all(place.parent().context("a session lies in a folder")?)?;
    fs::write(place, text)?;
    let session = Installed { id: id.to_owned(), directory: work.to_owned(), text: text.to_owned() };
    let turn = agent.resume(&home, &session, &said)?;
    ensure!(
        turn.request.is_some(),
        "a session written by hand was not resumed:\n{:?}\n{}",
        turn.problems,
        turn.stderr
    );
    Ok(turn.problems)
}

fn resumed<A: Agent>(
    agent: &A,
    work: &Path,
    rejoin: &Rejoin,
    source: &Conversation,
    evidence: &mut Vec<(&'static str, String)>,
) -> Result<Result<(), String>> {
    let home = fresh_home(work)?;
    let session = match rejoin.install(work, source, A::FORMAT, (A::VARIABLE, &home))? {
        Ok(session) => session,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut turn = agent.resume(&home, &session, &conversations::expected_texts(&source.text))?;
    if turn.problems.is_empty() {
        turn.problems.extend(agent.afterwards(&home, &session, source)?);
    }
    let judged = match (turn.problems.is_empty(), &turn.request) {
        (true, Some(request)) => rejoin.check(work, A::DIALECT, &agent.plain(request)?)?,
        _ => Err(turn.problems.join("\n")),
    };
    evidence.push(("session.jsonl", session.text));
    evidence.push(("request.json", turn.request.unwrap_or_default()));
    evidence.push(("stderr.txt", turn.stderr));
    Ok(judged)
}

/// A new home folder for the agent, with a working folder.
pub fn fresh_home(work: &Path) -> Result<std::path::PathBuf> {
    let home = work.join("home");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    fs::create_dir_all(home.join("w"))?;
    Ok(home)
}
