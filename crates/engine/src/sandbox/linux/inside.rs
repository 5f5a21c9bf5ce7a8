//! The process that becomes the shell. It confines itself step by step; each step must succeed or be reported.
//!
//! The order matters: mounting needs rights that the next step gives up, and the filter of system calls comes last because it
//! forbids the calls of the other steps.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::AsFd as _,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    process::{Resource, Rlimit, Signal, geteuid, set_parent_process_death_signal, setrlimit, setsid},
    thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities},
};

use super::{
    Isolation, calls,
    order::{Order, Report},
    root, rules,
};
use crate::sandbox::Gap;

/// The rights that root keeps: to use other users' files in the workspace.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Confines this process and replaces it by the shell. Returns only if the shell cannot be run.
pub fn become_shell(mut link: UnixStream) -> i32 {
    let Ok(order) = Order::read(&mut link) else { return 1 };
    match confine(&order) {
        Err(why) => {
            let _ = Report::Failed(why).write(&mut link);
            return 1;
        }
        Ok(gaps) => drop(Report::Confined(gaps).write(&mut link)),
    }
    let Some(command) = &order.command else { return 0 };
    let input = match order.partner {
        // The output is a socket, which can also be read from.
        true => io::stdout().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from),
        false => Stdio::null(),
    };
    let why = Command::new(&order.policy.shell)
        .arg("-c")
        .arg(command)
        .env_clear()
        .envs(variables(&order))
        .stdin(input)
        .exec();
    let _ = Report::Failed(format!("{} cannot be run: {why}", order.policy.shell.display())).write(&mut link);
    127
}

/// The variables of the command: those of the policy, and its own folders.
fn variables(order: &Order) -> Vec<(OsString, OsString)> {
    let temporary = order.private.join("tmp").into_os_string();
    let own = [("HOME", temporary.clone()), ("TMPDIR", temporary), ("TERM", "dumb".into())];
    let mut variables = vec![(OsString::from("PATH"), OsString::from("/usr/local/bin:/usr/bin:/bin"))];
    variables.extend(order.policy.environment.iter().cloned());
    variables.extend(own.map(|(name, value)| (name.into(), value)));
    variables
}

fn confine(order: &Order) -> Result<Vec<Gap>, String> {
    let isolated = order.mode.isolation != Isolation::None;
    let step = |what: &'static str| move |why: rustix::io::Errno| format!("{what}: {}", io::Error::from(why));
    if !isolated {
        // In a namespace, the end of process 1 ends all others.
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(step("the supervisor cannot be watched"))?;
    }
    setsid().map_err(step("there is no new session"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(step("core dumps cannot be turned off"))?;
    let fresh_proc = if isolated { root::enter(order)? } else { false };
    std::env::set_current_dir(&order.policy.workspace)
        .map_err(|why| format!("{} cannot be entered: {why}", order.policy.workspace.display()))?;
    give_up_rights().map_err(step("privileges cannot be dropped"))?;
    let mut gaps = Vec::new();
    if !isolated {
        gaps.push(Gap::Metadata { reason: String::new() });
        gaps.push(Gap::Survivors);
        let exists = |path: &&std::path::PathBuf| path.symlink_metadata().is_ok();
        gaps.extend(order.policy.read_only.iter().filter(exists).cloned().map(Gap::Writable));
        gaps.extend(order.policy.hidden.iter().filter(exists).cloned().map(Gap::Visible));
    } else {
        let is_link = |path: &&std::path::PathBuf| path.is_symlink();
        gaps.extend(order.policy.read_only.iter().filter(is_link).cloned().map(Gap::Writable));
        gaps.extend(order.policy.hidden.iter().filter(is_link).cloned().map(Gap::Visible));
    }
    gaps.extend(rules::restrict(order, fresh_proc)?);
    gaps.extend(calls::filter(order.policy.network, isolated)?);
    Ok(gaps)
}

/// Gives up all rights of root except those over files, for good: no program started from here gets them back.
fn give_up_rights() -> rustix::io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let kept = if geteuid().is_root() {
        for capability in CapabilitySet::all().difference(KEPT).iter() {
            match remove_capability_from_bounding_set(capability) {
                // A kernel that does not know the right cannot grant it either.
                Err(rustix::io::Errno::INVAL) => {}
                // A container may have removed the right to drop rights. Then only the rights that it allows are left.
                Err(rustix::io::Errno::PERM) => break,
                result => result?,
            }
        }
        rustix::thread::capabilities(None)?.permitted & KEPT
    } else {
        CapabilitySet::empty()
    };
    set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() },
    )?;
    rustix::thread::set_no_new_privs(true)
}

/// The system folders that every command can read and run programs from.
pub const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// The devices that every command can read and write.
pub const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// The file with the addresses of name servers, which is often a link to a place outside `/etc`.
pub fn name_servers() -> Option<std::path::PathBuf> {
    Path::new("/etc/resolv.conf").canonicalize().ok().filter(|path| !path.starts_with("/etc"))
}
