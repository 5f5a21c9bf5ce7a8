//! A name in a folder, on systems that cannot hold folders open: the same steps as in `spot.rs`, by path. No call swaps two files,
//! so a change that another program makes at the moment of replacing is lost.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{
    MadeFolders, OpenFileBeneath, PathRefused, Temporary, by_path::open_regular, is_git, joined,
    temporary_name,
};

/// A name in a folder inside the working folder.
#[derive(Debug)]
pub(in super::super) struct Spot {
    folder: PathBuf,
    missing: Vec<OsString>,
    full: PathBuf,
    path: String,
}

/// A folder that was created for a file.
pub(super) type MadeFolder = PathBuf;

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Spot {
    pub(super) fn of(root: &Path, found: PathBuf, mut missing: Vec<OsString>) -> Result<Self, PathRefused> {
        let full = missing.iter().fold(found.clone(), |path, name| path.join(name));
        let inside = full.strip_prefix(root).map_err(|_| PathRefused::Outside)?;
        let names: Vec<OsString> = inside.iter().map(ToOwned::to_owned).collect();
        if names.iter().any(|name| is_git(name)) {
            return Err(PathRefused::Git);
        }
        let path = joined(&names)?;
        let folder = match missing.pop() {
            Some(_) => found,
            None => found.parent().filter(|_| !names.is_empty()).ok_or(PathRefused::NotAFile)?.to_owned(),
        };
        Ok(Self { folder, missing, full, path })
    }

    /// The path without links, relative to the working folder.
    pub(in super::super) fn path(&self) -> &str {
        &self.path
    }

    /// The path of the file in the system.
    pub(super) fn full_path(&self) -> &Path {
        &self.full
    }

    /// Opens the file; `None` if it does not exist.
    pub(in super::super) fn open(&self) -> Result<Option<OpenFileBeneath>, PathRefused> {
        match open_regular(&self.full) {
            Err(PathRefused::Io(why)) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Fails if the file is read-only.
    pub(in super::super) fn check_writable(&self) -> io::Result<()> {
        if fs::metadata(&self.full)?.permissions().readonly() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    /// There are no such locks on these systems.
    pub(in super::super) fn lock(&self) -> Option<()> {
        None
    }

    /// Creates the missing folders.
    pub(in super::super) fn make_folders(&mut self) -> Result<MadeFolders, PathRefused> {
        let mut made = MadeFolders::default();
        for name in std::mem::take(&mut self.missing) {
            self.folder.push(name);
            match fs::create_dir(&self.folder) {
                Ok(()) => made.made.push(self.folder.clone()),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                    if !fs::symlink_metadata(&self.folder)?.is_dir() {
                        return Err(PathRefused::NotAFile);
                    }
                }
                Err(why) => return Err(why.into()),
            }
        }
        Ok(made)
    }

    /// Creates a temporary file in the folder.
    pub(in super::super) fn make_temporary(&self, _: Option<&OpenFileBeneath>) -> io::Result<Temporary<'_>> {
        let name = temporary_name()?;
        let file = File::options().write(true).create_new(true).open(self.folder.join(&name))?;
        Ok(Temporary { spot: self, file, name, kept: false })
    }

    /// A name that no file has, to which the file can be moved.
    pub(in super::super) fn unused_name(&self) -> io::Result<String> {
        temporary_name()
    }

    /// There is no such call on these systems.
    pub(in super::super) fn move_to(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// There is no such call on these systems.
    pub(in super::super) fn move_back(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// Opens another file in the folder.
    pub(in super::super) fn open_beside(&self, name: &str) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(&self.folder.join(name))
    }

    /// Removes another file in the folder.
    pub(in super::super) fn remove_beside(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    /// Removes the file itself.
    pub(in super::super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.full)
    }

    /// Names need not be synced on these systems.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Locks do not end with their process, so no temporary file is known to be abandoned.
    pub(in super::super) fn sweep(&self) {}
}

impl Temporary<'_> {
    /// Copies the permissions of a file.
    pub(in super::super) fn take_permissions(&self, of: &OpenFileBeneath) -> io::Result<()> {
        self.file.set_permissions(of.file.metadata()?.permissions())
    }

    /// There is no such call on these systems.
    pub(in super::super) fn exchange(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Opens the file that has the temporary name now.
    pub(in super::super) fn open_displaced(&self) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(&self.spot.folder.join(&self.name))
    }

    /// Gives the temporary file its final name, replacing any file that has it.
    pub(in super::super) fn put_over(mut self) -> io::Result<()> {
        fs::rename(self.spot.folder.join(&self.name), &self.spot.full)?;
        self.kept = true;
        Ok(())
    }

    /// Gives the temporary file its final name, if no file has it.
    pub(in super::super) fn put_new(self) -> io::Result<()> {
        fs::hard_link(self.spot.folder.join(&self.name), &self.spot.full)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(self.spot.folder.join(&self.name));
        }
    }
}
