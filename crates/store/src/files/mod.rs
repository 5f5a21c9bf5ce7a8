//! Folders and files that only their owner may read, and in which no link is followed.
//!
//! `folder.rs` has the folders, `handle.rs` what the system is asked for them. SQLite opens its files by name and follows links;
//! `plain_name` is for that.

mod folder;
mod handle;
mod own;

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use self::handle::Other;
pub use self::{folder::PrivateFolder, own::belongs_to};
use crate::error::{StoreError, StoreResult};

/// Creates a folder that only its owner may enter, with those above it. An existing folder is left as it is. The path may lead
/// through links.
pub(crate) fn make_folder(path: &Path) -> StoreResult<()> {
    make_folders(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// The same outside of a store. Each new folder is durable in the one above it before this returns: a synced file in a
/// folder whose own name is lost would be lost as well.
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
        // Another process was faster.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        made => made?,
    }
    match sync_folder(above) {
        // A process that may add a name to a folder need not be allowed to open it.
        Err(why) if why.kind() != io::ErrorKind::PermissionDenied => {
            // Made again, it is synced again.
            let _ = fs::remove_dir(path);
            Err(why)
        }
        _ => Ok(()),
    }
}

/// Creates one folder, in one that is there.
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

/// The folder that a path lies in.
pub(crate) fn above(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates an empty file that only its owner may read. An existing one is left as it is; a link, or anything else that is no
/// file, is refused.
#[cfg(feature = "sqlite")]
pub(crate) fn make_file(path: &Path) -> StoreResult<()> {
    let name = path.file_name().unwrap_or_default();
    let made = PrivateFolder::new(above(path)).open_or_make(name);
    made.map(drop).map_err(StoreError::io(format!("making {}", path.display())))
}

/// Makes a folder that must not be there yet, and that only its owner may enter.
#[cfg(feature = "sqlite")]
pub(crate) fn make_new_folder(path: &Path) -> StoreResult<()> {
    make_one(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Opens a file to be read and appended to; makes it if that is wanted. Its folder may be a link, the file may not.
#[cfg(feature = "sqlite")]
pub(crate) fn open_to_append(path: &Path, make: bool) -> io::Result<File> {
    PrivateFolder::new(above(path)).open_to_append(path.file_name().unwrap_or_default(), make)
}

/// Makes a file that must not be there yet.
#[cfg(feature = "sqlite")]
pub(crate) fn make_new(path: &Path) -> io::Result<File> {
    PrivateFolder::new(above(path)).make_new(path.file_name().unwrap_or_default())
}

/// Reads a whole file of a store.
#[cfg(feature = "sqlite")]
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let name = path.file_name().unwrap_or_default();
    PrivateFolder::new(above(path)).open(name)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The path of a file for a library that opens it by name and follows links, as SQLite does: the folder without links, and the name
/// in it. What has that name must be a regular file, or nothing yet.
///
/// With this path `SQLITE_OPEN_NOFOLLOW` refuses a link that is put there a moment later, too.
///
/// # Errors
/// If a link, a folder, a pipe or a device has the name, or the folder cannot be found.
#[cfg(feature = "sqlite")]
pub(crate) fn plain_name(path: &Path) -> StoreResult<PathBuf> {
    let failed = StoreError::io(format!("opening {}", path.display()));
    let folder = fs::canonicalize(above(path)).map_err(failed)?;
    let plain = folder.join(path.file_name().unwrap_or_default());
    check_plain(&plain)?;
    Ok(plain)
}

/// Refuses what has the name of a file and is not one. A name that nothing has is fine.
fn check_plain(path: &Path) -> StoreResult<()> {
    let failed = || StoreError::io(format!("opening {}", path.display()));
    let kind = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(failed())?.file_type(),
    };
    let other = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => Other::Link,
        kind if kind.is_dir() => Other::Folder,
        _ => Other::Special,
    };
    Err(failed()(other.into()))
}

/// Refuses a database whose file, or one that SQLite opens beside it, is not a plain file.
pub(crate) fn check_database(path: &Path) -> StoreResult<()> {
    DATABASE.iter().try_for_each(|end| check_plain(&with_end(path, end)))
}

/// The same for an index. It is never needed, so a folder in its place is none of our business: SQLite opens no folder.
pub(crate) fn check_index(path: &Path) -> StoreResult<()> {
    match check_database(path) {
        Err(StoreError::Io { why, .. }) if Other::of(&why) == Some(Other::Folder) => Ok(()),
        checked => checked,
    }
}

/// What SQLite opens beside a database.
const DATABASE: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A path with something added to its last name.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // A folder can be opened as a file on Unix only; elsewhere names are durable as they are.
    #[cfg(unix)]
    unless_unsupported_sync(File::open(folder)?.sync_all())?;
    let _ = folder;
    Ok(())
}

/// Reads a small file. A pipe or a device in its place is refused, since it may never end; so is a file that is larger than
/// `limit`.
///
/// # Errors
/// Why it cannot be read.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut options = File::options();
    options.read(true);
    // Opening a pipe would wait for its other end.
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

/// Some file systems cannot sync a folder, and say so. They keep names in their own way.
#[cfg(unix)]
fn unless_unsupported_sync(synced: io::Result<()>) -> io::Result<()> {
    match synced {
        Err(why) if matches!(why.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// Waits until no other process appends to a file. Where files cannot be locked, the conversation's own lock has to do.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    file.lock().or_else(unless_unsupported)
}

/// Waits until no process appends to a file, and keeps them from it.
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

/// Which file it is, whatever its name.
pub(crate) type Identity = (u64, u64);

#[cfg(unix)]
pub(crate) fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> Identity {
    (0, 0)
}

/// Whether a file was deleted or replaced after it was opened.
#[cfg(unix)]
pub(crate) fn is_gone(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) == 0
}

#[cfg(not(unix))]
pub(crate) fn is_gone(_: &Metadata) -> bool {
    false
}

/// Whether a file goes by more than one name.
#[cfg(unix)]
pub(crate) fn has_other_names(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
pub(crate) fn has_other_names(_: &Metadata) -> bool {
    false
}

/// Reads a part of a file, without moving the position from which it is read line by line.
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

/// Whether there is something of that name. Not to be allowed to look is no answer.
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

    /// Below `/proc` nothing can be made, and the system says that something is missing.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_cannot_be_made_is_tried_once() {
        assert!(make_folders(Path::new("/proc/nowhere/deep/er")).is_err());
        assert!(make_folders(Path::new("/proc/nowhere")).is_err());
    }
}
