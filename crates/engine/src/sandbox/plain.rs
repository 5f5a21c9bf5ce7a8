//! Commands on systems without a sandbox. They have their own process group and a filtered environment, and the group is killed at
//! the end of the command or at its time limit. Nothing else is confined, which [`Confinement::None`] reports.

use std::{
    io::{self, PipeReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{CommandExit, CommandLimits, Confinement, Policy, SandboxError, private::PrivateFolder};

/// How often to check whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a partner may take to end by itself after its input has ended, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(300);

/// Empty, because there is only one mode here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode;

/// Nothing is confined here.
pub fn trial(_: &Policy) -> Result<(Mode, Confinement), SandboxError> {
    let reason = format!("there is no sandbox for {}", std::env::consts::OS);
    Ok((Mode, Confinement::None { reason }))
}

/// A command to be started.
#[derive(Debug)]
pub(super) struct Start {
    policy: Policy,
    command: String,
    limits: CommandLimits,
    /// Standard input, output and errors of the command; `None` if rejoin reads one pipe.
    streams: Option<[Stdio; 3]>,
}

impl Start {
    pub fn new(policy: &Policy, _: Mode, _: &Confinement, command: &str, limits: CommandLimits) -> Self {
        Self { policy: policy.clone(), command: command.to_owned(), limits, streams: None }
    }

    /// Uses this stream for the command's input and output, and this pipe for its errors.
    #[cfg(unix)]
    pub fn with_streams(mut self, stream: std::os::unix::net::UnixStream, errors: io::PipeWriter) -> Self {
        use std::os::fd::OwnedFd;
        let input = stream.try_clone().map_or_else(|_| Stdio::null(), |stream| OwnedFd::from(stream).into());
        self.streams = Some([input, OwnedFd::from(stream).into(), errors.into()]);
        self
    }

    /// Starts the command.
    pub fn begin(mut self) -> Result<RunningCommand, SandboxError> {
        let folder = PrivateFolder::create(&self.policy.temporary).map_err(SandboxError::Start)?;
        let is_partner = self.streams.is_some();
        let (output, child) = self.run(&folder).map_err(SandboxError::Start)?;
        let ended = Arc::new(EndFlag::default());
        let watcher = Arc::clone(&ended);
        let limits = self.limits;
        // The group ends with the shell even if the caller does not read the output, and the output ends with the group.
        let exit = thread::spawn(move || watch(child, limits, is_partner, &watcher));
        Ok(RunningCommand { output, ended, exit, _folder: folder })
    }

    fn run(&mut self, folder: &PrivateFolder) -> io::Result<(PipeReader, Child)> {
        let (output, writer) = io::pipe()?;
        let [stdin, stdout, stderr] = match self.streams.take() {
            Some(streams) => streams,
            None => [Stdio::null(), writer.try_clone()?.into(), writer.into()],
        };
        let mut command = shell(&self.policy, &self.command);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command
            .current_dir(&self.policy.workspace)
            .env_clear()
            .envs(self.policy.environment.iter().map(|(name, value)| (name, value)))
            .env("HOME", folder.path())
            .env("TMPDIR", folder.path())
            .env("TERM", "dumb")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        Ok((output, child))
    }
}

#[cfg(unix)]
fn shell(policy: &Policy, text: &str) -> Command {
    let mut command = Command::new(&policy.shell);
    command.arg("-c").arg(text);
    command
}

#[cfg(not(unix))]
fn shell(_: &Policy, text: &str) -> Command {
    let mut command = Command::new("cmd");
    command.arg("/C").arg(text);
    command
}

#[derive(Debug, Default)]
struct EndFlag(AtomicBool);

fn watch(
    mut child: Child,
    limits: CommandLimits,
    is_partner: bool,
    ended: &EndFlag,
) -> io::Result<CommandExit> {
    #[cfg(not(unix))]
    let _ = is_partner;
    let started = Instant::now();
    let exit = loop {
        if let Some(status) = child.try_wait()? {
            break exit_of(status);
        }
        if ended.0.load(Ordering::Relaxed) {
            #[cfg(unix)]
            if is_partner {
                stop_gracefully(&mut child)?;
            }
            break CommandExit::Killed;
        }
        if started.elapsed() >= limits.time {
            break CommandExit::TimedOut;
        }
        thread::sleep(LOOK_EVERY);
    };
    #[cfg(unix)]
    {
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(exit)
}

/// Lets a partner end by itself. Closing rejoin's end of the stream ends its input; if it keeps running, it gets SIGTERM.
#[cfg(unix)]
fn stop_gracefully(child: &mut Child) -> io::Result<()> {
    for asks in [true, false] {
        let started = Instant::now();
        while started.elapsed() < GRACE {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
        if asks {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
    }
    Ok(())
}

#[cfg(unix)]
fn exit_of(status: std::process::ExitStatus) -> CommandExit {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandExit::Code(code),
        (None, signal) => CommandExit::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(not(unix))]
fn exit_of(status: std::process::ExitStatus) -> CommandExit {
    CommandExit::Code(status.code().unwrap_or(-1))
}

/// A command that was started.
#[derive(Debug)]
pub(super) struct RunningCommand {
    output: PipeReader,
    ended: Arc<EndFlag>,
    exit: thread::JoinHandle<io::Result<CommandExit>>,
    _folder: PrivateFolder,
}

impl RunningCommand {
    pub fn output(&mut self) -> &mut PipeReader {
        &mut self.output
    }

    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.ended))
    }

    pub fn finish(self) -> Result<CommandExit, SandboxError> {
        self.exit.join().map_err(|_| SandboxError::Lost)?.map_err(SandboxError::Start)
    }
}

/// A handle to kill the command.
#[derive(Debug)]
pub(super) struct Control(Arc<EndFlag>);

impl Control {
    pub fn close(&self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
