//! `run`: runs a shell command in the workspace, in the strongest sandbox that the machine supports.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rejoin_formats::context::ToolDeclaration;
use rejoin_record::{
    Raw,
    json::{Object, quoted},
};

use super::{ChangeSubject, Plan, PlannedChange, Reach, RunningCall, Tool, ToolArguments, ToolOutput};
use crate::{
    approval::Editable,
    provider::BoxFuture,
    sandbox::{CommandExit, CommandLimits, Confinement, Gap, Policy, Sandbox, SandboxError},
};

/// The longest command line, in bytes. The system accepts no longer argument.
const COMMAND_BYTES: usize = 120 * 1024;

/// Runs shell commands.
#[derive(Debug, Clone)]
pub struct Run {
    policy: Policy,
    /// Made when the first command is planned, because it starts a process to find out what the machine can enforce.
    sandbox: Arc<OnceLock<Result<Sandbox, String>>>,
    /// The time limit of a command.
    time: Duration,
    /// How much output is kept, in bytes.
    output_kept: usize,
    /// Whether the person was already warned that commands are not fully confined.
    has_warned: Arc<AtomicBool>,
    /// rejoin's own files inside the workspace. If there are any, a person is asked about every command.
    exposed: Vec<PathBuf>,
}

impl Run {
    /// Runs commands under a policy, each for at most `time`.
    #[must_use]
    pub fn new(policy: Policy, time: Duration, output_kept: usize) -> Self {
        let exposed = policy.hidden.clone();
        Self { policy, sandbox: Arc::default(), time, output_kept, has_warned: Arc::default(), exposed }
    }

    /// The sandbox, or the reason why no command can run.
    fn sandbox(&self) -> Result<&Sandbox, String> {
        let made =
            self.sandbox.get_or_init(|| Sandbox::new(self.policy.clone()).map_err(|why| why.to_string()));
        made.as_ref().map_err(Clone::clone)
    }

    /// Whether commands stay confined, and otherwise the text for the person who decides.
    fn reach(&self, sandbox: &Sandbox) -> Reach {
        if let Some(path) = self.exposed.first() {
            return Reach::Open(format!("{} belongs to rejoin and is inside the workspace", path.display()));
        }
        reach(sandbox.confinement())
    }

    fn planned(&self, arguments: &str) -> Result<PlannedChange, ToolOutput> {
        let given = RunArguments::parse(arguments, self.time)?;
        let sandbox = self.sandbox().map_err(ToolOutput::error)?;
        let folder = self.policy.workspace.display();
        let reach = self.reach(sandbox);
        let warning = match &reach {
            Reach::Confined => String::new(),
            Reach::Open(why) => format!("\n({why})"),
        };
        Ok(PlannedChange {
            preview: format!("$ {}\nin {folder}{warning}", given.command),
            reach,
            editable: Some(Editable { argument: "command", text: given.command.clone() }),
            subject: ChangeSubject::Command(given.command),
            file: None,
        })
    }

    async fn run_confined(&self, call: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        let given = RunArguments::parse(call.arguments, self.time)?;
        let sandbox = self.sandbox().map_err(ToolOutput::error)?;
        if let Reach::Open(why) = self.reach(sandbox)
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            call.live.warn(why);
        }
        let limits = CommandLimits { time: given.time, ..CommandLimits::default() };
        let failed = |why: SandboxError| ToolOutput::error(format!("the command was not run: {why}"));
        let mut command = sandbox.spawn(&given.command, limits).await.map_err(failed)?;
        let mut output = Output { kept: Vec::new(), most: self.output_kept, left_out: 0 };
        let mut text = Utf8::default();
        let stopped = loop {
            let chunk = tokio::select! {
                biased;
                () = call.stop.asked() => break true,
                chunk = command.next() => chunk,
            };
            let Some(chunk) = chunk else { break false };
            call.live.show(&text.add(&chunk));
            output.add(&chunk);
        };
        if stopped {
            command.kill();
            while let Some(chunk) = command.next().await {
                output.add(&chunk);
            }
        }
        let exit = command.finish().await;
        Ok(output.with(stopped, exit, given.time))
    }
}

impl Tool for Run {
    fn declaration(&self) -> ToolDeclaration {
        let most = self.time.as_secs();
        let command = Object::new().text("type", "string").text(
            "description",
            "a shell command; it runs in the working folder, without a terminal or standard input",
        );
        let stopped = format!("seconds after which it is stopped, at most {most}, which is also the default");
        let time = Object::new().text("type", "integer").number("minimum", 1).text("description", stopped);
        let schema = Object::new()
            .text("type", "object")
            .object("properties", Object::new().object("command", command).object("timeout_s", time))
            .list("required", [quoted("command")])
            .flag("additionalProperties", false)
            .finish();
        let about = "Runs a shell command and returns what it prints on both streams, in order, and its exit code. Files outside the \
                     working folder cannot be changed, and there is usually no network.";
        ToolDeclaration::function("run", about, Raw::new(schema))
    }

    fn plan<'a>(&'a self, arguments: &'a str) -> BoxFuture<'a, Result<Plan, ToolOutput>> {
        let (tool, arguments) = (self.clone(), arguments.to_owned());
        Box::pin(async move {
            // Finding out what the machine can enforce takes a moment, so use another thread.
            let planned = tokio::task::spawn_blocking(move || tool.planned(&arguments)).await;
            planned.unwrap_or_else(|why| Err(ToolOutput::error(why.to_string()))).map(Plan::Changes)
        })
    }

    fn run<'a>(&'a self, call: RunningCall<'a>) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { self.run_confined(call).await.unwrap_or_else(|output| output) })
    }
}

/// Whether commands stay confined in a sandbox with this protection.
pub(crate) fn reach(confinement: &Confinement) -> Reach {
    match confinement {
        Confinement::Full => Reach::Confined,
        Confinement::Partial(gaps) if gaps.iter().all(is_minor) => Reach::Confined,
        Confinement::Partial(gaps) => {
            let gaps: Vec<String> = gaps.iter().map(ToString::to_string).collect();
            Reach::Open(gaps.join("; "))
        }
        Confinement::None { reason } => Reach::Open(format!("commands are not confined here: {reason}")),
    }
}

/// Whether files and network outside the workspace are out of reach despite this gap.
fn is_minor(gap: &Gap) -> bool {
    matches!(gap, Gap::Survivors | Gap::Devices | Gap::Landlock)
}

/// The arguments of a call.
struct RunArguments {
    command: String,
    time: Duration,
}

impl RunArguments {
    fn parse(arguments: &str, most: Duration) -> Result<Self, ToolOutput> {
        let given = ToolArguments::parse(arguments)?;
        let command = given.string("command")?.to_owned();
        if command.trim().is_empty() {
            return Err(ToolOutput::error("`command` is empty"));
        }
        if command.len() > COMMAND_BYTES {
            return Err(ToolOutput::error(format!(
                "`command` is longer than {COMMAND_BYTES} bytes: write a script with write_file, and run that"
            )));
        }
        if command.contains('\0') {
            return Err(ToolOutput::error("`command` contains a NUL character, which no command can"));
        }
        let time = match given.get("timeout_s") {
            None | Some(serde_json::Value::Null) => most,
            Some(seconds) => match seconds.as_u64().filter(|seconds| *seconds > 0) {
                Some(seconds) => Duration::from_secs(seconds).min(most),
                None => {
                    return Err(ToolOutput::error("`timeout_s` must be a whole number of seconds, from 1"));
                }
            },
        };
        Ok(Self { command, time })
    }
}

/// The output of a command so far.
struct Output {
    kept: Vec<u8>,
    most: usize,
    left_out: u64,
}

impl Output {
    fn add(&mut self, chunk: &[u8]) {
        let room = self.most.saturating_sub(self.kept.len()).min(chunk.len());
        self.kept.extend_from_slice(&chunk[..room]);
        self.left_out += (chunk.len() - room) as u64;
    }

    /// The result: the output and how the command ended.
    fn with(self, stopped: bool, exit: Result<CommandExit, SandboxError>, time: Duration) -> ToolOutput {
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if self.left_out > 0 {
            text.push_str(&format!("[{} more bytes were not kept]\n", self.left_out));
        }
        let (end, is_error) = match exit {
            _ if stopped => (String::from("stopped: the turn was stopped"), true),
            Ok(CommandExit::Code(code)) => (format!("exit code {code}"), code != 0),
            Ok(CommandExit::Signal(signal)) => (format!("ended by signal {signal}"), true),
            Ok(CommandExit::TimedOut) => {
                let seconds = time.as_secs();
                (format!("stopped after {seconds} seconds, with everything that it had started"), true)
            }
            Ok(CommandExit::TooManyProcesses) => {
                (String::from("stopped: it started too many processes"), true)
            }
            Ok(_) => (String::from("stopped"), true),
            Err(why) => (format!("its end is not known: {why}"), true),
        };
        text.push_str(&format!("[{end}]"));
        ToolOutput { is_error, ..ToolOutput::of(text) }
    }
}

/// Decodes text in pieces: half a character waits for its other half.
#[derive(Default)]
struct Utf8 {
    half: Vec<u8>,
}

impl Utf8 {
    fn add(&mut self, chunk: &[u8]) -> String {
        self.half.extend_from_slice(chunk);
        let whole = match std::str::from_utf8(&self.half) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.half.len(),
        };
        let rest = self.half.split_off(whole);
        let text = String::from_utf8_lossy(&self.half).into_owned();
        self.half = rest;
        text
    }
}
