//! The process between rejoin and a command. It ends the command when rejoin ends, at the time limit, or when there are too many
//! processes, and does not end before everything that the command started.
//!
//! It runs outside the sandbox, so that the command cannot signal it. It notices the end of rejoin by the end of its socket: a
//! parent-death signal would already come when the *thread* that started it ends.

use std::{
    fs, io,
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::PathBuf,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getegid, geteuid, getpid, getppid, kill_process,
        set_child_subreaper, wait,
    },
    thread::{CapabilitySet, UnshareFlags},
};

use super::{
    Isolation, descendants,
    order::{Order, Report},
    start_helper,
};
use crate::sandbox::{CommandExit, Network, private};

/// How often the processes of a command are counted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often the processes of a partner are counted. It runs as long as rejoin, and counting costs time.
const LOOK_AT_PARTNER_EVERY: Duration = Duration::from_millis(500);

/// How long it tries to kill processes that do not die before it reports the end regardless. It keeps trying after that.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a partner may take to end by itself after its input has ended, and again after SIGTERM. rejoin does not wait for it.
const GRACE: Duration = Duration::from_millis(300);

/// Runs a command to its end. Returns the exit code of this process, which is not used.
pub fn supervise(mut link: UnixStream) -> i32 {
    let parent = getppid();
    let Ok(order) = Order::read(&mut link) else { return 1 };
    let _ = rustix::thread::set_name(c"rejoin-sandbox");
    let _held = private::hold(&order.private);
    let repository = Repository::of(&order);
    let report = match Supervised::start(&order) {
        Err(why) => Report::Failed(why),
        Ok(mut command) => match command.pass_on_start(&mut link) {
            Err(why) => {
                command.end_everything(PATIENCE);
                Report::Failed(why)
            }
            Ok(()) => {
                let reason = command.watch(&order, &link, parent);
                if order.partner && reason == Reason::Killed {
                    command.stop_gracefully();
                }
                let gone = command.end_everything(PATIENCE);
                let report = command.report(reason);
                if !gone {
                    let _ = report.write(&mut link);
                    command.end_everything(Duration::MAX);
                }
                report
            }
        },
    };
    private::remove(&order.private);
    repository.into_iter().for_each(Repository::clean_up);
    // rejoin may have ended.
    let _ = report.write(&mut link);
    0
}

/// Why watching a command ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Ended,
    Killed,
    TimedOut,
    TooManyProcesses,
}

struct Supervised {
    pid: Pid,
    link: UnixStream,
    /// Whether the child is process 1 of a namespace, so that its end ends everything.
    namespace: bool,
    status: Option<WaitStatus>,
    /// The last report about the shell.
    said: Option<Report>,
}

impl Supervised {
    fn start(order: &Order) -> Result<Self, String> {
        let failed = |what: &'static str| move |why: io::Error| format!("{what}: {why}");
        for folder in ["tmp", "root"] {
            fs::create_dir(order.private.join(folder))
                .map_err(failed("the temporary folder cannot be made"))?;
        }
        // Orphans become children of this process, whichever process started them.
        set_child_subreaper(Some(getpid())).map_err(|why| failed("orphans cannot be adopted")(why.into()))?;
        let namespace = order.mode.isolation != Isolation::None;
        if namespace {
            enter_namespaces(order).map_err(failed("namespaces cannot be created"))?;
        }
        let stage = if namespace { "first" } else { "inside" };
        let (child, link) =
            start_helper(stage, order, |_| {}).map_err(failed("a helper process cannot be started"))?;
        Ok(Self { pid: Pid::from_child(&child), link, namespace, status: None, said: None })
    }

    /// Waits until the command is confined, and reports that to rejoin.
    fn pass_on_start(&mut self, rejoin: &mut UnixStream) -> Result<(), String> {
        match Report::read(&mut self.link) {
            Ok(Some(report @ Report::Confined(_))) => {
                // If rejoin has ended, watching ends at once.
                let _ = report.write(rejoin);
                Ok(())
            }
            Ok(Some(Report::Failed(why))) => Err(why),
            _ => Err(String::from("the helper process ended without a report")),
        }
    }

    /// Waits until the command ends or has to end.
    fn watch(&mut self, order: &Order, rejoin: &UnixStream, parent: Option<Pid>) -> Reason {
        let started = Instant::now();
        let process = rustix::process::pidfd_open(self.pid, rustix::process::PidfdFlags::empty()).ok();
        loop {
            self.reap();
            if self.status.is_some() {
                return Reason::Ended;
            }
            let left = order.limits.time.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Reason::TimedOut;
            }
            if descendants::count(getpid(), order.limits.processes) > order.limits.processes {
                return Reason::TooManyProcesses;
            }
            if getppid() != parent {
                return Reason::Killed;
            }
            let pause = left.min(if order.partner { LOOK_AT_PARTNER_EVERY } else { LOOK_EVERY });
            let pause = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
            let mut watched = vec![PollFd::new(rejoin, PollFlags::IN)];
            watched.extend(
                process.as_ref().map(|process| PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)),
            );
            let _ = poll(&mut watched, Some(&pause));
            // rejoin sends nothing more, so this is the end of its socket.
            if !watched[0].revents().is_empty() {
                return Reason::Killed;
            }
        }
    }

    /// Lets a program end by itself: rejoin has closed its input; if it keeps running, it gets SIGTERM.
    fn stop_gracefully(&mut self) {
        if !self.ends_within(GRACE) {
            if self.namespace {
                // Process 1 only waits for the program and ignores signals, so signal the program itself.
                descendants::ask_children(self.pid);
            } else {
                let _ = kill_process(self.pid, Signal::TERM);
            }
            self.ends_within(GRACE);
        }
    }

    /// Waits for the end of the child. Returns whether it has ended.
    fn ends_within(&mut self, time: Duration) -> bool {
        let started = Instant::now();
        loop {
            self.reap();
            if self.status.is_some() || started.elapsed() >= time {
                return self.status.is_some();
            }
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }));
        }
    }

    /// Kills everything that the command started, and waits for it. Returns whether all of it is gone.
    fn end_everything(&mut self, patience: Duration) -> bool {
        let started = Instant::now();
        loop {
            if self.status.is_none() {
                // It was not reaped yet, so no other process can have its number.
                let _ = kill_process(self.pid, Signal::KILL);
            }
            if !self.namespace {
                descendants::kill(getpid());
            }
            self.reap();
            if self.status.is_some() && (self.namespace || descendants::count(getpid(), 1) == 0) {
                return true;
            }
            if started.elapsed() >= patience {
                return false;
            }
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 500_000 }));
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                self.status = Some(status);
                self.said = Report::read(&mut self.link).ok().flatten();
            }
        }
    }

    fn report(&self, reason: Reason) -> Report {
        Report::Ended(match (reason, &self.said, self.status) {
            (Reason::TimedOut, ..) => CommandExit::TimedOut,
            (Reason::TooManyProcesses, ..) => CommandExit::TooManyProcesses,
            (Reason::Killed, ..) => CommandExit::Killed,
            // Process 1 knows how the shell ended; the helper knows why it could not start one.
            (Reason::Ended, Some(said), _) => return said.clone(),
            (Reason::Ended, None, Some(status)) => exit_of(status),
            (Reason::Ended, None, None) => CommandExit::Killed,
        })
    }
}

/// How a process ended, from its status.
pub fn exit_of(status: WaitStatus) -> CommandExit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => CommandExit::Code(code),
        (None, signal) => CommandExit::Signal(signal.unwrap_or_default()),
    }
}

/// Moves the children of this process into new namespaces, the first of them as process 1.
fn enter_namespaces(order: &Order) -> io::Result<()> {
    let mut flags = UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    if order.policy.network == Network::None {
        flags |= UnshareFlags::NEWNET;
    }
    if order.mode.isolation == Isolation::Namespaces {
        return Ok(unshare(flags)?);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags | UnshareFlags::NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    // The right to mount must survive two `exec`s, because the new root can only be built inside the namespaces.
    let mut sets = rustix::thread::capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// `unshare` without the flag that would make it unsafe: file descriptors stay shared. There are no other threads anyway.
#[expect(deprecated, reason = "the replacement is unsafe for the sake of a flag that is not used")]
pub fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "BUG: descriptors would be unshared");
    rustix::thread::unshare(flags)
}

/// The parts of the workspace's `.git` that git outside the sandbox would obey, if the policy protects any of them.
struct Repository {
    /// Files that did not exist before and would lead git to other hooks and settings than the protected ones. They cannot be kept
    /// from being created, so they are removed once no process of the command runs any more.
    redirections: Vec<PathBuf>,
}

impl Repository {
    fn of(order: &Order) -> Option<Self> {
        let git = order.policy.workspace.join(".git");
        let protected = |name: &str| order.policy.read_only.contains(&git.join(name));
        if order.command.is_none() || !git.join("HEAD").is_file() {
            return None;
        }
        // Only existing files can be covered. An empty file or folder changes nothing for git.
        if protected("hooks") {
            let _ = fs::create_dir(git.join("hooks"));
        }
        if protected("config") {
            let _ = fs::File::create_new(git.join("config"));
        }
        let redirections = ["commondir", "config.worktree"].map(|name| git.join(name)).into_iter();
        let redirections = redirections.filter(|path| path.symlink_metadata().is_err()).collect();
        (protected("hooks") || protected("config")).then_some(Self { redirections })
    }

    fn clean_up(self) {
        for redirection in self.redirections {
            let _ = fs::remove_file(redirection);
        }
    }
}
