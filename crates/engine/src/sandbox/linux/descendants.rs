//! Finds and kills the descendants of a process, through `/proc`.
//!
//! In a PID namespace the kernel kills them; this is for commands without one.

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

/// Sends SIGTERM to the children of a process. Each child must end its own children.
pub fn ask_children(of: Pid) {
    for pid in children(of).0 {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Check as in `kill` below.
        if parent(pid) == Some(of) {
            let _ = pidfd_send_signal(handle, Signal::TERM);
        }
    }
}

/// Sends SIGKILL to every descendant of a process. Processes that are started meanwhile are killed by the next call.
pub fn kill(ancestor: Pid) {
    let mut open = children(ancestor).0;
    while let Some(pid) = open.pop() {
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        open.extend(children(pid).0);
        // While the process has an entry in `/proc`, the handle refers to it and not to a later process with its number.
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
            // The kernel has no lists of children per thread, so search once for all threads.
            Err(why) if why.kind() == io::ErrorKind::NotFound && threads == 1 => searched(pid),
            list => list.unwrap_or_default(),
        };
        children.extend(list.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)));
    }
    (children, threads)
}

/// The children of a process, found by reading the parent of every process.
fn searched(pid: Pid) -> String {
    if fs::exists("/proc/thread-self/children").unwrap_or(true) {
        return String::new();
    }
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    all.filter(|child| parent(*child) == Some(pid)).map(|child| format!("{child} ")).collect()
}

/// Whether a process descends from another, through any number of parents.
fn descends(pid: Pid, ancestor: Pid) -> bool {
    let mut pid = pid;
    // A longer chain only appears if processes come and go faster than they are read.
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
    // The name is in parentheses and may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    Pid::from_raw(rest.split_ascii_whitespace().nth(1)?.parse().ok()?)
}
