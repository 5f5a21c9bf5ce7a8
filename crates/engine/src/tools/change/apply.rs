//! Applies and undoes a change without losing changes by other programs, and without ever exposing half a file.
//!
//! The new content is written to a temporary file in the same folder and synced, and then replaces the file in one step. If the
//! system can, the two files swap their names: the displaced file is compared once more, and swapped back if another program
//! replaced the file in the meantime. A new file never takes a name that is in use. Tools exclude each other by a lock of the
//! folder.
//!
//! Replacing a file loses its extended attributes and access control lists.

use std::{io, io::Write as _};

use super::{ApplyError, ExpectedContent, FileChange, RestoreOutcome};
use crate::tools::{
    beneath::{OpenFileBeneath, PathRefused, Spot, Temporary},
    workspace::{Workspace, content},
};

/// How often two names are swapped to put a displaced file back while another program keeps replacing it.
const SWAPS: usize = 16;

/// A step at which a test may inject a failure or inspect the folder.
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
enum StepError {
    Changed,
    Refused(PathRefused),
    Io(io::Error),
    NotDurable(io::Error),
}

impl From<io::Error> for StepError {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

impl From<PathRefused> for StepError {
    fn from(why: PathRefused) -> Self {
        match why {
            PathRefused::Io(why) => Self::Io(why),
            why => Self::Refused(why),
        }
    }
}

impl StepError {
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
    /// Applies a change if the file still has the content and the path that it had when the change was planned. A link that
    /// replaced a folder on the way is not followed.
    ///
    /// # Errors
    /// If the file has changed, may not be changed by tools, or cannot be written.
    pub fn apply(&self, change: &FileChange) -> Result<(), ApplyError> {
        self.try_apply(change).map_err(|why| why.on(&change.path))
    }

    /// Undoes a change: puts the earlier content back, or removes the file if there was none. Folders that were created stay.
    ///
    /// # Errors
    /// [`ApplyError::Changed`] if the file does not have the expected content; otherwise the reason why it cannot be written.
    pub fn restore(
        &self,
        path: &str,
        before: Option<&[u8]>,
        expected: ExpectedContent<'_>,
    ) -> Result<RestoreOutcome, ApplyError> {
        self.try_restore(path, before, expected).map_err(|why| why.on(path))
    }

    /// The place of a path that contains no links.
    fn exact_spot(&self, path: &str) -> Result<Spot, StepError> {
        let spot = self.folder.spot(path)?;
        if spot.path() == path { Ok(spot) } else { Err(StepError::Changed) }
    }

    fn try_apply(&self, change: &FileChange) -> Result<(), StepError> {
        let spot = self.exact_spot(&change.path)?;
        let _lock = spot.lock();
        let opened = self.open_to_change(&spot)?;
        match (&change.before, opened) {
            (None, None) => create(spot, &change.after),
            (Some(before), Some(opened)) => {
                if content(&opened)? != *before {
                    return Err(StepError::Changed);
                }
                if *before == change.after {
                    return Ok(());
                }
                replace(&spot, &opened, before, &change.after)
            }
            _ => Err(StepError::Changed),
        }
    }

    fn try_restore(
        &self,
        path: &str,
        before: Option<&[u8]>,
        expected: ExpectedContent<'_>,
    ) -> Result<RestoreOutcome, StepError> {
        let spot = self.exact_spot(path)?;
        let _lock = spot.lock();
        let Some(opened) = self.open_to_change(&spot)? else {
            return if before.is_none() { Ok(RestoreOutcome::AlreadyThere) } else { Err(StepError::Changed) };
        };
        let present = content(&opened)?;
        match before {
            Some(before) if present == before => Ok(RestoreOutcome::AlreadyThere),
            _ if !expected.is(&present) => Err(StepError::Changed),
            Some(before) => replace(&spot, &opened, &present, before).map(|()| RestoreOutcome::Rewritten),
            None => remove(&spot, &opened, &present).map(|()| RestoreOutcome::Removed),
        }
    }
}

/// Creates a file that does not exist.
fn create(mut spot: Spot, after: &[u8]) -> Result<(), StepError> {
    at(Step::Checked)?;
    let folders = spot.make_folders()?;
    at(Step::MadeFolders)?;
    let temporary = written(&spot, None, after)?;
    match temporary.put_new() {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => return Err(StepError::Changed),
        put => put?,
    }
    folders.keep();
    in_place(&spot)
}

/// Replaces a file whose content was just compared.
fn replace(spot: &Spot, opened: &OpenFileBeneath, before: &[u8], after: &[u8]) -> Result<(), StepError> {
    at(Step::Checked)?;
    let temporary = written(spot, Some(opened), after)?;
    if !temporary.exchange()? {
        look_again(spot, opened, before)?;
        temporary.put_over()?;
        return in_place(spot);
    }
    // The old file now has the temporary name, and is removed together with it.
    let same = at(Step::Swapped).is_ok()
        && temporary.open_displaced().is_ok_and(|displaced| is_unchanged(&displaced, opened, before));
    if !same {
        return Err(put_back(temporary));
    }
    at(Step::Compared).ok();
    drop(temporary);
    in_place(spot)
}

/// Fails if a file has changed since it was opened. On systems that cannot exchange two names, this check just before the change is
/// the only protection.
fn look_again(spot: &Spot, opened: &OpenFileBeneath, before: &[u8]) -> Result<(), StepError> {
    let now = spot.open()?;
    if now.is_some_and(|now| is_unchanged(&now, opened, before)) { Ok(()) } else { Err(StepError::Changed) }
}

/// Puts back the file that a new file displaced. If another program has replaced the new file meanwhile, that program's file is the
/// newest and stays.
fn put_back(temporary: Temporary<'_>) -> StepError {
    // Superseded files are kept open, so that no new file gets the inode of one.
    let mut superseded: Vec<OpenFileBeneath> = Vec::new();
    for _ in 0..SWAPS {
        let held = temporary.open_displaced();
        match temporary.exchange() {
            Ok(true) => {}
            // The name is free, or the swap failed: rather keep the displaced file under the temporary name than lose it.
            refused => {
                let why = refused.err().unwrap_or_else(|| io::ErrorKind::Unsupported.into());
                let name = temporary.leave();
                return StepError::Io(io::Error::new(
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
            return StepError::Changed;
        }
        superseded.extend(held);
    }
    let name = temporary.leave();
    StepError::Io(io::Error::other(format!(
        "another program keeps replacing it; one version is now called {name}"
    )))
}

/// Removes a file whose content was just compared.
fn remove(spot: &Spot, opened: &OpenFileBeneath, present: &[u8]) -> Result<(), StepError> {
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
            Ok(_) => StepError::Changed,
            Err(why) => {
                StepError::Io(io::Error::new(why.kind(), format!("{why}; the file is now called {away}")))
            }
        });
    }
    spot.remove_beside(&away)?;
    in_place(spot)
}

/// A temporary file with this content, synced to disk.
fn written<'s>(
    spot: &'s Spot,
    of: Option<&OpenFileBeneath>,
    content: &[u8],
) -> Result<Temporary<'s>, StepError> {
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
fn in_place(spot: &Spot) -> Result<(), StepError> {
    at(Step::InPlace).and_then(|()| spot.sync()).map_err(StepError::NotDurable)
}

/// Whether a file is the one that was opened, with the same content.
fn is_unchanged(now: &OpenFileBeneath, opened: &OpenFileBeneath, before: &[u8]) -> bool {
    is_same(&now.file, &opened.file) && content(now).is_ok_and(|now| now == before)
}

/// Whether two handles refer to one file. On systems without inodes, only the content is compared.
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

/// Lets a test observe the steps of its own thread, and make them fail.
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

    /// Calls a function at each step of another one.
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
