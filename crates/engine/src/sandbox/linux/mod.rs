//! The sandbox on Linux: three helper processes of the same program, each started by the one before.
//!
//! ```text
//! rejoin ─► supervisor ─► first ─► inside ─► the shell
//! ```
//! `supervisor.rs` watches rejoin, the clock and the number of processes, and kills. `first.rs` is process 1 of a PID namespace;
//! without namespaces there is none. `inside.rs` builds a new root (`root.rs`), applies Landlock (`rules.rs`) and the filter of
//! system calls (`calls.rs`) to itself, and becomes the shell. `order.rs` is what they tell each other.

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

/// This program, even if its file was replaced or removed meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Which barriers a sandbox puts up. The trial chooses once, so that no command runs with less than was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    pub isolation: Isolation,
    pub landlock: bool,
}

/// How namespaces are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Isolation {
    /// By a process that may, as root. Files of other users stay usable.
    Namespaces = 0,
    /// In a user namespace.
    UserNamespace = 1,
    /// There are none.
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

/// Does the work of a helper process, if this is one; then it does not return.
pub fn become_helper_if_asked() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != HELPER) {
        return;
    }
    let stage = arguments.next().unwrap_or_default();
    // Whatever this process inherited by accident ends at the next `exec`.
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
    // Without it, a program whose libraries are elsewhere does not start.
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    configure(&mut command);
    let child = command.spawn()?;
    // This end must be the only one, so that each side notices the end of the other.
    drop(command);
    match order.write(&mut ours) {
        // The helper ended at once. What it reported, or its silence, says more.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    Ok((child, ours))
}

/// A command that is about to be started.
#[derive(Debug)]
pub(super) struct Start {
    policy: Policy,
    mode: Mode,
    /// The gaps that the caller knows; none if nothing is confined, or nothing is known yet.
    known: Option<Vec<Gap>>,
    command: Option<OsString>,
    limits: CommandLimits,
    /// The stream that the command reads and writes, and where it complains; none if both are one pipe that rejoin reads.
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

    /// Has the command read from and write to this stream, and complain into this pipe.
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
                // An interrupt from the terminal is for rejoin, which decides what becomes of the command.
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
    /// The supervisor removes it; if it was killed, this does.
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
        // The supervisor is about to end, and has closed everything of the command before.
        let _ = self.child.wait();
        match report {
            Ok(Some(Report::Ended(exit))) => Ok(exit),
            Ok(Some(Report::Failed(why))) => Err(SandboxError::Confine(why)),
            _ => Err(SandboxError::Lost),
        }
    }
}

/// Has the supervisor kill the command.
#[derive(Debug)]
pub(super) struct Control(Option<UnixStream>);

impl Control {
    pub fn close(&self) {
        // The supervisor takes the end of its orders for the end of rejoin.
        if let Some(link) = &self.0 {
            let _ = link.shutdown(Shutdown::Write);
        }
    }
}

/// Finds the strongest barriers that work here, by confining processes that run nothing.
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
