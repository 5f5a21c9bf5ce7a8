//! Process 1 of a command's PID namespace: it starts the shell, reaps orphans, and ends with the shell.
//!
//! When it ends, for any reason, the kernel kills everything in the namespace. It ends when the supervisor does.

use std::os::unix::net::UnixStream;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait},
};

use super::{
    order::{Order, Report},
    start_helper,
    supervisor::exit_of,
};

/// Runs a command to its end. Returns the exit code of this process, which is not used.
pub fn wait_for_everything(mut supervisor: UnixStream) -> i32 {
    let Ok(order) = Order::read(&mut supervisor) else { return 1 };
    let _ = rustix::thread::set_name(c"rejoin-sandbox");
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || is_gone(&supervisor) {
        return 1;
    }
    let (child, mut inside) = match start_helper("inside", &order, |_| {}) {
        Ok(started) => started,
        Err(why) => return fail(supervisor, format!("a helper process cannot be started: {why}")),
    };
    match Report::read(&mut inside) {
        Ok(Some(report @ Report::Confined(_))) => drop(report.write(&mut supervisor)),
        Ok(Some(Report::Failed(why))) => return fail(supervisor, why),
        _ => return fail(supervisor, String::from("the helper process ended without a report")),
    }
    let shell = Pid::from_child(&child);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == shell => {
                // If the helper reports once more after its confinement, it could not start the shell.
                let report = match Report::read(&mut inside) {
                    Ok(Some(report)) => report,
                    _ => Report::Ended(exit_of(status)),
                };
                let _ = report.write(&mut supervisor);
                return 0;
            }
            Ok(_) => {}
            Err(why) => return fail(supervisor, format!("the shell cannot be waited for: {why}")),
        }
    }
}

fn fail(mut supervisor: UnixStream, why: String) -> i32 {
    let _ = Report::Failed(why).write(&mut supervisor);
    1
}

/// Whether the supervisor has ended. It sends nothing more, so readable data means the end of the socket.
fn is_gone(supervisor: &UnixStream) -> bool {
    let mut watched = [PollFd::new(supervisor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}
