//! The processes that descend from this one, from `/proc`.
//!
//! In a PID namespace the kernel kills them; without one, this does.

use std::{fs, io};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How many processes and threads descend from a process. Counting stops above `enough`.
pub fn count(ancestor: Pid, enough: u32) -> u32 {
    let mut found = 0;
    let mut open = children(ancestor).0;
    while let Some(pid) = open.pop() {
        let (children, threads) = children(pid);
        found += threads.max(1);
        if found > enough {
            break;
        }
        open.extend(children);
    }
    found
}

/// Asks the children of a process to end, with SIGTERM. What they started themselves is theirs to end.
pub fn ask_children(of: Pid) {
    for pid in children(of).0 {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // As below.
        if parent(pid) == Some(of) {
            let _ = pidfd_send_signal(handle, Signal::TERM);
        }
    }
}

/// Sends SIGKILL to every process that descends from a process. Those that are started meanwhile are left for the next time.
pub fn kill(ancestor: Pid) {
    let mut open = children(ancestor).0;
    while let Some(pid) = open.pop() {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        open.extend(children(pid).0);
        // While it has an entry here, the handle is for this process and not for a later one with its number.
        if descends(pid, ancestor) {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

/// The children of a process, and the number of its threads.
fn children(pid: Pid) -> (Vec<Pid>, u32) {
    let (mut children, mut threads) = (Vec::new(), 0);
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        threads += 1;
        let list = match fs::read_to_string(thread.path().join("children")) {
            // A kernel without lists of children; then there is one for all threads.
            Err(why) if why.kind() == io::ErrorKind::NotFound && threads == 1 => searched(pid),
            list => list.unwrap_or_default(),
        };
        children.extend(list.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)));
    }
    (children, threads)
}

/// The children of a process, found by asking every process for its parent.
fn searched(pid: Pid) -> String {
    if fs::exists("/proc/thread-self/children").unwrap_or(true) {
        return String::new();
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    all.filter(|child| parent(*child) == Some(pid)).map(|child| format!("{child} ")).collect()
}

/// Whether the chain of parents of a process leads to another.
fn descends(pid: Pid, ancestor: Pid) -> bool {
    let mut pid = pid;
    // A chain that is longer belongs to processes that come and go faster than they are read.
    for _ in 0..4096 {
        match parent(pid) {
            Some(parent) if parent == ancestor => return true,
            Some(parent) => pid = parent,
            None => return false,
        }
    }
    false
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold any character.
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_ascii_whitespace().nth(1)?.parse().ok()?)
}
