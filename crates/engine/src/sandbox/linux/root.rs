//! A new root for a command, in its own mount namespace. It holds only the granted paths.
//!
//! System folders are read-only there, including modes, owners and times, which Landlock does not guard. Paths that the policy
//! protects inside the workspace are covered by further mounts, and so is every folder between the workspace and such a path: a
//! mount point cannot be renamed, so the command cannot replace it by another folder.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::{
    mount::{
        MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
        mount_change, mount_remount, unmount,
    },
    thread::UnshareFlags,
};

use super::{
    inside::{DEVICES, SYSTEM, name_servers},
    order::Order,
    supervisor::unshare,
};
use crate::sandbox::{Network, WorkspaceAccess};

/// Limits the memory that a command can take by filling its `/dev/shm`.
const SHARED_MEMORY: &std::ffi::CStr = c"mode=1777,size=268435456";

/// Moves this process into its new root. Returns whether `/proc` shows only the processes of the command.
pub fn enter(order: &Order) -> Result<bool, String> {
    let step = |what: &'static str| move |why: rustix::io::Errno| format!("{what}: {}", io::Error::from(why));
    unshare(UnshareFlags::NEWNS).map_err(step("there is no new mount namespace"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(step("mounts cannot be made private"))?;
    let root = order.private.join("root");
    mount("rejoin", &root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
        .map_err(step("a new root cannot be mounted"))?;
    let fresh_proc = fill(order, &root).map_err(|why| format!("the new root cannot be filled: {why}"))?;
    make_read_only(order, &root).map_err(|why| format!("the new root cannot be made read-only: {why}"))?;
    std::env::set_current_dir(&root).map_err(|why| format!("the new root cannot be entered: {why}"))?;
    rustix::process::pivot_root(".", ".").map_err(step("the root cannot be changed"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("the old root cannot be left"))?;
    std::env::set_current_dir("/").map_err(|why| format!("the new root cannot be entered: {why}"))?;
    Ok(fresh_proc)
}

fn fill(order: &Order, root: &Path) -> io::Result<bool> {
    let name_servers = name_servers().filter(|_| order.policy.network == Network::Allowed);
    let system = SYSTEM.iter().map(PathBuf::from).chain(name_servers);
    let further = order.policy.read.iter().chain(&order.policy.write).cloned();
    let mut granted: Vec<PathBuf> = system.chain(further).collect();
    granted.push(order.policy.workspace.clone());
    granted.push(order.private.join("tmp"));
    // A folder comes before its contents, so that no mount covers an earlier one.
    granted.sort();
    granted.dedup();
    for path in &granted {
        put(root, path)?;
    }
    for device in DEVICES {
        put(root, &Path::new("/dev").join(device))?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), root.join("dev").join(name))?;
    }
    let shared = root.join("dev/shm");
    fs::create_dir(&shared)?;
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    mount("rejoin", &shared, "tmpfs", quiet, SHARED_MEMORY)?;
    pin(order, root)?;
    for path in &order.policy.hidden {
        hide(&inside(root, path))?;
    }
    let proc = root.join("proc");
    fs::create_dir(&proc)?;
    // A container that covers parts of its `/proc` does not allow a new one.
    let fresh = mount("proc", &proc, "proc", quiet | MountFlags::NOEXEC | MountFlags::RDONLY, None).is_ok();
    if !fresh {
        mount_bind_recursive("/proc", &proc)?;
    }
    Ok(fresh)
}

/// The place of one of the machine's paths in the new root.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Puts one of the machine's paths into the new root, with everything below it; a link stays a link.
fn put(root: &Path, path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let place = inside(root, path);
    // The parents may exist already, read-only or not.
    if let Some(parent) = place.parent().filter(|parent| !parent.is_dir()) {
        fs::create_dir_all(parent)?;
    }
    if found.is_symlink() {
        return if place.is_symlink() { Ok(()) } else { symlink(fs::read_link(path)?, place) };
    }
    if fs::symlink_metadata(&place).is_err() {
        if found.is_dir() {
            fs::create_dir(&place)?;
        } else {
            fs::File::create_new(&place)?;
        }
    }
    Ok(mount_bind_recursive(path, &place)?)
}

/// Makes every protected path and every folder on the way to it a mount point.
fn pin(order: &Order, root: &Path) -> io::Result<()> {
    let workspace = order.policy.workspace.as_path();
    let protected = order.policy.read_only.iter().chain(&order.policy.hidden);
    let to_pin = protected.flat_map(|path| path.ancestors().take_while(move |&folder| folder != workspace));
    // A folder comes before its contents.
    for path in to_pin.collect::<BTreeSet<_>>() {
        let place = inside(root, path);
        // A path that does not exist cannot be covered. A link cannot be a mount point; it is reported as a gap.
        if place.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
            mount_bind_recursive(&place, &place)?;
        }
    }
    Ok(())
}

fn hide(place: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(place) else { return Ok(()) };
    if found.is_dir() {
        let empty = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
        mount("rejoin", place, "tmpfs", empty, c"mode=0000,size=4096")?;
    } else if !found.is_symlink() {
        mount_bind("/dev/null", place)?;
    }
    Ok(())
}

/// Makes every mount of the new root read-only, except those that the command may write.
fn make_read_only(order: &Order, root: &Path) -> io::Result<()> {
    let mut writable = order.policy.write.clone();
    writable.extend([order.private.join("tmp"), PathBuf::from("/dev/shm")]);
    if order.policy.access == WorkspaceAccess::Write {
        writable.push(order.policy.workspace.clone());
    }
    for (place, flags) in mounts_below(root)? {
        let path = Path::new("/").join(place.strip_prefix(root).map_err(io::Error::other)?);
        let device = path.starts_with("/dev") && path != Path::new("/dev/shm");
        // Of all paths in the lists that contain this one, the innermost decides.
        let deepest = |paths: &[PathBuf]| {
            paths
                .iter()
                .filter(|granted| path.starts_with(granted))
                .map(|granted| granted.components().count())
                .max()
        };
        let may_write =
            deepest(&writable) > deepest(&order.policy.read_only).max(deepest(&order.policy.read));
        let mut flags = flags | MountFlags::BIND | MountFlags::NOSUID;
        if !device {
            flags |= MountFlags::NODEV;
        }
        if !may_write && !device {
            flags |= MountFlags::RDONLY;
        }
        mount_remount(&place, flags, "").map_err(|why| {
            let why = io::Error::from(why);
            io::Error::new(why.kind(), format!("{}: {why}", path.display()))
        })?;
    }
    Ok(())
}

/// The mounts below a folder, and the flags that must not be removed from them.
fn mounts_below(root: &Path) -> io::Result<Vec<(PathBuf, MountFlags)>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let mut mounts = Vec::new();
    for line in table.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let (Some(place), Some(options)) = (fields.next(), fields.next()) else { continue };
        let place = PathBuf::from(unescaped(place));
        if !place.starts_with(root) || place.symlink_metadata().is_err() {
            continue;
        }
        let flags = options.split(|byte| *byte == b',').map(|option| match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            b"noatime" => MountFlags::NOATIME,
            b"nodiratime" => MountFlags::NODIRATIME,
            b"relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        });
        mounts.push((place, flags.fold(MountFlags::empty(), |all, flag| all | flag)));
    }
    Ok(mounts)
}

/// A path from the table of mounts, in which blanks and some other characters are octal numbers after a backslash.
fn unescaped(path: &[u8]) -> std::ffi::OsString {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_paths_of_the_mount_table_are_read() {
        assert_eq!(unescaped(b"/a\\040b\\134c/\\x"), "/a b\\c/\\x");
    }
}
