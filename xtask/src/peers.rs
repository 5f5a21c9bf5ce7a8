//! Gives rejoin's output to programs by other authors, and checks that they accept it.
//!
//! Our own checkers are written from what is known of a provider; a peer is a second opinion that shares nothing with us:
//! the Codex CLI, Claude Code, Gemini CLI, goose, llm, opencode and pi resume sessions that rejoin wrote, mistral-common validates bodies that rejoin wrote, and MCP
//! servers and clients of others talk with rejoin. All are installed under `target/peers/`, once. Each run first gives the peers something broken, so that a peer that accepts everything is
//! noticed.

mod agents;
mod claude;
mod codex;
mod conversations;
mod install;
mod mcp;
mod mistral;
mod provider;
mod rejoin;
mod sent;
mod sessions;
mod transcript;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use conversations::Conversation;

/// The folder in which the peers are installed and run.
const FOLDER: &str = "target/peers";

/// How many bodies are made from the fixtures, in addition to the fixtures themselves.
const MUTATIONS: usize = 300;

/// How many failures of a peer are printed; all are saved.
const TOLD: usize = 10;

/// A peer's verdict on all its inputs.
struct Verdict {
    peer: String,
    /// The kind of inputs: conversations, or calls.
    what: &'static str,
    /// How many hand-written inputs, sound and broken, it judged correctly. A wrong verdict is an error.
    by_hand: usize,
    /// How many inputs came from rejoin.
    given: usize,
    failures: Vec<Failure>,
}

/// A conversation that a peer refused, with everything needed to find the cause.
struct Failure {
    name: String,
    reason: String,
    /// File names and contents: the source, the conversion, and the request.
    evidence: Vec<(&'static str, String)>,
}

/// The inputs of the peers: rejoin's output for the conversations, or for a part of them.
struct Given {
    rejoin: rejoin::Rejoin,
    /// The number of the part, and of all parts. The conversations are dealt out in turn, so that all parts take about as long.
    part: (usize, usize),
}

impl Given {
    fn conversations(&self) -> Result<Vec<Conversation>> {
        let (part, parts) = self.part;
        Ok(conversations::all()?.into_iter().skip(part - 1).step_by(parts).collect())
    }
}

/// Parses `2/4` as a part and the number of parts.
fn part(argument: &str) -> Option<(usize, usize)> {
    let (part, parts) = argument.split_once('/')?;
    let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
    (1..=parts).contains(&part).then_some((part, parts))
}

/// The peers in addition to the programs of [`sessions`].
const PEERS: &[&str] = &["codex", "claude-code", "mistral", "mcp"];

/// The name for all programs of [`sessions`].
const SESSIONS: &str = "sessions";

pub fn peers(arguments: &[String]) -> Result<()> {
    // Only hand-written inputs: this shows, without rejoin, that the peers can accept and refuse.
    let (selftest, named): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| *argument == "--selftest");
    let (parts, named): (Vec<&str>, Vec<&str>) = named.iter().partition(|name| part(name).is_some());
    let part = parts.first().and_then(|argument| part(argument)).unwrap_or((1, 1));
    let programs = sessions::PROGRAMS.iter().map(|(name, _)| *name);
    let all: Vec<&str> = PEERS.iter().copied().chain(programs.clone()).collect();
    if let Some(other) = named.iter().find(|name| !all.contains(name) && **name != SESSIONS) {
        bail!("no peer `{other}`: there are {}, {SESSIONS}, --selftest, and parts like 1/4", all.join(", "));
    }
    let is_named = |peer: &str| {
        named.contains(&peer) || named.contains(&SESSIONS) && programs.clone().any(|name| name == peer)
    };
    // Make it absolute, because programs in other folders get its name.
    let folder = std::path::absolute(FOLDER)?;
    let failed = folder.join("failed");
    if failed.exists() {
        fs::remove_dir_all(&failed)?;
    }
    fs::create_dir_all(&folder)?;
    let given =
        if selftest.is_empty() { Some(Given { rejoin: rejoin::Rejoin::build()?, part }) } else { None };

    let mut verdicts = Vec::new();
    let mut missing = Vec::new();
    for peer in all.iter().filter(|peer| named.is_empty() || is_named(peer)) {
        match ask(peer, &folder, given.as_ref()) {
            Ok(more) => verdicts.extend(more),
            Err(error) => missing.push(format!("{error:#}")),
        }
    }

    let mut bad = 0;
    for verdict in &verdicts {
        bad += verdict.failures.len();
        let Verdict { peer, what, by_hand, given, failures } = verdict;
        println!(
            "{peer}: took {} of {given} {what}; judged {by_hand} written by hand as it should",
            given - failures.len()
        );
        for (number, failure) in failures.iter().enumerate() {
            let place = save(&failed, peer, failure)?;
            if number < TOLD {
                let reason = failure.reason.lines().next().unwrap_or_default();
                println!("  {}: {reason}\n    {}", failure.name, place.display());
            }
        }
        if failures.len() > TOLD {
            println!("  … and {} more in {}", failures.len() - TOLD, failed.display());
        }
    }
    for reason in &missing {
        println!("not asked: {reason}");
    }
    ensure!(bad == 0, "{bad} {} not taken", if bad == 1 { "was" } else { "were" });
    ensure!(missing.is_empty(), "a peer could not be asked");
    Ok(())
}

fn ask(peer: &str, folder: &Path, given: Option<&Given>) -> Result<Vec<Verdict>> {
    let work = folder.join(format!("{peer}-work"));
    match peer {
        "codex" => Ok(vec![agents::ask(&codex::Codex(install::codex(folder)?), &work, given)?]),
        "claude-code" => {
            Ok(vec![agents::ask(&claude::ClaudeCode(install::claude_code(folder)?), &work, given)?])
        }
        "mcp" => mcp::ask(folder, given.map(|given| &given.rejoin)),
        "mistral" => mistral::ask(folder, given.map(|given| &given.rejoin)),
        _ => {
            let (_, install) =
                sessions::PROGRAMS.iter().find(|(name, _)| *name == peer).context("BUG: a peer is listed")?;
            Ok(vec![sessions::ask(*install, folder, &work, given)?])
        }
    }
}

/// Saves an input that a peer refused, so that it can become a fixture.
fn save(failed: &Path, peer: &str, failure: &Failure) -> Result<PathBuf> {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = format!("{peer} {}", failure.name).chars().map(legal).collect();
    let place = failed.join(name);
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    fs::write(place.join("reason.txt"), &failure.reason)?;
    for (name, content) in &failure.evidence {
        fs::write(place.join(name), content)?;
    }
    Ok(place)
}
