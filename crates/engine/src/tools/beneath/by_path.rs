//! Where folders cannot be held open: links are resolved before and after a file is opened. Someone who swaps a folder for a
//! link between the two can get a file opened, but not read, from outside.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{Opened, Refused};

/// A folder without links on its way.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
}

impl Root {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self { path: fs::canonicalize(folder)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path without links, if it is inside. What exists outside is not told: only names below the folder are looked at
    /// before that is decided.
    fn resolve(&self, path: &Path) -> Result<PathBuf, Refused> {
        let mut depth = 0_usize;
        for component in path.components() {
            match component {
                std::path::Component::Normal(_) => depth += 1,
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => {
                    depth = depth.checked_sub(1).ok_or(Refused::Outside)?;
                }
                _ => return Err(Refused::Outside),
            }
        }
        match fs::canonicalize(self.path.join(path)) {
            Ok(found) if found.starts_with(&self.path) => Ok(found),
            Ok(_) => Err(Refused::Outside),
            // A link that leads nowhere may lead out: that is not told apart from one that leads out to something.
            Err(_) if self.has_link(path) => Err(Refused::Outside),
            Err(why) => Err(why.into()),
        }
    }

    fn has_link(&self, path: &Path) -> bool {
        let mut here = self.path.clone();
        path.components().any(|component| {
            here.push(component);
            fs::symlink_metadata(&here).is_ok_and(|metadata| metadata.is_symlink())
        })
    }

    pub(super) fn open_file(&self, path: &Path) -> Result<Opened, Refused> {
        let found = self.resolve(path)?;
        if !fs::metadata(&found)?.is_file() {
            return Err(Refused::NotAFile);
        }
        let file = File::open(&found)?;
        if self.resolve(path)? != found {
            return Err(Refused::Outside);
        }
        Ok(Opened { file, path: found })
    }

    pub(super) fn each_name(&self, path: &Path, each: &mut dyn FnMut(OsString)) -> Result<(), Refused> {
        for entry in fs::read_dir(self.resolve(path)?)? {
            each(entry?.file_name());
        }
        Ok(())
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.resolve(path).is_ok_and(|path| path.is_dir())
    }
}
