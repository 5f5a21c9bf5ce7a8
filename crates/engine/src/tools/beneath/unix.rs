//! Walking by handles.
//!
//! Linux does it in one call (`openat2` with `RESOLVE_BENEATH`). Where there is no such call, a path is walked one name at a
//! time: each folder is opened relative to the one before, without following links, and a link is read and walked in its turn.
//! `..` goes back to the handle that the walk came from, so a folder that is moved meanwhile leads nowhere else.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use super::{Opened, Refused};

/// As many links as Linux follows in one path.
const LINKS: usize = 40;

/// An open folder, and its path when it was opened.
#[derive(Debug)]
pub(super) struct Root {
    handle: OwnedFd,
    path: PathBuf,
    /// Whether to walk even where the system would do it in one call.
    #[cfg(test)]
    pub(super) always_walk: bool,
}

/// What a path inside the folder is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A file, to be read.
    File,
    /// A folder, to be listed.
    Folder,
    /// A folder, to find out whether it is one.
    FolderAtAll,
}

impl Target {
    fn flags(self) -> OFlags {
        OFlags::CLOEXEC
            | match self {
                // A pipe would be waited for, otherwise.
                Self::File => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Self::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
                Self::FolderAtAll => ENTER,
            }
    }
}

/// A folder that is only passed through: where the system has it, without the right to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ENTER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const ENTER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl Root {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let handle = fs::open(folder, Target::FolderAtAll.flags(), Mode::empty())?;
        Ok(Self {
            handle,
            path: std::fs::canonicalize(folder)?,
            #[cfg(test)]
            always_walk: false,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn open_file(&self, path: &Path) -> Result<Opened, Refused> {
        Ok(Opened { file: File::from(self.resolve(path, Target::File)?) })
    }

    pub(super) fn each_name(&self, path: &Path, each: &mut dyn FnMut(OsString)) -> Result<(), Refused> {
        let folder = self.resolve(path, Target::Folder)?;
        for entry in fs::Dir::new(folder).map_err(io::Error::from)? {
            let entry = entry.map_err(io::Error::from)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                each(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.resolve(path, Target::FolderAtAll).is_ok()
    }

    fn resolve(&self, path: &Path, target: Target) -> Result<OwnedFd, Refused> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if !self.walks() {
            let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
            match fs::openat2(&self.handle, path, target.flags(), Mode::empty(), resolve) {
                Err(Errno::XDEV) => return Err(Refused::Outside),
                // An old kernel, a filter that does not know the call, or a `..` that someone raced with: walking answers it.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::AGAIN) => {}
                opened => return Ok(opened.map_err(io::Error::from)?),
            }
        }
        walk(self.handle.as_fd(), path, target)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn walks(&self) -> bool {
        #[cfg(test)]
        return self.always_walk;
        #[cfg(not(test))]
        false
    }
}

/// Opens a path one name at a time.
fn walk(root: BorrowedFd<'_>, path: &Path, target: Target) -> Result<OwnedFd, Refused> {
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut ahead = names(path)?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            // Above the folder is outside.
            way.pop().ok_or(Refused::Outside)?;
            continue;
        }
        let here = way.last().map_or(root, |here| here.as_fd());
        let last = ahead.is_empty();
        let flags = if last { target.flags() } else { ENTER | OFlags::CLOEXEC };
        let why = match fs::openat(here, &*name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(opened) if last => return Ok(opened),
            Ok(folder) => {
                way.push(folder);
                continue;
            }
            Err(why) => why,
        };
        // Links are refused under several numbers. What can be read as a link is one.
        let Ok(link) = fs::readlinkat(here, &*name, Vec::new()) else {
            return Err(io::Error::from(why).into());
        };
        links += 1;
        if links > LINKS {
            return Err(io::Error::from(Errno::LOOP).into());
        }
        let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
        let mut through = names(&link)?;
        through.append(&mut ahead);
        ahead = through;
    }
    // The path ended with `..` or was the folder itself.
    let here = way.last().map_or(root, |here| here.as_fd());
    Ok(fs::openat(here, ".", target.flags(), Mode::empty()).map_err(io::Error::from)?)
}

/// The names of a path, in order. One that starts at the root of the system leads outside.
fn names(path: &Path) -> Result<VecDeque<OsString>, Refused> {
    let mut names = VecDeque::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => names.push_back(OsString::from("..")),
            Component::Normal(name) => names.push_back(name.to_owned()),
            Component::RootDir | Component::Prefix(_) => return Err(Refused::Outside),
        }
    }
    // `a/` and `a/.` are a only if it is a folder.
    if path.as_os_str().as_bytes().ends_with(b"/") || path.as_os_str().as_bytes().ends_with(b"/.") {
        names.push_back(OsString::from("."));
    }
    Ok(names)
}
