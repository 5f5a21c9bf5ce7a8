//! For systems that cannot hold folders open: links are resolved before and after a file is opened. An attacker who replaces a
//! folder by a link between the two steps can get an outside file opened, but not read.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use super::{Entry, EntryKind, OpenFileBeneath, PathRefused, Spot, joined};

/// A folder whose path contains no links.
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

    /// The path without links, if it is inside. The result does not reveal whether a path outside exists: before that is decided,
    /// only names below the folder are looked at.
    fn resolve(&self, path: &Path) -> Result<PathBuf, PathRefused> {
        let mut depth = 0_usize;
        for component in path.components() {
            match component {
                std::path::Component::Normal(_) => depth += 1,
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => {
                    depth = depth.checked_sub(1).ok_or(PathRefused::Outside)?;
                }
                _ => return Err(PathRefused::Outside),
            }
        }
        match fs::canonicalize(self.path.join(path)) {
            Ok(found) if found.starts_with(&self.path) => Ok(found),
            Ok(_) => Err(PathRefused::Outside),
            // A dangling link may lead outside: the error must not distinguish it from a link to an existing outside file.
            Err(_) if self.has_link(path) => Err(PathRefused::Outside),
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

    pub(super) fn open_file(&self, path: &Path) -> Result<OpenFileBeneath, PathRefused> {
        let found = self.resolve(path)?;
        if !fs::metadata(&found)?.is_file() {
            return Err(PathRefused::NotAFile);
        }
        let file = File::open(&found)?;
        if self.resolve(path)? != found {
            return Err(PathRefused::Outside);
        }
        Ok(OpenFileBeneath { file, path: found })
    }

    pub(super) fn each_name(&self, path: &Path, each: &mut dyn FnMut(OsString)) -> Result<(), PathRefused> {
        for entry in fs::read_dir(self.resolve(path)?)? {
            each(entry?.file_name());
        }
        Ok(())
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.resolve(path).is_ok_and(|path| path.is_dir())
    }

    pub(super) fn folder(&self, path: &Path) -> Result<Folder, PathRefused> {
        let path = self.resolve(path)?;
        if path.is_dir() {
            Ok(Folder(path))
        } else {
            Err(io::Error::from(io::ErrorKind::NotADirectory).into())
        }
    }

    pub(super) fn normal(&self, path: &Path) -> Result<String, PathRefused> {
        let found = self.resolve(path)?;
        let inside = found.strip_prefix(&self.path).map_err(|_| PathRefused::Outside)?;
        joined(&inside.iter().map(OsStr::to_owned).collect::<Vec<_>>())
    }

    pub(super) fn spot(&self, path: &Path) -> Result<Spot, PathRefused> {
        // Resolve the folders that exist; the missing ones must be plain names.
        let (mut above, mut missing) = (path, Vec::new());
        loop {
            match self.resolve(above) {
                Ok(found) => return Spot::of(&self.path, found, missing),
                Err(PathRefused::Io(why)) if why.kind() == io::ErrorKind::NotFound => {
                    let name = above.file_name().ok_or(why)?;
                    missing.insert(0, name.to_owned());
                    above = above.parent().unwrap_or(Path::new(""));
                }
                Err(why) => return Err(why),
            }
        }
    }
}

/// A folder to be walked. Nothing in it is reached through a link, unless a link replaces a folder meanwhile.
#[derive(Debug)]
pub(in super::super) struct Folder(PathBuf);

impl Folder {
    /// The names in the folder, in no order.
    pub(in super::super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let kind = match entry.file_type()? {
                kind if kind.is_symlink() => EntryKind::Link,
                kind if kind.is_dir() => EntryKind::Folder,
                kind if kind.is_file() => EntryKind::File,
                _ => EntryKind::Special,
            };
            entries.push(Entry { name: entry.file_name(), kind, inode: 0 });
        }
        Ok(entries)
    }

    /// Opens a folder in this one.
    pub(in super::super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let path = self.0.join(name);
        if fs::symlink_metadata(&path)?.is_dir() {
            Ok(Self(path))
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Opens a regular file in this folder to be read.
    pub(in super::super) fn open_file(&self, name: &OsStr) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(&self.0.join(name))
    }
}

/// Opens a regular file to be read, unless it is a link.
pub(super) fn open_regular(path: &Path) -> Result<OpenFileBeneath, PathRefused> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(PathRefused::NotAFile);
    }
    Ok(OpenFileBeneath { file: File::open(path)?, path: path.to_owned() })
}
