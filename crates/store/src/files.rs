//! Folders and files that only their owner may read.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::Path,
};

use crate::error::StoreError;

/// Makes a folder that only its owner may enter, with those above it. One that is there stays as it is.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Makes a folder that must not be there yet, and that only its owner may enter.
#[cfg(feature = "sqlite")]
pub(crate) fn make_new_folder(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(StoreError::io(format!("making the folder {}", path.display())))
}

/// Makes an empty file that only its owner may read. One that is there stays as it is.
#[cfg(feature = "sqlite")]
pub(crate) fn make_file(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    private(&mut options).open(path).map(drop).map_err(StoreError::io(format!("making {}", path.display())))
}

/// Opens a file to be read and appended to; makes it if that is wanted.
pub(crate) fn open_to_append(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(make);
    private(&mut options).open(path)
}

/// Makes a file that must not be there yet.
pub(crate) fn make_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options).open(path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // A folder can be opened as a file on Unix only; elsewhere names are durable as they are.
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    let _ = folder;
    Ok(())
}

/// Waits until nobody else appends to a file. Where files cannot be locked, the conversation's own lock has to do.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    file.lock().or_else(unless_unsupported)
}

/// Waits until nobody appends to a file, and keeps them from it.
pub(crate) fn lock_shared(file: &File) -> io::Result<()> {
    file.lock_shared().or_else(unless_unsupported)
}

/// Lets the others go on.
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

/// Reads a stretch of a file. Whoever reads it line by line is not disturbed.
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
pub(crate) fn is_there(path: &Path) -> Result<bool, StoreError> {
    path.try_exists().map_err(StoreError::io(format!("looking for {}", path.display())))
}
