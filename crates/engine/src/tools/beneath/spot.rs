//! A name in an open folder, and the steps of a change: each is one call relative to the handle of the folder.
//!
//! This file does not decide whether a change is right; `tools/change/` does. A file is never written in place: its new content is
//! written to a temporary file next to it, which then takes its name.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    time::{Duration, Instant, SystemTime},
};

use rustix::{
    fs::{self, AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::{
    MadeFolders, OpenFileBeneath, PathRefused, Temporary, is_git, is_temporary, joined, temporary_name,
    unix::{ResolvedPath, open_regular},
};

/// How old an abandoned temporary file must be before it is removed. A file is created a moment before it is locked.
const ABANDONED: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(60) };
/// How long to wait for another process that changes files in the same folder.
const LOCKED: Duration = Duration::from_secs(10);
/// The most names that are examined in the search for abandoned temporary files.
const SWEPT: usize = 10_000;

/// A name in an open folder inside the working folder. Neither the name nor the folder is a link.
#[derive(Debug)]
pub(in super::super) struct Spot {
    folder: OwnedFd,
    /// Folders that do not exist yet, each inside the previous one.
    missing: Vec<OsString>,
    name: OsString,
    path: String,
}

/// The lock of a folder. Closing its handle releases it.
#[derive(Debug)]
pub(in super::super) struct FolderLock {
    _folder: OwnedFd,
}

/// A folder that was created for a file.
pub(super) type MadeFolder = (OwnedFd, OsString);

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for (above, name) in self.made.iter().rev() {
            let _ = fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

impl Spot {
    pub(super) fn of(traced: ResolvedPath, root: BorrowedFd<'_>) -> Result<Self, PathRefused> {
        let ResolvedPath { mut way, mut rest, .. } = traced;
        let name = rest.pop().ok_or(PathRefused::NotAFile)?;
        let path = joined(way.iter().map(|(name, _)| name).chain(&rest).chain([&name]))?;
        let folders = [root].into_iter().chain(way.iter().map(|(_, folder)| folder.as_fd()));
        let names = way.iter().map(|(name, _)| name).chain(rest.iter()).chain([&name]);
        if names.clone().any(|name| is_git(name))
            || folders.zip(names).any(|(folder, name)| is_same_as_git(folder, name))
        {
            return Err(PathRefused::Git);
        }
        let folder = match way.pop() {
            Some((_, folder)) => folder,
            None => root.try_clone_to_owned()?,
        };
        Ok(Self { folder, missing: rest, name, path })
    }

    /// The path without links, relative to the working folder.
    pub(in super::super) fn path(&self) -> &str {
        &self.path
    }

    /// The device and the inode of the nearest existing folder, and the names that lead from there to the file.
    pub(super) fn place(&self) -> io::Result<((u64, u64), Vec<&str>)> {
        let names = self.missing.iter().chain([&self.name]);
        Ok((identity(&fs::fstat(&self.folder)?), names.filter_map(|name| name.to_str()).collect()))
    }

    /// Opens the file; `None` if it does not exist.
    pub(in super::super) fn open(&self) -> Result<Option<OpenFileBeneath>, PathRefused> {
        if !self.missing.is_empty() {
            return Ok(None);
        }
        match open_regular(self.folder.as_fd(), &self.name) {
            Err(PathRefused::Io(why)) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Fails if the file's own permissions forbid writing to it. Replacing a file needs only permissions of its folder, but users
    /// make a file read-only to protect its content.
    pub(in super::super) fn check_writable(&self) -> io::Result<()> {
        Ok(fs::accessat(&self.folder, &self.name, fs::Access::WRITE_OK, AtFlags::EACCESS)?)
    }

    /// Keeps other processes from changing files in the folder through these tools, until it is dropped. Without it, one process
    /// could see a file at the moment in which another one puts it back. If another program holds the lock for too long, work
    /// continues without it.
    pub(in super::super) fn lock(&self) -> Option<FolderLock> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = fs::openat(&self.folder, ".", flags, Mode::empty()).ok()?;
        let began = Instant::now();
        while fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            if began.elapsed() > LOCKED {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(FolderLock { _folder: folder })
    }

    /// Creates the missing folders.
    pub(in super::super) fn make_folders(&mut self) -> Result<MadeFolders, PathRefused> {
        let mut made = MadeFolders::default();
        for name in std::mem::take(&mut self.missing) {
            let mode = Mode::from_raw_mode(0o777);
            match fs::mkdirat(&self.folder, &name, mode) {
                Ok(()) => {
                    sync(self.folder.as_fd())?;
                    made.made.push((self.folder.try_clone()?, name.clone()));
                }
                // Another process created it first; if it made a link, opening it fails.
                Err(Errno::EXIST) => {}
                Err(why) => return Err(io::Error::from(why).into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            self.folder = match fs::openat(&self.folder, &name, flags, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(PathRefused::NotAFile),
                folder => folder.map_err(io::Error::from)?,
            };
        }
        Ok(made)
    }

    /// Creates a temporary file in the folder. For a new file it has the usual permissions; to replace a file, only its owner can
    /// read it.
    pub(in super::super) fn make_temporary(&self, of: Option<&OpenFileBeneath>) -> io::Result<Temporary<'_>> {
        let name = temporary_name()?;
        let mode = Mode::from_raw_mode(if of.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY;
        let file = File::from(fs::openat(&self.folder, &name, flags, mode)?);
        let temporary = Temporary { spot: self, file, name, kept: false };
        // Locked, so that no other process takes it for an abandoned one. Some file systems have no locks; there, the age decides.
        let _ = fs::flock(&temporary.file, FlockOperation::NonBlockingLockExclusive);
        if let Some(of) = of {
            // Lock the old file as well, for the time when it has the temporary name.
            let _ = fs::flock(&of.file, FlockOperation::NonBlockingLockShared);
        }
        Ok(temporary)
    }

    /// A name that no file has, to which the file can be moved.
    pub(in super::super) fn unused_name(&self) -> io::Result<String> {
        temporary_name()
    }

    /// Moves the file to a name that no file has. Returns `false` if the system cannot guarantee that.
    pub(in super::super) fn move_to(&self, name: &str) -> io::Result<bool> {
        rename_new(&self.folder, &self.name, OsStr::new(name))
    }

    /// Moves a file back that was moved away, unless a new file has its name.
    pub(in super::super) fn move_back(&self, name: &str) -> io::Result<bool> {
        rename_new(&self.folder, OsStr::new(name), &self.name)
    }

    /// Opens another file in the folder.
    pub(in super::super) fn open_beside(&self, name: &str) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(self.folder.as_fd(), OsStr::new(name))
    }

    /// Removes another file in the folder.
    pub(in super::super) fn remove_beside(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// Removes the file itself.
    pub(in super::super) fn remove(&self) -> io::Result<()> {
        Ok(fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Makes the names in the folder durable.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        sync(self.folder.as_fd())
    }

    /// Removes temporary files that a killed process left in the folder. Failures are ignored: a later change tries again.
    pub(in super::super) fn sweep(&self) {
        // The handle of the folder may not allow listing it, so open it again.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = fs::openat(&self.folder, ".", flags, Mode::empty()).and_then(fs::Dir::new);
        let Ok(folder) = folder else { return };
        for entry in folder.take(SWEPT).filter_map(Result::ok) {
            let name = std::os::unix::ffi::OsStrExt::from_bytes(entry.file_name().to_bytes());
            if !is_temporary(name) {
                continue;
            }
            let Ok(OpenFileBeneath { file }) = open_regular(self.folder.as_fd(), name) else { continue };
            let age = file.metadata().map(|found| {
                let changed =
                    SystemTime::UNIX_EPOCH + Duration::from_secs(found.ctime().max(0).unsigned_abs());
                changed.elapsed().unwrap_or_default()
            });
            let is_old = age.is_ok_and(|age| age >= ABANDONED);
            if is_old && fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::unlinkat(&self.folder, name, AtFlags::empty());
            }
        }
    }
}

impl Temporary<'_> {
    /// Copies the permissions of a file, without the bits that let it run as its owner. Its group is copied if that is allowed.
    pub(in super::super) fn take_permissions(&self, of: &OpenFileBeneath) -> io::Result<()> {
        let (found, own) = (of.file.metadata()?, self.file.metadata()?);
        if found.gid() != own.gid() {
            let group = rustix::fs::Gid::from_raw(found.gid());
            let _ = fs::fchown(&self.file, None, Some(group));
        }
        self.file.set_permissions(std::fs::Permissions::from_mode(found.mode() & 0o777))
    }

    /// Swaps names with the file in one step. The temporary name then belongs to the old file. Returns `false` if the system cannot
    /// do it.
    pub(in super::super) fn exchange(&self) -> io::Result<bool> {
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        {
            let (folder, flags) = (&self.spot.folder, fs::RenameFlags::EXCHANGE);
            match fs::renameat_with(folder, &self.name, folder, &self.spot.name, flags) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => Ok(false),
                swapped => Ok(swapped.map(|()| true)?),
            }
        }
        #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
        Ok(false)
    }

    /// Opens the file that has the temporary name now.
    pub(in super::super) fn open_displaced(&self) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(self.spot.folder.as_fd(), OsStr::new(&self.name))
    }

    /// Gives the temporary file its final name, replacing any file that has it.
    pub(in super::super) fn put_over(mut self) -> io::Result<()> {
        fs::renameat(&self.spot.folder, &self.name, &self.spot.folder, &self.spot.name)?;
        self.kept = true;
        Ok(())
    }

    /// Gives the temporary file its final name, if no file has it.
    pub(in super::super) fn put_new(mut self) -> io::Result<()> {
        let folder = &self.spot.folder;
        if rename_new(folder, OsStr::new(&self.name), &self.spot.name)? {
            self.kept = true;
        } else {
            // A link never replaces an existing name; the temporary name is removed when this value is dropped.
            fs::linkat(folder, &self.name, folder, &self.spot.name, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::unlinkat(&self.spot.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Renames a file inside a folder, unless the new name is in use. Returns `false` if the system has no such call.
fn rename_new(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<bool> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    match fs::renameat_with(folder, from, folder, to, fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => Ok(false),
        renamed => Ok(renamed.map(|()| true)?),
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    {
        let _ = (folder, from, to);
        Ok(false)
    }
}

/// Syncs a folder. The process may be allowed to add a name to it but not to open it.
fn sync(folder: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat(folder, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => Ok(()),
        folder => match fs::fsync(folder?) {
            // Some file systems cannot sync a folder.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            synced => Ok(synced?),
        },
    }
}

/// Whether the file system treats a name in a folder as another spelling of `.git`.
fn is_same_as_git(folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    let look = |name: &OsStr| fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let Some(git) = look(OsStr::new(".git")) else { return false };
    look(name).is_some_and(|found| identity(&found) == identity(&git))
}

/// The device and the inode.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn identity(found: &fs::Stat) -> (u64, u64) {
    (found.st_dev as u64, found.st_ino as u64)
}
