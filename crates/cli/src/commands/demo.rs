//! `rejoin demo`: kills a turn of three tools in the middle, for real, and resumes it. It does not touch the user's own store.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rejoin::{
    Conversation,
    engine::{
        New, SystemClock,
        context::ToolDeclaration,
        provider::{BoxFuture, Provider as _, offline::Offline},
        tools::{Calculate, ListDir, Plan, ReadFile, RunningCall, Tool, ToolOutput, Tools},
        turn::{Stop, TurnInput, TurnSettings, Worker},
    },
    record::json::Doc,
};

use super::talking::{self, SaveWarning};
use crate::{
    context::{CliContext, Flags},
    failure::Failure,
    output::{self, paint},
};

const QUESTION: &str = "What is 6*7? Also list the files here and read notes.txt";

pub fn run(turn: bool, flags: &Flags) -> Result<u8, Failure> {
    if turn { slow_turn(flags) } else { show() }
}

fn show() -> Result<u8, Failure> {
    let folder = tempfile::tempdir().map_err(|why| Failure::unwritable("a temporary folder", &why))?;
    let here = folder.path().join("work");
    std::fs::create_dir(&here).map_err(|why| Failure::unwritable("a temporary folder", &why))?;
    let notes = here.join("notes.txt");
    std::fs::write(&notes, "buy milk\ncall Alice\n").map_err(|why| Failure::unwritable("notes.txt", &why))?;
    let stage = Stage { home: folder.path(), here: &here };

    say("1. A turn with three tools, on the built-in responder. The tools are slow on purpose.");
    command(&format!("rejoin chat \"{QUESTION}\""));
    let mut child = stage.rejoin(&["demo", "--turn"]).stdout(Stdio::piped()).spawn().map_err(starting)?;
    let done = watch(&mut child);
    // A real kill: no handler runs, and nothing is flushed.
    let _ = child.kill();
    let _ = child.wait();
    output::data(&paint(&format!("   killed (SIGKILL) after {done} of 3 tools"), output::WARNING))?;

    say("2. What is left. A provider would refuse it, however often it is sent:");
    stage.show(&["list"])?;
    stage.show(&["check", "@", "--for", "anthropic"])?;

    say("3. Resumed: calls that ran are not run again; the others run now.");
    stage.show(&["resume", "@", "--on-broken", "rerun"])?;

    say("4. Every word is still there, and its hashes prove it.");
    stage.show(&["verify"])?;
    stage.show(&["chat", "What did I ask before?"])?;
    output::data("")?;
    output::data("Your own: `rejoin doctor` checks the sessions of every agent on this machine.")?;
    Ok(0)
}

fn say(text: &str) {
    // If the output is closed, the next line fails and reports it.
    let _ = output::data(&format!("\n{}", paint(text, output::STRONG)));
}

fn command(line: &str) {
    let _ = output::data(&paint(&format!("   $ {line}"), output::DIM));
}

fn starting(why: std::io::Error) -> Failure {
    Failure::unreadable("rejoin itself", why, None)
}

/// A temporary home folder and a working folder.
struct Stage<'s> {
    home: &'s Path,
    here: &'s Path,
}

impl Stage<'_> {
    fn rejoin(&self, arguments: &[&str]) -> Command {
        let this = std::env::current_exe().unwrap_or_else(|_| "rejoin".into());
        let mut command = Command::new(this);
        command.args(arguments).current_dir(self.here).stdin(Stdio::null());
        // The user's own settings must not affect the demo.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REJOIN_"))
        {
            command.env_remove(name);
        }
        command.env("REJOIN_HOME", self.home.join("home"));
        command
    }

    /// Runs a command and shows what it prints, both data and talk.
    fn show(&self, arguments: &[&str]) -> Result<(), Failure> {
        let spoken: Vec<String> = arguments
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() })
            .collect();
        command(&format!("rejoin {}", spoken.join(" ")));
        let ran = self.rejoin(arguments).output().map_err(starting)?;
        for text in [&ran.stderr, &ran.stdout] {
            for line in String::from_utf8_lossy(text).lines().filter(|line| !line.is_empty()) {
                output::data(&format!("   {}", output::harmless(line)))?;
            }
        }
        Ok(())
    }
}

/// Shows the turn until one tool is done and the others are running; returns how many are done.
fn watch(child: &mut Child) -> usize {
    let (mut started, mut done) = (0, 0);
    let Some(lines) = child.stdout.take() else { return 0 };
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let doc = Doc::parse(&line);
        let Some(root) = doc.as_ref().ok().and_then(Doc::root) else { continue };
        let field =
            |name: &str| root.given(name).and_then(|value| value.as_str()).unwrap_or_default().into_owned();
        match field("type").as_str() {
            "call_started" => {
                started += 1;
                let _ = output::data(&format!("   → {} {}", field("name"), field("arguments")));
            }
            "call_ended" => {
                done += 1;
                let _ = output::data(&format!("   ← {} {}", field("name"), field("output")));
            }
            _ => {}
        }
        if started >= 3 && done >= 1 {
            std::thread::sleep(Duration::from_millis(300));
            break;
        }
    }
    done
}

/// A tool with an added delay.
struct DelayedTool<T>(T, Duration);

impl<T: Tool> Tool for DelayedTool<T> {
    fn declaration(&self) -> ToolDeclaration {
        self.0.declaration()
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        self.0.plan(arguments)
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            tokio::time::sleep(self.1).await;
            self.0.run(call).await
        })
    }
}

/// The turn that is killed: like one of `chat`, with slow tools.
fn slow_turn(flags: &Flags) -> Result<u8, Failure> {
    let cli = CliContext::new(flags)?;
    let store = talking::open_store(&cli)?;
    let provider = Offline::default();
    let new = New {
        provider: Some(provider.endpoint().provider.clone()),
        model: Some(provider.endpoint().model.clone()),
        ..New::default()
    };
    let conversation = Conversation::create_with_clock(store, Arc::new(SystemClock), &new, "rejoin demo");
    cli.pointer().set(conversation.id())?;
    let mut tools = Tools::default();
    tools.add(Arc::new(DelayedTool(Calculate, Duration::from_millis(700))));
    tools.add(Arc::new(DelayedTool(ReadFile::new(&cli.folder), Duration::from_secs(20))));
    tools.add(Arc::new(DelayedTool(ListDir::new(&cli.folder), Duration::from_secs(20))));
    let mut worker = Worker::new(conversation, Arc::new(provider), tools, TurnSettings::default());
    let stop = Stop::new();
    let mut drawing = talking::Drawing::new(true, SaveWarning::AtOnce, talking::PrintedWords::All);
    let mut sink = |event| drawing.event(&event);
    talking::block_on(worker.turn(TurnInput::from(QUESTION), &mut sink, &stop))?
        .map_err(|error| Failure::Turn(Box::new(error)))?;
    Ok(0)
}
