//! The sandbox on Linux: three helper processes of the same program, each started by the previous one.
//!
//! ```text
//! rejoin ─► supervisor ─► first ─► inside ─► the shell
//! ```
//! `supervisor.rs` watches rejoin, the time limit and the number of processes, and kills the command. `first.rs` is process 1 of a
//! PID namespace; it is missing if there are no namespaces. `inside.rs` builds a new root (`root.rs`), applies Landlock
//! (`rules.rs`) and the filter of system calls (`calls.rs`) to itself, and becomes the shell. `order.rs` has the messages between
//! them.

mod calls;
mod descendants;
mod first;
mod inside;
mod order;
mod root;
mod rules;
mod supervisor;

use std::{
    ffi::OsString,
    io::{self, PipeReader, PipeWriter},
    net::Shutdown,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Child, Command, Stdio},
};

use order::{Order, Report};

use super::{
    CommandExit, CommandLimits, Confinement, Gap, Policy, SandboxError, private::PrivateFolder, with_causes,
};

/// The name (`argv[0]`) under which the binary starts itself as the helper of a sandbox. A user never types it.
const HELPER: &str = "rejoin-sandbox";

/// This program, even if its file was replaced or removed since it started.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The barriers of a sandbox. The trial chooses them once, so that no command runs with less protection than was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub isolation: Isolation,
    pub landlock: bool,
}

/// How namespaces are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Isolation {
    /// As root, by a process that has the right to. Files of other users stay usable.
    Namespaces = 0,
    /// In a user namespace.
    UserNamespace = 1,
    /// There are no namespaces.
    None = 2,
}

impl Mode {
    fn from_numbers(isolation: u8, landlock: bool) -> Option<Self> {
        let isolation = match isolation {
            0 => Isolation::Namespaces,
            1 => Isolation::UserNamespace,
            2 => Isolation::None,
            _ => return None,
        };
        Some(Self { isolation, landlock })
    }
}

/// If this process is a helper of the sandbox, does its work and does not return.
pub fn become_helper_if_asked() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != HELPER) {
        return;
    }
    let stage = arguments.next().unwrap_or_default();
    // File descriptors that this process inherited by accident are closed at the next `exec`.
    close_fds::CloseFdsBuilder::new().cloexecfrom(3);
    let code = match (link(), stage.to_str()) {
        (Ok(link), Some("supervisor")) => supervisor::supervise(link),
        (Ok(link), Some("first")) => first::wait_for_everything(link),
        (Ok(link), Some("inside")) => inside::become_shell(link),
        _ => 125,
    };
    std::process::exit(code)
}

/// The socket to the process that started this one. It is the standard input.
fn link() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Starts a helper process of this program and sends it an order.
fn start_helper(
    stage: &str,
    order: &Order,
    configure: impl FnOnce(&mut Command),
) -> io::Result<(Child, UnixStream)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0(HELPER).arg(stage).env_clear().stdin(Stdio::from(OwnedFd::from(theirs))).current_dir("/");
    // Without it, a program whose libraries are in another folder does not start.
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    configure(&mut command);
    let child = command.spawn()?;
    // Close the other copies, so that each side notices when the other ends.
    drop(command);
    match order.write(&mut ours) {
        // The helper ended at once. Its report, or the lack of one, explains why.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok((child, ours))
}

/// A command to be started.
#[derive(Debug)]
pub(super) struct Start {
    policy: Policy,
    mode: Mode,
    /// The gaps that the caller knows; `None` if nothing is confined, or nothing is known yet.
    known: Option<Vec<Gap>>,
    command: Option<OsString>,
    limits: CommandLimits,
    /// The stream for the command's input and output, and the pipe for its errors; `None` if rejoin reads all output through one
    /// pipe.
    streams: Option<(UnixStream, PipeWriter)>,
}

impl Start {
    pub fn new(
        policy: &Policy,
        mode: Mode,
        confinement: &Confinement,
        command: &str,
        limits: CommandLimits,
    ) -> Self {
        let known = confinement.confines_files().then(|| confinement.gaps().to_vec());
        Self { policy: policy.clone(), mode, known, command: Some(command.into()), limits, streams: None }
    }

    /// Uses this stream for the command's input and output, and this pipe for its errors.
    pub fn with_streams(mut self, stream: UnixStream, errors: PipeWriter) -> Self {
        self.streams = Some((stream, errors));
        self
    }

    /// Starts the command and waits until it is confined.
    pub fn begin(self) -> Result<RunningCommand, SandboxError> {
        let known = self.known.clone();
        let (running, gaps) = self.confine()?;
        let is_new =
            |gap: &&Gap| known.as_ref().is_some_and(|known| !known.iter().any(|other| other.is_like(gap)));
        match gaps.iter().find(is_new) {
            Some(gap) => Err(SandboxError::Confine(format!("unlike before, {gap}"))),
            None => Ok(running),
        }
    }

    fn confine(self) -> Result<(RunningCommand, Vec<Gap>), SandboxError> {
        let folder = PrivateFolder::create(&self.policy.temporary).map_err(SandboxError::Start)?;
        let order = Order {
            mode: self.mode,
            policy: self.policy,
            limits: self.limits,
            partner: self.streams.is_some(),
            private: folder.path().to_owned(),
            command: self.command,
        };
        let start = || {
            let (output, writer) = io::pipe()?;
            let (stdout, stderr) = match self.streams {
                Some((stream, errors)) => (Stdio::from(OwnedFd::from(stream)), Stdio::from(errors)),
                None => (Stdio::from(writer.try_clone()?), Stdio::from(writer)),
            };
            let (child, link) = start_helper("supervisor", &order, |command| {
                // An interrupt from the terminal goes to rejoin only, which decides what happens to the command.
                command.process_group(0).stdout(stdout).stderr(stderr);
            })?;
            Ok(RunningCommand { child, link, output, _folder: folder })
        };
        let mut running = start().map_err(SandboxError::Start)?;
        match Report::read(&mut running.link) {
            Ok(Some(Report::Confined(gaps))) => Ok((running, gaps)),
            Ok(Some(Report::Failed(why))) => {
                let _ = running.child.wait();
                Err(SandboxError::Confine(why))
            }
            _ => {
                let _ = running.child.wait();
                Err(SandboxError::Lost)
            }
        }
    }
}

/// A command that was started.
#[derive(Debug)]
pub(super) struct RunningCommand {
    child: Child,
    link: UnixStream,
    output: PipeReader,
    /// The supervisor removes this folder. If the supervisor was killed, dropping this value does.
    _folder: PrivateFolder,
}

impl RunningCommand {
    pub fn output(&mut self) -> &mut PipeReader {
        &mut self.output
    }

    pub fn control(&self) -> Control {
        Control(self.link.try_clone().ok())
    }

    pub fn finish(mut self) -> Result<CommandExit, SandboxError> {
        let report = Report::read(&mut self.link);
        // The supervisor is about to end, and has already closed the command's output.
        let _ = self.child.wait();
        match report {
            Ok(Some(Report::Ended(exit))) => Ok(exit),
            Ok(Some(Report::Failed(why))) => Err(SandboxError::Confine(why)),
            _ => Err(SandboxError::Lost),
        }
    }
}

/// A handle with which the supervisor is made to kill the command.
#[derive(Debug)]
pub(super) struct Control(Option<UnixStream>);

impl Control {
    pub fn close(&self) {
        // The supervisor takes the end of this socket for the end of rejoin.
        if let Some(link) = &self.0 {
            let _ = link.shutdown(Shutdown::Write);
        }
    }
}

/// Finds the strongest barriers that work on this machine, by confining processes that run nothing.
pub fn trial(policy: &Policy) -> Result<(Mode, Confinement), SandboxError> {
    let barriers = policy.barriers;
    let isolations = [Isolation::Namespaces, Isolation::UserNamespace];
    let mut refused = String::from("they are turned off");
    let attempt = |isolation| {
        let mode = Mode { isolation, landlock: barriers.landlock };
        let limits = CommandLimits::default();
        let start = Start { policy: policy.clone(), mode, known: None, command: None, limits, streams: None };
        let (running, gaps) = start.confine()?;
        running.finish()?;
        Ok::<_, SandboxError>((mode, gaps))
    };
    let root = rustix::process::geteuid().is_root();
    for isolation in isolations.into_iter().filter(|_| barriers.namespaces) {
        if isolation == Isolation::Namespaces && !root {
            continue;
        }
        match attempt(isolation) {
            Ok((mode, gaps)) if gaps.is_empty() => return Ok((mode, Confinement::Full)),
            Ok((mode, gaps)) => return Ok((mode, Confinement::Partial(gaps))),
            Err(SandboxError::Start(why)) => return Err(SandboxError::Start(why)),
            Err(why) => refused = with_causes(&why),
        }
    }
    let (mode, mut gaps) = attempt(Isolation::None)?;
    if gaps.contains(&Gap::Landlock) {
        let reason = format!("the kernel has no Landlock, and namespaces are not available ({refused})");
        return Ok((mode, Confinement::None { reason }));
    }
    for gap in &mut gaps {
        if let Gap::Metadata { reason } = gap {
            reason.clone_from(&refused);
        }
    }
    Ok((mode, Confinement::Partial(gaps)))
}
