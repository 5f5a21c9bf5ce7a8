//! Walks paths by the handles of open folders.
//!
//! Linux does it in one call (`openat2` with `RESOLVE_BENEATH`). On other systems, a path is walked one name at a time: each folder
//! is opened relative to the previous one, without following links, and a link is read and walked in turn. `..` goes back to the
//! handle that the walk came from, so moving a folder meanwhile does not redirect the walk.

use std::{
    collections::VecDeque,
    ffi::{CString, OsStr, OsString},
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

use super::{Entry, EntryKind, OpenFileBeneath, PathRefused, Spot, joined};

/// The most links in one path, the same as on Linux.
const LINKS: usize = 40;

/// An open folder, and its path when it was opened.
#[derive(Debug)]
pub(super) struct Root {
    handle: OwnedFd,
    path: PathBuf,
    /// Whether to walk name by name even if the system has the single call.
    #[cfg(test)]
    pub(super) always_walk: bool,
}

/// The purpose for which a path inside the folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A file, to be read.
    File,
    /// A folder, to be listed.
    Folder,
    /// A folder, only to check that it is one.
    FolderAtAll,
}

impl Target {
    fn flags(self) -> OFlags {
        OFlags::CLOEXEC
            | match self {
                // Opening a pipe would otherwise wait for its writer.
                Self::File => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Self::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
                Self::FolderAtAll => ENTER,
            }
    }
}

/// How to open a folder that is only passed through: without the right to list it, if the system supports that.
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

    pub(super) fn open_file(&self, path: &Path) -> Result<OpenFileBeneath, PathRefused> {
        Ok(OpenFileBeneath { file: File::from(self.resolve(path, Target::File)?) })
    }

    pub(super) fn each_name(&self, path: &Path, each: &mut dyn FnMut(OsString)) -> Result<(), PathRefused> {
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

    pub(super) fn folder(&self, path: &Path) -> Result<Folder, PathRefused> {
        Ok(Folder(self.resolve(path, Target::Folder)?))
    }

    pub(super) fn spot(&self, path: &Path) -> Result<Spot, PathRefused> {
        Spot::of(trace(self.handle.as_fd(), path)?, self.handle.as_fd())
    }

    pub(super) fn normal(&self, path: &Path) -> Result<String, PathRefused> {
        let traced = trace(self.handle.as_fd(), path)?;
        if traced.rest.len() > 1 || traced.is_missing {
            return Err(io::Error::from(Errno::NOENT).into());
        }
        joined(traced.way.iter().map(|(name, _)| name).chain(&traced.rest))
    }

    pub(super) fn is_folder(&self, path: &Path) -> bool {
        self.resolve(path, Target::FolderAtAll).is_ok()
    }

    fn resolve(&self, path: &Path, target: Target) -> Result<OwnedFd, PathRefused> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if !self.walks() {
            let resolve = fs::ResolveFlags::BENEATH | fs::ResolveFlags::NO_MAGICLINKS;
            match fs::openat2(&self.handle, path, target.flags(), Mode::empty(), resolve) {
                Err(Errno::XDEV) => return Err(PathRefused::Outside),
                // An old kernel, a filter that refuses the call, or a `..` during a concurrent rename: walk name by name instead.
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

/// An open folder to be walked. Nothing in it is reached through a link.
#[derive(Debug)]
pub(in super::super) struct Folder(OwnedFd);

impl Folder {
    /// The names in the folder, in no order.
    pub(in super::super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let mut file_type = entry.file_type();
            if file_type == fs::FileType::Unknown {
                // Some file systems do not return the kind together with the name.
                let Ok(found) = fs::statat(&self.0, name, fs::AtFlags::SYMLINK_NOFOLLOW) else { continue };
                file_type = fs::FileType::from_raw_mode(found.st_mode);
            }
            let kind = match file_type {
                fs::FileType::RegularFile => EntryKind::File,
                fs::FileType::Directory => EntryKind::Folder,
                fs::FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Special,
            };
            entries.push(Entry { name: name.to_owned(), kind, inode: entry.ino() });
        }
        Ok(entries)
    }

    /// Opens a folder in this one.
    pub(in super::super) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = Target::Folder.flags() | OFlags::NOFOLLOW;
        Ok(Self(fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Opens a regular file in this folder to be read.
    pub(in super::super) fn open_file(&self, name: &OsStr) -> Result<OpenFileBeneath, PathRefused> {
        open_regular(self.0.as_fd(), name)
    }
}

/// Opens a regular file in a folder for reading. A link is not followed, and a pipe is not waited for.
pub(super) fn open_regular(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OpenFileBeneath, PathRefused> {
    let flags = Target::File.flags() | OFlags::NOFOLLOW;
    let opened = match fs::openat(folder, name, flags, Mode::empty()) {
        // A socket, or a link that replaced a file.
        Err(Errno::NXIO | Errno::LOOP) => return Err(PathRefused::NotAFile),
        opened => File::from(opened.map_err(io::Error::from)?),
    };
    if opened.metadata()?.is_file() {
        Ok(OpenFileBeneath { file: opened })
    } else {
        Err(PathRefused::NotAFile)
    }
}

/// The result of following a path, with its links resolved.
pub(super) struct ResolvedPath {
    /// The folders on the way, each with its name, starting below the root.
    pub(super) way: Vec<(OsString, OwnedFd)>,
    /// Empty if the path is the last folder of the way. Otherwise a name in that folder, which is not a link, preceded by the
    /// folders that do not exist yet.
    pub(super) rest: Vec<OsString>,
    /// Whether the last name does not exist.
    pub(super) is_missing: bool,
}

/// Follows a path one name at a time up to its last name, which is not opened.
fn trace(root: BorrowedFd<'_>, path: &Path) -> Result<ResolvedPath, PathRefused> {
    let mut way: Vec<(OsString, OwnedFd)> = Vec::new();
    let mut ahead = names(path)?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == "." {
            continue;
        }
        if name == ".." {
            way.pop().ok_or(PathRefused::Outside)?;
            continue;
        }
        let here = way.last().map_or(root, |(_, here)| here.as_fd());
        match fs::readlinkat(here, &*name, Vec::new()) {
            Ok(link) => {
                links += 1;
                ahead = through(link, links, ahead)?;
            }
            // It is not a link.
            Err(Errno::INVAL) if ahead.is_empty() => {
                return Ok(ResolvedPath { way, rest: vec![name], is_missing: false });
            }
            Err(Errno::INVAL) => {
                let flags = ENTER | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let folder = fs::openat(here, &*name, flags, Mode::empty()).map_err(io::Error::from)?;
                way.push((name, folder));
            }
            // `missing/..` and `missing/` do not name a file to create.
            Err(Errno::NOENT) if !ahead.iter().any(|name| name == ".." || name == ".") => {
                let rest = std::iter::once(name).chain(ahead).collect();
                return Ok(ResolvedPath { way, rest, is_missing: true });
            }
            Err(why) => return Err(io::Error::from(why).into()),
        }
    }
    Ok(ResolvedPath { way, rest: Vec::new(), is_missing: false })
}

/// Opens a path one name at a time.
fn walk(root: BorrowedFd<'_>, path: &Path, target: Target) -> Result<OwnedFd, PathRefused> {
    let mut way: Vec<OwnedFd> = Vec::new();
    let mut ahead = names(path)?;
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            // `..` from the folder itself leads outside.
            way.pop().ok_or(PathRefused::Outside)?;
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
        // Systems refuse links with different error numbers. A name that can be read as a link is one.
        let Ok(link) = fs::readlinkat(here, &*name, Vec::new()) else {
            return Err(io::Error::from(why).into());
        };
        links += 1;
        ahead = through(link, links, ahead)?;
    }
    // The path ended with `..` or was the folder itself.
    let here = way.last().map_or(root, |here| here.as_fd());
    Ok(fs::openat(here, ".", target.flags(), Mode::empty()).map_err(io::Error::from)?)
}

/// The names still to walk after a link was met, which is the `links`th of this path.
fn through(
    link: CString,
    links: usize,
    mut ahead: VecDeque<OsString>,
) -> Result<VecDeque<OsString>, PathRefused> {
    if links > LINKS {
        return Err(io::Error::from(Errno::LOOP).into());
    }
    let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
    let mut names = names(&link)?;
    names.append(&mut ahead);
    Ok(names)
}

/// The names of a path, in order. An absolute path leads outside.
fn names(path: &Path) -> Result<VecDeque<OsString>, PathRefused> {
    let mut names = VecDeque::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => names.push_back(OsString::from("..")),
            Component::Normal(name) => names.push_back(name.to_owned()),
            Component::RootDir | Component::Prefix(_) => return Err(PathRefused::Outside),
        }
    }
    // `a/` and `a/.` mean `a` only if it is a folder.
    if path.as_os_str().as_bytes().ends_with(b"/") || path.as_os_str().as_bytes().ends_with(b"/.") {
        names.push_back(OsString::from("."));
    }
    Ok(names)
}
