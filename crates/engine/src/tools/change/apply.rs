//! Applies and undoes a change without losing changes by other programs, and without ever showing half a file.
//!
//! The new content goes to a temporary file in the same folder and to the disk, and then takes the place of the file in one step.
//! Where the system can, the two swap their names: what was displaced is compared once more, and swapped back if another program
//! replaced the file in the meantime. A new file never takes a name that is in use. Tools exclude each other by a lock of the folder.
//!
//! What replacing does not keep: extended attributes and access control lists.

use std::{io, io::Write as _};

use super::{ApplyError, ExpectedContent, FileChange, Restored};
use crate::tools::{
    beneath::{Opened, PathRefused, Spot, Temporary},
    workspace::{Workspace, content},
};

/// How often two names are swapped to put back what was displaced, while another program keeps replacing the file.
const SWAPS: usize = 16;

/// A step that a test may have fail, or at which it may look around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Checked,
    MadeFolders,
    MadeTemporary,
    Written,
    Synced,
    Swapped,
    Compared,
    InPlace,
}

/// Why a step ended the change.
enum Failed {
    Changed,
    Refused(PathRefused),
    Io(io::Error),
    NotDurable(io::Error),
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

impl From<PathRefused> for Failed {
    fn from(why: PathRefused) -> Self {
        match why {
            PathRefused::Io(why) => Self::Io(why),
            why => Self::Refused(why),
        }
    }
}

impl Failed {
    fn on(self, path: &str) -> ApplyError {
        let path = path.to_owned();
        match self {
            Self::Changed => ApplyError::Changed { path },
            Self::Refused(why) => ApplyError::Refused { path, why },
            Self::Io(source) => ApplyError::Io { path, source },
            Self::NotDurable(source) => ApplyError::NotDurable { path, source },
        }
    }
}

impl Workspace {
    /// Applies a change, if the file is still exactly as it was when the change was planned, and under the same path: a link that
    /// took the place of a folder on the way is not followed.
    ///
    /// # Errors
    /// If the file has changed, must not be changed, or cannot be written.
    pub fn apply(&self, change: &FileChange) -> Result<(), ApplyError> {
        self.try_apply(change).map_err(|why| why.on(&change.path))
    }

    /// Undoes a change: puts the earlier content back, or removes the file if there was none. Folders that were created stay.
    ///
    /// # Errors
    /// [`ApplyError::Changed`] if the file does not have the expected content; otherwise why it cannot be written.
    pub fn restore(
        &self,
        path: &str,
        before: Option<&[u8]>,
        expected: ExpectedContent<'_>,
    ) -> Result<Restored, ApplyError> {
        self.try_restore(path, before, expected).map_err(|why| why.on(path))
    }

    /// The place of a path that has no links on it.
    fn exact_spot(&self, path: &str) -> Result<Spot, Failed> {
        let spot = self.folder.spot(path)?;
        if spot.path() == path { Ok(spot) } else { Err(Failed::Changed) }
    }

    fn try_apply(&self, change: &FileChange) -> Result<(), Failed> {
        let spot = self.exact_spot(&change.path)?;
        let _lock = spot.lock();
        let opened = self.open_to_change(&spot)?;
        match (&change.before, opened) {
            (None, None) => create(spot, &change.after),
            (Some(before), Some(opened)) => {
                if content(&opened)? != *before {
                    return Err(Failed::Changed);
                }
                if *before == change.after {
                    return Ok(());
                }
                replace(&spot, &opened, before, &change.after)
            }
            _ => Err(Failed::Changed),
        }
    }

    fn try_restore(
        &self,
        path: &str,
        before: Option<&[u8]>,
        expected: ExpectedContent<'_>,
    ) -> Result<Restored, Failed> {
        let spot = self.exact_spot(path)?;
        let _lock = spot.lock();
        let Some(opened) = self.open_to_change(&spot)? else {
            return if before.is_none() { Ok(Restored::AlreadyThere) } else { Err(Failed::Changed) };
        };
        let present = content(&opened)?;
        match before {
            Some(before) if present == before => Ok(Restored::AlreadyThere),
            _ if !expected.is(&present) => Err(Failed::Changed),
            Some(before) => replace(&spot, &opened, &present, before).map(|()| Restored::Rewritten),
            None => remove(&spot, &opened, &present).map(|()| Restored::Removed),
        }
    }
}

/// Creates a file that does not exist.
fn create(mut spot: Spot, after: &[u8]) -> Result<(), Failed> {
    at(Step::Checked)?;
    let folders = spot.make_folders()?;
    at(Step::MadeFolders)?;
    let temporary = written(&spot, None, after)?;
    match temporary.put_new() {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => return Err(Failed::Changed),
        put => put?,
    }
    folders.keep();
    in_place(&spot)
}

/// Replaces a file whose content was just compared.
fn replace(spot: &Spot, opened: &Opened, before: &[u8], after: &[u8]) -> Result<(), Failed> {
    at(Step::Checked)?;
    let temporary = written(spot, Some(opened), after)?;
    if !temporary.exchange()? {
        look_again(spot, opened, before)?;
        temporary.put_over()?;
        return in_place(spot);
    }
    // From here on the old file has the temporary name, and goes with it.
    let same = at(Step::Swapped).is_ok()
        && temporary.open_displaced().is_ok_and(|displaced| is_unchanged(&displaced, opened, before));
    if !same {
        return Err(put_back(temporary));
    }
    at(Step::Compared).ok();
    drop(temporary);
    in_place(spot)
}

/// Fails if a file has changed since it was opened. Where two names cannot be exchanged, looking again just before the change is
/// all that can be done.
fn look_again(spot: &Spot, opened: &Opened, before: &[u8]) -> Result<(), Failed> {
    let now = spot.open()?;
    if now.is_some_and(|now| is_unchanged(&now, opened, before)) { Ok(()) } else { Err(Failed::Changed) }
}

/// Puts back what a new file displaced. If meanwhile another program replaced the new file too, its file is the newest and stays.
fn put_back(temporary: Temporary<'_>) -> Failed {
    // Files that were superseded. They are held open, so that no new file gets the number of one.
    let mut superseded: Vec<Opened> = Vec::new();
    for _ in 0..SWAPS {
        let held = temporary.open_displaced();
        match temporary.exchange() {
            Ok(true) => {}
            // The name is free, or worse: what was displaced is kept under the temporary name rather than lost.
            refused => {
                let why = refused.err().unwrap_or_else(|| io::ErrorKind::Unsupported.into());
                let name = temporary.leave();
                return Failed::Io(io::Error::new(
                    why.kind(),
                    format!("{why}; the file is now called {name}"),
                ));
            }
        }
        let is_old = temporary.open_displaced().is_ok_and(|taken| {
            is_same(&taken.file, &temporary.file)
                || superseded.iter().any(|old| is_same(&taken.file, &old.file))
        });
        if is_old {
            return Failed::Changed;
        }
        superseded.extend(held);
    }
    let name = temporary.leave();
    Failed::Io(io::Error::other(format!(
        "another program keeps replacing it; one version is now called {name}"
    )))
}

/// Removes a file whose content was just compared.
fn remove(spot: &Spot, opened: &Opened, present: &[u8]) -> Result<(), Failed> {
    at(Step::Checked)?;
    spot.sweep();
    let away = spot.unused_name()?;
    if !spot.move_to(&away)? {
        look_again(spot, opened, present)?;
        spot.remove()?;
        return in_place(spot);
    }
    let same = at(Step::Swapped).is_ok()
        && spot.open_beside(&away).is_ok_and(|moved| is_unchanged(&moved, opened, present));
    if !same {
        return Err(match spot.move_back(&away) {
            Ok(_) => Failed::Changed,
            Err(why) => {
                Failed::Io(io::Error::new(why.kind(), format!("{why}; the file is now called {away}")))
            }
        });
    }
    spot.remove_beside(&away)?;
    in_place(spot)
}

/// A temporary file with this content, on the disk.
fn written<'s>(spot: &'s Spot, of: Option<&Opened>, content: &[u8]) -> Result<Temporary<'s>, Failed> {
    spot.sweep();
    let mut temporary = spot.make_temporary(of)?;
    at(Step::MadeTemporary)?;
    temporary.file.write_all(content)?;
    if let Some(of) = of {
        temporary.take_permissions(of)?;
    }
    at(Step::Written)?;
    temporary.file.sync_all()?;
    at(Step::Synced)?;
    Ok(temporary)
}

/// Makes the new name durable.
fn in_place(spot: &Spot) -> Result<(), Failed> {
    at(Step::InPlace).and_then(|()| spot.sync()).map_err(Failed::NotDurable)
}

/// Whether a file is the one that was opened, with the same content.
fn is_unchanged(now: &Opened, opened: &Opened, before: &[u8]) -> bool {
    is_same(&now.file, &opened.file) && content(now).is_ok_and(|now| now == before)
}

/// Whether two open files are one file. Where files have no numbers, their content decides alone.
fn is_same(one: &std::fs::File, other: &std::fs::File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |file: &std::fs::File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        identity(one).is_some() && identity(one) == identity(other)
    }
    #[cfg(not(unix))]
    {
        let _ = (one, other);
        true
    }
}

#[cfg(not(test))]
fn at(_: Step) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(super) use self::testing::{at, watching};

/// Lets a test watch the steps of its own thread, and fail them.
#[cfg(test)]
mod testing {
    use std::{cell::RefCell, io};

    use super::Step;

    type Watch = Box<dyn FnMut(Step) -> io::Result<()>>;

    thread_local! {
        static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    }

    pub(in super::super) fn at(step: Step) -> io::Result<()> {
        let watch = WATCH.take();
        let Some(mut watch) = watch else { return Ok(()) };
        let done = watch(step);
        WATCH.set(Some(watch));
        done
    }

    /// Has a function called at each step while another one runs.
    pub(in super::super) fn watching<T>(
        watch: impl FnMut(Step) -> io::Result<()> + 'static,
        run: impl FnOnce() -> T,
    ) -> T {
        WATCH.set(Some(Box::new(watch)));
        let done = run();
        WATCH.set(None);
        done
    }
}
