//! Programs that list and resume sessions which rejoin converted. Each runs one turn with a provider on this machine. Its request
//! is compared with the conversation, and rejoin reads the session that it leaves behind.
//!
//! Each program is one file in this folder and one entry in [`PROGRAMS`].

mod gemini_cli;
mod goose;
mod llm;
mod opencode;
mod pi;
mod pieces;
mod sqlite;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, ensure};
use pieces::{Piece, Request};
use serde_json::Value;

use super::{
    Failure, Given, Verdict,
    agents::{PATIENCE, PROMPT, Turn, fresh_home},
    conversations::{self, Conversation, Speaker, lost},
    provider::{Provider, REPLY},
    rejoin::Rejoin,
};
use crate::run::patiently;

/// Every program: its name on the command line, and how it is installed.
pub const PROGRAMS: &[(&str, Installer)] = &[
    ("gemini-cli", gemini_cli::install),
    ("goose", goose::install),
    ("llm", llm::install),
    ("opencode", opencode::install),
    ("pi", pi::install),
];

pub type Installer = fn(&Path) -> Result<Box<dyn Program>>;

/// How many conversations are tried at the same time: most of the time is spent starting programs, on one core each.
const WORKERS: usize = 2;

/// The text that rejoin appends to a request that would end with a model. A session does not need it.
const CLOSING: &str = "Continue.";

/// A program that resumes sessions.
pub trait Program: Sync {
    /// The program's name and version.
    fn name(&self) -> String;

    /// The format of its sessions.
    fn format(&self) -> &'static str;

    /// The dialect of its requests.
    fn dialect(&self) -> &'static str;

    /// The dialect of the request that defines what must be sent. Pieces are the same in every dialect, but `rejoin convert`
    /// observes the limits of one provider, which a program may not know.
    fn measure(&self) -> &'static str {
        self.dialect()
    }

    /// Additional options for `rejoin convert` when it writes a session.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// Hand-written sessions for a working directory, and whether each is sound. All are meant to contain [`by_hand`]. For a
    /// program with a database they are SQL that fills the program's empty database.
    fn by_hand(&self, directory: &Path) -> Vec<(bool, String)>;

    /// Puts a session file where the program finds it and returns the session's id, or the reason why the program refused the file.
    fn place(&self, home: &Path, session: &Path) -> Result<Result<String, String>>;

    /// Faults in the program's list of sessions, before the session is resumed.
    fn unlisted(&self, _home: &Path, _id: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// The command that resumes a session and sends [`PROMPT`].
    fn resume(&self, home: &Path, id: &str, provider: &Provider) -> Result<Command>;

    /// Where the program stores the session afterwards.
    fn kept(&self, home: &Path, id: &str) -> Result<PathBuf>;

    /// Removes from a request what the program is known not to send.
    fn leave_out(&self, _body: &mut Value) {}

    /// Whether a complaint of rejoin's checker concerns only a limit of one provider, which other models of the program do not
    /// have.
    fn exceeds_a_limit(&self, _complaint: &str) -> bool {
        false
    }

    /// Whether the program itself adds this text to a request.
    fn adds(&self, _text: &str) -> bool {
        false
    }
}

/// The folder in a home folder in which programs run.
fn directory(home: &Path) -> PathBuf {
    home.join("w")
}

/// The output of a command, on both of its streams.
fn output(home: &Path, command: &mut Command) -> Result<String> {
    let [out, err] = ["stdout.txt", "stderr.txt"].map(|name| home.join(name));
    command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
    let ended = patiently(command.stdout(File::create(&out)?).stderr(File::create(&err)?), PATIENCE)?;
    let [out, err] = [fs::read(out)?, fs::read(err)?].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(ended.is_some(), "{command:?} was not done after {} seconds: {out}{err}", PATIENCE.as_secs());
    Ok(format!("{out}{err}"))
}

/// The conversation in the hand-written sessions.
fn by_hand() -> Request {
    let text = |speaker, text: &str| Piece::Text(speaker, text.into());
    Request::of(vec![
        text(Speaker::User, "hello"),
        Piece::Call { name: "ls".into(), arguments: serde_json::json!({"path": "."}) },
        Piece::Result { call: Some(0), text: "x".into() },
        text(Speaker::Assistant, "good bye"),
    ])
}

/// Makes a program resume hand-written sessions, so that a program that accepts everything is noticed, and then all of rejoin's.
pub fn ask(install: Installer, folder: &Path, work: &Path, given: Option<&Given>) -> Result<Verdict> {
    let program = &*install(folder)?;
    let mut verdict =
        Verdict { peer: program.name(), what: "conversations", by_hand: 0, given: 0, failures: Vec::new() };
    fs::create_dir_all(work)?;
    for (sound, text) in program.by_hand(&directory(&work.join("home"))) {
        verdict.by_hand += 1;
        let home = fresh_home(work)?;
        let session = home.join("session");
        fs::write(&session, &text)?;
        let attempt = Try { program, home: &home, expected: &by_hand() };
        let (problems, told) = match attempt.resume(&session)? {
            Ok((_, turn)) => (turn.problems, turn.stderr),
            Err(reason) => (vec![reason], String::new()),
        };
        ensure!(
            problems.is_empty() == sound,
            "a session written by hand, sound: {sound}: {problems:?}\n{told}\n{text}"
        );
    }
    let Some(given) = given else { return Ok(verdict) };
    let conversations = given.conversations()?;
    verdict.given = conversations.len();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = |number: usize| -> Result<()> {
        let work = work.join(number.to_string());
        while let Some(conversation) = conversations.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut evidence = vec![("source.json", conversation.text.clone())];
            let problems = tried(program, &fresh_home(&work)?, &given.rejoin, conversation, &mut evidence)
                .with_context(|| conversation.name.clone())?;
            if !problems.is_empty() {
                let failure =
                    Failure { name: conversation.name.clone(), reason: problems.join("\n"), evidence };
                failures.lock().expect("BUG: a worker panicked").push(failure);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let worker = &worker;
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("BUG: a worker panicked"))
    })?;
    verdict.failures = failures.into_inner().expect("BUG: a worker panicked");
    verdict.failures.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(verdict)
}

/// The faults of a conversation on its way through rejoin, the program and rejoin again.
fn tried(
    program: &dyn Program,
    home: &Path,
    rejoin: &Rejoin,
    source: &Conversation,
    evidence: &mut Vec<(&'static str, String)>,
) -> Result<Vec<String>> {
    let (directory, session) = (directory(home), home.join("session"));
    let file = session.to_string_lossy();
    let options = [&["--on-broken", "keep", "--output", &file], program.options()].concat();
    if let Err(reason) = rejoin.convert(&directory, source, program.format(), &options, None)? {
        return Ok(vec![reason]);
    }
    let (dialect, measure) = (program.dialect(), program.measure());
    let body = match rejoin.convert(&directory, source, measure, &["--on-broken", "keep"], None)? {
        Ok(body) => body,
        Err(reason) => return Ok(vec![reason]),
    };
    fs::remove_file(directory.join("source.json"))?;
    let mut body = serde_json::from_str(&body).context("a request that rejoin wrote")?;
    program.leave_out(&mut body);
    let mut expected =
        Request::read(measure, &body, &is_instruction).context("a request that rejoin wrote")?;
    expected.unclose(CLOSING);
    if source.is_of_an_agent() {
        expected.instructions.clear();
    }
    evidence.push(("session.txt", sqlite::readable(&session)?));

    let attempt = Try { program, home, expected: &expected };
    let (id, turn) = match attempt.resume(&session)? {
        Ok(resumed) => resumed,
        Err(reason) => return Ok(vec![reason]),
    };
    let (mut problems, request) = (turn.problems, turn.request.unwrap_or_default());
    if problems.is_empty() {
        let sent = attempt.read(dialect, &request).unwrap_or_default();
        problems.extend(lost(&conversations::expected_texts(&source.text), &sent.texts()));
        problems.extend(unlike_the_source(source, &sent));
        let complaint = rejoin.check(home, dialect, &pieces::plain(dialect, &request)?)?.err();
        problems.extend(complaint.filter(|complaint| !program.exceeds_a_limit(complaint)));
    }
    if problems.is_empty() {
        let kept = program.kept(home, &id)?;
        problems = attempt.unread(rejoin, &kept)?;
        evidence.push(("kept.txt", sqlite::readable(&kept)?));
    }
    evidence.push(("request.json", request));
    evidence.push(("stderr.txt", turn.stderr));
    Ok(problems)
}

/// Compares the request with the source itself, if the source needed no repair and is a request whose calls have a common form.
fn unlike_the_source(source: &Conversation, sent: &Request) -> Option<String> {
    let body = conversations::read(&source.text)?;
    let source = Request::read(&source.format, &body, &|_| false)?;
    let calls = |request: &Request| -> Vec<Piece> {
        request.pieces.iter().filter(|piece| !matches!(piece, Piece::Text(..))).cloned().collect()
    };
    let (given, sent) = (calls(&source), calls(sent));
    let differs = source.is_sound() && given != sent;
    differs.then(|| format!("the source has the calls and results {given:?}, and the request has {sent:?}"))
}

/// A session to be resumed.
struct Try<'t> {
    program: &'t dyn Program,
    home: &'t Path,
    /// The expected content.
    expected: &'t Request,
}

impl Try<'_> {
    /// Resumes the session for one turn. Returns the request and the session's id, or the reason why the program refused the
    /// session.
    fn resume(&self, session: &Path) -> Result<Result<(String, Turn), String>> {
        let Self { program, home, .. } = self;
        let id = match program.place(home, session)? {
            Ok(id) => id,
            Err(reason) => return Ok(Err(reason)),
        };
        let unlisted = program.unlisted(home, &id)?;
        let provider = Provider::start();
        let mut command = program.resume(home, &id, &provider)?;
        command.current_dir(directory(home));
        let mut turn = Turn::run(&program.name(), home, &provider, &mut command, |request| {
            match self.read(self.program.dialect(), request) {
                Some(sent) => self.expected.and(&[(Speaker::User, PROMPT)]).differences(&sent),
                None => vec![String::from("what was sent is no request")],
            }
        })?;
        turn.problems.extend(unlisted);
        Ok(Ok((id, turn)))
    }

    /// A request without the program's own additions.
    fn read(&self, dialect: &str, request: &str) -> Option<Request> {
        let mut body = serde_json::from_str(request).ok()?;
        self.program.leave_out(&mut body);
        Request::read(dialect, &body, &|text| is_instruction(text) || self.program.adds(text))
    }

    /// The faults that rejoin finds in the session that the program stored.
    fn unread(&self, rejoin: &Rejoin, kept: &Path) -> Result<Vec<String>> {
        let mut problems: Vec<String> = rejoin.check_file(kept)?.err().into_iter().collect();
        let measure = self.program.measure();
        match rejoin.reads(kept, measure)? {
            Err(reason) => problems.push(reason),
            Ok(body) => {
                let mut read = self.read(measure, &body).context("a request that rejoin wrote")?;
                read.unclose(CLOSING);
                let expected = self.expected.and(&[(Speaker::User, PROMPT), (Speaker::Assistant, REPLY)]);
                let differences = expected.differences(&read).into_iter();
                problems.extend(differences.map(|problem| format!("rejoin reads what was kept: {problem}")));
            }
        }
        Ok(problems)
    }
}

/// Whether a user's text is an instruction that rejoin wrote: most sessions have no other place for it.
fn is_instruction(text: &str) -> bool {
    text.starts_with("<system>") && text.trim_end().ends_with("</system>")
}
