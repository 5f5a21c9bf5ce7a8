//! The Landlock rules of a command: which files it can read, write and run, and that it can signal only its own processes.
//!
//! Rules apply to files, not to names, and are granted per folder. Inside a new root they are the second barrier; without
//! namespaces they are the only one.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use rustix::process::geteuid;

use super::{
    Isolation,
    inside::{DEVICES, SYSTEM, name_servers},
    order::Order,
};
use crate::sandbox::{Gap, Network, WorkspaceAccess};

/// The newest Landlock interface whose rights are requested. Older kernels enforce those that they know.
const WANTED: ABI = ABI::V9;

/// Files of `/proc` that reveal nothing about other processes. A command without its own `/proc` can read only these.
const HARMLESS_PROC: &[&str] =
    &["cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "sys"];

/// Confines this process. Returns what the kernel cannot enforce.
pub fn restrict(order: &Order, fresh_proc: bool) -> Result<Vec<Gap>, String> {
    if !order.mode.landlock {
        return Ok(vec![Gap::Landlock]);
    }
    let failed = |why: landlock::RulesetError| format!("Landlock refuses: {why}");
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(WANTED)).map_err(failed)?;
    rules = rules.scope(Scope::Signal | Scope::AbstractUnixSocket).map_err(failed)?;
    if order.policy.network == Network::None {
        rules = rules.handle_access(AccessNet::from_all(WANTED)).map_err(failed)?;
    }
    let mut rules = rules.create().map_err(failed)?;
    for (path, access) in grants(order, fresh_proc) {
        rules = grant(rules, &path, access).map_err(failed)?;
    }
    let status = rules.restrict_self().map_err(failed)?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi,
        _ => return Ok(vec![Gap::Landlock]),
    };
    let isolated = order.mode.isolation != Isolation::None;
    let missing = [(ABI::V3, Gap::Truncation), (ABI::V5, Gap::Devices), (ABI::V6, Gap::Signals)];
    Ok(missing.into_iter().filter(|(since, _)| abi < *since && !isolated).map(|(_, gap)| gap).collect())
}

fn grants(order: &Order, fresh_proc: bool) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(WANTED);
    let control = AccessFs::IoctlDev | AccessFs::MakeChar | AccessFs::MakeBlock;
    let write = AccessFs::from_all(WANTED) & !control;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let mut grants = Vec::new();
    for path in SYSTEM.iter().map(Path::new) {
        // Root may read every file in `/etc`, whatever its mode, so grant only the files that all users may read.
        if path == Path::new("/etc") && geteuid().is_root() {
            let mut public = Vec::new();
            collect_public(path, &mut public);
            grants.extend(public.into_iter().map(|path| (path, read)));
            grants.push((path.to_owned(), AccessFs::ReadDir.into()));
        } else {
            grants.push((path.to_owned(), read));
        }
    }
    grants.extend(order.policy.read.iter().map(|path| (path.clone(), read)));
    if order.policy.network == Network::Allowed {
        grants.extend(name_servers().map(|path| (path, read)));
    }
    grants.extend(DEVICES.iter().map(|name| (Path::new("/dev").join(name), device)));
    if fresh_proc {
        grants.push((PathBuf::from("/proc"), read));
    } else {
        grants.extend(HARMLESS_PROC.iter().map(|name| (Path::new("/proc").join(name), read)));
    }
    if order.mode.isolation != Isolation::None {
        // There, the folder belongs to the command.
        grants.push((PathBuf::from("/dev/shm"), write));
        grants.push((PathBuf::from("/dev"), AccessFs::ReadDir.into()));
    }
    let workspace = if order.policy.access == WorkspaceAccess::Write { write } else { read };
    grants.push((order.policy.workspace.clone(), workspace));
    grants.extend(order.policy.write.iter().map(|path| (path.clone(), write)));
    grants.push((order.private.join("tmp"), write));
    grants
}

fn grant(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    // A path that does not exist, or that this user cannot reach, needs no rule.
    let (Ok(file), Ok(found)) = (PathFd::new(path), fs::metadata(path)) else { return Ok(rules) };
    let access = if found.is_dir() { access } else { access & AccessFs::from_file(WANTED) };
    rules.add_rule(PathBeneath::new(file, access))
}

/// Adds the largest files and folders below a folder that all users may read. Returns whether that is the whole folder.
fn collect_public(folder: &Path, public: &mut Vec<PathBuf>) -> bool {
    let before = public.len();
    let mut all = true;
    let Ok(entries) = fs::read_dir(folder) else { return false };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(found) = entry.metadata() else { continue };
        let mode = found.permissions().mode();
        if found.is_symlink() {
            continue;
        }
        let open = if found.is_dir() { mode & 0o005 == 0o005 } else { mode & 0o004 != 0 };
        let open = open && (!found.is_dir() || collect_public(&path, public));
        if open && !found.is_dir() {
            public.push(path);
        }
        all &= open;
    }
    if all {
        public.truncate(before);
        public.push(folder.to_owned());
    }
    all
}
