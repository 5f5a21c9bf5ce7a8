//! An open folder, and names relative to it.
//!
//! `Handle` has two forms with the same methods. On Unix it is a descriptor: names are looked up in it without following links,
//! whatever happens to the folder's path. On other systems it is a path: links are looked for before a name is opened, which a
//! change at that moment can defeat.

use std::{fmt, io};

/// The purpose for which a file is opened. Only its owner can read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMode {
    /// For reading.
    Read,
    /// For reading and appending.
    Append,
    /// For reading and appending; a missing file is created.
    AppendOrMake,
    /// For reading and writing; a missing file is created.
    WriteOrMake,
    /// For writing; the file must not exist.
    MakeNew,
}

/// The kind of thing that was found in place of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundKind {
    Link,
    Folder,
    File,
    Special,
}

impl fmt::Display for FoundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "it is a symbolic link, and rejoin follows no links inside its folders",
            Self::Folder => "it is a folder, not a file",
            Self::File => "it is a file, not a folder",
            Self::Special => "it is neither a file nor a folder",
        })
    }
}

impl std::error::Error for FoundKind {}

impl FoundKind {
    /// Gets the kind from an error, if the error has one.
    pub(super) fn of(why: &io::Error) -> Option<Self> {
        why.get_ref()?.downcast_ref().copied()
    }
}

impl From<FoundKind> for io::Error {
    fn from(other: FoundKind) -> Self {
        Self::new(io::ErrorKind::InvalidInput, other)
    }
}

#[cfg(unix)]
pub(super) use unix::Handle;

#[cfg(unix)]
mod unix {
    use std::{
        ffi::{OsStr, OsString},
        fs::File,
        io,
        os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
        path::Path,
    };

    use rustix::{
        fs::{self, AtFlags, FileType, Mode, OFlags, Stat},
        io::Errno,
    };

    use super::{FoundKind, OpenMode};

    pub(in super::super) struct Handle(OwnedFd);

    const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    impl Handle {
        /// The folder at a path, which may lead through links.
        pub(in super::super) fn of(path: &Path) -> io::Result<Self> {
            Ok(Self(fs::open(path, FOLDER, Mode::empty())?))
        }

        pub(in super::super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
            match fs::openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(folder) => Ok(Self(folder)),
                Err(why) => Err(match self.kind(name) {
                    Ok(FileType::Directory) | Err(_) => why.into(),
                    Ok(kind) => other(kind).into(),
                }),
            }
        }

        /// Creates a folder in this one. Returns false if the name is taken.
        pub(in super::super) fn make_folder(&self, name: &OsStr) -> io::Result<bool> {
            match fs::mkdirat(&self.0, name, Mode::RWXU) {
                Err(Errno::EXIST) => Ok(false),
                made => Ok(made.map(|()| true)?),
            }
        }

        pub(in super::super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
            Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
        }

        /// Opens a regular file. A pipe is opened without waiting for its other end, and refused.
        pub(in super::super) fn open(&self, name: &OsStr, how: OpenMode) -> io::Result<File> {
            let flags = match how {
                OpenMode::Read => OFlags::RDONLY,
                OpenMode::Append => OFlags::RDWR | OFlags::APPEND,
                OpenMode::AppendOrMake => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE,
                OpenMode::WriteOrMake => OFlags::RDWR | OFlags::CREATE,
                OpenMode::MakeNew => OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
            };
            let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let file = match fs::openat(&self.0, name, flags | always, Mode::RUSR | Mode::WUSR) {
                Ok(file) => file,
                Err(why) => {
                    return Err(match self.kind(name) {
                        // The name is taken, whatever kind of file has it.
                        Ok(FileType::RegularFile) | Err(_) => why.into(),
                        Ok(_) if how == OpenMode::MakeNew => why.into(),
                        Ok(kind) => other(kind).into(),
                    });
                }
            };
            match FileType::from_raw_mode(fs::fstat(&file)?.st_mode) {
                FileType::RegularFile => Ok(File::from(file)),
                kind => Err(other(kind).into()),
            }
        }

        fn stat(&self, name: &OsStr) -> rustix::io::Result<Stat> {
            fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
        }

        fn kind(&self, name: &OsStr) -> rustix::io::Result<FileType> {
            self.stat(name).map(|stat| FileType::from_raw_mode(stat.st_mode))
        }

        pub(in super::super) fn has(&self, name: &OsStr) -> io::Result<bool> {
            match self.stat(name) {
                Err(Errno::NOENT) => Ok(false),
                found => Ok(found.map(|_| true)?),
            }
        }

        pub(in super::super) fn is_named(&self, file: &File, name: &OsStr) -> bool {
            match (fs::fstat(file), self.stat(name)) {
                (Ok(file), Ok(named)) => (file.st_dev, file.st_ino) == (named.st_dev, named.st_ino),
                _ => false,
            }
        }

        pub(in super::super) fn remove(&self, name: &OsStr) -> io::Result<()> {
            Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
        }

        pub(in super::super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            Ok(fs::renameat(&self.0, from, &self.0, to)?)
        }

        pub(in super::super) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
            match fs::renameat_with(&self.0, from, &self.0, to, fs::RenameFlags::NOREPLACE) {
                // The file system or the kernel does not support this.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                done => return Ok(done?),
            }
            if self.has(to)? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.rename(from, to)
        }

        pub(in super::super) fn names(&self) -> io::Result<Vec<OsString>> {
            let mut names = Vec::new();
            for entry in fs::Dir::read_from(&self.0)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(OsStr::from_bytes(name).to_owned());
                }
            }
            Ok(names)
        }

        pub(in super::super) fn sync(&self) -> io::Result<()> {
            crate::files::unless_unsupported_sync(fs::fsync(&self.0).map_err(io::Error::from))
        }
    }

    fn other(kind: FileType) -> FoundKind {
        match kind {
            FileType::Symlink => FoundKind::Link,
            FileType::Directory => FoundKind::Folder,
            FileType::RegularFile => FoundKind::File,
            _ => FoundKind::Special,
        }
    }
}

#[cfg(not(unix))]
pub(super) use by_path::Handle;

#[cfg(not(unix))]
mod by_path {
    use std::{
        ffi::{OsStr, OsString},
        fs::{self, File, OpenOptions},
        io,
        path::{Path, PathBuf},
    };

    use super::{FoundKind, OpenMode};

    pub(in super::super) struct Handle(PathBuf);

    impl Handle {
        pub(in super::super) fn of(path: &Path) -> io::Result<Self> {
            if fs::metadata(path)?.is_dir() { Ok(Self(path.to_owned())) } else { Err(FoundKind::File.into()) }
        }

        pub(in super::super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
            let path = self.0.join(name);
            match fs::symlink_metadata(&path)?.file_type() {
                kind if kind.is_symlink() => Err(FoundKind::Link.into()),
                kind if kind.is_dir() => Ok(Self(path)),
                _ => Err(FoundKind::File.into()),
            }
        }

        pub(in super::super) fn make_folder(&self, name: &OsStr) -> io::Result<bool> {
            match fs::create_dir(self.0.join(name)) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                made => made.map(|()| true),
            }
        }

        pub(in super::super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_dir(self.0.join(name))
        }

        pub(in super::super) fn open(&self, name: &OsStr, how: OpenMode) -> io::Result<File> {
            let path = self.0.join(name);
            match fs::symlink_metadata(&path) {
                Ok(found) if how != OpenMode::MakeNew && found.is_symlink() => {
                    return Err(FoundKind::Link.into());
                }
                Ok(found) if how != OpenMode::MakeNew && found.is_dir() => {
                    return Err(FoundKind::Folder.into());
                }
                _ => {}
            }
            let mut options = OpenOptions::new();
            match how {
                OpenMode::Read => options.read(true),
                OpenMode::Append => options.read(true).append(true),
                OpenMode::AppendOrMake => options.read(true).append(true).create(true),
                OpenMode::WriteOrMake => options.read(true).write(true).create(true).truncate(false),
                OpenMode::MakeNew => options.write(true).create_new(true),
            };
            let file = options.open(path)?;
            if file.metadata()?.is_file() { Ok(file) } else { Err(FoundKind::Special.into()) }
        }

        pub(in super::super) fn has(&self, name: &OsStr) -> io::Result<bool> {
            match fs::symlink_metadata(self.0.join(name)) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
                found => found.map(|_| true),
            }
        }

        pub(in super::super) fn is_named(&self, _: &File, name: &OsStr) -> bool {
            self.0.join(name).exists()
        }

        pub(in super::super) fn remove(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub(in super::super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        pub(in super::super) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            if self.has(to)? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            self.rename(from, to)
        }

        pub(in super::super) fn names(&self) -> io::Result<Vec<OsString>> {
            fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name())).collect()
        }

        /// On this system, names are durable without a sync.
        pub(in super::super) fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }
}
