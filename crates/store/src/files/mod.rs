//! Folders and files that only their owner can read, and in which no link is followed.
//!
//! `folder.rs` has the folders, `handle.rs` the system calls. SQLite opens its files by name and follows links; `plain_name` guards
//! against that.

mod folder;
mod handle;
mod own;

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use self::handle::FoundKind;
#[cfg(unix)]
pub use self::own::inodes;
pub use self::{
    folder::PrivateFolder,
    own::{belongs_to, would_belong_to},
};
use crate::error::{StoreError, StoreResult};

/// Creates a folder, and those above it, that only their owner can enter. An existing folder is left unchanged. The path may lead
/// through links.
pub(crate) fn make_folder(path: &Path) -> StoreResult<()> {
    make_folders(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Creates folders outside a store. Each new folder is durable in the one above before this returns: a synced file is lost if the
/// name of its folder is.
pub(crate) fn make_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = above(path);
    let made = match make_one(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound && above != path => {
            make_folders(above)?;
            make_one(path)
        }
        made => made,
    };
    match made {
        // Another process created it first.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        made => made?,
    }
    match sync_folder(above) {
        // A process may be allowed to add a name to a folder but not to open it.
        Err(why) if why.kind() != io::ErrorKind::PermissionDenied => {
            // Remove it, so that the next attempt creates and syncs it again.
            let _ = fs::remove_dir(path);
            Err(why)
        }
        _ => Ok(()),
    }
}

/// Creates one folder in an existing one.
fn make_one(path: &Path) -> io::Result<()> {
    let builder = fs::DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        let mut builder = builder;
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    builder.create(path)
}

/// The folder that contains a path.
pub(crate) fn above(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates an empty file that only its owner can read. An existing file is left unchanged; a link, or any other kind, is refused.
pub(crate) fn make_file(path: &Path) -> StoreResult<()> {
    let name = path.file_name().unwrap_or_default();
    let made = PrivateFolder::new(above(path)).open_or_make(name);
    made.map(drop).map_err(StoreError::io(format!("making {}", path.display())))
}

/// Creates a folder that must not exist yet, and that only its owner can enter.
pub(crate) fn make_new_folder(path: &Path) -> StoreResult<()> {
    make_one(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Opens a file for reading and appending. If `make` is set, a missing file is created. Its folder may be a link, but not the file.
pub(crate) fn open_to_append(path: &Path, make: bool) -> io::Result<File> {
    PrivateFolder::new(above(path)).open_to_append(path.file_name().unwrap_or_default(), make)
}

/// Creates a file that must not exist yet.
pub(crate) fn make_new(path: &Path) -> io::Result<File> {
    PrivateFolder::new(above(path)).make_new(path.file_name().unwrap_or_default())
}

/// Reads a whole file of a store.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let name = path.file_name().unwrap_or_default();
    PrivateFolder::new(above(path)).open(name)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path of a file for a library that opens it by name and follows links, as SQLite does: the folder without links, and the name
/// in it. The name must belong to a regular file or be free.
///
/// With this path, `SQLITE_OPEN_NOFOLLOW` also refuses a link that is put there a moment later.
///
/// # Errors
/// If a link, a folder, a pipe or a device has the name, or the folder does not exist.
pub(crate) fn plain_name(path: &Path) -> StoreResult<PathBuf> {
    let failed = StoreError::io(format!("opening {}", path.display()));
    let folder = fs::canonicalize(above(path)).map_err(failed)?;
    let plain = folder.join(path.file_name().unwrap_or_default());
    check_plain(&plain)?;
    Ok(plain)
}

/// Refuses a path that exists but is not a regular file.
fn check_plain(path: &Path) -> StoreResult<()> {
    let failed = || StoreError::io(format!("opening {}", path.display()));
    let kind = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed())?.file_type(),
    };
    let other = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => FoundKind::Link,
        kind if kind.is_dir() => FoundKind::Folder,
        _ => FoundKind::Special,
    };
    Err(failed()(other.into()))
}

/// Refuses a database whose file, or one that SQLite opens beside it, is not a plain file.
pub(crate) fn check_database(path: &Path) -> StoreResult<()> {
    DATABASE.iter().try_for_each(|end| check_plain(&with_end(path, end)))
}

/// Checks an index in the same way. A folder in its place does no harm: SQLite does not open it, and an index is never required.
pub(crate) fn check_index(path: &Path) -> StoreResult<()> {
    match check_database(path) {
        Err(StoreError::Io { why, .. }) if FoundKind::of(&why) == Some(FoundKind::Folder) => Ok(()),
        checked => checked,
    }
}

/// The endings of the files that SQLite opens.
const DATABASE: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A path with an ending added to its last name.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only on Unix can a folder be opened and synced; on other systems, names are durable without it.
    #[cfg(unix)]
    unless_unsupported_sync(File::open(folder)?.sync_all())?;
    let _ = folder;
    Ok(())
}

/// Reads a small file. Refuses a pipe or a device, which may never end, and a file larger than `limit` bytes.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut options = File::options();
    options.read(true);
    // Otherwise, opening a pipe would wait for its other end.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
    );
    let file = options.open(path)?;
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is a pipe or a device, not a file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}

/// Ignores the error of file systems that cannot sync a folder.
#[cfg(unix)]
fn unless_unsupported_sync(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(why) if matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Waits until no other process appends to a file, and locks it. If the file system has no locks, the conversation's lock must be
/// enough.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    file.lock().or_else(unless_unsupported)
}

/// Waits until no process appends to a file, and prevents appends.
pub(crate) fn lock_shared(file: &File) -> io::Result<()> {
    file.lock_shared().or_else(unless_unsupported)
}

/// Releases the lock on a file.
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    file.unlock().or_else(unless_unsupported)
}

fn unless_unsupported(why: io::Error) -> io::Result<()> {
    if why.kind() == io::ErrorKind::Unsupported { Ok(()) } else { Err(why) }
}

/// The device and the inode by which the system identifies a file under any name; 0 on systems without them.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(metadata: &Metadata) -> Identity {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        (0, 0)
    }
}

/// How many names a file has: 0 after it was deleted or replaced; 1 on systems that do not count them.
pub(crate) fn names(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::nlink(metadata)
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        1
    }
}

/// Reads a part of a file without moving its position.
pub(crate) fn read_at(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    #[cfg(unix)]
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, at)?;
    #[cfg(not(unix))]
    {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut file = file;
        let before = file.stream_position()?;
        file.seek(SeekFrom::Start(at))?;
        let read = file.read_exact(&mut bytes);
        file.seek(SeekFrom::Start(before))?;
        read?;
    }
    Ok(bytes)
}

/// Whether a path exists. If the system does not permit looking, that is an error.
pub(crate) fn is_there(path: &Path) -> StoreResult<bool> {
    path.try_exists().map_err(StoreError::io(format!("looking for {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_made_where_they_can_be() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let made = |path: &str| make_folders(&folder.path().join(path)).is_ok();
        assert!(made("a/b/c") && made("a/b/c") && folder.path().join("a/b/c").is_dir());
        assert!(!made("file") && !made("file/a/b"));
    }

    /// Below `/proc` no folder can be created, and the system reports that something is missing.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_cannot_be_made_is_tried_once() {
        assert!(make_folders(Path::new("/proc/nowhere/deep/er")).is_err());
        assert!(make_folders(Path::new("/proc/nowhere")).is_err());
    }
}
